"""Python functions as tools: their arguments as a call's input, a model's calls, results as text."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar, cast

import orjson
from pydantic import JsonValue
from pydantic_core import to_jsonable_python

R = TypeVar("R")


async def called(function: Callable[..., R | Awaitable[R]], given: Mapping[str, object]) -> R:
    """Call a function; one that is not async runs in a thread, to keep the loop free."""
    found: object
    if inspect.iscoroutinefunction(function):
        found = function(**given)
    else:
        found = await asyncio.to_thread(function, **given)
    if inspect.isawaitable(found):
        found = await found
    return cast("R", found)


def named(signature: inspect.Signature, bound: inspect.BoundArguments) -> dict[str, object]:
    """The arguments of a call, all by name."""
    found: dict[str, object] = {}
    for name, value in bound.arguments.items():
        if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            found |= cast("Mapping[str, object]", value)
        else:
            found[name] = value
    return found


def as_input(signature: inspect.Signature, bound: inspect.BoundArguments) -> dict[str, JsonValue]:
    """The arguments of a call as JSON. Raises `TypeError` for others: no operator could see them."""
    found: dict[str, JsonValue] = {}
    for name, value in named(signature, bound).items():
        try:
            found[name] = to_jsonable_python(value, inf_nan_mode="strings")
        except ValueError as error:
            raise TypeError(
                f"'{name}' cannot be shown as JSON to whoever approves it: {error}"
            ) from error
    return found


def tool_call(call: object) -> tuple[str, str, str]:
    """Id, name and arguments of a tool call, given as object or as dict."""

    def part(of: object, name: str) -> object:
        if isinstance(of, Mapping):
            return cast("Mapping[str, object]", of).get(name)
        return getattr(of, name, None)

    function = part(call, "function")
    found = part(call, "id"), part(function, "name"), part(function, "arguments")
    if not isinstance(found[0], str) or not isinstance(found[1], str):
        raise TypeError("expected an entry of message.tool_calls, with `id` and `function`")
    return found[0], found[1], found[2] if isinstance(found[2], str) else ""


def text(result: object) -> str:
    """A tool's result as a model reads it."""
    if isinstance(result, str):
        return result
    return json.dumps(to_jsonable_python(result, fallback=str), ensure_ascii=False)


def shortened(text: str, most: int) -> str:
    """The longest beginning of a text that has at most `most` bytes as JSON."""
    # Halves of characters, which some tools print, are no text that can be sent.
    text = text.encode("utf-8", "replace").decode()
    size = len(orjson.dumps(text))
    if size <= most:
        return text
    kept = text[: len(text) * most // size]
    while len(orjson.dumps(kept)) > most:
        kept = kept[: len(kept) * 3 // 4]
    return f"{kept}\n… ({len(text) - len(kept)} more characters were not sent)"
