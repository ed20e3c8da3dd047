"""A cost limit under the hub: it counts the complete record, including subagents, and is recorded."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

import pytest

from interlock.engine import Agent, CostLimitError, ScriptedModel, task_tool, tool
from interlock.engine.agents import C, Reply, T, Usage
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.writer import Writer
from interlock.engine.history.model.events import LimitRaised, SessionOpened, StepEnded
from interlock.engine.hub.hub import Hub, ResumeError, UnknownSessionError
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

REGISTRY = compile_rules("limit note to 9 per session").registry
TASK = C(task_helper={"prompt": "x"})
NOTE = C(note={})


@tool
async def note() -> str:
    """Make a note."""
    return "noted"


def with_cost(reply: Reply, cost: float) -> Reply:
    return replace(reply, usage=Usage(input=10, output=5, cost=cost))


def agent(*replies: Reply, max_cost: float | None = 1.0) -> Agent:
    return Agent(ScriptedModel(list(replies)), name="bot", tools=[note], max_cost=max_cost)


async def send_and_wait(hub: Hub, session: str, text: str) -> None:
    await hub.send(session, text, by="maria")
    await hub.wait(session)


class TestReached:
    async def test_turn_ends_with_limit_and_remedy(self, hub: Hub) -> None:
        """Limits: the turn ends with an error that names the limit and the remedy; messages are kept."""
        session = await hub.open_session(agent(with_cost(NOTE, 1.2), T("never")), SessionConfig(REGISTRY))
        with pytest.raises(CostLimitError):
            await send_and_wait(hub, session, "go")
        state = await hub.session(session)
        assert (state.status, state.cost, state.max_cost) == ("failed", 1.2, 1.0)
        said = [e.text for e in state.transcript if e.kind == "note" and e.text][-1]
        assert "this session of bot has spent $1.20 of $1.00." in said
        assert "resume it with a higher limit" in said
        with pytest.raises(CostLimitError):
            await send_and_wait(hub, session, "please")
        said = [e.text for e in (await hub.session(session)).transcript if e.kind == "user"]
        assert said == ["go", "please"]
        assert fold(await hub.recorded(session)) == await hub.session(session)

    async def test_record_names_cost_of_each_subagent(self, hub: Hub) -> None:
        """Limits: the parent's record contains the cost of its subagents and names each of them."""
        child = Agent(
            ScriptedModel([with_cost(NOTE, 0.2), with_cost(T("done"), 0.3)]), name="helper", tools=[note]
        )
        boss = Agent(
            ScriptedModel([with_cost(TASK, 0.4), with_cost(T("fine"), 0.05)]),
            name="boss",
            tools=[task_tool(child)],
            max_cost=1.0,
        )
        session = await hub.open_session(boss, SessionConfig(REGISTRY))
        await send_and_wait(hub, session, "go")
        state = await hub.session(session)
        [below] = [s for s in await hub.sessions() if s.parent == session]
        assert (state.cost, state.input_tokens, below.cost) == (pytest.approx(0.95), 40, 0.5)
        steps = [e.body for e in await hub.recorded(session) if isinstance(e.body, StepEnded)]
        assert [step.via for step in steps] == [None, below.id, below.id, None]
        assert fold(await hub.recorded(session)) == state

    async def test_nested_cost_counts_once_at_the_top(self, hub: Hub) -> None:
        """Limits: cost from two levels below counts at the top once."""
        low = Agent(ScriptedModel([with_cost(T("l"), 0.5)]), name="low")
        mid = Agent(
            ScriptedModel([C(task_low={"prompt": "x"}), T("m")]), name="mid", tools=[task_tool(low)]
        )
        top = Agent(
            ScriptedModel([C(task_mid={"prompt": "x"}), T("never")]),
            name="top",
            tools=[task_tool(mid)],
            max_cost=0.5,
        )
        session = await hub.open_session(top, SessionConfig(REGISTRY))
        with pytest.raises(CostLimitError):
            await send_and_wait(hub, session, "go")
        states = {s.agent: s for s in await hub.sessions()}
        assert [states[name].cost for name in ("top", "mid", "low")] == [0.5, 0.5, 0.5]
        assert {s.max_cost for s in (states["mid"], states["low"])} == {None}


class TestGoingOn:
    async def test_resumed_session_has_spent_its_recorded_cost(self, hub: Hub) -> None:
        """Limits: a resumed session has spent what its record says, including its subagents."""
        child = Agent(ScriptedModel([with_cost(T("done"), 0.7)]), name="helper")
        boss = Agent(
            ScriptedModel([with_cost(TASK, 0.1), with_cost(T("a"), 0.1)]),
            tools=[task_tool(child)],
            max_cost=1.0,
        )
        session = await hub.open_session(boss, SessionConfig(REGISTRY))
        await send_and_wait(hub, session, "go")
        await hub.close_session(session, by="maria")
        model = ScriptedModel([with_cost(T("b"), 0.2), T("never")])
        await hub.resume_session(session, boss.replace(model=model), SessionConfig(REGISTRY))
        await send_and_wait(hub, session, "on")
        with pytest.raises(CostLimitError, match=r"has spent \$1\.10 of \$1\.00"):
            await send_and_wait(hub, session, "on")
        assert len(model.requests) == 1

    async def test_higher_limit_needs_a_reason(self, hub: Hub) -> None:
        """Limits: a new limit needs a reason and applies after the resume."""
        bot = agent(with_cost(T("a"), 1.0))
        session = await hub.open_session(bot, SessionConfig(REGISTRY))
        await send_and_wait(hub, session, "go")
        await hub.close_session(session, by="maria")
        higher = bot.replace(model=ScriptedModel([T("b")]), max_cost=3.0)
        with pytest.raises(ResumeError, match=r"a cost limit of \$3.00. Say why"):
            await hub.resume_session(session, higher, SessionConfig(REGISTRY))
        await hub.resume_session(session, higher, SessionConfig(REGISTRY, reason="it is worth it"))
        await send_and_wait(hub, session, "on")
        state = await hub.session(session)
        assert (state.max_cost, state.cost, state.status) == (3.0, 1.0, "idle")

    async def test_branch_starts_with_no_cost(self, hub: Hub) -> None:
        """Limits: a branch starts with no cost."""
        bot = agent(with_cost(T("a"), 1.0))
        session = await hub.open_session(bot, SessionConfig(REGISTRY))
        await send_and_wait(hub, session, "go")
        last = len(await hub.recorded(session))
        branch = await hub.branch_session(
            session, last, bot.replace(model=ScriptedModel([T("b")])), SessionConfig(REGISTRY)
        )
        await send_and_wait(hub, branch, "on")
        assert (await hub.session(branch)).cost == 0


class TestRaising:
    async def test_live_session_limit_can_be_raised(self, hub: Hub) -> None:
        """Limits: an operator can raise a live session's limit, and the next message continues it."""
        session = await hub.open_session(
            agent(with_cost(NOTE, 1.2), with_cost(T("done"), 0.1)), SessionConfig(REGISTRY)
        )
        with pytest.raises(CostLimitError):
            await send_and_wait(hub, session, "go")
        outcome = await hub.raise_limit(session, 2.5, by="maria", reason="a test")
        assert (outcome.ok, outcome.message) == (True, f"{session} may now cost $2.50")
        await send_and_wait(hub, session, "go on")
        state = await hub.session(session)
        assert (state.status, state.max_cost, state.cost) == ("idle", 2.5, pytest.approx(1.3))
        events = await hub.recorded(session)
        assert [(e.body.max_cost, e.body.by) for e in events if isinstance(e.body, LimitRaised)] == [
            (2.5, "maria")
        ]
        assert fold(events).max_cost == 2.5
        assert "cost limit: $2.50 (by maria: a test)" in [e.text for e in state.transcript]

    async def test_invalid_raise_is_refused(self, hub: Hub) -> None:
        """Limits: a raise that is no raise is refused with a reason and not recorded."""
        for max_cost, why in ((1.0, "max_cost is $1.00 already"), (None, "has no cost limit to raise")):
            session = await hub.open_session(agent(max_cost=max_cost), SessionConfig(REGISTRY))
            outcome = await hub.raise_limit(session, 1.0, by="maria", reason="a test")
            assert not outcome.ok
            assert why in outcome.message
            assert not [e for e in await hub.recorded(session) if isinstance(e.body, LimitRaised)]
        with pytest.raises(UnknownSessionError):
            await hub.raise_limit("nobody", 1.0, by="maria", reason="a test")

    async def test_unrecorded_raise_keeps_the_old_limit(
        self, hub: Hub, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Limits: if the journal refuses the raise, the old limit stays."""
        session = await hub.open_session(agent(with_cost(NOTE, 1.2), T("never")), SessionConfig(REGISTRY))
        with pytest.raises(CostLimitError):
            await send_and_wait(hub, session, "go")

        def refuse(*_: object, **__: object) -> NoReturn:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(Writer, "commit", refuse)
            outcome = await hub.raise_limit(session, 2.5, by="maria", reason="a test")
        assert not outcome.ok
        assert outcome.message.startswith("Not raised, the journal refused it: ")
        with pytest.raises(CostLimitError):
            await send_and_wait(hub, session, "go on")


class TestLabels:
    async def test_differing_labels_are_recorded(self, hub: Hub) -> None:
        """Section 9: the record contains the labels of tools that have one different from their name."""

        @tool(label="  Take a\ud800 note ")
        async def labelled() -> str:
            """Note."""
            return ""

        @tool(label="same")
        async def same() -> str:
            """Do nothing; the label equals the name."""
            return ""

        class Odd:
            name, description, parameters, label = "odd", "", {}, 7

            async def execute(self, args: object, ctx: object) -> str:
                return ""

        bot = Agent(ScriptedModel([T("a")]), name="bot", tools=[note, labelled, same, Odd()])
        session = await hub.open_session(bot, SessionConfig(REGISTRY))
        state = await hub.session(session)
        assert state.labels == {"labelled": "Take a? note"}
        recorded = await hub.recorded(session)
        assert isinstance(recorded[0].body, SessionOpened)
        assert recorded[0].body.labels == state.labels
        await hub.close_session(session, by="maria")
        await hub.resume_session(session, bot.replace(tools=[note]), SessionConfig(REGISTRY))
        assert (await hub.session(session)).labels == {}

    def test_older_record_has_no_labels(self) -> None:
        """An old record without labels and limit is read as having none."""
        old = SessionOpened.model_validate({"agent": "a", "model": "m", "mode": "enforce"})
        assert (old.labels, old.max_cost) == ({}, None)
