"""What a flow asks people, besides whether a call may run: a model's JSON, a choice, a tool's answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from pydantic import JsonValue, ValidationError
from pydantic_core import to_json

from .flows import DeserializeError, Graph, HumanInput, Suspended
from .flows.human import answer_of
from .flows.values import problems_of
from .gate.types import ApprovalRequest
from .net import ToolCall, Transition, define_skill_net
from .wanted import Wanted

Unfit: TypeAlias = Callable[[dict[str, JsonValue]], str | None]

_NET = define_skill_net(
    "flow",
    places=("waits",),
    transitions=(Transition("answer", ("waits",), ("waits",), ("answer",), type="manual"),),
    initial_marking={"waits": 1},
)


def question_of(asks: Suspended, call_id: str) -> ApprovalRequest:
    """The request for a step that waits; no net of the gate asks."""
    value = asks.value
    shown: dict[str, JsonValue] = value if isinstance(value, dict) else {"value": value}
    call = ToolCall(call_id, asks.tool_id, shown)
    return ApprovalRequest(call, "", _NET, _NET.transitions[0], asks.tool_id, (asks.tool_id,), {})


def wanted_of(asks: Suspended, graph: Graph) -> Wanted:
    """What a person fills in to answer."""
    value = asks.value if isinstance(asks.value, dict) else {}
    prompt = value.get("prompt") or value.get("reason")
    message = prompt if isinstance(prompt, str) else f"{asks.tool_id} waits for an answer."
    schema, unfit = _fills_in(asks, graph)
    return Wanted(f"Answer: {asks.tool_id}", message, schema, unfit)


def _fills_in(asks: Suspended, graph: Graph) -> tuple[dict[str, JsonValue], Unfit]:
    match asks.kind:
        case "input":
            model = graph.node(asks.agent).outcomes[0][0].type

            def unfit(answer: dict[str, JsonValue]) -> str | None:
                try:
                    model.model_validate_json(to_json(answer))  # as the flow will: strict models differ
                except ValidationError as error:
                    return problems_of(error)
                return None

            return asks.expects or model.model_json_schema(), unfit
        case "choice":
            question = HumanInput.model_validate(asks.value)
            text: dict[str, JsonValue] = {"type": "string"}
            if question.choices:
                text["examples" if question.allow_other else "enum"] = list(question.choices)

            def unchosen(answer: dict[str, JsonValue]) -> str | None:
                try:
                    answer_of(question, answer.get("answer"), asks.tool_id)
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
            said: dict[str, JsonValue] = {"type": "string", "default": ""}
            return {"type": "object", "properties": {"answer": said}}, lambda _: None


def payload_of(
    asks: Suspended, answer: Mapping[str, JsonValue], by: str, denied: str | None
) -> JsonValue:
    """What goes on with the flow. What is `denied` a tool's model reads; other steps do not go on."""
    if denied is not None:
        return {"approved": False, "reason": denied}
    match asks.kind:
        case "input":
            return dict(answer)
        case "choice":
            return answer.get("answer")
        case _:
            said = answer.get("answer")
            return {"approved": True, "by": by, **({"answer": said} if said else {})}
