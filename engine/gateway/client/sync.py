"""Client library for agents' programs without an event loop.

    with SyncAgentClient() as interlock, interlock.session("release-bot") as gate:
        deploy = gate(deploy)
        deploy(env="prod")

The connection lives in its own thread; tools run in the thread that calls them.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import ssl
import threading
import time
from collections.abc import Callable, Collection, Coroutine, Generator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Literal, ParamSpec, Self, TypeVar, Unpack
from uuid import uuid4

from pydantic import JsonValue

from ...core.hints import Hints
from ...core.plan import PlanStep
from ...gate.types import Blocked
from ...gate.wrapping.failures import ResultClassifier
from ...recording.explanation import ExplanationView
from ..protocol.agent_methods import CallAnswer, Mode
from .agent import PATIENCE, AgentClient, AgentSession, SessionTerms
from .agent_tools import CallableArguments, FunctionOutcome, ModelToolCall
from .connection import GatewayError

P = ParamSpec("P")
R = TypeVar("R")


class LoopThread:
    """An event loop in its own thread, for calls from any other thread."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._process = os.getpid()
        self._closing = threading.Lock()
        # A daemon thread, because the program may end without closing its client.
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def wait(self, work: Coroutine[object, object, R]) -> R:
        """Run a coroutine in the loop and return its result. Interrupting the caller cancels it.

        Raises the coroutine's errors, and `RuntimeError` if there is no loop to wait for.
        """
        try:
            running = self._submit(work)
        except RuntimeError:
            work.close()
            raise
        try:
            return running.result()
        except CancelledError:
            raise RuntimeError("the client was closed while this waited") from None
        except BaseException:
            running.cancel()
            raise

    async def result(self, work: Coroutine[object, object, R]) -> R:
        """Run a coroutine in this loop and return its result, for a task in any loop, even this one."""
        if threading.current_thread() is self._thread:
            return await work
        try:
            running = self._submit(work)
        except RuntimeError:
            work.close()
            raise
        return await asyncio.wrap_future(running)

    def close(self) -> None:
        """Stop the loop and its thread; everything that still waits there is cancelled."""
        if os.getpid() != self._process:
            return
        with self._closing:
            if self._loop.is_closed():
                return
            asyncio.run_coroutine_threadsafe(_end_others(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _submit(self, work: Coroutine[object, object, R]) -> Future[R]:
        if os.getpid() != self._process:
            raise RuntimeError("this client belongs to another process: open one after the fork")
        if threading.current_thread() is self._thread:
            raise RuntimeError("this client cannot wait in its own thread: use AgentClient there")
        # Under the lock: a loop that closes between the check and the submission would never answer.
        with self._closing:
            if self._loop.is_closed():
                raise RuntimeError("this client is closed: open another")
            return asyncio.run_coroutine_threadsafe(work, self._loop)


async def _end_others() -> None:
    """End the tasks of this loop, and the threads in which it resolves addresses."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_default_executor()


class SyncAgentClient:
    """A connection for agents without an event loop, with the methods of `AgentClient`.

    Several threads may use it and its sessions at once. Parameters and errors are those of `AgentClient`.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        name: str = "",
        ca: Path | None = None,
        tls: ssl.SSLContext | None = None,
        patience: float = PATIENCE,
    ) -> None:
        self._client = AgentClient(url, token, name=name, ca=ca, tls=tls, patience=patience)
        self._thread = LoopThread("interlock agent client")

    def __enter__(self) -> Self:
        try:
            self._thread.wait(self._client.link.open(self._client.patience))
        except BaseException:
            self._thread.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; sessions stay open on the server, and can be resumed."""
        with suppress(RuntimeError):
            self._thread.wait(self._client.close())
        self._thread.close()

    @contextmanager
    def session(
        self, agent: str, **terms: Unpack[SessionTerms]
    ) -> Generator[SyncAgentSession, None, None]:
        """Open a session for the duration of the block, and close it at the end. See `SessionTerms`."""
        agent_session = self.open(agent, **terms)
        try:
            yield agent_session
        finally:
            with suppress(GatewayError):
                agent_session.close()

    def open(self, agent: str, **terms: Unpack[SessionTerms]) -> SyncAgentSession:
        """Open a session that stays until it is closed; see `SessionTerms`. Raises `GatewayError`."""
        return SyncAgentSession(self._thread, self._thread.wait(self._client.open(agent, **terms)))

    def resume(
        self, session: str, *, rules: Sequence[str] = (), is_error: ResultClassifier | None = None
    ) -> SyncAgentSession:
        """Resume a session that was opened with this token, under the same `rules` as then."""
        resumption = self._client.resume(session, rules=rules, is_error=is_error)
        return SyncAgentSession(self._thread, self._thread.wait(resumption))


class SyncAgentSession:
    """A session on the server, with the methods of `AgentSession`; tools run in the caller's thread."""

    def __init__(self, thread: LoopThread, session: AgentSession) -> None:
        self._thread = thread
        self._session = session

    @property
    def id(self) -> str:
        return self._session.id

    @property
    def mode(self) -> Mode:
        return self._session.mode

    @property
    def rules(self) -> tuple[str, ...]:
        return self._session.rules

    @property
    def ended(self) -> str | None:
        """Reason why the session has ended; `None` while it is open."""
        return self._session.ended

    def call(
        self,
        tool: str,
        input: Mapping[str, JsonValue],  # noqa: A002 - the field's name on the wire
        *,
        call_id: str | None = None,
        wait: float | None = None,
    ) -> CallAnswer:
        """Request a decision on a call; see `AgentSession.call`. An interrupt withdraws the call."""
        return self._thread.wait(self._session.call(tool, input, call_id=call_id, wait=wait))

    def plan(
        self,
        steps: Sequence[PlanStep | Mapping[str, JsonValue]],
        *,
        title: str,
        call_id: str | None = None,
        wait: float | None = None,
    ) -> CallAnswer:
        """Show an operator the calls that the agent intends to make; see `AgentSession.plan`."""
        return self._thread.wait(self._session.plan(steps, title=title, call_id=call_id, wait=wait))

    def withdraw(self, call_id: str, reason: str = "") -> None:
        """Withdraw a pending call."""
        self._thread.wait(self._session.withdraw(call_id, reason))

    def give_up(self, call_id: str, reason: str = "") -> datetime | None:
        """Stop waiting for a call without withdrawing it; see `AgentSession.give_up`."""
        return self._thread.wait(self._session.give_up(call_id, reason))

    def result(
        self,
        call_id: str,
        output: str,
        *,
        is_error: bool = False,
        seconds: float | None = None,
        unknown: bool = False,
    ) -> None:
        """Report the result of an allowed call; see `AgentSession.result`."""
        report = self._session.result(
            call_id, output, is_error=is_error, seconds=seconds, unknown=unknown
        )
        self._thread.wait(report)

    def report_message(self, role: Literal["user", "assistant"], text: str) -> None:
        """Record a message of the conversation, for operators to read."""
        self._thread.wait(self._session.report_message(role, text))

    def note_hints(self, tool: str, hints: Hints) -> None:
        """Report the claims of a tool's MCP server; see `AgentSession.note_hints`."""
        self._thread.wait(self._session.note_hints(tool, hints))

    def prompt(self) -> str:
        """Return a description of what the rules allow the model now, for its system prompt."""
        return self._thread.wait(self._session.prompt())

    def explain(self, tool: str, input: Mapping[str, JsonValue]) -> ExplanationView:  # noqa: A002
        """Explain the decision on a call without making it."""
        return self._thread.wait(self._session.explain(tool, input))

    def close(self) -> None:
        """End the session."""
        self._thread.wait(self._session.close())

    def gate(
        self,
        function: Callable[P, R],
        *,
        name: str | None = None,
        ignore: Collection[str] = (),
        is_error: ResultClassifier | None = None,
    ) -> Callable[P, R]:
        """Gate `function`: it runs with the approved input, or raises `Blocked`.

        The parameters are those of `AgentSession.gate`. Also raises `TypeError` for an async function,
        which needs `AgentClient`.
        """
        arguments = CallableArguments(name or function.__name__, function, ignore)
        tool = arguments.tool
        if inspect.iscoroutinefunction(function):
            raise TypeError(f"{tool} is async, and this client runs no loop for it: use AgentClient")

        @functools.wraps(function)
        def gated(*args: P.args, **kwargs: P.kwargs) -> R:
            bound = arguments.bind(args, kwargs)
            call_id = uuid4().hex
            answer = self.call(tool, bound.input, call_id=call_id)
            if answer.outcome != "allow":
                raise Blocked(tool, call_id, answer.reason or f"{tool} is not allowed")
            try:
                # The approved input runs, even if an operator edited it.
                approved_input = bound.approved(answer)
            except TypeError as error:
                self.result(call_id, FunctionOutcome.raised(error).text, is_error=True)
                raise
            return self._run(call_id, tool, function, approved_input, is_error)[0]

        return gated

    __call__ = gate

    def run(
        self,
        call: object,
        tools: Mapping[str, Callable[..., object]],
        *,
        is_error: ResultClassifier | None = None,
    ) -> dict[str, JsonValue]:
        """Gate and run one tool call of an OpenAI or litellm answer; see `AgentSession.run`."""
        request = ModelToolCall.read(call, tools)
        if request.problem is not None:
            return request.not_run(request.problem)
        call_id = self._session.unused_id(request.call_id)
        answer = self.call(request.name, request.input, call_id=call_id)
        if answer.outcome != "allow":
            return request.not_run(answer.reason)
        try:
            function = tools[request.name]
            _, outcome = self._run(call_id, request.name, function, answer.input, is_error)
        except Exception as error:
            outcome = FunctionOutcome.raised(error)
        return request.ran(outcome, answer)

    def _run(
        self,
        call_id: str,
        tool: str,
        function: Callable[..., R],
        arguments: Mapping[str, object],
        is_error: ResultClassifier | None,
    ) -> tuple[R, FunctionOutcome]:
        """Run an allowed call, and report its result before the caller gets it."""
        started_at = time.monotonic()
        try:
            value = function(**arguments)
            if inspect.iscoroutine(value):
                value.close()
                raise TypeError(f"{tool} is async, and this client runs no loop for it: use AgentClient")
        except BaseException as error:
            text, seconds = FunctionOutcome.raised(error).text, time.monotonic() - started_at
            try:
                self.result(call_id, text, is_error=True, seconds=seconds)
            except GatewayError:
                if isinstance(error, Exception):
                    raise
            raise
        outcome = FunctionOutcome.returned(is_error or self._session.is_error, tool, value)
        seconds = time.monotonic() - started_at
        self.result(call_id, outcome.text, is_error=outcome.failed, seconds=seconds)
        return value, outcome
