"""A choice of one among a few, each with a number that chooses it."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events

from ..text import clip
from .choice import Choice

LONGEST = 60
"""Cells of an option."""
MOST = 9
"""Options that have a number: there are no more digits."""


class Numbered(Choice):
    """`(●) 1 low   ( ) 2 high`; `chosen` may be nothing, or none of the options."""

    def __init__(
        self,
        options: Sequence[tuple[str, str]],
        chosen: str,
        *,
        id: str,  # noqa: A002 - Textual's own
    ) -> None:
        numbered = [
            (name, clip(f"{number} {label}" if number <= MOST else label, LONGEST))
            for number, (name, label) in enumerate(options, 1)
        ]
        super().__init__(numbered, id=id, folds=True)
        self._names = [name for name, _ in options]
        self.set_reactive(Choice.chosen, chosen)

    def on_key(self, event: events.Key) -> None:
        """A digit chooses the option with that number."""
        if event.character is None or event.character not in "123456789":
            return
        number = int(event.character)
        if number <= len(self._names):
            event.stop()
            self.chosen = self._names[number - 1]
