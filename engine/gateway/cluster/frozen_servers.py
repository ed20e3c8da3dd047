"""Confirmations by the servers of one database that they hold their agents' calls for a freeze.

A server confirms a freeze once all that it decided before is recorded. The operator who froze the agents
gets the answer when no server allows calls any more. A confirmation is a row in the table of acts that
belongs to no session; it is never executed, and it is removed with old acts.
"""

from __future__ import annotations

from hashlib import sha256

from ...history.errors import JournalError
from ...history.logs.freeze_log import UNREADABLE, FreezeLog
from ...history.model.records import FreezeRecord
from ...history.postgres.acts import Acts
from ...history.postgres.servers.lease import ServerLease
from ...history.postgres.servers.listing import ServerLine, list_servers

METHOD = "freeze.confirm"


class FrozenServers:
    """Servers that have confirmed a freeze. Methods wait for the database and raise `JournalError`."""

    def __init__(self, lease: ServerLease, acts: Acts) -> None:
        self._lease = lease
        self._acts = acts
        self._confirmed: FreezeRecord | None = None

    def confirm(self, freeze: FreezeRecord) -> bool:
        """Confirm once that this server holds its calls; return whether this call confirmed it."""
        if freeze == self._confirmed:
            return False
        row = _row(freeze, self._lease.id)
        if not self._acts.there([row]):
            self._acts.post(row, "", METHOD, "{}", "{}")
        self._confirmed = freeze
        return True

    def missing(self, freezes: FreezeLog) -> list[ServerLine]:
        """Other servers that have not confirmed the current freeze; none if it was lifted."""
        current = freezes.read()
        if current is None:
            return []
        if current.by == UNREADABLE:
            raise JournalError(current.reason)
        others = {
            _row(current, each.id): each
            for each in list_servers(self._lease.location)
            # A process that only writes, such as an import, allows no calls. A server of an older version
            # without a URL can be told from one only by its sessions.
            if each.ended is None
            and each.id != self._lease.id
            and (each.url is not None or each.sessions)
        }
        confirmed = self._acts.there([*others])
        return [each for row, each in others.items() if row not in confirmed]


def _row(freeze: FreezeRecord, server: str) -> str:
    return f"freeze {sha256(freeze.model_dump_json().encode()).hexdigest()[:32]} {server}"
