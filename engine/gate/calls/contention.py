"""Calls that compete for the same tokens while people are asked about them (G-68).

A call that needs approval has a claim to the tokens it would take, from its first question to its
decision. Claims keep the order in which they were made. A call waits only for claims made before its own,
and only where they would block it, so some call can always be asked about: the first of those that wait.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import suppress
from contextvars import ContextVar, Token
from dataclasses import dataclass
from threading import Event, RLock
from typing import TypeAlias

from ...net.net import Marking, NetError, ToolCall
from ..classify import Roster
from ..conditions import EvaluationContext
from ..member import Member
from ..types import NetVerdict

Move: TypeAlias = tuple[Member, tuple[str, ...]]
"""A net that a call moves, and the names for which it does."""


@dataclass(slots=True, eq=False)
class Claim:
    """The tokens that one call would take, in the nets it moves of those that were active in `roster`."""

    call: ToolCall
    is_open: bool = True
    roster: Roster | None = None
    moved: Sequence[Move] = ()

    def moves(self, roster: Roster, context: EvaluationContext) -> Sequence[Move]:
        """The nets the call moves now; those are looked for again where that may have changed."""
        if self.roster is not roster:
            classification = roster.classify(self.call.run_by(context.surroundings.shell), context)
            self.moved = [(member, _moved_names(verdict)) for member, verdict in classification.gated()]
            # What is blocked now may not be so the next time.
            self.roster = roster if classification.first_block() is None else None
        return self.moved


_asking: ContextVar[tuple[Claim, ...]] = ContextVar("calls that are being asked about", default=())


def begin_asking(claim: Claim | None) -> Token[tuple[Claim, ...]] | None:
    """Mark `claim`'s call as asked about: calls of this context wait for no other until `end_asking`.

    The code that asks may need their results, and then the calls would wait for each other for ever.
    """
    return None if claim is None else _asking.set((*(c for c in _asking.get() if c.is_open), claim))


def end_asking(began: Token[tuple[Claim, ...]] | None) -> None:
    """Mark a call as asked about no longer; `began` is what `begin_asking` gave."""
    # A coroutine that is dropped may be closed in another context, which has nothing to forget.
    with suppress(ValueError):
        if began is not None:
            _asking.reset(began)


class Claims:
    """The claims of one gate, in order, and the `waiters` for one of them to end.

    Everything here is called with the gate's `lock` held, but for what `wait` gives.
    """

    def __init__(self, lock: RLock) -> None:
        self._lock = lock
        self._claims: dict[str, Claim] = {}
        self.waiters: list[Callable[[], None]] = []

    def enter(self, call: ToolCall, roster: Roster, context: EvaluationContext) -> tuple[str, ...]:
        """Claim what `call` would take, and give the ids of the calls it has to wait for.

        A claim that the call has already keeps its position, unless a person has edited the call: an
        edited call comes last.
        """
        call_id = call.tool_call_id
        claim = self._claims.get(call_id)
        if claim is None or claim.call is not call:
            self.leave(call_id)
            claim = self._claims[call_id] = Claim(call)
        if len(self._claims) == 1 or any(outer.is_open for outer in _asking.get()):
            return ()
        return blocking_calls(claim, self._claims.values(), roster, context)

    def of(self, call_id: str) -> Claim | None:
        """The claim of a call."""
        return self._claims.get(call_id)

    def leave(self, call_id: str) -> None:
        """End a call's claim, if it has one, and have all waiters look again."""
        claim = self._claims.pop(call_id, None)
        if claim is not None:
            claim.is_open = False
            self.wake()

    def wake(self) -> None:
        """Have all waiters look again."""
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            waiter()

    def wait(self) -> Awaitable[None]:
        """Awaitable that is done once `wake` is called; counts from now, not from when it is awaited."""
        # Imported here: a gate in which no call waits never needs an event loop.
        import asyncio

        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            thread_wait = ThreadWait()
            self.waiters.append(thread_wait.end)
            return thread_wait
        woken = loop.create_future()

        def done() -> None:
            if not woken.done():
                woken.set_result(None)

        def wake() -> None:
            # A loop that is closed has dropped the calls that waited in it.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(done)

        self.waiters.append(wake)
        return woken


class ThreadWait:
    """Awaitable of a call that waits where no event loop runs; it is given to the coroutine's driver."""

    def __init__(self) -> None:
        self._event = Event()

    def end(self) -> None:
        """Let the waiter go on."""
        self._event.set()

    def wait(self) -> None:
        """Block the thread until `end` was called."""
        self._event.wait()

    def __await__(self) -> Generator[ThreadWait, None, None]:
        while not self._event.is_set():
            yield self


def blocking_calls(
    claim: Claim, claims: Iterable[Claim], roster: Roster, context: EvaluationContext
) -> tuple[str, ...]:
    """The ids of the earlier of `claims` that would block the call of `claim` if they came first.

    Each is taken to get all it would take now, and nothing that it brings counts: whichever of them come
    to nothing, the call is not blocked for the others where this gives none. Deferred transitions take
    nothing before their result.
    """
    mine = {member.key: (member, names) for member, names in claim.moves(roster, context)}
    remaining: dict[str, Marking] = {}
    takers: dict[str, list[str]] = {}
    taken_by: dict[tuple[str, tuple[str, ...]], Marking] = {}
    for other in claims:
        if other is claim:
            break
        for member, names in other.moves(roster, context):
            key = member.key
            if key not in mine:
                continue
            taken = None if member.net.measured else taken_by.get((key, names))
            if taken is None:
                taken = taken_by[key, names] = _tokens_taken(member, names, context.marking(member))
            if not taken:
                continue
            before = remaining.get(key) or context.marking(member)
            remaining[key] = after = {
                place: max(0, tokens - taken.get(place, 0)) for place, tokens in before.items()
            }
            takers.setdefault(key, []).append(other.call.tool_call_id)
            own, own_names = mine[key]
            if own.verdict(own_names, after).kind == "blocked":
                return tuple(takers[key])
    return ()


def _moved_names(verdict: NetVerdict) -> tuple[str, ...]:
    """The names for which a net moves."""
    return tuple(dict.fromkeys(step.tool for step in verdict.steps)) or (verdict.tool,)


def _tokens_taken(member: Member, names: tuple[str, ...], marking: Marking) -> Marking:
    """The tokens that would be gone from `marking` once a call by `names` is let pass."""
    verdict = member.verdict(names, marking)
    if verdict.kind != "gated":
        return {}
    try:
        after = member.after(marking, verdict.steps)
    except NetError:
        return {}
    return {
        place: tokens - after.get(place, 0)
        for place, tokens in marking.items()
        if tokens > after.get(place, 0)
    }
