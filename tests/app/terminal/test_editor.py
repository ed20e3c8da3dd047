"""The operator's editor in the console's terminal: while it is open, the console continues."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interlock.app.console.base import TerminalApp
from interlock.app.screens.rules.screen import RulesScreen
from interlock.app.terminal.editor import EditorError, command, has_editor, run_in_front
from interlock.app.terminal.key_rights import NEEDS
from interlock.engine.history.model.events import ApprovalDecided, ApprovalRequested, EventBody

from ..console.test_driver import SOON, Terminal, recorded
from ..screens.rules.folder import opened, sessions, write
from ..support.stage import Stage, stage

EDITOR = """\
#!/bin/sh
# What it is given, a word about itself, and the file changed once somebody says so.
printf '%s\\n' "$@" > given
trap : INT
printf 'in the editor\\n'
while ! [ -e saved ]; do sleep 0.02; done
printf '# changed\\n' >> "$1"
exit 0
"""
SHOP = """
import asyncio
from pathlib import Path

from interlock.engine.agents import Agent, C, ScriptedModel, T, ToolContext, tool


@tool
async def look(ctx: ToolContext) -> str:
    "Wait for the editor, then count: much is painted meanwhile."
    while not Path("given").exists():
        await asyncio.sleep(0.02)
    for number in range(200):
        print("printed by a tool")
        ctx.progress(f"step {number}\\n")
        await asyncio.sleep(0.01)
    Path("counted").write_text("200")
    return "counted"


@tool
async def deploy(ctx: ToolContext) -> str:
    "Deploy."
    return "deployed"


model = ScriptedModel([C(look={}), C(deploy={}), T("done")])
agent = Agent(model, name="release-bot", tools=[look, deploy])
"""


class Typing(Terminal):
    """A console with keyboard input."""

    def type(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def wait_for(self, there: Callable[[], object]) -> None:
        """Read the painted output until the condition holds."""
        ends = time.monotonic() + SOON
        while not there():
            assert time.monotonic() < ends, self.painted[-2000:]
            if select.select([self._master], [], [], 0.05)[0]:
                self.painted += self._rest()


def events(folder: Path, kind: type[EventBody]) -> list[EventBody]:
    """The recorded events of one kind."""
    return [event.body for event in recorded(folder) if isinstance(event.body, kind)]


class TestCommand:
    @pytest.mark.parametrize(
        ("environ", "words"),
        [
            ({"EDITOR": "sh"}, ["sh"]),
            ({"EDITOR": "sh", "VISUAL": "env -i 'a b'"}, ["env", "-i", "a b"]),
            ({"EDITOR": "sh", "VISUAL": " "}, ["sh"]),
        ],
    )
    def test_words_are_split_as_by_a_shell(self, environ: dict[str, str], words: list[str]) -> None:
        """Editing: VISUAL precedes EDITOR, and its words are split as a shell does."""
        environ["PATH"] = os.environ["PATH"]
        assert has_editor(environ)
        assert command("/x/deploy.rules", environ) == [*words, "/x/deploy.rules"]

    @pytest.mark.parametrize("path", ["-c:!sh.rules", "+!sh.rules", "ftp://host/a.rules"])
    def test_path_is_no_option_or_address(
        self, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Editing: a file's name is never taken for an option, a command or an address."""
        monkeypatch.chdir(tmp_path)
        given = command(path, {"EDITOR": "sh", "PATH": os.environ["PATH"]})[-1]
        assert given == os.path.abspath(path)
        assert given.startswith("/")

    @pytest.mark.parametrize(
        ("environ", "why"),
        [
            ({}, "there is no editor: set VISUAL or EDITOR"),
            ({"EDITOR": "vi 'x"}, "EDITOR is 'vi 'x', not a valid command: No closing quotation"),
            ({"VISUAL": "no-such-editor -w"}, "'no-such-editor' was not found: set VISUAL"),
        ],
    )
    def test_missing_or_invalid_editor_is_reported(self, environ: dict[str, str], why: str) -> None:
        """Editing: a missing or invalid editor is reported with the remedy."""
        with pytest.raises(EditorError) as caught:
            command("a.rules", {"PATH": os.environ["PATH"], **environ})
        assert str(caught.value).startswith(why)


class TestEnding:
    @pytest.mark.parametrize(
        ("script", "why"),
        [
            ("exit 3", "'sh' ended with exit code 3"),
            ("kill -KILL $$", "'sh' was ended by SIGKILL"),
        ],
    )
    async def test_failing_editor_is_reported(self, script: str, why: str) -> None:
        """Editing: an editor that fails is reported with its exit code or signal."""
        before = signal.getsignal(signal.SIGINT)
        with pytest.raises(EditorError, match=why):
            await run_in_front(["sh", "-c", script], 0)
        assert signal.getsignal(signal.SIGINT) is before

    async def test_stopped_editor_is_continued(self, tmp_path: Path) -> None:
        """Editing: an editor that stops itself is continued, and no signal is ignored in the editor."""
        told = tmp_path / "told"
        await run_in_front(["sh", "-c", f"kill -STOP $$; echo on > {told}"], 0)
        assert told.read_text() == "on\n"
        with pytest.raises(EditorError, match="SIGINT"):
            await run_in_front(["sh", "-c", "kill -INT $$"], 0)


class TestOffered:
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.chdir(tmp_path)
        write(tmp_path)
        return tmp_path

    @staticmethod
    def offered(on: Stage) -> bool:
        usable = (b for b in on.app.screen.active_bindings.values() if b.enabled)
        return "rules.edit" in {b.binding.id for b in usable}

    @pytest.mark.slow
    async def test_not_without_a_terminal(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Editing: without a terminal, as in a browser, no editor is offered."""
        monkeypatch.setenv("EDITOR", "sh")
        async with stage(*sessions(folder, "deploy.rules")) as on:
            await opened(on, "limit-deploy-3")
            assert not self.offered(on)
            await on.press("e")
            await on.until("There is no editor")
            assert isinstance(on.app.screen, RulesScreen)

    async def test_only_for_the_operators_files(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Editing: with a terminal the operator's files can be edited, but library files cannot."""
        monkeypatch.setattr(TerminalApp, "can_edit_files", True)
        async with stage(*sessions(folder, "deploy.rules")) as on:
            await opened(on, "limit-deploy-3")
            assert self.offered(on)
            await on.press("tab", "end")
            await on.until("ready-made")
            assert not self.offered(on)

    def test_not_in_a_read_only_console(self) -> None:
        """Editing: an editor changes files and starts shells, so a read-only console has none."""
        assert NEEDS["rules.edit"] != "look"


@pytest.mark.slow
class TestInTheTerminal:
    @pytest.fixture
    def console(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Typing]:
        """A console with an agent, showing its rules."""
        editor = tmp_path / "editor"
        editor.write_text(EDITOR)
        editor.chmod(0o700)
        (tmp_path / "shop.py").write_text(SHOP)
        (tmp_path / "deploy.rules").write_text("require human-approval before deploy\n")
        monkeypatch.setenv("VISUAL", str(editor))
        line = (
            "run",
            "shop:agent",
            "--rules",
            "deploy.rules",
            "--db",
            "shop.db",
            "--as",
            "maria",
            "Ship",
        )
        console = Typing(tmp_path, *line, controlling=True)
        try:
            console.until(b"look")
            console.type(b"R")
            console.until(b"nothing found")
            yield console
        finally:
            console.end_by_force()

    def test_agents_continue_while_it_is_open(self, console: Typing, tmp_path: Path) -> None:
        """Editing: the agent's output and requests wait behind the editor, undecided.

        Keys typed into the editor decide nothing, and its signals neither end nor stop the console.
        """
        console.type(b"e")
        console.until(b"in the editor")
        console.painted = b""
        console.type(b"\x03\x1a")
        console.wait_for((tmp_path / "counted").exists)
        console.type(b"aaa")
        console.wait_for(lambda: events(tmp_path, ApprovalRequested))
        assert b"printed by a tool" not in console.painted
        assert b"\x1b" not in console.painted
        assert (tmp_path / "given").read_text() == f"{tmp_path / 'deploy.rules'}\n"
        (tmp_path / "saved").touch()
        console.until(b"Approve")
        console.type(b"\x1b")
        console.until(b"# changed")
        assert not events(tmp_path, ApprovalDecided)
