"""Manager of many nets over one session's calls; the gate that all other code uses."""

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
    """Gates the calls of one session with its active nets.

    A list of nets is static: all are active, under their names. A mapping, or `registry`, has nets that
    can be switched on and off at run time; `active` names those that start active, by default all. Both
    may be one argument, `{"registry": nets, "active": ["safety"]}`. `mode` may be set at any time and
    applies from the next call on.

    `on_decision` is called once for every decision, with the decision as enforce mode makes it (G-23),
    and awaited if it is async. Exceptions from it are logged (G-59). `record` is awaited before a
    decision is returned. If a decision could not be recorded, the manager refuses every call until
    `restore` has reset it to the record. With `explain_blocks`, the reason of a blocked call also says
    which calls would lead there (see `explain`). With `quote_calls`, a reason under a name that a map
    gave also quotes the call and the rule's location; by default it is the reference's sentence (G-18).

    `uses` counts the uses of limits across sessions; without it only this gate's calls count.
    `surroundings` is where the calls run, for conditions on paths. `clock` returns seconds since 1970 and
    is read only for nets with timed transitions; if it goes back, the gate's time stays the same.
    `conditions` parses the conditions of plans (G-108); without it a plan has none, and without `plans` a
    plan is a call like any other. Calls may come from several threads; each phase that touches a net is
    atomic.

    Raises `NetError` unless exactly one of `nets` and `registry` is given, for unknown names in `active`,
    for nets that never come to rest and for a net under a grant's key; `ValueError` for an unknown mode.
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
        """All names of `call` under the active nets."""
        with self._lock:
            context = self._time.context()
            return self._roster.classify(call.run_by(context.surroundings.shell), context).names

    def refusals(self, call: ToolCall) -> Iterator[str]:
        """Beginnings of the reasons with which this gate may block or have blocked `call` (G-62)."""
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
        """Every active net's verdict, marking and rule, and the shortest way to get `call` allowed."""
        with self._lock:
            context = self._time.context()
            view = view_gate(
                self._roster, self._granted, call.run_by(context.surroundings.shell), context
            )
        return explain(view)

    def plan_problem(self, value: Input) -> str | None:
        """Reason why an input is not a plan; `None` if it is one, or if plans are ordinary calls."""
        if self._plans is None:
            return None
        try:
            plan_of_call(value, self._plans.conditions)
        except PlanError as error:
            return str(error)
        return None

    def plan_forecast(self, value: Input) -> tuple[StepForecast, ...]:
        """Outcome of each call of the plan in an input, step by step, under the active nets now.

        Empty if it cannot be computed: operators are then asked without a forecast.
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
                log.exception("Could not forecast the outcome of a plan")
                return ()

    # Descriptions

    def get_active_nets(self) -> list[ActiveNet]:
        """The active nets in order of activation."""
        return [ActiveNet(self._name(m), m.net, m.state) for m in self._roster.members]

    def format_status(self) -> str:
        """One line per net, in a registry with whether it is active (G-20, G-21), then one per grant."""
        with self._lock:
            active = set(self.active) if self.is_dynamic else None
            named = [(self._name(member), member) for member in self._members.values()]
            return status_lines(named, active, self._granted, self._time.context())

    def format_system_prompt(self) -> str:
        """Description of the active nets for the model (G-24)."""
        with self._lock:
            return system_prompt(self._roster.members, self._time.context())

    def constraints(self) -> tuple[str, ...]:
        """Sentences on what the active nets allow the model now: see `format_constraints` (G-73)."""
        with self._lock:
            return constraints(self._roster.members, self._time.context())

    def format_constraints(self) -> str:
        """Text for the model: what each tool needs, how much is left, what is never allowed (G-73)."""
        return constraints_text(self.constraints())

    def describe(self) -> str:
        """Section for a system prompt: the active nets, and the rules in sentences (G-24, G-73)."""
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

    `states` are the states of `nets`, in the same order; they change as the call moves the nets. Results
    go to `handle_tool_result`, net by net. Otherwise as `GateManager.handle_tool_call`. Raises
    `ValueError` unless there is one state for each net, and `NetError` for anything that is not a net.
    """
    manager = GateManager(nets, surroundings=surroundings, clock=clock)
    manager.adopt(states)
    return await manager.handle_tool_call(call, context)


# Creation of a manager, under the reference's name.


create_gate_manager = GateManager
"""Gate over a list of nets, or over a `registry` from key to net: see `GateManager`."""
