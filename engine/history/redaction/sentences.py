"""Secrets that a sentence gives: `the token is Zq8rT2vL…`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from .random_words import looks_random
from .secret_names import TellingNames
from .spans import Span

_SAID = re.compile(r"(?:(?: is| was)[:,]?|,)? [\"'`]?([A-Za-z0-9][A-Za-z0-9+/_~=.-]{11,512})")
_NAME = re.compile(r"[\w.-]{1,64}\Z")
_LONGEST_NAME = 64


def said_values(text: str, names: TellingNames, ends: Iterable[int]) -> Iterator[Span]:
    """The spans of random words in `text` behind telling `names`, some of which end at `ends`."""
    done = 0
    for end in ends:
        said = _SAID.match(text, end) if end >= done else None
        if said is None:
            continue
        name = _NAME.search(text, max(done, end - _LONGEST_NAME), end)
        start = said.start(1)
        word = said[1].rstrip(".")
        if name is not None and names.telling(name[0]) and looks_random(word):
            done = start + len(word)
            yield start, done
