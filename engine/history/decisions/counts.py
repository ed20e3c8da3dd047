"""Counts of decisions on calls: by rule or tool over time, and what shadow mode let through.

Calls in shadow mode count if enforce mode would have stopped them. Changes of settings do not count.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Literal, TypeAlias

from ..database import compiled as sql
from ..database.connection import Connection
from ..database.location import Location
from ..fold.setting_changes import STEPS
from ..model.records import Record
from ..model.times import from_ms, to_ms
from .filter import EVERYTHING, DecisionFilter, Result
from .reader import condition, decision_connection

GroupBy: TypeAlias = Literal["rule", "tool"]

_STOPPED = frozenset({"block", "denied", "would-block"})
_ASKED = frozenset({"approved", "denied", "would-ask"})


class Group(Record):
    """Decisions with the same net or tool, and how many were, or would have been, stopped or asked about.

    `name` is `None` for decisions without a net. `rule` is the text of the net's rule. `course` has their
    numbers in equal steps of the period, the oldest first.
    """

    name: str | None
    rule: str | None = None
    count: int = 0
    stopped: int = 0
    asked: int = 0
    course: tuple[int, ...] = ()


class DecisionCounts(Record):
    """Groups, the largest first, and their sum in `total`; `start` and `end` of the period."""

    total: Group = Group(name=None)
    groups: tuple[Group, ...] = ()
    start: datetime | None = None
    end: datetime | None = None


class CallResults(Record):
    """Calls of one kind, and how they ended; `done` were successful."""

    calls: int = 0
    done: int = 0
    failed: int = 0

    def plus(self, calls: int, result: Result | None) -> CallResults:
        return CallResults(
            calls=self.calls + calls,
            done=self.done + calls * (result == "done"),
            failed=self.failed + calls * (result == "failed"),
        )


class RuleShare(Record):
    """Results of the calls that one net would have stopped or required approval for.

    `first` is the number of sessions in which it was the first to stop a call. Later calls of a session
    may depend on that, because an agent that is stopped continues differently (G-57).
    """

    net: str | None
    ended: CallResults
    first: int = 0


class ShadowSession(Record):
    """A session's calls in shadow mode, and by rule those that would have been stopped or asked about."""

    session: str
    agent: str
    calls: int
    blocked: tuple[RuleShare, ...] = ()
    asked: tuple[RuleShare, ...] = ()


class ShadowSummary(Record):
    """The effect that enforce mode would have had in all sessions; the most affected sessions first."""

    sessions: tuple[ShadowSession, ...] = ()
    calls: int = 0
    blocked: tuple[RuleShare, ...] = ()
    asked: tuple[RuleShare, ...] = ()


def total(shares: tuple[RuleShare, ...]) -> CallResults:
    """Return the sum of all shares."""
    each = [share.ended for share in shares]
    return CallResults(
        calls=sum(e.calls for e in each),
        done=sum(e.done for e in each),
        failed=sum(e.failed for e in each),
    )


@dataclass(slots=True)
class _Tally:
    count: int = 0
    stopped: int = 0
    asked: int = 0
    course: list[int] = field(default_factory=list[int])

    def group(self, name: str | None, rule: str | None = None) -> Group:
        return Group(
            name=name,
            rule=rule,
            count=self.count,
            stopped=self.stopped,
            asked=self.asked,
            course=tuple(self.course),
        )


def count_decisions(
    path: Location,
    criteria: DecisionFilter = EVERYTHING,
    *,
    by: GroupBy | None = None,
    steps: int = 24,
    stop: threading.Event | None = None,
) -> DecisionCounts:
    """Count the decisions that match a filter, in `steps` equal steps of the period.

    The period goes from `since` to `until`, by default from the oldest to the newest decision of the
    journal. Raises `JournalError`, also if `stop` is set before it is done.
    """
    with decision_connection(path, stop) as connection:
        first, last = connection.execute(sql.SELECT_TIME_SPAN).fetchone()
        if first is None:
            return DecisionCounts()
        start = first if criteria.since is None else max(first, to_ms(criteria.since))
        end = last if criteria.until is None else min(last, to_ms(criteria.until))
        size = max(1, -(-(end - start + 1) // steps))
        where = condition(connection, criteria)
        rows = connection.execute(
            sql.COUNT_DECISIONS[by].format(where=where.sql), [start, size, *where.values]
        ).fetchall()
        tallies: dict[str | None, _Tally] = defaultdict(lambda: _Tally(course=[0] * steps))
        everything = _Tally(course=[0] * steps)
        for name, verdict, step, count in rows:
            if verdict in STEPS:
                continue
            for tally in (tallies[name], everything):
                tally.count += count
                tally.stopped += count * (verdict in _STOPPED)
                tally.asked += count * (verdict in _ASKED)
                tally.course[min(max(step, 0), steps - 1)] += count
        sorted_tallies = sorted(tallies.items(), key=lambda item: (-item[1].count, item[0] or ""))
        groups = [
            tally.group(name, _rule(connection, name) if by == "rule" else None)
            for name, tally in sorted_tallies
        ]
    return DecisionCounts(
        total=everything.group(None),
        groups=tuple(groups) if by is not None else (),
        start=from_ms(start),
        end=from_ms(max(start, end)),
    )


def _rule(connection: Connection, net: str | None) -> str | None:
    """Return the text of a net's rule, from the last call that it stopped or required approval for."""
    row = connection.execute(sql.SELECT_RULE_OF_NET, (net,)).fetchone()
    return None if row is None else row[0]


def shadow_summary(path: Location, criteria: DecisionFilter = EVERYTHING) -> ShadowSummary:
    """Summarise what enforce mode would have done with matching calls that were made in shadow mode.

    Raises `JournalError`.
    """
    with decision_connection(path) as connection:
        where = condition(connection, criteria)
        where.add(sql.IN_SHADOW_MODE)
        rows = connection.execute(
            sql.COUNT_SHADOW_DECISIONS.format(where=where.sql), where.values
        ).fetchall()
        sessions: dict[str, int] = defaultdict(int)
        first_blocks = connection.execute(
            sql.SELECT_FIRST_SHADOW_BLOCKS.format(where=where.sql), where.values
        ).fetchall()
        results_by_verdict: dict[tuple[str | None, str], dict[str | None, CallResults]] = defaultdict(
            dict
        )
        for session, verdict, net, result, count in rows:
            if verdict in STEPS:  # Cheaper here, per group, than per line.
                continue
            sessions[session] += count
            if verdict == "allow":
                continue
            for shares in (results_by_verdict[session, verdict], results_by_verdict[None, verdict]):
                shares[net] = shares.get(net, CallResults()).plus(count, result)
        firsts = Counter((scope, net) for session, net in first_blocks for scope in (session, None))
        lines = [
            ShadowSession(
                session=session,
                agent=_agent(connection, session),
                calls=calls,
                blocked=_shares(results_by_verdict.get((session, "would-block"), {}), firsts, session),
                asked=_shares(results_by_verdict.get((session, "would-ask"), {})),
            )
            for session, calls in sessions.items()
        ]
    lines.sort(key=lambda s: (-total(s.blocked).calls, -total(s.asked).calls, -s.calls, s.session))
    return ShadowSummary(
        sessions=tuple(lines),
        calls=sum(sessions.values()),
        blocked=_shares(results_by_verdict.get((None, "would-block"), {}), firsts),
        asked=_shares(results_by_verdict.get((None, "would-ask"), {})),
    )


def _shares(
    results_by_net: dict[str | None, CallResults],
    firsts: Mapping[tuple[str | None, str | None], int] = MappingProxyType({}),
    session: str | None = None,
) -> tuple[RuleShare, ...]:
    shares = [
        RuleShare(net=net, ended=results, first=firsts.get((session, net), 0))
        for net, results in results_by_net.items()
    ]
    return tuple(sorted(shares, key=lambda s: (-s.ended.calls, s.net or "")))


def _agent(connection: Connection, session: str) -> str:
    row = connection.execute(sql.SELECT_AGENT, (session,)).fetchone()
    return "" if row is None else str(row[0])
