"""Any text by an agent stays text in a shell's command line."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine.agents import GlobTool, GrepTool, ReadTool, ToolError
from interlock.engine.agents.tools.text_limits import operand, quote
from tests.support.laws import examples

from .places import text

NASTY = st.text(
    st.one_of(
        st.sampled_from("'\"`$()\\\n\r\t -*?[]{}~!#&|;<>=%\x1b\x7f"),
        st.characters(exclude_characters="\0", exclude_categories=["Cs"]),
    ),
    max_size=40,
)


def shell_value(word: str) -> str:
    """Return a word as a real shell evaluates it."""
    done = subprocess.run(
        ["/bin/sh", "-c", f"printf '%s.' {word}"],
        capture_output=True,
        check=True,
        stdin=subprocess.DEVNULL,
    )
    return done.stdout.decode().removesuffix(".")


class TestQuote:
    @given(NASTY)
    @settings(max_examples=examples(200), deadline=None)
    def test_any_text(self, word: str) -> None:
        """§9: a real shell returns exactly the quoted text."""
        assert shell_value(quote(word)) == word

    @pytest.mark.parametrize(
        "word",
        [
            "",
            "'",
            "''",
            "'; touch ran; '",
            "$(touch ran)",
            "`touch ran`",
            "a\nb",
            "\\'",
            "-n",
            "--",
            "\\",
            "~",
            "*",
        ],
    )
    def test_known_tricks(self, word: str) -> None:
        """§9: no character is special in single quotes."""
        assert shell_value(quote(word)) == word

    @pytest.mark.parametrize(("word", "what"), [("a\0b", "NUL"), ("a\ud800", "surrogate")])
    def test_refused(self, word: str, what: str) -> None:
        """§9: text that a command line cannot hold is refused with the reason."""
        with pytest.raises(ToolError, match=f"The pattern holds .*{what}"):
            quote(word, "pattern")


class TestOperand:
    @given(NASTY.filter(bool))
    @settings(max_examples=examples(50), deadline=None)
    def test_path_is_never_an_option(self, path: str) -> None:
        """§9: a path starts with a slash or a dot, so that no command takes it for an option."""
        heard = shell_value(operand(path))
        assert heard in (path, f"./{path}")
        assert heard.startswith(("/", "./"))

    def test_empty(self) -> None:
        """§9: an empty path is refused."""
        with pytest.raises(ToolError, match="The path is empty"):
            operand("")


class TestTools:
    @pytest.mark.parametrize(
        "name",
        [
            "-rf",
            "--help",
            "a'b",
            'a"b',
            "$(touch ran)",
            "`touch ran`",
            "a\nb",
            "a b",
            "\\",
            "~",
            "[x]",
            "*",
        ],
    )
    async def test_strange_names(self, tmp_path: Path, name: str) -> None:
        """§9: files with any name are read, found and searched without side effects."""
        (tmp_path / name).write_text("needle\n")
        assert await text(ReadTool, tmp_path, path=name) == "needle\n"
        shown = name.replace("\n", "\\n")
        assert await text(GlobTool, tmp_path, pattern="*") == shown
        found = await text(GrepTool, tmp_path, pattern="needle", path=name)
        assert found == f"{name}:1:needle"
        assert os.listdir(tmp_path) == [name]

    @pytest.mark.slow
    @given(word=NASTY)
    @settings(max_examples=examples(40), deadline=None)
    async def test_no_argument_runs(self, tmp_path_factory: pytest.TempPathFactory, word: str) -> None:
        """§9: no argument of a search or read changes anything."""
        place = tmp_path_factory.mktemp("place")
        (place / "file").write_text("text")
        for tool, args in (
            (ReadTool, {"path": word}),
            (GlobTool, {"pattern": word}),
            (GlobTool, {"pattern": "x", "path": f"nope/{word}"}),
            (GrepTool, {"pattern": word or "x", "path": "file", "include": word.replace("/", "")}),
        ):
            try:
                await text(tool, place, **args)
            except ToolError:
                continue
        assert os.listdir(place) == ["file"]
        assert (place / "file").read_text() == "text"
