"""Exit codes of commands in the transcript of Codex; `codex_0.169.0` wrote the recorded one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.gateway.hooks import transcript as hook_transcript
from interlock.engine.gateway.hooks.transcript import exit_code

RECORDED = Path(__file__).parents[3] / "data" / "hook" / "codex_0.169.0_transcript.jsonl"


def ended(call: object, code: object, **more: object) -> dict[str, object]:
    """Return Codex's line for a command that ended."""
    item = {"type": "CommandExecution", "id": call, "exit_code": code} | more
    return {"type": "event_msg", "payload": {"type": "item_completed", "item": item}}


def written(path: Path, *lines: object) -> Path:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return path


class TestRecorded:
    @pytest.mark.parametrize(("call", "code"), [("call_1", 1), ("call_2", 0), ("call_3", None)])
    def test_each_command_has_its_own_exit_code(self, call: str, code: int | None) -> None:
        """The transcript yields a failure, a success and no code for an unknown call."""
        assert exit_code(RECORDED, call) == code


class TestWhatIsNoExitCode:
    @pytest.mark.parametrize(
        "line",
        [
            ended("c1x", 0),
            ended("c1", "0"),
            ended("c1", True),
            ended("c1", None),
            ended("c1", 0) | {"type": "response_item"},
            {"type": "event_msg", "payload": {"type": "other", "item": {"id": "c1", "exit_code": 0}}},
            ended("other", 3, aggregated_output=json.dumps(ended("c1", 0))),
            ended("other", 3, arguments=ended("c1", 0)),
            ended("other", 3, item=ended("c1", 0)["payload"]),
            [ended("c1", 0)],
        ],
    )
    def test_command_output_does_not_count(self, tmp_path: Path, line: object) -> None:
        """Only Codex's own entry about the call counts, not the output of a command."""
        assert exit_code(written(tmp_path / "t.jsonl", line), "c1") is None

    def test_unreadable_file_yields_no_code(self, tmp_path: Path) -> None:
        """An unreadable file yields no code and does not block."""
        os.mkfifo(tmp_path / "pipe")
        for path in (tmp_path / "none", tmp_path, tmp_path / "pipe"):
            assert exit_code(path, "c1") is None

    @pytest.mark.slow
    @given(st.binary(max_size=60), st.sampled_from([b'"c1"', b""]))
    def test_non_json_lines_are_skipped(
        self, tmp_path_factory: pytest.TempPathFactory, noise: bytes, call: bytes
    ) -> None:
        """Lines that are no JSON are skipped, and the lines beside them are read."""
        path = tmp_path_factory.mktemp("t") / "t.jsonl"
        said = json.dumps(ended("c1", 7)).encode()
        path.write_bytes(noise + call + b"\n" + said + b"\n" + call + noise + b"\n")
        assert exit_code(path, "c1") == 7


class TestLong:
    def test_only_the_end_is_read(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Only the end of a long transcript is read."""
        monkeypatch.setattr(hook_transcript, "LONGEST", 400)
        long = {"type": "other", "text": "x" * 500}
        assert exit_code(written(tmp_path / "a", long, ended("c1", 0)), "c1") == 0
        assert exit_code(written(tmp_path / "b", ended("c1", 0), long), "c1") is None

    def test_last_entry_about_a_call_counts(self, tmp_path: Path) -> None:
        """The last of two entries about a call counts."""
        assert exit_code(written(tmp_path / "t", ended("c1", 0), ended("c1", 2)), "c1") == 2
