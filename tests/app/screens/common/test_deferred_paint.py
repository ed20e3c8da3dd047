"""A screen is painted once after each change has settled, and never left unpainted."""

from __future__ import annotations

import asyncio
from typing import ClassVar, NamedTuple

import pytest
from textual._compositor import Compositor, LayoutUpdate
from textual.app import App, ComposeResult
from textual.geometry import Size
from textual.screen import Screen
from textual.widgets import Label

from interlock.app.screens.common.deferred_paint import SettledScreen
from interlock.app.screens.common.panel import Panel


class Sized(SettledScreen[None]):
    """A screen that records its classes when it is composed."""

    HORIZONTAL_BREAKPOINTS: ClassVar[list[tuple[int, str]]] = [(0, "-narrow"), (100, "-wide")]
    VERTICAL_BREAKPOINTS: ClassVar[list[tuple[int, str]]] = [(0, "-low"), (20, "-high")]

    def compose(self) -> ComposeResult:
        self.first = frozenset(self.classes)
        yield Label("as it is")

    @property
    def label(self) -> Label:
        return self.query_one(Label)


class OnTop(Panel[None]):
    def compose(self) -> ComposeResult:
        yield Label("on top")


class Shown(App[None]):
    def get_default_screen(self) -> Screen[None]:
        return Sized()

    @property
    def sized(self) -> Sized:
        screen = self.screen_stack[0]
        assert isinstance(screen, Sized)
        return screen


class Paint(NamedTuple):
    """A paint, and all text on screen at that time."""

    update: object
    text: str

    @property
    def whole(self) -> bool:
        """Tell whether the whole screen was painted."""
        return isinstance(self.update, LayoutUpdate)


@pytest.fixture
def paints(monkeypatch: pytest.MonkeyPatch) -> list[Paint]:
    """All paints in order."""
    painted: list[Paint] = []
    render = Compositor.render_update

    def watched(self: Compositor, *args: object, **kwargs: object) -> object:
        update = render(self, *args, **kwargs)
        if update is not None:
            painted.append(Paint(update, "\n".join(strip.text for strip in self.render_strips())))
        return update

    monkeypatch.setattr(Compositor, "render_update", watched)
    return painted


async def until(paints: list[Paint]) -> None:
    """Wait for a paint without causing one, unlike a pilot's pause."""
    for _ in range(500):
        if paints:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("nothing was painted")


class TestFirst:
    """The state before the first layout."""

    @pytest.mark.parametrize(
        ("size", "classes"),
        [
            ((120, 40), {"-wide", "-high"}),
            ((60, 40), {"-narrow", "-high"}),
            ((120, 19), {"-wide", "-low"}),
        ],
    )
    async def test_size_classes_are_set_before_composing(
        self, size: tuple[int, int], classes: set[str]
    ) -> None:
        """The size's classes are set before the parts are composed, and the first layout adds none."""
        app = Shown()
        async with app.run_test(size=size):
            assert app.sized.first == classes
            assert set(app.sized.classes) == classes

    async def test_smaller_terminal_changes_the_classes(self) -> None:
        """A terminal that becomes smaller changes the classes."""
        app = Shown()
        async with app.run_test(size=(120, 40)) as pilot:
            await pilot.resize_terminal(60, 10)
            assert set(app.sized.classes) == {"-narrow", "-low"}

    async def test_new_screen_is_painted_in_full(self, paints: list[Paint]) -> None:
        """A new screen is painted in full without any further event."""
        app = Shown()
        async with app.run_test(size=(60, 10)) as pilot:
            await pilot.pause()
            assert any(each.whole and "as it is" in each.text for each in paints)


class TestLayouts:
    """A layout happens at once; its paint includes other changes."""

    async def test_several_are_painted_once(self, paints: list[Paint]) -> None:
        """Several layouts without a pause, and changes of widgets, are painted once."""
        app = Shown()
        async with app.run_test(size=(60, 10)) as pilot:
            await pilot.pause()
            paints.clear()
            for width in (40, 50, 60):
                app.sized._refresh_layout(Size(width, 10))
            app.sized.label.refresh()
            assert not paints
            app.sized._on_timer_update()
            assert len(paints) == 1
            assert paints[0].whole
            assert "as it is" in paints[0].text
            app.sized._on_timer_update()
            assert len(paints) == 1

    async def test_layout_is_painted_without_other_events(self, paints: list[Paint]) -> None:
        """A layout is painted even if nothing else causes a paint."""
        app = Shown()
        async with app.run_test(size=(60, 10)) as pilot:
            await pilot.pause()
            paints.clear()
            # Like the end of a layout, without its messages, which would cause a paint.
            app.sized._compositor._dirty_regions.add(app.size.region)
            app.sized._compositor_refresh()
            assert not paints
            await until(paints)

    async def test_batch_is_painted_at_its_end(self, paints: list[Paint]) -> None:
        """In a batch of changes the paint is left to Textual, at the end of the batch."""
        app = Shown()
        async with app.run_test(size=(60, 10)) as pilot:
            await pilot.pause()
            paints.clear()
            with app.batch_update():
                app.sized._refresh_layout(Size(50, 10))
            await until(paints)

    async def test_change_behind_a_panel_is_painted(self, paints: list[Paint]) -> None:
        """A change behind a panel is painted, too."""
        app = Shown()
        async with app.run_test(size=(60, 10)) as pilot:
            await app.push_screen(OnTop())
            await pilot.pause()
            paints.clear()
            app.sized.label.update("as it is now")
            await pilot.pause()
            await pilot.pause()
            shown = "\n".join(strip.text for strip in app.screen._compositor.render_strips())
            assert paints
            assert "as it is now" in shown
            assert "on top" in shown
