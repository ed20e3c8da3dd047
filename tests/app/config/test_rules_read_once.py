"""A project's rules are read once: replacing the file after the check changes nothing."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.app.cli.hooks.command_line import HookLine
from interlock.app.cli.hooks.main import own_command
from interlock.app.cli.hooks.server import connect
from interlock.app.config import rule_texts
from interlock.app.hosting.server import ServerOptions, running_server
from interlock.app.sessions.server_rules import ServerRules
from interlock.engine.gateway.client.agent import AgentClient, Blocked
from interlock.engine.gateway.hooks.websocket import HookError
from interlock.engine.gateway.protocol.address import Address
from interlock.engine.gateway.protocol.token_paths import agent_token_file
from interlock.engine.gateway.protocol.tokens import read_secret
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import CallDecided

from ...engine.gateway.acp.acp_world import AGENT, agents_python
from ...support.command import command
from ..cli.hooks.test_starting import servers, started

USERS = "block anything-else\n"
HARMLESS = "block ls\n"
EVIL = "limit fetch to 9 per session\n"
"""A rule that takes the calls of `fetch` from the user's rule."""
MODULE = """
from pydantic import BaseModel

from interlock.engine.agents import Agent, C, ScriptedModel, T, tool
from interlock.engine.flows import AgentConfig, AgentNode, Flow


class Errands(BaseModel):
    text: str = ""

class Done(BaseModel):
    text: str

@tool
async def fetch() -> str:
    '''Fetch a page.'''
    return "a page"

def moves(messages):
    return C(submit={"text": "x"}) if len(messages) > 2 else C(fetch={})

class Fetches(AgentNode[Errands, Done]):
    config = AgentConfig("Fetch.", ScriptedModel(moves), [fetch])

class Errand(Flow[Errands, Done]):
    @classmethod
    def build(cls, g):
        return g.agent(Fetches)

def make():
    return Agent(ScriptedModel([C(fetch={}), T("Done.")], name="m"), name="runner", tools=[fetch])
"""
ASK = ["ask", {"toolCallId": "c1", "kind": "fetch", "title": "a page", "rawInput": {"url": "x"}}]
LINES: dict[str, Callable[[], list[str]]] = {
    "run": lambda: ["errand:make", "go"],
    "flow": lambda: ["run", "errand:Errand", "--input", "{}"],
    "acp": lambda: ["--task", json.dumps([ASK]), "--", *agents_python(), str(AGENT)],
}
"""Created on use: an agent's Python is a process, which importing this module must not start."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory whose settings add rules to the user's."""
    for folder in ("config", "project"):
        (tmp_path / folder).mkdir()
    (tmp_path / "config" / "mine.rules").write_text(USERS)
    (tmp_path / "config" / "interlock.toml").write_text('rules = ["mine.rules"]')
    found = tmp_path / "project"
    (found / "interlock.toml").write_text('rules = ["added.rules"]')
    (found / "added.rules").write_text(HARMLESS)
    (found / "errand.py").write_text(MODULE)
    return found


@pytest.fixture
def file_replaced_after_check(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project's rules file, which is replaced right after it was checked."""
    file, look = project / "added.rules", rule_texts.takes_from

    def then_swapped(*nets: object) -> bool:
        found = look(*nets)  # type: ignore[arg-type]
        file.write_text(EVIL)
        return found

    monkeypatch.setattr(rule_texts, "takes_from", then_swapped)
    return file


def environment(project: Path) -> dict[str, str]:
    config = project.parent / "config"
    return {"PATH": "/usr/bin:/bin", "HOME": str(project.parent), "INTERLOCK_CONFIG_DIR": str(config)}


class TestSwapped:
    @pytest.mark.variants
    @pytest.mark.parametrize("name", LINES)
    def test_hosted_run_uses_the_checked_rules(
        self, project: Path, file_replaced_after_check: Path, name: str
    ) -> None:
        """A call is judged by the checked rules."""
        where = {"INTERLOCK_DB": "run.db", "INTERLOCK_HEADLESS": "1"}
        done = command(project, name, *LINES[name](), env=environment(project) | where)
        assert done.returncode == 0, done.stderr
        assert file_replaced_after_check.read_text() == EVIL
        reader = open_reader(project / "run.db")
        decided = [
            each.body.outcome
            for session in reader.sessions()
            for each in reader.events(session.id)
            if isinstance(each.body, CallDecided) and each.body.tool == "fetch"
        ]
        assert decided == ["block"]

    @pytest.mark.slow
    def test_server_uses_the_checked_rules(
        self, project: Path, file_replaced_after_check: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A server judges calls by the checked rules."""
        said: list[str] = []

        async def used(serving: ServerOptions, _: Callable[[Address], None]) -> None:
            async with (
                running_server(serving) as running,
                AgentClient(running.address.url, read_secret(agent_token_file())) as client,
                client.session("bot") as gate,
            ):
                said.append(await gate_outcome(gate))

        monkeypatch.setattr("interlock.app.hosting.server.serve", used)
        line = ("serve", "--listen", "127.0.0.1:0", "--db", "run.db")
        done = command(project, *line, env=environment(project))
        assert done.returncode == 0, done.stderr
        assert file_replaced_after_check.read_text() == EVIL
        assert said == ["blocked"]

    def test_server_starts_sessions_with_the_checked_rules(self, project: Path) -> None:
        """A server starts sessions under the rules that it read at its start."""
        mine, added = project.parent / "config" / "mine.rules", project / "added.rules"
        server = ServerRules([str(mine), str(added)])
        added.write_text(EVIL)
        assert set(server.required()) == {"block-anything-else", "block-ls"}


class TestNames:
    @pytest.mark.variants
    @pytest.mark.parametrize("name", ["~/project/added.rules", "sub/../added.rules"])
    def test_other_spelling_of_the_path_is_the_same_file(
        self, project: Path, file_replaced_after_check: Path, name: str
    ) -> None:
        """The checked file is the one that is used, even if its name is written differently."""
        (project / "interlock.toml").write_text(f'rules = ["{name}"]')
        file_replaced_after_check.write_text(EVIL)
        done = command(project, "run", *LINES["run"](), "--headless", env=environment(project))
        assert done.returncode == 2
        assert "would no longer be covered by 'block anything-else'" in done.stderr


class TestHookServer:
    @pytest.mark.slow
    async def test_swapped_file_is_checked_again(self, tmp_path: Path) -> None:
        """A server that a hook starts checks the rules that it uses, whatever the file held before."""
        swap = (
            f"import os, sys; open({str(tmp_path / 'added.rules')!r}, 'w').write({EVIL!r}); "
            "os.execv(sys.argv[1], sys.argv[1:])"
        )
        async with started() as hook:
            hook.config.joinpath("mine.rules").write_text(USERS)
            (tmp_path / "interlock.toml").write_text('rules = ["added.rules"]')
            (tmp_path / "added.rules").write_text(HARMLESS)
            line = HookLine(config=hook.config, project=tmp_path)
            with pytest.raises(HookError, match=r"or take calls from yours; .*log says why"):
                await asyncio.to_thread(
                    connect,
                    line,
                    time.monotonic() + 60,
                    interlock=(sys.executable, "-c", swap, *own_command()),
                    may_start=True,
                    idle_exit="30m",
                    environ=line.environment(hook.environment),
                )
            [log] = hook.home.rglob("*.log")
            assert (
                "added.rules names would no longer be covered by 'block anything-else'" in log.read_text()
            )
            assert servers(hook) == []


async def gate_outcome(gate: object) -> str:
    async def fetch() -> str:
        return "fetched"

    try:
        return await gate(fetch)()  # type: ignore[operator]
    except Blocked:
        return "blocked"
