"""Sessions as a journal lists them, with fixed times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from interlock.engine.history.model.events import JournalEvent
from interlock.engine.history.model.state import SessionSummary

from ..replay.recording import SESSION, recording

OPENED = datetime(2026, 11, 20, 14, 0, tzinfo=UTC)


def summary(session: str = SESSION, **more: object) -> SessionSummary:
    values: dict[str, object] = {
        "id": session,
        "agent": session.rsplit("-", 1)[0],
        "model": "openai/gpt-4o",
        "mode": "enforce",
        "status": "done",
        "opened": OPENED,
        "updated": OPENED + timedelta(seconds=100),
        "events": 29,
        "calls": 7,
        "blocked": 2,
    }
    return SessionSummary.model_validate({**values, **more})


SESSIONS = [
    summary(
        "docs-writer-77b0e2", status="running", updated=OPENED + timedelta(hours=1, seconds=5), blocked=0
    ),
    summary("deploy-bot-0c41aa", status="waiting", waiting=1, model="anthropic/claude-sonnet"),
    summary("nightly-sync-e9d2f0", mode="shadow", status="idle", calls=214, blocked=4),
    summary(
        "cleanup-51b7d8", status="failed", error="ModelError: the provider closed the stream", calls=3
    ),
    summary(),
]


FAMILY = [
    *SESSIONS,
    summary("deploy-bot-3fa1c2", kind="branch", parent="deploy-bot-0c41aa", parent_seq=31),
    summary("reviewer-a1b2c3", kind="child", parent="docs-writer-77b0e2", blocked=0),
]
"""The same sessions with a branch and a subagent's session."""


class Source:
    """A history source of fixed sessions; `recorded` always returns the same recording."""

    def __init__(self, sessions: list[SessionSummary]) -> None:
        self.sessions = sessions

    async def history(self, limit: int = 200) -> list[SessionSummary]:
        return self.sessions[:limit]

    async def recorded(self, session_id: str) -> list[JournalEvent]:
        return recording(session=session_id)
