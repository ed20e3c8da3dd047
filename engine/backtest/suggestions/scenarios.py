"""Scenarios made from recorded calls, with the decisions that the rules actually make."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast

from pydantic import JsonValue

from ...core.rule import ApprovalRule
from ...gate.types import Outcome
from ...history.redaction.redaction import Redaction
from ...net.net import Input, SkillNet
from ..judge import Judge
from ..recording import RecordedCall, RecordedOutcome, RecordedResult
from ..trial import Trial
from .proposal import Example, Proposal
from .writer import RuleWriter

LONGEST = 300
CALLS = 20
"""Most calls of a scenario."""

_ENDS: Mapping[Outcome, str] = {"allow": "passes", "ask": "needs approval", "block": "is blocked"}
_RAN = RecordedOutcome("ask", by=("person 1",))


def scenarios_of(
    proposal: Proposal, nets: Mapping[str, SkillNet], writer: RuleWriter, redaction: Redaction
) -> str:
    """Lines of a scenario file; empty for a call in which anything is masked, or that is very long."""
    lines: list[str] = []
    for number, calls in enumerate(proposal.examples, 1):
        words = [_words(*call, writer.call_words, redaction) for call in calls]
        decisions = _decisions(calls, nets) if len(calls) <= CALLS and all(words) else []
        if decisions and _answerable(calls, decisions, nets):
            name = f"{calls[-1][0]} {_ENDS[decisions[-1]]} ({number})"
            lines.append(f"scenario {json.dumps(name, ensure_ascii=False)}")
            lines += [line for pair in zip(words, decisions, strict=True) for line in _steps(*pair)]
            if decisions[-1] == "ask":
                lines.pop()
    return "\n".join(lines)


def _answerable(
    calls: Sequence[Example], decisions: Sequence[Outcome], nets: Mapping[str, SkillNet]
) -> bool:
    """True if one answer each suffices for every call before the last that needs approval."""
    rules = [net.rule for net in nets.values()]
    approval_tools = (
        tool for (tool, _), decision in zip(calls[:-1], decisions, strict=False) if decision == "ask"
    )
    return all(
        sum(isinstance(rule, ApprovalRule) and rule.tool == tool for rule in rules) == 1
        for tool in approval_tools
    )


def _words(
    tool: str, values: Input, write: Callable[[str, Input], str | None], redaction: Redaction
) -> str | None:
    plain = cast("dict[str, JsonValue]", dict(values))
    if redaction.fields(plain) != plain:
        return None
    words = write(tool, plain)
    return None if words is None or len(words) > LONGEST else words


def _steps(words: str | None, decision: str) -> Iterator[str]:
    yield f"  call {words}"
    yield f"  expect {decision}"
    if decision == "ask":
        yield "  approve"


def _decisions(calls: Sequence[Example], nets: Mapping[str, SkillNet]) -> list[Outcome]:
    """Decisions on calls in a session of their own; each succeeds if it runs."""
    items: list[RecordedCall | RecordedResult] = []
    for number, (tool, values) in enumerate(calls, 1):
        items.append(RecordedCall(number, f"c{number}", tool, values, _RAN))
        items.append(RecordedResult(f"c{number}", tool, is_error=False))
    return [judgement.now.outcome for judgement in Judge(Trial.of(nets, nets)).judge(items)]
