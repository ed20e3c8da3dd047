"""Looks of states: a symbol, a word and a theme colour each, never the colour alone."""

from __future__ import annotations

from dataclasses import dataclass

from ...engine.history.fold.flow_steps import is_stopped
from ...engine.history.model.state import CallState, SessionState, SessionSummary

MUTED = "$foreground 60%"


@dataclass(frozen=True, slots=True)
class Look:
    """Look of a state."""

    symbol: str
    word: str
    style: str


SESSION = {
    "running": Look("●", "running", "$text-success"),
    "waiting": Look("◐", "asks", "$text-warning"),
    "idle": Look("○", "idle", MUTED),
    "done": Look("✓", "done", MUTED),
    "failed": Look("✗", "failed", "$text-error"),
}
STOPPED = Look("·", "stopped", MUTED)
CALL = {
    "proposed": Look("·", "proposed", MUTED),
    "waiting": Look("◐", "waiting", "$text-warning"),
    "running": Look("●", "running", "$text-success"),
    "done": Look("✓", "done", "$text-success"),
    "failed": Look("✗", "failed", "$text-error"),
    "blocked": Look("■", "blocked", "$text-error"),
    "skipped": Look("○", "not decided", MUTED),
    "unknown": Look("?", "outcome unknown", "$text-warning"),
}
SHADOW = Look("S", "shadow", "$text-secondary")

PLANNED = {
    "runs": Look("●", "runs without approval", MUTED),
    "planned": Look("✓", "approved with the plan", "$text-success"),
    "may_ask": Look("?", "may need approval", "$text-warning"),
    "asks": Look("◐", "still needs approval", "$text-warning"),
    "blocked": Look("■", "blocked", "$text-error"),
    "open": Look("?", "may be blocked", "$text-warning"),
}
"""Outcome of a call in a plan that is to be approved."""

RISK = {
    "high": Look("▲", "risk high", "$text-error"),
    "medium": Look("▸", "risk medium", "$text-warning"),
    "low": Look("▼", "risk low", MUTED),
}
"""Risk as stated by a rule; without a statement nothing is shown."""


def session_look(session: SessionState | SessionSummary) -> Look:
    """Return a session's look: its status, or `S` while it works in shadow mode.

    A stopped run of a flow, which can be resumed, is not shown as failed.
    """
    look = STOPPED if is_stopped(session) else SESSION[session.status]
    if session.mode == "shadow" and session.status in ("running", "idle"):
        return Look(SHADOW.symbol, look.word, SHADOW.style)
    return look


def call_look(call: CallState) -> Look:
    """Return a call's look."""
    return CALL[call.status]
