"""Journals with many approvals, some of them given after reading, some without."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

from interlock.engine.history.database.compiled import INSERT_EVENT
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import (
    ApprovalDecided,
    ApprovalExpired,
    ApprovalRequested,
    CallDecided,
    CallResult,
    EventBody,
)
from interlock.engine.history.model.records import RuleRecord, StepRecord
from interlock.engine.history.model.times import to_ms
from interlock.engine.recording.records import net_record
from interlock.rules import compile_rules

from ..engine.history.support.recording import opening
from .clock import Clock
from .decisions import NOW

RULES = """\
require human-approval before deploy
require human-approval before push risk high
require human-approval before migrate within 15m
"""
NETS = compile_rules(RULES, file="deploy.rules").registry


def question(number: int, tool: str, values: dict[str, object]) -> ApprovalRequested:
    """Return an approval request for a call of `tool`."""
    net = f"approve-before-{tool}"
    rule = next(n.rule for key, n in NETS.items() if key == net)
    assert rule is not None
    assert rule.source is not None
    return ApprovalRequested.model_validate(
        {
            "approval_id": f"ap{number}",
            "call_id": f"c{number}",
            "tool": tool,
            "called": tool,
            "input": values,
            "names": (tool,),
            "net": net,
            "transition": "approve",
            "title": f"Approve: {tool}",
            "message": "",
            "marking": {"ready": 1},
            "rule": RuleRecord(
                file=rule.source.file, line=rule.source.line, text=rule.source.text
            ).model_dump(),
            "risk": getattr(rule, "risk", None),
        }
    )


def ran(asked: ApprovalRequested, by: str) -> tuple[EventBody, EventBody]:
    """Return the events of a call whose request was approved: its decision and its result."""
    step = StepRecord(net=asked.net, transition="approve", tool=asked.tool)
    decided = CallDecided(
        call_id=asked.call_id,
        tool=asked.called,
        input=asked.input,
        names=asked.names,
        outcome="allow",
        mode="enforce",
        steps=(step,),
        approved_by=(by,),
    )
    return decided, CallResult(call_id=asked.call_id, tool=asked.called, output="ok", is_error=False)


def tired(path: Path) -> Path:
    """Write two days in which risky deploys and pushes are approved unread, and migrations are read."""
    clock = Clock(NOW - timedelta(days=2))
    number = 0
    with Journal.open(path, clock=clock) as journal:
        for session in ("release-bot-1f3a", "release-bot-77c0"):
            journal.write(
                session, opening(*NETS.values(), agent="release-bot").model_copy(update={"nets": RECORDS})
            )
            for turn in range(30):
                tool = ("deploy", "push", "deploy", "migrate")[turn % 4]
                number += 1
                env = "prod" if turn % 9 == 8 else "staging"
                asked = question(number, tool, {"env": env, "commit": f"9f31c{turn:02}"})
                journal.write(session, asked)
                slow = tool == "migrate" or (tool == "push" and turn % 3)
                clock.now += timedelta(seconds=47 + turn if slow else 1.2 + turn / 20)
                by = "jo" if tool == "migrate" or turn % 5 == 4 else "maria"
                ids = {"approval_id": asked.approval_id, "call_id": asked.call_id}
                if tool == "migrate" and turn % 8 == 7:
                    late = "Nobody decided within 15 min (deploy.rules:3)"
                    journal.write(session, ApprovalExpired(reason=late, **ids))
                elif tool == "migrate" and turn % 3 == 0:
                    journal.write(session, ApprovalDecided(approved=False, by=by, **ids))
                else:
                    edit = {"env": "staging"} if tool == "migrate" and turn == 19 else None
                    journal.write(
                        session,
                        ApprovalDecided(approved=True, by=by, input=edit, **ids),
                        *ran(asked, by),
                    )
                clock.now += timedelta(minutes=9)
    return path


RECORDS = tuple(net_record(key, net) for key, net in NETS.items())


def many(path: Path, approvals: int, *, sessions: int = 500) -> Path:
    """Write a journal with many approvals, four events each, inserted without a hash chain."""
    with Journal.open(path, clock=lambda: NOW) as journal:
        for number in range(sessions):
            journal.write(f"bot-{number}", opening(agent="bot").model_copy(update={"nets": RECORDS}))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN")
        connection.executemany(INSERT_EVENT, _rows(approvals, sessions))
        connection.execute("COMMIT")
    return path


def _rows(approvals: int, sessions: int) -> Iterator[tuple[object, ...]]:
    cursor, begun = 10 * sessions, to_ms(NOW)
    each = -(-approvals // sessions)
    for number in range(approvals):
        session = f"bot-{number // each}"
        tool = ("deploy", "push", "migrate")[number % 3]
        asked = question(number, tool, {"env": "staging", "commit": f"{number:x}", "why": "x" * 300})
        by = ("maria", "jo", "ann")[number % 7 % 3]
        answer = ApprovalDecided(
            approval_id=asked.approval_id,
            call_id=asked.call_id,
            approved=tool == "deploy" or number % 11 > 0,
            by=by,
        )
        for place, body in enumerate((asked, answer, *ran(asked, by))):
            cursor += 1
            at = begun + number * 10_000 + place * 900
            seq = 2 + number % each * 4 + place
            yield cursor, session, seq, at, body.type, body.model_dump_json(), None, None, b""
