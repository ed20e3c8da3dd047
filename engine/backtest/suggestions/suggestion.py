"""Suggestions, their evidence, and their effect on the recorded calls."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

from ...history.model.records import Record

Kind: TypeAlias = Literal["condition", "value", "order", "limit"]
LISTED = 20
"""Most calls of each change that are listed; all are counted."""


class Support(Record):
    """Recorded calls that support a suggestion.

    `calls` are those it is about and `denied` the ones that people denied; `people` approved.
    """

    calls: int
    denied: int = 0
    sessions: int = 0
    people: tuple[str, ...] = ()
    first: datetime | None = None
    last: datetime | None = None


class ListedCall(Record):
    """A recorded call by session and event, its input masked and cut short."""

    session: str
    event: int
    at: datetime | None
    tool: str
    input: str


class Effect(Record):
    """Recorded calls judged under the rules as they are and with the suggestion.

    `saved` are requests that people answered and that would not have been made. A call that is newly
    `allowed` passes without approval, as it did not before.
    """

    calls: int = 0
    saved: int = 0
    allowed: int = 0
    asked: int = 0
    blocked: int = 0
    listed_allowed: tuple[ListedCall, ...] = ()
    listed_asked: tuple[ListedCall, ...] = ()
    listed_blocked: tuple[ListedCall, ...] = ()


class Suggestion(Record):
    """A rule as a whole line, and the location of the line that it replaces; `None` for a new one.

    `loosens` says that it lets calls pass that need approval now. `warnings` are the fields that may have
    any value in calls which then pass, and what `check` finds only in the rules with it. `scenarios` are
    the lines of a scenario file.
    """

    kind: Kind
    rule: str
    replaces: str | None = None
    before: str | None = None
    loosens: bool = False
    support: Support
    effect: Effect = Effect()
    warnings: tuple[str, ...] = ()
    scenarios: str = ""


class History(Record):
    """Suggestions with what was examined: judged calls, and requests approved or denied by people."""

    suggestions: tuple[Suggestion, ...] = ()
    sessions: int = 0
    calls: int = 0
    approved: int = 0
    denied: int = 0


class Narrowing(Record):
    """A rule with a further condition, as a suggestion, and the `denied` calls that would pass under it.

    Calls that people let run with another input count among these. With `errors` the rules contradict
    each other. In both cases the rule must not be written into a file.
    """

    suggestion: Suggestion
    denied: int = 0
    listed_denied: tuple[ListedCall, ...] = ()
    errors: tuple[str, ...] = ()
