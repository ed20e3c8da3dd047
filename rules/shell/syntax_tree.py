"""The shell grammar, loaded when a command is first parsed; one parser per thread."""

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
    """A text that is not analysed; the message says why, for the operator."""


class Source(bytes):
    """A text to parse, without the bodies of its quoted here-documents.

    The shell does not expand these, and they may be long files. `documents` has them by the positions of
    their marks. The tree shows whether a mark really is one, and not a text that looks like it.
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
        parts: list[bytes] = []
        at = length = 0
        while (head := _DOCUMENT.search(whole, at)) is not None:
            tabs = rb"\t*" if head[1] else b""
            end = re.compile(rb"^" + tabs + head[4] + rb"$", re.MULTILINE).search(whole, head.end())
            # At most one here-document per line, and none after one that is left in, so that they keep
            # their order.
            if end is None or whole.count(b"<<", at, head.end()) != 1:
                break
            documents[length + head.start(2) - at] = whole[head.end() : end.start()].decode()
            parts.append(whole[at : head.end()])
            length += head.end() - at
            at = end.start()
        source = cls(b"".join((*parts, whole[at:])))
        source.documents = documents
        return source

    @property
    def marks(self) -> int:
        """Number of characters in the text that have a meaning in shell syntax.

        If they form no command, parsing takes time that grows with the square of this number.
        """
        return len(self) - len(self.translate(None, _MARKS))


class _Local(threading.local):
    parser: Parser | None = None


_local = _Local()


def parse(source: Source) -> Node:
    """Tree of a text; the caller limits its length and its marks.

    The parser gets only ASCII characters. Its scanner looks other characters up in C tables that end
    before Unicode does, and `{` before U+10E3CF crashed the process. For the shell such characters are
    letters of a word and never of a name, like the comma that replaces each of their bytes, so that all
    offsets stay the same.
    """
    if _local.parser is None:
        import tree_sitter_bash
        from tree_sitter import Language, Parser

        _local.parser = Parser(Language(tree_sitter_bash.language()))
    return _local.parser.parse(source.translate(_PLAIN)).root_node
