"""Laws of a session: one order everywhere, and no message is lost, whatever happens."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass, field
from itertools import pairwise

from hypothesis import example, given, settings
from hypothesis import strategies as st

from interlock.engine.agents import (
    ERR,
    Agent,
    AssistantMessage,
    C,
    Event,
    InMemorySessionStore,
    Message,
    ModelTool,
    Reply,
    ScriptedModel,
    SessionClosedError,
    T,
    ToolCallEvent,
    ToolMessage,
    tool,
)
from tests.support.laws import examples

from ..gates import Log, allow, block
from ..script import Watched, transcript

EVERY_EVENT = (
    "status",
    "turn_start",
    "step_start",
    "text_delta",
    "message",
    "tool_call",
    "tool_progress",
    "tool_result",
    "step",
    "turn_end",
    "error",
    "compaction_start",
    "compacted",
)

moments = st.integers(0, 12)
calls = st.one_of(
    st.builds(lambda n: C(work={"wait": n}), moments),
    st.builds(lambda n: C(work={"wait": n, "fail": True}), moments),
    st.just(C(work={"wrong": 1})),
    st.just(C(nothing={})),
    st.just(C(work="{")),
)
replies = st.lists(
    st.one_of(
        st.builds(lambda text: T(*text), st.lists(st.sampled_from("abc"), min_size=1, max_size=3)),
        st.builds(lambda several: sum(several, T("t")), st.lists(calls, min_size=1, max_size=3)),
        st.just(Reply()),
        st.builds(lambda text: T(text) + ERR("boom"), st.sampled_from("xy")),
    ),
    max_size=8,
)
actions = st.lists(
    st.tuples(
        moments,
        st.sampled_from(["steer", "queue", "steer", "queue", "abort", "close", "kill"]),
    ),
    min_size=1,
    max_size=8,
)
decisions = st.lists(
    st.tuples(st.integers(0, 60), st.sampled_from(["allow", "deny", "override", "wrong", "raise"])),
    max_size=8,
)


@dataclass(frozen=True)
class Faults:
    """Faults: appends by number, and listeners at the first event of a kind.

    `reactions` are actions at the first event of a kind.
    """

    appends: frozenset[int] = frozenset()
    listeners: frozenset[str] = frozenset()
    reactions: dict[str, list[str]] = field(default_factory=dict)
    patience: int = 0


faults = st.builds(
    Faults,
    appends=st.frozensets(st.integers(0, 8), max_size=3),
    listeners=st.frozensets(st.sampled_from(EVERY_EVENT), max_size=2),
    reactions=st.dictionaries(
        st.sampled_from(EVERY_EVENT),
        st.lists(st.sampled_from(["steer", "queue", "abort", "close"]), min_size=1, max_size=3),
        max_size=3,
    ),
    patience=st.integers(0, 2),
)


async def turns(number: int) -> None:
    """Let other tasks run for a while."""
    for _ in range(number):
        await asyncio.sleep(0)


def valid(history: list[Message]) -> bool:
    """Return whether every call is answered once, right after its message, in order."""
    expected: list[str] = []
    for message in history:
        if isinstance(message, ToolMessage):
            if not expected or expected.pop(0) != message.call_id:
                return False
        elif expected:
            return False
        elif isinstance(message, AssistantMessage):
            expected = [call.call_id for call in message.tool_calls]
    return not expected


class Fragile(InMemorySessionStore):
    """A store that is slow and fails on demand."""

    def __init__(self, failing: frozenset[int], patience: int) -> None:
        super().__init__()
        self._failing = failing
        self._patience = patience
        self._appends = 0
        self.said: list[str] = []

    async def append(self, session_id: str, message: Message) -> None:
        number, self._appends = self._appends, self._appends + 1
        await turns(self._patience)
        if number in self._failing:
            raise OSError("disk full")
        await super().append(session_id, message)
        if message.role == "user":
            self.said.append(message.text)


def working() -> ModelTool:
    """Return a tool that works for a given number of turns of the event loop."""

    @tool
    async def work(wait: int = 0, fail: bool = False) -> str:
        """Work for a while."""
        await turns(wait)
        if fail:
            raise RuntimeError("tool")
        return "worked"

    return work


class Scene:
    """One session with the actions on it and the faults."""

    def __init__(self, faults: Faults, answers: list[tuple[int, str]]) -> None:
        self.faults = faults
        self.answers = list(answers)
        self.store = Fragile(faults.appends, faults.patience)
        self.sent: list[str] = []
        self.lost: list[str] = []
        self.seen: set[str] = set()
        self.killed = False
        self.workers: list[asyncio.Task[None]] = []
        self.closing: list[asyncio.Task[None]] = []
        self.gate = Log(lambda call: block(call) if len(self.sent) % 4 == 3 else allow(call))

    async def play(
        self, script: list[Reply], said: list[tuple[int, str]], max_steps: int, follow_up: str
    ) -> None:
        """Perform all actions, then wait until the session has settled."""
        agent = Agent(
            ScriptedModel([*script, *([T("end")] * 60)]),
            tools=[working()],
            store=self.store,
            max_steps=max_steps,
            follow_up=follow_up,
        )
        session = await agent.create_session("s", spawn=self.spawn, gate=self.gate)
        self.w = Watched(agent, session)
        self.w.session.on_any(self.look)
        for name in EVERY_EVENT:
            self.w.session.on(name, self.listen)
        self.w.session.on("tool_call", self.decide)
        for wait, action in said:
            await turns(wait)
            self.act(action)
        async with asyncio.timeout(10):
            while self.w.session.status == "busy":
                await asyncio.gather(self.w.session.wait_for_idle(), return_exceptions=True)
            await asyncio.gather(*self.workers, *self.closing, return_exceptions=True)

    def spawn(self, run: Coroutine[None, None, None]) -> None:
        self.workers.append(asyncio.get_running_loop().create_task(run))

    def act(self, action: str) -> None:
        match action:
            case "abort":
                self.w.session.abort()
            case "close":
                self.closing.append(asyncio.ensure_future(self.w.session.aclose()))
            case "kill":
                if self.workers:
                    self.killed = True
                    self.workers[-1].cancel()
            case mode:
                self.say(mode)

    def say(self, mode: str) -> None:
        text = f"m{len(self.sent)}"
        try:
            self.w.session.send(text, mode=mode)
        except SessionClosedError:
            return
        self.sent.append(text)

    def look(self, event: Event) -> None:
        """Check that each text is in exactly one place."""
        session = self.w.session
        found = [*self.store.said, *session.undelivered, *session.waiting]
        if sorted(found) != sorted(self.sent):
            self.lost.append(f"at {event.type}: sent {self.sent}, found {found}")

    async def listen(self, event: Event) -> None:
        await turns(self.faults.patience)
        if event.type in self.seen:
            return
        self.seen.add(event.type)
        for action in self.faults.reactions.get(event.type, ()):
            self.act(action)
            await turns(self.faults.patience)
        if event.type in self.faults.listeners:
            raise RuntimeError("listener")

    async def decide(self, event: ToolCallEvent) -> object:
        wait, answer = self.answers.pop(0) if self.answers else (0, "allow")
        await turns(wait)
        if answer == "raise":
            raise RuntimeError("decision")
        return {"deny": {"deny": "no"}, "override": {"args": {}}, "wrong": 7}.get(answer)


class TestLaws:
    # A reply or results that cannot be stored, then a message: rare in random examples, and once bugs.
    @example(
        [C(work={"wait": 0}), T("ok")],
        [(0, "steer"), (12, "abort"), (12, "steer")],
        [],
        Faults(appends=frozenset({1})),
        4,
        "one",
    )
    @example(
        [sum([C(work={"wait": 0})] * 2, T("t")), T("ok")],
        [(0, "steer"), (12, "abort"), (12, "abort"), (12, "steer")],
        [],
        Faults(appends=frozenset({2})),
        4,
        "one",
    )
    @example(
        [C(work={"wrong": 1}), T("ok")],
        [(0, "steer"), *([(60, "steer")] * 3)],
        [],
        Faults(appends=frozenset({2, 3, 4})),
        4,
        "one",
    )
    @example(
        [C(work={"wait": 0}), T("ok")],
        [(0, "steer"), (60, "steer")],
        [(200, "allow")],
        Faults(),
        4,
        "one",
    )
    @settings(max_examples=examples(400), deadline=None)
    @given(replies, actions, decisions, faults, st.integers(1, 4), st.sampled_from(["one", "all"]))
    def test_one_order_and_no_message_lost(
        self,
        script: list[Reply],
        said: list[tuple[int, str]],
        answers: list[tuple[int, str]],
        faults: Faults,
        max_steps: int,
        follow_up: str,
    ) -> None:
        """A-77, A-63, A-84: every prompt is a beginning of the store, and calls are answered at once.

        Each call that the gate allowed is settled once. Each text that was sent is in exactly one place:
        stored, handed back, or waiting.
        """

        async def scenario() -> None:
            scene = Scene(faults, answers)
            await scene.play(script, said, max_steps, follow_up)
            w, session = scene.w, scene.w.session
            stored = await scene.store.load("s")

            assert list(session.messages) == stored
            for request in w.model.requests:
                assert list(request.messages) == stored[: len(request.messages)]
                assert valid(list(request.messages))
            if not scene.killed:
                told = [s for s in w.seen if s.startswith(("user", "assistant", "result"))]
                assert told == transcript(stored)
                if not faults.appends:
                    assert valid(stored)

            asked = [line for line in scene.gate.happened if line.startswith("decide")]
            settled = [line for line in scene.gate.happened if line.startswith("settle")]
            blocked = sum(m.role == "tool" and m.text == "not now" for m in stored)
            if not scene.killed and not faults.appends:
                assert len(settled) == len(asked) - blocked

            assert scene.lost == []
            assert session.waiting == ()
            assert sorted([*scene.store.said, *session.undelivered]) == sorted(scene.sent)
            in_events = {t for e in w.events for t in getattr(e, "undelivered", ())}
            assert in_events <= set(session.undelivered)
            if not scene.killed:
                assert in_events == set(session.undelivered)

            statuses = [e.status for e in w.events if e.type == "status"]
            assert statuses[:1] in ([], ["busy"])
            if not scene.killed:
                assert all(pair != ("busy", "busy") for pair in pairwise(statuses))
                assert statuses[-1:] in ([], ["idle"])

        # Failures after a failure are only logged, and there are thousands here.
        logging.disable(logging.CRITICAL)
        try:
            asyncio.run(scenario())
        finally:
            logging.disable(logging.NOTSET)
