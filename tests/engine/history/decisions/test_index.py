"""The decision lines follow from the events, however the events got into the file."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine.history.database.compiled import DecisionLine
from interlock.engine.history.decisions.index import (
    HEAD,
    decisions_of,
    input_head,
    rebuild_decisions,
)
from interlock.engine.history.journal.journal import Journal, JournalError
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.journal.writer import Writer
from interlock.engine.history.model.events import (
    ApprovalExtended,
    ApprovalWithdrawn,
    CallResult,
    ChangeAgreed,
    ChangeDropped,
    ChangeProposed,
    EventBody,
    LimitRaised,
    ModeChanged,
    NetToggled,
    SessionResumed,
    SessionStatus,
)
from interlock.engine.history.redaction.redaction import Redaction
from tests.support.laws import examples
from tests.support.raw_database import raw_database

from ..support.recording import (
    NOON,
    RULE,
    answer,
    decided,
    opening,
    recorded,
    request,
    result,
    sequence,
    step,
)

DUMP = Path(__file__).parents[3] / "data" / "journal_0006.sql"
NET = sequence("test", "deploy")


def stored(path: Path) -> list[DecisionLine]:
    """Return the lines in a journal, in the order of the record."""
    with closing(raw_database(path)) as connection:
        rows = connection.execute("SELECT * FROM decision ORDER BY session, cursor").fetchall()
    return [DecisionLine(*row) for row in rows]


def lines_from_events(path: Path) -> list[DecisionLine]:
    """Return the lines that follow from the events in a journal."""
    reader = open_reader(path)
    lines = [line for s in reader.sessions(None) for line in decisions_of(reader.events(s.id))]
    return sorted(lines, key=lambda line: (line.session, line.cursor))


def only_line(*bodies: EventBody, **fields: object) -> DecisionLine:
    """Return the only line of a session with these events."""
    (line,) = decisions_of(recorded(opening(NET, **fields), *bodies))
    return line


CALLS = st.sampled_from(("c1", "c2", "c3"))
BODIES = st.one_of(
    st.builds(
        decided,
        CALLS,
        st.sampled_from(("test", "deploy")),
        outcome=st.sampled_from(("allow", "block", "ask")),
        mode=st.sampled_from(("enforce", "shadow")),
        net=st.sampled_from((None, NET.name)),
        rule=st.sampled_from((None, RULE)),
        approved_by=st.sampled_from(((), ("maria",), ("maria", "jo"))),
        via=st.sampled_from((None, "reader-1")),
        input=st.sampled_from(({}, {"command": "ls"}, {"path": "a", "n": 3})),
    ),
    st.builds(result, CALLS, st.just("test"), is_error=st.booleans(), unknown=st.booleans()),
    st.builds(result, CALLS, st.just("test"), anomaly=st.just("another tool")),
    st.builds(request, st.just("ap"), CALLS, st.just("deploy")),
    st.builds(answer, st.just("ap"), CALLS, approved=st.booleans()),
    st.builds(ApprovalWithdrawn, approval_id=st.just("ap"), call_id=CALLS, reason=st.just("gone")),
    st.builds(ModeChanged, mode=st.sampled_from(("enforce", "shadow")), by=st.just("maria")),
    st.builds(
        SessionResumed,
        agent=st.sampled_from(("bot", "other")),
        model=st.just("m"),
        mode=st.sampled_from(("enforce", "shadow")),
        active=st.sampled_from(((), (NET.name,))),
        max_cost=st.sampled_from((None, 1.0)),
        by=st.just("jo"),
    ),
    st.builds(
        NetToggled,
        net=st.just(NET.name),
        active=st.booleans(),
        by=st.just("maria"),
        message=st.just("done"),
        change_id=st.sampled_from((None, "x1")),
    ),
    st.builds(
        ChangeProposed,
        change_id=st.sampled_from(("x1", "x2")),
        net=st.sampled_from((None, NET.name)),
        by=st.just("maria"),
        reason=st.just("noise"),
        people=st.just(2),
        expires=st.just(NOON),
        counts=st.booleans(),
    ),
    st.builds(ChangeAgreed, change_id=st.sampled_from(("x1", "x2")), by=st.just("jo")),
    st.builds(ChangeDropped, change_id=st.sampled_from(("x1", "x2")), reason=st.just("no")),
    st.builds(LimitRaised, max_cost=st.sampled_from((2.0, 3.0)), by=st.just("maria")),
    st.builds(
        ApprovalExtended, approval_id=st.just("ap"), call_id=CALLS, until=st.just(NOON), by=st.just("jo")
    ),
    st.just(SessionStatus(status="running")),
)
MOVES = st.lists(
    st.tuples(
        st.sampled_from(("s1", "s2", "child")),
        st.lists(BODIES, min_size=1, max_size=5),
        st.sampled_from(("on", "on", "on", "reopen", "fail")),
    ),
    max_size=14,
)


class TestLaw:
    @pytest.mark.slow
    @settings(max_examples=examples(60), deadline=None)
    @given(MOVES)
    def test_table_equals_lines_of_events(
        self, tmp_path_factory: pytest.TempPathFactory, moves: list[tuple[str, list[EventBody], str]]
    ) -> None:
        """The table equals the lines of the events after any writes, reopenings and failed writes."""
        path = tmp_path_factory.mktemp("law") / "j.db"
        journal = Journal.open(path)
        journal.write("s1", opening(NET))
        journal.write("s2", opening(NET, mode="shadow", agent="night"))
        journal.write("child", opening(kind="child", parent="s1"))
        for session, bodies, then in moves:
            if then == "fail" and not isinstance(journal.path, Path):
                continue  # failed writes of a database are tested with its writer
            if then == "fail":
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(Writer, "_check_in_place", refuse)
                    with pytest.raises(JournalError):
                        journal.write(session, *bodies)
                continue
            journal.write(session, *bodies)
            if then == "reopen":
                journal.close()
                journal = Journal.open(path)
        journal.close()
        lines = lines_from_events(path)
        assert stored(path) == lines
        with closing(raw_database(path)) as connection:
            connection.execute("UPDATE decision SET verdict = 'allow', result = NULL")
            assert rebuild_decisions(connection) == len(lines)
            connection.commit()
        assert stored(path) == lines


def refuse(_writer: Writer) -> None:
    raise sqlite3.OperationalError("the disk is full")


class TestVerdicts:
    @pytest.mark.parametrize(
        ("fields", "verdict"),
        [
            ({}, "allow"),
            ({"outcome": "block"}, "block"),
            ({"approved_by": ("maria",)}, "approved"),
            ({"mode": "shadow"}, "allow"),
            ({"mode": "shadow", "outcome": "block"}, "would-block"),
            ({"mode": "shadow", "outcome": "ask"}, "would-ask"),
        ],
    )
    def test_decision_when_enforced_would_be_in_shadow(
        self, fields: dict[str, object], verdict: str
    ) -> None:
        """G-26: the verdict is a decision in enforce mode and a would-be decision in shadow mode."""
        assert only_line(decided("c1", "test", **fields)).verdict == verdict

    def test_denied_block_names_approver_and_rule(self) -> None:
        """A block after a denial is listed as `denied`, with the approver and the rule that asked."""
        line = only_line(
            request("ap", "c1", "deploy"),
            answer("ap", "c1", approved=False),
            decided("c1", "deploy", outcome="block", net="approve-before-deploy", rule=RULE),
        )
        assert (line.verdict, line.by, line.net) == ("denied", "maria", "approve-before-deploy")

    def test_approval_names_the_requesting_net(self) -> None:
        """The line has net and rule of the request, because the decision itself names no net."""
        line = only_line(
            request("ap", "c1", "deploy"),
            answer("ap", "c1"),
            decided("c1", "deploy", approved_by=("maria",)),
        )
        assert (line.verdict, line.by, line.net) == ("approved", "maria", "approve-before-deploy")
        assert (line.rule, line.place) == (RULE.text, RULE.where)

    def test_withdrawn_request_does_not_affect_next_decision(self) -> None:
        """An answer from before a withdrawal or a resumption does not affect the next decision."""
        for between in (
            ApprovalWithdrawn(approval_id="ap", call_id="c1", reason="gone"),
            SessionResumed(agent="bot", model="m", mode="enforce"),
        ):
            asked = (request("ap", "c1", "deploy"), answer("ap", "c1", approved=False), between)
            *_, line = decisions_of(
                recorded(opening(NET), *asked, decided("c1", "deploy", outcome="block"))
            )
            assert (line.verdict, line.by) == ("block", None)

    def test_allowed_call_names_first_net_that_fired(self) -> None:
        """An allowed call's line has the first net that fired."""
        assert (
            only_line(decided("c1", "test", step(NET, "do-test", "test", deferred=True))).net == NET.name
        )


class TestResults:
    @pytest.mark.parametrize(
        ("fields", "ended"),
        [({}, "done"), ({"is_error": True}, "failed"), ({"is_error": True, "unknown": True}, "unknown")],
    )
    def test_result_is_set_on_the_allowing_decision(self, fields: dict[str, object], ended: str) -> None:
        """The result of a call is set on the decision that allowed it."""
        assert only_line(decided("c1", "test"), result("c1", "test", **fields)).result == ended

    def test_blocked_call_has_no_result(self) -> None:
        """A blocked call has no result, even if its id is that of a call that ran."""
        first, second = decisions_of(
            recorded(
                opening(),
                decided("c1", "test"),
                decided("c1", "test", outcome="block"),
                result("c1", "test"),
            )
        )
        assert (first.result, second.result) == ("done", None)

    def test_result_naming_another_tool_is_not_set(self) -> None:
        """G-53: a result that names another tool is not set on the call."""
        assert only_line(decided("c1", "test"), result("c1", "test", anomaly="rm")).result is None


class TestSubagents:
    def test_call_has_one_line_in_the_parents_record(self, tmp_path: Path) -> None:
        """A subagent's call, in two records, has one line: the parent's, with the subagent as `via`."""
        path = tmp_path / "j.db"
        with Journal.open(path) as journal:
            journal.write("parent", opening(NET))
            journal.write("child", opening(kind="child", parent="parent"))
            journal.write("parent", decided("child/c1", "test", via="child"))
            journal.write("child", decided("c1", "test"))
            journal.write("child", result("c1", "test"))
            journal.write("parent", result("child/c1", "test"))
        (line,) = stored(path)
        assert (line.session, line.via, line.call_id, line.result) == (
            "parent",
            "child",
            "child/c1",
            "done",
        )


class TestHeads:
    def test_shell_command_is_shown_without_json(self) -> None:
        """A shell command is shown without JSON around it."""
        assert input_head({"command": "rm -rf x"}) == "rm -rf x"
        assert input_head({"path": "a b", "n": 3}) == 'path="a b" n=3'
        assert input_head({}) == ""

    def test_long_and_strange_inputs_are_cut(self) -> None:
        """A long input is cut to `HEAD` characters, and NUL, which would end an SQL text, is replaced."""
        assert input_head({"command": "x" * 1_000_000}) == "x" * HEAD
        assert len(input_head({f"{n}": "y" * 100 for n in range(1000)})) == HEAD
        assert input_head({"command": "a\0b"}) == "a␀b"

    @given(st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=9), st.integers(0, 250))
    def test_secrets_can_be_masked(self, secret: str, before: int) -> None:
        """A secret under a telling name is masked in the head, however long the text before it is."""
        value = f"zq{secret}"
        for values in ({"password": value}, {"text": "-" * before, "password": value, "n": 1}):
            assert "zq" not in Redaction().text(input_head(values))


class TestRecorded:
    @pytest.mark.sqlite("a file of an earlier release")
    def test_lines_of_an_earlier_release_equal_their_events(self, tmp_path: Path) -> None:
        """The stored lines of an earlier release equal those that its events give."""
        path = tmp_path / "earlier.db"
        with closing(raw_database(path)) as connection:
            connection.executescript(DUMP.read_text())
        Journal.open(path).close()
        lines = stored(path)
        assert lines
        assert lines == lines_from_events(path)


class TestRemoval:
    def test_pruning_removes_lines_of_the_session(self, tmp_path: Path) -> None:
        """Pruning a session removes its lines from the list."""
        path = tmp_path / "j.db"
        with Journal.open(path) as journal:
            for session in ("s1", "s2"):
                journal.write(session, opening(NET), decided("c1", "test"))
        with closing(raw_database(path)) as connection:
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("DELETE FROM event WHERE session = 's1'")
            connection.execute("DELETE FROM session WHERE id = 's1'")
            connection.commit()
        assert [line.session for line in stored(path)] == ["s2"]

    def test_one_sessions_lines_can_be_rebuilt(self, tmp_path: Path) -> None:
        """Rebuilding one session's lines restores them and leaves the others unchanged."""
        path = tmp_path / "j.db"
        with Journal.open(path) as journal:
            for session in ("s1", "s2"):
                journal.write(session, opening(NET), decided("c1", "test"), result("c1", "test"))
        lines = stored(path)
        with closing(raw_database(path)) as connection:
            connection.execute("DELETE FROM decision WHERE session = 's1'")
            assert rebuild_decisions(connection, "s1") == 1
            connection.commit()
        assert stored(path) == lines


class TestOtherEvents:
    def test_make_no_line(self) -> None:
        """Events other than decisions have no line."""
        assert decisions_of(recorded(opening(), SessionStatus(status="running"), _stray())) == []


def _stray() -> CallResult:
    return result("c9", "test")
