"""Lines that a console leaves in the terminal: how its sessions are replayed and resumed from there."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from ...engine.core.sanitize import visible
from ...engine.history.errors import JournalError
from ...engine.history.model.state import Origin
from ...engine.hub.hub import Hub

MOST = 4
"""Sessions whose commands are printed, the latest ones."""


async def farewell(hub: Hub, journal: Sequence[str] = ()) -> list[str]:
    """The commands for the sessions of this run; `journal` are the options that name its journal."""
    states = [state for state in await hub.sessions() if state.kind != "child"]
    lines: list[str] = []
    for state in states[-MOST:]:
        try:
            origin = await hub.origin(state.id)
        except JournalError:
            continue  # Nothing of it was recorded.
        named = [shlex.quote(state.id), *map(shlex.quote, journal)]
        lines.append(f"{state.agent or state.id}: {_command('replay', named)}")
        if _is_resumable(origin):
            lines.append(f"{state.agent or state.id}: {_command('resume', named)}")
    if len(states) > MOST:
        lines.append(f"{len(states) - MOST} more: {_command('history', list(map(shlex.quote, journal)))}")
    return [visible(line) for line in lines]


def _is_resumable(origin: Origin) -> bool:
    """Tell whether the record of a session says how it goes on; of a flow its host says that."""
    return origin.source is not None and "flow" not in origin.source


def _command(name: str, words: Sequence[str]) -> str:
    return " ".join(["interlock", name, *words])
