"""Files of a stream, checked alone and against the journal: changes and omissions are named."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.history.audit.prune import prune
from interlock.engine.history.audit.stream import LineFormat
from interlock.engine.history.audit.stream_check import StreamCheck, StreamedJournal, check_stream
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.times import to_ms

from ..support.keeping import BODIES, DAY, MASK, NOW, recorded_at
from .test_stream import drained, lines, stream, stream_of

pytestmark = pytest.mark.sqlite("streams are of a file, whose cursors count from 1")
SESSIONS = ("s1", "s2", "s1x")


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """The lines of a stream of three consecutive sessions of ten events."""
    path = tmp_path_factory.mktemp("journal") / "j.db"
    for session in SESSIONS:
        recorded_at(path, NOW, session)
    return lines(drained(stream(path)), LineFormat("events", MASK))


def check(*files: Sequence[bytes]) -> StreamCheck:
    return check_stream((f"f{number}", each) for number, each in enumerate(files, 1))


def faults(*files: Sequence[bytes]) -> list[tuple[int, str]]:
    """Return the line and the kind of each fault."""
    return [(each.line, each.kind) for each in check(*files).faults]


def edited(line: bytes, change: Callable[[dict[str, object]], object]) -> bytes:
    """Return a changed line that is still JSON."""
    value = json.loads(line)
    change(value)
    return json.dumps(value).encode() + b"\n"


class TestWhole:
    def test_rotated_files_are_one_stream(self, sent: list[bytes]) -> None:
        """Rotated files are one stream; the second alone reports the event before its beginning."""
        found = check(sent[:7], sent[7:])
        assert (found.lines, found.sessions, found.faults) == (30, 3, ())
        assert found.last == (30, "2026-11-20T12:00:00.000Z")
        assert check(sent[7:]).begins == {0: 7}
        assert check(sent[7:]).faults == ()

    def test_repeated_lines_are_no_fault(self, sent: list[bytes]) -> None:
        """Lines that were sent again after a failure are counted but are no fault."""
        found = check([*sent[:12], *sent[8:12], *sent[9:]])
        assert (found.repeated, found.faults) == (7, ())

    def test_syslog_headings_are_ignored(self, sent: list[bytes]) -> None:
        """Headings that a syslog collector adds before each message are ignored."""
        heading = b"<110>1 2026-11-26T12:00:00.000Z host interlock 42 message - "
        assert check([heading + line for line in sent]).faults == ()

    def test_blank_lines_are_ignored(self, sent: list[bytes]) -> None:
        """Blank lines are ignored."""
        assert check([b"\n", *sent, b"  \n"]).lines == 30


class TestFaults:
    @pytest.mark.parametrize(
        "change",
        [
            lambda line: line["body"].update(approved_by=["eve"]),
            lambda line: line.update(at="2026-01-01T00:00:00.000Z"),
            lambda line: line.update(hash="0" * 64),
            lambda line: line.update(salt="0" * 32),
        ],
    )
    def test_an_edited_line(
        self, sent: list[bytes], change: Callable[[dict[str, object]], object]
    ) -> None:
        """The hash covers body, time, salt and the hash itself."""
        found = check([*sent[:16], edited(sent[16], change), *sent[17:]])
        assert found.faults[0].line == 17
        assert found.faults[0].kind == "changed"
        assert "event 7 of session 's2'" in found.faults[0].message

    @pytest.mark.parametrize("name", ["cursor", "after", "seq", "prev", "session", "type"])
    def test_changed_position_of_an_event(self, sent: list[bytes], name: str) -> None:
        """A line with a changed place for its event does not fit its position."""

        def change(line: dict[str, object]) -> None:
            other = {"cursor": 500, "after": 3, "seq": 9, "prev": "1" * 64, "session": "s1"}
            line[name] = other.get(name, "x")

        found = faults([*sent[:16], edited(sent[16], change), *sent[17:]])
        # With a changed cursor it cannot be told which of the two lines is wrong.
        assert found[0][0] == (18 if name == "cursor" else 17)

    def test_a_removed_line(self, sent: list[bytes]) -> None:
        """The fault names the line after the gap and the missing event."""
        found = check([*sent[:4], *sent[5:]])
        [fault] = found.faults
        assert (fault.file, fault.line, fault.kind) == ("f1", 5, "removed")
        assert fault.message == "missing before this line: event 5 of session 's1'"

    def test_removed_lines_of_two_sessions(self, sent: list[bytes]) -> None:
        """A gap over the end of one session and the start of the next is reported at one line."""
        found = check([*sent[:8], *sent[13:]])
        assert {(each.line, each.kind) for each in found.faults} == {(9, "removed")}

    def test_a_removed_session(self, sent: list[bytes]) -> None:
        """A session that was removed completely is detected at the next event."""
        found = check([*sent[:10], *sent[20:]])
        [fault] = found.faults
        assert (fault.line, fault.kind) == (11, "removed")
        assert "events of other sessions" in fault.message

    def test_moved_lines(self, sent: list[bytes]) -> None:
        """If two lines are swapped, the later one is named and none is missing."""
        assert faults([*sent[:4], sent[5], sent[4], *sent[6:]]) == [(6, "reordered")]

    def test_different_event_with_repeated_number(self, sent: list[bytes]) -> None:
        """A repeated line that differs from the earlier one is not accepted as a repetition."""

        def change(line: dict[str, object]) -> None:
            line.update(hash="2" * 64)

        found = faults([*sent[:12], edited(sent[5], change), *sent[12:]])
        assert (13, "inserted") in found

    def test_files_in_another_order(self, sent: list[bytes]) -> None:
        """Files in reverse order are detected."""
        assert {kind for _, kind in faults(sent[7:], sent[:7])} == {"reordered"}

    def test_lines_of_another_journal(self, sent: list[bytes], tmp_path: Path) -> None:
        """An intact session of another journal does not fit into the stream, whatever its numbers."""
        recorded_at(tmp_path / "other.db", NOW, "s9")
        other = lines(drained(stream(tmp_path / "other.db")), LineFormat("events", MASK))
        between = [edited(line, lambda value: value.update(cursor=9, after=9)) for line in other]
        found = check([*sent[:9], *between, *sent[9:]])
        assert {each.kind for each in found.faults} == {"unreadable"}
        assert "expected the number of an event before 9 in its lane" in found.faults[0].message
        assert faults([*sent[:9], *other, *sent[9:]])

    def test_repeated_line_with_another_number(self, sent: list[bytes]) -> None:
        """A repeated line with a higher number does not make the stream look longer."""
        again = edited(sent[3], lambda value: value.update(cursor=500, after=499))
        found = check([*sent[:20], again])
        assert found.repeated == 1
        assert found.last is not None
        assert found.last[0] == 20

    def test_incomplete_last_line(self, sent: list[bytes]) -> None:
        """An incomplete last line is reported as such."""
        found = check([*sent[:9], sent[9][:50]])
        [fault] = found.faults
        assert (fault.line, fault.kind) == (10, "unreadable")
        assert "cut off" in fault.message

    @pytest.mark.parametrize(
        "line", [b"[]\n", b"\xff\n", b"{}\n", b'{"seq":1,"seq":2}\n', b"[" * 100_000, b"hello\n"]
    )
    def test_unreadable_line(self, sent: list[bytes], line: bytes) -> None:
        """An unreadable line is reported, and the lines after it are checked nonetheless."""
        assert faults([*sent[:9], line, *sent[9:]]) == [(10, "unreadable")]

    @pytest.mark.slow
    @given(data=st.data())
    def test_any_change_to_one_line_is_detected(self, sent: list[bytes], data: st.DataObject) -> None:
        """LAW: no line but the last can be removed, moved or changed by a character undetected."""
        at = data.draw(st.integers(0, len(sent) - 2))
        match data.draw(st.sampled_from(["remove", "move", "change"])):
            case "remove":
                changed = [*sent[:at], *sent[at + 1 :]]
                if at == 0:
                    assert check(changed).begins
                    return
            case "move":
                rest = [*sent[:at], *sent[at + 1 :]]
                to = data.draw(st.integers(0, len(rest)).filter(lambda each: each != at))
                changed = [*rest[:to], sent[at], *rest[to:]]
            case _:
                place = data.draw(st.integers(0, len(sent[at]) - 2))
                byte = data.draw(st.sampled_from(b"0az {}\"',:").filter(lambda b: b != sent[at][place]))
                line = sent[at][:place] + bytes([byte]) + sent[at][place + 1 :]
                if _same(line, sent[at]) or b"[masked" in line:  # masked: only its hash is checked
                    return
                changed = [*sent[:at], line, *sent[at + 1 :]]
        assert check(changed).faults or check(changed).begins


class TestAgainstTheJournal:
    @pytest.fixture
    def journal(self, tmp_path: Path) -> Path:
        """Three sessions of ten events."""
        path = tmp_path / "j.db"
        for session in SESSIONS:
            recorded_at(path, NOW, session)
        return path

    @staticmethod
    def found(journal: Path, data: Sequence[bytes], stream: str = "s") -> StreamCheck:
        return check_stream([("f", data)], StreamedJournal(journal, stream))

    def test_all_sent_events_are_compared(self, journal: Path) -> None:
        """All sent events are compared; later events count as waiting and are no fault."""
        data = lines(drained(stream(journal)), LineFormat("events", MASK))
        recorded_at(journal, NOW, "s4")
        found = self.found(journal, data)
        assert (found.faults, found.compared, found.waiting) == ((), 30, 10)

    @pytest.mark.parametrize(("cut", "first"), [(1, "event 10"), (4, "events 7 to 10")])
    def test_missing_lines_at_the_end(self, journal: Path, cut: int, first: str) -> None:
        """Lines missing at the end are reported, although the files alone are intact."""
        data = lines(drained(stream(journal)))[:-cut]
        assert check(data).faults == ()
        [fault] = self.found(journal, data).faults
        assert (fault.line, fault.kind) == (30 - cut, "removed")
        assert fault.message.startswith(f"{first} of session 's1x', which the journal has")

    def test_stream_position_decides_which_lines_are_due(self, journal: Path) -> None:
        """The named stream's position decides which lines are due; without one, the longest stream's."""
        one = stream(journal)
        page = one.events(12)
        one.note(page)
        found = self.found(journal, lines(page))
        assert (found.faults, found.compared, found.waiting) == ((), 12, 18)
        drained(stream(journal, "other"))
        assert self.found(journal, lines(page)).faults == ()
        assert self.found(journal, lines(page), "renamed").faults != ()

    def test_removed_session_hidden_by_edited_after(self, journal: Path) -> None:
        """If an edited `after` hides a missing session, its last events are reported."""
        data = lines(drained(stream(journal)))
        covered = edited(data[20], lambda line: line.update(after=18))
        data = [*data[:18], covered, *data[21:]]
        assert check(data).faults == ()
        [fault] = self.found(journal, data).faults
        assert fault.message.startswith("events 9 to 10 of session 's2'")

    def test_rewritten_files_do_not_match_journal(self, journal: Path, tmp_path: Path) -> None:
        """Files with intact chains of another journal do not match this one."""
        other = tmp_path / "other.db"
        for session in (*SESSIONS, "s9"):
            recorded_at(other, NOW, session)
        data = lines(drained(stream(other)))
        drained(stream(journal))
        assert check(data).faults == ()
        found = [each.message for each in self.found(journal, data).faults]
        assert "event 1 of session 's1' is different in the journal" in found
        assert "event 10 of session 's9' is not in the journal" in found

    def test_a_pruned_session(self, journal: Path, tmp_path: Path) -> None:
        """A pruned session is compared with its stub, so its missing events are detected as well."""
        data = lines(drained(stream(journal)))
        before = to_ms(NOW + DAY)
        key = tmp_path / "key.pem"
        assert len(prune(journal, before=before, by="maria", at=before, key=key).pruned) == 3
        assert self.found(journal, data).faults == ()
        [fault] = self.found(journal, data[:-2]).faults
        assert fault.message.startswith("events 9 to 10 of session 's1x', of which the journal has the")

    def test_lanes_of_several_servers_are_compared(self, postgresql: PostgresLocation) -> None:
        """Events of several servers are compared lane by lane."""
        with Journal.open(postgresql) as one, Journal.open(postgresql) as other:
            one.write("s1", *BODIES)
            other.write("s2", *BODIES)
            here = stream_of(one)
            assert here.claim()
            data = lines(drained(here))
            against = StreamedJournal(postgresql, "s")
            assert check_stream([("f", data)], against).faults == ()
            for session in ("s1", "s2"):
                left = [each for each in data if f'"session":"{session}"'.encode() not in each]
                [fault] = check_stream([("f", left)], against).faults
                assert fault.message.startswith(f"events 1 to 10 of session '{session}'")


def _same(line: bytes, other: bytes) -> bool:
    """Tell whether a changed line has the same meaning, as with an added blank."""
    try:
        return json.loads(line[max(0, line.find(b"{")) :]) == json.loads(other)
    except ValueError:
        return False


def test_far_number_needs_no_memory(sent: list[bytes], tmp_path: Path) -> None:
    """A number far beyond the others is a fault and needs no memory for the numbers in between."""
    far = edited(sent[9], lambda line: line.update(seq=1 << 60))
    found = check([*sent[:9], far, *sent[10:]])
    assert {each.line for each in found.faults} >= {10}
