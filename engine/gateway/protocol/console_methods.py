"""Methods that consoles call on a server. Fields are named as in the hub's own methods."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field, JsonValue

from ...approvals.queue import FIRST
from ...backtest.source import Backtested, Counted, Judged
from ...gate.types import GrantScope, Mode
from ...history.decisions.counts import Counts, GroupBy, ShadowSummary
from ...history.decisions.filter import DecisionFilter
from ...history.decisions.reader import Decision, Mark, Part, Scan
from ...history.model.events import JournalEvent
from ...history.model.state import ApprovalState, SessionState, SessionSummary
from ...hub.hub import Nets, Outcome, Revealed, Streaming
from ...recording.explanation import ExplanationView
from .agent_methods import OfCall, OfSession
from .framing import Answer, Nothing, Number, Payload
from .method import Method, Said

# Long-running jobs on a server's journal: begun, then requested part by part; they end with the
# console's connection.
#
# Rules are sent as texts: the files are on the operator's machine, and nets hold code that no wire
# carries.


MOST_RULES = 900_000
"""Bytes of rules in one question, so that it fits into a message."""

_Text = dict[str, str]


class Backtest(Payload):
    """Judge one recorded session, those active since a moment, or all, by rules by file name."""

    rules: _Text = Field(min_length=1, max_length=1000)
    session: str | None = Field(default=None, min_length=1, max_length=200)
    since: datetime | None = None


class WhatIf(Payload):
    """Judge the calls of a session after event `at`, up to event `until`, by `rules` or its own nets."""

    session: str = Field(min_length=1, max_length=200)
    at: Number
    until: Number
    active: tuple[str, ...] = Field(max_length=100_000)
    rules: _Text | None = None


class CountApprovals(Payload):
    """Count the approvals requested since a moment, and changes that would have saved some."""

    since: datetime | None = None


class Begun(Answer):
    """The number of the job that was begun, on this connection."""

    job: int


class OfJob(Payload):
    """The number of a job."""

    job: Number


class JobPart(Answer):
    """The next part of a job, of the kind that was requested; empty when there are no more."""

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


_ID = Field(min_length=1, max_length=200)
MOST_FIRST = 200
"""Requests in one answer."""
MOST_EVENTS = 2000
"""Events in one answer."""
MOST_STATE = 16 << 20
"""Bytes of a session's state in one answer; a larger one is put together from its events."""
MOST_TEXT = 512 * 1024
"""Characters of events in one answer, but for a single longer one."""


class NoParams(Payload):
    """No parameters."""


class Listed(Answer):
    """The live sessions, in the order they were opened, each with the number of its last event.

    `steered` are those whose agents messages reach, `as_asked` those whose calls cannot run with an
    edited input.
    """

    sessions: tuple[tuple[str, int], ...]
    steered: tuple[str, ...] = ()
    as_asked: tuple[str, ...] = ()


class First(Payload):
    """Limit of the number of requests to list."""

    most: Number = Field(default=FIRST, le=MOST_FIRST)


class Queue(Answer):
    """The number of requests of each live session, and the first requests of the queue, in its order.

    These may be fewer than were asked for: the size of an answer is limited.
    """

    waiting: tuple[tuple[str, int], ...]
    first: tuple[ApprovalState, ...]


class Subscribe(Payload):
    """Subscribe to events. With `after`, starts with the journal's events after that cursor."""

    after: Number | None = None


class Subscribed(Answer):
    """Cursor after which events follow; streamed text is sent only as it comes."""

    after: int


class Happened(Answer):
    """An event of the journal, or streamed text, masked for operators."""

    event: JournalEvent | Streaming


class GrantAsked(Payload):
    """Grant that is given with an approval; see `GrantTerms`."""

    scope: GrantScope
    uses: int | None = None
    seconds: float | None = None
    subagents: bool = False


class Decide(Payload):
    """An operator's answer to the request that was shown, which `digest` says. See `Hub.decide`.

    With a `grant` it needs a `reason`, and a token of kind `administer`.
    """

    approval_id: str = _ID
    approved: bool
    digest: str = Field(min_length=1, max_length=200)
    reason: str | None = Field(default=None, max_length=10_000)
    input: dict[str, JsonValue] | None = None
    grant: GrantAsked | None = None
    stop: bool = False


class Reveal(Payload):
    """Show the masked texts of a request that may be more than secrets. See `Hub.reveal`."""

    approval_id: str = _ID


class Extend(Payload):
    """Deny a request only after this many seconds from now; without a number it has no deadline."""

    approval_id: str = _ID
    seconds: float | None


class RaiseLimit(Payload):
    """Raise the cost limit of a session, in US dollars, from its next model call on, for a `reason`."""

    session: str = _ID
    max_cost: float = Field(gt=0)
    reason: str | None = None


class Revoke(Payload):
    """End a grant."""

    session: str = _ID
    key: str = _ID


class Toggle(Payload):
    """Turn a net on, or off for a `reason`, which may need several operators; see `Hub.toggle_net`.

    With `seconds` it is turned on again after that time.
    """

    session: str = _ID
    net: str = _ID
    active: bool
    reason: str | None = None
    seconds: float | None = None


class SetMode(Payload):
    """Set enforce mode, or shadow mode for a `reason`; the rest is as for `net.toggle`."""

    session: str = _ID
    mode: Mode
    reason: str | None = None
    seconds: float | None = None


class OfChange(Payload):
    """The id of a proposed change."""

    session: str = _ID
    change: str = _ID


class Send(Payload):
    """Send a message to an agent."""

    session: str = _ID
    text: str
    mode: Literal["steer", "queue"] = "steer"


class Abort(Payload):
    """Stop the current work of an agent, which gets the operator's name, by the token, and `reason`."""

    session: str = _ID
    reason: str = Field(default="", max_length=2000)


class Compact(Payload):
    """Compact the conversation."""

    session: str = _ID
    keep_last: Number | None = None
    instructions: str | None = None


class Start(Payload):
    """Start a session on the server, from the content of an agent file; see its description."""

    spec: dict[str, JsonValue]


class GoOn(Payload):
    """Resume a recorded session on the server, or branch from an event of it into a new one.

    Under less than its record says it needs a `reason` (G-67).
    """

    session: str = _ID
    at: Number | None = Field(default=None, ge=1)
    nets: Nets = "recorded"
    task: str | None = None
    max_cost: float | None = Field(default=None, ge=0)
    reason: str | None = None


class Started(Answer):
    """The id of a session that was started."""

    session: str


class History(Payload):
    """Recorded sessions, newest first."""

    limit: int = Field(default=200, ge=1, le=10_000)


class Sessions(Answer):
    """Recorded sessions."""

    sessions: tuple[SessionSummary, ...]


class Recorded(Payload):
    """Events of a recorded session after event number `after`. A unique beginning of the id suffices."""

    session: str = _ID
    after: Number = 0


class Events(Answer):
    """Events, in order; `more` when further ones follow."""

    session: str
    events: tuple[JournalEvent, ...]
    more: bool


class StartedFrom(Answer):
    """A recorded session's whole id, its source, and whether it was imported."""

    session: str
    source: dict[str, JsonValue] | None
    imported: bool = False


class ScanDecisions(Payload):
    """See `DecisionReader.scan`."""

    wanted: DecisionFilter
    top: Mark | None = None
    bottom: Mark | None = None


class ReadDecisions(Payload):
    """The decisions of one part."""

    wanted: DecisionFilter
    part: Part


class Decisions(Answer):
    """Decisions, newest first."""

    decisions: tuple[Decision, ...]


class OneDecision(Payload):
    """The event of a decision."""

    session: str = _ID
    seq: Number = Field(ge=1)


class CountDecisions(Payload):
    """Count decisions by rule or tool, and over time."""

    wanted: DecisionFilter
    by: GroupBy | None = None
    steps: int = Field(default=24, ge=1, le=1000)


class Filtered(Payload):
    """A filter of decisions."""

    wanted: DecisionFilter


LISTED = Method("hub.listed", "look", NoParams, Listed, "The live sessions.")
QUEUE = Method("hub.queue", "look", First, Queue, "How much waits, and what comes first.")
SESSION = Method("hub.session", "look", OfSession, SessionState, "The state of a live session.")
SUBSCRIBE = Method("hub.subscribe", "look", Subscribe, Subscribed, "Be told of everything that happens.")
DECIDE = Method("approval.decide", "decide", Decide, Outcome, "Answer a request.")
REVEAL = Method(
    "approval.reveal", "decide", Reveal, Revealed, "Show what is masked and may be more than a secret."
)
EXTEND = Method("approval.extend", "decide", Extend, Outcome, "Let a request wait longer.")
REVOKE = Method("grant.revoke", "administer", Revoke, Outcome, "End a grant.")
TOGGLE = Method("net.toggle", "administer", Toggle, Outcome, "Switch a net of a session on or off.")
MODE = Method("session.mode", "administer", SetMode, Outcome, "Switch the mode of a session.")
CONFIRM_CHANGE = Method(
    "change.confirm", "administer", OfChange, Outcome, "Agree to a change that somebody proposed."
)
DROP_CHANGE = Method("change.drop", "administer", OfChange, Outcome, "Take a proposed change back.")
RAISE_LIMIT = Method("session.raise_limit", "administer", RaiseLimit, Outcome, "Let a session cost more.")
SEND = Method("session.send", "decide", Send, Nothing, "Say something to an agent.")
ABORT = Method("session.abort", "decide", Abort, Nothing, "Stop what an agent is doing.")
COMPACT = Method("session.compact", "decide", Compact, Outcome, "Have a conversation summed up.")
END = Method("session.end", "decide", OfSession, Nothing, "End a session.")
START = Method("session.start", "administer", Start, Started, "Start a session on the server.")
GO_ON = Method("session.go_on", "administer", GoOn, Started, "Go on with a recorded session.")
EXPLAIN_CALL = Method("call.explain", "look", OfCall, ExplanationView, "What the nets say of a call now.")
HISTORY = Method("history.sessions", "look", History, Sessions, "Recorded sessions, newest first.")
EVENTS = Method("history.events", "look", Recorded, Events, "Events of a recorded session.")
STARTED_FROM = Method(
    "history.started_from", "look", OfSession, StartedFrom, "What a session was started from."
)
SCAN = Method("decisions.scan", "look", ScanDecisions, Scan, "Where decisions stand.")
READ = Method("decisions.read", "look", ReadDecisions, Decisions, "Decisions, newest first.")
DECISION = Method("decisions.event", "look", OneDecision, JournalEvent, "One decision, whole.")
COUNT = Method("decisions.count", "look", CountDecisions, Counts, "How many decisions there are.")
SHADOW = Method(
    "decisions.shadow", "look", Filtered, ShadowSummary, "What enforce mode would have stopped."
)
HAPPENED = Said("hub.event", "operator", Happened, "Something happened.")

CONSOLE_METHODS = (
    LISTED,
    QUEUE,
    SESSION,
    SUBSCRIBE,
    DECIDE,
    REVEAL,
    EXTEND,
    REVOKE,
    TOGGLE,
    MODE,
    CONFIRM_CHANGE,
    DROP_CHANGE,
    RAISE_LIMIT,
    SEND,
    ABORT,
    COMPACT,
    END,
    START,
    GO_ON,
    EXPLAIN_CALL,
    HISTORY,
    EVENTS,
    STARTED_FROM,
    SCAN,
    READ,
    DECISION,
    COUNT,
    SHADOW,
    *JUDGING_METHODS,
)
