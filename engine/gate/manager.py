"""Many nets over one session's calls: the gate everything else talks to."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence

from ..core.condition import NOWHERE, Surroundings
from ..core.plan import PlanError
from ..net.net import GateState, Input, SkillNet, ToolCall
from . import reasons
from .calls.call_gate import NOBODY, CallGate
from .description import constraints, constraints_text, status_lines, system_prompt
from .explain import Explanation, explain, view_gate
from .grants.forecast import StepForecast, forecast_of
from .grants.plans import plan_of_call
from .types import (
    ActiveNet,
    GateContext,
    GateDecision,
    NetVerdict,
)

log = logging.getLogger(__name__)


class GateManager(CallGate):
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

    # Verdicts and plans

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


async def composed_tool_call(
    nets: Sequence[SkillNet],
    states: Sequence[GateState],
    call: ToolCall,
    context: GateContext = NOBODY,
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
