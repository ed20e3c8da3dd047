"""Recorded sessions of a journal, read page by page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path

from ..history.calls import call_pages
from .events import Items
from .recorded import RecordedOpening, Recording


def recordings(path: Path, sessions: Iterable[str]) -> Iterator[Recording]:
    """The sessions of these ids, whole, one after the other.

    Raises `JournalError` for a file or an event that cannot be read.
    """
    openings: dict[str, RecordedOpening] = {}
    for session, pages in groupby(call_pages(path, sessions), key=itemgetter(0)):
        items = Items(openings)
        yield Recording(
            session, chain.from_iterable(items.of_rows(session, rows, path) for _, rows in pages)
        )
