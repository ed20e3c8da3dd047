"""Markdown of agents' messages as rows: styled, wrapped, and shown only as text."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.app.format.markdown import markdown_height, markdown_rows
from interlock.app.format.text import width_of, wrap

from ...support.laws import examples

MARKED = st.lists(
    st.one_of(
        st.text("ab `*_#>-[]()!\\é日\n", max_size=60),
        st.sampled_from(["```", "~~~", "# head", "- item " + "word " * 12, "> quote", "1. one"]),
    ),
    max_size=8,
).map("\n".join)


def texts(text: str, width: int = 60) -> list[str]:
    return [row.plain for row in markdown_rows(text, width)]


def style_of(text: str, word: str) -> str:
    """The styles of `word` in the first row."""
    row = markdown_rows(text, 60)[0]
    start = row.plain.index(word)
    return " ".join(
        str(span.style) for span in row.spans if span.start <= start and span.end >= start + len(word)
    )


class TestMarkdown:
    def test_emphasis_and_code(self) -> None:
        """The marks are removed and their words styled."""
        text = "All **tests** pass in `make test`, *really*."
        assert texts(text) == ["All tests pass in make test, really."]
        assert "bold" in style_of(text, "tests")
        assert "accent" in style_of(text, "make test")
        assert "italic" in style_of(text, "really")

    def test_headings_lists_and_quotes(self) -> None:
        """A heading loses its hashes. The continuation of an item is indented."""
        assert texts("## Plan\n- lint the files first\n> as asked", 16) == [
            "Plan",
            "- lint the ",
            "  files first",
            "> as asked",
        ]

    def test_a_block_of_code(self) -> None:
        """A code block keeps its text without fences. An unfinished block continues to the end."""
        assert texts("Run:\n```sh\nls *a* `b`\n```\nDone") == ["Run:", "  ls *a* `b`", "Done"]
        assert texts("```\n# no heading") == ["  # no heading"]

    def test_links_are_text(self) -> None:
        """A link shows its address and cannot be clicked. An image is not fetched."""
        rows = markdown_rows("See [docs](http://evil.example/x) ![a cat](http://evil.example/c.png)", 90)
        assert [row.plain for row in rows] == [
            "See docs (http://evil.example/x) image: a cat (http://evil.example/c.png)"
        ]
        assert not any("@click" in str(span.style) or "link" in str(span.style) for span in rows[0].spans)

    def test_names_and_patterns_stay(self) -> None:
        """A text that only looks like Markdown stays as it is."""
        for text in ("__init__ and snake_case", "*.py and *.ts", "2 * 3 * 4", "a ** b", "[x] done"):
            assert texts(text) == [text]

    def test_controls_are_visible(self) -> None:
        """Escape sequences and Textual's markup are shown as text."""
        [row] = texts("**\x1b[31mred\x1b[0m** [@click=app.quit]x[/]")
        assert "\x1b" not in row
        assert "[@click=app.quit]x[/]" in row

    @given(MARKED, st.integers(2, 60))
    @settings(max_examples=examples(300), deadline=None)
    def test_rows_fit(self, text: str, width: int) -> None:
        """Law: no row is wider than requested, and the number of rows is computed without them."""
        rows = markdown_rows(text, width)
        assert len(rows) == markdown_height(text, width)
        assert all(width_of(row.plain) <= max(2, width) for row in rows)

    @given(st.text("ab é日\u0301▍", max_size=200), st.integers(2, 30))
    @settings(max_examples=examples(300), deadline=None)
    def test_every_character_is_kept(self, line: str, width: int) -> None:
        """Law: folding a line keeps all its characters."""
        assert "".join(wrap(line, width)) == line

    def test_words_are_kept_whole(self) -> None:
        """A line with a character beyond ASCII is folded at spaces."""
        line = "the quick brown fox jumps over the lazy dog and watches"
        folded = wrap(f"{line} ▍", 20)
        assert [row.strip() for row in folded[:2]] == ["the quick brown fox", "jumps over the lazy"]
        assert all(set(row.split()) <= {*line.split(), "▍"} for row in folded)
