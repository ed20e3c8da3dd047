"""A hub on a database that other servers write, too: one queue, whichever server a console is at.

Sessions of other servers are shown from the journal, and taken over when their server has ended.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from ...approvals.policy import ApprovalPolicy, Credential
from ...approvals.request_order import longest_first
from ...backtest.rules_compiler import Language
from ...history.database.lanes import lane_of
from ...history.database.location import Location
from ...history.errors import JournalDisturbed, JournalError, SessionElsewhere, SessionNotFound
from ...history.fold.flow_steps import DIED
from ...history.journal.journal import Journal
from ...history.model.events import JournalEvent, SessionStatus
from ...history.model.positions import Positions
from ...history.model.records import FreezeRecord
from ...history.model.state import ApprovalState, SessionState, SessionSummary
from ...history.model.times import to_ms
from ...history.postgres.bell import Bell
from ...history.postgres.durability import durability
from ...history.postgres.servers.lease import ServerLease
from ...history.postgres.servers.listing import last_events, list_servers
from ...history.postgres.servers.outage import Outage
from ...history.redaction.redaction import Redaction
from ...hub.api import Outcome
from ...hub.events import Streaming
from ...hub.freeze_api import NOBODY
from ...hub.hub import ExternalAgent, Hub, SessionConfig
from ...hub.request_api import PREFIX as REQUESTS
from ...recording.resume_checks import ResumeError
from ...recording.session_end import ENDED, end_session_left_open
from ...sessions.external import Driver
from ...sessions.hosted import HostedSession
from .accepted_loss import record_acceptance
from .forwarding_hub import ANSWER_SECONDS, EVERY, HAND_OVER, NEXT_OWNER, ForwardingHub, result_of
from .frozen_servers import FrozenServers

AT_ONCE = 100
"""Sessions of ended servers that are taken over at once."""
READ_AT_ONCE = 8
"""Of these, sessions whose records are read at a time."""
HOSTED = ("root", "branch", "flow")
"""Kinds of sessions that Interlock hosts, which go on at the server that takes them over."""
CATCH_UP_SECONDS = 2.0
"""Time that an agent's session waits for what operators asked of it while it ran at no server."""
TIDY_SECONDS = 600.0
"""Time between two removals of what counts no longer: answered acts, used limits."""
DEAF = (
    "the database does not pass notifications on, as behind a pooler in transaction mode: what happens "
    f"at other servers is seen within {EVERY:g} s, not at once"
)
HEARS = "the database passes notifications on again"
DRAIN_SECONDS = 30.0
"""Time that tools get to come to their end before a server that ends hands its sessions over."""
UNWRITTEN = (
    "the ends of %d sessions may not be recorded (%s). Everything that was acknowledged is recorded; "
    "another server, or this one when it starts again, ends these sessions: %s"
)
MOST_NAMED = 20
"""Number of these sessions that the message names at most."""
BEHIND = "a failed write of session '{}' was recorded after all: it is resumed from its record"
STOPPED = "session '{}' stopped because a step could not be recorded: it is resumed from its record"

log = logging.getLogger(__name__)


class SharedHub(ForwardingHub):
    """A hub whose journal is in a database. `share` begins to follow the other servers."""

    _not_kept = "but the other servers cannot be told: theirs are not frozen until the database answers"

    def __init__(self, journal: Journal, **options: Any) -> None:
        assert isinstance(journal.lock, ServerLease)
        # Before it reads the log of freezes: one that it does not find there waits for this server.
        journal.lock.say_decides()
        super().__init__(journal, **options)
        self._frozen_servers = FrozenServers(self._lease, self._acts)
        self._rung = asyncio.Event()
        self._following: asyncio.Task[None] | None = None
        self._outage = Outage()
        self._orphans_due = 0.0
        self._left_open: dict[str, asyncio.Event] = {}
        self._catching_up = set[str]()
        self._tidy_due = 0.0
        self.taken_over: Callable[[SessionSummary], object] = _ignore
        """Hears of each session that this server took over, with its line from before.

        Of one that Interlock hosts, `continued` has to be told once it goes on, or cannot: until then
        another server takes it over if this one ends.
        """
        self.ended_with_server: Callable[[str], object] = _ignore
        """Hears of each session that ended only as its server did, by its id: anybody may resume it."""
        self.begun_anew: Callable[[str], object] = _ignore
        """Called with the id of each session that is about to be resumed from its record."""
        self.warn_operators: Callable[[str], object] = _ignore
        """Hears of what whoever runs the server should mend."""
        self._was_deaf = False
        self._ends = False
        self._leaves = asyncio.Event()
        self._reported_newer: frozenset[str] = frozenset()
        self._reported_diverged: frozenset[str] = frozenset()
        self._unreleased = set[str]()
        self._stopped_after: dict[str, int] = {}

    async def share(self) -> None:
        """Follow the other servers from now on, after a first look. Raises `JournalError`."""
        loop = asyncio.get_running_loop()

        def rung() -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._rung.set)

        def servers_ended() -> None:
            self._orphans_due = 0.0
            rung()

        self._journal.on_servers_ended = servers_ended
        self._bell = Bell(self._lease.location, rung)
        await self._look()
        self._following = loop.create_task(self._follow(), name="other servers")

    def durability(self) -> list[str]:
        """Settings of the database under which acknowledged events can be lost. Raises `JournalError`."""
        return durability(self._lease.location)

    async def other_servers(self) -> list[str]:
        """Return the URLs, else the names, of the other servers that run. Raises `JournalError`."""
        servers = await asyncio.to_thread(list_servers, self._lease.location)
        alive = (each for each in servers if each.ended is None and each.id != self._lease.id)
        return [each.url or each.name for each in alive]

    async def lost(self) -> None:
        while (problem := self._journal.disturbed) is None:  # noqa: ASYNC110 - a thread notes it
            await asyncio.sleep(EVERY)
        raise JournalDisturbed(problem)

    async def close(self) -> None:
        outage, live = self.current_outage(), [each.id for each in self._live]
        hands_over = await self._drain()
        if self._following is not None:
            self._following.cancel()
            with suppress(asyncio.CancelledError):
                await self._following
        for each in list(self._acting.values()):
            each.cancel()
        await self._stop_diverged()  # their ends could not be recorded
        self._journal.hurry()
        if hands_over:
            await asyncio.to_thread(self._journal.hand_over)
            self._ring()
        try:
            await super().close()
        except (SessionElsewhere, JournalDisturbed) as error:
            if isinstance(error, JournalDisturbed) and self._lease.holds() and not hands_over:
                raise
            # What goes on at other servers is not this one's to end.
            log.log(logging.INFO if hands_over else logging.WARNING, "%s", error)
        finally:
            if self._bell is not None:
                self._bell.ring()
                await asyncio.to_thread(self._bell.close, silent=self._lease.silence is not None)
            if outage is not None and live:
                log.warning(UNWRITTEN, len(live), outage.reason, ", ".join(live[:MOST_NAMED]))

    async def _drain(self) -> bool:
        """Bring what runs here to where another server can go on; false where there is surely none.

        Nothing is decided any more. Tools that run come to their end, for a time, as do the steps that
        flows are at; calls of external agents run on. Meanwhile what others ask of sessions here is done.
        What was asked is asked again at another server, and no session is closed.
        """
        if self._journal.disturbed is not None:
            return False
        try:
            if (outage := self.current_outage()) is not None:
                raise JournalError(outage.reason)
            servers = await asyncio.to_thread(list_servers, self._lease.location)
        except JournalError as error:
            # What is left open is taken by another server, or by the next one; what is closed is over.
            self._journal.hurry()
            log.warning("it cannot be found out whether other servers run: %s", error)
        else:
            if all(each.ended is not None or each.id == self._lease.id for each in servers):
                return False
        self._ends = True
        self._live.freeze.hold()
        self._live.finish_steps()
        await self._live.hand_over()
        if tools := self._live.at_work():
            more = f" and {len(tools) - 3} more" if len(tools) > 3 else ""
            self.say_wait(f"waiting up to {DRAIN_SECONDS:g} s for {', '.join(tools[:3])}{more}")
        until = time.monotonic() + DRAIN_SECONDS
        while self._live.at_work() and time.monotonic() < until and not self._leaves.is_set():
            with suppress(TimeoutError):  # the sessions say nothing of it
                await asyncio.wait_for(self._leaves.wait(), EVERY / 10)
        await self._live.begin_no_more()
        return True

    def leave_now(self) -> None:
        self._leaves.set()

    # Following

    async def _follow(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(EVERY):
                    await self._rung.wait()
            self._rung.clear()
            try:
                await self._look()
            except JournalError as error:
                if self._outage.begins(error):
                    log.warning("the other servers cannot be followed: %s", error)
            except Exception as error:
                # One fault must not make this server blind to a freeze, or to what operators ask of it.
                if self._outage.begins(error):
                    log.exception("what other servers did was not followed")
            else:
                if self._outage.is_over():
                    log.warning("the other servers are followed again")
            if self._bell is not None and self._bell.deaf != self._was_deaf:
                self._was_deaf = self._bell.deaf
                self.warn_operators(DEAF if self._was_deaf else HEARS)

    async def _look(self) -> None:
        """Look at what may be new, what somebody waits for first. Raises `JournalError`."""
        async with self._looked:
            self._looked.notify_all()
        blind: JournalError | None = None
        try:
            await self.follow_freeze()
        except JournalError as error:  # whoever may not read that log can still do the rest
            blind = error
        await self._begin_acts()
        await self._stop_diverged()
        await self._check_tokens()
        await self._peers.look(self._tell)
        for hosted in self._live:
            self._peers.forget(hosted.id)
        await self._compare_unsure()
        await self._resume_stopped()
        if time.monotonic() >= self._orphans_due and self._lease.holds() and not self._ends:
            self._orphans_due = time.monotonic() + self._lease.seconds / 4
            await self.take_over()
        if time.monotonic() >= self._tidy_due:
            self._tidy_due = time.monotonic() + TIDY_SECONDS
            await self._tidy()
        if blind is not None:
            raise blind

    async def _begin_acts(self) -> None:
        """Begin with what others ask of sessions here. Raises `JournalError`.

        What they ask of a session that is being taken over waits until its end is recorded.
        """
        left_open = [each for each in self._left_open if each not in self._catching_up]
        for act in await asyncio.to_thread(self._acts.take, NEXT_OWNER, left_open):
            name = f"act on {act.session}"
            self._acting[act.id] = asyncio.get_running_loop().create_task(self._perform(act), name=name)

    async def _catch_up(self, session: str) -> None:
        """Do what was asked of a session while it ran at no server, before its agent continues."""
        self._catching_up.add(session)
        try:
            await self._begin_acts()
        except JournalError as error:
            log.warning("what was asked of session '%s' is done later: %s", session, error)
        finally:
            self._catching_up.discard(session)
        acting = [each for each in self._acting.values() if each.get_name() == f"act on {session}"]
        if acting:
            await asyncio.wait(acting, timeout=CATCH_UP_SECONDS)

    async def _compare_unsure(self) -> None:
        """Resume from their records the sessions of which more is recorded than this server knows.

        A write that failed for want of an answer may be recorded later, for example when a stopped
        database continues. Raises `JournalError`.
        """
        if self._ends or not self._lease.holds():
            return
        for session in list(self._unreleased):
            if session in self._live:  # an agent has resumed it here since
                self._unreleased.discard(session)
            else:
                await self._release(session)
                self._orphans_due = 0.0
        unsure = [each for each in self._live if each.ledger.is_unsure and not each.ledger.is_behind]
        if unsure:
            ids = [each.id for each in unsure]
            last = await asyncio.to_thread(last_events, self._lease.location, ids)
            for hosted in unsure:
                hosted.ledger.compare(last.get(hosted.id, 0))
        for stale in [each for each in self._live if each.ledger.is_behind]:
            if stale.id in self._live:  # not abandoned with another one
                await self._begin_anew(stale, BEHIND)

    async def _resume_stopped(self) -> None:
        """Resume from their records the flows that stopped in an outage. Raises `JournalError`."""
        if self._ends or not self._lease.holds() or self.current_outage() is not None:
            return
        for hosted in [each for each in self._live if each.has_unrecorded_end]:
            hosted.has_unrecorded_end = False
            step = 0 if hosted.state.flow is None else hosted.state.flow.step
            # The step runs again: only once, in case that its own event is what is not taken.
            if self._stopped_after.get(hosted.id) != step:
                self._stopped_after[hosted.id] = step
                await self._begin_anew(hosted, STOPPED)

    async def _begin_anew(self, hosted: HostedSession, why: str) -> None:
        """Abandon a session that is not what its record says, and end it from its record.

        It then continues as one of a server that has ended: Interlock resumes what it hosts, and an
        external agent reconnects and resumes its session. Raises `JournalError`.
        """
        reason = why.format(hosted.id)
        self.warn_operators(reason)
        family = [each.id for each in self._live.family(hosted)]
        for session in family:
            self._left_open.setdefault(session, asyncio.Event())  # who resumes it waits
            self._unreleased.add(session)
        # Its agent repeats its calls, which the end of the session here would otherwise answer.
        self.begun_anew(family[0])
        for session in family:
            await self._live.abandon(session, reason)
            await self._release(session)
        self._orphans_due = 0.0

    async def _release(self, session: str) -> None:
        """Release one of `_unreleased`. Raises `JournalError`."""
        await asyncio.to_thread(self._journal.release, session)
        self._unreleased.discard(session)

    async def _tidy(self) -> None:
        """Remove what counts no longer. Raises `JournalError`."""
        await asyncio.to_thread(self._acts.forget)
        self._came = {each: at for each, at in self._came.items() if each in self._live}
        posted = [*self._posted]
        open_acts = await asyncio.to_thread(self._acts.there, posted)
        for act in posted:
            if act not in open_acts:
                self._posted.pop(act, None)
        if self._journal.counters is not None:
            await asyncio.to_thread(self._journal.counters.forget)

    def _tell(self, event: JournalEvent) -> None:
        """Take over what happened at another server."""
        self._live.note_uses(event)
        self._show(event)

    def _show(self, event: JournalEvent) -> None:
        """Show an event, masked, of a session that this server does not host."""
        body = event.body
        self.note_end(body)
        self._hand_over(event)
        if isinstance(body, SessionStatus) and body.status in ("done", "failed") and body.by is None:
            self.ended_with_server(event.session)

    def _hand_over(self, shown: Any) -> None:
        super()._hand_over(shown)
        if self._bell is not None and isinstance(shown, JournalEvent) and self.is_own(shown):
            self._bell.ring()

    def is_own(self, event: JournalEvent) -> bool:
        return lane_of(event.cursor) == self._lease.lane

    @property
    def lease_age(self) -> float | None:
        return self._lease.age

    # Sessions of servers that have ended

    async def take_over(self) -> None:
        """End the sessions of servers that have ended, as a restart does, so that they can be resumed.

        What was asked is withdrawn, and is asked again by whoever goes on. Of several servers one comes
        first. Raises `JournalError` where the database does not answer.
        """
        sessions = await asyncio.to_thread(self._journal.orphans, AT_ONCE)
        self._report_newer()
        for session in sessions:
            self._left_open.setdefault(session, asyncio.Event())
        if len(sessions) >= AT_ONCE:
            self._orphans_due = 0.0
        # Many are read at a time, and what they end with is written together.
        room = asyncio.Semaphore(READ_AT_ONCE)

        async def take(session: str, ended: asyncio.Event) -> None:
            async with room:
                line: SessionSummary | None = None
                with self._live.left_open(session) as free:
                    if free:
                        line = await self._end_left_open(session)
                if line is not None:
                    await self._catch_up(session)
                    self.taken_over(line)
                # One that is being resumed may yet stay as it was left.
                if free or session in self._live:
                    self._left_open.pop(session, None)
                    ended.set()

        await asyncio.gather(*(take(*each) for each in self._left_open.items()))
        if self._resumes_hosted:
            for session in await asyncio.to_thread(self._acts.adopt):
                await self._adopt(session)

    @property
    def _resumes_hosted(self) -> bool:
        """True if this process resumes hosted sessions that it takes over."""
        return self.taken_over is not _ignore

    async def _end_left_open(self, session: str) -> SessionSummary | None:
        """End a session of a server that has ended; return its line from before, if this server did."""
        try:
            line = await asyncio.to_thread(self._journal.reader().session, session, whole=True)
            if line.kind in HOSTED:
                await asyncio.to_thread(self._acts.leave, session, here=self._resumes_hosted)
            events = await asyncio.to_thread(end_session_left_open, self._journal, line)
            if line.kind in HOSTED and not self._resumes_hosted:
                # A server that resumes it would be refused while this process owns it.
                await asyncio.to_thread(self._journal.release, session)
        except SessionNotFound:
            return None
        except JournalError:
            # Another server may have come first; what is still left open comes up again.
            log.info("session '%s' was not taken over", session, exc_info=True)
            self._unreleased.add(session)
            with suppress(JournalError):  # it is tried again: nobody takes what this server has
                await self._release(session)
            return None
        self._peers.forget(session)
        for event in events:
            self._show(self.redaction.event(event))
        return line

    async def _stop_diverged(self) -> None:
        """Stop the sessions of which the database lost events, and notify consoles once of each."""
        diverged = {
            each: str(divergence.error()) for each, divergence in self._journal.diverged_sessions.items()
        }
        stopped = {
            each: str(lost.error()) for each, lost in self._journal.take_stopped().items()
        } | diverged
        for session in stopped.keys() & {hosted.id for hosted in self._live}:
            await self._live.abandon(session, stopped[session])
            self.abandoned(session, stopped[session])
        for session in diverged.keys() - self._reported_diverged:
            self._hand_over(Streaming(session=session, kind="failure", text=diverged[session]))
        self._reported_diverged = frozenset(diverged)

    async def accept_loss(
        self, session_id: str, *, by: str, reason: str, credential: Credential | None = None
    ) -> Outcome:
        """Accept the loss of a session's events at any server; see `HubApi.accept_loss`."""
        by, reason = by.strip(), reason.strip()
        await self._live.settled(session_id)
        problem = NOBODY if not by else "say why, the reason is recorded with it" if not reason else None
        problem = problem or self._live.tokens.overstepped(by, credential, "decide")
        if problem is not None:
            return Outcome(ok=False, message=f"Not accepted: {problem}")
        try:
            with self._live.left_open(session_id) as free:
                if not free:
                    raise JournalError("the session is about to be stopped here; try again in a moment")
                events = await asyncio.to_thread(
                    record_acceptance, self._journal, session_id, by=by, reason=reason
                )
        except (JournalError, ValueError) as error:
            return Outcome(ok=False, message=f"Not accepted: {error}")
        self._peers.forget(session_id)
        for event in events:
            self._show(self.redaction.event(event))
        self._ring()
        message = f"Accepted by {by}: {session_id} is ended as the database has it, and can be resumed"
        return Outcome(ok=True, message=message)

    async def _adopt(self, session: str) -> None:
        """Take over a session that another server took over, and did not resume before it ended."""
        try:
            line = await asyncio.to_thread(self._journal.reader().session, session, whole=True)
        except SessionNotFound:
            return await self.continued(session)
        if line.status == "failed" and line.error == DIED:
            self.taken_over(line)
        elif line.status in ENDED:
            await self.continued(session)
        # Otherwise another server has resumed it, or is about to take it over.

    async def continued(self, session: str) -> None:
        """Record that a session that this server took over is resumed, or cannot be resumed."""
        with suppress(JournalError):  # another server checks it once this one has ended
            await asyncio.to_thread(self._acts.continued, session)

    def _report_newer(self) -> None:
        """Say, once of each, which sessions wait for a server of a newer version, and why."""
        newer = self._journal.newer_sessions
        for session in newer.keys() - self._reported_newer:
            self.warn_operators(f"session '{session}' stays open without a server: {newer[session]}")
        self._reported_newer = frozenset(newer)

    # A freeze of all servers

    async def _confirm(self, freeze: FreezeRecord) -> None:
        if await asyncio.to_thread(self._frozen_servers.confirm, freeze):
            self._ring()

    async def _write_freeze(self, record: FreezeRecord) -> None:
        until = time.monotonic() + ANSWER_SECONDS
        while True:
            try:
                return await super()._write_freeze(record)
            except OSError:
                # Without its database no server allows anything; it may be back in a moment.
                if time.monotonic() > until or not self._lease.holds():
                    raise
            await asyncio.sleep(EVERY / 2)

    async def _hold_elsewhere(self) -> str | None:
        self._ring()
        freezes, until = self._live.freeze.log, time.monotonic() + ANSWER_SECONDS
        assert freezes is not None
        while True:
            try:
                missing = await asyncio.to_thread(self._frozen_servers.missing, freezes)
                lift = None if missing else await asyncio.to_thread(freezes.lifted)
            except (JournalError, OSError) as error:
                return f"but whether other servers hold theirs cannot be found out: {error}"
            if lift is not None:
                return f"but {lift.by} lifted that in the meantime: calls continue"
            if not missing:
                return None
            if time.monotonic() > until:
                servers = " and ".join(each.url or each.name for each in missing)
                return f"but not yet at {servers}, as far as is known: look there, or end that server"
            with suppress(TimeoutError):
                async with asyncio.timeout(EVERY / 5), self._looked:
                    await self._looked.wait()

    async def _follow_lift(self) -> None:
        with suppress(JournalError):  # whether others hold their agents' calls is asked next
            await self.follow_freeze()

    async def lift_freeze(self, *, by: str, reason: str, credential: Credential | None = None) -> Outcome:
        lifted = await super().lift_freeze(by=by, reason=reason, credential=credential)
        self._ring()
        return lifted

    # What all servers have

    async def since(self, after: Positions, limit: int) -> list[JournalEvent]:
        reader = self._journal.reader().showing()
        events, _, _ = await asyncio.to_thread(reader.since_positions, after.by_lane, limit)
        return [self.redaction.event(event) for event in events]

    async def positions(self) -> Positions:
        """Return the position of the latest recorded event.

        During an outage it is the one up to which this server last read, so that consoles can connect.
        """
        if self.current_outage() is not None and (seen := self._peers.positions) is not None:
            return Positions(seen.values())
        return Positions((await asyncio.to_thread(self._journal.reader().positions)).values())

    async def sessions(self) -> list[SessionState]:
        return [*await super().sessions(), *self._peers.states()]

    async def session(self, session_id: str) -> SessionState:
        view = self._peers.find(session_id)
        return await super().session(session_id) if view is None else view.shown

    async def approvals(self) -> list[ApprovalState]:
        return longest_first([*await super().approvals(), *self._peers.requests()])

    def steers(self, session_id: str) -> bool:
        view = self._peers.find(session_id)
        return super().steers(session_id) if view is None else view.state.kind != "outside"

    def takes_edits(self, session_id: str) -> bool:
        return True if self._peers.find(session_id) is not None else super().takes_edits(session_id)

    def server_of(self, session_id: str) -> str | None:
        """The server at which a session is live, by its URL or its name; `None` for this one.

        Of one that diverged it says so, once it is shown as the database has it.
        """
        peer = self._peers.server_of(session_id)
        return None if peer is None else peer.url or peer.name

    async def resume_external(
        self,
        session_id: str,
        agent: ExternalAgent,
        config: SessionConfig,
        *,
        driver: Driver | None = None,
    ) -> str:
        """Resume an external agent's session; one that another server has comes here first.

        The agent is where its connection is. Raises as `Hub.resume_external`, and `JournalError` where
        the other server does not let it go, or has recorded what this version does not know.
        """
        at = to_ms(self._journal.clock())
        while True:
            await self._live.settled(session_id)
            if (end := self._left_open.get(session_id)) is not None:
                await end.wait()
            owner = await asyncio.to_thread(self._journal.owner, session_id)
            if owner is not None and owner.id != self._lease.id:
                if session_id.startswith(REQUESTS):
                    # Its requests would end with it there; what their clients want is done there instead.
                    raise JournalError(f"session '{session_id}' is at another server, and stays there")
                await asyncio.to_thread(lambda: list(self._journal.reader().events(session_id)))
                await self._fetch(session_id, at)
            try:
                resumed = await super().resume_external(session_id, agent, config, driver=driver)
            except ResumeError:
                # Its server ended just now, and this one ends the session before anybody goes on with it.
                if session_id not in self._left_open:
                    raise
            else:
                break
        self._note_arrival(at, resumed)
        self._peers.forget(resumed)
        await self._catch_up(resumed)
        return resumed

    async def _fetch(self, session_id: str, came: int) -> None:
        """Have the server that owns a session close and release it: its agent `came` here.

        It does so as before a restart.
        """
        act = uuid4().hex
        params = json.dumps({"came": came})
        asking = asyncio.ensure_future(self._ask(act, session_id, HAND_OVER, params, {}))
        while not (await asyncio.wait([asking], timeout=EVERY))[0]:
            owner = await asyncio.to_thread(self._journal.owner, session_id)
            if owner is None or owner.id == self._lease.id:  # it ended meanwhile, and lets all go
                asking.cancel()
                await asyncio.to_thread(self._acts.withdraw, act)
                self._peers.forget(session_id)
                return
        answer, _ = asking.result()
        if answer is None:
            where = self.server_of(session_id) or "another server"
            raise JournalError(f"{where}, which has session '{session_id}', does not let it go")
        result_of(answer)


def open_hub(
    database: Location,
    *,
    redaction: Redaction | None = None,
    policy: ApprovalPolicy | None = None,
    language: Language | None = None,
) -> Hub:
    """A hub on a journal: on a file, or on a database that others write, too. Raises `JournalError`.

    Of a database, `share` has to be called in the hub's loop.
    """
    if isinstance(database, Path):
        return Hub.open(database, redaction=redaction, policy=policy, language=language)
    journal = Journal.open(database)
    try:
        return SharedHub(journal, redaction=redaction, policy=policy, language=language)
    except BaseException:
        journal.close()
        raise


def _ignore(_: object) -> None:
    """Tell nobody."""
