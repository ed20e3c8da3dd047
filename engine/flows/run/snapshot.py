"""Snapshot of a run as it is stored (P-90 … P-97)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from ...agents.messages import Frozen, Message, ProposedCall
from ..errors import SnapLoadError
from .scheduler import SuspensionKind

VERSION = 1

Bytes: TypeAlias = bytes | bytearray | str


class _Kept(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class LiveState(_Kept):
    """A live state and its value. Stored in a list, because a store may sort the keys of objects."""

    key: str
    value: JsonValue


class Collected(_Kept):
    """Results of an `each` for the items so far."""

    key: str
    results: tuple[JsonValue, ...]


class AgentProgress(_Kept):
    """The started agent: its node, its session, and how many of its outputs and texts were unusable.

    `used` counts how often each of its tools has run.
    """

    agent: str
    session: str
    bad_outputs: int = 0
    bad_texts: int = 0
    used: dict[str, int] = {}


class PendingSuspension(_Kept):
    """Suspension that waits for an answer; see `Suspended`.

    For a call that needs approval, `asks` are the net and its transition, `approved` the keys of requests
    that operators have already approved, and `written` the arguments as the model wrote them, if an
    operator has changed them.
    """

    value: JsonValue
    tool_id: str
    kind: SuspensionKind
    agent: str
    call_id: str | None = None
    args: dict[str, JsonValue] | None = None
    asks: tuple[str, str] | None = None
    approved: tuple[str, ...] = ()
    written: dict[str, JsonValue] | None = None


class FlowSnapshot(_Kept):
    """The live states in order, the started agent, its pending calls, and the suspension.

    It contains neither graph nor history: the graph is built again, the history is stored separately.
    """

    version: int = VERSION
    graph_fingerprint: str
    states: tuple[LiveState, ...]
    collected: tuple[Collected, ...] = ()
    agent: AgentProgress | None = None
    pending: tuple[ProposedCall, ...] = ()
    suspended: PendingSuspension | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of the live states."""
        return tuple(state.key for state in self.states)

    @classmethod
    def load(cls, text: Bytes) -> FlowSnapshot:
        """Parse a snapshot from its JSON. Raises `SnapLoadError` for invalid text."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise SnapLoadError(f"This is not a snapshot of a flow: {error}") from error


# History of a flow: its agents' conversations, stored separately from snapshots (P-95, P-98).


class HistoryEntry(Frozen):
    """A message. `session` is one start of an agent, `agent` the key of its node.

    `note` is for the record only, not for the model.
    """

    session: str
    agent: str
    message: Message
    note: str | None = None


class History(Frozen):
    """All messages in order; each agent gets only those of its own session."""

    entries: tuple[HistoryEntry, ...] = ()

    def messages(self, session: str) -> list[Message]:
        """The messages of one session."""
        return [entry.message for entry in self.entries if entry.session == session]

    def sessions(self, agent: str) -> list[str]:
        """The sessions of an agent, in the order of their start."""
        return list(dict.fromkeys(entry.session for entry in self.entries if entry.agent == agent))

    def extended(self, entries: Iterable[HistoryEntry]) -> History:
        """Return the history with these entries appended."""
        return History.model_construct(entries=(*self.entries, *entries))
