"""The chain of a journal: any tampering with the file is reported."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine.history.audit.verify import ChainCheck, check_file, verify_journal
from interlock.engine.history.journal.journal import Journal, JournalError
from interlock.engine.history.model.events import CallResult, MessageAdded, SessionStatus
from tests.support.laws import examples
from tests.support.raw_database import raw_database

from ..support.recording import opening

DUMP = Path(__file__).parents[3] / "data" / "journal_0006.sql"
EVENTS = 9


def said(number: int) -> MessageAdded:
    return MessageAdded(role="user", text=f"word {number}", by="operator")


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A closed journal with two sessions of nine events that were recorded interleaved."""
    path = tmp_path / "journal.db"
    with Journal.open(path) as journal:
        for session in ("s1", "s2"):
            journal.write(session, opening())
        for number in range(2, EVENTS + 1):
            for session in ("s1", "s2"):
                journal.write(session, said(number))
    return path


def tamper(path: Path, *statements: str) -> None:
    """Change the file like an attacker who has access to it."""
    with closing(raw_database(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def checks_by_session(path: Path) -> dict[str, ChainCheck]:
    return {check.session: check for check in verify_journal(path)}


def renumber(session: str, first: int, by: int) -> list[str]:
    """Return statements that shift the numbers of all events from `first` on."""
    here = f"session = '{session}'"
    return [
        f"UPDATE event SET seq = -(seq + {by}) WHERE {here} AND seq >= {first}",
        f"UPDATE event SET seq = -seq WHERE {here} AND seq < 0",
        f"UPDATE session SET events = events + {by} WHERE id = '{session}'",
    ]


def move(session: str, order: list[int]) -> list[str]:
    """Return statements that renumber the events of a session in the given `order`."""
    here = f"session = '{session}'"
    cases = " ".join(f"WHEN {old} THEN -{new}" for new, old in enumerate(order, 1))
    return [
        f"UPDATE event SET seq = CASE seq {cases} END WHERE {here}",
        f"UPDATE event SET seq = -seq WHERE {here}",
    ]


class TestWhole:
    def test_untouched_journal_verifies(self, database: Path) -> None:
        """An untouched journal verifies, and its heads are the last hashes."""
        checks = checks_by_session(database)
        assert {s: (c.events, c.masked, c.fault) for s, c in checks.items()} == {
            "s1": (EVENTS, 0, None),
            "s2": (EVENTS, 0, None),
        }
        with closing(raw_database(database)) as connection:
            last = connection.execute("SELECT session, hash FROM event WHERE seq = ?", (EVENTS,))
            assert dict(last.fetchall()) == {s: c.head for s, c in checks.items()}
        assert check_file(database).missing == 0

    def test_reopened_journal_continues_the_chain(self, database: Path) -> None:
        """A later process continues the chain where the earlier one ended."""
        with Journal.open(database) as journal:
            journal.write("s1", SessionStatus(status="running"), SessionStatus(status="done"))
        checks = checks_by_session(database)
        assert [(c.events, c.fault) for c in checks.values()] == [(EVENTS + 2, None), (EVENTS, None)]

    @pytest.mark.sqlite("its file is moved away")
    def test_refused_write_leaves_chain_intact(self, database: Path) -> None:
        """A failed write does not affect the chain."""
        with Journal.open(database) as journal:
            moved = database.with_name("moved.db")
            database.rename(moved)
            with pytest.raises(JournalError):
                journal.write("s1", said(10))
            moved.rename(database)
            journal.write("s1", said(10))
        assert checks_by_session(database)["s1"].fault is None

    def test_equal_events_have_different_hashes(self, database: Path) -> None:
        """Equal contents have different hashes, because each content has its own salt."""
        with closing(raw_database(database)) as connection:
            rows = connection.execute("SELECT salt, hash FROM event").fetchall()
        assert len({salt for salt, _ in rows}) == len({own for _, own in rows}) == 2 * EVENTS

    @pytest.mark.sqlite("a file of an earlier release")
    def test_a_journal_of_an_earlier_release(self, tmp_path: Path) -> None:
        """A journal of an earlier release has an intact chain before and after a writer opens it."""
        path = tmp_path / "earlier.db"
        with closing(raw_database(path)) as connection:
            connection.executescript(DUMP.read_text())
        before = list(verify_journal(path))
        Journal.open(path).close()
        assert list(verify_journal(path)) == before
        checks = checks_by_session(path)
        assert len(checks) == 3
        assert all(c.fault is None and c.events for c in checks.values())
        assert check_file(path).missing == 0

    def test_missing_file_is_reported_as_missing(self, tmp_path: Path) -> None:
        """A missing file is reported as missing, not as valid."""
        with pytest.raises(JournalError, match="no journal"):
            list(verify_journal(tmp_path / "none.db"))


class TestTampering:
    @pytest.mark.variants
    @pytest.mark.parametrize(
        "change",
        [
            "body = replace(body, 'word', 'Word')",
            "body = replace(body, 'operator', 'somebody')",
            "body = json_set(body, '$.extra', 1)",
            "body = json_remove(body, '$.by')",
            """body = '{"text":"no",' || substr(body, 2)""",
            """body = '{"by": "no", ' || substr(body, 2)""",
            "body = '{}'",
            "body = '[]'",
            "body = 'no json'",
            "body = x'00'",
            "body = CAST(x'7b22ff227d' AS TEXT)",
            "at = at + 1",
            "at = 9e18",
            "at = 'noon'",
            "type = 'step'",
            "salt = randomblob(16)",
            "salt = NULL",
            "salt = NULL, content = randomblob(32)",
            "hash = randomblob(32)",
            "hash = x''",
        ],
    )
    def test_changed_event_is_named(self, database: Path, change: str) -> None:
        """A changed event is named, and only its own session has a fault."""
        tamper(database, f"UPDATE event SET {change} WHERE session = 's1' AND seq = 5")
        checks = checks_by_session(database)
        fault = checks["s1"].fault
        assert fault is not None
        assert (fault.seq, fault.kind) == (5, "changed")
        assert fault.message.startswith("event 5 (")
        assert checks["s1"].events == 4
        assert checks["s2"].fault is None

    def test_digits_of_long_integers_are_covered(self, database: Path) -> None:
        """The hash covers every digit of a long integer."""
        with Journal.open(database) as journal:
            result = CallResult(call_id="c", tool="t", output="12345678901234567890", is_error=False)
            journal.write("s1", result)
        tamper(
            database,
            "UPDATE event SET body = replace(body, '67890', '67891') WHERE session = 's1' AND seq = 10",
        )
        fault = checks_by_session(database)["s1"].fault
        assert fault is not None
        assert (fault.seq, fault.kind) == (10, "changed")

    def test_equal_json_in_other_form_is_no_change(self, database: Path) -> None:
        """Different spaces, escapes and member order in the JSON are not reported as changes."""
        with closing(raw_database(database)) as connection:
            rows = connection.execute("SELECT cursor, body FROM event").fetchall()
            for cursor, body in rows:
                value = dict(reversed(json.loads(body).items()))
                text = json.dumps(value, indent=2, ensure_ascii=True)
                connection.execute("UPDATE event SET body = ? WHERE cursor = ?", (text, cursor))
            connection.commit()
        assert all(c.fault is None for c in checks_by_session(database).values())

    @pytest.mark.parametrize(
        ("statements", "seq", "kind", "message"),
        [
            (["DELETE FROM event WHERE session = 's1' AND seq = 4"], 4, "removed", "event 4 was removed"),
            (
                ["DELETE FROM event WHERE session = 's1' AND seq IN (4, 5)"],
                4,
                "removed",
                "events 4 to 5 were removed",
            ),
            (
                ["DELETE FROM event WHERE session = 's1' AND seq = 4", *renumber("s1", 5, -1)],
                4,
                "removed",
                "event 4 was removed, and the rest renumbered",
            ),
            (
                ["DELETE FROM event WHERE session = 's1' AND seq > 6"],
                7,
                "removed",
                "3 events at the end were removed",
            ),
            (
                ["DELETE FROM event WHERE session = 's1'"],
                1,
                "removed",
                "9 events at the end were removed",
            ),
            (
                [
                    *renumber("s1", 4, 1),
                    "INSERT INTO event (cursor, session, seq, at, type, body, salt, hash) "
                    "SELECT 99, session, 4, at, type, body, salt, hash FROM event "
                    "WHERE session = 's1' AND seq = 3",
                ],
                4,
                "inserted",
                "event 4 was inserted",
            ),
            (
                [
                    "INSERT INTO event (cursor, session, seq, at, type, body, salt, hash) "
                    "SELECT 99, session, 10, at, type, body, salt, hash FROM event "
                    "WHERE session = 's1' AND seq = 9",
                ],
                10,
                "changed",
                "event 10 (message) was changed",
            ),
            (move("s1", [1, 2, 4, 3, 5, 6, 7, 8, 9]), 3, "reordered", "event 3 is 1 place later"),
            (move("s1", [1, 2, 4, 5, 6, 3, 7, 8, 9]), 3, "reordered", "event 3 is 3 places later"),
            (move("s1", [1, 2, 6, 3, 4, 5, 7, 8, 9]), 3, "reordered", "event 6 is 3 places earlier"),
            (move("s1", [1, 2, 3, 4, 5, 6, 7, 9, 8]), 8, "reordered", "event 8 is 1 place later"),
            (
                ["PRAGMA foreign_keys = OFF", "DELETE FROM session WHERE id = 's1'"],
                1,
                "removed",
                "the session's own line was removed",
            ),
        ],
    )
    def test_removed_inserted_and_moved_events_are_named(
        self, database: Path, statements: list[str], seq: int, kind: str, message: str
    ) -> None:
        """Removed, inserted and moved events are reported with kind and number."""
        tamper(database, *statements)
        checks = checks_by_session(database)
        fault = checks["s1"].fault
        assert fault is not None
        assert (fault.seq, fault.kind, fault.message) == (seq, kind, message)
        assert checks["s2"].fault is None

    def test_an_event_of_another_session(self, database: Path) -> None:
        """An event copied from another session with the same number is detected."""
        tamper(
            database,
            "UPDATE event SET (body, salt, hash, at) = (SELECT body, salt, hash, at FROM event AS other "
            "WHERE other.session = 's2' AND other.seq = 5) WHERE session = 's1' AND seq = 5",
        )
        fault = checks_by_session(database)["s1"].fault
        assert fault is not None
        assert (fault.seq, fault.kind) == (5, "changed")

    @pytest.mark.sqlite("a lower number is of another lane in a database")
    def test_moved_in_the_file(self, database: Path) -> None:
        """An event that was moved within the file is reported, although its number is unchanged."""
        tamper(
            database,
            "UPDATE event SET cursor = -1 WHERE session = 's1' AND seq = 5",
            "UPDATE event SET cursor = (SELECT cursor FROM event WHERE session = 's2' AND seq = 2) "
            "- 1000 WHERE cursor = -1",
        )
        checks = checks_by_session(database)
        fault = checks["s1"].fault
        assert fault is not None
        assert (fault.seq, fault.kind) == (5, "reordered")
        assert fault.message == "event 5 was moved before event 4 in the file"
        assert checks["s2"].fault is None

    def test_removed_session_leaves_a_gap(self, database: Path) -> None:
        """A session that was removed with its line leaves a gap in the file's numbers."""
        tamper(database, "DELETE FROM event WHERE session = 's1'", "DELETE FROM session WHERE id = 's1'")
        assert [c.fault for c in verify_journal(database)] == [None]
        assert check_file(database).missing == EVENTS

    @pytest.mark.slow
    @settings(max_examples=examples(30), deadline=None)
    @given(data=st.data())
    def test_any_changed_byte_is_detected(
        self, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
    ) -> None:
        """Any replaced character in any body is detected, unless the JSON value stays equal."""
        path = tmp_path_factory.mktemp("any") / "journal.db"
        with Journal.open(path) as journal:
            journal.write("s", opening(), *(said(n) for n in range(4)))
        seq = data.draw(st.integers(1, 5))
        with closing(raw_database(path)) as connection:
            (body,) = connection.execute("SELECT body FROM event WHERE seq = ?", (seq,)).fetchone()
            at = data.draw(st.integers(0, len(body) - 1))
            new = data.draw(st.characters(codec="utf-8", exclude_categories=["Zs", "Cc"]))
            changed = body[:at] + new + body[at + 1 :]
            connection.execute("UPDATE event SET body = ? WHERE seq = ?", (changed, seq))
            connection.commit()
        fault = next(verify_journal(path)).fault
        assert (fault is None) == _same(body, changed)
        assert fault is None or (fault.seq, fault.kind) == (seq, "changed")


def _same(body: str, other: str) -> bool:
    load: Callable[[str], object] = json.loads
    try:
        return load(body) == load(other)
    except ValueError:
        return False
