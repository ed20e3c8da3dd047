"""Syntax highlighting of code that is shown for approval.

It only styles parts of a text that has been made visible before. No character is changed, and no style
makes text less visible, since a lexer may take for a comment what a shell runs.
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
"""Maximum characters of a highlighted text; a longer one stays plain."""
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
"""Styles within added or removed lines.

They have no colour, because the colour shows added or removed.
"""

Spans = tuple[Sequence[int], Sequence[int], Sequence[str]]
"""Starts and ends of parts, with their styles, in text order."""
NO_SPANS: Spans = ((), (), ())


def language_of(name: str, values: Mapping[str, JsonValue], shell_fields: Paths = ()) -> str | None:
    """Return the language of an input's field: the shell's, or that of the file whose content it is."""
    if is_shell_field(name, shell_fields):
        return "bash"
    if name not in CONTENTS:
        return None
    return file_language(next((v for each in PATHS if isinstance(v := values.get(each), str)), ""))


def file_language(path: str) -> str | None:
    """Return the language of a file by its suffix."""
    return LANGUAGES.get(PurePath(path).suffix.casefold())


@lru_cache(maxsize=512)
def json_spans(text: str, language: str) -> Spans:
    """Return the parts of code inside a JSON string, at their offsets there.

    Empty if the JSON has more escapes than a plain encoding, since the offsets would not match.
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
    """Return the styled parts of a text; empty if it is too long or the lexer fails.

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
    except Exception:  # a failing lexer leaves the text plain
        return NO_SPANS
    return starts, ends, styles


@lru_cache(maxsize=32)
def _lexer(language: str) -> Lexer:
    """Return the lexer of a language; lexers keep no state between texts."""
    # The library's types leave lexer options open.
    from pygments.lexers import get_lexer_by_name  # pyright: ignore[reportUnknownVariableType]

    return get_lexer_by_name(language)


@lru_cache(maxsize=256)
def _style(token: str, styles: tuple[tuple[str, str], ...]) -> str:
    return next((style for name, style in styles if token.startswith(name)), "")


def highlighted(row: str, at: int, spans: Spans, style: str = "") -> Content:
    """Return a row at offset `at` of a text, with the styles of its parts over its own style."""
    starts, ends, styles = spans
    found = [Span(0, len(row), style)] if style and row else []
    for index in range(max(0, bisect_right(starts, at) - 1), len(starts)):
        if starts[index] >= at + len(row):
            break
        start, end = max(0, starts[index] - at), min(len(row), ends[index] - at)
        if start < end:
            found.append(Span(start, end, styles[index]))
    return Content(row, found)
