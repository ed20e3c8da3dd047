"""Words that may come next in a line that is being edited, according to the grammars."""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from lark import Token

from ..errors.fault import start
from ..parse.grammar import Grammar, Parsed, grammar
from ..parse.lines import code
from ..parse.syntax import GRAMMAR as RULES
from ..scenarios.scenarios import GRAMMAR as SCENARIOS
from .occurrences import condition_grammar

NameKind: TypeAlias = Literal["tool", "source", "mapped field", "field", "value", "file"]

_PARTIAL = re.compile(r'[^\s()\[\],"=<>!#]*$')
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')
_PROBE = " ~"
"""A word that cannot follow a complete line."""
_MANY_WORDS = {"PRESENCE": ("is present", "is missing")}
_CONDITION_NAMES: dict[str, NameKind] = {"FIELD": "field", "NAME": "value", "WORD": "source"}


@dataclass(frozen=True, slots=True)
class NextWords:
    """Words of the language, and kinds of names, that may stand at a position.

    `start` is the column, counted from 0, at which the word being typed begins.
    """

    start: int
    words: tuple[str, ...] = ()
    names: frozenset[NameKind] = frozenset()


def next_rule_words(before: str, values: Container[str] = ()) -> NextWords:
    """Words and names that may follow `before` in a line of rules; `values` are names of values."""
    begin = _word_start(before)
    if begin is None:
        return NextWords(len(before))
    head = before[:begin]
    parsed = grammar(RULES).parse(head)
    accepted, lead = _accepted(grammar(RULES), head, parsed), parsed.words
    rest = next((word for word in lead if word.type in {"CONDITION", "VALUE"}), None)
    if rest is not None or {"CONDITION", "VALUE"} & set(accepted):
        is_value = "VALUE" in accepted if rest is None else rest.type == "VALUE"
        text = head[start(rest) :] if rest is not None else ""
        return _in_condition(begin, text, "given" if is_value else "line", values)
    words = _fixed(grammar(RULES), accepted)
    return NextWords(begin, words, frozenset(_rule_names(lead, accepted)))


def next_scenario_words(before: str) -> NextWords:
    """Words and names that may follow `before` in a line of a scenario file."""
    begin = _word_start(before)
    if begin is None:
        return NextWords(len(before))
    head, scenarios = before[:begin], grammar(SCENARIOS)
    parsed = scenarios.parse(head)
    accepted = _accepted(scenarios, head, parsed)
    match [word.type for word in parsed.words]:
        case ["CALL"]:
            names = frozenset[NameKind]({"tool"})
        case ["USE", *_]:
            names = frozenset[NameKind]({"file"})
        case _:
            names = frozenset[NameKind]()
    return NextWords(begin, _fixed(scenarios, accepted), names)


def _in_condition(begin: int, text: str, start_rule: str, values: Container[str]) -> NextWords:
    """Words and names that may follow the beginning of a condition, or of a value."""
    if '"' in _TEXT.sub("", text):
        return NextWords(begin)
    conditions = condition_grammar()
    parsed = conditions.parse(text, start_rule, values)
    accepted = _accepted(conditions, text, parsed, start_rule, values)
    words = [word for each in accepted for word in _MANY_WORDS.get(each, ())]
    names = frozenset[NameKind](_CONDITION_NAMES[e] for e in accepted if e in _CONDITION_NAMES)
    return NextWords(begin, (*_fixed(conditions, accepted), *words), names)


def _word_start(before: str) -> int | None:
    """Beginning of the last word of a text; `None` in a comment."""
    if len(code(before)) < len(before.rstrip()):
        return None
    found = _PARTIAL.search(before)
    return len(before) if found is None else found.start()


def _accepted(
    lines: Grammar, text: str, parsed: Parsed, start_rule: str = "line", values: Container[str] = ()
) -> tuple[str, ...]:
    """Terminals that may follow a text; empty if the text is wrong before its end."""
    if parsed.unexpected is None:
        parsed = lines.parse(text + _PROBE, start_rule, values)
        at_end = parsed.unexpected is not None and parsed.unexpected.word == _PROBE.strip()
    else:
        at_end = parsed.unexpected.word.type == "$END"
    return parsed.unexpected.accepted if at_end and parsed.unexpected is not None else ()


def _fixed(lines: Grammar, accepted: Iterable[str]) -> tuple[str, ...]:
    """Words of the accepted terminals, without punctuation, which is faster to type than to choose."""
    words = (lines.fixed(terminal) for terminal in accepted)
    return tuple(word for word in words if word is not None and word[0].isalpha())


def _rule_names(lead: Collection[Token], accepted: Collection[str]) -> Iterable[NameKind]:
    """Kinds of names that may follow the words `lead`."""
    first = next(iter(lead), None)
    if "WORD" in accepted and (first is None or first.type != "LET"):
        yield "tool"
    if "FIELD" in accepted:
        yield "mapped field"
