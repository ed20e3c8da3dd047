"""Syntax highlighting of code that is shown for approval.

It only gives styles to parts of a text that was made visible before; no character is changed, and nothing
is made less visible: a lexer may take for a comment what a shell runs.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import PurePath
from typing import TYPE_CHECKING

from pydantic import JsonValue
from textual.content import Content, Span

from ...engine.agents.tools.diff import CONTENTS, PATHS
from ...engine.history.redaction.shell.masking import Paths, is_shell_field

if TYPE_CHECKING:
    from pygments.lexer import Lexer

MOST = 20_000
"""Characters of a text that is highlighted; a longer one stays plain."""
LANGUAGES = {
    ".sh": "bash",
    ".bash": "bash",
    ".py": "python",
    ".js": "javascript",
    ".ts": "typescript",
    ".json": "json",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".toml": "toml",
    ".go": "go",
    ".rs": "rust",
    ".rb": "ruby",
    ".java": "java",
    ".c": "c",
    ".h": "c",
    ".cpp": "cpp",
    ".html": "html",
    ".css": "css",
    ".sql": "sql",
}
STYLES = (
    ("Token.Comment", "italic"),
    ("Token.Literal.String", "$text-success"),
    ("Token.Literal.Number", "$text-warning"),
    ("Token.Keyword", "bold $text-accent"),
    ("Token.Name.Builtin", "$text-accent"),
    ("Token.Name.Function", "$text-primary"),
    ("Token.Name.Variable", "$text-secondary"),
    ("Token.Operator", "bold"),
)

DIFF_STYLES = (
    ("Token.Comment", "italic"),
    ("Token.Keyword", "bold"),
    ("Token.Name.Function", "bold"),
    ("Token.Name.Variable", "bold"),
    ("Token.Operator", "bold"),
)
"""Styles within a line that comes or goes: none has a colour, for that says which of both it does."""

Spans = tuple[Sequence[int], Sequence[int], Sequence[str]]
"""Beginnings and ends of parts, with their styles, in the order of the text."""
NO_SPANS: Spans = ((), (), ())


def language_of(name: str, values: Mapping[str, JsonValue], shell_fields: Paths = ()) -> str | None:
    """The language of an input's field: a shell's, or that of the file whose content it is."""
    if is_shell_field(name, shell_fields):
        return "bash"
    if name not in CONTENTS:
        return None
    return file_language(next((v for each in PATHS if isinstance(v := values.get(each), str)), ""))


def file_language(path: str) -> str | None:
    """The language of a file, by how its name ends."""
    return LANGUAGES.get(PurePath(path).suffix.casefold())


@lru_cache(maxsize=512)
def json_spans(text: str, language: str) -> Spans:
    """The parts of code inside a JSON text, at their positions there.

    None where the JSON is shown with more escapes than it has: its letters are then not where they seem.
    """
    try:
        code: object = json.loads(text)
    except ValueError:
        return NO_SPANS
    if not isinstance(code, str):
        return NO_SPANS
    places = [1]
    for letter in code:
        places.append(places[-1] + len(json.dumps(letter, ensure_ascii=False)) - 2)
    if places[-1] != len(text) - 1:
        return NO_SPANS
    starts, ends, styles = code_spans(code, language)
    return [places[at] for at in starts], [places[at] for at in ends], styles


@lru_cache(maxsize=512)
def code_spans(text: str, language: str, *, in_diff: bool = False) -> Spans:
    """The parts of a text that have a style; none where it is too long, or cannot be read.

    With `in_diff` no style has a colour.
    """
    if len(text) > MOST:
        return NO_SPANS
    starts: list[int] = []
    ends: list[int] = []
    styles: list[str] = []
    try:
        for at, token, part in _lexer(language).get_tokens_unprocessed(text):
            style = _style(str(token), DIFF_STYLES if in_diff else STYLES)
            if style and part:
                starts.append(at)
                ends.append(at + len(part))
                styles.append(style)
    except Exception:  # A lexer that fails leaves the text as plain as it was.
        return NO_SPANS
    return starts, ends, styles


@lru_cache(maxsize=32)
def _lexer(language: str) -> Lexer:
    """The lexer of a language, which keeps nothing of the texts that it reads."""
    # What is known of its types leaves the options of lexers open.
    from pygments.lexers import get_lexer_by_name  # pyright: ignore[reportUnknownVariableType]

    return get_lexer_by_name(language)


@lru_cache(maxsize=256)
def _style(token: str, styles: tuple[tuple[str, str], ...]) -> str:
    return next((style for name, style in styles if token.startswith(name)), "")


def highlighted(row: str, at: int, spans: Spans, style: str = "") -> Content:
    """A row of a text, which begins at `at`, with the styles of its parts above its own."""
    starts, ends, styles = spans
    found = [Span(0, len(row), style)] if style and row else []
    for index in range(max(0, bisect_right(starts, at) - 1), len(starts)):
        if starts[index] >= at + len(row):
            break
        start, end = max(0, starts[index] - at), min(len(row), ends[index] - at)
        if start < end:
            found.append(Span(start, end, styles[index]))
    return Content(row, found)
