"""A call of an agent elsewhere on its way through the gate."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from .history.parts import CallRecord

How: TypeAlias = Literal["withdrawn", "denied", "closed"]


@dataclass(slots=True)
class Asked:
    """A call on its way through the gate; `ending` is how and why somebody ended that.

    Of one that was decided at once `judging` is what its record waits for, else a task.
    """

    call: CallRecord
    judging: asyncio.Future[None] = field(init=False)
    proposed: asyncio.Future[None] | None = None
    ending: tuple[How, str] | None = None
    at_gate: bool = False

    @property
    def is_lost(self) -> bool:
        """It could not be recorded that the call was made."""
        proposed = self.proposed
        return proposed is not None and proposed.done() and proposed.exception() is not None

    def stop(self, how: How, why: str) -> None:
        """End it, where it waits for its decision. What is being recorded comes to its end."""
        if self.ending is None:
            self.ending = how, why
            # What the gate was told before this it hears first.
            asyncio.get_running_loop().call_soon(self._leave_gate)

    def _leave_gate(self) -> None:
        if self.at_gate:
            self.judging.cancel()
