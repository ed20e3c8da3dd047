"""Comparison of several requests: fields that are the same in all of them, and fields that differ.

Inputs are included in full. A call whose input is too long for a table, or that would change files, is
reviewed and approved separately.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from ...engine.history.model.state import ApprovalState, SessionState
from ..format.plan import shown_plan
from ..format.text import as_json, count, imitates_signs

LONGEST = 4_000
"""Maximum characters of an input in a batch; a request with more is decided separately."""
_ESCAPE = re.compile(r"\\[nrtxuU]")
JSON_BEGINS = (*'{["-0123456789tfnNI',)
"""Characters that may begin a JSON value as Python parses it."""


@dataclass(slots=True)
class Row:
    """A request of the batch. `over` is the reason why it is not decided here, `result` its outcome."""

    request: ApprovalState
    over: str | None = None
    result: str | None = None
    ok: bool = False
    sent: bool = False

    @property
    def open(self) -> bool:
        """Return whether the request has not been decided or sent yet."""
        return self.over is None and not self.sent


@dataclass(frozen=True, slots=True)
class FieldComparison:
    """Fields of requests by name: values that are `alike`, and for each `differing` field one value per
    request.

    The value is `None` for a request without the field.
    """

    alike: Mapping[str, str] = field(default_factory=dict[str, str])
    differing: Mapping[str, Sequence[str | None]] = field(
        default_factory=dict[str, "Sequence[str | None]"]
    )


def fields_of(request: ApprovalState, session: SessionState | None) -> dict[str, str]:
    """Return the fields of a request, under names that the input's own fields cannot imitate."""
    rule = request.rule
    found = {
        "tool": request.called,
        "asks about": request.tool,
        "agent": f"{request.via} of {request.agent}" if request.via else request.agent,
        "session": request.session,
        "asked by": f"{rule.where}  {rule.text.strip()}" if rule else f"net {request.net}",
    }
    if session is not None and session.workdir:
        found["directory"] = session.workdir
    if request.note:
        found["applies as"] = request.note
    found = {name: f"{text[:LONGEST]}…" if len(text) > LONGEST else text for name, text in found.items()}
    size = input_size(request)
    if size > LONGEST:
        found["input"] = f"{size:,} characters: open the request to read them"
        return found
    plan = shown_plan(request)
    if plan is not None:
        found["input.plan"] = plan.line
        return found
    for name, value in request.input.items():
        found[f"input.{name}"] = _text(value)
    if not request.input:
        found["input"] = "no arguments"
    return found


def _text(value: JsonValue) -> str:
    """Return a field's value. A text is quoted if it could be mistaken for a different value.

    That is a value of another type, a text with the character that an escape sequence represents, several
    values, or none.
    """
    if not isinstance(value, str) or _ESCAPE.search(value) or _reads_as_json(value):
        return as_json(value)
    # A text of several lines is shown with each line on its own.
    return as_json(value) if value and "\n" not in value and imitates_signs(value) else value


def _reads_as_json(text: str) -> bool:
    if text.lstrip()[:1] not in JSON_BEGINS:
        return False
    try:
        json.loads(text)
    except RecursionError:
        return True
    except ValueError:
        return False
    return True


def input_size(request: ApprovalState) -> int:
    """Return the number of characters of a call's input."""
    return sum(
        len(name) + len(value if isinstance(value, str) else as_json(value))
        for name, value in request.input.items()
    )


def compared(requests: Sequence[ApprovalState], sessions: Mapping[str, SessionState]) -> FieldComparison:
    """Compare requests field by field, in the order of the first request that has the field."""
    every = [fields_of(r, sessions.get(r.via or "") or sessions.get(r.session)) for r in requests]
    names = list(dict.fromkeys(name for each in every for name in each))
    alike: dict[str, str] = {}
    differing: dict[str, Sequence[str | None]] = {}
    for name in names:
        values = [each.get(name) for each in every]
        first = values[0]
        if first is not None and all(value == first for value in values):
            alike[name] = first
        else:
            differing[name] = values
    return FieldComparison(alike, differing)


def effects(requests: Sequence[ApprovalState]) -> Counter[str]:
    """Return the calls' effects other than their tools' names, with the number of calls for each."""
    return Counter(name for r in requests for name in dict.fromkeys(r.names) if name != r.called)


def too_much(request: ApprovalState) -> str | None:
    """Return why a request must be approved separately; `None` if it may be approved in a batch."""
    if request.passkey:
        return "approve it separately: its rule asks for a passkey"
    if request.wants is not None:
        return "answer it separately: it has a form to fill in"
    if request.hidden:
        return "approve it separately: masked text in it may be more than a secret"
    if input_size(request) > LONGEST:
        return "approve it separately: its input is too long for a table"
    if shown_plan(request) is not None:
        return "approve it separately: the steps of a plan are read one by one"
    if request.preview is not None:
        return "approve it separately: what it would change is shown there"
    return None


def warnings(request: ApprovalState) -> list[str]:
    """Return warnings that distinguish a request from the others of its batch."""
    found: list[str] = []
    if request.people < 2 and not request.may_grant:
        found.append("its rule says 'no grants': review each request")
    if request.uninspectable is not None:
        found.append(f"CANNOT BE FULLY ANALYSED: {request.uninspectable}")
    alone = too_much(request)
    return [*found, alone] if alone else found


def summary(rows: Sequence[Row]) -> str:
    """Return the outcome of a batch, such as `3 requests decided, 1 not`."""
    done = sum(row.ok for row in rows)
    remaining = len(rows) - done
    return f"{count(done, 'request')} decided" + (f", {remaining} not" if remaining else "")
