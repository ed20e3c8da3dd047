"""Resumption of imported sessions: the author of the file wrote all of it, operators' decisions included.

Conversation and markings are kept. Mode, active nets, grants, edits and changes agreed to are those of
the operator who resumes it, and no call that it left open runs: no model here made it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..core.sanitize import visible
from ..history.model.events import ChangeDropped, EventBody, MessageAdded, MessageWithdrawn
from ..history.model.records import Kind
from ..history.model.state import SessionState
from ..recording.resume_checks import ResumeError
from .config import SessionConfig

IMPORTED = "the record was imported"
REPORTER = "an imported record"
"""Reporter of users' messages that came from such a record into one of this journal."""


def check_imported(session_id: str, kind: Kind) -> None:
    """Raise `ResumeError` for a session that is answered, or takes its steps, as its record says."""
    if kind in ("outside", "flow"):
        whose = "run of a flow" if kind == "flow" else "session of an external agent"
        raise ResumeError(
            f"Session '{visible(session_id)}' was imported: nobody here made its decisions, so a {whose} "
            "does not go on with them. Start a new one."
        )


def own_config(config: SessionConfig) -> SessionConfig:
    """`config` with nothing left for an imported record to say: all nets are active, in enforce mode."""
    active = tuple(config.registry) if config.active is None else config.active
    return replace(config, active=active, mode=config.mode or "enforce")


def endings(state: SessionState) -> list[EventBody]:
    """The end of what waits in it: changes that people are said to have agreed to, and messages that
    would join the conversation here under the names of those who are said to have sent them.
    """
    changes = (ChangeDropped(change_id=change, reason=IMPORTED) for change in state.changes)
    messages = (MessageWithdrawn(message_id=each.id, reason=IMPORTED) for each in state.queued)
    return [*changes, *messages]


def reported(messages: Iterable[EventBody]) -> list[EventBody]:
    """Messages for a record of this journal's own: that a person said them is what the import says."""
    return [
        each.model_copy(
            update={
                "by": None,
                "reported_by": REPORTER if each.role == "user" else None,
                "rules_added": (),
                "rules_removed": (),
            }
        )
        if isinstance(each, MessageAdded)
        else each
        for each in messages
    ]
