"""Kinds of operator tokens: look, decide, administer. Each includes the ones before it."""

from __future__ import annotations

from shlex import quote
from typing import Final, Literal, TypeAlias

Rights: TypeAlias = Literal["look", "decide", "administer"]

Needs: TypeAlias = Literal["agent"] | Rights
"""The token that an operation needs: an agent's, or an operator's of at least this kind."""

KINDS: Final[tuple[Rights, ...]] = ("look", "decide", "administer")
FULL: Final[Rights] = "administer"
"""Kind of tokens that were created before there were kinds, so that they keep working."""

ABOUT: Final[dict[Rights, str]] = {
    "look": "sees everything and changes nothing",
    "decide": "answers requests, gives them time, accepts lost events; speaks to, stops, freezes agents",
    "administer": "grants, switches nets and modes, raises limits, starts and resumes, lifts freezes",
}


def may(rights: Rights | None, needed: Needs) -> bool:
    """Return whether a token of kind `rights`, or an agent's with `None`, suffices for `needed`."""
    if rights is None or needed == "agent":
        return rights is None and needed == "agent"
    return KINDS.index(rights) >= KINDS.index(needed)


def lesser(one: Rights, other: Rights) -> Rights:
    """The kind with fewer rights."""
    return KINDS[min(KINDS.index(one), KINDS.index(other))]


def refusal(
    operation: str, needed: Needs, rights: Rights | None, name: str, role: Rights | None = None
) -> str:
    """Reason why `operation` is refused to the token of `name`, with the remedy.

    `role` is the operator's role, if it allows less than the token.
    """
    if role is not None and not may(role, needed):
        return (
            f"{operation} needs the role '{needed}', and that of '{name}' is '{role}'. Whoever runs the "
            "server can give them another in [operators]"
        )
    has = "an agent's" if rights is None else f"of kind '{rights}'"
    other = f"interlock token rotate {quote(name)} --kind {needed}"
    return (
        f"{operation} needs a token of kind '{needed}', and that of '{name}' is {has}. "
        f"Whoever runs the server can give it another: {other}"
    )


def read_only_refusal(operation: str) -> str:
    """Reason why `operation` is refused in a read-only console."""
    return f"{operation} changes something, and this console is read-only: connect without --read-only"
