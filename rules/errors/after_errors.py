"""Messages about `after` in a rule that cannot have it there."""

from __future__ import annotations

from collections.abc import Sequence

from lark import Token

from ...engine.core.condition import Condition
from ..parse.statements import HUMAN
from .fault import Fault, start
from .problems import cut, quote

_AFTER = "after"
SHAPE = f"write: {_AFTER} <tool> require {HUMAN} before <tool>"
_WHOLE = {"require": 4, "limit": 6}
"""Words of the rules that `after` cannot follow."""


def misused_after(line: str, words: Sequence[Token]) -> Fault | None:
    """The fault of a line that says `after` in another way than the language has it."""
    text = [word.lower() for word in words]
    if _AFTER not in text:
        return None
    at = text.index(_AFTER)
    if at == 0:
        return _at_beginning(words, text)
    if text[0] == "block" and text[-1] == _AFTER and at == len(words) - 1 == 2:
        end = start(words[at]) + len(_AFTER)
        remedy = f"write: block {cut(words[1])} {_AFTER} <tool>"
        return Fault(end, 1, f"expected a tool after '{_AFTER}', got the end of the line", remedy)
    if text[0] == "block" and at == 1 and len(words) == 3:
        remedy = f"write: block <tool> {_AFTER} {cut(words[2])}"
        return Fault.at(words[at], f"expected the tool to block, got '{_AFTER}'", remedy)
    if len(words) < at + 2:
        return None
    by_person = text[0] == "require" and any(word.startswith(HUMAN) for word in text[1:3])
    if by_person and at >= _WHOLE["require"]:
        return _behind_approval(line, words[at], words[at + 1])
    if text[0] == "block" and at == 2 and "until" in text[at:]:
        return _bad_until(words, text.index("until", at))
    if at >= _WHOLE.get(text[0], len(words)):
        message = f"'{_AFTER}' stands in approvals and blocks only"
        return Fault.at(words[at], message, f"write: block <tool> {_AFTER} <tool>, or {SHAPE[7:]}")
    return None


def after_itself(cause: Token, tool: Token, when: Condition | None) -> list[Fault]:
    """The fault of a rule on one tool's calls after others of it, told apart by a condition."""
    if when is None or str(cause) != str(tool):
        return []
    message = f"a rule on {quote(tool)} after {quote(cause)} takes no condition: "
    message += "calls that do not meet it would not count"
    remedy = f"give some of them a name of their own: map {cut(tool)}.<field> <pattern> as <name>"
    return [Fault.at(cause, message, remedy)]


def _bad_until(words: Sequence[Token], at: int) -> Fault | None:
    """The fault of a block that ends with anything but a person's approval."""
    if at != 4 or words[at] != "until":
        remedy = f"write: block <tool> {_AFTER} <tool> until {HUMAN}"
        return Fault.at(words[at], f"'until' stands behind one tool after '{_AFTER}'", remedy)
    if len(words) > at + 1 and words[at + 1] == HUMAN:
        return None
    remedy = f"write: block {cut(words[1])} {_AFTER} {cut(words[3])} until {HUMAN}"
    if len(words) == at + 1:
        end = start(words[at]) + len(words[at])
        return Fault(end, 1, f"expected '{HUMAN}' after 'until', got the end of the line", remedy)
    return Fault.at(words[at + 1], f"a block ends with '{HUMAN}', got {quote(words[at + 1])}", remedy)


def raised_by_itself(cause: Token, tool: Token) -> list[Fault]:
    """The fault of a block that each call it lets pass would raise again."""
    if str(cause) != str(tool):
        return []
    message = f"each approved {quote(tool)} would be one after which it is blocked"
    return [Fault.at(cause, message, f"write: {_AFTER} {cut(tool)} require {HUMAN} before {cut(tool)}")]


def until_several(by: Token, tool: str, cause: str) -> Fault:
    """The fault of a block that several people would have to lift."""
    message = "one person's approval lifts a block"
    remedy = f"write: {_AFTER} {cut(cause)} require {HUMAN} before {cut(tool)} by {cut(by)}"
    return Fault.at(by, message, remedy)


def _at_beginning(words: Sequence[Token], text: Sequence[str]) -> Fault | None:
    if len(words) > 3 and text[2] == "block":
        remedy = f"write: block {cut(words[3])} {_AFTER} {cut(words[1])}"
        return Fault.at(words[2], f"expected 'require' at position 3, got {quote(words[2])}", remedy)
    if len(words) > 2 and text[2] != "require":
        return Fault.at(words[2], f"expected 'require' at position 3, got {quote(words[2])}", SHAPE)
    if len(words) > 3 and not text[3].startswith(HUMAN) and not text[3].isdigit():
        message = f"expected '{HUMAN}' or a number of people at position 4, got {quote(words[3])}"
        return Fault.at(words[3], message, SHAPE)
    return None


def _behind_approval(line: str, after: Token, cause: Token) -> Fault:
    """The fault of `require human-approval before send after read_web`, whose beginning is its end."""
    end = start(cause) + len(cause)
    rule = " ".join(f"{line[: start(after)]} {line[end:]}".split())
    message = f"'{_AFTER} {cut(cause)}' begins the rule"
    remedy = f"write: {_AFTER} {cut(cause)} {cut(rule)}"
    return Fault(start(after), end - start(after), message, remedy)
