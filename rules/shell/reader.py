"""From a shell command to the simple commands in it (G-51).

The tree of the whole text is walked, so a command is found wherever it stands: in lists, pipes, loops,
functions, substitutions, here-documents. What a command runs in turn (`programs`) is read the same way.

What the grammar and a shell might read differently, and what is only known when it runs, makes the text
uninspectable. A file that a script is read from is not looked into: `sh deploy.sh` is that command.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from . import parser
from .line import Line, as_written, document_of, redirection, text_of
from .options import UnclearError
from .parser import MAX_BYTES, MAX_MARKS, MAX_TEXT, Source, UnreadableError
from .programs import Command, Input, Script, hides_substitution, program, runs, runs_others
from .words import Word, bares, in_text, plain, texts, unquoted

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_COMMANDS = 1_000
MAX_DEPTH = 12
MAX_NESTING = 200
_SHOWN = 60

_SURROGATE = re.compile("[\ud800-\udfff]")
_MISREAD = re.compile("[\0\v\f\r]")
_CONTINUED = re.compile(r"(?<![ \t\n])\\\n(?![ \t\n])")
_LINE_END = re.compile(r"(?<!\\)((?:\\\\)*)\\\n")
_PLAIN = re.compile(rb"[\w./:,+@%^=\- \t]+")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_BEFORE_COMMENT = re.compile(rb"(?:\A|(?<!\\)[ \t\n]|[;&|(])\Z")
_BIN = re.compile(r"(?:.*/)?s?bin/([^/]+)")
_RESERVED = frozenset(
    (
        "{",
        "}",
        "!",
        "[[",
        "]]",
        "if",
        "then",
        "elif",
        "else",
        "fi",
        "while",
        "until",
        "for",
        "select",
        "in",
    )
) | {"do", "done", "case", "esac", "function"}
_STATEMENTS = frozenset(
    (
        "declaration_command",
        "unset_command",
        "test_command",
        "variable_assignment",
        "variable_assignments",
    )
)
_REDIRECTS = frozenset(("file_redirect", "herestring_redirect", "heredoc_redirect"))


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """One command as it is written, and the `texts` to look for patterns in: as written, without
    quotes, and without what stands around the program and its words."""

    source: str
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """The simple commands of a text in the order they were found, and why there may be others."""

    commands: tuple[SimpleCommand, ...]
    uninspectable: str | None = None


@lru_cache(maxsize=64)
def _read_short(text: str) -> Reading:
    return _read(text)


def read(text: str) -> Reading:
    """Every simple command in a shell command. Raises nothing: what fails is uninspectable."""
    return _read_short(text) if len(text) <= MAX_BYTES else _read(text)


def views(text: str) -> tuple[str, ...]:
    """What an uninspectable text might say: as written, and with all quotes gone."""
    return tuple(dict.fromkeys((text, unquoted(text), text.replace("\\\n", "").replace("\0", " "))))


def _read(text: str) -> Reading:
    reader = _Reader()
    try:
        reader.script(text)
    except (UnreadableError, UnclearError) as reason:
        reader.unclear(str(reason))
    except Exception as error:  # whatever it is must not open the gate
        reader.unclear(f"reading it failed: {type(error).__name__}")
    return Reading(tuple(SimpleCommand(s, t) for t, s in reader.found.items()), reader.reason)


@dataclass(slots=True)
class _Reader:
    """One text being read: what was found, the first reason why that may not be all."""

    found: dict[tuple[str, ...], str] = field(default_factory=dict[tuple[str, ...], str])
    reason: str | None = None
    bytes: int = 2 * MAX_BYTES
    marks: int = MAX_MARKS
    documents: set[int] = field(default_factory=set[int])
    depth: int = 0

    def unclear(self, reason: str) -> None:
        self.reason = self.reason or reason

    def script(self, text: str) -> None:
        """Read a text that a shell runs."""
        if not text.strip():
            return
        if len(text) > MAX_TEXT:
            raise UnreadableError(f"it is longer than {MAX_TEXT:,} characters")
        if _MISREAD.search(text):
            self.unclear("it holds a control character that shells read in their own ways")
        if not text.isascii():
            text = _SURROGATE.sub("\ufffd", text)
        self._text(text)
        if "\\\n" in text and _CONTINUED.search(text):
            # The grammar takes the end of such a line for a blank, a shell for nothing.
            self._text(_LINE_END.sub(r"\1", text))
            if "#" in text:
                self.unclear("a line in it may go on, or may be a comment")

    def _text(self, text: str) -> None:
        source = Source.of(text)
        self.bytes -= len(source)
        self.marks -= source.marks
        if self.bytes < 0 or self.marks < 0:
            raise UnreadableError("there is too much in it")
        root = parser.parse(source)
        if root.has_error:
            self.unclear("it is not a complete shell command")
        self._walk(root, source)
        if source.documents.keys() - self.documents:
            self.unclear("a here-document in it may be none")

    def _walk(self, root: Node, source: Source) -> None:
        self.documents = set[int]()
        waiting = [(root, 0)]
        while waiting:
            node, nesting = waiting.pop()
            if nesting > MAX_NESTING:
                raise UnreadableError("it is nested too deeply")
            below = self._visit(node, source)
            waiting += [(child, nesting + 1) for child in reversed(below)]

    def _visit(self, node: Node, source: Source) -> Sequence[Node]:
        """Look at one node; gives those below it that are still to be looked at."""
        kind = node.type
        if kind == "command":
            return self._simple(node, (), source)
        if kind == "redirected_statement":
            return self._redirected(node, source)
        if kind in _STATEMENTS:
            self._statement(node, (), source)
        elif kind == "comment":
            if not _BEFORE_COMMENT.search(source[max(0, node.start_byte - 2) : node.start_byte]):
                self.unclear("a comment in it may be none")
        elif kind == "heredoc_redirect":
            self._checkdocument_of(node, source)
        elif kind == "expansion":
            if b"@P" in _slice(node, source):
                self.unclear("an expansion in it runs what a variable holds")
        elif kind == "command_substitution":
            inner = _slice(node, source)
            if inner[:1] == b"`" and b"\\" in inner:
                self._nested(in_text(inner[1:-1].decode()))
                return ()
        return node.named_children

    def _redirected(self, node: Node, source: Source) -> Sequence[Node]:
        children = node.named_children
        redirects = [child for child in children if child.type in _REDIRECTS]
        body = [child for child in children if child.type not in _REDIRECTS]
        if not body:
            self._found(text_of(node, source), (text_of(node, source),))
        elif body[0].type == "command":
            return [*self._simple(body[0], redirects, source), *redirects]
        elif body[0].type in _STATEMENTS:
            self._statement(body[0], redirects, source)
            return [*body[0].named_children, *redirects]
        else:
            for redirect in redirects:
                self._found(as_written(redirect, source), (texts(redirection(redirect, source)),))
        return children

    def _simple(self, node: Node, redirects: Sequence[Node], source: Source) -> Sequence[Node]:
        said = _slice(node, source)
        if not redirects and _PLAIN.fullmatch(said):
            self._plain(said.decode())
            return ()
        line = Line()
        line.take(node.children, source)
        for redirect in redirects:
            line.redirect(redirect, source)
        written = text_of(node, source)
        for redirect in redirects:
            written += f" {as_written(redirect, source)}"
        whole = texts(line.around)
        self._command(written, whole, line.words, line.stdin)
        return node.named_children if any(mark in said for mark in (b"(", b"`", b"{", b"<<")) else ()

    def _plain(self, text: str) -> None:
        """A command of which every character stands for itself."""
        said = text.split()
        first = 0
        while first < len(said) and _ASSIGNMENT.match(said[first]):
            first += 1
        whole = " ".join(said)
        name = said[0]
        if not (first or "bin/" in name or name in _RESERVED or runs_others(name)):
            self._found(text, (text,) if whole == text else (text, whole))
            return
        self._command(text, whole, [plain(word) for word in said[first:]], None)

    def _statement(self, node: Node, redirects: Sequence[Node], source: Source) -> None:
        """What is no program but meets the maps like one: an assignment, a test, an export."""
        written = " ".join(as_written(part, source) for part in (node, *redirects))
        self._found(written, (written, unquoted(written)))
        name = written.partition(" ")[0]
        name = "=" if node.type.startswith("variable") or node.type == "declaration_command" else name
        if hides_substitution(name, written):
            self.unclear("it holds a quoted substitution that may be run later")

    def _command(self, written: str, whole: str, words: Sequence[Word], stdin: Input) -> None:
        """One simple command: what it says, and what it runs."""
        said = texts(words)
        alternatives = [written, whole, said]
        if any(not word.known for word in words):
            alternatives.append(bares(words))
        if words and (short := _BIN.fullmatch(words[0].text)):
            alternatives.append(texts((plain(short[1]), *words[1:])))
        self._found(written, tuple(dict.fromkeys(filter(None, alternatives))))
        if not words:
            return
        name = words[0]
        if not name.known or not name.text:
            self.unclear(f"what {_shown(name.text)} runs is known only when it runs")
            return
        if name.text in _RESERVED:
            self.unclear(f"{_shown(name.text)} in it is no command")
            return
        if hides_substitution(program(name.text), written):
            self.unclear("it holds a quoted substitution that may be run later")
        self._runs(words, stdin)

    def _runs(self, words: Sequence[Word], stdin: Input) -> None:
        try:
            for run in runs(words, stdin):
                match run:
                    case Command(inner):
                        self._deeper()
                        self._command(texts(inner), texts(inner), inner, stdin)
                        self.depth -= 1
                    case Script(word):
                        if not word.known:
                            self.unclear(f"what {_shown(words[0].text)} runs is known only when it runs")
                        self._nested(word.text)
        except UnclearError as reason:
            self.unclear(str(reason))

    def _nested(self, text: str) -> None:
        self._deeper()
        self.script(text)
        self.depth -= 1

    def _deeper(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise UnreadableError("it is nested too deeply")

    def _found(self, written: str, said: tuple[str, ...]) -> None:
        if len(self.found) >= MAX_COMMANDS:
            raise UnreadableError(f"it is made of more than {MAX_COMMANDS:,} commands")
        self.found.setdefault(said, written)

    def _checkdocument_of(self, node: Node, source: Source) -> None:
        """A here-document ends where a shell would end it, or the text is not what it seems."""
        document = document_of(node, source)
        if document is None:
            self.unclear("a here-document in it does not end")
            return
        self.documents.add(document.at)
        lines = [line.lstrip("\t") if document.tabs else line for line in document.text.split("\n")]
        end = document.end.lstrip("\t") if document.tabs else document.end
        if end != document.mark or document.mark in lines:
            self.unclear("a here-document in it may end elsewhere")


def _slice(node: Node, source: Source) -> bytes:
    return source[node.start_byte : node.end_byte]


def _shown(text: str) -> str:
    return f"'{text}'" if len(text) <= _SHOWN else f"'{text[:_SHOWN]}…'"
