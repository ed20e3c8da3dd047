"""The hub's API, as consoles use it: a hub in this process, a server, or a journal's file.

Each operation is declared here once. `Hub` implements them. The gateway's server, its client and the
protocol's documentation are derived from the declarations, and so are the operations that a read-only
console rejects.
"""

# Annotations must be evaluated: the protocol's parameters are derived from them.

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    StrictBool,
    WithJsonSchema,
)

from ..agents import KEEP_LAST
from ..approvals.passkeys import KeyAnswer, NewKey
from ..approvals.request_order import Unread
from ..gate.types import GrantTerms, Mode
from ..history.decisions.counts import DecisionCounts, GroupBy, ShadowSummary
from ..history.decisions.filter import DecisionFilter
from ..history.decisions.precedents import Precedents
from ..history.decisions.reader import Decision, DecisionPage, ListPosition, Scan
from ..history.model.events import JournalEvent
from ..history.model.records import AppliedRules, FreezeRecord, JournalOutage
from ..history.model.state import ApprovalState, Origin, SessionState, SessionSummary
from ..history.redaction.hidden_text import RevealedText
from ..recording.explanation import ExplanationView
from ..recording.resume_checks import Nets
from ..sessions.registry import Spawn
from .events import Subscription
from .operations import Api, NotSent, local, query, remote

# Backtests are imported on first use, so that a process that only hosts sessions does not load them.
if TYPE_CHECKING:
    from ..backtest.answers import Backtested, Judged, Narrowed, Statistics, Suggested

LARGEST_NUMBER = 2**53
"""Limit of event numbers, cursors and jobs; a journal has no larger ones."""
MOST_RULES = 900_000
"""Maximum size of rules in one request, in bytes, so that it fits into a message."""
DEFAULT_LIMIT = 200
"""Default number of sessions in a list of recorded ones."""


def _check_size(rules: Mapping[str, str]) -> Mapping[str, str]:
    size = sum(len(text.encode()) for text in rules.values())
    if size > MOST_RULES:
        raise ValueError(
            f"These rules are {size:,} bytes, and a server takes {MOST_RULES:,}; name fewer files"
        )
    return rules


def _check_digest(digest: str | None) -> str:
    if digest is None:
        raise ValueError("an answer needs what was shown")
    return digest


Id: TypeAlias = Annotated[str, Field(min_length=1, max_length=200)]
Digest: TypeAlias = Annotated[
    Id | None,
    AfterValidator(_check_digest),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 200}),
]
"""Digest of a request as it was shown; every answer over the protocol has one."""
SessionId: TypeAlias = Annotated[Id, Field(alias="session")]
CallId: TypeAlias = Annotated[Id, Field(alias="call")]
ChangeId: TypeAlias = Annotated[Id, Field(alias="change")]
Number: TypeAlias = Annotated[int, Field(ge=0, le=LARGEST_NUMBER)]
EventNumber: TypeAlias = Annotated[int, Field(ge=1, le=LARGEST_NUMBER)]
RuleTexts: TypeAlias = Annotated[
    Mapping[str, str], Field(min_length=1, max_length=1000), AfterValidator(_check_size)
]
"""Texts of rules by file name, because the files are on the operator's machine and nets contain code."""
PageOrigin: TypeAlias = Annotated[str, Field(min_length=1, max_length=300)]
"""Origin of a page in a browser, such as `https://laptop.example:8738`."""
Operator: TypeAlias = Annotated[str, NotSent()]
"""Name of the operator who acts. A server gets it from the token."""


class Outcome(BaseModel):
    """Success of an operator's action, and the message to show.

    `needs_reason` says that it failed because a reason is needed and was not given.
    """

    model_config = ConfigDict(frozen=True)

    ok: bool
    message: str
    needs_reason: bool = False


class KeyRequest(Outcome):
    """Request to a browser to use a passkey: `options` for it, from the challenge `id`.

    Without options the operator gets a code from the server's terminal.
    """

    id: str = ""
    options: dict[str, JsonValue] | None = None


class PasskeyView(BaseModel):
    """A passkey that an operator enrolled, for pages of `origin`; how it was `confirmed`, and when."""

    model_config = ConfigDict(frozen=True)

    passkey: str
    operator: str
    name: str
    origin: str
    at: datetime
    confirmed: Literal["code", "key"]


class PasskeyList(BaseModel):
    """The valid passkeys. `faults` are lines of the key log that do not count."""

    model_config = ConfigDict(frozen=True)

    passkeys: tuple[PasskeyView, ...]
    faults: tuple[str, ...] = ()


class Revealed(Outcome):
    """Masked texts of a request that may be more than secrets, for the operator who decides on it."""

    texts: tuple[RevealedText, ...] = ()


ReplacedIn: TypeAlias = Literal["new", "all"]
"""The sessions in which rules are replaced: only those that begin from then on, or live ones as well."""


class ProposedRules(BaseModel):
    """Rules that operators have proposed to a server, which needs `people` operators to apply them.

    `to` says whether they also replace the rules of live sessions.
    """

    model_config = ConfigDict(frozen=True)

    files: dict[str, str]
    by: tuple[str, ...]
    people: int
    reason: str
    expires: datetime
    to: ReplacedIn = "new"


class RunningRules(BaseModel):
    """Rules files of a server by their names there, as it read them, and the mode of new sessions.

    `digest` identifies them in `rules.apply`. `applied` says who replaced them since the server started.
    `proposed` are rules that operators want instead and that still need a confirmation.
    """

    model_config = ConfigDict(frozen=True)

    files: dict[str, str]
    mode: Mode
    digest: str = ""
    applied: AppliedRules | None = None
    proposed: ProposedRules | None = None


def rules_digest(files: Mapping[str, str]) -> str:
    """Return the digest of rules files, over their names and texts."""
    return sha256(json.dumps(sorted(files.items())).encode()).hexdigest()


class HistoryApi(Api):
    """Recorded sessions. All operations raise `JournalError` if the journal cannot be read."""

    @remote("history.sessions")
    async def history(
        self, limit: Annotated[int, Field(ge=1, le=10_000)] = DEFAULT_LIMIT
    ) -> list[SessionSummary]:
        """List recorded sessions, newest first, live ones included."""
        ...

    @query
    async def recorded(self, session_id: str) -> Sequence[JournalEvent]:
        """Return every event of a recorded session, in order; a unique prefix of the id suffices.

        Raises `SessionNotFound` for an unknown or ambiguous id.
        """
        ...


class DecisionApi(Api):
    """Recorded decisions, and what they would be under other rules.

    All operations raise `JournalError` if the journal cannot be read. Long operations answer in parts;
    closing the generator ends the work.
    """

    @remote("decisions.scan")
    async def scan_decisions(
        self,
        criteria: DecisionFilter,
        *,
        top: ListPosition | None = None,
        bottom: ListPosition | None = None,
        seconds: Annotated[float, NotSent()] = 0.05,
    ) -> Scan:
        """Find the pages of a list of decisions, newest first, between two positions."""
        ...

    @remote("decisions.read")
    async def read_decisions(self, criteria: DecisionFilter, part: DecisionPage) -> list[Decision]:
        """Read the decisions of one page of a list, newest first."""
        ...

    @remote("decisions.event")
    async def decision_event(self, session_id: SessionId, seq: EventNumber) -> JournalEvent:
        """Read the event of a decision, with its whole input and reason."""
        ...

    @remote("decisions.count")
    async def count_decisions(
        self,
        criteria: DecisionFilter,
        *,
        by: GroupBy | None = None,
        steps: Annotated[int, Field(ge=1, le=1000)] = 24,
    ) -> DecisionCounts:
        """Count decisions, by rule or tool, and over time in `steps` steps."""
        ...

    @remote("decisions.shadow")
    async def shadow_summary(self, criteria: DecisionFilter) -> ShadowSummary:
        """Summarise the calls in shadow mode that enforce mode would have stopped."""
        ...

    @remote("backtest.run", may_repeat=False)
    def backtest(
        self,
        rules: RuleTexts,
        *,
        session: Id | None = None,
        since: datetime | None = None,
    ) -> "AsyncGenerator[Backtested, None]":
        """Decide recorded calls again under other rules: of one session, of those since a time, or all.

        Raises `ValueError` for rules that do not compile and for a subagent's session, and
        `SessionNotFound`.
        """
        ...

    @remote("backtest.what_if", may_repeat=False)
    def what_if(
        self,
        session_id: SessionId,
        at: Number,
        *,
        until: Number,
        active: Annotated[Sequence[str], Field(max_length=100_000)],
        rules: RuleTexts | None = None,
    ) -> "AsyncGenerator[Judged, None]":
        """Decide the calls of a session after event `at`, up to event `until`, again under other nets.

        These are the nets of `rules`, by default the session's own; exactly those in `active` are on.

        Raises `ValueError` for rules that do not compile, `NetError` for unknown nets, `FoldError` and
        `SessionNotFound`.
        """
        ...

    @remote("approvals.statistics", may_repeat=False)
    def approval_statistics(self, since: datetime | None = None) -> "AsyncGenerator[Statistics, None]":
        """Count approvals requested since a time and their effort, then changes that would save some."""
        ...

    @remote("backtest.suggest", may_repeat=False)
    def suggest_rules(
        self, rules: RuleTexts, *, since: datetime | None = None
    ) -> "AsyncGenerator[Suggested, None]":
        """Suggest changes of rules based on the recorded calls since a time, or on all.

        Nothing is applied. No suggestion allows a call that operators denied, or loosens a rule with
        `risk high`, `by N` or `no grants`.

        Raises `ValueError` for rules that do not compile.
        """
        ...

    @remote("backtest.narrow", may_repeat=False)
    def narrow_rule(
        self,
        rules: RuleTexts,
        *,
        file: Id,
        line: EventNumber,
        when: Annotated[str, Field(min_length=1, max_length=10_000)],
        since: datetime | None = None,
    ) -> "AsyncGenerator[Narrowed, None]":
        """Judge recorded calls as if the approval rule at a `line` had a further condition.

        Nothing is applied. Calls since a time are counted, or all. Calls that operators denied and that
        would now pass are listed, whatever their time.

        Raises `ValueError` for rules that do not compile, for an invalid condition, and for a line
        without an approval rule that may be loosened.
        """
        ...


class HubApi(HistoryApi, DecisionApi):
    """The whole API. Operations on a live session raise `UnknownSessionError` for any other session."""

    @property
    @query
    def location(self) -> str:
        """Short text of the location: the journal's file, or the server's address."""
        ...

    @property
    @query
    def server(self) -> str:
        """Address of the server on which sessions continue without this process; empty for none."""
        ...

    @local
    def spawn_in(self, spawn: Spawn) -> None:
        """Start the runs of agents in this process with `spawn` from now on."""
        ...

    @query
    def subscribe(self, limit: int | None = None) -> Subscription:
        """Subscribe to all events from now on, at most `limit` of them waiting; close it when done."""
        ...

    # State

    @query
    async def sessions(self) -> list[SessionState]:
        """Return the live sessions, in the order in which they were opened."""
        ...

    @query
    async def session(self, session_id: str) -> SessionState:
        """Return the state of a live session."""
        ...

    @query
    async def approvals(self) -> list[ApprovalState]:
        """Return all open approval requests, oldest first, without those counted in `unread`."""
        ...

    @query
    def unread(self) -> Unread:
        """Return how many live sessions and requests of a server are not loaded yet."""
        ...

    @query
    def groups_of(self, name: str) -> tuple[str, ...]:
        """Return the groups of the operator of this console, by their name."""
        ...

    @query
    def steers(self, session_id: str) -> bool:
        """Return whether messages to a live session reach its agent."""
        ...

    @query
    def server_of(self, session_id: str) -> str | None:
        """Return the other server that owns a live session, by URL or name; `None` for the one asked."""
        ...

    @query
    def takes_edits(self, session_id: str) -> bool:
        """Return whether a call of a live session can run with an edited input."""
        ...

    @remote("call.explain")
    async def explain(self, session_id: SessionId, call_id: CallId) -> ExplanationView:
        """Explain how a live session's nets decide one of its calls now.

        Raises `LookupError` for a call that the session has not made.
        """
        ...

    @remote("history.origin")
    async def origin(self, session_id: SessionId) -> Origin:
        """Return what a recorded session was started from; a unique prefix of its id suffices.

        Raises `SessionNotFound`.
        """
        ...

    # Approval requests

    @remote("approval.decide", "decide", done="decided")
    async def decide(
        self,
        approval_id: Id,
        *,
        approved: StrictBool,
        by: Operator,
        reason: Annotated[str, Field(max_length=10_000)] | None = None,
        input: dict[str, JsonValue] | None = None,  # noqa: A002 - the field's name on the wire
        digest: Digest,
        grant: GrantTerms | None = None,
        stop: StrictBool = False,
        passkey: KeyAnswer | None = None,
    ) -> Outcome:
        """Answer an approval request.

        The first answer counts; a later one gets it as the reply. `digest` is that of the request as
        shown: an answer with another digest does not count. `input` replaces the call's input. An
        approval with a `grant` also allows later calls, and needs a `reason`, which is recorded with it,
        and a token of kind `administer`. A denial with `stop` also stops the agent. If several people
        must approve, the outcome says how many are missing. If the rule requires a passkey, an approval
        counts only with `passkey`, which answers the challenge of `passkey.challenge` (G-105).
        """
        ...

    @remote("approval.take_back", "decide", done="taken back")
    async def take_back(self, approval_id: Id, *, by: Operator) -> Outcome:
        """Take back an approval of high risk whose call is not released yet; all must approve again."""
        ...

    @remote("approval.reveal", "decide", done="shown")
    async def reveal(self, approval_id: Id, *, by: Operator) -> Revealed:
        """Show the masked texts of a request that may be more than secrets.

        It is recorded that the operator saw them. An operator who has not cannot approve the request.
        """
        ...

    @remote("approval.precedents")
    async def precedents(self, approval_id: Id) -> Precedents:
        """Find earlier calls like that of an open request: the decisions on them, and what is new in it.

        Decisions on calls of the same rule with the same input are counted, in the whole journal. The
        nearest earlier call is the most similar one among the latest of the same rule and tool.

        Raises `LookupError` for a request that is not open, and `JournalError`.
        """
        ...

    @remote("approval.extend", "decide", done="extended")
    async def extend(self, approval_id: Id, *, seconds: float | None, by: Operator) -> Outcome:
        """Set a request's deadline to this many seconds from now; without a number it has none."""
        ...

    @remote("approval.claim", "decide", done="claimed")
    async def claim(self, approval_id: Id, *, by: Operator) -> Outcome:
        """Claim a request: everybody sees who handles it, and must confirm before deciding it.

        The claim ends with the claimer's connection, and after ten minutes.
        """
        ...

    @remote("approval.unclaim", "decide", done="given up")
    async def unclaim(self, approval_id: Id, *, by: Operator) -> Outcome:
        """Give up one's own claim on a request."""
        ...

    @remote("approval.comment", "decide", done="said", may_repeat=False)
    async def comment(
        self,
        approval_id: Id,
        text: Annotated[str, Field(max_length=2000)],
        *,
        by: Operator,
        to: Annotated[str, Field(max_length=64)] | None = None,
    ) -> Outcome:
        """Comment on a request, in its session's record; `to` is a person who is asked to look at it."""
        ...

    @remote("approval.reading", "decide")
    async def note_reading(self, approval_id: Id, reading: StrictBool, *, by: Operator) -> None:
        """Show others for a minute that the operator has a request on screen, or that it no longer has.

        This is not recorded. For each console only its last report counts.
        """
        ...

    # Passkeys

    @query
    def key_link(self, approval_id: str) -> str | None:
        """Return the page where a request is approved with a passkey; `None` if no address is known."""
        ...

    @remote("passkey.list")
    async def passkeys(self) -> PasskeyList:
        """List the passkeys that operators have enrolled, oldest first."""
        ...

    @remote("passkey.challenge", "decide")
    async def challenge_key(
        self, approval_id: Id, *, digest: Digest, origin: PageOrigin, by: Operator
    ) -> KeyRequest:
        """Request a challenge that the operator's passkey signs to approve what was shown.

        The `options` are those of a browser's `navigator.credentials.get`. The challenge is valid once,
        for a request with this `digest`, on a page of this `origin`, and for five minutes.
        """
        ...

    @remote("passkey.begin", "decide", may_repeat=False)
    async def begin_key(self, *, origin: PageOrigin, by: Operator) -> KeyRequest:
        """Begin to enroll a passkey: the options of a browser's `navigator.credentials.create`."""
        ...

    @remote("passkey.register", "decide", may_repeat=False)
    async def register_key(self, key: NewKey, *, by: Operator) -> KeyRequest:
        """Accept a passkey that a browser created. It counts once it is confirmed.

        An operator's first one is confirmed by a code, which is shown in the terminal of the process that
        writes the journal, each further one by an earlier one: then there are `options`.
        """
        ...

    @remote("passkey.confirm", "decide", done="enrolled", may_repeat=False)
    async def confirm_key(
        self,
        key_id: Id,
        *,
        code: Annotated[str, Field(max_length=40)] = "",
        passkey: KeyAnswer | None = None,
        by: Operator,
    ) -> Outcome:
        """Confirm a created passkey, by its code or an earlier passkey: from then on it counts."""
        ...

    @remote("passkey.remove", "decide", done="removed", may_repeat=False)
    async def remove_key(
        self, passkey: Annotated[str, Field(max_length=2000)], *, by: Operator
    ) -> Outcome:
        """Remove one's own passkey; approvals that it gave to open requests no longer count."""
        ...

    # Rules of a session

    @remote("grant.revoke", "administer", done="revoked")
    async def revoke_grant(self, session_id: SessionId, key: Id, *, by: Operator) -> Outcome:
        """End a grant: calls that it would have allowed need approval again."""
        ...

    @remote("net.toggle", "administer", done="switched", may_repeat=False)
    async def toggle_net(
        self,
        session_id: SessionId,
        net: Id,
        active: StrictBool,
        *,
        by: Operator,
        reason: str | None = None,
        seconds: float | None = None,
    ) -> Outcome:
        """Switch a net of a session on, switch it off for a `reason`, or propose that (G-67).

        With `seconds` it is off for that time only. If its rule needs approval by several people, says
        `no grants` or has a high risk, this needs as many other people as the rule says: the first
        proposes, the others confirm. Open requests stay open.
        """
        ...

    @remote("session.set_mode", "administer", done="switched", may_repeat=False)
    async def set_mode(
        self,
        session_id: SessionId,
        mode: Mode,
        *,
        by: Operator,
        reason: str | None = None,
        seconds: float | None = None,
    ) -> Outcome:
        """Set enforce mode, or shadow mode for a `reason`, from the session's next call on.

        With `seconds` it is in shadow mode for that time only. Shadow mode needs as many people as the
        active net that needs most; otherwise it works like `net.toggle`.
        """
        ...

    @remote("change.confirm", "administer", done="confirmed")
    async def confirm_change(
        self, session_id: SessionId, change_id: ChangeId, *, by: Operator
    ) -> Outcome:
        """Confirm a proposed change, which is made with the last confirmation that it needs (G-67)."""
        ...

    @remote("change.drop", "administer", done="taken back")
    async def drop_change(self, session_id: SessionId, change_id: ChangeId, *, by: Operator) -> Outcome:
        """Take a proposed change back."""
        ...

    # Agents

    @query
    def current_freeze(self) -> FreezeRecord | None:
        """Return the freeze of all agents in force; `None` if there is none."""
        ...

    @query
    def current_outage(self) -> JournalOutage | None:
        """The outage in which nothing can be recorded and nothing is decided; `None` in normal times."""
        ...

    @remote("agents.freeze", "decide", done="frozen")
    async def freeze(
        self, *, by: Operator, reason: Annotated[str, Field(max_length=2000)] = ""
    ) -> Outcome:
        """Freeze all agents: every new call waits before it is judged, and nothing is lost.

        Calls that are decided run on. Answers to requests are recorded, and their calls continue once the
        freeze is lifted; deadlines of requests continue. The freeze survives a restart.
        """
        ...

    @remote("agents.lift", "administer", done="lifted", may_repeat=False)
    async def lift_freeze(
        self, *, by: Operator, reason: Annotated[str, Field(max_length=2000)]
    ) -> Outcome:
        """Lift the freeze of all agents for a `reason`: waiting calls are judged and continue."""
        ...

    @remote("session.raise_limit", "administer", done="raised", may_repeat=False)
    async def raise_limit(
        self,
        session_id: SessionId,
        max_cost: Annotated[float, Field(gt=0)],
        *,
        by: Operator,
        reason: str | None = None,
    ) -> Outcome:
        """Raise the cost limit of a session, in US dollars, from its next model call on, for a `reason`.

        A session that has stopped at its limit continues with the next message.
        """
        ...

    @remote("session.accept_loss", "decide", done="accepted", may_repeat=False)
    async def accept_loss(
        self,
        session_id: SessionId,
        *,
        by: Operator,
        reason: Annotated[str, Field(min_length=1, max_length=2000)],
    ) -> Outcome:
        """Accept, for a `reason`, that the database lost acknowledged events of a session that diverged.

        The session ends with the events that the database has, and can be resumed. Its record says who
        accepted the loss.
        """
        ...

    @remote("session.compact", "decide", done="compacted", waits=True)
    async def compact(
        self,
        session_id: SessionId,
        *,
        by: Operator,
        keep_last: Number = KEEP_LAST,
        instructions: str | None = None,
    ) -> Outcome:
        """Have the agent's model summarize the conversation up to its last messages.

        The record keeps everything, the nets stay as they are. The answer comes when it is done;
        `session.abort` stops it.

        Raises `ExternalSessionError`.
        """
        ...

    @remote("session.send", "decide", may_repeat=False)
    async def send(
        self,
        session_id: SessionId,
        text: str,
        *,
        by: Annotated[str | None, NotSent()] = None,
        mode: Literal["steer", "queue"] = "steer",
    ) -> None:
        """Send a message to an agent: it starts an idle one, and steers or is queued for a working one.

        The message is recorded when the answer comes, so that it is not lost if the host dies.

        Raises `ExternalSessionError`, and as `Sending.send` if it was not accepted.
        """
        ...

    @remote("session.abort", "decide")
    async def abort(
        self,
        session_id: SessionId,
        reason: Annotated[str, Field(max_length=2000)] = "",
        *,
        by: Annotated[str | None, NotSent()] = None,
    ) -> None:
        """Stop the current work of an agent, which is told the operator's name and the `reason`.

        The session stays open. Messages that waited are withdrawn. For an external agent the calls that
        wait are blocked; nothing else happens if its program accepts no messages.

        Raises `JournalError` if that could not be recorded.
        """
        ...

    @remote("session.end", "decide")
    async def close_session(self, session_id: SessionId, by: Operator) -> None:
        """End a session: stop its agent, withdraw its requests, record who ended it. It can be resumed.

        Raises `UnknownSessionError` also for a session that is being closed, and `JournalError` if its
        end cannot be recorded: it then stays open.
        """
        ...


class AgentStarter(Api):
    """Starting of agents on a server, and the server's rules for them.

    Operations raise `ValueError` for an invalid description.
    """

    @remote("rules.running", "look")
    async def running_rules(self) -> RunningRules:
        """Return the server's own rules, by which new sessions are judged.

        Raises `ValueError` if they do not fit into an answer.
        """
        ...

    @remote("rules.apply", "administer", done="applied", may_repeat=False)
    async def apply_rules(
        self,
        files: RuleTexts,
        *,
        by: Operator,
        against: Id,
        reason: str | None = None,
        to: ReplacedIn = "new",
    ) -> Outcome:
        """Replace the server's rules for sessions that begin from now on, or propose or confirm that.

        With `to="all"` the rules are also replaced in live sessions: unchanged nets keep their markings
        there, others start fresh. A session in which this would loosen more than those who agreed may
        loosen keeps its rules.

        `against` is the digest of the running rules that `files` were compared with. A file replaces a
        running one with the same name, whatever its directory. Loosening rules needs a `reason` (G-67).
        If one of them needs approval by several people, says `no grants` or has a high risk, it also
        needs one operator more than its rule says: the first proposes, the others apply the same files.
        """
        ...

    @remote("rules.drop", "administer", done="taken back")
    async def drop_rules(self, *, by: Operator) -> Outcome:
        """Take proposed rules back."""
        ...

    @remote("session.start", "administer", may_repeat=False)
    async def start(self, spec: dict[str, JsonValue], *, by: Operator) -> str:
        """Start a session on the server from the content of an agent file; the result is its id."""
        ...

    @remote("history.resume", "administer", may_repeat=False)
    async def resume(
        self,
        session_id: SessionId,
        *,
        by: Operator,
        at: EventNumber | None = None,
        nets: Nets = "recorded",
        task: str | None = None,
        max_cost: Annotated[float, Field(ge=0)] | None = None,
        reason: str | None = None,
    ) -> str:
        """Resume a recorded session on the server, or branch from its event `at` into a new session.

        The result is the id of the live session. Resuming with fewer restrictions than recorded needs a
        `reason` (G-67).
        """
        ...
