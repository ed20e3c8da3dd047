"""The state after a failed run: a valid history, and messages handed back."""

from __future__ import annotations

import pytest

from interlock.engine.agents import (
    ERR,
    AssistantMessage,
    C,
    InMemorySessionStore,
    Message,
    T,
    ToolCallEvent,
)

from ..script import Slow, noted, watched


class Disk(InMemorySessionStore):
    """A store that can be full."""

    full = False

    async def append(self, session_id: str, message: Message) -> None:
        """Append a message; raise `OSError` when full."""
        if self.full:
            raise OSError("disk full")
        await super().append(session_id, message)


class TestAfterAnError:
    async def test_waiting_messages_are_handed_back(self) -> None:
        """A-84: a failed run hands back waiting messages, and the next message starts fresh."""
        slow = Slow()
        w = await watched(C(slow={}), ERR("boom"), T("ok"), tools=[slow.tool])
        w.session.send("go")
        await slow.started.wait()
        w.session.send("later", mode="queue")
        slow.go_on.set()
        with pytest.raises(RuntimeError, match="boom"):
            await w.session.wait_for_idle()
        assert w.error.undelivered == ("later",)
        assert (await w.say("recovered"))[-1] == 'turn_end("ok")'
        assert 'user "later"' not in w.prompt(3)

    async def test_message_from_the_error_listener(self) -> None:
        """A-82, A-84: a message by an error listener starts a new run."""
        w = await watched(ERR("boom"), T("ok"))
        w.session.on("error", lambda e: w.session.send("go on"))
        w.session.send("go")
        with pytest.raises(RuntimeError, match="boom"):
            await w.session.wait_for_idle()
        await w.session.wait_for_idle()
        assert w.turn_end.text == "ok"

    async def test_unstored_message_is_not_reported(self) -> None:
        """A-11: a message that cannot be stored is not reported, and the run fails."""
        store = Disk()
        w = await watched(T("one"), store=store)
        store.full = True
        w.session.send("go")
        with pytest.raises(OSError, match="disk full"):
            await w.session.wait_for_idle()
        assert w.seen == ["error(disk full)"]
        assert w.error.undelivered == ("go",)
        store.full = False
        await w.say("again")
        assert w.prompt(1) == ['user "again"']

    async def test_unstored_results_are_stored_before_continuing(self) -> None:
        """A-11, A-32: results that could not be stored are stored before the conversation continues."""
        store = Disk()
        ran: list[str] = []
        w = await watched(
            C(c1=("note", {"text": "1"}), c2=("note", {"text": "2"})),
            T("ok"),
            tools=[noted(ran)],
            store=store,
        )

        def fill(event: ToolCallEvent) -> None:
            store.full = True

        w.session.on("tool_call", fill)
        w.session.send("go")
        with pytest.raises(OSError, match="disk full"):
            await w.session.wait_for_idle()
        assert ran == ["1", "2"]
        assert not any(s.startswith("result") for s in w.seen)
        store.full = False
        await w.say("again")
        unknown = "Outcome unknown: the session ended before a result was recorded"
        assert w.prompt(2)[2:] == [
            f'result c1 err "{unknown}"',
            f'result c2 err "{unknown}"',
            'user "again"',
        ]

    async def test_results_of_unstored_reply_are_not_stored(self) -> None:
        """A-11, A-77: results of a reply that could not be stored are neither stored nor reported."""

        class FailsOnce(Disk):
            async def append(self, session_id: str, message: Message) -> None:
                self.full = isinstance(message, AssistantMessage)
                await super().append(session_id, message)

        w = await watched(C(c1=("note", {})), T("ok"), tools=[noted([])], store=FailsOnce())
        w.session.send("go")
        with pytest.raises(OSError, match="disk full"):
            await w.session.wait_for_idle()
        assert w.seen == ['user "go"', "step(tool-calls,10,5)", "error(disk full)"]
        assert await w.stored() == ['user "go"']

    async def test_no_message_after_a_call_without_stored_result(self) -> None:
        """A-11, A-77: no message is stored after a call whose result cannot be stored."""

        class FailsOften(Disk):
            async def append(self, session_id: str, message: Message) -> None:
                roles.append(message.role)
                self.full = message.role == "tool" and roles.count("tool") <= 4
                await super().append(session_id, message)

        roles: list[str] = []
        w = await watched(C(c1=("note", {})), T("ok"), tools=[noted([])], store=FailsOften())
        for text in ("go", "more"):
            w.session.send(text)
            with pytest.raises(OSError, match="disk full"):
                await w.session.wait_for_idle()
        assert w.session.undelivered == ("more",)
        assert await w.stored() == ['user "go"', 'assistant ""+c1']
        await w.say("again")
        unknown = "Outcome unknown: the session ended before a result was recorded"
        assert w.prompt(2)[2:] == [f'result c1 err "{unknown}"', 'user "again"']

    async def test_executed_call_is_never_reported_as_not_run(self) -> None:
        """A-32: no later run reports a call that ran in an earlier run as not run."""

        class FailsOften(Disk):
            async def append(self, session_id: str, message: Message) -> None:
                roles.append(message.role)
                self.full = message.role == "tool" and roles.count("tool") <= 3
                await super().append(session_id, message)

        roles: list[str] = []
        w = await watched(C(c1=("note", {})), T("ok"), tools=[noted([])], store=FailsOften())
        for text in ("go", "more"):
            w.session.send(text)
            with pytest.raises(OSError, match="disk full"):
                await w.session.wait_for_idle()
        unknown = "Outcome unknown: the session ended before a result was recorded"
        assert (await w.stored())[2:] == [f'result c1 err "{unknown}"']

    async def test_result_stored_later_keeps_its_order(self) -> None:
        """A-11, A-56: a result that is stored later does not come after those behind it."""

        class FailsOnce(Disk):
            async def append(self, session_id: str, message: Message) -> None:
                results.append(message.role)
                self.full = results.count("tool") == 1
                await super().append(session_id, message)

        results: list[str] = []
        calls = C(c1=("note", {"text": "1"}), c2=("note", {"text": "2"}))
        w = await watched(calls, T("ok"), tools=[noted([])], store=FailsOnce())
        w.session.send("go")
        with pytest.raises(OSError, match="disk full"):
            await w.session.wait_for_idle()
        kept = ['result c1 ok "noted 1"', 'result c2 ok "noted 2"']
        assert (await w.stored())[2:] == kept
        assert [s for s in w.seen if s.startswith("result")] == kept
