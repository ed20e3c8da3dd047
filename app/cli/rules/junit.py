"""Outcome of scenarios as JUnit XML, the format of continuous integration systems."""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from ....engine.core.sanitize import visible
from .test import Suite


def as_junit(suites: Iterable[Suite]) -> str:
    """Return one suite per file and one case per scenario; an unreadable file is a case with errors."""
    top = Element("testsuites", name="interlock test")
    for suite in suites:
        seconds = sum(outcome.seconds for outcome in suite.outcomes)
        made = SubElement(
            top,
            "testsuite",
            name=visible(suite.file),
            tests=str(len(suite.outcomes) + bool(suite.problems)),
            failures=str(suite.failed),
            errors=str(int(bool(suite.problems))),
            time=f"{seconds:.3f}",
        )
        if suite.problems:
            case = SubElement(
                made, "testcase", name="compile", classname=visible(suite.file), time="0.000"
            )
            error = SubElement(
                case, "error", message=visible(suite.problems[0].message), type="RuleError"
            )
            error.text = "\n".join(map(str, suite.problems))
        for outcome in suite.outcomes:
            case = SubElement(
                made,
                "testcase",
                name=visible(outcome.name),
                classname=visible(suite.file),
                file=visible(suite.file),
                line=str(outcome.line),
                time=f"{outcome.seconds:.3f}",
            )
            if outcome.message is not None:
                failure = SubElement(case, "failure", message=visible(outcome.message), type="divergence")
                failure.text = "\n".join(outcome.details)
    indent(top)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(top, "unicode")}\n'
