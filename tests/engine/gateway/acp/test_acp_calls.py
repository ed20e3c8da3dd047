"""The single call for the nets that an ACP agent's updates yield, and the choice of its options."""

from __future__ import annotations

import json

import pytest
from acp.schema import PermissionOption, ToolCallProgress, ToolCallUpdate
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine import ToolCall as NamedCall
from interlock.engine.gate import create_gate_manager
from interlock.engine.gateway.acp.calls import PermissionOptions, ReportedCall
from interlock.engine.net.net import ToolCall
from interlock.rules import compile_rules

KINDS = ("allow_once", "allow_always", "reject_once", "reject_always")
OPTIONS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(KINDS)), max_size=6)


def seen(*updates: dict) -> ReportedCall:
    call = ReportedCall("c1")
    for update in updates:
        call.merge(ToolCallUpdate.model_validate({"toolCallId": "c1", **update}))
    return call


def diff(path: str, old: str | None = "a", new: str = "b") -> dict:
    return {"type": "diff", "path": path, "oldText": old, "newText": new}


class TestChoice:
    @given(OPTIONS)
    def test_chosen_option_applies_once_and_is_unambiguous(self, offered: list[tuple[str, str]]) -> None:
        """A chosen option applies once, and its id has no other meaning."""
        options = [PermissionOption(option_id=i, name=i, kind=kind) for i, kind in offered]
        choice = PermissionOptions.of(options)
        for chosen, kind in ((choice.allow, "allow_once"), (choice.reject, "reject_once")):
            meanings = {each for i, each in offered if i == chosen}
            clear = [i for i, each in offered if {k for j, k in offered if j == i} == {kind}]
            assert meanings == ({kind} if chosen is not None else set())
            assert (chosen is None) == (not clear)

    def test_first_of_several_options_is_chosen(self) -> None:
        """Among several options that apply once, the first is chosen."""
        options = [PermissionOption(option_id=i, name=i, kind="allow_once") for i in ("first", "second")]
        assert PermissionOptions.of(options).allow == "first"


class TestInput:
    @pytest.mark.parametrize(
        "raw",
        [
            {"Command": "./deploy"},
            {"run": ["./deploy"]},
            {"cmd": "ls", "script": "./deploy"},
            {"command": ["sh", ["./deploy"]]},
            {"command": "ls", "argv": ["./deploy"]},
            {"command": "time -p", "args": ["./deploy"]},
            {"cmd": "ls", "then": "./deploy"},
            {"description": "./deploy"},
            [["./deploy"]],
            ["./deploy prod"],
            '["./deploy", "prod"]',
            7,
        ],
    )
    def test_title_is_no_command_if_raw_input_may_hold_one(self, raw: object) -> None:
        """G-64: the title does not count as the command if the raw input may contain another one."""
        call = seen({"kind": "execute", "title": "ls", "rawInput": raw})
        rules = compile_rules("map execute.command deploy as deploy\nblock deploy")
        names = rules.resolve(NamedCall("c", "execute", call.input))
        assert "unclear" in names
        assert ("deploy" in names) == (raw != 7)

    def test_raw_input_takes_precedence_over_title(self) -> None:
        """The nets judge the raw input that the tool gets; the title does not replace a part of it."""
        call = seen({"title": "Run", "rawInput": {"title": "mine", "command": "ls"}})
        assert call.input == {"title": "mine", "command": "ls"}

    def test_non_object_is_wrapped_in_input_field(self) -> None:
        """A raw input that is no object is shown in the field `input`."""
        assert seen({"rawInput": ["ls", "-l"]}).input == {"input": ["ls", "-l"]}

    @pytest.mark.parametrize(
        ("said", "command"),
        [
            ({"rawInput": {"command": "./deploy prod"}, "title": "List files"}, "./deploy prod"),
            ({"rawInput": {"command": ["./deploy", "a b"]}}, "./deploy 'a b'"),
            (
                {"rawInput": {"command": ["bash", "-lc", "cd x && ./deploy"]}},
                "bash -lc 'cd x && ./deploy'",
            ),
            ({"title": "./deploy prod"}, "./deploy prod"),
            ({"title": "./deploy prod", "rawInput": {}}, "./deploy prod"),
            ({"title": "List files", "rawInput": ["./deploy", "prod"]}, "./deploy prod"),
            ({"title": "List files", "rawInput": "./deploy prod"}, "./deploy prod"),
            ({"title": "List files", "rawInput": {"cmd": ["./deploy", "prod"]}}, "./deploy prod"),
            ({"rawInput": {"command": "./deploy", "args": ["prod"]}}, "./deploy prod"),
            ({"title": "List files", "rawInput": {"cmd": "./deploy prod"}}, "./deploy prod"),
            ({"title": "List files", "rawInput": {"script": "./deploy", "cwd": "/"}}, "./deploy"),
        ],
    )
    def test_execute_command_matches_every_reported_form(self, said: dict, command: str) -> None:
        """A rule on `execute.command` matches a command in every form in which an agent reports it."""
        call = seen({"kind": "execute", **said})
        assert call.input["command"] == command
        rules = compile_rules("map execute.command ./deploy as deploy\nblock deploy")
        gate = create_gate_manager(registry=rules.registry)
        assert gate.explain(ToolCall("c1", call.kind, call.input)).outcome == "block"

    def test_keeps_argument_list_and_command_line(self) -> None:
        """The input contains the agent's argument list and the line that rules read."""
        call = seen({"kind": "execute", "rawInput": {"command": ["ls", "a b"]}})
        assert call.input == {"command": "ls 'a b'", "argv": ["ls", "a b"]}

    def test_several_paths_give_no_single_path(self) -> None:
        """A call with several paths has `paths` and no `path`, so that a condition misses none."""
        one = seen({"locations": [{"path": "/a"}], "content": [diff("/a")]})
        assert (one.input["path"], "paths" in one.input) == ("/a", False)
        two = seen({"locations": [{"path": "/a"}], "content": [diff("/b")]})
        assert ("path" in two.input, two.input["paths"]) == (False, ["/a", "/b"])

    @pytest.mark.parametrize(
        "said",
        [
            {"rawInput": {"path": "/tmp/x"}, "locations": [{"path": "/etc/passwd"}]},
            {"rawInput": {"path": "/etc/passwd"}, "locations": [{"path": "/tmp/x"}]},
            {"rawInput": {"path": "/tmp/x"}, "content": [diff("/etc/passwd")]},
            {"rawInput": {"filePath": "/etc/passwd"}, "content": [diff("/tmp/x")]},
            {"locations": [{"path": "/tmp/x"}], "content": [diff("/etc/passwd")]},
            {
                "rawInput": {"path": "/tmp/x", "file_path": "/etc/passwd"},
                "locations": [{"path": "/tmp/x"}, {"path": "/etc/passwd"}],
            },
        ],
    )
    @pytest.mark.parametrize(
        "condition", ['contains "/etc"', 'under "/etc"', 'not under "/tmp"', '= "/etc/passwd"']
    )
    def test_differing_paths_match_every_path_condition(self, said: dict, condition: str) -> None:
        """A rule on the path applies if the reported paths differ."""
        call = seen({"kind": "edit", **said})
        gate = create_gate_manager(
            registry=compile_rules(f"block edit when input.path {condition}").registry
        )
        assert gate.explain(ToolCall("c1", call.kind, call.input)).outcome == "block"
        assert "/etc/passwd" in json.dumps(call.input)

    def test_relative_and_absolute_path_are_one_file(self) -> None:
        """A relative path of the tool and the absolute path of the protocol are the same file."""
        call = ReportedCall("c1", "/srv")
        given = {
            "toolCallId": "c1",
            "rawInput": {"path": "src/a"},
            "locations": [{"path": "/srv/src/a"}],
        }
        call.merge(ToolCallUpdate.model_validate(given))
        assert call.input == {"path": "src/a", "paths": ["/srv/src/a"]}

    def test_raw_changes_field_does_not_hide_the_diff(self) -> None:
        """A field `changes` in the raw input does not hide the diff."""
        call = seen({"rawInput": {"changes": "none"}, "content": [diff("/a")]})
        assert call.input["changes"] == "none"
        assert call.input["shown_changes"] == [{"path": "/a", "old_text": "a", "new_text": "b"}]

    def test_fields_of_updates_are_merged(self) -> None:
        """Fields that a later update leaves out stay; fields that it contains replace earlier ones."""
        call = seen(
            {"kind": "edit", "title": "Edit", "content": [diff("/a", None)]},
            {"title": "Edit a"},
            {"status": "in_progress"},
        )
        assert call.kind == "edit"
        assert call.input["title"] == "Edit a"
        assert call.input["changes"] == [{"path": "/a", "old_text": None, "new_text": "b"}]


class TestOutput:
    def test_prefers_text_then_raw_output_then_changes(self) -> None:
        """The recorded output is the text, else the raw output, else the changed paths."""
        text = {"type": "content", "content": {"type": "text", "text": "ok"}}
        assert seen({"content": [text], "rawOutput": {"n": 1}}).output == "ok"
        assert seen({"content": [diff("/a")], "rawOutput": {"n": 1}}).output == '{"n": 1}'
        assert seen({"content": [diff("/a")]}).output == "changed /a"

    def test_command_output_replaces_description(self) -> None:
        """The output of a command replaces the text beside it, which may only be a description."""
        text = {"type": "content", "content": {"type": "text", "text": "Look for zzz"}}
        printed = adapter_response({"stdout": "", "stderr": "none found"})
        assert seen({"content": [text]}, printed, {"status": "completed"}).output == "none found"

    def test_is_shortened(self) -> None:
        """A long output is cut before it is recorded."""
        assert len(seen({"rawOutput": "x" * 1_000_000}).output) < 300_000


def adapter_response(response: object) -> dict[str, object]:
    """Return a tool's response as Claude Code's adapter (claude-agent-acp 0.100.0) passes it on."""
    return {"_meta": {"claudeCode": {"toolName": "Bash", "toolResponse": response}}}


class TestEnd:
    @pytest.mark.parametrize(
        ("said", "goes_on", "failed"),
        [
            ({}, False, False),
            ({"rawInput": {"command": "./test", "run_in_background": True}}, True, False),
            ({"rawInput": {"command": "./test", "run_in_background": "no"}}, False, False),
            (adapter_response({"stdout": "", "backgroundTaskId": "b1"}), True, False),
            (adapter_response({"status": "async_launched"}), True, False),
            (
                adapter_response({"stdout": "", "returnCodeInterpretation": "No matches found"}),
                False,
                True,
            ),
            (adapter_response({"stdout": "", "interrupted": True}), False, True),
            (adapter_response({"stdout": "tested"}), False, False),
            ({"_meta": {"claudeCode": "tested"}}, False, False),
        ],
    )
    def test_background_work_and_failures_are_recognized(
        self, said: dict[str, object], goes_on: bool, failed: bool
    ) -> None:
        """Background work and failures are recognized although the agent reports "completed"."""
        call = seen(said, {"status": "completed"})
        assert (call.in_background, call.failed) == (goes_on, failed)


class TestResult:
    @pytest.mark.parametrize(
        ("said", "unproved"),
        [
            ({"status": "completed"}, True),
            ({"status": "completed", "content": [{"type": "terminal", "terminalId": "t"}]}, True),
            ({"content": [{"type": "content", "content": {"type": "text", "text": "Tests"}}]}, True),
            ({"status": "completed", "content": [diff("/a")]}, False),
            ({"status": "completed", "rawOutput": {}}, False),
            ({"kind": "fetch", "status": "completed"}, False),
        ],
    )
    def test_command_without_output_or_exit_code_is_unproved(
        self, said: dict[str, object], unproved: bool
    ) -> None:
        """A command with no output and no exit code is unproved; calls of other kinds are not."""
        assert seen({"kind": "execute"}, said).outcome_unknown == unproved

    @pytest.mark.parametrize(
        ("raw", "failed"),
        [
            ({"exit_code": 0}, False),
            ({"exitCode": 2}, True),
            ({"exit": -9}, True),
            ({"exit_code": True}, False),
            ({"exit_code": None}, False),
            ("exit_code 1", False),
        ],
    )
    def test_only_nonzero_exit_code_is_a_failure(self, raw: object, failed: bool) -> None:
        """Only an exit code other than 0 marks a call as failed."""
        assert seen({"rawOutput": raw}).failed == failed


class TestId:
    def test_is_new_for_each_request(self) -> None:
        """Each request about a call has its own id at the gate."""
        call = seen({})
        call.merge(ToolCallProgress(tool_call_id="c1", session_update="tool_call_update"))
        assert [call.submit()[0].call_id for _ in range(3)] == ["c1", "c1#2", "c1#3"]
