"""Reading of all sessions of a journal, as often as a suggestion needs, with progress over all of it."""

from __future__ import annotations

from collections.abc import Iterator

from ...history.database.location import Location
from ...history.decisions.call_pages import count_calls, recorded_sessions
from ..journal_reader import recordings
from ..recording import Recorded, RecordedCall, Recording
from ..run import Progress


class JournalReading:
    """Sessions of the journal at `path`, read `times` times.

    `progress` gets the number of calls read, and their total; an exception from it ends the work. With
    `texts`, what was said is read as well.
    """

    def __init__(self, path: Location, progress: Progress, *, times: int, texts: bool) -> None:
        self._path = path
        self._progress = progress
        self._texts = texts
        self._total = times * count_calls(path)
        self._done = 0

    def tell(self) -> None:
        """Report progress; called before each long piece of work."""
        self._progress(self._done, self._total)

    def sessions(self) -> Iterator[tuple[Recording, list[Recorded]]]:
        """All sessions, each with its items."""
        names = list(recorded_sessions(self._path))
        for recording in recordings(self._path, names, texts=self._texts):
            items = list(recording.items)
            yield recording, items
            self._done += sum(isinstance(item, RecordedCall) for item in items)
            self.tell()
