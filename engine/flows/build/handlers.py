"""The functions of a flow, whose inputs and outputs are read from their annotations."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

from pydantic import BaseModel

from ..context import Context
from ..errors import BuildError
from .naming import State, state_of

Function: TypeAlias = Callable[..., object]

_COLLECTING = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Handler:
    """A function of a flow: `takes` are the states of its values; it gets a context that it declares."""

    function: Function
    takes: tuple[State, ...]
    gives: object
    wants_context: bool
    where: str

    @property
    def name(self) -> str:
        """Name of the function."""
        return _name(self.function)

    def call(self, values: Sequence[BaseModel], ctx: Context) -> object:
        """Call the function without awaiting its result. Raises its errors."""
        return self.function(*values, ctx) if self.wants_context else self.function(*values)

    async def awaited(self, values: Sequence[BaseModel], ctx: Context) -> object:
        """Call the function and await its result if it is async."""
        result = self.call(values, ctx)
        return await cast("Awaitable[object]", result) if inspect.isawaitable(result) else result

    def one(self) -> State:
        """The one state that it returns."""
        return state_of(self.gives, f"{self.where}: the return annotation")

    def either(self) -> tuple[State, ...]:
        """The states of which it returns one: the members of a union, or a single state."""
        origin = typing.get_origin(self.gives)
        union = origin is types.UnionType or origin is typing.Union
        members = typing.get_args(self.gives) if union else (self.gives,)
        return tuple(state_of(each, f"{self.where}: the return annotation") for each in members)

    def each(self) -> tuple[State, ...]:
        """The states that it returns together: the members of a tuple."""
        if typing.get_origin(self.gives) is not tuple or Ellipsis in typing.get_args(self.gives):
            raise BuildError(
                f"{self.where}: the return annotation is {_annotation_text(self.gives)}, not tuple[B, C]"
            )
        members = typing.get_args(self.gives)
        return tuple(state_of(member, f"{self.where}: the return annotation") for member in members)


def handler(method: str, function: object, inputs: int, *, sync: bool = False) -> Handler:
    """Make `function` the handler of a node that takes `inputs` states.

    Raises `BuildError` for a function that cannot be called that way, lacks an annotation, or is async
    despite `sync`.
    """
    name = _name(function)
    where = f"{method} '{name}'"
    if not callable(function):
        raise BuildError(f"{method}: {function!r} is not a function")
    if sync and _is_async(function):
        raise BuildError(f"{where}: found 'async def', expected 'def'; only work may be async")
    try:
        signature = inspect.signature(function, eval_str=True)
    except NameError as error:
        raise BuildError(
            f"{where}: the annotation '{error.name}' cannot be found; move it to the top of its module"
        ) from error
    except (TypeError, ValueError, SyntaxError) as error:
        raise BuildError(f"{where}: its annotations cannot be read: {error}") from error
    parameters = list(signature.parameters.values())
    required_parameters = [
        p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    positional = [p for p in parameters if p.kind in _POSITIONAL]
    takes = positional[:inputs]
    wants_context = len(positional) > inputs and _is_context(positional[inputs])
    called_with = positional[: inputs + wants_context]
    if len(takes) < inputs or any(p not in called_with for p in required_parameters):
        values = ", ".join("AB"[:inputs])
        raise BuildError(f"{where}: found {name}{signature}, expected ({values}, ctx)")
    if signature.return_annotation is signature.empty:
        raise BuildError(f"{where}: no return annotation; write '-> …' with what it gives")
    return Handler(
        function=function,
        takes=tuple(_parameter_state(parameter, where) for parameter in takes),
        gives=signature.return_annotation,
        wants_context=wants_context,
        where=where,
    )


def _parameter_state(parameter: inspect.Parameter, where: str) -> State:
    if parameter.annotation is parameter.empty:
        raise BuildError(
            f"{where}: parameter '{parameter.name}' has no annotation; name the model it takes"
        )
    return state_of(parameter.annotation, f"{where}: parameter '{parameter.name}'")


def _is_context(parameter: inspect.Parameter) -> bool:
    """Return whether a parameter gets the context.

    A parameter with a default gets it only if it is named `ctx` or annotated `Context`.
    """
    if parameter.default is parameter.empty:
        return True
    return parameter.name == "ctx" or parameter.annotation is Context


def _is_async(function: Function) -> bool:
    plain = function.func if isinstance(function, functools.partial) else function
    own_call: object = getattr(plain, "__call__", None)  # noqa: B004 - it is looked at, not called
    return any(map(inspect.iscoroutinefunction, (plain, own_call)))


def _name(function: object) -> str:
    plain = function.func if isinstance(function, functools.partial) else function
    return getattr(plain, "__name__", None) or type(plain).__name__


def _annotation_text(annotation: object) -> str:
    return getattr(annotation, "__name__", None) or repr(annotation)
