"""A terminal that has ASCII only: stand-ins for our symbols, nobody else's characters touched."""

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
    """No symbol of ours is painted; what others wrote in the scenes of the views is ASCII."""
    assert {c for c in on.painted() if not c.isascii()} == set(), on.painted()


@pytest.fixture
def ascii_only() -> Iterator[None]:
    use_ascii(True)
    yield
    use_ascii(False)


class TestStandIns:
    def test_each_takes_the_place_of_one_cell(self) -> None:
        """A stand-in is one ASCII character for one that takes one cell, so that nothing moves."""
        for symbol, stand_in in STAND_INS.items():
            assert cell_len(symbol) == 1, symbol
            assert len(stand_in) == 1
            assert stand_in.isascii()
            assert stand_in.isprintable()

    @pytest.mark.parametrize("looks", [SESSION, CALL], ids=["sessions", "calls"])
    def test_states_stay_apart(self, looks: dict[str, object]) -> None:
        """Two states that differ by their symbol do so in ASCII."""
        symbols = {look.symbol for look in looks.values()}  # type: ignore[attr-defined]
        assert len({as_ascii(symbol) for symbol in symbols}) == len(symbols)

    def test_levels_stay_apart(self) -> None:
        """A sparkline has eight levels and a mark for none."""
        assert len(set(as_ascii("·▁▂▃▄▅▆▇█"))) == 9

    def test_a_progress_bar_keeps_its_end(self) -> None:
        """What is done and what is left look different."""
        assert as_ascii("━━──") == "==--"

    def test_frames(self) -> None:
        """Corners, edges and junctions of every border."""
        assert as_ascii("╭─╮ │ ╰─╯ ├ ┤ ┼ ┏━┓ ┃") == "+-+ | +-+ + + + +=+ |"


@pytest.mark.usefixtures("ascii_only")
class TestOthersText:
    def test_it_is_painted_as_written(self) -> None:
        """Characters of an agent that look like ours stay what they are."""
        assert as_ascii(visible(THEIRS)) == THEIRS

    def test_once_or_twice(self) -> None:
        """What was made visible may be so again."""
        assert as_ascii(visible(visible(THEIRS))) == THEIRS

    def test_it_is_copied_as_written(self) -> None:
        """The clipboard gets what the agent wrote."""
        assert remove_marks(visible(THEIRS)) == THEIRS

    @given(text=st.text().filter(lambda text: remove_marks(text) == text))
    def test_any_text_is_only_escaped(self, text: str) -> None:
        """A text is painted as on any other terminal.

        Nobody knows which private characters are marks in this process, but Hypothesis may find one.
        """
        assert as_ascii(visible(text)) == escaped(with_certain_width(text))

    def test_private_characters_are_escaped(self) -> None:
        """Whoever writes characters for private use does not get a symbol for one, but for chance."""
        shown = "".join(as_ascii(visible(chr(code))) for code in range(0xF0000, 0xFFFF0, 7))
        assert shown.count("\\U000f") > 9_000

    def test_ours_in_it(self) -> None:
        """A symbol of ours that goes through the same door is a stand-in at once."""
        assert as_ascii(visible(f"{to_charset('■')} blocked: a → b")) == "X blocked: a → b"

    def test_the_engine_s_arrows(self) -> None:
        """What the engine tells of a change has arrows of ours."""
        assert as_ascii(as_drawn("status idle → running")) == "status idle > running"


class TestOff:
    def test_nothing_changes(self) -> None:
        """On other terminals text is what `engine.text` makes of it."""
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
        """ASCII where the locale's encoding is not UTF-8, and on terminals that have few characters."""
        assert needs_ascii(environ) is expected


class TestScreens:
    @pytest.mark.slow
    async def test_the_same_cells_are_taken(self, tmp_path: Path) -> None:
        """A screen in ASCII is the screen, character by character, with stand-ins.

        In the bar of keys the signs of approve and deny are wider, to be told apart; the screen that is
        shown stands between brackets, which are blanks elsewhere.
        """
        async with showing(BY_NAME["live-nets"], tmp_path, (80, 24)) as on:
            usual = on.painted()
        async with showing(BY_NAME["live-nets"], tmp_path, (80, 24), ASCII) as on:
            *lines, bar = on.painted().splitlines()
            lines[0] = lines[0].translate({ord("["): " ", ord("]"): " "})
            assert lines == as_ascii(usual).splitlines()[:-1]
            assert bar.isascii()

    @pytest.mark.slow
    async def test_an_agent_s_input_is_shown_as_it_is(self) -> None:
        """In the dialog, and dimmed behind another panel."""
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
    async def test_the_clipboard(self, tmp_path: Path) -> None:
        """Copying gives no marks."""
        async with showing(BY_NAME["live"], tmp_path, (80, 24), ASCII) as on:
            on.app.copy_to_clipboard(visible(THEIRS))
            assert on.app.clipboard == THEIRS
