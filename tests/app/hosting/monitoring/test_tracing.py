"""Traces of a server: the spans of a call, their parents, and their attributes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from opentelemetry.context import Context
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from interlock.app.hosting.monitoring.tracing import Tracing, tracing
from interlock.app.hosting.server import is_traced
from tests.engine.gateway.served import Served, served, until

RULES = "require human-approval before deploy risk high\nblock rm\n"


@asynccontextmanager
async def traced_server(
    directory: Path, *, arguments: bool = False
) -> AsyncGenerator[tuple[Served, Tracing, InMemorySpanExporter], None]:
    """A server whose spans stay in memory."""
    exporter = InMemorySpanExporter()
    async with served(directory, rules=RULES) as server:
        traces = Tracing(server.hub, SimpleSpanProcessor(exporter), arguments=arguments)
        async with traces.watching():
            yield server, traces, exporter


def spans_by_name(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    """The finished spans by name."""
    return {each.name: each for each in exporter.get_finished_spans()}


async def wait_for_span(
    traces: Tracing, exporter: InMemorySpanExporter, name: str
) -> dict[str, ReadableSpan]:
    """The spans, as soon as one with this name has finished."""

    async def there() -> bool:
        traces.catch_up()
        return name in spans_by_name(exporter)

    await until(there)
    return spans_by_name(exporter)


def is_inside(span: ReadableSpan, whole: ReadableSpan) -> bool:
    """Tell whether a span is a child of another one and lies within its time."""
    assert span.parent is not None
    assert whole.context is not None
    times = span.start_time, span.end_time, whole.start_time, whole.end_time
    begin, end, first, last = (each or 0 for each in times)
    # Events have a precision of milliseconds.
    return span.parent.span_id == whole.context.span_id and begin >= first and end <= last + 1_000_000


class TestSpans:
    async def test_approved_call_has_child_spans(self, tmp_path: Path) -> None:
        """An approved call has a span with child spans for judging, approval and run."""
        async with traced_server(tmp_path) as (server, traces, exporter):
            async with server.agent_client() as client:
                session = await client.open("robin")
                going = asyncio.create_task(session.call("deploy", {"env": "x"}, call_id="d1"))
                async with server.console() as console:
                    [request] = await until(console.approvals)
                    await console.decide(request.id, approved=True, digest=request.digest)
                assert (await going).outcome == "allow"
                await session.result("d1", "done")
            spans = await wait_for_span(traces, exporter, "execute_tool deploy")
        whole = spans["execute_tool deploy"]
        assert set(spans) == {"execute_tool deploy", "judge", "approval", "run"}
        assert all(is_inside(spans[name], whole) for name in ("judge", "approval", "run"))
        said = dict(whole.attributes or {})
        assert said["gen_ai.operation.name"] == "execute_tool"
        assert said["gen_ai.tool.name"] == "deploy"
        assert said["gen_ai.tool.call.id"] == "d1"
        assert said["gen_ai.agent.name"] == "robin"
        assert said["interlock.verdict"] == "approved"
        assert whole.status.is_unset
        assert dict(spans["approval"].attributes or {})["interlock.risk"] == "high"
        assert dict(spans["approval"].attributes or {})["interlock.outcome"] == "approved"

    async def test_blocked_call_has_an_error_and_no_run(self, tmp_path: Path) -> None:
        """A blocked call has no run span, but an error and its rule, and none of its arguments."""
        async with traced_server(tmp_path) as (server, traces, exporter):
            async with server.agent_client() as client:
                session = await client.open("robin")
                await session.call("rm", {"path": "/srv/private"})
            spans = await wait_for_span(traces, exporter, "execute_tool rm")
        said = dict(spans["execute_tool rm"].attributes or {})
        assert "run" not in spans
        assert (said["interlock.verdict"], said["interlock.rule"]) == ("block", "block-rm")
        assert said["error.type"] == "blocked"
        assert "private" not in str([each.to_json() for each in spans.values()])

    async def test_masked_input_if_configured(self, tmp_path: Path) -> None:
        """If the setting is on, a span has the input, with secrets masked."""
        async with traced_server(tmp_path, arguments=True) as (server, traces, exporter):
            async with server.agent_client() as client:
                session = await client.open("robin")
                await session.call("rm", {"path": "/srv/private", "password": "hunter2"})
            spans = await wait_for_span(traces, exporter, "execute_tool rm")
        text = str(dict(spans["execute_tool rm"].attributes or {})["gen_ai.tool.call.arguments"])
        assert "/srv/private" in text
        assert "hunter2" not in text

    async def test_failed_call_has_an_error_type(self, tmp_path: Path) -> None:
        """A call whose tool failed has the error type `failed`."""
        async with traced_server(tmp_path) as (server, traces, exporter):
            async with server.agent_client() as client:
                session = await client.open("robin")
                await session.call("test", {}, call_id="t1")
                await session.result("t1", "no", is_error=True)
            spans = await wait_for_span(traces, exporter, "execute_tool test")
        assert dict(spans["execute_tool test"].attributes or {})["error.type"] == "failed"


class TestParents:
    async def test_call_joins_the_clients_trace(self, tmp_path: Path) -> None:
        """A call made within a span of the agent's program belongs to that trace."""
        tracer = TracerProvider().get_tracer("agent")
        async with traced_server(tmp_path) as (server, traces, exporter):
            async with server.agent_client() as client:
                session = await client.open("robin")
                with tracer.start_as_current_span("turn") as turn:
                    await session.call("rm", {})
                    context = turn.get_span_context()
            spans = await wait_for_span(traces, exporter, "execute_tool rm")
        whole = spans["execute_tool rm"]
        assert whole.context is not None
        assert whole.context.trace_id == context.trace_id
        assert whole.parent is not None
        assert whole.parent.span_id == context.span_id

    async def test_invalid_parent_is_ignored(self, tmp_path: Path) -> None:
        """A call with an invalid parent is judged normally, in its own trace."""
        async with traced_server(tmp_path) as (server, traces, exporter):
            async with server.agent_client() as client:
                session = await client.open("robin")
                going = server.hub.submit_call(session.id, "r1", "rm", {})
                server.hub.note_parent(session.id, "r1", "00-nonsense")
                assert (await going).outcome == "block"
            spans = await wait_for_span(traces, exporter, "execute_tool rm")
        assert spans["execute_tool rm"].parent is None

    async def test_server_without_traces_gets_no_parents(self, tmp_path: Path) -> None:
        """A server without traces gets no parents, because an older one would refuse the field."""
        tracer = TracerProvider().get_tracer("agent")
        async with served(tmp_path, rules=RULES) as server, server.agent_client() as client:
            session = await client.open("robin")
            assert client.link.welcome is not None
            assert not client.link.welcome.traces
            with tracer.start_as_current_span("turn"):
                assert (await session.call("rm", {})).outcome == "block"


class _Threads(SpanProcessor):
    """Record the threads that make spans, and block them until `go_on` is set."""

    def __init__(self) -> None:
        self.names = list[str]()
        self.go_on = threading.Event()

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        self.names.append(threading.current_thread().name)
        assert self.go_on.wait(30)


class TestThread:
    async def test_slow_spans_do_not_delay_calls(self, tmp_path: Path) -> None:
        """While spans take long, calls are judged. At the end all spans have been made."""
        made = _Threads()
        async with served(tmp_path, rules=RULES) as server:
            traces = Tracing(server.hub, made)
            async with traces.watching(), server.agent_client() as client:
                session = await client.open("robin")
                await session.call("rm", {}, call_id="r1")

                async def begun() -> bool:
                    traces.catch_up()
                    return bool(made.names)

                await until(begun)
                for number in range(3):
                    assert (await session.call("rm", {}, call_id=f"s{number}")).outcome == "block"
                assert len(made.names) == 1
                made.go_on.set()
        assert {*made.names} == {"spans"}
        assert len(made.names) == 2 * 4
        assert traces.dropped == 0

    async def test_dropped_events_are_reported_once(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Events beyond the limit are dropped, counted and reported once. Calls are still judged."""
        monkeypatch.setattr("interlock.app.hosting.monitoring.tracing.MOST_WAITING", 3)
        made = _Threads()
        async with served(tmp_path, rules=RULES) as server:
            traces = Tracing(server.hub, made)
            async with traces.watching(), server.agent_client() as client:
                session = await client.open("robin")
                for number in range(5):
                    assert (await session.call("rm", {}, call_id=f"s{number}")).outcome == "block"
                traces.catch_up()
                assert traces.dropped > 0
                made.go_on.set()
        said = [each for each in caplog.messages if "3 events wait for their spans" in each]
        assert len(said) == 1
        assert f"{traces.dropped} events were dropped" in caplog.text

    async def test_survives_an_event_without_a_span(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A failing processor loses the span of that call, but no other."""

        class Failing(SimpleSpanProcessor):
            def on_start(self, span: Span, parent_context: Context | None = None) -> None:
                if span.name == "execute_tool rm":
                    raise ValueError("no span")

        exporter = InMemorySpanExporter()
        async with served(tmp_path, rules=RULES) as server:
            traces = Tracing(server.hub, Failing(exporter))
            async with traces.watching(), server.agent_client() as client:
                session = await client.open("robin")
                await session.call("rm", {})
                await session.call("test", {}, call_id="t1")
                await session.result("t1", "ok")
        assert "execute_tool test" in spans_by_name(exporter)
        assert "an event has no span" in caplog.text


class TestSending:
    async def test_otlp_receiver_gets_the_spans(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An OTLP receiver from the standard variables gets the spans with the service's name."""
        received: list[ExportTraceServiceRequest] = []

        async def take(request: web.Request) -> web.Response:
            found = ExportTraceServiceRequest()
            found.ParseFromString(await request.read())
            received.append(found)
            return web.Response()

        application = web.Application()
        application.add_routes([web.post("/v1/traces", take)])
        runner = web.AppRunner(application)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            port = runner.addresses[0][1]
            monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
            monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
            monkeypatch.setenv("NO_PROXY", "127.0.0.1")
            async with (
                served(tmp_path, rules=RULES) as server,
                tracing(server.hub, arguments=False),
                server.agent_client() as client,
            ):
                session = await client.open("robin")
                await session.call("rm", {})
        finally:
            await runner.cleanup()
        resources = [each for request in received for each in request.resource_spans]
        names = [s.name for each in resources for scope in each.scope_spans for s in scope.spans]
        assert "execute_tool rm" in names
        service = {each.key: each.value.string_value for each in resources[0].resource.attributes}
        assert service["service.name"] == "interlock"

    def test_hanging_receiver_does_not_delay_the_end(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A server ends even if the receiver of its last spans hangs."""
        monkeypatch.setattr("interlock.app.hosting.monitoring.tracing.END_SECONDS", 0.05)
        taken = threading.Event()

        class Hanging(SpanProcessor):
            def shutdown(self) -> None:
                taken.wait(120)

        async def serve() -> None:
            async with served(tmp_path, rules=RULES) as server:
                traces = Tracing(server.hub, Hanging())
                async with traces.watching():
                    pass
                await traces.shut_down()

        program = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
        program.start()
        try:
            program.join(60)
            assert not program.is_alive()
        finally:
            taken.set()

    @pytest.mark.parametrize(
        ("environ", "expected"),
        [
            ({}, False),
            ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h:4318"}, True),
            ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://h:4318/v1/traces"}, True),
            ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h", "OTEL_SDK_DISABLED": "true"}, False),
            ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h", "OTEL_TRACES_EXPORTER": "none"}, False),
        ],
    )
    def test_nothing_is_traced_without_a_receiver(self, environ: dict[str, str], expected: bool) -> None:
        """Without a receiver, or with tracing off, nothing is traced."""
        assert is_traced(environ) is expected
