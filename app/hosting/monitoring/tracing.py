"""Traces: a span for each call, with child spans for its judging, approval and execution.

Spans are created from the hub's events once a call has ended, in their own thread. The thread that judges
calls only hands events over, in a bounded queue. Names and attributes follow OpenTelemetry's conventions
for generative AI. Receiver, sampling and the service's name come from the standard `OTEL_…` variables.
Inputs and outputs are included only on request, and then masked.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, TypeAlias, TypeVar, get_args

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ....engine.history.model.events import (
    ApprovalDecided,
    ApprovalExpired,
    ApprovalRequested,
    ApprovalWithdrawn,
    CallDecided,
    CallResult,
    JournalEvent,
    MessageAdded,
    SessionOpened,
    SessionStatus,
)
from ....engine.hub.hub import Hub
from ....engine.net.net import ToolCall
from .follower import EventFollower
from .metrics import outcome, verdict

MOST_CALLS = 10_000
"""Maximum number of unfinished calls; beyond it the oldest get no span."""
MOST_WAITING = 100_000
"""Maximum length of the queue of events; further events are dropped, and their calls have no span."""
LONGEST = 16_384
"""Maximum length of an input or output in characters."""
END_SECONDS = 5.0
SERVICE = "interlock"
PAUSE = 1e-6
"""Seconds that the thread sleeps after each call, so that other threads get the interpreter lock."""
Attributes = dict[str, str | bool | int | float]
CallKey = tuple[str, str]
T = TypeVar("T")
Traced: TypeAlias = (
    SessionOpened
    | MessageAdded
    | ApprovalRequested
    | ApprovalDecided
    | ApprovalExpired
    | ApprovalWithdrawn
    | CallDecided
    | CallResult
    | SessionStatus
)
TRACED: tuple[type[Traced], ...] = get_args(Traced)

log = logging.getLogger(__name__)


class _Judging(NamedTuple):
    """Seconds that judging a call took."""

    key: CallKey
    seconds: float


class _Parent(NamedTuple):
    """Trace in which a call was made."""

    key: CallKey
    traceparent: str


class _Recorded(NamedTuple):
    """An event.

    `child` is true for that of a subagent, whose calls are judged in its parent's session.
    """

    event: JournalEvent
    child: bool


_Waiting: TypeAlias = _Judging | _Parent | _Recorded


@dataclass(slots=True)
class _Approval:
    """An approval request about a call, from beginning to end."""

    since: datetime
    attributes: Attributes
    until: datetime | None = None


@dataclass(slots=True)
class _TracedCall:
    """Events of a call that has not ended."""

    tool: str
    since: datetime
    input: str | None = None
    asked: dict[str, _Approval] = field(default_factory=dict[str, _Approval])
    decided: CallDecided | None = None
    decided_at: datetime | None = None


class Tracing(EventFollower):
    """Spans of the calls of one hub's sessions; hands events from the judging thread to that of `_Spans`.

    `dropped` counts the events that did not fit into the queue.
    """

    def __init__(self, hub: Hub, processor: SpanProcessor, *, arguments: bool = False) -> None:
        super().__init__(hub)
        self._spans = _Spans(processor, arguments=arguments)
        self._waiting: deque[_Waiting] = deque()
        self._arrived = threading.Event()
        self._ending = threading.Event()
        self.dropped = 0

    @asynccontextmanager
    async def watching(self) -> AsyncGenerator[None]:
        """Follow the hub while the context is open; at the end create all spans, within a few seconds."""
        self._hub.watch(judged=self.note_judged, parent=self.note_parent)
        async with self.making_spans(), self.following():
            yield

    @asynccontextmanager
    async def making_spans(self) -> AsyncGenerator[None]:
        """Create spans from queued events in a thread while the context is open.

        At the end the thread also processes what is left in the queue.
        """
        self._ending.clear()
        thread = threading.Thread(target=self._work, name="spans", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ending.set()
            self._arrived.set()
            await asyncio.to_thread(thread.join, END_SECONDS)
            if lost := self.dropped + len(self._waiting):
                log.warning("traces: %d events were dropped, and their calls have no span", lost)

    async def shut_down(self) -> None:
        """Send the remaining spans, within a few seconds."""
        # The receiver may be gone, and a server has to end. The loop and the interpreter wait for threads
        # of an executor, but not for this daemon thread.
        thread = threading.Thread(target=self._spans.provider.shutdown, name="last spans", daemon=True)
        thread.start()
        await asyncio.to_thread(thread.join, END_SECONDS)
        if thread.is_alive():
            log.warning("traces: the receiver did not take the last spans within %g s", END_SECONDS)

    def note_judged(self, session: str, call: ToolCall, seconds: float) -> None:
        """Store how long judging a call took, until the call ends."""
        self._hand_over(_Judging((session, call.tool_call_id), seconds))

    def note_parent(self, session: str, call_id: str, traceparent: str) -> None:
        """Store the trace in which a call was made, until the call ends."""
        self._hand_over(_Parent((session, call_id), traceparent))

    def take(self, event: JournalEvent) -> None:
        """Queue an event that this server recorded."""
        body = event.body
        if isinstance(body, TRACED):
            child = isinstance(body, CallDecided) and self._hub.is_child(event.session)
            self._hand_over(_Recorded(event, child))

    def catch_up(self) -> None:
        """Queue all events since the last time, and wake the thread once for all of them."""
        super().catch_up()
        if self._waiting:
            self._arrived.set()

    def _hand_over(self, waiting: _Waiting) -> None:
        if len(self._waiting) < MOST_WAITING:
            self._waiting.append(waiting)
            return
        if not self.dropped:
            log.warning(
                "traces: %d events wait for their spans; more are dropped, and their calls have none",
                MOST_WAITING,
            )
        self.dropped += 1

    def _work(self) -> None:
        """Create spans until the end."""
        while True:
            self._arrived.wait()
            self._arrived.clear()
            ending = self._ending.is_set()
            while self._waiting:
                try:
                    ended = self._spans.take(self._waiting.popleft())
                except Exception:
                    # A fault of one event must not prevent other spans.
                    log.exception("an event has no span")
                else:
                    if ended and not self._ending.is_set():
                        time.sleep(PAUSE)
            if ending:
                return


class _Spans:
    """Creates spans from queued events, in one thread."""

    def __init__(self, processor: SpanProcessor, *, arguments: bool) -> None:
        self._arguments = arguments
        named = "OTEL_SERVICE_NAME" in os.environ or "service.name=" in os.environ.get(
            "OTEL_RESOURCE_ATTRIBUTES", ""
        )
        resource = Resource.create({} if named else {"service.name": SERVICE})
        self.provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self.provider.add_span_processor(processor)
        self._tracer = self.provider.get_tracer("interlock")
        self._agents = dict[str, str]()
        self._calls = dict[CallKey, _TracedCall]()
        self._judged = dict[CallKey, float]()
        self._parents = dict[CallKey, str]()

    def take(self, waiting: _Waiting) -> bool:
        """Process a queued item; return whether spans were created."""
        match waiting:
            case _Judging(key, seconds):
                _keep(self._judged, key, seconds)
            case _Parent(key, traceparent):
                _keep(self._parents, key, traceparent)
            case _Recorded(event, child):
                return self._take(event, child=child)
        return False

    def _take(self, event: JournalEvent, *, child: bool) -> bool:
        session, body = event.session, event.body
        match body:
            case SessionOpened():
                self._agents[session] = body.agent
            case MessageAdded(role="assistant", calls=(_, *_) as calls):
                for each in calls:
                    call = _TracedCall(each.tool, event.at)
                    if self._arguments:
                        call.input = json.dumps(each.input, ensure_ascii=False)[:LONGEST]
                    _keep(self._calls, (session, each.call_id), call)
            case ApprovalRequested():
                call = self._call(session, body.call_id, body.called, event.at)
                attributes: Attributes = {"interlock.rule": body.net}
                if body.risk is not None:
                    attributes["interlock.risk"] = body.risk
                call.asked[body.approval_id] = _Approval(event.at, attributes)
            case ApprovalDecided() | ApprovalExpired() | ApprovalWithdrawn():
                approval = self._call(session, body.call_id, "", event.at).asked.get(body.approval_id)
                if approval is not None:
                    approval.until = event.at
                    approval.attributes["interlock.outcome"] = outcome(body)
            case CallDecided():
                if child:
                    self._drop((session, body.call_id))
                    return False
                call = self._call(session, body.call_id, body.tool, event.at)
                call.decided, call.decided_at = body, event.at
                if body.mode == "enforce" and body.outcome != "allow":
                    self._end((session, body.call_id), event.at, None)
                    return True
            case CallResult():
                if (session, body.call_id) in self._calls:
                    self._end((session, body.call_id), event.at, body)
                    return True
            case SessionStatus(status="done" | "failed"):
                ended = [each for each in self._calls if each[0] == session]
                for key in ended:
                    self._end(key, event.at, None)
                self._agents.pop(session, None)
                return bool(ended)
            case _:
                pass
        return False

    def _call(self, session: str, call_id: str, tool: str, at: datetime) -> _TracedCall:
        found = self._calls.get((session, call_id))
        if found is None:
            found = _TracedCall(tool, at)
            _keep(self._calls, (session, call_id), found)
        return found

    def _drop(self, key: CallKey) -> None:
        for each in (self._calls, self._judged, self._parents):
            each.pop(key, None)

    def _end(self, key: CallKey, at: datetime, result: CallResult | None) -> None:
        """Create the spans of a call that has ended."""
        call, session = self._calls[key], key[0]
        seconds, traceparent = self._judged.get(key), self._parents.get(key)
        self._drop(key)
        attributes: Attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.tool,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": key[1],
            "gen_ai.conversation.id": session,
        }
        if (agent := self._agents.get(session)) is not None:
            attributes["gen_ai.agent.name"] = agent
        if call.input is not None:
            attributes["gen_ai.tool.call.arguments"] = call.input
        fault = self._describe(call, result, attributes)
        parent = Context() if traceparent is None else _context(traceparent)
        span = self._tracer.start_span(
            f"execute_tool {call.tool}",
            context=parent,
            kind=SpanKind.INTERNAL,
            attributes=attributes,
            start_time=_ns(call.since),
        )
        inside = set_span_in_context(span)
        first = min((each.since for each in call.asked.values()), default=call.decided_at)
        if seconds is not None and first is not None:
            started_at = max(_ns(call.since), _ns(first) - int(seconds * 1e9))
            self._child("judge", inside, started_at, started_at + int(seconds * 1e9), {})
        for approval in call.asked.values():
            until = approval.until or call.decided_at or at
            self._child("approval", inside, _ns(approval.since), _ns(until), approval.attributes)
        if result is not None and call.decided_at is not None:
            self._child("run", inside, _ns(call.decided_at), _ns(at), {})
        if fault is not None:
            span.set_attribute("error.type", fault)
            span.set_status(Status(StatusCode.ERROR, fault))
        span.end(end_time=_ns(at))

    def _describe(
        self, call: _TracedCall, result: CallResult | None, attributes: Attributes
    ) -> str | None:
        """Set the attributes on a call's decision and outcome; return the kind of its error, if any."""
        decided = call.decided
        if decided is None:
            return "undecided"
        attributes["interlock.verdict"] = verdict(decided)
        attributes["interlock.mode"] = decided.mode
        if decided.net is not None:
            attributes["interlock.rule"] = decided.net
        if result is None:
            return "blocked" if decided.outcome != "allow" else "unknown"
        if self._arguments:
            attributes["gen_ai.tool.call.result"] = result.output[:LONGEST]
        if result.unknown:
            return "unknown"
        return "failed" if result.is_error else None

    def _child(self, name: str, inside: Context, begin: int, end: int, attributes: Attributes) -> None:
        span = self._tracer.start_span(name, context=inside, start_time=begin, attributes=attributes)
        span.end(end_time=max(begin, end))


@asynccontextmanager
async def tracing(hub: Hub, *, arguments: bool) -> AsyncGenerator[None]:
    """While the context is open, send traces to the receiver named in the environment."""
    traces = Tracing(hub, BatchSpanProcessor(OTLPSpanExporter()), arguments=arguments)
    try:
        async with traces.watching():
            yield
    finally:
        await traces.shut_down()


def _keep(kept_values: dict[CallKey, T], key: CallKey, value: T) -> None:
    """Store data about an unfinished call, and drop the oldest beyond the bound."""
    kept_values[key] = value
    if len(kept_values) > MOST_CALLS:
        del kept_values[next(iter(kept_values))]


def _context(traceparent: str) -> Context:
    """Return the context of a caller's span; empty for an invalid text."""
    return TraceContextTextMapPropagator().extract({"traceparent": traceparent}, context=Context())


def _ns(at: datetime) -> int:
    return int(at.timestamp() * 1e9)
