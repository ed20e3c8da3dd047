"""A net's picture: places as circles, transitions as bars, tokens, the enabled ones bright."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from textual.content import Content

from ...engine.history.events import NetRecord, TransitionRecord
from ...engine.history.state import NetState
from ..text import clip, pad, shown, width_of, wrap_all
from ..widgets.blocks import Block
from ..widgets.markings import enabled, words
from .detail import Detail

MUTED = "$foreground 60%"
BRIGHT = "bold $text-success"


def circle(number: int) -> str:
    """A place: an empty circle, or one with its tokens in it."""
    return "( )" if number == 0 else ("(●)" if number == 1 else f"({number})")


def net_picture(state: NetState) -> Detail:
    """The panel with the picture of a net at its marking."""
    net = state.net
    blocks = [
        Block("head", 0, lambda width: _head(state, width)),
        Block("places", 0, lambda width: _places(net, state.marking, width)),
        *(
            Block(f"transition {t.name}", 0, lambda width, t=t: transition_lines(net, t, state, width))
            for t in net.transitions
        ),
        Block("legend", 0, _legend),
    ]
    return Detail(f"Net: {state.key}", blocks)


def _head(state: NetState, width: int) -> list[Content]:
    rule = state.net.rule
    lines = [words(state).truncate(width, ellipsis=True)]
    if rule is not None:
        text = f"{shown(rule.where)}  {shown(rule.text)}"
        lines += [Content.styled(row, MUTED) for row in wrap_all([text], width)]
    return [*lines, Content("")]


def _places(net: NetRecord, marking: Mapping[str, int], width: int) -> list[Content]:
    lines: list[Content] = []
    row = Content("")
    for place in net.places:
        number = marking.get(place, 0)
        style = "bold $text-accent" if number else MUTED
        cell = Content.assemble(
            (circle(number), style), " ", (clip(shown(place), width - 5), style if number else "")
        )
        if row and row.cell_length + 3 + cell.cell_length > width:
            lines.append(row)
            row = Content("")
        row = Content.assemble(row, "   ", cell) if row else cell
    return [*lines, row, Content("")]


def _side(names: Sequence[str], marking: Mapping[str, int]) -> list[tuple[str, int, bool]]:
    """Places of one side of a transition: text, tokens and whether it holds any."""
    return [
        (
            f"{shown(place)}{f' ×{weight}' if weight > 1 else ''}",
            marking.get(place, 0),
            marking.get(place, 0) >= weight,
        )
        for place, weight in Counter(names).items()
    ]


def transition_lines(
    net: NetRecord, transition: TransitionRecord, state: NetState, width: int
) -> list[Content]:
    """A transition as a bar between its input and its output places."""
    marking = state.marking
    ready = state.active and enabled(transition, marking)
    left = [*_side(transition.inputs, marking)]
    right = [*_side(transition.outputs, marking)]
    column = max((width_of(shown(p)) for p in net.places), default=4) + 3
    column = min(column, max(6, (width - 24) // 2))
    style = BRIGHT if ready else MUTED
    height = max(len(left), len(right), 1)
    lines: list[Content] = [_name_line(transition, ready, width)]
    for index in range(height):
        parts: list[Content | str | tuple[str, str]] = ["  "]
        parts += _cell(
            left, index, column, arrow=_arm(index, len(left), into=True), style=style, before=True
        )
        parts.append(("┃", style))
        parts += _cell(
            right, index, column, arrow=_arm(index, len(right), into=False), style=style, before=False
        )
        lines.append(Content.assemble(*parts).truncate(width, ellipsis=True))
    for source, target in transition.transfers:
        text = f"  all tokens of {shown(source)} ⇒ {shown(target)}"
        lines.append(Content.styled(text, style).truncate(width, ellipsis=True))
    return [*lines, Content("")]


def _arm(index: int, count: int, *, into: bool) -> str:
    if index >= count:
        return "     "
    if into:
        return " ──▶ "
    return " ──▶ "


def _cell(
    side: Sequence[tuple[str, int, bool]],
    index: int,
    column: int,
    *,
    arrow: str,
    style: str,
    before: bool,
) -> list[Content | str | tuple[str, str]]:
    if index >= len(side):
        return [" " * (column + 5 + 1)] if before else []
    name, number, _ = side[index]
    token = (circle(number), "bold $text-accent" if number else MUTED)
    label = (f" {pad(name, column - 3)}", "")
    return [token, label, (arrow, style)] if before else [(arrow, style), token, label]


def _name_line(transition: TransitionRecord, ready: bool, width: int) -> Content:
    traits = [shown(", ".join(transition.tools))] if transition.tools else ["fires by itself"]
    if transition.manual:
        traits.append("asks a person")
    if transition.deferred:
        traits.append("fires on success")
    mark = ("▸ ", BRIGHT) if ready else ("  ", "")
    return Content.assemble(
        mark,
        (shown(transition.name), BRIGHT if ready else "bold"),
        ("  enabled" if ready else "", BRIGHT),
        (f"  {' · '.join(traits)}", MUTED),
    ).truncate(width, ellipsis=True)


def _legend(width: int) -> list[Content]:
    return [
        Content.styled(row, MUTED)
        for row in wrap_all(["( ) place   (●) with a token   ┃ transition   ▸ enabled"], width)
    ]
