"""The garbage collector during the display of a new request."""

from __future__ import annotations

import gc

import pytest

from interlock.app.console.navigation import DialogManager
from interlock.app.terminal.gc import PaintFirst, bulk_load
from interlock.engine.history.model.events import ApprovalRequested

from ..support.scenes import deploy_request
from ..support.stage import stage


@pytest.fixture(autouse=True)
def unfrozen():
    """Unfreeze the objects that a load has excluded from collection."""
    yield
    gc.unfreeze()


class TestHolding:
    """The collector is off from a request to its paint, together with other reasons to switch it off."""

    def test_collector_is_off_between_begin_and_end(self) -> None:
        """The collector is off between `begin` and `end`; both may be called more than once."""
        paint = PaintFirst()
        paint.begin()
        paint.begin()
        assert not gc.isenabled()
        paint.end()
        assert gc.isenabled()
        paint.end()
        assert gc.isenabled()

    @pytest.mark.slow
    @pytest.mark.parametrize("load_first", [True, False])
    def test_collector_waits_for_load_and_paint(self, load_first: bool) -> None:
        """The collector is off until both a load and a paint have ended, in either order of begin."""
        paint, load = PaintFirst(), bulk_load()
        begin = [load.__enter__, paint.begin]
        end = [paint.end, lambda: load.__exit__(None, None, None)]
        for each in begin if load_first else begin[::-1]:
            each()
        end[0]()
        assert not gc.isenabled()
        end[1]()
        assert gc.isenabled()

    def test_disabled_collector_stays_off(self) -> None:
        """A collector that was off before the paint remains off."""
        gc.disable()
        try:
            paint = PaintFirst()
            paint.begin()
            paint.end()
            assert not gc.isenabled()
        finally:
            gc.enable()


class TestConsole:
    async def test_collector_is_off_while_dialog_opens(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Approvals: the collector is off while a new request's dialog opens, and on after the panes."""
        seen: list[bool] = []
        present = DialogManager.present

        async def watched(self: DialogManager, body: ApprovalRequested) -> bool:
            seen.append(gc.isenabled())
            return await present(self, body)

        monkeypatch.setattr(DialogManager, "present", watched)
        async with stage() as on:
            assert gc.isenabled()
            on.hub.request(deploy_request(id="new", call_id="new", tool="migrate"))
            await on.until("Approve: deploy")
            assert seen == [False]
            for _ in range(100):
                if gc.isenabled():
                    break
                await on.pilot.pause(0.02)
            assert gc.isenabled()

    @pytest.mark.slow
    async def test_collector_is_on_if_no_dialog_opens(self) -> None:
        """Approvals: the collector is on again if a new request does not open a dialog."""
        async with stage() as on:
            await on.open_dialog()
            on.hub.request(deploy_request(id="new", call_id="new"))
            await on.settle()
            assert gc.isenabled()

    @pytest.mark.slow
    async def test_collector_is_on_if_console_ends_early(self) -> None:
        """Approvals: a console that ends before the paint leaves the collector on."""
        async with stage() as on:
            on.app._paint_first.begin()
            assert not gc.isenabled()
        assert gc.isenabled()
