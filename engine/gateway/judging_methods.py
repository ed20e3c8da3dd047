"""What takes long at a server's journal: begun, then asked for part by part, and ended by whoever leaves.

Rules come as texts: the files are on the operator's machine, and nets hold code that no wire carries.
"""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from ..backtest.source import Backtested, Counted, Judged
from .method import Method
from .wire import Answer, Nothing, Number, Payload

MOST_RULES = 900_000
"""Bytes of rules in one question, so that it fits into a message."""

_Text = dict[str, str]


class Backtest(Payload):
    """Judge one recorded session, those that went on since a moment, or all, by rules by file name."""

    rules: _Text = Field(min_length=1, max_length=1000)
    session: str | None = Field(default=None, min_length=1, max_length=200)
    since: datetime | None = None


class WhatIf(Payload):
    """Judge what came in a session after event `at`, up to event `until`, by `rules` or its own nets."""

    session: str = Field(min_length=1, max_length=200)
    at: Number
    until: Number
    active: tuple[str, ...] = Field(max_length=100_000)
    rules: _Text | None = None


class CountApprovals(Payload):
    """The approvals asked since a moment, and what would have saved some."""

    since: datetime | None = None


class Begun(Answer):
    """The number of what was begun, on this connection."""

    job: int


class OfJob(Payload):
    """Something that was begun."""

    job: Number


class JobPart(Answer):
    """One further part, of the kind that was asked for; none of them when there are no more."""

    backtested: Backtested | None = None
    judged: Judged | None = None
    counted: Counted | None = None


BACKTEST = Method(
    "judging.backtest", "look", Backtest, Begun, "Judge recorded calls again by other rules."
)
WHAT_IF = Method(
    "judging.what_if", "look", WhatIf, Begun, "Judge the rest of a session as if nets were others."
)
APPROVALS = Method(
    "judging.approvals", "look", CountApprovals, Begun, "Count what approvals cost people."
)
NEXT = Method("judging.next", "look", OfJob, JobPart, "Wait for the next part of what was begun.")
STOP = Method("judging.end", "look", OfJob, Nothing, "End what was begun, finished or not.")

JUDGING_METHODS = (BACKTEST, WHAT_IF, APPROVALS, NEXT, STOP)
