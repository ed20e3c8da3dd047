"""Input that ran in place of the model's: recorded if no gate's decision contains it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import JsonValue

from interlock.engine.agents import (
    Agent,
    C,
    Hooks,
    InMemorySessionStore,
    Override,
    ScriptedModel,
    T,
    ToolMessage,
    UserMessage,
    tool,
)
from interlock.engine.agents.events import ToolResultEvent
from interlock.engine.agents.models.litellm_model import wire_messages
from interlock.engine.gate import GateManager, create_gate
from interlock.engine.gate.types import ApprovalAnswer, ApprovalRequest
from interlock.engine.history.audit.verify import verify_journal
from interlock.engine.history.fold.event_text import changes, headline
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import CallDecided, CallRecord, MessageAdded
from interlock.engine.history.redaction.redaction import Redaction
from interlock.engine.hub.hub import Hub
from interlock.engine.recording.journal_store import JournalStore
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

from ..history.support.recording import opening, recorded, state_after


@tool
async def note(text: str = "", token: str = "") -> str:
    """Note a text."""
    return f"noted {text}"


def agent(store: object = None, *replies: object, **args: JsonValue) -> Agent:
    """An agent whose hook replaces the arguments of every call by `args`."""
    script = replies or [C(c1=("note", {"text": "x"})), T("ok")]
    hooks = Hooks(before_tool_call=lambda event: Override(args=args))
    return Agent(ScriptedModel(list(script)), name="bot", tools=[note], store=store, hooks=hooks)


class TestWithoutAGate:
    async def test_recorded_and_read_back(self, tmp_path: Path) -> None:
        """A-45, A-77: the journal has both inputs, and the loaded messages equal the conversation."""
        store = JournalStore.open(tmp_path / "j.db")
        bot = agent(store, text="other")
        session = await bot.create_session("s")
        results: list[ToolResultEvent] = []
        session.on("tool_result", results.append)
        await session.prompt("go")
        said = list(session.messages)
        assert await store.load("s") == said
        assert [m.ran for m in said if isinstance(m, ToolMessage)] == [{"text": "other"}]
        assert [event.ran for event in results] == [{"text": "other"}]
        assert said[1].tool_calls[0].args == {"text": "x"}
        await store.close()
        events = list(open_reader(tmp_path / "j.db").events("s"))
        assert [e.body.input for e in events if isinstance(e.body, MessageAdded)] == [
            None,
            None,
            {"text": "other"},
            None,
        ]
        [call] = fold(events).calls.values()
        assert (call.input, call.status, call.output) == ({"text": "other"}, "done", "noted other")
        assert [found.fault for found in verify_journal(tmp_path / "j.db")] == [None]

    async def test_model_does_not_read_the_input_that_ran(self) -> None:
        """A-45: the model reads its own call and the result, not the input that ran."""
        bot = agent(text="other")
        session = await bot.create_session("s")
        await session.prompt("go")
        model = bot.model
        assert isinstance(model, ScriptedModel)
        wire = wire_messages(model.requests[1])
        assert wire[-1] == {"role": "tool", "tool_call_id": "c1", "content": "noted other"}

    @pytest.mark.parametrize("args", [{"text": "x"}, {"wrong": 1}])
    async def test_equal_or_invalid_arguments_are_not_recorded(self, args: dict[str, JsonValue]) -> None:
        """A-45, A-46: equal arguments, or arguments that do not fit, are not recorded as run."""
        session = await agent(None, **args).create_session("s")
        await session.prompt("go")
        assert [m.ran for m in session.messages if isinstance(m, ToolMessage)] == [None]

    async def test_input_is_recorded_before_tool_changes_it(self) -> None:
        """A-45: the input is recorded as the tool received it."""
        given: dict[str, JsonValue] = {"text": "other"}
        session = await agent(None, **given).create_session("s")
        await session.prompt("go")
        given["text"] = "changed"
        [ran] = [m.ran for m in session.messages if isinstance(m, ToolMessage)]
        assert ran == {"text": "other"}


RULES = "require human-approval before note\nlimit note to 9 per session"


async def edits(_: object) -> ApprovalAnswer:
    """An approver who edits the text."""
    return ApprovalAnswer(True, None, {"text": "edited"}, "ada")


def gated(gate: object, store: object, *replies: object, hooks: Hooks | None = None) -> Agent:
    """An agent behind its own gate, without a hub."""
    script = replies or [C(c1=("note", {"text": "x"})), T("ok")]
    model = ScriptedModel(list(script))
    return Agent(model, name="bot", tools=[note], store=store, gate=gate, hooks=hooks, tell_rules=False)


class TestBehindAGate:
    async def test_operator_edit_is_recorded(self, tmp_path: Path) -> None:
        """A-45, A-77: behind a gate without a hub, the journal has an operator's edit; the loaded
        messages equal the conversation, and a resumed session prompts with them."""
        nets = [*compile_rules(RULES).registry.values()]
        store = JournalStore.open(tmp_path / "j.db")
        gate = create_gate(nets, confirm=edits)
        session = await gated(gate, store).create_session("s")
        await session.prompt("go")
        said = list(session.messages)
        [result] = [m for m in said if isinstance(m, ToolMessage)]
        assert (result.ran, result.is_error) == ({"text": "edited"}, False)
        assert said[1].tool_calls[0].args == {"text": "x"}
        assert await store.load("s") == said
        await store.close()
        [call] = fold(open_reader(tmp_path / "j.db").events("s")).calls.values()
        assert (call.input, call.status) == ({"text": "edited"}, "done")
        again = JournalStore.open(tmp_path / "j.db")
        bot = gated(create_gate(nets, confirm=edits), again, C(c2=("note", {"text": "y"})), T("more"))
        resumed = await bot.resume_session("s")
        await resumed.prompt("and then")
        assert isinstance(bot.model, ScriptedModel)
        assert list(bot.model.requests[0].messages) == [*said, UserMessage(text="and then")]
        assert "edited" not in str(wire_messages(bot.model.requests[0])[1])
        assert await again.load("s") == list(resumed.messages)
        assert [m.ran for m in resumed.messages if isinstance(m, ToolMessage)] == [{"text": "edited"}] * 2
        await again.close()

    @pytest.mark.parametrize("store", [True, False])
    async def test_hook_arguments_are_recorded(self, tmp_path: Path, store: bool) -> None:
        """A-45: a hook's arguments that the gate allowed are kept in the same way by every store."""
        nets = [*compile_rules("limit note to 9 per session").registry.values()]
        kept = JournalStore.open(tmp_path / "j.db") if store else InMemorySessionStore()
        hooks = Hooks(before_tool_call=lambda event: Override(args={"text": "other"}))
        session = await gated(GateManager(nets), kept, hooks=hooks).create_session("s")
        await session.prompt("go")
        assert await kept.load("s") == list(session.messages)
        assert [m.ran for m in session.messages if isinstance(m, ToolMessage)] == [{"text": "other"}]
        if isinstance(kept, JournalStore):
            await kept.close()

    async def test_stopped_call_has_no_input_that_ran(self) -> None:
        """A-45: an edited call that was stopped before its tool began has no input that ran."""

        async def stops(request: ApprovalRequest) -> ApprovalAnswer:
            if request.call.tool_call_id == "c2":
                session.abort("enough")
            return ApprovalAnswer(True, None, {"text": "edited"}, "ada")

        nets = [*compile_rules(RULES).registry.values()]
        calls = C(c1=("note", {"text": "x"}), c2=("note", {"text": "y"}))
        bot = gated(create_gate(nets, confirm=stops), None, calls)
        session = await bot.create_session("s")
        session.send("go")
        await session.wait_for_idle()
        ended = [(m.ran, m.is_error) for m in session.messages if isinstance(m, ToolMessage)]
        assert ended == [(None, True)] * 2


class TestUnderAHub:
    async def test_decision_has_the_input_that_ran(self, tmp_path: Path) -> None:
        """A-45, A-77: under a hub the decision has the input that ran, and the message does not."""
        hub = Hub.open(tmp_path / "hub.db")
        registry = compile_rules("limit note to 9 per session").registry
        session = await hub.open_session(agent(None, text="other"), SessionConfig(registry))
        await hub.send(session, "go")
        await hub.wait(session)
        hosted = hub._live.get(session)[0]
        assert await hosted.load(session) == list(hosted.session.messages)
        events = await hub.recorded(session)
        decided = [e.body.input for e in events if isinstance(e.body, CallDecided)]
        assert decided == [{"text": "x"}, {"text": "other"}]
        assert all(e.body.input is None for e in events if isinstance(e.body, MessageAdded))
        await hub.close()


PROPOSED = MessageAdded(
    role="assistant", calls=(CallRecord(call_id="c1", tool="note", input={"text": "x"}),)
)
RAN = MessageAdded(
    role="tool", text="ok", call_id="c1", tool="note", ended="done", input={"token": "s3cret-value"}
)


class TestShown:
    def test_history_and_replay_show_the_input(self) -> None:
        """A-45: history and replay show the input that ran."""
        events = recorded(opening(), PROPOSED, RAN)
        before, after = state_after(opening(), PROPOSED), fold(events)
        assert "ran with" in headline(events[-1])
        assert 'ran with {"token": "s3cret-value"}, not as proposed' in changes(before, events[-1], after)

    def test_input_is_masked(self) -> None:
        """A-45: the input that ran is masked like any other."""
        shown = Redaction().body(RAN)
        assert isinstance(shown, MessageAdded)
        assert shown.input == {"token": "[masked: 12 characters]"}

    def test_decision_input_takes_precedence(self) -> None:
        """A-45: for a decided call, the decision's input takes precedence."""
        decided = CallDecided(
            call_id="c1",
            tool="note",
            input={"text": "y"},
            names=("note",),
            outcome="allow",
            mode="enforce",
        )
        state = state_after(opening(), PROPOSED, decided, RAN)
        assert state.calls["c1"].input == {"text": "y"}

    def test_older_event_is_read_as_before(self) -> None:
        """A-45: an event without the field is read as before."""
        body = MessageAdded.model_validate(
            {"role": "tool", "text": "ok", "call_id": "c1", "ended": "done"}
        )
        assert body.input is None
        assert state_after(opening(), PROPOSED, body).calls["c1"].input == {"text": "x"}
