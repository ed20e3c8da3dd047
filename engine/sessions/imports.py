"""Resumption of imported sessions, whose file's author wrote everything, operators' decisions included.

Conversation and markings are kept. Mode, active nets, grants, edits and agreed changes come from the
operator who resumes the session. Its open calls never run, because no model here made them.
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
"""Reporter of users' messages that were copied from such a record."""


def check_imported(session_id: str, kind: Kind) -> None:
    """Raise `ResumeError` for an external agent's session or a flow's run.

    Their recorded decisions would be used as answers.
    """
    if kind in ("outside", "flow"):
        origin = "run of a flow" if kind == "flow" else "session of an external agent"
        raise ResumeError(
            f"Session '{visible(session_id)}' was imported: nobody here made its decisions, so a "
            f"{origin} cannot continue with them. Start a new one."
        )


def own_config(config: SessionConfig) -> SessionConfig:
    """Return `config` with nothing left to the imported record: all nets are active, in enforce mode."""
    active = tuple(config.registry) if config.active is None else config.active
    return replace(config, active=active, mode=config.mode or "enforce")


def endings(state: SessionState) -> list[EventBody]:
    """Return the events that end waiting changes and messages of the record.

    Changes that people seem to have agreed to must not be made, and messages must not join the
    conversation under names that the record only claims.
    """
    changes = (ChangeDropped(change_id=change, reason=IMPORTED) for change in state.changes)
    messages = (MessageWithdrawn(message_id=each.id, reason=IMPORTED) for each in state.queued)
    return [*changes, *messages]


def reported(messages: Iterable[EventBody]) -> list[EventBody]:
    """Mark users' messages for a record of this journal as reported by the import."""
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
