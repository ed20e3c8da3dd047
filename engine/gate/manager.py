"""Many nets over one session's calls: the gate everything else talks to."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from inspect import isawaitable
from time import perf_counter
from types import MappingProxyType
from typing import NotRequired, TypeAlias, TypedDict, cast, get_args

from ..core.condition import NOWHERE, Surroundings
from ..core.plan import ConditionReader, PlanError
from ..core.shared_limit import Reservation
from ..core.sources import USER
from ..core.value_key import split_key
from ..net.net import GateState, Input, NetError, SkillNet, ToolCall, initial_state
from . import reasons
from .approve import ApprovalProgress, ask
from .classify import Roster, names_of, unique_keys
from .commit import NOTHING, PendingIndex
from .conditions import EvaluationContext, Timekeeper, apply_condition
from .contention import Claims, asking_about
from .decision import (
    PendingQuestion,
    PendingUses,
    enforce,
    make_snapshot,
    pass_at_once,
    refusal,
    refusal_by_person,
    shadow,
)
from .description import constraints, constraints_text, status_lines, system_prompt
from .explain import Explanation, explain, view_gate, with_way
from .grants.forecast import StepForecast, forecast_of
from .grants.net import Grant, grant_number
from .grants.plans import Plans, plan_of_call
from .grants.store import GrantStore
from .member import Member
from .name_changes import takes_from
from .shared_uses import MOST_ATTEMPTS, SessionUses, SharedUses
from .state.recorder import RecordedDecision, Recorder
from .state.replay import replay_entry
from .state.restore import (
    Arrivals,
    Markings,
    Pending,
    member_of,
    pending_step,
    restored_nets,
    value_members,
)
from .state.undo import NO_NETS, NO_TIMES, Moves
from .types import (
    ActiveNet,
    ChosenEdit,
    Confirm,
    GateContext,
    GateDecision,
    Mode,
    NetVerdict,
    OnDecision,
    OpenQuestion,
    RecordDecision,
    ReplayEntry,
    ResultRecord,
    SaidText,
    ToggleResult,
    ToolResult,
    Waits,
)

# Conversion of what a gate is given to nets under keys.


class ActiveRegistry(TypedDict):
    """A registry with the keys that start active as one argument; without them all do."""

    registry: Mapping[str, SkillNet]
    active: NotRequired[Sequence[str] | None]


Nets: TypeAlias = Iterable[SkillNet] | Mapping[str, SkillNet] | ActiveRegistry


def split_registry(
    nets: Nets | None, active: Sequence[str] | None
) -> tuple[Nets | None, Sequence[str] | None]:
    """The registry and its active keys, where `nets` has both; else as they are.

    Two nets under the keys `registry` and `active` are a registry like any other. Raises `NetError` for
    another key beside them, and for active keys in two places.
    """
    if nets is None or not isinstance(nets, Mapping):
        return nets, active
    whole = cast("Mapping[str, SkillNet]", nets)
    config = cast("Mapping[str, object]", nets)
    registry = config.get("registry")
    if registry is None or isinstance(registry, SkillNet):
        return whole, active
    if not isinstance(registry, Mapping):
        raise NetError(f"'registry' must be a mapping from key to net, got {registry!r}")
    if strange := sorted(config.keys() - {"registry", "active"}):
        raise NetError(
            f"'{strange[0]}' does not belong beside 'registry' and 'active': give it as an argument "
            "of its own"
        )
    if active is not None and config.get("active") is not None:
        raise NetError("'active' is given twice: beside the registry, and as an argument")
    own = config.get("active")
    keys = cast("Sequence[str] | None", active if own is None else own)
    return cast("Mapping[str, SkillNet]", registry), keys


def one_of(nets: Nets | None, registry: Mapping[str, SkillNet] | None) -> Nets:
    """The one that is given. Raises `NetError` when both or neither are."""
    chosen = registry if nets is None else nets
    if chosen is None or (nets is not None and registry is not None):
        raise NetError("Give either a list of nets or a registry")
    return chosen


def keyed_nets(nets: Nets) -> dict[str, SkillNet]:
    """A registry as it is, listed nets by name.

    Raises `NetError` for what is no net, and for a key that only a grant may have.
    """
    if isinstance(nets, Mapping):
        registry = cast("Mapping[str, SkillNet]", nets)
        keyed = dict(zip(registry, _check_nets(registry.values()), strict=True))
    else:
        keyed = unique_keys(_check_nets(nets))
    for key in keyed:
        if grant_number(key) is not None:
            raise NetError(f"A net cannot have the key '{key}': keys like it are those of grants")
        if split_key(key)[1] is not None:
            raise NetError(f"A net cannot have the key '{key}': keys like it are those of single values")
    return keyed


def _check_nets(nets: Iterable[SkillNet]) -> list[SkillNet]:
    if isinstance(nets, SkillNet):
        raise NetError(f"Expected a list of nets, got the net '{nets.name}' alone: put it in a list")
    each: list[object] = [*nets]
    checked = [net for net in each if isinstance(net, SkillNet)]
    if len(checked) != len(each):
        strange = next(net for net in each if not isinstance(net, SkillNet))
        kind = "a dict; write define_skill_net(**that)" if isinstance(strange, dict) else repr(strange)
        raise NetError(f"Expected nets made by define_skill_net, got {kind}")
    return checked


log = logging.getLogger(__name__)


async def _until_it_waits(answer: Awaitable[object]) -> None:
    """Run a listener as far as it goes without waiting. Raises `RuntimeError` where it would go on."""
    running = answer.__await__()
    try:
        next(running)
    except StopIteration:
        return
    running.close()
    raise RuntimeError("it waits, and the call of a synchronous tool cannot")


_STATIC = ToggleResult(False, "Static composition does not support dynamic nets")
_NOBODY = GateContext()


def _failed(call: ToolCall, problem: Exception) -> GateDecision:
    """Block of a call that the gate failed on (G-59)."""
    log.exception("The gate failed on call '%s' to '%s'", call.tool_call_id, call.tool_name)
    return refusal(call, reasons.gate_failed(problem))


class GateManager:
    """Gates the calls of one session by its active nets.

    A list of nets is static: all are active, under their names. A mapping, or `registry`, has nets that
    are switched on and off at run time; `active` names those that start active, all by default. Both may
    be one argument, `{"registry": nets, "active": ["safety"]}`. `mode`
    may be set at any time and counts from the next call on.

    `on_decision` is called, and awaited where it is async, once for every decision, with the decision as
    enforce mode makes it (G-23); what it raises is logged (G-59). `record` is awaited before a decision
    is given out; after one that could not be recorded the manager refuses every call, until `restore`
    has put it back to what the record says. With `explain_blocks` the reason of a blocked call goes on
    to say which calls would lead there (see `explain`). With `quote_calls` a reason in a name that a map
    gave goes on with the call and the rule's place: by default it is the reference's sentence (G-18).

    `uses` counts what calls of all sessions use of limits that hold over sessions; without it only this
    gate's calls count. `surroundings` is where the calls run, for conditions on paths. `clock` gives
    seconds since 1970 and is read only for nets that time moves; should it go back, the time stays the
    same. `conditions` reads those of plans (G-108); without it a plan has none, and without `plans` a
    plan is a call like any other. Calls may come from several threads; each phase that touches a net is
    atomic.

    Raises `NetError` unless given one of `nets` and `registry`, for unknown names in `active`, for nets
    that never come to rest and for one under a grant's key, `ValueError` for an unknown mode.
    """

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
        nets, active = split_registry(nets, active)
        nets = one_of(nets, registry)
        self.is_dynamic = isinstance(nets, Mapping)
        if not self.is_dynamic and active is not None:
            raise NetError("'active' needs a registry: give the nets as a mapping from key to net")
        self._members = {k: Member(k, net, initial_state(net)) for k, net in keyed_nets(nets).items()}
        self._granted = GrantStore()
        self._plans = Plans(conditions) if plans else None
        self._uses = uses or SharedUses().of_session("")
        self._time = Timekeeper(clock, surroundings, self._uses)
        self._listen(self._members)
        self._time.said.clear()
        context = self._time.context()
        for member in self._members.values():
            member.state.since = context.since(member.net, member.state.marking, {})
        self._pending = PendingIndex()
        self._moves = Moves()
        self._waiting: set[str] = set()
        self._owed: dict[str, tuple[OpenQuestion, ...]] = {}
        self._edits: dict[str, ChosenEdit] = {}
        self._lock = self._uses.uses.lock
        self._claims = Claims(self._lock)
        self._on_decision = on_decision
        self._recorder = None if record is None else Recorder(record)
        self._explain_blocks = explain_blocks
        self._quote_calls = quote_calls
        self.mode = mode
        self.on_judged: Callable[[ToolCall, float], None] | None = None
        """Called with each call and the seconds that judging it took; not with what people took."""
        self.replacements = 0
        """Number of times that the nets were replaced."""
        self._roster = self._roster_of(self._members if active is None else active)

    @property
    def mode(self) -> Mode:
        """`enforce` or `shadow` (G-57)."""
        return self._mode

    @mode.setter
    def mode(self, mode: Mode) -> None:
        if mode not in get_args(Mode):
            raise ValueError(f"mode is 'enforce' or 'shadow', not {mode!r}")
        with self._lock:
            self._mode: Mode = mode
            self._claims.wake()

    @property
    def surroundings(self) -> Surroundings:
        """The surroundings in which calls run, for conditions on paths."""
        return self._time.surroundings

    @surroundings.setter
    def surroundings(self, surroundings: Surroundings) -> None:
        self._time.surroundings = surroundings

    @property
    def sources(self) -> frozenset[str]:
        """The sources that conditions look for values in: `user`, tools, members of their results."""
        return self._time.said.sources

    def listens_to(self, source: str) -> bool:
        """Tell whether conditions look at texts of `source`, `user` or a tool; see `hear`."""
        return source in self._time.said.speakers

    def _listen(self, members: Mapping[str, Member]) -> None:
        """Keep the texts and uses that these nets look at, from now on."""
        nets = [member.net for member in members.values()]
        self._time.listen(nets)
        limits = [net.shared for net in nets if net.shared is not None]
        self._uses.uses.keep_for(limits)
        self._counts = bool(limits)

    def hear(self, source: str, text: str) -> None:
        """Take in what a person said, `source` being `user`, or what a tool's call returned.

        Conditions look there for values (`input.to not from user, get_contacts`). Texts of any other
        source than `sources` are not kept.
        """
        if source in self._time.said.speakers:
            with self._lock:
                self._time.said.add(source, text)

    def hear_again(self, texts: Iterable[tuple[str, str]]) -> None:
        """Forget what was heard and take in these texts, with their sources, from the beginning on."""
        with self._lock:
            self._time.said.clear()
            for source, text in texts:
                self._time.said.add(source, text)

    @property
    def nets(self) -> dict[str, SkillNet]:
        """All nets by key, active or not."""
        return {key: member.net for key, member in self._members.items()}

    @property
    def states(self) -> dict[str, GateState]:
        """Every net's state by key; the states are the manager's own."""
        return {key: member.state for key, member in self._members.items()}

    @property
    def pending(self) -> tuple[Pending, ...]:
        """The deferred transitions that wait for results, as `restore` takes them."""
        return tuple(
            (net.key, waiting.transition.name, waiting.tool, waiting.call)
            for member in self._members.values()
            for net in (member, *member.values())
            for calls in net.state.pending.values()
            for waiting in calls
        )

    @property
    def active(self) -> tuple[str, ...]:
        """Keys of the active nets, in order of activation (G-22)."""
        return tuple(member.key for member in self._roster.members)

    # Calls and results

    def classify(self, call: ToolCall) -> list[NetVerdict]:
        """Verdict of each active net on `call` now (G-10). Changes nothing and asks no operator."""
        with self._lock:
            context = self._time.context()
            return self._roster.verdicts(
                self._roster.classify(call.run_by(context.surroundings.shell), context)
            )

    def names_of(self, call: ToolCall) -> tuple[str, ...]:
        """All names that `call` goes by under the active nets."""
        with self._lock:
            context = self._time.context()
            return self._roster.classify(call.run_by(context.surroundings.shell), context).names

    def refusals(self, call: ToolCall) -> Iterator[str]:
        """Beginnings of the reasons with which this gate may block `call` or have blocked it (G-62)."""
        names = dict.fromkeys((*self.names_of(call), call.tool_name))
        for member in self._members.values():
            yield f"{member.key}: "
            for name in names:
                known = member.knows.get(name)
                if known is not None and known.blocked.reason:
                    yield known.blocked.reason
                    yield known.blocked.reason.removesuffix(".")
        yield from reasons.refusals(names)

    def explain(self, call: ToolCall) -> Explanation:
        """Every active net's verdict, marking and rule, and the shortest way to have `call` allowed."""
        with self._lock:
            context = self._time.context()
            seen = view_gate(
                self._roster, self._granted, call.run_by(context.surroundings.shell), context
            )
        return explain(seen)

    def plan_problem(self, value: Input) -> str | None:
        """Reason why an input is no plan; `None` for one, and where a plan is a call like any other."""
        if self._plans is None:
            return None
        try:
            plan_of_call(value, self._plans.conditions)
        except PlanError as error:
            return str(error)
        return None

    def plan_forecast(self, value: Input) -> tuple[StepForecast, ...]:
        """The outcome of each call of the plan in an input, step by step, under the active nets now.

        None where it cannot be told: a person is then asked without.
        """
        with self._lock:
            try:
                if self._plans is None:
                    return ()
                plan = plan_of_call(value, self._plans.conditions)
                return forecast_of(plan, self._roster, self._time.context())
            except PlanError:
                return ()
            except Exception:
                log.exception("The outcome of a plan cannot be told")
                return ()

    async def handle_tool_call(self, call: ToolCall, ctx: GateContext = _NOBODY) -> GateDecision:
        """Take a call through the four phases; waits where it needs approval.

        Of calls that compete for the last tokens of a net only as many are asked about as there are
        tokens; the others wait (G-68). A call that needs no approval waits for none: it takes what there
        is, and a call that is asked about meanwhile may find it gone (G-15).

        Never raises for what a net or a callback does: that blocks. Cancelling it while a person is
        asked, or while it waits for another, withdraws the call, and nothing has fired.
        """
        began = None if self.on_judged is None else perf_counter()
        # Here and for results; `with` costs 6 % of a round trip more.
        self._lock.acquire()
        try:
            reached = self._pass_at_once(call) or self._advance(call, ctx.confirm)
            decision = reached if type(reached) is GateDecision and self._recorder is None else None
            claimed = decision is None and self._claim(call)
        finally:
            self._lock.release()
        if began is not None:
            self._note_judged(call, began)
        if decision is None:
            decision = await self._awaited(call, reached, claimed, ctx.waits, ctx.confirm)
        if self._on_decision is not None:
            await self._announce(decision, self._on_decision, at_once=ctx.at_once)
        return decision

    def try_decide(
        self, call: ToolCall, ctx: GateContext = _NOBODY
    ) -> RecordedDecision | PendingQuestion | PendingUses:
        """Decide a call without waiting; its decision is handed over to the record of this gate.

        Whoever gets the decision waits until it is recorded. For a call that needs approval the question
        is returned, and nothing has happened: see `ask`. Nor has it for one whose uses of limits over
        sessions have to be reserved: `handle_tool_call`. Never raises, as that.
        """
        assert self._recorder is not None, "only a gate with a record decides so"
        began = None if self.on_judged is None else perf_counter()
        with self._lock:
            reached = self._pass_at_once(call) or self._advance(call, ctx.confirm)
        if began is not None:
            self._note_judged(call, began)
        if not isinstance(reached, GateDecision):
            return reached
        return RecordedDecision(reached, self._recorder.hand_over(call, reached))

    def _note_judged(self, call: ToolCall, began: float) -> None:
        try:
            if self.on_judged is not None:
                self.on_judged(call, perf_counter() - began)
        except Exception:
            # Who measures decides nothing: the call goes on as it was judged.
            log.exception("the time to judge a call was not taken")

    async def ask(
        self, call: ToolCall, asked: PendingQuestion, waits: Waits | None = None
    ) -> GateDecision:
        """Have the question that `try_decide` gave for `call` answered; the decision once recorded."""
        with self._lock:
            claimed = self._claim(call)
        return await self._awaited(call, asked, claimed, waits)

    def pass_at_once(self, call: ToolCall) -> GateDecision | None:
        """Decision of `handle_tool_call` on a call that every net lets pass without approval.

        `None` for any other, and then nothing has happened. For judging many calls outside of an event
        loop: a coroutine for each doubles the time.
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
            passed = pass_at_once(call, self._roster, pending)
        except Exception as problem:
            return _failed(call, problem)
        if passed is not None and passed.steps:
            self._moves.note((call_id, passed.steps, NO_TIMES, NO_NETS))
        return passed

    def _claim(self, call: ToolCall) -> bool:
        """Reserve the id of a call that waits; `False` for one that is refused since another has it."""
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
        """The decision once people have answered and it is recorded.

        Then the call's id is released, and calls that wait for what it might have taken go on.
        """
        asks = False
        progress: ApprovalProgress | None = None
        reserved: Reservation | None = None
        try:
            while not isinstance(reached, GateDecision):
                if isinstance(reached, PendingUses):
                    reached, reserved = await self._with_uses(call, confirm, progress)
                    continue
                asks, progress, confirm = True, reached.progress, reached.confirm
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
            if asks:
                with self._lock:
                    self._claims.leave(call.tool_call_id)
        return reached

    async def _with_uses(
        self,
        call: ToolCall,
        confirm: Confirm | None,
        progress: ApprovalProgress | None,
    ) -> tuple[GateDecision | PendingQuestion, Reservation | None]:
        """Reserve the uses of limits over sessions that a call needs, and take it further.

        Gives how far it came, and the reservation of which it took the uses. Where other servers had used
        the counters, the call is judged again by what is left.
        """
        reservations = self._uses.uses.reservations
        assert reservations is not None
        asked = call if progress is None else progress.call
        wanted: Reservation | None = None
        reserved: Mapping[str, str] = {}
        sure = taken = False
        try:
            async with reservations.turn:
                for _ in range(MOST_ATTEMPTS):
                    with self._lock:
                        reached = self._advance(asked, confirm, progress, reserved=reserved, sure=sure)
                    if not isinstance(reached, PendingUses):
                        taken = isinstance(reached, GateDecision) and bool(reached.steps and reserved)
                        return reached, wanted if taken else None
                    sure = True
                    if reached.unsure:
                        await reservations.refresh(reached.unsure)
                        continue
                    if wanted is not None:
                        reservations.release(wanted)
                    wanted = self._uses.reservation(
                        asked.tool_call_id, reached.counters, reached.at, reached.at + reached.window
                    )
                    if not await reservations.reserve(wanted):
                        wanted = None
                    reserved = {} if wanted is None else wanted.counters
                raise RuntimeError(f"other servers have used its limits {MOST_ATTEMPTS} times meanwhile")
        except Exception as problem:
            return _failed(asked, problem), None
        finally:
            if wanted is not None and not taken:
                reservations.release(wanted)

    async def _in_turn(
        self, asked: PendingQuestion, waits: Waits | None
    ) -> GateDecision | PendingQuestion | PendingUses:
        """Wait until no competing call is asked about or is to be; then the question, or a block (G-68).

        Where such a call has taken what this one needs, this one is blocked in the net's own words, since
        it has not been asked about.
        """
        progress, confirm = asked.progress, asked.confirm
        while True:
            try:
                with self._lock:
                    earlier = self._claims.enter(progress.call, self._roster, self._time.context())
                    if not earlier:
                        return asked
                    woken = self._claims.wait()
            except Exception as problem:
                return _failed(progress.call, problem)
            try:
                if waits is not None:
                    await waits(progress.call, earlier)
                await woken
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

        Given `reserved`, the uses of limits over sessions that are reserved for it, it has its turn at
        them; `sure` says that all that other servers used has just been read.
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
            # A call that waits for approval goes on waiting in any mode (G-67).
            in_shadow = self._mode == "shadow" and progress is None
            reached = (shadow if in_shadow else enforce)(call, confirm, snapshot, progress)
        except Exception as problem:
            return _failed(call, problem)
        if not isinstance(reached, GateDecision):
            return reached
        if reservations is not None and not sure and reached.outcome == "block":
            counters = frozenset(context.counters)
            if reservations.is_unsure(counters):
                return PendingUses({}, unsure=counters)
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
        """Count what a call has used of limits that hold over sessions."""
        counters: dict[str, str] = {}
        for step in decision.steps:
            member = self._member(step.net)
            shared = None if member is None else member.net.shared
            if member is not None and shared is not None and shared.place in step.transition.inputs:
                counters[step.net] = context.counter(member, shared)
        if counters:
            self._uses.take(decision.call.tool_call_id, counters, context.now())

    def uses_of(self, call_id: str) -> dict[str, str]:
        """The counters of limits over sessions that a call has used, by net."""
        return self._uses.of_call(call_id) if self._counts else {}

    def block_reason(self, call: ToolCall) -> str | None:
        """Reason with which a net would block `call` now; `None` where none would (G-68)."""
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
        """Those of these nets, active or not, that would block `call` or want approval for it now.

        What cannot be judged counts among them.
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
        """Have calls of these ids need approval, under any nets and in any mode (G-67).

        `edits`, by id, are the inputs that people had chosen for them and are asked about (G-75).

        Counts for the next call of each id, if it is one of the same tool. Raises `NetError` for a net
        that does not come to rest.
        """
        with self._lock:
            self._owed.update({call_id: tuple(asked) for call_id, asked in questions.items()})
            self._edits.update(edits)

    def _asking_about(self, call: ToolCall) -> ApprovalProgress | None:
        """A call about which an earlier gate had asked, with its questions; `None` for any other."""
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
        """Ask one question, then see how far the call goes."""
        try:
            with asking_about(self._claims.of(asked.progress.call.tool_call_id)):
                answer = await ask(asked.confirm, asked.request)
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
        """Tell the author the decision as enforce mode makes it, and wait for an async listener (G-23).

        Cancelled meanwhile, a call that was allowed does not run: what it spent is taken back.
        """
        heard = decision if decision.mode == "enforce" else replace(decision, mode="enforce")
        call = decision.call
        try:
            answer = on_decision(call, heard)
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
        """Resolve what waits for this result, in every net (G-16, G-17), and take back its `undo`."""
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

    def replay(self, entries: Iterable[ReplayEntry | SaidText | str]) -> None:
        """Move the active nets by finished calls, oldest first; names alone are successes (G-25).

        What they returned, and what people said between them, is heard, see `hear`.
        Raises `NetError` when a mapper fails or a net does not come to rest.
        """
        with self._lock:
            self._moves.forget()
            context = self._time.context()
            for entry in entries:
                if isinstance(entry, SaidText):
                    self._time.said.add(USER, entry.text)
                    continue
                replay_entry(entry, self._roster, context)
                if isinstance(entry, ReplayEntry) and entry.output is not None and not entry.is_error:
                    self._time.said.add(entry.tool_name, entry.output)
            self._claims.wake()

    # Grants

    @property
    def grants(self) -> dict[str, Grant]:
        """The grants by key, also those that have run out, but not those that were revoked."""
        return dict(self._granted.grants)

    @property
    def grant_states(self) -> dict[str, GateState]:
        """The state of every grant's net by key; the states are the manager's own."""
        return {key: member.state for key, member in self._granted.members.items()}

    def add_grant(self, grant: Grant, *, since: float | None = None) -> None:
        """Hold a grant from now on; one that expires counts from `since`, or from now.

        Raises `NetError` for a key that is no grant's or is in use, and for an unknown net.
        """
        with self._lock:
            for asks in grant.asking:
                member_of(self._members, asks)
            if since is None and grant.net.timed:
                since = self._time.context().now()
            self._granted.add(grant, since)
            self._claims.wake()

    def grants_with(self, key: str) -> tuple[str, ...]:
        """The keys of the grants that end with this one: those of a plan end together (G-110).

        `key` may be that of the plan, too.
        """
        return self._granted.together(key)

    def revoke_grant(self, key: str) -> ToggleResult:
        """Let a grant, and all others of its plan, answer nothing any more."""
        with self._lock:
            ended = self._granted.together(key)
            if not ended:
                known = ", ".join(self._granted.grants) or "none"
                return ToggleResult(False, f"Unknown grant '{key}'. There are: {known}")
            for each in ended:
                self._granted.drop(each)
            self._claims.wake()
            return ToggleResult(True, f"Revoked '{', '.join(ended)}'")

    # Switching nets

    def add_net(self, name: str) -> ToggleResult:
        """Activate a registered net; it resumes from where it was (G-21)."""
        with self._lock:
            if not self.is_dynamic:
                return _STATIC
            if name not in self._members:
                available = ", ".join(self._members)
                return ToggleResult(False, f"Unknown net '{name}'. Available: {available}")
            if name in self.active:
                return ToggleResult(False, f"'{name}' is already active")
            self._roster = self._roster_of([*self.active, name])
            self._claims.wake()
            return ToggleResult(True, f"Activated '{name}'")

    def loses_to(self, name: str, returning: Iterable[str] = ()) -> tuple[str, ...]:
        """The nets that no longer judge some calls once the net `name` is on, too (G-66).

        These are nets on `anything-else`, and on names that fold to one of its names.

        `returning` are nets that are off and will be on again; they count as active.
        """
        with self._lock:
            if name not in self._members or name in self.active:
                return ()
            on = [self._members[key] for key in dict.fromkeys((*self.active, *returning))]
        net, nets = self._members[name].net, [member.net for member in on]
        return tuple(m.key for m in on if m.key != name and takes_from(net, m.net, nets))

    def remove_net(self, name: str) -> ToggleResult:
        """Deactivate a net; its state is kept and still hears results (G-17, G-21)."""
        with self._lock:
            if not self.is_dynamic:
                return _STATIC
            if name not in self.active:
                return ToggleResult(False, f"'{name}' is not active. Active: {', '.join(self.active)}")
            self._roster = self._roster_of(key for key in self.active if key != name)
            self._claims.wake()
            return ToggleResult(True, f"Deactivated '{name}' (state preserved)")

    def replace_nets(
        self,
        registry: Mapping[str, SkillNet],
        active: Sequence[str],
        kept: Container[str] = (),
        *,
        grants: Container[str] = (),
        undo: bool = False,
    ) -> tuple[str, ...]:
        """Judge by the nets of `registry` from now on, of which exactly `active` are on (G-67).

        Those that are here already and among `kept` stay where they are, with what waits for results in
        them; all others begin with their initial markings. What calls have moved so far stays moved, also
        where they never run. Questions that were put to people stay theirs. With `undo` the last
        replacement is taken back, before anybody could see it.

        Grants end, those of plans with all of their plan, but for those whose keys are in `grants` and
        whose nets are still there: only the caller knows that what they rest on is what it was (G-74,
        G-110). Returns the keys of those that have ended.

        Raises `NetError` for a composition that is static, an unknown name in `active`, a kept net of
        other places or transitions and a net that does not come to rest; it then changes nothing.
        """
        with self._lock:
            if not self.is_dynamic:
                raise NetError(_STATIC.message)
            context = self._time.context()
            members: dict[str, Member] = {}
            for key, net in keyed_nets(registry).items():
                old = self._members.get(key) if key in kept else None
                members[key] = Member(key, net, initial_state(net) if old is None else old.state)
                if old is None:
                    members[key].state.since = context.since(net, members[key].state.marking, {})
                elif (old.net.places, old.net.transitions) != (net.places, net.transitions):
                    raise NetError(f"Net '{key}' cannot stay where it is: its structure is another")
            roster = self._roster_of(active, members)
            ended = self._granted.ended_without(members, grants)
            for key in ended:
                self._granted.drop(key)
            self._members, self._roster = members, roster
            self._listen(members)
            self.replacements += -1 if undo else 1
            self._pending = PendingIndex.of(*members.values())
            self._moves.forget()
            self._claims.wake()
            return ended

    def restore(
        self,
        *,
        markings: Markings | None = None,
        since: Arrivals | None = None,
        pending: Iterable[Pending] | None = None,
        active: Sequence[str] | None = None,
        mode: Mode | None = None,
        grants: Iterable[Grant] | None = None,
        revoked: Container[str] = (),
        latest: float | None = None,
    ) -> None:
        """Restore markings, pending transitions, active nets, mode and grants from a record (G-63).

        What is left out is unchanged. `pending` gives net, transition, tool and call of every deferred
        transition that waits, oldest first, and replaces those there are. `grants` are all that were ever
        given and replace those there are; `revoked` are keys of those among them that answer nothing any
        more. `markings` and `since`, when tokens came to places where they age, are of nets and grants
        alike; of a net that is one for each value of a field, the nets of values that are not among them
        begin anew. In a net that is placed without `since` they count from now, and now is never before
        `latest`, `-inf` for another record.
        Ends the refusing after a decision that could not be recorded. Raises `NetError` for a net, place
        or transition that is not here, and for a grant that expires without `since`; it then changes
        nothing.
        """
        with self._lock:
            roster = self._roster if active is None else self._roster_of(active)
            granted = self._granted.replaced(grants, revoked)
            members = {**self._members, **granted.members}
            pending = None if pending is None else list(pending)
            named = (*(markings or ()), *(since or ()), *(p[0] for p in pending or ()))
            members.update(value_members(self._members, named))
            markings = {k: marking for k, marking in (markings or {}).items() if k not in revoked}
            since = {k: times for k, times in (since or {}).items() if k not in revoked}
            if latest is not None:
                self._time.begin_at(latest)
            places = restored_nets(members, markings, since, self._time.context())
            granted.check_times(places)
            steps = None if pending is None else [pending_step(members, p) for p in pending]
            if mode is not None:
                self.mode = mode
            self._roster = roster
            if places or grants is not None or steps is not None:
                self._moves.forget()
            self._granted = granted
            if steps is not None:
                self._pending.clear()
            for place in places.values():
                place.put()
            for member, step, call in steps or ():
                member.keep()
                self._pending.add(member, step, call)
            if self._recorder is not None:
                self._recorder.restored()
            self._claims.wake()

    def adopt(self, states: Sequence[GateState]) -> None:
        """Take the caller's states for those of the nets, in the order of the nets.

        Raises `ValueError` when there is not one for each.
        """
        context = self._time.context()
        with self._lock:
            for member, state in zip(self._members.values(), states, strict=True):
                member.take_state(state)
                state.since = context.since(member.net, state.marking, state.since)
            self._pending = PendingIndex.of(*self._members.values())

    def _member(self, key: str) -> Member | None:
        """The net, grant, or net of one value that steps name by this key."""
        member = self._members.get(key) or self._granted.members.get(key)
        if member is not None:
            return member
        return next(iter(value_members(self._members, (key,)).values()), None)

    def _roster_of(self, keys: Iterable[str], members: Mapping[str, Member] | None = None) -> Roster:
        members = self._members if members is None else members
        keys = list(dict.fromkeys(keys))
        unknown = [key for key in keys if key not in members]
        if unknown:
            names = ", ".join(f"'{key}'" for key in unknown)
            raise NetError(f"Unknown nets in active: {names}. Available: {', '.join(members)}")
        return Roster((members[key] for key in keys), quotes_calls=self._quote_calls)

    # Descriptions

    def get_active_nets(self) -> list[ActiveNet]:
        """The active nets in order of activation."""
        return [ActiveNet(self._name(m), m.net, m.state) for m in self._roster.members]

    def format_status(self) -> str:
        """One line a net, and in a registry whether it is active (G-20, G-21), then one a grant."""
        with self._lock:
            active = set(self.active) if self.is_dynamic else None
            named = [(self._name(member), member) for member in self._members.values()]
            return status_lines(named, active, self._granted, self._time.context())

    def format_system_prompt(self) -> str:
        """An account of the active nets for the model (G-24)."""
        with self._lock:
            return system_prompt(self._roster.members, self._time.context())

    def constraints(self) -> tuple[str, ...]:
        """Sentences on what the active nets let the model do now: see `format_constraints` (G-73)."""
        with self._lock:
            return constraints(self._roster.members, self._time.context())

    def format_constraints(self) -> str:
        """For the model: what each tool needs, how much is left of it, what is never allowed (G-73)."""
        return constraints_text(self.constraints())

    def describe(self) -> str:
        """For the model's system prompt: the active nets, and the rules in sentences (G-24, G-73)."""
        with self._lock:
            parts = (self.format_system_prompt(), self.format_constraints())
        return "\n\n".join(part for part in parts if part)

    def _name(self, member: Member) -> str:
        return member.key if self.is_dynamic else member.net.name


async def composed_tool_call(
    nets: Sequence[SkillNet],
    states: Sequence[GateState],
    call: ToolCall,
    context: GateContext = _NOBODY,
    *,
    surroundings: Surroundings = NOWHERE,
    clock: Callable[[], float] = time.time,
) -> GateDecision:
    """Take a call through the four phases over nets and states that the caller keeps (G-72).

    `states` are those of `nets`, in their order, and change as the call moves the nets. Results go to
    `handle_tool_result`, net by net. The rest is as for `GateManager.handle_tool_call`. Raises
    `ValueError` when there is not one state for each net, and `NetError` for what is no net.
    """
    manager = GateManager(nets, surroundings=surroundings, clock=clock)
    manager.adopt(states)
    return await manager.handle_tool_call(call, context)


# Creation of a manager, under the name that the reference has for it.


create_gate_manager = GateManager
"""A gate over a list of nets, or over a `registry` from key to net: see `GateManager`."""
