"""A hub behind a connection, as a console asks it: the same questions, the same answers.

Live sessions are mirrored here, so that a screen never waits for the wire to be painted. While the
connection is lost the screens show what was known last; nothing can be decided, and that is said.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, Self

from pydantic import JsonValue, ValidationError

from ..agents import KEEP_LAST
from ..explained import ExplanationView
from ..gate.types import GrantTerms, Mode
from ..history.decision_counts import Counts, GroupBy, ShadowSummary
from ..history.decision_filter import DecisionFilter
from ..history.decisions import Decision, Mark, Part, Scan
from ..history.errors import JournalError
from ..history.events import JournalEvent
from ..history.redaction import Redaction
from ..history.state import ApprovalState, SessionState, SessionSummary
from ..hub import HubEvent, Nets, Outcome, Subscription, UnknownSessionError
from .address import TOKEN, server_url
from .agent_methods import OfCall, OfSession
from .console_methods import (
    ABORT,
    COMPACT,
    COUNT,
    DECIDE,
    DECISION,
    END,
    EVENTS,
    EXPLAIN_CALL,
    EXTEND,
    GO_ON,
    HAPPENED,
    HISTORY,
    LISTED,
    MODE,
    READ,
    REVOKE,
    SCAN,
    SEND,
    SESSION,
    SHADOW,
    START,
    STARTED_FROM,
    SUBSCRIBE,
    TOGGLE,
    Abort,
    Compact,
    CountDecisions,
    Decide,
    Extend,
    Filtered,
    GoOn,
    GrantAsked,
    Happened,
    History,
    NoParams,
    OneDecision,
    ReadDecisions,
    Recorded,
    Revoke,
    ScanDecisions,
    Send,
    SetMode,
    Start,
    Subscribe,
    Toggle,
)
from .link import GatewayError, Link, RequestFailedError, UnreachableError
from .method import Method, ParamsT, ResultT
from .mirror import Mirror
from .places import operator_token_file
from .tokens import read_secret
from .wire import Code, Notice

PATIENCE = 3.0
"""Seconds for which an operator's action waits for a lost server before it is said to have failed."""
AGAIN = 1.0
"""Seconds between two attempts to find a lost server."""
CATCH_UP = 5.0
"""Seconds for which a question waits for events that are on their way."""

log = logging.getLogger(__name__)


class ConsoleClient:
    """The hub of the server at `url`, which is INTERLOCK_URL by default; `token` is an operator's.

    `open` first. `connected` tells about the connection whenever that changes.
    """

    spawn: object = None
    """A console says here where its agents run; these run on the server."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        connected: Callable[[bool], None] | None = None,
    ) -> None:
        secret = token or os.environ.get(TOKEN) or read_secret(operator_token_file())
        self.redaction = Redaction()
        self.connected = connected
        self.link = Link(
            server_url(url),
            secret,
            "/console",
            name="interlock console",
            tls=tls,
            told=self._told,
            came_back=self._come_back,
            lost=self._lost,
        )
        self._mirror = Mirror()
        self._moved = asyncio.Condition()
        self._subscriptions: list[Subscription] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._listed: tuple[str, ...] = ()
        self._closed = False

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> str:
        """Connect; the operator's name, as the server knows the token. Raises `GatewayError`."""
        welcome = await self.link.open()
        return welcome.name

    async def close(self) -> None:
        """End the connection. Nothing on the server ends with it."""
        self._closed = True
        for subscription in list(self._subscriptions):
            subscription.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.link.close()

    @property
    def database(self) -> Path:
        """What stands for the journal above the screens: where its server is."""
        return Path(self.link.url)

    # The connection

    async def _come_back(self) -> None:
        """Before anything else on a new connection: hear of everything from where we were."""
        await self.link.ask(SUBSCRIBE, Subscribe(after=self._mirror.cursor))
        listed = await self.link.ask(LISTED, NoParams())
        self._listed = tuple(session for session, _ in listed.sessions)
        self._mirror.keep(self._listed)
        for session, seq in listed.sessions:
            if self._mirror.lacks(session, seq):
                await self._fetch(session)
        if self.connected is not None:
            self.connected(True)

    def _lost(self) -> None:
        if not self._closed:
            if self.connected is not None:
                self.connected(False)
            self._start(self._look_for_it())

    async def _look_for_it(self) -> None:
        while not self._closed:
            try:
                await self.link.open()
            except UnreachableError:
                await asyncio.sleep(AGAIN)
            except GatewayError:
                log.exception("The server lets this console not in any more")
                return
            else:
                return

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _told(self, notice: Notice) -> None:
        if notice.method != HAPPENED.name:
            return
        try:
            event = Happened.model_validate(notice.params).event
        except ValidationError:
            log.exception("The server told something that makes no sense")
            return
        if isinstance(event, JournalEvent) and not self._mirror.take(event):
            self._start(self._fetch_missing(event.session))
        self._publish(event)

    def _publish(self, event: HubEvent) -> None:
        for subscription in self._subscriptions:
            subscription.put(event)
        self._start(self._wake())

    async def _wake(self) -> None:
        async with self._moved:
            self._moved.notify_all()

    async def _fetch_missing(self, session: str) -> None:
        with suppress(GatewayError):
            await self._fetch(session)
            await self._wake()

    async def _fetch(self, session: str) -> None:
        while True:
            try:
                state = await self.link.ask(SESSION, OfSession(session=session))
            except RequestFailedError as error:
                if error.code != Code.UNKNOWN:
                    raise
                self._mirror.forget(session)
                return
            if self._mirror.put(state):
                return

    def subscribe(self, limit: int | None = None) -> Subscription:
        """Everything that happens from now on. Close it when done."""
        subscription = Subscription(self._subscriptions.remove, limit)
        self._subscriptions.append(subscription)
        return subscription

    # Live sessions

    async def sessions(self) -> list[SessionState]:
        """The live sessions, in the order they were opened; those known last while nothing is heard."""
        try:
            listed = await self.link.ask(LISTED, NoParams())
        except UnreachableError:
            return [state for each in self._listed if (state := self._mirror.get(each)) is not None]
        self._listed = tuple(session for session, _ in listed.sessions)
        self._mirror.keep(self._listed)
        for session, seq in listed.sessions:
            await self._reach(session, seq)
        return [state for each in self._listed if (state := self._mirror.get(each)) is not None]

    async def _reach(self, session: str, seq: int) -> None:
        """Wait until the mirror has a session as far as the server has it."""
        if not self._mirror.lacks(session, seq):
            return
        try:
            async with asyncio.timeout(CATCH_UP), self._moved:
                await self._moved.wait_for(lambda: not self._mirror.lacks(session, seq))
        except TimeoutError:
            await self._fetch_missing(session)

    async def session(self, session_id: str) -> SessionState:
        """The state of a live session. Raises `UnknownSessionError`."""
        await self.sessions()
        state = self._mirror.get(session_id)
        if state is None:
            raise UnknownSessionError(f"No live session '{session_id}'")
        return state

    async def approvals(self) -> list[ApprovalState]:
        """Everything that waits for a person, longest first."""
        waiting = [a for state in await self.sessions() for a in state.approvals.values()]
        return sorted(waiting, key=lambda a: (a.since, a.id))

    async def explain(self, session_id: str, call_id: str) -> ExplanationView:
        """What a live session's nets say of one of its calls as things stand now."""
        return await self._ask(EXPLAIN_CALL, OfCall(session=session_id, call=call_id))

    # What operators do. The server knows by the token who does it; `by` is for hubs of this process.

    async def decide(
        self,
        approval_id: str,
        *,
        approved: bool,
        by: str = "",
        reason: str | None = None,
        input: dict[str, JsonValue] | None = None,  # noqa: A002 - the field's name on the wire
        digest: str | None = None,
        grant: GrantTerms | None = None,
        stop: bool = False,
    ) -> Outcome:
        """Answer the request of this `digest`; see `Hub.decide`.

        When the connection is lost before the answer comes it is asked again: a decision counts once, and
        the second answer says what was decided.
        """
        if digest is None:
            return Outcome(ok=False, message="Not decided: an answer needs what was shown")
        terms = None
        if grant is not None:
            terms = GrantAsked(scope=grant.scope, uses=grant.uses, seconds=grant.seconds)
        asked = Decide(
            approval_id=approval_id,
            approved=approved,
            digest=digest,
            reason=reason,
            input=input,
            grant=terms,
            stop=stop,
        )
        return await self._act("decided", DECIDE, asked)

    async def extend(self, approval_id: str, *, seconds: float | None, by: str = "") -> Outcome:
        """Give a request `seconds` from now on before it is denied by itself."""
        return await self._act("extended", EXTEND, Extend(approval_id=approval_id, seconds=seconds))

    async def revoke_grant(self, session_id: str, key: str, *, by: str = "") -> Outcome:
        """End a grant."""
        return await self._act("revoked", REVOKE, Revoke(session=session_id, key=key))

    async def toggle_net(self, session_id: str, net: str, active: bool, *, by: str = "") -> Outcome:
        """Switch a net of a session on or off."""
        return await self._act("switched", TOGGLE, Toggle(session=session_id, net=net, active=active))

    async def set_mode(self, session_id: str, mode: Mode, *, by: str = "") -> Outcome:
        """Enforce or shadow, from the session's next call on."""
        return await self._act("switched", MODE, SetMode(session=session_id, mode=mode))

    async def compact(
        self,
        session_id: str,
        *,
        by: str = "",
        keep_last: int = KEEP_LAST,
        instructions: str | None = None,
    ) -> Outcome:
        """Have the agent's model sum up what was said before the last messages."""
        asked = Compact(session=session_id, keep_last=keep_last, instructions=instructions)
        return await self._act("compacted", COMPACT, asked)

    async def send(
        self,
        session_id: str,
        text: str,
        *,
        by: str | None = None,
        mode: Literal["steer", "queue"] = "steer",
    ) -> None:
        """Say something to an agent. Raises `GatewayError` when it is not known to have been said."""
        await self._ask(SEND, Send(session=session_id, text=text, mode=mode), may_repeat=False)

    async def abort(self, session_id: str, reason: str = "") -> None:
        """Stop what the agent is doing."""
        await self._ask(ABORT, Abort(session=session_id, reason=reason))

    async def close_session(self, session_id: str, by: str = "") -> None:
        """End one session."""
        await self._ask(END, OfSession(session=session_id))

    async def start(self, spec: dict[str, JsonValue]) -> str:
        """Start a session on the server, from what an agent file says; its id."""
        return (await self._ask(START, Start(spec=spec), may_repeat=False)).session

    async def go_on(
        self,
        session_id: str,
        *,
        at: int | None = None,
        nets: Nets = "recorded",
        task: str | None = None,
        max_cost: float | None = None,
    ) -> str:
        """Go on with a recorded session on the server, or from an event in a new one; its id."""
        asked = GoOn(session=session_id, at=at, nets=nets, task=task, max_cost=max_cost)
        return (await self._ask(GO_ON, asked, may_repeat=False)).session

    # What was recorded

    async def history(self, limit: int = 200) -> list[SessionSummary]:
        """Recorded sessions, newest first, live ones included."""
        return list((await self._ask(HISTORY, History(limit=limit))).sessions)

    async def recorded(self, session_id: str) -> Sequence[JournalEvent]:
        """Every event of a recorded session. Raises `SessionNotFound`."""
        events: list[JournalEvent] = []
        while True:
            after = events[-1].seq if events else 0
            page = await self._ask(EVENTS, Recorded(session=session_id, after=after))
            events += page.events
            if not page.more:
                return events

    async def started_from(self, session_id: str) -> tuple[str, dict[str, JsonValue] | None]:
        """A recorded session's whole id, and what it was started from. Raises `SessionNotFound`."""
        found = await self._ask(STARTED_FROM, OfSession(session=session_id))
        return found.session, found.source

    async def scan_decisions(
        self,
        wanted: DecisionFilter,
        *,
        top: Mark | None = None,
        bottom: Mark | None = None,
        seconds: float = 0.05,
    ) -> Scan:
        """Find where decisions stand, newest first; the server takes the time it gives itself."""
        return await self._ask(SCAN, ScanDecisions(wanted=wanted, top=top, bottom=bottom))

    async def read_decisions(self, wanted: DecisionFilter, part: Part) -> list[Decision]:
        """The decisions of one part, newest first."""
        return list((await self._ask(READ, ReadDecisions(wanted=wanted, part=part))).decisions)

    async def decision_event(self, session_id: str, seq: int) -> JournalEvent:
        """The event of a decision, with its whole input and reason."""
        return await self._ask(DECISION, OneDecision(session=session_id, seq=seq))

    async def count_decisions(
        self, wanted: DecisionFilter, *, by: GroupBy | None = None, steps: int = 24
    ) -> Counts:
        """How many, by rule or tool and over time."""
        return await self._ask(COUNT, CountDecisions(wanted=wanted, by=by, steps=steps))

    async def shadow_summary(self, wanted: DecisionFilter) -> ShadowSummary:
        """What enforce mode would have stopped."""
        return await self._ask(SHADOW, Filtered(wanted=wanted))

    # Asking

    async def _act(self, done: str, method: Method[ParamsT, Outcome], asked: ParamsT) -> Outcome:
        """What an operator did; what went wrong with the connection is an outcome too."""
        try:
            return await self.link.request(method, asked, may_repeat=True, patience=PATIENCE)
        except UnreachableError as error:
            return Outcome(ok=False, message=f"Perhaps not {done}: {error}. Look before you try again")
        except GatewayError as error:
            return Outcome(ok=False, message=f"Not {done}: {error}")

    async def _ask(
        self, method: Method[ParamsT, ResultT], asked: ParamsT, *, may_repeat: bool = True
    ) -> ResultT:
        """Ask; raises what a hub of this process would raise, and `GatewayError` for the connection."""
        try:
            return await self.link.request(method, asked, may_repeat=may_repeat, patience=PATIENCE)
        except RequestFailedError as error:
            raise _as_hub_says(error) from error


def _as_hub_says(error: RequestFailedError) -> Exception:
    match error.code:
        case Code.UNKNOWN:
            return UnknownSessionError(str(error))
        case Code.UNRECORDED:
            return JournalError(str(error))
        case _:
            return error
