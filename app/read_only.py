"""A console that shows everything and changes nothing.

The hub it is given answers questions; whatever else is asked of it, and whatever a later hub learns to
do, is refused. That keys are greyed is courtesy: nothing hangs on it.
"""

from __future__ import annotations

from typing import NoReturn

from textual.app import App
from textual.dom import DOMNode

from ..engine.hub import Spawn
from .door import Door
from .keymap import bindings_of, decides

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
        "wait",
    }
)
"""What may be asked of a hub. All others change something, or may."""

CHANGING = frozenset(
    {
        "decisions.enforce",
        "history.continue",
        "live.approve",
        "live.compact",
        "live.deny",
        "live.extend",
        "live.interrupt",
        "live.limit",
        "live.mark",
        "live.mode",
        "live.nets",
        "live.revoke",
        "live.start",
        "live.stop",
        "live.together",
        "nets.drop",
        "proposed.drop",
        "nets.switch",
        "replay.continue",
        "rules.edit",
        "shadow.enforce",
        "start.start",
    }
)
"""The actions of the console, by their bindings' ids, that are not offered. Deciding is none either.

An editor changes files, and many start a shell: whoever is given a read-only console has neither.
"""

REFUSED = "This console is read-only: it changes nothing"


class ReadOnlyError(RuntimeError):
    """Something was to be changed through a read-only console."""


class ReadOnlyHub:
    """What of `hub` shows; all else raises `ReadOnlyError`, awaited or not."""

    def __init__(self, hub: object) -> None:
        self._hub = hub

    def __getattr__(self, name: str) -> object:
        """One of `READING`, or a refusal. Names that no hub gives away are not there at all."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._hub, name) if name in READING else _refuse

    def spawn_in(self, spawn: Spawn) -> None:
        """A console has no agents here, wherever it would have them run."""


def _refuse(*_: object, **__: object) -> NoReturn:
    raise ReadOnlyError(f"{REFUSED}. Use the console of the process that hosts the session")


def read_only(hub: object) -> Door:
    """A hub for a console that is to change nothing."""
    guarded: object = ReadOnlyHub(hub)
    return guarded  # type: ignore[return-value]  # it answers what a hub answers, and refuses the rest


def changes(node: DOMNode, action: str) -> bool:
    """Whether a key of `node` with this action would change something."""
    if isinstance(node, App):
        return False  # what the app does stands on a screen's keys, too
    ids = [binding.id or "" for binding in bindings_of(type(node)) if binding.action == action]
    return any(each in CHANGING or (decides(each) and each != "confirm.yes") for each in ids)
