"""An explanation as blocks of a panel."""

from __future__ import annotations

from textual.content import Content

from ....engine.recording.explanation import ExplanationView
from ...format.explanation import Line, Moment, Tone, explained
from ...format.text import shown, wrap
from ..base.blocks import Block

LABEL = 8
STYLES: dict[Tone, str] = {
    "plain": "",
    "good": "$text-success",
    "ask": "$text-warning",
    "bad": "$text-error",
    "quiet": "$foreground 60%",
}


def explanation_blocks(view: ExplanationView, moment: Moment = "now") -> list[Block]:
    """One block a line, folded to the width it is shown at, in the words of that moment."""
    return [_block(index, line) for index, line in enumerate(explained(view, moment))]


def _block(index: int, line: Line) -> Block:
    text = shown(line.text)
    indent = len(text) - len(text.lstrip())

    def lines(width: int) -> list[Content]:
        return [
            Content.assemble(
                (f"{'' if i else line.label:<{LABEL}}", "$foreground 60%"),
                (" " * (indent if i else 0) + row, STYLES[line.tone]),
            )
            for i, row in enumerate(wrap(text, width - LABEL - indent))
        ]

    return Block(f"explained {index}", line, lines)
