"""Bugs on purpose: what a journal must not do, for the harness to find."""

from __future__ import annotations

import sqlite3
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import count
from pathlib import Path
from types import SimpleNamespace

from interlock.engine import hosted, resuming
from interlock.engine.agents import Message, ProposedCall
from interlock.engine.agents.messages import open_calls
from interlock.engine.agents.scripted import ScriptedCall, ScriptedModel
from interlock.engine.gate.types import GateDecision, ResultRecord, ToolResult
from interlock.engine.history import fold, writer
from interlock.engine.history.events import (
    ApprovalDecided,
    ApprovalRequested,
    ApprovalWithdrawn,
    EventBody,
    JournalEvent,
)
from interlock.engine.history.journal import utc_now
from interlock.engine.hosted import HostedSession
from interlock.engine.net import ToolCall
from interlock.engine.records import decision_record


def plant(name: str) -> None:
    """Plant the bug of this name in this process; none for no name."""
    if name:
        BUGS[name]()


def record_after_execution() -> None:
    """What a session allowed is recorded when the first of its tools has run."""
    late: dict[str, list[EventBody]] = defaultdict(list)
    settle = HostedSession.settle

    async def record_late(self: HostedSession, call: ToolCall, decision: GateDecision) -> None:
        late[self.id].append(decision_record(decision, call.input))

    async def settle_both(
        self: HostedSession, result: ToolResult, output: str, seconds: float
    ) -> ResultRecord:
        decisions, late[self.id] = late[self.id], []
        await self.record(*decisions)
        return await settle(self, result, output, seconds)

    HostedSession._record_decision = record_late
    HostedSession.settle = settle_both


def synchronous_normal() -> None:
    """A commit returns before it is on disk, where it comes when the log is full."""
    connect = writer.connect_writing

    def connected(path: Path) -> sqlite3.Connection:
        connection = connect(path)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA wal_autocheckpoint = 1000")
        return connection

    writer.connect_writing = connected


def pending_in_memory() -> None:
    """Questions and their answers are kept in memory and shown, but never recorded."""
    record = HostedSession.record

    async def record_others(self: HostedSession, *bodies: EventBody, **more: object) -> None:
        kept: list[EventBody] = []
        for body in bodies:
            if isinstance(body, ApprovalRequested | ApprovalDecided | ApprovalWithdrawn):
                event = JournalEvent(cursor=0, session=self.id, seq=0, at=utc_now(), body=body)
                fold._apply(self.state, event)
                self.publish(event, self.id)
            else:
                kept.append(body)
        if kept:
            await record(self, *kept, **more)

    HostedSession.record = record_others


def approval_ids_reused() -> None:
    """Every process numbers its questions from 1."""
    numbers = count(1)
    hosted.uuid4 = lambda: SimpleNamespace(hex=f"{next(numbers):012}")


def call_ids_reused() -> None:
    """Every process numbers its agents' calls from 1, and nobody tells them apart."""
    call = ScriptedModel._call

    def numbered(self: ScriptedModel, scripted: ScriptedCall) -> ProposedCall:
        return call(self, ScriptedCall(scripted.name, scripted.args))

    def unchanged(calls: Sequence[ProposedCall], _: object) -> tuple[ProposedCall, ...]:
        return tuple(calls)

    ScriptedModel._call = numbered
    setattr(import_module("interlock.engine.agents.loop"), "_with_own_ids", unchanged)  # noqa: B010


def allowed_calls_run_again() -> None:
    """A restart puts every open call to the gate again, also those that it had allowed."""

    def all_open(_: object, said: Sequence[Message], *__: object) -> tuple[str, ...]:
        return tuple(call.call_id for call in open_calls(said))

    right = resuming.undecided
    for module in list(sys.modules.values()):
        if getattr(module, "undecided", None) is right:
            module.undecided = all_open


BUGS: dict[str, Callable[[], None]] = {
    bug.__name__: bug
    for bug in (
        record_after_execution,
        synchronous_normal,
        pending_in_memory,
        approval_ids_reused,
        call_ids_reused,
        allowed_calls_run_again,
    )
}
