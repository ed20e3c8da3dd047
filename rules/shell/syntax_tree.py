"""The shell grammar, loaded when a command is first read; one parser a thread."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_TEXT = 262_144
MAX_BYTES = 16_384
MAX_MARKS = 800

_MARKS = b"|&;<>(){}[]$`\"'\\#=!*?~%+^-"
_DOCUMENT = re.compile(rb"<<(-?)[ \t]*((['\"])(\w+)\3)[^\n'\"\\`$(]*\n")
_PLAIN = bytes(range(128)) + b"," * 128


class UnreadableError(Exception):
    """A text that is not looked into; the message says why, for the operator."""


class Source(bytes):
    """A text to parse, without the bodies of its quoted here-documents.

    They mean nothing to the shell, and may be long files. `documents` holds them by where their marks
    begin; whether a mark is one, and no text that looks like it, is for the tree to say.
    """

    documents: dict[int, str]

    @classmethod
    def of(cls, text: str) -> Source:
        whole = text.encode()
        documents: dict[int, str] = {}
        if b"<<" not in whole:
            source = cls(whole)
            source.documents = documents
            return source
        kept: list[bytes] = []
        at = length = 0
        while (head := _DOCUMENT.search(whole, at)) is not None:
            tabs = rb"\t*" if head[1] else b""
            end = re.compile(rb"^" + tabs + head[4] + rb"$", re.MULTILINE).search(whole, head.end())
            # One here-document a line, and none before it that is left in: else they might change places.
            if end is None or whole.count(b"<<", at, head.end()) != 1:
                break
            documents[length + head.start(2) - at] = whole[head.end() : end.start()].decode()
            kept.append(whole[at : head.end()])
            length += head.end() - at
            at = end.start()
        source = cls(b"".join((*kept, whole[at:])))
        source.documents = documents
        return source

    @property
    def marks(self) -> int:
        """The number of characters of the text that mean something to the shell.

        Where they make no command, looking for one takes time that grows with the square of it.
        """
        return len(self) - len(self.translate(None, _MARKS))


class _Local(threading.local):
    parser: Parser | None = None


_local = _Local()


def parse(source: Source) -> Node:
    """The tree of a text; the caller bounds its length and its marks.

    The parser sees no character beyond ASCII: its scanner looks such up in C tables that end before
    Unicode does, and `{` before U+10E3CF ended the process. To the shell they are letters of a word and
    of no name, like the comma that replaces each of their bytes, so that every offset stays.
    """
    if _local.parser is None:
        import tree_sitter_bash
        from tree_sitter import Language, Parser

        _local.parser = Parser(Language(tree_sitter_bash.language()))
    return _local.parser.parse(source.translate(_PLAIN)).root_node
