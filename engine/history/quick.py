"""Models made of values that are known to be valid, without asking pydantic again.

A fold over a hundred thousand events makes as many models and replaces nearly as many. `updated` takes
half the time of `model_copy`, `made` a quarter of that of a model's own check.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from pydantic import BaseModel

M = TypeVar("M", bound=BaseModel)

_set = object.__setattr__


def made(model: type[M], fields: Mapping[str, object]) -> M:
    """A `model` with these fields: all that it has, and valid."""
    new = model.__new__(model)
    _set(new, "__dict__", {**fields})
    _set(new, "__pydantic_fields_set__", set(fields))
    _set(new, "__pydantic_extra__", None)
    _set(new, "__pydantic_private__", None)
    return new


def updated(model: M, update: Mapping[str, object]) -> M:
    """What `model.model_copy(update=update)` gives, for a model without extra and private fields."""
    new = model.__new__(type(model))
    _set(new, "__dict__", {**model.__dict__, **update})
    _set(new, "__pydantic_fields_set__", model.__pydantic_fields_set__ | update.keys())
    _set(new, "__pydantic_extra__", None)
    _set(new, "__pydantic_private__", None)
    return new
