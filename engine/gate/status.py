"""How a gate describes itself: one status line a net for people, a short account for the model."""

from __future__ import annotations

from collections.abc import Iterable

from ..net import enabled_tool_transitions, format_marking
from .member import Member


def status_line(name: str, member: Member, standing: str = "") -> str:
    """`<net>: <marking>`, with `(active)` or `(inactive)` in a registry (G-20, G-21)."""
    return f"{name}{standing}: {format_marking(member.state.marking)}"


def system_prompt(active: Iterable[Member]) -> str:
    """What each active net lets the model do now (G-24)."""
    return "## Active Petri Nets (composed)\n" + "\n\n".join(_section(member) for member in active)


def _section(member: Member) -> str:
    net, marking = member.net, member.state.marking
    gated = [tool for t in enabled_tool_transitions(net, marking) for tool in t.tools]
    return "\n".join(
        [
            f"### {net.name}",
            f"Available gated tools: {', '.join(gated) or 'none'}",
            f"Free tools: {', '.join(net.free_tools)}",
            f"State: {format_marking(marking)}",
        ]
    )
