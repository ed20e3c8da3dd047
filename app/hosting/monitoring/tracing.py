"""Traces: a span for each call, with its judging, its approval and its run below it.

Spans are made from the hub's events once a call has ended, so that no call waits for them. Names and
attributes are those of OpenTelemetry's conventions for generative AI; receiver, sampling and the
service's name come from the standard `OTEL_…` variables. Inputs and outputs are left out unless they are
asked for, and are masked then.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

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
"""Calls under way that are followed; of more the oldest get no span."""
LONGEST = 16_384
"""Characters of an input or an output."""
END_SECONDS = 5.0
SERVICE = "interlock"
Attributes = dict[str, str | bool | int | float]
CallKey = tuple[str, str]
T = TypeVar("T")


@dataclass(slots=True)
class _Approval:
    """A request about a call, from its beginning to its end."""

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
    """Spans of the calls of one hub's sessions."""

    def __init__(self, hub: Hub, processor: SpanProcessor, *, arguments: bool = False) -> None:
        super().__init__(hub)
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

    @asynccontextmanager
    async def watching(self) -> AsyncGenerator[None]:
        """Follow the hub meanwhile."""
        self._hub.watch(judged=self.note_judged, parent=self.note_parent)
        async with self.following():
            yield

    def note_judged(self, session: str, call: ToolCall, seconds: float) -> None:
        """Remember how long judging a call took, until it ends."""
        _keep(self._judged, (session, call.tool_call_id), seconds)

    def note_parent(self, session: str, call_id: str, traceparent: str) -> None:
        """Remember in which trace a call was made, until it ends."""
        _keep(self._parents, (session, call_id), traceparent)

    def take(self, event: JournalEvent) -> None:
        """Follow a call by an event that this server recorded."""
        session, body = event.session, event.body
        match body:
            case SessionOpened():
                self._agents[session] = body.agent
            case MessageAdded(role="assistant", calls=(_, *_) as calls):
                for each in calls:
                    shown = json.dumps(each.input, ensure_ascii=False)[:LONGEST]
                    call = _TracedCall(each.tool, event.at, shown if self._arguments else None)
                    _keep(self._calls, (session, each.call_id), call)
            case ApprovalRequested():
                call = self._call(session, body.call_id, body.called, event.at)
                attributes: Attributes = {"interlock.rule": body.net}
                if body.risk is not None:
                    attributes["interlock.risk"] = body.risk
                call.asked[body.approval_id] = _Approval(event.at, attributes)
            case ApprovalDecided() | ApprovalExpired() | ApprovalWithdrawn():
                asked = self._call(session, body.call_id, "", event.at).asked.get(body.approval_id)
                if asked is not None:
                    asked.until = event.at
                    asked.attributes["interlock.outcome"] = outcome(body)
            case CallDecided():
                if self._hub.is_child(session):
                    self._drop((session, body.call_id))
                    return
                call = self._call(session, body.call_id, body.tool, event.at)
                call.decided, call.decided_at = body, event.at
                if body.mode == "enforce" and body.outcome != "allow":
                    self._end((session, body.call_id), event.at, None)
            case CallResult():
                if (session, body.call_id) in self._calls:
                    self._end((session, body.call_id), event.at, body)
            case SessionStatus(status="done" | "failed"):
                for key in [each for each in self._calls if each[0] == session]:
                    self._end(key, event.at, None)
                self._agents.pop(session, None)
            case _:
                pass

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
        """Make the spans of a call that has ended."""
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
        whole = self._tracer.start_span(
            f"execute_tool {call.tool}",
            context=parent,
            kind=SpanKind.INTERNAL,
            attributes=attributes,
            start_time=_ns(call.since),
        )
        inside = set_span_in_context(whole)
        first = min((each.since for each in call.asked.values()), default=call.decided_at)
        if seconds is not None and first is not None:
            begun = max(_ns(call.since), _ns(first) - int(seconds * 1e9))
            self._child("judge", inside, begun, begun + int(seconds * 1e9), {})
        for asked in call.asked.values():
            until = asked.until or call.decided_at or at
            self._child("approval", inside, _ns(asked.since), _ns(until), asked.attributes)
        if result is not None and call.decided_at is not None:
            self._child("run", inside, _ns(call.decided_at), _ns(at), {})
        if fault is not None:
            whole.set_attribute("error.type", fault)
            whole.set_status(Status(StatusCode.ERROR, fault))
        whole.end(end_time=_ns(at))

    def _describe(
        self, call: _TracedCall, result: CallResult | None, attributes: Attributes
    ) -> str | None:
        """Say in the attributes how a call was decided and ended; the kind of its fault, if any."""
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
    """Send traces meanwhile to the receiver that the environment names."""
    traces = Tracing(hub, BatchSpanProcessor(OTLPSpanExporter()), arguments=arguments)
    try:
        async with traces.watching():
            yield
    finally:
        # Whoever receives them may be gone, and a server has to end.
        with suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                await asyncio.to_thread(traces.provider.shutdown)


def _keep(kept: dict[CallKey, T], key: CallKey, value: T) -> None:
    """Keep what is known of a call under way, and forget the oldest beyond the bound."""
    kept[key] = value
    if len(kept) > MOST_CALLS:
        del kept[next(iter(kept))]


def _context(traceparent: str) -> Context:
    """The context of a caller's span; none for a text that makes no sense."""
    return TraceContextTextMapPropagator().extract({"traceparent": traceparent}, context=Context())


def _ns(at: datetime) -> int:
    return int(at.timestamp() * 1e9)
