"""Sessions under a hub in a loop whose clock and commits are the test's, and marks of what really ran.

The journal is a real one, on a real file, but it commits in the loop's own thread, so many turns after it
was given something as its `lags` say, and tells what came of it as its `delays` say: what interleaves
with what is then the schedule's doing alone.
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interlock.engine.agents import Agent, AgentError, C, Message, Reply, ScriptedModel, T, ToolContext
from interlock.engine.agents import tool as a_tool
from interlock.engine.agents.session.subagents import task_tool
from interlock.engine.gate.types import GrantTerms, ToolResult
from interlock.engine.history.audit.verify import verify_journal
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.journal import JournalError
from interlock.engine.hub.hub import ApprovalPolicy, Hub, UnknownSessionError
from interlock.engine.net.net import ToolCall
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

from .approval_rules import Call, Written, text_of
from .shop import check
from .stepwise import Clock, StepwiseJournal

STARTER = "mia"
DIRECT = (
    Call("deploy", {}),
    Call("rm", {}),
    Call("deploy", {"env": "prod"}),
    Call("publish", {}),
    Call("test", {}),
)
Step = Sequence[Call]


async def turns(number: int) -> None:
    """Let the others run for a while."""
    for _ in range(number):
        await asyncio.sleep(0)


@dataclass(frozen=True)
class Mark:
    """A tool has run: in which session's name, by which call, on what, and what the file held then."""

    session: str
    call_id: str
    tool: str
    input: Mapping[str, Any]
    cursor: int


@dataclass(frozen=True)
class Answer:
    """What an operator does about a request: the one at `which` place among those that were ever asked,
    the last one being 0.

    `digest` is "right", "none", "wrong", or "first", that of the very first request. `cut` is after how
    many turns whoever answers is gone.
    """

    which: int
    verb: str
    by: str
    digest: str = "right"
    grant: GrantTerms | None = None
    input: Mapping[str, Any] | None = None
    cut: int | None = None


@dataclass(frozen=True)
class Deed:
    """Anything else somebody does, about a session, a net, a request or a direct call by its place.

    With "call" somebody beside the agent has the session's gate decide one, runs it and settles it.
    """

    verb: str
    session: int = 0
    which: int = 0
    seconds: float = 0.0


Move = Answer | Deed


class World:
    """See the module."""

    def __init__(
        self,
        empty: Path,
        folder: Path,
        rules: Sequence[Written],
        scripts: Sequence[tuple[Sequence[Step], Sequence[Step]]],
        policy: ApprovalPolicy,
        lags: Sequence[int],
        delays: Sequence[int] = (),
    ) -> None:
        self.clock = Clock()
        path = Path(shutil.copy(empty, folder / "world.db"))
        self.journal = StepwiseJournal.open(path, clock=self.clock).quick(lags, delays)
        self.hub = Hub(self.journal, policy=policy)
        self.registry = compile_rules(text_of(rules)).registry
        self.names = [f"s{n}" for n in range(len(scripts))]
        self.scripts = [(list(own), list(helpers)) for own, helpers in scripts]
        self.marks: list[Mark] = []
        self.doing: list[asyncio.Task[None]] = []
        self.direct: list[tuple[str, asyncio.Task[None]]] = []
        self.refused = False
        self.seen: list[tuple[str, str | None]] = []
        self.problems: list[BaseException] = []
        self._calls = 0
        self._look = sqlite3.connect(path)
        asyncio.get_running_loop().set_exception_handler(self._wrong)

    def _wrong(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.problems.append(context.get("exception") or AssertionError(context["message"]))

    # The agents

    async def open(self) -> None:
        for number, name in enumerate(self.names):
            await self.hub.open_session(
                self.agent(number), SessionConfig(self.registry, by=STARTER), session_id=name
            )

    def agent(self, number: int) -> Agent:
        own, below = self.scripts[number]
        tools = self.tools(self.names[number])
        helper = Agent(self.model(below), name="helper", tools=tools, max_steps=40)
        return Agent(self.model(own), name="bot", tools=[*tools, task_tool(helper)], max_steps=40)

    def model(self, script: list[Step]) -> ScriptedModel:
        def reply(messages: Sequence[Message]) -> Reply:
            if not script:
                return T("done")
            calls = script.pop(0)
            if not calls:
                return T("so far")
            self._calls += len(calls)
            numbers = range(self._calls, self._calls + len(calls))
            return C(**{f"c{n}": (c.tool, dict(c.input)) for n, c in zip(numbers, calls, strict=True)})

        return ScriptedModel(reply)

    def tools(self, session: str) -> list[object]:
        async def ran(ctx: ToolContext, tool: str, **given: object) -> str:
            [[cursor]] = self._look.execute("SELECT max(cursor) FROM event").fetchall()
            call_id = ctx.call_id if ctx.session_id == session else f"{ctx.session_id}/{ctx.call_id}"
            input_ = {key: value for key, value in given.items() if value is not None}
            self.marks.append(Mark(session, call_id, tool, input_, cursor))
            await turns(3)
            if given.get("bad"):
                raise RuntimeError("it failed")
            return "ok"

        @a_tool(name="test")
        async def run_tests(ctx: ToolContext, bad: bool | None = None) -> str:
            """Run the tests."""
            return await ran(ctx, "test", bad=bad)

        @a_tool
        async def deploy(ctx: ToolContext, env: str | None = None, n: int | None = None) -> str:
            """Deploy."""
            return await ran(ctx, "deploy", env=env, n=n)

        @a_tool
        async def publish(ctx: ToolContext, env: str | None = None) -> str:
            """Publish."""
            return await ran(ctx, "publish", env=env)

        @a_tool
        async def rm(ctx: ToolContext, env: str | None = None) -> str:
            """Remove."""
            return await ran(ctx, "rm", env=env)

        return [run_tests, deploy, publish, rm]

    # What people do

    def do(self, move: Move) -> None:
        """Begin to do something; what other moves do to it meanwhile is what is tested."""
        if isinstance(move, Deed) and move.verb == "clock":
            self.clock.seconds += move.seconds
        elif isinstance(move, Deed) and move.verb == "refuse":
            self.journal.refuse += 1
            self.refused = True
        elif isinstance(move, Deed) and move.verb == "call":
            name = self.names[move.session % len(self.names)]
            self._calls += 1
            calling = self._call(name, f"d{self._calls}", DIRECT[move.which % len(DIRECT)])
            self.direct.append((name, asyncio.ensure_future(self._tried(calling))))
        elif isinstance(move, Deed):
            self._begin(self._act(move))
        else:
            self._note_requests()
            answering = self._begin(self._answer(move))
            if move.cut is not None:
                self._begin(self._cut_off(answering, move.cut))

    def _begin(self, what: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(self._tried(what))
        self.doing.append(task)
        return task

    async def _cut_off(self, answering: asyncio.Task[None], after: int) -> None:
        await turns(1 + after)
        answering.cancel()

    async def _tried(self, what: Coroutine[Any, Any, None]) -> None:
        try:
            await what
        except (UnknownSessionError, AgentError, JournalError):
            pass  # the session is being closed, was stopped before it heard, or the disk is full
        except Exception as error:
            self.problems.append(error)

    def _note_requests(self) -> None:
        known = {request for request, _ in self.seen}
        for hosted in self.hub._live:
            for request in hosted.state.approvals.values():
                if request.id not in known:
                    self.seen.append((request.id, request.digest))

    async def _answer(self, move: Answer) -> None:
        if not self.seen:
            return
        request, right = self.seen[-1 - move.which % len(self.seen)]
        digest = {"right": right, "none": None, "first": self.seen[0][1]}.get(move.digest, "0" * 64)
        outcome = await self.hub.decide(
            request,
            approved=move.verb in ("approve", "edit"),
            by=move.by,
            input=dict(move.input or {}) if move.verb == "edit" else None,
            digest=digest,
            grant=move.grant,
            reason=None if move.grant is None else "often",
            stop=move.verb == "stop",
        )
        assert not outcome.ok or digest in (right, None), "an answer to something else counted"

    async def _call(self, name: str, call_id: str, call: Call) -> None:
        hosted = self.hub._live.get(name)[0]
        decision = await hosted.decide(ToolCall(call_id, call.tool, dict(call.input)))
        if decision.block:
            return
        ran = dict(decision.call.input)
        [[cursor]] = self._look.execute("SELECT max(cursor) FROM event").fetchall()
        self.marks.append(Mark(name, call_id, call.tool, ran, cursor))
        await turns(2)
        await hosted.settle(ToolResult(call_id, call.tool, ran, is_error=False), "ok", 0.0)

    async def _act(self, move: Deed) -> None:
        hub, name = self.hub, self.names[move.session % len(self.names)]
        nets = list(self.registry)
        net = nets[move.which % len(nets)]
        match move.verb:
            case "go":
                await hub.send(name, "go", by="ada", mode="queue")
            case "steer":
                await hub.send(name, "listen", by="ada", mode="steer")
            case "abort":
                await hub.abort(name, "enough")
            case "extend" if self.seen:
                request, _ = self.seen[-1 - move.which % len(self.seen)]
                await hub.extend(request, seconds=move.seconds or None, by="ben")
            case "take back" | "claim" | "unclaim" | "comment" if self.seen:
                request, _ = self.seen[-1 - move.which % len(self.seen)]
                match move.verb:
                    case "claim":
                        await hub.claim(request, by="ben", console="one")
                    case "unclaim":
                        await hub.unclaim(request, by="ben")
                    case "comment":
                        await hub.comment(request, "look at this", by="ben", to="ada")
                    case _:
                        await hub.take_back(request, by="ben")
            case "gone":
                await hub.console_gone("one")
            case "freeze":
                await hub.freeze(by="ben", reason="a test")
            case "lift":
                await hub.lift_freeze(by="ben", reason="a test")
            case "revoke":
                await hub.revoke_grant(name, f"grant-{move.which + 1}", by="ben")
            case "off" | "on":
                await hub.toggle_net(name, net, move.verb == "on", by="ben", reason="a test")
            case "shadow" | "enforce":
                await hub.set_mode(name, move.verb, by="ben", reason="a test")
            case "resume":
                # Who called the gate directly is gone with the agent.
                for _, calling in (each for each in self.direct if each[0] == name):
                    calling.cancel()
                await hub.close_session(name, by="ben")
                agent = self.agent(self.names.index(name))
                await hub.resume_session(name, agent, SessionConfig(self.registry, by="ben"))
            case _:
                pass

    # Coming to rest

    async def until(self, holds: Callable[[], bool]) -> None:
        """Let everybody go on until `holds`."""
        for number in range(4000):
            if holds():
                return
            await (turns(4) if number < 200 else asyncio.sleep(0.001))
        raise AssertionError("nothing moves any more")

    def still(self) -> bool:
        """Whether everybody waits: for a person, or for nothing."""
        self.doing = [task for task in self.doing if not task.done()]
        self.direct = [each for each in self.direct if not each[1].done()]
        if self.doing or self.journal.waiting:
            return False
        if self.hub.current_freeze() is not None:
            return True
        asking = {hosted.id for hosted in self.hub._live if hosted.state.approvals}
        if any(name not in asking for name, _ in self.direct):
            return False
        for hosted in self.hub._live:
            if hosted.state.kind != "child" and hosted.id not in asking and hosted.session is not None:
                if hosted.session.status != "idle":
                    return False
                if hosted.state.phase == "running" and not self.refused:
                    return False
        return True

    async def rest(self) -> None:
        """Until nothing moves."""
        if self.refused:
            # What could not be recorded is tried again.
            await turns(40)
            self.journal.refuse = 0
            self.clock.seconds += 1.5
        before = None
        while before != (before := self._progress()):
            await self.until(self.still)
            await turns(20)

    def _progress(self) -> tuple[object, ...]:
        states = [(hosted.id, hosted.state.seq) for hosted in self.hub._live]
        return self.still(), len(self.marks), states

    async def settle(self) -> None:
        """Answer every question until there are no more."""
        while self.hub.current_freeze() is not None:
            await self.hub.lift_freeze(by="ben", reason="a test")
        for _ in range(60):
            await self.rest()
            await self.check()
            waiting = await self.hub.approvals()
            if not waiting:
                return
            for request in waiting:
                for name in ("cleo", "dora"):
                    await self.hub.decide(request.id, approved=True, by=name)
            self.clock.seconds += self.hub.policy.fuse
        raise AssertionError("the questions have no end")

    async def check(self) -> None:
        """Fold, hub and gate are one; whoever is asked is waited for."""
        assert self.problems == []
        for hosted in self.hub._live:
            if hosted.state.kind == "child":
                continue
            if self.refused:
                await hosted.ledger.catch_up()
                recorder = hosted.manager._recorder
                assert recorder is not None
                assert recorder.broken is None, "the gate refuses for ever"
                folded = fold(await self.hub.recorded(hosted.id))
                hosted.state.status, hosted.state.error = folded.status, folded.error
            await check(self.hub, hosted.id)
            asked = hosted.questions
            assert set(hosted.state.approvals) == set(asked.table.open)
            for waits in asked.table.open.values() if not self.refused else ():
                assert asked.table.is_current(waits), "what was shown is void"
            gate = hosted.manager
            nets = {**hosted.state.nets, **{k: g.net for k, g in hosted.state.grants.items()}}
            for key, state in {**gate.states, **gate.grant_states}.items():
                came = {place: times for place, times in nets[key].since.items() if times}
                assert came == {place: times for place, times in state.since.items() if times}
            for key, grant in hosted.state.grants.items():
                held = hosted.manager.grant_states.get(key)
                assert (held is not None) == grant.net.active
                assert held is None or held.marking == grant.net.marking

    async def close(self) -> None:
        """End everything, and see that the file is whole."""
        await self.hub.close()
        self._look.close()
        assert [found.fault for found in verify_journal(self.journal.path)] == [None] * len(
            list(verify_journal(self.journal.path))
        )
        assert self.problems == []
