"""Words and a way out while a hub is closed that waits for its tools, once no screen is left."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import suppress

from ...engine.core.sanitize import visible
from ...engine.hub.hub import Hub

NOW = "press Ctrl+C to leave now"


async def close_aloud(hub: Hub) -> None:
    """Close a hub; where that waits for something, say so on the terminal at once, and let Ctrl+C end it.

    Sessions are handed over all the same; what a tool comes to that still runs is unknown. Raises what
    `hub.close` raises.
    """
    loop = asyncio.get_running_loop()

    def leave() -> None:
        hub.leave_now()
        loop.remove_signal_handler(signal.SIGINT)  # once more, and the program ends as any other

    def say(wait: str) -> None:
        with suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(signal.SIGINT, leave)
        print(f"interlock: {visible(wait)}; {NOW}", file=sys.stderr, flush=True)

    hub.say_wait = say
    await hub.close()
