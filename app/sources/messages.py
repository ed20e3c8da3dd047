"""Messages between the app, its workers and its screens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.message import Message

from ...engine.history.model.state import SessionState, SessionSummary
from ...engine.hub.hub import HubEvent, Outcome
from .rules_files import rules_of


@dataclass
class HubMoved(Message, bubble=False):
    """Events of the hub, in order; the hub's states already include them."""

    events: Sequence[HubEvent]


@dataclass
class ActionDone(Message):
    """An operator's action has finished, with this outcome."""

    outcome: Outcome


@dataclass
class StartFailed(Message):
    """Opening the sessions failed with this error."""

    error: str


@dataclass
class SessionStarted(Message):
    """A session was opened from here and should be shown."""

    session_id: str


@dataclass
class RequestChosen(Message):
    """The operator wants to see a request; `why` is the reason if it is opened instead of decided."""

    approval_id: str
    why: str = ""


@dataclass
class ReplayChosen(Message):
    """The operator wants to replay a session, from its event number `at` if given."""

    session_id: str
    at: int | None = None


@dataclass
class ContinueChosen(Message):
    """The operator wants to resume a recorded session, or to branch it at its event number `at`.

    A flow's run cannot be branched: it continues after its last step.
    """

    session_id: str
    at: int | None = None
    is_flow: bool = False


@dataclass
class BacktestChosen(Message):
    """The operator wants recorded calls judged by other rules; `session_id` is the session shown.

    `rules` are the files that session was started with, if recorded.
    """

    session_id: str | None = None
    rules: Sequence[str] = ()

    @classmethod
    def of(cls, session: SessionState | SessionSummary | None) -> BacktestChosen:
        """Return the message for the session shown, if there is one."""
        return cls() if session is None else cls(session.id, rules_of(session.source))


@dataclass
class EditChosen(Message):
    """The operator wants to open a file in their editor."""

    path: str
