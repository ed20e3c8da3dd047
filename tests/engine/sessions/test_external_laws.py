"""LAW: for any actions of an external agent and operators, and any crashes, an id is decided once."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import tempfile
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from interlock.engine.gate.types import GrantTerms
from interlock.engine.history.audit.verify import verify_journal
from interlock.engine.history.model.events import CallDecided, CallResult, MessageAdded
from interlock.engine.hub.hub import CallAnswer, CallIdUsed, CallRefused, Hub, UnknownSessionError

from ...support.laws import examples
from ..support.external_agent import check_fold, opened, recorded, resumed

RULES = """
require test before deploy
require human-approval before deploy
limit deploy to 3 per session
limit test to 4 per session
require human-approval before publish
block rm
"""
NETS = ("require-test-before-deploy", "approve-before-deploy", "approve-before-publish", "block-rm")
CALLS = (("t", "test"), ("u", "test"), ("d", "deploy"), ("e", "deploy"), ("p", "publish"), ("r", "rm"))
"""The id and tool of each call."""

Verb: TypeAlias = Literal[
    "call", "other", "withdraw", "ok", "failed", "approve", "edit", "grant", "deny", "stop",
    "toggle", "mode", "abort", "reopen", "restart", "die",
]  # fmt: skip


@dataclass(frozen=True)
class Move:
    """An action that happens `turns` loop turns after the previous one; -1 waits until all is quiet."""

    verb: Verb
    which: int = 0
    turns: int = -1


def moves_of(*verbs: Verb) -> st.SearchStrategy[Move]:
    turns = st.one_of(st.just(-1), st.integers(0, 12))
    return st.builds(Move, st.sampled_from(verbs), st.integers(0, 5), turns)


AGENTS = moves_of("call", "call", "call", "other", "other", "withdraw", "ok", "ok", "failed")
PEOPLE = moves_of("approve", "approve", "edit", "grant", "deny", "stop", "toggle", "mode", "abort")
DEATHS = moves_of("reopen", "restart", "die")
MOVES = st.lists(st.one_of(AGENTS, AGENTS, AGENTS, PEOPLE, PEOPLE, DEATHS), min_size=4, max_size=30)


@dataclass
class World:
    """One session under successive hosts, and all answers that its agent received."""

    folder: Path
    hub: Hub
    life: int = 1
    answers: dict[str, set[str]] = field(default_factory=dict)
    taken: dict[str, set[str]] = field(default_factory=dict)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    # Actions of the agent

    def agent(self, move: Move) -> None:
        call_id, tool = CALLS[move.which]
        match move.verb:
            case "call":
                work = self.ask(call_id, tool, {"env": "lab"})
            case "other":
                work = self.ask(call_id, tool, {"env": "prod"})
            case "withdraw":
                work = self.refusable(self.hub.withdraw_call("robin-1", call_id, "timeout"))
            case _:
                work = self.settle(call_id, move.verb == "failed")
        self.tasks.append(asyncio.get_running_loop().create_task(work))

    async def refusable(self, work: object) -> bool:
        try:
            await work  # type: ignore[misc]
        except (CallRefused, UnknownSessionError):
            return False
        return True

    async def ask(self, call_id: str, tool: str, arguments: dict[str, JsonValue]) -> None:
        life, hub = self.life, self.hub
        try:
            # After a result, the next call under an id is recorded under a new id (G-76).
            recorded_as = hub._external("robin-1").calls._id_of(call_id)
            answer = await hub.call("robin-1", call_id, tool, arguments)
        except CallIdUsed:
            return
        except (CallRefused, UnknownSessionError):
            return
        if life == self.life:
            self.told(recorded_as, arguments, answer)

    def told(self, call_id: str, arguments: dict[str, JsonValue], answer: CallAnswer) -> None:
        said = answer.model_copy(update={"repeated": False}).model_dump_json()
        self.answers.setdefault(call_id, set()).add(f"{arguments} {said}")
        decided = [d for d in recorded(self.hub.database, CallDecided) if d.call_id == call_id]
        if len(decided) != 1 or decided[0].input != answer.input:
            self.wrong.append(f"{call_id} was answered {answer}, and the file has {decided}")
        elif answer.outcome == "allow" and decided[0].outcome == "block" and answer.would is None:
            self.wrong.append(f"{call_id} was allowed, and blocked in the file")

    async def settle(self, call_id: str, failed: bool) -> None:
        life, output = self.life, "failed" if failed else "ok"
        work = self.hub.result("robin-1", call_id, output=output, is_error=failed)
        call_id = self.current(call_id)
        if await self.refusable(work) and life == self.life:
            self.taken.setdefault(call_id, set()).add(output)
            ends = [r for r in recorded(self.hub.database, CallResult) if r.call_id == call_id]
            # A result that came before its call was decided is an anomaly; the call may get one later.
            counted = [r.output for r in ends if r.anomaly is None]
            if counted != [output] and (counted or output not in [r.output for r in ends]):
                self.wrong.append(f"{call_id} ended {output}, and the file has {ends}")

    def current(self, call_id: str) -> str:
        """Return the recorded id of the agent's last call under an id; without a session, that id."""
        try:
            return self.hub._external("robin-1").calls.index.current(call_id)
        except UnknownSessionError:
            return call_id

    # Actions of operators

    async def people(self, move: Move) -> None:
        if move.verb == "toggle":
            net = NETS[move.which % len(NETS)]
            active = net not in (await self.hub.session("robin-1")).active
            await self.hub.toggle_net("robin-1", net, active, by="mia", reason="a test")
        elif move.verb == "mode":
            shadow = (await self.hub.session("robin-1")).mode == "shadow"
            await self.hub.set_mode("robin-1", "enforce" if shadow else "shadow", by="mia")
        elif move.verb == "abort":
            await self.hub.abort("robin-1", "stopped by mia")
        else:
            await self.decide(move)

    async def decide(self, move: Move) -> None:
        waiting = await self.hub.approvals()
        if not waiting:
            return
        request = waiting[move.which % len(waiting)]
        await self.hub.decide(
            request.id,
            approved=move.verb in ("approve", "edit", "grant"),
            by="mia",
            digest=request.digest,
            input={"env": "canary"} if move.verb == "edit" else None,
            grant=GrantTerms("names", uses=1) if move.verb == "grant" else None,
            reason="often" if move.verb == "grant" else None,
            stop=move.verb == "stop",
        )

    # Ends of hosts

    async def end(self, verb: Verb) -> None:
        if verb == "reopen":
            await self.hub.close_session("robin-1", by="mia")
            await self.here(resumed(self.hub, rules=RULES))
            return
        old = self.hub
        self.life += 1
        if verb == "restart":
            await old.close()
            self.hub = Hub.open(old.database)
        else:
            copy = self.folder / f"life{self.life}.db"
            with closing(sqlite3.connect(old.database)) as one, closing(sqlite3.connect(copy)) as other:
                one.backup(other)
            await old.close()
            self.hub = Hub.open(copy)
        await self.here(resumed(self.hub, rules=RULES))

    async def here(self, work: object) -> None:
        await work  # type: ignore[misc]

    async def rest(self) -> None:
        """Wait until only requests are open."""
        for _ in range(4):
            await self.hub._live.hosted("robin-1").record()
            await turns(6)

    async def check(self) -> None:
        """Check that the file has each answer once and that the gate agrees with it."""
        await check_fold(self.hub)
        database = self.hub.database
        decided = Counter(d.call_id for d in recorded(database, CallDecided))
        # A result of an unknown call is an anomaly and not counted.
        ended = Counter(r.call_id for r in recorded(database, CallResult) if r.anomaly is None)
        self.wrong += [f"{i} was decided {n} times" for i, n in decided.items() if n > 1]
        self.wrong += [f"{i} has {n} results" for i, n in ended.items() if n > 1]
        self.wrong += [f"{i} has a result and no decision" for i in ended if i not in decided]
        for told in (self.answers, self.taken):
            self.wrong += [f"{i} was told {said}" for i, said in told.items() if len(said) > 1]
        self.wrong += [f"{i} was answered, undecided" for i in self.answers if i not in decided]
        self.wrong += fired_twice(database)
        inputs: dict[str, set[str]] = {}
        for message in recorded(database, MessageAdded):
            for call in message.calls:
                inputs.setdefault(call.call_id, set()).add(str(call.input))
        self.wrong += [f"{i} stands for {every}" for i, every in inputs.items() if len(every) > 1]
        self.wrong += [str(check.fault) for check in verify_journal(database) if check.fault]
        assert not self.wrong, self.wrong


def fired_twice(database: Path) -> list[str]:
    fired: Counter[tuple[str, str, str, str]] = Counter()
    for body in recorded(database, CallDecided):
        fired.update((body.call_id, s.net, s.transition, s.tool) for s in body.steps if not s.deferred)
    for ended in recorded(database, CallResult):
        fired.update((ended.call_id, s.net, s.transition, s.tool) for s in ended.fired)
    return [f"{step} fired {n} times" for step, n in fired.items() if n > 1]


async def turns(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def run_moves(folder: Path, moves: list[Move]) -> World:
    world = World(folder, Hub.open(folder / "life1.db"))
    await opened(world.hub, RULES)
    for move in moves:
        await (world.rest() if move.turns < 0 else turns(move.turns))
        if move.verb in ("reopen", "restart", "die"):
            await world.end(move.verb)
        elif move.verb in ("call", "other", "withdraw", "ok", "failed"):
            world.agent(move)
        else:
            await world.people(move)
    await world.rest()
    await world.check()
    await world.hub.close()
    await asyncio.gather(*world.tasks)
    assert not world.wrong, world.wrong
    return world


def run_moves_in_copy(empty: Path, moves: list[Move]) -> World:
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(empty, Path(folder) / "life1.db")
        return asyncio.run(run_moves(Path(folder), moves))


class TestLaws:
    @pytest.mark.slow
    @settings(max_examples=examples(40), deadline=None)
    @given(moves=MOVES)
    @example([Move("call", 0, -1), Move("ok", 0, 0), Move("call", 0, -1), Move("ok", 0, -1)])
    def test_an_id_is_decided_once(self, empty: Path, moves: list[Move]) -> None:
        """G-63: every allowed call has a decision in the file. No id gets two answers, fires twice or has
        two results, for any actions and crashes. Fold, hub and gate agree."""
        world = run_moves_in_copy(empty, moves)
        event(f"{len(world.answers)} calls answered, {len(world.taken)} settled")

    def test_all_cases_of_the_law_occur(self, empty: Path) -> None:
        """The law's cases occur: calls are edited, stopped, settled and kept across crashes."""
        story: list[tuple[Verb, int]] = [
            ("call", 0), ("ok", 0), ("call", 2), ("die", 0), ("call", 2), ("approve", 0), ("call", 2),
            ("restart", 0), ("call", 2), ("other", 2), ("ok", 2), ("die", 0), ("ok", 2), ("call", 1),
            ("ok", 1), ("call", 3), ("withdraw", 3), ("call", 3), ("edit", 0), ("reopen", 0),
            ("call", 3), ("failed", 3), ("call", 4), ("abort", 0), ("call", 4), ("call", 5), ("ok", 5),
        ]  # fmt: skip
        world = run_moves_in_copy(empty, [Move(verb, which) for verb, which in story])
        assert sorted(world.answers) == ["d", "e", "p", "r", "t", "u"]
        assert world.taken == {"t": {"ok"}, "u": {"ok"}, "d": {"ok"}, "e": {"failed"}}
        assert '"edited":true' in next(iter(world.answers["e"]))
        assert "stopped by mia" in next(iter(world.answers["p"]))
