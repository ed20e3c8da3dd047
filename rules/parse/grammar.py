"""Parser of lines by a grammar: the tree of a line, and the words that do not match the grammar.

Nothing here depends on a statement. The `.lark` file alone defines what a line may be, and the parser
reports what was expected in place of a word.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Protocol, cast

from lark import Lark, Token, Tree, UnexpectedToken
from lark.grammar import Rule, Terminal
from lark.lark import PostLex
from lark.lexer import PatternStr, TerminalDef

_WORD = "WORD"
_STRING = "STRING"
_END = "$END"
_NAME = "_"
"""Stands for any name in a line's shape."""
_PLAIN_LINE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*(?: [A-Za-z0-9_][A-Za-z0-9_-]*)*")
MOST_SHAPES = 1_000
MOST_LINES, LONGEST_KNOWN = 1_000, 500
"""Lines whose parse results are cached, and their longest length; results are never modified."""


@dataclass(frozen=True, slots=True)
class Unexpected:
    """A misplaced word, as the `position`th of its line, counted from 1.

    `accepted` are the terminals that the grammar accepts there, in the order of the grammar.
    """

    word: Token
    position: int
    accepted: tuple[str, ...]


@dataclass(slots=True)
class LineReading:
    """Parse result of a line: its words, and the statement that they form.

    `statement` is `None` for a line without words, and for one that begins no statement, of which only
    the first word is read. In the tree an unexpected word replaces the expected one and keeps its own
    type. If a line has more or fewer words than its statement, `fits` is false: surplus words are missing
    in the tree, and empty words stand for missing ones. `misfit` is the first surplus word, or an empty
    one in place of the first missing word.
    """

    words: list[Token] = field(default_factory=list[Token])
    statement: Tree[Token] | None = None
    unexpected: list[Unexpected] = field(default_factory=list[Unexpected])
    fits: bool = True
    misfit: Unexpected | None = None

    @property
    def clean(self) -> bool:
        """True if the line matches the grammar."""
        return self.fits and not self.unexpected


@dataclass(frozen=True, slots=True)
class _Shape:
    """Common parse result of lines that differ only in names: types of words, and their tree.

    Words in the tree are given by their positions.
    """

    types: tuple[str, ...]
    tree: Tree[int]

    def reading(self, texts: Iterable[str]) -> LineReading:
        """Parse result of a line of this shape with these words."""
        words: list[Token] = []
        start = 0
        for type_, text in zip(self.types, texts, strict=True):
            end = start + len(text)
            words.append(Token(type_, text, start, 1, start + 1, 1, end + 1, end))
            start = end + 1
        return LineReading(words, _with_words(self.tree, words), [])


def _with_positions(tree: Tree[Token], words: Sequence[Token]) -> Tree[int]:
    position = {id(word): number for number, word in enumerate(words)}
    children = [
        _with_positions(child, words) if isinstance(child, Tree) else position[id(child)]
        for child in tree.children
    ]
    return Tree(tree.data, children)


def _with_words(tree: Tree[int], words: Sequence[Token]) -> Tree[Token]:
    children = [
        _with_words(child, words) if isinstance(child, Tree) else words[child] for child in tree.children
    ]
    return Tree(tree.data, children)


@dataclass(frozen=True, slots=True)
class Parsed:
    """Parse result of a text, or the first misplaced word, which is empty at the end of the text.

    `words` are the words before it.
    """

    words: tuple[Token, ...]
    tree: Tree[Token] | None
    unexpected: Unexpected | None = None


class Grammar:
    """A grammar of lines: its first start is `line`, `WORD` any word, and `STRING` one in quotes, if any.

    If words are `told_apart`, a word has the same type everywhere (lark's basic lexer). Otherwise its
    type depends on its position in the grammar.
    """

    def __init__(self, text: str, *, told_apart: bool = False, starts: Sequence[str] = ("line",)) -> None:
        lexer = "basic" if told_apart else "contextual"
        lark = Lark(text, start=[*starts], parser="lalr", lexer=lexer, postlex=_WholeWords())
        self._lark = cast(_Lark, lark)
        patterns = {terminal.name: terminal.pattern for terminal in self._lark.terminals}
        self._fixed = {name: p.value for name, p in patterns.items() if isinstance(p, PatternStr)}
        symbols = (s.name for rule in self._lark.rules for s in rule.expansion if isinstance(s, Terminal))
        self._order = tuple(dict.fromkeys(symbols))
        self._fixed_words = frozenset(self._fixed.values())
        self._shape = lru_cache(MOST_SHAPES)(self._shape_of)
        self._known = lru_cache(MOST_LINES)(self.read_by_lark)

    def fixed(self, symbol: str) -> str | None:
        """The single word that `symbol` matches; `None` if it may match several."""
        return self._fixed.get(symbol)

    @cached_property
    def keywords(self) -> tuple[str, ...]:
        """Terminals with which a line may begin, in the order of the grammar."""
        accepted = self._accepted(self._lark.parse_interactive(""))
        return tuple(terminal for terminal in accepted if terminal != _END)

    def symbols(self, statement: str) -> tuple[str, ...]:
        """Symbols of the shortest form of `statement`, in order."""
        expansions = [rule.expansion for rule in self._lark.rules if rule.origin.name == statement]
        return tuple(symbol.name for symbol in min(expansions, key=len))

    def parse(self, text: str, start: str = "line", names: Container[str] = ()) -> Parsed:
        """Parse a text up to the first misplaced word; words in `names` get the type `NAME`."""
        parser = self._lark.parse_interactive(text, start=start)
        words: list[Token] = []
        try:
            for word in parser.lexer_thread.lex(parser.parser_state):
                words.append(word)
                if names and word.type == _WORD and str(word) in names:
                    word.type = "NAME"
                parser.feed_token(word)
            words.append(Token(_END, ""))
            return Parsed(tuple(words[:-1]), parser.feed_eof())
        except UnexpectedToken:
            position = len(words)
            unexpected = Unexpected(words[-1], position, self._accepted(parser))
            return Parsed(tuple(words[:-1]), None, unexpected)

    def read(self, line: str) -> LineReading:
        """Parse a line to its end, whatever it contains.

        lark parses one line of each shape. Terminals do not distinguish plain names, except keywords, so
        lines that differ only in such names have the same tree.
        """
        if _PLAIN_LINE.fullmatch(line) is not None:
            fixed, texts = self._fixed_words, line.split(" ")
            # A word that begins with a digit may be a number or a time, so it is part of the shape.
            types = [text if text in fixed or text[0] <= "9" else _NAME for text in texts]
            if (shape := self._shape(tuple(types))) is not None:
                return shape.reading(texts)
        # An editor requests the same lines again after each character typed into one of them.
        return self._known(line) if len(line) <= LONGEST_KNOWN else self.read_by_lark(line)

    def _shape_of(self, texts: tuple[str, ...]) -> _Shape | None:
        """Shape of lines with these words; `None` if it does not match the grammar."""
        reading = self.read_by_lark(" ".join(texts))
        if reading.statement is None or not reading.clean or [*texts] != reading.words:
            return None
        types = tuple(word.type for word in reading.words)
        return _Shape(types, _with_positions(reading.statement, reading.words))

    def read_by_lark(self, line: str) -> LineReading:
        """Parse a line word by word: the same result as `read`, without shapes."""
        reading = LineReading()
        parser = self._lark.parse_interactive(line)
        for word in parser.lexer_thread.lex(parser.parser_state):
            reading.words.append(word)
            if not reading.fits:
                continue
            try:
                parser.feed_token(word)
            except UnexpectedToken:
                accepted = self._accepted(parser)
                position = len(reading.words)
                if position > 1 and _END in accepted:
                    reading.fits = False
                    reading.misfit = Unexpected(word, position, accepted)
                    continue
                expected = tuple(terminal for terminal in accepted if terminal != _END)
                reading.unexpected.append(Unexpected(word, position, expected))
                if position == 1:
                    return reading
                self._feed(parser, word, expected)
        if reading.words:
            reading.statement = self._end(parser, reading)
        return reading

    def _end(self, parser: _Parser, reading: LineReading) -> Tree[Token]:
        """Tree of the words read, with empty words for missing ones."""
        try:
            return parser.feed_eof()
        except UnexpectedToken:
            reading.fits = False
            missing = Unexpected(Token(_END, ""), len(reading.words) + 1, self._accepted(parser))
            reading.misfit = missing
        while _END not in (accepted := self._accepted(parser)):
            self._feed(parser, Token(_WORD, ""), accepted)
        return parser.feed_eof()

    def _feed(self, parser: _Parser, word: Token, accepted: Iterable[str]) -> None:
        """Feed `word` to the parser as a terminal that it accepts; the word keeps its own type."""
        own = word.type
        # `require` alone may continue in two ways; the form with any tool is preferred to the one with a
        # fixed word.
        word.type = min(accepted, key=lambda terminal: terminal in self._fixed)
        parser.feed_token(word)
        word.type = own

    def _accepted(self, parser: _Parser) -> tuple[str, ...]:
        """Terminals that may come next, in the order of the grammar, the end of the line last."""
        accepted = parser.accepts()
        return tuple(terminal for terminal in (*self._order, _END) if terminal in accepted)


class _Lexer(Protocol):
    def lex(self, parser_state: object) -> Iterator[Token]: ...


class _Parser(Protocol):
    """The part of lark's interactive parser that is used here; lark's own types leave it open."""

    lexer_thread: _Lexer
    parser_state: object

    def feed_token(self, token: Token) -> object: ...
    def feed_eof(self) -> Tree[Token]: ...
    def accepts(self) -> set[str]: ...


class _Lark(Protocol):
    terminals: Collection[TerminalDef]
    rules: Sequence[Rule]

    def parse_interactive(self, text: str, start: str | None = None) -> _Parser: ...


class _WholeWords(PostLex):
    """Lets the lexer accept any word everywhere.

    lark's contextual lexer only tries terminals that the parser accepts. Where only `before` is accepted,
    it would find `before` at the beginning of `beforehand`, or nothing at all.
    """

    always_accept = (_WORD, _STRING)

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        return stream


@cache
def grammar(file: str, *, told_apart: bool = False, starts: tuple[str, ...] = ("line",)) -> Grammar:
    """The grammar in `file` of this folder; cached, because building one takes tens of milliseconds."""
    text = Path(__file__).with_name(file).read_text("utf-8")
    return Grammar(text, told_apart=told_apart, starts=starts)
