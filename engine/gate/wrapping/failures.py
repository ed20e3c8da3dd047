"""Failures that tools return instead of raising them (G-71), and texts of calls without success (G-62).

With `is_error` an author says what failures look like. Gates without it count the shapes that tools
commonly give them: see `returned_failure`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias, cast

from ..edit_notice import without_notice

ResultClassifier: TypeAlias = Callable[[str, object], bool]
"""Says of a tool's name and the value it returned whether it failed."""

_ERROR_TEXT = re.compile(r"\s*(?:error:|traceback \(most recent call last\):)", re.IGNORECASE)
_FIRST_CHARACTERS = frozenset("eEtT{")
"""Characters other than blanks that a text of a failure begins with."""
_FLAGS = ('"error"', '"ok"', '"success"', '"isError"', '"is_error"')

# The forms in which Interlock's own programs put failures into words for a model.
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
    """True for the common shapes of a failure that a tool returns (G-71).

    These are a text that begins with `Error:` or is Python's traceback; an object, or the text of a JSON
    object, with something in `error`, with `ok` or `success` false, or with `isError` or `is_error` true.
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
    """True if a tool's value is a failure; a classifier that raises says so, too (G-30)."""
    if is_error is None:
        return False
    try:
        return bool(is_error(tool, value))
    except Exception:
        return True


def is_error_text(is_error: ResultClassifier | None, tool: str, text: object) -> bool:
    """True if an OpenAI tool message is a failure; its text may be the tool's value, written as JSON.

    A classifier knows the tool's own values, so it is asked about both; it is a failure when either is,
    or when the classifier can make nothing of any.
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
            # A classifier may know only one of the two.
            continue
    return any(answers) or not answers


def is_own_failure(value: object, reasons: Iterable[str]) -> bool:
    """True if a recorded result is in Interlock's own words a call that did not run or did not succeed.

    `reasons` are beginnings of the texts with which the call may have been blocked (G-62).
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
    """A text, or those in an object's fields for errors; of JSON both."""
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
    """The value of `text` as JSON; `None` when it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
