"""A line for every decision and every change of settings, derived from a session's events.

The journal stores the lines with the events, in the same transaction; `decisions_of` computes the correct
ones. A subagent's call is recorded in its own session and in that of its parent, whose nets judged it.
Only the parent's event makes a line, with the subagent as `via`: it has the rule, the operator who
answered and the effect on the nets, and a replay of the parent session shows the decision. Changes of
settings in a subagent's own session are lines of that session.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from json.encoder import encode_basestring
from typing import NamedTuple, TypeAlias, get_args

from pydantic import JsonValue

from ..database import compiled as sql
from ..database.compiled import DecisionLine
from ..database.connection import Connection
from ..database.insert import insert
from ..fold.setting_changes import SETTINGS, RecordedSettings, Setting, SettingChange
from ..model.events import (
    ApprovalDecided,
    ApprovalExpired,
    ApprovalRequested,
    ApprovalWithdrawn,
    CallDecided,
    CallResult,
    JournalEvent,
    SessionOpened,
    SessionResumed,
    event_body,
)
from ..model.fast_models import construct_tuple
from ..model.records import RuleRecord
from ..model.times import from_ms, to_ms

HEAD = 200
"""Maximum length of an input, a rule or a name in a line."""

_BATCH = 1000
_encode = json.JSONEncoder(ensure_ascii=False).encode


class CallEnded(NamedTuple):
    """Result of the call with the decision `cursor`."""

    result: str
    cursor: int


Change: TypeAlias = DecisionLine | CallEnded

IN_TIME = "(nobody in time)"
"""Name shown as the author of a denial because the request expired."""

ListedEvent: TypeAlias = (
    SessionOpened
    | SessionResumed
    | CallDecided
    | CallResult
    | ApprovalRequested
    | ApprovalDecided
    | ApprovalExpired
    | ApprovalWithdrawn
    | Setting
)
"""The events that affect the lines."""

LISTED_EVENTS: tuple[type[ListedEvent], ...] = get_args(ListedEvent)
LISTED = frozenset(kind.model_fields["type"].default for kind in LISTED_EVENTS)
"""The types of the events that affect the lines."""


def _types(kinds: Iterable[type[ListedEvent]]) -> str:
    """Return the types of events as an SQL list."""
    return ", ".join(f"'{kind.model_fields['type'].default}'" for kind in kinds)


_KINDS = _types(LISTED_EVENTS)
_SETTINGS = _types((SessionOpened, *SETTINGS))


@dataclass(slots=True)
class _FirstRequest:
    """First approval request about a call, and who denied it."""

    net: str
    rule: RuleRecord | None
    denied_by: str | None = None


@dataclass(slots=True)
class SessionCalls:
    """State of a session that its next lines depend on: agent, requests, running calls.

    `running` has, by call id, the cursors of the decisions without a result yet, oldest first: an id may
    be used again.
    """

    agent: str
    child: bool
    asked: dict[str, _FirstRequest] = field(default_factory=dict[str, _FirstRequest])
    running: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    settings: RecordedSettings = field(default_factory=RecordedSettings)

    def take(self, event: JournalEvent, at: int) -> Change | None:
        """Process one event, at `at` in UTC milliseconds; return its change of the lines."""
        if isinstance(event.body, SETTINGS):
            return self._take_change(event, event.body, at)
        if self.child:
            return None
        match event.body:
            case CallDecided() as body:
                return self._take_decision(event, body, at)
            case CallResult(anomaly=None) as body:
                return self._take_result(body)
            case ApprovalRequested() as body:
                self.asked.setdefault(body.call_id, _FirstRequest(body.net, body.rule))
            case ApprovalDecided(approved=False) as body:
                if (question := self.asked.get(body.call_id)) is not None:
                    question.denied_by = body.by
            case ApprovalExpired() as body:
                if (question := self.asked.get(body.call_id)) is not None:
                    question.denied_by = IN_TIME
            case ApprovalWithdrawn() as body:
                self.asked.pop(body.call_id, None)
            case _:
                pass
        return None

    def _take_change(self, event: JournalEvent, body: Setting, at: int) -> DecisionLine | None:
        change = self.settings.take(body)
        if isinstance(body, SessionResumed):
            self.agent = body.agent
            self.asked.clear()
        if change is None:
            return None
        net, call_id = change.net, change.call_id
        if net is None and (question := self.asked.get(call_id)) is not None:
            net = question.net
        return self._change_line(event, change, net, at)

    def _change_line(
        self, event: JournalEvent, change: SettingChange, net: str | None, at: int
    ) -> DecisionLine:
        rule = None if net is None else self.settings.rules.get(net)
        tool = change.tool[:HEAD]
        return DecisionLine(
            cursor=event.cursor,
            session=event.session,
            seq=event.seq,
            at=at,
            agent=self.agent[:HEAD],
            call_id=change.call_id,
            tool=tool,
            called=tool,
            input=change.words[:HEAD].replace("\0", "␀"),
            mode=self.settings.mode,
            verdict=change.step,
            net=None if net is None else net[:HEAD],
            rule=None if rule is None else rule.text[:HEAD],
            place=None if rule is None else rule.where[-HEAD:],
            by=", ".join(change.people)[:HEAD] or None,
            via=None,
            result=None,
            kind=change.kind,
            off=None,
        )

    def _take_decision(self, event: JournalEvent, body: CallDecided, at: int) -> DecisionLine:
        question = self.asked.pop(body.call_id, None) if self.asked else None
        denied_by = question.denied_by if question is not None else None
        verdict = _verdict(body, denied=denied_by is not None)
        call_id, net, rule = body.call_id, body.net, body.rule
        if net is None and question is not None:
            net, rule = question.net, question.rule
        elif net is None and body.steps:
            net = body.steps[0].net
        if verdict not in ("block", "denied"):
            self.running.setdefault(call_id, []).append(event.cursor)
        by = denied_by
        if verdict != "denied":
            by = ", ".join(body.approved_by or body.granted)[:HEAD] or None
        switched_off = None
        if body.off or body.mode == "shadow":
            switched_off = self._switch_words(body)
            if verdict == "allow" and body.off:
                net = net or next(iter(body.off))
        return construct_tuple(
            DecisionLine,
            (
                event.cursor,
                event.session,
                event.seq,
                at,
                self.agent[:HEAD],
                call_id,
                (body.names[0] if body.names else body.tool)[:HEAD],
                body.tool[:HEAD],
                input_head(body.input),
                body.mode,
                verdict,
                None if net is None else net[:HEAD],
                None if rule is None else rule.text[:HEAD],
                None if rule is None else rule.where[-HEAD:],
                by,
                body.via,
                None,
                "call",
                switched_off,
            ),
        )

    def _switch_words(self, body: CallDecided) -> str | None:
        """Return the nets or the mode that were off and would have stopped a call, and who set them."""
        words = body.off_words if body.outcome == "allow" else None
        if body.mode == "shadow" and body.outcome != "allow":
            words = self.settings.shadow or "shadow mode"
        return None if words is None else words[:HEAD].replace("\0", "␀")

    def _take_result(self, body: CallResult) -> CallEnded | None:
        running = self.running.get(body.call_id)
        if not running:
            return None
        cursor = running.pop()
        if not running:
            del self.running[body.call_id]
        return CallEnded("unknown" if body.unknown else "failed" if body.is_error else "done", cursor)


def _verdict(body: CallDecided, *, denied: bool) -> str:
    match body.outcome:
        case "allow":
            return "approved" if body.approved_by else "allow"
        case "ask":
            return "would-ask"
        case "block" if body.mode == "shadow":
            return "would-block"
        case "block":
            return "denied" if denied else "block"


def input_head(values: dict[str, JsonValue]) -> str:
    """Return a call's input as text, up to `HEAD` characters: a lone command as it is, else `name=JSON`.

    The names are kept, so that values under sensitive names can be masked.
    """
    if len(values) == 1 and isinstance(command := values.get("command"), str):
        return command[:HEAD].replace("\0", "␀")
    head = ""
    for name, value in values.items():
        # A fast path for the values that most inputs consist of.
        if isinstance(value, str):
            text = encode_basestring(value[:HEAD])
        elif type(value) is int:
            text = str(value)
        else:
            text = _encode(value)
        head += f"{' ' if head else ''}{name[:HEAD]}={text[: HEAD + 2]}"
        if len(head) > HEAD:
            break
    return head[:HEAD].replace("\0", "␀")


def decisions_of(events: Iterable[JournalEvent]) -> list[DecisionLine]:
    """Return the lines of a session with these events, in order. The first event is its opening."""
    lines: dict[int, DecisionLine] = {}
    for _ in listing(events, lines):
        pass
    return list(lines.values())


def listing(events: Iterable[JournalEvent], lines: dict[int, DecisionLine]) -> Iterator[JournalEvent]:
    """Yield the same events, each after `lines`, by cursor, were updated with its change."""
    for event, change in _with_changes(events):
        match change:
            case DecisionLine():
                lines[change.cursor] = change
            case CallEnded():
                lines[change.cursor] = lines[change.cursor]._replace(result=change.result)
            case None:
                pass
        yield event


def _with_changes(events: Iterable[JournalEvent]) -> Iterator[tuple[JournalEvent, Change | None]]:
    """Yield the events of consecutive sessions, each with its change."""
    calls = SessionCalls("", child=True)
    for event in events:
        if isinstance(event.body, SessionOpened):
            calls = opened_calls(event.body)
        yield event, calls.take(event, to_ms(event.at))


def opened_calls(opened: SessionOpened) -> SessionCalls:
    """Return the state of a session at its opening."""
    settings = RecordedSettings.opened(opened)
    return SessionCalls(opened.agent, child=opened.kind == "child", settings=settings)


# Lines in a database


def calls_before(connection: Connection, event: JournalEvent, calls: SessionCalls) -> None:
    """Bring `calls` to the session's state before `event`, from its lines and events in the database."""
    for call_id, cursor in connection.execute(sql.SELECT_RUNNING_CALLS, (event.session,)):
        calls.running.setdefault(call_id, []).append(cursor)
    for earlier in _listed_events(connection, event.session, end=event.seq, kinds=_SETTINGS):
        match earlier.body:
            case SessionOpened() as opened:
                calls.settings = RecordedSettings.opened(opened)
            case body if isinstance(body, SETTINGS):
                calls.settings.take(body)
            case _:
                pass
    if calls.child or isinstance(event.body, SessionResumed):
        return
    last = connection.execute(sql.SELECT_LAST_RESUME, (event.session,)).fetchone()[0]
    probe = SessionCalls(calls.agent, child=False, asked=calls.asked)
    for earlier in _listed_events(connection, event.session, after=last, end=event.seq):
        probe.take(earlier, to_ms(earlier.at))


def write_changes(connection: Connection, changes: Sequence[Change]) -> None:
    """Write changes to the table, in the open transaction."""
    lines = [change for change in changes if type(change) is DecisionLine]
    if lines:
        insert(connection, sql.INSERT_DECISION, lines)
    if len(lines) < len(changes):
        connection.executemany(sql.END_DECISION, [c for c in changes if isinstance(c, CallEnded)])


def rebuild_decisions(connection: Connection, session: str | None = None) -> int:
    """Rewrite all lines, or those of one session, in the open transaction; return their number.

    Raises `ValueError` for an event that cannot be read.
    """
    if session is None:
        connection.execute(sql.DELETE_DECISIONS)
        sessions = connection.execute(sql.SELECT_KINDS).fetchall()
    else:
        connection.execute(sql.DELETE_DECISIONS_OF_SESSION, (session,))
        sessions = connection.execute(sql.SELECT_KIND, (session,)).fetchall()
    lines = 0
    changes: list[Change] = []
    for each, kind in sessions:
        kinds = _SETTINGS if kind == "child" else _KINDS
        for _, change in _with_changes(_listed_events(connection, each, kinds=kinds)):
            if change is None:
                continue
            changes.append(change)
            lines += isinstance(change, DecisionLine)
            if len(changes) >= _BATCH:
                write_changes(connection, changes)
                changes.clear()
    write_changes(connection, changes)
    return lines


def _listed_events(
    connection: Connection,
    session: str,
    *,
    after: int = 0,
    end: int | None = None,
    kinds: str = _KINDS,
) -> Iterator[JournalEvent]:
    """Yield the events of a session that affect its lines, or those of some `kinds`, in pages."""
    while True:
        rows = connection.execute(
            sql.SELECT_BEARING.format(types=kinds), (session, after, _BATCH)
        ).fetchall()
        for cursor, seq, at, body in rows:
            if end is not None and seq >= end:
                return
            yield JournalEvent(
                cursor=cursor,
                session=session,
                seq=seq,
                at=from_ms(at),
                body=event_body.validate_json(body),
            )
        if len(rows) < _BATCH:
            return
        after = rows[-1][1]
