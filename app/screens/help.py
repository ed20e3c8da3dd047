"""The keys that do something here, made from the bindings themselves."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.screen import ActiveBinding, Screen

from ..text import clip, pad, wrap_all
from ..widgets.blocks import Block
from .detail import Detail

MUTED = "$foreground 60%"


def help_for(screen: Screen[object]) -> Detail:
    """The help for `screen` as it is now: what has the focus first, then the screen, then everywhere."""
    groups: dict[str, list[ActiveBinding]] = {"Here": [], "This screen": [], "Everywhere": []}
    for active in screen.active_bindings.values():
        if active.binding.system or not active.binding.description:
            continue
        if active.node is screen:
            groups["This screen"].append(active)
        elif active.node is screen.app:
            groups["Everywhere"].append(active)
        else:
            groups["Here"].append(active)
    blocks: list[Block] = []
    for title, found in groups.items():
        if found:
            blocks.append(_group(title, _rows(screen, found)))
    return Detail("Keys", blocks)


def _rows(screen: Screen[object], found: Sequence[ActiveBinding]) -> list[tuple[str, str, str]]:
    rows: dict[str, tuple[list[str], str, str]] = {}
    for active in found:
        keys, _, _ = rows.setdefault(
            active.binding.action,
            ([], active.binding.description, active.tooltip or active.binding.tooltip),
        )
        keys.append(screen.app.get_key_display(active.binding))
    return [(" ".join(dict.fromkeys(keys)), name, tooltip) for keys, name, tooltip in rows.values()]


def _group(title: str, rows: Sequence[tuple[str, str, str]]) -> Block:
    def lines(width: int) -> list[Content]:
        made = [Content.styled(title.upper(), "bold $text-primary")]
        for keys, name, tooltip in rows:
            head = Content.assemble((pad(keys, 14), "bold $text-accent"), " ", (pad(name, 16), "bold"))
            room = width - head.cell_length - 1
            if room < 24:
                made.append(
                    Content.assemble(
                        (pad(keys, 12), "bold $text-accent"), " ", (clip(name, width - 13), "bold")
                    )
                )
                made += [Content.styled(f"  {row}", MUTED) for row in wrap_all([tooltip], width - 2)]
                continue
            first, *rest = wrap_all([tooltip], room)
            made.append(Content.assemble(head, " ", (first, MUTED)))
            made += [Content.styled(" " * (width - room) + row, MUTED) for row in rest]
        return [*made, Content("")]

    return Block(title, len(rows), lines)
