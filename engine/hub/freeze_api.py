"""Hub API for the freeze of all agents.

Freezing needs the right to decide; lifting needs the right to administer, and a reason.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator
from contextlib import contextmanager, suppress

from ..approvals.policy import Credential
from ..core.sanitize import visible
from ..history.errors import JournalError, SessionRefused
from ..history.journal.journal import Journal
from ..history.logs.freeze_log import UNREADABLE
from ..history.model.records import FreezeRecord
from ..history.redaction.redaction import Redaction
from ..sessions.freeze import CallFreeze
from ..sessions.registry import SessionRegistry
from .api import Outcome

log = logging.getLogger(__name__)

NOT_KEPT = (
    "but that cannot be kept beside the journal: after a restart of this process they are not frozen"
)
LOST = "the database lost the record of a freeze, as after a failover: all agents stay %s"
NOBODY = "this needs the name of an operator"


@contextmanager
def _log_errors() -> Generator[None]:
    """Raise `JournalError` for a log of freezes that cannot be read or written."""
    try:
        yield
    except OSError as error:
        raise JournalError(str(error)) from error


class FreezeApi:
    """Part of a hub that freezes the calls of its sessions `_live`."""

    _live: SessionRegistry
    _journal: Journal
    redaction: Redaction
    _not_kept = NOT_KEPT

    def current_freeze(self) -> FreezeRecord | None:
        """Return the freeze in force."""
        return self._live.freeze.current

    async def freeze(self, *, by: str, reason: str = "", credential: Credential | None = None) -> Outcome:
        """Freeze all agents; see `HubApi.freeze`.

        Calls wait from the first moment on, even if the freeze cannot be recorded.
        """
        freeze = self._live.freeze
        if not by.strip():
            return Outcome(ok=False, message=f"Not frozen: {NOBODY}")
        overstepped = self._live.tokens.overstepped(by.strip(), credential, "decide")
        if overstepped is not None:
            return Outcome(ok=False, message=f"Not frozen: {overstepped}")
        if freeze.current is not None:
            async with freeze.turn:
                pass  # it may be about to be lifted
            await self._follow_lift()
        if freeze.current is not None:
            said = f"All agents are {freeze.current.words}"
            problem = await self._hold_elsewhere()
            return Outcome(ok=False, message=f"{said}, {problem}" if problem else said)
        record = self._record(by, reason)
        freeze.begin(record)
        return await freeze.finish(self._keep(freeze, record))

    async def _keep(self, freeze: CallFreeze, record: FreezeRecord) -> Outcome:
        """Record a freeze that is in force."""
        problem = None
        async with freeze.turn:
            try:
                await self._write_freeze(record)
                freeze.in_log = True
            except OSError as error:
                log.warning("The freeze by '%s' could not be kept: %s", record.by, error)
                freeze.unkept = record
                problem = f"{self._not_kept}: {error.strerror or error}"
            for hosted in self._live:
                try:
                    await hosted.note_freeze()
                except JournalError as error:
                    problem = problem or f"but the journal refused to say so: {error}"
        problem = problem or await self._hold_elsewhere()
        said = f"All agents are {record.words}; new calls wait"
        return Outcome(ok=problem is None, message=f"{said}, {problem}" if problem else said)

    async def _write_freeze(self, record: FreezeRecord) -> None:
        """Write a freeze to the log. Raises `OSError`."""
        if self._live.freeze.log is not None:
            await asyncio.to_thread(self._live.freeze.log.begin, record)

    async def _hold_elsewhere(self) -> str | None:
        """Wait until all other servers' agents are frozen too; return why they may not be, or `None`.

        The freeze may have been lifted in the meantime, at any server.
        """
        return None

    async def _follow_lift(self) -> None:
        """Apply a lift at another server that is not applied here yet."""

    async def _confirm(self, freeze: FreezeRecord) -> None:
        """Tell other servers that nothing is decided here any more. Raises `JournalError`."""

    async def follow_freeze(self) -> None:
        """Apply freezes and lifts of another server's operators; see `SharedHub`.

        Raises `JournalError`, also for a log that cannot be read, which changes nothing. The next call
        completes what is missing.
        """
        freeze = self._live.freeze
        if freeze.log is None:
            return
        async with freeze.turn:
            found = await asyncio.to_thread(freeze.log.read)
            if found is not None and found.by == UNREADABLE:
                raise JournalError(found.reason)
            if found is None and freeze.unkept is not None and freeze.current is freeze.unkept:
                with _log_errors():
                    await asyncio.to_thread(freeze.log.begin, freeze.unkept)
                found = freeze.unkept
            if found is not None:
                freeze.unkept = None
                if freeze.current is None:
                    freeze.begin(found)
                freeze.in_log = True
                if found != freeze.followed:
                    await self._note_followed()
                await self._confirm(found)
                freeze.followed = found
            elif freeze.in_log and freeze.current is not None:
                known = [each for each in (freeze.current, freeze.followed) if each is not None]
                with _log_errors():
                    if not await asyncio.to_thread(freeze.log.has_any, known):
                        log.error(LOST, visible(freeze.current.words))
                        return await asyncio.to_thread(freeze.log.begin, freeze.current)
                    lift = await asyncio.to_thread(freeze.log.lifted)
                if lift is not None:  # otherwise they were frozen again
                    await self._note_followed(lift)
                    freeze.end()

    async def _note_followed(self, lift: FreezeRecord | None = None) -> None:
        """Record in each session that it is frozen, or no longer. Raises `JournalError`.

        A session that this server no longer owns does not stop the others.
        """
        for hosted in self._live:
            try:
                await hosted.note_freeze(lift)
            except SessionRefused as error:
                log.warning("%s", error)

    async def lift_freeze(self, *, by: str, reason: str, credential: Credential | None = None) -> Outcome:
        """Lift the freeze; see `HubApi.lift_freeze`. It stays if the lift cannot be recorded."""
        if not by.strip():
            return Outcome(ok=False, message=f"Not lifted: {NOBODY}")
        overstepped = self._live.tokens.overstepped(by.strip(), credential, "administer")
        if overstepped is not None:
            return Outcome(ok=False, message=f"Not lifted: {overstepped}")
        if not reason.strip():
            why = "Not lifted: say why, the reason is recorded with it"
            return Outcome(ok=False, message=why, needs_reason=True)
        freeze = self._live.freeze
        return await freeze.finish(self._lift(freeze, self._record(by, reason), credential))

    async def _lift(
        self, freeze: CallFreeze, lift: FreezeRecord, credential: Credential | None
    ) -> Outcome:
        async with freeze.turn:
            current = freeze.current
            if current is None:
                return Outcome(ok=False, message="Nothing is frozen")
            # The freeze may have taken a while to be recorded.
            overstepped = self._live.tokens.overstepped(lift.by, credential, "administer")
            if overstepped is not None:
                return Outcome(ok=False, message=f"Not lifted: {overstepped}")
            try:
                for hosted in self._live:
                    await hosted.note_freeze(lift)
                if freeze.log is not None:
                    await asyncio.to_thread(freeze.log.lift, lift)
            except (JournalError, OSError) as error:
                await self._stay_frozen(freeze, current)
                return Outcome(ok=False, message=f"Not lifted, all agents stay frozen: {error}")
            freeze.end()
        return Outcome(ok=True, message=f"No longer frozen, calls continue: lifted by {lift.by}")

    async def _stay_frozen(self, freeze: CallFreeze, current: FreezeRecord) -> None:
        """Undo a recorded lift, as far as that can be recorded."""
        try:
            if freeze.log is not None:
                await asyncio.to_thread(freeze.log.begin, current)
        except OSError:
            # The lift may be in the log although its answer was lost.
            freeze.unkept, freeze.in_log = current, False
        for hosted in self._live:
            with suppress(JournalError):
                await hosted.note_freeze()

    def _record(self, by: str, reason: str) -> FreezeRecord:
        """Return the record of an action, without secrets in its reason, which is shown to everybody."""
        why = self.redaction.text(" ".join(reason.split()))
        return FreezeRecord(by=by.strip(), at=self._journal.clock(), reason=why)
