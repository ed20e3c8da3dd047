"""Findings of `interlock check` for code hosts: SARIF 2.1.0, and GitHub's workflow commands."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TypeAlias
from urllib.parse import quote

from ....engine.core.sanitize import visible
from ....rules import Problem
from .check_report import CheckedSet, Json

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
Kind: TypeAlias = tuple[str, str]
"""Id and level of a finding."""
SYNTAX: Kind = ("syntax", "error")
CONTRADICTION: Kind = ("contradiction", "error")
WARNING: Kind = ("warning", "warning")
_MEANINGS = {
    SYNTAX: "The rules cannot be compiled",
    CONTRADICTION: "The rules contradict each other",
    WARNING: "A rule may not do what it seems to",
}


def findings_of(checked: Sequence[CheckedSet]) -> Iterator[tuple[Kind, Problem]]:
    """Yield every error and warning with its kind."""
    for one in checked:
        yield from ((SYNTAX if one.rules is None else CONTRADICTION, each) for each in one.errors)
        yield from ((WARNING, each) for each in one.warnings)


def as_sarif(checked: Sequence[CheckedSet]) -> Json:
    """Return a SARIF log with one run."""
    rules: list[Json] = [
        {
            "id": kind[0],
            "shortDescription": {"text": f"{text}."},
            "defaultConfiguration": {"level": kind[1]},
        }
        for kind, text in _MEANINGS.items()
    ]
    driver: Json = {"name": "interlock", "version": version("interlock"), "rules": rules}
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "columnKind": "unicodeCodePoints",
                "results": [_result(*found) for found in findings_of(checked)],
            }
        ],
    }


def _result(kind: Kind, problem: Problem) -> Json:
    place: dict[str, Json] = {"artifactLocation": {"uri": _uri(problem.file)}}
    if problem.line:
        place["region"] = {
            "startLine": problem.line,
            "startColumn": problem.column,
            "endColumn": problem.column + max(1, problem.length),
        }
    return {
        "ruleId": kind[0],
        "level": kind[1],
        "message": {"text": _text(problem)},
        "locations": [{"physicalLocation": place}],
    }


def _uri(file: str) -> str:
    """Return a relative reference for a relative path, or for one below the working directory."""
    path = Path(file)
    if path.is_absolute():
        try:
            path = path.relative_to(Path.cwd())
        except ValueError:
            return path.as_uri()
    return quote(os.path.normpath(path).replace(os.sep, "/"))


def as_github(checked: Sequence[CheckedSet]) -> Iterator[str]:
    """Yield a workflow command per finding; the runner turns each into an annotation of its line."""
    for (name, level), problem in findings_of(checked):
        facts = {"file": problem.file, "title": f"interlock check: {name}"}
        if problem.line:
            last = problem.column + max(1, problem.length) - 1
            facts |= {"line": str(problem.line), "col": str(problem.column), "endColumn": str(last)}
        fields = ",".join(f"{key}={_property(visible(value))}" for key, value in facts.items())
        yield f"::{level} {fields}::{_data(_text(problem))}"


def _text(problem: Problem) -> str:
    """Return the message and its remedy, safe to show."""
    message = visible(problem.message)
    return f"{message}\n{visible(problem.remedy)}" if problem.remedy else message


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
