"""Events of a session while it runs: one frozen model per kind, distinguished by `type`.

A run's events come in this order (A-20 … A-26, A-50):

    status busy                                 unless the run follows another at once
    turn_start
    message                                     the user's
    step_start                                  then for each model call:
    reasoning_delta, text_delta                 as they stream
    tool_input_delta                            the arguments of its calls, likewise
    message                                     the assistant's
    step
    tool_call                                   all calls of the step
    tool_progress                               output of running tools
    tool_result                                 all results, in call order
    turn_end or error                           the latter also after a turn_end whose listener raised
    status idle                                 unless another run follows at once

Compaction has no turn. Its events are `status`, `compaction_start`, `step_start`, `step` after the
model's reply, `compacted` if there is a summary, and `status`. An automatic compaction that fails without
being stopped ends with `compaction_failed` instead.

The reference has `text_delta`, `message`, `tool_call`, `tool_result`, `step`, `turn_end` and `error`; the
other kinds only add to these, and are not stored.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import ConfigDict, Field, JsonValue, field_serializer

from .messages import Frozen, Message, ProposedCall, SummaryMessage, Text, ToolMessage

FinishReason: TypeAlias = Literal["stop", "tool-calls", "length", "content-filter", "error", "other"]
StopReason: TypeAlias = Literal["completed", "max_steps", "aborted"]
Status: TypeAlias = Literal["idle", "busy"]
EventName: TypeAlias = Literal[
    "status",
    "turn_start",
    "step_start",
    "reasoning_delta",
    "text_delta",
    "tool_input_delta",
    "message",
    "tool_call",
    "tool_progress",
    "tool_result",
    "step",
    "turn_end",
    "error",
    "compaction_start",
    "compacted",
    "compaction_failed",
]


class Usage(Frozen):
    """Input and output tokens; a count that the provider does not report is 0 (A-27).

    `cached` tokens are part of `input`. `cost` is in US dollars, 0 if the price is unknown.
    """

    input: int = 0
    output: int = 0
    cached: int = 0
    cost: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input=self.input + other.input,
            output=self.output + other.output,
            cached=self.cached + other.cached,
            cost=self.cost + other.cost,
        )


class StatusEvent(Frozen):
    """A session becomes busy or idle.

    `undelivered` are messages that no run will handle: the session was closed while its last turn's end
    was being reported, or compaction was aborted while they waited.
    """

    type: Literal["status"] = "status"
    status: Status
    undelivered: tuple[str, ...] = ()


class TurnStart(Frozen):
    """A run starts; `turn_end` or `error` ends it."""

    type: Literal["turn_start"] = "turn_start"


class StepStart(Frozen):
    """A model call starts; `number` counts those of the run, from 1."""

    type: Literal["step_start"] = "step_start"
    number: int


class ReasoningDelta(Frozen):
    """A fragment of the model's reasoning before its answer. Passed on, but never stored or sent back."""

    type: Literal["reasoning_delta"] = "reasoning_delta"
    delta: Text


class TextDelta(Frozen):
    """A fragment of the model's text, as it streams."""

    type: Literal["text_delta"] = "text_delta"
    delta: Text


class ToolInputDelta(Frozen):
    """A fragment of the arguments of a call that the model is writing. Passed on, but never stored.

    `index` is the call's number in the reply, from 0; the call has no id and no decision at this point.
    The fragments are valid JSON only when complete, and one may contain a part of a secret.
    """

    type: Literal["tool_input_delta"] = "tool_input_delta"
    index: int
    name: Text
    delta: Text


class MessageEvent(Frozen):
    """A user's or the assistant's message, already stored (A-11, A-24)."""

    type: Literal["message"] = "message"
    message: Message


class ToolCallEvent(Frozen):
    """A call that is about to be decided; listeners may deny or override it (A-40).

    `args` are the arguments that would run. `batch` contains every call of this step, `index` is this
    call's place in it (A-51). `session_id` is the session that makes the call: hooks also get the calls
    of their agent's subagents.
    """

    type: Literal["tool_call"] = "tool_call"
    call_id: str
    name: str
    args: dict[str, JsonValue]
    batch: tuple[ProposedCall, ...] = ()
    index: int = 0
    needs_approval: bool = False
    session_id: str = ""


class ToolProgress(Frozen):
    """Output of a running tool so far."""

    type: Literal["tool_progress"] = "tool_progress"
    call_id: str
    text: Text


class ToolResultEvent(Frozen):
    """Result of a call, already stored. `metadata` is the tool's own, such as an exit code.

    `ran` has the meaning that it has in `ToolMessage`.
    """

    type: Literal["tool_result"] = "tool_result"
    call_id: str
    name: str
    result: Text
    is_error: bool
    metadata: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    ran: dict[str, JsonValue] | None = None

    @property
    def message(self) -> ToolMessage:
        """The result as it is in the conversation."""
        return ToolMessage(
            call_id=self.call_id,
            name=self.name,
            text=self.result,
            is_error=self.is_error,
            ran=self.ran,
        )


class StepEvent(Frozen):
    """One model call ended."""

    type: Literal["step"] = "step"
    usage: Usage
    finish_reason: FinishReason


class TurnEnd(Frozen):
    """A run ended without an error.

    `messages` are those of this run, including tool messages (A-24); `text` is the last reply's (A-25).
    `undelivered` are messages that an abort kept from the model; `reason` is the abort's reason. No
    message is lost (A-63): it is stored, waits for the next run, or is returned in such a field.
    """

    type: Literal["turn_end"] = "turn_end"
    messages: tuple[Message, ...]
    text: str
    stop_reason: StopReason = "completed"
    reason: str = ""
    undelivered: tuple[str, ...] = ()


class ErrorEvent(Frozen):
    """A run failed with `error`, the original exception.

    `partial_text` is the text of an incomplete reply, which is not stored (A-92). `undelivered` are
    messages that were waiting (A-84), and those of a preceding `turn_end` whose listener raised.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    type: Literal["error"] = "error"
    error: BaseException
    partial_text: str = ""
    undelivered: tuple[str, ...] = ()

    @field_serializer("error")
    def _error_text(self, error: BaseException) -> str:
        return f"{type(error).__name__}: {error}"


class CompactionStart(Frozen):
    """The model starts to summarize the conversation."""

    type: Literal["compaction_start"] = "compaction_start"


class CompactionFailed(Frozen):
    """An automatic compaction failed; the conversation is unchanged, and the session continues."""

    type: Literal["compaction_failed"] = "compaction_failed"
    reason: str


class CompactedEvent(Frozen):
    """The conversation was summarized; the summary is already stored (A-11)."""

    type: Literal["compacted"] = "compacted"
    message: SummaryMessage


Event = Annotated[
    StatusEvent
    | TurnStart
    | StepStart
    | ReasoningDelta
    | TextDelta
    | ToolInputDelta
    | MessageEvent
    | ToolCallEvent
    | ToolProgress
    | ToolResultEvent
    | StepEvent
    | TurnEnd
    | ErrorEvent
    | CompactionStart
    | CompactionFailed
    | CompactedEvent,
    Field(discriminator="type"),
]

LoopEvent: TypeAlias = (
    ReasoningDelta
    | TextDelta
    | ToolInputDelta
    | MessageEvent
    | StepEvent
    | ToolCallEvent
    | ToolProgress
    | ToolResultEvent
)
