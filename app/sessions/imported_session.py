"""Resuming of an imported session. What its record says about how it ran is shown, but not used.

The record comes from the author of the file. Agent, model, address, tools, rules, runtime and mode come
from the command line or the user's settings. Until then nothing is imported, compiled or called.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from ...engine.core.sanitize import visible
from ...engine.history.database.location import Location, absolute
from ...engine.history.model.state import Origin
from ..flows.spec import is_flow
from .acp_resume import is_acp

_SHOWN = (
    "agent",
    "flow",
    "model",
    "api_base",
    "tools",
    "subagents",
    "import_from",
    "rules",
    "active",
    "mode",
    "runtime",
    "workdir",
    "commands",
    "limits",
    "acp",
)
LONGEST = 400
"""Maximum characters of a recorded value."""


def record_lines(origin: Origin) -> list[str]:
    """Return lines with a session's recorded source, one value each: `api_base: http://192.0.2.7/v1`."""
    values = [f"  {key}: {value}" for key, value in _record_values(origin.source or {})]
    heading = (
        f"session '{visible(origin.session)}' was imported: only its conversation and its nets continue."
    )
    if not values:
        return [f"{heading} Its record does not say how it ran"]
    return [f"{heading} Its record says the following, and none of it is used:", *values]


def _record_values(source: Mapping[str, JsonValue]) -> Iterator[tuple[str, str]]:
    for key in _SHOWN:
        value = source.get(key)
        if value not in (None, [], {}, ""):
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            yield key, visible(text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…")


def refusal(origin: Origin, at: int | None, database: Location | None) -> list[str]:
    """Return the lines that refuse to resume an imported session whose agent was not named."""
    return [*record_lines(origin), remedy(origin, at, database)]


def remedy(origin: Origin, at: int | None, database: Location | None) -> str:
    """Return a sentence that says what to do instead."""
    if is_flow(origin.source):
        return "A run of a flow cannot continue from an import: start one with interlock flow run FLOW"
    if is_acp(origin.source):
        return "An agent that speaks ACP cannot continue from an import: start it with interlock acp"
    return f"Name its agent on the command line: {resume_command(origin, at, database)}"


def is_resumable(origin: Origin) -> bool:
    """Return whether the session can be resumed once its agent is named."""
    return not is_flow(origin.source) and not is_acp(origin.source)


def resume_command(origin: Origin, at: int | None, database: Location | None) -> str:
    """Return the command that resumes the session, to be completed; `database` is its journal."""
    words = [origin.session if visible(origin.session) == origin.session else "SESSION"]
    if at is not None:
        words += ["--at", str(at)]
    journal = None if database is None else str(absolute(database))
    if journal is not None and visible(journal) == journal:
        words += ["--db", journal]
    return f"interlock resume {shlex.join(words)} --agent FILE --rules FILES"
