"""Planted bugs: things that a journal must not do, which the harness has to detect."""

from __future__ import annotations

import sqlite3
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from itertools import count
from pathlib import Path
from types import SimpleNamespace

from alembic import op

from interlock.engine.agents import Message, ProposedCall
from interlock.engine.agents.messages import open_calls
from interlock.engine.agents.models.scripted import ScriptedCall, ScriptedModel
from interlock.engine.approvals import requests as questions
from interlock.engine.core.clock import utc_now
from interlock.engine.gate.types import GateDecision, ResultRecord, ToolResult
from interlock.engine.history.fold import fold
from interlock.engine.history.journal import writer
from interlock.engine.history.model.events import (
    ApprovalDecided,
    ApprovalRequested,
    ApprovalWithdrawn,
    EventBody,
    JournalEvent,
    SessionStatus,
)
from interlock.engine.history.model.records import FlowStepped
from interlock.engine.history.model.state import SessionState
from interlock.engine.net.net import ToolCall
from interlock.engine.recording import interrupted_calls
from interlock.engine.recording.grants import Grants
from interlock.engine.recording.records import decision_record
from interlock.engine.sessions.call_answer import CallAnswer
from interlock.engine.sessions.config import SessionConfig
from interlock.engine.sessions.flow.gate import RunGate
from interlock.engine.sessions.flow.session import FlowSession
from interlock.engine.sessions.hosted import HostedSession
from interlock.engine.sessions.registry import SessionRegistry
from interlock.engine.sessions.subagents import Host, HostedChildren


def plant(name: str) -> None:
    """Plant the bug of this name in this process; an empty name plants none."""
    if name:
        BUGS[name]()


def record_after_execution() -> None:
    """Record a session's decisions only after the first of the allowed tools has run."""
    _record_late(lambda _: True)


def helpers_recorded_late() -> None:
    """Do the same with helpers' decisions, which are still recorded at once in the helpers' sessions."""
    _record_late(lambda call: "/" in call.tool_call_id)


def _record_late(late_ones: Callable[[ToolCall], bool]) -> None:
    late: dict[str, list[EventBody]] = defaultdict(list)
    record, settle = HostedSession._record_decision, HostedSession.settle

    async def record_late(self: HostedSession, call: ToolCall, decision: GateDecision) -> None:
        if late_ones(call) and not decision.block and not call.tool_name.startswith("task_"):
            late[self.id].append(decision_record(decision, call.input))
        else:
            await record(self, call, decision)

    async def settle_both(
        self: HostedSession, result: ToolResult, output: str, seconds: float
    ) -> ResultRecord:
        decisions, late[self.id] = late[self.id], []
        await self.record(*decisions)
        return await settle(self, result, output, seconds)

    HostedSession._record_decision = record_late
    HostedSession.settle = settle_both


def synchronous_normal() -> None:
    """Let a commit return before it is on disk; it gets there when the log is full."""
    connect = writer.connect_writing

    def connected(path: Path) -> sqlite3.Connection:
        connection = connect(path)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA wal_autocheckpoint = 1000")
        return connection

    writer.connect_writing = connected


def pending_in_memory() -> None:
    """Keep approval requests and answers in memory and show them, but never record them."""
    kinds = ApprovalRequested | ApprovalDecided | ApprovalWithdrawn
    _kept_in_memory(lambda _, body: isinstance(body, kinds))


def _kept_in_memory(forgotten: Callable[[HostedSession, EventBody], bool]) -> None:
    record = HostedSession.record

    async def record_others(
        self: HostedSession, *bodies: EventBody, on_written: Callable[[bool], None] | None = None
    ) -> None:
        kept: list[EventBody] = []
        for body in bodies:
            if forgotten(self, body):
                event = JournalEvent(cursor=0, session=self.id, seq=0, at=utc_now(), body=body)
                fold._apply(self.state, event)
                self.publish(event, self.id)
            else:
                kept.append(body)
        if kept:
            await record(self, *kept, on_written=on_written)
        elif on_written is not None:
            on_written(True)

    HostedSession.record = record_others


def approval_ids_reused() -> None:
    """Let every process number its approval requests from 1."""
    numbers = count(1)
    questions.uuid4 = lambda: SimpleNamespace(hex=f"{next(numbers):012}")


def call_ids_reused() -> None:
    """Let every process number its agents' calls from 1, without distinguishing them."""
    call = ScriptedModel._call

    def numbered(self: ScriptedModel, scripted: ScriptedCall) -> ProposedCall:
        return call(self, ScriptedCall(scripted.name, scripted.args))

    def unchanged(calls: Sequence[ProposedCall], _: object) -> tuple[ProposedCall, ...]:
        return tuple(calls)

    ScriptedModel._call = numbered
    setattr(import_module("interlock.engine.agents.turn.loop"), "with_own_ids", unchanged)  # noqa: B010


def allowed_calls_run_again() -> None:
    """After a restart, put every open call to the gate again, including allowed ones."""

    def all_open(_: object, said: Sequence[Message], *__: object) -> tuple[str, ...]:
        return tuple(call.call_id for call in open_calls(said))

    right = interrupted_calls.undecided
    for module in list(sys.modules.values()):
        if getattr(module, "undecided", None) is right:
            module.undecided = all_open


def helpers_begin_again() -> None:
    """After a restart, give a task a new helper without the previous one's conversation."""
    begin = HostedChildren.__init__

    def begin_anew(
        self: HostedChildren, parent: HostedSession, host: Host, _: object = None, depth: int = 1
    ) -> None:
        begin(self, parent, host, depth=depth)

    setattr(HostedChildren, "__init__", begin_anew)  # noqa: B010


def branches_begin_now() -> None:
    """Give a branch its origin's present markings instead of those at its event."""
    branch, point = SessionRegistry.branch, SessionConfig.resume_point
    now: dict[str, SessionState] = {}

    async def begin(self: SessionRegistry, session_id: str, *more: object) -> str:
        now[session_id] = self._hosted[session_id].state
        try:
            return await branch(self, session_id, *more)
        finally:
            del now[session_id]

    SessionRegistry.branch = begin
    SessionConfig.resume_point = lambda config, state: point(config, now.get(state.id, state))


def upgraded_in_pieces() -> None:
    """Upgrade the tables in one transaction, and their content in the next."""
    execute = op.execute

    def execute_later(statement: str) -> None:
        op.get_bind().exec_driver_sql("COMMIT")
        op.get_bind().exec_driver_sql("BEGIN IMMEDIATE")
        execute(statement)

    op.execute = execute_later


def steps_recorded_late() -> None:
    """Record a flow's step together with the next one, which has begun by then."""
    late: dict[str, list[EventBody]] = defaultdict(list)
    record = FlowSession.record

    async def record_late(
        self: FlowSession, *bodies: EventBody, on_written: Callable[[bool], None] | None = None
    ) -> None:
        step = any(isinstance(body, FlowStepped) and body.step for body in bodies)
        if step or any(isinstance(body, SessionStatus) for body in bodies):
            before, late[self.id] = late[self.id], []
            if step:
                late[self.id], bodies = [*bodies], ()
            bodies = (*before, *bodies)
        await record(self, *bodies, on_written=on_written)

    FlowSession.record = record_late


def flows_repeat_approved_calls() -> None:
    """After a restart, let a flow run an approved call again whose outcome is unknown."""

    def again(_: RunGate, call: ToolCall, __: str, answer: CallAnswer) -> GateDecision:
        ran = ToolCall(call.tool_call_id, call.tool_name, answer.input)
        outcome = "allow" if answer.outcome == "allow" else "block"
        return GateDecision(ran, outcome, reason=answer.reason)

    RunGate._repeated_decision = again


def answers_in_memory() -> None:
    """Keep answers to a flow in memory, and never record them."""
    _kept_in_memory(lambda session, body: session.kind == "flow" and isinstance(body, ApprovalDecided))


def plans_begin_again() -> None:
    """After a restart, give plans all of their original uses."""
    of = Grants.of

    def anew(*args: object, **options: object) -> Grants:
        found = of(*args, **options)  # type: ignore[arg-type]
        return replace(found, markings={g.key: dict(g.net.initial_marking) for g in found.every})

    setattr(Grants, "of", anew)  # noqa: B010


BUGS: dict[str, Callable[[], None]] = {
    bug.__name__: bug
    for bug in (
        record_after_execution,
        synchronous_normal,
        pending_in_memory,
        approval_ids_reused,
        call_ids_reused,
        allowed_calls_run_again,
        helpers_begin_again,
        helpers_recorded_late,
        branches_begin_now,
        upgraded_in_pieces,
        steps_recorded_late,
        flows_repeat_approved_calls,
        answers_in_memory,
        plans_begin_again,
    )
}
