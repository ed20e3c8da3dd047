"""Messages about `for same input.pr` and `for each input.customer`: rules per value of a field."""

from __future__ import annotations

from collections.abc import Sequence

from lark import Token

from ..parse.lines import code
from .fault import Fault
from .problems import cut, quote

SAME = "same"
EACH = "each"
_FOR = "for"
_EXAMPLES = {SAME: "input.pr", EACH: "input.customer"}
_KINDS = {SAME: "an order", EACH: "a limit"}
_HUMAN = "human-approval"


def other_quantity(word: Token, expected: str) -> Fault:
    """Fault of `for each` in an order, or `for same` in a limit."""
    message = f"{_KINDS[expected]} says '{_FOR} {expected}', got {quote(word)}"
    return Fault.at(word, message, f"write: {_FOR} {expected} <field>")


def no_input_field(field: Token) -> Fault:
    """Fault of a field that is not in a call's input."""
    message = f"expected a field of the call such as input.pr, got {quote(field)}"
    remedy = f"write: input.{cut(field)}" if "." not in field else "begin with 'input.'"
    return Fault.at(field, message, remedy)


def misused_values(line: str, words: Sequence[Token]) -> Fault | None:
    """Fault of a rule that misuses `for`."""
    text = [word.lower() for word in words]
    if not text or text[0] not in {"require", "limit", "block", "after"} or _FOR not in text[2:]:
        return None
    at = text.index(_FOR, 2)
    if at == 2 and text[0] == "require":
        return None
    if text[0] == "after":
        return _behind_options(words, text, at) or _bad_end(line, words, at, SAME)
    if text[1].startswith(_HUMAN) or "until" in text:
        remedy = "leave it out: a person is asked about each call, whatever is in it"
        return Fault.at(words[at], f"'{_FOR}' is allowed only in orders, limits and blocks", remedy)
    if text[0] == "block" and "after" not in text:
        remedy = "write: block <tool> when <condition>"
        return Fault.at(words[at], f"'{_FOR}' in a block must follow 'after <tool>'", remedy)
    return _bad_end(line, words, at, EACH if text[0] == "limit" else SAME)


def _behind_options(words: Sequence[Token], text: Sequence[str], at: int) -> Fault | None:
    """Fault of `for same input.pr` behind an option, which must come after it."""
    before = text.index("before") if "before" in text[:at] else len(text)
    if before + 2 >= at:
        return None
    remedy = f"write: … before {cut(words[before + 1])} {_FOR} {SAME} <field> {cut(words[before + 2])} …"
    return Fault.at(words[at], f"'{_FOR}' must follow the tool and come before the options", remedy)


def _bad_end(line: str, words: Sequence[Token], at: int, expected: str) -> Fault | None:
    """Fault of the words behind `for`."""
    end = len(code(line))
    shape = f"write: {_FOR} {expected} {_EXAMPLES[expected]}"
    if len(words) == at + 1:
        return Fault(end, 1, f"expected '{expected}' after '{_FOR}', got the end of the line", shape)
    quantity = words[at + 1]
    if quantity not in (SAME, EACH):
        remedy = f"write: {_FOR} {expected} {cut(quantity)}" if "." in quantity else shape
        return Fault.at(quantity, f"expected '{expected}' after '{_FOR}', got {quote(quantity)}", remedy)
    if len(words) == at + 2:
        message = f"expected a field after '{_FOR} {quantity}', got the end of the line"
        return Fault(end, 1, message, shape)
    field = words[at + 2]
    if "." not in field:
        return no_input_field(field)
    behind = words[at + 3 : at + 4]
    if behind and behind[0] in {"per", "within"}:
        remedy = f"write: … {behind[0]} <…> {_FOR} {quantity} {cut(field)}"
        return Fault.at(behind[0], f"{quote(behind[0])} must come before '{_FOR}'", remedy)
    return None
