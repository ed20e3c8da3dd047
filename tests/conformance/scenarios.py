"""Driving the recorded scenarios: the manager, wrapped tools, and one net alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from interlock.engine import (
    GateContext,
    GateDecision,
    GateSession,
    ToolCall,
    ToolCallBlockedError,
    ToolResult,
    create_gate,
    enabled_tool_transitions,
    handle_tool_call,
    handle_tool_result,
)
from interlock.engine.net.net import initial_state

from . import adapter
from .cases import UNDEFINED, Json, classifier

Step = tuple[int, object, object]


def answers(event: Json, asked: list[list[str]], nested: Callable[[], None]) -> adapter.Confirm:
    """A confirm that gives the recorded answers, the last one again and again."""

    def confirm(title: str, message: str) -> bool:
        asked.append([title, message])
        if len(asked) == 1:
            nested()
        given = event["confirm"]
        answer = given[min(len(asked), len(given)) - 1] if given else False
        if answer == "throw":
            raise RuntimeError("confirm failed")
        return answer

    return confirm


# The manager


def manager_steps(case: Json) -> Iterator[Step]:
    """A scenario of `rules`, `nets` or `hand`."""
    session = adapter.make(case)
    yield -1, session.state(), case["init"]
    for number, event in enumerate(case["events"]):
        yield number, manager_event(session, event["in"]), event["out"]
    yield len(case["events"]), session.prompt(), case["prompt"]


def manager_event(session: adapter.Session, event: Json) -> Json:
    asked: list[list[str]] = []
    during: list[Json] = []
    out: Json = {}
    session.drain_decisions()

    def nested() -> None:
        during.extend(manager_event(session, inner) for inner in event.get("during", ()))

    try:
        match event["type"]:
            case "tool_call":
                confirm = answers(event, asked, nested)
                out["decision"] = session.tool_call(event["id"], event["name"], event["input"], confirm)
            case "tool_result":
                session.tool_result(event["id"], event["name"], event["input"], event["isError"])
            case "replay":
                session.replay(event["entries"])
            case "add_net":
                out["ret"] = session.add_net(event["net"])
            case "remove_net":
                out["ret"] = session.remove_net(event["net"])
    except RuntimeError as problem:
        out["threw"] = str(problem)
    out |= {"confirms": asked, "on_decision": session.drain_decisions(), "state": session.state()}
    return out | ({"during": during} if during else {})


# One net alone


def single_steps(case: Json) -> Iterator[Step]:
    """A scenario of `single`, by the low-level functions."""
    hooks = adapter.Hooks()
    if "rules" in case:
        net = adapter.without_again(adapter.nets_from(case, hooks)[case["net_index"]])
    else:
        net = adapter.net_from(case["net"], hooks)
    plain = adapter.one_at_a_time(net)
    state = initial_state(net)

    def shown() -> Json:
        return {
            "marking": dict(state.marking),
            "pending": adapter.pending_of(state),
            "meta": state.meta,
            "enabled": [t.name for t in enabled_tool_transitions(plain, state.marking)],
        }

    yield -1, shown(), case["init"]
    for number, recorded in enumerate(case["events"]):
        event, asked, out = recorded["in"], [], {}
        if event["type"] == "tool_call":
            confirm = adapter.confirm_from(answers(event, asked, lambda: None), hooks)
            context = GateContext(confirm if case["hasUI"] else None)
            call = ToolCall(event["id"], event["name"], event["input"])
            decision = adapter.run(handle_tool_call(call, context, net, state))
            out["decision"] = adapter.decision_of(decision)
        else:
            result = ToolResult(event["id"], event["name"], event["input"], event["isError"])
            handle_tool_result(result, net, state)
        if hooks.raised:
            out = {"threw": hooks.raised.pop()}
        yield number, out | {"confirms": asked, "state": shown()}, recorded["out"]


# Wrapped tools


@dataclass
class Log:
    """What one step made the gate and its callbacks do."""

    executed: Json | None = None
    confirms: list[list[str]] = field(default_factory=list)
    on_decision: list[list[Any]] = field(default_factory=list)
    classifier_calls: list[list[Any]] = field(default_factory=list)
    transforms: list[list[str]] = field(default_factory=list)


class SchemaOnly:
    """A tool that only describes itself."""


class Wrapped:
    """A recorded gate with its sessions; steps run inside one another as tools call tools."""

    def __init__(self, case: Json) -> None:
        self._case = case
        self._events: list[Json] = []
        self._logs: list[Log] = [Log()]
        self._during: list[list[Json]] = []
        self._hooks = adapter.Hooks()
        nets, registry = adapter.nets_from(case, self._hooks), case["registry"]
        options: Json = {"mode": case["mode"]} if case["mode"] else {}
        if registry is None:
            options["nets"] = nets
        else:
            options["registry"] = {key: nets[index] for key, index in registry["entries"]}
            options["active"] = registry["active"]
        self.gate = create_gate(
            **options,
            confirm=adapter.confirm_from(self._confirm, self._hooks) if case["has_confirm"] else None,
            on_decision=self._decided,
            is_tool_result_error=self._classify if case["classifier"] else None,
            transform_block_reason=self._transform if case["transform"] else None,
        )
        self.sessions: list[GateSession[Json]] = []

    @property
    def _log(self) -> Log:
        return self._logs[-1]

    def open(self, messages: list[Json] | None) -> Json:
        """Wrap the tools for one more session."""
        self._logs = [Log()]
        tools: Json = {name: _Tool(name, self._execute) for name in self._case["tools"]}
        described = {name: SchemaOnly() for name in self._case["schema_only"]}
        session = self.gate.wrap_tools(
            {**tools, **described}, messages=messages, passthrough=list(described)
        )
        assert all(session.tools[name] is tool for name, tool in described.items())
        self.sessions.append(session)
        return {
            "classifier_calls": self._log.classifier_calls,
            "init": adapter.state_of(session.manager, self._hooks),
            "prompt": adapter.prompt_of(session.manager),
        }

    def step(self, event: Json) -> Json:
        session = self.sessions[event["session"]]
        if event["type"] != "execute":
            change = session.add_net if event["type"] == "add_net" else session.remove_net
            result = change(event["net"])
            out: Json = {"ret": {"ok": result.ok, "message": result.message}}
            return out | {"state": adapter.state_of(session.manager, self._hooks)}
        self._events.append(event)
        self._logs.append(Log())
        self._during.append([])
        out = self._outcome(session, event)
        self._events.pop()
        log, during = self._logs.pop(), self._during.pop()
        if self._hooks.raised:
            # G-59: what a callback raises blocks the call here and leaves it there.
            out = {"threw": {"blocked": False, "name": "Error", "message": self._hooks.raised.pop()}}
            log.on_decision.clear()
            log.transforms.clear()
        out |= vars(log) | {"state": adapter.state_of(session.manager, self._hooks)}
        return out | ({"during": during} if during else {})

    def _outcome(self, session: GateSession[Json], event: Json) -> Json:
        value = None if event.get("no_input") else event["input"]
        running = session.tools[event["name"]].execute(value, tool_call_id=event["id"])
        try:
            return {"returned": adapter.run(running)}
        except ToolCallBlockedError as blocked:
            return {
                "threw": {
                    "blocked": True,
                    "name": "ToolCallBlockedError",
                    "message": str(blocked),
                    "toolName": blocked.tool_name,
                    "toolCallId": blocked.tool_call_id,
                    "reason": blocked.reason,
                }
            }
        except (TypeError, ValueError) as problem:
            name = "TypeError" if isinstance(problem, TypeError) else "Error"
            return {"threw": {"blocked": False, "name": name, "message": str(problem)}}

    def _execute(self, value: Json | None, tool_call_id: str) -> Any:
        event = self._events[-1]
        behaviour = event["behaviour"]
        received = UNDEFINED if value is None else value
        self._log.executed = {"input": received, "toolCallId": tool_call_id}
        during = self._during[-1]
        for inner in behaviour.get("during", ()):
            during.append(self.step(inner))
        if "throw" in behaviour:
            raise TypeError(behaviour["throw"])
        return UNDEFINED if behaviour.get("undefined") else behaviour["return"]

    def _confirm(self, title: str, message: str) -> bool:
        return answers(self._events[-1], self._log.confirms, lambda: None)(title, message)

    def _decided(self, call: ToolCall, decision: GateDecision) -> None:
        shown = [call.tool_call_id, call.tool_name, dict(call.input), adapter.decision_of(decision)]
        self._log.on_decision.append(shown)

    def _classify(self, tool: str, value: Any) -> bool:
        is_error = classifier(self._case["classifier"], self._log.classifier_calls)
        assert is_error is not None
        return is_error(tool, value)

    def _transform(self, tool: str, reason: str) -> str:
        self._log.transforms.append([tool, reason])
        return f"[{tool}] {reason.upper()}"


class _Tool:
    """A tool object whose execute takes the input and the call's id."""

    def __init__(self, name: str, run: Callable[[Json | None, str], Any]) -> None:
        self.name = name
        self._run = run

    async def execute(self, value: Json | None, *, tool_call_id: str) -> Any:
        return self._run(value, tool_call_id)


def wrap_steps(case: Json) -> Iterator[Step]:
    """A scenario of `wrap`: all sessions are opened first."""
    wrapped = Wrapped(case)
    for session in case["sessions"]:
        shown = ("classifier_calls", "init", "prompt")
        yield -1, wrapped.open(session["messages"]), {key: session[key] for key in shown}
    for number, step in enumerate(case["steps"]):
        yield number, wrapped.step(step["in"]), step["out"]
    for session, final in zip(wrapped.sessions, case["final"], strict=True):
        got = {"prompt": adapter.prompt_of(session.manager), "status": session.format_status()}
        yield len(case["steps"]), got, final
