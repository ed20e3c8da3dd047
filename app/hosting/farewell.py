"""Lines that a console prints when it ends.

They say what closing waits for, and give the commands that replay and resume its sessions, or connect to
their server again.
"""

from __future__ import annotations

import asyncio
import shlex
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

from ...engine.core.sanitize import visible
from ...engine.history.errors import JournalError
from ...engine.history.model.state import Origin
from ...engine.hub.api import HubApi
from ...engine.hub.hub import Hub

MOST = 4
"""Maximum number of sessions whose commands are printed; the latest ones are chosen."""
NOW = "press Ctrl+C to leave now"


async def farewell(hub: Hub, journal: Sequence[str] = ()) -> list[str]:
    """Return the commands for the sessions of this run.

    `journal` are the options that name its journal.
    """
    states = [state for state in await hub.sessions() if state.kind != "child"]
    lines: list[str] = []
    for state in states[-MOST:]:
        try:
            origin = await hub.origin(state.id)
        except JournalError:
            continue  # Nothing was recorded.
        named = [shlex.quote(state.id), *map(shlex.quote, journal)]
        lines.append(f"{state.agent or state.id}: {_command('replay', named)}")
        if _is_resumable(origin):
            lines.append(f"{state.agent or state.id}: {_command('resume', named)}")
    if len(states) > MOST:
        lines.append(f"{len(states) - MOST} more: {_command('history', list(map(shlex.quote, journal)))}")
    return [visible(line) for line in lines]


async def farewell_to_server(hub: HubApi, trouble: str | None, named: Sequence[str]) -> list[str]:
    """Return lines on the sessions that continue at a server, and the command to connect again.

    `trouble` is the reason why the connection was lost, if it was; `named` are the command's options.
    """
    from ..format.text import count

    back = f"To connect again: {_command('console', list(map(shlex.quote, named)))}"
    if trouble is not None:
        state = f"{hub.location}: {trouble}"
    else:
        unread = hub.unread()
        sessions = len([each for each in await hub.sessions() if each.kind != "child"]) + unread.sessions
        waiting = len(await hub.approvals()) + unread.requests
        verb = "continues" if sessions == 1 else "continue"
        sessions_text = f"{count(sessions, 'session')} {verb} at {hub.location}"
        state = f"{sessions_text}, {count(waiting, 'request')} {'waits' if waiting == 1 else 'wait'}"
    return [visible(line) for line in (state, back)]


def _is_resumable(origin: Origin) -> bool:
    """Return whether a session can be resumed from its record alone; a flow's host prints the command."""
    return origin.source is not None and "flow" not in origin.source


def _command(name: str, words: Sequence[str]) -> str:
    return " ".join(["interlock", name, *words])


async def close_aloud(hub: Hub) -> None:
    """Close a hub. If that waits for something, print what, and let Ctrl+C end the wait.

    Sessions are handed over in any case; the outcome of a tool that is still running is unknown. Raises
    the errors of `hub.close`.
    """
    loop = asyncio.get_running_loop()

    def leave() -> None:
        hub.leave_now()
        loop.remove_signal_handler(signal.SIGINT)  # a second Ctrl+C ends the program as usual

    def say(wait: str) -> None:
        with suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(signal.SIGINT, leave)
        print(f"interlock: {visible(wait)}; {NOW}", file=sys.stderr, flush=True)

    hub.say_wait = say
    await hub.close()
