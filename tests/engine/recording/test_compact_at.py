"""Automatic compaction under the hub: the record and the report of a failure."""

from __future__ import annotations

from dataclasses import replace

from interlock.engine import Agent, ScriptedModel
from interlock.engine.agents import ERR, Reply, T, Usage, prompt_of
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.model.events import MessageAdded, SessionStatus, StepEnded
from interlock.engine.hub.hub import Hub
from interlock.engine.recording.conversation import conversation
from interlock.engine.sessions.config import SessionConfig

from ..support.shop import bodies


def with_usage(reply: Reply) -> Reply:
    return replace(reply, usage=Usage(input=1000, output=5))


async def long_session(hub: Hub, *replies: Reply) -> tuple[str, ScriptedModel]:
    """A session whose third turn was too long, and its model."""
    model = ScriptedModel([T("a1"), T("a2"), with_usage(T("a3")), *replies])
    agent = Agent(model, name="bot", compact_at=1000)
    session = await hub.open_session(agent, SessionConfig({}))
    for text in ("u1", "u2", "u3"):
        await hub.send(session, text, by="maria")
        await hub.wait(session)
    return session, model


class TestByItself:
    async def test_is_recorded_like_a_manual_one(self, hub: Hub) -> None:
        """Section 9: the record has the summary, its model call and `interlock` as its sender."""
        session, model = await long_session(hub, T("sum"), T("a4"))
        [summary] = [m for m in bodies(hub, session, MessageAdded) if m.role == "summary"]
        assert (summary.text, summary.kept, summary.by) == ("sum", 4, "interlock")
        assert len(bodies(hub, session, StepEnded)) == 4
        state = await hub.session(session)
        assert (state.status, state.error) == ("idle", None)
        await hub.send(session, "u4", by="maria")
        await hub.wait(session)
        said = conversation(await hub.recorded(session))
        assert prompt_of(said)[:-1] == list(model.requests[-1].messages)
        assert fold(await hub.recorded(session)) == await hub.session(session)

    async def test_failure_is_in_the_transcript(self, hub: Hub) -> None:
        """Section 9: the transcript reports why compaction failed, and the session continues."""
        session, model = await long_session(hub, ERR("overloaded"), T("a4"))
        state = await hub.session(session)
        assert state.status == "idle"
        assert state.error == f"Session '{session}' was not compacted: overloaded"
        assert f"error: {state.error}" in [entry.text for entry in state.transcript]
        assert bodies(hub, session, SessionStatus)[-1].status == "idle"
        await hub.send(session, "u4", by="maria")
        await hub.wait(session)
        assert len(model.requests[-1].messages) == 7
        state = await hub.session(session)
        assert (state.status, state.error) == ("idle", None)
        assert fold(await hub.recorded(session)) == state
