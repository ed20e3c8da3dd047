"""Runs scenarios against the real gate: each in its own session, up to the first divergence."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from ....engine.core.condition import SESSION_FIELDS, Surroundings
from ....engine.core.durations import format_duration
from ....engine.core.hints import SessionClaims
from ....engine.core.people import is_among, person_key, same_person
from ....engine.core.sources import USER
from ....engine.gate import (
    ApprovalAnswer,
    ApprovalRequest,
    GateContext,
    GateDecision,
    GateManager,
    SharedUses,
    ToolResult,
)
from ....engine.net.net import ToolCall, format_marking
from ....rules import Problem, RuleSet
from ....rules.scenarios.scenarios import (
    Answer,
    Call,
    Claim,
    Expect,
    Group,
    NewSession,
    Say,
    Scenario,
    SessionField,
    SetMode,
    Spot,
    Step,
    Switch,
    Wait,
)


@dataclass(frozen=True, slots=True)
class NetLine:
    """A net at the time of a divergence."""

    key: str
    active: bool
    marking: str


@dataclass(frozen=True, slots=True)
class ScenarioDivergence:
    """Difference between a scenario and the gate: expected and actual outcome, and the nets' state."""

    problem: Problem
    nets: tuple[NetLine, ...]


def run_scenario(scenario: Scenario, rules: RuleSet) -> ScenarioDivergence | None:
    """Return the first divergence of a scenario from `rules`; `None` if there is none."""
    return asyncio.run(_Run(rules).play(scenario))


class _DivergedError(Exception):
    """A step whose outcome differs from the scenario."""

    def __init__(self, spot: Spot, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.problem = spot.problem(message, remedy)


class _Ongoing:
    """A call from its first verdict to its decision, with its open approval request, if any."""

    def __init__(self, step: Call, number: int, manager: GateManager, people: _People) -> None:
        self.step = step
        self._world = people
        self.expected = False
        """True once the scenario has stated the call's present outcome."""
        self._manager = manager
        self._call = ToolCall(f"call-{number}", step.tool, step.input)
        self._needs_approval = asyncio.Event()
        self._answer: asyncio.Future[ApprovalAnswer] | None = None
        self._request: ApprovalRequest | None = None
        self._given: dict[str, tuple[str, ...]] = {}
        self._waited = 0.0
        self._task = asyncio.create_task(self._decide())

    async def _decide(self) -> GateDecision:
        decision = await self._manager.handle_tool_call(self._call, GateContext(confirm=self._confirm))
        if not decision.block:
            self._manager.handle_tool_result(
                ToolResult(
                    self._call.tool_call_id, self._call.tool_name, self._call.input, self.step.fails
                )
            )
            if self.step.output is not None:
                self._manager.hear(self._call.tool_name, self.step.output)
        return decision

    async def _confirm(self, request: ApprovalRequest) -> ApprovalAnswer:
        self._answer = asyncio.get_running_loop().create_future()
        self._request, self._given, self._waited = request, {}, 0.0
        self._needs_approval.set()
        return await self._answer

    async def settle(self) -> GateDecision | None:
        """Return the decision, or `None` if the call needs approval."""
        needs_approval = asyncio.create_task(self._needs_approval.wait())
        await asyncio.wait([self._task, needs_approval], return_when=asyncio.FIRST_COMPLETED)
        needs_approval.cancel()
        return self._task.result() if self._task.done() else None

    def answer(self, approved: bool, reason: str | None, name: str | None) -> str | None:
        """Answer the open request; return why the answer does not count, or `None` if it counts.

        Without a `name`, each answer comes from another operator who belongs to the group that the rule
        requires. The request stays open until as many operators have approved as the rule requires.
        """
        request = self._request
        assert request is not None
        by = name or f"operator {len(self._given) + 1}"
        groups = request.approvers.groups() if name is None else self._world.groups_of(by)
        if approved:
            problem = self._obstacle(request, by, groups)
            if problem is not None:
                return problem
        # After a denial the scenario need not state again that the call is blocked.
        self.expected = not approved
        others = tuple(self._given)
        self._given[by] = groups
        if not approved or len(self._given) >= request.people:
            answer = ApprovalAnswer(
                approved,
                reason,
                by=by,
                others=others if approved else (),
                groups=dict(self._given),
                escalated=self._escalated,
                # In a scenario every approver has their passkey.
                keys=tuple(self._given),
            )
            self._give(answer)
        return None

    @property
    def _escalated(self) -> bool:
        terms = None if self._request is None else self._request.approvers.escalation
        return terms is not None and self._waited >= terms.after

    def _obstacle(self, request: ApprovalRequest, by: str, groups: tuple[str, ...]) -> str | None:
        terms = request.approvers
        if is_among(by, self._given):
            return f"{by} has approved already"
        author = self._world.author
        guarded = not terms.author or request.people > 1
        if guarded and author is not None and same_person(by, author):
            return f"{by} started this session"
        if terms.counts(groups, escalated=self._escalated):
            return None
        return f"{by} is not in {' or '.join(terms.groups(escalated=self._escalated))}"

    def wait(self, seconds: float) -> None:
        """Advance the age of an open request; it is denied at its rule's deadline."""
        if self._answer is None or self._answer.done() or self._request is None:
            return
        self._waited += seconds
        within, rule = self._request.within, self._request.rule
        if within is not None and self._waited >= within:
            source = rule.source if rule is not None else None
            place = f" ({source.where})" if source is not None else ""
            self.expected = False
            self._give(ApprovalAnswer(False, f"nobody decided within {format_duration(within)}{place}"))

    def _give(self, answer: ApprovalAnswer) -> None:
        assert self._answer is not None
        self._needs_approval.clear()
        self._answer.set_result(answer)

    async def withdraw(self) -> None:
        """Withdraw the call if its request is open."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task


class _People:
    """The people of a scenario: their groups, and the one who started the session."""

    def __init__(self, session: Mapping[str, object]) -> None:
        self._session = session
        self._groups: dict[str, tuple[str, ...]] = {}

    @property
    def author(self) -> str | None:
        """Person who started the session, if the scenario names one."""
        found = self._session.get("started_by")
        return found if isinstance(found, str) else None

    def join(self, group: str, members: Iterable[str]) -> None:
        """Add people to a group."""
        for name in members:
            self._groups[person_key(name)] = (*self.groups_of(name), group)

    def groups_of(self, name: str) -> tuple[str, ...]:
        """Return the groups of a person."""
        return self._groups.get(person_key(name), ())


class _Run:
    """Execution of one scenario."""

    def __init__(self, rules: RuleSet) -> None:
        self._now = 0.0
        self._session: dict[str, object] = dict(SESSION_FIELDS)
        self._people = _People(self._session)
        self._rules = rules
        self._uses = SharedUses()
        self._sessions = 0
        self._calls = 0
        self._manager = self._new_manager()
        self._ongoing: _Ongoing | None = None
        self._refused: str | None = None
        """Reason why the last answer did not count."""

    def _new_manager(self) -> GateManager:
        self._sessions += 1
        self._claims = SessionClaims()
        return GateManager(
            self._rules.registry,
            surroundings=Surroundings(session=self._session),
            clock=lambda: self._now,
            uses=self._uses.of_session(str(self._sessions)),
        )

    async def play(self, scenario: Scenario) -> ScenarioDivergence | None:
        try:
            for step in scenario.steps:
                await self._take(step)
            await self._conclude()
        except _DivergedError as diverged:
            return ScenarioDivergence(diverged.problem, self._nets())
        finally:
            if self._ongoing is not None:
                await self._ongoing.withdraw()
        return None

    async def _take(self, step: Step) -> None:
        match step:
            case Call():
                await self._conclude()
                self._calls += 1
                self._claims.called.add(step.tool)
                self._refused = None
                self._ongoing = _Ongoing(step, self._calls, self._manager, self._people)
                await self._ongoing.settle()
            case Expect():
                await self._expect(step)
            case Answer():
                await self._answer(step)
            case Switch():
                switch = self._manager.add_net if step.on else self._manager.remove_net
                switched = switch(step.net)
                if not switched.ok:
                    state = "on" if step.on else "off"
                    raise _DivergedError(
                        step.spot, f"expected to switch {state} '{step.net}': {switched.message}"
                    )
            case Group():
                self._people.join(step.name, step.members)
            case Say():
                await self._conclude()
                self._manager.hear(USER, step.text)
            case SessionField():
                await self._conclude()
                self._session[step.name] = step.value
            case Claim():
                await self._conclude()
                hints = self._claims.note(step.tool, step.hints)
                self._manager.surroundings = replace(self._manager.surroundings, hints=hints)
            case NewSession():
                await self._conclude()
                self._manager = self._new_manager()
            case SetMode():
                self._manager.mode = step.mode
            case Wait():
                self._now += step.seconds
                if self._ongoing is not None:
                    self._ongoing.wait(step.seconds)
                    await self._ongoing.settle()

    def _last_call(self) -> _Ongoing:
        assert self._ongoing is not None, "the parser lets no such step come before a call"
        return self._ongoing

    async def _expect(self, step: Expect) -> None:
        ongoing = self._last_call()
        decision = await ongoing.settle()
        outcome = "ask" if decision is None else decision.outcome
        reason = (decision.reason if decision is not None else None) or ""
        if outcome != step.outcome or (step.reason is not None and step.reason not in reason):
            expectation = step.outcome if step.reason is None else f'{step.outcome} "{step.reason}"'
            message = f"expected {expectation}, got {_got(decision)}"
            raise _DivergedError(step.spot, message, self._refused or "")
        ongoing.expected = True

    async def _answer(self, step: Answer) -> None:
        ongoing = self._last_call()
        decision = await ongoing.settle()
        if decision is not None:
            raise _DivergedError(step.spot, f"expected a request to answer, got {_got(decision)}")
        self._refused = ongoing.answer(step.approved, step.reason, step.by)
        await ongoing.settle()

    async def _conclude(self) -> None:
        """Finish the last call: without an expectation it must have been allowed."""
        ongoing = self._ongoing
        if ongoing is None:
            return
        decision = await ongoing.settle()
        if not ongoing.expected and (decision is None or decision.block):
            outcome = "ask" if decision is None else "block"
            remedy = f"if that is intended, write below it: expect {outcome}"
            if self._refused is not None:
                remedy = f"{self._refused}; {remedy}"
            raise _DivergedError(
                ongoing.step.spot, f"expected the call to run, got {_got(decision)}", remedy
            )
        await ongoing.withdraw()
        self._ongoing = None

    def _nets(self) -> tuple[NetLine, ...]:
        active = self._manager.active
        states = self._manager.states.items()
        return tuple(NetLine(key, key in active, format_marking(state.marking)) for key, state in states)


def _got(decision: GateDecision | None) -> str:
    """Return the outcome of a call in a scenario's terms, with the rule responsible."""
    if decision is None:
        return "ask"
    reason = f' "{decision.reason}"' if decision.reason else ""
    source = decision.rule.source if decision.rule is not None else None
    place = f" ({source.where})" if source is not None and decision.outcome != "allow" else ""
    return f"{decision.outcome}{reason}{place}"
