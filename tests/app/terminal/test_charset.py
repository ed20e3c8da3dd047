"""A terminal with ASCII only: the console's symbols are replaced, other text is not changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from interlock.app.terminal.appearance import Appearance
from interlock.app.terminal.charset import (
    STAND_INS,
    as_ascii,
    as_drawn,
    needs_ascii,
    remove_marks,
    to_charset,
    use_ascii,
    visible,
    with_certain_width,
)
from interlock.app.terminal.symbols import CALL, SESSION
from interlock.engine.core.sanitize import visible as escaped

from ..support.scenes import deploy_request, release_bot
from ..support.stage import stage
from ..support.views import BY_NAME, Shown, showing

ASCII = Appearance(ascii_only=True)
THEIRS = "café ● → … ■ “quoted” · 日本"


def check_ascii(on: Shown) -> None:
    """Check that no symbol of the console is painted; all other text in these scenes is ASCII."""
    assert {c for c in on.painted() if not c.isascii()} == set(), on.painted()


@pytest.fixture
def ascii_only() -> Iterator[None]:
    use_ascii(True)
    yield
    use_ascii(False)


class TestStandIns:
    def test_each_is_one_ascii_character(self) -> None:
        """Each stand-in is one ASCII character for a symbol of one cell, so the layout stays the same."""
        for symbol, stand_in in STAND_INS.items():
            assert cell_len(symbol) == 1, symbol
            assert len(stand_in) == 1
            assert stand_in.isascii()
            assert stand_in.isprintable()

    @pytest.mark.parametrize("looks", [SESSION, CALL], ids=["sessions", "calls"])
    def test_states_stay_distinguishable(self, looks: dict[str, object]) -> None:
        """States with different symbols have different ones in ASCII, too."""
        symbols = {look.symbol for look in looks.values()}  # type: ignore[attr-defined]
        assert len({as_ascii(symbol) for symbol in symbols}) == len(symbols)

    def test_levels_stay_distinguishable(self) -> None:
        """A sparkline has eight levels and a mark for zero."""
        assert len(set(as_ascii("·▁▂▃▄▅▆▇█"))) == 9

    def test_progress_bar_parts_stay_distinguishable(self) -> None:
        """The done and the remaining part of a progress bar look different."""
        assert as_ascii("━━──") == "==--"

    def test_borders_have_stand_ins(self) -> None:
        """Corners, edges and junctions of every border have stand-ins."""
        assert as_ascii("╭─╮ │ ╰─╯ ├ ┤ ┼ ┏━┓ ┃") == "+-+ | +-+ + + + +=+ |"


@pytest.mark.usefixtures("ascii_only")
class TestOthersText:
    def test_agent_text_is_painted_as_written(self) -> None:
        """An agent's characters that look like the console's symbols are not replaced."""
        assert as_ascii(visible(THEIRS)) == THEIRS

    def test_making_visible_twice_changes_nothing(self) -> None:
        """A text that is made visible twice is the same as after once."""
        assert as_ascii(visible(visible(THEIRS))) == THEIRS

    def test_agent_text_is_copied_as_written(self) -> None:
        """The clipboard gets the agent's own text."""
        assert remove_marks(visible(THEIRS)) == THEIRS

    @given(text=st.text().filter(lambda text: remove_marks(text) == text))
    def test_arbitrary_text_is_only_escaped(self, text: str) -> None:
        """Any text is painted as on any other terminal.

        The private characters that are marks in this process are random, but Hypothesis may find one.
        """
        assert as_ascii(visible(text)) == escaped(with_certain_width(text))

    def test_private_characters_are_escaped(self) -> None:
        """Private-use characters in a text are escaped instead of becoming symbols, except by chance."""
        shown = "".join(as_ascii(visible(chr(code))) for code in range(0xF0000, 0xFFFF0, 7))
        assert shown.count("\\U000f") > 9_000

    def test_console_symbol_inside_it_is_replaced(self) -> None:
        """A symbol of the console inside such a text is replaced at once."""
        assert as_ascii(visible(f"{to_charset('■')} blocked: a → b")) == "X blocked: a → b"

    def test_arrows_of_the_engine_are_replaced(self) -> None:
        """Arrows in the engine's descriptions of a change are replaced."""
        assert as_ascii(as_drawn("status idle → running")) == "status idle > running"


class TestOff:
    def test_text_is_unchanged(self) -> None:
        """On other terminals the text is what `engine.text` makes of it."""
        assert visible(THEIRS) == THEIRS
        assert to_charset("■") == "■"


class TestDetection:
    @pytest.mark.parametrize(
        ("environ", "expected"),
        [
            ({}, True),
            ({"LANG": "C"}, True),
            ({"LANG": "POSIX"}, True),
            ({"LANG": "en_US"}, True),
            ({"LANG": "de_DE.ISO-8859-1"}, True),
            ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, True),
            ({"LC_ALL": "C", "LANG": "en_US.UTF-8"}, True),
            ({"LANG": "en_US.UTF-8", "TERM": "linux"}, True),
            ({"LANG": "en_US.UTF-8", "TERM": "dumb"}, True),
            ({"LANG": "en_US.UTF-8", "TERM": "xterm-256color"}, False),
            ({"LANG": "de_DE.utf8@euro"}, False),
            ({"LANG": "C.UTF-8"}, False),
            ({"LC_CTYPE": "UTF-8"}, False),
            ({"LC_ALL": "C.UTF-8", "LANG": "C"}, False),
        ],
    )
    def test_by_locale_and_terminal(self, environ: dict[str, str], expected: bool) -> None:
        """ASCII is used if the locale's encoding is not UTF-8, and on terminals with few characters."""
        assert needs_ascii(environ) is expected


class TestScreens:
    @pytest.mark.slow
    async def test_layout_is_the_same_in_ascii(self, tmp_path: Path) -> None:
        """A screen in ASCII is the same screen, character by character, with stand-ins.

        In the key bar the signs of approve and deny are wider, to tell them apart. The current screen is
        between brackets, which are blanks elsewhere.
        """
        async with showing(BY_NAME["live-nets"], tmp_path, (80, 24)) as on:
            usual = on.painted()
        async with showing(BY_NAME["live-nets"], tmp_path, (80, 24), ASCII) as on:
            *lines, bar = on.painted().splitlines()
            lines[0] = lines[0].translate({ord("["): " ", ord("]"): " "})
            assert lines == as_ascii(usual).splitlines()[:-1]
            assert bar.isascii()

    @pytest.mark.slow
    async def test_agent_input_is_unchanged(self) -> None:
        """An agent's input is not changed, in the dialog and behind another panel."""
        state = release_bot()
        state.approvals["ap1"] = deploy_request(input={"command": f"echo {THEIRS}"})
        async with stage(state) as on:
            use_ascii(True)
            try:
                await on.open_dialog()
                assert f"echo {THEIRS}" in on.painted()
                await on.press("x")
                await on.until("Explain: deploy")
                assert THEIRS in on.painted()
            finally:
                use_ascii(False)

    @pytest.mark.slow
    async def test_copied_text_has_no_marks(self, tmp_path: Path) -> None:
        """The copied text contains no marks."""
        async with showing(BY_NAME["live"], tmp_path, (80, 24), ASCII) as on:
            on.app.copy_to_clipboard(visible(THEIRS))
            assert on.app.clipboard == THEIRS
