"""A conversation in the journal: from the loop's messages to its records, and back exactly (A-77)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pydantic import JsonValue

from ..agents import AssistantMessage, Message, ProposedCall, SummaryMessage, ToolMessage, UserMessage
from ..agents.models.base import ModelRequest
from ..agents.models.openai_format import wire_messages
from ..agents.turn.compaction import prompt_of
from ..history.model.events import CallResult, JournalEvent, MessageAdded
from ..history.model.records import CallRecord
from .records import json_input


def message_record(
    message: Message, *, in_result: bool = False, gated: bool = True, message_id: str | None = None
) -> MessageAdded:
    """A message as the journal keeps it.

    With `in_result` a tool message leaves its text to the `call.result` that was recorded before it. One
    of a call that was not `gated` says itself how the call ended, and what it ran with. `message_id` is a
    user's message's that was queued.
    """
    match message:
        case UserMessage():
            return MessageAdded(role="user", text=message.text, by=message.by, message_id=message_id)
        case AssistantMessage():
            calls = tuple(
                CallRecord(
                    call_id=call.call_id,
                    tool=call.name,
                    input=json_input(call.args),
                    malformed=call.malformed,
                )
                for call in message.tool_calls
            )
            return MessageAdded(role="assistant", text=message.text, calls=calls)
        case SummaryMessage():
            return MessageAdded(role="summary", text=message.text, by=message.by, kept=message.kept)
        case ToolMessage():
            return MessageAdded(
                role="tool",
                text=None if in_result else message.text,
                call_id=message.call_id,
                tool=message.name,
                is_error=message.is_error,
                ended=None if gated else "failed" if message.is_error else "done",
                input=None if gated or message.ran is None else json_input(message.ran),
            )


def conversation(events: Iterable[JournalEvent]) -> list[Message]:
    """The messages in a session's events, as the loop said them."""
    messages: list[Message] = []
    outputs: dict[str, str] = {}
    for event in events:
        match event.body:
            case CallResult(call_id=call_id, output=output):
                outputs[call_id] = output
            case MessageAdded() as body:
                messages.append(message_of(body, outputs))
            case _:
                pass
    return messages


def message_of(body: MessageAdded, outputs: Mapping[str, str]) -> Message:
    """A recorded message; a tool's text may be among `outputs`, the results' by call id."""
    match body.role:
        case "user":
            return UserMessage(text=body.text or "", by=body.attribution)
        case "assistant":
            calls = tuple(
                ProposedCall(call_id=c.call_id, name=c.tool, args=c.input, malformed=c.malformed)
                for c in body.calls
            )
            return AssistantMessage(text=body.text or "", tool_calls=calls)
        case "summary":
            return SummaryMessage(text=body.text or "", kept=body.kept or 0, by=body.by)
        case "tool":
            call_id = body.call_id or ""
            text = outputs.get(call_id, "") if body.text is None else body.text
            return ToolMessage(
                call_id=call_id,
                name=body.tool or "",
                text=text,
                is_error=body.is_error,
                ran=body.input,
            )


# A recorded conversation in the shape that OpenAI's chat API has, for other programs.


def message_log(events: Iterable[JournalEvent]) -> list[JsonValue]:
    """The messages in a session's events as its model would be sent them next, without instructions.

    What was compacted is there as its summary; the record itself has every word.
    """
    return wire_messages(ModelRequest(messages=tuple(prompt_of(conversation(events)))))
