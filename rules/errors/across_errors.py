"""Messages about `across everyone`: limits whose calls are counted over sessions."""

from __future__ import annotations

from collections.abc import Sequence

from lark import Token

from ...engine.core.shared_limit import REACHES
from ..parse.lines import code
from .fault import Fault
from .problems import cut, quote

_ACROSS = "across"
_CHOICE = "'everyone', 'agent' or 'operator'"


def across_without_time(scope: Token, reach: Token) -> Fault:
    """Fault of a limit over sessions that is not per time, but per session or per success of a tool."""
    message = f"over sessions calls are counted per time, got {quote(scope)}"
    return Fault.at(scope, message, f"write a time: per 1d {_ACROSS} {cut(reach)}")


def misused_across(line: str, words: Sequence[Token]) -> Fault | None:
    """Fault of a rule that misuses `across`."""
    text = [word.lower() for word in words]
    if not text or text[0] not in {"require", "limit", "block", "after"} or _ACROSS not in text[2:]:
        return None
    at = text.index(_ACROSS, 2)
    if text[0] != "limit":
        return None if at == 2 else _not_here(words[at], "leave it out: the rule holds in every session")
    if "of" in text[4:5]:
        return _not_here(words[at], "limit the number of calls per time, or the sum per session")
    if len(words) == at + 1:
        shape = f"write: {_ACROSS} everyone"
        return Fault(len(code(line)), 1, f"expected {_CHOICE} after '{_ACROSS}', got the end", shape)
    if words[at + 1] not in REACHES:
        message = f"expected {_CHOICE} after '{_ACROSS}', got {quote(words[at + 1])}"
        return Fault.at(words[at + 1], message, f"write: {_ACROSS} everyone")
    behind = words[at + 2 : at + 3]
    if behind and behind[0] in {"per", "for"}:
        remedy = f"write: … {behind[0]} <…> {_ACROSS} {words[at + 1]}"
        return Fault.at(behind[0], f"{quote(behind[0])} must come before '{_ACROSS}'", remedy)
    return None


def _not_here(word: Token, remedy: str) -> Fault:
    return Fault.at(word, f"'{_ACROSS}' is allowed only in limits on the number of calls", remedy)
