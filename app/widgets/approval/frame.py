"""Frame of the approval dialog: the request's text, a notice, the line for a reason, and the key bar."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from ....engine.history.decisions.precedents import Precedents
from ....engine.history.model.state import ApprovalState, SessionState
from ....engine.history.redaction.hidden_text import RevealedText
from ...format.text import seconds_between, shown, wrap_all
from ...terminal.bindings import without_keys
from ...terminal.keymap import key_of
from ...terminal.symbols import RISK
from ..base.bars import KeyBar
from ..base.blocks import BlockList, text_pieces
from ..base.cursor_list import GUTTER
from ..base.typed_app import TypedApp
from ..inputs.reason_line import ReasonLine
from .precedents import Unfound
from .progress import Viewer
from .request import request_text
from .review_guard import ReviewGuard
from .reviewed_list import ReviewedList

# List for the text of the approval dialog.


GRANTS = frozenset({"g", "G"})
"""Keys of the dialog that lists use for their first and last entry."""


class RequestList(ReviewedList, inherit_bindings=False):
    """List that scrolls like any other, without the keys that the dialog uses."""

    BINDINGS: ClassVar[list[BindingType]] = [without_keys(GRANTS, each) for each in BlockList.BINDINGS]


FRAME = 2 + 2 + GUTTER + 1
"""Columns around the text: border, padding, the list's gutter and its scrollbar."""
CHROME = 4
"""Lines of the frame and the key bar around the text."""
NOTICE = 3
"""Maximum lines of a notice."""
AGES = 30.0
"""Seconds after which ages in the text are updated."""


@dataclass(frozen=True, slots=True)
class ShownRequest:
    """A request with the session whose nets ask and the session that made the call, as far as known."""

    request: ApprovalState
    session: SessionState | None = None
    speaker: SessionState | None = None


class RequestFrame(TypedApp, Vertical):
    """Frame as high as its content, up to the screen's height; what does not fit is folded."""

    def __init__(
        self, viewer: Viewer, clock: Callable[[], datetime], deny_reasons: Sequence[str]
    ) -> None:
        super().__init__(classes="frame")
        self._viewer = viewer
        self._clock = clock
        self._body = RequestList(id="request")
        self._notice = Static("", id="notice")
        self.reason = ReasonLine(deny_reasons)
        self.expanded = False
        self.foldable = False
        self.said = ""
        self._subject: ShownRequest | None = None
        self._arranged: tuple[int, int, bool, int] | None = None
        self._revealed: tuple[RevealedText, ...] = ()
        self._precedents: Precedents | Unfound = "coming"

    def compose(self) -> ComposeResult:
        yield self._body
        yield self._notice
        yield self.reason
        yield KeyBar()

    def begin(self, subject: ShownRequest) -> None:
        """Show a request from its first line, without typed text or notice."""
        self.expanded = False
        self.said = ""
        self._notice.display = False
        self.guard.clear()
        self.reason.clear()
        self._body.scroll_to(y=0, animate=False)
        self.take_focus()
        self.show(subject)

    @property
    def guard(self) -> ReviewGuard:
        """Return the guard that records which lines must still be shown before approval."""
        return self._body.guard

    def show(self, subject: ShownRequest) -> None:
        """Show the current state of a request. A different request or input starts with nothing seen."""
        self._subject = subject
        for risk in RISK:
            self.set_class(subject.request.risk == risk, f"-risk-{risk}")
        if self.guard.begin((subject.request.id, subject.request.digest)):
            self._body.refresh()
            self._precedents = "coming"
            self._revealed = ()
            self.guard.conceal(dict.fromkeys(each.place for each in subject.request.hidden))
        self._arranged = None
        self.refit()

    def reveal(self, texts: Sequence[RevealedText]) -> None:
        """Show the text behind masks. All of it has to be seen before approval."""
        self._revealed = tuple(texts)
        for place in self.guard.concealed:
            self.guard.reveal(place)
        self._arranged = None
        self.refit()

    def show_precedents(self, found: Precedents | None) -> None:
        """Show precedents, or that they are unknown, in the lines reserved for them."""
        self._precedents = "unknown" if found is None else found
        self._arranged = None
        self.refit()

    def take_focus(self) -> None:
        """Focus the text, which does not decide anything."""
        self.screen.set_focus(self._body)

    def on_resize(self) -> None:
        self.refit()

    def refit(self) -> None:
        """Size the frame to the text, fold what does not fit, and update ages."""
        if self._subject is None or not self.is_attached:
            return  # the widgets of a closing console are removed while its timers still run
        wide, high = self.app.size
        width = min(118, wide if wide < 64 else wide - (2 if wide < 100 else 6))
        most = high if high < 20 else high - 2
        inner = width - FRAME
        small = high < 20
        self.set_class(small, "-small")
        notice = min(NOTICE, len(wrap_all([self.said], inner))) if self._notice.display else 0
        room = most - CHROME + small - notice - self.reason.height_for(width - 4)
        subject, now = self._subject, self._clock()
        # Rebuilding all lines of a long input takes too long to do it only for its age.
        old = 0 if self.expanded else int(seconds_between(subject.request.since, now) / AGES)
        arranged = (inner, room, self.expanded, old)
        if arranged == self._arranged:
            return
        aged = self._arranged is not None and arranged[:3] == self._arranged[:3]
        self._arranged = arranged
        text = request_text(
            subject.request,
            subject.session,
            now,
            inner,
            room,
            expanded=self.expanded,
            speaker=subject.speaker,
            viewer=self._viewer,
            revealed=self._revealed,
            precedents=self._precedents,
        )
        self.foldable, lines = text.folded, text.lines
        self.styles.width = width
        self.styles.height = min(most, len(lines) + most - room)
        decisive = [line.plain for line in lines[: text.decisive]]
        self.guard.arrange((inner, self.expanded), decisive, folded=text.hidden, aged=aged)
        self._body.call = text.call
        self._body.show(text_pieces(lines))
        self.screen.refresh_bindings()

    def look_again(self) -> None:
        """Record visible lines that could not be recorded when they were painted."""
        self._body.look_again()

    def show_next(self) -> None:
        """Unfold the text if it is folded, and show the first unseen page."""
        if self.guard.folded and not self.expanded:
            self.expanded = True
            self._body.hold()
            self.refit()
            # The text has its new height only after layout.
            self.call_after_refresh(self._body.show_next_page)
        else:
            self._body.show_next_page()

    @property
    def unseen(self) -> str:
        """Return the next unseen page as `3 of 5`, for example; empty if none, or if text is folded."""
        if self.guard.complete:
            return ""
        return "" if self.guard.folded and not self.expanded else self._body.unseen_note

    def say(self, text: str, *, bad: bool) -> None:
        """Show a message below the request."""
        self.said = shown(text)
        self._notice.update(
            Content.styled(self.said, "bold $text-error" if bad else "bold $text-warning")
        )
        self._notice.display = True
        self.refit()

    @property
    def position(self) -> Content:
        """Return the range of visible lines; empty if all lines are visible."""
        height, total = self._body.scrollable_content_region.height, self._body.virtual_size.height
        if not total > height > 0:
            return Content("")
        top = self._body.scroll_offset.y
        more = f" · {key_of(RequestList, 'list.last')} ↓" if top + height < total else ""
        return Content(f"line {top + 1}–{min(total, top + height)} of {total}{more}")
