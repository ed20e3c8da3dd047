"""Resuming a session of an ACP agent: by the command that it was started with.

Its record does not have that command, and nothing is run because a journal says so: the operator is shown
what to type.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from ...engine.core.sanitize import visible
from ...engine.history.database.location import Location, absolute
from ...engine.history.model.events import JournalEvent, SessionOpened, SessionResumed
from ...engine.hub.api import HubApi
from ...engine.hub.hub import Hub

SOURCE = "acp"
"""Under which the record of such a session has the id that its agent knows it by; `acp_agent` writes it,
and needs a library that may not be there."""


def is_acp(source: Mapping[str, JsonValue] | None) -> bool:
    """Tell whether `source` is that of a session of an ACP agent."""
    return source is not None and isinstance(source.get(SOURCE), str)


def acp_command(session_id: str, events: Sequence[JournalEvent], database: Location | None) -> str:
    """The command that resumes this session, to be completed; `database` is the journal it is in."""
    # What cannot be seen cannot be checked before it is run; an agent's name is the beginning of the id.
    words = ["--resume", session_id if visible(session_id) == session_id else "SESSION"]
    journal = None if database is None else absolute(database)
    opening = _last_opening(events)
    workdir = None if opening is None else opening.workdir
    for option, path in (("--cwd", workdir), ("--db", journal)):
        if path is not None and visible(str(path)) == str(path):
            words += [option, str(path)]
    for label in () if opening is None else opening.session_labels:
        words += ["--label", label] if visible(label) == label else []
    return f"interlock acp {shlex.join(words)} --rules FILES -- COMMAND"


def local_journal(hub: HubApi) -> Location | None:
    """The journal that the command has to name, where it is one of this machine."""
    return hub.database if isinstance(hub, Hub) else None


def _last_opening(events: Sequence[JournalEvent]) -> SessionOpened | SessionResumed | None:
    """The last start or resumption; `None` if none is recorded."""
    openings = [e.body for e in events if isinstance(e.body, SessionOpened | SessionResumed)]
    return openings[-1] if openings else None
