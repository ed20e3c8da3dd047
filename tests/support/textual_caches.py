"""Caches for work that Textual repeats for each app, message or pause, shared in a test process.

The tests of `make caches` and the thorough run use Textual as it ships.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import cache
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import FunctionType, MethodType
from typing import Any
from weakref import WeakSet

from rich.console import RenderableType
from textual import _callback, active_app, strip
from textual._compositor import Compositor, LayoutUpdate
from textual._context import visible_screen_stack
from textual._on import OnNoWidget
from textual.app import App, ScreenStackError
from textual.cache import LRUCache
from textual.color import Color
from textual.css.match import match
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.css.types import CSSLocation
from textual.filter import LineFilter
from textual.geometry import Region
from textual.message import Message
from textual.message_pump import MessagePump
from textual.pilot import Pilot, WaitForScreenTimeout
from textual.screen import Screen
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget


def keep_parsed_styles() -> None:
    """Share parsed styles: each app parses all of Textual's styles for its own stylesheet.

    Textual has the same cache, but only for one app.
    """
    parse, parse_rules = Stylesheet.parse, Stylesheet._parse_rules
    kept: dict[object, tuple[list[RuleSet], dict[str, list[RuleSet]]]] = {}
    kept_rules: dict[object, list[RuleSet]] = {}

    def parsed(self: Stylesheet) -> None:
        """Parse the whole stylesheet, or reuse it with the map from its selectors to its rules."""
        key = (tuple(self.source.items()), frozenset(self._variables.items()))
        if key not in kept:
            parse(self)
            kept[key] = self.rules, self.rules_map
        self._rules, self._rules_map = kept[key]
        self._require_parse = False

    def parsed_rules(
        self: Stylesheet,
        css: str,
        read_from: CSSLocation,
        is_default_rules: bool = False,
        tie_breaker: int = 0,
        scope: str = "",
    ) -> list[RuleSet]:
        """Parse one of the stylesheet's sources, or reuse it for a stylesheet with other sources."""
        source = (css, read_from, is_default_rules, tie_breaker, scope)
        key = (source, frozenset(self._variables.items()))
        if key not in kept_rules:
            kept_rules[key] = parse_rules(self, *source)
        return kept_rules[key]

    Stylesheet.parse = parsed
    Stylesheet._parse_rules = parsed_rules


def keep_parsed_looks() -> None:
    """Share parsed styles in texts: they depend only on the theme's variables, not on the app."""
    set_variables = Stylesheet.set_variables
    kept: dict[object, LRUCache[str, Style]] = {}

    def set_and_kept(self: Stylesheet, variables: dict[str, str]) -> None:
        self._style_parse_cache = LRUCache(1)  # this one is emptied
        set_variables(self, variables)
        key = frozenset(variables.items())
        self._style_parse_cache = kept.setdefault(key, LRUCache(4096))

    Stylesheet.set_variables = set_and_kept


ROUNDS = 4
SIGNED = {"__wrapped__", "__signature__", "__text_signature__"}


class _Nothing:
    """A cache that stores nothing."""

    def get(self, key: object, default: object = None) -> object:
        return default

    def __setitem__(self, key: object, value: object) -> None:
        pass


def keep_no_parts_of_strips() -> None:
    """Replace the seven caches of each painted line's parts, which are rarely used within a second.

    Creating them, and scanning them for garbage, took a tenth of the time of a console's test.
    """
    nothing = _Nothing()
    vars(strip)["FIFOCache"] = lambda _maxsize: nothing
    Strip.apply_filter = _filtered


def _filtered(self: Strip, line_filter: LineFilter, background: Color) -> Strip:
    """Return the result of a filter, which is needed at every paint; only the last result is cached."""
    kept = self._filter_cache
    if isinstance(kept, _Nothing) or kept[0] is not line_filter or kept[1] != background:
        made = Strip(line_filter.apply(self._segments, background), self._cell_length)
        kept = self._filter_cache = (line_filter, background, made)
    return kept[2]


def keep_handlers() -> None:
    """Cache a message's handlers, which Textual looks up in all classes of a widget for each message."""
    MessagePump._get_dispatch_methods = _handlers


@cache
def _declared(pump: type, name: str, message: type[Message]) -> tuple[tuple[Any, ...], ...]:
    """Return each handler of a class for a message type: its class, function and selectors."""
    kinds = [each for each in message.__mro__ if issubclass(each, Message)]
    found: list[tuple[Any, ...]] = []
    for cls in pump.__mro__:
        decorated = cls.__dict__.get("_decorated_handlers") or {}
        for kind in kinds:
            found += ((cls, method, True, selectors) for method, selectors in decorated.get(kind, []))
        method = cls.__dict__.get(f"_{name}") or cls.__dict__.get(name)
        if method is not None and not getattr(method, "_textual_on", None):
            found.append((cls, method, False, {}))
    return tuple(found)


def _handlers(self: MessagePump, name: str, message: Message) -> Iterator[tuple[type, Any]]:
    """Yield handlers like Textual; a class's default is skipped once a handler has prevented it."""
    dispatched = set[Any]()
    begun: type | None = None
    for cls, method, decorated, selectors in _declared(type(self), name, type(message)):
        if cls is not begun and message._no_default_action:
            return
        begun = cls
        if decorated:
            if method in dispatched or not _selected(message, selectors):
                continue
            dispatched.add(method)
        yield cls, method.__get__(self, cls)


def _selected(message: Message, selectors: dict[str, Any]) -> bool:
    """Return whether a message's widgets match a handler's selectors."""
    if selectors and not message._sender:
        return False
    for attribute, selector in selectors.items():
        node = getattr(message, attribute)
        if node is not None and not isinstance(node, Widget):
            raise OnNoWidget(f"{attribute!r} of {message!r} is no widget")
        if node is None or not match(selector, node):
            return False
    return True


def count_parameters_at_once() -> None:
    """Avoid computing functions' whole signatures: each pause of a pilot creates new functions."""
    count = _callback._count_parameters

    def counted(function: Callable[..., object]) -> int:
        if isinstance(function, MethodType):
            return counted(function.__func__) - 1
        if not isinstance(function, FunctionType) or vars(function).keys() & SIGNED:
            return count(function)
        code = function.__code__
        variable = sum(bool(code.co_flags & flag) for flag in (CO_VARARGS, CO_VARKEYWORDS))
        return code.co_argcount + code.co_kwonlyargcount + variable

    vars(_callback)["_count_parameters"] = counted


def ask_no_idle_pumps() -> None:
    """Skip idle widgets in a pilot's pause, which posts a message to each widget."""
    Pilot._wait_for_screen = _wait_for_busy


async def _wait_for_busy(self: Pilot[Any], timeout: float = 30.0) -> bool:  # noqa: ASYNC109 - Textual's
    """Wait until the app and the widgets on its screen have handled their messages and the consequences.

    Returns `False` if the app failed in the meantime.
    """
    for _ in range(ROUNDS):
        try:
            pumps = (self.app, *self.app.screen.walk_children(with_self=True))
        except ScreenStackError:
            return False
        busy = [pump for pump in pumps if not _idles(pump)]
        if not busy:
            break
        if not await _handled(self.app, busy, timeout):
            return False
    await asyncio.sleep(0)
    return True


def _idles(pump: MessagePump) -> bool:
    """Return whether a pump waits for its next message, with none queued."""
    queue = pump._message_queue
    waiting = queue.ready_event._waiters and not queue.ready_event.is_set()
    return bool(waiting) and pump._pending_message is None and not pump._next_callbacks


async def _handled(app: App[Any], pumps: list[MessagePump], seconds: float) -> bool:
    left = 0
    done = asyncio.Event()

    def count() -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set()

    for pump in pumps:
        left += pump.call_later(count)
    if not left:
        return True
    waiting = [asyncio.create_task(each.wait()) for each in (done, app._exception_event)]
    _, pending = await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    if len(pending) == len(waiting):
        raise WaitForScreenTimeout(f"after {seconds} s widgets still have messages to handle")
    return left <= 0


def paint_once_for_nobody() -> None:
    """Paint a screen only when it is read or left: without a terminal nobody sees intermediate states.

    Pictures, and what tests read as text, are composed as usual. A screen that nothing has read is
    painted when another one covers it and when its app ends, so that painting errors still fail. Lists
    that count painted rows as seen are painted each time, without their surroundings.
    """
    update = Compositor.render_update
    suspended = Screen._on_screen_suspend
    end = App._shutdown
    unpainted = WeakSet[Compositor]()

    def painted(
        self: Compositor,
        full: bool = False,
        screen_stack: list[Screen[Any]] | None = None,
        simplify: bool = False,
    ) -> RenderableType | None:
        if full or not active_app.get().is_headless:
            return update(self, full, screen_stack, simplify)
        visible_screen_stack.set(screen_stack or [])
        regions = self._dirty_regions.copy()
        self._dirty_regions.clear()
        if not regions:
            return None
        unpainted.add(self)
        _paint_counting(self, Region.from_union(regions))
        return LayoutUpdate([], self.size.region)

    def paint(compositor: Compositor) -> None:
        if compositor in unpainted:
            unpainted.discard(compositor)
            for _ in compositor._get_renders():
                pass

    def leave(self: Screen[Any]) -> None:
        over = self.app.screen
        # A dialog also paints what lies behind it.
        if over is self or not over.is_modal:
            paint(self._compositor)
        suspended(self)

    async def shut_down(self: App[Any]) -> None:
        try:
            if self.is_headless and self._screen_stack and self._exception is None:
                paint(self.screen._compositor)
        except Exception as error:
            self._handle_exception(error)
        finally:
            await end(self)

    Compositor.render_update = painted
    Screen._on_screen_suspend = leave
    App._shutdown = shut_down


def _paint_counting(compositor: Compositor, changed: Region) -> None:
    """Paint the lists that count painted rows, where they overlap the changed region."""
    for widget, (region, clip) in compositor.visible_widgets.items():
        if isinstance(widget, _counting_paints()) and changed.overlaps(clip):
            seen = region.intersection(clip)
            if seen:
                widget.render_lines(seen.translate(-region.offset))


@cache
def _counting_paints() -> tuple[type[Widget], ...]:
    from interlock.app.widgets.approval.reviewed_list import ReviewedList
    from interlock.app.widgets.approval.triage_list import TriageList

    return ReviewedList, TriageList


def install() -> None:
    """Install all caches."""
    keep_parsed_styles()
    keep_parsed_looks()
    keep_no_parts_of_strips()
    keep_handlers()
    count_parameters_at_once()
    ask_no_idle_pumps()
    paint_once_for_nobody()
