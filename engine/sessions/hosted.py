"""One hosted session: its gate, its record and its state.

Everything that happens to the session becomes an event and is made durable. Only then the state that
consoles see changes, and waiting callers are released. A hub owns many of these.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    Awaitable,
    Callable,
    Container,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import replace
from datetime import datetime
from functools import partial
from math import inf
from typing import TYPE_CHECKING, ClassVar

from pydantic import JsonValue

from ..agents import (
    CompactionFailed,
    CompactionStart,
    ErrorEvent,
    Event,
    Message,
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
from ..agents.rules_notice import current_rules
from ..agents.stores.base import Messages
from ..agents.tools.plan import with_plan_tool
from ..approvals.open_request import OpenRequests
from ..approvals.policy import ApprovalPolicy, OperatorTokens
from ..approvals.requests import ApprovalRequests
from ..approvals.withdrawals import INTERRUPTED
from ..core.condition import Surroundings
from ..core.json_values import same_json
from ..core.plan import PLAN, ConditionReader
from ..gate import GateContext, GateManager, create_gate_manager
from ..gate.classify import ShellFields, maps_digest
from ..gate.decision import PendingQuestion, PendingUses
from ..gate.shared_uses import SharedUses
from ..gate.state.recorder import RecordedDecision
from ..gate.state.restore import Pending
from ..gate.types import ApprovalAnswer, ApprovalRequest, GateDecision, Mode, ResultRecord, ToolResult
from ..history.fold.fold import new_state
from ..history.journal.journal import Journal, JournalError
from ..history.model.events import (
    ApprovalDecided,
    ApprovalFused,
    ApprovalRequested,
    ApprovalWithdrawn,
    CallDecided,
    CallResult,
    CallWaits,
    EventBody,
    FreezeBegan,
    FreezeLifted,
    GrantGiven,
    GrantRevoked,
    JournalEvent,
    MessageAdded,
    RulesReplaced,
    SessionOpened,
    SessionResumed,
    SessionStatus,
    StepEnded,
    ToolHints,
)
from ..history.model.fast_models import copy_with
from ..history.model.records import FreezeRecord, Kind
from ..history.model.state import PendingState, SessionState
from ..history.redaction.hidden_text import RevealedText, hidden_texts
from ..history.redaction.redaction import Redaction
from ..history.redaction.unmasking import unmasked
from ..net.net import SkillNet, ToolCall
from ..recording.conversation import conversation, message_record
from ..recording.explain import view_of, waiting_view
from ..recording.explanation import ExplanationView
from ..recording.grants import Grants, grant_input, grant_record
from ..recording.ledger import SessionLedger
from ..recording.masked_view import MaskedSessionState
from ..recording.records import decision_record, json_input, net_record, result_record
from ..recording.resume_checks import ResumePoint
from ..recording.session_end import ENDED
from ..recording.source_texts import recorded_texts, session_fields, session_hints, texts_in
from ..recording.unbegun_calls import NOT_BEGUN, UnbegunCalls
from .config import SessionConfig
from .freeze import CallFreeze
from .messages import OperatorMessages, stopped
from .profile import AgentProfile
from .switching import Switching

if TYPE_CHECKING:
    from ..agents import Agent, Previews, Runtime, Session

Publish = Callable[[JournalEvent | TextDelta | ToolInputDelta | ToolProgress | ErrorEvent, str], None]


class HostedSession:
    """A session under the hub: implements `CallGate` for the loop and `SessionStore` for its messages."""

    keeps_record = True
    """See `RecordingGate`."""
    kind: ClassVar[Kind] = "root"
    """Kind of the session in its record."""
    interrupted: ClassVar[str] = INTERRUPTED
    """Reason for withdrawing a request whose call no longer waits, if no other is known."""
    leaving: str | None = None
    """Reason for which the session is being ended, while it is."""
    has_unrecorded_end = False
    """True once a flow has stopped because a step could not be recorded: its record says that it runs."""
    disconnected: Mapping[str, datetime] | None = None
    """Calls that no connection waits for, and since when; `None` if no connection was ever lost."""

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
        tokens: OperatorTokens,
        requests: OpenRequests | None = None,
        surroundings: Surroundings,
        uses: SharedUses | None = None,
        freeze: CallFreeze | None = None,
        conditions: ConditionReader | None = None,
    ) -> None:
        self.id = session_id
        self.conditions = conditions
        self.freeze = freeze or CallFreeze()
        self.redaction = redaction
        self._told = MaskedSessionState(new_state(session_id), redaction)
        self.manager: GateManager = create_gate_manager(
            registry=registry,
            active=active,
            mode=mode,
            record=self._record_decision,
            explain_blocks=explain_blocks,
            quote_calls=True,
            surroundings=surroundings,
            clock=lambda: journal.clock().timestamp(),
            uses=(uses or SharedUses()).of_session(session_id),
            conditions=conditions,
        )
        self._recorded_nets = self.manager.nets
        self._take_maps(registry)
        self.ended_grants: tuple[str, ...] = ()
        self.rules: tuple[str, ...] | None = None
        self.latest = -inf
        self.session: Session | None = None
        self.agent: Agent | None = None
        self.previews: Previews | None = None
        self.runtime: Runtime | None = None
        self.journal = journal
        self.publish = publish
        self.children: dict[str, HostedSession] = {}
        self.ledger = SessionLedger(self, journal)
        self.sending = OperatorMessages(self)
        self.questions = ApprovalRequests(self, policy, journal.clock, tokens, requests)
        self._originals: dict[str, Mapping[str, object]] = {}
        self.unbegun = UnbegunCalls()
        self._settled: dict[str, str] = {}
        self._answerers = GateContext(self._confirm, self._waits)
        self.switching = Switching(self, self.ledger, policy, journal.clock, tokens)

    def _take_maps(self, registry: Mapping[str, SkillNet]) -> None:
        """Read inputs with the maps of these nets."""
        self.maps = maps_digest(registry.values())
        self._shell_fields = ShellFields(registry.values())

    @property
    def shell_fields(self) -> ShellFields:
        """The fields of inputs that hold shell commands, by tool (G-51)."""
        return self._shell_fields

    def replace_nets(
        self,
        registry: Mapping[str, SkillNet],
        active: Sequence[str],
        kept: Container[str] = (),
        *,
        grants: Container[str] = (),
        undo: bool = False,
    ) -> None:
        """Have the gate judge by other nets, which the caller records; see `GateManager.replace_nets`."""
        heard = self.manager.sources
        self.manager.replace_nets(registry, active, kept, grants=grants, undo=undo)
        self._take_maps(registry)
        if self.manager.sources != heard:
            self.manager.hear_again(recorded_texts(self.state))

    @property
    def state(self) -> SessionState:
        """The state of the session, secrets included."""
        return self._told.state

    @property
    def shown(self) -> SessionState:
        """The state of the session as shown to operators, secrets masked."""
        return self._told.shown

    @property
    def bounded_by(self) -> str | None:
        """`None`: an operator has started the agents that run here, so their requests are not limited."""
        return None

    @property
    def is_in_step(self) -> bool:
        """True while code of the session other than a tool runs here."""
        return False

    @property
    def must_finish_step(self) -> bool:
        """True if tools ran in the current step: elsewhere the step would begin again, and run them."""
        return False

    def finish_step(self) -> None:
        """Run no step after the current one, if the session runs steps."""

    def drop_late(self, call_id: str) -> bool:
        """Return false: no call of an agent that runs here is late."""
        return False

    def go_on_from(self, state: SessionState) -> None:
        """Continue from the state at which an earlier host ended, unless other events are added first."""
        self.ledger.follow(state.seq)
        self._told = MaskedSessionState(state, self.redaction)
        self.manager.hear_again(recorded_texts(state))

    async def record(self, *bodies: EventBody, on_written: Callable[[bool], None] | None = None) -> None:
        """Write events; return once they are durable and applied to the state.

        `on_written` is called at the moment when they are applied, or with false if they could not be
        written, even if the caller was cancelled. Raises `JournalError` if they could not be written;
        nothing has changed then.
        """
        await self.ledger.write(*bodies, on_written=on_written)

    def hand_over(self, *bodies: EventBody) -> asyncio.Future[None]:
        """Hand events over to the journal at once; see `SessionLedger.write`."""
        return self.ledger.write(*bodies)

    def prepare(self, bodies: Iterable[EventBody]) -> Iterable[EventBody]:
        """See `LedgerHost`: add to events which fields of their input hold shell commands (G-51)."""
        return map(self._declaring, bodies) if self.shell_fields else bodies

    def note_written(self, event: JournalEvent) -> None:
        """Apply and publish a durable event; void requests of calls that it has blocked (G-68)."""
        self.publish(self._told.apply(event), self.id)
        for source, text in texts_in(event.body, self.kind):
            self.manager.hear(source, text)
        match event.body:
            case SessionOpened() | SessionResumed():
                self.manager.surroundings = replace(
                    self.manager.surroundings,
                    session=session_fields(self.state),
                    hints=session_hints(self.state),
                )
            case ToolHints():
                self.manager.surroundings = replace(
                    self.manager.surroundings, hints=session_hints(self.state)
                )
            case CallDecided(steps=(_, *_)) | CallResult(fired=(_, *_)):
                self.questions.schedule_block_check()
            case RulesReplaced():
                self._recorded_nets = self.manager.nets
                if self.session is not None:
                    nets = self._recorded_nets.values()
                    self.session.tools = with_plan_tool(self.session.tools, nets)
            case _:
                pass

    def note_lost(self, body: EventBody) -> None:
        """See `LedgerHost`."""

    def _declaring(self, body: EventBody) -> EventBody:
        """Return the event with the fields of its input that hold shell commands (G-51)."""
        match body:
            case MessageAdded(calls=(_, *_) as calls):
                declared = (copy_with(c, {"shell_fields": self.shell_fields.of(c.tool)}) for c in calls)
                return copy_with(body, {"calls": tuple(declared)})
            case MessageAdded(tool=str(tool)) | CallDecided(tool=tool) | ApprovalRequested(called=tool):
                pass
            case ApprovalDecided() | ApprovalWithdrawn() | ApprovalFused():
                approval = self.state.approvals.get(body.approval_id)
                tool = None if approval is None else approval.called
            case GrantGiven(grant=grant):
                tool = grant.tool
            case _:
                return body
        found = () if tool is None else self.shell_fields.of(tool)
        return copy_with(body, {"shell_fields": found}) if found else body

    # The gate, as the loop uses it

    def constraints(self) -> Sequence[str] | None:
        """The rules in sentences for the model; `None` in shadow mode, where no rule applies (G-73)."""
        return () if self.manager.mode == "shadow" else self.manager.constraints()

    async def until_held(self) -> None:
        """Wait until what was allowed may begin; see `Journal.until_held`."""
        await self.journal.until_held()

    async def until_may_begin(self, call_id: str) -> None:
        """Wait until a call that was allowed may begin; see `UnbegunCalls.begin`."""
        await self.until_held()
        await self.unbegun.begin(call_id)

    def waits_for_others(self, call_id: str) -> bool:
        """Return whether a call was allowed and waits until the others of its reply are decided."""
        maker, own_id = self._origin(call_id)
        return maker.unbegun.waits_for_others(own_id)

    async def settle_unbegun(self) -> None:
        """Record that allowed calls that did not begin never do. Raises `JournalError`."""
        for result in self.unbegun.results():
            await self.settle(result, NOT_BEGUN, 0.0)

    async def decide(self, call: ToolCall) -> GateDecision:
        """Decide a call by the nets, and by an operator if they need one. Any failure blocks the call."""
        with self.unbegun.deciding(own=self._origin(call.tool_call_id)[0] is self):
            await self.catch_up()
            self._originals[call.tool_call_id] = call.input
            try:
                return await self.manager.handle_tool_call(call, self._answerers)
            except BaseException:
                self.unbegun.remove(call.tool_call_id)
                raise
            finally:
                self._originals.pop(call.tool_call_id, None)

    def try_decide(self, call: ToolCall) -> RecordedDecision | PendingQuestion | None:
        """Decide a call without waiting, or return the question to answer first, with `ask`.

        Return `None` if `decide` must be used: when a switch or the gate must be set back before, when
        other servers must be asked for uses, and while all agents are frozen.
        """
        if self._is_on_hold or self.switching.is_late() or self.ledger.is_ahead:
            return None
        reached = self.manager.try_decide(call, self._answerers)
        return None if isinstance(reached, PendingUses) else reached

    async def ask(self, call: ToolCall, question: PendingQuestion) -> GateDecision:
        """Have operators answer the question that `try_decide` returned, and decide the call."""
        self._originals[call.tool_call_id] = call.input
        try:
            return await self.manager.ask(call, question, self._waits)
        finally:
            self._originals.pop(call.tool_call_id, None)

    async def settle(
        self, result: ToolResult, output: str, seconds: float, *, unknown: bool = False
    ) -> ResultRecord:
        """Pass a call's result to the nets and record it before the model sees it.

        `unknown` says that its outcome is unknown.
        """
        await self.ledger.catch_up()
        outcome = self.manager.handle_tool_result(result)
        record = result_record(result, output, seconds, outcome)
        await self.ledger.record_change(copy_with(record, {"unknown": True}) if unknown else record)
        self.note_settled(result.tool_call_id, output)
        return outcome

    def note_settled(self, call_id: str, output: str) -> None:
        """Note that the call's output is recorded: the message that follows need not repeat it."""
        self._settled[call_id] = output
        self.unbegun.remove(call_id)

    def _record_decision(self, call: ToolCall, decision: GateDecision) -> Awaitable[None]:
        """Hand a decision over at the moment when the gate has made it.

        Switches, revocations and results after it then follow it in the record as they do in the gate.
        """
        original = self._originals.get(call.tool_call_id, call.input)
        via = self._origin(call.tool_call_id)[0]
        if via is self and self.session is not None:
            self.unbegun.add(decision)
        return self.ledger.write_change(
            lambda: [
                *self.preceding(call.tool_call_id),
                *self._new_grants(decision),
                self.with_off(
                    decision,
                    decision_record(
                        decision,
                        original,
                        via=None if via is self else via.id,
                        uses=self.manager.uses_of(call.tool_call_id),
                    ),
                ),
            ]
        )

    def preceding(self, call_id: str) -> Sequence[EventBody]:
        """Return the events that are recorded before the decision on a call and together with it."""
        return ()

    def with_off(self, decision: GateDecision, record: CallDecided) -> CallDecided:
        """Add to a decision's record the rules that were off and would have applied, and who set them."""
        off = self.state.off
        if not off or decision.outcome != "allow":
            return record
        nets = {approval.net for approval in decision.approvals}
        concerned = self.manager.concerned(decision.call, [key for key in off if key not in nets])
        return copy_with(record, {"off": {key: off[key].people for key in concerned}})

    def _new_grants(self, decision: GateDecision) -> Iterator[GrantGiven]:
        """Yield the grants created with a decision, which are recorded before any call uses them."""
        if not decision.gave:
            return
        now = self.journal.clock().timestamp()
        grants, states = self.manager.grants, self.manager.grant_states
        answers = {a.net: a.answer for a in decision.approvals if a.answer.grant}
        plans = [a.answer for a in decision.approvals if a.tool == PLAN]
        for key in decision.gave:
            grant = grants[key]
            answer = answers.get(grant.asks) if grant.planned is None else plans[-1]
            yield GrantGiven(
                grant=grant_record(grant, states[key], now, self.maps),
                by="unnamed" if answer is None else answer.by or "unnamed",
                call_id=decision.call.tool_call_id,
                input=grant_input(grant),
                reason=None if answer is None else answer.reason,
            )

    def _path(self, call_id: str) -> tuple[list[HostedSession], str]:
        """Return this session and the subagents' sessions that made a call, and its id in the last."""
        path: list[HostedSession] = [self]
        name, slash, own_id = call_id.partition("/")
        while slash and name in path[-1].children:
            path.append(path[-1].children[name])
            call_id = own_id
            name, slash, own_id = call_id.partition("/")
        return path, call_id

    def _origin(self, call_id: str) -> tuple[HostedSession, str]:
        """Return the session that made a call, this or a subagent's, and the call's id there."""
        path, own_id = self._path(call_id)
        return path[-1], own_id

    def sessions_of(self, call_id: str) -> tuple[SessionState, ...]:
        """Return the states of the sessions that a call came through: this one and those of subagents."""
        return tuple(each.state for each in self._path(call_id)[0])

    def end_reason(self, call_id: str) -> str:
        """Return why a call no longer waits for its decision."""
        sessions = (self, self._origin(call_id)[0])
        return next((found for each in sessions if (found := each._stop_reason())), self.interrupted)

    def _stop_reason(self) -> str | None:
        """Return why the session's agent stopped its work, if that is known."""
        if self.leaving is not None or self.session is None:
            return self.leaving
        if (reason := self.session.abort_reason) is not None:
            return stopped(reason)
        steered = self.session.steering_sender
        return None if steered is None else f"{steered or 'somebody'} spoke to the agent"

    def restore_pending(self, pending: Iterable[PendingState]) -> None:
        """Have the gate wait for the results of resumed calls, as recorded."""
        self.manager.restore(pending=self._steps(pending))

    def _steps(self, pending: Iterable[PendingState]) -> list[Pending]:
        return [(p.step.net, p.step.transition, p.step.tool, self._call(p.call_id)) for p in pending]

    def set_back(self) -> None:
        """Reset the gate to the recorded state."""
        state = self.state
        if self.manager.nets != self._recorded_nets:
            self.replace_nets(self._recorded_nets, state.active, undo=True)
        grants = Grants.of(state.grants, self.manager.nets, self.maps, self.conditions)
        nets = {**state.nets, **state.values}
        self.manager.restore(
            markings={key: net.marking for key, net in nets.items()} | grants.markings,
            pending=self._steps(state.pending),
            active=state.active,
            mode=state.mode,
            since={key: net.since for key, net in nets.items()} | grants.since,
            grants=grants.every,
            revoked=grants.over,
            latest=max(self.latest, state.updated.timestamp() if state.updated else -inf),
        )
        self.questions.schedule_renewal("the journal refused a change of the rules in force")

    def _call(self, call_id: str) -> ToolCall:
        call = self.state.calls[call_id]
        return ToolCall(call_id, call.tool, call.input)

    async def _confirm(self, request: ApprovalRequest) -> ApprovalAnswer:
        maker, own_id = self._origin(request.call.tool_call_id)
        if maker is not self and (current := maker.state.calls.get(own_id)) and current.waits_for:
            # The request is recorded in this session, so it does not end the wait in the subagent's
            # record.
            await maker.record(CallWaits(call_id=own_id))
        arguments, previews = json_input(request.call.input), maker.previews
        preview, unchanged = None, None
        if previews is not None:
            version = await previews.version(arguments)
            preview = await previews.preview(request.call.tool_name, arguments)
            if preview is not None and version is not None:
                unchanged = partial(_same_version, previews, arguments, version)
        via = None if maker is self else maker.id
        answer = await self.questions.ask(request, preview=preview, via=via, files_unchanged=unchanged)
        await self.catch_up()
        return answer

    async def catch_up(self) -> None:
        """Wait while all agents are frozen, then bring the gate to the state of journal and clock (G-67).

        Nothing comes between this and the gate's next decision. Raises `JournalError` if the end of a
        temporary switch cannot be recorded.
        """
        while True:
            await self.wait_for_freeze_end()
            if self.switching.is_late():
                await self.switching.catch_up()
            await self.ledger.catch_up()
            if not self._is_on_hold:
                return

    @property
    def _is_on_hold(self) -> bool:
        """True while no call is decided: all agents are frozen, or the hub ends."""
        return self.is_frozen if self.must_finish_step else self.freeze.holds

    @property
    def is_frozen(self) -> bool:
        """See `RequestHost`."""
        return self.freeze.current is not None

    async def wait_for_freeze_end(self) -> None:
        """See `RequestHost`."""
        await self.freeze.wait_for_end(although_ending=self.must_finish_step)

    async def note_freeze(self, lift: FreezeRecord | None = None) -> None:
        """Record the freeze in force, or its end by `lift`, unless it is recorded already.

        The caller must hold the freeze's turn. Raises `JournalError`.
        """
        now = self.freeze.current
        if self.state.status in ENDED:
            return
        if lift is not None and self.state.frozen is not None:
            await self.record(FreezeLifted(by=lift.by, reason=lift.reason))
        elif lift is None and now is not None and self.state.frozen is None:
            await self.record(FreezeBegan(by=now.by, since=now.at, reason=now.reason))

    async def _waits(self, call: ToolCall, earlier: tuple[str, ...]) -> None:
        """Record in the session that made a call which calls it waits for (G-68), or none any more."""
        if not earlier:
            await self.catch_up()
            return
        maker, own_id = self._origin(call.tool_call_id)
        current = maker.state.calls.get(own_id)
        if current is None or current.waits_for != earlier:
            await maker.record(CallWaits(call_id=own_id, waits_for=earlier))

    # Actions of operators

    def unmasked(self, approval_id: str, edited: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """Restore the masked parts of an input that was edited as shown. Raises `StillMaskedError`."""
        real, shown = self.state.approvals[approval_id], self.shown.approvals[approval_id]
        return edited if real is shown else unmasked(edited, shown.input, real.input)

    def is_as_asked(self, approval_id: str, edited: dict[str, JsonValue]) -> bool:
        """Return whether an edited input is the same JSON as the requested one."""
        approval = self.state.approvals[approval_id]
        return approval.wants is None and same_json(edited, approval.input)

    def revealed(self, approval_id: str) -> tuple[RevealedText, ...]:
        """Return, unmasked, the masked texts of a request that may be more than secrets."""
        real, shown = self.state.approvals[approval_id], self.shown.approvals[approval_id]
        found = hidden_texts(shown.input, real.input, real.shell_fields, tool=real.called)
        return tuple(RevealedText(place=hidden.place, text=text) for hidden, text in found)

    async def revoke(self, key: str, by: str) -> bool:
        """End a grant and all others of its plan, by the key of one of them or of the plan (G-110).

        Return false if there is no such grant in force.
        """
        await self.ledger.catch_up()
        ended = self.manager.grants_with(key)
        if not self.manager.revoke_grant(key).ok:
            return False
        await self.ledger.record_change(*(GrantRevoked(key=each, by=by) for each in ended))
        return True

    def explain(self, call_id: str) -> ExplanationView:
        """Explain how the nets decide a call now; may be called from another thread.

        Raises `LookupError` for a call that was not made here.
        """
        if call_id not in self.state.calls:
            raise LookupError(f"Session '{self.id}' has made no call '{call_id}'")
        view = self.explain_call(self._call(call_id))
        waiting = [approval for approval in self.state.approvals.values() if approval.call_id == call_id]
        return waiting_view(view, [approval for approval in waiting if approval.wants is None])

    def explain_call(self, call: ToolCall) -> ExplanationView:
        """Explain how the nets would decide any call now."""
        view = view_of(self.manager.explain(call))
        found = self.shell_fields.of(call.tool_name)
        return view.model_copy(update={"shell_fields": found}) if found else view

    # The store, as the loop uses it

    async def load(self, session_id: str) -> Messages:
        """Return the recorded conversation: exactly what the model is prompted with next (A-77)."""
        reader = self.journal.reader()
        return await asyncio.to_thread(lambda: conversation(reader.events(self.id)))

    async def exists(self, session_id: str) -> bool:
        """Return whether its transcript has a message."""
        return any(entry.kind != "note" for entry in self.state.transcript)

    async def append(self, session_id: str, message: Message) -> None:
        """Record a message before it is shown."""
        if self.journal.is_handed_over:
            return
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
        """Record or publish what the session's loop reports."""
        if self.journal.is_handed_over:
            return
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
            case StatusEvent(status="idle"):
                ended = [SessionStatus(status="idle")] if self.state.phase == "running" else []
                await self.sending.withdraw(stopped(), *ended)
            case ErrorEvent():
                await self._record_failure(event)
            case _:
                pass

    async def step_ended(self, event: StepEvent, via: str | None = None) -> None:
        """Record the usage of a model call; `via` is the subagent's session that made it."""
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

    def fail(self, error: JournalError) -> None:
        """Show an error of the journal in the state, because it cannot be recorded."""
        self._told.fail(str(error))
        self.publish(ErrorEvent(error=error), self.id)

    async def _record_failure(self, event: ErrorEvent) -> None:
        error = f"{type(event.error).__name__}: {event.error}"
        failed = SessionStatus(status="failed", error=error)
        try:
            try:
                await self.sending.withdraw("the run failed", failed)
            except JournalError:
                # It may have failed only because it followed lost events: written alone it may succeed.
                await self.ledger.outcomes_known()
                await self.sending.withdraw("the run failed", failed)
        except JournalError as unwritten:
            # The journal cannot record it, so it is shown in the state.
            self._told.fail(f"{error} ({unwritten})")
            self.publish(event, self.id)

    # Opening and resumption in the record

    def opened(self, profile: AgentProfile, config: SessionConfig) -> SessionOpened:
        """Return the event with which the session's record begins."""
        opened = SessionOpened(
            agent=profile.name,
            model=profile.model,
            mode=self.manager.mode,
            nets=tuple(net_record(key, net) for key, net in self.manager.nets.items()),
            opened_by=config.by,
            kind=self.kind,
            rules=self._first_rules(profile),
        )
        return opened.model_copy(update=self._description(profile, config))

    def _first_rules(self, profile: AgentProfile) -> tuple[str, ...] | None:
        """Return the sentences about the rules for the system prompt, which never change later (G-73)."""
        if self.rules is None and profile.tells_rules:
            self.rules = current_rules(self)
        return self.rules

    def resumed(self, profile: AgentProfile, config: SessionConfig, point: ResumePoint) -> SessionResumed:
        """Return the event that records the resumption of the session."""
        resumed = SessionResumed(
            agent=profile.name,
            model=profile.model,
            mode=self.manager.mode,
            nets=point.fresh,
            dropped=point.dropped,
            forgot=point.forgot,
            by=config.by,
            reason=config.reason,
            ended_grants=self.ended_grants,
            rules=self._first_rules(profile) if self.rules is None else None,
        )
        return resumed.model_copy(update=self._description(profile, config))

    def _description(self, profile: AgentProfile, config: SessionConfig) -> dict[str, object]:
        """Return the fields that describe agent and owner in both events."""
        return {
            "active": self.manager.active,
            "tools": profile.tools,
            "workdir": profile.workdir,
            "shell": profile.shell,
            "owner": config.owner,
            "source": config.source,
            "applied": config.applied,
            "labels": dict(profile.labels),
            "session_labels": config.labels,
            "max_cost": profile.max_cost,
        }


async def _same_version(previews: Previews, arguments: Mapping[str, JsonValue], version: str) -> bool:
    """Return whether a preview's file is unchanged; true if that cannot be determined."""
    return await previews.version(arguments) in (version, None)
