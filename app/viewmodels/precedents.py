"""Precedents of an open request in sentences: how they were decided, what differs, what is new."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from pydantic import JsonValue

from ...engine.history.decisions.precedents import PastCall, Precedents
from ...engine.history.model.state import ApprovalState
from ...engine.history.redaction.shell.masking import holds_commands
from ..format.text import ago, count, name_shown, seconds_between, shown
from ..terminal.charset import to_charset
from .input_draft import Change, changes, safe_json
from .triage import common_ends

NAMED = 3
"""Maximum number of fields named if several differ."""
RESULTS = {"done": "it succeeded", "failed": "it failed", "unknown": "its outcome is unknown"}


@dataclass(frozen=True, slots=True)
class PrecedentWords:
    """Sentences on the decisions so far, on the last approved call, and on new words."""

    decisions: str
    difference: str
    new: str


def precedent_words(request: ApprovalState, found: Precedents, now: datetime) -> PrecedentWords:
    """Return the sentences on a request."""
    return PrecedentWords(_decisions(found), _difference(request, found.last, now), _new(found))


def times(number: int) -> str:
    """Return `once`, `twice`, or `14 times`, for example."""
    return {1: "once", 2: "twice"}.get(number, f"{number:,} times")


def _decisions(found: Precedents) -> str:
    parts: list[str] = []
    if found.approved:
        people = "1 person" if found.people == 1 else f"{found.people} people"
        parts.append(f"approved {times(found.approved)} by {people}")
    if found.denied:
        last = "" if found.denied == 1 else ", last"
        reason = f"{last}: “{shown(found.reason)}”" if found.reason else ""
        parts.append(f"denied {times(found.denied)}{reason}")
    if found.expired:
        parts.append(f"expired {times(found.expired)}")
    return ", ".join(parts) or "nobody has decided about this input yet"


def _difference(request: ApprovalState, last: PastCall | None, now: datetime) -> str:
    if last is None:
        agent = name_shown(request.agent or request.session)
        return f"no call of {name_shown(request.called)} by {agent} was approved before"
    time = f"the last approved call, {ago(seconds_between(last.at, now))}"
    differing = leaf_changes(last.input, request.input)
    if not differing:
        result = RESULTS.get(last.result or "", "it has no result yet")
        return f"the same input as {time}: {result}"
    if len(differing) == 1:
        [only] = differing
        return f"only {shown(only.name)} differs from {time}: {_change(only, request)}"
    names = ", ".join(shown(each.name) for each in differing[:NAMED])
    more = len(differing) - NAMED
    rest = f" and {count(more, 'more field')}" if more > 0 else ""
    return f"{names}{rest} differ from {time}"


def _change(change: Change, request: ApprovalState) -> str:
    """Return `"staging" → "prod"`; for texts with a common beginning or end, only the differing part."""
    arrow = to_charset("→")
    before, after = change.before, change.after
    command = holds_commands(change.name, request.shell_fields)
    quoted = name_shown if command else shown
    if isinstance(before, str) and isinstance(after, str):
        head, tail = common_ends([before, after], command=command)
        one, other = (text[len(head) : len(text) - len(tail)] for text in (before, after))
        if (head or tail) and one and other:
            return f"{quoted(one)} {arrow} {quoted(other)}"
    return f"{quoted(safe_json(before))} {arrow} {quoted(safe_json(after))}"


def _new(found: Precedents) -> str:
    if not found.new:
        return ""
    named = ", ".join(f"{each.kind} {name_shown(each.text)}" for each in found.new)
    return f"new in this journal: {named}"


def leaf_changes(before: Mapping[str, JsonValue], after: Mapping[str, JsonValue]) -> list[Change]:
    """Return the values that differ; those in nested objects by their path, as `config.env`."""
    found: list[Change] = []
    for each in changes(before, after):
        if isinstance(each.before, dict) and isinstance(each.after, dict):
            below = leaf_changes(each.before, each.after)
            found += (Change(f"{each.name}.{one.name}", one.before, one.after) for one in below)
        else:
            found.append(each)
    return found
