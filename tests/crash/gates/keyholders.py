"""Operators with passkeys, who are challenged at one server and answer at another, honestly or not.

Each has two keys. They send answers again that counted, answers for other requests, those of copies whose
count is behind, and those of a key that they have just removed; none of these may count.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from random import Random

from interlock.engine.approvals.passkeys import KeyAnswer
from interlock.engine.gateway import AgentClient, GatewayError
from interlock.engine.gateway.client.console import ConsoleClient
from interlock.engine.gateway.cluster.shared_hub import SharedHub, open_hub
from interlock.engine.history.errors import JournalError
from interlock.engine.history.model.state import ApprovalState
from interlock.engine.hub.api import KeyRequest
from interlock.engine.hub.hub import UnknownSessionError

from ...support.authenticator import PAGE, Authenticator, enroll
from .servers import PEOPLE, SERVERS, Team

AGENTS = 3
TROUBLE = (GatewayError, UnknownSessionError, JournalError, LookupError)


@dataclass
class Holder:
    """An operator's device: the key that stays, the one that comes and goes, and what they signed."""

    device: Authenticator
    main: str
    spare: str | None
    counted: int = 0
    """The highest count of an answer with the key that stays that was acknowledged."""
    signed: list[KeyAnswer] = field(default_factory=list[KeyAnswer])


class KeyHolders:
    """Agents and operators at work until the end; `problems` is what should not have counted."""

    def __init__(self, team: Team, seed: str) -> None:
        self._team = team
        self._random = Random(seed)
        self._stopping = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._numbers = count(1)
        self._holders: dict[str, Holder] = {}
        self.problems: list[str] = []
        self.done: Counter[str] = Counter()
        self.accepted: set[str] = set()
        """Signatures whose approval was acknowledged."""
        self.removed: dict[str, float] = {}
        """Keys whose removal was acknowledged, and when, in seconds since 1970."""
        self.fresh: list[float] = []

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        await self._enroll()
        work = [self._agent(n) for n in range(AGENTS)]
        work += [self._operator(name, n) for n, name in enumerate(PEOPLE)]
        self._tasks = [asyncio.ensure_future(each) for each in work]
        try:
            yield
        finally:
            self._stopping.set()
            ended = await asyncio.gather(*self._tasks, return_exceptions=True)
        for each in ended:
            if isinstance(each, BaseException):
                raise each

    async def go_on(self, seconds: float = 90.0) -> None:
        """Wait until some call was approved that was made after this."""
        since, until = time.time(), time.monotonic() + seconds
        while not any(each > since for each in self.fresh):
            await asyncio.sleep(0.1)
            for each in self._tasks:
                if each.done():
                    await each
            assert time.monotonic() < until, f"nothing is approved any more: {dict(self.done)}"

    async def _enroll(self) -> None:
        """Enroll two keys for each, at a hub that this process has for a moment."""
        hub = await asyncio.to_thread(open_hub, self._team.location)
        assert isinstance(hub, SharedHub)
        await hub.share()
        for name in PEOPLE:
            device = Authenticator()
            main = await enroll(hub, name, device, "main")
            spare = await enroll(hub, name, device, "spare", by=device)
            self._holders[name] = Holder(device, main, spare, device.uses)
        await hub.close()

    async def _agent(self, number: int) -> None:
        client = AgentClient(
            self._team.urls(number % SERVERS), self._team.agent, name=f"bot{number}", patience=90
        )
        gate = await client.open(f"bot{number}", session=f"bot{number}")
        while not self._stopping.is_set():
            call, asked = f"k{number}-{next(self._numbers)}", time.time()
            answer = await gate.call("seal", {"what": call}, call_id=call, wait=20.0)
            self.done[answer.outcome] += 1
            with suppress(GatewayError):
                if answer.outcome == "allow":
                    self.fresh.append(asked)
                    await gate.result(call, "sealed")
                elif answer.outcome == "waiting":
                    await gate.withdraw(call)
        await client.close()

    async def _operator(self, name: str, first: int) -> None:
        random = Random(f"{name} {self._random.random()}")
        consoles = [await self._console(name, (first + n) % SERVERS) for n in range(SERVERS)]
        while not self._stopping.is_set():
            await asyncio.sleep(random.uniform(0.02, 0.1))
            with suppress(*TROUBLE):
                await self._act(consoles, random, name)
        for each in consoles:
            await each.close()

    async def _console(self, name: str, first: int) -> ConsoleClient:
        console = ConsoleClient(self._team.urls(first), self._team.people[name])
        while True:
            try:
                await console.open()
            except GatewayError:
                await asyncio.sleep(0.2)
            else:
                return console

    async def _act(self, consoles: list[ConsoleClient], random: Random, name: str) -> None:
        asked, answered = random.choice(consoles), random.choice(consoles)
        waiting = [each for each in await asked.approvals() if each.passkey]
        if not waiting:
            return
        request, holder, roll = random.choice(waiting), self._holders[name], random.random()
        if roll < 0.15 and holder.signed:
            sent = random.choice(holder.signed)
            if await self._approves(answered, request, sent):
                if sent.signature in self.accepted:
                    self.problems.append(f"an answer of {name} counted twice")
                self.accepted.add(sent.signature)
            self.done["sent again"] += 1
            return
        if holder.spare is None and roll < 0.35:
            await self._renewed(answered, name)
            return
        spare = roll < 0.35
        challenge = await asked.challenge_key(request.id, digest=request.digest, origin=PAGE, by=name)
        if not challenge.ok:
            return
        if roll > 0.9:
            await self._copied(answered, request, holder, challenge)
            return
        signed = holder.device.sign(challenge, holder.spare if spare else holder.main)
        holder.signed = [*holder.signed[-5:], signed]
        await asyncio.sleep(random.choice((0, 0, random.uniform(0, 0.3))))
        if spare and random.random() < 0.4:
            await self._removed(consoles, random, name, request, signed)
        elif roll > 0.8 and len(waiting) > 1:
            other = next(each for each in waiting if each.id != request.id)
            if await self._approves(answered, other, signed):
                self.problems.append(f"an answer of {name} counted for another request")
            self.done["for another"] += 1
        elif await self._approves(answered, request, signed):
            self.done["approved"] += 1
            self.accepted.add(signed.signature)
            if not spare:
                holder.counted = max(holder.counted, holder.device.uses)

    @staticmethod
    async def _approves(console: ConsoleClient, request: ApprovalState, signed: KeyAnswer) -> bool:
        outcome = await console.decide(
            request.id, approved=True, by="it", digest=request.digest, passkey=signed
        )
        return outcome.ok

    async def _copied(
        self, console: ConsoleClient, request: ApprovalState, holder: Holder, challenge: KeyRequest
    ) -> None:
        """Have a copy of the device answer, which was made before the last answer that counted."""
        ahead = holder.device.uses
        holder.device.uses = holder.counted - 1
        signed = holder.device.sign(challenge, holder.main)
        holder.device.uses = ahead
        if await self._approves(console, request, signed):
            self.problems.append("an answer counted whose count was behind")
        self.done["copied"] += 1

    async def _removed(
        self,
        consoles: list[ConsoleClient],
        random: Random,
        name: str,
        request: ApprovalState,
        signed: KeyAnswer,
    ) -> None:
        """Remove the second key at a server, and answer with it at another one."""
        holder = self._holders[name]
        assert holder.spare is not None
        removed, holder.spare = holder.spare, None
        outcome = await random.choice(consoles).remove_key(removed, by=name)
        if outcome.ok:
            self.removed[removed] = time.time()
            if await self._approves(random.choice(consoles), request, signed):
                self.problems.append(f"a removed key of {name} counted")
            self.done["removed"] += 1

    async def _renewed(self, console: ConsoleClient, name: str) -> None:
        """Enroll a second key, which the first one confirms."""
        holder = self._holders[name]
        begun = await console.begin_key(origin=PAGE, by=name)
        if not begun.ok:
            return
        made = holder.device.make(begun, "spare")
        registered = await console.register_key(made, by=name)
        if registered.ok:
            confirmation = holder.device.sign(registered, holder.main)
            if (await console.confirm_key(registered.id, passkey=confirmation, by=name)).ok:
                holder.spare = made.credential
                self.done["enrolled"] += 1
