"""Messages sent during a run: steering, queueing, and never losing one."""

from __future__ import annotations

import asyncio

import pytest

from interlock.engine.agents import (
    ERR,
    Agent,
    C,
    ScriptedModel,
    SessionClosedError,
    T,
    TextDelta,
    ToolCallEvent,
)

from ..script import SKIPPED, Slow, noted, until, watched


class TestRouting:
    async def test_send_returns_at_once(self) -> None:
        """A-70: sending returns at once, and the session is busy from then on."""
        w = await watched(T("x"))
        assert w.session.status == "idle"
        assert w.session.send("go") is None
        assert w.session.status == "busy"
        await w.session.wait_for_idle()
        assert w.session.status == "idle"

    async def test_waiting_on_an_idle_session_returns(self) -> None:
        """A-71: waiting on an idle session returns, before any run and after one."""
        w = await watched(T("x"))
        await w.session.wait_for_idle()
        await w.say("go")
        await w.session.wait_for_idle()
        await w.session.wait_for_idle()
        assert w.seen[-1] == 'turn_end("x")'

    async def test_waiters_share_the_outcome(self) -> None:
        """A-71: all waiters get the same failure, and a new message starts a new run."""
        w = await watched(ERR("boom"), T("ok"))
        w.session.send("go")
        waits = [w.session.wait_for_idle() for _ in range(3)]
        outcomes = await asyncio.gather(*waits, return_exceptions=True)
        assert [str(o) for o in outcomes] == ["boom"] * 3
        assert (await w.say("again"))[-1] == 'turn_end("ok")'

    async def test_messages_in_the_same_tick_share_the_first_prompt(self) -> None:
        """A-74: messages sent right after the first one are all in the first prompt."""
        w = await watched(T("reply"))
        for text in ("1", "2", "3"):
            w.session.send(text)
        await w.session.wait_for_idle()
        assert w.prompt(1) == ['user "1"', 'user "2"', 'user "3"']
        assert len(w.model.requests) == 1

    async def test_mode_of_the_call_takes_precedence(self) -> None:
        """A-8: the call's mode takes precedence over the session's, and that over the agent's."""
        w = await watched(T("a"), T("b"), T("c"), send_mode="queue")
        w.session.send("1")
        w.session.send("2")
        w.session.send("3", mode="steer")
        await w.session.wait_for_idle()
        assert w.prompt(1) == ['user "1"', 'user "3"']
        assert w.prompt(2)[-1] == 'user "2"'

    @pytest.mark.parametrize(
        ("agent", "session", "call", "first_prompt"),
        [
            (None, None, None, 2),
            ("queue", None, None, 1),
            ("queue", "steer", None, 2),
            ("steer", "queue", None, 1),
            ("steer", "steer", "queue", 1),
            ("queue", "queue", "steer", 2),
        ],
    )
    async def test_precedence_of_modes(
        self, agent: str | None, session: str | None, call: str | None, first_prompt: int
    ) -> None:
        """A-8: the most specific setting wins; by default messages steer."""
        model = ScriptedModel([T("a"), T("b")])
        made = Agent(model) if agent is None else Agent(model, send_mode=agent)
        talk = await made.create_session(send_mode=session)
        talk.send("1")
        talk.send("2", mode=call)
        await talk.wait_for_idle()
        assert len(model.requests[0].messages) == first_prompt

    async def test_unknown_mode(self) -> None:
        """An unknown mode is an error, and nothing is sent."""
        w = await watched()
        with pytest.raises(ValueError, match="mode is 'steer' or 'queue', not 'shout'"):
            w.session.send("x", mode="shout")
        assert w.session.status == "idle"

    async def test_message_keeps_its_sender(self) -> None:
        """A message keeps its sender."""
        w = await watched(T("x"))
        w.session.send("go", by="maria")
        await w.session.wait_for_idle()
        assert w.session.messages[0].by == "maria"

    async def test_prompt_returns_the_turns_text(self) -> None:
        """`prompt` sends, waits and returns the turn's text."""
        w = await watched(T("one"), T("two"))
        assert [await w.session.prompt("a"), await w.session.prompt("b")] == ["one", "two"]

    async def test_closed_session_refuses_messages(self) -> None:
        """A closed session refuses messages."""
        w = await watched()
        await w.session.aclose()
        with pytest.raises(SessionClosedError):
            w.session.send("x")


class TestSteering:
    async def test_joins_before_the_next_call(self) -> None:
        """A-72, A-77: a running tool is not interrupted; the message comes after its result."""
        slow = Slow()
        w = await watched(C(c1=("slow", {})), T("ok"), tools=[slow.tool])
        w.session.send("go")
        await slow.started.wait()
        w.session.send("STEER")
        slow.go_on.set()
        await w.session.wait_for_idle()
        after = w.seen[w.seen.index("tool_call c1") + 1 :]
        assert after[:3] == ['result c1 ok "done"', 'user "STEER"', 'delta "ok"']
        assert w.prompt(2) == ['user "go"', 'assistant ""+c1', 'result c1 ok "done"', 'user "STEER"']
        assert (await w.stored())[:4] == w.prompt(2)

    async def test_reported_before_the_first_delta(self) -> None:
        """A-73: the steering message's event comes before the reply that it steers."""
        w = await watched(T("a"), T("b"))
        w.session.on("text_delta", lambda e: w.session.send("now") if e.delta == "a" else None)
        seen = await w.say("go")
        assert seen.index('user "now"') < seen.index('delta "b"')

    async def test_message_during_a_decision_skips_later_calls(self) -> None:
        """A-75: a message during the decision on c1 skips the calls after it; c1 still runs."""
        ran: list[str] = []
        calls = C(c1=("note", {"text": "1"}), c2=("note", {"text": "2"}), c3=("note", {"text": "3"}))
        w = await watched(calls, T("ok"), tools=[noted(ran)])

        def decide(event: ToolCallEvent) -> None:
            # It sends right before returning, so the decision exists before it can be withdrawn.
            asyncio.get_running_loop().call_soon(w.session.send, "STEER")

        w.session.on("tool_call", decide)
        seen = await w.say("go")
        assert seen[3:] == [
            "tool_call c1",
            'result c1 ok "noted 1"',
            f'result c2 err "{SKIPPED}"',
            f'result c3 err "{SKIPPED}"',
            'user "STEER"',
            'delta "ok"',
            'assistant "ok"',
            "step(stop,10,5)",
            'turn_end("ok")',
        ]
        assert ran == ["1"]
        assert w.prompt(2)[2:] == [
            'result c1 ok "noted 1"',
            f'result c2 err "{SKIPPED}"',
            f'result c3 err "{SKIPPED}"',
            'user "STEER"',
        ]

    async def test_message_during_the_reply_skips_its_calls(self) -> None:
        """A-76: a message during the reply skips all of its calls."""
        ran: list[str] = []
        w = await watched(T("let me") + C(c1=("note", {}), c2=("note", {})), T("ok"), tools=[noted(ran)])

        def steer(event: TextDelta) -> None:
            if event.delta == "let me":
                w.session.send("STEER")

        w.session.on("text_delta", steer)
        seen = await w.say("go")
        assert not any(s.startswith("tool_call") for s in seen)
        assert [s for s in seen if s.startswith("result")] == [
            f'result c1 err "{SKIPPED}"',
            f'result c2 err "{SKIPPED}"',
        ]
        assert ran == []

    async def test_message_cancels_a_listeners_decision(self) -> None:
        """A-78: a message while a listener decides cancels it, and skips that call and the rest."""
        ran: list[str] = []
        w = await watched(C(c1=("note", {}), c2=("note", {})), T("ok"), tools=[noted(ran)])
        asked = asyncio.Event()
        cancelled: list[str] = []

        async def person(event: ToolCallEvent) -> None:
            asked.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(event.call_id)
                raise

        w.session.on("tool_call", person)
        w.session.send("go")
        await asked.wait()
        w.session.send("STEER")
        await w.session.wait_for_idle()
        assert cancelled == ["c1"]
        assert [s for s in w.seen if s.startswith(("tool_call", "result"))] == [
            "tool_call c1",
            f'result c1 err "{SKIPPED}"',
            f'result c2 err "{SKIPPED}"',
        ]
        assert w.prompt(2)[-1] == 'user "STEER"'
        assert ran == []

    async def test_queued_message_does_not_affect_the_decision(self) -> None:
        """A-78: only steering interrupts; a queued message does not affect the decision."""
        ran: list[str] = []
        w = await watched(C(note={}), T("A"), T("B"), tools=[noted(ran)])
        asked, answer = asyncio.Event(), asyncio.Event()

        async def person(event: ToolCallEvent) -> None:
            asked.set()
            await answer.wait()

        w.session.on("tool_call", person)
        w.session.send("go")
        await asked.wait()
        w.session.follow_up("later")
        answer.set()
        await w.session.wait_for_idle()
        assert ran == [""]
        assert w.turn_end.text == "B"

    async def test_message_by_an_observer_skips_the_call(self) -> None:
        """A-78: a message by an observer, which gets the call first, skips it too."""
        ran: list[str] = []
        w = await watched(C(c1=("note", {})), T("ok"), tools=[noted(ran)])
        w.session.on_any(lambda e: w.session.steer("no") if e.type == "tool_call" else None)
        assert f'result c1 err "{SKIPPED}"' in await w.say("go")
        assert ran == []

    async def test_message_during_the_last_reply_is_answered(self) -> None:
        """A-81: a message during a text-only reply gets an answer in the same run."""
        w = await watched(T("First"), T("Second"))
        w.session.on("text_delta", lambda e: w.session.send("STEER") if e.delta == "First" else None)
        seen = await w.say("go")
        assert w.prompt(2) == ['user "go"', 'assistant "First"', 'user "STEER"']
        assert [s for s in seen if s.startswith("turn_end")] == ['turn_end("Second")']


class TestQueueing:
    async def test_answered_in_the_same_run(self) -> None:
        """A-79: a queued message is answered in the same run."""
        w = await watched(T("First reply"), T("Queued reply"))
        w.session.send("1")
        w.session.send("2", mode="queue")
        await w.session.wait_for_idle()
        kinds = [s.split("(")[0] for s in w.seen]
        assert (kinds.count("step"), kinds.count("turn_end")) == (2, 1)
        assert w.prompt(2) == ['user "1"', 'assistant "First reply"', 'user "2"']

    async def test_each_message_gets_its_own_turn(self) -> None:
        """A-80: each queued message gets a separate turn, in order."""
        w = await watched(T("A"), T("B"), T("C"), send_mode="queue")
        for text in ("1", "2", "3"):
            w.session.send(text)
        await w.session.wait_for_idle()
        assert w.prompt(3) == ['user "1"', 'assistant "A"', 'user "2"', 'assistant "B"', 'user "3"']
        assert (await w.stored())[-1] == 'assistant "C"'

    async def test_all_at_once(self) -> None:
        """A-80: `follow_up="all"` passes all queued messages to one turn."""
        w = await watched(T("A"), T("B"), send_mode="queue", follow_up="all")
        for text in ("1", "2", "3"):
            w.session.send(text)
        await w.session.wait_for_idle()
        assert w.prompt(2) == ['user "1"', 'assistant "A"', 'user "2"', 'user "3"']

    async def test_message_from_turn_end_listener_starts_a_run(self) -> None:
        """A-82: a message from a turn end listener starts a new run, and waiting includes it."""
        w = await watched(T("one"), T("two"))
        w.session.on("turn_end", lambda e: w.session.send("more") if e.text == "one" else None)
        seen = await w.say("go")
        assert [s for s in seen if s.startswith("turn_end")] == ['turn_end("one")', 'turn_end("two")']

    async def test_steering_joins_before_the_queue(self) -> None:
        """A-83: in a tool turn, steering joins the next prompt, and the queue waits."""
        slow = Slow()
        w = await watched(C(slow={}), T("T1"), T("T2"), tools=[slow.tool])
        w.session.send("go")
        await slow.started.wait()
        w.session.send("Q", mode="queue")
        w.session.send("S", mode="steer")
        slow.go_on.set()
        await w.session.wait_for_idle()
        texts = [s for s in await w.stored() if s.startswith(("user", "assistant"))]
        assert texts[2:] == ['user "S"', 'assistant "T1"', 'user "Q"', 'assistant "T2"']


class TestUntil:
    async def test_messages_keep_their_order(self) -> None:
        """Messages sent one by one during a run keep their order."""
        slow = Slow()
        w = await watched(C(slow={}), T("ok"), tools=[slow.tool])
        w.session.send("go")
        await until(slow.started.is_set)
        for n in range(20):
            w.session.send(str(n))
        slow.go_on.set()
        await w.session.wait_for_idle()
        assert [s for s in w.prompt(2) if s.startswith("user")][1:] == [f'user "{n}"' for n in range(20)]
