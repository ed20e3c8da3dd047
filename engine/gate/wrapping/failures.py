"""Failures that tools return instead of raising (G-71), and texts of calls without success (G-62).

With `is_error` an author defines what counts as a failure. Gates without it recognise the formats that
tools commonly use: see `returned_failure`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias, cast

from ..edit_notice import without_notice

ResultClassifier: TypeAlias = Callable[[str, object], bool]
"""Returns whether a result is a failure, given the tool's name and the value it returned."""

_ERROR_TEXT = re.compile(r"\s*(?:error:|traceback \(most recent call last\):)", re.IGNORECASE)
_FIRST_CHARACTERS = frozenset("eEtT{")
"""Characters, other than blanks, with which a text of a failure begins."""
_FLAGS = ('"error"', '"ok"', '"success"', '"isError"', '"is_error"')

# The texts with which Interlock's own programs report failures to a model.
_OWN_FORMS = re.compile(
    r"""
    (?:[\w.]+:\s*)? Tool\ '[^']*'\ blocked:\ .*        # ToolCallBlockedError
    | Error:\ \S+\ (?:was\ not\ run|failed):\ .*       # AgentClient.run
    | Command\ timed\ out\ after\ [\d.e+]+s            # runtimes (A-104)
    | The\ operation\ was\ aborted | Skipped:\ user\ sent\ a\ new\ message | Tool\ not\ found:\ .*
    | .*\n?\[exit\ code:\ -?[1-9]\d*\](?:\n\n\[Showing\ lines\ [^\]]*\])?\s*   # the bash tool (A-121)
    """,
    re.VERBOSE | re.DOTALL,
)
_RAISED = re.compile(r"(?:[A-Za-z_][\w.]*(?:Error|Exception)|Error|Blocked): ")


def returned_failure(_tool: str, value: object) -> bool:
    """True for the common formats in which a tool returns a failure (G-71).

    These are a text that begins with `Error:` or is a Python traceback; and an object, or the text of a
    JSON object, with a non-empty `error`, with `ok` or `success` false, or with `isError` or `is_error`
    true.
    """
    if isinstance(value, str):
        first = value.lstrip()[:1]
        if first not in _FIRST_CHARACTERS:
            return False
        if _ERROR_TEXT.match(value):
            return True
        if first != "{" or not any(flag in value for flag in _FLAGS):
            return False
        value = json_value(value)
    if isinstance(value, Mapping):
        fields = cast("Mapping[object, object]", value)
        return (
            bool(fields.get("error"))
            or fields.get("ok") is False
            or fields.get("success") is False
            or fields.get("isError") is True
            or fields.get("is_error") is True
        )
    return getattr(value, "isError", None) is True or getattr(value, "is_error", None) is True


def is_error_value(is_error: ResultClassifier | None, tool: str, value: object) -> bool:
    """True if a tool's value is a failure; a classifier that raises counts as one (G-30)."""
    if is_error is None:
        return False
    try:
        return bool(is_error(tool, value))
    except Exception:
        return True


def is_error_text(is_error: ResultClassifier | None, tool: str, text: object) -> bool:
    """True if an OpenAI tool message is a failure; its text may be the tool's value, written as JSON.

    A classifier knows the tool's own values, so it is asked about both text and value. The message is a
    failure if either is one, or if the classifier fails on both.
    """
    if is_error is None:
        return False
    if isinstance(text, str):
        text = without_notice(text)
    values = [text]
    parsed = json_value(text) if isinstance(text, str) else None
    if isinstance(parsed, dict | list):
        values.append(cast("object", parsed))
    answers: list[bool] = []
    for value in values:
        try:
            answers.append(bool(is_error(tool, value)))
        except Exception:
            # A classifier may support only one of the two.
            continue
    return any(answers) or not answers


def is_own_failure(value: object, reasons: Iterable[str]) -> bool:
    """True if a recorded result is Interlock's own text for a call that did not run or did not succeed.

    `reasons` are the beginnings of texts with which the call may have been blocked (G-62).
    """
    beginnings = tuple(reason for reason in reasons if reason)
    for text in _texts(value):
        if _OWN_FORMS.fullmatch(text):
            return True
        raised = _RAISED.match(text)
        if text.startswith(beginnings) or (raised and text[raised.end() :].startswith(beginnings)):
            return True
    return False


def _texts(value: object) -> Iterator[str]:
    """The text, and those in an object's error fields; for JSON both."""
    if isinstance(value, str):
        value = without_notice(value)
        yield value.strip()
        value = json_value(value) if value.lstrip().startswith(("{", '"')) else None
        if isinstance(value, str):
            yield value.strip()
    if isinstance(value, Mapping):
        fields = cast("Mapping[object, object]", value)
        for name in ("error", "message", "reason", "content"):
            if isinstance(text := fields.get(name), str):
                yield text.strip()


def json_value(text: str) -> object:
    """The value of `text` as JSON; `None` if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
