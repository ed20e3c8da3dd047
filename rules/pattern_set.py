"""Many patterns looked for in one pass over a text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TypeAlias

from .patterns import SURROGATE, Pattern, re2

_MEMORY = 64 << 20

_Search: TypeAlias = Callable[[str], list[int]]


class PatternSet:
    """Patterns in their order; which of them a text meets is found in one pass, however many there are.

    The set is built when it is first used. Where RE2 runs out of memory for all together it says that
    nothing matches: an empty pattern, which is everywhere, stands last to tell that apart, and then
    each pattern is searched for on its own.
    """

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        self._patterns = tuple(patterns)

    def all(self, text: str) -> list[int]:
        """The places, in order, of the patterns that `text` meets."""
        together = self._together
        if together is not None:
            found = together(text)
            if len(found) == 1 and found[0] == len(self._patterns):
                return []
            if len(self._patterns) in found:
                return sorted(found)[:-1]
        return [at for at, pattern in enumerate(self._patterns) if pattern.search(text)]

    def first(self, texts: Sequence[str]) -> int | None:
        """The place of the first pattern that any of `texts` meets."""
        none = first = len(self._patterns)
        for text in texts:
            found = self.all(text)
            if found and found[0] < first:
                first = found[0]
        return first if first < none else None

    @cached_property
    def _together(self) -> _Search | None:
        library = re2()
        options = library.Options()
        options.log_errors = False
        options.max_mem = _MEMORY
        patterns = library.Set.SearchSet(options)
        try:
            for pattern in self._patterns:
                patterns.Add(pattern.expression)
            patterns.Add("")
            patterns.Compile()
        except library.error:
            return None

        def search(text: str) -> list[int]:
            try:
                return patterns.Match(text) or []
            except UnicodeEncodeError:
                return patterns.Match(SURROGATE.sub("\ufffd", text)) or []

        return search
