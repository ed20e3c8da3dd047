"""Journals with decisions of every kind, for the list of decisions."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

from interlock.engine.history.database.compiled import INSERT_DECISION, DecisionLine
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import (
    ApprovalDecided,
    ApprovalRequested,
    CallDecided,
    CallResult,
    EventBody,
    SessionOpened,
)
from interlock.engine.history.model.records import RuleRecord, StepRecord

from ..engine.history.support.recording import opening, sequence
from .raw_database import raw_database

NOW = datetime(2026, 11, 20, 14, 2, 30, tzinfo=UTC)
BEGUN = NOW - timedelta(minutes=40)
RULES = {
    "block-rm": RuleRecord(file="deploy.rules", line=7, text="block rm"),
    "limit-push-3": RuleRecord(file="deploy.rules", line=6, text="limit push to 3 per session"),
    "require-test-before-deploy": RuleRecord(
        file="deploy.rules", line=4, text="require test before deploy"
    ),
    "approve-before-deploy": RuleRecord(
        file="deploy.rules", line=5, text="require human-approval before deploy"
    ),
}
TOOLS = ("bash", "test", "lint", "deploy", "push", "rm", "read", "write", "edit", "web_fetch")


Place = TypeVar("Place", Path, PostgresLocation)


class Ticking:
    """A clock that advances by `step` at every reading."""

    def __init__(self, begun: datetime = BEGUN, step: timedelta = timedelta(seconds=20)) -> None:
        self.now = begun
        self.step = step

    def __call__(self) -> datetime:
        self.now += self.step
        return self.now


def opened(agent: str, mode: str = "enforce", **more: object) -> SessionOpened:
    """Return the opening of a session that needs no nets."""
    given = {"agent": agent, "model": "scripted", "mode": mode, "tools": ("bash",), **more}
    return SessionOpened.model_validate(given)


def call(
    call_id: str, name: str, command: str, outcome: str = "allow", net: str | None = None, **more: object
) -> CallDecided:
    """Return a decision about a command that maps to `name`."""
    return CallDecided.model_validate(
        {
            "call_id": call_id,
            "tool": "bash",
            "input": {"command": command},
            "names": tuple(dict.fromkeys((name, "bash"))),
            "outcome": outcome,
            "mode": "enforce",
            "net": net,
            "rule": RULES.get(net or ""),
            **more,
        }
    )


def ended(call_id: str, *, failed: bool = False, unknown: bool = False) -> CallResult:
    return CallResult(
        call_id=call_id, tool="bash", output="", is_error=failed or unknown, unknown=unknown
    )


def asked(call_id: str, name: str, *, approved: bool, by: str = "maria") -> tuple[EventBody, EventBody]:
    """Return an approval request about a call, and its answer."""
    net = f"approve-before-{name}"
    return (
        ApprovalRequested(
            approval_id=f"ap-{call_id}",
            call_id=call_id,
            tool=name,
            called="bash",
            input={"command": f"./{name}"},
            names=(name, "bash"),
            net=net,
            transition="approve",
            title=f"Approve: {name}",
            message="",
            marking={},
            rule=RULES.get(net),
        ),
        ApprovalDecided(approval_id=f"ap-{call_id}", call_id=call_id, approved=approved, by=by),
    )


def write_usual(journal: Journal) -> None:
    """Write three sessions: one that enforces, one in shadow mode, one with a subagent."""
    first, shadow, docs = "release-bot-1f3a", "nightly-sync-02", "docs-writer-77c0"
    release = opening(sequence("test", "deploy"), agent="release-bot", model="scripted")
    journal.write(first, release)
    deploy = "./deploy --env prod --commit 9f31c02"
    needs = "deploy requires a successful call to test first."
    journal.write(
        first, call("c1", "deploy", deploy, "block", "require-test-before-deploy", reason=needs)
    )
    step = StepRecord(net="require-test-before-deploy", transition="do-test", tool="test", deferred=True)
    journal.write(first, call("c2", "test", "./test", steps=(step,)))
    journal.write(first, ended("c2"))
    journal.write(first, *asked("c3", "deploy", approved=True))
    journal.write(first, call("c3", "deploy", deploy, approved_by=("maria",)))
    journal.write(first, ended("c3"))
    journal.write(first, *asked("c4", "deploy", approved=False, by="jo"))
    rejected = "deploy was rejected by human review: enough for today"
    journal.write(first, call("c4", "deploy", deploy, "block", "approve-before-deploy", reason=rejected))

    journal.write(shadow, opened("nightly-sync", "shadow"))
    for number in range(3):
        last = {"mode": "shadow", "reason": "rm is blocked and cannot be called."}
        journal.write(
            shadow, call(f"s{number}", "rm", f"rm -rf cache/{number}", "block", "block-rm", **last)
        )
        journal.write(shadow, ended(f"s{number}", failed=number == 2))
    journal.write(shadow, call("s4", "deploy", "./deploy", "ask", "approve-before-deploy", mode="shadow"))
    journal.write(shadow, ended("s4"))
    journal.write(shadow, call("s5", "lint", "./lint", mode="shadow"))
    journal.write(shadow, ended("s5"))

    journal.write(docs, opened("docs-writer"))
    journal.write("reader-3c", opened("reader", kind="child", parent=docs))
    journal.write(docs, call("reader-3c/r1", "bash", "cat README.md", via="reader-3c"))
    journal.write("reader-3c", call("r1", "bash", "cat README.md"))
    journal.write(docs, ended("reader-3c/r1"))
    journal.write("reader-3c", ended("r1"))
    journal.write(docs, call("d2", "push", "git push", "block", "limit-push-3", reason="no more pushes"))
    journal.write(docs, call("d3", "bash", "make check"))
    journal.write(docs, ended("d3", unknown=True))


def usual(path: Place) -> Place:
    """Return a journal with the decisions of `write_usual`."""
    with Journal.open(path, clock=Ticking()) as journal:
        write_usual(journal)
    return path


def many(path: Place, rows: int, *, sessions: int = 200, seed: int = 1) -> Place:
    """Write a journal with many rows of decisions, one per second, inserted without their events."""
    with Journal.open(path, clock=lambda: BEGUN) as journal:
        for number in range(sessions):
            mode = "shadow" if number % 10 == 0 else "enforce"
            journal.write(f"agent-{number % 20}-{number:04x}", opened(f"agent-{number % 20}", mode))
    with closing(raw_database(path)) as to:
        to.execute("BEGIN IMMEDIATE" if isinstance(to, sqlite3.Connection) else "BEGIN READ WRITE")
        to.executemany(INSERT_DECISION, _lines(rows, sessions, random.Random(seed)))
        to.execute("COMMIT")
    return path


def _lines(rows: int, sessions: int, chance: random.Random) -> Iterator[DecisionLine]:
    first = int(NOW.timestamp()) - rows
    nets = (None, None, *RULES, *(f"require-{a}-before-{b}" for a in TOOLS[:5] for b in TOOLS[5:]))
    for number in range(1, rows + 1):
        session = chance.randrange(sessions)
        shadow = session % 10 == 0
        kinds, weights = (
            (("allow", "would-block", "would-ask"), (90, 8, 2))
            if shadow
            else (("allow", "approved", "block", "denied"), (92, 3, 4, 1))
        )
        verdict = chance.choices(kinds, weights)[0]
        tool = chance.choice(TOOLS)
        net = chance.choice(nets[0 if verdict == "allow" else 2 :])
        rule = RULES.get(net or "")
        yield DecisionLine(
            cursor=10 * sessions + 2 * number,
            session=f"agent-{session % 20}-{session:04x}",
            seq=number,
            at=(first + number) * 1000,
            agent=f"agent-{session % 20}",
            call_id=f"c{number}",
            tool=tool,
            called="bash" if number % 3 else tool,
            input=f"cd /srv/shop-{session} && ./{tool} --step {number} --id {chance.getrandbits(40):x}",
            mode="shadow" if shadow else "enforce",
            verdict=verdict,
            net=net,
            rule=rule.text if rule else None,
            place=rule.where if rule else None,
            by="maria" if verdict in ("approved", "denied") else None,
            via=None,
            result=None if verdict in ("block", "denied") else chance.choice(("done",) * 9 + ("failed",)),
        )
