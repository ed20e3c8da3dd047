"""Taking back what a call moved that never ran, so that it costs nothing (A-40).

Only where the net then stands as if the call had never been: a token that is given back too many opens a
gate, one too few merely stays charged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice

from ..net import Marking, SkillNet, Transition, unfired
from .member import Member
from .types import ResultRecord, Step, ToolResult

KEPT = 1024
"""Moves that are remembered; a call that never runs is nearly always the last or last but a few."""

Move = tuple[str | None, tuple[Step, ...]]
"""The steps of a decision with the id of its call, or those that a result fired, with none."""


class Moves:
    """The last moves of a gate's nets, the latest at the end; `note` adds one."""

    def __init__(self) -> None:
        self._last: deque[Move] = deque(maxlen=KEPT)
        self.note = self._last.append
        self.forget = self._last.clear

    def undone(
        self, result: ToolResult, record: ResultRecord, members: Mapping[str, Member]
    ) -> ResultRecord:
        """What `result` did, with what it takes back of its `undo`: nothing unless the call failed."""
        if not result.is_error or record.anomaly is not None:
            return record
        undone = self._take_back(result.tool_call_id, result.undo, members)
        return replace(record, undone=undone) if undone else record

    def _take_back(
        self, call_id: str, steps: tuple[Step, ...], members: Mapping[str, Member]
    ) -> tuple[Step, ...]:
        """Take back those of a call's `steps` that fired when it was allowed, all of a net or none.

        Returns them, last first. A net stays as it is when something else than calls alike has moved it
        since: no marking tells whether that would have come so without this call.
        """
        at = next((n for n in range(len(self._last) - 1, -1, -1) if self._last[n][0] == call_id), None)
        if at is None:
            return ()
        undone: tuple[Step, ...] = ()
        kept = self._last[at][1]
        for key in dict.fromkeys(step.net for step in reversed(steps)):
            own = _fired(self._last[at], key)
            later = (_fired(move, key) for move in islice(self._last, at + 1, None))
            if not own or own != _fired((call_id, steps), key) or any(m not in ((), own) for m in later):
                continue
            member = members.get(key)
            before = None if member is None else _before(member.net, member.state.marking, own)
            if member is not None and before is not None:
                member.state.marking = before
                undone += tuple(step for step in reversed(steps) if step.net == key and _at_call(step))
                kept = tuple(step for step in kept if step.net != key)
        if undone:
            self._last[at] = (call_id, kept)
        return undone


def _fired(move: Move, key: str) -> tuple[Transition, ...]:
    """The transitions of the net `key` that fired in a move, in order: of a decision not the deferred."""
    call_id, steps = move
    return tuple(
        step.transition for step in steps if step.net == key and (call_id is None or _at_call(step))
    )


def _at_call(step: Step) -> bool:
    return not step.transition.deferred


def _before(net: SkillNet, marking: Marking, fired: tuple[Transition, ...]) -> Marking | None:
    before: Marking | None = marking
    for transition in reversed(fired):
        before = None if before is None else unfired(net, before, transition)
    return before
