"""Every view of the console once: what it has to show, what its palette lists, whether it can be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.app.test_palette import check_palette
from tests.app.test_sizes import check_size
from tests.app.test_theme import check_contrast
from tests.app.views import BY_NAME, NAMES, showing


class TestEveryView:
    @pytest.mark.parametrize("name", NAMES)
    async def test_shows_acts_and_can_be_read(
        self, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """At 80 columns nothing essential is cut off, each action is a command, and no word is faint."""
        monkeypatch.chdir(tmp_path)
        async with showing(BY_NAME[name], tmp_path, (80, 24)) as on:
            check_size(on, name)
            # The palette does not list itself.
            if not name.startswith("palette"):
                check_palette(on)
            await check_contrast(on)
