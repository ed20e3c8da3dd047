"""Time that texts have been in view: what was painted only for a moment has not been read."""

from __future__ import annotations

from collections.abc import Collection, Hashable


class TimeInView:
    """Texts by keys that name their content, each with when it came into view.

    One that stayed for `enough` seconds counts as seen from then on. It knows no widget and no clock.
    """

    def __init__(self, enough: float) -> None:
        self._enough = enough
        self._since: dict[Hashable, float] = {}
        self._seen: set[Hashable] = set()

    def painted(self, key: Hashable, now: float) -> None:
        """Note that a text is in view, whole."""
        if key not in self._seen:
            self._since.setdefault(key, now)

    def review(self, in_view: Collection[Hashable], now: float) -> None:
        """Take note of what is in view: what went away too early has not been seen."""
        for key, since in list(self._since.items()):
            if now - since >= self._enough:
                self._seen.add(key)
                del self._since[key]
            elif key not in in_view:
                del self._since[key]

    def keep(self, keys: Collection[Hashable]) -> None:
        """Forget all but these: their content is gone."""
        self._seen.intersection_update(keys)
        self._since = {key: since for key, since in self._since.items() if key in keys}

    def seen(self, key: Hashable) -> bool:
        """Tell whether a text has been in view for long enough, as far as that was reviewed."""
        return key in self._seen

    def coming(self, key: Hashable) -> bool:
        """Tell whether a text is in view, and only has to stay there."""
        return key in self._since
