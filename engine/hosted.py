"""One hosted session: its gate, its record and its state, held together.

Everything that happens to the session becomes an event, is made durable, and only then moves the state
that consoles see and releases whoever waits. The hub owns many of these.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Iterator, Mapping, Sequence
from typing import ClassVar, Literal, TypeAlias

from pydantic import JsonValue

from .agents import (
    Agent,
    CompactionFailed,
    CompactionStart,
    ErrorEvent,
    Event,
    Message,
    Runtime,
    Session,
    StatusEvent,
    StepEvent,
    TextDelta,
    ToolInputDelta,
    ToolMessage,
    ToolProgress,
    TurnEnd,
    TurnStart,
    UserMessage,
)
from .agents.store import Messages
from .agents.tool import labels_of
from .condition import Surroundings
from .conversation import conversation, message_record
from .explained import ExplanationView
from .explaining import view_of
from .gate import GateContext, GateManager, create_gate_manager
from .gate.types import (
    ApprovalAnswer,
    ApprovalRequest,
    GateDecision,
    Mode,
    ResultRecord,
    ToggleResult,
    ToolResult,
)
from .granting import Grants, grant_record
from .handing_over import HandingOver
from .history.events import (
    EventBody,
    GrantGiven,
    GrantRevoked,
    JournalEvent,
    ModeChanged,
    NetToggled,
    SessionOpened,
    SessionResumed,
    SessionStatus,
    StepEnded,
)
from .history.fold import new_state
from .history.journal import Journal, JournalError
from .history.quick import updated
from .history.redaction import Redaction
from .history.state import SessionState
from .history.unmasked import unmasked
from .in_step import InStep
from .net import SkillNet, ToolCall
from .questions import ApprovalPolicy, Questions
from .records import decision_record, json_input, net_record, result_record
from .resuming import Standing
from .sending import Sending, stopped
from .told import Told
from .withdrawing import INTERRUPTED

Preview = Callable[[ToolCall], Awaitable[str | None]]
"""What a call's tool says it would change; a bounded wait, and never an error."""
Loop: TypeAlias = Literal["here", "elsewhere", "flow"]
"""Where a session's loop is: an agent's, in another program, or a flow's steps."""
Publish = Callable[[JournalEvent | TextDelta | ToolInputDelta | ToolProgress | ErrorEvent, str], None]


class HostedSession:
    """A session under the hub: implements `CallGate` for the loop and `SessionStore` for its messages."""

    keeps_record = True
    """See `KeepsRecord`."""
    loop: ClassVar[Loop] = "here"
    interrupted: ClassVar[str] = INTERRUPTED
    """Why a question leaves the queue that nobody waits for any more."""

    def __init__(
        self,
        session_id: str,
        journal: Journal,
        publish: Publish,
        *,
        registry: Mapping[str, SkillNet],
        active: Sequence[str] | None,
        mode: Mode,
        explain_blocks: bool = False,
        redaction: Redaction,
        policy: ApprovalPolicy,
        surroundings: Surroundings,
    ) -> None:
        self.id = session_id
        self.redaction = redaction
        self._told = Told(new_state(session_id), redaction)
        self.manager: GateManager = create_gate_manager(
            registry=registry,
            active=active,
            mode=mode,
            record=self._record_decision,
            explain_blocks=explain_blocks,
            surroundings=surroundings,
            clock=lambda: journal.clock().timestamp(),
        )
        self.session: Session | None = None
        self.preview: Preview | None = None
        self.runtime: Runtime | None = None
        self.journal = journal
        self.publish = publish
        self.children: dict[str, HostedSession] = {}
        self._giving = HandingOver(self.id, journal, lambda e: publish(self._told.apply(e), self.id))
        self.sending = Sending(self)
        self.questions = Questions(self, policy, journal.clock)
        self._originals: dict[str, Mapping[str, object]] = {}
        self._settled: dict[str, str] = {}
        self._in_step = InStep(self.hand_over, self._set_back)

    @property
    def state(self) -> SessionState:
        """All that is known of the session, secrets included."""
        return self._told.state

    @property
    def shown(self) -> SessionState:
        """The same as operators see it."""
        return self._told.shown

    def go_on_from(self, state: SessionState) -> None:
        """Begin where an earlier host of the session has ended."""
        self._told = Told(state, self.redaction)

    async def record(self, *bodies: EventBody, then: Callable[[bool], None] | None = None) -> None:
        """Write events; returns once they are durable and the state has them.

        `then` is called in the very moment in which the state has them, or with false when they could not
        be written; also when who awaits this was cancelled. Raises `JournalError` when they could not be
        written: then nothing changed.
        """
        await self.hand_over(*bodies, then=then)

    def hand_over(
        self, *bodies: EventBody, then: Callable[[bool], None] | None = None
    ) -> asyncio.Future[None]:
        """Give events to the journal here and now; what is handed over later follows them."""
        return self._giving(*bodies, then=then)

    # The gate, as the loop sees it

    async def decide(self, call: ToolCall) -> GateDecision:
        """Ask the nets, and a person where they want one. What fails blocks the call."""
        await self._in_step.catch_up()
        self._originals[call.tool_call_id] = call.input
        try:
            return await self.manager.handle_tool_call(call, GateContext(confirm=self._confirm))
        finally:
            self._originals.pop(call.tool_call_id, None)
            self._in_step.heard(call.tool_call_id)

    async def settle(
        self, result: ToolResult, output: str, seconds: float, *, unknown: bool = False
    ) -> ResultRecord:
        """Tell the nets how a call ended and record it before the model sees the result.

        `unknown` says that nobody knows how.
        """
        await self._in_step.catch_up()
        outcome = self.manager.handle_tool_result(result)
        record = result_record(result, output, seconds, outcome)
        await self._in_step.recorded(updated(record, {"unknown": True}) if unknown else record)
        self.note_settled(result.tool_call_id, output)
        return outcome

    def note_settled(self, call_id: str, output: str) -> None:
        """The record has this output for the call: the message that follows need not repeat it."""
        self._settled[call_id] = output

    def _record_decision(self, call: ToolCall, decision: GateDecision) -> Awaitable[None]:
        """Hand a decision over in the moment in which the gate has made it.

        What is switched, revoked or settled next follows it in the record as it does in the gate.
        """
        original = self._originals.get(call.tool_call_id, call.input)
        via = self._made_by(call.tool_call_id)
        return self._in_step.record(
            lambda: [
                *self._given(decision),
                decision_record(decision, original, via=None if via is self else via.id),
            ],
            call.tool_call_id,
        )

    def _given(self, decision: GateDecision) -> Iterator[GrantGiven]:
        """The grants that came about with a decision: in the record before anything they let pass."""
        now = self.journal.clock().timestamp()
        grants, states = self.manager.grants, self.manager.grant_states
        by = {a.net: a.answer.by for a in decision.approvals if a.answer.grant}
        for key in decision.gave:
            grant = grants[key]
            yield GrantGiven(
                grant=grant_record(grant, states[key], now),
                by=by.get(grant.asks) or "unnamed",
                call_id=decision.call.tool_call_id,
                input=None if grant.input is None else json_input(grant.input),
            )

    def _made_by(self, call_id: str) -> HostedSession:
        """The session that made a call: this one, or a subagent's somewhere below it."""
        name, below, rest = call_id.partition("/")
        child = self.children.get(name) if below else None
        return self if child is None else child._made_by(rest)

    def wait_for(self, calls: Container[str]) -> None:
        """Have the gate wait for the results of calls that go on, as the record says it did."""
        self.manager.restore(
            pending=[
                (p.step.net, p.step.transition, p.step.tool, self._call(p.call_id))
                for p in self.state.pending
                if p.call_id in calls
            ]
        )

    def _set_back(self) -> None:
        """Put the gate where the journal is."""
        state = self.state
        grants = Grants.of(state.grants, self.manager.nets)
        self.manager.restore(
            markings={key: net.marking for key, net in state.nets.items()} | grants.markings,
            pending=[
                (p.step.net, p.step.transition, p.step.tool, self._call(p.call_id)) for p in state.pending
            ],
            active=state.active,
            mode=state.mode,
            since={key: net.since for key, net in state.nets.items()} | grants.since,
            grants=grants.every,
            revoked=grants.over,
        )

    def _call(self, call_id: str) -> ToolCall:
        call = self.state.calls[call_id]
        return ToolCall(call_id, call.tool, call.input)

    async def _confirm(self, request: ApprovalRequest) -> ApprovalAnswer:
        maker = self._made_by(request.call.tool_call_id)
        preview = None if maker.preview is None else await maker.preview(request.call)
        via = None if maker is self else maker.id
        answer = await self.questions.ask(request, preview=preview, via=via)
        await self._in_step.catch_up()
        return answer

    # What operators do

    def unmasked(self, approval_id: str, edited: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """An input that was edited as it was shown, with what was masked. Raises `StillMaskedError`."""
        real, shown = self.state.approvals[approval_id], self.shown.approvals[approval_id]
        return edited if real is shown else unmasked(edited, shown.input, real.input)

    async def toggle(self, net: str, active: bool, by: str) -> ToggleResult:
        """Switch a net on or off. A change the gate refuses is not an event."""
        await self._in_step.catch_up()
        outcome = self.manager.add_net(net) if active else self.manager.remove_net(net)
        if outcome.ok:
            toggled = NetToggled(net=net, active=active, by=by, message=outcome.message)
            await self._in_step.recorded(toggled)
            await self.questions.ask_again()
        return outcome

    async def revoke(self, key: str, by: str) -> bool:
        """End a grant. False when there is none of this name in force."""
        await self._in_step.catch_up()
        if not self.manager.revoke_grant(key).ok:
            return False
        await self._in_step.recorded(GrantRevoked(key=key, by=by))
        return True

    def explain(self, call_id: str) -> ExplanationView:
        """What the nets say of a call as things stand now; may be called from another thread.

        Raises `LookupError` for a call that was not made here.
        """
        if call_id not in self.state.calls:
            raise LookupError(f"Session '{self.id}' has made no call '{call_id}'")
        return self.explain_call(self._call(call_id))

    def explain_call(self, call: ToolCall) -> ExplanationView:
        """What the nets say of any call as things stand now."""
        return view_of(self.manager.explain(call))

    async def set_mode(self, mode: Mode, by: str) -> None:
        """Enforce or shadow from the next call on."""
        await self._in_step.catch_up()
        if self.manager.mode == mode:
            return
        self.manager.mode = mode
        await self._in_step.recorded(ModeChanged(mode=mode, by=by))
        await self.questions.ask_again()

    # The store, as the loop sees it

    async def load(self, session_id: str) -> Messages:
        """What was said so far, from the journal: exactly what the model is prompted with next (A-77)."""
        reader = self.journal.reader()
        return await asyncio.to_thread(lambda: conversation(reader.events(self.id)))

    async def exists(self, session_id: str) -> bool:
        """Whether anything was said in it."""
        return any(entry.kind != "note" for entry in self.state.transcript)

    async def append(self, session_id: str, message: Message) -> None:
        """Record a message before anybody sees it."""
        in_result = False
        if isinstance(message, ToolMessage):
            # A call may be refused after it was settled; the model then reads another text.
            in_result = self._settled.pop(message.call_id, None) == message.text
        record = message_record(message, in_result=in_result)
        if isinstance(message, UserMessage):
            await self.sending.store(message, record)
        else:
            await self.record(record)

    async def on_event(self, event: Event) -> None:
        """Record or pass on what the session's loop reports."""
        match event:
            case TextDelta() | ToolInputDelta() | ToolProgress():
                self.publish(event, self.id)
            case StepEvent():
                await self.step_ended(event)
            case TurnEnd():
                await self.sending.withdraw(stopped(event.reason), SessionStatus(status="idle"))
            case TurnStart() | CompactionStart() if self.state.phase != "running":
                await self.sending.withdraw(stopped(), SessionStatus(status="running"))
            case CompactionFailed():
                failed = SessionStatus(status="idle", error=event.reason)
                await self.sending.withdraw(stopped(), failed)
            case StatusEvent(status="idle") if self.state.phase == "running":
                await self.sending.withdraw(stopped(), SessionStatus(status="idle"))
            case StatusEvent(status="idle"):
                await self.sending.withdraw(stopped())
            case ErrorEvent():
                await self._record_failure(event)
            case _:
                pass

    async def step_ended(self, event: StepEvent, via: str | None = None) -> None:
        """Record what a model call used; `via` is the subagent's session that made it."""
        await self.record(
            StepEnded(
                finish_reason=event.finish_reason,
                input_tokens=event.usage.input,
                output_tokens=event.usage.output,
                cached_tokens=event.usage.cached,
                cost=event.usage.cost,
                via=via,
            )
        )

    async def _record_failure(self, event: ErrorEvent) -> None:
        error = f"{type(event.error).__name__}: {event.error}"
        try:
            await self.sending.withdraw("the run failed", SessionStatus(status="failed", error=error))
        except JournalError as unwritten:
            # The journal cannot say it, so the screens must: the state is all that is left.
            self._told.fail(f"{error} ({unwritten})")
            self.publish(event, self.id)

    def opened(self, agent: Agent, by: str | None, source: dict[str, JsonValue] | None) -> SessionOpened:
        """The event a session's journal begins with."""
        return SessionOpened(
            agent=agent.name,
            model=agent.model.name,
            mode=self.manager.mode,
            nets=tuple(net_record(key, net) for key, net in self.manager.nets.items()),
            active=tuple(self.manager.active),
            tools=tuple(tool.name for tool in agent.tools),
            workdir=str(agent.runtime.cwd),
            opened_by=by,
            source=source,
            labels=labels_of(agent.tools),
            max_cost=agent.max_cost,
        )

    def resumed(
        self, agent: Agent, by: str | None, source: dict[str, JsonValue] | None, standing: Standing
    ) -> SessionResumed:
        """The event with which a recorded session goes on."""
        return SessionResumed(
            agent=agent.name,
            model=agent.model.name,
            mode=self.manager.mode,
            nets=standing.fresh,
            dropped=standing.dropped,
            forgot=standing.forgot,
            active=tuple(self.manager.active),
            tools=tuple(tool.name for tool in agent.tools),
            workdir=str(agent.runtime.cwd),
            by=by,
            source=source,
            labels=labels_of(agent.tools),
            max_cost=agent.max_cost,
        )
