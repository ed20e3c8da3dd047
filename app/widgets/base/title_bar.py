"""Top line of a screen: the screens with their keys, and the topic of the current screen.

If space is limited, the names of the screens are dropped last. On a narrow terminal only the keys and the
name of the current screen are shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from textual import events
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from ....engine.core.rights import Rights
from ...format.text import MUTED, shown
from ...terminal.bindings import SCREENS
from ...terminal.charset import ascii_only
from ...terminal.key_rights import permission_of
from ...terminal.keymap import bindings_of, name_of
from .typed_app import TypedApp

LIMITED: dict[Rights, str] = {"look": "read-only", "decide": "decides only"}
"""Labels for limited rights, shown after the operator's name."""
LEAST = 12
"""Minimum width of a cut text in cells; a shorter text would be meaningless."""
NARROW = 70
"""Width in cells below which the names of other screens are dropped before the rest of the line."""
TITLED = 90
"""Width in cells from which the program's name is shown if it fits, so that it does not flicker."""
Form: TypeAlias = Literal["spaced", "close", "keys", "current"]
"""Forms of the list of screens: names far apart or close, only keys of others, or only the current."""


@dataclass(frozen=True, slots=True)
class Link:
    """Part of the line, from cell `start` up to `end`, that opens a screen when clicked."""

    start: int
    end: int
    screen: str


@dataclass(frozen=True, slots=True)
class Screens:
    """The list of screens as text, and its clickable parts."""

    text: Content
    links: tuple[Link, ...] = ()

    @property
    def width(self) -> int:
        return self.text.cell_length


@dataclass(frozen=True, slots=True)
class Topic:
    """Topic of a screen: `texts`, longest first, and `core`, which is never dropped.

    The last text may be cut off down to `least` cells.
    """

    texts: Sequence[Content]
    core: Content
    least: int

    @property
    def cut(self) -> Content:
        return self.texts[-1]


class ScreenBar(TypedApp, Widget):
    """The list of screens, followed by the topic of screen `here`."""

    DEFAULT_CSS = """
    ScreenBar { height: 1; padding: 0 1; background: $panel; color: $foreground; }
    """
    ALLOW_SELECT: ClassVar[bool] = False
    gap = 2
    """Minimum cells between the list of screens and the topic."""

    def __init__(self, here: str, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own
        super().__init__(id=id)
        self._here = here
        self._texts: tuple[Content, ...] = (Content(""),)
        self._links: tuple[Link, ...] = ()

    def say(self, *texts: Content) -> None:
        """Set the topic: the first of `texts` that fits, or the last one, cut off."""
        if texts != self._texts:
            self._texts = texts
            self.refresh()

    def topic(self) -> Topic:
        """Return the current texts about the screen."""
        last = self._texts[-1]
        return Topic(self._texts, last, min(LEAST, last.cell_length))

    def render(self) -> Content:
        width = self.content_size.width
        screens, text = self._fitting(width)
        self._links = screens.links
        return Content.assemble(
            screens.text, " " * self.space(width, screens.width, text), text
        ).truncate(width, ellipsis=True)

    def space(self, width: int, used: int, text: Content) -> int:
        """Return the cells between the list of screens, which takes `used` cells, and `text`."""
        return self.gap if used and text.cell_length else 0

    def _fitting(self, width: int) -> tuple[Screens, Content]:
        """Choose what fits: the longest text with all names, else shorter texts and fewer names."""
        topic = self.topic()
        spaced, close = self._screens("spaced"), self._screens("close")
        keys, current = self._screens("keys"), self._screens("current")
        beside = [*([self._titled(spaced)] if width >= TITLED else []), spaced, close]
        if self._here not in SCREENS:
            # Such a screen can be recognized only by its topic.
            beside += [keys, *([current] if width < NARROW else [])]
        for text in topic.texts:
            for screens in beside:
                if screens.width + self.gap + text.cell_length <= width:
                    return screens, text
        room = width - beside[-1].width - self.gap
        if room >= topic.least:
            return beside[-1], topic.cut.truncate(room, ellipsis=True)
        if width >= NARROW and room >= topic.core.cell_length:
            return beside[-1], topic.core
        for screens in (keys, current):
            for text in (*topic.texts, topic.core):
                if screens.width + self.gap + text.cell_length <= width:
                    return screens, text
        return Screens(Content("")), topic.core

    def _titled(self, screens: Screens) -> Screens:
        title = Content.assemble(("Interlock", "bold $text-primary"), (" ──", MUTED))
        by = title.cell_length
        moved = (Link(each.start + by, each.end + by, each.screen) for each in screens.links)
        return Screens(title + screens.text, tuple(moved))

    def _screens(self, form: Form) -> Screens:
        """Return the screens in a line.

        In the `spaced` form their positions do not depend on the current one.
        """
        text, links = Content(""), list[Link]()
        for screen, key in self._reachable():
            if screen == self._here:
                part = _current(f"{key} {screen}".lstrip(), close=form == "close")
            elif form == "current":
                continue
            else:
                part = _other(screen, key, form)
            if links and form != "spaced":
                text += Content(" ")
            links.append(Link(text.cell_length, text.cell_length + part.cell_length, screen))
            text += part
        return Screens(text, tuple(links))

    def _reachable(self) -> Iterator[tuple[str, str]]:
        """Yield the app's screens with their keys; one without a key of its own comes last."""
        keys = {each.action: name_of(each) for each in bindings_of(type(self.app))}
        for screen in SCREENS:
            key = keys.get(f"app.{screen}")
            if key is not None and self.app.check_action(screen, ()):
                yield screen, key
            elif screen == self._here:
                yield screen, ""
        if self._here not in SCREENS:
            yield self._here, ""

    def on_click(self, event: events.Click) -> None:
        for link in self._links:
            if link.start <= event.x - 1 < link.end and link.screen in SCREENS:
                # Called in the app, since this bar's screen may be removed by the action.
                self.app.call_later(self.app.run_action, f"app.{link.screen}")


class TitleBar(ScreenBar):
    """The list of screens and, at the right, open requests, the operator, and the hub's location.

    `elsewhere` is the server on which the sessions run, if any. Operators have to see whose sessions they
    decide about, so its address comes after the operator's name. `place` changes if the console switches
    to another server.
    """

    gap = 1
    waiting: reactive[int] = reactive(0)
    place: reactive[str] = reactive("")

    def __init__(self, operator: str, place: str, elsewhere: str, here: str = "live") -> None:
        super().__init__(here)
        self._operator = shown(operator)
        self.set_reactive(TitleBar.place, place)
        self._elsewhere = elsewhere

    def topic(self) -> Topic:
        """Return the topic. The number of open requests is never dropped."""
        badge = (
            Content.styled(f" {self.waiting} waiting ", "bold $warning reverse")
            if self.waiting
            else Content.styled("0 waiting", MUTED)
        )
        limited = LIMITED.get(permission_of(self.app).rights)
        if limited is not None:
            badge += Content.styled(f" · {limited}", "bold $text-warning")
        who = Content.styled(f" · as {self._operator}" if self._operator else "", "$foreground")
        where = Content.styled(f" · {shown(self.place)}" if self.place else "", MUTED)
        short = badge + (where if self._elsewhere else who)
        least = min(short.cell_length, badge.cell_length + LEAST)
        return Topic((badge + who + where, short), badge, least)

    def space(self, width: int, used: int, text: Content) -> int:
        """Return the space that aligns the topic to the right."""
        return max(0, width - used - text.cell_length)


def _current(label: str, *, close: bool) -> Content:
    """Return the label of the current screen: reversed, and in ASCII also in brackets."""
    opening, closing = "[]" if ascii_only() else ("", "") if close else "  "
    return Content.styled(f"{opening}{label}{closing}", "bold reverse")


def _other(screen: str, key: str, form: Form) -> Content:
    blank = " " if form == "spaced" else ""
    name = "" if form == "keys" else f" {screen}"
    return Content.assemble(blank, (key, "$text-accent"), (name, MUTED), blank)
