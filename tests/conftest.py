"""What every test process does once, so that none of its tests does it again and again."""

from __future__ import annotations

import gc
import os

import pytest
from hypothesis import settings
from textual import strip
from textual.color import Color
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.css.types import CSSLocation
from textual.filter import LineFilter
from textual.strip import Strip

from .support.laws import THOROUGH
from .support.memory import in_memory


def keep_parsed_styles() -> None:
    """Each app parses all of Textual's styles for a stylesheet of its own; the next finds them parsed.

    Textual keeps what it parsed in the same way, but only for one app.
    """
    parse = Stylesheet._parse_rules
    kept: dict[object, list[RuleSet]] = {}

    def parsed(
        self: Stylesheet,
        css: str,
        read_from: CSSLocation,
        is_default_rules: bool = False,
        tie_breaker: int = 0,
        scope: str = "",
    ) -> list[RuleSet]:
        source = (css, read_from, is_default_rules, tie_breaker, scope)
        key = (source, frozenset(self._variables.items()))
        if key not in kept:
            kept[key] = parse(self, *source)
        return kept[key]

    Stylesheet._parse_rules = parsed


class _Nothing:
    """A cache that keeps nothing."""

    def get(self, key: object, default: object = None) -> object:
        return default

    def __setitem__(self, key: object, value: object) -> None:
        pass


def keep_no_parts_of_strips() -> None:
    """Each painted line has seven caches of its parts, seldom asked in a console that lives for a second.

    Making them, and looking through them for garbage, took a tenth of the time of a console's test.
    """
    nothing = _Nothing()
    vars(strip)["FIFOCache"] = lambda _maxsize: nothing
    Strip.apply_filter = _filtered


def _filtered(self: Strip, line_filter: LineFilter, background: Color) -> Strip:
    """What a filter makes of a line is asked at every paint: the last stays where its cache would be."""
    kept = self._filter_cache
    if isinstance(kept, _Nothing) or kept[0] is not line_filter or kept[1] != background:
        made = Strip(line_filter.apply(self._segments, background), self._cell_length)
        kept = self._filter_cache = (line_filter, background, made)
    return kept[2]


def keep_files_in_memory() -> None:
    """The folder of each test is in memory where that can be: no commit of a journal waits for a disk."""
    if (folder := in_memory()) is not None:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(folder))


def pytest_configure() -> None:
    # The thorough run has Textual's caches as they ship, as has `make caches`, and files on a disk.
    if not THOROUGH and os.environ.get("TEXTUAL_CACHES") != "shipped":
        keep_parsed_styles()
        keep_no_parts_of_strips()
    if not THOROUGH:
        keep_files_in_memory()
    # By default garbage collections take a quarter of all the time of the tests.
    gc.set_threshold(1_000_000, 20, 50)
    # Laws that say no number of their own. `make thorough` tries ten times as many.
    settings.register_profile("usual", max_examples=50, deadline=None)
    settings.register_profile("thorough", max_examples=500, deadline=None)
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "usual"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The longest tests begin first, so that no process is left alone with them at the end.

    Those marked `thorough` are left out but where a file is named on the command line.
    """
    items.sort(key=lambda item: "crash" not in item.path.parts)
    if THOROUGH or any(".py" in name for name in config.args):
        return
    kept = [item for item in items if item.get_closest_marker("thorough") is None]
    config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("thorough")])
    items[:] = kept


def pytest_collection_finish(session: pytest.Session) -> None:
    """What was imported and collected stays to the end: the garbage collector need not look at it."""
    gc.collect()
    gc.freeze()
