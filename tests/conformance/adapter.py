"""Interlock behind the interface that the recorded cases are driven through.

Each function answers in the recordings' own words. What only differs in form is translated here, each
with the statement that says so; what differs in substance is left to show.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from interlock.engine import (
    ApprovalRequest,
    ApprovalRule,
    BlockRule,
    GateContext,
    GateDecision,
    GateManager,
    GateState,
    LimitRule,
    Rejection,
    ReplayEntry,
    SequenceRule,
    SkillNet,
    ToolCall,
    ToolResult,
    Transition,
    create_gate_manager,
    define_skill_net,
    replay_entries,
    resolve_tool,
)
from interlock.engine.core.rule import Rule
from interlock.rules import RuleError
from interlock.rules import compile_rules as compile_text

T = TypeVar("T")
Json = dict[str, Any]
Confirm = Callable[[str, str], bool]


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never has to wait."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    coroutine.close()
    raise AssertionError("the gate waited although every answer was there")


# Nets


class Hooks:
    """The declared callbacks of a recorded net, and the errors they raised.

    G-59: Interlock turns what a callback raises into a block or a log line, where the reference lets it
    out of the call.
    """

    def __init__(self) -> None:
        self.raised: list[str] = []
        self.undeclared: set[tuple[str, str]] = set()

    def fail(self, message: str) -> None:
        self.raised.append(message)
        raise RuntimeError(message)

    def mapper(self, entries: Sequence[Json]) -> Callable[[ToolCall], str]:
        import re

        compiled = [(e["tool"], e["field"], re.compile(e["pattern"]), e["as"]) for e in entries]

        def tool_mapper(call: ToolCall) -> str:
            for tool, field, pattern, name in compiled:
                value = call.input.get(field)
                if call.tool_name == tool and isinstance(value, str) and pattern.search(value):
                    return name
            return call.tool_name

        return tool_mapper

    def validator(self, net: str, spec: Json) -> Callable[..., Rejection | None]:
        def validate(
            call: ToolCall, tool: str, transition: Transition, state: GateState
        ) -> Rejection | None:
            value = call.input.get(spec.get("field"))
            match spec["kind"]:
                case "prefix":
                    if not (isinstance(value, str) and value.startswith(spec["prefix"])):
                        return Rejection(f"{spec['field']} must start with {spec['prefix']}")
                case "count":
                    count = state.meta[spec["key"]] = int(state.meta.get(spec["key"], 0)) + 1
                    if count > spec["max"]:
                        return Rejection(f"{spec['key']} exceeded {spec['max']}")
                case "covered" if tool in spec["tools"]:
                    target = value if isinstance(value, str) else ""
                    covers = state.meta.get(spec["key"], [])
                    if not any(isinstance(c, str) and target.startswith(c) for c in covers):
                        return Rejection(f"{target} not covered")
                case "reject_tools" if tool in spec["tools"]:
                    return Rejection(f"{tool} rejected by {net}")
                case "throw_tools" if tool in spec["tools"]:
                    self.fail("validator failed")
            return None

        return validate

    def on_deferred(self, spec: Json) -> Callable[..., None]:
        def hook(call: ToolCall, tool: str, transition: Transition, state: GateState) -> None:
            match spec["kind"]:
                case "append":
                    state.meta.setdefault(spec["key"], []).append(call.input.get(spec["field"]))
                case "count":
                    state.meta[spec["key"]] = int(state.meta.get(spec["key"], 0)) + 1
                case "throw":
                    self.fail("onDeferred failed")

        return hook


def net_from(spec: Json, hooks: Hooks) -> SkillNet:
    """A net as the recordings write it, but for what G-3 refuses.

    Manual transitions without tools, which can never fire, are left out; an undeclared place is
    declared, and not shown while it is empty.
    """
    validate, deferred, mapper = spec.get("validate"), spec.get("onDeferred"), spec.get("mapper")
    arcs = {place for t in spec["transitions"] for place in (*t["inputs"], *t["outputs"])}
    undeclared = sorted(arcs - set(spec["places"]))
    hooks.undeclared.update((spec["name"], place) for place in undeclared)
    return define_skill_net(
        spec["name"],
        places=[*spec["places"], *undeclared],
        transitions=[
            Transition(
                t["name"],
                t["inputs"],
                t["outputs"],
                t.get("tools") or (),
                t["type"],
                bool(t.get("deferred") and t.get("tools")),
            )
            for t in spec["transitions"]
            if t.get("tools") or t["type"] == "auto"
        ],
        initial_marking=spec["initialMarking"],
        terminal_places=spec["terminalPlaces"],
        free_tools=spec["freeTools"],
        tool_mapper=hooks.mapper(mapper) if mapper else None,
        validate_tool_call=hooks.validator(spec["name"], validate) if validate else None,
        on_deferred_result=hooks.on_deferred(deferred) if deferred else None,
        rule=rule_from(spec.get("ruleMetadata")),
    )


def rule_from(metadata: Json | None) -> Rule | None:
    match metadata:
        case None:
            return None
        case {"kind": "sequence", "prerequisite": prerequisite, "dependent": dependent}:
            return SequenceRule(prerequisite, dependent)
        case {"kind": "approval", "tool": tool}:
            return ApprovalRule(tool)
        case {"kind": "block", "tool": tool}:
            return BlockRule(tool)
        case {"kind": "limit", "tool": tool, "limit": limit, "scope": scope}:
            return LimitRule(tool, limit, scope)
    raise AssertionError(metadata)


def metadata_of(rule: Rule | None) -> Json | None:
    match rule:
        case SequenceRule():
            return {
                "kind": "sequence",
                "prerequisite": rule.prerequisite,
                "dependent": rule.dependent,
            }
        case ApprovalRule():
            return {"kind": "approval", "tool": rule.tool}
        case BlockRule():
            return {"kind": "block", "tool": rule.tool}
        case LimitRule():
            return {"kind": "limit", "tool": rule.tool, "limit": rule.limit, "scope": rule.scope}
        case None:
            return None


def nets_from(spec: Json, hooks: Hooks) -> list[SkillNet]:
    if "rules" in spec:
        return list(compile_text(spec["rules"]).nets)
    return [net_from(net, hooks) for net in spec["nets"]]


def written(net: SkillNet) -> bool:
    """G-64: whether somebody wrote the net's rule; the reference has no rules that maps imply."""
    return net.rule is None or net.rule.source is None or not net.rule.source.implied


def without_again(net: SkillNet) -> SkillNet:
    """G-54: the net as the reference has it, without the transition that lets A be called again."""
    if not isinstance(net.rule, SequenceRule):
        return net
    kept = tuple(t for t in net.transitions if not t.name.startswith("again-"))
    return replace(net, transitions=kept)


def one_at_a_time(net: SkillNet) -> SkillNet:
    """G-55: the net as the reference has it, whose refill needs a spent use and restores one."""
    refills = tuple(
        replace(t, inputs=("ready", "spent"), outputs=("ready", "budget"), transfers=())
        if t.transfers
        else t
        for t in net.transitions
    )
    return replace(net, transitions=refills)


# Scenarios


def manager_from(spec: Json, hooks: Hooks, **options: Any) -> GateManager:
    nets, registry = nets_from(spec, hooks), spec["registry"]
    if registry is None:
        return create_gate_manager(nets, **options)
    return create_gate_manager(
        registry={key: nets[index] for key, index in registry["entries"]},
        active=registry["active"],
        **options,
    )


def decision_of(decision: GateDecision) -> Json | None:
    """What enforce mode decided, as the reference's callback sees it."""
    return {"block": True, "reason": decision.reason} if decision.outcome == "block" else None


def title_of(request: ApprovalRequest) -> str:
    """The reference's title: its transition, and the net when there are many."""
    net = f" ({request.skill_net.name})" if request.net else ""
    return f"Approve: {request.transition.name}{net}"


def state_of(manager: GateManager, hooks: Hooks) -> Json:
    """The state of the nets that the reference has as well."""
    shown = {key: net for key, net in manager.nets.items() if written(net)}
    states = [manager.states[key] for key in shown]
    implied = tuple(key for key in manager.nets if key not in shown)
    status = manager.format_status().split("\n")
    return {
        "marking": [marking_of(net, manager.states[key], hooks) for key, net in shown.items()],
        "pending": [pending_of(state) for state in states],
        "meta": [state.meta for state in states],
        "status": "\n".join(line for line in status if not line.startswith(implied)),
        "active": [active.name for active in manager.get_active_nets() if written(active.net)],
    }


def marking_of(net: SkillNet, state: GateState, hooks: Hooks) -> dict[str, int]:
    """The tokens of every declared place."""
    return {p: n for p, n in state.marking.items() if n or (net.name, p) not in hooks.undeclared}


def pending_of(state: GateState) -> list[list[str]]:
    return [
        [pending.call.tool_call_id, pending.transition.name, pending.tool]
        for calls in state.pending.values()
        for pending in calls
    ]


def prompt_of(manager: GateManager) -> str:
    """The prompt of the same nets as the reference shapes them (G-54, G-55)."""
    registry = {
        key: one_at_a_time(without_again(net)) for key, net in manager.nets.items() if written(net)
    }
    plain = create_gate_manager(
        registry=registry, active=[key for key in manager.active if key in registry]
    )
    plain.restore(markings={key: manager.states[key].marking for key in registry})
    return plain.format_system_prompt()


def confirm_from(confirm: Confirm, hooks: Hooks) -> Callable[[ApprovalRequest], bool]:
    """The recordings' two-argument confirm; what it raises comes back as a block (G-59)."""

    def ask(request: ApprovalRequest) -> bool:
        try:
            return confirm(title_of(request), request.message)
        except Exception as problem:
            hooks.raised.append(str(problem))
            raise

    return ask


class Session:
    """One recorded scenario."""

    def __init__(self, spec: Json) -> None:
        self.hooks = Hooks()
        self.decisions: list[list[Any]] = []
        options = {} if spec["mode"] is None else {"mode": spec["mode"], "on_decision": self._decided}
        self.manager = manager_from(spec, self.hooks, **options)
        self._has_ui = spec["hasUI"]

    def _decided(self, call: ToolCall, decision: GateDecision) -> None:
        self.decisions.append([call.tool_call_id, call.tool_name, decision_of(decision)])

    def tool_call(self, call_id: str, name: str, value: Json, confirm: Confirm) -> Json | None:
        ask = confirm_from(confirm, self.hooks) if self._has_ui else None
        decision = run(
            self.manager.handle_tool_call(ToolCall(call_id, name, value), GateContext(confirm=ask))
        )
        self._raise_as_recorded(decision)
        return decision_of(decision) if decision.block else None

    def tool_result(self, call_id: str, name: str, value: Json, is_error: bool) -> None:
        self.manager.handle_tool_result(ToolResult(call_id, name, value, is_error))
        self._raise_as_recorded()

    def replay(self, entries: Sequence[str | Json]) -> None:
        self.manager.replay([e if isinstance(e, str) else entry_from(e) for e in entries])
        self._raise_as_recorded()

    def add_net(self, name: str) -> Json:
        result = self.manager.add_net(name)
        return {"ok": result.ok, "message": result.message}

    def remove_net(self, name: str) -> Json:
        result = self.manager.remove_net(name)
        return {"ok": result.ok, "message": result.message}

    def drain_decisions(self) -> list[list[Any]]:
        drained, self.decisions = self.decisions, []
        return drained

    def state(self) -> Json:
        return state_of(self.manager, self.hooks)

    def prompt(self) -> str:
        return prompt_of(self.manager)

    def _raise_as_recorded(self, decision: GateDecision | None = None) -> None:
        """Let out what the reference lets out of the call, which then has no decision (G-59)."""
        if not self.hooks.raised:
            return
        message = self.hooks.raised[-1]
        self.hooks.raised.clear()
        if decision is not None:
            assert decision.outcome == "block"
            assert decision.reason is not None
            assert decision.reason.endswith(f" failed: {message}")
            if self.decisions:
                self.decisions.pop()
        raise RuntimeError(message)


def entry_from(entry: Json) -> ReplayEntry:
    return ReplayEntry(entry["toolName"], entry.get("input"), entry["isError"])


def make(spec: Json) -> Session:
    return Session(spec)


# Rules and histories


def compile_rules(rules: str | list[str]) -> Json:
    """Compiled nets in the recordings' words, without `again-A` (G-54) and implied ones (G-64).

    G-40: of all the errors, the one the reference stops at: on the first faulty line, and there what
    is wrong with a word before what is wrong with a count.
    """
    try:
        compiled = compile_text(rules)
    except RuleError as error:
        counts = "limit count"
        first = min(error.problems, key=lambda p: (p.line, p.message.startswith(counts)))
        raise ValueError(f"Line {first.line}: {first.message}") from error
    checked = zip(compiled.nets, compiled.verification, strict=True)
    return {
        "nets": [described(without_again(net)) for net in compiled.nets if written(net)],
        "verification": [
            {"name": v.name, "reachable_states": v.reachable_states} for net, v in checked if written(net)
        ],
        "resolve": lambda i, tool, value: taken_for(compiled.nets[i], ToolCall("probe", tool, value)),
    }


def taken_for(net: SkillNet, call: ToolCall) -> str:
    """The one name the reference's net takes a call for.

    G-50: all nets share a call's set of names; in the reference a dotted name reaches only the nets
    whose own rule names an action of the tool.
    """
    name = resolve_tool(net, call)
    if name != f"{call.tool_name}.{call.input.get('action')}":
        return name
    known = {tool for transition in net.transitions for tool in transition.tools}
    return name if any(tool.startswith(f"{call.tool_name}.") for tool in known) else call.tool_name


def described(net: SkillNet) -> Json:
    return {
        "name": net.name,
        "places": list(net.places),
        "initial_marking": dict(net.initial_marking),
        "transitions": [
            {"name": t.name, "type": t.type, "inputs": list(t.inputs), "outputs": list(t.outputs)}
            | ({"tools": list(t.tools)} if t.tools else {})
            | ({"deferred": True} if t.deferred else {})
            for t in net.transitions
        ],
        "free_tools": list(net.free_tools),
        "terminal_places": list(net.terminal_places),
        "rule_metadata": metadata_of(net.rule),
    }


def extract(
    messages: Sequence[Mapping[str, Any]], is_error: Callable[[str, Any], bool] | None
) -> list[Json]:
    """Histories as entries; `input` is absent where the recording has none."""
    return [
        {"toolName": entry.tool_name, "isError": entry.is_error}
        | ({} if entry.input is None else {"input": dict(entry.input)})
        for entry in replay_entries(messages, is_error)
    ]
