"""Rules as sentences that a session's model reads (G-73).

The system prompt ends with them and stays the same, so that providers' prompt caches remain valid. Later
changes are sent as messages and stored with the replies to them: what a model was shown follows from the
first sentences and the stored messages alone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, runtime_checkable

from ..gate.description import constraints_text
from .messages import AssistantMessage, Message, RulesChange, UserMessage

log = logging.getLogger(__name__)

RULES_SENDER = "interlock"
"""Sender of the messages about changes of the rules."""


@runtime_checkable
class ConstrainingGate(Protocol):
    """A gate that expresses its rules as sentences; `None` if it has none for a model."""

    def constraints(self) -> Sequence[str] | None: ...


def current_rules(gate: object) -> tuple[str, ...] | None:
    """Return a gate's sentences about its present rules; `None` if it has none or fails."""
    if not isinstance(gate, ConstrainingGate):
        return None
    try:
        sentences = gate.constraints()
        return None if sentences is None else tuple(sentences)
    except Exception:
        log.exception("The gate could not put its rules into words")
        return None


def with_rules(system_prompt: str | None, sentences: Iterable[str]) -> str | None:
    """Return a system prompt that ends with the sentences."""
    parts = (system_prompt, constraints_text(sentences))
    return "\n\n".join(part for part in parts if part) or system_prompt


def first_rules(now: Sequence[str], messages: Iterable[Message]) -> tuple[str, ...]:
    """Return the sentences before the changes in `messages`, given those after them (`now`)."""
    change = total_change(messages)
    return (*(each for each in now if each not in change.added), *change.removed)


def rules_change(
    first: Iterable[str], messages: Iterable[Message], now: Sequence[str]
) -> RulesChange | None:
    """Return the difference between the present rules and those after `messages`, or `None`."""
    change = total_change(messages)
    previous = [each for each in first if each not in change.removed] + list(change.added)
    new_rules = tuple(each for each in now if each not in previous)
    old_rules = tuple(each for each in previous if each not in now)
    return RulesChange(added=new_rules, removed=old_rules) if new_rules or old_rules else None


def total_change(messages: Iterable[Message]) -> RulesChange:
    """Combine all changes of the rules in `messages` into one."""
    new_rules: dict[str, None] = {}
    old_rules: dict[str, None] = {}
    for message in messages:
        if not isinstance(message, AssistantMessage) or message.rules is None:
            continue
        for rule in message.rules.removed:
            if rule in new_rules:
                del new_rules[rule]
            else:
                old_rules[rule] = None
        for rule in message.rules.added:
            if rule in old_rules:
                del old_rules[rule]
            else:
                new_rules[rule] = None
    return RulesChange(added=tuple(new_rules), removed=tuple(old_rules))


def change_message(change: RulesChange) -> UserMessage:
    """Return a change of the rules as the model reads it."""
    lines = [f"- Now: {each}" for each in change.added]
    lines += [f"- No longer: {each}" for each in change.removed]
    text = "\n".join(["Rules for tool calls changed:", *lines])
    return UserMessage(text=text, by=RULES_SENDER)


def with_changes(messages: Iterable[Message]) -> Iterator[Message]:
    """Yield the messages as sent to the model: each change of the rules comes before the reply to it."""
    for message in messages:
        if isinstance(message, AssistantMessage) and message.rules is not None:
            yield change_message(message.rules)
        yield message
