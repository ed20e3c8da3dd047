"""Command that resumes a session of an ACP agent.

The session's record does not contain the agent's command, and no command from a journal is ever run. The
operator is shown what to type.
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
"""Key of a record's source that holds the agent's own session id.

`acp_agent` writes it. That module needs an optional library and cannot be imported here.
"""


def is_acp(source: Mapping[str, JsonValue] | None) -> bool:
    """Return whether `source` is that of an ACP agent's session."""
    return source is not None and isinstance(source.get(SOURCE), str)


def acp_command(session_id: str, events: Sequence[JournalEvent], database: Location | None) -> str:
    """Return the command that resumes this session, to be completed; `database` is its journal."""
    # Text with invisible characters cannot be checked by eye, and the id begins with the agent's name.
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
    """Return the journal that the command has to name, if it is on this machine."""
    return hub.database if isinstance(hub, Hub) else None


def _last_opening(events: Sequence[JournalEvent]) -> SessionOpened | SessionResumed | None:
    """Return the last start or resumption; `None` if none is recorded."""
    openings = [e.body for e in events if isinstance(e.body, SessionOpened | SessionResumed)]
    return openings[-1] if openings else None
