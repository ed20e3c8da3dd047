"""Sending to a run in progress, where the clauses say more than one example shows."""

from __future__ import annotations

import asyncio

import pytest

from interlock.engine.agents import ERR, AbortSignal, C, Deny, Override, T, TextDelta, ToolCallEvent

from ..script import SKIPPED, Slow, noted, watched


class TestWaiting:
    async def test_all_waiters_return_when_settled(self) -> None:
        """A-71: all waiters return when the run has settled, and not before."""
        slow = Slow()
        w = await watched(C(slow={}), T("ok"), tools=[slow.tool])
        w.session.send("go")
        waits = [asyncio.create_task(w.session.wait_for_idle()) for _ in range(3)]
        await slow.started.wait()
        assert not any(wait.done() for wait in waits)
        slow.go_on.set()
        async with asyncio.timeout(10):
            assert await asyncio.gather(*waits) == [None] * 3
        assert w.session.status == "idle"

    async def test_later_waiters_return_after_a_failure(self) -> None:
        """A-71: a failed run has also settled, so later waiters return at once."""
        w = await watched(ERR("boom"))
        w.session.send("go")
        with pytest.raises(RuntimeError, match="boom"):
            await w.session.wait_for_idle()
        async with asyncio.timeout(10):
            await w.session.wait_for_idle()
            await w.session.wait_for_idle()


class TestDecisionThatWasReturned:
    @pytest.mark.parametrize(
        ("answer", "shown"),
        [
            (None, 'result c1 ok "noted 1"'),
            (Deny(reason="no"), 'result c1 err "no"'),
            (Override(args={"text": "other"}), 'result c1 ok "noted other"'),
        ],
    )
    async def test_decision_made_before_the_message_applies(self, answer: object, shown: str) -> None:
        """A-75, A-78: a decision made before the message arrived applies; later calls are skipped."""
        calls = C(c1=("note", {"text": "1"}), c2=("note", {"text": "2"}))
        w = await watched(calls, T("ok"), tools=[noted([])])

        def decide(event: ToolCallEvent) -> object:
            asyncio.get_running_loop().call_soon(w.session.send, "STEER")
            return answer

        w.session.on("tool_call", decide)
        assert (await w.say("go"))[3:7] == [
            "tool_call c1",
            shown,
            f'result c2 err "{SKIPPED}"',
            'user "STEER"',
        ]
        assert (await w.stored())[2:5] == [shown, f'result c2 err "{SKIPPED}"', 'user "STEER"']

    async def test_message_sent_by_the_deciding_listener(self) -> None:
        """A-78: a listener that sends before it returns has not decided yet, so its call is skipped."""
        ran: list[str] = []
        w = await watched(C(c1=("note", {}), c2=("note", {})), T("ok"), tools=[noted(ran)])
        w.session.on("tool_call", lambda event: w.session.send("STEER"))
        seen = await w.say("go")
        assert seen[3:6] == ["tool_call c1", *(f'result {c} err "{SKIPPED}"' for c in ("c1", "c2"))]
        assert ran == []

    async def test_unknown_tools_among_the_skipped(self) -> None:
        """A-58, A-76: a call to an unknown tool is reported as such, even if the others are skipped."""
        calls = T("x") + C(c1=("note", {}), c2=("nope", {}), c3=("note", {}))
        w = await watched(calls, T("ok"), tools=[noted([])])
        w.session.on("text_delta", lambda e: w.session.send("S") if e.delta == "x" else None)
        assert [line for line in await w.say("go") if line.startswith("result")] == [
            f'result c1 err "{SKIPPED}"',
            'result c2 err "Tool not found: nope"',
            f'result c3 err "{SKIPPED}"',
        ]


class TestLastReply:
    async def test_all_steering_messages_join_then_one_queued(self) -> None:
        """A-81: at the end of a reply all steering messages join at once; queued ones wait their turn."""
        w = await watched(T("A"), T("B"), T("C"))

        def say_more(event: TextDelta) -> None:
            if event.delta == "A":
                w.session.send("Q", mode="queue")
                w.session.send("S1")
                w.session.send("S2")

        w.session.on("text_delta", say_more)
        seen = await w.say("go")
        assert w.prompt(2) == ['user "go"', 'assistant "A"', 'user "S1"', 'user "S2"']
        assert w.prompt(3)[4:] == ['assistant "B"', 'user "Q"']
        assert [line for line in seen if line.startswith("turn_end")] == ['turn_end("C")']
        assert await w.stored() == [*w.prompt(3), 'assistant "C"']


class TestSignalOfALaterMessage:
    @pytest.mark.parametrize("mode", ["queue", "steer"])
    async def test_later_messages_signal_is_ignored(self, mode: str) -> None:
        """A-85: a later message's signal stops neither the run it joined nor its own reply."""
        slow = Slow()
        w = await watched(C(c1=("slow", {})), T("A"), T("B"), tools=[slow.tool])
        later = AbortSignal()
        w.session.send("go")
        await slow.started.wait()
        w.session.send("more", mode=mode, abort=later)
        later.abort("too late")
        slow.go_on.set()
        await w.session.wait_for_idle()
        assert 'result c1 ok "done"' in w.seen
        assert (w.turn_end.stop_reason, w.turn_end.reason) == ("completed", "")
        assert 'user "more"' in w.prompt(2 if mode == "steer" else 3)

    async def test_signal_set_after_its_run_stops_no_other(self) -> None:
        """A-85: a signal that is set after its run has ended stops no other run."""
        slow, first = Slow(), AbortSignal()
        w = await watched(T("A"), C(slow={}), T("B"), tools=[slow.tool])
        w.session.send("go", abort=first)
        await w.session.wait_for_idle()
        w.session.send("on")
        await slow.started.wait()
        first.abort()
        slow.go_on.set()
        await w.session.wait_for_idle()
        assert (w.turn_end.text, w.turn_end.stop_reason) == ("B", "completed")


class TestFailure:
    async def test_both_queues_are_handed_back(self) -> None:
        """A-84: steering and queued messages are handed back and are not in the next prompt."""
        w = await watched(T("x") + ERR("boom"), T("recovered"))

        def say_more(event: TextDelta) -> None:
            if event.delta == "x":
                w.session.send("Q", mode="queue")
                w.session.send("S")

        w.session.on("text_delta", say_more)
        w.session.send("go")
        with pytest.raises(RuntimeError, match="boom"):
            await w.session.wait_for_idle()
        assert w.error.undelivered == ("S", "Q")
        assert (w.session.waiting, w.session.undelivered) == ((), ("S", "Q"))
        assert (await w.say("again"))[-1] == 'turn_end("recovered")'
        assert w.prompt(2) == ['user "go"', 'user "again"']
        assert await w.stored() == ['user "go"', 'user "again"', 'assistant "recovered"']
