"""Panel in which an operator chooses a grant to give with an approval.

A grant is always limited to what was shown: this tool with these effects, or exactly this input.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, cast

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.events import Resize
from textual.widget import Widget
from textual.widgets import Input, Static

from ....engine.gate.types import GrantScope, GrantTerms
from ....engine.history.model.state import ApprovalState
from ...format.text import MUTED, clip, name_shown
from ...terminal.bindings import key_binding
from ...terminal.keymap import key_of
from ...viewmodels.grant_terms import (
    Bound,
    TermsError,
    exact_only_reason,
    granted_calls,
    limits,
    of_subagent,
    sentence,
    terms,
)
from ...widgets.inputs.choice import Choice
from ...widgets.inputs.safe_input import TypedLine
from .panel import RequestPanel

BOUNDS = (("session", "this session"), ("uses", "a number of calls"), ("time", "a period"))
WHOM = (("agent", "the agent's own calls"), ("subagents", "its subagents' calls too"))
HINTS = {"uses": ("3", "a number"), "time": ("30m", "30m, 2h, 1d")}
"""Initial text of each field, and examples for its placeholder."""
LOW = 22
"""Terminal height in lines below which optional lines are hidden."""
OF_SUBAGENT = (
    f"A subagent made this call. Under Whose, choose “{WHOM[1][1]}”, or approve it without a grant."
)
REVOKED = "You can revoke it in the Nets pane."


@dataclass(frozen=True, slots=True)
class GrantChosen:
    """Terms of the chosen grant, and its reason."""

    terms: GrantTerms
    reason: str


class GrantScreen(RequestPanel[GrantChosen]):
    """Dismissed with terms and reason by the deliberate key, else with `None`."""

    DEFAULT_CSS = """
    GrantScreen > .frame {
        width: 96; max-width: 95%; max-height: 100%; overflow-y: auto;
        border: round $warning; border-title-color: $text-warning;
        & .field { height: auto; }
        & .label { width: 10; color: $text-primary; text-style: bold; }
        & .field:focus-within > .label { text-style: bold reverse; }
        & #typed { width: 20; }
        & #reason { width: 1fr; }
        & #narrowed, & #said, & #limits { height: auto; }
        &.low #revoked { display: none; }
        &.low #sentence { margin-top: 0; }
        & #sentence { height: auto; margin-top: 1; text-style: bold; color: $text-warning; }
    }
    """
    DECIDES = ("give", "approval.give", "approve and grant")
    BINDINGS: ClassVar[list[BindingType]] = [
        key_binding(
            "ctrl+g",
            "give",
            "approve and grant",
            "approval.give",
            "Let this call run, and those that the sentence names",
        ),
        key_binding(
            "pagedown",
            "page(1)",
            "more",
            "grant.down",
            "Scroll down, if the panel is taller than the terminal",
            show=False,
        ),
        key_binding("pageup", "page(-1)", "back", "grant.up", "Scroll up in the panel", show=False),
    ]

    def __init__(self, request: ApprovalState, monotonic: Callable[[], float], quiet: float) -> None:
        super().__init__(request, monotonic, quiet)
        self._said = ""
        exact = [("input", "exactly this input")]
        wide = [] if exact_only_reason(request) else [("names", clip(granted_calls(request), 50))]
        self._scope = Choice([*wide, *exact], id="scope", folds=True)
        self._bound = Choice(BOUNDS, id="bound", folds=True)
        self._whom = Choice(WHOM, id="whom", folds=True)
        self._typed = TypedLine("", id="typed")
        self._reason = TypedLine("", placeholder="a reason, recorded with your name", id="reason")
        self._texts = {name: first for name, (first, _) in HINTS.items()}

    def compose(self) -> ComposeResult:
        with self.panel_frame(f"Approve and grant: {clip(name_shown(self.request.tool), 40)}"):
            yield _field("What", self._scope)
            yield Static("", id="narrowed")
            yield _field("How long", self._bound)
            yield _field("", self._typed, id="amount")
            yield _field("Whose", self._whom)
            yield _field("Why", self._reason)
            yield Static("", id="said")
            yield Static("", id="sentence")
            yield Static("", id="limits")
            yield Static(REVOKED, id="revoked")

    def on_mount(self) -> None:
        self.query_one("#revoked", Static).update(Content.styled(REVOKED, MUTED))
        self.query_one("#said").display = False
        why = exact_only_reason(self.request)
        narrowed = self.query_one("#narrowed", Static)
        wide = f"{'':<10}not {granted_calls(self.request)}: {why}"
        narrowed.update(Content.styled(wide if why else "", MUTED))
        narrowed.display = why is not None
        self.query_one("#amount").display = False
        self._scope.focus()
        self._show()

    @on(Resize)
    def fit(self) -> None:
        """Hide optional lines on a low terminal."""
        self.query_one(".frame").set_class(self.app.size.height < LOW, "low")

    def action_page(self, pages: int) -> None:
        """Scroll the panel by a page, down for 1, up for -1."""
        frame = self.query_one(".frame")
        frame.scroll_relative(y=pages * max(1, frame.size.height - 1), animate=False)

    def how(self) -> Content:
        if self.app.size.width < 80:
            return Content("")
        keys = "".join(key_of(Choice, name) for name in ("choice.before", "choice.next"))
        return Content(f"{keys} choose · {key_of(GrantScreen, 'focus.next')} next · ")

    @property
    def chosen(self) -> GrantTerms:
        """Return the terms of the grant as chosen now. Raises `TermsError`."""
        bound = cast("Bound", self._bound.chosen)
        scope, subagents = cast("GrantScope", self._scope.chosen), self._whom.chosen == "subagents"
        if of_subagent(self.request) and not subagents:
            raise TermsError(OF_SUBAGENT)
        return terms(scope, bound, self._typed.value, subagents=subagents)

    @on(Choice.Changed, "#bound")
    def bound_changed(self, event: Choice.Changed) -> None:
        """Show the text field for a time or a number of uses. Each kind keeps its own text."""
        event.stop()
        self.query_one("#amount").display = event.chosen in HINTS
        if event.chosen in HINTS:
            self._typed.placeholder = HINTS[event.chosen][1]
            self._typed.value = self._texts[event.chosen]
        self._show()

    @on(Choice.Changed, "#scope")
    @on(Choice.Changed, "#whom")
    def scope_changed(self, event: Choice.Changed) -> None:
        event.stop()
        self._show()

    @on(Input.Changed, "#reason")
    def reason_typed(self, event: Input.Changed) -> None:
        """Cancel a pending decision key, which may have been part of the typed text."""
        event.stop()
        self.interrupted()

    @on(Input.Changed, "#typed")
    def typed(self, event: Input.Changed) -> None:
        event.stop()
        if self._bound.chosen in self._texts:
            self._texts[self._bound.chosen] = event.value
        self.interrupted()
        self._show()

    @on(Input.Submitted)
    def submitted(self, event: Input.Submitted) -> None:
        """Ignore enter."""
        event.stop()

    def _show(self) -> None:
        """Show the sentence for the current choice.

        A new sentence makes the keys inert until it can be read.
        """
        try:
            chosen = self.chosen
            text, beside, style = sentence(self.request, chosen), limits(self.request, chosen.scope), ""
        except TermsError as error:
            text, beside, style = str(error), "", "$text-error"
        if text != self._said:
            self._said = text
            self.query_one("#sentence", Static).update(Content.styled(text, style))
            self.query_one("#limits", Static).update(Content(beside))
            self.fall_asleep()

    def action_give(self) -> None:
        """Approve with the grant that the sentence describes."""
        self.deliberately(self._give)

    def _give(self) -> None:
        try:
            chosen = self.chosen
        except TermsError as error:
            self.say(str(error))
            return
        reason = self._reason.value.strip()
        if not reason:
            self.say("Type a reason: it is recorded with the grant")
            self._reason.focus()
            return
        if self.is_current and not self.over and sentence(self.request, chosen) == self._said:
            self.dismiss(GrantChosen(chosen, reason))


def _field(label: str, editor: Widget, *, id: str | None = None) -> Horizontal:  # noqa: A002 - Textual's own
    """Return a line of the panel: a label, and a widget for choosing or typing."""
    return Horizontal(Static(label, classes="label"), editor, classes="field", id=id)
