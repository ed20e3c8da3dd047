"""What consoles ask a server. The names of fields are those of the hub's own methods."""

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

# What takes long at a server's journal: begun, then asked for part by part, and ended by whoever
# leaves.
#
# Rules come as texts: the files are on the operator's machine, and nets hold code that no wire
# carries.


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
    """Nothing is asked for in particular."""


class Listed(Answer):
    """The live sessions, in the order they were opened, each with the number of its last event.

    `steered` are those whose agents are reached by what is said to them, `as_asked` those whose calls run
    with the input they asked about or not at all.
    """

    sessions: tuple[tuple[str, int], ...]
    steered: tuple[str, ...] = ()
    as_asked: tuple[str, ...] = ()


class First(Payload):
    """So many of the requests that wait, at most."""

    most: Number = Field(default=FIRST, le=MOST_FIRST)


class Queue(Answer):
    """How many requests each live session has, and those that come first of all, in their order.

    These may be fewer than were asked for: an answer has room for so much.
    """

    waiting: tuple[tuple[str, int], ...]
    first: tuple[ApprovalState, ...]


class Subscribe(Payload):
    """Tell everything from now on. With `after` also what the journal has behind that cursor, first."""

    after: Number | None = None


class Subscribed(Answer):
    """Events come from behind this cursor on; streamed text only as it comes."""

    after: int


class Happened(Answer):
    """An event of the journal, or text on its way, as operators may see it."""

    event: JournalEvent | Streaming


class GrantAsked(Payload):
    """What an approval also lets pass from now on; see `GrantTerms`."""

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
    """Give a request this many seconds from now on; without a number it waits for ever."""

    approval_id: str = _ID
    seconds: float | None


class RaiseLimit(Payload):
    """Let a session cost this many US dollars, from its next model call on, for a `reason`."""

    session: str = _ID
    max_cost: float = Field(gt=0)
    reason: str | None = None


class Revoke(Payload):
    """End a grant."""

    session: str = _ID
    key: str = _ID


class Toggle(Payload):
    """Turn a net on, or turn it off for a `reason`, which may take several people; see `Hub.toggle_net`.

    With `seconds` it is on again after them.
    """

    session: str = _ID
    net: str = _ID
    active: bool
    reason: str | None = None
    seconds: float | None = None


class SetMode(Payload):
    """Enforce, or shadow for a `reason`; the rest is as for `net.toggle`."""

    session: str = _ID
    mode: Mode
    reason: str | None = None
    seconds: float | None = None


class OfChange(Payload):
    """The proposed change that is meant."""

    session: str = _ID
    change: str = _ID


class Send(Payload):
    """Say something to an agent."""

    session: str = _ID
    text: str
    mode: Literal["steer", "queue"] = "steer"


class Abort(Payload):
    """Stop what an agent is doing. It is told who does, as the server knows the token, then `reason`."""

    session: str = _ID
    reason: str = Field(default="", max_length=2000)


class Compact(Payload):
    """Have the conversation summed up."""

    session: str = _ID
    keep_last: Number | None = None
    instructions: str | None = None


class Start(Payload):
    """Start a session on the server, from what an agent file says; see the agent file's description."""

    spec: dict[str, JsonValue]


class GoOn(Payload):
    """Go on with a recorded session on the server, or from an event of it in a new one.

    Under less than its record says it takes a `reason` (G-67).
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
    """Events of a recorded session, behind event number `after`. A unique beginning of the id will do."""

    session: str = _ID
    after: Number = 0


class Events(Answer):
    """Some events, in order; `more` when further ones follow."""

    session: str
    events: tuple[JournalEvent, ...]
    more: bool


class StartedFrom(Answer):
    """A recorded session's whole id, what it was started from, and whether another journal says so."""

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
    """How many, by rule or tool and over time."""

    wanted: DecisionFilter
    by: GroupBy | None = None
    steps: int = Field(default=24, ge=1, le=1000)


class Filtered(Payload):
    """The decisions that are meant."""

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
