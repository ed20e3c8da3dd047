"""Driver of an Agent Client Protocol agent as a session of a hub: start, prompt, listen, end.

Interlock is the protocol's client. It offers the agent neither files nor terminals: the agent acts by
itself and requests permission. Messages of the agent are handled one at a time, in order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias, TypeVar, cast

from acp.connection import Connection
from acp.exceptions import RequestError
from acp.meta import AGENT_METHODS, CLIENT_METHODS
from acp.schema import (
    AgentMessageChunk,
    AgentPlanUpdate,
    AgentThoughtChunk,
    PromptResponse,
    RequestPermissionRequest,
    SessionNotification,
    TextContentBlock,
    ToolCallProgress,
    ToolCallStart,
)
from pydantic import ValidationError

from ...agents import AgentError
from ...history.errors import JournalError
from ...hub.hub import ExternalAgent, Hub, SessionConfig
from ...sessions.errors import UnknownSessionError
from .calls import KINDS, mark_kind
from .gate import AcpGate, PermissionRequest, Unasked
from .handshake import AcpError, shake_hands
from .process import AgentProcess, Message

SOURCE: Final = "acp"
"""Key under which a session's record stores the agent's own id of the session."""
MOST_WARNINGS: Final = 20
"""Maximum number of unreadable messages that one session's transcript reports."""
_EARLY_ENDS: Final = {
    "max_tokens": "the agent stopped: its model has no tokens left",
    "max_turn_requests": "the agent stopped: it reached the limit of requests in one turn",
    "refusal": "the agent refused to continue",
}

_InboxItem: TypeAlias = "SessionNotification | tuple[RequestPermissionRequest, asyncio.Future[Message]]"
T = TypeVar("T")


class AcpAgent:
    """Driver of one session. `log` receives the agent's standard error."""

    takes_edits = False

    def __init__(
        self,
        hub: Hub,
        command: Sequence[str],
        directory: Path,
        *,
        unasked: Unasked = "cancel",
        log: BinaryIO | None = None,
    ) -> None:
        self._hub = hub
        self._command = command
        self._directory = directory.absolute()
        self._unasked: Unasked = unasked
        self._log = log
        self._inbox: asyncio.Queue[_InboxItem] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._words = ""
        self._thoughts = ""
        self._plan = ""
        self._unreadable: list[str] = []
        self._warnings = 0
        self._in_turn = False
        self._loading = False
        self._process: AgentProcess
        self._connection: Connection
        self._acp_session = ""
        self._session = ""
        self._gate: AcpGate
        self._end_task: asyncio.Task[str]

    async def open(self, config: SessionConfig, *, resume: str | None = None) -> str:
        """Start the agent and a session of it; return the session's id.

        With `resume`, continue a recorded session, given by its id or a unique prefix of it. Raises
        `AcpError`, and the errors of `Hub.open_external`, or with `resume` of `Hub.resume_external`; the
        agent is then ended.
        """
        earlier = None if resume is None else await self._find_recorded(resume)
        try:
            self._process = await AgentProcess.start(
                self._command, self._directory, self._log, self._note_unreadable
            )
        except (OSError, ValueError) as error:
            raise AcpError(f"The agent's command '{self._command[0]}' cannot be run: {error}") from error
        self._connection = Connection(self._receive, self._process)
        try:
            self._loading = earlier is not None
            acp_session = await shake_hands(
                self._connection,
                self._process,
                self._command,
                self._directory,
                None if earlier is None else earlier[1],
            )
            self._loading, self._acp_session = False, acp_session.session
            agent = ExternalAgent(
                name=acp_session.name,
                tools=KINDS,
                workdir=str(self._directory),
                source={SOURCE: acp_session.session},
            )
            self._end_task = asyncio.create_task(self._await_end(), name=f"end of {acp_session.name}")
            if earlier is None:
                self._session = await self._hub.open_external(agent, config, driver=self)
            else:
                self._session = await self._hub.resume_external(earlier[0], agent, config, driver=self)
        except BaseException:
            self._process.kill()
            await self._process.end()
            await self._connection.close()
            raise
        since = 0 if earlier is None else (await self._hub.session(self._session)).seq
        self._gate = AcpGate(
            self._hub,
            self._session,
            unasked=self._unasked,
            interrupt=self._interrupt,
            workdir=str(self._directory),
            since=since,
        )
        self._start_task(self._listen())
        return self._session

    async def _find_recorded(self, session_id: str) -> tuple[str, str]:
        """Find a recorded session of an ACP agent: its id, and the agent's own id for it."""
        recorded_session = await self._hub.recorded_external(session_id)
        acp_session = (
            recorded_session.agent.source.get(SOURCE)
            if recorded_session is not None and recorded_session.agent.source
            else None
        )
        if recorded_session is None or not isinstance(acp_session, str):
            raise AcpError(f"Session '{session_id}' is not that of an agent that speaks this protocol")
        return recorded_session.id, acp_session

    # Methods of a driver

    async def turn(self, messages: Sequence[str]) -> str | None:
        """Send one `session/prompt`; updates that arrived before its answer are processed on return."""
        self._gate.cancelled, self._in_turn = False, True
        prompt: Message = {
            "sessionId": self._acp_session,
            "prompt": [{"type": "text", "text": text} for text in messages],
        }
        try:
            answer = await self._connection.send_request(AGENT_METHODS["session_prompt"], prompt)
            stop = PromptResponse.model_validate(answer).stop_reason
        except RequestError as error:
            raise AgentError(f"the agent failed: {error} ({error.code})") from error
        except ConnectionError as error:
            raise AgentError(await self.wait_for_exit()) from error
        except ValidationError as error:
            raise AgentError("the agent ended its turn with an answer that cannot be read") from error
        finally:
            self._in_turn = False
            await self._handle_all()
            await self._gate.withdraw_all("the agent's turn has ended")
            with suppress(UnknownSessionError, JournalError):
                await self._hub.end_turn(self._session)
        return _EARLY_ENDS.get(stop)

    def interrupt(self) -> None:
        """Send `session/cancel`; open permission requests are answered with `cancelled`."""
        self._interrupt()

    def _interrupt(self) -> bool:
        """Cancel the current turn; return false if there is none."""
        if not self._in_turn:
            return False
        if not self._gate.cancelled:
            self._gate.cancelled = True
            self._start_task(self._cancel())
        return True

    async def _cancel(self) -> None:
        about: Message = {"sessionId": self._acp_session}
        with suppress(ConnectionError):
            await self._connection.send_notification(AGENT_METHODS["session_cancel"], about)
        await self._gate.withdraw_all("the agent was interrupted")

    async def wait_for_exit(self) -> str:
        """Wait for the process to end; return how it ended."""
        return await asyncio.shield(self._end_task)

    async def close(self) -> None:
        """End the process and everything that it has started."""
        await self._process.end()
        await asyncio.wait({self._end_task})
        for task in list(self._tasks):
            task.cancel()
            await asyncio.wait({task})
        await self._connection.close()

    async def _await_end(self) -> str:
        reason = await self._process.wait_ended()
        if self._session:
            with suppress(UnknownSessionError, JournalError):
                await self._handle_all()
                await self._gate.withdraw_all("the agent ended")
        return reason

    # Messages of the agent

    async def _receive(self, method: str, params: object, notification: bool) -> Message | None:
        """Handle one message; called for each, in order up to the first wait."""
        if method == CLIENT_METHODS["session_update"]:
            if self._loading:
                return None  # Messages repeated while a session is loaded are already in the record.
            try:
                notice = SessionNotification.model_validate(params)
            except ValidationError as error:
                self._note_unreadable(f"{method}: {error.errors()[0]['msg']}")
                return None
            if isinstance(notice.update, ToolCallStart | ToolCallProgress):
                mark_kind(notice.update, _part(params, "update"))
            self._inbox.put_nowait(notice)
            return None
        if method == CLIENT_METHODS["session_request_permission"] and not notification:
            try:
                request = RequestPermissionRequest.model_validate(params)
            except ValidationError as error:
                self._note_unreadable(f"{method}: {error.errors()[0]['msg']}")
                raise RequestError.invalid_params({"details": str(error)}) from error
            mark_kind(request.tool_call, _part(params, "toolCall"))
            if request.session_id != self._acp_session:
                raise RequestError.invalid_params({"sessionId": "no session of this client"})
            answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
            self._inbox.put_nowait((request, answer))
            return await answer
        if not notification:
            raise RequestError.method_not_found(method)
        return None

    async def _listen(self) -> None:
        while True:
            item = await self._inbox.get()
            try:
                await self._handle(item)
            except Exception as error:
                # A message that fails must not keep later ones from being handled.
                self._note_unreadable(f"{type(error).__name__}: {error}")
            finally:
                self._inbox.task_done()

    async def _handle_all(self) -> None:
        await self._inbox.join()
        await self._flush()
        while self._unreadable and self._warnings < MOST_WARNINGS:
            self._warnings += 1
            with suppress(UnknownSessionError):
                await self._hub.warn(
                    self._session,
                    f"the agent sent something unreadable: {self._unreadable.pop(0)}",
                )

    async def _handle(self, item: _InboxItem) -> None:
        if not isinstance(item, SessionNotification):
            await self._flush()
            request, answer = item
            await self._ask(request, answer)
            return
        if item.session_id != self._acp_session:
            return
        match item.update:
            case AgentMessageChunk(content=TextContentBlock(text=text)):
                await self._flush_thoughts()
                self._words += text
                self._hub.stream(self._session, text)
            case AgentThoughtChunk(content=TextContentBlock(text=text)):
                await self._flush_words()
                self._thoughts += text
            case AgentPlanUpdate(entries=entries):
                plan = "\n".join(f"[{_MARKS.get(each.status, ' ')}] {each.content}" for each in entries)
                if plan != self._plan:
                    self._plan = plan
                    await self._flush()
                    await self._hub.record_message(self._session, "assistant", f"Plan:\n{plan}")
            case ToolCallStart() | ToolCallProgress() as update:
                await self._flush()
                await self._gate.report(update)
            case _:
                pass

    async def _ask(self, request: RequestPermissionRequest, answer: asyncio.Future[Message]) -> None:
        """Answer a permission request, at once or after the rules and the operator have decided."""

        async def decide(permission: PermissionRequest) -> None:
            set_answer(await self._or_cancelled(self._gate.decide(permission)))

        def set_answer(message: Message) -> None:
            if not answer.done():
                answer.set_result(message)

        beginning = await self._or_cancelled(self._gate.begin(request))
        if isinstance(beginning, PermissionRequest):
            self._start_task(decide(beginning))
        else:
            set_answer(beginning)

    async def _or_cancelled(self, work: Awaitable[T]) -> T | Message:
        """Await `work`; an error is answered with `cancelled`, never with a permission."""
        try:
            return await work
        except Exception as error:
            self._note_unreadable(f"{type(error).__name__}: {error}")
            return {"outcome": {"outcome": "cancelled"}}

    async def _flush(self) -> None:
        """Record the agent's streamed text before its next action is recorded."""
        await self._flush_thoughts()
        await self._flush_words()

    async def _flush_words(self) -> None:
        words, self._words = self._words, ""
        if words.strip():
            await self._hub.record_message(self._session, "assistant", words)

    async def _flush_thoughts(self) -> None:
        thoughts, self._thoughts = self._thoughts, ""
        if thoughts.strip():
            await self._hub.record_message(self._session, "assistant", f"Thought:\n{thoughts.strip()}")

    def _note_unreadable(self, text: str) -> None:
        if len(self._unreadable) < MOST_WARNINGS:
            self._unreadable.append(text[:300])

    def _start_task(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _part(params: object, name: str) -> object:
    return cast("Message", params).get(name) if isinstance(params, dict) else None


_MARKS: Final = {"in_progress": "…", "completed": "x"}
