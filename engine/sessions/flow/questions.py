"""Input that a flow requests from operators: a model's JSON, a choice, an answer for a tool."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from pydantic import JsonValue, ValidationError
from pydantic_core import to_json

from ...agents import Tool
from ...agents.tool import wants_approval
from ...approvals.input_form import RequestedInput
from ...approvals.tool_hints import (
    approval_conditions,
    has_approval_rule,
    hinted,
    surely_needs_approval,
    with_wishes,
)
from ...flows import DeserializeError, Graph, HumanInput, Suspended
from ...flows.build.nodes import AgentWork
from ...flows.run.human import answer_of
from ...flows.run.values import problems_of
from ...gate.types import ApprovalRequest
from ...net.net import NetError, SkillNet, ToolCall, Transition, define_skill_net
from ...recording.records import json_input

Unfit: TypeAlias = Callable[[dict[str, JsonValue]], str | None]

_NET = define_skill_net(
    "flow",
    places=("waits",),
    transitions=(Transition("answer", ("waits",), ("waits",), ("answer",), type="manual"),),
    initial_marking={"waits": 1},
)


def step_request(suspended: Suspended, call_id: str) -> ApprovalRequest:
    """Return the request for a suspended step; it does not come from a net of the gate."""
    value = suspended.value
    shown: dict[str, JsonValue] = value if isinstance(value, dict) else {"value": value}
    call = ToolCall(call_id, suspended.tool_id, shown)
    return ApprovalRequest(
        call, "", _NET, _NET.transitions[0], suspended.tool_id, (suspended.tool_id,), {}
    )


def requested_input(suspended: Suspended, graph: Graph) -> RequestedInput:
    """Return the input that an operator fills in to answer a suspended step."""
    value = suspended.value if isinstance(suspended.value, dict) else {}
    prompt = value.get("prompt") or value.get("reason")
    message = prompt if isinstance(prompt, str) else f"{suspended.tool_id} waits for an answer."
    schema, unfit = _input_schema(suspended, graph)
    return RequestedInput(f"Answer: {suspended.tool_id}", message, schema, unfit)


def _input_schema(suspended: Suspended, graph: Graph) -> tuple[dict[str, JsonValue], Unfit]:
    match suspended.kind:
        case "input":
            model = graph.node(suspended.agent).outcomes[0][0].type

            def unfit(answer: dict[str, JsonValue]) -> str | None:
                try:
                    model.model_validate_json(to_json(answer))  # as the flow will: strict models differ
                except ValidationError as error:
                    return problems_of(error)
                return None

            return suspended.expects or model.model_json_schema(), unfit
        case "choice":
            question = HumanInput.model_validate(suspended.value)
            text: dict[str, JsonValue] = {"type": "string"}
            if question.choices:
                text["examples" if question.allow_other else "enum"] = list(question.choices)

            def unchosen(answer: dict[str, JsonValue]) -> str | None:
                try:
                    answer_of(question, answer.get("answer"), suspended.tool_id)
                except DeserializeError as error:
                    return str(error)
                return None

            schema: dict[str, JsonValue] = {
                "type": "object",
                "properties": {"answer": text},
                "required": ["answer"],
            }
            return schema, unchosen
        case _:
            answer_text: dict[str, JsonValue] = {"type": "string", "default": ""}
            return {"type": "object", "properties": {"answer": answer_text}}, lambda _: None


def resume_payload(
    suspended: Suspended, answer: Mapping[str, JsonValue], by: str, denied: str | None
) -> JsonValue:
    """Return the payload with which the flow resumes; only a tool's denial has one, for its model."""
    if denied is not None:
        return {"approved": False, "reason": denied}
    match suspended.kind:
        case "input":
            return dict(answer)
        case "choice":
            return answer.get("answer")
        case _:
            text = answer.get("answer")
            return {"approved": True, "by": by, **({"answer": text} if text else {})}


# Approval of tools that need it, whatever the rules say. Tools that an agent gets only during a run, from
# its `configure`, are not known beforehand. One net serves all of them: a call needs approval if its tool
# needs approval, or if its tool was not offered. If a rule has a condition on paths, this net cannot
# determine what the rule will do, so both need approval.


KEY = "approve-when-a-tool-asks"
ASKING = "a tool that wants approval"


class FlowApprovals:
    """Approvals that tools of a flow's agents need. `nets` are the rules' nets and those for such tools.

    Raises `NetError` if a rule has the name of the net for tools without a net of their own.
    """

    def __init__(self, graph: Graph, rules: Mapping[str, SkillNet]) -> None:
        agents = [node.node for node in graph.distinct if isinstance(node, AgentWork)]
        known = [tool for agent in agents if agent.config for tool in agent.config.tools]
        self._rules = rules
        self._offered: dict[str, Tool] = {}
        # If two tools have the same name, the net of that name is for the first one.
        self._first: dict[str, Tool] = {}
        wishing = [tool for tool in known if getattr(tool, "needs_approval", False)]
        for tool in wishing:
            self._first.setdefault(tool.name, tool)
        self.nets = with_wishes(rules, self._first.values())
        if any(agent.configures() for agent in agents) or not all(map(self._has_net, wishing)):
            if KEY in self.nets:
                raise NetError(f"net '{KEY}' is the hub's own: give the rule of this name another")
            self.nets[KEY] = self._net()

    def active(self, chosen: Sequence[str] | None) -> Sequence[str] | None:
        """Return the nets that are active at first: those `chosen` of the rules, and all for tools."""
        return None if chosen is None else (*chosen, *hinted(self._rules, self.nets))

    def set_tools(self, tools: Sequence[Tool]) -> None:
        """Set the tools of the agent that is running."""
        self._offered = {tool.name: tool for tool in tools}

    def _has_net(self, tool: Tool) -> bool:
        return has_approval_rule(self._rules, tool.name) or self._first.get(tool.name) is tool

    def _asks(self, call: ToolCall) -> bool:
        tool = self._offered.get(call.tool_name)
        if tool is None:
            return True
        if self._has_net(tool) or not wants_approval(tool, json_input(call.input)):
            return False
        return not surely_needs_approval(approval_conditions(self._rules, tool.name), call)

    def _names(self, call: ToolCall) -> tuple[str, ...]:
        return (ASKING, call.tool_name) if self._asks(call) else (call.tool_name,)

    def _net(self) -> SkillNet:
        return define_skill_net(
            KEY,
            places=("ready",),
            transitions=(Transition("approve", ("ready",), ("ready",), (ASKING,), type="manual"),),
            initial_marking={"ready": 1},
            call_names=self._names,
        )
