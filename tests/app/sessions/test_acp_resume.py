"""Sessions of agents that speak ACP: the console names the command that continues them."""

from __future__ import annotations

import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest

from interlock.app.agents.spec import AgentSpecError
from interlock.app.cli.main import parser
from interlock.app.screens.live.resume_command import ByCommand, tell_command
from interlock.app.sessions.acp_resume import SOURCE, acp_command
from interlock.app.sessions.start import resume_or_branch
from interlock.engine.gateway.acp import agent as acp_agent
from interlock.engine.history.model.events import SessionOpened
from interlock.engine.hub.hub import ExternalAgent, Hub
from interlock.engine.sessions.config import SessionConfig

from ..support.real_console import real_console

WORKDIR = "/srv/it's a project"


@pytest.fixture
async def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A recorded session of an ACP agent, in the journal of `real_console`."""
    monkeypatch.chdir(tmp_path)
    hub = Hub.open(Path("run.db"))
    agent = ExternalAgent(name="scripted", workdir=WORKDIR, source={acp_agent.SOURCE: "known-as-this"})
    found = await hub.open_external(agent, SessionConfig({}, labels=("ci",)))
    await hub.close_session(found, "mia")
    await hub.close()
    return found


class TestConsole:
    @pytest.mark.slow
    @pytest.mark.parametrize("where", ["history", "replay"])
    async def test_key_shows_and_copies_the_command(
        self, tmp_path: Path, session: str, where: str
    ) -> None:
        """`c` shows the command without a question and starts no agent; a second `c` copies it."""
        async with real_console() as on:
            await on.pilot.press("h")
            await on.until(session)
            if where == "replay":
                await on.pilot.press("enter")
                await on.until("event 1 of")
            await on.pilot.press("c")
            await on.until("interlock acp --resume")
            assert isinstance(on.app.screen, ByCommand)
            assert "once this console has ended" in " ".join(on.painted().split())
            await on.pilot.press("c")
            words = shlex.split(on.app.clipboard)
            assert await on.app.hub.sessions() == []
        args = parser().parse_args(words[1:])
        assert (words[0], args.command, args.resume) == ("interlock", "acp", session)
        assert (args.cwd, args.db) == (Path(WORKDIR), tmp_path / "run.db")
        assert (args.rules, args.agent, args.labels) == (["FILES"], ["COMMAND"], ["ci"])

    async def test_server_console_names_the_machine(self, session: str) -> None:
        """A console of a server names the machine for the command, and no file of its own machine."""
        async with real_console() as on:
            there = SimpleNamespace(server="hub.example", recorded=on.app.hub.recorded)
            await tell_command(on.app, there, session)  # type: ignore[arg-type]
            await on.until("Run it on that machine, once the server at")
            assert "--db" not in on.painted()


class TestGoingOn:
    async def test_resume_raises_an_error_with_the_command(self, session: str) -> None:
        """`interlock resume` and a server's resume raise an error with the same command."""
        hub = Hub.open(Path("run.db"))
        with pytest.raises(AgentSpecError, match=f"interlock acp --resume {session} --cwd .* -- COMMAND"):
            await resume_or_branch(hub, session, "mia")
        await hub.close()

    async def test_invisible_values_are_left_out(self, session: str) -> None:
        """The command leaves out a session id, workdir or label with invisible characters."""
        hub = Hub.open(Path("run.db"))
        [opened, *_] = await hub.recorded(session)
        await hub.close()
        assert isinstance(opened.body, SessionOpened)
        hidden = opened.model_copy(
            update={
                "body": opened.body.model_copy(
                    update={"workdir": "/srv\n\u202erm -r", "session_labels": ("c\u202ei",)}
                )
            }
        )
        for found, named in ((session, session), ("bot\n\x1b[2J-0a1b", "SESSION")):
            assert acp_command(found, [hidden], None) == (
                f"interlock acp --resume {named} --rules FILES -- COMMAND"
            )

    def test_constant_equals_the_engines(self) -> None:
        """The copy of the engine's constant is equal; its module needs an optional library."""
        assert SOURCE == acp_agent.SOURCE
