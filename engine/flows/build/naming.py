"""Names of states: a model's name is the key of its node, its state and its place (P-1 … P-5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from pydantic import BaseModel

from ..errors import BuildError

Rename: TypeAlias = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class State:
    """A state: its key, and the model of its values."""

    key: str
    type: type[BaseModel]

    def renamed(self, rename: Rename) -> State:
        return State(rename(self.key), self.type)


def node_id(model: type[BaseModel]) -> str:
    """Return the key of `model`: its unqualified name, or its own `__node_id__` (P-1).

    A subclass does not inherit `__node_id__`, because two types with one key would be ambiguous.
    """
    explicit_id: object = vars(model).get("__node_id__")
    return explicit_id if isinstance(explicit_id, str) and explicit_id else model.__name__


def qualified(model: type[BaseModel]) -> str:
    """Return the name that distinguishes `model` from others with the same key."""
    return f"{model.__module__}.{model.__qualname__}"


def state_of(model: object, where: str) -> State:
    """Return the state of a type. Raises `BuildError` for a type that is not a pydantic model (P-2)."""
    if not isinstance(model, type) or not issubclass(model, BaseModel) or model is BaseModel:
        name = model.__name__ if isinstance(model, type) else repr(model)
        raise BuildError(
            f"{where}: '{name}' is not a pydantic model; states are classes that inherit from BaseModel"
        )
    return State(node_id(model), model)
