"""Models built from values that are known to be valid, without pydantic's validation.

A fold over a hundred thousand events makes as many models and replaces nearly as many. `copy_with` takes
half the time of `model_copy`, `construct_model` a quarter of the time of validation.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Protocol, TypeVar, cast

from pydantic import BaseModel

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")


class _Named(Protocol):
    def __call__(self, kind: type[T], values: tuple[object, ...], /) -> T: ...


construct_tuple = cast("_Named", tuple.__new__)  # pyright: ignore[reportUnknownMemberType]
"""Build a named tuple `kind` from `values`, which are all of its fields in order.

The tuple's own constructor takes twice as long.
"""

_set = object.__setattr__


def construct_model(model: type[M], fields: Mapping[str, object]) -> M:
    """Build a `model` from `fields`, which are complete and valid."""
    new = model.__new__(model)
    _set(new, "__dict__", {**fields})
    _set(new, "__pydantic_fields_set__", _names(model))
    _set(new, "__pydantic_extra__", None)
    _set(new, "__pydantic_private__", None)
    return new


def copy_with(model: M, update: Mapping[str, object]) -> M:
    """Return `model.model_copy(update=update)`, for a model without extra and private fields.

    All of its fields count as set, as in `construct_model`: a separate set for each model would take more
    memory than its values.
    """
    new = model.__new__(type(model))
    _set(new, "__dict__", {**model.__dict__, **update})
    _set(new, "__pydantic_fields_set__", _names(type(model)))
    _set(new, "__pydantic_extra__", None)
    _set(new, "__pydantic_private__", None)
    return new


@cache
def _names(model: type[BaseModel]) -> set[str]:
    """Names of all fields. The set is shared between models because no model can set a field."""
    return set(model.model_fields)
