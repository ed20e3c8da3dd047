"""What a call would change, asked of its tool before anybody has decided about the call."""

from __future__ import annotations

import asyncio
import copy
import inspect
import logging
from collections.abc import Mapping

from pydantic import JsonValue

from ..runtime.base import Runtime
from ..tool import Tool
from .diff import bounded

PREVIEW_SECONDS = 1.0

log = logging.getLogger(__name__)


async def preview_of(tool: Tool, args: Mapping[str, JsonValue], runtime: Runtime) -> str | None:
    """What a call would change, in at most 64 KB of text, within a second.

    `None` when the tool has no preview, has nothing to say, fails or takes longer: a dialog never waits
    for it and never breaks with it. Only cancelling is passed on.
    """

    async def ask() -> object:
        try:
            hook: object = getattr(tool, "preview_of", None)
            if not callable(hook):
                return None
            said: object = hook(copy.deepcopy(dict(args)), runtime)
            return await said if inspect.isawaitable(said) else said
        except (Exception, SystemExit) as error:
            log.debug("The preview of a call to %s failed: %r", tool, error)
            return None

    # Waited for from outside: whatever the tool does with being cancelled, the dialog goes on.
    asking = asyncio.ensure_future(ask())
    try:
        await asyncio.wait({asking}, timeout=PREVIEW_SECONDS)
    finally:
        asking.cancel()
    text = asking.result() if asking.done() and not asking.cancelled() else None
    return bounded(text, "Preview") if isinstance(text, str) else None
