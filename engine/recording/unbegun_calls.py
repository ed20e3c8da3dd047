"""Calls of a hosted agent that were allowed and did not begin.

The calls of a reply begin together, once all of them are decided. Until then it is certain that the tools
of those that were allowed did not run, so that whoever hands the session over can record it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

from ..gate.types import GateDecision, ToolResult

NOT_BEGUN = "Tool call not executed: the server that allowed it ended before the tool began"


class UnbegunCalls:
    """The allowed calls of one session's loop that did not begin, without those of its subagents."""

    def __init__(self) -> None:
        self._decisions: dict[str, GateDecision] = {}
        self._deciding = 0
        self._is_over = False

    @contextmanager
    def deciding(self, *, own: bool) -> Generator[None]:
        """Count a call while it is decided, if it is the loop's `own`."""
        self._deciding += own
        try:
            yield
        finally:
            self._deciding -= own

    def add(self, decision: GateDecision) -> None:
        """Add a call if it was allowed."""
        if not decision.block:
            self._decisions[decision.call.tool_call_id] = decision

    def remove(self, call_id: str) -> None:
        """Remove a call that begins, has ended, or was not allowed after all."""
        self._decisions.pop(call_id, None)

    def waits_for_others(self, call_id: str) -> bool:
        """Return whether a call was allowed and waits until the others of its reply are decided."""
        return call_id in self._decisions and self._deciding > 0

    async def begin(self, call_id: str) -> None:
        """Note that a call begins. Waits for ever after `end`."""
        if self._is_over:
            await asyncio.Event().wait()
        self.remove(call_id)

    def end(self) -> None:
        """Let no call begin from now on."""
        self._is_over = True

    def results(self) -> list[ToolResult]:
        """Return the results of the calls, which did not run: what they consumed is given back."""
        return [
            ToolResult(call_id, decision.call.tool_name, decision.call.input, True, decision.steps)
            for call_id, decision in self._decisions.items()
        ]
