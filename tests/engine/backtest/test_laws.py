"""Laws for every session that a gate can record."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine.backtest import Judge, Judgement, Trial, fork, recordings
from interlock.engine.history.decisions.call_pages import call_pages
from interlock.engine.history.fold.fold import apply, fold, new_state
from interlock.engine.history.journal.journal import Journal
from interlock.rules import compile_rules, condition_of

from ...support.laws import examples
from .recorder import Recorder, items_of

RULES = compile_rules(
    "map bash.command rm as delete\nmap bash.command cp as backup\n"
    "require backup before delete\nlimit delete to 2 per session\nlimit bash to 3 per go\n"
    "require human-approval before delete\nrequire human-approval before go\nblock format\n"
    "after delete require human-approval before backup\nblock go after backup"
)
OTHER = compile_rules(
    "map bash.command rm as delete\nrequire human-approval before bash\nblock backup\n"
    "limit bash to 3 per go\nlimit format to 1 per session\nrequire go before delete\n"
    "after bash require human-approval before format"
)
KEYS = list(RULES.registry)
COMMANDS = ["ls", "rm x", "cp a b", "cp a b && rm c"]
EDITED = [{}, {"command": "rm z"}, {"command": "ls"}]

steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("call"),
            st.integers(0, 6),
            st.sampled_from(["bash", "bash", "delete", "go", "format", "other"]),
            st.sampled_from(COMMANDS),
        ),
        st.tuples(st.just("result"), st.integers(0, 6), st.booleans()),
        st.tuples(st.just("not run"), st.integers(0, 6)),
        st.tuples(st.just("answer"), st.integers(0, 6), st.booleans(), st.sampled_from(EDITED)),
        st.tuples(st.just("withdraw"), st.integers(0, 6)),
        st.tuples(st.just("toggle"), st.sampled_from(KEYS), st.booleans()),
        st.tuples(st.just("mode"), st.sampled_from(["enforce", "shadow"])),
    ),
    max_size=30,
)
actives = st.one_of(st.none(), st.lists(st.sampled_from(KEYS), unique=True))


async def play(recorder: Recorder, schedule: list[Any]) -> None:
    """Play the steps of a schedule that are possible."""
    for step in schedule:
        match step:
            case ("call", number, tool, command):
                await recorder.call(f"c{number}", tool, command=command)
            case ("result", number, is_error) if f"c{number}" in recorder.running:
                recorder.result(f"c{number}", is_error=is_error)
            case ("not run", number) if f"c{number}" in recorder.running:
                recorder.result(f"c{number}", ran=False)
            case ("answer", number, approved, edited) if f"c{number}" in recorder.waiting:
                await recorder.answer(f"c{number}", approved, **(edited if approved else {}))
            case ("withdraw", number) if f"c{number}" in recorder.waiting:
                await recorder.withdraw(f"c{number}")
            case ("toggle", net, active):
                recorder.toggle(net, active)
            case ("mode", mode):
                recorder.set_mode(mode)


def record(schedule: list[Any], active: list[str] | None = None, mode: str = "enforce") -> Recorder:
    """Record a session with the real gate under `RULES`."""

    async def session() -> Recorder:
        recorder = Recorder(RULES.registry, active=active, mode=mode)
        await play(recorder, schedule)
        await recorder.close()
        return recorder

    return asyncio.run(session())


def plain(judgements: list[Judgement]) -> list[Any]:
    return [(j.call.seq, j.call.call_id, j.now, j.change, j.hypothetical) for j in judgements]


class TestTheSameRules:
    """A session that is judged under the rules of its recording."""

    @pytest.mark.slow
    @given(steps, actives, st.sampled_from(["enforce", "enforce", "shadow"]))
    @settings(max_examples=examples(200), deadline=None)
    def test_backtest_equals_the_record(
        self, schedule: list[Any], active: list[str] | None, mode: str
    ) -> None:
        """Every verdict equals the recorded one, and the nets end with the gate's final markings."""
        recorder = record(schedule, active, mode)
        judge = Judge(Trial.of(RULES.registry))
        found = list(judge.judge(items_of(recorder.events)))
        assert [j for j in found if j.change != "same" or j.hypothetical] == []
        assert len(found) == sum(b.type == "call.decided" for b in recorder.bodies)
        gate = recorder.manager
        assert {k: s.marking for k, s in judge._manager.states.items()} == {
            k: s.marking for k, s in gate.states.items()
        }
        assert {k: list(s.pending) for k, s in judge._manager.states.items()} == {
            k: list(s.pending) for k, s in gate.states.items()
        }
        assert judge._manager.active == gate.active

    @pytest.mark.slow
    @given(steps, st.data())
    @settings(max_examples=examples(100), deadline=None)
    def test_fork_at_any_moment_equals_the_record(self, schedule: list[Any], data: st.DataObject) -> None:
        """A fork anywhere without changes gives the recorded verdicts, under rules or recorded nets."""
        events = record(schedule).events
        at = data.draw(st.integers(1, len(events)))
        state = fold(events[:at])
        for trial in (Trial.of(RULES.registry), Trial.recorded(state, conditions=condition_of)):
            recording = fork(events, at, trial)
            found = list(Judge(trial).judge(recording.items, recording.start))
            assert [(j.call.seq, j.now) for j in found if j.change != "same"] == []


class TestOtherRules:
    """A session that is judged under other rules."""

    @given(steps)
    @settings(max_examples=examples(60), deadline=None)
    def test_fork_at_the_beginning_equals_a_backtest(self, schedule: list[Any]) -> None:
        """A fork before the first event equals a backtest of the session."""
        events = record(schedule).events
        trial = Trial.of(OTHER.registry)
        recording = fork(events, 0, trial)
        forked = list(Judge(trial).judge(recording.items, recording.start))
        assert plain(forked) == plain(list(Judge(trial).judge(items_of(events))))

    @given(steps, steps)
    @settings(max_examples=examples(60), deadline=None)
    def test_judge_keeps_no_state_between_sessions(self, schedule: list[Any], before: list[Any]) -> None:
        """A judge keeps no state from one session to the next."""
        used = Judge(Trial.of(OTHER.registry))
        list(used.judge(items_of(record(before).events)))
        events = record(schedule).events
        fresh = Judge(Trial.of(OTHER.registry))
        assert plain(list(used.judge(items_of(events)))) == plain(list(fresh.judge(items_of(events))))

    @given(steps)
    @settings(max_examples=examples(60), deadline=None)
    def test_calls_after_the_first_difference_are_hypothetical(self, schedule: list[Any]) -> None:
        """All calls after the first one with another outcome are hypothetical, and none before."""
        found = list(Judge(Trial.of(OTHER.registry)).judge(items_of(record(schedule).events)))
        turned = False
        for judgement in found:
            assert judgement.hypothetical is turned
            then, now = judgement.call.then, judgement.now
            runs = now.outcome == "allow" or (now.outcome == "ask" and not then.denied)
            turned |= judgement.change != "same" and (now.assumed or runs != then.ran)

    @given(steps)
    @settings(max_examples=examples(60), deadline=None)
    def test_unexecuted_calls_do_not_affect_others(self, schedule: list[Any]) -> None:
        """Without the calls that did not run, the others get the same judgements."""
        items = items_of(record(schedule).events)
        ran = [i for i in items if getattr(getattr(i, "then", None), "ran", True)]
        with_all = Judge(Trial.of(OTHER.registry)).judge(items)
        without = Judge(Trial.of(OTHER.registry)).judge(ran)
        assert [(j.call.seq, j.now) for j in with_all if j.call.then.ran] == [
            (j.call.seq, j.now) for j in without
        ]


@pytest.mark.slow
class TestPages:
    """Different ways of reading a journal."""

    @given(st.lists(steps, min_size=1, max_size=3), st.integers(1, 7))
    @settings(max_examples=examples(25), deadline=None)
    def test_page_size_does_not_matter(self, schedules: list[list[Any]], page: int) -> None:
        """Rows and judgements are the same for all page sizes."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "journal.db")
            recorders = {f"s{n}": record(schedule) for n, schedule in enumerate(schedules)}
            with Journal.open(path) as journal:
                for session, recorder in recorders.items():
                    journal.write(session, *recorder.bodies)
            sessions = list(recorders)
            rows, whole = (
                [(session, row) for session, rows in call_pages(path, sessions, **size) for row in rows]
                for size in ({"page": page}, {})
            )
            assert rows == whole
            trial = Trial.of(OTHER.registry)
            judge = Judge(trial)
            found = {r.name: plain(list(judge.judge(r.items))) for r in recordings(path, sessions)}
            assert found == {
                session: plain(list(Judge(trial).judge(items_of(recorder.events))))
                for session, recorder in recorders.items()
            }


def test_fork_starts_with_the_folded_state() -> None:
    """A fork starts with the state of the journal's fold."""
    events = record([("call", 1, "bash", "cp a b"), ("result", 1, False)]).events
    state = new_state("bot-1")
    for event in events:
        apply(state, event)
    assert fork(events, len(events), Trial.of(RULES.registry)).start.markings == {
        key: net.marking for key, net in state.nets.items()
    }
