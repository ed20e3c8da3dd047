"""Reader of lines by a grammar: the tree of a line, and the words that are not as the grammar has them.

Nothing here knows a statement. The `.lark` file alone says what a line may be, and the parser what was
expected in place of a word.
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
"""Any name in a line's shape."""
_PLAIN_LINE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*(?: [A-Za-z0-9_][A-Za-z0-9_-]*)*")
MOST_SHAPES = 1_000
MOST_LINES, LONGEST_KNOWN = 1_000, 500
"""Lines whose reading is kept, and their characters: nobody changes a reading."""


@dataclass(frozen=True, slots=True)
class Unexpected:
    """A word that cannot be where it is, as the `position`th of its line.

    `accepted` are the terminals the grammar takes there, in the order of the grammar.
    """

    word: Token
    position: int
    accepted: tuple[str, ...]


@dataclass(slots=True)
class LineReading:
    """Result of reading a line: its words, and the statement they make.

    `statement` is `None` for a line without words and for one that begins no statement, of which only
    the first word is read. In the tree an unexpected word replaces the expected one, and has another
    type. A line with more or fewer words than its statement does not `fit`: its tree lacks the
    surplus, and empty words make up for the missing; `misfit` is the first word too many, or an
    empty one where the first is missing.
    """

    words: list[Token] = field(default_factory=list[Token])
    statement: Tree[Token] | None = None
    unexpected: list[Unexpected] = field(default_factory=list[Unexpected])
    fits: bool = True
    misfit: Unexpected | None = None

    @property
    def clean(self) -> bool:
        """Tell whether the line agrees with the grammar."""
        return self.fits and not self.unexpected


@dataclass(frozen=True, slots=True)
class _Shape:
    """Reading that all lines have in common which differ only in names: types of words, and their tree.

    A word in the tree is its position.
    """

    types: tuple[str, ...]
    tree: Tree[int]

    def reading(self, texts: Iterable[str]) -> LineReading:
        """The reading of a line of this shape, with these words."""
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
    """Result of reading a text, or the first word out of place, which at its end is an empty one.

    `words` are those before it.
    """

    words: tuple[Token, ...]
    tree: Tree[Token] | None
    unexpected: Unexpected | None = None


class Grammar:
    """A grammar of lines: its first start is `line`, `WORD` any word, and `STRING` one in quotes, if any.

    Where words are `told_apart` by themselves, one is of the same type everywhere; otherwise the
    position that the grammar has for it says what it is.
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
        """The one word that `symbol` matches; `None` when it may be one of many."""
        return self._fixed.get(symbol)

    @cached_property
    def keywords(self) -> tuple[str, ...]:
        """The terminals that a line may begin with, in the order of the grammar."""
        accepted = self._accepted(self._lark.parse_interactive(""))
        return tuple(terminal for terminal in accepted if terminal != _END)

    def symbols(self, statement: str) -> tuple[str, ...]:
        """The symbols of the shortest form of `statement`, in order."""
        made = [rule.expansion for rule in self._lark.rules if rule.origin.name == statement]
        return tuple(symbol.name for symbol in min(made, key=len))

    def parse(self, text: str, start: str = "line", names: Container[str] = ()) -> Parsed:
        """Read a text up to the first word that is out of place; words in `names` are of type `NAME`."""
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
        """Read a line to its end, whatever is in it.

        lark reads one line of each shape. No terminal tells one plain name from another, unless it is a
        keyword: so a line that differs from one that was read in such names alone has the same tree.
        """
        if _PLAIN_LINE.fullmatch(line) is not None:
            fixed, texts = self._fixed_words, line.split(" ")
            # A word that begins with a digit may be a number or a time: it stands for itself alone.
            named = [text if text in fixed or text[0] <= "9" else _NAME for text in texts]
            if (shape := self._shape(tuple(named))) is not None:
                return shape.reading(texts)
        # An editor asks for the same lines again at each character that is typed into one of them.
        return self._known(line) if len(line) <= LONGEST_KNOWN else self.read_by_lark(line)

    def _shape_of(self, texts: tuple[str, ...]) -> _Shape | None:
        """The shape of lines with these words; `None` where it does not agree with the grammar."""
        reading = self.read_by_lark(" ".join(texts))
        if reading.statement is None or not reading.clean or [*texts] != reading.words:
            return None
        types = tuple(word.type for word in reading.words)
        return _Shape(types, _with_positions(reading.statement, reading.words))

    def read_by_lark(self, line: str) -> LineReading:
        """Read a line word by word: the result of `read`, found without shapes."""
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
        """The tree of what was read, with empty words for what it lacks."""
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
        """Make the parser take `word` for one that it accepts; the word keeps its type."""
        own = word.type
        # `require` alone may go on in two ways; that with any tool says more than that with one word.
        word.type = min(accepted, key=lambda terminal: terminal in self._fixed)
        parser.feed_token(word)
        word.type = own

    def _accepted(self, parser: _Parser) -> tuple[str, ...]:
        """The terminals that may come next, in the order of the grammar, and the end of the line last."""
        accepted = parser.accepts()
        return tuple(terminal for terminal in (*self._order, _END) if terminal in accepted)


class _Lexer(Protocol):
    def lex(self, parser_state: object) -> Iterator[Token]: ...


class _Parser(Protocol):
    """The part of lark's interactive parser used here; lark's own types leave it open."""

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
    """Lets every word be read everywhere.

    lark's contextual lexer looks only for what the parser accepts, and would find `before` at the
    beginning of `beforehand`, or nothing at all, where no word but `before` is accepted.
    """

    always_accept = (_WORD, _STRING)

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        return stream


@cache
def grammar(file: str, *, told_apart: bool = False, starts: tuple[str, ...] = ("line",)) -> Grammar:
    """The grammar in `file` of this folder; building one takes tens of milliseconds."""
    text = Path(__file__).with_name(file).read_text("utf-8")
    return Grammar(text, told_apart=told_apart, starts=starts)
