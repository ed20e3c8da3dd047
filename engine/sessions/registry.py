"""Sessions that a hub hosts: opening, resuming, branching and ending them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterator,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar, cast
from uuid import uuid4

from ..approvals.open_request import OpenRequests
from ..approvals.passkeys import Passkeys
from ..approvals.policy import ApprovalPolicy, OperatorTokens
from ..approvals.withdrawals import Tasks
from ..core.condition import Surroundings
from ..core.plan import ConditionReader
from ..gate.shared_uses import Reservations, SharedUses
from ..history.fold.flow_steps import HANDED_OVER
from ..history.journal.journal import Journal, JournalError
from ..history.journal.shared_uses import recorded_uses
from ..history.logs.freeze_log import FreezeLog
from ..history.logs.key_log import KeyLog
from ..history.model.events import (
    CallDecided,
    CallResult,
    EventBody,
    JournalEvent,
    SessionResumed,
    SessionStatus,
)
from ..history.model.state import SessionState, SessionSummary
from ..history.redaction.redaction import Redaction
from ..net.net import ToolCall
from ..recording.branch import check_branch_point, copied
from ..recording.conversation import first_rules
from ..recording.grants import Grants, same_rules
from ..recording.interrupted_calls import (
    chosen_edits,
    deadlines,
    open_questions,
    withdrawals,
)
from ..recording.ledger import note_refusal
from ..recording.resume_checks import (
    ResumeError,
    ResumePoint,
    check_no_looser,
    check_reason,
    check_required,
    folded,
    latest_time,
    switched_on,
)
from ..recording.session_end import CLOSED, ENDED, SHUT_DOWN, check_kind, ending
from .config import SessionConfig, surroundings_of
from .errors import ExternalSessionError, UnknownSessionError
from .external import ExternalSession
from .freeze import CallFreeze
from .hosted import HostedSession, Publish
from .imports import check_imported, endings, own_config, reported
from .profile import AgentProfile
from .recovery import RecoveryPlan, plan_recovery
from .subagents import HostedChild, HostedChildren
from .submitted import SubmittedSession

if TYPE_CHECKING:
    from ..agents import Agent, Runtime, Session

Judged: TypeAlias = Callable[[str, ToolCall, float], None]
Spawn: TypeAlias = Callable[[Coroutine[None, None, None], str], object]

log = logging.getLogger(__name__)

CHILDREN_LISTED = 8
"""Number of finished subagents that stay listed, for each session."""

NO_NETS = ResumePoint({}, (), (), (), ())

H = TypeVar("H", bound=HostedSession)


@dataclass(frozen=True, slots=True)
class Revival(Generic[H]):
    """Recorded session that is being resumed: its record, its fold and the markings of its gate.

    `ending` are events that first end what does not resume.
    """

    hosted: H
    events: Sequence[JournalEvent]
    state: SessionState
    fit: ResumePoint
    ending: Sequence[EventBody] = ()
    imported: bool = False


class SessionRegistry:
    """Live sessions by id, in order of opening. Only one task at a time changes whether an id is live."""

    def __init__(
        self,
        journal: Journal,
        publish: Publish,
        spawn: Spawn,
        redaction: Redaction,
        policy: ApprovalPolicy,
        conditions: ConditionReader | None = None,
    ) -> None:
        self.conditions = conditions
        self._redaction = redaction
        self._policy = policy
        self.tokens = OperatorTokens(keys=Passkeys(KeyLog(journal.path), journal.clock))
        self.requests = OpenRequests()
        self.freeze = CallFreeze(FreezeLog(journal.path, journal.clock))
        self._tasks = Tasks()
        self._judged: Judged | None = None
        self._watchers: list[Judged] = []
        self._uses = SharedUses(
            lambda window: recorded_uses(journal.reader(), journal.clock().timestamp() - window)
        )
        if journal.counters is not None:
            self._uses.reservations = Reservations(journal.counters, self._uses)
        self._journal = journal
        self._publish = publish
        self._spawn = spawn
        self._hosted: dict[str, HostedSession] = {}
        self._changing: dict[str, asyncio.Event] = {}
        self._ending: set[str] = set()

    def watch_judging(self, judged: Judged) -> None:
        """Call `judged` with the session, the call and the seconds of each call that is judged."""
        self._watchers.append(judged)
        self._judged = judged if len(self._watchers) == 1 else self._tell_watchers
        for hosted in self:
            hosted.manager.on_judged = partial(self._judged, hosted.id)

    def _tell_watchers(self, session: str, call: ToolCall, seconds: float) -> None:
        for each in self._watchers:
            each(session, call, seconds)

    def note_uses(self, event: JournalEvent) -> None:
        """Count uses of limits over sessions by a session at another server (G-93)."""
        match event.body:
            case CallDecided(uses=uses, call_id=call_id, clock=clock) if uses:
                self._uses.note(event.session, call_id, uses, clock or event.at.timestamp())
            case CallResult(undone=undone, call_id=call_id) if undone:
                self._uses.remove(event.session, call_id, [step.net for step in undone])
            case _:
                pass

    def __iter__(self) -> Iterator[HostedSession]:
        return iter(list(self._hosted.values()))

    def hosted(self, session_id: str) -> HostedSession:
        """Return a live session, wherever its loop is. Raises `UnknownSessionError`."""
        hosted = self._hosted.get(session_id)
        if hosted is None or (hosted.session is None and not isinstance(hosted, SubmittedSession)):
            raise UnknownSessionError(f"No live session '{session_id}'")
        return hosted

    def get(self, session_id: str) -> tuple[HostedSession, Session]:
        """Return a live session with its loop. Raises `UnknownSessionError`, `ExternalSessionError`."""
        hosted = self.hosted(session_id)
        if hosted.session is None:
            raise ExternalSessionError(session_id)
        return hosted, hosted.session

    async def open(self, agent: Agent, config: SessionConfig, session_id: str | None) -> str:
        """Open a session; return its id."""
        surroundings = surroundings_of(agent.runtime)
        session_id = session_id or new_id(agent.name)
        with self.begin(session_id, config, surroundings, HostedSession) as hosted:
            opened = hosted.opened(AgentProfile.of(agent), config)
            return await self._start(hosted, agent, opened)

    @contextmanager
    def begin(
        self, session_id: str, config: SessionConfig, surroundings: Surroundings, kind: type[H]
    ) -> Generator[H, None, None]:
        """Create a new session, whose opening the caller records."""
        with self._change(session_id, _already_live(session_id)):
            yield self._prepare(session_id, config, surroundings, kind)

    async def resume(
        self, session_id: str, agent: Agent, config: SessionConfig, *, must_go_on: bool = False
    ) -> str:
        """Resume a recorded session; return its id."""
        surroundings = surroundings_of(agent.runtime)
        async with self.revive(session_id, agent.name, config, surroundings, HostedSession) as back:
            hosted, fit, reader = back.hosted, back.fit, self._journal.reader()
            mode = hosted.manager.mode
            check_reason(back.state, fit, config.registry, mode, agent.max_cost, config.reason)
            plan = await asyncio.to_thread(
                plan_recovery,
                reader,
                back.events,
                back.state,
                agent,
                fit.markings,
                imported=back.imported,
            )
            if must_go_on and not plan.resumes:
                raise ResumeError(
                    f"Session '{hosted.id}' has nothing open to continue with: no request, no "
                    "waiting message, no working subagent. Give it a task."
                )
            hosted.rules = None if back.imported else first_rules(back.events)
            hosted.restore_pending(p for p in back.state.pending if p.call_id in plan.going_on)
            resumed = _with_plan(hosted.resumed(AgentProfile.of(agent), config, fit), plan)
            if back.imported:
                resumed = resumed.model_copy(update={"imported": len(back.events)})
            return await self._start(hosted, agent, *back.ending, resumed, *plan.closing, plan=plan)

    @asynccontextmanager
    async def revive(
        self,
        session_id: str,
        agent: str,
        config: SessionConfig,
        surroundings: Surroundings,
        kind: type[H],
    ) -> AsyncGenerator[Revival[H], None]:
        """Create a recorded session with its gate as recorded; the caller records the resumption.

        `agent` is the name of the agent that makes its calls from now on. Grants and plans of an agent
        with another name allow none of its calls (G-74, G-110).
        """
        line = await asyncio.to_thread(self._journal.reader().session, session_id)
        session_id = line.id
        live = ResumeError(
            f"Session '{session_id}' is live here. Send to it, or close it before resuming it."
        )
        while session_id in self._ending:
            await self.settled(session_id)
        with self._change(session_id, live):
            await asyncio.to_thread(self._journal.check_whole, session_id)
            events = await self._events(session_id)
            state = await asyncio.to_thread(folded, events)
            check_kind(state, kind.kind)
            if line.imported:
                check_imported(session_id, kind.kind)
                config = own_config(config)
            fit = config.resume_point(state)
            mode = config.mode or state.mode
            check_no_looser(state, fit, config.registry, mode)
            check_required(state, config.registry, mode, config.required)
            hosted = self._prepare(session_id, config, surroundings, kind, fit, recorded=state)
            same = {} if line.imported else same_rules(state, config.registry, fit.markings)
            unchanged = same.keys() == config.registry.keys() == state.nets.keys()
            granted = same if agent == state.agent else {}
            grants = Grants.of(state.grants, granted, hosted.maps, self.conditions, plans=unchanged)
            hosted.ended_grants = grants.ended
            hosted.latest = latest_time(events)
            hosted.manager.restore(
                since=fit.since | grants.since,
                markings=grants.markings,
                grants=grants.every,
                revoked=grants.over,
                latest=hosted.latest,
            )
            if not line.imported:
                hosted.manager.owe(open_questions(events, same), chosen_edits(events))
                hosted.questions.keep(deadlines(events))
            hosted.go_on_from(state)
            ending = endings(state) if line.imported else ()
            yield Revival(hosted, events, state, fit, ending, line.imported)

    def add(self, hosted: HostedSession) -> None:
        """List a session from now on: a caller that learns of it can find it."""
        self._hosted[hosted.id] = hosted
        if self.freeze.current is not None:
            self._tasks.start(self._note_freeze(hosted))

    async def _note_freeze(self, hosted: HostedSession) -> None:
        """Record in a session that begins or resumes that its calls wait."""
        async with self.freeze.turn:
            try:
                await hosted.note_freeze()
            except JournalError:
                message = "The freeze of '%s' is not in its record; its calls wait"
                note_refusal(log, message, hosted.id)

    async def branch(
        self, session_id: str, at: int, agent: Agent, config: SessionConfig, branch_id: str | None
    ) -> str:
        """Open a session from another's state after its event number `at`; return its id."""
        line = await asyncio.to_thread(self._journal.reader().session, session_id)
        parent = line.id
        config = own_config(config) if line.imported else config
        await asyncio.to_thread(self._journal.check_whole, parent)
        events = await self._events(parent)
        # The first event says whose loop the session has; `at` is checked only then.
        check_kind(folded(events[:1]), "root")
        check_branch_point(events, at)
        now = await asyncio.to_thread(folded, events)
        events = events[:at]
        state = await asyncio.to_thread(folded, events)
        fit, mode = switched_on(config.resume_point(state), config.registry, state, now)
        fit = fit if config.active is None else config.resume_point(state)
        mode = config.mode or mode
        config = replace(config, mode=mode)
        for record in (state, now):
            check_no_looser(record, fit, config.registry, mode)
        check_required(state, config.registry, mode, config.required)
        check_reason(state, fit, config.registry, mode, agent.max_cost, config.reason)
        branch_id = branch_id or new_id(agent.name)
        with self._change(branch_id, _already_live(branch_id)):
            surroundings = surroundings_of(agent.runtime)
            hosted = self._prepare(branch_id, config, surroundings, HostedSession, fit, recorded=state)
            hosted.latest = latest_time(events)
            hosted.manager.restore(since=fit.since, latest=hosted.latest)
            hosted.rules = None if line.imported else first_rules(events)
            origin = {
                "kind": "branch",
                "parent": parent,
                "parent_seq": at,
                "markings": fit.every_marking,
                "since": {key: times for key, times in fit.since.items() if any(times.values())},
                "reason": config.reason,
            }
            opened = hosted.opened(AgentProfile.of(agent), config).model_copy(update=origin)
            copy = copied(events, state)
            return await self._start(hosted, agent, opened, *(reported(copy) if line.imported else copy))

    async def close(self, session_id: str, by: str) -> None:
        """Stop a session's agent, withdraw its requests and record who ended it."""
        hosted = self.hosted(session_id)
        if session_id in self._changing:
            raise UnknownSessionError(f"Session '{session_id}' is being closed")
        with self._in_change(session_id):
            try:
                hosted.leaving = f"{CLOSED} by {by}"
                await _stop(hosted, hosted.leaving)
                await _record_end(hosted, hosted.leaving, by)
                self._hosted.pop(session_id, None)
                hosted.switching.disarm()
                self._forget_children(hosted, keep=0)
                await self._close_runtime(hosted)
            except JournalError as error:
                hosted.questions.withdrawals.resume()
                hosted.leaving = None
                if hosted.kind == "flow":
                    hosted.fail(error)  # it stays live, but runs no more steps
                raise

    async def abandon(self, session_id: str, reason: str) -> None:
        """Stop a session whose events cannot be recorded, and remove it from the list."""
        await self.settled(session_id)
        hosted = self._hosted.get(session_id)
        if hosted is None:
            return
        with self._in_change(session_id):
            hosted.leaving = reason
            with suppress(JournalError):
                await _stop(hosted, reason)
                await hosted.questions.withdrawals.pause()
            hosted.fail(JournalError(reason))
            self._hosted.pop(session_id, None)
            hosted.switching.disarm()
            self._forget_children(hosted, keep=0)
            await self._close_runtime(hosted)

    def family(self, hosted: HostedSession) -> list[HostedSession]:
        """Return a session with the live ones above and below it: agents and their subagents."""
        while (parent := self._hosted.get(hosted.state.parent or "")) and hosted.kind == "child":
            hosted = parent
        found = [hosted]
        for each in found:
            found += [child for child in each.children.values() if child.id in self._hosted]
        return found

    async def hand_over(self) -> None:
        """End the sessions of external agents, which continue at another server; their calls run on.

        Sessions whose agent is a process of this server are left, because that process ends. If an end
        cannot be recorded, the other server ends the session.
        """

        async def leave(hosted: ExternalSession) -> None:
            await self.settled(hosted.id)
            if hosted.id not in self._hosted:  # it was closed in the meantime
                return
            with self._in_change(hosted.id):
                await end(hosted)

        async def end(hosted: ExternalSession) -> None:
            hosted.leaving = HANDED_OVER
            try:
                await _stop(hosted, HANDED_OVER)
                await hosted.questions.withdrawals.pause()
                questions = withdrawals(hosted.state, HANDED_OVER)
                ended = SessionStatus(status="failed", error=HANDED_OVER)
                await hosted.sending.withdraw(CLOSED, *questions, ended)
            except JournalError as error:
                log.warning("Session '%s' is ended later from its record: %s", hosted.id, error)
            hosted.switching.disarm()
            self._hosted.pop(hosted.id, None)
            await self._close_runtime(hosted)

        leaving = [each for each in self if isinstance(each, ExternalSession) and each.prompts is None]
        await asyncio.gather(*map(leave, leaving))

    def finish_steps(self) -> None:
        """Let no flow run a step after its current one."""
        for hosted in self:
            hosted.finish_step()

    def at_work(self) -> list[str]:
        """Return the tools that run here, and the steps of flows, as text."""
        steps = [f"a step of {hosted.id}" for hosted in self if hosted.is_in_step]
        return [*self._tools_at_work(), *steps]

    def _tools_at_work(self) -> list[str]:
        """Return the running calls that have begun, or are about to.

        Those that wait for subagents resume elsewhere.
        """
        waiting_calls = {
            (each.state.parent, each.state.parent_call) for each in self if each.kind == "child"
        }
        return [
            f"{call.tool} of {hosted.id}"
            for hosted in self
            for call in hosted.state.calls.values()
            if call.status == "running"
            and (hosted.id, call.call_id) not in waiting_calls
            and not hosted.waits_for_others(call.call_id)
        ]

    async def begin_no_more(self) -> None:
        """Begin no tool of a hosted agent from now on; record the calls that did not begin as not run."""
        for hosted in self:
            hosted.unbegun.end()
        for hosted in reversed(list(self)):  # subagents first
            try:
                await hosted.settle_unbegun()
            except JournalError as error:
                log.warning("Calls of '%s' that did not begin are not recorded: %s", hosted.id, error)

    async def close_all(self) -> list[JournalError]:
        """Stop every agent and end every session; return the errors of recording."""
        problems: list[JournalError] = []
        for hosted in self:
            hosted.leaving = SHUT_DOWN
        for hosted in self:
            await _stop(hosted, SHUT_DOWN)
            if hosted.state.status not in ENDED:
                try:
                    await _record_end(hosted, SHUT_DOWN)
                except JournalError as error:
                    problems.append(error)
        for hosted in self:
            hosted.switching.disarm()
            self._hosted.pop(hosted.id, None)
            await self._close_runtime(hosted)
        return problems

    async def _close_runtime(self, hosted: HostedSession) -> None:
        """Close the runtime of a session that has ended, unless another session's tools run in it.

        Only some runtimes need it: a remote sandbox would continue to run, and cost money.
        """
        runtime = hosted.runtime
        if any(other.runtime is runtime for other in self):
            return
        close = getattr(runtime, "aclose", None)
        if callable(close):
            try:
                await cast("Callable[[], Awaitable[None]]", close)()
            except Exception:
                log.exception("The runtime of session '%s' could not be closed", hosted.id)

    async def recorded(
        self, session_id: str, *, whole: bool = False
    ) -> tuple[SessionSummary, list[JournalEvent]]:
        """Return a recorded session's line and its events; finds it as `HistoryReader.session` does."""
        line = await asyncio.to_thread(self._journal.reader().session, session_id, whole=whole)
        return line, await self._events(line.id)

    def recorded_sessions(self, agent: str) -> list[SessionSummary]:
        """Return the recorded sessions of the agent with this name, the latest changed first."""
        return self._journal.reader().sessions(None, agent=agent)

    def session_with_request(self, request_id: str, sessions: Sequence[str]) -> str | None:
        """Return the one of `sessions` whose record has a request of the Agent Approval Protocol."""
        return self._journal.reader().session_with_request(request_id, sessions)

    async def _events(self, session_id: str) -> list[JournalEvent]:
        return await asyncio.to_thread(lambda: list(self._journal.reader().events(session_id)))

    def _prepare(
        self,
        session_id: str,
        config: SessionConfig,
        surroundings: Surroundings,
        kind: type[H],
        fit: ResumePoint | None = None,
        *,
        recorded: SessionState | None = None,
    ) -> H:
        """Create a session on `config`, with its gate at the resume point `fit`."""
        mode = config.mode or ("enforce" if recorded is None else recorded.mode)
        hosted = kind(
            session_id,
            self._journal,
            self._publish,
            registry=config.registry,
            active=config.active if fit is None else fit.active,
            mode=mode,
            explain_blocks=config.explain_blocks,
            redaction=self._redaction,
            policy=self._policy,
            tokens=self.tokens,
            requests=self.requests,
            surroundings=surroundings,
            uses=self._uses,
            freeze=self.freeze,
            conditions=self.conditions,
        )
        if self._judged is not None:
            hosted.manager.on_judged = partial(self._judged, session_id)
        if fit is not None:
            hosted.manager.restore(markings=fit.every_marking)
        return hosted

    async def _start(
        self, hosted: HostedSession, agent: Agent, *beginning: EventBody, plan: RecoveryPlan | None = None
    ) -> str:
        """Record how a session begins or resumes, then make it live; `plan` is for a resumption."""
        session_id = hosted.id
        await hosted.record(*beginning)
        await hosted.switching.catch_up()
        self.add(hosted)
        try:
            children = HostedChildren(hosted, self._host_child, plan.children if plan else {})
            await self._start_agent(hosted, agent, children, plan)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            try:
                await hosted.record(SessionStatus(status="failed", error=problem))
            except JournalError:
                log.exception("The failed start of session '%s' is not in its record", session_id)
            finally:
                self._hosted.pop(session_id, None)
            raise
        return session_id

    async def _start_agent(
        self,
        hosted: HostedSession,
        agent: Agent,
        children: HostedChildren,
        plan: RecoveryPlan | None,
        runtime: Runtime | None = None,
    ) -> Session:
        """Create the agent's session, whose events the hosted session records, and resume its work."""
        from ..agents import Previews

        hosted.runtime = runtime or agent.runtime
        hosted.previews = Previews(agent.tools, hosted.runtime)
        session = await agent.create_session(
            hosted.id,
            gate=hosted,
            store=hosted,
            runtime=runtime,
            spawn=lambda run: self._spawn(run, hosted.id),
            subagents=children,
            rules=hosted.rules,
            exist_ok=True,
            # An imported record may state any cost, and spent money never comes back.
            spent=max(0.0, hosted.state.cost),
        )
        session.on_any(hosted.on_event)
        hosted.session, hosted.agent = session, agent
        if plan is not None:
            session.restore(hosted.sending.restored())
            # A subagent's session without events still waits for its task.
            if plan.resumes and (plan.messages or hosted.state.kind != "child"):
                session.continue_(decide_open=bool(plan.undecided), resumed_calls=plan.unfinished)
        return session

    @asynccontextmanager
    async def _host_child(
        self, child: HostedChild, agent: Agent, children: HostedChildren, plan: RecoveryPlan | None
    ) -> AsyncGenerator[Session, None]:
        """Host a subagent's session while it works; afterwards it stays listed until its parent ends."""
        parent = child.parent
        if plan is None:
            await child.record(child.opened(AgentProfile.of(agent), child.config))
        else:
            resumed = _with_plan(child.resumed(AgentProfile.of(agent), child.config, NO_NETS), plan)
            await child.record(resumed, *plan.closing)
        parent.children[child.id] = child
        self.add(child)
        try:
            # Its tools run where its parent's do.
            session = await self._start_agent(child, agent, children, plan, parent.runtime)
            async with session:
                yield session
        finally:
            if child.state.status not in ENDED:
                try:
                    await child.record()
                    done = SessionStatus(status="done")
                    await child.sending.withdraw(CLOSED, *withdrawals(child.state), done)
                except JournalError:
                    # Nothing runs in it any more, whatever its record says.
                    self._hosted.pop(child.id, None)
                    parent.children.pop(child.id, None)
                    raise
            self._forget_children(parent, keep=CHILDREN_LISTED)

    def _forget_children(self, parent: HostedSession, *, keep: int) -> None:
        """Remove ended children from the list, except the latest `keep`."""
        ended = [child for child in parent.children.values() if child.state.status in ENDED]
        for child in ended[: max(0, len(ended) - keep)]:
            self._forget_children(child, keep=0)
            del parent.children[child.id]
            self._hosted.pop(child.id, None)

    @contextmanager
    def left_open(self, session_id: str) -> Generator[bool, None, None]:
        """Let those who resume a session wait while its end is recorded; false if one does or did."""
        if session_id in self._changing or session_id in self._hosted:
            yield False
            return
        self._ending.add(session_id)
        try:
            with self._in_change(session_id):
                yield True
        finally:
            self._ending.discard(session_id)

    async def settled(self, session_id: str) -> None:
        """Wait until no task opens, resumes or ends a session; none does before the next await."""
        while (change := self._changing.get(session_id)) is not None:
            await change.wait()

    def __contains__(self, session_id: str) -> bool:
        """Return whether a session is live, wherever its loop is."""
        return session_id in self._hosted

    @contextmanager
    def _in_change(self, session_id: str) -> Generator[None, None, None]:
        """Make others wait while a session begins, resumes or ends: see `settled`."""
        self._changing[session_id] = asyncio.Event()
        try:
            yield
        finally:
            self._changing.pop(session_id).set()

    @contextmanager
    def _change(self, session_id: str, live: Exception) -> Generator[None, None, None]:
        """Keep others from opening, resuming or ending this session. Raises `live` if it is live."""
        if session_id in self._changing or session_id in self._hosted:
            raise live
        with self._in_change(session_id):
            yield


def _with_plan(resumed: SessionResumed, plan: RecoveryPlan) -> SessionResumed:
    return resumed.model_copy(update={"asked_again": plan.asked_again, "going_on": plan.going_on})


async def _stop(hosted: HostedSession, reason: str) -> None:
    """Stop a session: it accepts no more calls."""
    if isinstance(hosted, SubmittedSession):
        await hosted.shut_down(reason)
    elif hosted.session is not None:
        await hosted.session.aclose()


async def _record_end(hosted: HostedSession, reason: str, by: str | None = None) -> None:
    """Record how a stopped session ends, with its open requests withdrawn."""
    # Messages and withdrawals in progress are recorded, or rejected, after this.
    await hosted.questions.withdrawals.pause()
    questions = withdrawals(hosted.state, reason)
    await hosted.sending.withdraw(CLOSED, *questions, ending(hosted.state, by))


def _already_live(session_id: str) -> JournalError:
    return JournalError(f"Session '{session_id}' is live here; give the new one another id.")


def new_id(agent: str) -> str:
    """Return an id for a session of this agent."""
    return f"{agent}-{uuid4().hex[:12]}"
