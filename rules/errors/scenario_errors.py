"""Messages about faults in a line of a scenario; `statement_errors` has those for rules."""

from __future__ import annotations

from collections.abc import Sequence

from lark import Token

from ..parse.durations import ONE_UNIT, joined, nearest_duration
from ..parse.grammar import Grammar, LineReading, Unexpected
from .fault import Fault, closest, either, one_of, start
from .option_errors import TIME
from .problems import quote

_END = "$END"

USAGE = {
    "use": "use <file> …",
    "scenario": 'scenario "<name>"',
    "call": "call <tool> [<field> <value> …] [fails | returns <value>]",
    "expect": 'expect allow, expect ask, or expect block ["<reason>"]',
    "approve": "approve [as <name>]",
    "deny": 'deny [as <name>] ["<reason>"]',
    "switch": "switch <net> on, or switch <net> off",
    "mode": "mode enforce, or mode shadow",
    "wait": "wait <time>",
    "say": 'say "<text>"',
    "session": "session agent <name>, session started_by <name>, session labels <label> …, "
    "or session new",
    "another": "session new",
    "hint": "hint <tool> read_only true, also destructive, idempotent or open_world, with true or false",
    "group": "group <name> <member>, …",
}

_MEANT = {
    "allow": "did you mean 'expect allow'?",
    "allowed": "did you mean 'expect allow'?",
    "ask": "did you mean 'expect ask'?",
    "asks": "did you mean 'expect ask'?",
    "block": "did you mean 'expect block'?",
    "blocked": "did you mean 'expect block'?",
    "require": "rules belong in a file of their own: use <file>",
    "limit": "rules belong in a file of their own: use <file>",
    "map": "rules belong in a file of their own: use <file>",
    "test": "did you mean 'scenario'?",
    "reject": "did you mean 'deny'?",
    "sleep": "did you mean 'wait'?",
    "user": "did you mean 'say'?",
    "says": "did you mean 'say'?",
}

_KINDS = {
    "WORD": "a word",
    "STRING": "a text in double quotes",
    "DURATION": TIME,
    _END: "the end of the line",
}


def scenario_faults(reading: LineReading, grammar: Grammar) -> list[Fault]:
    """Faults that keep a line from being the statement as which it begins."""
    for position, word in enumerate(reading.words, 1):
        if word.type != "STRING" and word.startswith('"') and reading.statement is not None:
            message = (
                f"expected a text between two double quotes at position {position}, got {quote(word)}"
            )
            return [Fault.at(word, message, r'end it with ", and write \" for a quote inside it')]
        if _opens(reading, position, word):
            message = f"{quote(word[0])} is not closed: a list or an object is written as in JSON"
            return [Fault.at(word, message, "a text that begins with a bracket must be in double quotes")]
    if reading.statement is None:
        return [_unknown(unexpected, grammar) for unexpected in reading.unexpected]
    usage = f"write: {USAGE[reading.statement.data]}"
    words = [*reading.unexpected]
    if reading.misfit is not None and not words:
        words.append(reading.misfit)
    return [_misplaced(unexpected, usage, reading, grammar) for unexpected in words]


def _opens(reading: LineReading, position: int, word: Token) -> bool:
    """Return whether a word begins, but does not end, a list or an object as a value of a call."""
    if reading.statement is None or reading.statement.data != "call" or word.type != "WORD":
        return False
    return position > 3 and position % 2 == 0 and word.startswith(("[", "{"))


def _unknown(unexpected: Unexpected, grammar: Grammar) -> Fault:
    word = unexpected.word
    keywords = [keyword for t in unexpected.accepted if (keyword := grammar.fixed(t))]
    remedy = _MEANT.get(word.lower(), "")
    if not remedy and (close := closest(word, keywords)):
        remedy = f"did you mean '{close}'?"
    return Fault.at(word, f"unknown keyword {quote(word)}. Expected {either(keywords)}", remedy)


def _misplaced(unexpected: Unexpected, usage: str, reading: LineReading, grammar: Grammar) -> Fault:
    word, accepted = unexpected.word, unexpected.accepted
    expected = f"expected {_kinds(accepted, grammar)} at position {unexpected.position}"
    if word.type == _END:
        last = reading.words[-1]
        return Fault(start(last) + len(last), 1, f"{expected}, got the end of the line", usage)
    if "DURATION" in accepted and (time := nearest_duration(str(word))) is not None:
        what = expected if joined(word) is None else ONE_UNIT
        return Fault.at(word, f"{what}, got {quote(word)}", f"write: wait {time}")
    fixed = [keyword for terminal in accepted if (keyword := grammar.fixed(terminal))]
    close = closest(word, fixed)
    return Fault.at(
        word, f"{expected}, got {quote(word)}", f"did you mean '{close}'?" if close else usage
    )


def _kinds(accepted: Sequence[str], grammar: Grammar) -> str:
    """Kinds of words that are accepted: `a word or the end of the line`."""
    # Most users look for a text or a word; those who write JSON know that it is also accepted.
    kinds = (f"'{fixed}'" if (fixed := grammar.fixed(t)) else _KINDS[t] for t in accepted if t != "JSON")
    return one_of([*kinds])
