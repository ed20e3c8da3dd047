"""Uses of limits across sessions, counted over all gates of a server or program (G-93).

Servers with a common record count the uses that they have learned of. Before a call takes a use, the use
is reserved for all servers by compare-and-set: this succeeds only if the server had counted every use.
Concurrent calls reserve together. If another server was first, its uses are read, and the call is judged
again.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from threading import RLock
from typing import TYPE_CHECKING, TypeAlias, TypeVar
from uuid import uuid4

from ..core.shared_limit import CounterStore, CounterStoreError, Reservation, SharedLimit, Use

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")

log = logging.getLogger(__name__)

FEW_USES = 1_000
"""Number of uses that are kept without checking for expired ones."""
MOST_ATTEMPTS = 100
"""Times that a call is judged while other servers use its counters; then it is blocked."""
_MOST_VERSIONS = 10_000
_UNRELEASED = "Could not release what call '%s' reserved; it counts until it expires"


RecordedUses: TypeAlias = Callable[[float], Iterable[tuple[str, str, str, str, float]]]
"""Returns the uses of the last `window` seconds in a record: session, call, net, counter and time."""


def no_record(window: float) -> Iterable[tuple[str, str, str, str, float]]:
    """Record of a program that keeps none."""
    del window
    return ()


class SharedUses:
    """Uses by counter, see `SharedLimit.counter`; one object for all gates whose calls count together.

    Each gate takes `lock` in each of its phases, so that no two gates take the last use. Uses are kept as
    long as the longest limit needs, and read from `recorded` as far back. A call that several limits
    count with one counter uses that counter once.

    With `reservations`, uses are reserved among several servers before a call takes them. Reservations of
    other servers that are not otherwise known count as well.
    """

    def __init__(self, recorded: RecordedUses = no_record) -> None:
        self.lock = RLock()
        self._recorded = recorded
        self._window = 0.0
        self._uses: dict[str, list[Use]] = {}
        self._of_call: dict[tuple[str, str], dict[str, tuple[str, float]]] = {}
        self._count = self._kept = 0
        self._reserved: dict[str, list[Use]] = {}
        self.reservations: Reservations | None = None

    def of_session(self, session: str) -> SessionUses:
        """Uses as counted by one session's gate."""
        return SessionUses(self, session)

    def keep_for(self, limits: Iterable[SharedLimit]) -> None:
        """Keep uses long enough for these limits. Raises what reading the record raises."""
        window = max((limit.window for limit in limits), default=0.0)
        with self.lock:
            if window <= self._window:
                return
            recorded = list(self._recorded(window))
            self._window = window
            for session, call_id, net, counter, at in recorded:
                self.add(counter, Use(at, session, call_id, net))

    def add(self, counter: str, use: Use) -> None:
        """Count a use; a use that was already counted is ignored."""
        with self.lock:
            known = self._of_call.setdefault((use.session, use.call_id), {})
            if use.net in known:
                return
            is_new = all(other != counter for other, _ in known.values())
            known[use.net] = counter, use.at
            if not is_new:
                return
            uses = self._uses.setdefault(counter, [])
            insort(uses, use)
            self._count += 1
            self._forget(counter, uses[-1].at - self._window)
            if self._count > max(FEW_USES, 2 * self._kept):
                for other in list(self._uses):
                    self._forget(other, use.at - self._window)
                self._kept = self._count

    def _forget(self, counter: str, until: float) -> None:
        """Forget the uses of a counter up to this time."""
        uses = self._uses[counter]
        old = bisect_right(uses, (until, "\U0010ffff", "", ""))
        for use in uses[:old]:
            known = self._of_call.get((use.session, use.call_id), {})
            for net in [net for net, counted in known.items() if counted == (counter, use.at)]:
                del known[net]
            if not known:
                self._of_call.pop((use.session, use.call_id), None)
        del uses[:old]
        self._count -= old
        if not uses:
            del self._uses[counter]

    def note(self, session: str, call_id: str, counters: Mapping[str, str], at: float) -> None:
        """Count a call's uses at another server, by net; uses that were already counted are ignored."""
        with self.lock:
            for counter in set(counters.values()):
                self._end_reserved(counter, session, call_id)
            for net, counter in counters.items():
                if self._has(counter, Use(at, session, call_id, net)):
                    return
            self.call_begins(session, call_id)
            for net, counter in counters.items():
                self.add(counter, Use(at, session, call_id, net))

    def _has(self, counter: str, use: Use) -> bool:
        uses = self._uses.get(counter, [])
        place = bisect_left(uses, use)
        return place < len(uses) and uses[place] == use

    def set_reserved(self, counter: str, uses: Iterable[Use]) -> None:
        """Replace the reserved uses of other servers with `uses`, except those already counted."""
        with self.lock:
            self._reserved.pop(counter, None)
            counted = {use[:3] for use in self._uses.get(counter, ())}
            fresh = {use[:3]: use for use in uses if use[:3] not in counted}
            if fresh:
                self._reserved[counter] = [*fresh.values()]

    def has_reserved(self, counter: str) -> bool:
        """Return whether the counter includes reservations of other servers not known otherwise."""
        return counter in self._reserved

    def _end_reserved(self, counter: str, session: str, call_id: str) -> None:
        uses = self._reserved.get(counter)
        if uses is not None:
            self._reserved[counter] = [each for each in uses if each[1:3] != (session, call_id)]
            if not self._reserved[counter]:
                del self._reserved[counter]

    def call_begins(self, session: str, call_id: str) -> None:
        """Begin a call; an earlier call with this id stays counted and is kept apart from it."""
        with self.lock:
            self._of_call.pop((session, call_id), None)

    def remove(self, session: str, call_id: str, nets: Iterable[str]) -> None:
        """Forget the uses of a call that never ran, in these nets."""
        with self.lock:
            for counter in list(self._reserved):
                self._end_reserved(counter, session, call_id)
            known = self._of_call.get((session, call_id), {})
            for net in nets:
                counted = known.pop(net, None)
                if counted is None or any(other == counted[0] for other, _ in known.values()):
                    continue
                counter, at = counted
                every = self._uses[counter]
                remaining = [use for use in every if use[:3] != (at, session, call_id)]
                self._count -= len(every) - len(remaining)
                self._uses[counter] = remaining
            if not known:
                self._of_call.pop((session, call_id), None)

    def of_call(self, session: str, call_id: str) -> dict[str, str]:
        """Counters of a call's uses, by net."""
        with self.lock:
            known = self._of_call.get((session, call_id), {})
            return {net: counter for net, (counter, _) in known.items()}

    def left(
        self, counter: str, limit: SharedLimit, most: int, own: int, session: str, now: float
    ) -> int:
        """Uses left out of `most` at the time `now`; at most `own`, the tokens in the session's own net.

        A net that is new in its session, under a changed rule, still has all of its tokens.
        """
        with self.lock:
            uses = self._uses.get(counter, ())
            until = now - limit.window
            used = len(uses) - bisect_right(uses, (until, "\U0010ffff", "", ""))
            used += sum(use.at > until for use in self._reserved.get(counter, ()))
        return max(0, min(own, most - used))


@dataclass(frozen=True, slots=True)
class SessionUses:
    """Uses as counted by one session's gate."""

    uses: SharedUses
    session: str

    def left(self, counter: str, limit: SharedLimit, most: int, own: int, now: float) -> int:
        """Number of uses left; see `SharedUses.left`."""
        return self.uses.left(counter, limit, most, own, self.session, now)

    def take(self, call_id: str, counters: Mapping[str, str], at: float) -> None:
        """Count a call's uses, given as counters by net."""
        self.uses.call_begins(self.session, call_id)
        for net, counter in counters.items():
            self.uses.add(counter, Use(at, self.session, call_id, net))

    def reservation(
        self, call_id: str, counters: Mapping[str, str], at: float, until: float
    ) -> Reservation:
        """Create a reservation of uses for a call, under an id of its own."""
        return Reservation(uuid4().hex, self.session, call_id, counters, at, until)

    def forget(self, reserved: Reservation) -> None:
        """Forget the uses of a call whose record failed."""
        self.uses.remove(self.session, reserved.call_id, reserved.counters)
        if self.uses.reservations is not None:
            self.uses.reservations.release(reserved)

    def give_back(self, call_id: str, nets: Iterable[str]) -> None:
        """Forget the uses of a call that never ran."""
        self.uses.remove(self.session, call_id, nets)

    def of_call(self, call_id: str) -> dict[str, str]:
        """Counters of a call's uses, by net."""
        return self.uses.of_call(self.session, call_id)


@dataclass(eq=False, slots=True)
class _Request:
    """Request of a call in its turn to the store: to read counters, or to reserve uses.

    `left` are the uses left with which the call was judged, by counter.
    """

    answer: asyncio.Future[bool]
    unsure: frozenset[str] = frozenset()
    wanted: Reservation | None = None
    left: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def counters(self) -> frozenset[str]:
        return self.unsure if self.wanted is None else frozenset(self.wanted.counters.values())


class Reservations:
    """Reserves uses for the gates of one server, for many calls at once, one per session.

    The requests of all calls in a turn are sent together, as soon as each call has made a request or left
    the turn. Calls that arrive in between get the next turn. For one event loop.
    """

    def __init__(self, store: CounterStore, uses: SharedUses) -> None:
        self._store = store
        self._uses = uses
        self._versions: dict[str, int] = {}
        self._waiting: list[tuple[str, asyncio.Future[bool]]] = []
        self._in_turn: set[str] = set()
        self._asked: list[_Request] = []
        self._sending: asyncio.Task[None] | None = None
        self._work: set[asyncio.Task[None]] = set()
        self._is_failing = False

    @asynccontextmanager
    async def turn(self, session: str) -> AsyncGenerator[None]:
        """Turn of a session's call at the counters, which it keeps until it is decided."""
        answer = _new_answer()
        self._waiting.append((session, answer))
        self._go_on()
        try:
            await answer
            yield
        finally:
            if answer.cancelled():
                self._waiting = [each for each in self._waiting if each[1] is not answer]
            else:
                self._in_turn.discard(session)
            self._go_on()

    def is_unsure(self, counters: Iterable[str]) -> bool:
        """Return whether one of these counters includes uses that another server may still give back."""
        return any(self._uses.has_reserved(counter) for counter in counters)

    async def refresh(self, counters: Iterable[str]) -> None:
        """Count what all servers have used or reserved. Raises what the store raises.

        For a call in its `turn`, like `reserve`.
        """
        await self._ask(_Request(_new_answer(), unsure=frozenset(counters)))

    async def reserve(self, wanted: Reservation, left: Mapping[str, int]) -> bool:
        """Reserve uses; `left` are the uses left with which the call was judged, by counter.

        Returns false if the call must be judged again, because other servers had used the counters (now
        counted), or calls before it take what is left. If the store raises, so does this; the uses may
        then be reserved, so `release` them.
        """
        return await self._ask(_Request(_new_answer(), wanted=wanted, left=left))

    async def _ask(self, request: _Request) -> bool:
        self._asked.append(request)
        self._go_on()
        try:
            return await request.answer
        finally:
            if request in self._asked:
                self._asked.remove(request)

    def _go_on(self) -> None:
        """Send the requests once every call in the turn has made one; else begin the next turn."""
        import asyncio  # not for gates without a record

        if self._sending is not None:
            return
        if not self._in_turn:
            waiting, self._waiting = self._waiting, []
            for session, answer in waiting:
                if session in self._in_turn:
                    self._waiting.append((session, answer))
                elif not answer.done():
                    self._in_turn.add(session)
                    answer.set_result(True)
        elif len(self._asked) == len(self._in_turn):
            requests, self._asked = self._asked, []
            self._sending = asyncio.get_running_loop().create_task(self._send(requests))

    async def _send(self, requests: Sequence[_Request]) -> None:
        """Answer the requests, first those whose uses are reserved, because these calls take them now."""
        reserved: list[_Request] = []
        try:
            reserved = await self._reserve(await self._read_unknown(requests))
            if reserved:
                self._is_failing = False
        except Exception as error:
            self._note_failure(error)
            for each in requests:
                if not each.answer.done():
                    each.answer.set_exception(error)
        finally:
            for each in sorted(requests, key=lambda each: each not in reserved):
                if not each.answer.done():
                    each.answer.set_result(each in reserved)
            self._sending = None
            self._go_on()

    def _note_failure(self, error: Exception) -> None:
        """Log the first failure of the store after a reservation: agents may go on asking for hours."""
        if isinstance(error, CounterStoreError) and not self._is_failing:
            self._is_failing = True
            log.error("Calls that count against limits over sessions are blocked: %s", error)

    async def _read_unknown(self, requests: Sequence[_Request]) -> list[_Request]:
        """Read counters that are unknown; return the requests whose calls were judged by valid counts."""
        unknown = {
            c for each in requests for c in each.counters if each.unsure or c not in self._versions
        }
        if unknown:
            await self._read(unknown)
        known = self._versions.keys() - unknown
        return [each for each in requests if each.counters <= known]

    async def _reserve(self, requests: Sequence[_Request]) -> list[_Request]:
        """Reserve for as many requests as there are uses left; for none if other servers were first."""
        reserved: Counter[str] = Counter()
        fit: list[_Request] = []
        reservations: list[Reservation] = []
        for each in requests:
            if each.wanted is not None and all(reserved[c] < each.left[c] for c in each.counters):
                reserved.update(each.counters)
                fit.append(each)
                reservations.append(each.wanted)
        if not fit:
            return []
        versions = {counter: self._versions.pop(counter) for counter in reserved}
        if not await _in_thread(lambda: self._store.reserve(reservations, versions)):
            await self._read(reserved)
            return []
        self._versions.update({counter: version + 1 for counter, version in versions.items()})
        return fit

    async def _read(self, counters: Iterable[str]) -> None:
        names = sorted(counters)
        reading = await _in_thread(lambda: self._store.read(names))
        if len(self._versions) > _MOST_VERSIONS:
            self._versions.clear()
        for counter in names:
            self._uses.set_reserved(counter, reading.uses.get(counter, ()))
        self._versions.update(reading.versions)

    def release(self, reserved: Reservation) -> None:
        """Release a reservation soon; its counters are read again before the next one."""
        import asyncio

        for counter in reserved.counters.values():
            self._versions.pop(counter, None)

        async def work() -> None:
            try:
                if self._sending is not None:
                    await asyncio.wait([self._sending])
                await _in_thread(lambda: self._store.release(reserved))
            except CounterStoreError as error:
                level = logging.DEBUG if self._is_failing else logging.WARNING
                log.log(level, _UNRELEASED + ": %s", reserved.call_id, error)
            except Exception:
                log.warning(_UNRELEASED, reserved.call_id, exc_info=True)

        task = asyncio.get_running_loop().create_task(work())
        self._work.add(task)
        task.add_done_callback(self._work.discard)


def _new_answer() -> asyncio.Future[bool]:
    import asyncio

    return asyncio.get_running_loop().create_future()


async def _in_thread(work: Callable[[], T]) -> T:
    """Run a blocking call to the store in a thread."""
    import asyncio

    return await asyncio.to_thread(work)
