"""Finished calls read from a conversation."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from interlock.engine import (
    ReplayEntry,
    ToolCallBlockedError,
    Transition,
    create_gate,
    replay_entries,
)
from interlock.engine.agents import AssistantMessage, ProposedCall, ToolMessage, UserMessage
from interlock.rules import compile_rules

from ..support.helpers import gate, net, tool


def asked(*calls: tuple[str, str, Any]) -> dict[str, Any]:
    """An assistant's message in OpenAI's format."""
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": i, "type": "function", "function": {"name": name, "arguments": arguments}}
            for i, name, arguments in calls
        ],
    }


def answered(call_id: str, content: Any = "ok", **more: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content, **more}


def vercel_call(call_id: str, name: str, value: Any) -> dict[str, Any]:
    """An assistant's message in the Vercel AI SDK's format."""
    part = {"type": "tool-call", "toolCallId": call_id, "toolName": name, "input": value}
    return {"role": "assistant", "content": [{"type": "text", "text": "so"}, part]}


def vercel_result(call_id: str, name: str, output: Any) -> dict[str, Any]:
    part = {"type": "tool-result", "toolCallId": call_id, "toolName": name, "output": output}
    return {"role": "tool", "content": [part]}


def soft_failure(_tool: str, value: Any) -> bool:
    """A typical classifier, which only handles objects."""
    return value["success"] is False


class TestOpenAI:
    """G-32: OpenAI's and litellm's messages."""

    def test_results_in_order(self) -> None:
        """G-32: entries are in the order of the results and have their calls' input."""
        messages = [
            {"role": "user", "content": "go"},
            asked(("1", "lint", '{"path": "a"}'), ("2", "test", "{}")),
            answered("2"),
            answered("1"),
        ]
        assert replay_entries(messages) == [ReplayEntry("test", {}), ReplayEntry("lint", {"path": "a"})]

    def test_messages_may_be_objects(self) -> None:
        """G-32: messages may be objects of a client library."""
        function = SimpleNamespace(name="lint", arguments='{"path": "a"}')
        messages = [
            SimpleNamespace(role="assistant", tool_calls=[SimpleNamespace(id="1", function=function)]),
            SimpleNamespace(role="tool", content="ok", tool_call_id="1", name="lint"),
        ]
        assert replay_entries(messages) == [ReplayEntry("lint", {"path": "a"})]

    @pytest.mark.parametrize("arguments", ["{", "[1]", '"x"', None, 3, "[" * 100_000])
    def test_arguments_that_are_no_object(self, arguments: Any) -> None:
        """G-32: arguments that are no JSON object count as empty."""
        assert replay_entries([asked(("1", "x", arguments)), answered("1")]) == [ReplayEntry("x", {})]

    @pytest.mark.parametrize(
        ("content", "failed"),
        [
            ('{"success": false}', True),
            ('{"success": true}', False),
            ([{"type": "text", "text": '{"success": false}'}], True),
            ("plain", True),
            (None, True),
        ],
    )
    def test_classifier_sees_the_tools_value(self, content: Any, failed: bool) -> None:
        """G-32: the classifier gets a JSON text as its value; if it raises, the call failed."""
        (entry,) = replay_entries([asked(("1", "x", "{}")), answered("1", content)], soft_failure)
        assert entry.is_error is failed

    def test_classifier_sees_the_text(self) -> None:
        """G-32: a classifier that handles text gets the text."""
        messages = [asked(("1", "x", "{}")), answered("1", '{"log": "ERR"}')]
        (entry,) = replay_entries(messages, lambda _, value: isinstance(value, str) and "ERR" in value)
        assert entry.is_error


class TestVercel:
    """G-32: the Vercel AI SDK's parts."""

    @pytest.mark.parametrize("kind", ["error-text", "error-json", "execution-denied"])
    def test_error_kinds(self, kind: str) -> None:
        """G-32: the three error kinds are errors without the classifier."""
        seen: list[object] = []
        messages = [
            vercel_call("1", "x", {"a": 1}),
            vercel_result("1", "x", {"type": kind, "value": "no"}),
        ]
        entries = replay_entries(messages, lambda _, value: bool(seen.append(value)))
        assert (entries, seen) == ([ReplayEntry("x", {"a": 1}, is_error=True)], [])

    @pytest.mark.parametrize(
        ("output", "shown"),
        [
            ({"type": "text", "value": "done"}, "done"),
            ({"type": "json", "value": {"ok": 1}}, {"ok": 1}),
            ({"type": "json"}, {"type": "json"}),
            ({"type": "content", "value": []}, {"type": "content", "value": []}),
            ("raw", "raw"),
        ],
    )
    def test_wrappers_are_stripped(self, output: Any, shown: Any) -> None:
        """G-32: the classifier gets the value without its wrapper."""
        seen: list[object] = []
        replay_entries([vercel_call("1", "x", {}), vercel_result("1", "x", output)],
                       lambda _, value: bool(seen.append(value)))  # fmt: skip
        assert seen == [shown]

    def test_raising_classifier(self) -> None:
        """G-32: a classifier that raises counts as an error."""
        messages = [vercel_call("1", "x", {}), vercel_result("1", "x", "text")]
        assert replay_entries(messages, soft_failure)[0].is_error


class TestDistrust:
    """G-62: inconsistent histories."""

    def test_result_without_call(self) -> None:
        """G-62: a result without a matching call is ignored in both formats."""
        assert replay_entries([answered("1"), vercel_result("2", "x", "ok")]) == []

    def test_repeated_result(self) -> None:
        """G-62: of repeated results, the first counts."""
        messages = [asked(("1", "x", "{}")), answered("1"), answered("1"), vercel_result("1", "x", "ok")]
        assert replay_entries(messages) == [ReplayEntry("x", {})]

    def test_call_without_result(self) -> None:
        """G-62: a call without a result has no effect."""
        assert replay_entries([asked(("1", "x", "{}"))]) == []

    def test_duplicate_id_keeps_the_first_input(self) -> None:
        """G-62: of two calls with one id, the first one's input counts."""
        messages = [asked(("1", "x", '{"n": 1}')), asked(("1", "x", '{"n": 2}')), answered("1")]
        assert replay_entries(messages) == [ReplayEntry("x", {"n": 1})]

    def test_other_tools_result(self) -> None:
        """G-53: a result that names another tool than its call is ignored."""
        messages = [asked(("1", "x", "{}"), ("2", "y", "{}")), answered("1", name="y"),
                    vercel_result("2", "x", "ok")]  # fmt: skip
        assert replay_entries(messages) == []

    @pytest.mark.parametrize(
        "message",
        [
            None,
            3,
            "text",
            [],
            {},
            {"role": "tool"},
            {"role": "assistant", "tool_calls": [None, {"id": 1}]},
            {"role": "assistant", "content": [None, [], {"type": "tool-call"}]},
            {"role": "tool", "content": [None, {"type": "tool-result", "toolCallId": None}]},
        ],
    )
    def test_strange_messages(self, message: object) -> None:
        """A message in neither format is skipped."""
        assert replay_entries([message]) == []


class TestInitialState:
    """G-31: sessions that begin with a history."""

    async def test_messages_unlock(self) -> None:
        """G-31: `messages` moves the nets to the end of the conversation."""
        gate = create_gate(compile_rules("require lint before deploy").nets)
        messages = [asked(("1", "lint", "{}")), answered("1")]
        tools = {"deploy": lambda: "deployed"}
        assert gate.wrap_tools(tools, messages=messages).tools["deploy"]() == "deployed"

    def test_failures_cost_nothing(self) -> None:
        """G-63, G-25: plain messages do not say what a failed call spent, so it is not counted."""
        gate = create_gate(
            compile_rules("limit push to 2 per session").nets,
            is_tool_result_error=lambda _, value: value == "failed",
        )
        messages = [
            asked(("1", "push", "{}"), ("2", "push", "{}")),
            answered("1", "failed"),
            answered("2"),
        ]
        (state,) = gate.new_manager(messages).states.values()
        assert state.marking["budget"] == 1


class TestOwnWords:
    """G-62: Interlock's own text about a blocked or failed call is no success."""

    @pytest.mark.parametrize(
        "text",
        [
            "test requires a successful call to lint first.",
            "Tool 'test' blocked: test requires a successful call to lint first.",
            "ToolCallBlockedError: Tool 'test' blocked: no",
            "test was rejected by human review: not today",
            "test has reached its limit of 3 calls per session.",
            '{"error": "test requires a successful call to lint first."}',
            "Error: test failed: ValueError: no",
            "1 failed\n[exit code: 1]",
            "x\n[exit code: 2]\n\n[Showing lines 1-9 of 20. Full output: out.txt]",
            "Command timed out after 30s",
            "The operation was aborted",
        ],
    )
    def test_blocked_or_failed(self, text: str) -> None:
        """G-62: a blocked or failed `test` in the messages does not unlock `deploy`."""
        guard = gate("require lint before test\nrequire test before deploy")
        for answer in (answered("1", text), vercel_result("1", "test", {"type": "text", "value": text})):
            session = guard.wrap_tools({"deploy": len}, messages=[asked(("1", "test", "{}")), answer])
            with pytest.raises(ToolCallBlockedError):
                session.tools["deploy"]([])
            assert replay_entries([asked(("1", "test", "{}")), answer])[0].is_error

    def test_reason_changed_by_transform_is_recognized(self) -> None:
        """G-62: a reason changed by `transform_block_reason` is recognized, too."""
        guard = gate(
            "require lint before test\nrequire test before deploy",
            transform_block_reason=lambda tool, reason: f"No {tool} for you ({reason})",
        )
        with pytest.raises(ToolCallBlockedError) as blocked:
            guard.wrap_tools({"test": lambda: None}).tools["test"]()
        messages = [asked(("1", "test", "{}")), answered("1", blocked.value.reason)]
        assert "gate:1" not in guard.wrap_tools({"x": len}, messages=messages).format_status()

    def test_reason_of_net_without_rule_is_recognized(self) -> None:
        """G-62: the reasons of nets without rules are recognized as well."""
        guard = create_gate([net("n", Transition("t", ["p"], [], ["x"])), net("m", tool("x"))])
        messages = [
            asked(("1", "x", "{}")),
            answered("1", "Tool 'x' is not available in the current state."),
        ]
        assert guard.wrap_tools({"x": len}, messages=messages).manager.states["n"].marking == {"p": 1}

    @pytest.mark.parametrize(
        ("outcome", "failed"), [("done", False), ("failed", True), ("unknown", True)]
    )
    def test_interlock_field_decides_the_outcome(self, outcome: str, failed: bool) -> None:
        """G-62: the `interlock` field of exports decides the outcome and has the input that ran."""
        answer = answered("1", "Error: x", interlock={"outcome": outcome, "input": {"n": 2}})
        entries = replay_entries([asked(("1", "x", '{"n": 1}')), answer], lambda *_: True)
        assert entries == [ReplayEntry("x", {"n": 2}, failed)]

    def test_is_error_beside_result_is_an_error(self) -> None:
        """G-62: `isError: true` beside `result`, as in AI SDK 4, is an error."""
        made = {"role": "assistant", "content": [
            {"type": "tool-call", "toolCallId": "1", "toolName": "x", "args": {"n": 1}}]}  # fmt: skip
        for marked in (True, False):
            part = {"type": "tool-result", "toolCallId": "1", "toolName": "x", "result": "no"}
            ended = {"role": "tool", "content": [{**part, "isError": marked}]}
            assert replay_entries([made, ended]) == [ReplayEntry("x", {"n": 1}, marked)]

    def test_own_sessions_messages(self) -> None:
        """G-62: messages of Interlock's own sessions give the input that ran and the outcome."""
        messages = [
            UserMessage(text="go"),
            AssistantMessage(
                tool_calls=tuple(ProposedCall(call_id=i, name="x", args={"n": 1}) for i in "123")
            ),
            ToolMessage(call_id="1", name="x", text="ok", ran={"n": 2}),
            ToolMessage(call_id="2", name="x", text="no", is_error=True),
            ToolMessage(call_id="3", name="x", text="1 failed\n[exit code: 1]"),
        ]
        assert replay_entries(messages) == [
            ReplayEntry("x", {"n": 2}),
            ReplayEntry("x", {"n": 1}, is_error=True),
            ReplayEntry("x", {"n": 1}, is_error=True),
        ]


class TestFreeTools:
    def test_free_in_a_net(self) -> None:
        """G-25: a tool that is free in a net moves nothing there, even if a transition covers it."""
        guarded = net("n", Transition("t", ["p"], [], ["x"]), free_tools=["x"])
        gate_ = create_gate([guarded])
        messages = [asked(("1", "x", "{}")), answered("1")]
        assert gate_.wrap_tools({"x": len}, messages=messages).manager.states["n"].marking == {"p": 1}
