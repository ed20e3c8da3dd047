"""A session's cost limit, and the panel in which a higher one is entered."""

from __future__ import annotations

from typing import ClassVar, Protocol, runtime_checkable

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import Input, Static

from ....engine.history.fold.event_text import dollars
from ....engine.history.model.state import SessionState
from ....engine.hub.hub import Outcome
from ...config.quantities import parse_dollars
from ...format.text import MUTED, clip, name_shown, shown
from ...widgets.inputs.safe_input import TypedLine
from ..common.panel import Panel


@runtime_checkable
class RaisesLimits(Protocol):
    """A hub that can raise the cost limits of sessions; a remote hub may not be able to."""

    async def raise_limit(
        self, session_id: str, max_cost: float, *, by: str, reason: str | None = None
    ) -> Outcome:
        """Raise a session's limit to `max_cost` US dollars."""
        ...


def has_limit(state: SessionState | None, hub: object) -> bool:
    """Return whether `hub` can raise a session's limit: it has one, and its agent is hosted there."""
    if state is None or state.max_cost is None or state.kind in ("outside", "flow"):
        return False
    return isinstance(hub, RaisesLimits)


def higher(text: str, state: SessionState) -> float:
    """Return the limit that was typed. Raises `ValueError` unless the session could continue with it."""
    amount = parse_dollars(text.strip().removeprefix("$"))
    if state.max_cost is not None and amount <= state.max_cost:
        raise ValueError(f"more than {dollars(state.max_cost)}, which is the limit already")
    if amount <= state.cost:
        raise ValueError(f"more than {dollars(state.cost)}, which has been spent already")
    return amount


class RaiseLimit(Panel[tuple[float, str] | None]):
    """Panel for a new cost limit and a reason; dismissed with both, or with `None` on escape."""

    BINDINGS: ClassVar[list[BindingType]] = []

    DEFAULT_CSS = """
    RaiseLimit > .frame { width: 64; max-width: 95%; }
    RaiseLimit Static { height: auto; }
    RaiseLimit TypedLine { margin: 1 0 0 0; }
    RaiseLimit #hint { margin: 1 0 0 0; }
    """

    def __init__(self, state: SessionState) -> None:
        super().__init__()
        self._state = state

    def compose(self) -> ComposeResult:
        state = self._state
        most = dollars(state.max_cost) if state.max_cost is not None else "any amount"
        title = f"Cost limit of {clip(name_shown(state.agent or state.id), 40)}"
        with self.panel_frame(title, "enter raise it", ("panel.close", "cancel")):
            yield Static(f"Spent {dollars(state.cost)} of {most}.", markup=False)
            yield TypedLine(placeholder="New limit in USD (total)", id="limit")
            yield TypedLine(placeholder="reason (recorded with your name)", id="reason")
            yield Static(id="hint")

    def on_mount(self) -> None:
        self._hint("If it stopped at the limit, send a message to continue.", MUTED)
        self.query_one("#limit", TypedLine).focus()

    def _hint(self, text: str, style: str) -> None:
        self.query_one("#hint", Static).update(Content.styled(text, style))

    @on(Input.Submitted)
    def answer(self, message: Input.Submitted) -> None:
        """Close with the amount and the reason, or report what is expected."""
        message.stop()
        limit, why = self.query_one("#limit", TypedLine), self.query_one("#reason", TypedLine)
        try:
            amount = higher(limit.value, self._state)
        except ValueError as error:
            self._hint(f"✗ Expected {shown(str(error))}", "$text-error")
            limit.focus()
            return
        if not why.value.strip():
            # The first enter moves to the reason field; the missing reason is reported only there.
            if message.input is why:
                self._hint("✗ Type a reason: it is recorded with the limit", "$text-error")
            why.focus()
        elif self.is_current:
            self.dismiss((amount, why.value.strip()))
