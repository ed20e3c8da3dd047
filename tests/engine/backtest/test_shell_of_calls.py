"""The shell that runs a session's commands: in its record, and for reading them by the rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.engine import ToolCall
from interlock.engine.agents import C, T, create_bash_tool
from interlock.engine.backtest import Backtest, Trial
from interlock.engine.backtest.explain_recorded import explain_recorded_call
from interlock.engine.backtest.journal_reader import recordings
from interlock.engine.core.condition import Shell, Surroundings, shell_named
from interlock.engine.flows import AgentConfig, AgentNode, Context, Flow, FlowBuilder
from interlock.engine.gate import GateManager, create_gate
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import CallDecided, SessionOpened
from interlock.engine.hub.hub import ExternalAgent, Hub
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules, condition_of

from ..gateway.served import served
from ..support.release import URL, Commit, Notes, Script

RULES = "map bash.command /^rm\\b/ as delete\nblock delete\nblock unclear"
HARMLESS_TO_BASH = {"command": "echo $'\\'; rm x; #'"}
"""Quoted text for bash and zsh; for dash `rm x` is outside the quotes."""

ZSH = compile_rules(RULES)


async def outcome(shell: Shell | None) -> str:
    manager = GateManager(
        compile_rules(RULES).registry, surroundings=Surroundings(shell=shell), active=None
    )
    found = await manager.handle_tool_call(ToolCall("1", "bash", HARMLESS_TO_BASH))
    return found.outcome


class TestGate:
    @pytest.mark.parametrize(
        ("shell", "expected"), [("bash", "allow"), ("zsh", "allow"), ("sh", "block"), (None, "block")]
    )
    async def test_reads_for_the_shell_of_the_session(self, shell: Shell | None, expected: str) -> None:
        """G-64: a command that only another shell would run is unclear, unless the shell is known."""
        assert await outcome(shell) == expected

    def test_names_a_call_as_it_is_judged(self) -> None:
        """The gate names a call for the shell that will run it."""
        nets = compile_rules(RULES).registry
        bash = GateManager(nets, surroundings=Surroundings(shell="bash"))
        assert bash.names_of(ToolCall("1", "bash", HARMLESS_TO_BASH)) == ("bash",)

    def test_wrap_tools_sets_the_shell(self) -> None:
        """`wrap_tools(shell=)` sets the shell of the tools; by default it is unknown."""
        gate = create_gate(registry=compile_rules(RULES).registry)

        def bash(given: dict[str, object]) -> str:
            return "ran"

        tools = {"bash": {"execute": bash}}
        known = gate.wrap_tools(tools, shell="bash").manager
        assert known.surroundings.shell == "bash"
        assert gate.wrap_tools(tools).manager.surroundings.shell is None

    @pytest.mark.parametrize(
        ("program", "shell"),
        [
            ("/bin/zsh", "zsh"),
            ("/usr/bin/bash", "bash"),
            ("dash", "sh"),
            ("/usr/bin/fish", None),
            (None, None),
        ],
    )
    def test_shell_is_recognized_by_its_program(self, program: str | None, shell: Shell | None) -> None:
        """`$SHELL` is recognized by its program name; any other program is unknown."""
        assert shell_named(program) == shell


class TestRecord:
    async def test_holds_the_shell(self, tmp_path: Path) -> None:
        """The shell of an external agent is in its record and in the folded state."""
        rules = compile_rules(RULES).registry
        hub = Hub(Journal.open(tmp_path / "journal.db"))
        try:
            agent = ExternalAgent(name="robin", shell="bash")
            name = await hub.open_external(agent, SessionConfig(rules), session_id="r1")
            answer = await hub.call(name, "c1", "bash", HARMLESS_TO_BASH)
            assert answer.outcome == "allow"
            events = await hub.recorded(name)
            assert isinstance(events[0].body, SessionOpened)
            assert events[0].body.shell == "bash"
            assert fold(events).shell == "bash"
        finally:
            await hub.close()

    async def test_missing_shell_is_unknown(self, tmp_path: Path) -> None:
        """Without a shell in the record, commands are read for any shell."""
        rules = compile_rules(RULES).registry
        hub = Hub(Journal.open(tmp_path / "journal.db"))
        try:
            name = await hub.open_external(
                ExternalAgent(name="robin"), SessionConfig(rules), session_id="r1"
            )
            answer = await hub.call(name, "c1", "bash", HARMLESS_TO_BASH)
            assert answer.outcome == "block"
            opened = (await hub.recorded(name))[0].body
            older = opened.model_dump(exclude={"shell"})
            assert SessionOpened.model_validate(older).shell is None
        finally:
            await hub.close()


class TestJudgedAgain:
    async def test_commands_are_read_for_the_recorded_shell(self, tmp_path: Path) -> None:
        """A backtest reads the commands of each part of a session for the shell that ran it."""
        hub = Hub.open(tmp_path / "journal.db")
        agents = {
            "bash": ("bash", None),
            "sh": ("sh", None),
            "unknown": (None, None),
            "changed": ("bash", "sh"),
        }
        for name, (shell, later) in agents.items():
            agent = ExternalAgent(name="robin", shell=shell)
            await hub.open_external(agent, SessionConfig({}), session_id=name)
            assert (await hub.call(name, "c1", "bash", HARMLESS_TO_BASH)).outcome == "allow"
            await hub.result(name, "c1", output="ran", is_error=False)
            if later is not None:
                await hub.close_session(name, by="ada")
                await hub.resume_external(
                    name, ExternalAgent(name="robin", shell=later), SessionConfig({})
                )
                await hub.call(name, "c2", "bash", HARMLESS_TO_BASH)
        await hub.close()
        backtest = Backtest(Trial.of(compile_rules(RULES).registry))
        found = {each.session: each for each in backtest.run(recordings(tmp_path / "journal.db", agents))}
        blocked = {name: found[name].counts.blocked.calls for name in agents}
        assert blocked == {"bash": 0, "sh": 1, "unknown": 1, "changed": 1}
        first = found["changed"].first
        assert first is not None
        assert first.call_id == "c2"

    async def test_explanation_uses_the_recorded_shell(self, tmp_path: Path) -> None:
        """Explanations of a recorded call, under its own or other nets, use the recorded shell."""
        hub = Hub.open(tmp_path / "journal.db")
        await hub.open_external(
            ExternalAgent(name="robin", shell="zsh"), SessionConfig(ZSH.registry), session_id="r1"
        )
        await hub.call("r1", "c1", "bash", {"command": "=rm x"})
        events = await hub.recorded("r1")
        [decided] = [e.body for e in events if isinstance(e.body, CallDecided)]
        before = fold(events[:1])
        assert before.shell == "zsh"
        view = explain_recorded_call(before, decided, events[-1].at, condition_of)
        assert (view.outcome, view.names) == ("block", ("unclear", "bash"))
        now = await hub.explain("r1", "c1")
        assert (now.outcome, now.names) == ("block", ("unclear", "bash"))
        await hub.close()


class TestOverTheWire:
    async def test_clients_shell_is_recorded_and_used(self, tmp_path: Path) -> None:
        """`session(shell=)` is in the server's record, and commands are read for that shell."""
        rules = "map bash.command /^rm\\b/ as delete\nblock delete\nblock unclear"
        async with served(tmp_path, rules=rules) as server, server.agent_client() as client:
            said: dict[str | None, str] = {}
            for shell in ("bash", "/bin/zsh", "sh", "/usr/bin/fish", None):
                async with client.session("bot", shell=shell) as gate:
                    answer = await gate.call("bash", HARMLESS_TO_BASH)
                    recorded = (await server.hub.session(gate.id)).shell
                    said[shell] = f"{recorded} {answer.outcome}"
        assert said == {
            "bash": "bash allow",
            "/bin/zsh": "zsh allow",
            "sh": "sh block",
            "/usr/bin/fish": "None block",
            None: "None block",
        }


class Cautious(AgentNode[Commit, Notes]):
    """Runs commands and reports the results."""

    config = AgentConfig("Run them.", URL, (create_bash_tool(),))


class Commands(Flow[Commit, Notes]):
    """One agent with a shell."""

    @classmethod
    def build(cls, g: FlowBuilder) -> FlowBuilder:
        return g.agent(Cautious)


class TestFlows:
    async def test_commands_are_read_for_the_runtimes_shell(self, tmp_path: Path) -> None:
        """Commands of a flow's agents are read for the shell of its runtime, which is in the record."""
        command = HARMLESS_TO_BASH["command"]
        replies = [C(bash={"command": command}), C(bash={"command": "rm x"}), T('{"text": "ok"}')]
        hub = Hub.open(tmp_path / "journal.db")
        context = Context(working_dir=tmp_path)
        rules = compile_rules(RULES).registry
        run = await hub.open_flow(
            Commands, Commit(sha="x"), SessionConfig(rules), context=context, factory=Script(replies)
        )
        await hub.flow_ended(run)
        state = await hub.session(run)
        assert (state.shell, state.workdir) == ("bash", str(tmp_path))
        assert [call.status for call in state.calls.values()] == ["done", "blocked"]
        await hub.close()
