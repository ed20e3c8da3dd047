"""A console that shows everything and changes nothing.

Its hub answers queries; all other methods, and any that a later hub gets, are refused. Greyed keys are a
courtesy: security does not depend on them.
"""

from __future__ import annotations

from typing import NoReturn

from ...engine.hub.hub import Spawn
from ..terminal.key_rights import READ_ONLY
from .api import HubApi

READING = frozenset(
    {
        "approvals",
        "backtest",
        "count_decisions",
        "decision_event",
        "elsewhere",
        "explain",
        "fatigue",
        "history",
        "judge",
        "place",
        "read_decisions",
        "recorded",
        "scan_decisions",
        "session",
        "sessions",
        "shadow_summary",
        "started_from",
        "steers",
        "takes_edits",
        "subscribe",
        "unread",
        "wait",
    }
)
"""Names of a hub that only read. All others change something, or may."""


class ReadOnlyError(RuntimeError):
    """A read-only console was asked to change something."""


class ReadOnlyHub:
    """Read-only view of `hub`; all but reading raises `ReadOnlyError`, awaited or not."""

    def __init__(self, hub: object) -> None:
        self._hub = hub

    def __getattr__(self, name: str) -> object:
        """One of `READING`, or a refusal. Private names do not exist at all."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._hub, name) if name in READING else _refuse

    def spawn_in(self, spawn: Spawn) -> None:
        """A console has no agents here, wherever it would have them run."""


def _refuse(*_: object, **__: object) -> NoReturn:
    raise ReadOnlyError(f"{READ_ONLY}. Use the console of the process that hosts the session")


def read_only(hub: object) -> HubApi:
    """A hub for a console that is to change nothing."""
    guarded: object = ReadOnlyHub(hub)
    return guarded  # type: ignore[return-value]  # it answers what a hub answers, and refuses the rest
