"""G-88: conditions on the session: `session.agent`, `session.started_by`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from interlock.engine.backtest import Judge, Trial, fork
from interlock.engine.backtest.explain_recorded import explain_recorded_call
from interlock.engine.backtest.journal_reader import recordings
from interlock.engine.core.condition import Surroundings, condition_text, holds, unknown_reason
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import CallDecided
from interlock.engine.hub.hub import ExternalAgent, Hub
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import RuleError, compile_rules, condition_of
from interlock.rules.analysis.findings import examine

RULES = 'block deploy when session.agent != "release-bot" or session.started_by != "ada"\n'
SESSION = "s-1"


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    hub = Hub(Journal.open(tmp_path / "hub.db"))
    try:
        yield hub
    finally:
        await hub.close()


async def deploy(hub: Hub, number: int) -> str:
    answer = await hub.call(SESSION, f"c{number}", "deploy", {})
    if answer.outcome == "allow":
        await hub.result(SESSION, f"c{number}", output="", is_error=False)
    return answer.outcome


class TestHolds:
    def test_of_the_session_alone(self) -> None:
        """A call's own input cannot pass for a field of the session."""
        condition = condition_of('session.agent = "bot"')
        assert condition is not None
        spoofed = {"session": {"agent": "bot"}, "agent": "bot"}
        assert holds(condition, spoofed, Surroundings(session={"agent": "other"})) is False
        assert holds(condition, {}, Surroundings(session={"agent": "bot"})) is True
        assert holds(condition, spoofed) is None
        assert unknown_reason(condition, spoofed) == "session.agent is not known here"

    def test_of_nobody(self) -> None:
        """Where nobody is known to have started it, that can be asked; elsewhere it is unknown."""
        missing = condition_of("session.started_by is missing")
        ada = condition_of('session.started_by = "ada"')
        assert missing is not None
        assert ada is not None
        around = Surroundings(session={"agent": "bot", "started_by": None})
        assert (holds(missing, {}, around), holds(ada, {}, around)) == (True, False)
        assert holds(missing, {}) is None

    @pytest.mark.parametrize(
        "text",
        ['session.agent = "bot" and input.agent != "bot"', "session.started_by not matches /^ci-/"],
    )
    def test_is_read_as_it_is_written(self, text: str) -> None:
        condition = condition_of(text)
        assert condition is not None
        assert condition_text(condition) == text

    def test_is_another_field_than_the_inputs(self) -> None:
        """A proof does not take the two for one: neither block covers the other."""
        rules = compile_rules('block x when session.agent = "a"\nblock x when input.agent = "a"')
        assert examine(rules).warnings == ()
        never = compile_rules('block x when session.agent = "a" and session.agent = "b"')
        assert [w.message for w in examine(never).warnings] == ["this condition never holds"]


class TestErrors:
    @pytest.mark.parametrize(
        ("field", "remedy"),
        [
            ("session.agnt", "session.agent"),
            ("session.agent.name", "when session.agent"),
            ("session.x", "agent"),
        ],
    )
    def test_name_the_fields_there_are(self, field: str, remedy: str) -> None:
        with pytest.raises(RuleError) as error:
            compile_rules(f'block x when {field} = "a"')
        [problem] = error.value.problems
        assert problem.message == f"a session has session.agent or session.started_by, got '{field}'"
        assert remedy in problem.remedy


class TestSessions:
    async def test_live_resumed_and_judged_again(self, hub: Hub, tmp_path: Path) -> None:
        """Who resumed it last counts, in the record as in the gate."""
        registry = compile_rules(RULES).registry
        agent = ExternalAgent(name="release-bot")
        await hub.open_external(agent, SessionConfig(registry, by="ada"), session_id=SESSION)
        outcomes = [await deploy(hub, 1)]
        await hub.close()
        again = Hub(Journal.open(tmp_path / "hub.db"))
        try:
            await again.resume_external(SESSION, agent, SessionConfig(registry, by="eve"))
            outcomes.append(await deploy(again, 2))
            assert outcomes == ["allow", "block"]
            events = await again.recorded(SESSION)
            recording = next(recordings(again.database, [SESSION]))
            judged = list(Judge(Trial.of(registry)).judge(recording.items))
            assert [j.now.outcome for j in judged] == outcomes
            decided = [e for e in events if isinstance(e.body, CallDecided)]
            rest = fork(events, decided[1].seq - 1, Trial.of(registry))
            assert [j.now.outcome for j in Judge(Trial.of(registry)).judge(rest.items, rest.start)] == [
                "block"
            ]
            explained = [
                explain_recorded_call(
                    fold(e for e in events if e.seq < each.seq), each.body, each.at, condition_of
                ).outcome
                for each in decided
            ]
            assert explained == outcomes
        finally:
            await again.close()
