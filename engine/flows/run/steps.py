"""Steps of the nodes without a model: from the values they take to the JSON texts they give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias, cast

from pydantic import BaseModel, JsonValue, RootModel, ValidationError
from pydantic_core import from_json, to_json

from ..agents.tool_errors import SuspendSignal
from ..build.handlers import Handler
from ..build.naming import State, node_id
from ..build.nodes import (
    Collect,
    Each,
    Either,
    Fork,
    Human,
    Items,
    Join,
    Node,
    RemainingItems,
    Suspend,
    Work,
    label,
)
from ..context import Context
from ..errors import DeserializeError, FlowError, StateConflict
from .human import HumanInput, answer_of
from .scheduler import after, conflict
from .snapshot import PendingSuspension
from .state import RunState
from .values import dumped, loaded, own_json, problems_of

Plain: TypeAlias = Work | Either | Fork | Join | Each | Items | Collect | Suspend | Human
Written: TypeAlias = dict[str, bytes]

_QUESTION = State(node_id(HumanInput), HumanInput)


async def fire(run_state: RunState, node: Plain, ctx: Context) -> RunState:
    """Run `node`; return the run's state after it. Raises the errors of its function.

    If a state would certainly be overwritten, raises before the function runs.
    """
    if len(node.outcomes) == 1:
        check_free(node, run_state, [state.key for state in node.outcomes[0]])
    values = [input_value(node, state, run_state) for state in node.inputs]
    match node:
        case Suspend(takes=takes):
            suspension = PendingSuspension(
                value=from_json(run_state.live[takes.key]),
                tool_id=takes.key,
                kind="input",
                agent=takes.key,
            )
            return replace(run_state, suspended=suspension)
        case Human(takes=takes):
            question = await _call_handler(node, node.question, values, ctx)
            text = dumped(question, _QUESTION, takes.key, label(node))
            suspension = PendingSuspension(
                value=from_json(text), tool_id=takes.key, kind="choice", agent=takes.key
            )
            return replace(run_state, suspended=suspension)
        case Each():
            return await _map_item(run_state, node, values[0], ctx)
        case Items(field=field):
            return _next_item(run_state, node, getattr(values[0], field), [])
        case Collect():
            result, remaining = values
            assert isinstance(remaining, RemainingItems)
            return _next_item(run_state, node, remaining.items, [*remaining.results, result])
        case _:
            return_value = await _call_handler(node, node.handler, values, ctx)
            return with_outputs(run_state, node, _outputs_of(node, return_value))


async def answered(
    run_state: RunState, node: Suspend | Human, payload: JsonValue | BaseModel, ctx: Context
) -> RunState:
    """Return the run's state after an answer. Raises `DeserializeError` for one that does not fit."""
    key, node_label = node.takes.key, label(node)
    try:
        answer = own_json(payload)
    except ValueError as error:
        raise DeserializeError(f"{node_label}: the answer is not JSON: {error}", key) from error
    if isinstance(node, Suspend):
        try:
            value = node.gives.type.model_validate_json(to_json(answer))
        except ValidationError as error:
            problem = (
                f"{node_label}: the answer is not a {node.gives.type.__name__}: {problems_of(error)}"
            )
            raise DeserializeError(problem, key) from error
        return_value: object = value
    else:
        assert run_state.suspended is not None
        question = HumanInput.model_validate(run_state.suspended.value)
        values = [input_value(node, node.takes, run_state), answer_of(question, answer, node_label)]
        return_value = await _call_handler(node, node.answered, values, ctx)
    text = dumped(return_value, node.gives, key, node_label)
    return with_outputs(replace(run_state, suspended=None), node, {node.gives.key: text})


def with_outputs(run_state: RunState, node: Node, outputs: Mapping[str, bytes]) -> RunState:
    """Return the run's state after `node` gave these states. Raises `StateConflict` (P-58)."""
    check_free(node, run_state, outputs)
    input_keys = {state.key for state in node.inputs}
    remaining_results = {
        key: results for key, results in run_state.collected.items() if key not in input_keys
    }
    return replace(run_state, live=after(run_state.live, node, outputs), collected=remaining_results)


def check_free(node: Node, run_state: RunState, keys: Iterable[str]) -> None:
    """Raise `StateConflict` if `node` would overwrite one of `keys`."""
    conflicting = conflict(node, keys, run_state.live)
    if conflicting is not None:
        raise StateConflict(conflicting, label(node))


def input_value(node: Node, state: State, run_state: RunState) -> BaseModel:
    """Return the value of a live state that `node` takes. Raises `DeserializeError` (P-18)."""
    where = {
        "either": f"transition from '{state.key}'",
        "join": f"join input '{state.key}'",
    }.get(node.kind, f"{node.kind} from '{state.key}'")
    return loaded(run_state.live[state.key], state.type, state.key, where)


async def _call_handler(node: Plain, handler: Handler, values: list[BaseModel], ctx: Context) -> object:
    """Call a node's function. Its errors pass through, with a note that names the node (P-17)."""
    try:
        return await handler.awaited(values, ctx)
    except FlowError:
        raise
    except SuspendSignal as error:
        raise FlowError(f"{label(node)}: only tools can suspend; use a suspend node") from error
    except Exception as error:
        error.add_note(f"in {label(node)}")
        raise


def _outputs_of(node: Work | Either | Fork | Join, returned: object) -> Written:
    """Return the values that a node's function returned, by state."""
    node_label, key = label(node), node.inputs[0].key
    match node:
        case Either(branches=branches):
            branch = next((b for b in branches if type(returned) is b.type), None)
            if branch is None:
                expectation = " or ".join(b.type.__name__ for b in branches)
                type_name = type(returned).__name__
                raise DeserializeError(f"{node_label}: gave {type_name}, expected {expectation}", key)
            return {branch.key: dumped(returned, branch, key, node_label)}
        case Fork(children=children):
            values = cast("tuple[object, ...]", returned) if isinstance(returned, tuple) else ()
            if len(values) != len(children):
                expectation = ", ".join(child.type.__name__ for child in children)
                raise DeserializeError(f"{node_label}: gave {returned!r}, expected ({expectation})", key)
            pairs = zip(children, values, strict=True)
            return {child.key: dumped(value, child, key, node_label) for child, value in pairs}
        case _:
            return {node.gives.key: dumped(returned, node.gives, key, node_label)}


async def _map_item(run_state: RunState, node: Each, value: BaseModel, ctx: Context) -> RunState:
    """Handle the next item of a list; after the last one, write the list of results."""
    key, node_label = node.takes.key, label(node)
    items: list[BaseModel] = getattr(value, node.field)
    result_texts = run_state.collected.get(key, ())
    if len(result_texts) < len(items):
        return_value = await _call_handler(node, node.handler, [items[len(result_texts)]], ctx)
        result_texts = (
            *result_texts,
            dumped(return_value, State(node_id(node.item), node.item), key, node_label),
        )
    if len(result_texts) < len(items):
        return replace(run_state, collected={**run_state.collected, key: result_texts})
    results = [loaded(text, node.item, key, node_label) for text in result_texts]
    return with_outputs(run_state, node, _filled(node, results))


def _next_item(
    run_state: RunState, node: Items | Collect, items: list[BaseModel], results: list[BaseModel]
) -> RunState:
    """Give the next item and the remaining items; if there are none, the list of results."""
    if not items:
        return with_outputs(run_state, node, _filled(node, results))
    first, *rest = items
    key, node_label = node.inputs[0].key, label(node)
    remaining = node.left.type.model_construct(items=rest, results=results)
    item_text = {node.item.key: dumped(first, node.item, key, node_label)}
    return with_outputs(
        run_state, node, {**item_text, node.left.key: dumped(remaining, node.left, key, node_label)}
    )


def _filled(node: Each | Items | Collect, results: list[BaseModel]) -> Written:
    """Return the list of results, in the model that it belongs to."""
    content: object = results if RootModel in node.gives.type.__mro__ else {node.into: results}
    value = node.gives.type.model_validate(content, by_name=True, by_alias=False)
    return {node.gives.key: dumped(value, node.gives, node.inputs[0].key, label(node))}
