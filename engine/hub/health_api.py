"""Hub API for monitoring a server: its load, the journal's commits, whether the journal is writable."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..history.journal.journal import Commit, Journal
from ..history.model.events import JournalEvent
from ..history.model.records import JournalOutage
from ..history.postgres.servers.lease import ServerLease
from ..sessions.errors import UnknownSessionError
from ..sessions.registry import Judged, SessionRegistry
from .events import HubEvent, OutageChanged

if TYPE_CHECKING:
    from ..history.audit.stream import Begin, RecordStream

OUTAGE_LOOKS = 0.5
"""Seconds between two checks for the start or end of an outage."""
PROOF_SECONDS = 3.0
"""Time limit for a proof write to the journal."""
TOO_LATE = f"the journal was not written within {PROOF_SECONDS:g} s"
NOT_WRITTEN = "the journal cannot be written"
ENDED = "the journal takes nothing more from this server"


@dataclass(frozen=True, slots=True)
class HubLoad:
    """Sessions hosted here by their kind, their open requests, and the age of the oldest in seconds."""

    sessions: Mapping[str, int]
    requests: int
    oldest: float


class HealthApi:
    """Part of a hub that is monitored: its sessions `_live` and its `_journal`."""

    _live: SessionRegistry
    _journal: Journal
    _on_parent: Callable[[str, str, str], None] | None = None
    _proof: asyncio.Task[str | None] | None = None
    _listed_outage: JournalOutage | None = None

    def current_outage(self) -> JournalOutage | None:
        """Return the outage of the journal; see `HubApi.current_outage`."""
        return self._journal.outage

    def list_outage(self) -> JournalOutage | None:
        """Return the outage for one console; its end is published even if it ends within a moment."""
        self._listed_outage = outage = self.current_outage()
        return outage

    async def follow_outages(self) -> None:
        """Publish the start, every change and the end of outages, until cancelled."""
        last: JournalOutage | None = None
        while True:
            outage = self.current_outage()
            listed, self._listed_outage = self._listed_outage, None
            if outage != last or listed not in (None, outage):
                last = outage
                self._hand_over(OutageChanged(outage=outage))
            await asyncio.sleep(OUTAGE_LOOKS)

    def _hand_over(self, shown: HubEvent) -> None:
        """See `Hub`."""
        raise NotImplementedError

    @property
    def lease_age(self) -> float | None:
        """Seconds since the lease on the database was renewed; `None`: a file has no lease."""
        return None

    @property
    def fenced(self) -> int:
        """Number of writes that were rejected because another server owned the session."""
        return self._journal.fenced

    def is_own(self, event: JournalEvent) -> bool:
        """Return whether this process recorded an event that subscribers get."""
        return True

    def record_stream(self, name: str, begin: Begin) -> RecordStream:
        """Return the stream `name` of the whole record, from its last position; see `RecordStream`."""
        # Most servers send no stream.
        from ..history.audit.stream import RecordStream
        from ..history.audit.stream_positions import FilePositions, StreamPositions
        from ..history.postgres.stream_positions import PostgresPositions

        path, lock = self._journal.path, self._journal.lock
        if isinstance(lock, ServerLease):
            place: StreamPositions = PostgresPositions(lock, name)
        else:
            assert isinstance(path, Path)
            place = FilePositions(path.resolve(), name)
        return RecordStream(self._journal.reader(), place, begin)

    def is_child(self, session_id: str) -> bool:
        """Return whether a session is live here and a subagent's: its parent's nets judge its calls."""
        try:
            return self._live.hosted(session_id).kind == "child"
        except UnknownSessionError:
            return False

    @property
    def traces(self) -> bool:
        """True if a trace listener is set."""
        return self._on_parent is not None

    def watch(
        self,
        *,
        judged: Judged | None = None,
        committed: Callable[[Commit], None] | None = None,
        parent: Callable[[str, str, str], None] | None = None,
    ) -> None:
        """Call `judged` with each call that is judged from now on, in addition to earlier listeners.

        `committed` is called with each commit, in the journal's thread. `parent` is called with the
        session, the recorded id and the W3C `traceparent` of a call that came with one. These two replace
        earlier listeners.
        """
        if judged is not None:
            self._live.watch_judging(judged)
        if committed is not None:
            self._journal.on_commit = committed
        if parent is not None:
            self._on_parent = parent

    def note_parent(self, session_id: str, call_id: str, traceparent: str) -> None:
        """Note the trace in which an external agent made a call, by the agent's own id for the call."""
        if self._on_parent is not None:
            self._on_parent(session_id, self.recorded_id(session_id, call_id), traceparent)

    def recorded_id(self, session_id: str, call_id: str) -> str:
        """See `AgentApi`."""
        raise NotImplementedError

    def load(self) -> HubLoad:
        """Return the numbers of sessions hosted here and of their open requests."""
        sessions, waiting = Counter[str](), list[float]()
        now = self._journal.clock()
        for hosted in self._live:
            sessions[hosted.kind] += 1
            waiting += [(now - each.since).total_seconds() for each in hosted.state.approvals.values()]
        return HubLoad(sessions, len(waiting), max(0.0, *waiting) if waiting else 0.0)

    async def obstacle(self, within: float) -> str | None:
        """Return why no call could be recorded now; `None` if the journal was written recently.

        Recently means `within` so many seconds. Otherwise a durable change is made that adds nothing to
        the record, shared by concurrent callers.
        """
        if self._journal.disturbed is not None:
            return ENDED
        written = self._journal.written
        if written is not None and time.monotonic() - written <= within:
            return None
        if self._proof is None or self._proof.done():
            self._proof = asyncio.get_running_loop().create_task(
                self._prove(), name="proof of the journal"
            )
        return await asyncio.shield(self._proof)

    async def _prove(self) -> str | None:
        try:
            async with asyncio.timeout(PROOF_SECONDS):
                await asyncio.wrap_future(self._journal.prove())
        except TimeoutError:
            return TOO_LATE
        except Exception:
            # The error may name files and hosts, and callers need no token.
            return NOT_WRITTEN
        return None
