"""From a journal's events to what a judge reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from ..history.calls import CallRow
from ..history.decided import IN_TIME
from ..history.events import (
    ApprovalDecided,
    ApprovalExpired,
    ApprovalRequested,
    CallDecided,
    CallResult,
    JournalEvent,
    NetToggled,
    SessionOpened,
    SessionResumed,
)
from ..history.parts import RuleRecord
from ..history.rows import event_of
from ..history.times import to_ms
from .recorded import (
    Recorded,
    RecordedCall,
    RecordedOpening,
    RecordedQuestion,
    RecordedResult,
    RecordedResumption,
    RecordedSwitch,
    Then,
)
from .rows import plain_call, result

OPENINGS = 32


class Items:
    """The items of one session, event by event: which rule asked about a call, and who denied it, is
    remembered until it is decided.

    A step of a flow that a person takes is no call: no rule has a say in it, then or now.

    `openings` are those of sessions read before, by their text: many begin alike, and with all their
    nets that text is the longest there is.
    """

    def __init__(self, openings: dict[str, RecordedOpening] | None = None) -> None:
        self._denied: dict[str, str] = {}
        self._asked: dict[str, tuple[str, RuleRecord | None]] = {}
        self._steps: set[str] = set()
        self._openings = {} if openings is None else openings

    def of_rows(self, session: str, rows: Iterable[CallRow], path: Path) -> Iterator[Recorded]:
        """The items in rows of the journal at `path`. Raises `JournalError` for an unreadable one."""
        steps, asked = self._steps, self._asked
        for row in rows:
            kind = row[2]
            if kind == "call.decided":
                item = plain_call(row)
                if item is not None and asked:
                    asked.pop(item.call_id, None)
            elif kind == "call.result":
                item = result(row)
                if item is not None and item.call_id in steps:
                    continue
            else:
                item = None
            if item is not None or (item := self._of_row(session, row, path)) is not None:
                yield item

    def _of_row(self, session: str, row: CallRow, path: Path) -> Recorded | None:
        seq, at, kind, text = row
        known = self._openings.get(text) if kind == "session.opened" else None
        if known is not None:
            return known
        # Where it stands in the whole file is not read: nothing here asks.
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
                then = self._then(body)
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
                return RecordedResult(body.call_id, body.tool, body.is_error, body.undone, body.arrived)
            case ApprovalRequested(wants=dict()) as body:
                self._steps.add(body.call_id)
                return None
            case ApprovalRequested() as body:
                at = event.at.timestamp()
                self._asked.setdefault(body.call_id, (body.net, body.rule))
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
                known = frozenset(net.key for net in body.nets)
                branch = event if body.kind == "branch" else None
                return RecordedOpening(known, body.active, branch, body.workdir, body.shell)
            case SessionResumed() as body:
                self._asked.clear()
                added = tuple(net.key for net in body.nets)
                return RecordedResumption(added, body.dropped, body.active, body.workdir, body.shell)
            case _:
                return None

    def _then(self, body: CallDecided) -> Then:
        own = body.outcome == "block" and body.net is None
        net, rule = body.net, body.rule
        asked = None if own else self._asked.pop(body.call_id, None)
        denied_by = None if own else self._denied.pop(body.call_id, None)
        shadow = body.mode == "shadow"
        if denied_by is not None and body.outcome == "block":
            by, outcome = (denied_by,), "ask"
        else:
            # What a grant let pass a person had approved before.
            by = body.approved_by or body.granted
            outcome = "ask" if body.outcome == "allow" and by else body.outcome
        if outcome == "ask" and net is None and asked is not None:
            net, rule = asked
        return Then(
            outcome=outcome,
            ran=shadow or body.outcome == "allow",
            shadow=shadow,
            denied=outcome == "ask" and body.outcome == "block",
            by=by,
            net=net,
            rule=rule,
            reason=body.reason,
            own=own,
        )
