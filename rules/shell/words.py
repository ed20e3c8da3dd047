"""A word of a command as the shell passes it on: without its quotes, as far as it is known."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tree_sitter import Node


class Word(NamedTuple):
    """`text` is without quotes, with expansions as written; `bare` is without expansions too.

    `known` says that `text` is exactly what the program gets; `single`, that the program gets one word,
    whatever an expansion gives.
    """

    text: str
    bare: str
    known: bool = True
    single: bool = True


def plain(text: str) -> Word:
    """A word that is taken literally."""
    return Word(text, text)


_SPECIAL = re.compile(r"""[\\*?\[{~'"`$]""")
_GLOB = re.compile(r"(?<!\\)(?:[*?]|\[.*\]|[?*+@!]\()", re.DOTALL)
_BRACES = re.compile(r"(?<!\\)\{[^{}\s]*(?:,|\.\.)", re.DOTALL)
_QUOTED = re.compile(rb"""\\.|\$'(?:\\.|[^'\\])*'|'[^']*'|"(?:\\.|[^"\\])*"|\$\{[^{}]*\}""", re.DOTALL)
_EXPANDED = re.compile(rb"[*?]|\[.*\]|[+@!]\(|\{[^{}\s]*(?:,|\.\.)|<\d*-\d*>", re.DOTALL)
_ESCAPED = re.compile(r"\\(\n|.)", re.DOTALL)
_ESCAPED_IN_QUOTES = re.compile(r"\\([\n$`\"\\])")
_ESCAPED_IN_TEXT = re.compile(r"\\([\n$`\\])")
_ANSI = re.compile(
    r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|c(.)|(.))",
    re.DOTALL,
)
_LETTERS = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r"} | {
    "t": "\t",
    "v": "\v",
}


def word_of(node: Node, source: bytes) -> Word:
    """The word of a node in the tree."""
    kind = node.type
    if kind in _OFTEN_PLAIN:
        text = source[node.start_byte : node.end_byte].decode()
        if _ORDINARY.fullmatch(text):
            return plain(text)
    word = _piece(node, source)
    if word[2] and kind in _OF_PIECES:
        return whole(word, source[node.start_byte : node.end_byte])
    return word


_OFTEN_PLAIN = frozenset(("word", "number", "command_name"))
_ORDINARY = re.compile(r"[\w./:,@%=-]+", re.ASCII)
_OF_PIECES = frozenset(("concatenation", "command_name"))


def whole(word: Word, text: bytes) -> Word:
    """`word`, written as `written`; not known if a glob or braces turn it into other words.

    The grammar splits `/bin/[r]m`; a shell considers all unquoted parts of it.
    """
    if not word.known or not _EXPANDED.search(_QUOTED.sub(b"", text)):
        return word
    return word._replace(known=False, single=False)


def joined(parts: Sequence[Word]) -> Word:
    """Adjacent words, which the shell treats as one."""
    return parts[0] if len(parts) == 1 else _joined(parts)


def texts(words: Iterable[Word]) -> str:
    """The words as one line."""
    return " ".join([word[0] for word in words if word[0]])


def bares(words: Iterable[Word]) -> str:
    """The words as one line, as if every expansion were empty."""
    return " ".join([word[1] for word in words if word[1]])


def in_text(body: str) -> str:
    """Text of an unquoted here-document, or of a command in backquotes, with escapes resolved."""
    return _ESCAPED_IN_TEXT.sub(_unescaped, body)


def unquoted(text: str) -> str:
    """`text` without any quotes and backslashes, and with every `\\x…` decoded.

    It shows what a command that cannot be parsed might say, for a search for names.
    """
    return _ANSI.sub(_decoded, text).translate(_QUOTES) if "\\" in text else text.translate(_QUOTES)


_QUOTES = {ord(character): None for character in "\\'\"\0"}


def _piece(node: Node, source: bytes) -> Word:
    text = source[node.start_byte : node.end_byte].decode()
    match node.type:
        case "word" | "number" | "string_content" | "test_operator" | "variable_name" | "regex":
            return _bare_word(text)
        case "raw_string":
            return plain(text[1:-1])
        case "ansi_c_string":
            return plain(_ANSI.sub(_decoded, text[2:-1]))
        case "string" | "translated_string":
            return _string(node, source)
        case "concatenation" | "command_name":
            found = _pieces(node, source)
            if "{" in text and _BRACES.search(text):
                return Word(found.text, found.bare, known=False, single=False)
            return found
        case _ if not node.is_named:
            return _bare_word(text)
        case _:
            return Word(text, "", known=False, single=False)


def _bare_word(text: str) -> Word:
    if "``" in text:
        text = text.replace("``", "")
    if not _SPECIAL.search(text):
        return plain(text)
    exact = not (_GLOB.search(text) or _BRACES.search(text))
    content = _ESCAPED.sub(_unescaped, text)
    return Word(content, content, exact, exact)


def _string(node: Node, source: bytes) -> Word:
    """A string in double quotes: text outside expansions is literal, whatever the tree calls it."""
    start = source.index(b'"', node.start_byte) + 1
    end = node.end_byte - 1
    inner = node if node.type == "string" else next(c for c in node.children if c.type == "string")
    parts: list[Word] = []
    for child in inner.named_children:
        if child.type == "string_content":
            continue
        parts.append(_literal(source[start : child.start_byte]))
        content = source[child.start_byte : child.end_byte].decode()
        # `$@` is the only expansion that becomes several words even in quotes.
        one = "@" not in content
        parts.append(Word(content, "", known=False, single=one))
        start = child.end_byte
    parts.append(_literal(source[start:end]))
    return _joined(parts)


def _literal(part: bytes) -> Word:
    text = part.decode()
    return plain(_ESCAPED_IN_QUOTES.sub(_unescaped, text) if "\\" in text else text)


def _pieces(node: Node, source: bytes) -> Word:
    children = node.children
    if not children:
        return _bare_word(source[node.start_byte : node.end_byte].decode())
    parts: list[Word] = []
    at = node.start_byte
    for child in children:
        if child.start_byte > at:
            parts.append(_bare_word(source[at : child.start_byte].decode()))
        following = source[child.end_byte : child.end_byte + 1]
        if source[child.start_byte : child.end_byte] != b"$" or following not in {b'"', b"'"}:
            parts.append(_piece(child, source))
        at = child.end_byte
    return joined(parts) if parts else plain("")


def _joined(parts: Sequence[Word]) -> Word:
    return Word(
        "".join(part.text for part in parts),
        "".join(part.bare for part in parts),
        all(part.known for part in parts),
        all(part.single for part in parts),
    )


def _unescaped(escape: re.Match[str]) -> str:
    """The character that a backslash escapes; nothing for a line break."""
    return "" if escape[1] == "\n" else escape[1]


def _decoded(escape: re.Match[str]) -> str:
    hexadecimal = escape[1] or escape[2] or escape[3]
    if hexadecimal or escape[4]:
        code = int(hexadecimal, 16) if hexadecimal else int(escape[4], 8) & 0xFF
        valid = code < 0x110000 and not 0xD800 <= code < 0xE000
        return chr(code) if valid else "\ufffd"
    if escape[5]:
        return chr(ord(escape[5]) & 0x1F)
    return _LETTERS.get(escape[6], escape[6])
