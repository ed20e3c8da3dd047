"""What the agents of a flow and their models said. Kept apart from snapshots (P-95, P-98)."""

from __future__ import annotations

from collections.abc import Iterable

from ..agents.messages import Frozen, Message


class HistoryEntry(Frozen):
    """A message. `session` is one start of an agent, `agent` the key of its node.

    `note` is for the record alone, not for the model.
    """

    session: str
    agent: str
    message: Message
    note: str | None = None


class History(Frozen):
    """All that was said, in order; each agent is shown only its own session."""

    entries: tuple[HistoryEntry, ...] = ()

    def messages(self, session: str) -> list[Message]:
        """The messages of one session."""
        return [entry.message for entry in self.entries if entry.session == session]

    def sessions(self, agent: str) -> list[str]:
        """The sessions of an agent, in the order in which they began."""
        return list(dict.fromkeys(entry.session for entry in self.entries if entry.agent == agent))

    def extended(self, entries: Iterable[HistoryEntry]) -> History:
        """With these at the end."""
        return History.model_construct(entries=(*self.entries, *entries))
