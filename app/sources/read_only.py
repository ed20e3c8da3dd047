"""A hub for consoles that show everything and change nothing.

It answers queries. All other methods, including any that a later hub gets, are refused. Disabled keys are
only a convenience: security does not depend on them.
"""

from __future__ import annotations

from typing import NoReturn, cast

from ...engine.hub.api import HubApi
from ...engine.hub.operations import operations
from ...engine.sessions.registry import Spawn
from ..terminal.key_rights import READ_ONLY


class ReadOnlyError(RuntimeError):
    """A read-only console was asked to change something."""


class ReadOnlyHub:
    """Read-only view of `hub`; everything but declared queries raises `ReadOnlyError`, awaited or not."""

    def __init__(self, hub: object) -> None:
        self._hub = hub

    def __getattr__(self, name: str) -> object:
        """Return a query, or a function that refuses. Private names raise `AttributeError`."""
        if name.startswith("_"):
            raise AttributeError(name)
        operation = operations(HubApi).get(name)
        return _refuse if operation is None or operation.changes else getattr(self._hub, name)

    def spawn_in(self, spawn: Spawn) -> None:
        """Do nothing: a read-only console has no agents."""


def _refuse(*_: object, **__: object) -> NoReturn:
    raise ReadOnlyError(f"{READ_ONLY}. Use the console of the process that hosts the session")


def read_only(hub: object) -> HubApi:
    """Return a read-only view of a hub."""
    return cast(HubApi, ReadOnlyHub(hub))
