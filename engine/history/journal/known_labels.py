"""Labels of sessions for a list that is read repeatedly."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import JournalError
from ..model.state import SessionSummary
from .reader import HistoryReader


class KnownLabels:
    """The labels that people gave sessions; they are read again only for sessions that have changed."""

    def __init__(self) -> None:
        self._labels_by_session: dict[str, tuple[int, tuple[str, ...]]] = {}

    def latest(self, reader: HistoryReader, limit: int) -> list[SessionSummary]:
        """Return the sessions that changed last, with their labels."""
        sessions = reader.sessions(limit=limit)
        self._labels_by_session = {
            each.id: (each.events, self._labels(reader, each)) for each in sessions
        }
        return list(self._with_labels(sessions))

    def _labels(self, reader: HistoryReader, session: SessionSummary) -> tuple[str, ...]:
        events, labels = self._labels_by_session.get(session.id, (-1, ()))
        if events == session.events:
            return labels
        try:
            return reader.labels(session.id)
        except JournalError:
            # The list is shown all the same; opening the session reports the event that cannot be read.
            return ()

    def _with_labels(self, sessions: Iterable[SessionSummary]) -> Iterable[SessionSummary]:
        for each in sessions:
            labels = self._labels_by_session[each.id][1]
            yield each.model_copy(update={"session_labels": labels}) if labels else each
