"""The gate's interface for adapters: request a decision on a call, report its outcome.

An adapter calls `SessionGate.ask` and runs the tool only on `Allow`, with the input in it. The gate
itself is in this process or at a server: see `backends`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import threading
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, cast

from pydantic import JsonValue
from pydantic_core import to_jsonable_python

from ..engine.gate.wrapping.failures import is_error_value, returned_failure
from ..engine.gateway.client.agent_tools import FunctionOutcome
from ..engine.gateway.client.agent_tools import text as tool_text
from ..engine.gateway.client.sync import LoopThread
from ..engine.gateway.protocol.probe import PROBE, PROBED

log = logging.getLogger(__name__)

Outcome: TypeAlias = Literal["done", "failed", "unknown"]
"""Outcome of a call that ran. *failed* needs evidence: an exception, or a value describing a failure."""

Input: TypeAlias = Mapping[str, JsonValue]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Allow:
    """The call may run, with exactly `input`. `notice` informs the model of an operator's edit."""

    input: dict[str, JsonValue]
    notice: str | None = None

    @property
    def edited(self) -> bool:
        return self.notice is not None

    def tell(self, text: str) -> str:
        """Return a tool's text for the model, followed by the notice if there is one."""
        return text if self.notice is None else f"{text}\n\n{self.notice}"


@dataclass(frozen=True, slots=True)
class Block:
    """The call must not run; `reason` is for the model."""

    reason: str

    def tell(self, tool: str) -> str:
        """Return the result of a call of `tool` that did not run."""
        return f"Tool '{tool}' blocked: {self.reason}"


@dataclass(frozen=True, slots=True)
class Wait:
    """No operator has decided yet: ask about the same call again, under the same id."""

    reason: str


Answer: TypeAlias = Allow | Block | Wait


CUT_OFF = "Outcome unknown: the call was cancelled while its tool ran"

PROBE_BLOCK = Block(PROBED)
RUNS_ALREADY = Block("a call with its id was allowed once, and has already run or is still running")


class Backend(Protocol):
    """Decides one session's calls. If a method raises, the call does not run."""

    async def ask(self, call_id: str, tool: str, tool_input: Input, wait: float | None) -> Answer:
        """See `SessionGate.ask`."""
        ...

    async def done(self, call_id: str, tool: str, output: str, outcome: Outcome) -> None:
        """See `SessionGate.done`."""
        ...

    async def check(self) -> None:
        """Raise unless calls can be decided now."""
        ...

    def ask_at_once(self, call_id: str, tool: str, tool_input: Input) -> Answer | None:
        """Return the answer if there is nothing to wait for; otherwise `None`, without any effect."""
        ...


@dataclass(slots=True)
class _Call:
    """A call for which a decision was requested, and its answer once that is final."""

    tool: str
    digest: str
    answer: Allow | Block | None = None
    runs: bool = False

    @property
    def is_open(self) -> bool:
        """True if the call was allowed, and its outcome has not been reported."""
        return isinstance(self.answer, Allow)


class SessionGate:
    """Gate of one session: a thread or a run of the framework, named `key`.

    The same call under the same id gets the same answer until `done`; then the id is free for another
    call. Methods do not raise internal errors: these block the call, or are logged.
    """

    def __init__(self, key: str, backend: Backend, thread: Callable[[], LoopThread]) -> None:
        self.key = key
        self._backend = backend
        self._thread = thread
        self._calls: dict[str, _Call] = {}
        self._lock = threading.Lock()

    # For frameworks with an event loop

    async def ask(
        self, call_id: str, tool: str, tool_input: Mapping[str, object], *, wait: float | None = None
    ) -> Answer:
        """Decide a call. With `wait`, return `Wait` after that many seconds at the latest.

        Without `wait`, this waits until an operator has decided; cancelling it withdraws the call.
        """
        try:
            call, value = self._entry(call_id, tool, tool_input)
            if call.answer is not None:
                return call.answer
            if tool == PROBE:
                await self._backend.check()
                return PROBE_BLOCK
            answer = self._backend.ask_at_once(call_id, tool, value)
            if answer is None:
                answer = await self._backend.ask(call_id, tool, value, wait)
            return _keep(call, answer)
        except Exception as error:  # whatever the error, the call does not run
            return _failure(call_id, tool, error)

    async def done(self, call_id: str, output: object, outcome: Outcome = "done") -> None:
        """Report the outcome of an allowed call. A call that was not allowed has no result."""
        call = self._settle(call_id)
        if call is None:
            return
        try:
            report = self._backend.done(call_id, call.tool, tool_text(output), outcome)
            # Shielded: a cancelled run still reports its running call.
            await asyncio.shield(asyncio.ensure_future(report))
        except Exception:
            # The tool has run. The nets miss its result, and block calls that require it.
            log.exception("The result of call '%s' to '%s' was not reported", call_id, call.tool)

    @asynccontextmanager
    async def reporting_errors(
        self, call_id: str, *, passing: tuple[type[BaseException], ...] = ()
    ) -> AsyncGenerator[None]:
        """Report the outcome of an allowed call whose tool raises: failed, or unknown if it is cut off.

        Exceptions that are not an `Exception` cut it off: cancellation, the program's end, a consumer of
        its parts that went away. Exceptions in `passing` do not end the call. All are re-raised.
        """
        try:
            yield
        except passing:
            raise
        except Exception as error:
            await self.done(call_id, failure_text(error), "failed")
            raise
        except BaseException:
            await self.done(call_id, CUT_OFF, "unknown")
            raise

    # For frameworks without one

    def ask_now(
        self, call_id: str, tool: str, tool_input: Mapping[str, object], *, wait: float | None = None
    ) -> Answer:
        """Decide a call like `ask`, from a thread without an event loop."""
        try:
            call, value = self._entry(call_id, tool, tool_input)
            if call.answer is not None:
                return call.answer
            if tool != PROBE and (found := self._backend.ask_at_once(call_id, tool, value)):
                return _keep(call, found)
            return self._thread().wait(self.ask(call_id, tool, tool_input, wait=wait))
        except Exception as error:  # as in `ask`
            return _failure(call_id, tool, error)

    def done_now(self, call_id: str, output: object, outcome: Outcome = "done") -> None:
        """Report an outcome like `done`, from a thread without an event loop."""
        try:
            self._thread().wait(self.done(call_id, output, outcome))
        except Exception:
            log.exception("The result of call '%s' was not reported", call_id)

    # Running calls

    def start(self, call_id: str) -> Block | None:
        """Record that an allowed call runs; return a `Block` if one with this id and input already runs.

        Such a call got the answer of the first one, which is valid for one run.
        """
        with self._lock:
            call = self._calls.get(call_id)
            if call is None or not call.is_open or call.runs:
                return RUNS_ALREADY
            call.runs = True
            return None

    def put_off(self, call_id: str) -> None:
        """Record that a call has stopped before its end; it will be asked about and started again."""
        with self._lock:
            if (call := self._calls.get(call_id)) is not None:
                call.runs = False

    # Calls by the framework's ids

    def _entry(
        self, call_id: str, tool: str, tool_input: Mapping[str, object]
    ) -> tuple[_Call, dict[str, JsonValue]]:
        """Return the call under this id, and its input as JSON.

        Some models number their calls from 1 in every answer, so another call may have an id used before.
        Raises `ValueError` if the first call is still running.
        """
        if not call_id:
            raise ValueError("the call has no id under which the request could be repeated")
        value = cast("dict[str, JsonValue]", to_jsonable_python(dict(tool_input), inf_nan_mode="strings"))
        digest = call_digest(tool, value)
        with self._lock:
            call = self._calls.get(call_id)
            if call is None or (call.digest != digest and not call.is_open):
                call = self._calls[call_id] = _Call(tool, digest)
            elif call.digest != digest:
                raise ValueError(
                    f"another call to {call.tool} has its id '{call_id}' and is still running"
                )
        return call, value

    def _settle(self, call_id: str) -> _Call | None:
        with self._lock:
            call = self._calls.get(call_id)
            if call is None or not call.is_open:
                return None
            del self._calls[call_id]
            return call


def gate_by_class(
    tool: T, what: str, method: str, gated: Callable[[type[T]], Callable[..., object]]
) -> None:
    """Put a tool behind a gate through its class, for frameworks that copy tools.

    Such frameworks run all tools by one `method`. The tool's class becomes a subclass whose `method` is
    the one that `gated` returns; a tool that has such a class stays unchanged. Raises `TypeError`, which
    includes `what` the tool is, if the method is an attribute of the object itself.
    """
    if method in vars(tool):
        raise TypeError(
            f"{what} has its {method} as an attribute of the object, expected a method of its class: "
            f"no gate would see it. Define it in a class"
        )
    if not hasattr(type(tool), "_interlock"):
        tool.__class__ = _gated_class(type(tool), method, gated)


@cache
def _gated_class(
    base: type[T], method: str, gated: Callable[[type[T]], Callable[..., object]]
) -> type[T]:
    members = {method: gated(base), "_interlock": True, "__module__": base.__module__}
    return cast("type[T]", type(base.__name__, (base,), members))


def snapshot(tool_input: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with copies of all dicts and lists, which nobody else can change."""
    return {name: _copied(value) for name, value in tool_input.items()}


def outcome_of(tool: str, value: object) -> Outcome:
    """Return the outcome of a call whose tool returned `value`: *failed* for common failures (G-71)."""
    return "failed" if is_error_value(returned_failure, tool, value) else "done"


def failure_text(error: BaseException) -> str:
    """Return a tool's exception as the text of its recorded result."""
    return FunctionOutcome.raised(error).text


def call_digest(tool: str, value: Input) -> str:
    """Return the digest of a call; equal digests mean equal tool and input."""
    return hashlib.sha256(json.dumps([tool, value], sort_keys=True).encode()).hexdigest()


def _copied(value: Any) -> Any:
    match value:
        case dict():
            return snapshot(cast("dict[str, Any]", value))
        case list():
            return [_copied(each) for each in cast("list[Any]", value)]
        case _:
            return value


def _keep(call: _Call, answer: Answer) -> Answer:
    if not isinstance(answer, Wait):
        call.answer = answer
    return answer


def _failure(call_id: str, tool: str, error: Exception) -> Block:
    log.error("Call '%s' to '%s' was not decided: %s", call_id, tool, error)
    return Block(f"{tool} was not run, because the gate did not answer: {error}")
