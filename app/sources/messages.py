"""The messages that go between the app, its workers and its screens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.message import Message

from ...engine.history.model.state import SessionState, SessionSummary
from ...engine.hub.hub import HubEvent, Outcome
from .rules_files import rules_of


@dataclass
class HubMoved(Message, bubble=False):
    """Events of the hub, in order; the hub's states have them already."""

    events: Sequence[HubEvent]


@dataclass
class ActionDone(Message):
    """An operator's action is done, with this outcome."""

    outcome: Outcome


@dataclass
class StartFailed(Message):
    """Opening the sessions has failed with this error."""

    error: str


@dataclass
class SessionStarted(Message):
    """A session was opened from here and is to be shown."""

    session_id: str


@dataclass
class RequestChosen(Message):
    """The operator wants to see a request; `why` says why it is opened instead of decided, if it is."""

    approval_id: str
    why: str = ""


@dataclass
class ReplayChosen(Message):
    """The operator wants to replay a session, from its event number `at` if that is given."""

    session_id: str
    at: int | None = None


@dataclass
class ContinueChosen(Message):
    """The operator wants to resume a recorded session, or to branch it at its event number `at`.

    A run of a flow has no other moments: it continues after its last step.
    """

    session_id: str
    at: int | None = None
    is_flow: bool = False


@dataclass
class BacktestChosen(Message):
    """The operator wants recorded calls judged by other rules; `session_id` is the one that is shown.

    `rules` are the files that session was started with, where it says so.
    """

    session_id: str | None = None
    rules: Sequence[str] = ()

    @classmethod
    def of(cls, session: SessionState | SessionSummary | None) -> BacktestChosen:
        """Message with `session` as the one that is shown, if there is one."""
        return cls() if session is None else cls(session.id, rules_of(session.source))


@dataclass
class EditChosen(Message):
    """A file to open in the operator's editor."""

    path: str
