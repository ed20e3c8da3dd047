"""Preview of the request under the cursor: the text of its dialog, as far as it fits."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from datetime import datetime

from textual.content import Content

from ....engine.history.decisions.precedents import Precedents
from ....engine.history.model.state import ApprovalState
from ...format.text import clip, name_shown, seconds_between
from ..base.blocks import text_pieces
from ..base.cursor_list import GUTTER
from ..base.titles import entitle
from .frame import AGES, ShownRequest
from .precedents import Unfound
from .progress import Viewer
from .request import request_text
from .reviewed_list import ReviewedList, in_plain_view
from .time_in_view import TimeInView


class RequestPreview(ReviewedList):
    """Text of one request. A request that was completely in view for long enough counts as seen.

    A request with folded values, or with masked text that may run, is never complete here.
    """

    can_focus = False

    def __init__(
        self,
        viewer: Viewer,
        clock: Callable[[], datetime],
        monotonic: Callable[[], float],
        enough: float,
    ) -> None:
        super().__init__(id="preview")
        self._viewer = viewer
        self._clock = clock
        self._monotonic = monotonic
        self._in_view = TimeInView(enough)
        self._subject: ShownRequest | None = None
        self._arranged: tuple[int, int, int] | None = None
        self._precedents: Precedents | Unfound = "coming"

    @property
    def request(self) -> ApprovalState | None:
        """Return the request shown."""
        return None if self._subject is None else self._subject.request

    def preview(self, subject: ShownRequest | None) -> None:
        """Show the current state of a request, or nothing."""
        before = self._subject
        if before is not None and before == subject:
            self.refit()
            return
        self.review()
        self._subject, self._arranged = subject, None
        if subject is None:
            self.guard.clear()
            self.call = range(0)
            self.show([])
            entitle(self, Content(""))
            return
        request = subject.request
        if self.guard.begin(_seen_key(request)):
            self._precedents = "coming"
            self.guard.conceal(dict.fromkeys(each.place for each in request.hidden))
            self.scroll_to(y=0, animate=False, immediate=True)
        self.refit()

    def on_resize(self) -> None:
        self.refit()

    def refit(self) -> None:
        """Lay the text out for the current size, and update ages."""
        subject, now = self._subject, self._clock()
        size = self.scrollable_content_region
        if subject is None or not self.is_attached or not self.display or size.width <= GUTTER:
            return
        old = int(seconds_between(subject.request.since, now) / AGES)
        arranged = (size.width - GUTTER, size.height, old)
        if arranged == self._arranged:
            return
        aged = self._arranged is not None and arranged[:2] == self._arranged[:2]
        self._arranged = arranged
        width, height, _ = arranged
        text = request_text(
            subject.request,
            subject.session,
            now,
            width,
            height,
            speaker=subject.speaker,
            viewer=self._viewer,
            precedents=self._precedents,
        )
        request = subject.request
        decisive = [line.plain for line in text.lines[: text.decisive]]
        self.guard.arrange(arranged[:2], decisive, folded=text.hidden, aged=aged)
        self.call = text.call
        self.show(text_pieces(text.lines))
        entitle(self, Content(clip(name_shown(request.title), max(8, width - 4))))

    def show_precedents(self, found: Precedents | None) -> None:
        """Show precedents, or that they are unknown, in the lines reserved for them."""
        self._precedents = "unknown" if found is None else found
        self._arranged = None
        self.refit()

    def review(self) -> None:
        """Record how long the request has been completely in view."""
        request, now = self.request, self._monotonic()
        in_view: list[Hashable] = []
        if request is not None and self.guard.complete and self.display and in_plain_view(self):
            in_view.append(_seen_key(request))
        self._in_view.review(in_view, now)
        for key in in_view:
            self._in_view.painted(key, now)

    def was_seen(self, request: ApprovalState) -> bool:
        """Return whether a request was completely in view for long enough."""
        return self._in_view.seen(_seen_key(request))

    def comes_to_be_seen(self, request: ApprovalState) -> bool:
        """Return whether the request is completely in view but not yet for long enough."""
        return self._in_view.coming(_seen_key(request))

    def keep(self, requests: list[ApprovalState]) -> None:
        """Forget what was seen of all other requests."""
        self._in_view.keep({_seen_key(each) for each in requests})


def _seen_key(request: ApprovalState) -> Hashable:
    """Return a key for the visible content of a request; a new comment changes it."""
    return request.id, request.digest, len(request.comments)
