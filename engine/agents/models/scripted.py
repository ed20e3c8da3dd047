"""Model with scripted replies, for tests, demos and dry runs.

`ScriptedModel([T("Hel", "lo"), C(bash={"command": "echo hi"}), ERR("boom")])` gives one reply per call. A
function in place of the list chooses the reply from the conversation.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from pydantic import JsonValue

from ..errors import ModelError
from ..events import FinishReason, Usage
from ..messages import Message, ProposedCall
from .base import (
    CallChunk,
    Chunk,
    Finish,
    InputChunk,
    ModelRequest,
    ReasoningChunk,
    TextChunk,
    parse_call,
)

SCRIPTED_USAGE = Usage(input=10, output=5)

Args: TypeAlias = Mapping[str, JsonValue] | str


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    """A call in a script. A missing id is generated; a string as `args` is sent as raw arguments."""

    name: str
    args: Args
    call_id: str | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply: reasoning, text in deltas, calls, and possibly an error. `+` joins two."""

    deltas: tuple[str, ...] = ()
    calls: tuple[ScriptedCall, ...] = ()
    error: Exception | None = None
    finish: FinishReason | None = None
    usage: Usage = SCRIPTED_USAGE
    reasoning: tuple[str, ...] = ()

    def __add__(self, other: Reply) -> Reply:
        return replace(
            self,
            reasoning=self.reasoning + other.reasoning,
            deltas=self.deltas + other.deltas,
            calls=self.calls + other.calls,
            error=self.error or other.error,
            finish=self.finish or other.finish,
        )


Policy: TypeAlias = Callable[[Sequence[Message]], Reply]


def T(*deltas: str) -> Reply:  # noqa: N802 - the notation of the scripts
    """Text, in these deltas."""
    return Reply(deltas=deltas)


def C(**calls: Args | tuple[str, Args]) -> Reply:  # noqa: N802 - the notation of the scripts
    """Tool calls: `C(bash={…})` by tool name, `C(c1=("bash", {…}))` by call id, freely mixed."""
    return Reply(
        calls=tuple(
            ScriptedCall(value[0], value[1], key)
            if isinstance(value, tuple)
            else ScriptedCall(key, value)
            for key, value in calls.items()
        )
    )


def ERR(error: str | Exception) -> Reply:  # noqa: N802 - the notation of the scripts
    """A failure: of the call itself, or after the text that it is joined to."""
    return Reply(error=RuntimeError(error) if isinstance(error, str) else error)


class ScriptedModel:
    """A model without a provider. `requests` are the calls it received, oldest first.

    `delay` is in seconds before each delta. With `input_delta`, calls' arguments stream as well, that
    many characters at a time. Raises `ModelError` when the script is exhausted.
    """

    def __init__(
        self,
        script: Sequence[Reply] | Policy,
        *,
        name: str = "scripted",
        delay: float = 0.0,
        input_delta: int = 0,
    ) -> None:
        self._name = name
        self._policy: Policy | None = script if callable(script) else None
        self._replies = [] if callable(script) else list(script)
        self._delay = delay
        self._input_delta = input_delta
        self._calls = 0
        self.requests: list[ModelRequest] = []

    @property
    def name(self) -> str:
        return self._name

    def check_price(self) -> None:
        """Do nothing: the price is known, because a reply costs what its `usage` says."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Stream the next reply, chunk by chunk."""
        self.requests.append(request)
        reply = self._next(request)
        for thought in reply.reasoning:
            await asyncio.sleep(self._delay)
            yield ReasoningChunk(thought)
        for delta in reply.deltas:
            await asyncio.sleep(self._delay)
            yield TextChunk(delta)
        for index, call in enumerate(reply.calls):
            for fragment in self._input_fragments(call):
                await asyncio.sleep(self._delay)
                yield InputChunk(index, call.name, fragment)
        for call in reply.calls:
            yield CallChunk(self._call(call))
        if reply.error is not None:
            raise reply.error
        yield Finish(reply.finish or ("tool-calls" if reply.calls else "stop"), reply.usage)

    def _next(self, request: ModelRequest) -> Reply:
        if self._policy is not None:
            return self._policy(request.messages)
        if not self._replies:
            raise ModelError("The script has no reply left")
        return self._replies.pop(0)

    def _input_fragments(self, call: ScriptedCall) -> Iterator[str]:
        """Arguments in streamed pieces, an empty piece first; nothing if they do not stream."""
        if self._input_delta:
            yield ""
            text = call.args if isinstance(call.args, str) else json.dumps(dict(call.args))
            for at in range(0, len(text), self._input_delta):
                yield text[at : at + self._input_delta]

    def _call(self, call: ScriptedCall) -> ProposedCall:
        self._calls += 1
        call_id = call.call_id or f"call-{self._calls}"
        if isinstance(call.args, str):
            return parse_call(call_id, call.name, call.args)
        return ProposedCall(call_id=call_id, name=call.name, args=dict(call.args))
