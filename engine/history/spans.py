"""Parts of a text that are not to be shown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

MASK = "[masked]"
"""What is shown in place of a secret."""

Span: TypeAlias = tuple[int, int]
"""From where to where in a text."""


def masked(text: str, spans: Iterable[Span]) -> str:
    """`text` with the parts in `spans`, in their order, masked; the same object where there are none."""
    parts: list[str] = []
    done = 0
    for start, end in spans:
        parts += (text[done:start], MASK)
        done = end
    return "".join((*parts, text[done:])) if parts else text
