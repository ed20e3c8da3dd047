"""Message logs of other programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine.backtest import LogError, RecordedCall, RecordedResult, Recording, conversations
from interlock.engine.backtest.logs.items import Location
from interlock.engine.backtest.logs.messages import items_of
from interlock.engine.gate import ReplayEntry, replay_entries

from ...support.laws import examples
from .recorder import changes, judged


def openai_call(call_id: str, tool: str, arguments: object = "{}") -> dict[str, Any]:
    """Return OpenAI's message with one call."""
    function = {"name": tool, "arguments": arguments}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": call_id, "function": function}]}


def openai_result(call_id: str, text: str = "ok", **fields: object) -> dict[str, Any]:
    """Return OpenAI's message with a result."""
    return {"role": "tool", "tool_call_id": call_id, "content": text, **fields}


def vercel_part(kind: str, call_id: str, tool: str, **fields: object) -> dict[str, Any]:
    """Return the AI SDK's part of a message."""
    return {"type": kind, "toolCallId": call_id, "toolName": tool, **fields}


def items(*messages: object) -> list[Any]:
    return list(items_of([(Location("log", n), message) for n, message in enumerate(messages, 1)]))


def read(path: Path) -> list[tuple[str, list[Any]]]:
    return [(r.name, list(r.items)) for r in conversations(path)]


class TestMessages:
    """The calls of one conversation."""

    def test_openai(self) -> None:
        """G-32: calls and results come in order and are matched by id; arguments are JSON text."""
        found = items(
            {"role": "user", "content": "go"},
            openai_call("c1", "bash", '{"command": "ls"}'),
            openai_result("c1", name="bash"),
        )
        assert found == [
            RecordedCall(2, "c1", "bash", {"command": "ls"}, found[0].then),
            RecordedResult("c1", "bash", is_error=False),
        ]
        assert (found[0].then.outcome, found[0].then.ran) == ("allow", True)

    @pytest.mark.parametrize("given_as", ["input", "args"])
    @pytest.mark.parametrize(
        ("fields", "is_error"),
        [
            ({"output": {"type": "text", "value": "ok"}}, False),
            ({"output": {"type": "error-text", "value": "no"}}, True),
            ({"output": {"type": "error-json", "value": {}}}, True),
            ({"result": {"ok": True}}, False),
            ({"result": "no", "isError": True}, True),
        ],
    )
    def test_vercel(self, given_as: str, fields: dict[str, Any], is_error: bool) -> None:
        """G-32: parts of content are read, under current and older names."""
        found = items(
            {
                "role": "assistant",
                "content": [vercel_part("tool-call", "c1", "bash", **{given_as: {"command": "ls"}})],
            },
            {"role": "tool", "content": [vercel_part("tool-result", "c1", "bash", **fields)]},
        )
        assert found[0].input == {"command": "ls"}
        assert found[1] == RecordedResult("c1", "bash", is_error=is_error)

    def test_a_failed_message(self) -> None:
        """A tool message that is marked as an error is a failed result."""
        assert items(openai_call("c1", "a"), openai_result("c1", is_error=True))[1].is_error
        assert items(openai_call("c1", "a"), openai_result("c1", isError=True))[1].is_error

    def test_a_denied_call(self) -> None:
        """`execution-denied` counts as asked about, denied and not run."""
        found = items(
            {"role": "assistant", "content": [vercel_part("tool-call", "c1", "rm", input={})]},
            {
                "role": "tool",
                "content": [vercel_part("tool-result", "c1", "rm", output={"type": "execution-denied"})],
            },
        )
        assert [(i.then.outcome, i.then.ran, i.then.denied) for i in found] == [("ask", False, True)]
        assert changes(judged("require human-approval before rm", found)) == ["c1 same"]

    def test_a_call_without_a_result(self) -> None:
        """G-62: a call without a result is judged but has no effect."""
        found = items(
            openai_call("c1", "a"),
            openai_call("c2", "a"),
            openai_result("c2"),
            openai_call("c3", "a"),
            openai_result("c3"),
        )
        assert changes(judged("limit a to 1 per session", found)) == ["c1 same", "c2 same", "c3 blocked"]

    def test_unmatched_or_repeated_results_are_ignored(self) -> None:
        """G-53, G-62: a result without a call, for another tool or repeated is not counted."""
        found = items(
            openai_result("c1"),
            openai_call("c1", "a"),
            openai_result("c1", name="b"),
            openai_result("c1"),
            openai_result("c1"),
        )
        assert [type(i) for i in found] == [RecordedCall, RecordedResult]

    def test_repeated_ids(self) -> None:
        """A repeated id before the result is ignored (G-62); after the result it is another call."""
        found = items(
            openai_call("c1", "a", '{"n": 1}'),
            openai_call("c1", "a", '{"n": 2}'),
            openai_result("c1"),
            openai_call("c1", "b"),
            openai_result("c1"),
        )
        assert [(i.seq, i.tool, i.input) for i in found if isinstance(i, RecordedCall)] == [
            (1, "a", {"n": 1}),
            (4, "b", {}),
        ]

    @pytest.mark.parametrize("arguments", ["{", "[1]", "null", 7, None, "[" * 100_000])
    def test_arguments_that_are_no_object_count_as_empty(self, arguments: object) -> None:
        """G-32: arguments that are not an object count as empty."""
        assert items(openai_call("c1", "a", arguments))[0].input == {}

    @given(
        st.lists(
            st.tuples(
                st.integers(0, 4),
                st.sampled_from(["call", "parts", "result", "part-result"]),
                st.sampled_from(["a", "b"]),
                st.booleans(),
            ),
            max_size=14,
        )
    )
    @settings(max_examples=examples(200), deadline=None)
    def test_results_equal_a_gates_replay(self, steps: list[Any]) -> None:
        """G-32, G-62: if ids are never reused, the results equal those of a gate's replay."""
        messages: list[dict[str, Any]] = []
        called: set[int] = set()
        for number, kind, tool, failed in steps:
            call_id = f"c{number}"
            output = {"type": "error-text" if failed else "text", "value": "x"}
            if kind in ("call", "parts") and number not in called:
                called.add(number)
                inside = vercel_part("tool-call", call_id, tool, input={"n": number})
                by_kind = {
                    "call": openai_call(call_id, tool, json.dumps({"n": number})),
                    "parts": {"role": "assistant", "content": [inside]},
                }
                messages.append(by_kind[kind])
            elif kind == "result" and number in called:
                messages.append(openai_result(call_id, name=tool))
            elif kind == "part-result" and number in called:
                result = vercel_part("tool-result", call_id, tool, output=output)
                messages.append({"role": "tool", "content": [result]})
        found = items(*messages)
        calls = {i.call_id: i for i in found if isinstance(i, RecordedCall)}
        ended = [i for i in found if isinstance(i, RecordedResult)]
        assert [ReplayEntry(e.tool, calls[e.call_id].input, e.is_error) for e in ended] == replay_entries(
            messages
        )


class TestFiles:
    """The conversations in a file."""

    CONVERSATION = (openai_call("c1", "a"), openai_result("c1"))

    def names(self, tmp_path: Path, name: str, text: str) -> list[str]:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        found = read(path)
        for _, inside in found:
            assert [type(i) for i in inside] == [RecordedCall, RecordedResult]
        return [name.removeprefix(f"{tmp_path}/") for name, _ in found]

    @pytest.mark.parametrize("indent", [None, 2])
    def test_json(self, tmp_path: Path, indent: int | None) -> None:
        """A list or an object with `messages` is one conversation; a list of these is several."""
        one = list(self.CONVERSATION)
        for value, expected in (
            (one, ["a.json"]),
            ({"model": "m", "messages": one}, ["a.json"]),
            ([one, one], ["a.json: conversation 1", "a.json: conversation 2"]),
            ([{"messages": one}, one], ["a.json: conversation 1", "a.json: conversation 2"]),
        ):
            assert self.names(tmp_path, "a.json", json.dumps(value, indent=indent)) == expected

    @pytest.mark.parametrize("suffix", ["jsonl", "json", "log"])
    def test_json_lines(self, tmp_path: Path, suffix: str) -> None:
        """Lines of messages are one conversation; a line with `messages` or an array is one each."""
        lines = "\n\n".join(json.dumps(message) for message in self.CONVERSATION)
        assert self.names(tmp_path, f"a.{suffix}", lines) == [f"a.{suffix}"]
        each = "\n".join(
            json.dumps(v) for v in (list(self.CONVERSATION), {"messages": self.CONVERSATION})
        )
        assert self.names(tmp_path, f"a.{suffix}", each) == [f"a.{suffix}:1", f"a.{suffix}:2"]

    def test_calls_are_numbered_by_message_or_line(self, tmp_path: Path) -> None:
        """A call has the number of its message, or of its line in a file of lines."""
        path = tmp_path / "a.jsonl"
        path.write_text("\n" + "\n".join(json.dumps(m) for m in self.CONVERSATION))
        assert read(path)[0][1][0].seq == 2
        path.write_text(json.dumps([{"role": "user", "content": "go"}, *self.CONVERSATION]))
        [recording] = conversations(path)
        assert isinstance(recording, Recording)
        assert (recording.unit, next(iter(recording.items)).seq) == ("message", 2)

    def test_empty_array_is_one_conversation(self, tmp_path: Path) -> None:
        """An empty array is one conversation without calls; a byte order mark is accepted."""
        path = tmp_path / "a.json"
        path.write_text("\ufeff[]", encoding="utf-8")
        assert [inside for _, inside in read(path)] == [[]]

    @pytest.mark.parametrize(
        ("name", "text", "message"),
        [
            ("a.json", "", "a.json: is not JSON at line 1, column 1"),
            ("a.json", '[\n{"role": "user"},\n{]', "a.json: is not JSON at line 3, column 2"),
            ("a.jsonl", '{"role": "user"}\n{"role"', "a.jsonl:2: is not JSON at column 8"),
            ("a.json", "7", "a.json: holds 7; expected a message"),
            ("a.json", '{"a": 1}', "holds an object that is not a message and contains none; expected"),
            ("a.json", '[{"role": "user"}, 1]', "a.json: message 2: is not a message; expected"),
            ("a.json", "[[], 1]", "a.json: conversation 2: holds 1; expected"),
            ("a.json", '{"messages": [1]}', "a.json: message 1: is not a message; expected an object"),
            ("a.jsonl", '{"role":"user"}\n[]', "a.jsonl:2: a conversation after single messages; put"),
            ("a.jsonl", "[]\n{}", "a.jsonl:2: holds an object that"),
            (
                "a.json",
                '[{"role": "model", "parts": [{"functionCall": {}}]}]',
                "a.json: message 1: has a part without a 'type'; expected",
            ),
            ("a.json", '{"input": "go", "instructions": ""}', "holds an object that is not a message"),
            ("a.json", '[{"type": "function_call", "name": "a"}]', "without a 'call_id'"),
            ("a.json", '[{"role": "user"}, {"type": "event"}]', "message 2: is not a message"),
            (
                "a.json",
                '[{"role": "assistant", "parts": [{"type": "tool-a", "state": "input-available"}]}]',
                "without a 'toolCallId'",
            ),
            (
                "a.json",
                '[{"role": "assistant", "parts": [{"type": "tool-invocation"}]}]',
                "without its 'toolInvocation'",
            ),
            (
                "a.json",
                '[{"role": "assistant", "toolInvocations": [7]}]',
                "'toolInvocations' has an item that is not an object",
            ),
            ("a.json", '[{"role": "assistant", "function_call": {}}]', "a call without an id"),
            ("a.json", '[{"role": "assistant", "tool_calls": {}}]', "'tool_calls' are not a list"),
            ("a.json", '[{"role": "assistant", "tool_calls": [{"id": "c"}]}]', "without a 'function'"),
            (
                "a.json",
                '[{"role": "assistant", "tool_calls": [{"function": {"name": "a"}}]}]',
                "without a 'id'",
            ),
            (
                "a.json",
                '[{"role": "assistant", "content": [{"type": "tool-call"}]}]',
                "without a 'toolName'",
            ),
            (
                "a.json",
                '[{"role": "user", "content": [{"type": "tool_use"}]}]',
                "a part of type 'tool_use'",
            ),
            ("a.json", '[{"role": "tool", "content": "x"}]', "does not say which call it answers"),
            ("a.json", "[" * 100_000, "nested too deeply"),
        ],
    )
    def test_faults(self, tmp_path: Path, name: str, text: str, message: str) -> None:
        """An invalid file gives an error with file, place, expectation and remedy."""
        path = tmp_path / name
        path.write_text(text)
        with pytest.raises(LogError) as error:
            read(path)
        assert message in str(error.value)
        assert "; " in str(error.value)

    def test_unreadable_file_gives_an_error(self, tmp_path: Path) -> None:
        """A missing file, a directory and a binary file give errors with the reason."""
        (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
        for name, message in (
            ("none", "cannot be read: No such file"),
            ("", "directory"),
            ("bytes", "UTF-8"),
        ):
            with pytest.raises(LogError, match=message):
                read(tmp_path / name)

    def test_hostile_text_is_visible(self, tmp_path: Path) -> None:
        """Control characters are escaped in the error."""
        path = tmp_path / "a.json"
        path.write_text('[{"role": "user", "content": [{"type": "tool_use"}]}]')
        (tmp_path / "a\x1b[2J.json").write_text("7")
        with pytest.raises(LogError) as error:
            read(tmp_path / "a\x1b[2J.json")
        assert "\x1b" not in str(error.value)
