"""Derived data is rebuilt from the events alone."""

from __future__ import annotations

import itertools
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine.history.audit.importing import import_session, read_export
from interlock.engine.history.audit.verify import check_file
from interlock.engine.history.database.compiled import SessionRow
from interlock.engine.history.errors import JournalError
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.journal.maintenance import Rebuilt, index_mismatches, rebuild
from tests.support.copies import copied
from tests.support.laws import examples

from ..fold.test_laws import MOVES, Move, events_of
from ..support.keeping import BODIES, DAY, NOW, contents, exported, recorded_at, saved, tamper, verdicts
from ..support.recording import opening

COLUMNS = [each.name for each in fields(SessionRow)]
SOURCE = {"file": "agent.toml", "ä": [1.0, 1e100, 12345678901234567890, None, {"b": 1, "a": 2}]}


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A journal with three sessions, one of them the child of another."""
    return copied(write_two, tmp_path / "journal.db")


def write_two(path: Path) -> None:
    recorded_at(path, NOW, "s1", opening(source=SOURCE), *BODIES[1:2])
    recorded_at(path, NOW + DAY, "s2")
    recorded_at(path, NOW + DAY, "s3", opening(kind="child", parent="s1", parent_seq=2))


class TestMended:
    @pytest.mark.parametrize("column", COLUMNS[1:-1])
    @pytest.mark.parametrize("value", ["'other'", "7", "x'00'", "9.5"])
    def test_changed_column_is_restored(self, database: Path, column: str, value: str) -> None:
        """A changed column of a session's line is restored from the events."""
        before = contents(database)
        tamper(database, f"UPDATE session SET {column} = {value} WHERE id = 's1'")
        assert contents(database) != before
        assert list(index_mismatches(database)) == ["s1"]
        assert list(index_mismatches(database, {"s1"})) == []
        assert rebuild(database) == Rebuilt(3, ("s1",))
        assert contents(database) == before
        assert verdicts(database)["s1"].fault is None

    @pytest.mark.parametrize("column", ["error", "parent", "parent_seq", "source"])
    def test_missing_values_are_restored(self, database: Path, column: str) -> None:
        """Missing values of a line are restored, and wrong ones removed."""
        before = contents(database)
        tamper(database, f"UPDATE session SET {column} = NULL, error = 'x'")
        rebuild(database)
        assert contents(database) == before

    def test_missing_line_is_restored(self, database: Path) -> None:
        """A removed line is restored, and its session can be found again."""
        before = contents(database)
        tamper(database, "DELETE FROM session WHERE id = 's2'")
        assert verdicts(database)["s2"].fault is not None
        assert rebuild(database) == Rebuilt(3, ("s2",))
        assert contents(database) == before
        assert verdicts(database)["s2"].fault is None

    def test_line_without_events_stays_reported(self, database: Path) -> None:
        """A line whose events were removed stays, and verification still reports them."""
        tamper(database, "DELETE FROM event WHERE session = 's2'")
        assert rebuild(database).mended == ()
        fault = verdicts(database)["s2"].fault
        assert fault is not None
        assert fault.kind == "removed"

    def test_missing_events_stay_reported(self, database: Path) -> None:
        """A rebuilt line with fewer events does not hide that events are missing."""
        tamper(database, "DELETE FROM event WHERE session = 's2' AND seq > 8")
        rebuild(database)
        assert check_file(database).missing == 2

    @pytest.mark.parametrize(
        "change",
        [
            "DELETE FROM decision",
            "UPDATE decision SET verdict = 'block'",
            'UPDATE decision SET "by" = NULL',
            "UPDATE decision SET session = 's1'",
            "INSERT INTO decision SELECT 99, session, 1, at, agent, call_id, tool, called, input, mode, "
            'verdict, net, rule, place, "by", via, result, kind, "off" FROM decision',
            "UPDATE decision SET session = 'gone'",
            "INSERT INTO decision SELECT 99, 'gone', 1, at, agent, call_id, tool, called, input, mode, "
            'verdict, net, rule, place, "by", via, result, kind, "off" FROM decision',
        ],
    )
    def test_list_of_decisions_is_rebuilt(self, database: Path, change: str) -> None:
        """The list of decisions is rebuilt as well."""
        before = contents(database)
        assert len(before["decision"]) == 1
        tamper(database, change)
        assert contents(database) != before
        assert rebuild(database) == Rebuilt(3, (), decisions=True)
        assert contents(database) == before


class TestImported:
    def test_import_mark_is_kept(self, database: Path, tmp_path: Path) -> None:
        """The mark of an imported session follows from no event and is kept."""
        source = tmp_path / "source.db"
        recorded_at(source, NOW, "far")
        import_session(
            read_export(saved(tmp_path / "far.jsonl", exported(source, "far"))),
            database,
            database.with_suffix(".pem"),
        )
        before = contents(database)
        assert rebuild(database) == Rebuilt(4, ())
        assert contents(database) == before
        tamper(database, "UPDATE session SET agent = 'x' WHERE id = 'far'")
        assert rebuild(database).mended == ("far",)
        assert contents(database) == before

    def test_other_mark_values_become_0_or_1(self, database: Path) -> None:
        """Any other value of the mark becomes 0 or 1."""
        tamper(database, "UPDATE session SET imported = 7 WHERE id = 's2'")
        assert rebuild(database).mended == ("s2",)
        assert {row[0]: row[-1] for row in contents(database)["session"]} == {"s1": 0, "s2": 1, "s3": 0}


class TestRefused:
    def test_unreadable_event(self, database: Path) -> None:
        """An unreadable event is reported, and nothing changes."""
        tamper(
            database,
            "UPDATE session SET agent = 'x' WHERE id = 's1'",
            "UPDATE event SET body = '{}' WHERE session = 's2' AND seq = 4",
        )
        before = contents(database)
        with pytest.raises(JournalError, match="event 4 of session 's2' cannot be read"):
            rebuild(database)
        assert contents(database) == before

    def test_session_without_opening_event(self, database: Path) -> None:
        """A session without its opening event cannot be rebuilt, and nothing changes."""
        tamper(database, "DELETE FROM event WHERE session = 's2' AND seq = 1")
        before = contents(database)
        with pytest.raises(JournalError, match=r"'s2' .* cannot be rebuilt.*Nothing was changed"):
            rebuild(database)
        assert contents(database) == before

    @pytest.mark.sqlite("servers go on with a database")
    def test_while_a_console_runs(self, database: Path) -> None:
        """The process that writes the journal is named."""
        with Journal.open(database), pytest.raises(JournalError, match="is in use by process"):
            rebuild(database)


class TestUntouched:
    @pytest.mark.slow
    def test_every_line_equals_its_events(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        """LAW: in an untouched journal every line equals what its events give."""
        path = tmp_path_factory.mktemp("law") / "journal.db"
        numbers = itertools.count()

        @settings(max_examples=examples(40), deadline=None)
        @given(
            MOVES,
            st.none() | st.dictionaries(st.text(max_size=4), st.integers() | st.floats() | st.text()),
        )
        def law(moves: list[Move], source: dict[str, object] | None) -> None:
            opened, *rest = (event.body for event in events_of(moves))
            with Journal.open(path) as journal:
                journal.write(f"s{next(numbers)}", opened.model_copy(update={"source": source}), *rest)
            before = contents(path)
            assert list(index_mismatches(path)) == []
            done = rebuild(path)
            assert (done.mended, done.decisions) == ((), False)
            assert contents(path) == before

        law()
