"""Effort of approvals for operators: how many, how fast, and which are always given.

An approval that is given every time, within a second or two, is no longer a decision. The numbers are
computed from the journal's events, read page by page; only the duration of each decision is kept, for the
medians.
"""

from __future__ import annotations

import threading
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, TypeAlias, cast

from pydantic import ValidationError
from pydantic_core import from_json

from ..database.compiled import SELECT_APPROVALS, SELECT_NETS
from ..database.lanes import LaneCursors, Row, rows_behind
from ..database.location import Location
from ..errors import JournalError
from ..journal.schema import name_of, reading
from ..model.events import RulesReplaced, SessionOpened, SessionResumed, event_body
from ..model.records import NetRecord, Record, RuleRecord
from ..model.times import to_ms

QUICK = 2.0
"""Seconds within which nobody can have read a request."""

ENOUGH = 20
"""Number of decisions on a rule from which statistics are meaningful."""

SESSIONS = 200
"""Maximum number of a rule's latest sessions that are listed by name."""

_PAGE = 2_000
_Number: TypeAlias = Literal["requests", "approved", "denied", "expired", "withdrawn", "edited"]


class Tally(Record):
    """Requests and their outcomes.

    `approved` and `denied` are decisions by operators. `edited` are approvals with a changed input.
    `quick` are the decisions within `QUICK` seconds, and `seconds` is the median of all decisions.
    """

    requests: int = 0
    approved: int = 0
    denied: int = 0
    expired: int = 0
    withdrawn: int = 0
    edited: int = 0
    quick: int = 0
    seconds: float | None = None

    @property
    def decided(self) -> int:
        return self.approved + self.denied

    @property
    def open(self) -> int:
        return self.requests - self.decided - self.expired - self.withdrawn

    @property
    def rate(self) -> float | None:
        """The share of approvals among decisions."""
        return self.approved / self.decided if self.decided else None


class RuleFatigue(Record):
    """The requests of one rule, or of a net that has none.

    `rule` is its latest text and position. `high` says that it had high risk at least once, `grants` that
    an answer may allow later calls, `by` who approved. `sessions` are the latest with a request and their
    number of requests; `all_sessions` is the number of all such sessions.
    """

    net: str
    rule: RuleRecord | None
    tally: Tally
    high: bool = False
    people: int = 1
    grants: bool = True
    by: tuple[str, ...] = ()
    sessions: Mapping[str, int] = {}
    all_sessions: int = 0

    @property
    def always(self) -> bool:
        """Return whether operators approved unchanged input so often that the rule may be replaced.

        Calls under a rule of high risk need approval however often they are approved.
        """
        tally = self.tally
        unsure = tally.denied or tally.edited or tally.expired
        return self.rule is not None and not self.high and not unsure and tally.approved >= ENOUGH


class OperatorFatigue(Record):
    """Decisions of one operator; an approval that needs others as well counts as one."""

    name: str
    tally: Tally


class Fatigue(Record):
    """All approvals of a journal requested at `since` or later, the rules with most requests first."""

    since: datetime | None
    total: Tally
    rules: tuple[RuleFatigue, ...]
    operators: tuple[OperatorFatigue, ...]


@dataclass(slots=True)
class _Count:
    """A tally in progress: its counts, and the durations of decisions in milliseconds."""

    numbers: Counter[_Number] = field(default_factory=Counter[_Number])
    times: array[int] = field(default_factory=lambda: array("q"))

    def decided(self, approved: bool, edited: bool, ms: int) -> None:
        self.numbers["approved" if approved else "denied"] += 1
        if edited:
            self.numbers["edited"] += 1
        self.times.append(ms)

    def add(self, other: _Count) -> None:
        """Add the counts of `other`."""
        self.numbers.update(other.numbers)
        self.times.extend(other.times)

    def tally(self) -> Tally:
        from statistics import median

        quick = sum(ms < QUICK * 1000 for ms in self.times)
        seconds = median(self.times) / 1000 if self.times else None
        return Tally(**self.numbers, quick=quick, seconds=seconds)


@dataclass(slots=True)
class _Rule:
    net: str
    rule: RuleRecord | None
    count: _Count = field(default_factory=_Count)
    high: bool = False
    people: int = 1
    by: Counter[str] = field(default_factory=Counter[str])
    sessions: dict[str, int] = field(default_factory=dict[str, int])

    def add_request(self, session: str, body: Mapping[str, object]) -> None:
        self.count.numbers["requests"] += 1
        self.high |= body.get("risk") == "high"
        people = body.get("people", 1)
        if isinstance(people, int) and people > self.people:
            self.people = people
        self.sessions[session] = self.sessions.pop(session, 0) + 1

    def result(self) -> RuleFatigue:
        text = "" if self.rule is None else f" {' '.join(self.rule.text.split())} "
        return RuleFatigue(
            net=self.net,
            rule=self.rule,
            tally=self.count.tally(),
            # The rule's text counts as well, because requests of older versions lack these fields.
            high=self.high or " risk high " in text,
            people=self.people,
            grants=self.people == 1 and " no grants " not in text,
            by=tuple(name for name, _ in self.by.most_common()),
            sessions=dict([*self.sessions.items()][-SESSIONS:]),
            all_sessions=len(self.sessions),
        )


class _ApprovalCounter:
    """Processes events in order. Only open requests are kept whole."""

    def __init__(self) -> None:
        self.rules: dict[tuple[str, str | None], _Rule] = {}
        self.operators: dict[str, _Count] = {}
        self._open: dict[tuple[str, str], tuple[_Rule, int]] = {}
        self._texts: dict[str, str] = {}

    def take(self, session: str, at: int, kind: str, body: Mapping[str, object]) -> None:
        """Process one event. Raises `KeyError`, `TypeError` or `ValueError` for an invalid one."""
        key = session, str(body["approval_id"])
        if kind == "approval.requested":
            rule = self._rule(body)
            rule.add_request(session, body)
            self._open[key] = rule, at
            return
        entry = self._open.get(key)
        if entry is None:
            return  # It was requested before the period.
        rule, since = entry
        ms = max(0, at - since)
        if kind == "approval.given":
            self._operator(body).decided(True, False, ms)
            return
        del self._open[key]
        if kind == "approval.decided":
            approved, edited = body["approved"] is True, body.get("input") is not None
            for count in (rule.count, self._operator(body)):
                count.decided(approved, approved and edited, ms)
            if approved:
                rule.by[str(body["by"])] += 1
                for other in cast("list[str]", body.get("others") or ()):
                    rule.by[other] += 1
            return
        rule.count.numbers["expired" if kind == "approval.expired" else "withdrawn"] += 1

    def _rule(self, body: Mapping[str, object]) -> _Rule:
        net, record = str(body["net"]), cast("Mapping[str, object] | None", body.get("rule"))
        text = None if record is None else self._words(str(record["text"]))
        rule = self.rules.get((net, text))
        if rule is None:
            rule = self.rules[net, text] = _Rule(net, None)
        if record is not None and (rule.rule is None or rule.rule.line != record["line"]):
            rule.rule = RuleRecord.model_validate(record)
        return rule

    def _words(self, text: str) -> str:
        """Return a rule's text with single spaces; most texts were seen before."""
        words = self._texts.get(text)
        if words is None:
            words = self._texts[text] = " ".join(text.split())
        return words

    def _operator(self, body: Mapping[str, object]) -> _Count:
        name = str(body["by"])
        count = self.operators.get(name)
        if count is None:
            count = self.operators[name] = _Count()
        count.numbers["requests"] += 1
        return count

    def result(self, since: datetime | None) -> Fatigue:
        total = _Count()
        for rule in self.rules.values():
            total.add(rule.count)
        rules = sorted((rule.result() for rule in self.rules.values()), key=_sort_key)
        operators = [OperatorFatigue(name=n, tally=c.tally()) for n, c in self.operators.items()]
        return Fatigue(
            since=since,
            total=total.tally(),
            rules=tuple(rules),
            operators=tuple(sorted(operators, key=lambda o: (-o.tally.decided, o.name))),
        )


def _sort_key(rule: RuleFatigue) -> tuple[int, str, str]:
    return -rule.tally.requests, rule.net, "" if rule.rule is None else rule.rule.text


def fatigue(
    path: Location, since: datetime | None = None, *, stop: threading.Event | None = None
) -> Fatigue:
    """Count the approvals in the journal at `path` that were requested at `since` or later.

    Raises `JournalError` for a file or an event that cannot be read, and once `stop` is set.
    """
    reader = _ApprovalCounter()
    for rows in _pages(path, 0 if since is None else to_ms(since)):
        if stop is not None and stop.is_set():
            raise JournalError("Nobody waits for the approvals to be counted any more.")
        for cursor, session, _, at, kind, text in rows:
            try:
                reader.take(session, at, kind, cast("dict[str, object]", from_json(text)))
            except (KeyError, TypeError, ValueError) as error:
                raise JournalError(
                    f"Journal '{name_of(path)}': event {cursor} of the file cannot be read: "
                    f"{error or type(error).__name__}. Another program changed the file; "
                    "restore a backup."
                ) from error
    return reader.result(since)


def _pages(path: Location, since: int) -> Iterator[list[Row]]:
    """Yield rows about requests in pages; a page with long inputs ends early."""
    done: LaneCursors = {}
    more = True
    while more:
        with reading(path) as connection:
            rows, done, more = rows_behind(connection, SELECT_APPROVALS, done, _PAGE, (since,))
        if rows:
            yield rows


def nets_of(path: Location, session: str) -> dict[str, NetRecord]:
    """Return the latest record of every net that a session had. Raises `JournalError`."""
    nets: dict[str, NetRecord] = {}
    with reading(path) as connection:
        rows = connection.execute(SELECT_NETS, (session,)).fetchall()
    for seq, text in rows:
        try:
            body = event_body.validate_json(text)
        except ValidationError as error:
            raise JournalError(
                f"Journal '{name_of(path)}': event {seq} of session '{session}' cannot be read: {error}. "
                "A newer Interlock may have written it, or the file was changed; restore a backup."
            ) from error
        if isinstance(body, SessionOpened | SessionResumed | RulesReplaced):
            nets.update((net.key, net) for net in body.nets)
        if isinstance(body, RulesReplaced):
            nets.update((net.key, net) for net in body.renewed)
    return nets
