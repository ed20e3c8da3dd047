"""Messages about who approves: groups, authors, and when a request is escalated."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lark import Token

from ...engine.core.durations import as_typed
from ..parse.lines import code, write
from ..parse.statements import HUMAN
from .fault import Fault, start
from .problems import quote

GROUP = "a group's name: one word of letters, digits, '-' and '_'"


_ESCALATE = "escalate"
_SHAPE = f"{_ESCALATE} to <group> after <time>"


def misused_approvers(line: str, words: Sequence[Token]) -> Fault | None:
    """Fault of an approval that misstates who approves."""
    text = [word.lower() for word in words]
    if not any(word.startswith(HUMAN) for word in text[1:6]):
        return None
    for at in range(4, len(words)):
        if "when" in text[4:at] or "because" in text[4:at]:
            return None
        if text[at] == "not" and text[at + 1 : at + 2] == ["author"]:
            return Fault.at(
                words[at + 1],
                f"expected 'by author' after 'not', got {quote(words[at + 1])}",
                write(line, start(words[at + 1]), 0, "by "),
            )
        if text[at] == _ESCALATE and text[at - 1] != "of":
            return _bad_escalation(line, words, at)
    return None


def _bad_escalation(line: str, words: Sequence[Token], at: int) -> Fault | None:
    """Fault of the words behind `escalate`; `None` if they are correct."""
    behind = words[at + 1 : at + 5]
    given = [*map(str, behind), *[""] * 4]
    kinds = ("to", r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", "after", r"[0-9]+[smhd]")
    for number, kind in enumerate(kinds):
        if re.fullmatch(kind, given[number]) is None:
            remedy = f"write for example: {_ESCALATE} to oncall after 10m"
            if number == len(behind):
                end = len(code(line))
                return Fault(end, 1, f"expected '{_SHAPE}', got the end of the line", remedy)
            return Fault.at(behind[number], f"expected '{_SHAPE}', got {quote(given[number])}", remedy)
    return None


def escalated_to_itself(group: Token) -> Fault:
    """Fault of an escalation to people who may approve already."""
    message = f"members of {quote(group)} may approve from the beginning"
    return Fault.at(group, message, "name another group, or leave 'escalate' out")


def escalated_late(line: str, wait: Token, within: float) -> Fault:
    """Fault of an escalation after the request has expired."""
    message = f"the request ends after {as_typed(within)}, and would be escalated after {quote(wait)}"
    sooner = as_typed(within / 2) if within >= 2 else None
    remedy = "name a time that is shorter than that after 'within'"
    if sooner is not None:
        remedy = write(line, start(wait), len(wait), sooner)
    return Fault.at(wait, message, remedy)
