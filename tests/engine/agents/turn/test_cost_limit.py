"""The cost limit of a session: no model call beyond `max_cost`, by any caller; no message is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.agents import (
    Agent,
    C,
    Chunk,
    CompactionError,
    CostLimitError,
    Finish,
    InMemorySessionStore,
    LitellmModel,
    ModelError,
    ModelRequest,
    Reply,
    ScriptedModel,
    T,
    TextChunk,
    ToolResultEvent,
    Usage,
    task_tool,
)
from interlock.engine.agents.agent import InheritedLimits
from interlock.engine.agents.hooks import HookChain
from interlock.engine.agents.turn.spending import Spending

from ..script import Slow, noted, transcript, watched

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:litellm")


def reply_with_cost(reply: Reply, cost: float) -> Reply:
    """Return a reply with a cost."""
    return replace(reply, usage=Usage(input=10, output=5, cost=cost))


CALL = C(note={"text": "x"})


class Unpriced:
    """A model without a price check."""

    name = "homemade"

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        self.requests.append(request)
        yield TextChunk("hi")
        yield Finish("stop", Usage(input=1, output=1))


class SometimesUnpriced(Unpriced):
    """A model with a price whose replies come without one."""

    def check_price(self) -> None:
        pass

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        self.requests.append(request)
        yield TextChunk("hi")
        yield Finish("stop", Usage(input=1, output=1), priced=False)


class TestLimit:
    async def test_no_model_call_beyond_the_limit(self) -> None:
        """Limits: the call that reaches the limit runs with its tools; no other call is made."""
        ran: list[str] = []
        replies = [reply_with_cost(CALL, 0.4), reply_with_cost(CALL, 0.7), reply_with_cost(CALL, 0.1)]
        w = await watched(*replies, tools=[noted(ran)], max_cost=1.0)
        with pytest.raises(CostLimitError) as caught:
            await w.say("go")
        assert (len(w.model.requests), ran) == (2, ["x", "x"])
        said = str(caught.value)
        assert "this session of agent has spent $1.10 of $1.00" in said
        assert "resume it with a higher limit" in said
        assert "start anew" in said
        assert w.error.error is caught.value

    async def test_limit_reached_by_a_last_reply(self) -> None:
        """Limits: a last reply that reaches the limit completes its turn; the next turn is refused."""
        w = await watched(reply_with_cost(T("done"), 1.0), T("never"), max_cost=1.0)
        assert 'turn_end("done")' in await w.say("go")
        with pytest.raises(CostLimitError):
            await w.say("on")
        assert await w.stored() == ['user "go"', 'assistant "done"', 'user "on"']

    async def test_costs_below_the_limit_have_no_effect(self) -> None:
        """Limits: costs below the limit have no effect."""
        w = await watched(
            reply_with_cost(CALL, 0.5),
            reply_with_cost(T("ok"), 0.4),
            T("more"),
            tools=[noted([])],
            max_cost=1.0,
        )
        await w.say("go")
        assert 'turn_end("more")' in await w.say("on")

    async def test_messages_are_stored_for_continuation(self) -> None:
        """A-63: messages of either mode are stored after the results, for a later continuation."""
        slow = Slow()
        w = await watched(reply_with_cost(C(slow={}), 2.0), tools=[slow.tool], max_cost=1.0)
        w.session.send("go")
        await slow.started.wait()
        w.session.send("queued", mode="queue")
        w.session.send("steering")
        slow.go_on.set()
        with pytest.raises(CostLimitError):
            await w.session.wait_for_idle()
        stored = await w.stored()
        assert stored[2:] == ['result call-1 ok "done"', 'user "steering"', 'user "queued"']
        assert transcript(w.session.messages) == stored
        assert (w.session.undelivered, w.error.undelivered) == ((), ())

    async def test_without_a_limit(self) -> None:
        """Limits: without a limit no price is checked, and any model can be used."""
        session = await Agent(Unpriced()).create_session()
        assert await session.prompt("go") == "hi"

    @pytest.mark.parametrize("wrong", [0, -1, float("nan"), float("inf")])
    def test_invalid_amount_is_refused(self, wrong: float) -> None:
        """Limits: an amount that is not positive and finite is refused."""
        with pytest.raises(ValueError, match="max_cost is in US dollars, more than 0, not"):
            Agent(ScriptedModel([]), max_cost=wrong)

    @pytest.mark.slow
    @given(
        st.lists(st.integers(0, 8).map(lambda n: n / 16), max_size=12),
        st.integers(1, 32).map(lambda n: n / 16),
    )
    def test_exactly_the_calls_below_the_limit_are_made(self, costs: list[float], limit: float) -> None:
        """Limits: exactly those calls are made before which less than the limit was spent."""

        async def run() -> int:
            replies = [*(reply_with_cost(CALL, cost) for cost in costs), T("end")]
            w = await watched(*replies, tools=[noted([])], max_cost=limit)
            w.session.send("go")
            try:
                await w.session.wait_for_idle()
            except CostLimitError:
                assert len(w.model.requests) <= len(costs)
            else:
                assert len(w.model.requests) == len(costs) + 1
            return len(w.model.requests)

        made = asyncio.run(run())
        assert all(sum(costs[:n]) < limit for n in range(made))
        assert made == len(costs) + 1 or sum(costs[:made]) >= limit


class TestGoingOn:
    async def test_earlier_costs_count(self) -> None:
        """Limits: a resumed session starts with its earlier cost."""
        store = InMemorySessionStore()
        agent = Agent(ScriptedModel([reply_with_cost(T("a"), 0.9)]), store=store, max_cost=1.0)
        await (await agent.create_session("s")).prompt("go")
        model = ScriptedModel([reply_with_cost(T("b"), 0.2), T("never")])
        resumed = await agent.replace(model=model).resume_session("s", spent=0.9)
        assert await resumed.prompt("on") == "b"
        with pytest.raises(CostLimitError):
            await resumed.prompt("on")

    async def test_continues_with_a_higher_limit(self) -> None:
        """Limits: with a higher limit the session continues, with the messages sent in between."""
        w = await watched(reply_with_cost(T("a"), 1.0), max_cost=1.0)
        await w.say("go")
        with pytest.raises(CostLimitError):
            await w.say("on")
        model = ScriptedModel([T("b")])
        agent = w.agent.replace(model=model, max_cost=5.0)
        resumed = await agent.resume_session(w.session.id, spent=1.0)
        assert await resumed.prompt("again") == "b"
        assert transcript(model.requests[0].messages)[2:] == ['user "on"', 'user "again"']

    async def test_unknown_earlier_costs_are_refused(self) -> None:
        """Limits: a store has no costs, so a limit that would start again is refused."""
        store = InMemorySessionStore()
        agent = Agent(ScriptedModel([T("a")]), store=store, max_cost=1.0)
        await (await agent.create_session("s")).prompt("go")
        with pytest.raises(
            ValueError, match="the cost of session 's' so far is unknown; pass it as spent="
        ):
            await agent.resume_session("s")
        with pytest.raises(ValueError, match="spent="):
            await agent.create_session("s", exist_ok=True)
        assert await agent.replace(max_cost=None).resume_session("s")


class TestRaising:
    async def test_stopped_session_continues_to_the_raised_limit(self) -> None:
        """Limits: a session that stopped at its limit continues up to the raised one."""
        ran: list[str] = []
        replies = [
            reply_with_cost(CALL, 1.0),
            reply_with_cost(CALL, 0.5),
            reply_with_cost(CALL, 0.5),
            T("never"),
        ]
        w = await watched(*replies, tools=[noted(ran)], max_cost=1.0)
        with pytest.raises(CostLimitError):
            await w.say("go")
        w.session.raise_limit(2.0)
        assert w.session.max_cost == 2.0
        w.session.continue_()
        with pytest.raises(CostLimitError, match=r"has spent \$2\.00 of \$2\.00"):
            await w.session.wait_for_idle()
        assert (len(w.model.requests), ran) == (3, ["x"] * 3)

    async def test_raised_limit_applies_during_the_turn(self) -> None:
        """Limits: a limit raised during a turn applies from that turn's next model call."""
        slow = Slow()
        w = await watched(
            reply_with_cost(C(slow={}), 1.5),
            reply_with_cost(T("done"), 0.1),
            tools=[slow.tool],
            max_cost=1.0,
        )
        w.session.send("go")
        await slow.started.wait()
        w.session.raise_limit(2.0)
        slow.go_on.set()
        await w.session.wait_for_idle()
        assert w.turn_end.text == "done"

    @pytest.mark.parametrize(
        ("limit", "why"),
        [
            (1.0, r"max_cost is \$1\.00 already"),
            (0.5, r"max_cost is \$1\.00 already"),
            (1.5, r"has cost \$1\.50 already; it needs a higher limit than \$1\.50"),
            (float("nan"), "in US dollars, more than 0"),
            (float("inf"), "in US dollars, more than 0"),
            (-1.0, "in US dollars, more than 0"),
        ],
    )
    async def test_limit_that_is_not_higher_is_refused(self, limit: float, why: str) -> None:
        """Limits: a limit that is not higher, or is already exceeded, is refused without a change."""
        w = await watched(reply_with_cost(T("x"), 1.5), max_cost=1.0)
        await w.say("go")
        with pytest.raises(ValueError, match=why):
            w.session.raise_limit(limit)
        assert w.session.max_cost == 1.0

    async def test_session_without_limit_has_none_to_raise(self) -> None:
        """Limits: a session without a limit has none to raise."""
        w = await watched(T("x"))
        assert w.session.max_cost is None
        with pytest.raises(ValueError, match="has no cost limit to raise"):
            w.session.raise_limit(5)

    async def test_parents_limit_still_applies(self) -> None:
        """Limits: a subagent's limit can exceed its parent's, which still applies."""
        above = Spending("boss", 1.0)
        helper = Agent(
            ScriptedModel([reply_with_cost(T("a"), 1.0), T("never")]), name="helper", max_cost=0.5
        )
        session = await helper.as_subagent(InheritedLimits(HookChain(), above)).create_session("c")
        await session.prompt("go")
        session.raise_limit(9)
        with pytest.raises(CostLimitError, match="this session of boss"):
            await session.prompt("more")


class TestSubagents:
    def boss(
        self,
        helper: list[Reply],
        boss: list[Reply],
        *,
        own: float | None = None,
        limit: float | None = 1.0,
    ) -> Agent:
        child = Agent(ScriptedModel(helper), name="helper", tools=[noted([])], max_cost=own)
        return Agent(ScriptedModel(boss), name="boss", tools=[task_tool(child)], max_cost=limit)

    async def test_counts_for_the_parent(self) -> None:
        """Limits: a subagent's cost counts for its parent."""
        task = reply_with_cost(C(task_helper={"prompt": "x"}), 0.1)
        boss = self.boss([reply_with_cost(T("done"), 0.95)], [task, T("never")])
        session = await boss.create_session()
        results: list[ToolResultEvent] = []
        session.on("tool_result", results.append)
        session.send("go")
        with pytest.raises(CostLimitError, match=r"session of boss has spent \$1\.05 of \$1\.00"):
            await session.wait_for_idle()
        assert [(r.result, r.is_error) for r in results] == [("done", False)]

    async def test_stops_at_the_parents_limit(self) -> None:
        """Limits: a subagent makes no model call beyond its parent's limit."""
        task = reply_with_cost(C(task_helper={"prompt": "x"}), 0.1)
        boss = self.boss([reply_with_cost(CALL, 0.95), T("never")], [task, T("never")])
        session = await boss.create_session()
        results: list[ToolResultEvent] = []
        session.on("tool_result", results.append)
        session.send("go")
        with pytest.raises(CostLimitError):
            await session.wait_for_idle()
        [task_result] = results
        assert task_result.is_error
        assert "this session of boss has spent $1.05" in task_result.result

    async def test_own_limit_ends_the_task(self) -> None:
        """Limits: a subagent's own limit ends its task; the parent gets the reason and continues."""
        task = C(task_helper={"prompt": "x"})
        boss = self.boss([reply_with_cost(CALL, 0.5), T("never")], [task, T("ok")], own=0.5, limit=None)
        session = await boss.create_session()
        results: list[ToolResultEvent] = []
        session.on("tool_result", results.append)
        assert await session.prompt("go") == "ok"
        assert "session of helper has spent $0.50 of $0.50" in results[0].result

    async def test_subagent_without_price_does_not_start(self) -> None:
        """Limits: under a limit, a subagent with unknown costs does not start."""
        model = Unpriced()
        child = Agent(model, name="helper")
        tools = [task_tool(child)]
        script = ScriptedModel([C(task_helper={"prompt": "x"}), T("ok")])
        session = await Agent(script, tools=tools, max_cost=1.0).create_session()
        results: list[ToolResultEvent] = []
        session.on("tool_result", results.append)
        assert await session.prompt("go") == "ok"
        assert results[0].is_error
        assert "max_cost cannot be kept: homemade does not say" in results[0].result
        assert model.requests == []


class TestCompaction:
    async def test_summary_request_counts(self) -> None:
        """Limits: the request for a summary is a model call like any other."""
        w = await watched(
            reply_with_cost(T("a"), 0.5), reply_with_cost(T("S"), 0.5), T("never"), max_cost=1.0
        )
        await w.say("go")
        await w.session.compact(0)
        with pytest.raises(CostLimitError):
            await w.say("on")

    async def test_no_summary_at_the_limit(self) -> None:
        """Limits: no summary is made when the limit is reached, and nothing changes."""
        w = await watched(reply_with_cost(T("a"), 1.0), T("never"), max_cost=1.0)
        await w.say("go")
        with pytest.raises(CompactionError, match="was not compacted: The cost limit is reached"):
            await w.session.compact(0)
        assert await w.stored() == ['user "go"', 'assistant "a"']


class TestPrices:
    async def test_model_without_price_is_refused(self) -> None:
        """Limits: a limit that cannot be checked is refused before anything starts, with the remedy."""
        with pytest.raises(CostLimitError) as caught:
            await Agent(Unpriced(), max_cost=1.0).create_session()
        assert str(caught.value) == (
            "max_cost cannot be kept: homemade does not say whether its replies have a price "
            "(check_price). Choose a model with a known price, or leave max_cost out; max_steps bounds "
            "a run without it."
        )

    @pytest.mark.slow
    async def test_model_with_litellm_price_can_start(self) -> None:
        """Limits: a model with a price in litellm's list can start; one without, or free, cannot."""
        session = await Agent("openai/gpt-4o", max_cost=1.0).create_session()
        assert session.status == "idle"
        for name in ("openai/homemade", "ollama://127.0.0.1:9/qwen3:8b"):
            with pytest.raises(CostLimitError, match="litellm's list has no price for"):
                await Agent(name, max_cost=1.0).create_session()
        with pytest.raises(ModelError):
            LitellmModel("openai/homemade").check_price()

    async def test_model_assigned_later_is_checked(self) -> None:
        """Limits: the price of a model that is assigned later is checked too."""
        w = await watched(T("a"), max_cost=1.0)
        await w.say("go")
        model = Unpriced()
        w.session.model = model
        with pytest.raises(CostLimitError, match="homemade"):
            await w.say("on")
        assert model.requests == []

    async def test_reply_of_unknown_cost_ends_requests(self) -> None:
        """Limits: after a reply of unknown cost, no further one is requested."""
        model = SometimesUnpriced()
        session = await Agent(model, max_cost=1.0).create_session()
        assert await session.prompt("go") == "hi"
        session.send("on")
        with pytest.raises(CostLimitError, match="the cost of the last reply of homemade is unknown"):
            await session.wait_for_idle()
        assert len(model.requests) == 1
