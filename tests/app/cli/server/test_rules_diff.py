"""`interlock rules diff`: compares files with the rules of a running server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from interlock.app.format.rule_changes import RuleChanges, change_lines, text_lines
from interlock.engine.hub.api import MOST_RULES
from interlock.rules import compile_files, compile_rules
from tests.support.command import command

from .test_serve import Running, serving, surroundings

RULES = "block rm\nrequire human-approval before deploy by 2\n"


@dataclass
class Beside:
    """A directory with `a.rules`, and a server that runs these rules."""

    directory: Path
    server: Running

    async def diff(self, *line: str, code: int) -> CompletedProcess[str]:
        """Run `interlock rules diff`; check its exit code."""
        env = surroundings(self.directory) | {"INTERLOCK_URL": f"ws://{self.server.where}"}
        done = await asyncio.to_thread(command, self.directory, "rules", "diff", *line, env=env)
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def write(self, text: str, name: str = "a.rules") -> None:
        (self.directory / name).write_text(text)


@asynccontextmanager
async def beside(directory: Path, rules: str = RULES) -> AsyncGenerator[Beside, None]:
    (directory / "a.rules").write_text(rules)
    async with serving(directory, "--rules", "a.rules", "--listen", "127.0.0.1:0") as server:
        yield Beside(directory, server)


class TestDiff:
    @pytest.mark.slow
    async def test_unchanged_files(self, tmp_path: Path) -> None:
        """Without files, the server's files are read again; without a difference the exit code is 0."""
        async with beside(tmp_path) as here:
            assert (await here.diff(code=0)).stdout == "The server runs these rules.\n"
            assert (await here.diff("a.rules", code=0)).stdout == "The server runs these rules.\n"

    @pytest.mark.slow
    async def test_changed_file_shows_rules_and_backtest(self, tmp_path: Path) -> None:
        """The output has the changed text and rules and a backtest, and no rule is applied."""
        async with beside(tmp_path) as here:
            async with here.server.agent() as client:
                gate = await client.open("bot", session="s-1")
                assert (await gate.call("push", {})).outcome == "allow"
                here.write("block push\nrequire human-approval before deploy\n")
                said = (await here.diff(code=1)).stdout
                assert (await gate.call("push", {})).outcome == "allow"
            assert "-block rm\n" in said
            assert "+block push\n" in said
            assert "- block-rm: block rm\n" in said
            assert "+ block-push: block push\n" in said
            assert "(takes 2 people to turn off), now require human-approval before deploy" in said
            assert "Calls recorded since 7d, judged by these files:" in said
            assert "1 newly blocked" in said
            quiet = (await here.diff("--no-backtest", code=1)).stdout
            assert "judged" not in quiet
            late = (await here.diff("--since", "2999-01-01", code=1)).stdout
            assert "0 calls in 0 sessions" in late

    @pytest.mark.slow
    async def test_changed_comment_keeps_rules_the_same(self, tmp_path: Path) -> None:
        """A changed comment is reported as the same rules, without a backtest."""
        async with beside(tmp_path) as here:
            here.write("# Ours\n" + RULES)
            said = (await here.diff(code=1)).stdout
            assert said.endswith(
                "+# Ours\n block rm\n require human-approval before deploy by 2\n\n"
                "The rules are the same.\n"
            )

    @pytest.mark.slow
    async def test_unusable_input_is_an_error(self, tmp_path: Path) -> None:
        """A faulty or missing file, an invalid time and a missing server are errors with exit code 2."""
        async with beside(tmp_path) as here:
            here.write("blok rm\n")
            assert "a.rules:1:1" in (await here.diff("a.rules", code=2)).stderr
            assert "none.rules" in (await here.diff("none.rules", code=2)).stderr
            assert "'soon' is not a time" in (await here.diff("--since", "soon", code=2)).stderr
            assert (
                "interlock rules diff: "
                in (await here.diff("--connect", "ws://127.0.0.1:1", code=2)).stderr
            )

    @pytest.mark.slow
    async def test_a_server_without_rules(self, tmp_path: Path) -> None:
        """At a server without rules, every rule of a file is new; a diff without a file is an error."""
        async with serving(tmp_path, "--listen", "127.0.0.1:0") as server:
            here = Beside(tmp_path, server)
            assert "without rules of its own" in (await here.diff(code=2)).stderr
            here.write(RULES)
            assert "+ block-rm: block rm" in (await here.diff("a.rules", code=1)).stdout

    @pytest.mark.slow
    async def test_too_long_rules_are_refused(self, tmp_path: Path) -> None:
        """Rules that are too long for one answer are refused with a hint."""
        rules = RULES + "# comment\n" * (MOST_RULES // 10)
        async with beside(tmp_path, rules) as here:
            said = (await here.diff(code=2)).stderr
            assert "compare the files on its machine" in said


def changes(old: str, new: str) -> list[str]:
    return list(
        change_lines(RuleChanges.between(compile_rules(old).registry, compile_rules(new).registry))
    )


class TestChanges:
    def test_moved_rules_are_the_same(self) -> None:
        """A rule on another line or with different spacing is unchanged."""
        assert changes("block rm\nblock push\n", "\n\nblock  push\nblock rm\n") == []

    def test_changed_map_is_reported(self) -> None:
        """A changed map is reported even if every rule is the same."""
        found = changes(
            "block root\nmap bash.command `sudo` as root", "block root\nmap bash.command `su` as root"
        )
        assert "~ maps: calls may have other effects" in found

    def test_files_are_compared_by_name(self) -> None:
        """Files are compared by name in any folder; other files are new or removed as a whole."""
        old = {"/srv/a.rules": "block rm\n", "/srv/b.rules": "block push\n"}
        new = {"a.rules": "block rm\nblock mv\n", "c.rules": "block cp\n"}
        assert list(text_lines(old, new)) == [
            "--- running /srv/a.rules",
            "+++ a.rules",
            "@@ -1 +1,2 @@",
            " block rm",
            "+block mv",
            "--- none",
            "+++ c.rules",
            "@@ -0,0 +1 @@",
            "+block cp",
            "--- running /srv/b.rules",
            "+++ none",
            "@@ -1 +0,0 @@",
            "-block push",
        ]

    @pytest.mark.parametrize("text", ["\x1b[2J", "\u202e"])
    def test_are_shown_as_text(self, text: str) -> None:
        """Control characters in a file or its name do not reach the terminal."""
        lines = [
            *text_lines({}, {f"a{text}.rules": f"# {text}\n"}),
            *change_lines(
                RuleChanges.between(
                    {}, compile_files({f"a{text}.rules": f"block rm # {text}\n"}).registry
                )
            ),
        ]
        assert lines
        assert text not in "".join(lines)
