"""Nets that no longer judge some calls once another net is switched on (G-66).

A call is `anything-else` while no rule, map or free list of the active nets names it. A tool whose name
folds to a name in the rules is judged by that name while nothing names it exactly. A net that is switched
on names more tools, so rules on `anything-else`, or on a similar name, no longer apply to those calls. A
restriction that a tool requests for itself does not count as naming it: the rules decide which calls
`anything-else` covers.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..core.rule import ANYTHING_ELSE, RESERVED, ApprovalRule, BlockRule, always, is_weaker_approval
from ..core.sanitize import folded_name
from ..net.net import SkillNet, renamed_by


def known_names(net: SkillNet) -> frozenset[str]:
    """Names that a net frees or gates."""
    return frozenset((*net.free_tools, *(name for t in net.transitions for name in t.tools)))


def named_tools(net: SkillNet) -> frozenset[str] | None:
    """Names that keep a call from being `anything-else`; `None` if any name may do so."""
    if net.wish:
        return frozenset()
    renamed = None if net.tool_mapper is not None else renamed_by(net.call_names)
    return None if renamed is None else (known_names(net) | renamed) - RESERVED


def takes_from(net: SkillNet, other: SkillNet, active: Iterable[SkillNet]) -> bool:
    """Return whether `net`, in addition to `active`, lets calls pass with less than `other` requires.

    A rule that blocks every call it names does not, and neither does one that requires approval on terms
    at least as strict as the other's. The names of such a rule still count as the other's, because the
    rule may be switched off.
    """
    judged = known_names(other)
    folded = {folded_name(name) for name in judged}
    names = named_tools(net)
    if names is None:
        return ANYTHING_ELSE in judged
    names -= _guarded_names(net, other)
    for each in active:
        names -= (named_tools(each) or frozenset()) - _guarded_names(each, other)
    if ANYTHING_ELSE in judged:
        return bool(names)
    return any(name not in judged and folded_name(name) in folded for name in names)


def _guarded_names(net: SkillNet, other: SkillNet) -> frozenset[str]:
    """The name that a net's rule blocks, or for which it asks approval as strictly as `other` does."""
    match net.rule:
        case BlockRule(tool) as rule if always(rule):
            return frozenset((tool,))
        case ApprovalRule(tool) as rule if always(rule) and isinstance(other.rule, ApprovalRule):
            return frozenset() if is_weaker_approval(rule, other.rule) else frozenset((tool,))
        case _:
            return frozenset()
