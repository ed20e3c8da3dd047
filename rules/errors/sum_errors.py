"""Messages about limits on sums: `limit send_money to 1000.00 of input.amount per session`."""

from __future__ import annotations

from collections.abc import Sequence

from lark import Token

from ...engine.core.amounts import MOST_DECIMALS, MOST_DIGITS
from ..parse.lines import code
from .fault import Fault, start
from .problems import cut, quote

_OF = "of"


def no_amount(amount: Token) -> Fault:
    """Fault of a sum that is 0, or has too many digits."""
    message = f"a sum is a number above 0, got {quote(amount)}"
    remedy = f"write up to {MOST_DIGITS} digits, {MOST_DECIMALS} of them behind the point: 1000.00"
    return Fault.at(amount, message, remedy)


def sum_in_time(scope: Token) -> Fault:
    """Fault of a sum per time, because amounts would have to come back call by call."""
    message = f"a sum is limited per session, or until a tool succeeds, not per {quote(scope)}"
    return Fault.at(scope, message, "write 'per session', or limit the number of calls per time")


def misused_sum(line: str, words: Sequence[Token]) -> Fault | None:
    """Fault of a limit on a sum that is written wrongly."""
    text = [word.lower() for word in words]
    if text[:1] != ["limit"] or len(text) < 4 or text[2] != "to":
        return None
    if text[4:5] == [_OF]:
        return _bad_sum(line, words)
    if words[3].type != "AMOUNT":
        return None
    message = f"limit count must be a positive integer, got {quote(words[3])}"
    rule = f"limit {cut(words[1])} to {cut(words[3])} {_OF} input.amount per session"
    return Fault.at(words[3], message, f"of a sum name the field: {rule}")


def _bad_sum(line: str, words: Sequence[Token]) -> Fault | None:
    number = words[3]
    shape = f"write: limit {cut(words[1])} to {cut(number)} {_OF} input.amount per session"
    if number.type not in {"COUNT", "AMOUNT"}:
        return no_amount(number)
    if len(words) == 5:
        end = start(words[4]) + len(words[4])
        return Fault(end, 1, f"expected a field after '{_OF}', got the end of the line", shape)
    if "." not in words[5]:
        remedy = f"write: input.{cut(words[5])}"
        return Fault.at(words[5], f"expected a field such as input.amount, got {quote(words[5])}", remedy)
    if len(words) == 6:
        return Fault(len(code(line)), 1, "expected 'per', got the end of the line", shape)
    return None
