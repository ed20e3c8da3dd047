"""Listeners that raise other than ordinary errors: the run ends in order before they take effect."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable

import pytest

from interlock.engine.agents import (
    ERR,
    Agent,
    AgentError,
    C,
    InMemorySessionStore,
    ScriptedModel,
    Session,
    T,
    ToolMessage,
    tool,
)
from interlock.engine.agents.events import ErrorEvent, EventName
from interlock.engine.agents.messages import open_calls
from interlock.engine.gate import GateManager
from interlock.rules import compile_rules

LEAVING = [KeyboardInterrupt, lambda: SystemExit(3)]
OFTEN: list[EventName] = ["turn_start", "message", "step", "tool_call", "tool_result", "turn_end"]


class Gone(BaseException):
    """Neither an error nor a request to end the program."""


@tool
async def note(text: str = "") -> str:
    """Note a text."""
    return f"noted {text}"


class Talk:
    """A session whose listener of one event raises, and its outcome."""

    def __init__(self, event: EventName, error: Callable[[], BaseException], *replies: object) -> None:
        self.store = InMemorySessionStore()
        self.event = event
        self.error = error
        self.replies = list(replies or [C(c1=("note", {"text": "x"})), T("done")])
        self.errors: list[BaseException] = []
        self.raised: BaseException | None = None
        self.session: Session | None = None
        self.gate = GateManager(compile_rules("limit note to 2 per session").registry)

    async def live(self) -> None:
        """Run the session, and stay in the event loop as programs do."""
        agent = Agent(ScriptedModel(self.replies), tools=[note], store=self.store, gate=self.gate)
        self.session = await agent.create_session("s")
        self.session.on("error", lambda event: self.errors.append(event.error))
        self.session.on(self.event, self._raise)
        self.session.send("go")
        try:
            await self.session.wait_for_idle()
        except Exception as error:
            self.raised = error
        await asyncio.sleep(0)
        await asyncio.Event().wait()

    def _raise(self, _: object) -> None:
        raise self.error()

    async def check_complete(self) -> None:
        """Check that the session is idle, every call has its result, and no step is pending."""
        assert self.session is not None
        assert self.session.status == "idle"
        stored = await self.store.load("s")
        assert stored == list(self.session.messages)
        assert open_calls(stored) == []
        assert all(not state.pending for state in self.gate.states.values())


class TestLeaving:
    @pytest.mark.parametrize("error", LEAVING)
    @pytest.mark.parametrize("event", OFTEN)
    def test_run_ends_before_the_exception_propagates(
        self, event: EventName, error: Callable[[], BaseException]
    ) -> None:
        """A-32: a listener can end the program; before that the run fails as with any error.

        The history is complete, and waiters get the error.
        """
        talk = Talk(event, error)
        with pytest.raises(type(error())):
            asyncio.run(talk.live())
        asyncio.run(talk.check_complete())
        [told] = talk.errors
        assert isinstance(told, AgentError)
        assert isinstance(told.__cause__, type(error()))
        assert event in str(told)

    def test_error_listener_can_end_the_program(self) -> None:
        """A-33: the same holds for an error listener that ends the program."""
        talk = Talk("error", lambda: SystemExit(3))
        talk.replies = [ERR(ZeroDivisionError("no model"))]
        with pytest.raises(SystemExit):
            asyncio.run(talk.live())
        asyncio.run(talk.check_complete())
        assert [type(error) for error in talk.errors] == [ZeroDivisionError]

    def test_observer_can_end_the_program(self) -> None:
        """A-32: the same holds for an observer of all events."""
        talk = Talk("turn_end", KeyboardInterrupt)

        async def live() -> None:
            agent = Agent(ScriptedModel([T("hello")]), store=talk.store)
            talk.session = await agent.create_session("s")
            talk.session.on_any(lambda event: talk._raise(event) if event.type == "step" else None)
            talk.session.send("go")
            await asyncio.Event().wait()

        with pytest.raises(KeyboardInterrupt):
            asyncio.run(live())
        asyncio.run(talk.check_complete())

    def test_listener_during_compaction_can_end_the_program(self) -> None:
        """A-32: the same holds for a listener during a compaction."""
        talk = Talk("compaction_start", lambda: SystemExit(3))

        async def live() -> None:
            agent = Agent(ScriptedModel([T("a"), T("b"), T("summary")]), store=talk.store)
            talk.session = await agent.create_session("s")
            await talk.session.prompt("one")
            await talk.session.prompt("two")
            talk.session.on("compaction_start", talk._raise)
            await talk.session.compact(0)

        with pytest.raises(SystemExit):
            asyncio.run(live())
        asyncio.run(talk.check_complete())

    @pytest.mark.slow
    async def test_other_base_exception_ends_the_run(self) -> None:
        """A-32: any other base exception ends the run too, and waiters get it as the cause."""
        agent = Agent(ScriptedModel([C(c1=("note", {})), T("done")]), tools=[note])
        session = await agent.create_session("s")
        heard: list[ErrorEvent] = []
        session.on("error", heard.append)

        def gone(_: object) -> None:
            raise Gone("away")

        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        session.on("tool_call", gone)
        session.send("go")
        with pytest.raises(AgentError, match=r"A listener of tool_call raised Gone\('away'\)") as raised:
            await session.wait_for_idle()
        assert isinstance(raised.value.__cause__, Gone)
        assert [event.error for event in heard] == [raised.value]
        assert open_calls(session.messages) == []
        session.off("tool_call", gone)
        assert await session.prompt("again") == "done"
        gc.collect()


class TestCancelledFromWithin:
    @pytest.mark.parametrize("event", OFTEN)
    async def test_fails_the_run(self, event: EventName) -> None:
        """A-32: a listener whose own work was cancelled fails the run instead of cancelling it."""
        agent = Agent(ScriptedModel([C(c1=("note", {})), T("done")]), tools=[note])
        session = await agent.create_session("s")
        heard: list[ErrorEvent] = []
        session.on("error", heard.append)

        async def cancelled(_: object) -> None:
            waiting = asyncio.ensure_future(asyncio.Event().wait())
            waiting.cancel()
            await waiting

        session.on(event, cancelled)
        session.send("go")
        with pytest.raises(AgentError, match=f"A listener of {event} was cancelled from within"):
            await session.wait_for_idle()
        assert len(heard) == 1
        assert open_calls(session.messages) == []
        ended = [m for m in session.messages if isinstance(m, ToolMessage)]
        assert all(m.is_error for m in ended) or event in ("tool_result", "turn_end")

    async def test_fails_a_compaction(self) -> None:
        """A-32: such a cancellation fails a compaction instead of stopping it like an abort."""
        agent = Agent(ScriptedModel([T("a"), T("b"), T("summary")]))
        session = await agent.create_session("s")
        await session.prompt("one")
        await session.prompt("two")

        def cancelled(_: object) -> None:
            raise asyncio.CancelledError

        session.on("compaction_start", cancelled)
        with pytest.raises(AgentError, match="cancelled from within"):
            await session.compact(0)

    async def test_cancelled_run_is_aborted_as_usual(self) -> None:
        """A-97: if the run is cancelled while a listener works, it is aborted as usual."""
        runs: list[asyncio.Task[None]] = []

        def spawn(run: object) -> None:
            runs.append(asyncio.get_running_loop().create_task(run))  # type: ignore[arg-type]

        agent = Agent(ScriptedModel([T("done")]))
        session = await agent.create_session("s", spawn=spawn)
        entered = asyncio.Event()

        async def slow(_: object) -> None:
            entered.set()
            await asyncio.Event().wait()

        session.on("step", slow)
        session.send("go")
        await entered.wait()
        runs[0].cancel()
        await asyncio.sleep(0)
        runs[0].cancel()
        await asyncio.wait(runs)
        assert runs[0].cancelled()
        assert session.status == "idle"
