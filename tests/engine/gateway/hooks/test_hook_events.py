"""The envelope of hooks: fields that are read, ignored and refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine.gateway.hooks.events import (
    EnvelopeError,
    PostToolUse,
    PreToolUse,
    SessionEnd,
    SessionStart,
    Stop,
    output_text,
    read_event,
    session_name,
)

from ....support.laws import examples

DATA = Path(__file__).parents[3] / "data" / "hook"
RECORDED = sorted(DATA.glob("*.json"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
FIELDS = (
    "session_id",
    "cwd",
    "tool_name",
    "tool_input",
    "tool_use_id",
    "tool_response",
    "error",
    "is_interrupt",
    "source",
    "model",
    "reason",
    "transcript_path",
    "background_tasks",
)
KINDS = {
    "SessionStart": SessionStart,
    "PreToolUse": PreToolUse,
    "PostToolUse": PostToolUse,
    "PostToolUseFailure": PostToolUse,
    "Stop": Stop,
    "SessionEnd": SessionEnd,
}


class TestRecorded:
    @pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
    def test_every_event_is_read_as_its_kind(self, path: Path) -> None:
        """Every recorded event is read as its own kind, with its values."""
        said = json.loads(path.read_text(encoding="utf-8"))
        event = read_event(path.read_bytes())
        assert isinstance(event, KINDS[said["hook_event_name"]])
        assert event.session == said["session_id"]
        match event:
            case PreToolUse():
                assert (event.tool, event.input) == (said["tool_name"], said["tool_input"])
                assert (event.call, event.workdir) == (said["tool_use_id"], said["cwd"])
            case PostToolUse():
                assert (event.call, event.tool) == (said["tool_use_id"], said["tool_name"])
                assert event.goes_on is ("background" in path.stem)
                if path.stem.startswith("claude"):
                    assert event.is_error is path.stem.endswith("failed")
            case Stop():
                assert event.work is path.stem.endswith("at_work")
            case SessionStart():
                assert (event.source, event.model) == (said.get("source", ""), said.get("model", ""))
            case SessionEnd():
                assert event.reason == said.get("reason", "")

    def test_every_event_is_recorded(self) -> None:
        """The recordings include every kind of event."""
        assert {json.loads(path.read_text())["hook_event_name"] for path in RECORDED} == set(KINDS)

    @pytest.mark.variants
    @pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
    @settings(max_examples=examples(500, usual=10), deadline=None)
    @given(more=st.dictionaries(st.text(max_size=8).map("new_".__add__), VALUES, max_size=4))
    def test_unknown_fields_are_ignored(self, path: Path, more: dict[str, object]) -> None:
        """Additional fields of later versions are ignored."""
        said = json.loads(path.read_text(encoding="utf-8"))
        assert read_event(json.dumps(said | more).encode()) == read_event(path.read_bytes())


class TestLaws:
    @pytest.mark.slow
    @given(
        st.fixed_dictionaries(
            {"hook_event_name": st.sampled_from(list(KINDS))},
            optional=dict.fromkeys(FIELDS, VALUES),
        )
    )
    def test_any_object_is_read_or_refused(self, envelope: dict[str, object]) -> None:
        """Any object yields either a complete event or an `EnvelopeError`."""
        try:
            event = read_event(json.dumps(envelope).encode())
        except EnvelopeError:
            return
        assert event.session
        if isinstance(event, PreToolUse):
            assert event.call
            assert event.tool
            assert isinstance(event.input, dict)

    @pytest.mark.parametrize("key", ["tool_name", "command"])
    def test_repeated_key_is_refused(self, key: str) -> None:
        """A repeated key is refused, because the agent could read the other value than the judged one."""
        said = {
            "hook_event_name": "PreToolUse",
            "session_id": "s",
            "tool_use_id": "t",
            "tool_name": "Bash",
            "tool_input": {"command": "ls"},
        }
        text = json.dumps(said)
        assert read_event(text.encode())
        with pytest.raises(EnvelopeError, match=f'"{key}" occurs twice'):
            read_event(text.replace(f'"{key}"', f'"{key}": "rm", "{key}"').encode())

    @given(st.binary(max_size=40))
    def test_random_bytes_are_refused(self, data: bytes) -> None:
        """Random bytes are refused."""
        with pytest.raises(EnvelopeError):
            read_event(data)

    @given(st.text(min_size=1), st.text(min_size=1))
    def test_session_names_are_unique(self, one: str, other: str) -> None:
        """Two sessions never share a name, and a server accepts every name."""
        names = session_name("claude", one), session_name("claude", other)
        assert (names[0] == names[1]) is (one == other)
        assert all(len(name) <= 200 and name.isascii() and name.isprintable() for name in names)


class TestBackground:
    @pytest.mark.parametrize(
        ("response", "goes_on"),
        [
            ({"backgroundTaskId": "b1", "stdout": ""}, True),
            ({"status": "async_launched", "isAsync": True}, True),
            ({"status": "remote_launched"}, True),
            ({"taskId": "b1", "timeoutMs": 3000, "persistent": False}, True),
            ({"taskId": "1", "success": True}, False),
            ({"status": "completed", "content": []}, False),
            ({"backgroundTaskId": ""}, False),
            ({"status": ["async_launched"]}, False),
            ("async_launched", False),
            (None, False),
        ],
    )
    def test_started_background_work_has_not_ended(self, response: object, goes_on: bool) -> None:
        """A call that only started background work is distinguished from a finished one."""
        said = {"hook_event_name": "PostToolUse", "session_id": "s", "tool_name": "t", "tool_use_id": "c"}
        event = read_event(json.dumps(said | {"tool_response": response}).encode())
        assert isinstance(event, PostToolUse)
        assert event.goes_on is goes_on

    @pytest.mark.parametrize(
        ("tasks", "work"),
        [
            ([], False),
            ([{"type": "shell"}, {"type": "monitor"}], False),
            ([{"type": "shell"}, {"type": "subagent"}], True),
            ([{"type": "workflow"}], True),
            ([{"type": "something new"}], True),
            (["subagent"], True),
            (None, False),
        ],
    )
    def test_running_subagents_keep_the_turn_at_work(self, tasks: object, work: bool) -> None:
        """Running subagents keep a turn at work; a shell in the background does not."""
        said = {"hook_event_name": "Stop", "session_id": "s", "background_tasks": tasks}
        assert read_event(json.dumps(said).encode()) == Stop("s", work)


class TestOutput:
    @pytest.mark.parametrize(
        ("response", "text"),
        [
            (None, ""),
            ("done", "done"),
            ({"stdout": "a", "stderr": ""}, "a"),
            ({"stdout": "", "stderr": "b", "interrupted": False}, "b"),
            ({"stdout": "a", "stderr": "b"}, "a\nb"),
            ({"größe": 1}, '{"größe": 1}'),
            ([1, None], "[1, null]"),
            (7, "7"),
        ],
    )
    def test_response_is_converted_to_text(self, response: object, text: str) -> None:
        """A tool's response is converted to readable text."""
        assert output_text(response) == text

    @pytest.mark.parametrize("field", ["is_error", "isError", "interrupted"])
    @pytest.mark.parametrize("value", [True, False, 1, "true", None])
    def test_only_true_marks_a_failure(self, field: str, value: object) -> None:
        """A response marks a call as failed only with the value `true`."""
        said = {"hook_event_name": "PostToolUse", "session_id": "s", "tool_name": "t", "tool_use_id": "c"}
        event = read_event(json.dumps(said | {"tool_response": {field: value}}).encode())
        assert isinstance(event, PostToolUse)
        assert event.is_error is (value is True)

    def test_interpreted_exit_code_is_a_failure(self) -> None:
        """An exit code with an interpretation counts as a failure."""
        said = {"hook_event_name": "PostToolUse", "session_id": "s", "tool_name": "t", "tool_use_id": "c"}
        for found, is_error in (("Files differ", True), ("", False), (None, False)):
            response = {"stdout": "a", "stderr": "", "returnCodeInterpretation": found}
            event = read_event(json.dumps(said | {"tool_response": response}).encode())
            assert isinstance(event, PostToolUse)
            assert event.is_error is is_error

    def test_too_long_id_is_replaced(self) -> None:
        """An id that is too long is replaced by a stable one of 64 characters."""
        said = {"hook_event_name": "PostToolUse", "session_id": "s", "tool_name": "t"}
        events = [read_event(json.dumps(said | {"tool_use_id": "x" * 300}).encode()) for _ in range(2)]
        assert events[0] == events[1]
        assert isinstance(events[0], PostToolUse)
        assert len(events[0].call) == 64
