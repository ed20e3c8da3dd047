"""How a gate describes itself: one status line a net for people, a short account for the model."""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable

from ..net import Marking, enabled_tool_transitions, format_marking
from ..passage import passage
from .granted import Granted
from .member import Member
from .moment import Moment

log = logging.getLogger(__name__)


def status_lines(
    nets: Iterable[tuple[str, Member]], active: Container[str] | None, granted: Granted, moment: Moment
) -> str:
    """`<net>: <marking>` for each net under its name, then `grant-1 (grant for deploy): granted:2`.

    Given the active keys, also `(active)` or `(inactive)` (G-20, G-21).
    """
    shown: list[tuple[str, Member]] = []
    for name, member in nets:
        standing = "" if active is None else " (active)" if member.key in active else " (inactive)"
        shown.append((name + standing, member))
    for key, member in granted.members.items():
        shown.append((f"{key} (grant for {member.net.transitions[0].tools[0]})", member))
    return "\n".join(f"{what}: {format_marking(marking_by_now(m, moment))}" for what, m in shown)


def marking_by_now(member: Member, moment: Moment) -> Marking:
    """Where time has brought a net; where it was left when that cannot be told."""
    try:
        return moment.marking(member)
    except Exception:
        log.exception("Net '%s' cannot be brought up to date", member.key)
        return member.state.marking


def system_prompt(active: Iterable[Member], moment: Moment) -> str:
    """What each active net lets the model do now (G-24)."""
    sections = "\n\n".join(_section(member, moment) for member in active)
    return f"## Active Petri Nets (composed)\n{sections}"


def _section(member: Member, moment: Moment) -> str:
    net, marking = member.net, marking_by_now(member, moment)
    gated = [
        tool
        for t in enabled_tool_transitions(net, marking)
        for tool in t.tools
        if not t.partial or passage(net, marking, tool) is not None
    ]
    return "\n".join(
        [
            f"### {net.name}",
            f"Available gated tools: {', '.join(gated) or 'none'}",
            f"Free tools: {', '.join(net.free_tools)}",
            f"State: {format_marking(marking)}",
        ]
    )
