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
        if len(texts) == 1:
            found = self.all(texts[0])
            return found[0] if found else None
        return min((found[0] for text in texts if (found := self.all(text))), default=None)

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
        match = patterns.Match

        def search(text: str) -> list[int]:
            try:
                encoded = text.encode()
            except UnicodeEncodeError:
                encoded = SURROGATE.sub("\ufffd", text).encode()
            return match(encoded) or []

        return search
