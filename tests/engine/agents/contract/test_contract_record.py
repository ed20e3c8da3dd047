"""The contract's audit record: the events that a hub stores for calls with changed arguments."""

from __future__ import annotations

from interlock.engine.agents import Agent, C, Hooks, Override, ScriptedModel, T
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import (
    ApprovalRequested,
    CallDecided,
    CallResult,
    JournalEvent,
    MessageAdded,
)
from interlock.engine.hub.hub import Hub
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

from ...support.shop import until
from ..script import noted


def recorded(hub: Hub, session: str) -> list[JournalEvent]:
    """Return the content of the journal's file, read over a separate connection."""
    return list(open_reader(hub.database).events(session))


class TestOverriddenArguments:
    async def test_both_are_recorded(self, hub: Hub) -> None:
        """A-45: the record has the model's arguments and those that ran; the history has the model's."""
        ran: list[str] = []
        hooks = Hooks(before_tool_call=lambda e: Override(args={"text": "effective"}))
        model = ScriptedModel([C(c1=("note", {"text": "original"})), T("ok")])
        agent = Agent(model, tools=[noted(ran)], hooks=hooks)
        session = await hub.open_session(agent, SessionConfig({}))
        await hub.send(session, "go", by="operator")
        await hub.wait(session)
        assert ran == ["effective"]
        bodies = [e.body for e in recorded(hub, session)]
        [said] = [b for b in bodies if isinstance(b, MessageAdded) and b.calls]
        assert said.calls[0].input == {"text": "original"}
        decided = [b for b in bodies if isinstance(b, CallDecided)]
        assert decided[-1].input == {"text": "effective"}
        assert {d.call_id for d in decided} == {"c1"}
        ended = [b for b in bodies if isinstance(b, CallResult)][-1]
        assert (ended.call_id, ended.output, ended.is_error) == ("c1", "noted effective", False)
        assert model.requests[1].messages[1].tool_calls[0].args == {"text": "original"}
        assert model.requests[1].messages[2].text == "noted effective"

    async def test_operators_edit_is_recorded(self, hub: Hub) -> None:
        """A-45: an operator's edit during approval is recorded besides the model's arguments."""
        ran: list[str] = []
        model = ScriptedModel([C(c1=("note", {"text": "original"})), T("ok")])
        rules = compile_rules("require human-approval before note")
        session = await hub.open_session(Agent(model, tools=[noted(ran)]), SessionConfig(rules.registry))
        events = hub.subscribe()
        await hub.send(session, "go", by="operator")
        await until(events, ApprovalRequested)
        [request] = await hub.approvals()
        edited = await hub.decide(request.id, approved=True, by="operator", input={"text": "edited"})
        assert edited.ok
        await hub.wait(session)
        assert ran == ["edited"]
        bodies = [e.body for e in recorded(hub, session)]
        [said] = [b for b in bodies if isinstance(b, MessageAdded) and b.calls]
        [decided] = [b for b in bodies if isinstance(b, CallDecided)]
        assert said.calls[0].input == {"text": "original"}
        assert (decided.input, decided.edited) == ({"text": "edited"}, True)
