"""Time for which texts have been in view. A text that was painted only for a moment counts as unread."""

from __future__ import annotations

from collections.abc import Collection, Hashable


class TimeInView:
    """Texts by keys that identify their content, each with the time when it came into view.

    A text that stayed for `enough` seconds counts as seen. The class depends on neither widgets nor
    clocks.
    """

    def __init__(self, enough: float) -> None:
        self._enough = enough
        self._since: dict[Hashable, float] = {}
        self._seen: set[Hashable] = set()

    def painted(self, key: Hashable, now: float) -> None:
        """Record that a text is completely in view."""
        if key not in self._seen:
            self._since.setdefault(key, now)

    def review(self, in_view: Collection[Hashable], now: float) -> None:
        """Update from the texts in view. A text that left too early does not count as seen."""
        for key, since in list(self._since.items()):
            if now - since >= self._enough:
                self._seen.add(key)
                del self._since[key]
            elif key not in in_view:
                del self._since[key]

    def keep(self, keys: Collection[Hashable]) -> None:
        """Forget all texts except `keys`, since their content is gone."""
        self._seen.intersection_update(keys)
        self._since = {key: since for key, since in self._since.items() if key in keys}

    def seen(self, key: Hashable) -> bool:
        """Return whether a text has been in view for long enough, as of the last review."""
        return key in self._seen

    def coming(self, key: Hashable) -> bool:
        """Return whether a text is in view but not yet for long enough."""
        return key in self._since
