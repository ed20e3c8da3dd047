"""Messages about `after` where a rule cannot have it."""

from __future__ import annotations

from collections.abc import Sequence

from lark import Token

from ...engine.core.condition import Condition
from ..parse.lines import write
from ..parse.statements import HUMAN
from .fault import Fault, start
from .problems import cut, quote

_AFTER = "after"
_OR = "or"
SHAPE = f"write: {_AFTER} <tool> require {HUMAN} before <tool>"
_WHOLE = {"require": 4, "limit": 6}
"""Number of words of the rules that `after` cannot follow."""


def misused_after(line: str, words: Sequence[Token]) -> Fault | None:
    """Fault of a line that misuses `after`."""
    text = [word.lower() for word in words]
    if _AFTER not in text:
        return None
    at = text.index(_AFTER)
    if (fault := _misjoined(line, words, text, at)) is not None:
        return fault
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
        return _behind_approval(line, words, at)
    if text[0] == "block" and at == 2 and "until" in text[at:]:
        return _bad_until(words, text.index("until", at))
    if at >= _WHOLE.get(text[0], len(words)):
        message = f"'{_AFTER}' is allowed only in approvals and blocks"
        return Fault.at(words[at], message, f"write: block <tool> {_AFTER} <tool>, or {SHAPE[7:]}")
    return None


def _misjoined(line: str, words: Sequence[Token], text: Sequence[str], at: int) -> Fault | None:
    """Fault of tools behind `after` that are not joined by `or`."""
    if at not in (0, 2) or (at == 2 and text[0] != "block"):
        return None
    behind = text[at + 1 :]
    ends = [
        behind.index(word) for word in ("require", "until", "for", "when", "because") if word in behind
    ]
    end = at + 1 + min(ends, default=len(behind))
    for number in range(at + 1, end):
        word, more = words[number], number + 1 < end
        if text[number] == "and" and at + 1 < number:
            message = "one call of any of them brings the rule into effect: tools are joined by 'or'"
            return Fault.at(word, message, write(line, start(word), len(word), _OR))
        if word.endswith(",") and len(word) > 1 and more:
            joined = text[number + 1] == _OR
            remedy = write(line, start(word), len(word), word.rstrip(",") + ("" if joined else f" {_OR}"))
            return Fault.at(word, f"tools are joined by '{_OR}', got {quote(word)}", remedy)
        if text[number] == _OR and not more and at + 1 < number:
            got = quote(words[end]) if end < len(words) else "the end of the line"
            place = start(word) + len(word)
            remedy = write(line, place, 0, " <tool>")
            return Fault(place, 1, f"expected a tool after '{_OR}', got {got}", remedy)
    return None


def after_faults(causes: Sequence[Token], tool: Token, when: Condition | None) -> list[Fault]:
    """Faults of the tools after which a rule is in effect."""
    if len(causes) == 1:
        return _after_itself(causes[0], tool, when)
    found: list[Fault] = []
    for at, cause in enumerate(causes):
        if str(cause) in map(str, causes[:at]):
            found.append(Fault.at(cause, f"{quote(cause)} is named twice", "name each tool once"))
        elif str(cause) == str(tool):
            message = f"{quote(tool)} after itself needs a rule of its own"
            found.append(Fault.at(cause, message, "leave it out, and write a second rule for it"))
    return found


def _after_itself(cause: Token, tool: Token, when: Condition | None) -> list[Fault]:
    """Fault of a rule on one tool's calls after other calls of it, distinguished by a condition."""
    if when is None or str(cause) != str(tool):
        return []
    message = f"a rule on {quote(tool)} after {quote(cause)} takes no condition: "
    message += "calls that do not meet it would not count"
    remedy = f"give some of them a name of their own: map {cut(tool)}.<field> <pattern> as <name>"
    return [Fault.at(cause, message, remedy)]


def _bad_until(words: Sequence[Token], at: int) -> Fault | None:
    """Fault of a block with `until` that does not end with an approval."""
    if words[at] != "until" or {*words[4:at:2]} - {_OR}:
        remedy = f"write: block <tool> {_AFTER} <tool> until {HUMAN}"
        return Fault.at(words[at], f"'until' must follow a single tool after '{_AFTER}'", remedy)
    if len(words) > at + 1 and words[at + 1] == HUMAN:
        return None
    remedy = f"write: block {cut(words[1])} {' '.join(map(cut, words[2:at]))} until {HUMAN}"
    if len(words) == at + 1:
        end = start(words[at]) + len(words[at])
        return Fault(end, 1, f"expected '{HUMAN}' after 'until', got the end of the line", remedy)
    return Fault.at(words[at + 1], f"a block ends with '{HUMAN}', got {quote(words[at + 1])}", remedy)


def raised_by_itself(cause: Token, tool: Token) -> list[Fault]:
    """Fault of a block that every call that it lets pass would bring into effect again."""
    if str(cause) != str(tool):
        return []
    message = f"each approved {quote(tool)} would block it again"
    return [Fault.at(cause, message, f"write: {_AFTER} {cut(tool)} require {HUMAN} before {cut(tool)}")]


def until_several(by: Token, tool: str, cause: str) -> Fault:
    """Fault of a block that several people would have to lift."""
    message = "one person's approval lifts a block"
    remedy = f"write: {_AFTER} {cut(cause)} require {HUMAN} before {cut(tool)} by {cut(by)}"
    return Fault.at(by, message, remedy)


def _at_beginning(words: Sequence[Token], text: Sequence[str]) -> Fault | None:
    at = _last_cause(words, 0) + 1
    if len(words) > at + 1 and text[at] == "block":
        remedy = f"write: block {cut(words[at + 1])} {' '.join(map(cut, words[:at]))}"
        return _other_than_require(words, at, remedy)
    if len(words) > at and text[at] != "require":
        return _other_than_require(words, at, SHAPE)
    if len(words) > at + 1 and not text[at + 1].startswith(HUMAN) and not text[at + 1].isdigit():
        found = words[at + 1]
        message = f"expected '{HUMAN}' or a number of people at position {at + 2}, got {quote(found)}"
        return Fault.at(found, message, SHAPE)
    return None


def _other_than_require(words: Sequence[Token], at: int, remedy: str) -> Fault:
    message = f"expected 'require' at position {at + 1}, got {quote(words[at])}"
    return Fault.at(words[at], message, remedy)


def _last_cause(words: Sequence[Token], after: int) -> int:
    """Position of the last of the tools joined by `or` behind `after`."""
    last = after + 1
    while last + 2 < len(words) and words[last + 1] == _OR:
        last += 2
    return last


def _behind_approval(line: str, words: Sequence[Token], at: int) -> Fault:
    """Fault of `require human-approval before send after read_web`, whose end belongs first."""
    last = _last_cause(words, at)
    after, end = words[at], start(words[last]) + len(words[last])
    rule = " ".join(f"{line[: start(after)]} {line[end:]}".split())
    causes = " ".join(map(cut, words[at : last + 1]))
    message = f"'{causes}' begins the rule"
    remedy = f"write: {causes} {cut(rule)}"
    return Fault(start(after), end - start(after), message, remedy)
