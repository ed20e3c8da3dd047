"""*Always like this*: the condition under which calls like the requested one no longer need approval."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import cast

from pydantic import JsonValue

from ...engine.backtest.input_fields import LONGEST, PlainField, plain_fields
from ...engine.core.condition import Compare, Condition, Or, condition_text
from ...engine.core.rule import UNCLEAR
from ...engine.core.sanitize import visible
from ...engine.history.model.records import RuleRecord
from ...engine.history.model.state import ApprovalState, SessionState
from ...engine.history.redaction.redaction import Redaction
from ...engine.history.redaction.spans import holds_mask
from ..config.rules_edit import RuleEdit

MOST_FIELDS = 100
"""Maximum fields of a call that can be chosen individually and named in one line of rules."""
_REDACTION = Redaction()


def no_always_reason(request: ApprovalState, session: SessionState | None) -> str | None:
    """Return why this call cannot loosen the rule that asked; `None` if it can."""
    rule = request.rule
    net = None if session is None else session.nets.get(request.net)
    if rule is None:
        return "No rule in a file asked: the net has no rule"
    if " (implied by the map" in rule.text:
        return "A map implies this rule: no file has it"
    if request.uninspectable is not None or UNCLEAR in (request.tool, *request.names):
        return "This call cannot be fully analysed: no rule may let calls like it pass"
    if request.passkey:
        return "Each call is approved with a passkey: this rule stays as it is"
    if request.people > 1:
        return f"{request.people} people must approve each call: this rule stays as it is"
    if request.risk == "high":
        return "The rule says 'risk high': it stays as it is"
    if not request.may_grant or (net is not None and net.net.people):
        return "The rule says 'no grants': it stays as it is"
    if rule.text.lstrip().startswith("block "):
        return "The rule blocks until an approval: it stays as it is"
    if request.original is not None:
        return "A person has changed this call's input: it is not as the agent asked for it"
    if sum(1 for _ in islice(_fields(request.input), MOST_FIELDS + 1)) > MOST_FIELDS:
        return f"This call has more than {MOST_FIELDS} fields: write the rule with those that matter"
    if not writable_fields(request):
        return "No field of this call may be written into a rule"
    return None


def _fields(values: Mapping[str, JsonValue]) -> Iterator[str]:
    """Yield the names of all fields of an input, including those of nested objects."""
    for name, value in values.items():
        yield name
        if isinstance(value, dict):
            yield from _fields(value)


def writable_fields(request: ApprovalState) -> tuple[PlainField, ...]:
    """Return the fields whose values are short, completely visible, and not masked."""
    masked = frozenset(plain_fields(_REDACTION.fields(dict(request.input))))
    return tuple(
        field
        for field in plain_fields(request.input)
        if field in masked and not (isinstance(field[2], str) and holds_mask(field[2]))
    )


def other_fields(request: ApprovalState) -> tuple[str, ...]:
    """Return the fields that no rule can name, each with the reason."""
    known = {path for path, _, _ in writable_fields(request)}
    return tuple(_others(request.input, known, ()))


def _others(
    values: Mapping[str, JsonValue], known: set[tuple[str, ...]], above: tuple[str, ...]
) -> Iterator[str]:
    for name, value in values.items():
        path = (*above, name)
        if isinstance(value, dict) and value and any(each[: len(path)] == path for each in known):
            yield from _others(value, known, path)
        elif path not in known:
            yield f"{visible('.'.join(path))} ({_obstacle(value)})"


def _obstacle(value: JsonValue) -> str:
    match value:
        case str() if holds_mask(value):
            return "masked"
        case str() if len(value) > LONGEST:
            return f"longer than {LONGEST} characters"
        case str() if value and visible(value) != value:
            return "invisible characters"
        case list():
            return "a list"
        case dict():
            return "an object"
        case _:
            return "no value that a rule can name"


def condition_of_fields(fields: Sequence[PlainField]) -> Condition:
    """Return the condition that holds unless each of `fields` has its value again."""
    each = tuple(Compare(path, "!=", value) for path, _, value in fields)
    return each[0] if len(each) == 1 else Or(cast("tuple[Condition, ...]", each))


def condition_words(fields: Sequence[PlainField]) -> str:
    """Return that condition as written in rules."""
    return condition_text(condition_of_fields(fields), whole=True)


@dataclass(frozen=True, slots=True)
class RulePlace:
    """Place of the rule that asked, in files that were read: `texts` by name, including its `file`."""

    texts: Mapping[str, str]
    file: str
    line: int

    @property
    def text(self) -> str:
        """Return the whole text of the file."""
        return self.texts[self.file]

    def edit(self, before: str, after: str) -> RuleEdit:
        """Return the change of the rule's line."""
        return RuleEdit(self.file, self.text, after, self.line, before)


def place_of(rule: RuleRecord, texts: Mapping[str, str]) -> RulePlace:
    """Find a recorded rule in files. Raises `ValueError` if its line has changed."""
    named = [name for name in texts if name == rule.file or _same(name, rule.file)]
    if not named:
        raise ValueError(f"{rule.file} is not among the rules files that are known here")
    lines = texts[named[0]].split("\n")
    if rule.line > len(lines) or lines[rule.line - 1].strip() != rule.text.strip():
        raise ValueError(f"{rule.where} has changed since this session's rules were read")
    return RulePlace(texts, named[0], rule.line)


def _same(one: str, other: str) -> bool:
    return os.path.abspath(one) == os.path.abspath(other)
