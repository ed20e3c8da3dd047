"""Run of the release flow in a project of its own, under the ready-made rules for deploys."""

from __future__ import annotations

import argparse
from pathlib import Path

from pydantic import JsonValue

from ...engine.hub.hub import Hub
from ...rules import library_rules
from ..flows.builder import prepare_flow
from ..flows.spec import FlowSpec
from ..hosting.flow import host_flow
from ..sessions.flow_start import start_flow
from .release_flow import Release
from .release_project import SINCE, create_release_project
from .release_script import Paced

FLOW = "interlock.app.demo.release_flow:ReleaseFlow"
VERSION = "1.1"
SIGNED: dict[str, JsonValue] = {"target": "staging", "remark": "signed off without a screen"}
"""Answer of the person who signs off, for runs without a screen."""


def host_release(args: argparse.Namespace, *, pace: float) -> int:
    """Host a run of the flow, and return the exit code."""

    async def start(hub: Hub) -> str:
        return await open_release(hub, by=args.operator, pace=pace)

    return host_flow(args, start, {"Candidate": SIGNED})


async def open_release(hub: Hub, *, by: str, pace: float = 0.0, project: Path | None = None) -> str:
    """Start a run of the flow on `hub`, and return its id. `interlock flow resume` can resume it.

    `pace` is the scripted models' time per word in seconds; `project` is the working directory of their
    shell.
    """
    project = project or create_release_project()
    rules = (library_rules("deploy"),)
    spec = FlowSpec(flow=FLOW, rules=rules, workdir=project, commands=("git",))
    release = Release(version=VERSION, since=SINCE)
    return await start_flow(hub, prepare_flow(spec), release, by, Paced(pace))
