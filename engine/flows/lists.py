"""The list of a model that `each` goes through, or fills; and the nodes that do so with a flow."""

from __future__ import annotations

import typing
from typing import Any

from pydantic import BaseModel, create_model

from .errors import BuildError
from .naming import State
from .nodes import Collect, Items


class Left(BaseModel):
    """What is left of a list, and what the items before it came to."""

    items: list[BaseModel]
    results: list[BaseModel]


def list_field(model: type[BaseModel], item: type[BaseModel], where: str) -> str:
    """The one field of `model` that is a list of `item`. Raises `BuildError` for none or several."""
    found = [
        name
        for name, field in model.model_fields.items()
        if typing.get_origin(field.annotation) is list and typing.get_args(field.annotation) == (item,)
    ]
    if len(found) != 1:
        raise BuildError(
            f"{where}: '{model.__name__}' has {len(found)} fields that are list[{item.__name__}], "
            "expected one"
        )
    return found[0]


def by_item(source: State, target: State, takes: State, gives: State, name: str) -> tuple[Items, Collect]:
    """The nodes that give a flow, called `name`, the items of a list, and take what it makes of them.

    `takes` and `gives` are its states, under their names in the graph around it. Raises `BuildError`.
    """
    where = f"each '{name}'"
    item, result = takes.type, gives.type
    field = list_field(source.type, item, where)
    into = filled(target, list_field(target.type, result, where), where)
    listed: dict[str, Any] = {"items": (list[item], ...), "results": (list[result], ...)}
    made = create_model(f"{source.type.__name__}Left", __base__=Left, **listed)
    left = State(f"{source.key}::left", made)
    items = Items(item=takes, left=left, gives=target, into=into, name=name, takes=source, field=field)
    return items, Collect(item=takes, left=left, gives=target, into=into, name=name, result=gives)


def filled(state: State, field: str, where: str) -> str:
    """The one field of `state` to fill, when it needs nothing else; `where` is who would."""
    others = [
        name for name, each in state.type.model_fields.items() if name != field and each.is_required()
    ]
    if others:
        raise BuildError(
            f"{where}: '{state.key}' also needs {', '.join(others)}; "
            "what collects results has no other field without a default"
        )
    return field
