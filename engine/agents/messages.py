"""The conversation: what people, the model and tools said. Immutable, so a record cannot change later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue


def clean_text(value: object) -> object:
    """Text that UTF-8 can hold: lone surrogates become `?`. Anything but a string is left alone."""
    if not isinstance(value, str):
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode(errors="replace").decode()
    return value


UNKNOWN_OUTCOME = "Outcome unknown: the session ended before a result was recorded"
"""Text of the result of a call that may have run and whose session ended."""

Text: TypeAlias = Annotated[str, BeforeValidator(clean_text)]


class Frozen(BaseModel):
    """Base of messages and events."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ProposedCall(Frozen):
    """A tool call as the model wrote it.

    `malformed` holds the arguments' text when it is no JSON object; `args` is then empty and the call
    never runs.
    """

    call_id: Text
    name: Text
    args: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    malformed: Text | None = None


class RulesChange(Frozen):
    """Sentences on a gate's rules that count from here on, and those that count no longer (G-73)."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


class UserMessage(Frozen):
    """Message of a person; `by` is their name."""

    role: Literal["user"] = "user"
    text: Text
    by: str | None = None


class AssistantMessage(Frozen):
    """Reply of the model, with the calls it proposes.

    `rules` is the change of the rules that it was told right before it replied.
    """

    role: Literal["assistant"] = "assistant"
    text: Text = ""
    tool_calls: tuple[ProposedCall, ...] = ()
    rules: RulesChange | None = None


class ToolMessage(Frozen):
    """Result of one call.

    `ran` is for the record, not for the model: the arguments that ran, where they are not those it wrote
    and the store has no record of the decision that let them run (A-45).
    """

    role: Literal["tool"] = "tool"
    call_id: str
    name: str
    text: Text
    is_error: bool = False
    ran: dict[str, JsonValue] | None = None


class SummaryMessage(Frozen):
    """Summary that replaces, for the model, everything before it but the last `kept` messages.

    Those are counted without summaries, so they may reach back beyond an earlier one. `by` is who wanted
    it. See `prompt_of` for what the model is sent.
    """

    role: Literal["summary"] = "summary"
    text: Text
    kept: int = Field(default=0, ge=0)
    by: str | None = None


Message = Annotated[
    UserMessage | AssistantMessage | ToolMessage | SummaryMessage, Field(discriminator="role")
]


def open_calls(messages: Sequence[Message]) -> list[ProposedCall]:
    """The last assistant message's calls that no tool message answers; a model refuses such a history."""
    answered: set[str] = set()
    for message in reversed(messages):
        match message:
            case ToolMessage():
                answered.add(message.call_id)
            case AssistantMessage():
                return [call for call in message.tool_calls if call.call_id not in answered]
            case UserMessage() | SummaryMessage():
                continue
    return []


def completion_reason(messages: Sequence[Message]) -> str | None:
    """Reason why a conversation needs no further reply of the model; `None` when it does."""
    last = next((m for m in reversed(messages) if not isinstance(m, SummaryMessage)), None)
    if last is None:
        return "nobody has said anything"
    if isinstance(last, AssistantMessage) and not last.tool_calls:
        return "the model had the last word"
    return None


def with_own_ids(calls: Sequence[ProposedCall], history: Sequence[Message]) -> tuple[ProposedCall, ...]:
    """The calls with ids that this conversation has not seen; some servers repeat ids in each reply."""
    used = {
        call.call_id
        for message in history
        if isinstance(message, AssistantMessage)
        for call in message.tool_calls
    }
    renamed: list[ProposedCall] = []
    for call in calls:
        base = call.call_id or "call"
        call_id, number = base, 1
        while call_id in used:
            number += 1
            call_id = f"{base}-{number}"
        used.add(call_id)
        renamed.append(call if call_id == call.call_id else call.model_copy(update={"call_id": call_id}))
    return tuple(renamed)
