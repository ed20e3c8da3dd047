"""Pruning: old sessions are removed permanently, a signed stub remains, all else is unchanged."""

from __future__ import annotations

import errno
import os
import resource
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from interlock.engine.history.audit.prune import Pruning, prune, stubs
from interlock.engine.history.audit.signing import Signer, fingerprint, public_key
from interlock.engine.history.audit.verify import check_file
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.journal.journal import Journal, JournalError
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import MessageAdded, SessionStatus
from interlock.engine.history.model.times import to_ms
from tests.support.copies import copied
from tests.support.raw_database import raw_database

from ..support.keeping import (
    BODIES,
    DAY,
    NOW,
    SECRET,
    contents,
    files,
    recorded_at,
    rows,
    tamper,
    verdicts,
)
from ..support.recording import opening
from .test_stream import drained, stream

DUMP = Path(__file__).parents[3] / "data" / "journal_0006.sql"
LARGE = MessageAdded(role="user", text="word " * 40_000)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A journal with three sessions: ten days old, one day old, and of today."""
    return copied(write_three, tmp_path / "journal.db")


def write_three(path: Path) -> None:
    recorded_at(path, NOW - 10 * DAY, "old", *BODIES, LARGE)
    recorded_at(path, NOW - DAY, "late", opening(), MessageAdded(role="user", text="kept"))
    recorded_at(path, NOW, "new", opening(), MessageAdded(role="user", text="kept"))


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return tmp_path / "config" / "journal-key.pem"


def pruned(
    path: Path,
    key: Path,
    *,
    before: datetime = NOW - 5 * DAY,
    dry: bool = False,
    even_unsent: bool = False,
) -> Pruning:
    return prune(
        path,
        before=to_ms(before),
        by="maria",
        at=to_ms(NOW),
        key=key,
        dry=dry,
        even_unsent=even_unsent,
    )


def ids(path: Path) -> set[str]:
    return {session.id for session in open_reader(path).sessions()}


class TestNames:
    @pytest.mark.sqlite("a database")
    def test_agent_name_with_nul_can_be_pruned(self, postgresql: PostgresLocation, key: Path) -> None:
        """A session whose agent's name has NUL, unlike its line in the list, can be pruned."""
        recorded_at(postgresql, NOW - 10 * DAY, "old", opening(agent="a\0b"))
        found = prune(
            postgresql, before=to_ms(NOW - 5 * DAY), by="maria", at=to_ms(NOW), key=key, dry=False
        )
        assert ([each.session for each in found.pruned], found.kept) == (["old"], ())
        assert [each.good for each in stubs(postgresql)] == [True]


@pytest.mark.sqlite("positions are in files")
class TestUnsent:
    def test_session_is_kept_until_sent(self, database: Path, key: Path) -> None:
        """A session that a stream has yet to send is kept and named; after sending it is pruned."""
        sent = stream(database, "a")
        drained(stream(database, "b"))
        page = sent.events(5)
        sent.note(page)
        for dry in (True, False):
            assert pruned(database, key, dry=dry) == Pruning((), (), unsent={"old": ["a"]})
        assert not key.exists()
        assert ids(database) == {"old", "late", "new"}
        drained(sent)
        assert [each.session for each in pruned(database, key).pruned] == ["old"]

    def test_later_stream_keeps_no_older_session(self, database: Path, key: Path) -> None:
        """A stream that began later does not hold back older sessions."""
        stream(database, begin="now")
        assert [each.session for each in pruned(database, key).pruned] == ["old"]

    def test_override_prunes_unsent_session(self, database: Path, key: Path) -> None:
        """With the override the session is pruned, and the stream continues after it."""
        sent = stream(database)
        found = pruned(database, key, even_unsent=True)
        assert ([each.session for each in found.pruned], found.unsent) == (["old"], {})
        assert {each.event.place.session for each in drained(sent)} == {"late", "new"}

    def test_damaged_position_counts_as_nothing_sent(self, database: Path, key: Path) -> None:
        """A damaged position counts as if nothing had been sent."""
        drained(stream(database))
        database.with_name(f"{database.name}.stream-s").write_text("{")
        assert pruned(database, key).unsent == {"old": ["s"]}


class TestAge:
    def test_session_exactly_at_the_boundary_stays(self, database: Path, key: Path) -> None:
        """A session last changed exactly at the boundary stays; one a millisecond older is pruned."""
        moment = NOW - DAY
        pruned(database, key, before=moment)
        assert ids(database) == {"late", "new"}
        pruned(database, key, before=moment.replace(microsecond=1000))
        assert ids(database) == {"new"}

    def test_last_event_determines_the_age(self, database: Path, key: Path) -> None:
        """An old session with a recent event does not count as old."""
        recorded_at(database, NOW, "old", SessionStatus(status="done"))
        assert pruned(database, key) == Pruning((), ())
        assert ids(database) == {"old", "late", "new"}

    @pytest.mark.sqlite("what is in its files")
    def test_without_old_sessions_nothing_changes(self, database: Path, key: Path) -> None:
        """If no session is old, nothing changes and no key is made."""
        before = contents(database), database.read_bytes()
        assert pruned(database, key, before=NOW - 20 * DAY) == Pruning((), ())
        assert (contents(database), database.read_bytes()) == before
        assert not key.exists()

    def test_session_with_changed_line_is_not_removed(self, database: Path, key: Path) -> None:
        """A session whose line was changed is neither removed nor given a signed stub."""
        long_ago = to_ms(NOW - 100 * DAY)
        tamper(database, f"UPDATE session SET updated = {long_ago} WHERE id = 'new'")
        tamper(database, "UPDATE session SET agent = 'nobody' WHERE id = 'old'")
        done = pruned(database, key)
        assert done.pruned == ()
        assert {check.session for check in done.kept} == {"old", "new"}
        assert all(c.fault and "history rebuild" in c.fault.message for c in done.kept)
        assert ids(database) == {"old", "late", "new"}


class TestDryRun:
    @pytest.mark.sqlite("what is in its files")
    def test_changes_nothing(self, database: Path, key: Path) -> None:
        """A dry run lists what would be pruned, but changes no byte of the journal and makes no key."""
        before = database.read_bytes()
        done = pruned(database, key, dry=True)
        assert [stub.session for stub in done.pruned] == ["old"]
        assert database.read_bytes() == before
        assert not database.with_name(f"{database.name}-wal").read_bytes()
        assert not key.exists()
        assert pruned(database, key).pruned == done.pruned

    @pytest.mark.sqlite("what is in its files")
    def test_leaves_events_in_write_ahead_log(self, database: Path, key: Path) -> None:
        """A dry run sees events in another process's write-ahead log and leaves them there."""
        with Journal.open(database, clock=lambda: NOW) as journal:
            journal.write("new", SessionStatus(status="running"))
            before = list(files(database))[:2]
            assert [stub.session for stub in pruned(database, key, dry=True).pruned] == ["old"]
            assert list(files(database))[:2] == before

    @pytest.mark.sqlite("a file of an earlier release")
    def test_pre_release_journal_is_refused_unchanged(self, tmp_path: Path, key: Path) -> None:
        """A journal from before the first release is refused and stays unchanged byte for byte."""
        path = tmp_path / "older.db"
        with closing(raw_database(path)) as connection:
            connection.executescript(DUMP.read_text())
            connection.execute("UPDATE alembic_version SET version_num = '0005'")
            connection.commit()
        before = path.read_bytes()
        with pytest.raises(JournalError, match="before the first release"):
            pruned(path, key, before=NOW, dry=True)
        assert path.read_bytes() == before
        assert sorted(p.name for p in tmp_path.iterdir()) == ["older.db"]


class TestGone:
    @pytest.mark.sqlite("what is in its files")
    def test_files_keep_no_byte_of_content(self, database: Path, key: Path) -> None:
        """The journal's files, which shrink, have no byte of a pruned session's content left."""
        assert any(SECRET.encode() in data for data in files(database))
        size = database.stat().st_size
        pruned(database, key)
        assert not any(SECRET.encode() in data for data in files(database))
        assert not any(b"word word" in data for data in files(database))
        assert database.stat().st_size < size - 100_000

    def test_events_line_and_decisions_are_removed(self, database: Path, key: Path) -> None:
        """A pruned session's events, line and decisions are removed; other sessions are unchanged."""
        before = contents(database)
        assert rows(database, "SELECT DISTINCT session FROM decision") == [("old",)]
        pruned(database, key)
        after = contents(database)
        assert after["decision"] == []
        for table, at in (("session", 0), ("event", 1)):
            assert after[table] == [row for row in before[table] if row[at] != "old"]
        assert after["numbers"] == before["numbers"]

    @pytest.mark.slow
    @pytest.mark.sqlite("what is in its files")
    def test_write_ahead_log_is_cleared_as_well(self, database: Path, key: Path) -> None:
        """Events that exist only in the write-ahead log are removed as well."""
        died = """
import os, sys
from datetime import UTC, datetime
from pathlib import Path
from interlock.engine.history.model.events import MessageAdded
from interlock.engine.history.journal.journal import Journal
from tests.engine.history.support.recording import opening
when = datetime(2026, 1, 1, tzinfo=UTC)
journal = Journal.open(Path(sys.argv[1]), clock=lambda: when)
journal.write("died", opening(), MessageAdded(role="user", text=sys.argv[2]))
os._exit(0)
"""
        subprocess.run([sys.executable, "-c", died, str(database), "only-in-the-log"], check=True)
        assert b"only-in-the-log" in database.with_name(f"{database.name}-wal").read_bytes()
        assert {stub.session for stub in pruned(database, key).pruned} == {"old", "died"}
        assert not any(b"only-in-the-log" in data for data in files(database))

    @pytest.mark.sqlite("what is in its files")
    def test_idle_connection_does_not_delay_removal(self, database: Path, key: Path) -> None:
        """An open connection without an active read does not delay the removal."""
        with closing(raw_database(database)) as reader:
            reader.execute("SELECT count(*) FROM event").fetchall()
            assert not pruned(database, key).lingers
            assert not any(SECRET.encode() in data for data in files(database))

    @pytest.mark.slow
    @pytest.mark.sqlite("what is in its files")
    def test_active_reader_delays_removal(self, database: Path, key: Path) -> None:
        """An active reader delays the removal, which is reported and completed after the read ends."""
        with closing(sqlite3.connect(database, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM event").fetchall()
            assert pruned(database, key).lingers
            assert any(SECRET.encode() in data for data in files(database))
        Journal.open(database).close()
        assert not any(SECRET.encode() in data for data in files(database))

    @pytest.mark.slow
    @pytest.mark.sqlite("what is in its files")
    def test_content_is_overwritten_if_file_cannot_shrink(self, database: Path, key: Path) -> None:
        """If the file cannot be shrunk, removed content is overwritten nonetheless."""
        recorded_at(database, NOW, "large", opening(), *[LARGE] * 8)
        size = database.stat().st_size
        code = (
            "import sys; from pathlib import Path; "
            "from interlock.engine.history.audit.prune import prune; "
            "database, before, key = sys.argv[1:]; "
            "done = prune(Path(database), before=int(before), by='b', at=0, key=Path(key)); "
            "print(*(stub.session for stub in done.pruned))"
        )
        line = [sys.executable, "-c", code, str(database), str(to_ms(NOW - 5 * DAY)), str(key)]
        done = subprocess.run(
            line,
            capture_output=True,
            text=True,
            check=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
        )
        assert done.stdout == "old\n"
        assert database.stat().st_size == size
        assert not any(SECRET.encode() in data for data in files(database))
        assert verdicts(database)["large"].fault is None

    def test_other_sessions_stay_intact(self, database: Path, key: Path) -> None:
        """The other sessions are intact, no event is missing, and the journal can be continued."""
        pruned(database, key)
        with Journal.open(database) as journal:
            journal.write("new", SessionStatus(status="done"))
        assert {s: c.fault for s, c in verdicts(database).items()} == {"late": None, "new": None}
        assert check_file(database).missing == 0

    def test_session_reusing_a_pruned_id_is_kept(self, database: Path, key: Path) -> None:
        """A session with the id of a pruned one is kept, and so is the stub."""
        pruned(database, key)
        recorded_at(database, NOW - 9 * DAY, "old", opening())
        before = contents(database)
        (kept,) = pruned(database, key).kept
        assert kept.fault is not None
        assert "pruned before" in kept.fault.message
        assert contents(database) == before

    @pytest.mark.sqlite("a file of an earlier release")
    def test_sessions_of_an_earlier_release_are_pruned(self, tmp_path: Path, key: Path) -> None:
        """Sessions of an earlier release are pruned like those of this one."""
        path = tmp_path / "earlier.db"
        with closing(raw_database(path)) as connection:
            connection.executescript(DUMP.read_text())
        assert len(pruned(path, key, before=NOW + 999 * DAY).pruned) == 3
        assert ids(path) == set()
        assert check_file(path).missing == 0


class TestStub:
    def test_has_length_times_hash_and_pruner(self, database: Path, key: Path) -> None:
        """It has the session's length, times and last hash, and who pruned it when; it verifies."""
        head = verdicts(database)["old"].head
        (stub,) = pruned(database, key).pruned
        (found,) = stubs(database)
        assert (found.stub, found.good, found.key) == (stub, True, public_key(key))
        assert (stub.session, stub.agent, stub.events, stub.head) == (
            "old",
            "release-bot",
            len(BODIES) + 1,
            head,
        )
        assert (stub.opened, stub.updated) == (to_ms(NOW - 10 * DAY),) * 2
        assert (stub.at, stub.by) == (to_ms(NOW), "maria")

    @pytest.mark.parametrize("column", range(10))
    @pytest.mark.parametrize(
        "value", ["'other'", "x'00'", "1", "1.5", "9223372036854775807", "x''", "''"]
    )
    def test_changed_column_fails_verification(
        self, database: Path, key: Path, column: int, value: str
    ) -> None:
        """A change to any of its columns makes verification fail."""
        names = (
            "session",
            "agent",
            "opened",
            "updated",
            "events",
            "head",
            "at",
            "by",
            "key",
            "signature",
        )
        pruned(database, key)
        tamper(database, f'UPDATE pruned SET "{names[column]}" = {value}')
        (found,) = stubs(database)
        assert not found.good

    @pytest.mark.parametrize("column", ["opened", "updated", "at"])
    @pytest.mark.parametrize("ms", [2**62, -(2**62)])
    def test_time_beyond_the_calendar_is_invalid(
        self, database: Path, key: Path, column: str, ms: int
    ) -> None:
        """A signed stub with a time beyond the calendar is invalid, but can be listed."""
        pruned(database, key)
        (found,) = stubs(database)
        forged = replace(found.stub, **{column: ms})
        with closing(raw_database(database)) as connection:
            connection.execute(
                f'UPDATE pruned SET "{column}" = ?, signature = ?',
                (ms, Signer.open(key).sign(forged.message())),
            )
            connection.commit()
        assert [found.good for found in stubs(database)] == [False]

    def test_number_changed_by_one_fails_verification(self, database: Path, key: Path) -> None:
        """A number that is changed by one makes verification fail."""
        pruned(database, key)
        for column in ("opened", "updated", "events", "at"):
            for by in (1, -1):
                tamper(database, f'UPDATE pruned SET "{column}" = "{column}" + {by}')
                assert [found.good for found in stubs(database)] == [False]
                tamper(database, f'UPDATE pruned SET "{column}" = "{column}" - {by}')
        assert [found.good for found in stubs(database)] == [True]

    def test_signature_is_not_valid_for_another_stub(self, database: Path, key: Path) -> None:
        """A stub's signature is not valid for another stub."""
        pruned(database, key, before=NOW)
        first, second = (stub.stub.session for stub in stubs(database))
        tamper(
            database,
            "CREATE TEMP TABLE old AS SELECT session, signature FROM pruned",
            "UPDATE pruned SET signature = "
            "(SELECT signature FROM old WHERE old.session <> pruned.session)",
        )
        assert {first, second} == {"old", "late"}
        assert [found.good for found in stubs(database)] == [False, False]

    def test_removed_stub_counts_as_missing_events(self, database: Path, key: Path) -> None:
        """Without its stub a pruned session counts as missing events."""
        pruned(database, key)
        assert check_file(database).missing == 0
        tamper(database, "DELETE FROM pruned")
        assert check_file(database).missing == len(BODIES) + 1

    def test_key_of_another_signer_is_shown(self, database: Path, key: Path, tmp_path: Path) -> None:
        """A stub that was signed with another key shows that key's fingerprint."""
        other = tmp_path / "other.pem"
        pruned(database, other)
        (found,) = stubs(database)
        pruned(database, key, before=NOW)
        known = public_key(key)
        assert known is not None
        assert found.good
        assert found.key == public_key(other) != known
        assert [fingerprint(f.key) == fingerprint(known) for f in stubs(database)] == [False, True]
        assert len(fingerprint(known)) == 16

    @pytest.mark.parametrize("damage", ["deleted", "changed", "added"])
    def test_tampered_session_is_kept(self, database: Path, key: Path, damage: str) -> None:
        """A session that was tampered with is kept at any age; intact sessions of that age are pruned."""
        recorded_at(database, NOW - 8 * DAY, "older", opening(), SessionStatus(status="done"))
        tamper(
            database,
            {
                "deleted": "DELETE FROM event WHERE session = 'old' AND seq = 11",
                "changed": "UPDATE event SET body = replace(body, 'maria', 'ben') "
                "WHERE session = 'old' AND seq = 7",
                "added": "UPDATE session SET events = 10 WHERE id = 'old'",
            }[damage],
        )
        done = pruned(database, key)
        assert [stub.session for stub in done.pruned] == ["older"]
        assert [check.session for check in done.kept] == ["old"]
        assert done.kept[0].fault is not None
        assert ids(database) == {"old", "late", "new"}
        assert any(SECRET.encode() in data for data in files(database))


class TestKey:
    def test_is_made_once(self, database: Path, key: Path) -> None:
        """The key is made once, readable by its owner only, and reused."""
        pruned(database, key)
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        before = key.read_bytes()
        pruned(database, key, before=NOW)
        assert key.read_bytes() == before
        assert len({found.key for found in stubs(database)}) == 1

    @pytest.mark.parametrize("kind", ["text", "empty", "curve", "public", "locked"])
    def test_invalid_key_file_prunes_nothing(self, database: Path, key: Path, kind: str) -> None:
        """A file that is not such a key gives an error with the remedy, and nothing is pruned."""
        private = ed25519.Ed25519PrivateKey.generate()
        pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        key.parent.mkdir()
        key.write_bytes(
            {
                "text": b"not a key",
                "empty": b"",
                "curve": ec.generate_private_key(ec.SECP256R1()).private_bytes(
                    pem, pkcs8, serialization.NoEncryption()
                ),
                "public": private.public_key().public_bytes(
                    pem, serialization.PublicFormat.SubjectPublicKeyInfo
                ),
                "locked": private.private_bytes(
                    pem, pkcs8, serialization.BestAvailableEncryption(b"words")
                ),
            }[kind]
        )
        before = contents(database)
        with pytest.raises(
            JournalError, match=r"journal-key\.pem' is not an Ed25519 key\. Restore it, or move"
        ):
            pruned(database, key)
        assert contents(database) == before

    def test_unreadable_key_path_gives_the_reason(self, database: Path, key: Path) -> None:
        """A key path that cannot be read as a file gives an error with the system's reason."""
        key.mkdir(parents=True)
        before = contents(database)
        with pytest.raises(JournalError, match=r"Cannot read the signing key .*: Is a directory"):
            pruned(database, key)
        assert contents(database) == before

    def test_partial_key_is_replaced_at_next_attempt(
        self, database: Path, key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A partially written key is removed, and the next attempt makes a new one."""

        def full(_: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", full)
            with pytest.raises(JournalError, match="No space left"):
                pruned(database, key)
        assert not key.exists()
        assert ids(database) == {"old", "late", "new"}
        assert [stub.session for stub in pruned(database, key).pruned] == ["old"]

    def test_without_place_for_a_key_nothing_is_pruned(self, database: Path, tmp_path: Path) -> None:
        """Without a place for a new key nothing is pruned."""
        (tmp_path / "file").write_text("")
        before = contents(database)
        with pytest.raises(JournalError, match="signing key"):
            pruned(database, tmp_path / "file" / "key.pem")
        assert contents(database) == before


class TestRefused:
    @pytest.mark.sqlite("servers go on with a database")
    def test_while_a_console_runs(self, database: Path, key: Path) -> None:
        """The error names the process that writes the journal, and nothing changes."""
        with Journal.open(database):
            before = contents(database)
            with pytest.raises(JournalError, match=r"is in use by process \d+ \(.*Stop that process"):
                pruned(database, key)
            assert contents(database) == before
        assert not key.exists()

    def test_missing_journal_is_not_created(self, tmp_path: Path, key: Path) -> None:
        """A missing journal is not created."""
        for dry in (True, False):
            with pytest.raises(JournalError, match="There is no journal"):
                pruned(tmp_path / "none.db", key, dry=dry)
        assert list(tmp_path.iterdir()) == []
