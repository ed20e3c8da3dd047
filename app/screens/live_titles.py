"""What stands on the frames of the live screen's panes."""

from __future__ import annotations

from textual.content import Content

from ...engine.history.changes import dollars
from ...engine.history.state import SessionState
from ..symbols import session_look
from ..text import amount, clip, shown


def transcript_titles(state: SessionState, name: str) -> tuple[Content, Content]:
    """Above, the session with its state and mode; below, its model with what was used, or that its loop
    runs elsewhere.
    """
    look = session_look(state)
    above = Content.assemble(
        (clip(name, 40), "bold"), "  ", (f"{look.symbol} {look.word}", look.style), f"  {state.mode}"
    )
    model = clip(shown(state.model), 30)
    if state.kind == "outside":
        return above, Content(f"{model} · runs elsewhere" if model else "runs elsewhere")
    return above, Content(f"{model}{_tokens(state)}")


def counted(word: str, number: int) -> str:
    """`Waiting (2)`, `Waiting`."""
    return f"{word} ({number})" if number else word


def _tokens(state: SessionState) -> str:
    """What the model has read and written so far, once it has."""
    read, written = state.input_tokens, state.output_tokens
    paid = f" · {dollars(state.cost)}" if state.cost else ""
    if state.max_cost is not None:
        paid = f" · {dollars(state.cost)} of {dollars(state.max_cost)}"
    return f" · {amount(read)} in {amount(written)} out{paid}" if read or written else ""
