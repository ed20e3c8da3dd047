"""What stands on the frames of the live screen's panes."""

from __future__ import annotations

from textual.content import Content
from textual.dom import DOMNode

from ...engine.history.changes import dollars
from ...engine.history.state import SessionState
from ..keymap import key_of
from ..symbols import session_look
from ..text import amount, clip, shown
from ..widgets.flow_lines import flow_title, where
from ..widgets.queues import READING
from ..widgets.transcript import NOTHING_YET


def transcript_titles(
    state: SessionState, name: str, *, raises: str = "", one_line: bool = False
) -> tuple[Content, Content]:
    """Above, the session with its state and mode; below, its model with what was used, that its loop
    runs elsewhere, or where its flow stands. `raises` is the key that raises its cost limit, if one does.
    With `one_line` there is nothing below: what it has cost stands above as well.
    """
    if one_line:
        above, below = transcript_titles(state, name, raises=raises)
        return Content.assemble(above, "  ", below.stylize("not bold")), Content("")
    look = session_look(state)
    above = Content.assemble(
        (clip(name, 40), "bold"), "  ", (f"{look.symbol} {look.word}", look.style), f"  {state.mode}"
    )
    model = clip(shown(state.model), 30)
    if state.flow is not None:
        return above, Content(f"{flow_title(state.flow)} · {where(state.flow)}")
    if state.kind == "outside":
        return above, Content(f"{model} · runs elsewhere" if model else "runs elsewhere")
    return above, Content(f"{model}{_used(state, raises)}")


def nothing_said(state: SessionState | None, keys: type[DOMNode], *, reading: bool = False) -> str:
    """What stands in place of a transcript; where no session is live, what leads to those there were.

    While a console is `reading` a server's sessions there may be one that it does not know yet.
    """
    if state is not None:
        return NOTHING_YET
    if reading:
        return READING
    return f"No session runs. {key_of(keys, 'live.history')} lists those that have ended."


def counted(word: str, number: int, more: str = "") -> str:
    """`Waiting (2)`, `Waiting`, `Waiting (2) · 1 marked`."""
    return (f"{word} ({number})" if number else word) + (f" · {more}" if more else "")


def _used(state: SessionState, raises: str) -> str:
    """What the model has read and written so far, once it has, and what that cost.

    A limit comes first: the frame may have no room for all.
    """
    read, written = state.input_tokens, state.output_tokens
    tokens = f" · {amount(read)} in {amount(written)} out" if read or written else ""
    if state.max_cost is None:
        return f"{tokens} · {dollars(state.cost)}" if tokens and state.cost else tokens
    how = f", {raises} raises it" if raises else ""
    return f" · {dollars(state.cost)} of {dollars(state.max_cost)}{how}{tokens}"
