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
        return self._search(text)

    def first(self, texts: Sequence[str]) -> int | None:
        """The place of the first pattern that any of `texts` meets."""
        search = self._search
        first: int | None = None
        for text in texts:
            found = search(text)
            if found and (first is None or found[0] < first):
                first = found[0]
        return first

    def _one_by_one(self, text: str) -> list[int]:
        return [at for at, pattern in enumerate(self._patterns) if pattern.search(text)]

    @cached_property
    def _search(self) -> _Search:
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
            return self._one_by_one
        match, one_by_one = patterns.Match, self._one_by_one
        last = len(self._patterns)
        only_last = [last]

        def search(text: str) -> list[int]:
            try:
                found = match(text.encode())
            except UnicodeEncodeError:
                found = match(SURROGATE.sub("\ufffd", text).encode())
            if found == only_last:
                return []
            if found is None or last not in found:
                return one_by_one(text)
            found.sort()
            found.pop()
            return found

        return search
