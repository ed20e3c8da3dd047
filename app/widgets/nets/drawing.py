"""Picture of a net as lines: places as circles, transitions as bars, tokens; enabled ones bright."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from itertools import zip_longest

from textual.content import Content

from ....engine.core.durations import format_duration
from ....engine.history.model.records import NetRecord, TransitionRecord
from ....engine.history.model.state import ApprovalState, NetState
from ...format.text import MUTED, clip, in_rows, legend, pad, shown, styled_rows, width_of
from ..base.blocks import Block, look_of
from .list import enabled, words

BRIGHT = "bold $text-success"
ARROW = " ──▶ "
SIGNS = "( ) place", "(●) with a token", "┃ transition", "▸ enabled"


def circle(number: int) -> str:
    """Return a place as an empty circle, or as a circle with its tokens."""
    return "( )" if number == 0 else ("(●)" if number == 1 else f"({number})")


def picture_blocks(
    state: NetState,
    fired: Collection[str] = (),
    *,
    now: datetime | None = None,
    asking: Sequence[ApprovalState] = (),
) -> list[Block]:
    """Return the picture of a net in its marking, with transitions that have just `fired` marked."""
    net = state.net
    meaning = words(state, now, asking)
    # Other rules may have a net with the same key and the same places.
    structure = (net.places, net.transitions, net.rule, net.when, net.governs)
    stamp = (
        state.key,
        state.active,
        tuple(state.marking.items()),
        tuple(fired),
        look_of(meaning),
        structure,
    )
    return [
        Block("head", stamp, lambda width: _head(state, meaning, width)),
        Block("places", stamp, lambda width: _places(net, state.marking, width)),
        *(
            Block(
                f"transition {t.name}",
                stamp,
                lambda width, t=t: transition_lines(net, t, state, width, fired=t.name in fired),
            )
            for t in net.transitions
        ),
        Block("legend", 0, lambda width: legend(SIGNS, width)),
    ]


def _head(state: NetState, meaning: Content, width: int) -> list[Content]:
    rule, when = state.net.rule, state.net.when
    lines = list(meaning.wrap(width))
    if when is not None:
        governed = shown(", ".join(state.net.governs))
        text = f"applies to calls of {governed} only when {shown(when)}"
        lines += styled_rows([text], width, MUTED)
    if rule is not None:
        text = f"{shown(rule.where)}  {shown(rule.text)}"
        lines += styled_rows([text], width, MUTED)
    return [*lines, Content("")]


def _places(net: NetRecord, marking: Mapping[str, int], width: int) -> list[Content]:
    cells: list[Content] = []
    for place in net.places:
        number = marking.get(place, 0)
        style = "bold $text-accent" if number else MUTED
        name = clip(shown(place), width - 5)
        cells.append(Content.assemble((circle(number), style), " ", (name, style if number else "")))
    return [*in_rows(cells, width), Content("")]


def _side(names: Sequence[str], marking: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return the places of one side of a transition with their tokens."""
    return [
        (f"{shown(place)}{f' ×{weight}' if weight > 1 else ''}", marking.get(place, 0))
        for place, weight in Counter(names).items()
    ]


def transition_lines(
    net: NetRecord, transition: TransitionRecord, state: NetState, width: int, *, fired: bool = False
) -> list[Content]:
    """Return a transition as a bar between its input and output places."""
    marking = state.marking
    ready = state.active and enabled(transition, marking)
    left = _side(transition.inputs, marking)
    right = _side(transition.outputs, marking)
    column = max((width_of(shown(p)) for p in net.places), default=4) + 3
    column = min(column, max(6, (width - 24) // 2))
    style = BRIGHT if ready else MUTED
    lines: list[Content] = [_name_line(transition, ready, fired, width)]
    for before, after in zip_longest(left, right) if left or right else [(None, None)]:
        row = Content.assemble(
            *(["  ", *_cell(before, column), (ARROW, style)] if before else [" " * (column + 8)]),
            ("┃", style),
            *([(ARROW, style), *_cell(after, column)] if after else []),
        )
        lines.append(row.truncate(width, ellipsis=True))
    amount = transition.amount
    if amount is not None:
        goes = "" if amount.target is None else f" ⇒ {shown(amount.target)}"
        text = f"  {shown(amount.field.name)} of {shown(amount.source)}{goes}"
        lines.append(Content.styled(text, style).truncate(width, ellipsis=True))
    for source, target in transition.transfers:
        text = f"  all tokens of {shown(source)} ⇒ {shown(target)}"
        lines.append(Content.styled(text, style).truncate(width, ellipsis=True))
    return [*lines, Content("")]


def _cell(side: tuple[str, int], column: int) -> list[tuple[str, str]]:
    name, number = side
    style = "bold $text-accent" if number else MUTED
    return [(circle(number), style), (f" {pad(name, column - 3)}", "")]


def _name_line(transition: TransitionRecord, ready: bool, fired: bool, width: int) -> Content:
    traits = [shown(", ".join(transition.tools))] if transition.tools else ["fires by itself"]
    if transition.after is not None:
        traits = [f"fires by itself after {format_duration(transition.after)}"]
    if transition.manual:
        traits.append("needs approval")
    if transition.partial:
        traits.append("one of several steps")
    if transition.deferred:
        traits.append("fires on success")
    mark = ("▸ ", BRIGHT) if ready else ("  ", "")
    return Content.assemble(
        mark,
        (shown(transition.name), BRIGHT if ready else "bold"),
        ("  Δ fired" if fired else "", "bold $text-accent"),
        ("  enabled" if ready else "", BRIGHT),
        (f"  {' · '.join(traits)}", MUTED),
    ).truncate(width, ellipsis=True)
