"""What may pass from now on without being asked about, chosen with an approval.

Always narrowed to what was shown: this tool with these effects, or this very input.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, cast

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Input, Static

from ...engine.gate.types import GrantScope, GrantTerms
from ...engine.history.state import ApprovalState
from ..grant_terms import Bound, TermsError, by_names, not_by_names, sentence, terms
from ..keymap import key_of
from ..text import clip, shown
from ..widgets.choice import Choice
from ..widgets.typed import TypedLine
from .about_request import AboutRequest

MUTED = "$foreground 60%"
BOUNDS = (("session", "this session"), ("uses", "so many times"), ("time", "for a time"))
HINTS = {"uses": ("3", "a number"), "time": ("30m", "30m, 2h, 1d")}
"""What stands there at first, and what can be typed."""
REVOKED = "It stands among the nets and can be revoked there."


class GrantScreen(AboutRequest[GrantTerms]):
    """Dismissed with the terms when the deliberate key was pressed, else with nothing."""

    DEFAULT_CSS = """
    GrantScreen > .frame {
        width: 96; max-width: 95%; border: round $warning; border-title-color: $text-warning;
        & .field { height: auto; }
        & .label { width: 10; color: $text-primary; text-style: bold; }
        & .field:focus-within > .label { text-style: bold reverse; }
        & #typed { width: 20; }
        & #narrowed, & #said { height: auto; }
        & #sentence { height: auto; margin-top: 1; text-style: bold; color: $text-warning; }
    }
    """
    DECIDES = ("give", "approval.give", "approves and grants")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "ctrl+g",
            "give",
            "approve and grant",
            id="approval.give",
            tooltip="Let this call run, and those that the sentence names",
        ),
    ]

    def __init__(self, request: ApprovalState, monotonic: Callable[[], float], quiet: float) -> None:
        super().__init__(request, monotonic, quiet)
        self._said = ""
        exact = [("input", "exactly this input")]
        wide = [] if not_by_names(request) else [("names", clip(by_names(request), 50))]
        self._scope = Choice([*wide, *exact], id="scope", folds=True)
        self._bound = Choice(BOUNDS, id="bound", folds=True)
        self._typed = TypedLine("", id="typed")
        self._texts = {name: first for name, (first, _) in HINTS.items()}

    def compose(self) -> ComposeResult:
        with Vertical(classes="frame") as frame:
            frame.border_title = Content(f"Approve, and let pass: {clip(shown(self.request.tool), 40)}")
            with Horizontal(classes="field"):
                yield Static("What", classes="label")
                yield self._scope
            yield Static("", id="narrowed")
            with Horizontal(classes="field"):
                yield Static("How long", classes="label")
                yield self._bound
            with Horizontal(classes="field", id="amount"):
                yield Static("", classes="label")
                yield self._typed
            yield Static("", id="sentence")
            yield Static(REVOKED, id="revoked")
            yield Static("", id="said")

    def on_mount(self) -> None:
        self.query_one("#revoked", Static).update(Content.styled(REVOKED, MUTED))
        self.query_one("#said").display = False
        why = not_by_names(self.request)
        narrowed = self.query_one("#narrowed", Static)
        wide = f"{'':<10}not {by_names(self.request)}: {why}"
        narrowed.update(Content.styled(wide if why else "", MUTED))
        narrowed.display = why is not None
        self.query_one("#amount").display = False
        self._scope.focus()
        self._show()

    def how(self) -> Content:
        if self.app.size.width < 80:
            return Content("")
        keys = "".join(key_of(Choice, name) for name in ("choice.before", "choice.next"))
        return Content(f"{keys} choose · {key_of(GrantScreen, 'focus.next')} goes on · ")

    @property
    def chosen(self) -> GrantTerms:
        """What is chosen now. Raises `TermsError`."""
        bound = cast("Bound", self._bound.chosen)
        return terms(cast("GrantScope", self._scope.chosen), bound, self._typed.value)

    @on(Choice.Changed, "#bound")
    def bound_changed(self, event: Choice.Changed) -> None:
        """Times and uses are typed; each keeps its own text."""
        event.stop()
        self.query_one("#amount").display = event.chosen in HINTS
        if event.chosen in HINTS:
            self._typed.placeholder = HINTS[event.chosen][1]
            self._typed.value = self._texts[event.chosen]
        self._show()

    @on(Choice.Changed, "#scope")
    def scope_changed(self, event: Choice.Changed) -> None:
        event.stop()
        self._show()

    @on(Input.Changed)
    def typed(self, event: Input.Changed) -> None:
        event.stop()
        if self._bound.chosen in self._texts:
            self._texts[self._bound.chosen] = event.value
        self.interrupted()
        self._show()

    @on(Input.Submitted)
    def submitted(self, event: Input.Submitted) -> None:
        """Enter gives nothing."""
        event.stop()

    def _show(self) -> None:
        """The sentence of what is chosen; another one has to be read first."""
        try:
            text, style = sentence(self.request, self.chosen), ""
        except TermsError as error:
            text, style = str(error), "$text-error"
        if text != self._said:
            self._said = text
            self.query_one("#sentence", Static).update(Content.styled(text, style))
            self.fall_asleep()

    def action_give(self) -> None:
        """Approve, with the grant that the sentence says."""
        self.deliberately(self._give)

    def _give(self) -> None:
        try:
            chosen = self.chosen
        except TermsError as error:
            self.say(str(error))
            return
        if self.is_current and not self.over and sentence(self.request, chosen) == self._said:
            self.dismiss(chosen)
