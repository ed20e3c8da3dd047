"""Output of `interlock check --json`: plain values for other programs."""

from __future__ import annotations

from typing import TypeAlias

from ....engine.core.condition import written
from ....engine.core.rule import RuleSource
from ....engine.verify import Answer, Most, Never, Way
from ....rules import Problem, RuleSet
from ....rules.analysis.findings import Findings

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"


def as_json(rules: RuleSet, findings: Findings) -> Json:
    """Nets, tools, errors and warnings; an unknown value is `null` or says `unknown`.

    A step of a way that has `seconds` is no call but a wait.
    """
    return {
        "files": list(rules.sources),
        "nets": [
            {
                "key": key,
                "rule": _place(net.rule.source if net.rule else None),
                "when": None if net.condition is None else written(net.condition),
                "states": v.reachable_states,
            }
            for (key, net), v in zip(rules.registry.items(), rules.verification, strict=True)
        ],
        "tools": [
            {
                "name": tool.name,
                "blocked": None if tool.blocked is None else _place(tool.blocked.source),
                **_way(tool.way),
                "within": [
                    {"net": within.net, "when": within.when, **_way(within.way)} for within in tool.within
                ],
                "most": _most(tool.most),
            }
            for tool in findings.tools
        ],
        "errors": [_problem(problem) for problem in findings.errors],
        "warnings": [_problem(problem) for problem in findings.warnings],
    }


def _place(source: RuleSource | None) -> Json:
    return None if source is None else source.where


def _way(answer: Answer) -> dict[str, Json]:
    match answer:
        case Way(calls, shortest):
            steps: list[Json] = [
                {
                    "tool": call.names[0],
                    "approval": call.approval,
                    "succeeds": call.succeeds,
                    "people": call.people,
                    "outside": list(call.outside),
                    "seconds": call.seconds,
                }
                for call in calls
            ]
            return {"reachable": "yes", "way": steps, "shortest": shortest}
        case Never(nets):
            return {"reachable": "never", "forbidden_by": list(nets)}
        case _:
            return {"reachable": "unknown"}


def _most(most: Most) -> Json:
    return {
        "least": most.least,
        "most": most.most,
        "unlimited": most.unlimited,
        "exact": most.exact,
        "paces": [{"calls": pace.calls, "seconds": pace.seconds} for pace in most.paces],
    }


def _problem(problem: Problem) -> Json:
    return {
        "file": problem.file,
        "line": problem.line,
        "column": problem.column,
        "length": problem.length,
        "message": problem.message,
        "remedy": problem.remedy,
    }
