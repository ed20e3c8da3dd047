"""Laws of sessions that are closed, killed, resumed and branched at any time."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine.agents import Agent, C, Message, Reply, ScriptedModel, T, ToolContext, tool
from interlock.engine.agents.rules_notice import with_changes
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.session_index import SessionLine
from interlock.engine.history.model.events import ApprovalRequested, JournalEvent
from interlock.engine.hub.hub import Hub
from interlock.engine.recording.resume_checks import BranchError
from interlock.engine.sessions.config import SessionConfig
from tests.support.laws import examples
from tests.support.raw_database import raw_database

from ...history.support.recording import approval, limit, limit_per, registry, sequence, washing

NETS = registry(
    sequence("test", "deploy"),
    approval("deploy"),
    approval("ask"),
    limit("test", 4),
    limit_per("push", 2, "test"),
    washing("free"),
)
TOOLS = ("test", "deploy", "push", "free", "ask", "unknown")

Move = tuple[str, object, bool]
MOVES = st.lists(
    st.one_of(
        st.tuples(
            st.just("calls"), st.lists(st.sampled_from(TOOLS), min_size=1, max_size=3), st.booleans()
        ),
        st.tuples(st.just("toggle"), st.sampled_from(list(NETS)), st.booleans()),
        st.tuples(st.just("mode"), st.sampled_from(("enforce", "shadow")), st.just(True)),
        st.tuples(st.just("resume"), st.none(), st.booleans()),
        st.tuples(st.just("branch"), st.integers(1, 60), st.just(True)),
        st.tuples(
            st.just("die"),
            st.lists(st.sampled_from(("ask", "ask", *TOOLS)), min_size=1, max_size=3),
            st.booleans(),
        ),
    ),
    min_size=2,
    max_size=8,
)


class World:
    """Successive sessions on one journal, under a hub that may be replaced."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.hub = Hub.open(path)
        self.session = ""
        self.next: tuple[Sequence[str], bool] = ((), True)
        self.prompted: Sequence[Message] = ()
        self.ran: Counter[tuple[str, str]] = Counter()

    def agent(self) -> Agent:
        """An agent whose model makes the next calls once and then says that it is done."""

        def reply(messages: Sequence[Message]) -> Reply:
            self.prompted = messages
            calls, self.next = self.next[0], ((), self.next[1])
            return C(**{f"c{n}": (name, {}) for n, name in enumerate(calls)}) if calls else T("done")

        async def ends(name: str) -> str:
            if not self.next[1]:
                raise ValueError(f"{name} failed")
            return f"{name} ok"

        def made(name: str) -> object:
            async def run(ctx: ToolContext) -> str:
                """Do it."""
                self.ran[ctx.session_id, ctx.call_id] += 1
                return await ends(name)

            return tool(run, name=name)

        return Agent(ScriptedModel(reply), name="bot", tools=[made(name) for name in TOOLS[:-1]])

    async def work(self, calls: Sequence[str], well: bool) -> None:
        """Make one run; requests are approved if `well`."""
        self.next = (calls, well)
        events = self.hub.subscribe()

        async def answer() -> None:
            async for event in events:
                if isinstance(event, JournalEvent) and isinstance(event.body, ApprovalRequested):
                    await self.hub.decide(event.body.approval_id, approved=well, by="maria")

        answering = asyncio.create_task(answer())
        await self.hub.send(self.session, "go", by="ben")
        await self.hub.wait(self.session)
        events.close()
        await answering

    async def die(self, calls: Sequence[str], well: bool) -> None:
        """Kill the host at its first request, or when idle, and resume with another one.

        The state after a kill is the content of the journal's file at that moment.
        """
        self.next = (calls, well)
        events = self.hub.subscribe()
        await self.hub.send(self.session, "go", by="ben")
        waits = asyncio.create_task(self.hub.wait(self.session))

        def rests(_: object) -> None:
            events.close()

        waits.add_done_callback(rests)
        async for event in events:
            if isinstance(event, JournalEvent) and isinstance(event.body, ApprovalRequested):
                break
        if waits.remove_done_callback(rests):
            events.close()
        self.path = self.path.with_name(f"{len(list(self.path.parent.iterdir()))}.db")
        with (
            closing(raw_database(self.hub.database)) as left,
            closing(raw_database(self.path)) as found,
        ):
            left.backup(found)
        waiting = {a.call_id for a in await self.hub.approvals()}
        await self.hub.close()
        await waits
        self.hub = Hub.open(self.path)
        asked: list[ApprovalRequested] = []
        events = self.hub.subscribe()

        async def answer() -> None:
            async for event in events:
                if isinstance(event, JournalEvent) and isinstance(event.body, ApprovalRequested):
                    asked.append(event.body)
                    await self.hub.decide(event.body.approval_id, approved=well, by="maria")

        answering = asyncio.create_task(answer())
        await self.hub.resume_session(self.session, self.agent(), SessionConfig(NETS))
        await self.hub.wait(self.session)
        events.close()
        await answering
        assert waiting <= {request.call_id for request in asked}

    async def move(self, what: str, which: object, well: bool) -> None:
        match what, which:
            case "calls", list() as calls:
                await self.work(calls, well)
            case "toggle", str(net):
                await self.hub.toggle_net(self.session, net, well, by="maria", reason="a test")
            case "mode", ("enforce" | "shadow") as mode:
                await self.hub.set_mode(self.session, mode, by="maria", reason="a test")
            case "resume", _:
                if well:
                    await self.hub.close_session(self.session, by="maria")
                else:
                    await self.hub.close()
                    self.hub = Hub.open(self.path)
                await self.hub.resume_session(self.session, self.agent(), SessionConfig(NETS))
            case "die", list() as calls:
                await self.die(calls, well)
            case "branch", int(at):
                await self.branch(at)
            case _:
                raise AssertionError(what)

    async def branch(self, at: int) -> None:
        """Branch the session at `at` or nearby; the branch has the session's state and replaces it."""
        events = await self.hub.recorded(self.session)
        try:
            branch = await self.hub.branch_session(self.session, at, self.agent(), SessionConfig(NETS))
        except BranchError as error:
            at = error.nearest[0]
            branch = await self.hub.branch_session(self.session, at, self.agent(), SessionConfig(NETS))
        then, now = fold(events[:at]), await self.hub.session(branch)
        assert {k: (n.marking, n.active) for k, n in now.nets.items()} == {
            k: (n.marking, n.active) for k, n in then.nets.items()
        }
        assert (now.active, now.mode) == (then.active, then.mode)
        self.session = branch

    async def check(self) -> None:
        """Check that record, state, gate, list and conversation agree."""
        events = await self.hub.recorded(self.session)
        state, live = fold(events), await self.hub.session(self.session)
        assert state == live
        hosted, session = self.hub._live.get(self.session)
        gate = hosted.manager
        assert {k: n.marking for k, n in state.nets.items()} == {
            k: s.marking for k, s in gate.states.items()
        }
        assert (tuple(state.active), state.mode) == (gate.active, gate.mode)
        assert state.pending == []
        assert not any(s.pending for s in gate.states.values())
        line = SessionLine.of(events).summary()
        assert (line.status, line.mode, line.agent) == (state.status, state.mode, state.agent)
        said = await hosted.load(self.session)
        assert said == list(session.messages)
        self.check_answers(said)
        assert set(self.ran.values()) <= {1}

    def check_answers(self, said: Sequence[Message]) -> None:
        """Check that each reply is followed by one message per call, in their order (A-56)."""
        wanted: list[str] = []
        for message in said:
            if message.role == "tool":
                assert message.call_id == wanted.pop(0)
            else:
                assert wanted == []
                wanted = [c.call_id for c in message.tool_calls] if message.role == "assistant" else []
        assert wanted == []


class TestLaws:
    @settings(max_examples=examples(25), deadline=None)
    @given(MOVES)
    def test_fold_equals_the_live_session(self, empty: Path, moves: list[Move]) -> None:
        """G-63, A-77: after any resumes and branches, the record equals the live session."""

        async def play(path: Path) -> None:
            world = World(path)
            world.session = await world.hub.open_session(world.agent(), SessionConfig(NETS))
            for move in moves:
                await world.move(*move)
                await world.check()
            before = await world.hub._live.get(world.session)[0].load(world.session)
            await world.work(("test",), True)
            sent = list(with_changes(before))
            assert list(world.prompted[: len(sent)]) == sent
            await world.check()
            await world.hub.close()

        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(play(Path(shutil.copy(empty, Path(folder) / "j.db"))))
