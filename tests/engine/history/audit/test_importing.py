"""Sessions of another journal: imported completely and unchanged, or not at all."""

from __future__ import annotations

import json
import resource
import secrets
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from interlock.engine.history.audit.canonical_json import canonical
from interlock.engine.history.audit.export import as_jsonl
from interlock.engine.history.audit.hash_chain import ChainPosition, content_hash, event_hash_of_body
from interlock.engine.history.audit.importing import Export, ExportError, import_session, read_export
from interlock.engine.history.audit.prune import prune
from interlock.engine.history.audit.signing import public_key
from interlock.engine.history.audit.verify import LinkedEvent, check_file
from interlock.engine.history.database.compiled import SELECT_SESSION
from interlock.engine.history.fold.replay import Replay
from interlock.engine.history.journal.journal import Journal, JournalError
from interlock.engine.history.journal.maintenance import rebuild
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import EventBody, MessageAdded, SessionStatus
from interlock.engine.history.model.times import to_ms
from interlock.engine.hub.hub import Hub

from ..journal.test_files import unprivileged  # noqa: F401 - a fixture
from ..support.keeping import (
    BODIES,
    DAY,
    MASKED,
    NOW,
    contents,
    exported,
    recorded_at,
    rows,
    saved,
    tamper,
    verdicts,
)
from ..support.recording import decided, opening, request

IMPORT = """
import sys
from pathlib import Path
from interlock.engine.history.errors import JournalError
from interlock.engine.history.audit.importing import import_session, read_export
try:
    import_session(read_export(Path(sys.argv[1])), Path(sys.argv[2]), Path(sys.argv[2] + ".pem"))
except JournalError as error:
    print(error)
    sys.exit(2)
"""
HOLD = """
import sys
from pathlib import Path
from interlock.engine.history.journal.journal import Journal
with Journal.open(Path(sys.argv[1])):
    print("open", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def lines(tmp_path: Path) -> list[str]:
    """A masked export of the session `s1`."""
    path = tmp_path / "source.db"
    recorded_at(path, NOW, "s1")
    return exported(path)


@pytest.fixture
def export(lines: list[str], tmp_path: Path) -> Export:
    return read_export(saved(tmp_path / "s1.jsonl", lines))


@pytest.fixture
def used_journal(tmp_path: Path) -> Path:
    """A journal that already has a session."""
    path = tmp_path / "used.db"
    recorded_at(path, NOW + DAY, "own")
    return path


def chained(folder: Path, *texts: str) -> Export:
    """Return an export of events with these bodies and an intact chain."""
    events: list[LinkedEvent] = []
    prev: bytes | None = None
    for seq, text in enumerate(texts, 1):
        place, kind = ChainPosition("x", seq, 0), json.loads(text)["type"]
        prev = event_hash_of_body(place, text, bytes(16), prev)
        events.append(LinkedEvent(place, kind, text, bytes(16), None, prev))
    return read_export(saved(folder / "x.jsonl", as_jsonl("x", events, None)))


def with_changed_line(lines: Sequence[str], number: int, **change: object) -> list[str]:
    """Return `lines` with changed members in line `number` (from 1); `GONE` removes a member."""
    line = {**json.loads(lines[number - 1]), **change}
    kept = {name: value for name, value in line.items() if value != "GONE"}
    return [*lines[: number - 1], canonical(kept), *lines[number:]]


class TestTaken:
    def test_into_a_fresh_journal(self, export: Export, tmp_path: Path) -> None:
        """An import creates the target journal and its directory."""
        target = tmp_path / "new" / "journal.db"
        import_session(export, target, target.with_suffix(".pem"))
        check = verdicts(target)["s1"]
        assert (check.fault, check.events, check.masked) == (None, len(BODIES), len(MASKED))
        assert check.head == export.check.head
        assert check.imported
        assert check_file(target).missing == 0

    def test_into_a_used_journal(self, export: Export, used_journal: Path) -> None:
        """Existing sessions stay unchanged and intact, and can be continued."""
        before = contents(used_journal)
        import_session(export, used_journal, used_journal.with_suffix(".pem"))
        after = contents(used_journal)
        for name, found in before.items():
            if name != "numbers":
                assert set(found) <= set(after[name])
        with Journal.open(used_journal) as journal:
            journal.write("own", SessionStatus(status="done"))
        assert {s: c.fault for s, c in verdicts(used_journal).items()} == {"own": None, "s1": None}
        assert check_file(used_journal).missing == 0

    def test_session_line_is_unchanged_except_for_the_mark(
        self, export: Export, used_journal: Path, tmp_path: Path
    ) -> None:
        """Its line in the list is unchanged, except for the mark that it is from another journal."""
        import_session(export, used_journal, used_journal.with_suffix(".pem"))
        select = SELECT_SESSION.replace("?", "'s1'")
        (here,), (there,) = rows(used_journal, select), rows(tmp_path / "source.db", select)
        assert here[:-1] == there[:-1]
        assert (here[-1], there[-1]) == (1, 0)

    def test_decisions_are_listed_with_masks(self, export: Export, used_journal: Path) -> None:
        """Its decisions are listed, with masked parts still masked."""
        import_session(export, used_journal, used_journal.with_suffix(".pem"))
        (line,) = rows(
            used_journal,
            "SELECT called, verdict, \"by\", input, result FROM decision WHERE session = 's1'",
        )
        assert line == ("deploy", "approved", "maria", 'token="[masked: 23 characters]"', "done")

    def test_events_can_be_replayed(self, export: Export, used_journal: Path) -> None:
        """Its events can be replayed as if they had been recorded in this journal."""
        import_session(export, used_journal, used_journal.with_suffix(".pem"))
        replay = Replay(list(open_reader(used_journal).events("s1")))
        replay.goto(len(BODIES))
        assert replay.state.status == "done"
        assert replay.state.calls["c1"].status == "done"

    def test_deepest_readable_input_survives(self, tmp_path: Path) -> None:
        """The deepest input that the journal can read can be exported and imported."""
        value: object = 1
        for _ in range(198):
            value = [value]
        source = tmp_path / "deep.db"
        recorded_at(source, NOW, "deep", opening(), decided("c", "t", input={"value": value}))
        assert len(list(open_reader(source).events("deep"))) == 2
        lines = exported(source, "deep")
        import_session(
            read_export(saved(tmp_path / "deep.jsonl", lines)),
            tmp_path / "target.db",
            tmp_path / "key.pem",
        )
        assert exported(tmp_path / "target.db", "deep") == lines

    def test_sessions_of_several_journals_coexist(self, tmp_path: Path, used_journal: Path) -> None:
        """Sessions of several journals coexist, each with its own chain."""
        for name in ("a", "b", "c"):
            source = tmp_path / f"{name}.db"
            recorded_at(source, NOW, name)
            import_session(
                read_export(saved(tmp_path / f"{name}.jsonl", exported(source, name))),
                used_journal,
                tmp_path / "key.pem",
            )
        assert {s: c.fault for s, c in verdicts(used_journal).items()} == dict.fromkeys(
            ("own", "a", "b", "c")
        )
        assert check_file(used_journal).missing == 0

    def test_changed_masked_content_is_detected(self, export: Export, used_journal: Path) -> None:
        """The importer vouches for masked content, so a later change to it is detected."""
        import_session(export, used_journal, used_journal.with_suffix(".pem"))
        check = verdicts(used_journal)["s1"]
        assert (check.unvouched, check.keys) == (0, {public_key(used_journal.with_suffix(".pem"))})
        tamper(
            used_journal,
            "UPDATE event SET body = replace(body, '[masked', '[shown') "
            f"WHERE session = 's1' AND seq = {MASKED[0]}",
        )
        fault = verdicts(used_journal)["s1"].fault
        assert fault is not None
        assert (fault.seq, fault.kind) == (MASKED[0], "changed")
        assert "is not as it was imported" in fault.message

    def test_own_event_marked_as_imported_lacks_signature(self, used_journal: Path) -> None:
        """An own event without salt that is marked as imported has no vouching signature."""
        first = rows(used_journal, "SELECT body, salt FROM event WHERE session = 'own' AND seq = 1")[0]
        kept = content_hash(first[0], first[1]).hex()
        tamper(
            used_journal,
            "UPDATE session SET imported = 1 WHERE id = 'own'",
            f"UPDATE event SET salt = NULL, content = x'{kept}' WHERE session = 'own' AND seq = 1",
        )
        check = verdicts(used_journal)["own"]
        assert (check.fault, check.imported, check.masked, check.unvouched) == (None, True, 1, 1)

    def test_lost_salt_is_a_fault_in_own_sessions_only(self, export: Export, used_journal: Path) -> None:
        """Only an imported session may have masked content; elsewhere a lost salt is a fault."""
        import_session(export, used_journal, used_journal.with_suffix(".pem"))
        assert verdicts(used_journal)["s1"].fault is None
        tamper(
            used_journal,
            "UPDATE session SET imported = 0 WHERE id = 's1'",
            "UPDATE event SET content = substr(content, 1, 32) WHERE session = 's1'",
        )
        fault = verdicts(used_journal)["s1"].fault
        assert fault is not None
        assert (fault.seq, fault.kind) == (MASKED[0], "changed")
        assert "has lost its salt" in fault.message


class TestMark:
    """Sessions without masks, whose chain looks like that of a session recorded in this journal."""

    @pytest.fixture
    def unmasked(self, tmp_path: Path, used_journal: Path) -> Path:
        recorded_at(tmp_path / "open.db", NOW, "s2")
        lines = exported(tmp_path / "open.db", "s2", None)
        import_session(
            read_export(saved(tmp_path / "s2.jsonl", lines)),
            used_journal,
            used_journal.with_suffix(".pem"),
        )
        assert exported(used_journal, "s2", None) == lines
        return used_journal

    def test_removed_mark_is_detected_and_restored(self, unmasked: Path) -> None:
        """Removing the mark of an import is detected, and a rebuild restores the mark."""
        check = verdicts(unmasked)["s2"]
        assert (check.fault, check.masked, check.unvouched) == (None, 0, 0)
        assert check.keys == {public_key(unmasked.with_suffix(".pem"))}
        tamper(unmasked, "UPDATE session SET imported = 0 WHERE id = 's2'")
        fault = verdicts(unmasked)["s2"].fault
        assert fault is not None
        assert fault.message == "the mark that the session was imported was removed"
        assert rebuild(unmasked).mended == ("s2",)
        check = verdicts(unmasked)["s2"]
        assert (check.fault, check.imported) == (None, True)

    def test_added_mark_lacks_a_signature(self, used_journal: Path) -> None:
        """A session recorded in this journal that is marked as imported has no vouching signature."""
        assert verdicts(used_journal)["own"].unvouched == 0
        tamper(used_journal, "UPDATE session SET imported = 1 WHERE id = 'own'")
        check = verdicts(used_journal)["own"]
        assert (check.fault, check.masked, check.unvouched) == (None, 0, 1)

    def test_signature_is_valid_for_one_event_only(self, unmasked: Path) -> None:
        """A signature is valid for one event only: it cannot mark another session as imported."""
        tamper(
            unmasked,
            "UPDATE session SET imported = 1 WHERE id = 'own'",
            "UPDATE event SET content = (SELECT content FROM event WHERE session = 's2' AND seq = 1) "
            "WHERE session = 'own' AND seq = 1",
        )
        fault = verdicts(unmasked)["own"].fault
        assert fault is not None
        assert "is not as it was imported" in fault.message


class TestUnfinished:
    def test_imported_session_is_not_ended(self, tmp_path: Path, used_journal: Path) -> None:
        """A session that was unfinished in another journal is not ended by a host that opens this one."""
        source = tmp_path / "open.db"
        recorded_at(
            source,
            NOW,
            "open",
            opening(),
            SessionStatus(status="running"),
            MessageAdded(role="user", text="go"),
            request("a1", "c1", "deploy"),
        )
        lines = exported(source, "open")
        import_session(
            read_export(saved(tmp_path / "open.jsonl", lines)),
            used_journal,
            used_journal.with_suffix(".pem"),
        )
        recorded_at(used_journal, NOW, "mine", opening(), SessionStatus(status="running"))
        Hub.open(used_journal)._journal.close()
        reader = open_reader(used_journal)
        assert reader.session("mine").status == "failed"
        assert reader.session("open").status == "waiting"
        assert exported(used_journal, "open") == lines
        assert verdicts(used_journal)["open"].fault is None


class TestRefused:
    def test_session_that_already_exists(self, export: Export, used_journal: Path) -> None:
        """A session whose id already exists in the journal is not imported again."""
        import_session(export, used_journal, used_journal.with_suffix(".pem"))
        before = contents(used_journal)
        with pytest.raises(JournalError, match=r"'s1' is in journal .* already; import it into another"):
            import_session(export, used_journal, used_journal.with_suffix(".pem"))
        assert contents(used_journal) == before

    def test_pruned_session(self, export: Export, tmp_path: Path) -> None:
        """A pruned session is not imported back beside its stub."""
        path = tmp_path / "source.db"
        now = to_ms(NOW + DAY)
        prune(path, before=now, by="maria", at=now, key=tmp_path / "key.pem")
        before = contents(path)
        with pytest.raises(JournalError, match=r"'s1' was pruned from journal"):
            import_session(export, path, path.with_suffix(".pem"))
        assert contents(path) == before

    def test_broken_chain(self, lines: list[str], used_journal: Path, tmp_path: Path) -> None:
        """A file with a broken chain can be read but not imported; the error names the event."""
        body = {**json.loads(lines[3])["body"], "by": "ben"}
        export = read_export(saved(tmp_path / "changed.jsonl", with_changed_line(lines, 4, body=body)))
        before = contents(used_journal)
        with pytest.raises(ExportError, match=r"event 3 \(message\) was changed\. Nothing was imported"):
            import_session(export, used_journal, used_journal.with_suffix(".pem"))
        assert contents(used_journal) == before

    def test_very_long_session_id(self, used_journal: Path, tmp_path: Path) -> None:
        """A very long session id, which would break the columns of lists, is refused."""
        recorded_at(tmp_path / "long.db", NOW, "x" * 201, opening())
        lines = exported(tmp_path / "long.db", "x" * 201, mask=None)
        export = read_export(saved(tmp_path / "long.jsonl", lines))
        before = contents(used_journal)
        with pytest.raises(ExportError, match="a name of 201 characters, expected 200 at most"):
            import_session(export, used_journal, used_journal.with_suffix(".pem"))
        assert contents(used_journal) == before

    @pytest.mark.sqlite("a file that is no journal")
    def test_file_that_is_not_a_journal(self, export: Export, tmp_path: Path) -> None:
        """A file that is not a journal stays unchanged."""
        target = tmp_path / "notes.txt"
        target.write_text("milk, bread and more\n" * 10)
        with pytest.raises(JournalError, match="not an SQLite database"):
            import_session(export, target, target.with_suffix(".pem"))
        assert target.read_text() == "milk, bread and more\n" * 10

    @pytest.mark.parametrize(
        ("bodies", "message"),
        [
            ([SessionStatus(status="idle")], "by its first event"),
            ([], "no events"),
            ([opening(), opening()], "opened once"),
        ],
    )
    def test_events_that_form_no_valid_session(
        self, tmp_path: Path, used_journal: Path, bodies: list[EventBody], message: str
    ) -> None:
        """An intact chain of events that do not form a valid session is refused."""
        export = chained(tmp_path, *(body.model_dump_json() for body in bodies))
        assert export.check.fault is None
        before = contents(used_journal)
        with pytest.raises(ExportError, match="cannot be replayed") as caught:
            import_session(export, used_journal, used_journal.with_suffix(".pem"))
        assert "Nothing was imported" in str(caught.value)
        assert message in str(caught.value)
        assert contents(used_journal) == before

    def test_an_event_of_a_newer_version(self, tmp_path: Path, used_journal: Path) -> None:
        """An event of an unknown kind is reported with its number."""
        export = chained(tmp_path, opening().model_dump_json(), '{"type": "session.paused"}')
        with pytest.raises(ExportError, match=r"Event 2 of session 'x'.*newer Interlock.*use that one"):
            import_session(export, used_journal, used_journal.with_suffix(".pem"))


class TestMalformed:
    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("{", "the line is not JSON at column 2: Expecting property name"),
            ("[" * 100_000, "the line is not readable JSON"),
            ("null", "expected an object"),
            ("[]", "expected an object"),
            ('"text"', "expected an object"),
            ("\x00", "the line is not JSON"),
            ('{"at": "\\ud800"}', "not an event of a session"),
        ],
    )
    def test_line_that_is_no_json_object(
        self, lines: list[str], tmp_path: Path, line: str, message: str
    ) -> None:
        """A line that is not a JSON object is reported with file, line number and remedy."""
        file = saved(tmp_path / "a.jsonl", [*lines[:4], line, *lines[5:]])
        with pytest.raises(ExportError, match=r"a\.jsonl:5: .*export the session again") as caught:
            read_export(file)
        assert message in str(caught.value)

    @pytest.mark.parametrize(
        "change",
        [
            {"seq": "4"},
            {"seq": 4.5},
            {"seq": "GONE"},
            {"session": 1},
            {"session": "GONE"},
            {"at": "2026-11-20T12:00:00Z"},
            {"at": "2026-02-30T12:00:00.000Z"},
            {"at": "noon"},
            {"at": 5},
            {"at": "GONE"},
            {"body": "text"},
            {"body": None},
            {"body": "GONE"},
            {"prev": "GONE"},
            {"prev": "00"},
            {"hash": None},
            {"hash": "A" * 64},
            {"hash": "GONE"},
            {"salt": "00"},
            {"salt": 1},
            {"content": "text"},
            {"note": "what no hash covers"},
        ],
        ids=str,
    )
    def test_missing_unknown_or_mistyped_member(
        self, lines: list[str], tmp_path: Path, change: dict[str, object]
    ) -> None:
        """A member that is missing, unknown or of the wrong type is reported the same way."""
        file = saved(tmp_path / "a.jsonl", with_changed_line(lines, 5, **change))
        with pytest.raises(ExportError, match=r"a\.jsonl:5: .*export the session again"):
            read_export(file)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"version": 2}, r"a\.jsonl:1: this is version 2 .* reads version 1\. Use the newer one"),
            ({"version": 9, "events": "GONE"}, r"a\.jsonl:1: this is version 9"),
            ({"version": 0}, "expected the heading"),
            ({"version": "1"}, "expected the heading"),
            ({"format": "other"}, "expected the heading"),
            ({"events": -1}, "expected the heading"),
            ({"session": ""}, "expected the heading"),
            ({"head": "x"}, "expected the heading"),
            ({"extra": 1}, "expected the heading"),
        ],
    )
    def test_heading_of_a_newer_version(
        self, lines: list[str], tmp_path: Path, change: dict[str, object], message: str
    ) -> None:
        """A heading of a newer version is reported as such, whatever its other members are."""
        with pytest.raises(ExportError, match=message):
            read_export(saved(tmp_path / "a.jsonl", with_changed_line(lines, 1, **change)))

    @pytest.mark.parametrize(
        ("number", "old", "new"),
        [
            (4, '"text":', '"text":"Ship nothing.","text":'),
            (4, '"seq":3', '"seq":2,"seq":3'),
            (7, '"input":{', '"input":{"env":"dev",'),
            (1, '"events":', '"events":3,"events":'),
        ],
    )
    def test_duplicate_member(
        self, lines: list[str], tmp_path: Path, number: int, old: str, new: str
    ) -> None:
        """A duplicate member is refused: one of the two is in no hash, but another reader may show it."""
        assert old in lines[number - 1]
        lines[number - 1] = lines[number - 1].replace(old, new, 1)
        with pytest.raises(ExportError, match=rf"a\.jsonl:{number}: "):
            read_export(saved(tmp_path / "a.jsonl", lines))

    def test_heading_with_unclosed_brackets(self, tmp_path: Path) -> None:
        """Unclosed brackets are not accepted as a heading."""
        with pytest.raises(ExportError, match="expected the heading"):
            read_export(saved(tmp_path / "a.jsonl", ["[" * 100_000]))

    def test_byte_order_mark_and_crlf_are_accepted(self, lines: list[str], tmp_path: Path) -> None:
        """A byte order mark and CRLF line ends are not reported as changes."""
        file = tmp_path / "a.jsonl"
        file.write_bytes(b"\xef\xbb\xbf" + "".join(f"{line}\r\n" for line in lines).encode())
        assert read_export(file).check.fault is None

    def test_control_characters_in_names_are_escaped(self, lines: list[str], tmp_path: Path) -> None:
        """Control characters of a file's name and members are escaped in the error message."""
        file = saved(tmp_path / "a\x1b[2J.jsonl", with_changed_line(lines, 5, **{"\x1b[1m\u202e": 1}))
        with pytest.raises(ExportError) as caught:
            read_export(file)
        assert "\x1b" not in str(caught.value)
        assert "\u202e" not in str(caught.value)


class TestDisk:
    @pytest.mark.slow
    @pytest.mark.sqlite("its file cannot be written")
    def test_out_of_space_leaves_journal_unchanged(self, used_journal: Path, tmp_path: Path) -> None:
        """An import that runs out of space leaves the journal unchanged."""
        source = tmp_path / "large.db"
        large = MessageAdded(role="user", text=secrets.token_hex(1_000_000))
        recorded_at(source, NOW, "large", opening(), large)
        file = saved(tmp_path / "large.jsonl", exported(source, "large"))
        before = contents(used_journal)
        room = used_journal.stat().st_size + 100_000

        def narrow() -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

        done = subprocess.run(
            [sys.executable, "-c", IMPORT, str(file), str(used_journal)],
            capture_output=True,
            text=True,
            preexec_fn=narrow,
            check=False,
        )
        assert done.returncode == 2, done.stderr
        assert "could not be changed" in done.stdout
        assert "Check the free space" in done.stdout
        assert contents(used_journal) == before
        assert verdicts(used_journal)["own"].fault is None

    def test_read_only_journal_stays_unchanged(self, export: Export, unprivileged: Path) -> None:  # noqa: F811
        """A read-only journal is reported as such and stays unchanged."""
        target = unprivileged / "journal.db"
        recorded_at(target, NOW, "own")
        before = target.read_bytes()
        target.chmod(0o400)
        with pytest.raises(JournalError, match="permissions"):
            import_session(export, target, target.with_suffix(".pem"))
        assert target.read_bytes() == before

    @pytest.mark.sqlite("its file cannot be written")
    def test_path_below_a_regular_file_is_refused(self, export: Export, tmp_path: Path) -> None:
        """A path below a regular file is refused as the place of a journal."""
        (tmp_path / "file").write_text("")
        with pytest.raises(JournalError, match=r"Cannot make the directory .*Choose another place"):
            import_session(export, tmp_path / "file" / "below" / "journal.db", tmp_path / "key.pem")


@pytest.mark.slow
class TestTwoProcesses:
    @pytest.mark.sqlite("servers go on with a database")
    def test_journal_in_use_is_refused(self, export: Export, used_journal: Path) -> None:
        """An import is refused while another process writes the journal; the error names the process."""
        with subprocess.Popen(
            [sys.executable, "-c", HOLD, str(used_journal)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as holder:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "open\n"
            before = contents(used_journal)
            with pytest.raises(JournalError, match=rf"is in use by process {holder.pid}"):
                import_session(export, used_journal, used_journal.with_suffix(".pem"))
            assert contents(used_journal) == before
            holder.communicate("")
        import_session(export, used_journal, used_journal.with_suffix(".pem"))

    @pytest.mark.sqlite("other processes")
    def test_simultaneous_imports_of_one_session(
        self, lines: list[str], used_journal: Path, tmp_path: Path
    ) -> None:
        """If two processes import one session at once, one succeeds and the other gets the reason."""
        file = saved(tmp_path / "s1.jsonl", lines)
        both = [
            subprocess.Popen(
                [sys.executable, "-c", IMPORT, str(file), str(used_journal)],
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(2)
        ]
        said = [process.communicate()[0] for process in both]
        assert sorted(process.returncode for process in both) == [0, 2]
        (refusal,) = [text for text in said if text]
        assert "is in use by process" in refusal or "already" in refusal
        assert verdicts(used_journal)["s1"].fault is None
        assert check_file(used_journal).missing == 0
