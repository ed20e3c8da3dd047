"""Tools that are async generators: what they yield is told as they run, the last of it is the result."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import TypeAlias, cast

Progress: TypeAlias = Callable[[str], None]


async def outcome(running: object, progress: Progress, final: type | tuple[type, ...] = ()) -> object:
    """What a tool's call comes to: an awaitable's value, or what an async generator yielded last.

    Each text that is yielded goes to `progress` at once. A value of a `final` type is the result
    whatever text comes after it. The generator is closed however this ends, so that being cancelled
    leaves nothing of it running.
    """
    if not inspect.isasyncgen(running):
        return await cast("Awaitable[object]", running)
    result: object = None
    async with aclosing(cast("AsyncGenerator[object, None]", running)) as values:
        async for value in values:
            if isinstance(value, str):
                progress(value)
            if isinstance(value, final) or not isinstance(result, final):
                result = value
    return result
