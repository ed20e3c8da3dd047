"""Masks: the text shown in place of a secret, and how much each of them hides.

A mask says how long the hidden text is, so that a long one is not taken for a word: `[masked: 32
characters]`, `[masked: 812 characters, 13 lines]`. Older records and exports have masks without a size,
`[masked]`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable
from itertools import chain
from typing import TypeAlias

from .placeholders import is_placeholder
from .secret_names import lowered

MASK = "[masked]"
"""A mask without a size, as older versions wrote it. Patterns search texts with this form."""

MASKED = re.compile(r"\[masked(?:: (\d{1,12}) characters?(?:, \d{1,12} lines)?)?\]")
"""Any mask; its group is the number of hidden characters, if the mask states it."""

Span: TypeAlias = tuple[int, int]
"""Start and end in a text."""


def mask_of(hidden: str) -> str:
    """Return the mask of `hidden`."""
    lines = hidden.strip("\r\n").replace("\r\n", "\n").replace("\r", "\n").count("\n") + 1
    size = f"{len(hidden)} character{'s' if len(hidden) != 1 else ''}"
    return f"[masked: {size}{f', {lines} lines' if lines > 1 else ''}]"


def holds_mask(text: str) -> bool:
    """Return whether there is a mask anywhere in `text`."""
    return "[masked" in text and MASKED.search(text) is not None


def masks_in(text: str) -> list[str]:
    """Return the masks in `text`, in order."""
    return [match[0] for match in MASKED.finditer(text)] if "[masked" in text else []


def behind_masks(shown: str, real: str) -> list[str] | None:
    """Return the text of `real` behind each mask of `shown`; `None` if the two do not match.

    A mask that is part of `real` itself stands for itself.
    """
    masks = list(MASKED.finditer(shown))
    if not masks:
        return [] if shown == real else None
    at = masks[0].start()
    if real[:at] != shown[:at]:
        return None
    ends = [*(mask.start() for mask in masks[1:]), len(shown)]
    texts: list[str] = []
    for mask, end in zip(masks, ends, strict=True):
        text_between = shown[mask.end() : end]
        for size in (len(mask[0]) if real.startswith(mask[0], at) else None, mask[1]):
            last = None if size is None else at + int(size)
            if last is None or last > len(real) or not real.startswith(text_between, last):
                continue
            if end < len(shown) or last + len(text_between) == len(real):
                texts.append(real[at:last])
                at = last + len(text_between)
                break
        else:
            return None
    return texts if at == len(real) else None


class Masking:
    """A text while its secrets are searched, one kind after the other.

    `text` has `MASK` in place of each part that is hidden so far, and of each mask that was in the text
    from the start.
    """

    def __init__(self, whole: str) -> None:
        self.whole = whole
        self.text = whole
        self._lowered = ("", "")
        self._hidden_spans: list[Span] = []
        """The span in `whole` that each mask of `text` hides."""
        if "[masked" in whole:
            self._hidden_spans = [match.span() for match in MASKED.finditer(whole)]
            self.text = MASKED.sub(MASK, whole)

    @property
    def lower(self) -> str:
        """`text` in lower case, each character at its position."""
        if self._lowered[0] is not self.text:
            self._lowered = (self.text, lowered(self.text))
        return self._lowered[1]

    def hide(self, spans: Iterable[Span]) -> bool:
        """Hide the parts of `text` in `spans`, in order; return whether this hid anything more.

        A span that ends within a mask is extended to include all of the mask.
        """
        spans = iter(spans)
        first_span = next(spans, None)
        if first_span is None:
            return False
        marks = self._marks()
        origin = self._origins(marks)
        hidden_spans: list[Span] = []
        pieces: list[str] = []
        done = index = 0
        is_changed = False
        for start, end in chain((first_span,), spans):
            while index < len(marks) and marks[index][1] <= start:
                hidden_spans.append(self._hidden_spans[index])
                index += 1
            first = index
            while index < len(marks) and marks[index][0] < end:
                index += 1
            if first < index:
                start, end = min(start, marks[first][0]), max(end, marks[index - 1][1])  # noqa: PLW2901
            if start < done or start >= end:
                hidden_spans += self._hidden_spans[first:index]
                continue
            if index - first == 1 and (start, end) == marks[first]:
                hidden_spans.append(self._hidden_spans[first])
                continue
            hidden_spans.append((origin(start), origin(end)))
            pieces += (self.text[done:start], MASK)
            done = end
            is_changed = True
        if is_changed:
            self._hidden_spans = [*hidden_spans, *self._hidden_spans[index:]]
            self.text = "".join((*pieces, self.text[done:]))
        return is_changed

    def spans(self) -> list[Span]:
        """Return the hidden parts of `whole`, without its original masks and placeholders."""
        return [
            span
            for span in self._hidden_spans
            if MASKED.fullmatch(self.whole, *span) is None and not is_placeholder(self.whole, *span)
        ]

    def _marks(self) -> list[Span]:
        marks: list[Span] = []
        if self._hidden_spans:
            at = self.text.find(MASK)
            while at >= 0:
                marks.append((at, at + len(MASK)))
                at = self.text.find(MASK, at + len(MASK))
        return marks

    def _origins(self, marks: list[Span]) -> Callable[[int], int]:
        """Return a function from a position in `text`, outside of masks, to the one in `whole`."""
        ends = [end for _, end in marks]
        offsets = [last - end for end, (_, last) in zip(ends, self._hidden_spans, strict=True)]

        def origin(at: int) -> int:
            before = bisect_right(ends, at)
            return at + offsets[before - 1] if before else at

        return origin


def masked(text: str, spans: Iterable[Span]) -> str:
    """Return `text` with a mask in place of each of `spans`, in order; the same object without any."""
    parts: list[str] = []
    done = 0
    for start, end in spans:
        parts += (text[done:start], mask_of(text[start:end]))
        done = end
    return "".join((*parts, text[done:])) if parts else text
