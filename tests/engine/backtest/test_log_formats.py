"""Other conversation formats of OpenAI's and Vercel's libraries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from interlock.engine.backtest import RecordedCall, RecordedResult, conversations

from .recorder import changes, judged

GO = {"role": "user", "content": "go"}


def read(tmp_path: Path, value: object) -> list[Any]:
    """Return the items of the only conversation in a file with this value."""
    path = tmp_path / "log.json"
    path.write_text(json.dumps(value))
    [recording] = conversations(path)
    return list(recording.items)


def outcome_lines(items: list[Any]) -> list[str]:
    """Return calls with their outcomes, and results, in order."""
    lines: list[str] = []
    for item in items:
        if isinstance(item, RecordedCall):
            then = item.then
            how = "denied" if then.denied else "ran" if then.ran else "no result"
            by = f" by {', '.join(then.by)}" if then.by else ""
            lines.append(
                f"{item.seq} {item.tool} {then.outcome} {how}{by} {json.dumps(dict(item.input))}"
            )
        else:
            assert isinstance(item, RecordedResult)
            lines.append(f"{item.tool} {'failed' if item.is_error else 'ok'}")
    return lines


def function(call_id: str, name: str = "rm", **fields: object) -> dict[str, object]:
    return {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": name, **fields}


def output(call_id: str, kind: str = "function_call", **fields: object) -> dict[str, object]:
    return {"type": f"{kind}_output", "call_id": call_id, "output": "ok", **fields}


ITEMS = [GO, {"type": "reasoning", "id": "r"}, function("c1", arguments='{"path": "x"}'), output("c1")]


class TestResponses:
    """OpenAI's Responses API."""

    @pytest.mark.parametrize(
        "value",
        [
            ITEMS,
            {"model": "m", "input": ITEMS},
            {"object": "response", "input": ITEMS[:2], "output": ITEMS[2:]},
            {"custom_id": "1", "url": "/v1/responses", "body": {"input": ITEMS}},
        ],
    )
    def test_call_and_output_are_separate_items(self, tmp_path: Path, value: object) -> None:
        """A call and its output are separate items, in a list, a request, a response or a batch."""
        assert outcome_lines(read(tmp_path, value)) == ['3 rm allow ran {"path": "x"}', "rm ok"]

    def test_call_without_output(self, tmp_path: Path) -> None:
        """The last call of a model has no output yet; a text input has no call."""
        value = {"input": "go", "output": [ITEMS[2]]}
        assert outcome_lines(read(tmp_path, value)) == ['1 rm allow no result {"path": "x"}']

    def test_file_with_one_item_per_line(self, tmp_path: Path) -> None:
        """A file with one item per line is one conversation, numbered by line."""
        path = tmp_path / "log.jsonl"
        path.write_text("\n".join(map(json.dumps, ITEMS)))
        [recording] = conversations(path)
        assert outcome_lines(list(recording.items)) == ['3 rm allow ran {"path": "x"}', "rm ok"]

    def test_other_calls(self, tmp_path: Path) -> None:
        """Custom tools, shells and patches are calls; tools that the provider ran are not."""
        found = read(
            tmp_path,
            [
                {"type": "custom_tool_call", "call_id": "c1", "name": "rm", "input": "all"},
                output("c1", "custom_tool_call"),
                {"type": "local_shell_call", "call_id": "c2", "action": {"command": ["ls"]}},
                output("c2", "local_shell_call", status="incomplete"),
                {"type": "apply_patch_call", "call_id": "c3", "operation": {"path": "a.py"}},
                output("c3", "apply_patch_call", status="failed"),
                {"type": "web_search_call", "id": "w1", "status": "completed"},
            ],
        )
        assert outcome_lines(found) == [
            '1 rm allow ran {"input": "all"}',
            "rm ok",
            '3 local_shell allow ran {"command": ["ls"]}',
            "local_shell failed",
            '5 apply_patch allow ran {"path": "a.py"}',
            "apply_patch failed",
        ]

    def test_tools_of_mcp_servers(self, tmp_path: Path) -> None:
        """A call that the provider made, perhaps after approval, is one item with its result."""
        call = {"type": "mcp_call", "name": "rm", "arguments": '{"n": 1}', "output": "ok", "error": None}
        ask = {"type": "mcp_approval_request", "name": "rm", "arguments": '{"n": 2}'}
        answer = {"type": "mcp_approval_response"}
        found = read(
            tmp_path,
            [
                {**call, "id": "m1"},
                {**call, "id": "m2", "error": "no"},
                {**ask, "id": "a1"},
                {**answer, "approval_request_id": "a1", "approve": True},
                {**call, "id": "m3", "approval_request_id": "a1"},
                {**ask, "id": "a2"},
                {**answer, "approval_request_id": "a2", "approve": False},
                {**ask, "id": "a3"},
            ],
        )
        assert outcome_lines(found) == [
            '1 rm allow ran {"n": 1}',
            "rm ok",
            '2 rm allow ran {"n": 1}',
            "rm failed",
            '3 rm ask ran by an operator {"n": 2}',
            "rm ok",
            '6 rm ask denied {"n": 2}',
            '8 rm ask no result {"n": 2}',
        ]


MESSAGE = {
    "role": "assistant",
    "tool_calls": [{"id": "c1", "function": {"name": "rm", "arguments": "{}"}}],
}


class TestChat:
    """OpenAI's chat API, with wrapped messages."""

    @pytest.mark.parametrize(
        "value",
        [
            {"object": "chat.completion", "choices": [{"message": MESSAGE}, {"message": GO}]},
            {"custom_id": "1", "response": {"body": {"choices": [{"message": MESSAGE}]}}},
            {"custom_id": "1", "body": {"messages": [MESSAGE]}},
        ],
    )
    def test_first_choice_of_a_response(self, tmp_path: Path, value: object) -> None:
        """The first choice of a response is used, alone or in a batch."""
        assert outcome_lines(read(tmp_path, value)) == ["1 rm allow no result {}"]

    def test_custom_tool_with_free_text(self, tmp_path: Path) -> None:
        """The free text of a custom tool becomes the only field of its input."""
        call = {"id": "c1", "type": "custom", "custom": {"name": "rm", "input": "all"}}
        found = read(tmp_path, [{"role": "assistant", "tool_calls": [call]}])
        assert outcome_lines(found) == ['1 rm allow no result {"input": "all"}']


def ui(*parts: dict[str, object], **fields: object) -> dict[str, object]:
    """Return a message in the current format of user interfaces."""
    return {"id": "m", "role": "assistant", "parts": [{"type": "step-start"}, *parts], **fields}


def tool(call_id: str, state: str, **fields: object) -> dict[str, object]:
    given = {"type": "tool-rm", "toolCallId": call_id, "state": state, "input": {"n": call_id}}
    return {**given, **fields}


class TestUserInterfaces:
    """The formats of Vercel's user interfaces."""

    @pytest.mark.parametrize(
        ("part", "expected"),
        [
            (tool("1", "input-streaming"), []),
            (tool("1", "input-available"), ['2 rm allow no result {"n": "1"}']),
            (tool("1", "output-available", output=7), ['2 rm allow ran {"n": "1"}', "rm ok"]),
            (tool("1", "output-error", errorText="x"), ['2 rm allow ran {"n": "1"}', "rm failed"]),
            (
                tool("1", "approval-requested", approval={"id": "a"}),
                ['2 rm ask no result {"n": "1"}'],
            ),
            (
                tool("1", "approval-responded", approval={"id": "a", "approved": True}),
                ['2 rm ask no result by an operator {"n": "1"}'],
            ),
            (
                tool("1", "approval-responded", approval={"id": "a", "approved": False}),
                ['2 rm ask denied {"n": "1"}'],
            ),
            (
                tool("1", "output-denied", approval={"id": "a", "approved": False}),
                ['2 rm ask denied {"n": "1"}'],
            ),
            (
                tool("1", "output-available", approval={"id": "a", "approved": True}),
                ['2 rm ask ran by an operator {"n": "1"}', "rm ok"],
            ),
            (
                tool("1", "output-available", type="dynamic-tool", toolName="mv"),
                ['2 mv allow ran {"n": "1"}', "mv ok"],
            ),
        ],
    )
    def test_current_parts(self, tmp_path: Path, part: dict[str, object], expected: list[str]) -> None:
        """A part has the state of its call and the operator's answer."""
        text: dict[str, object] = {"type": "text", "text": "x"}
        assert outcome_lines(read(tmp_path, [GO, ui(text, part)])) == expected

    def test_calls_of_one_step(self, tmp_path: Path) -> None:
        """Calls of one step come before the results of that step."""
        first = [tool("1", "output-available"), tool("2", "output-available")]
        found = read(tmp_path, [ui(*first, {"type": "step-start"}, tool("3", "output-available"))])
        assert [line.split()[1] for line in outcome_lines(found)] == ["rm", "rm", "ok", "ok", "rm", "ok"]

    @pytest.mark.parametrize(
        ("state", "expected"),
        [
            ({"state": "result", "result": "ok"}, ['1 rm allow ran {"n": 1}', "rm ok"]),
            ({"result": "ok"}, ['1 rm allow ran {"n": 1}', "rm ok"]),
            ({"state": "call"}, ['1 rm allow no result {"n": 1}']),
            ({"state": "partial-call"}, []),
        ],
    )
    @pytest.mark.parametrize("where", ["parts", "toolInvocations", "both"])
    def test_older_parts_count_once(
        self, tmp_path: Path, where: str, state: dict[str, object], expected: list[str]
    ) -> None:
        """A call in its own part, beside the text, or in both places counts once."""
        call = {"toolCallId": "c1", "toolName": "rm", "args": {"n": 1}, **state}
        message: dict[str, object] = {"role": "assistant", "content": ""}
        if where != "toolInvocations":
            message["parts"] = [{"type": "tool-invocation", "toolInvocation": call}]
        if where != "parts":
            message["toolInvocations"] = [call]
        assert outcome_lines(read(tmp_path, [message])) == expected


ASKED = {
    "role": "assistant",
    "content": [
        {"type": "tool-call", "toolCallId": "c1", "toolName": "rm", "input": {}},
        {"type": "tool-approval-request", "toolCallId": "c1", "approvalId": "a1"},
    ],
}


class TestAnswers:
    """Requests and answers in messages for models."""

    def answered(self, tmp_path: Path, *parts: dict[str, object]) -> list[Any]:
        return read(tmp_path, [ASKED, {"role": "tool", "content": list(parts)}])

    def test_recorded_approval_counts(self, tmp_path: Path) -> None:
        """A recorded approval counts as such: the same under rules that ask, newly allowed without."""
        found = self.answered(
            tmp_path,
            {"type": "tool-approval-response", "approvalId": "a1", "approved": True},
            {"type": "tool-result", "toolCallId": "c1", "toolName": "rm", "output": {"type": "text"}},
        )
        assert outcome_lines(found) == ["1 rm ask ran by an operator {}", "rm ok"]
        assert changes(judged("require human-approval before rm", found)) == ["c1 same"]
        assert changes(judged("block mv", found)) == ["c1 allowed"]

    def test_denied_call_did_not_run(self, tmp_path: Path) -> None:
        """A denied call did not run."""
        answer = {"type": "tool-approval-response", "approvalId": "a1", "approved": False}
        assert outcome_lines(self.answered(tmp_path, answer)) == ["1 rm ask denied {}"]

    def test_request_without_answer_has_no_result(self, tmp_path: Path) -> None:
        """A request without an answer, or with an answer to another request, has no result."""
        assert outcome_lines(self.answered(tmp_path)) == ["1 rm ask no result {}"]
        answer = {"type": "tool-approval-response", "approvalId": "a2", "approved": True}
        assert outcome_lines(self.answered(tmp_path, answer)) == ["1 rm ask no result {}"]
