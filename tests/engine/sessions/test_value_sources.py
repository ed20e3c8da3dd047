"""Sources of values in sessions: live, after a restart, in a branch and in backtests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from interlock.engine.agents import Agent, C, Reply, ScriptedModel, T, ToolContext, tool
from interlock.engine.backtest import Judge, Trial, fork
from interlock.engine.backtest.explain_recorded import explain_recorded_call
from interlock.engine.backtest.journal_reader import recordings
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import CallDecided, MessageAdded, SessionStatus
from interlock.engine.history.model.records import AppliedRules
from interlock.engine.hub.hub import Hub
from interlock.engine.recording.source_texts import recorded_texts, texts_in
from interlock.engine.sessions.config import SessionConfig
from interlock.engine.sessions.new_rules import NewRules
from interlock.rules import compile_rules, condition_of

from ..support.external_agent import check_fold, opened, resumed
from ..support.shop import bodies, until

RULES = "block send when input.to not from user, get_contacts\n"
SESSION = "robin-1"


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    hub = Hub(Journal.open(tmp_path / "hub.db"))
    try:
        yield hub
    finally:
        await hub.close()


async def send(hub: Hub, *people: str) -> list[str]:
    """Return the outcomes of a `send` call to each of them."""
    found: list[str] = []
    for person in people:
        call_id = f"c{sum(1 for _ in bodies(hub, SESSION, CallDecided)) + 1}"
        answer = await hub.call(SESSION, call_id, "send", {"to": person})
        if answer.outcome == "allow":
            await hub.result(SESSION, call_id, output=f"sent to {person}, not to eve", is_error=False)
        found.append(answer.outcome)
    return found


async def talk(hub: Hub) -> None:
    """The user names ada, the contacts bob, and a web page eve."""
    await hub.record_message(SESSION, "user", "write to ada", reported_by="robin")
    await hub.record_message(SESSION, "assistant", "I write to eve")
    for call_id, name, output in (("g", "get_contacts", '["bob"]'), ("r", "read_web", "eve")):
        await hub.call(SESSION, call_id, name, {})
        await hub.result(SESSION, call_id, output=output, is_error=False)
    await hub.call(SESSION, "f", "get_contacts", {})
    await hub.result(SESSION, "f", output="no contact eve", is_error=True)


PEOPLE = ("ada", "bob", "eve")
EXPECTED = ["allow", "allow", "block"]


class TestExternalSessions:
    async def test_only_recorded_sources_count(self, hub: Hub) -> None:
        """Words of the model, results of other tools and errors do not count as a source."""
        await opened(hub, RULES)
        assert await send(hub, "ada") == ["block"]
        await talk(hub)
        assert await send(hub, *PEOPLE) == EXPECTED
        await check_fold(hub)

    async def test_sources_survive_a_restart(self, hub: Hub, tmp_path: Path) -> None:
        await opened(hub, RULES)
        await talk(hub)
        await hub.close()
        again = Hub(Journal.open(tmp_path / "hub.db"))
        try:
            await resumed(again, SESSION, RULES)
            assert await send(again, *PEOPLE) == EXPECTED
        finally:
            await again.close()

    async def test_added_rule_considers_earlier_texts(self, hub: Hub) -> None:
        """A rule that is added to a live session considers the earlier messages and results."""
        await opened(hub, "block rm\n")
        await talk(hub)
        registry = compile_rules(RULES).registry
        applied = AppliedRules(by="ada", at=(await hub.session(SESSION)).updated, reason="new")
        assert (await hub.replace_rules(SESSION, NewRules(registry, registry, applied))).ok
        assert await send(hub, *PEOPLE) == EXPECTED

    async def test_backtest_and_fork_use_earlier_texts(self, hub: Hub) -> None:
        """A backtest and a fork judge each call with the texts before it."""
        await opened(hub, "block rm\n")
        await send(hub, "ada")
        await talk(hub)
        await send(hub, *PEOPLE)
        trial = Trial.of(compile_rules(RULES).registry)
        assert trial.reads_texts
        recording = next(recordings(hub.database, [SESSION], texts=True))
        judged = [j for j in Judge(trial).judge(recording.items) if j.call.tool == "send"]
        assert [(j.call.input["to"], j.now.outcome) for j in judged] == [
            ("ada", "block"), ("ada", "allow"), ("bob", "allow"), ("eve", "block")
        ]  # fmt: skip
        events = await hub.recorded(SESSION)
        at = next(
            e.seq for e in events if isinstance(e.body, CallDecided) and e.body.input == {"to": "bob"}
        )
        rest = fork(events, at - 1, trial)
        judged = list(Judge(trial).judge(rest.items, rest.start))
        assert [(j.call.input["to"], j.now.outcome) for j in judged] == [
            ("bob", "allow"),
            ("eve", "block"),
        ]

    async def test_explanations_equal_recorded_outcomes(self, hub: Hub) -> None:
        await opened(hub, RULES)
        await talk(hub)
        await send(hub, *PEOPLE)
        events = await hub.recorded(SESSION)
        outcomes: list[str] = []
        for event in events:
            if isinstance(event.body, CallDecided) and event.body.tool == "send":
                before = fold(e for e in events if e.seq < event.seq)
                view = explain_recorded_call(before, event.body, event.at, condition_of)
                outcomes.append(view.outcome)
        assert outcomes == EXPECTED

    async def test_state_has_the_texts_of_the_events(self, hub: Hub) -> None:
        await opened(hub, RULES)
        await talk(hub)
        await send(hub, *PEOPLE)
        events = await hub.recorded(SESSION)
        each = [said for event in events for said in texts_in(event.body, "outside")]
        assert sorted(recorded_texts(fold(events))) == sorted(each)


class TestHostedSessions:
    @pytest.mark.slow
    async def test_messages_and_tool_results_count(self, hub: Hub) -> None:
        """Messages and tool results of hosted agents count, and a branch begins with them."""
        ran: list[str] = []

        @tool
        async def get_contacts(ctx: ToolContext) -> str:
            """Contacts."""
            return "bob"

        @tool
        async def send(ctx: ToolContext, to: str) -> str:
            """Send."""
            ran.append(to)
            return "sent to eve"

        def agent(*replies: Reply) -> Agent:
            return Agent(ScriptedModel(list(replies)), name="robin", tools=[get_contacts, send])

        config = SessionConfig(compile_rules(RULES).registry)
        calls = [C(send={"to": to}) for to in PEOPLE]
        session = await hub.open_session(agent(C(get_contacts={}), *calls, T("done")), config)
        await _turn(hub, session, "write to ada")
        assert ran == ["ada", "bob"]
        at = (await hub.session(session)).seq
        branch = await hub.branch_session(session, at, agent(*calls, T("done")), config)
        await _turn(hub, branch, "and now?")
        assert ran == ["ada", "bob", "ada", "bob"]


async def _turn(hub: Hub, session: str, text: str) -> None:
    """Send a message and wait until the session is idle."""
    subscription = hub.subscribe()
    await hub.send(session, text, by="maria")
    event = await until(subscription, SessionStatus)
    while event.session != session or event.body.status != "idle":
        event = await until(subscription, SessionStatus)


class TestKinds:
    @pytest.mark.parametrize(("kind", "by", "counts"), [
        ("root", None, True), ("outside", None, True), ("branch", None, True),
        ("flow", None, False), ("child", None, False), ("flow", "ada", True),
    ])  # fmt: skip
    def test_user_message_by_a_program_does_not_count(
        self, kind: str, by: str | None, counts: bool
    ) -> None:
        """User messages that a program or model writes, in a flow or for a subagent, do not count."""
        found = list(texts_in(MessageAdded(role="user", text="eve", by=by), kind))
        assert found == ([("user", "eve")] if counts else [])
