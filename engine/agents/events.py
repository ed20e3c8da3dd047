"""What a session reports while it runs: one frozen model per kind of event, told apart by `type`.

A run's events come in this order: the user's message; then per step text deltas, the assistant's message
and the step's usage, all of its tool calls, the progress of running tools, all of their results; at the
end the turn's end or an error (A-20 … A-26, A-50).
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import ConfigDict, Field, JsonValue, field_serializer

from .messages import Frozen, Message, ProposedCall, Text, ToolMessage

FinishReason: TypeAlias = Literal["stop", "tool-calls", "length", "content-filter", "error", "other"]
StopReason: TypeAlias = Literal["completed", "max_steps", "aborted"]
EventName: TypeAlias = Literal[
    "text_delta",
    "message",
    "tool_call",
    "tool_progress",
    "tool_result",
    "step",
    "turn_end",
    "error",
]


class Usage(Frozen):
    """Tokens in and out; what a provider does not count is 0 (A-27)."""

    input: int = 0
    output: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(input=self.input + other.input, output=self.output + other.output)


class TextDelta(Frozen):
    """A fragment of the model's text, as it streams."""

    type: Literal["text_delta"] = "text_delta"
    delta: Text


class MessageEvent(Frozen):
    """A user's or the assistant's message, already stored (A-11, A-24)."""

    type: Literal["message"] = "message"
    message: Message


class ToolCallEvent(Frozen):
    """A call that is about to be decided; listeners may deny or override it (A-40).

    `args` is what would run. `batch` is every call of this step, `index` this one's place in it (A-51).
    """

    type: Literal["tool_call"] = "tool_call"
    call_id: str
    name: str
    args: dict[str, JsonValue]
    batch: tuple[ProposedCall, ...] = ()
    index: int = 0
    needs_approval: bool = False


class ToolProgress(Frozen):
    """Something a running tool has printed so far."""

    type: Literal["tool_progress"] = "tool_progress"
    call_id: str
    text: Text


class ToolResultEvent(Frozen):
    """How a call ended, already stored. `metadata` is the tool's own, such as an exit code."""

    type: Literal["tool_result"] = "tool_result"
    call_id: str
    name: str
    result: Text
    is_error: bool
    metadata: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])

    @property
    def message(self) -> ToolMessage:
        """The result as it stands in the conversation."""
        return ToolMessage(call_id=self.call_id, name=self.name, text=self.result, is_error=self.is_error)


class StepEvent(Frozen):
    """One model call ended."""

    type: Literal["step"] = "step"
    usage: Usage
    finish_reason: FinishReason


class TurnEnd(Frozen):
    """A run ended without an error.

    `messages` are this run's, tool messages included (A-24); `text` is the last reply's (A-25).
    `undelivered` are messages that an abort kept from the model; `reason` is what the abort said.
    """

    type: Literal["turn_end"] = "turn_end"
    messages: tuple[Message, ...]
    text: str
    stop_reason: StopReason = "completed"
    reason: str = ""
    undelivered: tuple[str, ...] = ()


class ErrorEvent(Frozen):
    """A run failed with `error`, the original exception.

    `partial_text` is what the model had said of a reply that never ended, which is not stored (A-92);
    `undelivered` are messages that were waiting (A-84).
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    type: Literal["error"] = "error"
    error: BaseException
    partial_text: str = ""
    undelivered: tuple[str, ...] = ()

    @field_serializer("error")
    def _error_text(self, error: BaseException) -> str:
        return f"{type(error).__name__}: {error}"


Event = Annotated[
    TextDelta
    | MessageEvent
    | ToolCallEvent
    | ToolProgress
    | ToolResultEvent
    | StepEvent
    | TurnEnd
    | ErrorEvent,
    Field(discriminator="type"),
]

LoopEvent: TypeAlias = (
    TextDelta | MessageEvent | StepEvent | ToolCallEvent | ToolProgress | ToolResultEvent
)
