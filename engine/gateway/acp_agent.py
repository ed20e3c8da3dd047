"""An agent of the Agent Client Protocol as a session of a hub: started, spoken to, listened to, ended.

Interlock is the protocol's client. It offers the agent neither files nor terminals: what the agent does
it does by itself, and asks for. What the agent says is taken in order, one thing at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias, TypeVar

from acp.connection import Connection
from acp.exceptions import RequestError
from acp.meta import AGENT_METHODS, CLIENT_METHODS, PROTOCOL_VERSION
from acp.schema import (
    AgentMessageChunk,
    AgentPlanUpdate,
    AgentThoughtChunk,
    InitializeResponse,
    NewSessionResponse,
    PromptResponse,
    RequestPermissionRequest,
    SessionNotification,
    TextContentBlock,
    ToolCallProgress,
    ToolCallStart,
)
from pydantic import ValidationError

from ..agents import AgentError
from ..gate.types import Mode
from ..history.errors import JournalError
from ..hub import Hub, OutsideAgent
from ..net import SkillNet
from ..refusals import UnknownSessionError
from .acp_calls import KINDS
from .acp_gate import AcpGate, Asked, Unasked
from .acp_login import how_to_log_in
from .acp_process import AgentProcess, Message

STARTING: Final = 120.0
"""Seconds in which an agent has to be ready; some are downloaded first."""
MOST_WARNINGS: Final = 20
"""Messages that cannot be read of which the transcript tells, for one session."""
AUTH_REQUIRED: Final = -32000
_EARLY_ENDS: Final = {
    "max_tokens": "the agent stopped: its model has no tokens left",
    "max_turn_requests": "the agent stopped: it has made as many requests as one turn may have",
    "refusal": "the agent refused to go on",
}

_Heard: TypeAlias = "SessionNotification | tuple[RequestPermissionRequest, asyncio.Future[Message]]"
T = TypeVar("T")


class AcpError(AgentError):
    """An agent that could not be started; the message says what it said."""


class AcpAgent:
    """The driver of one session. `log` gets what the agent writes to its standard error."""

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
        self._inbox: asyncio.Queue[_Heard] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._words = ""
        self._thoughts = ""
        self._plan = ""
        self._odd: list[str] = []
        self._warnings = 0
        self._in_turn = False
        self._process: AgentProcess
        self._connection: Connection
        self._acp_session = ""
        self._session = ""
        self._gate: AcpGate
        self._gone: asyncio.Task[str]

    async def open(
        self,
        *,
        registry: Mapping[str, SkillNet],
        active: Sequence[str] | None = None,
        mode: Mode = "enforce",
        by: str | None = None,
    ) -> str:
        """Start the agent and a session of it under the nets of `registry`; the session's id.

        Raises `AcpError`, and what `Hub.open_outside` raises; the agent is then ended.
        """
        try:
            self._process = await AgentProcess.start(
                self._command, self._directory, self._log, self._note_odd
            )
        except (OSError, ValueError) as error:
            raise AcpError(f"The agent's command '{self._command[0]}' cannot be run: {error}") from error
        self._connection = Connection(self._hear, self._process)
        try:
            name = await self._shake_hands()
            who = OutsideAgent(name=name, tools=KINDS, workdir=str(self._directory))
            self._gone = asyncio.create_task(self._see_it_end(), name=f"end of {name}")
            self._session = await self._hub.open_outside(
                who, registry=registry, active=active, mode=mode, by=by, driver=self
            )
        except BaseException:
            self._process.kill()
            await self._process.end()
            await self._connection.close()
            raise
        self._gate = AcpGate(self._hub, self._session, unasked=self._unasked, interrupt=self._interrupt)
        self._do(self._listen())
        return self._session

    async def _shake_hands(self) -> str:
        """Agree on the protocol and begin its session; the agent's name."""
        about: Message = {"name": "interlock", "title": "Interlock", "version": version("interlock")}
        files: Message = {"readTextFile": False, "writeTextFile": False}
        hello: Message = {
            "protocolVersion": PROTOCOL_VERSION,
            "clientCapabilities": {"fs": files, "terminal": False},
            "clientInfo": about,
        }
        met: InitializeResponse | None = None
        try:
            async with asyncio.timeout(STARTING):
                said = await self._connection.send_request(AGENT_METHODS["initialize"], hello)
                met = InitializeResponse.model_validate(said)
                if met.protocol_version != PROTOCOL_VERSION:
                    raise AcpError(
                        f"The agent speaks version {met.protocol_version} of the Agent Client Protocol; "
                        f"Interlock speaks version {PROTOCOL_VERSION}"
                    )
                begin: Message = {"cwd": str(self._directory), "mcpServers": []}
                said = await self._connection.send_request(AGENT_METHODS["session_new"], begin)
                self._acp_session = NewSessionResponse.model_validate(said).session_id
        except RequestError as error:
            raise AcpError(self._refusal(error, met)) from error
        except ConnectionError as error:
            await self._process.ended()
            raise AcpError(f"Before it was ready, {self._process.last_words}") from error
        except ValidationError as error:
            raise AcpError(
                f"The agent's answer is none of the Agent Client Protocol: {error.errors()[0]['msg']}"
            ) from error
        except TimeoutError as error:
            raise AcpError(
                f"The agent was not ready after {STARTING:.0f} s. Does '{self._command[0]}' speak the "
                "Agent Client Protocol, or does it need an option for that?"
            ) from error
        info = met.agent_info
        return (info.name.strip()[:90] if info is not None else "") or Path(self._command[0]).name

    def _refusal(self, error: RequestError, met: InitializeResponse | None) -> str:
        if error.code == AUTH_REQUIRED:
            return how_to_log_in((met.auth_methods if met is not None else None) or (), self._command)
        return f"The agent refused: {error} ({error.code})"

    # As a driver

    async def turn(self, said: Sequence[str]) -> str | None:
        """One `session/prompt`; what came before its answer has been taken in when this returns."""
        self._gate.cancelled, self._in_turn = False, True
        prompt: Message = {
            "sessionId": self._acp_session,
            "prompt": [{"type": "text", "text": text} for text in said],
        }
        try:
            answer = await self._connection.send_request(AGENT_METHODS["session_prompt"], prompt)
            stop = PromptResponse.model_validate(answer).stop_reason
        except RequestError as error:
            raise AgentError(f"the agent failed: {error} ({error.code})") from error
        except ConnectionError as error:
            raise AgentError(await self.gone()) from error
        except ValidationError as error:
            raise AgentError("the agent ended its turn with an answer that cannot be read") from error
        finally:
            self._in_turn = False
            await self._take_in_all()
            await self._gate.withdraw_all("the agent's turn has ended")
        return _EARLY_ENDS.get(stop)

    def interrupt(self) -> None:
        """Send `session/cancel`; what is being asked is answered with `cancelled`."""
        self._interrupt()

    def _interrupt(self) -> bool:
        """Whether there was anything to end."""
        if not self._in_turn:
            return False
        if not self._gate.cancelled:
            self._gate.cancelled = True
            self._do(self._cancel())
        return True

    async def _cancel(self) -> None:
        about: Message = {"sessionId": self._acp_session}
        with suppress(ConnectionError):
            await self._connection.send_notification(AGENT_METHODS["session_cancel"], about)
        await self._gate.withdraw_all("the agent was interrupted")

    async def gone(self) -> str:
        """How the process ended, once it has."""
        return await asyncio.shield(self._gone)

    async def close(self) -> None:
        """End the process and whatever it has started."""
        await self._process.end()
        await asyncio.wait({self._gone})
        for task in list(self._tasks):
            task.cancel()
            await asyncio.wait({task})
        await self._connection.close()

    async def _see_it_end(self) -> str:
        why = await self._process.ended()
        if self._session:
            with suppress(UnknownSessionError, JournalError):
                await self._take_in_all()
                await self._gate.withdraw_all("the agent ended")
        return why

    # What it says

    async def _hear(self, method: str, params: object, notification: bool) -> Message | None:
        """Called for each message, in order up to the first wait."""
        if method == CLIENT_METHODS["session_update"]:
            try:
                self._inbox.put_nowait(SessionNotification.model_validate(params))
            except ValidationError as error:
                self._note_odd(f"{method}: {error.errors()[0]['msg']}")
            return None
        if method == CLIENT_METHODS["session_request_permission"] and not notification:
            try:
                request = RequestPermissionRequest.model_validate(params)
            except ValidationError as error:
                self._note_odd(f"{method}: {error.errors()[0]['msg']}")
                raise RequestError.invalid_params({"details": str(error)}) from error
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
            heard = await self._inbox.get()
            try:
                await self._take_in(heard)
            except Exception as error:
                # Nothing that it says may keep the next thing it says from being heard.
                self._note_odd(f"{type(error).__name__}: {error}")
            finally:
                self._inbox.task_done()

    async def _take_in_all(self) -> None:
        await self._inbox.join()
        await self._flush()
        while self._odd and self._warnings < MOST_WARNINGS:
            self._warnings += 1
            with suppress(UnknownSessionError):
                await self._hub.warn(
                    self._session, f"the agent said something that cannot be read: {self._odd.pop(0)}"
                )

    async def _take_in(self, heard: _Heard) -> None:
        if not isinstance(heard, SessionNotification):
            await self._flush()
            request, answer = heard
            await self._ask(request, answer)
            return
        if heard.session_id != self._acp_session:
            return
        match heard.update:
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
                    await self._hub.said(self._session, "assistant", f"Plan:\n{plan}")
            case ToolCallStart() | ToolCallProgress() as update:
                await self._flush()
                await self._gate.report(update)
            case _:
                pass

    async def _ask(self, request: RequestPermissionRequest, answer: asyncio.Future[Message]) -> None:
        """Answer a request, at once or when the nets and the operator have decided."""

        async def decide(asked: Asked) -> None:
            answered(await self._guarded(self._gate.decide(asked)))

        def answered(found: Message) -> None:
            if not answer.done():
                answer.set_result(found)

        begun = await self._guarded(self._gate.begin(request))
        if isinstance(begun, Asked):
            self._do(decide(begun))
        else:
            answered(begun)

    async def _guarded(self, work: Awaitable[T]) -> T | Message:
        """What fails is no permission, whatever an agent makes of errors."""
        try:
            return await work
        except Exception as error:
            self._note_odd(f"{type(error).__name__}: {error}")
            return {"outcome": {"outcome": "cancelled"}}

    async def _flush(self) -> None:
        """Record what it has said so far, before what it does next."""
        await self._flush_thoughts()
        await self._flush_words()

    async def _flush_words(self) -> None:
        words, self._words = self._words, ""
        if words.strip():
            await self._hub.said(self._session, "assistant", words)

    async def _flush_thoughts(self) -> None:
        thoughts, self._thoughts = self._thoughts, ""
        if thoughts.strip():
            await self._hub.said(self._session, "assistant", f"Thought:\n{thoughts.strip()}")

    def _note_odd(self, what: str) -> None:
        if len(self._odd) < MOST_WARNINGS:
            self._odd.append(what[:300])

    def _do(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


_MARKS: Final = {"in_progress": "…", "completed": "x"}
