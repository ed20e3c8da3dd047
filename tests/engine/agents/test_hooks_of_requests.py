"""Changes that a hook can make to a model request, including messages and requests for summaries."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.agents import (
    AssistantMessage,
    C,
    CompactionError,
    Hooks,
    Message,
    ModelCall,
    ModelRequest,
    ProposedCall,
    StepStart,
    SummaryMessage,
    T,
    ToolMessage,
    UserMessage,
)
from interlock.engine.agents.hooks import HookChain

from .hooked import CALL, raises
from .script import noted, transcript, watched
from .turn.test_law import valid

ASKED = AssistantMessage(tool_calls=(ProposedCall(call_id="c1", name="note"),))
TOLD = ToolMessage(call_id="c1", name="note", text="x")
SAID = UserMessage(text="go")


def replacing_messages(*messages: object) -> Hooks:
    return Hooks(before_model_call=lambda request: ModelCall(messages=messages))


class TestMessages:
    async def test_changed_messages_apply_to_one_request(self) -> None:
        """Section 9, transformContext: the model gets the hook's messages, and nothing else changes."""

        def redacted(request: ModelRequest) -> ModelCall:
            return ModelCall(
                messages=[
                    m.model_copy(update={"text": m.text.replace("s3cret", "***")})
                    for m in request.messages
                ]
            )

        w = await watched(T("a"), T("b"), hooks=Hooks(before_model_call=redacted))
        await w.say("the key is s3cret")
        await w.say("on")
        assert w.prompt(2) == ['user "the key is ***"', 'assistant "a"', 'user "on"']
        kept = ['user "the key is s3cret"', 'assistant "a"', 'user "on"', 'assistant "b"']
        assert await w.stored() == kept
        assert transcript(w.session.messages) == kept

    async def test_other_changes_leave_messages_unchanged(self) -> None:
        """Section 9: a hook that changes something else leaves the messages unchanged."""
        hooks = Hooks(before_model_call=lambda request: ModelCall(system_prompt="Be brief."))
        w = await watched(T("a"), hooks=hooks)
        await w.say("go")
        assert w.prompt(1) == ['user "go"']

    async def test_next_hook_gets_the_changed_messages(self) -> None:
        """Section 9: each hook gets the messages as changed by the previous one."""
        seen: list[tuple[Message, ...]] = []
        hooks = [
            replacing_messages(SAID, ASKED, TOLD),
            Hooks(before_model_call=lambda r: seen.append(r.messages)),
        ]
        w = await watched(T("a"), hooks=hooks)
        await w.say("hello")
        assert seen == [(SAID, ASKED, TOLD)]

    async def test_new_ids_differ_from_added_calls(self) -> None:
        """Section 9: a reply's call gets an id different from those of calls that a hook added."""
        w = await watched(CALL, T("ok"), tools=[noted([])], hooks=replacing_messages(SAID, ASKED, TOLD))
        assert 'result c1-2 ok "noted x"' in await w.say("go")

    @pytest.mark.parametrize(
        ("messages", "problem"),
        [
            ([], "there is none; expected at least one"),
            ([SAID, ASKED], "call 'c1' has no result"),
            ([ASKED, SAID, TOLD], "call 'c1' has no result before message 2"),
            (
                [SAID, TOLD],
                "message 2 is a result of call 'c1', and the assistant's message right before",
            ),
            ([ASKED, TOLD, TOLD], "message 3 is a result of call 'c1'"),
            ([ASKED, TOLD, SAID, TOLD], "message 4 is a result of call 'c1'"),
        ],
    )
    async def test_unacceptable_messages_fail_the_run(
        self, messages: list[Message], problem: str
    ) -> None:
        """Section 9: messages that no provider accepts fail the run before the model is called."""
        w = await watched(T("never"), hooks=replacing_messages(*messages))
        w.session.send("go")
        with pytest.raises(
            ValueError, match=r"a before_model_call hook \(replacing_messages.*lambda"
        ) as caught:
            await w.session.wait_for_idle()
        assert f"gave messages that no model can be sent: {problem}" in str(caught.value)
        assert w.model.requests == []
        assert await w.stored() == ['user "go"']

    async def test_value_that_is_no_message_fails_the_run(self) -> None:
        """A-44: values other than messages fail the run, and the error names the hook."""
        w = await watched(T("never"), hooks=replacing_messages({"role": "user", "content": "go"}))
        w.session.send("go")
        with pytest.raises(TypeError, match=r"hook \(replacing_messages.*must give messages, not dict"):
            await w.session.wait_for_idle()

    @given(
        st.lists(
            st.sampled_from(
                [
                    SAID,
                    ASKED,
                    TOLD,
                    SummaryMessage(text="s"),
                    ToolMessage(call_id="c2", name="note", text="y"),
                    AssistantMessage(text="a"),
                    AssistantMessage(
                        tool_calls=(
                            ProposedCall(call_id="c1", name="n"),
                            ProposedCall(call_id="c2", name="n"),
                        )
                    ),
                ]
            ),
            min_size=1,
            max_size=8,
        )
    )
    def test_accepted_exactly_if_every_call_is_answered(self, messages: list[Message]) -> None:
        """Section 9: messages are accepted exactly if every call is answered right after it."""
        request = ModelRequest((SAID,))
        try:
            taken = asyncio.run(
                HookChain(replacing_messages(*messages)).before_model_call(request)
            ).messages
        except ValueError:
            assert not valid(messages)
        else:
            assert valid(in_order(messages))
            assert taken == tuple(messages)


def in_order(messages: list[Message]) -> list[Message]:
    """Return messages with results in the order of their calls, which the writer may choose freely."""
    ordered: list[Message] = []
    for message in messages:
        at = len(ordered)
        if isinstance(message, ToolMessage):
            while (
                at
                and isinstance(ordered[at - 1], ToolMessage)
                and ordered[at - 1].call_id > message.call_id
            ):
                at -= 1
        ordered.insert(at, message)
    return ordered


class TestSummary:
    async def test_summary_request_passes_the_hooks(self) -> None:
        """Section 9: a redacting hook gets the request for a summary and can tell its purpose."""
        purposes: list[str] = []

        def hook(request: ModelRequest) -> ModelCall:
            purposes.append(request.purpose)
            said = [
                m.model_copy(update={"text": m.text.replace("s3cret", "***")}) for m in request.messages
            ]
            return ModelCall(messages=said)

        w = await watched(T("a"), T("S"), hooks=Hooks(before_model_call=hook))
        await w.say("the key is s3cret")
        await w.session.compact(0)
        assert purposes == ["turn", "summary"]
        [asked] = w.model.requests[1].messages
        assert "the key is ***" in asked.text
        assert "s3cret" not in asked.text
        assert w.model.requests[1].purpose == "summary"

    async def test_named_tools_do_not_prevent_a_summary(self) -> None:
        """Section 9: a hook that always names tools does not prevent a summary."""
        hooks = Hooks(before_model_call=lambda request: ModelCall(tools=["note"]))
        w = await watched(T("a"), T("S"), tools=[noted([])], hooks=hooks)
        await w.say("go")
        assert await w.session.compact(0) == SummaryMessage(text="S", kept=0)
        assert w.model.requests[1].tools == ()

    async def test_raising_hook_sends_nothing(self) -> None:
        """Section 9, A-32: if its hook raises, nothing is sent and nothing changes."""
        hooks = Hooks(before_model_call=lambda r: raises() if r.purpose == "summary" else None)
        w = await watched(T("a"), T("never"), T("b"), hooks=hooks)
        await w.say("go")
        with pytest.raises(CompactionError, match="was not compacted: hook broke"):
            await w.session.compact(0)
        assert len(w.model.requests) == 1
        assert await w.stored() == ['user "go"', 'assistant "a"']
        assert w.session.status == "idle"

    async def test_abort_does_not_wait_for_a_hook(self) -> None:
        """Section 9, A-95: an abort does not wait for a hook, and the model is not called."""
        asked = asyncio.Event()

        async def hook(request: ModelRequest) -> None:
            if request.purpose == "summary":
                asked.set()
                await asyncio.Event().wait()

        w = await watched(T("a"), T("never"), hooks=Hooks(before_model_call=hook))
        await w.say("go")
        compacting = asyncio.create_task(w.session.compact(0))
        await asked.wait()
        w.session.abort("enough")
        with pytest.raises(CompactionError, match=r"it was stopped \(enough\)"):
            await compacting
        assert len(w.model.requests) == 1

    async def test_request_of_a_turn_has_purpose_turn(self) -> None:
        """Section 9: every step of a turn has the purpose `turn`."""
        w = await watched(C(note={}), T("ok"), tools=[noted([])])
        await w.say("go")
        assert [r.purpose for r in w.model.requests] == ["turn", "turn"]
        assert len([e for e in w.events if isinstance(e, StepStart)]) == 2
