"""Blocks for a changed rule: its line before and after, its effect on recorded calls, and findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import tzinfo

from textual.content import Content

from ....engine.backtest.suggestions import Effect
from ...format.suggestions import NO_FINDINGS, effect_words, listed_calls
from ...format.text import MUTED, shown, styled_rows, wrap
from ...terminal.charset import visible
from ...widgets.base.blocks import Block, StyledRows
from .detail import section

_SIGNS = {"-": "$text-error", "+": "$text-success"}


def line_rows(sign: str, text: str, width: int) -> list[Content]:
    """Return a line of a rules file after its sign, wrapped, in the sign's colour."""
    rows = wrap(visible(text.strip()), max(1, width - 2)) or [""]
    return [
        Content.styled(f"{' ' if position else sign} {row}", _SIGNS.get(sign, ""))
        for position, row in enumerate(rows)
    ]


def difference_rows(place: str | None, before: str | None, after: str, width: int) -> list[Content]:
    """Return the rows of a rule that replaces `before` at `place`.

    With `before` `None` the rule is new.
    """
    old = [] if before is None else line_rows("-", before, width)
    where = [] if place is None else styled_rows([shown(place)], width, MUTED)
    return [*where, *old, *line_rows("+", after, width)]


def part(heading: str, lines: Sequence[str], style: str = "", *, first: bool = False) -> Iterator[Block]:
    """Yield a heading and the wrapped lines below it."""
    yield section(heading, first=first)
    yield Block(heading, (tuple(lines), style), lambda width: _rows(lines, width, style))


def _rows(lines: Iterable[str], width: int, style: str) -> StyledRows:
    rows = [row for line in lines for row in wrap(visible(line), width) or [""]]
    return StyledRows(rows, lambda _, row: Content.styled(row, style))


def effect_blocks(
    effect: Effect, zone: tzinfo | None = None, *, heading: str = "does"
) -> Iterator[Block]:
    """Yield the numbers of an effect, and the calls whose result differs."""
    yield from part(heading, [effect_words(effect)])
    for title, lines in listed_calls(effect, zone):
        style = "$text-warning" if title == "newly allowed" else ""
        yield from part(title, lines, style)


def check_blocks(findings: Sequence[str]) -> Iterator[Block]:
    """Yield the findings of `check` that only the changed rule causes."""
    if findings:
        yield from part("check", findings, "$text-warning")
    else:
        yield from part("check", [NO_FINDINGS], MUTED)
