"""Recorded sessions of a journal, read page by page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, groupby
from operator import itemgetter
from typing import cast

from pydantic_core import from_json

from ..core.frozen import maker
from ..history.database.location import Location
from ..history.decisions.call_pages import CallRow, call_pages
from ..history.decisions.index import IN_TIME
from ..history.journal.rows import event_of
from ..history.model.events import (
    ApprovalDecided,
    ApprovalExpired,
    ApprovalRequested,
    CallDecided,
    CallResult,
    JournalEvent,
    MessageAdded,
    NetToggled,
    RulesReplaced,
    SessionOpened,
    SessionResumed,
    ToolHints,
)
from ..history.model.records import Kind, RuleRecord
from ..history.model.times import to_ms
from ..recording.source_texts import opening_fields, texts_in
from .recording import (
    Recorded,
    RecordedCall,
    RecordedHints,
    RecordedOpening,
    RecordedOutcome,
    RecordedQuestion,
    RecordedReplacement,
    RecordedResult,
    RecordedResumption,
    RecordedSwitch,
    RecordedText,
    Recording,
)

# Rows of nearly all calls in a journal, read without parsing them.
#
# A decision or result written by this version has its fields in a fixed order and no blanks. In a text
# every quote is preceded by a backslash, so a mark like `","is_error":` never occurs in what an agent or
# a tool wrote. The exception is an input, which is JSON itself, so its end is searched for from the back.
# Rows that look different are parsed normally. Parsing takes longer than judging.


_call = maker(RecordedCall)
_result = maker(RecordedResult)
_ALLOWED = RecordedOutcome()
_ALLOWED_IN_SHADOW = RecordedOutcome(shadow=True)

_WORD = r'"([^"\\]*)"'
_HEAD = rf'\{{"type":"call\.decided","call_id":{_WORD},"tool":{_WORD},"input":'
_DECIDED = re.compile(rf"{_HEAD}\{{")
_OUTCOME = ',"outcome":"'
_ENFORCED = ',"outcome":"allow","mode":"enforce","reason":null,"net":null,"rule":null,'
_IN_SHADOW = ',"outcome":"allow","mode":"shadow","reason":null,"net":null,"rule":null,'
_NAMES = '},"names":['
_UNASKED = re.compile(
    r',"approved_by":\[\],"edited":(?:true|false)(?:,"granted":\[\],"clock":null)?,"via":'
)
"""Neither an operator nor a grant let it pass, and no net read the time."""
_COMMON = re.compile(rf'{_HEAD}(\{{[^{{}}\\]*\}}),"names":\[{_WORD}\]{re.escape(_ENFORCED)}')
"""One name, and no object within the input, so that the first closing brace is the input's own."""
_COMMON_END = ',"approved_by":[],"edited":false,"granted":[],"clock":null,"via":null'
_PLAIN = CallDecided(call_id="", tool="", input={}, names=(), outcome="allow", mode="enforce")
_COMMON_ENDS = (
    _PLAIN.model_dump_json().partition('"steps":[]')[2],
    _PLAIN.model_dump_json(exclude={"groups"}).partition('"steps":[]')[2],
    f'{_COMMON_END},"uninspectable":null,"judged_as":[]}}',
    f"{_COMMON_END}}}",
)
"""Ends of records: current ones, those before people's groups were recorded, before the editor was, and
before `unclear` was.
"""
_UNCLEAR = '"uninspectable":"'
_RESULT = re.compile(rf'\{{"type":"call\.result","call_id":{_WORD},"tool":{_WORD},"output":"')
_ERROR = '","is_error":'
_UNDONE = ',"undone":['
_RESULT_END = ',"undone":[],"clock":null,"arrived":{}}'


class JsonInput(Mapping[str, object]):
    """A call's input that is parsed on first access; `text` is its JSON.

    Access raises `ValueError` if the text is invalid.
    """

    __slots__ = ("_read", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._read: dict[str, object] | None = None

    @property
    def _values(self) -> dict[str, object]:
        if self._read is None:
            self._read = cast("dict[str, object]", from_json(self.text))
        return self._read

    def __getitem__(self, key: str) -> object:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def plain_call(row: CallRow) -> RecordedCall | None:
    """A decision that allowed a call without approval; `None` for any other row."""
    text = row[3]
    common = _COMMON.match(text)
    if common is not None and text.endswith(_COMMON_ENDS):
        call_id, tool, arguments, name = common.groups()
        return _call(row[0], call_id, tool, JsonInput(arguments), _ALLOWED, row[1], (name,))
    head = _DECIDED.match(text)
    outcome = text.rfind(_OUTCOME)
    if head is None or outcome < 0:
        return None
    start = head.end() - 1
    names_at = text.rfind(_NAMES, start, outcome)
    if names_at < 0 or _UNASKED.search(text, outcome) is None or text.find(_UNCLEAR, outcome) >= 0:
        return None
    if text.startswith(_ENFORCED, outcome):
        then = _ALLOWED
    elif text.startswith(_IN_SHADOW, outcome):
        then = _ALLOWED_IN_SHADOW
    else:
        return None
    call_id, tool = head.groups()
    names_text = text[names_at + len(_NAMES) : outcome - 1]
    call_names = (
        (tool,) if names_text and names_text[1:-1] == tool else tuple(from_json(f"[{names_text}]"))
    )
    return _call(row[0], call_id, tool, JsonInput(text[start : names_at + 1]), then, row[1], call_names)


def result(row: CallRow) -> RecordedResult | None:
    """Result of a call that ran; `None` for any other row."""
    text = row[3]
    head = _RESULT.match(text)
    at = -1 if head is None else text.find(_ERROR, head.end() - 1)
    if head is None or at < 0:
        return None
    at += len(_ERROR)
    if not text.startswith(("true,", "false,"), at):
        return None
    if not text.endswith(_RESULT_END):
        undone = text.rfind(_UNDONE, at)
        if undone >= 0 and not text.startswith("]", undone + len(_UNDONE)):
            return None
    return _result(head[1], head[2], text[at] == "t")


# Conversion of a journal's events to the items that a judge reads.


OPENINGS = 32


class RecordedItems:
    """Converts the events of one session to items.

    It remembers which rule asked about a call, and who denied it, until the call is decided. A flow's
    step that a person performs is not a call, because no rule judges it.

    `openings` are those of sessions read before, by their text: many are alike, and with all their nets
    they are the longest texts. With `texts` results have their outputs, and messages are items.
    """

    def __init__(
        self, openings: dict[str, RecordedOpening] | None = None, *, texts: bool = False
    ) -> None:
        self._texts = texts
        self._kind: Kind = "root"
        self._denied: dict[str, str] = {}
        self._questions: dict[str, tuple[str, RuleRecord | None]] = {}
        self._steps: set[str] = set()
        self._openings = {} if openings is None else openings

    def of_rows(self, session: str, rows: Iterable[CallRow], path: Location) -> Iterator[Recorded]:
        """Items in rows of the journal at `path`. Raises `JournalError` for an unreadable row."""
        steps, open_questions = self._steps, self._questions
        for row in rows:
            kind = row[2]
            if kind == "call.decided":
                item = plain_call(row)
                if item is not None and open_questions:
                    open_questions.pop(item.call_id, None)
            elif kind == "call.result":
                item = None if self._texts else result(row)
                if item is not None and item.call_id in steps:
                    continue
            else:
                item = None
            if item is not None or (item := self._of_row(session, row, path)) is not None:
                yield item

    def _of_row(self, session: str, row: CallRow, path: Location) -> Recorded | None:
        seq, at, kind, text = row
        opening = self._openings.get(text) if kind == "session.opened" else None
        if opening is not None and not self._texts:
            return opening
        # Its position in the whole file is not read, because nothing here needs it.
        item = self.of(event_of((0, session, seq, at, kind, text), path))
        if isinstance(item, RecordedOpening) and item.branch is None:
            if len(self._openings) >= OPENINGS:
                self._openings.clear()
            self._openings[text] = item
        return item

    def of(self, event: JournalEvent) -> Recorded | None:
        """The item in an event, if it has one."""
        match event.body:
            case CallDecided(call_id=call_id) | CallResult(call_id=call_id) if call_id in self._steps:
                return None
            case CallDecided() as body:
                then = self._recorded_outcome(body)
                at = to_ms(event.at)
                return RecordedCall(
                    event.seq,
                    body.call_id,
                    body.tool,
                    body.input,
                    then,
                    at,
                    body.names,
                    body.clock,
                    body.uninspectable,
                )
            case CallResult() as body:
                output = body.output if self._texts and not body.unknown else None
                return RecordedResult(
                    body.call_id, body.tool, body.is_error, body.undone, body.arrived, output
                )
            case MessageAdded() as body:
                return next((RecordedText(*pair) for pair in texts_in(body, self._kind)), None)
            case ApprovalRequested(wants=dict()) as body:
                self._steps.add(body.call_id)
                return None
            case ApprovalRequested() as body:
                at = event.at.timestamp()
                self._questions.setdefault(body.call_id, (body.net, body.rule))
                return RecordedQuestion(body.call_id, body.called, body.input, body.names, at)
            case ApprovalDecided(approved=False) as body:
                self._denied[body.call_id] = body.by
                return None
            case ApprovalExpired() as body:
                self._denied[body.call_id] = IN_TIME
                return None
            case NetToggled(net=net, active=active):
                return RecordedSwitch(net, active)
            case SessionOpened() as body:
                self._kind = body.kind
                net_keys = frozenset(net.key for net in body.nets)
                branch = event if body.kind == "branch" else None
                session = opening_fields(body)
                return RecordedOpening(net_keys, body.active, branch, body.workdir, body.shell, session)
            case SessionResumed() as body:
                self._questions.clear()
                new_keys = tuple(net.key for net in body.nets)
                session = opening_fields(body)
                return RecordedResumption(
                    new_keys, body.dropped, body.active, body.workdir, body.shell, session
                )
            case ToolHints(tool=tool, hints=hints):
                return RecordedHints(tool, hints)
            case RulesReplaced() as body:
                new_keys = tuple(net.key for net in body.nets)
                return RecordedReplacement(new_keys, body.dropped, body.active)
            case _:
                return None

    def _recorded_outcome(self, body: CallDecided) -> RecordedOutcome:
        is_gate_block = body.outcome == "block" and body.net is None
        net, rule = body.net, body.rule
        question = None if is_gate_block else self._questions.pop(body.call_id, None)
        denied_by = None if is_gate_block else self._denied.pop(body.call_id, None)
        shadow = body.mode == "shadow"
        if denied_by is not None and body.outcome == "block":
            by, outcome = (denied_by,), "ask"
        else:
            # An operator had approved before what a grant let pass.
            by = body.approved_by or body.granted
            outcome = "ask" if body.outcome == "allow" and by else body.outcome
        if outcome == "ask" and net is None and question is not None:
            net, rule = question
        return RecordedOutcome(
            outcome=outcome,
            ran=shadow or body.outcome == "allow",
            shadow=shadow,
            denied=outcome == "ask" and body.outcome == "block",
            by=by,
            net=net,
            rule=rule,
            reason=body.reason,
            own=is_gate_block,
        )


def recordings(path: Location, sessions: Iterable[str], *, texts: bool = False) -> Iterator[Recording]:
    """The complete sessions with these ids, one after the other; with `texts` also what was said in them.

    Raises `JournalError` for a file or an event that cannot be read.
    """
    openings: dict[str, RecordedOpening] = {}
    pages_by_session = call_pages(path, sessions, messages=texts)
    for session, pages in groupby(pages_by_session, key=itemgetter(0)):
        items = RecordedItems(openings, texts=texts)
        yield Recording(
            session, chain.from_iterable(items.of_rows(session, rows, path) for _, rows in pages)
        )
