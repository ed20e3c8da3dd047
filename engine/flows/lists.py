"""The list of a model that `each` goes through, or fills."""

from __future__ import annotations

import typing

from pydantic import BaseModel

from .errors import BuildError
from .naming import State


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
