"""Plans: the calls that an agent intends to make, shown to an operator before the first of them.

A plan is the input of a call of `plan`: a title, and steps with a tool, a count and a condition. Pure;
the parser of conditions is passed in, because the rules language is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, cast

from .condition import Condition, Input, condition_text
from .rule import RESERVED
from .sanitize import folded_name, visible, visible_words

PLAN = "plan"
"""The tool whose calls are plans."""

MOST_STEPS = 50
MOST_CALLS = 100
"""Most calls of one step."""
MOST_EFFECTS = 20
LONGEST_TITLE = 200
LONGEST_GLANCE = 48
"""Most characters of a title in a line with the calls."""
LONGEST_NAME = 200
LONGEST_CONDITION = 2_000

ConditionReader: TypeAlias = Callable[[str], "Condition | None"]
"""Parses a condition of the rules language; returns `None` or raises `ValueError` for an invalid one."""

FIELD_TEXTS: Mapping[str, str] = {
    "title": "The purpose of all steps together, in a few words.",
    "tool": "The tool that will be called, by its exact name.",
    "count": "The most calls of it.",
    "when": "A condition that the input of each of these calls meets, such as "
    '`input.env = "staging"`. Calls that do not meet it are asked about.',
    "effects": "Names that the rules' `map` lines give these calls, such as `deploy` for a shell command "
    "that deploys.",
}
"""Fields of a plan and of a step, as described to a model."""

PLAN_SCHEMA: Mapping[str, object] = {
    "type": "object",
    "properties": {
        "title": {
            "type": "string",
            "minLength": 1,
            "maxLength": LONGEST_TITLE,
            "description": FIELD_TEXTS["title"],
        },
        "steps": {
            "type": "array",
            "minItems": 1,
            "maxItems": MOST_STEPS,
            "items": {
                "type": "object",
                "properties": {
                    "tool": {
                        "type": "string",
                        "minLength": 1,
                        "maxLength": LONGEST_NAME,
                        "description": FIELD_TEXTS["tool"],
                    },
                    "count": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": MOST_CALLS,
                        "default": 1,
                        "description": FIELD_TEXTS["count"],
                    },
                    "when": {
                        "type": "string",
                        "maxLength": LONGEST_CONDITION,
                        "description": FIELD_TEXTS["when"],
                    },
                    "effects": {
                        "type": "array",
                        "maxItems": MOST_EFFECTS,
                        "items": {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME},
                        "description": FIELD_TEXTS["effects"],
                    },
                },
                "required": ["tool"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["title", "steps"],
    "additionalProperties": False,
}
"""JSON schema of a plan, for tools that take one."""

PLAN_DESCRIPTION = (
    "Show an operator the calls that you are going to make, before you make the first of them. Once the "
    "plan is approved, calls that it covers run without asking one by one; every other call is asked "
    "about as before, and what the rules block stays blocked. Name exact tools, and the narrowest "
    "conditions that your calls meet."
)


PLAN_NOTED = "The plan is noted. Make its calls one by one."
"""Result of a plan call if the gate gives no other answer."""


class PlanError(ValueError):
    """An input that is not a plan: the `place` in it, the `problem` there and a `remedy`."""

    def __init__(self, place: str, problem: str, remedy: str) -> None:
        super().__init__(f"{place}: {problem}; {remedy}")
        self.place = place
        self.problem = problem
        self.remedy = remedy

    def __reduce__(self) -> tuple[type[PlanError], tuple[str, str, str]]:
        return type(self), (self.place, self.problem, self.remedy)


@dataclass(frozen=True, slots=True)
class PlanStep:
    """At most `count` calls of `tool` whose input meets `when`.

    `effects` are names that these calls may have besides the tool's own.
    """

    tool: str
    count: int = 1
    when: Condition | None = None
    effects: tuple[str, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """All names that a call of this step may have."""
        return frozenset((self.tool, *self.effects))


@dataclass(frozen=True, slots=True)
class Plan:
    """A title and steps, in the agent's order."""

    title: str
    steps: tuple[PlanStep, ...]

    @property
    def calls(self) -> Mapping[str, int]:
        """Most calls of each tool, in the order of the steps."""
        counts: dict[str, int] = {}
        for step in self.steps:
            counts[step.tool] = counts.get(step.tool, 0) + step.count
        return counts


def plain_name(name: str) -> str:
    """Name of a tool or effect, safe to show; in quotes if it could be taken for several words."""
    text = visible_words(name)
    if re.fullmatch(r'[^\s,"]+', text):
        return text
    return '"' + text.replace('"', '\\"') + '"'


def calls_text(calls: Mapping[str, int]) -> str:
    """`2 deploy, 1 push`, safe to show."""
    return ", ".join(f"{count} {plain_name(tool)}" for tool, count in calls.items())


def plan_line(plan: Plan) -> str:
    """A plan on one line, safe to show: `Release 1.4 · 3 steps: 2 deploy, 1 push`.

    A long title is shortened so that the calls stay visible. A title that could be taken for calls is
    quoted.
    """
    steps = "1 step" if len(plan.steps) == 1 else f"{len(plan.steps)} steps"
    short = len(plan.title) <= LONGEST_GLANCE
    title = visible(plan.title if short else f"{plan.title[: LONGEST_GLANCE - 1]}…")
    if re.search(r"·|\s\s", title):
        title = f'"{title}"'
    return f"{title} · {steps}: {calls_text(plan.calls)}"


def written_plan(title: str, steps: Iterable[PlanStep | Input]) -> dict[str, object]:
    """Input of a call that shows this plan. A step may also be given as its JSON object."""
    return {"title": title, "steps": [_written_step(step) for step in steps]}


def _written_step(step: PlanStep | Input) -> dict[str, object]:
    if not isinstance(step, PlanStep):
        return dict(step)
    fields: dict[str, object] = {"tool": step.tool, "count": step.count}
    if step.when is not None:
        fields["when"] = condition_text(step.when, whole=True)
    if step.effects:
        fields["effects"] = list(step.effects)
    return fields


def read_plan(value: Input, condition: ConditionReader | None) -> Plan:
    """The plan in a call's input. Without a parser of conditions a step has none.

    Raises `PlanError` for anything that is not a plan, including unknown fields, which the agent might
    believe to be limits.
    """
    _check_fields(value, "the plan", ("title", "steps"))
    title = _text(value.get("title"), "title", LONGEST_TITLE)
    raw_steps: object = value.get("steps")
    steps = cast("list[object]", raw_steps) if isinstance(raw_steps, list | tuple) else []
    if not steps:
        raise PlanError(
            "steps", f"found {_kind(cast('object', raw_steps))}", "give a list of at least one step"
        )
    if len(steps) > MOST_STEPS:
        raise PlanError(
            "steps", f"found {len(steps)} steps", f"give at most {MOST_STEPS}, and plan the rest later"
        )
    return Plan(
        title, tuple(_read_step(step, f"steps[{at}]", condition) for at, step in enumerate(steps))
    )


def _read_step(value: object, place: str, condition: ConditionReader | None) -> PlanStep:
    if not isinstance(value, Mapping):
        raise PlanError(place, f"found {_kind(value)}", 'give an object such as {"tool": "deploy"}')
    step = cast("Input", value)
    _check_fields(step, place, ("tool", "count", "when", "effects"))
    return PlanStep(
        _tool(step.get("tool"), f"{place}.tool"),
        _count(step.get("count", 1), f"{place}.count"),
        _condition(step.get("when"), f"{place}.when", condition),
        _effects(step.get("effects"), f"{place}.effects"),
    )


def _check_fields(value: Input, place: str, field_names: tuple[str, ...]) -> None:
    for name in value:
        if name not in field_names:
            fields = f"{', '.join(field_names[:-1])} and {field_names[-1]}"
            raise PlanError(
                place, f"found the unknown field '{visible_words(str(name))}'", f"use {fields} only"
            )


def _text(value: object, place: str, longest: int) -> str:
    if not isinstance(value, str) or not value.strip():
        description = "an empty text" if isinstance(value, str) else _kind(value)
        raise PlanError(place, f"found {description}", "give a text")
    if len(value) > longest:
        raise PlanError(
            place, f"found a text of {len(value):,} characters", f"give one of at most {longest:,}"
        )
    return value


def _tool(value: object, place: str) -> str:
    name = _text(value, place, LONGEST_NAME)
    if folded_name(name) in (*RESERVED, PLAN):
        raise PlanError(
            place, f"found the reserved name '{visible_words(name)}'", "name a tool that you will call"
        )
    return name


def _count(value: object, place: str) -> int:
    if type(value) is not int or not 1 <= value <= MOST_CALLS:
        description = str(value) if type(value) is int and abs(value) < 10**9 else _kind(value)
        raise PlanError(place, f"found {description}", f"give a whole number from 1 to {MOST_CALLS}")
    return value


def _condition(value: object, place: str, reader: ConditionReader | None) -> Condition | None:
    if value is None:
        return None
    text = _text(value, place, LONGEST_CONDITION)
    if reader is None:
        raise PlanError(
            place, "found a condition, but conditions are not supported here", "leave it out of the step"
        )
    if not text.isprintable():
        character = visible(next(sign for sign in text if not sign.isprintable()))
        raise PlanError(place, f"found '{character}'", "write it on one line of visible characters")
    try:
        read = reader(text)
    except ValueError as error:
        raise PlanError(place, str(error), _CONDITION) from error
    if read is None:
        raise PlanError(place, "found a text that is not a condition", _CONDITION)
    if not _is_whole(text, read, reader):
        raise PlanError(place, "found a comment, which people may mistake for a limit", "leave it out")
    return read


def _is_whole(text: str, read: Condition, reader: ConditionReader) -> bool:
    """Return whether all of a text is the condition parsed from it; a comment hides what follows."""
    try:
        return reader(f"({text})") == read
    except ValueError:
        return False


_CONDITION = 'write it as after `when` in the rules, such as input.env = "staging"'


def _effects(value: object, place: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise PlanError(place, f"found {_kind(value)}", "give a list of names")
    names = cast("list[object]", value)
    if len(names) > MOST_EFFECTS:
        raise PlanError(place, f"found {len(names)} names", f"give at most {MOST_EFFECTS}")
    read = (_effect(name, f"{place}[{at}]") for at, name in enumerate(names))
    return tuple(dict.fromkeys(read))


def _effect(value: object, place: str) -> str:
    name = _text(value, place, LONGEST_NAME)
    if folded_name(name) in RESERVED:
        raise PlanError(
            place,
            f"found the reserved name '{visible_words(name)}', which no plan covers",
            "name effects that `map` lines give",
        )
    return name


def _kind(value: object) -> str:
    """Kind of a value, for a sentence about what was found."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case str():
            return "a text"
        case int():
            return "a whole number"
        case float():
            return "a number with a fraction"
        case Mapping():
            return "an object"
        case list() | tuple():
            return "an empty list" if not value else "a list"
        case _:
            return f"a value of type {type(value).__name__}"
