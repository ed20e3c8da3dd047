"""A release as a flow: changes are collected, an agent drafts notes, a review and a test run go side by
side, a person signs off, and an agent deploys through the gate.

    Release ─collect→ Changes ─Draft→ Notes ─split→ ForReview ─Review→ Risk ─────┐
                                              └───→ ForTest ──RunTests→ Tested ──┴weigh→ Candidate
    Candidate ─a person→ SignOff ─Deploy→ Released

The agents' models are scripted (see `release_script`); each would be a model's name or URL in a flow of
your own, such as `openai://gpt-4o`.
"""

from __future__ import annotations

import asyncio
import shutil
from typing import Literal

from pydantic import BaseModel, Field

from ...engine.agents import BashTool
from ...engine.flows import AgentConfig, AgentNode, Context, Flow, FlowBuilder
from .release_script import MODELS

# States of the flow, identified by their names.


class Release(BaseModel):
    """Input of the flow: changes `since` a tag are released as `version`."""

    version: str
    since: str


class Changes(BaseModel):
    version: str
    commits: list[str]


class Notes(BaseModel):
    version: str
    text: str


class ForReview(BaseModel):
    notes: Notes


class ForTest(BaseModel):
    version: str


class Risk(BaseModel):
    level: Literal["low", "medium", "high"]
    why: str
    notes: Notes


class Tested(BaseModel):
    passed: bool
    said: str


class Candidate(BaseModel):
    """Facts that a person sees before they sign off."""

    prompt: str
    notes: str
    risk: str
    tests: str


class SignOff(BaseModel):
    """Answer of the person who signs off."""

    target: Literal["staging", "production"] = Field(description="where the release goes")
    remark: str = Field(default="", description="anything the record should know")


class Released(BaseModel):
    deployed: bool
    said: str


# Agents. Their tool calls pass the rules: no deploy without a test, and none without an approval.


class Draft(AgentNode[Changes, Notes]):
    config = AgentConfig("Write release notes for the commits.", MODELS["notes"], [BashTool])


class Review(AgentNode[ForReview, Risk]):
    config = AgentConfig("Say how risky this release is, and why.", MODELS["review"])


class RunTests(AgentNode[ForTest, Tested]):
    config = AgentConfig("Run ./test; do what it needs first.", MODELS["tests"], [BashTool])


class Deploy(AgentNode[SignOff, Released]):
    config = AgentConfig("Run ./deploy with the target.", MODELS["deploy"], [BashTool])


# Functions between the agents.


async def collect(release: Release, ctx: Context) -> Changes:
    """The subjects of the commits since the last release, oldest first."""
    if shutil.which("git") is None:
        return Changes(version=release.version, commits=["everything (git is not installed here)"])
    ctx.check_command("git")
    log = ("git", "log", "--reverse", "--format=%s", f"{release.since}..HEAD")
    run = await asyncio.create_subprocess_exec(
        *log, cwd=ctx.working_dir, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    out, _ = await run.communicate()
    output = out.decode(errors="replace").strip()
    if run.returncode != 0:
        raise RuntimeError(f"git log {release.since}..HEAD failed: {output}")
    return Changes(version=release.version, commits=output.splitlines())


def split(notes: Notes) -> tuple[ForReview, ForTest]:
    return ForReview(notes=notes), ForTest(version=notes.version)


def weigh(risk: Risk, tested: Tested) -> Candidate:
    passed = "passed" if tested.passed else "FAILED"
    return Candidate(
        prompt=f"Release {risk.notes.version}: {risk.level} risk, tests {passed}. Where does it go?",
        notes=risk.notes.text,
        risk=f"{risk.level}: {risk.why}",
        tests=f"{passed}: {tested.said}",
    )


class ReleaseFlow(Flow[Release, Released]):
    """The nodes in any order: their types say what follows what."""

    @classmethod
    def build(cls, g: FlowBuilder[Release, Released]) -> FlowBuilder[Release, Released]:
        return (
            g.work(collect)
            .agent(Draft)
            .fork(split)
            .agent(Review)
            .agent(RunTests)
            .join(weigh)
            .suspend(Candidate, SignOff)
            .agent(Deploy)
        )
