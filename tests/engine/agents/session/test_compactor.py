"""Compacting a session: the request, storing and reporting, messages meanwhile, and failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine.agents import (
    ERR,
    Agent,
    AssistantMessage,
    BashTool,
    C,
    Chunk,
    CompactedEvent,
    CompactionError,
    Finish,
    InMemorySessionStore,
    LitellmModel,
    Message,
    ModelRequest,
    ProposedCall,
    Reply,
    ScriptedModel,
    SessionBusyError,
    SessionClosedError,
    StatusEvent,
    SummaryMessage,
    T,
    TextChunk,
    ToolMessage,
    Usage,
    UserMessage,
    prompt_of,
)
from tests.support.laws import examples
from tests.support.openai_server import OpenAIServer, Refusal, begins_call, ends, says

from ..gates import Log
from ..script import Slow, Watched, noted, shown, until, watched
from ..turn.test_law import valid

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:litellm")

TALK = (T("a1"), T("a2"), T("a3"))


async def session_with_history(*replies: Reply, **options: object) -> Watched:
    """Return a session with three answered messages, whose model then gives `replies`."""
    w = await watched(*TALK, *replies, **options)
    for text in ("u1", "u2", "u3"):
        await w.say(text)
    w.events.clear()
    return w


class Held:
    """A model whose replies wait until they are released."""

    name = "held"

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []
        self.go_on = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        self.requests.append(request)
        await self.go_on.wait()
        yield TextChunk(f"reply {len(self.requests)}")
        yield Finish("stop", Usage(input=1, output=1))


async def held_compaction() -> tuple[Watched, Held, asyncio.Task[SummaryMessage | None]]:
    """Return a session whose compaction waits for its model."""
    w, model = await session_with_history(), Held()
    w.session.model = model
    compacting = asyncio.create_task(w.session.compact())
    await until(lambda: bool(model.requests))
    return w, model, compacting


class TestCompacting:
    async def test_next_prompt_has_summary_and_kept_messages(self) -> None:
        """Section 9: four messages are kept; the prompt has the summary, these, and later messages."""
        w = await session_with_history(T(" They ", "spoke. "), T("a4"))
        summary = await w.session.compact()
        assert summary == SummaryMessage(text="They spoke.", kept=4)
        await w.say("u4")
        assert w.prompt(5) == [
            'user "<summary>\nThey spoke.\n</summary>"',
            'user "u2"',
            'assistant "a2"',
            'user "u3"',
            'assistant "a3"',
            'user "u4"',
        ]

    async def test_model_is_asked_to_sum_up(self) -> None:
        """Section 9: the session's model is asked, without tools, to sum up the messages not kept."""
        w = await session_with_history(T("S"))
        await w.session.compact(2, instructions="Keep numbers.")
        request = w.model.requests[-1]
        assert (request.tools, request.session_id) == ((), w.session.id)
        [asked] = request.messages
        assert '"u1"' in asked.text
        assert '"a2"' in asked.text
        assert '"u3"' not in asked.text
        assert "Keep numbers." in asked.text

    async def test_store_keeps_all_messages(self) -> None:
        """A-77: a summary is an additional message; store and session keep all others."""
        w = await session_with_history(T("S"))
        before = list(w.session.messages)
        await w.session.compact(by="maria")
        stored = await w.agent.store.load(w.session.id)
        assert stored == [*before, SummaryMessage(text="S", kept=4, by="maria")]
        assert list(w.session.messages) == stored

    async def test_events_are_reported_in_order(self) -> None:
        """A-11: status, start, step with usage, and the summary once it is stored are reported."""
        w = await session_with_history(T("S"))
        stored: list[int] = []

        @w.session.on("compacted")
        async def look(event: CompactedEvent) -> None:
            stored.append(len(await w.agent.store.load(w.session.id)))

        before = w.session.usage
        await w.session.compact()
        assert [shown(event) for event in w.events] == [
            "status busy",
            "compaction_start",
            "step_start 1",
            "step(stop,10,5)",
            'compacted summary "S" keeping 4',
            "status idle",
        ]
        assert stored == [7]
        assert w.session.usage == before + Usage(input=10, output=5)

    async def test_second_summary_uses_the_first(self) -> None:
        """Section 9: the second summary is made from the first one and the messages after it."""
        w = await session_with_history(T("S1"), T("a4"), T("S2"), T("a5"))
        await w.session.compact(2)
        await w.say("u4")
        await w.session.compact(1)
        asked = w.model.requests[5].messages[0].text
        assert '{"role": "summary", "text": "S1"}' in asked
        assert '"a2"' not in asked
        await w.say("u5")
        assert w.prompt(7) == ['user "<summary>\nS2\n</summary>"', 'assistant "a4"', 'user "u5"']

    async def test_nothing_to_compact(self) -> None:
        """Section 9: a short conversation stays unchanged, without a model call."""
        w = await watched(T("a1"))
        assert await w.session.compact() is None
        await w.say("u1")
        w.events.clear()
        assert await w.session.compact() is None
        assert (len(w.model.requests), w.events) == (1, [])

    async def test_resumed_session_sends_the_same(self) -> None:
        """A-7, A-77: a session resumed from the store sends the same as the live one."""
        w = await session_with_history(T("S"), T("a4"))
        await w.session.compact(3)
        model = ScriptedModel([T("there")])
        resumed = await Agent(model, store=w.agent.store).resume_session(w.session.id)
        await resumed.prompt("u4")
        await w.session.prompt("u4")
        assert model.requests[0].messages == w.model.requests[-1].messages

    async def test_summary_is_not_the_last_message(self) -> None:
        """Section 9: a summary does not count as the last message when a run is continued."""
        w = await watched(T("a1"), ERR("boom"), T("S"), T("ok"))
        await w.say("u1")
        with pytest.raises(RuntimeError):
            await w.say("u2")
        await w.session.compact(1)
        w.session.continue_()
        await w.session.wait_for_idle()
        assert w.prompt(4) == ['user "<summary>\nS\n</summary>"', 'user "u2"']

    async def test_gate_does_not_see_it(self) -> None:
        """Section 9: compacting is not a call, so the gate does not see it."""
        gate = Log()
        w = await session_with_history(T("S"), gate=gate)
        await w.session.compact()
        assert gate.happened == []

    async def test_ids_stay_unique(self) -> None:
        """Section 9: the id of a summarised call is not reused."""
        call = C(c1=("note", {"text": "x"}))
        w = await watched(call, T("a"), T("S"), call, T("b"), tools=[noted([])])
        await w.say("u1")
        await w.session.compact(0)
        await w.say("u2")
        calls = [c.call_id for m in w.session.messages if m.role == "assistant" for c in m.tool_calls]
        assert calls == ["c1", "c1-2"]


class TestMeanwhile:
    async def test_refused_while_busy(self) -> None:
        """Section 9: it is refused during a run or another compaction."""
        slow = Slow()
        w = await watched(C(slow={}), T("ok"), tools=[slow.tool])
        w.session.send("go")
        await slow.started.wait()
        with pytest.raises(SessionBusyError, match="is busy; compact it when it is idle"):
            await w.session.compact()
        slow.go_on.set()
        await w.session.wait_for_idle()

        w, model, compacting = await held_compaction()
        with pytest.raises(SessionBusyError):
            await w.session.compact()
        model.go_on.set()
        assert await compacting is not None

    async def test_messages_come_first_afterwards(self) -> None:
        """Section 9: messages sent meanwhile, in either mode, come first afterwards."""
        w, model, compacting = await held_compaction()
        w.session.send("queued", mode="queue")
        w.session.send("steering")
        assert w.session.waiting == ("steering", "queued")
        model.go_on.set()
        summary = await compacting
        await w.session.wait_for_idle()
        assert summary is not None
        assert [m.text for m in model.requests[1].messages][-2:] == ["a3", "steering"]
        assert [m.text for m in model.requests[2].messages][-1] == "queued"
        assert w.session.undelivered == ()
        assert [e.status for e in w.events if isinstance(e, StatusEvent)] == ["busy", "idle"]

    async def test_abort_changes_nothing(self) -> None:
        """Section 9: an abort changes nothing; waiting messages are handed back and reported."""
        w, model, compacting = await held_compaction()
        before = w.session.messages
        w.session.send("later")
        w.session.abort("enough")
        with pytest.raises(CompactionError, match=r"was not compacted: it was stopped \(enough\)"):
            await compacting
        assert (w.session.messages, w.session.status) == (before, "idle")
        assert w.session.undelivered == ("later",)
        assert w.events[-1] == StatusEvent(status="idle", undelivered=("later",))
        model.go_on.set()
        assert await w.session.prompt("u4") == "reply 2"
        assert len(model.requests[1].messages) == 7

    async def test_message_after_the_abort_starts_a_run(self) -> None:
        """A-63: a message after the abort starts a run, and handed-back messages are still reported."""
        w, model, compacting = await held_compaction()
        w.session.send("before")
        w.session.abort()
        w.session.send("after")
        model.go_on.set()
        with pytest.raises(CompactionError):
            await compacting
        await w.session.wait_for_idle()
        assert [m.text for m in w.session.messages][-2:] == ["after", "reply 2"]
        told = [(e.status, e.undelivered) for e in w.events if isinstance(e, StatusEvent)]
        assert told == [("busy", ()), ("idle", ("before",)), ("busy", ()), ("idle", ())]

    async def test_cancelling_the_caller_stops_it(self) -> None:
        """A-97: cancelling the caller stops it; the session becomes idle and stays usable."""
        w, model, compacting = await held_compaction()
        compacting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await compacting
        assert (w.session.status, len(w.session.messages)) == ("idle", 6)
        model.go_on.set()
        assert await w.session.prompt("u4") == "reply 2"

    async def test_closing_the_session_stops_it(self) -> None:
        """Section 9: closing the session stops it, and a closed session refuses it."""
        w, _, compacting = await held_compaction()
        await w.session.aclose()
        with pytest.raises(CompactionError, match="closed"):
            await compacting
        with pytest.raises(SessionClosedError):
            await w.session.compact()

    async def test_listener_can_close_the_session(self) -> None:
        """Section 9: a listener can close the session when the summary is reported."""
        w = await session_with_history(T("S"))
        w.session.on("compacted", lambda event: w.session.aclose())
        async with asyncio.timeout(5):
            assert await w.session.compact() is not None
        assert w.session.closed

    async def test_model_assigned_meanwhile_is_used_next(self) -> None:
        """Part 2: a model that is assigned meanwhile is used for the next call."""
        w, model, compacting = await held_compaction()
        other = ScriptedModel([T("a4")])
        w.session.model = other
        model.go_on.set()
        assert await compacting == SummaryMessage(text="reply 1", kept=4)
        assert await w.session.prompt("u4") == "a4"


class TestGoingWrong:
    @pytest.mark.parametrize(
        ("reply", "why"),
        [
            (ERR("boom"), "boom"),
            (T("half") + ERR("boom"), "boom"),
            (T(" ", "\n"), "scripted gave no summary: its reply has no text"),
            (C(bash={"command": "echo"}), "its reply has no text"),
            (T("half") + Reply(finish="length"), "cut off at the model's limit of tokens"),
            (T("half") + Reply(finish="content-filter"), "content filter stopped it"),
        ],
    )
    async def test_unusable_reply_changes_nothing(self, reply: Reply, why: str) -> None:
        """Section 9: a failed, empty or truncated reply changes nothing and raises an error."""
        w = await session_with_history(reply, T("a4"))
        before = w.session.messages
        with pytest.raises(
            CompactionError, match=f"^Session '{w.session.id}' was not compacted: .*{why}"
        ):
            await w.session.compact()
        assert w.session.messages == before
        assert [m.text for m in await w.agent.store.load(w.session.id)][-1] == "a3"
        await w.session.wait_for_idle()
        assert "error" not in [event.type for event in w.events]
        assert await w.session.prompt("u4") == "a4"
        assert len(w.model.requests[-1].messages) == 7

    async def test_tokens_of_unusable_reply_are_counted(self) -> None:
        """A-27: tokens of an unusable reply are counted."""
        w = await session_with_history(T(""))
        with pytest.raises(CompactionError):
            await w.session.compact()
        assert w.session.usage == Usage(input=40, output=20)

    async def test_error_keeps_its_cause(self) -> None:
        """Section 9: the error has the model's exception as its cause."""
        w = await session_with_history(ERR(OSError("no route")))
        with pytest.raises(CompactionError) as caught:
            await w.session.compact()
        assert isinstance(caught.value.__cause__, OSError)

    async def test_unstored_summary_has_no_effect(self) -> None:
        """A-11: a summary that cannot be stored is not reported and has no effect."""

        class Full(InMemorySessionStore):
            async def append(self, session_id: str, message: Message) -> None:
                if isinstance(message, SummaryMessage):
                    raise OSError("disk full")
                await super().append(session_id, message)

        w = await session_with_history(T("S"), T("a4"), store=Full())
        with pytest.raises(CompactionError, match="disk full"):
            await w.session.compact()
        assert "compacted" not in [event.type for event in w.events]
        await w.session.prompt("u4")
        assert len(w.model.requests[-1].messages) == 7

    async def test_raising_listener_keeps_the_stored_summary(self) -> None:
        """A-32: the listener's error is raised, and the summary, already stored, is effective."""
        w = await session_with_history(T("S"))

        @w.session.on("compacted")
        def fail(event: CompactedEvent) -> None:
            raise LookupError("listener")

        with pytest.raises(LookupError):
            await w.session.compact()
        assert w.session.messages[-1] == SummaryMessage(text="S", kept=4)
        assert w.session.status == "idle"

    async def test_refused_while_a_call_is_open(self) -> None:
        """A-32: compaction is refused while a call has no result, which would come after the summary."""
        store = InMemorySessionStore()
        call = ProposedCall(call_id="c1", name="deploy")
        said = [UserMessage(text="go"), AssistantMessage(tool_calls=(call,))]
        for message in said:
            await store.append("s", message)
        session = await Agent(ScriptedModel([]), store=store).resume_session("s")
        with pytest.raises(CompactionError, match=r"no result yet of deploy \(call c1\); send a message"):
            await session.compact(0)
        assert list(session.messages) == said


class TestOverHttp:
    async def test_prompt_after_compaction_starts_with_summary(self) -> None:
        """Section 9: over real HTTP, no tools are sent, and the next prompt starts with the summary."""
        call = [begins_call(0, "a", "bash", '{"command": "echo hi"}'), *ends("tool_calls")]
        answers = [call, says("done"), says("They said hi."), Refusal(400, "no"), says("sure")]
        with OpenAIServer(answers) as server:
            model = LitellmModel("openai/gpt-x", api_base=server.base_url, api_key="k", max_retries=0)
            session = await Agent(model, tools=[BashTool]).create_session()
            await session.prompt("say hi")
            assert await session.compact(2) == SummaryMessage(text="They said hi.", kept=3)
            with pytest.raises(CompactionError, match="no"):
                await session.compact(0)
            assert await session.prompt("thanks") == "sure"
        asked, sent = server.requests[2].body, server.requests[4].body
        assert "tools" not in asked
        assert [m["role"] for m in asked["messages"]] == ["system", "user"]
        assert [m["role"] for m in sent["messages"]] == ["user", "assistant", "tool", "assistant", "user"]
        assert sent["messages"][0]["content"] == "<summary>\nThey said hi.\n</summary>"
        assert sent["tools"][0]["function"]["name"] == "bash"


turns = st.lists(
    st.tuples(st.lists(st.integers(1, 4), max_size=3), st.none() | st.integers(0, 6)), max_size=7
)


class TestLaw:
    @pytest.mark.slow
    @settings(max_examples=examples(80), deadline=None)
    @given(turns)
    def test_prompts_follow_from_the_store(self, happens: list[tuple[list[int], int | None]]) -> None:
        """A-77: each prompt is a valid `prompt_of` the messages stored so far.

        This holds for any number and place of compactions; no message leaves the store.
        """

        async def scenario() -> None:
            prompts: list[tuple[Message, ...]] = []

            def reply(messages: tuple[Message, ...]) -> Reply:
                if len(messages) == 1 and "<conversation>" in messages[0].text:
                    return T("S")
                prompts.append(messages)
                return script.pop(0)

            script: list[Reply] = []
            store = InMemorySessionStore()
            agent = Agent(ScriptedModel(reply), tools=[noted([])], store=store)
            session = await agent.create_session("s")
            expected: list[str] = []
            for number, (steps, keep_last) in enumerate(happens):
                script[:] = [sum([C(note={})] * calls, Reply()) for calls in steps] + [T(f"a{number}")]
                await session.prompt(f"u{number}")
                expected.append("user")
                for calls in steps:
                    expected += ["assistant", *(["tool"] * calls)]
                expected.append("assistant")
                if keep_last is not None and await session.compact(keep_last) is not None:
                    expected.append("summary")
            stored = await store.load("s")
            assert list(session.messages) == stored
            assert [m.role for m in stored] == expected
            begins = [n for n, m in enumerate(stored) if m.role == "assistant"]
            assert [list(p) for p in prompts] == [prompt_of(stored[:n]) for n in begins]
            assert all(valid(list(p)) for p in prompts)
            assert not any(isinstance(p[0], ToolMessage) for p in prompts)

        asyncio.run(scenario())
