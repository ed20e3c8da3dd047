"""Messages about `or`, `and` and commas between the tools of a `require`.

The reference supports none of them: if it has a sentence for such a line, the message begins with it.
"""

from __future__ import annotations

from collections.abc import Sequence

from lark import Token

from ..parse.lines import code, write
from ..parse.statements import HUMAN
from .fault import Fault, start
from .problems import cut, quote

JOINING = ("or", "and")
_ONCE = "once"


def misjoined(line: str, words: Sequence[Token]) -> Fault | None:
    """Fault of a `require` whose tools are joined wrongly."""
    text = [word.lower() for word in words]
    if text[:1] != ["require"]:
        return None
    if "before" not in text[2:]:
        return _without_before(line, words) if len(words) > 2 and words[2] in JOINING else None
    shape = f"require {HUMAN if text[1] == HUMAN else '<tool>'} before <tool>"
    counted = f"'{shape}' expects 4 tokens, got {len(words)}"
    before = text.index("before", 2)
    joining = [word for word in words[2:before] if word in JOINING]
    other = next((word for word in joining if str(word) != str(joining[0])), None)
    if other is not None:
        message = f"{counted}: tools are joined by {quote(joining[0])} or by {quote(other)}, not by both"
        return Fault.at(other, message, "write several rules: all of them have to be met")
    if words[before - 1] in JOINING and before > 2:
        message = f"{counted}: expected a tool after {quote(words[before - 1])}, got 'before'"
        return Fault.at(words[before], message, write(line, start(words[before]), 0, "<tool> "))
    behind = words[before + 1 :]
    if joining and text[1] == HUMAN:
        last = cut(behind[0]) if behind else "<tool>"
        remedy = f"write a rule of its own: require {HUMAN} before {last}"
        return Fault.at(words[1], f"{counted}: '{HUMAN}' is joined with no tool", remedy)
    comma = next((word for word in words[1:before] if word.endswith(",") and len(word) > 1), None)
    if comma is not None:
        joined = len(words) > words.index(comma) + 1 and words[words.index(comma) + 1] in JOINING
        remedy = write(line, start(comma), len(comma), f"{comma.rstrip(',')}{'' if joined else ' and'}")
        return Fault.at(
            comma, f"{counted}: tools are joined by 'or' or 'and', got {quote(comma)}", remedy
        )
    if len(behind) > 2 and behind[1] in JOINING:
        first = " ".join(map(cut, words[1:before]))
        remedy = f"write a rule for each: require {first} before {cut(behind[2])}"
        message = f"{counted}: a rule restricts one tool, got {quote(behind[2])} besides"
        return Fault(start(behind[1]), len(code(line)) - start(behind[1]), message, remedy)
    return None


def expiring_itself(within: Token, then: Token) -> Fault:
    message = f"{quote(then)} is required before itself, and takes no 'within'"
    return Fault.at(within, message, "name another tool before it, or leave the time out")


def misused_once(line: str, words: Sequence[Token]) -> Fault | None:
    """Fault of a `require` with a misplaced `once`."""
    text = [word.lower() for word in words]
    if text[:1] != ["require"] or "before" not in text[2:]:
        return None
    before = text.index("before", 2)
    if "once" in text[2:before]:
        at = text.index("once", 2)
        if text[1] == HUMAN:
            message = f"a person is asked about each call; '{_ONCE}' is for tools"
            remedy = "leave it out: whoever approves may grant later calls as well"
            return Fault.at(words[at], message, remedy)
        again = text.index("once", at + 1) if "once" in text[at + 1 : before] else None
        if again is not None:
            return Fault.at(words[again], f"'{_ONCE}' is given twice", "leave one out")
        if "since" in text[2:at]:
            message = f"'{_ONCE}' must come before 'since'"
            return Fault.at(words[at], message, "write: require <tool> once since <tool> before <tool>")
    if text[before + 2 :] == ["once"] and before == 2:
        return Fault.at(
            words[-1],
            f"'{_ONCE}' must come before 'before'",
            f"write: require {cut(words[1])} {_ONCE} before {cut(words[3])}",
        )
    return None


def unlocking_itself(once: Token, then: Token) -> Fault:
    message = f"{quote(then)} is required before itself, and takes no 'once'"
    return Fault.at(once, message, "name another tool before it, or leave the word out")


def _without_before(line: str, words: Sequence[Token]) -> Fault:
    """Fault of a `require` that names prerequisites but no tool that needs them."""
    remedy = f"write: {code(line).strip()} before <tool>"
    if words[-1] in JOINING:
        remedy = f"write: {code(line).strip()} <tool> before <tool>"
    if len(words) == 4:
        message = f"expected 'before' at position 3, got {quote(words[2])}"
        return Fault.at(words[2], message, remedy)
    message = f"'require <tool> before <tool>' expects 4 tokens, got {len(words)}"
    return Fault(len(code(line)), 1, message, remedy)
