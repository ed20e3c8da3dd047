"""The hub: live sessions, approval queue, journal and event bus in one object.

Consoles, the gateway and tests use only this object. Its arguments and results are pydantic models, so
that the same calls can come over the wire. It runs in one asyncio loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from ..agents import KEEP_LAST, AgentError, ErrorEvent, TextDelta, ToolInputDelta, ToolProgress
from ..agents.tools.plan import with_plan_tool
from ..approvals.policy import ApprovalPolicy, TokenCheck
from ..approvals.tool_hints import hinted, with_hints
from ..backtest.rules_compiler import Language, NoLanguage
from ..core.approvers import Operator, Operators
from ..core.clock import Clock
from ..history.database.location import Location
from ..history.decisions.precedents import PrecedentIndex, Precedents
from ..history.errors import SessionDiverged
from ..history.fold.flow_steps import DIED
from ..history.journal.journal import Journal, JournalError
from ..history.journal.known_labels import KnownLabels
from ..history.model.events import CallResult, JournalEvent, MessageAdded
from ..history.model.positions import Positions
from ..history.model.state import Origin, SessionState, SessionSummary
from ..history.redaction.masked_events import MaskedEvents
from ..history.redaction.redaction import Redaction
from ..recording.masked_view import Streams
from ..recording.resume_checks import BranchError, Nets, ResumeError
from ..recording.session_end import end_left_open
from ..sessions.call_answer import CallAnswer
from ..sessions.config import SessionConfig
from ..sessions.errors import (
    CallIdUsed,
    CallRefused,
    CallWithdrawn,
    ExternalSessionError,
    ResultRefusedError,
    UnknownCallError,
    UnknownSessionError,
)
from ..sessions.external import ExternalAgent
from ..sessions.hosted import HostedSession
from ..sessions.messages import stopped, stopped_by
from ..sessions.new_rules import NewRules, RulesChange
from ..sessions.registry import SessionRegistry, Spawn
from ..sessions.submitted import SubmittedSession
from .agent_api import AgentApi
from .api import DEFAULT_LIMIT, Outcome, Revealed
from .backtest_api import BacktestSource
from .events import (
    DisconnectedCalls,
    FreezeChanged,
    HubEvent,
    OutageChanged,
    RequestReaders,
    Streaming,
    Subscription,
)
from .flow_api import FlowApi
from .freeze_api import FreezeApi
from .health_api import HealthApi
from .passkey_api import PasskeyApi
from .request_api import RequestApi

if TYPE_CHECKING:
    from ..agents import Agent

__all__ = [
    "DIED",
    "ApprovalPolicy",
    "BranchError",
    "CallAnswer",
    "CallIdUsed",
    "CallRefused",
    "CallWithdrawn",
    "DisconnectedCalls",
    "ExternalAgent",
    "ExternalSessionError",
    "FreezeChanged",
    "Hub",
    "HubEvent",
    "Nets",
    "OutageChanged",
    "Outcome",
    "RequestReaders",
    "ResultRefusedError",
    "ResumeError",
    "Revealed",
    "SessionConfig",
    "Spawn",
    "Streaming",
    "Subscription",
    "UnknownCallError",
    "UnknownSessionError",
]


def _as_task(coroutine: Coroutine[None, None, None], name: str) -> object:
    return asyncio.get_running_loop().create_task(coroutine, name=name)


class Hub(BacktestSource, AgentApi, FlowApi, FreezeApi, HealthApi, PasskeyApi, RequestApi):
    """Hub of live sessions. `spawn` starts a session's run; a console does so in a worker."""

    def __init__(
        self,
        journal: Journal,
        *,
        spawn: Spawn = _as_task,
        redaction: Redaction | None = None,
        policy: ApprovalPolicy | None = None,
        language: Language | None = None,
    ) -> None:
        self.spawn = spawn
        self.language = language or NoLanguage()
        self.redaction = (redaction or Redaction()).reading(self.language)
        self._journal = journal
        self._precedents = PrecedentIndex(journal.path)
        self._labels = KnownLabels()
        self.policy = policy or ApprovalPolicy()
        super().__init__(
            SessionRegistry(
                journal,
                self._publish,
                self._spawn,
                self.redaction,
                self.policy,
                None if language is None else language.condition,
            )
        )
        self.abandoned: Callable[[str, str], object] = lambda _, __: None
        """Called with the id and the reason of each session stopped without an end in its record."""
        self.say_wait: Callable[[str], object] = lambda _: None
        """Called with what `close` waits for."""
        self._streams = Streams(self.redaction)
        self._subscriptions: list[Subscription] = []
        self._live.freeze.on_change = lambda freeze: self._hand_over(FreezeChanged(freeze=freeze))

    def _spawn(self, run: Coroutine[None, None, None], session_id: str) -> object:
        return self.spawn(run, session_id)

    def spawn_in(self, spawn: Spawn) -> None:
        self.spawn = spawn

    def know_tokens(
        self,
        check: TokenCheck,
        person: Callable[[str], Operator | None] | None = None,
        given_up: Callable[[str], datetime | None] | None = None,
    ) -> None:
        """Use `check` to look up by id which operators' tokens are valid, from now on (G-77).

        A server calls this for consoles of its own process, which have no token. `person` looks up
        operators who have logged in at a provider, by name. `given_up` returns when a holder last gave a
        name up: earlier passkeys of that name no longer count.
        """
        self._live.tokens.check = check
        self._live.tokens.person = person
        if self._live.tokens.keys is not None:
            self._live.tokens.keys.given_up = given_up

    @property
    def lease(self) -> Journal:
        """The right to act on what is recorded, by `is_held` and `until_held`."""
        return self._journal

    @property
    def clock(self) -> Clock:
        """The time of events, deadlines and limits: for a journal in a database, the database's."""
        return self._journal.clock

    @property
    def operators(self) -> Operators:
        """The operators of the configuration."""
        return self._live.tokens.operators

    def know_operators(self, operators: Operators) -> None:
        """Use these operators from now on: their roles, and the groups that count for rules."""
        self._live.tokens.operators = operators

    def groups_of(self, name: str) -> tuple[str, ...]:
        """Return the groups of an operator by name, which a console of this process only claims."""
        return self.operators.find(name).groups

    def bound_requests(self, most: int) -> None:
        """Allow at most `most` open requests per opener of external agents' sessions from now on.

        A further call that needs approval is blocked for that reason.
        """
        self._live.requests.most = most

    @classmethod
    def open(
        cls,
        database: Location,
        *,
        spawn: Spawn = _as_task,
        redaction: Redaction | None = None,
        policy: ApprovalPolicy | None = None,
        language: Language | None = None,
    ) -> Hub:
        """Open a hub on the journal at `database`. Raises `JournalError` if it cannot be written.

        This process is the only one that writes there, so sessions that are still open belonged to one
        that died. Their requests are withdrawn, they are ended as failed, and the outcome of their calls
        without a result is unknown. They can be resumed.

        `redaction` masks what the hub shows; agents and the journal have everything. `policy` has the
        terms of approvals that rules do not set. `language` parses the rules of backtests, and the
        conditions of plans.
        """
        journal = Journal.open(database)
        try:
            end_left_open(journal)
        except BaseException:
            journal.close()
            raise
        return cls(journal, spawn=spawn, redaction=redaction, policy=policy, language=language)

    @property
    def database(self) -> Location:
        return self._journal.path

    def name_server(self, url: str) -> None:
        """Record the URL at which this hub is reached, for processes that find its journal in use."""
        self._journal.name_server(url)

    async def share(self) -> None:
        """Follow the other servers that write the journal; a file has none."""

    async def lost(self) -> None:
        """Wait until this process may no longer write the journal, then raise the `JournalError`."""
        await asyncio.get_running_loop().create_future()

    def leave_now(self) -> None:
        """Stop `close` from waiting for what runs. A hub on a file does not wait."""

    async def close(self) -> None:
        """End every session, then the journal. Errors of recording are raised at the end."""
        problems = await self._live.close_all()
        for subscription in list(self._subscriptions):
            subscription.close()
        await asyncio.to_thread(self._journal.close)
        # A diverged session accepts no more events, which was reported when it diverged.
        for problem in problems:
            if not isinstance(problem, SessionDiverged):
                raise problem

    # Sessions

    async def open_session(
        self, agent: Agent, config: SessionConfig, *, session_id: str | None = None
    ) -> str:
        """Host a session of `agent`; return its id.

        Tools that need approval add a net each, see `with_hints`; these are always active at first. If
        its nets require approval of plans, the agent gets a tool for them. Raises `NetError` for unknown
        nets in `config.active`, `JournalError` if it cannot be recorded.
        """
        agent = _planning(agent, config)
        return await self._live.open(agent, _with_tool_nets(config, agent), session_id)

    async def resume_session(
        self,
        session_id: str,
        agent: Agent,
        config: SessionConfig,
        *,
        must_go_on: bool = False,
    ) -> str:
        """Resume a recorded session under its own id, which is returned; a prefix of the id is enough.

        Conversation, markings, budgets, active nets, mode and totals are those of the record; those in
        `config` replace them. Nothing runs again: a call that was allowed and has no result gets one with
        an unknown outcome. What was open when the host died resumes by itself. Undecided calls go to the
        gate again, so requests return to the queue. Waiting messages are taken up. Working subagents
        resume, and end the calls that started them. A reason, which is recorded, is needed to resume with
        fewer restrictions than recorded: without one of its active nets or with another, in shadow mode
        instead of enforce mode, or with a higher `max_cost` (G-67).

        Raises `SessionNotFound` for an unknown id, `ResumeError` for a session that is live here, for
        nets that do not fit and, with `must_go_on`, for a session that would only wait for a message;
        `NetError` and `JournalError` as `open_session` does.
        """
        agent = _planning(agent, config)
        config = _with_tool_nets(config, agent)
        return await self._live.resume(session_id, agent, config, must_go_on=must_go_on)

    async def branch_session(
        self,
        session_id: str,
        at: int,
        agent: Agent,
        config: SessionConfig,
        *,
        branch_id: str | None = None,
    ) -> str:
        """Open a session from the state of another, live or not, after its event `at`; return its id.

        It has a copy of the conversation up to there, and its nets, switches and mode at that time. Used
        tokens, open requests and waiting messages stay with the other session.

        Raises `BranchError` if a call has no result yet, otherwise as `resume_session` does.
        """
        agent = _planning(agent, config)
        config = _with_tool_nets(config, agent)
        return await self._live.branch(session_id, at, agent, config, branch_id)

    async def close_session(self, session_id: str, by: str) -> None:
        await self._live.close(session_id, by)

    async def send(
        self,
        session_id: str,
        text: str,
        *,
        by: str | None = None,
        mode: Literal["steer", "queue"] = "steer",
    ) -> None:
        if (prompts := self._prompts(session_id)) is not None:
            return await prompts.send(text, by=by, mode=mode)
        hosted, _ = self._live.get(session_id)
        await hosted.sending.send(text, by=by, mode=mode)

    async def compact(
        self,
        session_id: str,
        *,
        by: str,
        keep_last: int = KEEP_LAST,
        instructions: str | None = None,
    ) -> Outcome:
        session = self._live.get(session_id)[1]
        try:
            summary = await session.compact(keep_last, instructions=instructions, by=by)
        except AgentError as error:
            return Outcome(ok=False, message=str(error))
        except JournalError as error:
            message = "The summary is stored, but the journal refused what came after it"
            return Outcome(ok=False, message=f"{message}: {error}")
        if summary is None:
            return Outcome(ok=False, message=f"Nothing to compact yet in {session_id}")
        kept_text = "1 message" if summary.kept == 1 else f"{summary.kept} messages"
        return Outcome(ok=True, message=f"Compacted {session_id}: a summary and the last {kept_text}")

    async def abort(self, session_id: str, reason: str = "", *, by: str | None = None) -> None:
        reason = stopped_by(by, reason)
        submitted = self._live.hosted(session_id)
        if isinstance(submitted, SubmittedSession):
            return await submitted.stop(reason)
        hosted, session = self._live.get(session_id)
        session.abort(reason)
        await hosted.sending.withdraw(stopped(reason))

    async def wait(self, session_id: str) -> None:
        """Return when the session is idle; raises the error of its run."""
        if (prompts := self._prompts(session_id)) is not None:
            return await prompts.wait()
        if self._live.hosted(session_id).kind == "flow":
            return await self.flow_ended(session_id)
        await self._live.get(session_id)[1].wait_for_idle()

    async def sessions(self) -> list[SessionState]:
        return [hosted.shown for hosted in self._live]

    async def session(self, session_id: str) -> SessionState:
        return self._live.hosted(session_id).shown

    # Rules of live sessions

    def judging_sessions(self) -> list[str]:
        """Return the live sessions in which calls are judged: all but those of subagents."""
        return [hosted.id for hosted in self._live if hosted.kind != "child"]

    def rules_obstacle(self, session_id: str) -> str | None:
        """Return why a live session's rules cannot be replaced. Raises `UnknownSessionError`."""
        flow = self._live.hosted(session_id).kind == "flow"
        return "a run of a flow keeps the rules it began with" if flow else None

    def rules_change(self, session_id: str, rules: NewRules) -> RulesChange:
        """Compare other rules with those of a live session.

        Raises `UnknownSessionError`, and `ValueError` if they cannot be replaced.
        """
        hosted, rules = self._with_own_nets(session_id, rules)
        return RulesChange(hosted.state, rules, hosted.manager.grants, hosted.maps)

    async def replace_rules(self, session_id: str, rules: NewRules) -> Outcome:
        """Replace the rules of a live session (G-67). Raises as `rules_change` does."""
        hosted, rules = self._with_own_nets(session_id, rules)
        try:
            reply = await hosted.switching.replace_rules(rules)
        except JournalError as error:
            return Outcome(ok=False, message=f"the journal refused it: {error}")
        return Outcome(ok=reply.ok, message=reply.message)

    def _with_own_nets(self, session_id: str, rules: NewRules) -> tuple[HostedSession, NewRules]:
        hosted = self._live.hosted(session_id)
        if (obstacle := self.rules_obstacle(session_id)) is not None:
            raise ValueError(obstacle)
        if hosted.agent is None:
            return hosted, rules
        return hosted, replace(rules, registry=with_hints(rules.registry, hosted.agent))

    # Earlier calls

    async def precedents(self, approval_id: str) -> Precedents:
        hosted = next((each for each in self._live if approval_id in each.state.approvals), None)
        if hosted is None:
            raise LookupError(f"No open request '{approval_id}'")
        approval, shown = (state.approvals[approval_id] for state in (hosted.state, hosted.shown))
        return await asyncio.to_thread(
            self._precedents.masked_of, approval, shown, self.language.programs, hosted.redaction
        )

    # History

    async def history(self, limit: int = DEFAULT_LIMIT) -> list[SessionSummary]:
        return await asyncio.to_thread(lambda: self._labels.latest(self._journal.reader(), limit))

    async def recorded(self, session_id: str) -> Sequence[JournalEvent]:
        return await asyncio.to_thread(self._recorded, session_id)

    def _recorded(self, session_id: str) -> Sequence[JournalEvent]:
        reader = self._journal.reader().showing()
        return MaskedEvents(reader.recorded(reader.session(session_id).id), self.redaction)

    async def page(self, session_id: str, after: int, limit: int) -> tuple[str, list[JournalEvent]]:
        """Return a recorded session's whole id, and its first `limit` events after number `after`."""

        def read() -> tuple[str, list[JournalEvent]]:
            reader = self._journal.reader().showing()
            found = reader.session(session_id).id
            events = reader.events(found, after=after, limit=limit)
            return found, [self.redaction.event(event) for event in events]

        return await asyncio.to_thread(read)

    async def since(self, after: Positions, limit: int) -> list[JournalEvent]:
        """Return the next events of all sessions after `after`, about `limit` of them, masked."""
        cursor = after.in_lane(0)
        reader = self._journal.reader().showing()
        found = await asyncio.to_thread(reader.since, cursor, limit)
        return [self.redaction.event(event) for event in found]

    async def positions(self) -> Positions:
        """Return the position of the latest recorded event."""
        return Positions([await asyncio.to_thread(lambda: self._journal.reader().last_cursor())])

    async def origin(self, session_id: str) -> Origin:
        found = await asyncio.to_thread(self._journal.reader().session, session_id)
        return Origin(session=found.id, source=found.source, imported=found.imported)

    # Events

    def subscribe(self, limit: int | None = None) -> Subscription:
        subscription = Subscription(self._subscriptions.remove, limit)
        self._subscriptions.append(subscription)
        return subscription

    def _publish(
        self,
        event: JournalEvent | TextDelta | ToolInputDelta | ToolProgress | ErrorEvent,
        session_id: str,
    ) -> None:
        match event:
            case JournalEvent(body=body):
                if isinstance(body, MessageAdded | CallResult):
                    self._streams.forget(session_id, body.call_id)
                self.note_end(body)
                shown: HubEvent = event
            case TextDelta():
                text = self._streams.take(session_id, None, event.delta)
                shown = Streaming(session=session_id, kind="text", text=text)
            case ToolInputDelta():
                tool, size = self.redaction.text(event.name), len(event.delta)
                shown = Streaming(
                    session=session_id, kind="input", text="", tool=tool, place=event.index, size=size
                )
            case ToolProgress():
                text = self._streams.take(session_id, event.call_id, event.text)
                shown = Streaming(session=session_id, kind="output", text=text, call_id=event.call_id)
            case ErrorEvent():
                text = self.redaction.text(str(event.error))
                shown = Streaming(session=session_id, kind="failure", text=text)
        self._hand_over(shown)

    def _show_disconnected(self, event: DisconnectedCalls) -> None:
        self._hand_over(event)

    def _show_event(self, event: RequestReaders) -> None:
        self._hand_over(event)

    def _hand_over(self, shown: HubEvent) -> None:
        for subscription in self._subscriptions:
            subscription.put(shown)


def _planning(agent: Agent, config: SessionConfig) -> Agent:
    """Return the agent, with a tool for plans if its nets require approval of plans."""
    tools = with_plan_tool(agent.tools, config.registry.values())
    return agent if tools == tuple(agent.tools) else agent.replace(tools=tools)


def _with_tool_nets(config: SessionConfig, agent: Agent) -> SessionConfig:
    """Return `config` with nets for those of the agent's tools that need approval."""
    registry = with_hints(config.registry, agent)
    active = None if config.active is None else (*config.active, *hinted(config.registry, registry))
    return replace(config, registry=registry, active=active)
