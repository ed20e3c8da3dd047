"""Allowed calls under a hub that never ran: the record contains the moves that were undone."""

from __future__ import annotations

import json

import pytest

from interlock.engine import Agent, Deny, Hooks, Override, ScriptedModel, ToolCallEvent, task_tool
from interlock.engine.agents import C, T
from interlock.engine.backtest import Trial, fork, recordings
from interlock.engine.backtest.judge import Judge
from interlock.engine.history.audit.verify import verify_journal
from interlock.engine.history.errors import FoldError
from interlock.engine.history.fold.event_text import changes
from interlock.engine.history.fold.fold import apply, fold, new_state, snapshot
from interlock.engine.history.model.events import CallDecided, CallResult, StepRecord, event_body
from interlock.engine.hub.hub import Hub
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

from ..history.support.recording import limit, limit_per, opening, recorded, state_after, washing
from ..support.shop import Shop, bodies, check

RULES = "require test before deploy\nlimit deploy to 1 per session"
PROD = Override(args={"env": "prod"})


def override(event: ToolCallEvent) -> Override | Deny | None:
    """Deny the first deploy and send the others to production."""
    if event.name != "deploy":
        return None
    return Deny(reason="not today") if event.call_id == "c2" else PROD


async def session_of(hub: Hub, shop: Shop, rules: str = RULES) -> str:
    """A completed turn: a test, a deploy that a hook denies, an overridden one, and one too many."""
    model = ScriptedModel(
        [C(c1=("test", {})), C(c2=("deploy", {})), C(c3=("deploy", {})), C(c4=("deploy", {})), T("ok")]
    )
    hooks = Hooks(before_tool_call=override)
    agent = Agent(model, name="bot", tools=shop.tools(), hooks=hooks)
    session = await hub.open_session(agent, SessionConfig(compile_rules(rules).registry))
    await hub.send(session, "go")
    await hub.wait(session)
    return session


class TestUnderAHub:
    async def test_denied_or_overridden_call_uses_no_limit(self, hub: Hub, shop: Shop) -> None:
        """A-40: a denied or overridden call uses no limit; record, fold and gate agree."""
        session = await session_of(hub, shop)
        assert shop.ran == ["test", "deploy prod"]
        await check(hub, session)
        undone = [
            (body.call_id, sorted(step.transition for step in body.undone))
            for body in bodies(hub, session, CallResult)
        ]
        took = ["do-deploy", "do-deploy"]
        assert undone == [("c1", []), ("c2", took), ("c3", took), ("c3", [])]
        [last] = [b for b in bodies(hub, session, CallDecided) if b.call_id == "c4"]
        assert last.outcome == "block"

    async def test_replay_shows_undone_moves(self, hub: Hub, shop: Shop) -> None:
        """A-40: a replay shows what was undone, and the hash chain of such events is valid."""
        session = await session_of(hub, shop)
        events = await hub.recorded(session)
        state, said = new_state(session), []
        for event in events:
            before = snapshot(state)
            apply(state, event)
            said += [line for line in changes(before, event, state) if "taken back" in line]
        assert (
            said
            == [
                "limit-deploy-1: taken back: do-deploy, budget 0→1",
                "require-test-before-deploy: taken back: do-deploy, ready 1→0, gate 0→1",
            ]
            * 2
        )
        assert [found.fault for found in verify_journal(hub.database)] == [None]

    async def test_moves_of_a_subagent_are_undone(self, hub: Hub, shop: Shop) -> None:
        """A-40, G-53: a subagent's moves of the parent's nets are undone there."""
        model = ScriptedModel([C(c2=("deploy", {})), C(c3=("deploy", {})), T("done")])
        worker = Agent(model, name="worker", tools=shop.tools(), hooks=Hooks(before_tool_call=override))
        boss = Agent(
            ScriptedModel([C(t=("task_worker", {"prompt": "x"})), T("ok")]),
            name="boss",
            tools=[task_tool(worker)],
        )
        registry = compile_rules("limit deploy to 1 per session").registry
        session = await hub.open_session(boss, SessionConfig(registry))
        await hub.send(session, "go")
        await hub.wait(session)
        assert shop.ran == ["deploy prod"]
        await check(hub, session)
        [child] = [s.id for s in await hub.sessions() if s.parent == session]
        assert all(not body.undone for body in bodies(hub, child, CallResult))
        fold(await hub.recorded(child))

    @pytest.mark.slow
    async def test_backtest_under_same_rules_has_no_differences(self, hub: Hub, shop: Shop) -> None:
        """A-40: under the same rules a backtest has no differences, from any event on."""
        session = await session_of(hub, shop)
        trial = Trial.of(compile_rules(RULES).registry)
        recording = next(recordings(hub.database, [session]))
        found = list(Judge(trial).judge(recording.items, recording.start))
        assert [j.change for j in found] == ["same"] * 5
        events = await hub.recorded(session)
        for at in range(1, len(events) + 1):
            rest = fork(events, at, trial)
            assert {j.change for j in Judge(trial).judge(rest.items, rest.start)} <= {"same"}

    @pytest.mark.slow
    async def test_sliding_limit_use_is_returned(self, hub: Hub, shop: Shop) -> None:
        """A-40, G-55: a sliding limit's use is given back at once, with its arrival time on record."""
        rules = "require test before deploy\nlimit deploy to 1 per 1h"
        session = await session_of(hub, shop, rules)
        assert shop.ran == ["test", "deploy prod"]
        await check(hub, session)
        arrived = [body.arrived for body in bodies(hub, session, CallResult) if body.undone]
        assert [{k: list(v) for k, v in each.items()} for each in arrived] == [
            {"limit-deploy-1-per-1h": ["spent"]}
        ] * 2
        trial = Trial.of(compile_rules(rules).registry)
        events = await hub.recorded(session)
        live = fold(events).nets["limit-deploy-1-per-1h"]
        assert [len(times) for times in live.since.values()] == [1]
        for at in range(len(events) + 1):
            rest = fork(events, at, trial)
            assert {j.change for j in Judge(trial).judge(rest.items, rest.start)} <= {"same"}

    async def test_backtest_under_other_rules_undoes_moves(self, hub: Hub, shop: Shop) -> None:
        """A-40: other nets in a backtest also undo their moves for a call that never ran."""
        session = await session_of(hub, shop, "limit deploy to 9 per session\nblock rm")
        trial = Trial.of(compile_rules("limit deploy to 2 per session\nblock test").registry)
        recording = next(recordings(hub.database, [session]))
        found = Judge(trial).judge(recording.items, recording.start)
        # c3 and c4 ran, each decided twice because of the override.
        assert [(j.call.call_id, j.now.outcome) for j in found] == [
            ("c1", "block"),
            ("c2", "allow"),
            ("c3", "allow"),
            ("c3", "allow"),
            ("c4", "allow"),
            ("c4", "allow"),
        ]


DO = StepRecord(net="limit-x-1", transition="do-x", tool="x")
ALLOWED = CallDecided(
    call_id="c", tool="x", input={}, names=("x",), outcome="allow", mode="enforce", steps=(DO,)
)


def never_ran(*steps: StepRecord) -> CallResult:
    return CallResult(call_id="c", tool="x", output="no", is_error=True, undone=steps)


class TestFold:
    def test_fold_restores_the_marking(self) -> None:
        """A-40: the fold has the marking from before the call."""
        before = state_after(opening(limit("x", 1)))
        after = state_after(opening(limit("x", 1)), ALLOWED, never_ran(DO))
        assert after.nets["limit-x-1"].marking == before.nets["limit-x-1"].marking
        assert after.calls["c"].status == "failed"

    @pytest.mark.parametrize(
        ("net", "step", "why"),
        [
            (limit("x", 1), DO.model_copy(update={"net": "other"}), "no net 'other'"),
            (limit("x", 1), DO.model_copy(update={"transition": "t"}), "no transition 't'"),
            (limit("x", 1), DO.model_copy(update={"deferred": True}), "cannot be taken back"),
            (
                limit_per("x", 1, "r"),
                StepRecord(net="limit-x-1-per-r", transition="do-x", tool="x"),
                "ca",
            ),
            (
                limit_per("x", 1, "r"),
                StepRecord(net="limit-x-1-per-r", transition="refill", tool="r"),
                "ca",
            ),
            (washing("x"), StepRecord(net="wash-after-x", transition="use-x", tool="x"), "cannot be"),
        ],
        ids=["no net", "no transition", "deferred", "not fired", "moved all", "moved others"],
    )
    def test_impossible_undo_is_invalid(self, net: object, step: StepRecord, why: str) -> None:
        """A-40: a record that undoes a step which cannot have fired is invalid."""
        with pytest.raises(FoldError, match=why):
            fold(recorded(opening(net), never_ran(step)))

    def test_older_event_undoes_nothing(self) -> None:
        """A-40: an event without the field is read as undoing nothing."""
        body = json.loads(never_ran(DO).model_dump_json())
        del body["undone"]
        assert event_body.validate_python(body) == never_ran()
