"""The garbage collector during a large load."""

from __future__ import annotations

import gc
import threading

import pytest

from interlock.app.terminal.gc import bulk_load


@pytest.fixture(autouse=True)
def unfrozen():
    """Return frozen objects to the collector."""
    yield
    gc.unfreeze()


class TestBulkLoad:
    """The collector is off during a load, and on again afterwards."""

    @pytest.mark.slow
    def test_collector_is_off_during_a_load(self) -> None:
        """The collector is off inside, on outside, and the loaded objects are frozen."""
        before = gc.get_freeze_count()
        with bulk_load():
            assert not gc.isenabled()
            loaded = [[n] for n in range(1000)]
        assert gc.isenabled()
        assert gc.get_freeze_count() > before + len(loaded) / 2

    def test_collector_is_on_after_an_error(self) -> None:
        """The collector is on again after an error."""
        with pytest.raises(KeyError), bulk_load():
            raise KeyError("gone")
        assert gc.isenabled()

    def test_collector_is_off_until_the_last_load_ends(self) -> None:
        """The collector is off until the last of several loads has ended."""
        inside, go_on = threading.Event(), threading.Event()

        def load() -> None:
            with bulk_load():
                inside.set()
                go_on.wait(10)

        thread = threading.Thread(target=load)
        thread.start()
        assert inside.wait(10)
        with bulk_load():
            pass
        assert not gc.isenabled()
        go_on.set()
        thread.join(10)
        assert gc.isenabled()

    def test_disabled_collector_stays_off(self) -> None:
        """A collector that was already off stays off."""
        gc.disable()
        try:
            with bulk_load():
                pass
            assert not gc.isenabled()
        finally:
            gc.enable()
