"""Automatic compaction: after a turn that was too long for its model, and never during one."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from interlock.engine.agents import (
    ERR,
    Agent,
    C,
    CompactedEvent,
    CompactionError,
    CompactionFailed,
    CostLimitError,
    InMemorySessionStore,
    Message,
    ModelRequest,
    Reply,
    ScriptedModel,
    SummaryMessage,
    T,
    Usage,
    task_tool,
)

from ..script import Slow, Watched, noted, shown, transcript, until, watched

LONG = 1000


def reply_to_long_prompt(reply: Reply, tokens: int = LONG, cost: float = 0.0) -> Reply:
    """Return a reply to a prompt of many tokens."""
    return replace(reply, usage=Usage(input=tokens, output=5, cost=cost))


def purposes(w: Watched) -> list[str]:
    return [request.purpose for request in w.model.requests]


async def session_with_history(*replies: Reply, **options: object) -> Watched:
    """Return a session with `compact_at` and two answered messages, followed by `replies`."""
    w = await watched(T("a1"), T("a2"), *replies, **{"compact_at": LONG, **options})
    for text in ("u1", "u2"):
        await w.say(text)
    w.events.clear()
    return w


class TestDue:
    async def test_after_a_long_turn(self) -> None:
        """Section 9: after a turn with too many tokens, the next one gets a summary."""
        w = await session_with_history(reply_to_long_prompt(T("a3")), T("sum"), T("a4"))
        await w.say("u3")
        assert purposes(w) == ["turn", "turn", "turn", "summary"]
        summary = w.session.messages[-1]
        assert summary == SummaryMessage(text="sum", kept=4, by="interlock")
        assert await w.stored() == transcript(w.session.messages)
        await w.say("u4")
        assert w.prompt(5) == [
            'user "<summary>\nsum\n</summary>"',
            *('user "u2"', 'assistant "a2"', 'user "u3"', 'assistant "a3"', 'user "u4"'),
        ]
        assert purposes(w)[4:] == ["turn"]

    @pytest.mark.parametrize(("tokens", "at"), [(LONG - 1, LONG), (LONG, None)])
    async def test_not_due(self, tokens: int, at: int | None) -> None:
        """Section 9: below the limit, or without one, nothing is summed up."""
        w = await session_with_history(reply_to_long_prompt(T("a3"), tokens), compact_at=at)
        await w.say("u3")
        assert purposes(w) == ["turn"] * 3

    async def test_last_call_of_a_turn_counts(self) -> None:
        """Section 9: the last model call of a turn counts, not the sum of its calls."""
        w = await session_with_history(reply_to_long_prompt(C(note={})), T("a3"), tools=[noted([])])
        await w.say("u3")
        assert purposes(w) == ["turn"] * 4

    async def test_short_conversation_stays_unchanged(self) -> None:
        """Section 9: a conversation of the few messages that would be kept stays unchanged."""
        w = await watched(reply_to_long_prompt(T("a1")), compact_at=1)
        await w.say("u1")
        assert purposes(w) == ["turn"]

    async def test_not_repeated_until_a_turn_is_too_long_again(self) -> None:
        """Section 9: after a compaction there is none until a turn is too long again."""
        w = await session_with_history(
            reply_to_long_prompt(T("a3")),
            reply_to_long_prompt(T("sum")),
            T("a4"),
            reply_to_long_prompt(T("a5")),
            T("sum 2"),
        )
        for text in ("u3", "u4", "u5"):
            await w.say(text)
        assert purposes(w)[2:] == ["turn", "summary", "turn", "turn", "summary"]

    async def test_events(self) -> None:
        """Section 9: it is reported like a requested one, and ends before the session is idle."""
        w = await session_with_history(reply_to_long_prompt(T("a3")), T("sum"))
        await w.say("u3")
        lines = [shown(event) for event in w.events]
        assert lines[lines.index('turn_end("a3")') :] == [
            'turn_end("a3")',
            "status idle",
            "status busy",
            "compaction_start",
            "step_start 1",
            "step(stop,10,5)",
            'compacted summary "sum" keeping 4',
            "status idle",
        ]
        assert (w.session.status, w.session.text) == ("idle", "a3")

    @pytest.mark.parametrize("at", [0, -1])
    def test_limit_of_no_tokens_is_refused(self, at: int) -> None:
        """Section 9: a limit of no tokens is refused."""
        with pytest.raises(ValueError, match=f"compact_at is a number of tokens, at least 1, got {at}"):
            Agent(ScriptedModel([]), compact_at=at)


class TestNever:
    async def test_never_while_calls_are_undecided(self) -> None:
        """Section 9: a long call within a turn compacts nothing while the turn's calls are undecided."""
        slow = Slow()
        w = await session_with_history(
            reply_to_long_prompt(C(slow={})), reply_to_long_prompt(T("a3")), T("sum"), tools=[slow.tool]
        )
        w.session.send("u3")
        await slow.started.wait()
        assert purposes(w) == ["turn"] * 3
        slow.go_on.set()
        await w.session.wait_for_idle()
        assert purposes(w) == [*["turn"] * 4, "summary"]

    async def test_never_after_an_abort(self) -> None:
        """Section 9: after an abort there is no compaction."""
        slow = Slow()
        w = await session_with_history(reply_to_long_prompt(C(slow={})), T("sum"), tools=[slow.tool])
        w.session.send("u3")
        await slow.started.wait()
        w.session.abort("enough")
        await w.session.wait_for_idle()
        assert purposes(w) == ["turn"] * 3

    async def test_never_after_an_error(self) -> None:
        """Section 9: after a failed turn there is no compaction."""
        w = await session_with_history(
            reply_to_long_prompt(C(note={})), ERR("boom"), T("sum"), tools=[noted([])]
        )
        with pytest.raises(RuntimeError, match="boom"):
            await w.say("u3")
        assert purposes(w) == ["turn"] * 4

    async def test_subagent_is_not_compacted(self) -> None:
        """Section 9: a subagent has only one turn, so it is not compacted."""
        model = ScriptedModel(
            [
                reply_to_long_prompt(C(note={})),
                reply_to_long_prompt(C(note={})),
                reply_to_long_prompt(T("done")),
            ]
        )
        helper = Agent(model, name="helper", tools=[noted([])], compact_at=1)
        w = await watched(C(task_helper={"prompt": "x"}), T("ok"), tools=[task_tool(helper)])
        await w.say("go")
        assert [request.purpose for request in model.requests] == ["turn"] * 3


class TestMeanwhile:
    async def test_message_is_answered_after_the_summary(self) -> None:
        """Section 9: messages during the compaction are answered with the summary in the prompt."""
        w = await session_with_history(reply_to_long_prompt(T("a3")), T("sum"), T("a4"))
        w.session.on("compaction_start", lambda e: w.session.send("u4"))
        await w.say("u3")
        assert purposes(w)[2:] == ["turn", "summary", "turn"]
        assert w.prompt(5)[0] == 'user "<summary>\nsum\n</summary>"'
        assert w.prompt(5)[-1] == 'user "u4"'

    async def test_message_during_turn_end_comes_after_it(self) -> None:
        """Section 9: a message sent while the turn end is reported also comes after the compaction."""
        w = await session_with_history(reply_to_long_prompt(T("a3")), T("sum"), T("a4"))
        sent: list[object] = []

        def once(event: object) -> None:
            if not sent:
                sent.append(event)
                w.session.send("u4")

        w.session.on("turn_end", once)
        await w.say("u3")
        assert purposes(w)[2:] == ["turn", "summary", "turn"]
        assert w.session.text == "a4"

    async def test_abort_changes_nothing(self) -> None:
        """Section 9: aborting it changes nothing and hands back waiting messages."""
        w = await session_with_history(reply_to_long_prompt(T("a3")), T("sum"))
        before: list[Message] = []

        def stop(event: object) -> None:
            before.extend(w.session.messages)
            w.session.send("u4")
            w.session.abort("enough")

        w.session.on("compaction_start", stop)
        await w.say("u3")
        assert list(w.session.messages) == before
        assert w.session.undelivered == ("u4",)
        assert not any(isinstance(e, CompactionFailed | CompactedEvent) for e in w.events)

    async def test_closing_ends_the_compaction(self) -> None:
        """A-97: closing a session ends a running compaction."""
        begun = asyncio.Event()
        w = await session_with_history(reply_to_long_prompt(T("a3")))

        class Endless(ScriptedModel):
            async def stream(self, request: ModelRequest):
                if request.purpose == "turn":
                    async for chunk in super().stream(request):
                        yield chunk
                else:
                    begun.set()
                    await asyncio.Event().wait()

        w.session.model = Endless([reply_to_long_prompt(T("a3"))])
        w.session.send("u3")
        await begun.wait()
        assert w.session.status == "busy"
        await w.session.aclose()
        await until(lambda: w.session.status == "idle")
        assert not any(isinstance(m, SummaryMessage) for m in w.session.messages)


class TestFailing:
    @pytest.mark.parametrize(
        ("reply", "why"),
        [
            (ERR("boom"), "boom"),
            (T(""), "scripted gave no summary: its reply has no text"),
            (replace(T("half"), finish="length"), "the summary is unusable"),
        ],
    )
    async def test_failure_is_reported_and_changes_nothing(self, reply: Reply, why: str) -> None:
        """Section 9: without a summary the conversation continues unchanged; an event has the reason."""
        w = await session_with_history(reply_to_long_prompt(T("a3")), reply, T("a4"))
        await w.say("u3")
        [failed] = [event for event in w.events if isinstance(event, CompactionFailed)]
        assert failed.reason.startswith(f"Session '{w.session.id}' was not compacted: ")
        assert why in failed.reason
        assert shown(w.events[-1]) == "status idle"
        kept = transcript(w.session.messages)
        assert kept == await w.stored()
        assert kept[-1] == 'assistant "a3"'
        await w.say("u4")
        assert w.prompt(5) == [*kept, 'user "u4"']

    async def test_cost_limit_prevents_the_summary(self) -> None:
        """Limits: a session at its cost limit makes no summary and reports the reason."""
        w = await session_with_history(reply_to_long_prompt(T("a3"), cost=1.0), T("sum"), max_cost=1.0)
        await w.say("u3")
        [failed] = [event for event in w.events if isinstance(event, CompactionFailed)]
        assert "The cost limit is reached" in failed.reason
        with pytest.raises(CostLimitError):
            await w.say("u4")

    async def test_unstored_summary_has_no_effect(self) -> None:
        """A-11: a summary that could not be stored has no effect."""

        class Full(InMemorySessionStore):
            async def append(self, session_id: str, message: Message) -> None:
                if isinstance(message, SummaryMessage):
                    raise OSError("disk full")
                await super().append(session_id, message)

        w = await session_with_history(reply_to_long_prompt(T("a3")), T("sum"), T("a4"), store=Full())
        await w.say("u3")
        [failed] = [event for event in w.events if isinstance(event, CompactionFailed)]
        assert "disk full" in failed.reason
        await w.say("u4")
        assert w.session.text == "a4"

    @pytest.mark.parametrize("name", ["compaction_start", "compacted", "compaction_failed"])
    async def test_raising_listener_is_logged(self, name: str, caplog: pytest.LogCaptureFixture) -> None:
        """Section 9: an exception in a listener of it is logged and fails no turn."""
        reply = ERR("boom") if name == "compaction_failed" else T("sum")
        w = await session_with_history(reply_to_long_prompt(T("a3")), reply, T("a4"))

        def broken(event: object) -> None:
            raise RuntimeError("listener broke")

        w.session.on(name, broken)
        await w.say("u3")
        assert "listener broke" in caplog.text
        assert any(isinstance(m, SummaryMessage) for m in w.session.messages) == (name == "compacted")
        w.session.off(name, broken)
        assert (await w.say("u4"))[-1].startswith("turn_end(")

    async def test_failed_requested_compaction_raises(self) -> None:
        """Section 9: a failed requested compaction raises for its caller, without an event."""
        w = await session_with_history(ERR("boom"))
        with pytest.raises(CompactionError, match="boom"):
            await w.session.compact(0)
        assert not any(isinstance(event, CompactionFailed) for event in w.events)
