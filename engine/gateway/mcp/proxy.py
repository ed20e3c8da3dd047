"""Proxy between one MCP client and one server, which submits every tool call to the gate."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from math import inf
from typing import Final, TypeVar

from pydantic import JsonValue

from ...core.durations import format_duration
from ...core.hints import Hints
from ...core.plan import PLAN_NOTED
from ...core.sanitize import visible
from ..client.agent import AgentClient, AgentSession
from ..client.agent_tools import edit_note
from ..client.connection import GatewayError, NotAdmittedError, RequestFailedError, UnreachableError
from ..protocol.agent_methods import CallAnswer, CallTool
from ..protocol.framing import Code
from ..protocol.late_calls import late_answer
from ..protocol.probe import PROBE, refusal_of_probe
from ..protocol.tokens import TokenError
from .frames import error_line
from .gate import (
    Ask,
    McpCall,
    McpGate,
    Settle,
    Step,
    Stop,
    ToClient,
    ToServer,
    Withdraw,
    annotate,
    client_meta,
    edited_calls,
    result_line,
)
from .results import ENDED, NOT_RUN, ToolOutcome
from .stdio import LONGEST
from .tools import ToolNames, unlisted_reason

T = TypeVar("T")

SOON: Final = 1.0
OFTEN: Final = 10.0
"""Seconds until a client is first told that a call waits (`SOON`), and between later notices."""
LEAVING: Final = 2.0
"""Seconds for the last requests to the gate."""
PATIENCE: Final = 5.0
"""Seconds for which Interlock's server is retried; most MCP clients wait for a minute."""
UNKEPT: Final = 50.0
"""Seconds for which a call waits if its client gets no progress: most clients give up after a minute."""
LISTING: Final = 20.0
"""Seconds for the server's list of tools; afterwards a call that needs it is refused."""
STOPPED: Final = "the client's user stopped waiting for an operator"
"""Reason for a call that was withdrawn at the client."""
_ROOM: Final = 4096
"""Bytes of a frame in addition to a call's input."""
_WIDEST: Final = 6
"""Maximum bytes of a character in JSON."""

Send = Callable[[bytes], Awaitable[None]]
Errors = (GatewayError, TokenError, ValueError, OSError)
"""Errors of a request to the gate; `ValueError` also for an input that cannot be sent unchanged."""


class ProxySession:
    """The session at the gate, opened when it is first needed.

    With `session` it has that id: the servers of one agent share it, and it stays open when one of them
    ends.
    """

    def __init__(
        self, name: Callable[[], str], *, session: str | None = None, client: Callable[[], AgentClient]
    ) -> None:
        self._name = name
        self._id = session
        self._make = client
        self._client: AgentClient | None = None
        self._session: AgentSession | None = None
        self._opening: asyncio.Task[AgentSession] | None = None

    async def opened(self) -> AgentSession:
        """Return the session. Raises one of `Errors`; the next call tries again."""
        if self._session is not None:
            return self._session
        if self._opening is None or self._opening.done():
            self._opening = asyncio.create_task(self._connect())
            self._opening.add_done_callback(_retrieve_exception)
        # Concurrent callers share the attempt and its outcome.
        return await asyncio.shield(self._opening)

    async def _connect(self) -> AgentSession:
        client = self._make()
        try:
            await client.link.open(client.patience)
            session = await client.open(self._name(), session=self._id)
        except BaseException:
            await client.close()
            raise
        self._client, self._session = client, session
        return session

    @property
    def largest(self) -> int:
        """Maximum size of a message to the gate, in bytes."""
        welcome = self._client.link.welcome if self._client is not None else None
        return welcome.frame if welcome is not None else 1 << 20

    async def close(self) -> None:
        """End the session and the connection."""
        if self._opening is not None and not self._opening.done():
            self._opening.cancel()
            await asyncio.wait({self._opening})
        if self._session is not None and self._id is None:
            with suppress(*Errors):
                await self._session.close()
        if self._client is not None:
            await self._client.close()


class McpProxy:
    """Traffic between the two sides. `to_client` and `to_server` send a line.

    `wait` is the number of seconds for which a call waits for an operator. By default it is `UNKEPT`, or
    unlimited if the client requested progress.
    """

    def __init__(
        self,
        gate: McpGate,
        session: ProxySession,
        to_client: Send,
        to_server: Send,
        *,
        wait: float | None = None,
        soon: float = SOON,
        often: float = OFTEN,
        listing: float = LISTING,
    ) -> None:
        self.gate = gate
        self._session = session
        self._to_client = to_client
        self._to_server = to_server
        self._wait, self._soon, self._often = wait, soon, often
        self._call_tasks: dict[McpCall, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._start_times: dict[McpCall, float] = {}
        self._opening: asyncio.Task[None] | None = None
        self._names = ToolNames()
        self._noted: dict[str, Hints] = {}
        self._listing: asyncio.Task[None] | None = None
        self._list_ended = asyncio.Event()
        self._listing_time = listing

    async def handle_client(self, line: bytes | None) -> None:
        """Handle a line of the client; `None` is one that was too long."""
        if line is None:
            reason = f"the line has more than {LONGEST >> 20} MiB"
            await self._to_client(error_line(None, -32600, reason))
            return
        for step in self.gate.handle_client(line):
            await self._take_step(step)

    async def _take_step(self, step: Step) -> None:
        match step:
            case ToServer():
                await self._to_server(step.line)
            case ToClient():
                await self._to_client(step.line)
            case Ask(call):
                task = self._spawn(self._handle_call(call))
                self._call_tasks[call] = task
                task.add_done_callback(lambda _: self._call_tasks.pop(call, None))
            case Withdraw(call, timed_out):
                task = self._call_tasks.get(call)
                if task is not None and timed_out:
                    self._spawn(self._leave(call, task))
                elif task is not None:
                    task.cancel()
            case Stop(call):
                task = self._call_tasks.get(call)
                if task is not None and call.state == "waiting":
                    call.stopped = True
                    task.cancel()
            case Settle():
                self._spawn(self._settle_quietly(step))

    async def handle_server(self, line: bytes) -> None:
        """Handle a line of the server."""
        if self._names.is_answer(line):
            await self._take_names(line)
            return
        self._names.note(line)
        checked_line = self.gate.handle_server(line)
        if checked_line.note:
            report(f"a line was dropped: {checked_line.note}")
        if checked_line.back:
            await self._to_server(checked_line.back)
        if checked_line.line is None:
            pass
        elif checked_line.settled:
            # In a task, so that a slow gate does not delay later lines.
            self._spawn(self._pass_settled(checked_line.line, checked_line.settled))
        else:
            await self._to_client(checked_line.line)
        if self.gate.server and self._opening is None:
            # Both names are known, so operators can see the session before its first call.
            self._opening = self._spawn(self._open_early())

    async def withdraw_all(self) -> None:
        """Withdraw all pending calls, because the client has gone."""
        tasks = list(self._call_tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=LEAVING)

    async def close(self) -> None:
        """Settle the calls without answers, and end the session."""
        await self.withdraw_all()
        if self._opening is not None:
            self._opening.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(LEAVING):
                if self._tasks:
                    await asyncio.wait(list(self._tasks))
                for call in self.gate.unsettled_calls():
                    await self._settle_quietly(Settle(call, ENDED, call.id))
        with suppress(TimeoutError):
            async with asyncio.timeout(LEAVING):
                await self._session.close()

    async def _open_early(self) -> None:
        try:
            await self._session.opened()
        except Errors as error:
            report(f"no tool can be called until Interlock can be reached: {error}")

    # A call

    async def _handle_call(self, call: McpCall) -> None:
        """Request a decision on a call; then pass it on, or answer it."""
        session: AgentSession | None = None
        started_at = time.monotonic()
        line: bytes | None
        try:
            is_listed = call.name == PROBE or await self._is_listed(call, started_at)
            session = await self._open_session(call, started_at)
            if is_listed:
                line = await self._decide(session, call, started_at)
            else:
                line = await self._refuse_unlisted(session, call)
        except asyncio.CancelledError:
            if session is not None:
                why = STOPPED if call.stopped else "the client cancelled it"
                await asyncio.shield(self._spawn(self._withdraw(session, call, why)))
            if not call.stopped:
                raise
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()
            line = self.gate.refusal_line(call, f"{call.name} was not made: {STOPPED}.")
        except Errors as error:
            line = self.gate.refusal_line(call, undecided_reason(call, error))
        except Exception as error:
            report(f"{call.name} was not judged: {type(error).__name__}: {error}")
            line = self.gate.refusal_line(call, undecided_reason(call, error))
        finally:
            withdrawal = self.gate.end_question(call)
            if withdrawal is not None:
                self._spawn(self._send(withdrawal))
        if line is None:
            return
        if call.state == "sent":
            self._start_times[call] = time.monotonic()
            await self._to_server(line)
        else:
            await self._to_client(line)

    async def _is_listed(self, call: McpCall, started_at: float) -> bool:
        """Return whether the server lists the tool; if that is unknown, request its list (G-66)."""
        if call.own or call.name in self._names:
            return True
        if self._listing is None or self._listing.done():
            self._listing = self._spawn(self._list(client_meta(call)))
        # Concurrent calls share the list, and a cancelled one does not end the request for the others.
        listing = asyncio.ensure_future(asyncio.shield(self._listing))
        try:
            await self._await_with_progress(
                listing, call, started_at, "the server is asked for its tools"
            )
        finally:
            listing.cancel()
        return call.name in self._names

    async def _list(self, meta: Mapping[str, JsonValue]) -> None:
        self._list_ended.clear()
        try:
            async with asyncio.timeout(self._listing_time):
                await self._to_server(self._names.request(meta))
                await self._list_ended.wait()
        except TimeoutError:
            self._names.note_late(self._listing_time)

    async def _take_names(self, line: bytes) -> None:
        following, is_complete = self._names.take(line)
        if is_complete:
            self._list_ended.set()
        if following is not None:
            await self._to_server(following)

    async def _refuse_unlisted(self, session: AgentSession, call: McpCall) -> bytes:
        """Answer a call of a tool that the server is not known to list, and record that."""
        reason = unlisted_reason(call.name, self._names.fault)
        report(reason)
        with suppress(*Errors):
            await session.report_message("assistant", f"Interlock did not pass on a call: {reason}.")
        return self.gate.unlisted_line(call, reason)

    async def _open_session(self, call: McpCall, started_at: float) -> AgentSession:
        opening = asyncio.ensure_future(self._session.opened())
        try:
            return await self._await_with_progress(opening, call, started_at, "connecting to Interlock")
        finally:
            opening.cancel()

    async def _decide(self, session: AgentSession, call: McpCall, started_at: float) -> bytes | None:
        """Return the line that passes a call on or answers it; `None` if the client has given it up."""
        params = CallTool(session=session.id, call=call.gate_id, tool=call.tool, input=call.input)
        size = len(params.model_dump_json().encode())
        if size + _ROOM > self._session.largest:
            reason = f"its input has {size} bytes; the gate takes {self._session.largest} at most"
            return self.gate.refusal_line(call, f"{call.name} was not run: {reason}")
        if not call.own:
            await self._note_hints(session, call)
        patience, wait = self._soon, self._wait
        if wait is None:
            wait = UNKEPT if call.token is None else inf
        while not call.given_up:
            remaining = max(0.0, wait - (time.monotonic() - started_at))
            # Even if little time is left, wait until the request is open before giving it up.
            patience = max(self._soon, min(patience, remaining))
            answer_task = asyncio.ensure_future(
                session.call(call.tool, call.input, call_id=call.gate_id, wait=patience)
            )
            try:
                answer = await self._await_with_progress(
                    answer_task, call, started_at, "Interlock is deciding", extra_pause=patience
                )
            finally:
                await _cancel(answer_task)
            if call.given_up:
                if answer.outcome == "allow":
                    await session.result(call.gate_id, NOT_RUN.output, is_error=True)
                return None
            if call.name == PROBE:
                return await self._block_probe(session, call, answer)
            if answer.outcome == "allow" and call.own:
                return await self._answer_plan(session, call, answer)
            if answer.outcome != "waiting":
                return self._decision_line(call, answer)
            if patience >= remaining:
                return await self._give_up(session, call, wait, answer.reason)
            reason = answer.reason or "it needs approval"
            await self._send_progress(call, started_at, reason)
            question = self.gate.question(call, reason)
            if question is not None:
                await self._to_client(question)
            patience = self._often
        return None

    async def _note_hints(self, session: AgentSession, call: McpCall) -> None:
        """Report the server's claims about a tool to the gate before it judges a call of the tool."""
        hints = self._names.hints(call.name)
        if self._noted.get(call.tool, {}) != hints:
            await session.note_hints(call.tool, hints)
            self._noted[call.tool] = hints

    async def _block_probe(self, session: AgentSession, call: McpCall, answer: CallAnswer) -> bytes:
        """Block the probe, whatever the rules say: the server has recorded it."""
        if answer.outcome == "allow":
            await session.result(call.gate_id, NOT_RUN.output, is_error=True)
        elif answer.outcome == "waiting":
            await self._withdraw(session, call)
        return self.gate.refusal_line(call, refusal_of_probe(shadow=answer.mode == "shadow"))

    async def _answer_plan(self, session: AgentSession, call: McpCall, answer: CallAnswer) -> bytes:
        """Answer a plan, in which the server has no part."""
        text = answer.reason or PLAN_NOTED
        await session.result(call.gate_id, text)
        note = f"\n\n{edit_note(answer.input)}" if answer.edited else ""
        return self.gate.own_line(call, text + note)

    def _decision_line(self, call: McpCall, answer: CallAnswer) -> bytes:
        if answer.outcome != "allow":
            return self.gate.refusal_line(call, answer.reason or f"{call.name} is not allowed")
        return self.gate.allowed_line(call, answer.input, edited=answer.edited)

    async def _give_up(
        self, session: AgentSession, call: McpCall, wait: float, frozen: str | None
    ) -> bytes:
        """Answer a call that was not decided in time; `frozen` describes a freeze of all agents."""
        undecided_text = f"nobody decided within {format_duration(wait)}"
        undecided_text = undecided_text if frozen is None else f"all agents are {frozen}"
        until = await session.give_up(call.gate_id, undecided_text)
        if until is not None:
            text = f"Interlock requested approval for {call.name}. {late_answer(undecided_text, until)}"
            return self.gate.refusal_line(call, text)
        with suppress(*Errors):
            # The call may have been allowed at the same moment: record that it was not made.
            await session.result(call.gate_id, NOT_RUN.output, is_error=True)
        text = f"Interlock requested approval for {call.name} and {undecided_text}, so it was not made. "
        text += "Go on with something else, or make it again when somebody is there to decide."
        return self.gate.refusal_line(call, text)

    async def _leave(self, call: McpCall, task: asyncio.Task[None]) -> None:
        """Keep the request of a call open after its client timed out, or withdraw it if impossible."""
        call.given_up = True
        try:
            until = await (await self._session.opened()).give_up(call.gate_id, "the client timed out")
        except Errors:
            until = None
        if until is None:
            task.cancel()

    async def _await_with_progress(
        self,
        future: asyncio.Future[T],
        call: McpCall,
        started_at: float,
        activity: str,
        *,
        extra_pause: float = 0.0,
    ) -> T:
        """Await a future, and send the client progress while it takes long."""
        pause = extra_pause + self._soon
        while not (await asyncio.wait({future}, timeout=pause))[0]:
            await self._send_progress(call, started_at, activity)
            pause = self._often
        return future.result()

    async def _send_progress(self, call: McpCall, started_at: float, activity: str) -> None:
        seconds = time.monotonic() - started_at
        line = self.gate.progress(call, f"{call.name} waits for {seconds:.0f} s: {activity}")
        if line is not None:
            await self._to_client(line)

    async def _send(self, line: bytes) -> None:
        await self._to_client(line)

    async def _withdraw(
        self, session: AgentSession, call: McpCall, why: str = "the client cancelled it"
    ) -> None:
        with suppress(*Errors):
            await session.withdraw(call.gate_id, why)
        with suppress(*Errors):
            # The call may have been allowed at the same moment: record that it was not made.
            await session.result(call.gate_id, NOT_RUN.output, is_error=True)

    # The result of a call

    async def _pass_settled(self, line: bytes, settled: tuple[Settle, ...]) -> None:
        """Pass a result on once the gate has recorded it: the client must not be ahead of the record."""
        try:
            for settlement in settled:
                await self._settle(settlement.call, settlement.outcome)
        except Errors as error:
            for settlement in settled:
                reason = (
                    f"{settlement.call.name} was run, and its result could not be recorded: {error}. "
                )
                reason += "It is held back; look what was done before you call it again."
                await self._to_client(result_line(settlement.call, reason, settlement.request_id))
            return
        await self._to_client(annotate(line, edited_calls(settled)))

    async def _settle(self, call: McpCall, outcome: ToolOutcome) -> None:
        started_at = self._start_times.pop(call, None)
        session = await self._session.opened()
        room = (self._session.largest - _ROOM) // _WIDEST
        await session.result(
            call.gate_id,
            outcome.output[:room],
            is_error=outcome.is_error,
            seconds=None if started_at is None else time.monotonic() - started_at,
        )

    async def _settle_quietly(self, step: Settle) -> None:
        with suppress(*Errors):
            await self._settle(step.call, step.outcome)

    def _spawn(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _retrieve_exception(opening: asyncio.Task[AgentSession]) -> None:
    """Retrieve the task's exception, so that asyncio does not report it if no caller awaits it."""
    if not opening.cancelled():
        opening.exception()


async def _cancel(request: asyncio.Future[CallAnswer]) -> None:
    """Cancel a request that no caller awaits any longer, and wait until it has withdrawn the call."""
    if not request.done():
        request.cancel()
        await asyncio.wait({request})


def undecided_reason(call: McpCall, error: Exception) -> str:
    """Return the reason why a call without a decision was not made, with the remedy."""
    reason = f"Interlock could not judge {call.name}, so it was not run: {error}."
    match error:
        case RequestFailedError(code=Code.UNKNOWN):
            return f"{reason} Restart this MCP server to begin a new session."
        case NotAdmittedError() | TokenError():
            return f"{reason} Give it a token in INTERLOCK_TOKEN; `interlock token` lists and makes them."
        case UnreachableError():
            return (
                f"{reason} Start the server with `interlock serve`, or name another one in "
                "INTERLOCK_URL; then call again."
            )
        case _:
            return reason


def report(text: str) -> None:
    """Write a line to stderr, which clients log."""
    print(f"interlock mcp: {visible(text)}", file=sys.stderr, flush=True)
