"""Untrusted text in the output of commands is shown as text, in a terminal and in a file."""

from __future__ import annotations

import asyncio
import io
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from interlock.app.config.notifications import AttentionSettings
from interlock.app.console.attention import Attention, Terminal, summary
from interlock.app.hosting.headless import print_events
from interlock.engine.history.model.events import ApprovalRequested, JournalEvent
from interlock.engine.hub.hub import HubEvent, Streaming

from ...support.command import command
from ..support.scenes import NOW, deploy_request
from .attacks import ATTACKS, EACH_GROUP, GROUPS, group
from .harmless import crowded, strange
from .hostile import RECORDED
from .recorded import bodies, session_of, write

WRITTEN = [*GROUPS, "mixed"]
"""The attacks of each of the folder's sessions."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A journal, rules files and a test of rules, with every group of attacks."""
    folder = tmp_path_factory.mktemp("commands")
    write(folder / "j.db", [group(name) for name in WRITTEN])
    for name in WRITTEN:
        text = group(name).replace("\x00", "")
        flat = " ".join(text.split())
        quoted = flat.replace("\\", "").replace('"', "")
        condition = f'require human-approval before deploy when input.env = "{quoted}"  # {flat}'
        (folder / f"{name}.rules").write_text(text)
        (folder / f"{name}-named.rules").write_text(
            f"# {flat}\n{condition}\nrequire test before deploy\n"
        )
        (folder / f"{name}_test.rules").write_text(text)
    return folder


def run(folder: Path, *line: str) -> str:
    """The output of a command on both streams, without line ends and tabs."""
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "INTERLOCK_CONFIG_DIR": str(folder)}
    done = command(folder, *line, env=env)
    assert "Traceback" not in done.stderr
    printed = done.stdout + done.stderr
    assert printed.strip()
    return printed.replace("\n", "").replace("\t", "")


def lines_of(name: str) -> list[tuple[str, ...]]:
    """Command lines that read a group of attacks from files, from the journal or as arguments."""
    text = group(name).replace("\x00", "")
    number = WRITTEN.index(name)
    rules, named = f"{name}.rules", f"{name}-named.rules"
    return [
        ("check", rules),
        ("check", named),
        ("check", named, "--json"),
        ("check", named, "--tools", text),
        ("explain", rules, "deploy"),
        ("explain", named, "deploy"),
        ("explain", named, text),
        ("explain", named, "deploy", "--after", text),
        ("draw", named),
        ("draw", named, "--net", text),
        ("test",),
        ("backtest", named, "--db", "j.db"),
        ("backtest", named, "--db", "j.db", "--json"),
        ("backtest", rules, "--db", "j.db", "--session", text),
        ("suggest", rules, "--db", "j.db"),
        ("suggest", named, "--db", "j.db", "--json"),
        ("history", "--db", "j.db"),
        ("history", "approvals", "--db", "j.db"),
        ("history", "approvals", "--json", "--db", "j.db"),
        ("history", "verify", "--db", "j.db"),
        ("history", "verify", "--json", "--db", "j.db"),
        ("history", "verify", text, "--db", "j.db"),
        ("history", "import", rules, "--db", "j.db"),
        ("history", "prune", "--older-than", "1d", "--dry-run", "--db", "j.db"),
        ("replay", session_of(number, text)[:4], "--plain", "--db", "j.db"),
        ("replay", text, "--plain", "--db", "j.db"),
        ("resume", text, "--headless", "--db", "j.db"),
        ("run", "--model", text, "--rules", rules, "--headless", "--db", "j.db", "do"),
        ("run", "--model", "openai/x", "--tools", text, "--headless", "--db", "j.db", "do"),
    ]


class TestCommands:
    @pytest.mark.slow
    @pytest.mark.parametrize("name", EACH_GROUP)
    def test_output_of_every_command_is_harmless(self, folder: Path, name: str) -> None:
        """Spoofing: check, explain, draw, test, backtest, suggest, history, replay, resume and run."""
        for line in lines_of(name):
            assert strange(run(folder, *line)) == set(), line[:3]

    def test_number_of_combining_marks_is_limited(self, folder: Path) -> None:
        """Spoofing: no letter has more marks than languages use."""
        printed = run(
            folder, "replay", session_of(WRITTEN.index("crowded"), "")[:2], "--plain", "--db", "j.db"
        )
        assert not crowded(printed)

    @pytest.mark.slow
    def test_json_contains_the_original_text(self, folder: Path) -> None:
        """Spoofing: JSON output contains the original text for programs."""
        name = "unseen"
        done = command(
            folder, "backtest", f"{name}-named.rules", "--db", "j.db", "--json", env={"HOME": str(folder)}
        )
        found = json.loads(done.stdout)
        number = WRITTEN.index(name)
        assert session_of(number, group(name)) in {session["session"] for session in found["sessions"]}


@pytest.mark.slow
class TestSettings:
    @pytest.mark.parametrize("name", EACH_GROUP)
    def test_errors_in_a_foreign_settings_file(self, tmp_path: Path, name: str) -> None:
        """Spoofing: errors in a directory's interlock.toml or agent file are reported harmlessly."""
        text = json.dumps(group(name), ensure_ascii=False).replace("\x7f", "\\u007f")
        tables = (
            f"{text} = 1\n",
            f"[notify]\n{text} = 1\n",
            f"[notify]\nurl = {text}\n",
            f'[notify]\nafter = {text}\ncommand = ["x"]\n',
            f"[attention]\n{text} = 1\n",
            f'[keys]\n{text} = "a"\n',
            f"theme = {text}\n",
            f"mode = {text}\n",
        )
        for table in tables:
            (tmp_path / "interlock.toml").write_text(table)
            for line in (("notify",), ("notify", "--test"), ("console",), ("history", "--db", "j.db")):
                assert strange(run(tmp_path, *line)) == set(), (table[:20], line)
        (tmp_path / "interlock.toml").unlink()
        for agent in (
            f"name = {text}\nmodel = {text}\nrules = [{text}]\ntools = [{text}]\n{text} = 1\n",
            f"model = {text}\ntask = {text}\nrules = [{text}]\n",
            group(name),
        ):
            (tmp_path / "agent.toml").write_text(agent)
            assert strange(run(tmp_path, "run", "agent.toml", "--headless", "--db", "j.db")) == set()


class TestHeadless:
    @pytest.mark.parametrize("name", RECORDED)
    async def test_each_event_is_one_harmless_line(self, name: str) -> None:
        """Spoofing: a headless run prints one harmless line for each event."""
        text = RECORDED[name]

        async def events() -> AsyncIterator[HubEvent]:
            for seq, body in enumerate(bodies(text), 1):
                if body.type != "approval.requested":
                    yield JournalEvent(cursor=seq, session=text, seq=seq, at=NOW, body=body)
            yield Streaming(session=text, kind="failure", text=text)

        async def unasked(asked: ApprovalRequested) -> str | None:
            raise AssertionError(asked)

        out = io.StringIO()
        await asyncio.wait_for(print_events(events(), unasked, out), 20)
        assert strange(out.getvalue().replace("\n", "")) == set()
        assert len(out.getvalue().splitlines()) == len(bodies(text))


class TestAttention:
    @pytest.mark.parametrize("kind", ["osc9", "osc99", "osc777", "notify-send"])
    def test_title_and_notification(self, kind: str) -> None:
        """Spoofing: titles and notifications have only our sequences, and harmless names."""
        for text in ATTACKS.values():
            sent: list[str] = []
            words: list[str] = []
            terminal = Terminal(
                sent.append, words.extend, lambda: False, lambda *_: None, lambda: 1.0, kind=kind
            )
            attention = Attention(terminal, AttentionSettings())
            attention.begin()
            attention.count(3)
            request = deploy_request().model_copy(update={"tool": text, "agent": text})
            attention.signal(request)
            titles, rest = sent[:3], sent[3:]
            assert titles == [
                "\x1b[22;0t",
                "\x1b]0;Interlock\x1b\\",
                "\x1b]0;Interlock (3 waiting)\x1b\\",
            ]
            assert rest[0] == "\a"
            told = words[-1] if words else rest[1].removeprefix("\x1b]").removesuffix("\x1b\\")
            assert strange(told) == set()
            assert len(told) < 400
            assert "<" not in words[-1:]
            assert summary(request).endswith("needs approval")
