"""Laws of agents: restored at any step they continue the same, and a failed step leaves no trace."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.agents import AssistantMessage, Message, Reply, T, ToolMessage
from interlock.engine.agents.models.scripted import ScriptedCall
from interlock.engine.flows import AgentError, Continue, Done, FlowRuntime, FlowSnapshot, History

from ..support.scripted import CTX, Script, X, agent, ask, echo, flow_of

NODES = flow_of(agent(echo, ask))

call = st.one_of(
    st.builds(lambda text: ("echo", {"text": text}), st.text(max_size=3)),
    st.just(("echo", {})),
    st.just(("ask", {"question": "q"})),
    st.just(("nothing", {})),
    st.just(("submit", {"answer": 1})),
    st.just(("submit", {"answer": "done"})),
    st.just(("submit", "{")),
)
reply = st.one_of(
    st.builds(lambda named: ("calls", named), st.lists(call, min_size=1, max_size=4)),
    st.sampled_from([("text", "hm"), ("text", '{"answer": "text"}'), ("text", "")]),
    st.just(("error", None)),
)
replies = st.lists(reply, max_size=6)


def script(written: list) -> Script:
    made: list[Reply] = []
    for at, (kind, what) in enumerate(written):
        match kind:
            case "calls":
                named = enumerate(what)
                made.append(
                    Reply(calls=tuple(ScriptedCall(n, args, f"c{at}.{i}") for i, (n, args) in named))
                )
            case "text":
                made.append(T(what))
            case _:
                made.append(Reply(error=RuntimeError("503")))
    return Script(*made)


async def step(runtime: FlowRuntime) -> object:
    """Make a step or answer the waiting call; return an error as text and check that it had no effect."""
    before, said = runtime.snapshot(), runtime.history
    waits = runtime.suspended
    try:
        if waits is None:
            return await runtime.next(CTX)
        return await runtime.resume(CTX, waits.tool_id, {"to": waits.call_id})
    except AgentError as error:
        assert (runtime.snapshot(), runtime.history) == (before, said)
        return str(error)


class TestAgents:
    @pytest.mark.slow
    @given(replies)
    async def test_restored_at_every_step(self, written: list) -> None:
        """P-56, P-91, P-95: a run restored from JSON before every step goes like one that is not."""
        one, two = script(written), script(written)
        plain = FlowRuntime(NODES, X(), factory=one)
        restored = FlowRuntime(NODES, X(), factory=two)
        for _ in range(20):
            snapshot = FlowSnapshot.load(restored.snapshot().model_dump_json())
            history = History.model_validate_json(restored.history.model_dump_json())
            restored = FlowRuntime.from_snapshot(NODES, snapshot, history=history, factory=two)
            ended = await step(plain)
            assert await step(restored) == ended
            assert (restored.snapshot(), restored.history) == (plain.snapshot(), plain.history)
            assert one.said == two.said
            if isinstance(ended, Done) or (isinstance(ended, str) and "no reply left" in ended):
                return

    @given(replies)
    async def test_every_earlier_call_has_one_result(self, written: list) -> None:
        """P-133: whenever a model is called, every earlier call has exactly one result, in order."""
        given_script = script(written)
        runtime = FlowRuntime(NODES, X(), factory=given_script)
        for _ in range(20):
            ended = await step(runtime)
            if isinstance(ended, Done) or (isinstance(ended, str) and "no reply left" in ended):
                break
            assert ended == Continue() or ended == runtime.suspended or isinstance(ended, str)
        for said in given_script.said:
            assert answered_ids(said) == called_ids(said)
        recorded = [entry.message for entry in runtime.history.entries]
        pending = [waiting.call_id for waiting in runtime.snapshot().pending]
        assert answered_ids(recorded) + pending == called_ids(recorded)


def called_ids(said: Sequence[Message]) -> list[str]:
    return [c.call_id for m in said if isinstance(m, AssistantMessage) for c in m.tool_calls]


def answered_ids(said: Sequence[Message]) -> list[str]:
    return [m.call_id for m in said if isinstance(m, ToolMessage)]
