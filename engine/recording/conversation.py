"""A conversation in the journal: from the loop's messages to records, and back exactly (A-77)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pydantic import JsonValue

from ..agents import AssistantMessage, Message, ProposedCall, SummaryMessage, ToolMessage, UserMessage
from ..agents.messages import RulesChange
from ..agents.models.base import ModelRequest
from ..agents.models.openai_format import wire_messages
from ..agents.turn.compaction import prompt_of
from ..core.json_values import same_json
from ..gate.wrapping.messages import OUTCOME_FIELD
from ..history.model.events import (
    CallDecided,
    CallResult,
    JournalEvent,
    MessageAdded,
    SessionOpened,
    SessionResumed,
)
from ..history.model.records import CallEnd, CallRecord
from .records import json_input


def message_record(message: Message, *, in_result: bool = False, gated: bool = True) -> MessageAdded:
    """A message in the form that the journal stores.

    With `in_result` a tool message leaves its text to the `call.result` that was recorded before it. The
    message of a call that was not `gated` itself says how the call ended, and with which input it ran.
    """
    match message:
        case UserMessage():
            return MessageAdded(role="user", text=message.text, by=message.by)
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
            rules = message.rules or RulesChange()
            return MessageAdded(
                role="assistant",
                text=message.text,
                calls=calls,
                rules_added=rules.added,
                rules_removed=rules.removed,
            )
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
    """Messages in a session's events, as the loop had them."""
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


def first_rules(events: Iterable[JournalEvent]) -> tuple[str, ...] | None:
    """Sentences on the rules at the end of a recorded session's system prompt (G-73)."""
    found: tuple[str, ...] | None = None
    for event in events:
        if isinstance(event.body, SessionOpened | SessionResumed) and event.body.rules is not None:
            found = event.body.rules
    return found


def message_of(body: MessageAdded, outputs: Mapping[str, str]) -> Message:
    """Message of a record; a tool's text may be in `outputs`, the results by call id."""
    match body.role:
        case "user":
            return UserMessage(text=body.text or "", by=body.attribution)
        case "assistant":
            calls = tuple(
                ProposedCall(call_id=c.call_id, name=c.tool, args=c.input, malformed=c.malformed)
                for c in body.calls
            )
            rules = RulesChange(added=body.rules_added, removed=body.rules_removed)
            changed = bool(rules.added or rules.removed)
            return AssistantMessage(
                text=body.text or "", tool_calls=calls, rules=rules if changed else None
            )
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


# A recorded conversation in the format of OpenAI's chat API, for other programs.


def message_log(events: Iterable[JournalEvent]) -> list[JsonValue]:
    """Messages in a session's events as its model would next receive them, without instructions.

    Compacted messages are replaced by their summary; the record itself has the full text. Each result
    says how its call ended and, if another input ran than the model wrote, which one; `replay_entries`
    reads this (G-62).
    """
    events = list(events)
    log = wire_messages(ModelRequest(messages=tuple(prompt_of(conversation(events)))))
    # Results keep their order, and those that a summary replaced come first.
    ends = _ends(events)
    for message in reversed(log):
        if isinstance(message, dict) and message.get("role") == "tool" and ends:
            message[OUTCOME_FIELD] = ends.pop()
    return log


_REPLAYED: Mapping[CallEnd, str] = {"skipped": "blocked"}


def _ends(events: Iterable[JournalEvent]) -> list[dict[str, JsonValue]]:
    """End of each call that has a tool message, in the order of these messages."""
    ends: list[dict[str, JsonValue]] = []
    written: dict[str, dict[str, JsonValue]] = {}
    decided: dict[str, CallDecided] = {}
    results: dict[str, CallResult] = {}
    for event in events:
        match event.body:
            case MessageAdded(role="assistant", calls=calls):
                for call in calls:
                    written[call.call_id] = call.input
            case CallDecided(via=None) as body:
                decided[body.call_id] = body
                results.pop(body.call_id, None)
            case CallResult() as body if body.call_id in decided and not body.anomaly:
                results[body.call_id] = body
            case MessageAdded(role="tool", call_id=call_id) as body:
                key = call_id or ""
                decision, result = decided.pop(key, None), results.pop(key, None)
                outcome = _end(body, decision, result)
                end: dict[str, JsonValue] = {"outcome": _REPLAYED.get(outcome, outcome)}
                ran = body.input if decision is None else decision.input
                started = outcome in ("done", "failed", "unknown")
                if started and ran is not None and not same_json(ran, written.get(key, {})):
                    end["input"] = ran
                ends.append(end)
            case _:
                pass
    return ends


def _end(message: MessageAdded, decision: CallDecided | None, result: CallResult | None) -> CallEnd:
    if message.ended is not None:
        return message.ended
    if result is not None:
        return "unknown" if result.unknown else "failed" if result.is_error else "done"
    if decision is None:
        return "blocked" if message.is_error else "unknown"
    blocked = decision.outcome == "block" and decision.mode == "enforce"
    return "blocked" if blocked else "unknown"
