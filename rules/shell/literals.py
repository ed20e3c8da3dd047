"""Literal words of a command: a program gets exactly what is written.

Masking may hide only these parts of words in a command, such as secrets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from .command_reader import SimpleCommand
from .syntax_tree import MAX_BYTES, MAX_MARKS, Source, parse
from .words import word_of

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_NESTING = 200
_READ_DIFFERENTLY = re.compile("[\0\v\f\r\ud800-\udfff]|\\\\\n|\\$['\"]")
"""Text that shells and the grammar parse differently, so that it is left undecided."""
_WORDS = frozenset(
    (
        "command_name",
        "comment",
        "concatenation",
        "heredoc_body",
        "number",
        "raw_string",
        "string",
        "variable_assignment",
        "word",
    )
)
_SUBSTITUTIONS = frozenset(("command_substitution", "process_substitution"))
_PLAIN = frozenset(("comment", "word", "number", "variable_name", "string_content", "heredoc_content"))
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(?:\[[^]]*\])?\+?=")
_BEFORE_COMMENT = re.compile(rb"(?:\A|[ \t\n;&|(])\Z")


class LiteralWord(NamedTuple):
    """A word and its location in the text, in characters; `parts` are its literal parts."""

    start: int
    end: int
    parts: tuple[tuple[int, int], ...]


def literal_words(text: str) -> tuple[LiteralWord, ...] | None:
    """Words of a shell command, including those in substitutions, that have a literal part.

    A here-document is one word, and so is a comment. `None` for a text that is not a complete command, or
    that shells parse differently. Names of programs are ordinary words.
    """
    if not text.strip() or len(text) > MAX_BYTES or _READ_DIFFERENTLY.search(text):
        return None
    source = Source(text.encode())
    if len(source) > MAX_BYTES or source.marks > MAX_MARKS:
        return None
    root = parse(source)
    if root.has_error:
        return None
    found: list[LiteralWord] = []
    waiting = [(root, 0, False)]
    while waiting:
        node, nesting, is_inside = waiting.pop()
        if nesting > MAX_NESTING or _may_be_none(node, source):
            return None
        if node.type in _WORDS and not is_inside:
            parts = tuple(_parts(node, source))
            if parts:
                found.append(LiteralWord(node.start_byte, node.end_byte, parts))
            is_inside = True
        elif node.type in _SUBSTITUTIONS:
            is_inside = False
        waiting += [(child, nesting + 1, is_inside) for child in node.named_children]
    return tuple(found if text.isascii() else (_in_characters(word, source) for word in found))


def programs(commands: Iterable[SimpleCommand]) -> frozenset[str]:
    """Names of the programs that commands run."""
    found = (text.split(maxsplit=1) for command in commands for text in command.texts)
    return frozenset(words[0] for words in found if words and not _ASSIGNMENT.match(words[0]))


def _may_be_none(node: Node, source: Source) -> bool:
    """Return whether a comment or here-document of the grammar may be neither in a shell."""
    if node.type == "comment":
        return not _BEFORE_COMMENT.search(source[max(0, node.start_byte - 1) : node.start_byte])
    if node.type != "heredoc_redirect":
        return False
    ends = [child for child in node.children if child.type == "heredoc_end"]
    starts = [child for child in node.children if child.type == "heredoc_start"]
    if not ends or not starts:
        return True
    mark = source[starts[0].start_byte : starts[0].end_byte].strip(b"'\"")
    first = source.rfind(b"\n", 0, ends[0].end_byte) + 1
    last = source.find(b"\n", ends[0].end_byte)
    line = source[first : len(source) if last < 0 else last].lstrip(b"\t")
    return line != mark or not mark.isalnum()


def _parts(node: Node, source: Source) -> Iterator[tuple[int, int]]:
    """Literal parts of a word, without its quotes and the substitutions in it."""
    match node.type:
        case "raw_string":
            if node.end_byte - node.start_byte > 2:
                yield node.start_byte + 1, node.end_byte - 1
        case "string":
            yield from _between(node, node.start_byte + 1, node.end_byte - 1)
        case "heredoc_body":
            yield from _between(node, node.start_byte, node.end_byte)
        case "variable_assignment":
            value = node.child_by_field_name("value")
            if value is not None:
                yield from _parts(value, source)
        case "concatenation" | "command_name":
            for child in node.named_children:
                yield from _parts(child, source)
        case kind if kind in _PLAIN:
            if kind != "word" or word_of(node, source).known:
                yield node.start_byte, node.end_byte
        case _:
            pass


def _between(node: Node, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Parts of a string in double quotes, or a here-document, that a shell does not expand."""
    for child in node.named_children:
        if child.type in _PLAIN:
            continue
        if start < child.start_byte:
            yield start, child.start_byte
        start = child.end_byte
    if start < end:
        yield start, end


def _in_characters(word: LiteralWord, source: Source) -> LiteralWord:
    """The word with positions in characters instead of bytes."""

    def at(byte: int) -> int:
        return len(source[:byte].decode())

    parts = tuple((at(start), at(end)) for start, end in word.parts)
    return LiteralWord(at(word.start), at(word.end), parts)
