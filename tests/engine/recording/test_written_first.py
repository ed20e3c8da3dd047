"""Events are in the file before any party acts on them, even if each commit takes time."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from interlock.engine.agents import Agent, C, Message, Reply, ScriptedModel, T
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.journal.writer import Writer
from interlock.engine.history.model.events import (
    ApprovalDecided,
    ApprovalRequested,
    CallDecided,
    CallResult,
    MessageAdded,
)
from interlock.engine.hub.hub import Hub
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

from ..support.shop import Shop, bodies, until

RULES = "require human-approval before deploy"
COMMIT = 0.02
"""Seconds that a commit takes, so that code that does not wait for it acts too early."""


@pytest.fixture
async def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Hub]:
    commit: Callable[..., Any] = Writer.commit

    def slowly(writer: Writer, *given: Any) -> Any:
        threading.Event().wait(COMMIT)
        return commit(writer, *given)

    monkeypatch.setattr(Writer, "commit", slowly)
    hub = Hub(Journal.open(tmp_path / "hub.db"))
    yield hub
    await hub.close()


class TestOrder:
    async def test_each_event_is_written_before_it_takes_effect(self, hub: Hub) -> None:
        """The request is in the file before it is shown, the answer before it counts, the decision before
        the tool runs, and the result before the model sees it."""
        shop = Shop()
        seen: dict[str, int] = {}

        def look(moment: str, kind: type) -> None:
            seen[moment] = len(bodies(hub, session, kind))

        def reply(messages: Sequence[Message]) -> Reply:
            if len(messages) == 1:
                look("asked the model", MessageAdded)
                return C(deploy={})
            look("shown to the model", CallResult)
            look("shown as a message", MessageAdded)
            return T("done")

        shop.before_run = lambda name: look("ran", CallDecided)
        agent = Agent(ScriptedModel(reply), name="bot", tools=shop.tools())
        session = await hub.open_session(agent, SessionConfig(compile_rules(RULES).registry))
        events = hub.subscribe()
        await hub.send(session, "go", by="maria")
        await until(events, ApprovalRequested)
        look("shown to people", ApprovalRequested)
        [request] = await hub.approvals()
        assert (await hub.decide(request.id, approved=True, by="maria")).ok
        look("answered", ApprovalDecided)
        await hub.wait(session)
        assert seen == {
            "asked the model": 1,
            "shown to people": 1,
            "answered": 1,
            "ran": 1,
            "shown to the model": 1,
            "shown as a message": 3,
        }
