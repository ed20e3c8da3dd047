"""A session in its own file: complete, verifiable without the journal, and without secrets."""

from __future__ import annotations

import asyncio
import csv
import io
import itertools
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from interlock.engine.agents import Agent, C, ScriptedModel, T
from interlock.engine.agents.models.base import ModelRequest
from interlock.engine.agents.models.openai_format import wire_messages
from interlock.engine.gate.types import GrantTerms
from interlock.engine.gate.wrapping.messages import OUTCOME_FIELD
from interlock.engine.history.audit.canonical_json import canonical
from interlock.engine.history.audit.export import COLUMNS, as_csv, as_jsonl, linked_events
from interlock.engine.history.audit.hash_chain import ChainPosition, event_hash_of_body
from interlock.engine.history.audit.importing import Export, ExportError, import_session, read_export
from interlock.engine.history.audit.verify import LinkedEvent
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import EventBody, MessageAdded, SessionStatus
from interlock.engine.history.model.records import CallRecord
from interlock.engine.history.redaction.redaction import Redaction
from interlock.engine.hub.hub import Hub
from interlock.engine.recording.conversation import message_log
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules
from tests.support.laws import examples

from ...gateway.served import until
from ...support.external_agent import opened
from ...support.shop import RULES, Shop
from ..fold.test_laws import MOVES, Move, events_of
from ..support.keeping import BODIES, MASK, MASKED, NOW, SECRET, exported, recorded_at, saved, tamper
from ..support.recording import decided, opening, request, result

ODD: tuple[object, ...] = (
    math.nan,
    math.inf,
    -math.inf,
    12345678901234567890123456789,
    -(2**53) - 1,
    2**53,
    1.0,
    -0.0,
    1e-7,
    1e21,
    1.2345678901234568e20,
    5e-324,
    "",
    "\x00\x1b[2J\u2028\ufeff",
    {"\U0001f600": 1, "\ue000": 2, "": {}},
    [[], {}, [None, True, ""]],
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**40), 10**40) | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=4) | st.sampled_from(["password", "key"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A journal with the session `s1`."""
    path = tmp_path / "journal.db"
    recorded_at(path, NOW, "s1")
    return path


@pytest.fixture
def lines(database: Path) -> list[str]:
    """The masked export of `s1`."""
    return exported(database)


def read(folder: Path, lines: Sequence[str]) -> Export:
    return read_export(saved(folder / "changed.jsonl", lines))


def changed(lines: Sequence[str], seq: int, change: Callable[[dict[str, object]], object]) -> list[str]:
    """Return `lines` with a changed object in the line of one event, or in the heading (number 0)."""
    line = json.loads(lines[seq])
    change(line)
    return [*lines[:seq], canonical(line), *lines[seq + 1 :]]


class TestRoundTrip:
    @pytest.mark.parametrize("mask", [MASK, None])
    @pytest.mark.sqlite("the bytes of its file")
    def test_reexport_is_byte_identical(self, database: Path, tmp_path: Path, mask: object) -> None:
        """A session that is exported, checked, imported and exported again gives the same file."""
        before = exported(database, mask=mask)  # pyright: ignore[reportArgumentType]
        database.unlink()
        export = read(tmp_path, before)
        assert export.check.fault is None
        assert (export.check.events, export.check.masked) == (len(BODIES), len(MASKED) if mask else 0)
        assert export.check.head is not None
        assert export.check.head.hex() == json.loads(before[0])["head"]
        target = tmp_path / "other.db"
        import_session(export, target, target.with_suffix(".pem"))
        assert exported(target, mask=mask) == before  # pyright: ignore[reportArgumentType]

    @pytest.mark.parametrize("odd", ODD, ids=repr)
    def test_odd_values(self, tmp_path: Path, odd: object) -> None:
        """Values that JSON cannot hold, long integers and characters beyond 16 bits all survive."""
        database, target = tmp_path / "odd.db", tmp_path / "target.db"
        call = decided("c", "t", input={"value": odd, "\U0001f511": "x"})
        recorded_at(database, NOW, "s1", opening(), call, result("c", "t"))
        before = exported(database)
        export = read(tmp_path, before)
        assert export.check.masked == 0
        import_session(export, target, target.with_suffix(".pem"))
        assert exported(target) == before
        body = list(open_reader(target).events("s1"))[1].body
        assert canonical(json.loads(body.model_dump_json())) == canonical(
            json.loads(call.model_dump_json())
        )

    @pytest.mark.slow
    def test_any_recording(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        """LAW: an import of the export of any recording verifies and exports the same lines."""
        folder = tmp_path_factory.mktemp("law")
        source, target = folder / "source.db", folder / "target.db"
        numbers = itertools.count()

        @settings(max_examples=examples(60), deadline=None)
        @given(MOVES, st.lists(st.dictionaries(st.text(max_size=5), JSON, max_size=3), max_size=3), JSON)
        def law(moves: list[Move], inputs: list[dict[str, object]], output: object) -> None:
            session = f"s{next(numbers)}"
            said: list[EventBody] = [
                MessageAdded(
                    role="assistant",
                    text=repr(output),
                    calls=tuple(
                        CallRecord.model_validate({"call_id": f"x{n}", "tool": "t", "input": given})
                        for n, given in enumerate(inputs)
                    ),
                )
            ]
            with Journal.open(source) as journal:
                journal.write(session, *(e.body for e in events_of(moves)), *said)
            for mask in (MASK, None):
                before = exported(source, session, mask)
                export = read(folder, before)
                assert export.check.fault is None
                if mask is None:
                    import_session(export, target, target.with_suffix(".pem"))
                    assert exported(target, session, mask) == before
                    assert exported(target, session, MASK) == exported(source, session, MASK)

        law()

    def test_masked_import_exports_the_same_masks(self, database: Path, tmp_path: Path) -> None:
        """A masked session has the same masks when it is exported from the journal that imported it."""
        target = tmp_path / "target.db"
        import_session(read(tmp_path, exported(database)), target, target.with_suffix(".pem"))
        assert exported(target, mask=None) == exported(target) == exported(database)


class TestMasks:
    def test_only_secret_content_is_masked(self, lines: list[str]) -> None:
        """Masked events have a content hash instead of a salt; the other events can be checked fully."""
        assert SECRET not in "".join(lines)
        for seq, line in enumerate(map(json.loads, lines[1:]), 1):
            assert ("salt" in line, "content" in line) == (seq not in MASKED, seq in MASKED)

    def test_changed_masked_content_is_no_fault(self, lines: list[str], tmp_path: Path) -> None:
        """Changed text of masked content is no fault: the event counts as masked, not as verified."""

        def other(line: dict[str, object]) -> None:
            line["body"] = {**line["body"], "text": "Something else"}  # pyright: ignore[reportGeneralTypeIssues]

        check = read(tmp_path, changed(lines, 4, other)).check
        assert (check.fault, check.masked) == (None, len(MASKED))

    @pytest.mark.variants
    @pytest.mark.parametrize(
        ("seq", "body"),
        [
            (4, {"by": "ben"}),
            (4, {"role": "assistant"}),
            (8, {"outcome": "block"}),
            (8, {"tool": "other"}),
            (8, {"approved_by": ["ben"]}),
            (8, {"extra": 1}),
            (8, {"type": "call.result"}),
            (3, {"text": "Ship that."}),
            (7, {"approved": False}),
        ],
    )
    def test_changed_body_is_detected(
        self, lines: list[str], tmp_path: Path, seq: int, body: dict[str, object]
    ) -> None:
        """Facts of all events, and content of events without masks, are covered by the hash."""
        new = changed(lines, seq, lambda line: line.update(body={**line["body"], **body}))  # pyright: ignore[reportGeneralTypeIssues]
        fault = read(tmp_path, new).check.fault
        assert fault is not None
        assert (fault.seq, fault.kind) == (seq, "changed")
        assert f"event {seq} (" in fault.message

    @pytest.mark.parametrize("seq", [3, 4])
    @pytest.mark.parametrize(
        "change",
        [
            {"at": "2026-11-20T12:00:00.001Z"},
            {"session": "s2"},
            {"hash": "0" * 64},
            {"salt": "0" * 32},
            {"content": "0" * 64, "salt": None},
            {"content": None, "salt": None},
        ],
    )
    def test_changed_envelope_is_detected(
        self, lines: list[str], tmp_path: Path, seq: int, change: dict[str, object]
    ) -> None:
        """An event's time, session and hashes are covered by the hash as well."""
        fault = read(tmp_path, changed(lines, seq, lambda line: line.update(change))).check.fault
        assert fault is not None
        assert (fault.seq, fault.kind) == (seq, "changed")

    def test_changed_previous_hash_is_reported(self, lines: list[str], tmp_path: Path) -> None:
        """A changed hash of the previous line is reported."""
        fault = read(tmp_path, changed(lines, 5, lambda line: line.update(prev="1" * 64))).check.fault
        assert fault is not None
        assert (fault.seq, fault.message) == (5, "line 6 does not follow the line before it")

    def test_unknown_content_of_a_newer_version_is_masked(self, tmp_path: Path) -> None:
        """Unknown facts stay and can be checked; unknown content may be secret, so it is masked."""
        text = json.dumps(
            {"type": "session.status", "status": "idle", "weight": 7, "output": {"pin": "0000-1111"}}
        )
        bodies = [opening().model_dump_json(), text]
        events: list[LinkedEvent] = []
        prev: bytes | None = None
        for seq, body in enumerate(bodies, 1):
            place, salt = ChainPosition("s", seq, 1_000), bytes(16)
            prev = event_hash_of_body(place, body, salt, prev)
            events.append(LinkedEvent(place, json.loads(body)["type"], body, salt, None, prev))
        shown = list(as_jsonl("s", events, MASK))
        assert "0000-1111" not in shown[2]
        assert json.loads(shown[2])["body"]["weight"] == 7
        check = read(tmp_path, shown).check
        assert (check.fault, check.masked) == (None, 1)


class TestFaults:
    @pytest.mark.parametrize(
        ("order", "seq", "kind", "message"),
        [
            ([1, 2, 4, 5, 6, 7, 8, 9, 10], 3, "removed", "event 3 was removed"),
            ([1, 2, 3, 4, 5, 6, 7, 8], 9, "removed", "2 events at the end were removed"),
            ([2, 3, 4, 5, 6, 7, 8, 9, 10], 1, "removed", "event 1 was removed"),
            ([], 1, "removed", "10 events at the end were removed"),
            ([1, 2, 3, 3, 4, 5, 6, 7, 8, 9, 10], 4, "inserted", "event 4 was inserted"),
            ([1, 2, 4, 3, 5, 6, 7, 8, 9, 10], 3, "reordered", "event 3 is 1 place later"),
            ([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10], 11, "changed", "event 11 (session.status) was changed"),
        ],
    )
    def test_removed_inserted_and_moved_lines(
        self, lines: list[str], tmp_path: Path, order: list[int], seq: int, kind: str, message: str
    ) -> None:
        """Removed, inserted and moved lines are reported with the number of the event."""
        new = [lines[0], *(lines[n] for n in order)]
        if kind in ("inserted", "reordered", "changed"):  # renumbered, so that the numbers look right
            new = [lines[0], *(canonical({**json.loads(x), "seq": n}) for n, x in enumerate(new[1:], 1))]
        fault = read(tmp_path, new).check.fault
        assert fault is not None
        assert (fault.seq, fault.kind, fault.message) == (seq, kind, message)

    @pytest.mark.parametrize(
        ("change", "seq", "message"),
        [
            ({"events": 9}, 10, "counts 9 events, and there are 10"),
            ({"events": 11}, 11, "1 event at the end was removed"),
            ({"head": "0" * 64}, 11, "the heading names another last hash"),
            ({"head": None}, 11, "the heading names another last hash"),
            ({"session": "s2"}, 1, "event 1 (session.opened) was changed"),
        ],
    )
    def test_heading_that_does_not_match(
        self, lines: list[str], tmp_path: Path, change: dict[str, object], seq: int, message: str
    ) -> None:
        """A heading that does not match the lines after it is reported."""
        fault = read(tmp_path, changed(lines, 0, lambda line: line.update(change))).check.fault
        assert fault is not None
        assert fault.seq == seq
        assert message in fault.message

    def test_cut_off_within_a_line(self, lines: list[str], tmp_path: Path) -> None:
        """A file that ends within a line is reported with the number of that line."""
        file = saved(tmp_path / "cut.jsonl", lines)
        file.write_bytes(file.read_bytes()[:-40])
        with pytest.raises(ExportError, match=r"cut\.jsonl:11: .*cut off; export the session again"):
            read_export(file)

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", r":1: expected the heading of an exported session"),
            (b"\n\n", r":1: expected the heading"),
            (b"seq,at,type\r\n", r":1: expected the heading"),
            (b"[1]", r":1: expected the heading"),
            (b"\xff\xfe\x00binary", r"is not UTF-8 text, so it is not an export"),
            (b"SQLite format 3\x00\x80" + bytes(range(256)), r"is not UTF-8 text|expected the heading"),
            (b"\x00" * 100, r":1: expected the heading"),
        ],
    )
    def test_file_of_another_kind(self, tmp_path: Path, content: bytes, message: str) -> None:
        """A file of another kind gives an error with its name and the way to make an export."""
        file = tmp_path / "file.jsonl"
        file.write_bytes(content)
        with pytest.raises(ExportError, match=message) as caught:
            read_export(file)
        assert "file.jsonl" in str(caught.value)

    def test_missing_file_or_directory(self, tmp_path: Path) -> None:
        """The error for a missing file or a directory has the system's reason."""
        with pytest.raises(ExportError, match="No such file"):
            read_export(tmp_path / "none.jsonl")
        with pytest.raises(ExportError, match="Is a directory"):
            read_export(tmp_path)

    @pytest.mark.parametrize(
        "change",
        [
            "body = '{'",
            "body = '[]'",
            "body = '1'",
            "body = x'00'",
            "at = 'noon'",
            "at = 9e18",
            "hash = 'text'",
            "salt = 'text'",
        ],
    )
    @pytest.mark.parametrize("mask", [MASK, None])
    @pytest.mark.sqlite("columns hold values of any type")
    def test_a_damaged_journal(self, database: Path, change: str, mask: object) -> None:
        """An event that cannot be exported is named, with the command that finds the cause."""
        tamper(database, f"UPDATE event SET {change} WHERE seq = 4")
        with pytest.raises(ValueError, match=r"Event 4 of session 's1' cannot be read.*history verify"):
            exported(database, mask=mask)  # pyright: ignore[reportArgumentType]


def table(database: Path, session: str = "s1", *, masked: bool = True) -> list[dict[str, str]]:
    """Return a session's CSV table as a program reads it."""
    lines = list(as_csv(linked_events(database, session), MASK if masked else None))
    assert not any(line.endswith(("\r", "\n")) for line in lines)
    text = "".join(f"{line}\n" for line in lines)
    return list(csv.DictReader(io.StringIO(text, newline="")))


class TestCsv:
    def test_a_record_for_each_event(self, database: Path) -> None:
        """Every event has a record with its number, time and outcome."""
        found = table(database)
        assert tuple(found[0]) == COLUMNS
        assert [row["seq"] for row in found] == [str(n) for n in range(1, len(BODIES) + 1)]
        assert {row["at"] for row in found} == {"2026-11-20T12:00:00.000Z"}
        assert [row["type"] for row in found] == [body.type for body in BODIES]
        assert (found[6]["outcome"], found[6]["by"]) == ("approved", "maria")
        assert (found[7]["outcome"], found[7]["by"], found[7]["tool"]) == ("allow", "maria", "deploy")
        assert (found[8]["text"], found[8]["is_error"]) == ("deploy ok", "no")
        assert found[9]["outcome"] == "done"
        assert [row["hash"] for row in found] == [json.loads(x)["hash"] for x in exported(database)[1:]]

    def test_edited_call_has_editor_and_original_input(self, tmp_path: Path) -> None:
        """G-75: the row of an edited call has the editor and the original input, both masked."""
        database = tmp_path / "journal.db"
        wanted: dict[str, JsonValue] = {"env": "prod", "password": SECRET}
        runs: dict[str, JsonValue] = {"env": "staging", "password": SECRET}
        call = CallRecord(call_id="c1", tool="deploy", input=wanted)
        first = request("a1", "s/c2", "deploy").model_copy(update={"input": {"n": 1}})
        again = request("a2", "c1", "deploy").model_copy(
            update={"input": runs, "edited": True, "edited_by": "ada"}
        )
        recorded_at(
            database,
            NOW,
            "s1",
            opening(),
            MessageAdded(role="assistant", calls=(call,)),
            again,
            decided("c1", "deploy", input=runs, approved_by=("ben",), edited=True, edited_by="ada"),
            decided("c1", "deploy", input=runs),
            first,
            decided("s/c2", "deploy", input={"n": 2}, edited=True, edited_by="cy", via="s"),
        )
        rows = table(database)
        masked = f'{{"env":"prod","password":"[masked: {len(SECRET)} characters]"}}'
        assert [(row["edited_by"], row["asked_input"]) for row in rows] == [
            ("", ""),
            ("", ""),
            ("ada", masked),
            ("ada", masked),
            ("", ""),
            ("", ""),
            ("cy", '{"n":1}'),
        ]
        assert "staging" in rows[3]["input"]
        assert SECRET not in str(rows)
        assert SECRET in str(table(database, masked=False)[3])

    def test_masked_unless_requested(self, database: Path) -> None:
        """The table has secrets only if they were requested."""
        assert SECRET not in str(table(database))
        assert str(table(database, masked=False)).count(SECRET) == 2

    @pytest.mark.parametrize(
        "text",
        [
            "=1+1",
            "+1",
            "-1",
            "@SUM(A1)",
            "\t=1",
            "\r=1",
            "\n=1",
            "\uff1d1",
            "\uff0b1",
            "\uff0d1",
            "\uff201",
            '=HYPERLINK("http://127.0.0.1","x")',
        ],
    )
    def test_no_cell_is_a_formula(self, tmp_path: Path, text: str) -> None:
        """Text that a spreadsheet would evaluate gets an apostrophe in front, in every column."""
        database = tmp_path / "journal.db"
        bodies: list[EventBody] = [
            opening(agent=text, opened_by=text),
            MessageAdded(role="user", text=text, by=text),
            decided(text, text, outcome="block", reason=text, net=text),
            result(text, text, output=text, is_error=True),
            SessionStatus(status="failed", error=text),
        ]
        recorded_at(database, NOW, "s1", *bodies)
        found = table(database)
        cells = [cell for row in found for cell in row.values()]
        assert not [
            cell for cell in cells if cell[:1] in tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20") and cell
        ]
        assert found[1]["text"] == f"'{text}"
        assert found[2]["reason"] == found[2]["rule"] == found[2]["call_id"] == f"'{text}"

    @settings(max_examples=examples(50), deadline=None)
    @given(text=st.text(alphabet=st.sampled_from("a,;\"'\n\r\t \u2028\x00é"), min_size=1))
    def test_commas_quotes_and_newlines_survive(self, text: str) -> None:
        """A CSV reader returns commas, quotes and newlines unchanged."""
        body = MessageAdded(role="user", text=text).model_dump_json()
        event = LinkedEvent(ChainPosition("s", 1, 0), "message", body, bytes(16), None, bytes(32))
        records = "".join(f"{line}\n" for line in as_csv([event, event], None))
        found = list(csv.DictReader(io.StringIO(records, newline="")))
        assert len(found) == 2
        for row in found:
            assert row["text"].removeprefix("'") == text.removeprefix("'")
            assert row["seq"] == "1"


class TestMessages:
    async def talk(self, tmp_path: Path, *, compact: bool) -> tuple[ScriptedModel, list[object]]:
        """Return the model after a session with a blocked call, and the exported conversation."""
        shop = Shop()
        model = ScriptedModel(
            [C(rm={}), C(test={}, rm={}), T("tested"), T("In short: tested."), T("again")]
            if compact
            else [C(rm={}), C(test={}, rm={}), T("tested"), T("again")]
        )
        hub = Hub.open(tmp_path / "hub.db")
        try:
            session = await hub.open_session(
                Agent(model, name="bot", tools=shop.tools(), system_prompt="Be brief."),
                SessionConfig(compile_rules(RULES).registry),
            )
            await hub.send(session, "go — \U0001f680", by="maria")
            await hub.wait(session)
            if compact:
                assert (await hub.compact(session, by="ben", keep_last=1)).ok
            await hub.send(session, "and again", by="maria")
            await hub.wait(session)
            return model, message_log(await hub.recorded(session))  # pyright: ignore[reportReturnType]
        finally:
            await hub.close()

    @pytest.mark.parametrize("compact", [False, True])
    async def test_conversation_equals_last_model_request(self, tmp_path: Path, compact: bool) -> None:
        """The conversation, but for instructions and the last answer, equals the model's last request."""
        model, log = await self.talk(tmp_path, compact=compact)
        request = model.requests[-1]
        sent = wire_messages(ModelRequest(messages=request.messages))
        plain = [{key: m[key] for key in m if key != OUTCOME_FIELD} for m in log]  # pyright: ignore
        assert plain[:-1] == sent
        assert log[-1] == {"role": "assistant", "content": "again"}
        assert ("<summary>" in json.dumps(log)) == compact

    def test_conversation_of_masked_events_has_no_secrets(self, database: Path) -> None:
        """The conversation of masked events has no secrets."""
        events = list(open_reader(database).events("s1"))
        assert SECRET in json.dumps(message_log(events))
        assert SECRET not in json.dumps(message_log(map(Redaction().event, events)))


class TestChangedByPeople:
    """All changes by operators in one session: an edit, a grant, a switch and a lookalike name."""

    async def session(self, tmp_path: Path) -> Path:
        """A journal of a session in which operators changed much, with secrets in all possible places."""
        database = tmp_path / "hub.db"
        hub = Hub.open(database)
        try:
            await opened(hub, "map bash.command ./deploy as deploy\nrequire human-approval before deploy")

            async def decide(call_id: str, tool: str, value: dict[str, JsonValue], **how: Any) -> None:
                call = asyncio.ensure_future(hub.call("robin-1", call_id, tool, value))
                asked = asyncio.ensure_future(until(hub.approvals))
                await asyncio.wait((call, asked), return_when=asyncio.FIRST_COMPLETED)
                for request in [] if call.done() else await asked:
                    done = await hub.decide(request.id, approved=True, by="jo", **how)
                    assert done.ok, done.message
                asked.cancel()
                assert (await call).outcome == "allow"
                await hub.result("robin-1", call_id, output=f"token={SECRET}", is_error=False)

            shown: dict[str, JsonValue] = {"command": "./deploy prod", "password": SECRET}
            why = f"password={SECRET}"
            await decide("c1", "bash", shown, input={**shown, "command": "./deploy staging"})
            await decide("c2", "bash", shown, grant=GrantTerms("names", uses=3), reason=why)
            await decide("c3", "bash", shown)
            await decide("c4", "b\u0430sh", {"command": f"TOKEN={SECRET} ls"})
            await decide("c5", "BASH", {**shown, "n": 1})
            off = await hub.toggle_net("robin-1", "approve-before-deploy", False, by="li", reason=why)
            assert off.ok, off.message
            await decide("c6", "bash", {**shown, "cwd": "/"})
        finally:
            await hub.close()
        return database

    async def test_every_change_is_shown_without_secrets(self, tmp_path: Path) -> None:
        """Record, table and conversation have every edit, grant, switch and name, but no secret."""
        database = await self.session(tmp_path)
        lines = list(as_jsonl("robin-1", linked_events(database, "robin-1"), MASK))
        rows = table(database, "robin-1")
        events = list(open_reader(database).events("robin-1"))
        log = message_log(map(Redaction().event, events))
        for form in (lines, rows, log):
            assert SECRET not in str(form)
            assert "[masked:" in str(form)
        bodies = [json.loads(line)["body"] for line in lines[1:]]
        [given] = [body for body in bodies if body["type"] == "grant.given"]
        assert given["by"] == "jo"
        assert given["grant"]["programs"] == ["./"]
        [switched] = [body for body in bodies if body["type"] == "net.toggled"]
        assert (switched["by"], switched["active"]) == ("li", False)
        made = {row["call_id"]: row for row in rows if row["type"] == "call.decided"}
        assert (made["c1"]["edited_by"], made["c1"]["by"]) == ("jo", "jo")
        assert "./deploy prod" in made["c1"]["asked_input"]
        assert "./deploy staging" in made["c1"]["input"]
        decided = {body["call_id"]: body for body in bodies if body["type"] == "call.decided"}
        assert decided["c3"]["granted"] == ["grant-1"]
        assert made["c4"]["tool"] == "b\u0430sh"
        assert decided["c5"]["judged_as"] == ["bash"]
        assert made["c6"]["off"] == "approve-before-deploy was off: li"
        kinds = {row["kind"]: row["by"] for row in rows if row["kind"]}
        assert (kinds["grant"], kinds["toggle"]) == ("jo", "li")
