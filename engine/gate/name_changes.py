"""Names that take calls from other nets, and nets that do so once they are switched on (G-66).

A call is `anything-else` while no rule, map or free list of the active nets names it, and a tool whose
name folds to one in the rules is judged by that one while nothing names it. A net that is switched on
names more, so a default, or a rule on a name that is written nearly alike, no longer holds for those
calls. What a tool wishes for itself names nothing: the rules decide what a default is for.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..core.rule import ANYTHING_ELSE, RESERVED, ApprovalRule, BlockRule, always, is_weaker_approval
from ..core.sanitize import folded_name
from ..net.net import SkillNet, renamed_by


def known_names(net: SkillNet) -> frozenset[str]:
    """The names that a net frees or gates."""
    return frozenset((*net.free_tools, *(name for t in net.transitions for name in t.tools)))


def named_tools(net: SkillNet) -> frozenset[str] | None:
    """The names by which a net says that a call is something else; `None` where it may be any."""
    if net.wish:
        return frozenset()
    renamed = None if net.tool_mapper is not None else renamed_by(net.call_names)
    return None if renamed is None else (known_names(net) | renamed) - RESERVED


def takes_from(net: SkillNet, other: SkillNet, active: Iterable[SkillNet]) -> bool:
    """Tell whether `net`, besides those `active`, lets calls pass with less than `other` asks for them.

    A rule that blocks all it names does not, nor one that asks about it on terms as strict as the
    other's. What such a rule names counts as the other's still: it may be switched off.
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
    """The name that a net's rule blocks, or asks about as strictly as `other` does."""
    match net.rule:
        case BlockRule(tool) as rule if always(rule):
            return frozenset((tool,))
        case ApprovalRule(tool) as rule if always(rule) and isinstance(other.rule, ApprovalRule):
            return frozenset() if is_weaker_approval(rule, other.rule) else frozenset((tool,))
        case _:
            return frozenset()
