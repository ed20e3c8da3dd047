"""One simple command in the tree: its words, assignments and redirections, and its standard input."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .invocations import FromFile, Input
from .syntax_tree import Source
from .words import Word, in_text, joined, plain, unquoted, whole, word_of

if TYPE_CHECKING:
    from tree_sitter import Node

_WORDS = re.compile(r"""(?:[^\s'"]|'[^']*'|"[^"]*")+""")
_QUOTED = re.compile(r"""'([^']*)'|"([^"]*)\"""")
_NO_WORDS = frozenset(
    ("variable_assignment", "file_redirect", "herestring_redirect", "heredoc_redirect", "subshell", "$")
)
_INPUTS = frozenset(("<", "<&", "<>", "<&-"))


def literal_words(text: str) -> list[str]:
    """Words of a command that consists of plain and quoted words without expansions."""
    return [
        word if "'" not in word and '"' not in word else _QUOTED.sub(r"\1\2", word)
        for word in _WORDS.findall(text)
    ]


class CommandLine:
    """Words of a simple command, its assignments and redirections, and its standard input."""

    def __init__(self) -> None:
        self.words: list[Word] = []
        self.around: list[Word] = []
        self.stdin: Input = None
        self._end = -1
        self._start = 0

    def take(self, nodes: Sequence[Node], source: Source) -> None:
        """Add the parts of a command in order; adjacent parts are one word."""
        dollar = False
        for node in nodes:
            kind = node.type
            match kind:
                case _ if kind not in _NO_WORDS:
                    self._word(node, source, touching=not dollar)
                case "variable_assignment":
                    self.around.append(plain(unquoted(text_of(node, source))))
                case "file_redirect" | "herestring_redirect" | "heredoc_redirect":
                    self.redirect(node, source)
                case "subshell":
                    pass
                case "$" if source[node.end_byte : node.end_byte + 1] in {b'"', b"'"}:
                    dollar = self._end != node.start_byte
                    self._end = node.end_byte
                    continue
                case _:
                    self._word(node, source, touching=not dollar)
            dollar = False

    def _word(self, node: Node, source: Source, *, touching: bool) -> None:
        """Add a word, or append it to the previous one if they are `touching`."""
        word = word_of(node, source)
        start = node.start_byte
        if self._end == start and self.words and touching:
            self.around.pop()
            word = joined((self.words.pop(), word))
            word = whole(word, source[self._start : node.end_byte])
        else:
            self._start = start
        self.words.append(word)
        self.around.append(word)
        self._end = node.end_byte

    def redirect(self, node: Node, source: Source) -> None:
        """Add a redirection, and use it as the standard input if it redirects that."""
        self.around += redirection(node, source)
        children = node.children
        first = children[0]
        descriptor = text_of(first, source) if first.type == "file_descriptor" else "0"
        if self._end == node.start_byte and self.words and self.words[-1].text.isdecimal():
            # The grammar parses the number in `bash 0<file` as a word.
            descriptor = self.words.pop().text
        self._end = -1
        match node.type:
            case "herestring_redirect" if descriptor == "0":
                self.stdin = word_of(node.named_children[-1], source)
            case "heredoc_redirect":
                document = document_of(node, source)
                if descriptor == "0":
                    self.stdin = document and document.expanded()
                self.take(node.children_by_field_name("argument"), source)
                for inner in node.children_by_field_name("redirect"):
                    self.redirect(inner, source)
            case _ if descriptor == "0" and any(c.type in _INPUTS for c in children):
                name = word_of(_destinations(node)[0], source)
                self.stdin = FromFile(name) if _names_file(name) else None
                self._words_after(node, source)
            case "file_redirect":
                self._words_after(node, source)
            case _:
                pass

    def _words_after(self, node: Node, source: Source) -> None:
        """Add the words behind a redirection, which the grammar parses as further destinations."""
        self.words += [word_of(child, source) for child in _destinations(node)[1:]]


def _destinations(node: Node) -> list[Node]:
    return [child for child in node.named_children if child.type != "file_descriptor"] or [node]


def redirection(node: Node, source: Source) -> list[Word]:
    """A redirection as words: the operator, and its destination."""
    if node.type == "heredoc_redirect":
        return [plain(unquoted(as_written(node, source)))]
    return [plain(text_of(c, source)) if not c.is_named else word_of(c, source) for c in node.children]


def _names_file(target: Word) -> bool:
    return target.known and not re.match(r"/dev/(?:stdin|fd|tcp|udp)|/proc/|\d+$", target.text)


@dataclass(frozen=True, slots=True)
class Document:
    """A here-document: its text, the line that ends it, the line that should, and its expansion."""

    at: int
    text: str
    end: str
    mark: str
    tabs: bool
    quoted: bool

    def expanded(self) -> Word:
        """The text as the program reads it: expanded, unless its mark is quoted."""
        text = re.sub(r"(?m)^\t+", "", self.text) if self.tabs else self.text
        if self.quoted:
            return plain(text)
        return Word(in_text(text), "", known=not re.search(r"(?<!\\)[$`]", text))


def document_of(node: Node, source: Source) -> Document | None:
    parts = {child.type: child for child in node.named_children}
    start, body, end = (parts.get(f"heredoc_{part}") for part in ("start", "body", "end"))
    if start is None or end is None:
        return None
    last = source.rfind(b"\n", 0, end.end_byte) + 1
    line_end = source.find(b"\n", end.end_byte)
    text = source.documents.get(start.start_byte)
    if text is None:
        text = source[body.start_byte : last].decode() if body and body.start_byte < last else ""
    mark = text_of(start, source)
    return Document(
        at=start.start_byte,
        text=text.removesuffix("\n"),
        end=source[last : len(source) if line_end < 0 else line_end].decode(),
        mark=unquoted(mark),
        tabs=any(child.type == "<<-" for child in node.children),
        quoted=any(quote in mark for quote in "'\"\\"),
    )


def as_written(node: Node, source: Source) -> str:
    """A node as written; for a here-document only its mark, not the rest of the line and the text."""
    if node.type == "heredoc_redirect":
        start = next((child for child in node.named_children if child.type == "heredoc_start"), node)
        return source[node.start_byte : start.end_byte].decode()
    return text_of(node, source)


def text_of(node: Node, source: Source) -> str:
    return source[node.start_byte : node.end_byte].decode()
