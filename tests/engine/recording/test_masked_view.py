"""Masking by the hub: secrets reach the agent's tools and the record but not an operator."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.agents import Agent, C, ScriptedModel, T, ToolContext, tool
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import ApprovalRequested, JournalEvent
from interlock.engine.history.redaction.redaction import Redaction
from interlock.engine.history.redaction.spans import mask_of
from interlock.engine.hub.hub import Hub, Streaming
from interlock.engine.recording.masked_view import Streams, shown_state
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

from ..support.shop import until

SECRET = "hunter2-hunter2-hunter2"
KEY = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
RULES = "require human-approval before login"
RAN: list[tuple[str, str]] = []


@tool
async def login(ctx: ToolContext, user: str, password: str) -> str:
    """Log in."""
    RAN.append((user, password))
    ctx.progress(f"using {KEY[:20]}")
    ctx.progress(f"{KEY[20:]} now\n")
    return f"logged in, token={SECRET} {KEY}"


async def asking(path: Path) -> tuple[Hub, list[object], str]:
    """A hub with a session that waits for approval, its published events and the request's id."""
    RAN.clear()
    hub = Hub.open(path)
    told: list[object] = []
    subscription, listening = hub.subscribe(), hub.subscribe()

    async def listen() -> None:
        async for event in listening:
            told.append(event)

    hub.listener = asyncio.get_running_loop().create_task(listen())  # pyright: ignore - kept alive
    model = ScriptedModel([C(login={"user": "me", "password": SECRET}), T(f"I used {KEY} there.")])
    agent = Agent(model, tools=[login], name="bot")
    session = await hub.open_session(agent, SessionConfig(compile_rules(RULES).registry), session_id="s")
    await hub.send(session, f"log in with password={SECRET}")
    await until(subscription, ApprovalRequested)
    [request] = await hub.approvals()
    return hub, told, request.id


def as_text(*things: object) -> str:
    return "\n".join(
        thing.model_dump_json() if isinstance(thing, JournalEvent | Streaming) else str(thing)
        for thing in things
    )


class TestHub:
    async def test_no_view_shows_a_secret(self, tmp_path: Path) -> None:
        """State, queue, events, streamed text and history do not show the secrets."""
        hub, told, request = await asking(tmp_path / "j.db")
        [waiting] = await hub.approvals()
        assert waiting.input == {"user": "me", "password": mask_of(SECRET)}
        await hub.decide(request, approved=True, by="operator")
        await hub.wait("s")
        everything = as_text(
            *told, *await hub.recorded("s"), await hub.session("s"), *await hub.sessions()
        )
        assert mask_of(SECRET) in everything
        assert SECRET not in everything
        assert KEY not in everything
        assert KEY[:20] not in everything
        assert RAN == [("me", SECRET)]
        await hub.close()
        recorded = as_text(*open_reader(tmp_path / "j.db").events("s"))
        assert SECRET in recorded
        assert KEY in recorded

    async def test_edit_beside_the_mask_keeps_the_secret(self, tmp_path: Path) -> None:
        """An operator can edit another field without seeing or changing the secret."""
        hub, _, request = await asking(tmp_path / "j.db")
        edited = {"user": "you", "password": mask_of(SECRET)}
        assert (await hub.decide(request, approved=True, by="operator", input=edited)).ok
        await hub.wait("s")
        assert RAN == [("you", SECRET)]
        await hub.close()

    async def test_mask_for_unmasked_field_is_refused(self, tmp_path: Path) -> None:
        """A mask for a field that is not masked is refused, and the request stays open."""
        hub, _, request = await asking(tmp_path / "j.db")
        edited = {"user": mask_of("me"), "password": mask_of(SECRET)}
        outcome = await hub.decide(request, approved=True, by="operator", input=edited)
        assert not outcome.ok
        assert "'user'" in outcome.message
        assert [asked.id for asked in await hub.approvals()] == [request]
        assert RAN == []
        await hub.close()

    async def test_resumed_session_masks_the_secret(self, tmp_path: Path) -> None:
        """A resumed session masks the secret as before, and its agent still has it."""
        hub, _, request = await asking(tmp_path / "j.db")
        await hub.decide(request, approved=False, by="operator")
        await hub.wait("s")
        await hub.close()
        hub = Hub.open(tmp_path / "j.db")
        model = ScriptedModel([T("ok")])
        agent = Agent(model, tools=[login], name="bot")
        await hub.resume_session("s", agent, SessionConfig(compile_rules(RULES).registry))
        assert SECRET not in as_text(await hub.session("s"))
        await hub.send("s", "go on")
        await hub.wait("s")
        assert SECRET not in as_text(await hub.session("s"), *await hub.recorded("s"))
        assert SECRET in str(model.requests[0].messages)
        await hub.close()

    async def test_configured_fields_are_masked(self, tmp_path: Path) -> None:
        """Fields named in the configuration are masked, too."""
        hub = Hub.open(tmp_path / "j.db", redaction=Redaction(["user"]))
        agent = Agent(ScriptedModel([C(login={"user": "me", "password": "x"})]), tools=[login])
        subscription = hub.subscribe()
        session = await hub.open_session(agent, SessionConfig(compile_rules(RULES).registry))
        await hub.send(session, "go")
        await until(subscription, ApprovalRequested)
        [request] = await hub.approvals()
        assert request.input == {"user": mask_of("me"), "password": mask_of("x")}
        await hub.close()

    async def test_shown_state_is_fold_of_masked_events(self, tmp_path: Path) -> None:
        """The fold of the masked events equals the state that the hub shows."""
        hub, _, request = await asking(tmp_path / "j.db")
        await hub.decide(request, approved=True, by="operator")
        await hub.wait("s")
        shown = await hub.session("s")
        assert fold(await hub.recorded("s")) == shown
        await hub.close()
        state = fold(open_reader(tmp_path / "j.db").events("s"))
        assert state != shown.model_copy(update={"seq": state.seq})
        assert SECRET not in as_text(shown_state(state, Redaction()))


class TestWriting:
    async def test_arguments_are_not_published(self, tmp_path: Path) -> None:
        """Section 9: a call being written is published with tool and length, without its text."""
        hub = Hub.open(tmp_path / "j.db")
        listening = hub.subscribe()
        args = {"user": "me", "password": SECRET}
        model = ScriptedModel([C(a=("login", args), b=("login", args)), T("done")], input_delta=1)
        session = await hub.open_session(Agent(model, tools=[login], name="bot"), SessionConfig({}))
        await hub.send(session, "log in")
        await hub.wait(session)
        await hub.close()
        pieces = [e async for e in listening if isinstance(e, Streaming) and e.kind == "input"]
        length = len(json.dumps(args))
        assert [(p.tool, p.place, p.size, p.text) for p in pieces] == [
            ("login", 0, length, ""),
            ("login", 1, length, ""),
        ]

    async def test_secret_in_tool_name_is_masked(self, tmp_path: Path) -> None:
        """Section 9: a secret in the tool's name is masked, too."""
        hub = Hub.open(tmp_path / "j.db")
        listening = hub.subscribe()
        model = ScriptedModel([C(a=(KEY, {})), T("done")], input_delta=1)
        session = await hub.open_session(Agent(model, name="bot"), SessionConfig({}))
        await hub.send(session, "log in")
        await hub.wait(session)
        await hub.close()
        tools = [e.tool async for e in listening if isinstance(e, Streaming) and e.kind == "input"]
        assert set(tools) == {mask_of(KEY)}


class TestStreams:
    @pytest.mark.slow
    @given(st.lists(st.integers(1, 12), max_size=60))
    def test_secret_is_masked_in_any_pieces(self, sizes: list[int]) -> None:
        """In any pieces of a text, no secret is shown, and the rest is in order."""
        text = f"export TOKEN={SECRET} and Authorization: Bearer {KEY} then password: {SECRET} or {KEY}. "
        whole = text + "so far so good\n"
        streams = Streams(Redaction())
        shown, at = "", 0
        for size in [*sizes, len(whole)]:
            shown += streams.take("s", None, whole[at : at + size])
            at += size
        assert SECRET not in shown
        assert SECRET[8:] not in shown
        assert KEY[:12] not in shown
        assert Redaction().text(whole).startswith(shown)

    def test_ordinary_text_holds_back_last_word_only(self) -> None:
        """Of ordinary text, only the last word is held back."""
        streams = Streams(Redaction())
        assert streams.take("s", None, "I will run the tests") == "I will run the "
        assert streams.take("s", None, " first.\n") == "tests first.\n"

    def test_endless_text_is_shown_eventually(self) -> None:
        """Text without an end is shown eventually."""
        streams = Streams(Redaction())
        shown = "".join(streams.take("s", "c", "x" * 1000) for _ in range(20))
        assert len(shown) > 10_000
