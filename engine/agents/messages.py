"""The conversation of users, model and tools. Immutable, so that a record cannot change later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue


def clean_text(value: object) -> object:
    """Replace lone surrogates, which UTF-8 cannot encode, by `?`. Non-strings stay unchanged."""
    if not isinstance(value, str):
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode(errors="replace").decode()
    return value


UNKNOWN_OUTCOME = "Outcome unknown: the session ended before a result was recorded"
"""Text of the result of a call that may have run, and whose session ended."""

Text: TypeAlias = Annotated[str, BeforeValidator(clean_text)]


class Frozen(BaseModel):
    """Base of messages and events."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ProposedCall(Frozen):
    """A tool call as the model wrote it.

    `malformed` is the arguments' text if it is not a JSON object; `args` is then empty and the call never
    runs.
    """

    call_id: Text
    name: Text
    args: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    malformed: Text | None = None


class RulesChange(Frozen):
    """Sentences about a gate's rules that apply from now on, and those that no longer apply (G-73)."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


class UserMessage(Frozen):
    """Message of a user; `by` is their name."""

    role: Literal["user"] = "user"
    text: Text
    by: str | None = None


class AssistantMessage(Frozen):
    """Reply of the model, with the calls it proposes.

    `rules` is the change of the rules that the model was shown right before this reply.
    """

    role: Literal["assistant"] = "assistant"
    text: Text = ""
    tool_calls: tuple[ProposedCall, ...] = ()
    rules: RulesChange | None = None


class ToolMessage(Frozen):
    """Result of one call.

    `ran` is for the record, not for the model: the arguments that ran, if they differ from those the
    model wrote and the store has no record of the decision that allowed them (A-45).
    """

    role: Literal["tool"] = "tool"
    call_id: str
    name: str
    text: Text
    is_error: bool = False
    ran: dict[str, JsonValue] | None = None


class SummaryMessage(Frozen):
    """Summary that replaces, for the model, everything before it except the last `kept` messages.

    `kept` does not count summaries, so these messages may reach back beyond an earlier summary. `by` is
    the person who requested the summary. See `prompt_of` for what is sent to the model.
    """

    role: Literal["summary"] = "summary"
    text: Text
    kept: int = Field(default=0, ge=0)
    by: str | None = None


Message = Annotated[
    UserMessage | AssistantMessage | ToolMessage | SummaryMessage, Field(discriminator="role")
]


def open_calls(messages: Sequence[Message]) -> list[ProposedCall]:
    """Calls of the last assistant message without a tool message; a model refuses such a history."""
    answered_ids: set[str] = set()
    for message in reversed(messages):
        match message:
            case ToolMessage():
                answered_ids.add(message.call_id)
            case AssistantMessage():
                return [call for call in message.tool_calls if call.call_id not in answered_ids]
            case UserMessage() | SummaryMessage():
                continue
    return []


def completion_reason(messages: Sequence[Message]) -> str | None:
    """Reason why a conversation needs no further reply of the model; `None` if it needs one."""
    last = next((m for m in reversed(messages) if not isinstance(m, SummaryMessage)), None)
    if last is None:
        return "nobody has said anything"
    if isinstance(last, AssistantMessage) and not last.tool_calls:
        return "the model had the last word"
    return None


def with_own_ids(calls: Sequence[ProposedCall], history: Sequence[Message]) -> tuple[ProposedCall, ...]:
    """Return the calls with ids unused in this conversation; some servers repeat ids in each reply."""
    used_ids = {
        call.call_id
        for message in history
        if isinstance(message, AssistantMessage)
        for call in message.tool_calls
    }
    calls_with_ids: list[ProposedCall] = []
    for call in calls:
        base = call.call_id or "call"
        call_id, number = base, 1
        while call_id in used_ids:
            number += 1
            call_id = f"{base}-{number}"
        used_ids.add(call_id)
        calls_with_ids.append(
            call if call_id == call.call_id else call.model_copy(update={"call_id": call_id})
        )
    return tuple(calls_with_ids)
