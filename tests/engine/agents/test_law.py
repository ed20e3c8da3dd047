"""The law of one order: what the store holds is what the model was shown, whatever people do."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine.agents import (
    ERR,
    Agent,
    AssistantMessage,
    C,
    Message,
    Reply,
    ScriptedModel,
    T,
    ToolCallEvent,
    ToolMessage,
    tool,
)

from .script import Watched, transcript

moments = st.integers(0, 12)
replies = st.lists(
    st.one_of(
        st.builds(lambda text: T(*text), st.lists(st.sampled_from("abc"), min_size=1, max_size=3)),
        st.builds(
            lambda turns: sum((C(work={"turns": n}) for n in turns), T("t")),
            st.lists(moments, min_size=1, max_size=3),
        ),
        st.just(Reply()),
        st.builds(lambda text: T(text) + ERR("boom"), st.sampled_from("xy")),
        st.just(C(work={"wrong": 1}) + C(nothing={})),
    ),
    max_size=8,
)
sends = st.lists(st.tuples(moments, st.sampled_from(["steer", "queue", "abort"])), min_size=1, max_size=6)
decisions = st.lists(
    st.tuples(moments, st.sampled_from(["allow", "deny", "override", "wrong", "raise"])), max_size=8
)


async def turns(number: int) -> None:
    """Let the others run for a while."""
    for _ in range(number):
        await asyncio.sleep(0)


def valid(history: list[Message]) -> bool:
    """Whether every call is answered once, directly after the message that made it, in order."""
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


class TestOneOrder:
    @settings(max_examples=150, deadline=None)
    @given(replies, sends, decisions)
    def test_store_is_prompt(
        self, script: list[Reply], said: list[tuple[int, str]], answers: list[tuple[int, str]]
    ) -> None:
        """A-77: every prompt is a beginning of the store, calls are answered at once, nothing is lost."""

        @tool
        async def work(turns_taken: int = 0) -> str:
            """Work for a while."""
            await turns(turns_taken)
            return "worked"

        async def scenario() -> None:
            agent = Agent(ScriptedModel([*script, *([T("end")] * 20)]), tools=[work], max_steps=4)
            w = Watched(agent, await agent.create_session())
            waiting = list(answers)

            async def decide(event: ToolCallEvent) -> object:
                wait, answer = waiting.pop(0) if waiting else (0, "allow")
                await turns(wait)
                if answer == "raise":
                    raise RuntimeError("listener")
                return {"deny": {"deny": "no"}, "override": {"args": {}}, "wrong": 7}.get(answer)

            w.session.on("tool_call", decide)
            for number, (wait, mode) in enumerate(said):
                await turns(wait)
                if mode == "abort":
                    w.session.abort()
                else:
                    w.session.send(f"m{number}", mode=mode)
            async with asyncio.timeout(10):
                while w.session.status == "busy":
                    await asyncio.gather(w.session.wait_for_idle(), return_exceptions=True)
            stored = await agent.store.load(w.session.id)
            assert list(w.session.messages) == stored
            for request in w.model.requests:
                assert list(request.messages) == stored[: len(request.messages)]
                assert valid(list(request.messages))
            assert valid(stored)
            told = [s for s in w.seen if s.startswith(("user", "assistant", "result"))]
            assert told == transcript(stored)
            delivered = {m.text for m in stored if m.role == "user"}
            handed_back = {t for e in w.events if e.type in ("turn_end", "error") for t in e.undelivered}
            sent = {f"m{n}" for n, (_, mode) in enumerate(said) if mode != "abort"}
            assert delivered | handed_back == sent
            assert not delivered & handed_back

        asyncio.run(scenario())
