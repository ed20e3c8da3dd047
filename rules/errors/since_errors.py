"""Messages about `since` and the tool that makes others necessary again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lark import Token

from ..parse.lines import code, write
from ..parse.statements import HUMAN
from .fault import Fault, closest, start
from .problems import cut, quote

_SINCE = "since"
SHAPE = f"write: require <tool> {_SINCE} <tool> before <tool>"


def misused_since(line: str, words: Sequence[Token]) -> Fault | None:
    """Fault of a `require` that misuses `since`."""
    text = [word.lower() for word in words]
    if text[:1] != ["require"]:
        return None
    before = text.index("before", 2) if "before" in text[2:] else len(text)
    if len(text) == 6 and before == 4 and text[2] not in {"or", "and", _SINCE}:
        near = closest(text[2], [_SINCE])
        if near is not None:
            message = f"expected 'before' or '{_SINCE}' at position 3, got {quote(words[2])}"
            return Fault.at(words[2], message, write(line, start(words[2]), len(words[2]), _SINCE))
    if _SINCE not in text[2:]:
        return None
    at = text.index(_SINCE, 2)
    if text[1].startswith(HUMAN):
        message = f"a person is asked about each call; '{_SINCE}' is for tools"
        return Fault.at(words[at], message, f"{SHAPE}, or after <tool> require {HUMAN} before <tool>")
    if at > before:
        return _since_behind(line, words, at)
    if before == len(text):
        return _without_before(line, words, at)
    between = words[at + 1 : before]
    if not between:
        message = f"expected a tool after '{_SINCE}', got 'before'"
        return Fault.at(words[before], message, write(line, start(words[before]), 0, "<tool> "))
    if len(between) > 1:
        message = f"'{_SINCE}' takes one tool, got {quote(between[1])} besides"
        return Fault.at(between[1], message, "write a rule for each: all of them have to be met")
    return None


def _since_behind(line: str, words: Sequence[Token], at: int) -> Fault | None:
    """Fault of `require test before deploy since edit`, whose end belongs before `before`."""
    if at + 2 != len(words) or at != 4:
        return None
    rule = f"require {cut(words[1])} {_SINCE} {cut(words[5])} before {cut(words[3])}"
    end = len(code(line)) - start(words[at])
    return Fault(start(words[at]), end, f"'{_SINCE}' must come before 'before'", f"write: {rule}")


def _without_before(line: str, words: Sequence[Token], at: int) -> Fault:
    more = " <tool>" if at + 1 == len(words) else ""
    remedy = f"write: {code(line).strip()}{more} before <tool>"
    expected = f"a tool after '{_SINCE}'" if more else f"'before' after {quote(words[-1])}"
    return Fault(len(code(line)), 1, f"expected {expected}, got the end of the line", remedy)


def since_faults(since: Token, needed: Sequence[Token], then: Token) -> Iterator[Fault | None]:
    """Faults of the tool after `since`, which makes the others necessary again."""
    if "*" in since:
        yield Fault.at(since, f"'*' has no meaning in a name, got {quote(since)}", "name one tool")
    elif str(since) == str(then):
        message = f"each {quote(then)} needs its own success anyway"
        yield Fault.at(since, message, f"leave it out: require {cut(needed[0])} before {cut(then)}")
    elif str(since) in map(str, needed):
        message = f"{quote(since)} would make itself necessary again"
        yield Fault.at(since, message, "name the tool that changes what was tested")
    elif str(needed[0]) == str(then):
        yield Fault.at(then, f"{quote(then)} is required before itself", "name another tool before it")
