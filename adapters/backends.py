"""Gates of adapters, in this process or at a server, by the framework's threads and runs."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias, cast

from ..engine.gate import Gate, GateManager, create_gate
from ..engine.gate.edit_notice import describe_edit
from ..engine.gate.reasons import requires_approval
from ..engine.gate.types import Confirm, GateContext, GateDecision, ToolResult
from ..engine.gateway.client.agent import PATIENCE, AgentClient, AgentSession
from ..engine.gateway.client.connection import RequestFailedError
from ..engine.gateway.client.sync import LoopThread
from ..engine.gateway.protocol.framing import Code
from ..engine.net.net import ToolCall
from ..rules import RuleSet, condition_of, load_rules
from .gate import Allow, Answer, Block, Input, Outcome, SessionGate, Wait, call_digest

log = logging.getLogger(__name__)

GateSource: TypeAlias = "str | Path | RuleSet | Gate | GateManager | Gates | None"
"""A rules file, a rule set, a gate in this process, the URL of a server, or `None` for INTERLOCK_URL."""

_URL = re.compile(r"(?:wss?|unix):")
_WAITING = "it waits for an operator"
NOBODY_ASKED = (
    "the gate is in this process and cannot ask anybody, so the call is blocked; pass confirm, as in "
    "Gates('deploy.rules', confirm=…), or name a server"
)
LEAST_WAIT = 1.0
"""Minimum seconds for a server to decide, and to write the decision to disk."""


class Gates:
    """The gates of one agent's threads and runs.

    With a rules file, a `RuleSet` or a `Gate`, each thread starts with a fresh state in this process. A
    `GateManager` is the gate of one session, which all threads share. A URL, or `None` for the URL in
    INTERLOCK_URL, is a server; each thread has a session there, opened or resumed with the state of its
    nets. `agent` is the agent's name there, `token` defaults to INTERLOCK_TOKEN, and a call is blocked if
    no server is reached within `patience` seconds.

    `confirm` asks a person about calls that need approval in this process, and may be async; without it
    such calls are blocked. A `Gate` has its own, and a server has operators: in combination with these
    `confirm` raises `TypeError`. Raises `TokenError` if a server's token is missing, and `RuleError` for
    faulty rules.
    """

    def __init__(
        self,
        source: GateSource = None,
        *,
        agent: str = "agent",
        token: str | None = None,
        patience: float = PATIENCE,
        confirm: Confirm | None = None,
    ) -> None:
        self.agent = agent
        self._confirm = confirm
        self._lock = threading.Lock()
        self._open: dict[str, SessionGate] = {}
        self._loop_thread: LoopThread | None = None
        self._manager = source if isinstance(source, GateManager) else None
        self._gate = None if self._manager is not None else _local_gate(source, confirm)
        self._client: AgentClient | None = None
        if self._manager is None and self._gate is None:
            if confirm is not None:
                raise TypeError("confirm is for a gate in this process: at a server its operators decide")
            url = source if isinstance(source, str) else None
            self._client = AgentClient(url, token, name=agent, patience=patience)

    @classmethod
    def of(cls, source: GateSource, *, agent: str) -> Gates:
        """Return the gates that a user of an adapter has specified."""
        return source if isinstance(source, Gates) else cls(source, agent=agent)

    @property
    def is_lasting(self) -> bool:
        """True if a thread's nets and requests outlast this process, because they are at a server."""
        return self._client is not None

    def session(self, key: str) -> SessionGate:
        """Return the gate of the thread or run `key`; the same one for the same key."""
        with self._lock:
            found = self._open.get(key)
            if found is None:
                found = self._open[key] = SessionGate(key, self._backend(key), self._thread)
        return found

    def forget(self, key: str) -> None:
        """Drop the gate of a run that has ended; in this process this also drops its state."""
        with self._lock:
            self._open.pop(key, None)

    def _backend(self, key: str) -> LocalBackend | ServerBackend:
        if self._client is not None:
            return ServerBackend(self._client, self._thread, self.agent, _session_id(self.agent, key))
        if self._manager is not None:
            return LocalBackend(self._manager, GateContext(confirm=self._confirm))
        assert self._gate is not None
        return LocalBackend(self._gate.new_manager(), self._gate.context)

    def _thread(self) -> LoopThread:
        """Return the loop for the server's connection, and for the waits of synchronous calls."""
        with self._lock:
            if self._loop_thread is None:
                self._loop_thread = LoopThread("interlock adapter")
            return self._loop_thread

    def close(self) -> None:
        """Close the connection to the server; sessions stay open there, and can be resumed."""
        with self._lock:
            thread, self._loop_thread = self._loop_thread, None
        if thread is not None:
            if self._client is not None:
                thread.wait(self._client.close())
            thread.close()


class LocalBackend:
    """A gate in this process. Its state and its waiting calls end with the process."""

    def __init__(self, manager: GateManager, context: GateContext) -> None:
        self.manager = manager
        self._context = context
        self._inputs: dict[str, Input] = {}
        self._waiting: dict[str, asyncio.Task[GateDecision]] = {}

    def ask_at_once(self, call_id: str, tool: str, tool_input: Input) -> Answer | None:
        """Return the answer to a call that every net allows without approval.

        `None` for any other call.
        """
        if call_id in self._waiting:
            return None
        call = ToolCall(call_id, tool, tool_input)
        decision = self.manager.pass_at_once(call)
        return None if decision is None else self._answer(call, decision)

    async def ask(self, call_id: str, tool: str, tool_input: Input, wait: float | None) -> Answer:
        """Decide a call; its approval request stays open when `wait` seconds have passed."""
        call = ToolCall(call_id, tool, tool_input)
        asked = self._waiting.get(call_id)
        if asked is None:
            deciding = self.manager.handle_tool_call(call, self._context)
            asked = self._waiting[call_id] = asyncio.ensure_future(deciding)
        try:
            done, _ = await asyncio.wait({asked}, timeout=wait)
        except asyncio.CancelledError:
            # Nobody may ask again, so the request is withdrawn.
            self._waiting.pop(call_id, None)
            asked.cancel()
            raise
        if not done:
            return Wait(_WAITING)
        self._waiting.pop(call_id, None)
        if asked.cancelled():
            # Its event loop has ended in the meantime.
            return await self.ask(call_id, tool, tool_input, wait)
        return self._answer(call, asked.result())

    def _answer(self, call: ToolCall, decision: GateDecision) -> Answer:
        if decision.block:
            reason = decision.reason or f"{call.tool_name} is not allowed"
            unasked = {requires_approval(each) for each in (call.tool_name, *decision.names)}
            if self._context.confirm is None and reason in unasked:
                log.warning("Call '%s' needs approval: %s", call.tool_call_id, NOBODY_ASKED)
                reason = f"{reason} Nobody can be asked here."
            return Block(reason)
        approved = cast("Input", decision.call.input)
        self._inputs[call.tool_call_id] = approved
        return Allow(dict(approved), _notice(cast("Input", call.input), approved))

    async def done(self, call_id: str, tool: str, output: str, outcome: Outcome) -> None:
        """Report the result to the nets; an unknown outcome unlocks nothing, like a failure."""
        failed = outcome != "done"
        self.manager.handle_tool_result(
            ToolResult(call_id, tool, self._inputs.pop(call_id, {}), is_error=failed)
        )
        if not failed and self.manager.listens_to(tool):
            self.manager.hear(tool, output)

    async def check(self) -> None:
        """Do nothing: a gate in this process is always available."""


class ServerBackend:
    """A session at a server, opened with the first call, or resumed if one of its name exists."""

    def __init__(
        self, client: AgentClient, thread: Callable[[], LoopThread], agent: str, session_id: str
    ) -> None:
        self._client = client
        self._thread = thread
        self._agent = agent
        self._id = session_id
        self._opening = asyncio.Lock()
        self._session: AgentSession | None = None
        self._renamed: dict[str, str] = {}

    def ask_at_once(self, call_id: str, tool: str, tool_input: Input) -> Answer | None:
        """Return `None`: a server has to be awaited."""

    async def ask(self, call_id: str, tool: str, tool_input: Input, wait: float | None) -> Answer:
        """Ask the server. Raises `GatewayError`, also if it cannot be reached."""
        return await self._thread().result(self._ask(call_id, tool, tool_input, wait))

    async def done(self, call_id: str, tool: str, output: str, outcome: Outcome) -> None:
        """Report to the server. Raises `GatewayError`."""
        await self._thread().result(self._done(call_id, output, outcome))

    async def check(self) -> None:
        """Open the session. Raises `GatewayError`."""
        await self._thread().result(self._opened())

    async def _ask(self, call_id: str, tool: str, tool_input: Input, wait: float | None) -> Answer:
        session = await self._opened()
        wait = None if wait is None else max(wait, LEAST_WAIT)
        try:
            answer = await session.call(tool, tool_input, call_id=call_id, wait=wait)
        except RequestFailedError as error:
            if error.code != Code.CALL_ID_USED:
                raise
            # The model has used this id for another call before.
            renamed = f"{call_id[:150]}.{call_digest(tool, tool_input)[:12]}"
            answer = await session.call(tool, tool_input, call_id=renamed, wait=wait)
            self._renamed[call_id] = renamed
        match answer.outcome:
            case "allow":
                return Allow(answer.input, _notice(tool_input, answer.input) if answer.edited else None)
            case "block":
                return Block(answer.reason or f"{tool} is not allowed")
            case "waiting":
                return Wait(answer.reason or _WAITING)

    async def _done(self, call_id: str, output: str, outcome: Outcome) -> None:
        session = await self._opened()
        known = self._renamed.pop(call_id, call_id)
        await session.result(known, output, is_error=outcome != "done", unknown=outcome == "unknown")

    async def _opened(self) -> AgentSession:
        async with self._opening:
            if self._session is None or self._session.ended is not None:
                self._session = await self._open()
            return self._session

    async def _open(self) -> AgentSession:
        try:
            return await self._client.open(self._agent, session=self._id)
        except RequestFailedError as error:
            if error.code != Code.REFUSED:
                raise
            return await self._client.resume(self._id)


def _notice(tool_input: Input, approved: Input) -> str | None:
    """Return a sentence for the model about an operator's edit; `None` if both are the same JSON."""
    if approved is tool_input:
        return None
    edit = describe_edit(tool_input, approved)
    return None if edit is None else f"{edit} before it ran."


def _local_gate(source: GateSource, confirm: Confirm | None) -> Gate | None:
    """Return the gate in this process that a source specifies; `None` for a server."""
    match source:
        case Gate():
            if confirm is not None:
                raise TypeError("confirm is given to the Gate itself: create_gate(…, confirm=…)")
            return source
        case RuleSet():
            return create_gate(source.registry, conditions=condition_of, confirm=confirm)
        case Path():
            return _local_gate(load_rules(source), confirm)
        case str() if not _URL.match(source):
            return _local_gate(load_rules(source), confirm)
        case str() | None:
            return None
        case _:
            raise TypeError(
                f"A gate is a rules file, rules, a Gate or GateManager, or a server's URL, not {source!r}"
            )


def _session_id(agent: str, key: str) -> str:
    """Return the id of a thread's session at a server.

    Characters that ids cannot have are replaced, and a digest is added.
    """
    name = f"{agent}:{key}"
    plain = re.sub(r"[^A-Za-z0-9._:-]+", "-", name)
    if plain == name and len(name) <= 200:
        return name
    return f"{plain[:180]}.{hashlib.sha256(name.encode()).hexdigest()[:16]}"
