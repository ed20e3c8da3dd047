"""Takes calls and their results through the nets of a composition, in four phases."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from inspect import isawaitable
from time import perf_counter
from types import MappingProxyType

from ...core.condition import NOWHERE, Surroundings
from ...core.plan import ConditionReader
from ...core.shared_limit import CounterStoreError, Reservation
from ...net.net import SkillNet, ToolCall, initial_state
from .. import reasons
from ..approve import ApprovalProgress, ask
from ..classify import names_of
from ..commit import NOTHING
from ..conditions import EvaluationContext, apply_condition
from ..decision import (
    PendingQuestion,
    PendingUses,
    enforce,
    make_snapshot,
    pass_at_once,
    refusal,
    refusal_by_person,
    shadow,
)
from ..explain import with_way
from ..grants.plans import Plans
from ..member import Member
from ..shared_uses import MOST_ATTEMPTS, SessionUses
from ..state.composition import Composition
from ..state.recorder import RecordedDecision
from ..state.registry import Nets
from ..state.undo import NO_NETS, NO_TIMES
from ..types import (
    ChosenEdit,
    Confirm,
    GateContext,
    GateDecision,
    Mode,
    OnDecision,
    OpenQuestion,
    RecordDecision,
    ResultRecord,
    ToolResult,
    Waits,
)
from .contention import begin_asking, end_asking

log = logging.getLogger(__name__)

NOBODY = GateContext()
"""Context of a call about which nobody is asked."""


async def _until_it_waits(answer: Awaitable[object]) -> None:
    """Run a listener up to its first wait. Raises `RuntimeError` if it does not finish there."""
    running = answer.__await__()
    try:
        next(running)
    except StopIteration:
        return
    running.close()
    raise RuntimeError("it waits, which the call of a synchronous tool cannot do")


def _failed(call: ToolCall, problem: Exception) -> GateDecision:
    """Block of a call on which the gate failed (G-59)."""
    log.exception("The gate failed on call '%s' to '%s'", call.tool_call_id, call.tool_name)
    return refusal(call, reasons.gate_failed(problem))


class CallGate(Composition):
    """Composition that decides on calls, has operators asked about them, and receives their results."""

    def __init__(
        self,
        nets: Nets | None = None,
        *,
        registry: Mapping[str, SkillNet] | None = None,
        active: Sequence[str] | None = None,
        mode: Mode = "enforce",
        on_decision: OnDecision | None = None,
        record: RecordDecision | None = None,
        explain_blocks: bool = False,
        quote_calls: bool = False,
        surroundings: Surroundings = NOWHERE,
        clock: Callable[[], float] = time.time,
        uses: SessionUses | None = None,
        conditions: ConditionReader | None = None,
        plans: bool = True,
    ) -> None:
        super().__init__(
            nets,
            registry,
            active,
            mode=mode,
            record=record,
            quote_calls=quote_calls,
            surroundings=surroundings,
            clock=clock,
            uses=uses,
        )
        self._plans = Plans(conditions) if plans else None
        self._waiting: set[str] = set()
        self._owed: dict[str, tuple[OpenQuestion, ...]] = {}
        self._edits: dict[str, ChosenEdit] = {}
        self._on_decision = on_decision
        self._explain_blocks = explain_blocks
        self.on_judged: Callable[[ToolCall, float], None] | None = None
        """Called with each call and the seconds that judging it took, without the time operators took."""

    async def handle_tool_call(self, call: ToolCall, ctx: GateContext = NOBODY) -> GateDecision:
        """Take a call through the four phases; waits if it needs approval.

        If calls compete for the last tokens of a net, approval is requested for only as many calls as
        there are tokens; the others wait (G-68). A call that needs no approval never waits: it takes the
        tokens, and a call whose approval was requested before may then find them gone (G-15).

        Never raises for what a net or a callback does: the call is blocked instead. Cancelling it while
        it waits for approval, or for another call, withdraws the call, and nothing has fired.
        """
        started_at = None if self.on_judged is None else perf_counter()
        # Here and for results, `with` would cost 6 % more per round trip.
        self._lock.acquire()
        try:
            reached = self._pass_at_once(call) or self._advance(call, ctx.confirm)
            decision = reached if type(reached) is GateDecision and self._recorder is None else None
            claimed = decision is None and self._claim(call)
        finally:
            self._lock.release()
        if started_at is not None:
            self._note_judged(call, started_at)
        if decision is None:
            decision = await self._awaited(call, reached, claimed, ctx.waits, ctx.confirm)
        if self._on_decision is not None:
            await self._announce(decision, self._on_decision, at_once=ctx.at_once)
        return decision

    def try_decide(
        self, call: ToolCall, ctx: GateContext = NOBODY
    ) -> RecordedDecision | PendingQuestion | PendingUses:
        """Decide a call without waiting, and hand the decision to the gate's recorder.

        The caller must wait until the decision is recorded. For a call that needs approval the question
        is returned, and nothing has happened: see `ask`. The same holds for a call whose uses of limits
        over sessions must be reserved first: see `handle_tool_call`. Never raises, like
        `handle_tool_call`.
        """
        assert self._recorder is not None, "try_decide needs a gate with a recorder"
        started_at = None if self.on_judged is None else perf_counter()
        with self._lock:
            reached = self._pass_at_once(call) or self._advance(call, ctx.confirm)
        if started_at is not None:
            self._note_judged(call, started_at)
        if not isinstance(reached, GateDecision):
            return reached
        return RecordedDecision(reached, self._recorder.hand_over(call, reached))

    def _note_judged(self, call: ToolCall, started_at: float) -> None:
        try:
            if self.on_judged is not None:
                self.on_judged(call, perf_counter() - started_at)
        except Exception:
            # A failed measurement does not affect the decision.
            log.exception("Could not report the time taken to judge a call")

    async def ask(
        self, call: ToolCall, asked: PendingQuestion, waits: Waits | None = None
    ) -> GateDecision:
        """Get the question from `try_decide` for `call` answered; return the recorded decision."""
        with self._lock:
            claimed = self._claim(call)
        return await self._awaited(call, asked, claimed, waits)

    def pass_at_once(self, call: ToolCall) -> GateDecision | None:
        """Decision of `handle_tool_call` on a call that every net lets pass without approval.

        Returns `None` for any other call, and then nothing has happened. For judging many calls outside
        an event loop, where a coroutine per call doubles the time.
        """
        if self._recorder is not None or self._on_decision is not None:
            return None
        self._lock.acquire()  # as in `handle_tool_call`
        try:
            return self._pass_at_once(call)
        finally:
            self._lock.release()

    def _pass_at_once(self, call: ToolCall) -> GateDecision | None:
        """Decision on a new call that every net lets pass by its marking alone."""
        call_id, pending = call.tool_call_id, self._pending
        if (
            self._mode != "enforce"
            or call_id in pending.waiting
            or call_id in self._waiting
            or self._owed
        ):
            return None
        if self._recorder is not None and self._recorder.broken is not None:
            return None
        try:
            decision = pass_at_once(call, self._roster, pending)
        except Exception as problem:
            return _failed(call, problem)
        if decision is not None and decision.steps:
            self._moves.note((call_id, decision.steps, NO_TIMES, NO_NETS))
        return decision

    def _claim(self, call: ToolCall) -> bool:
        """Reserve the id of a waiting call; `False` if another call has it and this one is refused."""
        if call.tool_call_id in self._waiting:
            return False
        self._waiting.add(call.tool_call_id)
        return True

    async def _awaited(
        self,
        call: ToolCall,
        reached: GateDecision | PendingQuestion | PendingUses,
        claimed: bool,
        waits: Waits | None,
        confirm: Confirm | None = None,
    ) -> GateDecision:
        """The decision, once operators have answered and it is recorded.

        Afterwards the call's id is released, and calls that waited for its tokens continue.
        """
        has_question = False
        progress: ApprovalProgress | None = None
        reserved: Reservation | None = None
        try:
            while not isinstance(reached, GateDecision):
                if isinstance(reached, PendingUses):
                    reached, reserved = await self._with_uses(call, confirm, progress, waits)
                    continue
                has_question, progress, confirm = True, reached.progress, reached.confirm
                reached = await self._in_turn(reached, waits)
                if isinstance(reached, PendingQuestion):
                    reached = await self._ask(reached)
            if self._recorder is not None:
                decision = reached
                reached = await self._recorder.record(call, decision)
                if reserved is not None and reached is not decision:
                    self._uses.forget(reserved)
        finally:
            if claimed:
                self._waiting.discard(call.tool_call_id)
            if has_question:
                with self._lock:
                    self._claims.leave(call.tool_call_id)
        return reached

    async def _with_uses(
        self,
        call: ToolCall,
        confirm: Confirm | None,
        progress: ApprovalProgress | None,
        waits: Waits | None,
    ) -> tuple[GateDecision | PendingQuestion, Reservation | None]:
        """Reserve the uses of limits over sessions that a call needs, and continue with the call.

        Returns the decision or question, and the reservation whose uses the call took. If other servers
        had used the counters, the call is judged again by what is left. It is decided by the state at
        that time: a freeze that came during the wait, for example, applies.
        """
        reservations = self._uses.uses.reservations
        assert reservations is not None
        judged_call = call if progress is None else progress.call
        reservation: Reservation | None = None
        reserved: Mapping[str, str] = {}
        sure = is_reserved = False
        try:
            async with reservations.turn(self._uses.session):
                for _ in range(MOST_ATTEMPTS):
                    if waits is not None:
                        await waits(judged_call, ())
                    with self._lock:
                        reached = self._advance(
                            judged_call, confirm, progress, reserved=reserved, sure=sure
                        )
                    if not isinstance(reached, PendingUses):
                        is_reserved = isinstance(reached, GateDecision) and bool(
                            reached.steps and reserved
                        )
                        return reached, reservation if is_reserved else None
                    sure = True
                    if reached.unsure:
                        await reservations.refresh(reached.unsure)
                        continue
                    if reservation is not None:
                        reservations.release(reservation)
                    reservation = self._uses.reservation(
                        judged_call.tool_call_id,
                        reached.counters,
                        reached.at,
                        reached.at + reached.window,
                    )
                    if not await reservations.reserve(reservation, reached.left):
                        reservation = None
                    reserved = {} if reservation is None else reservation.counters
                raise RuntimeError(
                    f"other servers used its limits {MOST_ATTEMPTS} times while it was judged"
                )
        except CounterStoreError as problem:  # logged once for all calls
            return refusal(judged_call, reasons.uncounted(problem)), None
        except Exception as problem:
            return _failed(judged_call, problem), None
        finally:
            if reservation is not None and not is_reserved:
                reservations.release(reservation)

    async def _in_turn(
        self, asked: PendingQuestion, waits: Waits | None
    ) -> GateDecision | PendingQuestion | PendingUses:
        """Wait until no competing call is asked about or due to be; then return the question or a block
        (G-68).

        If such a call has taken what this one needs, this one is blocked with the net's own reason,
        because it has not been asked about.
        """
        progress, confirm = asked.progress, asked.confirm
        while True:
            try:
                with self._lock:
                    earlier = self._claims.enter(progress.call, self._roster, self._time.context())
                    if not earlier:
                        return asked
                    wake_up = self._claims.wait()
            except Exception as problem:
                return _failed(progress.call, problem)
            try:
                if waits is not None:
                    await waits(progress.call, earlier)
                await wake_up
                if waits is not None:
                    await waits(progress.call, ())
            except Exception as problem:
                reason = reasons.callback_failed(asked.member.key, "waits", problem)
                return refusal_by_person(asked, reason)
            with self._lock:
                progress.passed = frozenset()
                reached = self._advance(progress.call, confirm, progress)
            if not isinstance(reached, PendingQuestion):
                return reached
            asked = reached

    def _advance(
        self,
        call: ToolCall,
        confirm: Confirm | None,
        progress: ApprovalProgress | None = None,
        *,
        reserved: Mapping[str, str] | None = None,
        sure: bool = False,
    ) -> GateDecision | PendingQuestion | PendingUses:
        """Take the call as far as it goes without waiting, from the start or after an answer.

        Given `reserved`, the uses of limits over sessions that are reserved for it, the call has its turn
        at the counters. `sure` says that the uses of all other servers have just been read.
        """
        tool_call_id, roster, pending = call.tool_call_id, self._roster, self._pending
        if self._recorder is not None and self._recorder.broken is not None:
            return refusal(call, self._recorder.broken)
        is_new = progress is None and reserved is None
        if tool_call_id in pending.waiting or (is_new and tool_call_id in self._waiting):
            refused = refusal(call, reasons.id_in_use(tool_call_id), self._mode)
            return self._moves.noted(refused, NO_TIMES, roster.members)
        try:
            if self._owed and progress is None:
                progress = self._asking_about(call)
                call = call if progress is None else progress.call
            context = self._time.context()
            call = call.run_by(context.surroundings.shell)
            reservations = self._uses.uses.reservations
            if reservations is not None and reserved is None:
                reserved = {}
            snapshot = make_snapshot(roster, pending, self._granted, context, self._plans, reserved)
            # A call that waits for approval keeps waiting in any mode (G-67).
            in_shadow = self._mode == "shadow" and progress is None
            reached = (shadow if in_shadow else enforce)(call, confirm, snapshot, progress)
        except Exception as problem:
            return _failed(call, problem)
        if not isinstance(reached, GateDecision):
            return reached
        if reservations is not None and not sure and reached.outcome == "block":
            counters = frozenset(context.counters)
            if reservations.is_unsure(counters):
                return PendingUses({}, {}, unsure=counters)
        self._moves.noted(reached, context.moved or NO_TIMES, roster.members)
        if self._counts and reached.steps:
            self._count_uses(reached, context)
        self._owed.pop(tool_call_id, None)
        if reached.steps and self._claims.waiters:
            self._claims.wake()
        self._edits.pop(tool_call_id, None)
        if self._explain_blocks:
            return with_way(roster, self._granted, reached, self._time.context())
        return reached

    def _count_uses(self, decision: GateDecision, context: EvaluationContext) -> None:
        """Count the uses of limits over sessions that a call has taken."""
        counters: dict[str, str] = {}
        for step in decision.steps:
            member = self._member(step.net)
            shared = None if member is None else member.net.shared
            if member is not None and shared is not None and shared.place in step.transition.inputs:
                counters[step.net] = context.counter(member, shared)
        if counters:
            self._uses.take(decision.call.tool_call_id, counters, context.now())

    def uses_of(self, call_id: str) -> dict[str, str]:
        """Counters of the limits over sessions that a call has used, by net."""
        return self._uses.of_call(call_id) if self._counts else {}

    def block_reason(self, call: ToolCall) -> str | None:
        """Reason with which a net would block `call` now; `None` if none would (G-68)."""
        with self._lock:
            try:
                context = self._time.context()
                classification = self._roster.classify(call.run_by(context.surroundings.shell), context)
                blocked = classification.first_block()
                if blocked is None:
                    return None
                return classification.reason(blocked[1]) or f"{call.tool_name} is blocked."
            except Exception as problem:
                log.exception("The gate failed on call '%s'", call.tool_call_id)
                return reasons.gate_failed(problem)

    def concerned(self, call: ToolCall, keys: Iterable[str]) -> tuple[str, ...]:
        """Keys of those nets, active or not, that would block `call` or require approval for it now.

        A net that cannot judge the call is included.
        """
        found: list[str] = []
        with self._lock:
            context = self._time.context()
            for key in keys:
                member = self._members.get(key)
                try:
                    names = () if member is None else names_of(member.net, call)
                    verdict = member and apply_condition(member, names, call, context)[1]
                except Exception:
                    log.exception("Net '%s' cannot judge call '%s'", key, call.tool_call_id)
                    found.append(key)
                    continue
                if verdict is None or verdict.kind in ("free", "abstain"):
                    continue
                if verdict.kind == "blocked" or any(s.transition.type == "manual" for s in verdict.steps):
                    found.append(key)
        return tuple(found)

    def owe(
        self,
        questions: Mapping[str, Sequence[OpenQuestion]],
        edits: Mapping[str, ChosenEdit] = MappingProxyType({}),
    ) -> None:
        """Require approval for the next calls with these ids, under any nets and in any mode (G-67).

        `edits` has, by id, inputs that operators had chosen for these calls and that are asked about
        (G-75).

        It applies to the next call with each id, if that is a call of the same tool. Raises `NetError`
        for a net that does not come to rest.
        """
        with self._lock:
            self._owed.update({call_id: tuple(asked) for call_id, asked in questions.items()})
            self._edits.update(edits)

    def _asking_about(self, call: ToolCall) -> ApprovalProgress | None:
        """Progress of a call about which an earlier gate had asked, with its questions; else `None`."""
        questions = [q for q in self._owed.get(call.tool_call_id, ()) if q.called == call.tool_name]
        if not questions:
            return None
        progress = ApprovalProgress.start(call)
        edit = self._edits.get(call.tool_call_id)
        if edit is not None:
            progress.resume_edit(edit)
        for question in questions:
            member = self._members.get(question.net)
            if member is None or member.net is not question.skill_net:
                member = Member(question.net, question.skill_net, initial_state(question.skill_net))
            progress.hold_questions([(member, member.verdict((question.tool,)))])
        progress.mark_asked()
        return progress

    async def _ask(self, asked: PendingQuestion) -> GateDecision | PendingQuestion | PendingUses:
        """Ask one question, then take the call as far as it goes."""
        try:
            token = begin_asking(self._claims.of(asked.progress.call.tool_call_id))
            try:
                answer = await ask(asked.confirm, asked.request)
            finally:
                end_asking(token)
        except Exception as problem:
            return refusal_by_person(asked, reasons.callback_failed(asked.member.key, "confirm", problem))
        if not answer.asked:
            return refusal_by_person(asked, reasons.unasked(asked.step.tool, answer.reason))
        progress = asked.progress
        progress.take_answer(asked.member, asked.step, answer)
        if not answer.approved and not answer.again:
            return refusal_by_person(asked, reasons.rejected(asked.step.tool, answer.reason))
        with self._lock:
            return self._advance(progress.call, asked.confirm, progress)

    async def _announce(self, decision: GateDecision, on_decision: OnDecision, *, at_once: bool) -> None:
        """Pass the decision that enforce mode makes to `on_decision`, and wait if it is async (G-23).

        If cancelled during the wait, an allowed call does not run: the tokens that it spent are given
        back.
        """
        announced = decision if decision.mode == "enforce" else replace(decision, mode="enforce")
        call = decision.call
        try:
            answer = on_decision(call, announced)
            if isawaitable(answer):
                await (_until_it_waits(answer) if at_once else answer)
        except Exception:
            log.exception("on_decision failed for call '%s'", call.tool_call_id)
        except BaseException:
            if decision.steps:
                self.handle_tool_result(
                    ToolResult(call.tool_call_id, call.tool_name, call.input, True, decision.steps)
                )
            raise

    def handle_tool_result(self, result: ToolResult) -> ResultRecord:
        """Resolve what waits for this result, in every net (G-16, G-17), and undo its `undo` steps."""
        if result.tool_call_id not in self._pending.waiting and not result.undo:
            return NOTHING
        self._lock.acquire()
        try:
            record = self._pending.settle(result, self._time)
            if record.fired:
                self._moves.note((None, record.fired, NO_TIMES, NO_NETS))
                if self._claims.waiters:
                    self._claims.wake()
            if not result.undo:
                return record
            undone = self._moves.undone(result, record, self._member)
            if self._counts:
                self._uses.give_back(result.tool_call_id, {step.net for step in undone.undone})
            self._claims.wake()
            return undone
        finally:
            self._lock.release()
