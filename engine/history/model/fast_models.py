"""Models made of values that are known to be valid, without asking pydantic again.

A fold over a hundred thousand events makes as many models and replaces nearly as many. `copy_with` takes
half the time of `model_copy`, `construct_model` a quarter of that of a model's own check.
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
"""A named tuple `kind` of `values`: all that it has, in order. Its own way takes twice as long."""

_set = object.__setattr__


def construct_model(model: type[M], fields: Mapping[str, object]) -> M:
    """A `model` with these fields: all that it has, and valid."""
    new = model.__new__(model)
    _set(new, "__dict__", {**fields})
    _set(new, "__pydantic_fields_set__", _names(model))
    _set(new, "__pydantic_extra__", None)
    _set(new, "__pydantic_private__", None)
    return new


def copy_with(model: M, update: Mapping[str, object]) -> M:
    """The result of `model.model_copy(update=update)`, for a model without extra and private fields.

    All fields of it count as set, as those of `construct_model`: a set of its own for each model would
    take more room than what is in it.
    """
    new = model.__new__(type(model))
    _set(new, "__dict__", {**model.__dict__, **update})
    _set(new, "__pydantic_fields_set__", _names(type(model)))
    _set(new, "__pydantic_extra__", None)
    _set(new, "__pydantic_private__", None)
    return new


@cache
def _names(model: type[BaseModel]) -> set[str]:
    """All fields, of which no model can set another one."""
    return set(model.model_fields)
