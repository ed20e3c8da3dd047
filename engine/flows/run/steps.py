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


async def fire(standing: RunState, node: Plain, ctx: Context) -> RunState:
    """Run `node`; returns the run's state after it. Raises what its function raises.

    A state that is certain to be overwritten raises before the function runs.
    """
    if len(node.outcomes) == 1:
        check_free(node, standing, [state.key for state in node.outcomes[0]])
    values = [taken_value(node, state, standing) for state in node.inputs]
    match node:
        case Suspend(takes=takes):
            waits = PendingSuspension(
                value=from_json(standing.live[takes.key]),
                tool_id=takes.key,
                kind="input",
                agent=takes.key,
            )
            return replace(standing, suspended=waits)
        case Human(takes=takes):
            asked = await _called(node, node.question, values, ctx)
            text = dumped(asked, _QUESTION, takes.key, label(node))
            waits = PendingSuspension(
                value=from_json(text), tool_id=takes.key, kind="choice", agent=takes.key
            )
            return replace(standing, suspended=waits)
        case Each():
            return await _one_item(standing, node, values[0], ctx)
        case Items(field=field):
            return _next_item(standing, node, getattr(values[0], field), [])
        case Collect():
            result, left = values
            assert isinstance(left, RemainingItems)
            return _next_item(standing, node, left.items, [*left.results, result])
        case _:
            returned = await _called(node, node.handler, values, ctx)
            return written(standing, node, _given(node, returned))


async def answered(
    standing: RunState, node: Suspend | Human, payload: JsonValue | BaseModel, ctx: Context
) -> RunState:
    """State of the run after an answer. Raises `DeserializeError` for one that does not fit."""
    key, here = node.takes.key, label(node)
    try:
        answer = own_json(payload)
    except ValueError as error:
        raise DeserializeError(f"{here}: the answer is no JSON: {error}", key) from error
    if isinstance(node, Suspend):
        try:
            value = node.gives.type.model_validate_json(to_json(answer))
        except ValidationError as error:
            problem = f"{here}: the answer is no {node.gives.type.__name__}: {problems_of(error)}"
            raise DeserializeError(problem, key) from error
        made: object = value
    else:
        assert standing.suspended is not None
        question = HumanInput.model_validate(standing.suspended.value)
        values = [taken_value(node, node.takes, standing), answer_of(question, answer, here)]
        made = await _called(node, node.answered, values, ctx)
    text = dumped(made, node.gives, key, here)
    return written(replace(standing, suspended=None), node, {node.gives.key: text})


def written(standing: RunState, node: Node, given: Mapping[str, bytes]) -> RunState:
    """State of the run once `node` gave these states. Raises `StateConflict` (P-58)."""
    check_free(node, standing, given)
    taken = {state.key for state in node.inputs}
    collected = {key: done for key, done in standing.collected.items() if key not in taken}
    return replace(standing, live=after(standing.live, node, given), collected=collected)


def check_free(node: Node, standing: RunState, keys: Iterable[str]) -> None:
    """Raises `StateConflict` where `node` would overwrite one of `keys`."""
    lost = conflict(node, keys, standing.live)
    if lost is not None:
        raise StateConflict(lost, label(node))


def taken_value(node: Node, state: State, standing: RunState) -> BaseModel:
    """The value of a live state that `node` takes. Raises `DeserializeError` (P-18)."""
    where = {
        "either": f"transition from '{state.key}'",
        "join": f"join input '{state.key}'",
    }.get(node.kind, f"{node.kind} from '{state.key}'")
    return loaded(standing.live[state.key], state.type, state.key, where)


async def _called(node: Plain, handler: Handler, values: list[BaseModel], ctx: Context) -> object:
    """Call a node's function. What it raises passes through, with a note that names the node (P-17)."""
    try:
        return await handler.awaited(values, ctx)
    except FlowError:
        raise
    except SuspendSignal as error:
        raise FlowError(f"{label(node)}: only tools can suspend; use a suspend node") from error
    except Exception as error:
        error.add_note(f"in {label(node)}")
        raise


def _given(node: Work | Either | Fork | Join, returned: object) -> Written:
    """Values that a node's function returned, by state."""
    here, key = label(node), node.inputs[0].key
    match node:
        case Either(branches=branches):
            branch = next((b for b in branches if type(returned) is b.type), None)
            if branch is None:
                expected = " or ".join(b.type.__name__ for b in branches)
                found = type(returned).__name__
                raise DeserializeError(f"{here}: gave {found}, expected {expected}", key)
            return {branch.key: dumped(returned, branch, key, here)}
        case Fork(children=children):
            values = cast("tuple[object, ...]", returned) if isinstance(returned, tuple) else ()
            if len(values) != len(children):
                expected = ", ".join(child.type.__name__ for child in children)
                raise DeserializeError(f"{here}: gave {returned!r}, expected ({expected})", key)
            pairs = zip(children, values, strict=True)
            return {child.key: dumped(value, child, key, here) for child, value in pairs}
        case _:
            return {node.gives.key: dumped(returned, node.gives, key, here)}


async def _one_item(standing: RunState, node: Each, value: BaseModel, ctx: Context) -> RunState:
    """The next item of a list; once there is none left, the list of results is written."""
    key, here = node.takes.key, label(node)
    items: list[BaseModel] = getattr(value, node.field)
    done = standing.collected.get(key, ())
    if len(done) < len(items):
        returned = await _called(node, node.handler, [items[len(done)]], ctx)
        done = (*done, dumped(returned, State(node_id(node.item), node.item), key, here))
    if len(done) < len(items):
        return replace(standing, collected={**standing.collected, key: done})
    results = [loaded(text, node.item, key, here) for text in done]
    return written(standing, node, _filled(node, results))


def _next_item(
    standing: RunState, node: Items | Collect, items: list[BaseModel], results: list[BaseModel]
) -> RunState:
    """The next item together with what is left; once there is none, the list of results."""
    if not items:
        return written(standing, node, _filled(node, results))
    first, *rest = items
    key, here = node.inputs[0].key, label(node)
    left = node.left.type.model_construct(items=rest, results=results)
    given = {node.item.key: dumped(first, node.item, key, here)}
    return written(standing, node, {**given, node.left.key: dumped(left, node.left, key, here)})


def _filled(node: Each | Items | Collect, results: list[BaseModel]) -> Written:
    """The list of results, in the model that it belongs to."""
    filled: object = results if _is_root(node.gives) else {node.into: results}
    made = node.gives.type.model_validate(filled, by_name=True, by_alias=False)
    return {node.gives.key: dumped(made, node.gives, node.inputs[0].key, label(node))}


def _is_root(state: State) -> bool:
    return issubclass(state.type, RootModel)
