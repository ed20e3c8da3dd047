"""Shared by the tests of hooks: turns with one call, and their failures."""

from __future__ import annotations

import pytest

from interlock.engine.agents import C, Hooks, T, ToolResultEvent

from .script import Watched, noted, watched

CALL = C(c1=("note", {"text": "x"}))


async def turn(hooks: object, *, gate: object = None, ran: list[str] | None = None) -> Watched:
    """Return a finished turn with one call of `note`."""
    tools = [noted([] if ran is None else ran)]
    w = await watched(CALL, T("ok"), tools=tools, gate=gate, hooks=hooks)
    await w.say("go")
    return w


async def failing(hooks: Hooks, expected: str, *, gate: object = None) -> tuple[Watched, list[str]]:
    """Return a turn with one call that fails as expected, and what its tool did."""
    ran: list[str] = []
    w = await watched(CALL, T("never"), tools=[noted(ran)], gate=gate, hooks=hooks)
    w.session.send("go")
    with pytest.raises(Exception, match=expected):
        await w.session.wait_for_idle()
    assert len(w.model.requests) <= 1
    assert str(w.error.error)
    return w, ran


def result(w: Watched) -> ToolResultEvent:
    """Return the only result."""
    [found] = [e for e in w.events if isinstance(e, ToolResultEvent)]
    return found


def raises(*_: object) -> None:
    """Raise, as a failing hook."""
    raise RuntimeError("hook broke")
