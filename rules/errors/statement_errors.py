"""Messages about faults in a line (G-40).

The grammar says what was expected and where. This module adds the text for people and the remedy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lark import Token

from ...engine.core.rule import UNCLEAR
from ..parse.grammar import Grammar, LineReading, Unexpected
from ..parse.patterns import no_pattern
from ..parse.statements import MAX_LIMIT
from .across_errors import misused_across
from .after_errors import misused_after
from .approver_errors import misused_approvers
from .fault import Fault, closest, either, start
from .option_errors import misfit, misplaced, people
from .problems import cut, quote
from .sequence_errors import JOINING, misjoined, misused_once
from .since_errors import misused_since
from .sum_errors import misused_sum
from .value_errors import misused_let
from .value_key_errors import misused_values

WHOLE_NUMBER = f"write a whole number from 1 to {MAX_LIMIT:,}"

_MEANT = {
    "allow": "what no rule restricts is allowed: leave the line out",
    "permit": "what no rule restricts is allowed: leave the line out",
    "free": "what no rule restricts is allowed: leave the line out",
    "never": "did you mean 'block'?",
    "deny": "did you mean 'block'?",
    "forbid": "did you mean 'block'?",
    "disallow": "did you mean 'block'?",
    "ask": "did you mean '{approval}'?",
    "approve": "did you mean '{approval}'?",
    "confirm": "did you mean '{approval}'?",
    "human-approval": "did you mean '{approval}'?",
    "shell": "did you mean 'map shell'?",
    "use": "scenarios belong in a file of their own",
    "scenario": "scenarios belong in a file of their own",
}

_ALLOW = "allow"
"""Begins `allow unclear <tool>` and nothing else."""
_UNLISTED = {_ALLOW, "after", "let"}
"""Keywords missing in the reference's sentence on an unknown keyword."""

_PLACES = {
    "FIELD": "<tool>.<field>",
    "COUNT": "<N>",
    "NUMBER": "<N>",
    "VALUE": "<value>",
    "_causes": "<tool>",
}


def faults(line: str, reading: LineReading, grammar: Grammar) -> list[Fault]:
    """Faults that keep a line from being the statement as which it begins.

    If a line has too many or too few words, it is unknown which of them are wrong, so only their number
    is reported.
    """
    if reading.statement is None:
        return [_unknown(unexpected, grammar) for unexpected in reading.unexpected]
    if reading.statement.data == _ALLOW and not _allows_unclear(reading.words):
        return [_unknown(Unexpected(reading.words[0], 1, grammar.keywords), grammar)]
    shape = _shape(_statement_shown(reading), grammar)
    other = misused_let(line, reading.words) or misused_approvers(line, reading.words)
    other = other or misused_after(line, reading.words)
    for misused in (misused_values, misused_across, misused_sum, misused_once):
        other = other or misused(line, reading.words)
    other = other or misused_since(line, reading.words) or misjoined(line, reading.words)
    other = other or people(line, reading.words)
    if other is None and not reading.fits:
        other = _option(line, reading, grammar) or misfit(line, reading, shape, grammar)
        other = other or _wrong_count(line, reading.words, shape, grammar)
    if other is not None:
        return [other]
    return [_misplaced(line, unexpected, shape, grammar) for unexpected in reading.unexpected]


def _statement_shown(reading: LineReading) -> str:
    """Statement whose form a message shows, with a number of people only if the line has one."""
    assert reading.statement is not None
    statement = reading.statement.data
    numbered = any(word.isdigit() for word in reading.words)
    return "after" if statement == "after_people" and not numbered else statement


def _allows_unclear(words: Sequence[Token]) -> bool:
    """Return whether a line that begins with `allow` is about unclear calls, its only valid subject."""
    return len(words) > 1 and (words[1] == UNCLEAR or closest(words[1], [UNCLEAR]) is not None)


def _unknown(unexpected: Unexpected, grammar: Grammar) -> Fault:
    word = unexpected.word
    keywords = _fixed(unexpected, grammar)
    close = closest(word, keywords) if word != _ALLOW else None
    keywords = [keyword for keyword in keywords if keyword not in _UNLISTED]
    remedy = f"did you mean '{close}'?" if close else _MEANT.get(word.lower(), "")
    if "{approval}" in remedy:
        remedy = remedy.format(approval=" ".join(_shape("approval", grammar)))
    message = f"unknown keyword {quote(word)}. Expected {either(keywords)}"
    return Fault.at(word, message, remedy)


def _wrong_count(line: str, words: Sequence[Token], shape: Sequence[str], grammar: Grammar) -> Fault:
    end = start(words[-1]) + len(words[-1])
    begin = start(words[len(shape)]) if len(words) > len(shape) else end
    message = f"'{' '.join(shape)}' expects {len(shape)} tokens, got {len(words)}"
    remedy = _write(_almost(words, grammar) or shape)
    pairs = zip(shape, words, strict=False)
    in_regex = any(part == "<pattern>" and word.startswith("/") for part, word in pairs)
    if in_regex and len(words) > len(shape):
        remedy = r"a pattern must not contain blanks: write \s for one"
    elif in_regex and "#" in line:
        remedy = r"'#' starts a comment everywhere: write \x23 for it in a pattern"
    return Fault(begin, max(1, end - begin), message, remedy)


def _almost(words: Sequence[Token], grammar: Grammar) -> list[str] | None:
    """The statement whose second word is present, but misspelt or split."""
    second = [word.lower() for word in words[1:3]]
    if second == ["human", "approval"]:
        return _shape("approval", grammar)
    shell = _shape("shell_map", grammar)
    misspelt = (
        len(words) == len(shell) and words[0] == shell[0] and second[0] in {"shell", "shells", "sh"}
    )
    return shell if misspelt else None


def _option(line: str, reading: LineReading, grammar: Grammar) -> Fault | None:
    """Fault of an option, if the rest of the line is wrong because of it."""
    for unexpected in reading.unexpected:
        fault = misplaced(line, unexpected.word, unexpected.accepted, _fixed(unexpected, grammar))
        if fault is not None:
            return fault
    return None


def _misplaced(line: str, unexpected: Unexpected, shape: Sequence[str], grammar: Grammar) -> Fault:
    word = unexpected.word
    for terminal in unexpected.accepted:
        if terminal in _INSTEAD_OF:
            return _INSTEAD_OF[terminal](word, shape)
    fixed = _fixed(unexpected, grammar)
    fault = misplaced(line, word, unexpected.accepted, fixed)
    if fault is not None:
        return fault
    # Where the reference expects only `before`, its sentence is unchanged.
    joining = {*JOINING, "once", "since"} if "before" in fixed else {"of"} if "per" in fixed else ()
    shown = [each for each in fixed if each not in joining]
    message = f"expected {either(shown)} at position {unexpected.position}, got {quote(word)}"
    close = closest(word, fixed)
    return Fault.at(word, message, f"did you mean '{close}'?" if close else _write(shape))


def _no_field(word: Token, shape: Sequence[str]) -> Fault:
    if "." in word:
        return Fault.at(word, f"tool and field must be non-empty in {quote(word)}", _write(shape))
    message = f"expected <tool>.<field> (e.g., bash.command), got {quote(word)}"
    return Fault.at(word, message, f"name the tool's field to look in: {cut(word)}.<field>")


def _no_count(word: Token, shape: Sequence[str]) -> Fault:
    message = f"limit count must be a positive integer, got {quote(word)}"
    return Fault.at(word, message, f"{WHOLE_NUMBER} in digits only")


def _no_pattern(word: Token, shape: Sequence[str]) -> Fault:
    return Fault.at_part(word, no_pattern(word))


_INSTEAD_OF: Mapping[str, Callable[[Token, Sequence[str]], Fault]] = {
    "FIELD": _no_field,
    "COUNT": _no_count,
    "REGEX": _no_pattern,
}


def _shape(statement: str, grammar: Grammar) -> list[str]:
    """A statement as shown to people, word by word: `block <tool>`."""
    symbols = grammar.symbols(statement)
    return [grammar.fixed(s) or _PLACES.get(s, f"<{s}>") for s in symbols]


def _write(shape: Sequence[str]) -> str:
    return f"write: {' '.join(shape)}"


def _fixed(unexpected: Unexpected, grammar: Grammar) -> list[str]:
    """The words of which one would have been correct."""
    return [word for terminal in unexpected.accepted if (word := grammar.fixed(terminal))]
