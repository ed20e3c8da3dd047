"""Rules as sentences for the model of a session."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.engine.agents import (
    Agent,
    AssistantMessage,
    C,
    JsonlSessionStore,
    Reply,
    ScriptedModel,
    T,
    task_tool,
    tool,
)
from interlock.engine.agents.messages import RulesChange
from interlock.engine.agents.rules_notice import first_rules, total_change
from interlock.engine.gate import create_gate
from interlock.engine.history.model.events import SessionOpened, SessionResumed
from interlock.engine.hub.hub import Hub
from interlock.engine.recording.conversation import message_log
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

REGISTRY = compile_rules("limit note to 3 per session\nblock rm\n").registry
FIRST = """\
## Rules for tool calls
- note: 3 of 3 calls left in this session.
- rm is always blocked."""
CHANGED = """\
Rules for tool calls changed:
- Now: note: 2 of 3 calls left in this session.
- No longer: note: 3 of 3 calls left in this session."""


@tool
async def note() -> str:
    """Note something down."""
    return "noted"


def scripted_agent(*replies: Reply, **settings: object) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(list(replies))
    return Agent(model, name="bot", system_prompt="Be brief.", tools=[note], **settings), model  # pyright: ignore[reportArgumentType]


def texts(model: ScriptedModel, number: int) -> list[str]:
    return [message.text for message in model.requests[number].messages]


async def session_after_a_turn(hub: Hub, agent: Agent) -> str:
    session = await hub.open_session(agent, SessionConfig(REGISTRY))
    await hub.send(session, "go", by="ann")
    await hub.wait(session)
    return session


class TestHosted:
    async def test_prompt_has_rules_and_changes_follow(self, hub: Hub) -> None:
        """G-73: the system prompt ends with the rules and stays; changes come before the next call."""
        agent, model = scripted_agent(C(note={}), T("one"), T("two"))
        session = await session_after_a_turn(hub, agent)
        await hub.send(session, "more", by="ann")
        await hub.wait(session)
        assert [request.system_prompt for request in model.requests] == [f"Be brief.\n\n{FIRST}"] * 3
        assert texts(model, 0) == ["go"]
        assert texts(model, 1) == ["go", "", "noted", CHANGED]
        assert texts(model, 2) == ["go", "", "noted", CHANGED, "one", "more"]

    async def test_resumed_model_reads_the_same(self, hub: Hub) -> None:
        """G-73, A-77: a resumed session's model reads the same as the live one's, in the same prompt."""
        session = await session_after_a_turn(hub, scripted_agent(C(note={}), T("one"))[0])
        await hub.close_session(session, by="ann")
        agent, model = scripted_agent(T("two"))
        await hub.resume_session(session, agent, SessionConfig(REGISTRY, by="ann"))
        await hub.send(session, "more", by="ann")
        await hub.wait(session)
        assert model.requests[0].system_prompt == f"Be brief.\n\n{FIRST}"
        assert texts(model, 0) == ["go", "", "noted", CHANGED, "one", "more"]
        bodies = [event.body for event in await hub.recorded(session)]
        told = [body.rules for body in bodies if isinstance(body, SessionOpened | SessionResumed)]
        assert told == [tuple(line[2:] for line in FIRST.splitlines()[1:]), None]

    async def test_branch_keeps_prompt_and_adds_differences(self, hub: Hub) -> None:
        """G-73: a branch keeps the prompt, and differences are added at its own beginning."""
        session = await session_after_a_turn(hub, scripted_agent(C(note={}), T("one"))[0])
        events = await hub.recorded(session)
        agent, model = scripted_agent(T("two"))
        more = compile_rules("limit note to 3 per session\nblock rm\nblock dd\n").registry
        branch = await hub.branch_session(session, events[-1].seq, agent, SessionConfig(more, by="ann"))
        await hub.send(branch, "more", by="ann")
        await hub.wait(branch)
        assert model.requests[0].system_prompt == f"Be brief.\n\n{FIRST}"
        new = "Rules for tool calls changed:\n- Now: dd is always blocked."
        assert texts(model, 0) == ["go", "", "noted", CHANGED, "one", "more", new]

    async def test_exported_messages_have_the_changes(self, hub: Hub) -> None:
        """G-73: the exported messages have the changes where the model read them."""
        session = await session_after_a_turn(hub, scripted_agent(C(note={}), T("one"))[0])
        log = message_log(await hub.recorded(session))
        assert {"role": "user", "content": CHANGED} in log

    async def test_subagent_gets_its_parents_rules(self, hub: Hub) -> None:
        """G-73: a subagent gets the rules of its parent session, and their changes."""
        child = ScriptedModel([C(note={}), T("done")])
        helper = Agent(child, name="helper", tools=[note])
        parent = ScriptedModel([C(task_helper={"prompt": "do"}), T("one")])
        await session_after_a_turn(hub, Agent(parent, name="boss", tools=[task_tool(helper)]))
        assert [request.system_prompt for request in child.requests] == [FIRST] * 2
        assert texts(child, 1)[-1] == texts(parent, 1)[-1] == CHANGED

    async def test_no_rules_with_tell_rules_off(self, hub: Hub) -> None:
        """G-73: with `tell_rules` off the model gets no rules."""
        agent, model = scripted_agent(C(note={}), T("one"), tell_rules=False)
        await session_after_a_turn(hub, agent)
        assert [request.system_prompt for request in model.requests] == ["Be brief."] * 2
        assert texts(model, 1) == ["go", "", "noted"]

    async def test_no_rules_in_shadow_mode(self, hub: Hub) -> None:
        """G-73: in shadow mode no rule is enforced, so none is given until enforce mode."""
        agent, model = scripted_agent(T("one"), T("two"))
        session = await hub.open_session(agent, SessionConfig(REGISTRY, mode="shadow"))
        await hub.send(session, "go", by="ann")
        await hub.wait(session)
        await hub.set_mode(session, "enforce", by="ann")
        await hub.send(session, "more", by="ann")
        await hub.wait(session)
        assert model.requests[1].system_prompt == "Be brief."
        assert "- Now: rm is always blocked." in texts(model, 1)[-1]

    async def test_changes_are_repeated_after_compaction(self, hub: Hub) -> None:
        """G-73: changes that a summary replaces are given again, as one message."""
        agent, model = scripted_agent(C(note={}), C(note={}), T("one"), T("summed up"), T("two"))
        session = await session_after_a_turn(hub, agent)
        await hub.compact(session, by="ann", keep_last=1)
        await hub.send(session, "more", by="ann")
        await hub.wait(session)
        between = "Rules for tool calls changed:\n- Now: note: 1 of 3 calls left in this session.\n"
        between += "- No longer: note: 2 of 3 calls left in this session."
        assert texts(model, 4) == ["<summary>\nsummed up\n</summary>", CHANGED, between, "one", "more"]
        assert model.requests[4].system_prompt == f"Be brief.\n\n{FIRST}"


class TestWithoutAHub:
    async def test_store_keeps_the_changes(self, tmp_path: Path) -> None:
        """G-73: a store keeps the changes that were given, and the prompt follows from them."""
        nets = list(REGISTRY.values())
        store = JsonlSessionStore(tmp_path)
        gate = create_gate(nets).new_manager()
        agent, first = scripted_agent(C(note={}), T("one"), store=store, gate=gate)
        session = await agent.create_session("s")
        await session.prompt("go")
        agent, model = scripted_agent(T("two"), store=JsonlSessionStore(tmp_path), gate=gate)
        resumed = await agent.resume_session("s")
        await resumed.prompt("more")
        assert texts(first, 1) == ["go", "", "noted", CHANGED]
        assert texts(model, 0) == ["go", "", "noted", CHANGED, "one", "more"]
        assert sorted((model.requests[0].system_prompt or "").splitlines()) == sorted(
            f"Be brief.\n\n{FIRST}".splitlines()
        )

    async def test_failing_description_is_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        """G-73: if a gate cannot describe its rules, this is logged and the session continues."""

        class Speechless:
            async def handle_tool_call(self, call: object, ctx: object) -> object: ...
            def handle_tool_result(self, result: object) -> object: ...
            def constraints(self) -> tuple[str, ...]:
                raise RuntimeError("no words")

        agent, model = scripted_agent(T("one"), gate=Speechless())
        assert await (await agent.create_session()).prompt("go") == "one"
        assert model.requests[0].system_prompt == "Be brief."
        assert "could not put its rules into words" in caplog.text


class TestChanges:
    def test_reverted_changes_cancel_out(self) -> None:
        """G-73: reverted changes cancel out, and the first rules follow from the last ones."""
        there = AssistantMessage(rules=RulesChange(added=("a", "c"), removed=("b",)))
        back = AssistantMessage(rules=RulesChange(added=("b",), removed=("a",)))
        assert total_change([there, back]) == RulesChange(added=("c",))
        assert first_rules(("b", "c", "d"), [there, back]) == ("b", "d")
