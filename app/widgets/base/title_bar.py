"""The line at the top of a screen: the screens with the keys that go there, and what this one is about.

The names of the screens are the last to go where there is little room, except on a narrow terminal: there
only the keys and the name of the screen that is shown have room.
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
"""Rights that are not all of them, beside the operator's name."""
LEAST = 12
"""Cells of a text that is cut; with fewer it says nothing."""
NARROW = 70
"""Cells below which the names of other screens go before the rest of the line."""
TITLED = 90
"""Cells from which the program's name is shown, where it has room: with fewer it would come and go."""
Form: TypeAlias = Literal["spaced", "close", "keys", "current"]
"""All screens with their names, further apart or closer; the keys of the others; only the current one."""


@dataclass(frozen=True, slots=True)
class Link:
    """A part of the line, from cell `start` up to `end`, that goes to a screen."""

    start: int
    end: int
    screen: str


@dataclass(frozen=True, slots=True)
class Screens:
    """The screens as they are written, and where to click for each."""

    text: Content
    links: tuple[Link, ...] = ()

    @property
    def width(self) -> int:
        return self.text.cell_length


@dataclass(frozen=True, slots=True)
class Topic:
    """The topic of a screen: `texts`, the longest first, and `core`, which is never dropped.

    The last of the texts may lose its end, down to `least` cells.
    """

    texts: Sequence[Content]
    core: Content
    least: int

    @property
    def cut(self) -> Content:
        return self.texts[-1]


class ScreenBar(TypedApp, Widget):
    """The screens, and behind them what screen `here` is about."""

    DEFAULT_CSS = """
    ScreenBar { height: 1; padding: 0 1; background: $panel; color: $foreground; }
    """
    ALLOW_SELECT: ClassVar[bool] = False
    gap = 2
    """Cells between the screens and the rest."""

    def __init__(self, here: str, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own
        super().__init__(id=id)
        self._here = here
        self._texts: tuple[Content, ...] = (Content(""),)
        self._links: tuple[Link, ...] = ()

    def say(self, *texts: Content) -> None:
        """Show what the screen is about: the first of `texts` that has room, or the last one cut."""
        if texts != self._texts:
            self._texts = texts
            self.refresh()

    def topic(self) -> Topic:
        """The texts about the screen, as it is now."""
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
        """Cells between the screens, which have `used` some of the line's, and `text`."""
        return self.gap if used and text.cell_length else 0

    def _fitting(self, width: int) -> tuple[Screens, Content]:
        """Choose what has room: the longest text beside all names, else less of it, and of the names."""
        topic = self.topic()
        spaced, close = self._screens("spaced"), self._screens("close")
        keys, current = self._screens("keys"), self._screens("current")
        beside = [*([self._titled(spaced)] if width >= TITLED else []), spaced, close]
        if self._here not in SCREENS:
            # Such a screen is told from its like by what it is about.
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
        """The screens in a line; when it is `spaced` each keeps its cells, whichever is shown."""
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
        """The screens that this app has with their keys; one without a key of its own comes last."""
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
                # Left to the app: the screen of this bar may be one that goes.
                self.app.call_later(self.app.run_action, f"app.{link.screen}")


class TitleBar(ScreenBar):
    """The screens and, at the right, what waits, who decides and where it is kept.

    `elsewhere` is the server on which sessions go on, if they do: whoever decides there has to see whose
    sessions these are, so its address goes after the operator's name. The `place` changes where a console
    goes on at another server.
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
        """The count of requests that wait is never what is dropped."""
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
        """The rest stands at the right."""
        return max(0, width - used - text.cell_length)


def _current(label: str, *, close: bool) -> Content:
    """The screen that is shown: reversed, and in ASCII between brackets as well."""
    opening, closing = "[]" if ascii_only() else ("", "") if close else "  "
    return Content.styled(f"{opening}{label}{closing}", "bold reverse")


def _other(screen: str, key: str, form: Form) -> Content:
    blank = " " if form == "spaced" else ""
    name = "" if form == "keys" else f" {screen}"
    return Content.assemble(blank, (key, "$text-accent"), (name, MUTED), blank)
