"""Keeps the gate in memory consistent with its record: what it did is handed over at once, or undone.

A change that could not be recorded leaves the gate ahead of the journal. Nothing else is then recorded of
it, so nothing runs that rests on the change, until it has been set back to where the journal is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

from ..history.errors import JournalError
from ..history.model.events import EventBody


class HandOver(Protocol):
    """Gives events to the journal at once; `then` learns whether they were written."""

    def __call__(self, *bodies: EventBody, then: Callable[[bool], None]) -> asyncio.Future[None]: ...


class GateSync:
    """Consistency of one gate with its record. `set_back` restores the gate from the journal."""

    def __init__(self, hand_over: HandOver, set_back: Callable[[], None]) -> None:
        self._hand_over = hand_over
        self._set_back = set_back
        self._ahead = False
        # Decisions that could not be recorded, which the gate does not know yet.
        self._unheard: set[str] = set()
        # What was handed over and is neither written nor lost yet.
        self._under_way = 0
        self._all_heard = asyncio.Event()

    def record(
        self, bodies: Callable[[], Iterable[EventBody]], decided: str | None = None
    ) -> asyncio.Future[None]:
        """Hand over what the gate has just done; `decided` is the call if it was a decision.

        Handed over in the same moment, what the gate does next follows it in the record too.
        """

        def then(written: bool) -> None:
            self._under_way -= 1
            if not written:
                self._lost(decided)
            elif self._ahead:
                self._look()

        try:
            if self._ahead:
                raise JournalError("what came before it could not be recorded")
            handed_over = self._hand_over(*bodies(), then=then)
        except Exception as error:
            self._lost(decided)
            failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            failed.set_exception(error)
            return failed
        self._under_way += 1
        return handed_over

    async def recorded(self, *bodies: EventBody) -> None:
        """The same for what is no decision; returns once it is durable.

        Raises `JournalError`; the gate has then been set back.
        """
        try:
            await self.record(lambda: bodies)
        except JournalError:
            await self.catch_up()
            raise

    def heard(self, call_id: str) -> None:
        """Note that the gate gave out its decision on a call, and knows if it could not be recorded."""
        self._unheard.discard(call_id)
        self._look()

    def _lost(self, decided: str | None) -> None:
        self._ahead = True
        if decided is not None:
            self._unheard.add(decided)
        self._look()

    def _look(self) -> None:
        """Wake those who wait for the gate to be set back, or make them wait."""
        if self._unheard or self._under_way:
            self._all_heard.clear()
        else:
            self._all_heard.set()

    async def catch_up(self) -> None:
        """Set back a gate that is ahead of the journal; nothing comes between this and what is next.

        A gate that hears of a failure only afterwards would refuse everything from then on; and what is
        under way may yet be written, or fail for what it followed.
        """
        while self._ahead and (self._unheard or self._under_way):
            await self._all_heard.wait()
        if self._ahead:
            self._set_back()
            self._ahead = False
