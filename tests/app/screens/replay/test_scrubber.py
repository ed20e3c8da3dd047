"""The scrubber: marks, position, clicks and drags."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from textual.app import App, ComposeResult

from interlock.app.viewmodels.marks import Mark, marks_of
from interlock.app.widgets.replay.scrubber import Scrubber
from interlock.engine.history.model.events import ApprovalRequested
from tests.support.decisions import call

from .recording import BODIES, recording


class Track(App[None]):
    """An app with one scrubber that goes to each requested position."""

    def __init__(self, total: int, marks: dict[int, Mark]) -> None:
        super().__init__()
        self.scrubber = Scrubber(total, marks, start="14:00:00", end="14:02:20")

    def compose(self) -> ComposeResult:
        yield self.scrubber

    def on_scrubber_chosen(self, message: Scrubber.Chosen) -> None:
        message.scrubber.position = message.position

    @property
    def line(self) -> str:
        return str(self.scrubber.render()).split("\n", maxsplit=1)[0]


class TestMarks:
    """The events that get a mark."""

    def test_blocks_decided_calls_and_switches_are_marked(self) -> None:
        """Blocked calls, calls decided by an operator, and rules switched off are marked."""
        assert marks_of(recording()) == {5: "block", 22: "approval", 26: "block", 27: "off"}

    def test_unanswered_request_is_marked_at_its_event(self) -> None:
        """A request without an answer is marked at its own event."""
        asked = next(i for i, body in enumerate(BODIES) if isinstance(body, ApprovalRequested))
        assert marks_of(recording(BODIES[: asked + 1]))[asked + 1] == "approval"

    def test_shadow_calls_have_their_own_marks(self) -> None:
        """G-26: calls that enforce would have blocked or asked have other marks than blocked ones."""
        bodies = [
            call(f"c{n}", "rm", "rm x", outcome, "block-rm", mode=mode)
            for n, (mode, outcome) in enumerate(
                [("shadow", "block"), ("shadow", "ask"), ("shadow", "allow"), ("enforce", "block")]
            )
        ]
        assert marks_of(recording(bodies)) == {1: "would-block", 2: "would-ask", 4: "block"}


class TestTrack:
    """The content of the line."""

    async def test_shadow_marks_and_their_legend(self) -> None:
        """The legend counts shadow marks separately. A block hides them on a shared cell."""
        app = Track(21, {6: "would-block", 11: "would-ask", 16: "block", 17: "would-block"})
        async with app.run_test(size=(81, 4)):
            app.scrubber.position = 21
            assert app.line.count("S") == 3
            legend = app.scrubber.render().plain.split("\n")[1]
            assert "■ 1 blocked   S 2 would block   S 1 would ask" in legend
            app.scrubber.renew(10_000, {5120: "would-block", 5121: "block"}, ("", ""))
            assert "S" not in app.scrubber.render().plain.split("\n")[0]

    async def test_each_mark_has_its_symbol(self) -> None:
        """Blocks, approvals, the position and the ends each have a symbol."""
        app = Track(21, {6: "block", 11: "approval"})
        async with app.run_test(size=(41, 4)):
            app.scrubber.position = 16
            assert app.line == "├─────────■─────────◐─────────●─────────┤"

    async def test_a_block_hides_an_approval_on_the_same_cell(self) -> None:
        """If many events share a cell, the cell shows the block."""
        app = Track(10_000, {5120: "approval", 5121: "block", 5122: "approval"})
        async with app.run_test(size=(40, 4)):
            assert "■" in app.line
            assert "◐" not in app.line

    async def test_single_event_and_tiny_scrubber(self) -> None:
        """A session of one event and a scrubber of three cells cause no error."""
        app = Track(1, {1: "block"})
        async with app.run_test(size=(3, 2)) as pilot:
            app.scrubber.position = 1
            await pilot.click(Scrubber, offset=(0, 0))
            assert app.scrubber.position == 1

    @given(
        total=st.integers(min_value=1, max_value=5000),
        width=st.integers(min_value=4, max_value=300),
        data=st.data(),
    )
    def test_cell_of_a_number_leads_back_to_it(self, total: int, width: int, data: st.DataObject) -> None:
        """The cell of a number leads back to a number of the same cell."""
        number = data.draw(st.integers(min_value=1, max_value=total))
        scrubber = Scrubber(total, {})
        cell = scrubber.column(number, width)
        assert 0 <= cell < width
        assert scrubber.column(scrubber.number_at(cell, width), width) == cell


class TestPointer:
    """Clicks and drags."""

    async def test_click_goes_to_the_event(self) -> None:
        """A click goes to the event under it."""
        app = Track(41, {})
        async with app.run_test(size=(41, 4)) as pilot:
            await pilot.click(Scrubber, offset=(30, 0))
            assert app.scrubber.position == 31

    async def test_click_on_a_mark_goes_to_the_marked_event(self) -> None:
        """In a long session a click on a mark goes to the marked event among all in its cell."""
        app = Track(100_000, {50_017: "block"})
        async with app.run_test(size=(41, 4)) as pilot:
            await pilot.click(Scrubber, offset=(20, 0))
            assert app.scrubber.position == 50_017

    async def test_position_follows_the_dragged_pointer(self) -> None:
        """While the button is held, the position follows the pointer."""
        app = Track(41, {})
        async with app.run_test(size=(41, 4)) as pilot:
            await pilot.mouse_down(Scrubber, offset=(3, 0))
            await pilot.hover(Scrubber, offset=(20, 0))
            assert app.scrubber.position == 21
            await pilot.mouse_up(Scrubber, offset=(20, 0))
            await pilot.hover(Scrubber, offset=(5, 0))
            assert app.scrubber.position == 21
