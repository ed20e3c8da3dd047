"""A server's metrics, from its hub's events and from the present state of hub, journal and gateway.

The gate waits for none of this: events arrive through a subscription, as for a console, and present
numbers are read when metrics are requested. Labels are bounded: names of rules up to `MOST_RULES`, then
`other`, and never a session, a call or a person.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from importlib.metadata import version
from typing import TypeAlias, get_args

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from ....engine.core.clock import Clock
from ....engine.core.sanitize import visible
from ....engine.gateway.server.server import Gateway
from ....engine.history.decisions.approval_stats import QUICK
from ....engine.history.journal.journal import Commit
from ....engine.history.model.events import (
    ApprovalDecided,
    ApprovalExpired,
    ApprovalRequested,
    ApprovalWithdrawn,
    CallDecided,
    CallResult,
    EventBody,
    JournalEvent,
    SessionOpened,
    SessionResumed,
    SessionStatus,
)
from ....engine.history.model.times import to_ms
from ....engine.hub.hub import Hub
from ....engine.net.net import ToolCall
from ..audit.streams import AuditStreams
from .follower import EventFollower

MOST_RULES = 200
"""Number of different rules that metrics name; decisions of further rules count as `other`."""
OTHER = "other"
LONGEST_NAME = 120
JUDGING = (0.00002, 0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25)
WAITS = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 14400)
COMMITS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 30)
BATCHES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)

STREAM = "interlock_audit_stream"

Counted: TypeAlias = (
    CallDecided
    | CallResult
    | ApprovalRequested
    | ApprovalDecided
    | ApprovalExpired
    | ApprovalWithdrawn
    | SessionOpened
    | SessionResumed
    | SessionStatus
)
COUNTED: tuple[type[Counted], ...] = get_args(Counted)


class Metrics(EventFollower):
    """The metrics of one server, in their own registry. `watching` subscribes them to its hub."""

    def __init__(self, hub: Hub, gateway: Gateway, streams: AuditStreams | None = None) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        super().__init__(hub)
        self._rules = dict[str, str]()
        self._open = dict[str, tuple[str, str, datetime, str]]()
        self._asked = dict[tuple[str, str], str]()
        self._children = set[str]()
        self._decided = dict[tuple[str, str, str], Counter]()
        registry = self.registry
        self._decisions = Counter(
            "interlock_decisions",
            "Decisions on calls; in shadow mode as enforce mode would decide.",
            ("verdict", "rule", "mode"),
            registry=registry,
        )
        self._judging = Histogram(
            "interlock_judging_seconds",
            "Time to judge a call by all nets, without the time that people take.",
            buckets=JUDGING,
            registry=registry,
        )
        self._waits = Histogram(
            "interlock_approval_wait_seconds",
            "Time from a request to its end.",
            ("risk", "outcome"),
            buckets=WAITS,
            registry=registry,
        )
        self._fast = Counter(
            "interlock_fast_decisions",
            f"Decisions of operators within {QUICK:g} s, in which a request cannot have been read.",
            registry=registry,
        )
        self._ungated = Counter(
            "interlock_ungated_results",
            "Results of calls that never came to the gate: a tool ran without asking.",
            registry=registry,
        )
        self._unknown = Counter(
            "interlock_unknown_outcomes",
            "Calls that were allowed, and whose outcome is unknown.",
            registry=registry,
        )
        self._commits = Histogram(
            "interlock_journal_commit_seconds",
            "Time until a batch of events is durable; its count is the number of commits.",
            buckets=COMMITS,
            registry=registry,
        )
        self._batches = Histogram(
            "interlock_journal_batch_events", "Events in a commit.", buckets=BATCHES, registry=registry
        )
        self._failures = Counter(
            "interlock_journal_failures",
            "Batches of events that could not be written; their calls are blocked.",
            registry=registry,
        )
        registry.register(_Present(hub, gateway))
        if streams is not None and streams.states:
            registry.register(_Streams(streams, hub.clock))

    def text(self) -> bytes:
        """Return the metrics in Prometheus's text format."""
        self.catch_up()
        return generate_latest(self.registry)

    @asynccontextmanager
    async def watching(self) -> AsyncGenerator[None]:
        """Follow the hub while the context is open."""
        self._hub.watch(committed=self.note_commit, judged=self.note_judged)
        async with self.following():
            yield

    def note_judged(self, session: str, call: ToolCall, seconds: float) -> None:
        """Count the time that judging a call took."""
        self._judging.observe(seconds)

    def note_commit(self, commit: Commit) -> None:
        """Count a commit; called in the journal's thread."""
        if not commit.ok:
            self._failures.inc()
            return
        self._commits.observe(commit.seconds)
        self._batches.observe(commit.events)

    def take(self, event: JournalEvent) -> None:
        """Count an event that this server recorded."""
        if isinstance(event.body, COUNTED):
            self._take(event, event.body)

    def _take(self, event: JournalEvent, body: Counted) -> None:
        match body:
            case CallDecided():
                # A subagent's call is recorded in its parent's session, too.
                if event.session not in self._children:
                    self._count_decision(event.session, body)
            case CallResult(anomaly=str(), tool=""):
                self._ungated.inc()
            case CallResult():
                if body.unknown and event.session not in self._children:
                    self._unknown.inc()
            case ApprovalRequested():
                self._asked[event.session, body.call_id] = body.net
                risk = body.risk or "none"
                self._open[body.approval_id] = event.session, risk, event.at, body.call_id
            case ApprovalDecided() | ApprovalExpired() | ApprovalWithdrawn():
                self._count_end(body, event)
            case SessionOpened():
                if body.kind == "child":
                    self._children.add(event.session)
            case SessionResumed():
                if self._hub.is_child(event.session):
                    self._children.add(event.session)
            case SessionStatus():
                if body.status in ("done", "failed"):
                    self._forget(event.session)

    def _count_decision(self, session: str, decided: CallDecided) -> None:
        kind = self._asked.pop((session, decided.call_id), "") if self._asked else ""
        rule = decided.net or kind
        key = verdict(decided), self._rule(rule), decided.mode
        counter = self._decided.get(key)
        if counter is None:
            counter = self._decided[key] = self._decisions.labels(*key)
        counter.inc()

    def _count_end(
        self, ended: ApprovalDecided | ApprovalExpired | ApprovalWithdrawn, event: JournalEvent
    ) -> None:
        opened = self._open.pop(ended.approval_id, None)
        if opened is None:
            return
        _, risk, since, call_id = opened
        waited = max(0.0, (event.at - since).total_seconds())
        self._waits.labels(risk, outcome(ended)).observe(waited)
        match ended:
            case ApprovalDecided():
                if waited < QUICK:
                    self._fast.inc()
            case ApprovalWithdrawn():
                self._asked.pop((event.session, call_id), None)
            case _:
                pass

    def _forget(self, session: str) -> None:
        self._children.discard(session)
        for each in [key for key in self._asked if key[0] == session]:
            del self._asked[each]
        for each in [key for key, opened in self._open.items() if opened[0] == session]:
            del self._open[each]

    def _rule(self, name: str) -> str:
        known = self._rules.get(name)
        if known is None:
            if len(self._rules) >= MOST_RULES:
                return OTHER
            known = self._rules[name] = visible(name)[:LONGEST_NAME]
        return known


def verdict(decided: CallDecided) -> str:
    """Return the verdict of a decision as named in metrics and traces."""
    if decided.outcome != "allow":
        return decided.outcome
    if decided.approved_by:
        return "approved"
    return "granted" if decided.granted else "allow"


def outcome(ended: EventBody) -> str:
    """Return the end of a request as named in metrics and traces."""
    match ended:
        case ApprovalDecided(approved=approved):
            return "approved" if approved else "denied"
        case ApprovalExpired():
            return "expired"
        case _:
            return "withdrawn"


class _Present(Collector):
    """Numbers that are read when metrics are requested, in the hub's loop."""

    def __init__(self, hub: Hub, gateway: Gateway) -> None:
        self._hub = hub
        self._gateway = gateway

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        load = self._hub.load()
        yield _gauge("interlock_open_requests", "Requests that wait for operators.", load.requests)
        yield _gauge("interlock_oldest_request_seconds", "Age of the oldest of them.", load.oldest)
        yield _labelled("interlock_sessions", "Sessions that are live here.", "kind", load.sessions)
        yield _labelled(
            "interlock_connections", "Clients that are connected.", "kind", self._gateway.connected
        )
        build = GaugeMetricFamily("interlock_build_info", "The version that runs.", labels=["version"])
        build.add_metric([version("interlock")], 1)
        yield build
        fenced = CounterMetricFamily(
            "interlock_fenced_writes", "Writes refused since another server owned the session."
        )
        fenced.add_metric([], self._hub.fenced)
        yield fenced
        if (age := self._hub.lease_age) is not None:
            yield _gauge(
                "interlock_lease_age_seconds", "Time since the lease on the database was renewed.", age
            )


class _Streams(Collector):
    """Numbers of the streams of `[audit]`."""

    def __init__(self, streams: AuditStreams, clock: Clock) -> None:
        self._streams = streams
        self._clock = clock

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        now = to_ms(self._clock())
        sending = self._gauges(
            "sending", "1 if this server sends the stream; otherwise another one does."
        )
        backlog = self._gauges("backlog_events", "About how many events wait to be sent.")
        oldest = self._gauges("oldest_seconds", "Age of the oldest of them.")
        sent_events = CounterMetricFamily(
            f"{STREAM}_sent_events", "Events that were sent.", labels=["stream"]
        )
        failures = CounterMetricFamily(
            f"{STREAM}_failures", "Attempts to send that failed.", labels=["stream"]
        )
        for state in self._streams.states:
            label = [visible(state.name)[:LONGEST_NAME]]
            since = state.backlog.oldest
            sending.add_metric(label, state.sending)
            backlog.add_metric(label, state.backlog.events)
            oldest.add_metric(label, 0.0 if since is None else max(0.0, (now - since) / 1000))
            sent_events.add_metric(label, state.sent)
            failures.add_metric(label, state.failures)
        return sending, backlog, oldest, sent_events, failures

    def _gauges(self, name: str, text: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(f"{STREAM}_{name}", text, labels=["stream"])


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=value)


def _labelled(name: str, text: str, label: str, values: Mapping[str, int]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=[label])
    for each, value in sorted(values.items()):
        family.add_metric([each], value)
    return family
