"""A plan in its request: the steps as its agent wrote them, each with the forecast of its calls."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from pydantic import JsonValue

from ...engine.core.plan import PLAN, Plan, PlanStep, calls_text, plain_name, plan_line
from ...engine.history.model.records import PlanFinding, PlanStepRecord
from ...engine.history.model.state import ApprovalState
from ..terminal.charset import visible, visible_words
from ..terminal.symbols import PLANNED, Look

FIELDS = frozenset({"title", "steps"})
"""Fields of a call of `plan` that its table shows completely."""
ANY_INPUT = ", with any input"
"""Text for a step without a condition: nothing about its calls is fixed."""
AS_BEFORE = (
    "Blocks, orders and limits apply to each call as before; whatever is not in the plan asks as before."
)
PARTS = "'matches' and 'contains' are met by texts with anything before and after."
UNKNOWN = "The outcome of these calls could not be computed: read the steps with care."


_PART = re.compile(r"\b(?:matches|contains)\b")


@dataclass(frozen=True, slots=True)
class ShownStep:
    """A step: `2 × deploy`, its condition and further effects, and a look and words per finding.

    `covered` means that the plan answers for some of its calls, or that they need no approval.
    """

    calls: str
    terms: tuple[str, ...]
    findings: tuple[tuple[Look, str], ...]
    covered: bool


@dataclass(frozen=True, slots=True)
class ShownPlan:
    """A plan. `most` states how many calls it allows, and what its conditions leave open.

    All texts are made visible; none is cut off.
    """

    title: str
    line: str
    steps: tuple[ShownStep, ...]
    most: str


def shown_plan(request: ApprovalState) -> ShownPlan | None:
    """Return the plan that a request is about; `None` for any other request."""
    if request.called != PLAN or request.wants is not None or request.input.keys() - FIELDS:
        return None
    title, steps = request.input.get("title"), request.input.get("steps")
    if not isinstance(title, str) or not isinstance(steps, list):
        return None
    read = [_step(each) for each in steps]
    known = [each for each in read if each is not None]
    if not known or len(known) < len(read):
        return None
    forecast = request.plan if len(request.plan) == len(known) else ()
    forecasts = [*forecast, *[None] * (len(known) - len(forecast))]
    rows = tuple(_shown(step, when, f) for (step, when), f in zip(known, forecasts, strict=True))
    line = plan_line(Plan(title, tuple(step for step, _ in known)))
    most = _most(forecast)
    if any(_PART.search(when) for _, when in known):
        most = f"{most} {PARTS}"
    return ShownPlan(visible_words(title), line, rows, most)


def _step(value: JsonValue) -> tuple[PlanStep, str] | None:
    """Return a step and its condition as written; `None` if it is not a step."""
    if not isinstance(value, dict) or value.keys() - {"tool", "count", "when", "effects"}:
        return None
    tool, count, when = value.get("tool"), value.get("count", 1), value.get("when") or ""
    effects = value.get("effects") or []
    if not isinstance(tool, str) or not isinstance(count, int) or not isinstance(when, str):
        return None
    if not isinstance(effects, list) or not all(isinstance(each, str) for each in effects):
        return None
    return PlanStep(tool, count, None, tuple(cast("list[str]", effects))), when


def _shown(step: PlanStep, when: str, forecast: PlanStepRecord | None) -> ShownStep:
    terms = [f"when {visible_words(when)}"] if when else []
    terms += [f"as {', '.join(map(_name, step.effects))}"] if step.effects else []
    same = forecast is not None and (forecast.tool, forecast.count) == (step.tool, step.count)
    findings = forecast.findings if forecast is not None and same else ()
    return ShownStep(
        f"{step.count} × {_name(step.tool)}{'' if when else ANY_INPUT}",
        tuple(terms),
        tuple((PLANNED[each.outcome], _words(each, step.count)) for each in findings),
        any(each.outcome in ("runs", "planned") for each in findings),
    )


def _name(name: str) -> str:
    return visible(plain_name(name))


def _words(finding: PlanFinding, count: int) -> str:
    which = "" if finding.calls == count else f"{finding.calls} of {count}: "
    why = f": {visible_words(finding.reason)}" if finding.reason else ""
    return f"{which}{PLANNED[finding.outcome].word}{why}"


def _most(forecast: Sequence[PlanStepRecord]) -> str:
    """Return the maximum calls of each tool that the plan covers, in a sentence."""
    if not forecast:
        return UNKNOWN
    most: dict[str, int] = {}
    for each in forecast:
        if each.most:
            most[each.tool] = most.get(each.tool, 0) + each.most
    return _sentence(most)


def _sentence(most: Mapping[str, int]) -> str:
    if not most:
        return f"Approved, it lets nothing pass that needs approval. {AS_BEFORE}"
    return f"Approved, it lets pass at most {calls_text(most)}. {AS_BEFORE}"
