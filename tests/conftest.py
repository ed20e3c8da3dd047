"""Setup that each test process does once for all its tests."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from .support import textual_caches
from .support.laws import FULL, THOROUGH
from .support.memory import in_memory

if TYPE_CHECKING:
    from interlock.engine.history.database.location import PostgresLocation


def keep_files_in_memory() -> None:
    """Keep the tests' folders in memory if possible, so that journal commits do not wait for a disk."""
    if (folder := in_memory()) is not None:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(folder))


_ID_CHARACTERS = 80


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """Name a parameter with a very long text by its beginning and its length."""
    text = val.decode("latin-1") if isinstance(val, bytes) else val
    if not isinstance(text, str) or len(text) <= _ID_CHARACTERS:
        return None
    return f"{text[:_ID_CHARACTERS].encode('unicode_escape').decode()}... ({len(text)})"


def pytest_configure(config: pytest.Config) -> None:
    # The thorough run and `make caches` use Textual's original caches; the thorough run uses a disk.
    if not THOROUGH and os.environ.get("TEXTUAL_CACHES") != "shipped":
        textual_caches.install()
    if not THOROUGH:
        keep_files_in_memory()
    # With the default thresholds garbage collection takes a quarter of the tests' time.
    gc.set_threshold(1_000_000, 20, 50)
    # Defaults for property tests without their own number of examples. The usual profile tries the same
    # examples every time, so that no change fails for an older fault; the others look for new ones.
    settings.register_profile("usual", max_examples=20, deadline=None, derandomize=True)
    settings.register_profile("full", max_examples=50, deadline=None)
    settings.register_profile("thorough", max_examples=500, deadline=None)
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "usual"))
    if os.environ.get("INTERLOCK_TEST_DATABASE") == "postgresql":
        from .support.postgres import map_files

        def folder() -> Path:
            return config._tmp_path_factory.getbasetemp()

        map_files(cache(folder))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests that this run omits, and start with the longest tests.

    This way no process is left alone with them at the end. If a file is named on the command line, all of
    its tests run.
    """
    items.sort(key=lambda item: "crash" not in item.path.parts)
    if os.environ.get("INTERLOCK_TEST_DATABASE") == "postgresql":
        for item in items:
            if (mark := item.get_closest_marker("sqlite")) is not None:
                item.add_marker(pytest.mark.skip(reason=f"about SQLite's files: {mark.args[0]}"))
    if THOROUGH or any(".py" in name for name in config.args):
        return
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    tried: set[tuple[object, str]] = set()
    for item in items:
        (left_out if _is_left_out(item, tried) else kept).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept


def _is_left_out(item: pytest.Item, tried: set[tuple[object, str]]) -> bool:
    """Return whether only a longer run has this test; `tried` has tests whose first case is selected."""
    if item.get_closest_marker("thorough") is not None:
        return True
    if FULL:
        return False
    if item.get_closest_marker("slow") is not None:
        return True
    if item.get_closest_marker("variants") is None:
        return False
    test = (item.parent, getattr(item, "originalname", item.name))
    is_first = test not in tried
    tried.add(test)
    return not is_first


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Drop the PostgreSQL schemas that replaced a test's files, together with its folder."""
    folder = getattr(item, "funcargs", {}).get("tmp_path")
    yield
    if folder is not None and os.environ.get("INTERLOCK_TEST_DATABASE") == "postgresql":
        from .support.postgres import drop_below

        drop_below(folder)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Exclude imported modules and collected tests from garbage collection.

    They stay until the end, so they are not even collected once.
    """
    gc.freeze()


@pytest.fixture
def postgresql() -> Iterator[PostgresLocation]:
    """An empty location for a journal in PostgreSQL. Skips if PostgreSQL is not installed."""
    from .support.postgres import fresh_schema

    with fresh_schema() as location:
        yield location
