"""Client library for agents' programs: gates their tools at a server, in a few lines.

    async with AgentClient() as interlock, interlock.session("release-bot") as gate:
        deploy = gate(deploy)
        await deploy(env="prod")

Nothing runs that the server has not allowed: if the server is unreachable, a call waits or fails.
"""

from __future__ import annotations

import asyncio
import functools
import os
import re
import ssl
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, ParamSpec, Self, TypedDict, TypeVar, Unpack, cast, overload
from uuid import uuid4

from pydantic import JsonValue

from ...core.condition import Shell
from ...core.hints import Hints
from ...core.plan import PLAN, PLAN_NOTED, PlanStep, written_plan
from ...gate.types import Blocked
from ...gate.wrapping.failures import ResultClassifier, returned_failure
from ...recording.explanation import ExplanationView
from ..protocol.address import TOKEN, server_url, trusting
from ..protocol.agent_methods import (
    CALL,
    CLOSE,
    ENDED,
    EXPLAIN,
    GIVE_UP,
    NOTE_HINTS,
    OPEN,
    PROMPT,
    REPORT_MESSAGE,
    RESULT,
    RESUME,
    WITHDRAW,
    CallAnswer,
    CallTool,
    ExplainCall,
    GiveUp,
    Mode,
    OpenSession,
    ReportMessage,
    ResumeSession,
    SessionEnded,
    SessionOpen,
    SessionParams,
    ToolClaims,
    ToolResult,
    WithdrawCall,
)
from ..protocol.framing import Code, Notice
from ..protocol.token_paths import agent_token_file
from ..protocol.tokens import read_secret
from .agent_tools import CallableArguments, FunctionOutcome, ModelToolCall, call_function, shortened
from .connection import GatewayError, Link, RequestFailedError, UnreachableError, checked
from .trace_context import current_traceparent

P = ParamSpec("P")
R = TypeVar("R")

PATIENCE = 60.0
"""Seconds for which a client retries a lost server before a call fails."""


OVERHEAD = 8192
"""Bytes of a message in addition to the text it carries."""


class SessionTerms(TypedDict, total=False):
    """Options of a new session.

    `labels` are tools' names for people. `is_error` takes a tool's name and the value it returned, and
    returns whether the tool failed; it replaces the check for the common shapes (G-71). For the other
    options see `OpenSession`.
    """

    session: str | None
    rules: Sequence[str]
    active: Sequence[str] | None
    mode: Mode | None
    model: str
    tools: Sequence[str]
    labels: Mapping[str, str] | None
    workdir: str | Path | None
    shell: Shell | None
    explain_blocks: bool
    is_error: ResultClassifier | None


class AgentClient:
    """A connection for agents.

    `url` defaults to INTERLOCK_URL, else to the server's default address; `token` to INTERLOCK_TOKEN,
    else to the one that `interlock serve` wrote to this user's files. A `wss://` server's certificate is
    checked against `ca`, else INTERLOCK_CA, else the system's trust store. `patience` is the time in
    seconds for which a lost server is retried. Raises `ValueError` for an invalid URL, and `TokenError`
    if there is no token.
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
        explicit_token = token or os.environ.get(TOKEN)
        usual = functools.partial(read_secret, agent_token_file())
        self.patience = patience
        self.link = Link(
            server_url(url),
            explicit_token or usual(),
            "/agent",
            name=name,
            tls=tls or trusting(ca),
            on_notice=self._receive,
            on_connected=self._restore,
            read_token=None if explicit_token else usual,
        )
        self._sessions: dict[str, AgentSession] = {}

    async def __aenter__(self) -> Self:
        await self.link.open(self.patience)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection; sessions stay open on the server, and can be resumed."""
        await self.link.close()

    @asynccontextmanager
    async def session(
        self, agent: str, **terms: Unpack[SessionTerms]
    ) -> AsyncGenerator[AgentSession, None]:
        """Open a session for the duration of the block, and close it at the end. See `SessionTerms`."""
        agent_session = await self.open(agent, **terms)
        try:
            yield agent_session
        finally:
            with suppress(GatewayError):
                await agent_session.close()

    async def open(self, agent: str, **terms: Unpack[SessionTerms]) -> AgentSession:
        """Open a session that stays until it is closed; see `SessionTerms`. Raises `GatewayError`."""
        # The client chooses the id, so that opening can be repeated after a connection loss.
        session, rules = terms.get("session"), terms.get("rules", ())
        active, workdir = terms.get("active"), terms.get("workdir")
        name = session or f"{_as_id(agent)}-{uuid4().hex[:12]}"
        with checked(OPEN):
            params = OpenSession(
                agent=agent,
                session=name,
                model=terms.get("model", ""),
                rules=tuple(rules),
                active=None if active is None else tuple(active),
                mode=terms.get("mode"),
                tools=tuple(terms.get("tools", ())),
                labels=dict(terms.get("labels") or {}),
                workdir=None if workdir is None else str(workdir),
                shell=terms.get("shell"),
                explain_blocks=terms.get("explain_blocks", False),
            )
        try:
            session_open = await self.link.request(OPEN, params, may_repeat=True, patience=self.patience)
        except RequestFailedError as error:
            if session is not None or error.code != Code.REFUSED:
                raise
            # No other client has this id: the server opened the session, and shut down before it
            # answered.
            return await self.resume(name, rules=rules, is_error=terms.get("is_error"))
        return self._keep(session_open, tuple(rules), terms.get("is_error"))

    async def resume(
        self, session: str, *, rules: Sequence[str] = (), is_error: ResultClassifier | None = None
    ) -> AgentSession:
        """Resume a session that was opened with this token, under the same `rules` as then."""
        with checked(RESUME):
            params = ResumeSession(session=session, rules=tuple(rules))
        session_open = await self.link.request(RESUME, params, may_repeat=True, patience=self.patience)
        return self._keep(session_open, tuple(rules), is_error)

    def _keep(
        self, session_open: SessionOpen, rules: tuple[str, ...], is_error: ResultClassifier | None
    ) -> AgentSession:
        session = self._sessions[session_open.session] = AgentSession(self, session_open, rules, is_error)
        return session

    @property
    def largest(self) -> int:
        """Maximum size of a text in one message, in bytes."""
        return (self.link.welcome.frame if self.link.welcome else 1 << 20) - OVERHEAD

    def forget(self, session_id: str) -> None:
        """Forget a closed session, so that it is not resumed after a connection loss."""
        self._sessions.pop(session_id, None)

    async def _restore(self) -> None:
        """Resume the sessions after a connection loss or a server's restart, before any other request."""
        for session in list(self._sessions.values()):
            try:
                await self.link.ask(RESUME, ResumeSession(session=session.id, rules=session.rules))
                # Hints count only for calls on the connection that reported them.
                for tool, hints in session.claims.items():
                    params = ToolClaims(session=session.id, tool=tool, hints={**hints})
                    await self.link.ask(NOTE_HINTS, params)
            except RequestFailedError as error:
                if error.code in (Code.UNRECORDED, Code.INTERNAL):
                    raise UnreachableError(
                        f"The server cannot continue at the moment: {error}"
                    ) from error
                if error.code == Code.METHOD:  # an older server, which has no rules about hints
                    session.claims.clear()
                    continue
                url = self.link.url
                if self.link.has_others and url not in session.refused_by:
                    # Another server may have the rules that the session was recorded under.
                    session.refused_by.add(url)
                    raise UnreachableError(f"{url} cannot continue a session: {error}") from error
                session.ended = str(error)
                self.forget(session.id)
            else:
                session.refused_by.clear()

    def _receive(self, notice: Notice) -> None:
        if notice.method == ENDED.name:
            notice_params = SessionEnded.model_validate(notice.params)
            session = self._sessions.pop(notice_params.session, None)
            if session is not None:
                session.ended = notice_params.reason


class AgentSession:
    """A session on the server. Calling it with a function gates that function, see `gate`."""

    def __init__(
        self,
        client: AgentClient,
        opened: SessionOpen,
        rules: tuple[str, ...],
        is_error: ResultClassifier | None = None,
    ) -> None:
        self.id = opened.session
        self.mode: Mode = opened.mode
        self.rules = rules
        self.ended: str | None = None
        self.is_error: ResultClassifier = is_error or returned_failure
        self.claims: dict[str, Hints] = {}
        self.refused_by: set[str] = set()
        """URLs of servers that refused to resume it since the connection was lost."""
        self._client = client
        self._ran: set[str] = set()

    async def call(
        self,
        tool: str,
        input: Mapping[str, JsonValue],  # noqa: A002 - the field's name on the wire
        *,
        call_id: str | None = None,
        wait: float | None = None,
    ) -> CallAnswer:
        """Request a decision on a call; wait for an operator if the rules require approval.

        After a connection loss, the client reconnects and sends the same request under the same id. With
        `wait`, the answer comes after at most that many seconds, as `waiting` if there is no decision.
        Cancelling this coroutine withdraws the call. Raises `GatewayError`.
        """
        welcome = self._client.link.welcome
        with checked(CALL):
            params = CallTool(
                session=self.id,
                call=call_id or uuid4().hex,
                tool=tool,
                input=dict(input),
                wait=wait,
                traceparent=current_traceparent() if welcome is not None and welcome.traces else None,
            )
        self._check()
        try:
            while True:
                answer = await self._client.link.request(
                    CALL, params, may_repeat=True, patience=self._client.patience
                )
                # The server limits each wait; after that the same request is sent again.
                if answer.outcome != "waiting" or wait is not None:
                    return answer
        except RequestFailedError as error:
            if error.code == Code.UNKNOWN:
                # The reason why the session ended says more than that it is not open.
                self._check()
            raise
        except asyncio.CancelledError:
            with suppress(GatewayError):
                await asyncio.shield(self.withdraw(params.call))
            raise

    async def plan(
        self,
        steps: Sequence[PlanStep | Mapping[str, JsonValue]],
        *,
        title: str,
        call_id: str | None = None,
        wait: float | None = None,
    ) -> CallAnswer:
        """Show an operator the calls that the agent intends to make; `call` with the tool `plan`.

        Steps are `PlanStep`s or objects such as `{"tool": "deploy", "count": 2}`. If the outcome is
        `allow`, the `reason` says what the plan allows. A decision must still be requested for each call,
        and a call that the plan does not cover waits for an operator as before. Raises `GatewayError`.
        """
        call_id = call_id or uuid4().hex
        value = cast("dict[str, JsonValue]", written_plan(title, steps))
        answer = await self.call(PLAN, value, call_id=call_id, wait=wait)
        if answer.outcome == "allow":
            await self.result(call_id, answer.reason or PLAN_NOTED)
        return answer

    async def withdraw(self, call_id: str, reason: str = "") -> None:
        """Withdraw a pending call."""
        with checked(WITHDRAW):
            params = WithdrawCall(session=self.id, call=call_id, reason=reason)
        await self._client.link.request(WITHDRAW, params, may_repeat=True)

    async def give_up(self, call_id: str, reason: str = "") -> datetime | None:
        """Stop waiting for a call that was answered with `waiting`, without withdrawing it.

        Returns the time until which its approval request stays open: the same tool called again with the
        same input, under any id, then gets the answer. Returns `None` if the call is withdrawn, because
        the server keeps no requests open without a client, or if the call is already decided. Raises
        `GatewayError`.
        """
        with checked(GIVE_UP):
            params = GiveUp(session=self.id, call=call_id, reason=reason)
        try:
            return (await self._client.link.request(GIVE_UP, params, may_repeat=True)).until
        except RequestFailedError as error:
            if error.code != Code.METHOD:
                raise
        # An older server, which does not support the method.
        await self.withdraw(call_id, reason)
        return None

    async def result(
        self,
        call_id: str,
        output: str,
        *,
        is_error: bool = False,
        seconds: float | None = None,
        unknown: bool = False,
    ) -> None:
        """Report the result of an allowed call. Raises `GatewayError`.

        `unknown` means that the tool was interrupted and may or may not have run. An output larger than
        the server's limit is cut at its end, with a note.
        """
        with checked(RESULT):
            params = ToolResult(
                session=self.id,
                call=call_id,
                output=shortened(output, self._client.largest),
                is_error=is_error or unknown,
                seconds=seconds,
            )
        patience = self._client.patience
        if unknown:
            try:
                unknown_result = params.model_copy(update={"unknown": True})
                await self._client.link.request(
                    RESULT, unknown_result, may_repeat=True, patience=patience
                )
            except RequestFailedError as error:
                if error.code != Code.PARAMS:
                    raise
                # An older server, to which the result is reported as a failure.
            else:
                return
        await self._client.link.request(RESULT, params, may_repeat=True, patience=patience)

    async def report_message(self, role: Literal["user", "assistant"], text: str) -> None:
        """Record a message of the conversation, for operators to read."""
        with checked(REPORT_MESSAGE):
            params = ReportMessage(session=self.id, role=role, text=text)
        await self._client.link.request(REPORT_MESSAGE, params)

    async def note_hints(self, tool: str, hints: Hints) -> None:
        """Report the claims of a tool's MCP server before its first call. Older servers ignore them."""
        with checked(NOTE_HINTS):
            params = ToolClaims(session=self.id, tool=tool, hints={**hints})
        self.claims[tool] = hints
        try:
            await self._client.link.request(
                NOTE_HINTS, params, may_repeat=True, patience=self._client.patience
            )
        except RequestFailedError as error:
            if error.code != Code.METHOD:
                raise
            del self.claims[tool]

    async def prompt(self) -> str:
        """Return a description of what the rules allow the model now, for its system prompt."""
        return (await self._client.link.request(PROMPT, SessionParams(session=self.id))).text

    async def explain(self, tool: str, input: Mapping[str, JsonValue]) -> ExplanationView:  # noqa: A002
        """Explain the decision on a call without making it."""
        with checked(EXPLAIN):
            params = ExplainCall(session=self.id, tool=tool, input=dict(input))
        return await self._client.link.request(EXPLAIN, params, may_repeat=True)

    async def close(self) -> None:
        """End the session."""
        self._client.forget(self.id)
        if self.ended is None:
            self.ended = "it was closed"
            await self._client.link.request(CLOSE, SessionParams(session=self.id), may_repeat=True)

    # Gating

    @overload
    def gate(
        self,
        function: Callable[P, Coroutine[Any, Any, R]],
        *,
        name: str | None = None,
        ignore: Collection[str] = (),
        is_error: ResultClassifier | None = None,
    ) -> Callable[P, Coroutine[Any, Any, R]]: ...

    @overload
    def gate(
        self,
        function: Callable[P, Awaitable[R]],
        *,
        name: str | None = None,
        ignore: Collection[str] = (),
        is_error: ResultClassifier | None = None,
    ) -> Callable[P, Coroutine[Any, Any, R]]: ...

    @overload
    def gate(
        self,
        function: Callable[P, R],
        *,
        name: str | None = None,
        ignore: Collection[str] = (),
        is_error: ResultClassifier | None = None,
    ) -> Callable[P, Coroutine[Any, Any, R]]: ...

    def gate(
        self,
        function: Callable[P, object],
        *,
        name: str | None = None,
        ignore: Collection[str] = (),
        is_error: ResultClassifier | None = None,
    ) -> Callable[P, Coroutine[Any, Any, object]]:
        """Gate `function`: it runs with the approved input, or raises `Blocked`.

        Its arguments by name are the call's input and must be JSON. Arguments named in `ignore` belong to
        the framework: they are not part of the input, and are passed on unchanged. A function that is not
        async runs in a thread. `is_error` takes the tool's name and value and returns whether it failed,
        in place of the session's. Raises `TypeError` for a function whose arguments have no names, and
        `ValueError` for an ignored name that is not a parameter of the function.
        """
        arguments = CallableArguments(name or function.__name__, function, ignore)
        tool = arguments.tool

        @functools.wraps(function)
        async def gated(*args: P.args, **kwargs: P.kwargs) -> object:
            bound = arguments.bind(args, kwargs)
            call_id = uuid4().hex
            answer = await self.call(tool, bound.input, call_id=call_id)
            if answer.outcome != "allow":
                raise Blocked(tool, call_id, answer.reason or f"{tool} is not allowed")
            try:
                # The approved input runs, even if an operator edited it.
                approved_input = bound.approved(answer)
            except TypeError as error:
                await self.result(call_id, FunctionOutcome.raised(error).text, is_error=True)
                raise
            value, _ = await self._run(call_id, tool, function, approved_input, is_error)
            return value

        return gated

    __call__ = gate

    async def run(
        self,
        call: object,
        tools: Mapping[str, Callable[..., object]],
        *,
        is_error: ResultClassifier | None = None,
    ) -> dict[str, JsonValue]:
        """Gate and run one tool call of an OpenAI or litellm answer; return the message that answers it.

        `call` is an entry of `message.tool_calls`, as object or as dict. A call that is blocked or
        unknown, or that fails, is reported to the model in the message, which then begins with `Error:
        NAME was not run:` or `Error: NAME failed:`. An operator's edit of the input is reported, too.
        `is_error` replaces the session's function that recognizes failures.
        """
        request = ModelToolCall.read(call, tools)
        if request.problem is not None:
            return request.not_run(request.problem)
        call_id = self.unused_id(request.call_id)
        try:
            answer = await self.call(request.name, request.input, call_id=call_id)
        except RequestFailedError as error:
            if error.code != Code.PARAMS:
                raise
            return request.not_run(str(error))  # the model can make another call
        if answer.outcome != "allow":
            return request.not_run(answer.reason)
        try:
            function = tools[request.name]
            _, outcome = await self._run(call_id, request.name, function, answer.input, is_error)
        except Exception as error:
            outcome = FunctionOutcome.raised(error)
        return request.ran(outcome, answer)

    def unused_id(self, call_id: str) -> str:
        """Return an id for a model's call that is unused in this session.

        Some models number their calls from 1 in every answer, and a repeated id would mean a repeated
        call.
        """
        new_id = call_id if call_id not in self._ran else f"{call_id[:150]}.{uuid4().hex[:8]}"
        self._ran.add(new_id)
        return new_id

    async def _run(
        self,
        call_id: str,
        tool: str,
        function: Callable[..., object],
        arguments: Mapping[str, object],
        is_error: ResultClassifier | None,
    ) -> tuple[object, FunctionOutcome]:
        """Run an allowed call, and report its result before the caller gets it."""
        started_at = time.monotonic()
        try:
            value = await call_function(function, arguments)
        except BaseException as error:
            outcome, seconds = FunctionOutcome.raised(error), time.monotonic() - started_at
            report = self.result(call_id, outcome.text, is_error=True, seconds=seconds)
            if isinstance(error, Exception):
                await report
            else:
                with suppress(GatewayError):
                    await asyncio.shield(report)
            raise
        outcome = FunctionOutcome.returned(is_error or self.is_error, tool, value)
        seconds = time.monotonic() - started_at
        await self.result(call_id, outcome.text, is_error=outcome.failed, seconds=seconds)
        return value, outcome

    def _check(self) -> None:
        if self.ended is not None:
            raise RequestFailedError(Code.UNKNOWN, f"Session '{self.id}' has ended: {self.ended}")


def _as_id(agent: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", agent).strip("-")[:60] or "agent"
