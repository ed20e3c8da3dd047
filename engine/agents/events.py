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
    tool_progress                               what running tools print
    tool_result                                 all results, in call order
    turn_end or error                           the latter also after a turn_end whose listener raised
    status idle                                 unless another run follows at once

Compacting has no turn: `status`, `compaction_start`, `step_start`, `step` once the model has replied,
`compacted` if there is a summary, `status`. Where it was not asked for, `compaction_failed` if there is
none and it was not stopped.

The reference has `text_delta`, `message`, `tool_call`, `tool_result`, `step`, `turn_end` and `error`; the
others only add to these, and nothing of them is stored.
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
    """Tokens in and out; what a provider does not count is 0 (A-27).

    `cached` tokens are among those in `input`. `cost` is in US dollars, 0 when the price is unknown.
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
    """A session begins to work or comes to rest.

    `undelivered` are messages that no run will take up any more, because the session was closed while its
    last turn's end was being reported, or because compacting was aborted while they waited.
    """

    type: Literal["status"] = "status"
    status: Status
    undelivered: tuple[str, ...] = ()


class TurnStart(Frozen):
    """A run begins; `turn_end` or `error` ends it."""

    type: Literal["turn_start"] = "turn_start"


class StepStart(Frozen):
    """A model call begins; `number` counts those of the run, from 1."""

    type: Literal["step_start"] = "step_start"
    number: int


class ReasoningDelta(Frozen):
    """A fragment of what the model thinks before it answers. Passed on, never stored or sent back."""

    type: Literal["reasoning_delta"] = "reasoning_delta"
    delta: Text


class TextDelta(Frozen):
    """A fragment of the model's text, as it streams."""

    type: Literal["text_delta"] = "text_delta"
    delta: Text


class ToolInputDelta(Frozen):
    """A fragment of the arguments of a call that the model is writing. Passed on, never stored.

    `index` is the call's number in the reply, from 0; it has no id yet and was not decided. Fragments
    make no JSON before the last, and may hold half a secret.
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

    `args` is what would run. `batch` is every call of this step, `index` this one's place in it (A-51).
    `session_id` is the session that makes it: hooks are asked about their agent's subagents' calls too.
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
    """Something a running tool has printed so far."""

    type: Literal["tool_progress"] = "tool_progress"
    call_id: str
    text: Text


class ToolResultEvent(Frozen):
    """Result of a call, already stored. `metadata` is the tool's own, such as an exit code.

    `ran` is as for a `ToolMessage`.
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

    `messages` are this run's, tool messages included (A-24); `text` is the last reply's (A-25).
    `undelivered` are messages that an abort kept from the model; `reason` is what the abort said. No
    message is lost (A-63): it is stored, waits for the next run, or is handed back in such a field.
    """

    type: Literal["turn_end"] = "turn_end"
    messages: tuple[Message, ...]
    text: str
    stop_reason: StopReason = "completed"
    reason: str = ""
    undelivered: tuple[str, ...] = ()


class ErrorEvent(Frozen):
    """A run failed with `error`, the original exception.

    `partial_text` is the text of a reply that never ended, which is not stored (A-92); `undelivered` are
    messages that were waiting (A-84); after a `turn_end` whose listener raised, the ones it carried as
    well.
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
    """The model begins to sum up what was said."""

    type: Literal["compaction_start"] = "compaction_start"


class CompactionFailed(Frozen):
    """An automatic compaction failed; the conversation is unchanged, and the session continues."""

    type: Literal["compaction_failed"] = "compaction_failed"
    reason: str


class CompactedEvent(Frozen):
    """The conversation was summed up; the summary is already stored (A-11)."""

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
