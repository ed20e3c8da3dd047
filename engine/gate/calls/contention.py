"""Calls that compete for the same tokens while operators are asked about them (G-68).

A call that needs approval has a claim to the tokens that it would take, from its first question to its
decision. Claims are ordered by when they were made. A call waits only for earlier claims, and only for
those that would block it. The first waiting call can therefore always be asked about.
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
    """Tokens that one call would take, in the nets active in `roster` that it moves."""

    call: ToolCall
    is_open: bool = True
    roster: Roster | None = None
    moved: Sequence[Move] = ()

    def moves(self, roster: Roster, context: EvaluationContext) -> Sequence[Move]:
        """Nets that the call moves now, computed again if they may have changed."""
        if self.roster is not roster:
            classification = roster.classify(self.call.run_by(context.surroundings.shell), context)
            self.moved = [(member, _moved_names(verdict)) for member, verdict in classification.gated()]
            # A net that blocks now may not block the next time.
            self.roster = roster if classification.first_block() is None else None
        return self.moved


_asking: ContextVar[tuple[Claim, ...]] = ContextVar("calls that are being asked about", default=())


def begin_asking(claim: Claim | None) -> Token[tuple[Claim, ...]] | None:
    """Mark `claim`'s call as asked about: calls of this context do not wait until `end_asking`.

    The code that asks may need the results of those calls; otherwise they would wait for each other
    forever.
    """
    return None if claim is None else _asking.set((*(c for c in _asking.get() if c.is_open), claim))


def end_asking(token: Token[tuple[Claim, ...]] | None) -> None:
    """End the mark of `begin_asking`, which returned `began`."""
    # A dropped coroutine may be closed in another context, which has nothing to reset.
    with suppress(ValueError):
        if token is not None:
            _asking.reset(token)


class Claims:
    """Claims of one gate, in order, and the `waiters` for one of them to end.

    Everything here is called with the gate's `lock` held, except the awaitable that `wait` returns.
    """

    def __init__(self, lock: RLock) -> None:
        self._lock = lock
        self._claims: dict[str, Claim] = {}
        self.waiters: list[Callable[[], None]] = []

    def enter(self, call: ToolCall, roster: Roster, context: EvaluationContext) -> tuple[str, ...]:
        """Claim what `call` would take, and return the ids of the calls for which it must wait.

        An existing claim of the call keeps its position, unless an operator has edited the call: an
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
        """Claim of a call, if it has one."""
        return self._claims.get(call_id)

    def leave(self, call_id: str) -> None:
        """End a call's claim, if it has one, and wake all waiters."""
        claim = self._claims.pop(call_id, None)
        if claim is not None:
            claim.is_open = False
            self.wake()

    def wake(self) -> None:
        """Wake all waiters, so that they check again."""
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            waiter()

    def wait(self) -> Awaitable[None]:
        """Awaitable that is done at the next `wake` after this call, even one before it is awaited."""
        # Imported here: a gate in which no call waits needs no event loop.
        import asyncio

        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            thread_wait = ThreadWait()
            self.waiters.append(thread_wait.end)
            return thread_wait
        wake_up = loop.create_future()

        def done() -> None:
            if not wake_up.done():
                wake_up.set_result(None)

        def wake() -> None:
            # A closed loop has dropped the calls that waited in it.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(done)

        self.waiters.append(wake)
        return wake_up


class ThreadWait:
    """Awaitable of a call that waits without an event loop; the coroutine's driver receives it."""

    def __init__(self) -> None:
        self._event = Event()

    def end(self) -> None:
        """Release the waiter."""
        self._event.set()

    def wait(self) -> None:
        """Block the thread until `end` is called."""
        self._event.wait()

    def __await__(self) -> Generator[ThreadWait, None, None]:
        while not self._event.is_set():
            yield self


def blocking_calls(
    claim: Claim, claims: Iterable[Claim], roster: Roster, context: EvaluationContext
) -> tuple[str, ...]:
    """Ids of the earlier `claims` that would block the call of `claim` if they came first.

    Each earlier call is assumed to take all that it would take now, and its outputs are ignored. If the
    result is empty, the call is not blocked whichever of the others come to nothing. Deferred transitions
    take nothing before their result.
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
            used_tokens = None if member.net.measured else taken_by.get((key, names))
            if used_tokens is None:
                used_tokens = taken_by[key, names] = _tokens_taken(member, names, context.marking(member))
            if not used_tokens:
                continue
            before = remaining.get(key) or context.marking(member)
            remaining[key] = after = {
                place: max(0, tokens - used_tokens.get(place, 0)) for place, tokens in before.items()
            }
            takers.setdefault(key, []).append(other.call.tool_call_id)
            own, own_names = mine[key]
            if own.verdict(own_names, after).kind == "blocked":
                return tuple(takers[key])
    return ()


def _moved_names(verdict: NetVerdict) -> tuple[str, ...]:
    """Names for which a net moves."""
    return tuple(dict.fromkeys(step.tool for step in verdict.steps)) or (verdict.tool,)


def _tokens_taken(member: Member, names: tuple[str, ...], marking: Marking) -> Marking:
    """Tokens that a call with `names` would take from `marking`."""
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
