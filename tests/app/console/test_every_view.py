"""Every view of the console, with and without colours: required and forbidden content.

One visit covers several checks, because the start of a console takes longer than a check.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ...support.laws import THOROUGH
from ..support.views import BY_NAME, NAMES, VARIANTS, showing
from ..terminal.test_charset import ASCII, check_ascii
from ..terminal.test_keymap import check_keys, mark_keys
from ..terminal.test_no_color import check_focus, check_grey
from ..terminal.test_theme import check_contrast
from .test_palette import check_palette
from .test_sizes import check_size

EACH = [pytest.param(name, marks=pytest.mark.thorough if name in VARIANTS else ()) for name in NAMES]


class TestEveryView:
    @pytest.mark.variants
    @pytest.mark.parametrize("name", EACH)
    async def test_essential_text_actions_and_contrast(
        self, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """At 80 columns essential text is visible, each action is a command, and contrast suffices."""
        monkeypatch.chdir(tmp_path)
        async with showing(BY_NAME[name], tmp_path, (80, 24)) as on:
            check_size(on, name)
            # The palette does not list itself.
            if not name.startswith("palette"):
                check_palette(on)
            await check_contrast(on)

    @pytest.mark.slow
    @pytest.mark.parametrize("name", EACH)
    async def test_ascii_and_grey_output(
        self, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """With ASCII and without colours a view has only ASCII, greys and the keys of the keymap."""
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("NO_COLOR", "1")
        mark_keys(monkeypatch)
        async with showing(BY_NAME[name], tmp_path, (120, 40), ASCII) as on:
            check_keys(on)
            check_ascii(on)
            check_grey(on)
            # Each change is shown at its greatest width; the thorough run checks 80 columns too.
            if THOROUGH:
                await on.pilot.resize_terminal(80, 24)
                check_ascii(on)
                check_grey(on)
            await check_focus(on)
