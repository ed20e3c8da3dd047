"""`interlock rules apply`: the rules of a running server are replaced, by one operator or several."""

from __future__ import annotations

import asyncio
from pathlib import Path
from subprocess import CompletedProcess

from interlock.engine.gateway.protocol.tokens import TokenFile, write_private
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import SessionOpened
from tests.support.command import command

from .test_rules_diff import Beside, beside
from .test_serve import surroundings

GUARDED = "block rm\nrequire human-approval before deploy risk high\n"


async def rules(
    here: Beside, *line: str, secret: str | None = None, code: int = 0
) -> CompletedProcess[str]:
    """Run `interlock rules`, with the operator's own token or another; check its exit code."""
    env = surroundings(here.directory) | {"INTERLOCK_URL": f"ws://{here.server.where}"}
    if secret is not None:
        write_private(here.directory / "token", secret + "\n")
        line = (*line, "--token-file", "token")
    done = await asyncio.to_thread(command, here.directory, "rules", *line, env=env)
    assert done.returncode == code, done.stdout + done.stderr
    return done


async def outcome(here: Beside, session: str, tool: str) -> str:
    """What the server decides on a call in a new session."""
    async with here.server.agent() as client:
        gate = await client.open("bot", session=session)
        return (await gate.call(tool, {})).outcome


class TestApply:
    async def test_to_sessions_that_begin(self, tmp_path: Path) -> None:
        """Live sessions keep their rules; the next has the new ones, and its record says who and why."""
        async with beside(tmp_path, "block rm\n") as here:
            async with here.server.agent() as client:
                live = await client.open("bot", session="s-1")
                here.write("block push\n")
                refused = await rules(here, "apply", "--no-backtest", "--yes", code=1)
                assert "may loosen block-rm. Say why" in refused.stderr
                done = await rules(here, "apply", "--no-backtest", "--yes", "--reason", "push\x1bes")
                assert "+block push" in done.stdout
                assert "Applied to sessions that begin from now on" in done.stdout
                assert "write them there" not in done.stdout
                assert (await live.call("rm", {})).outcome == "block"
                assert (await live.call("push", {})).outcome == "allow"
            assert await outcome(here, "s-2", "push") == "block"
            said = (await rules(here, "diff")).stdout
            assert said.splitlines()[-1] == "The server runs these rules."
            assert "Applied by " in said
            assert "\x1b" not in said
        reader = open_reader(tmp_path / "journal.db")
        opened = {s: next(iter(reader.events(s))).body for s in ("s-1", "s-2")}
        before, after = opened["s-1"], opened["s-2"]
        assert isinstance(before, SessionOpened)
        assert isinstance(after, SessionOpened)
        assert before.applied is None
        assert after.applied is not None
        assert after.applied.reason is not None
        assert after.applied.reason.startswith("push")
        assert after.applied.others == ()

    async def test_takes_two_operators(self, tmp_path: Path) -> None:
        """The other sees what is proposed and agrees to that; one of them alone changes nothing."""
        async with beside(tmp_path, GUARDED) as here:
            (tmp_path / "lax.rules").write_text("block rm\n")
            proposing = ("apply", "lax.rules", "--no-backtest", "--yes", "--reason", "night")
            assert "another operator must apply" in (await rules(here, *proposing)).stdout
            assert "has agreed to these already" in (await rules(here, *proposing, code=1)).stderr
            assert "1 of 2 operators" in (await rules(here, "diff", "lax.rules", code=1)).stdout
            tokens = TokenFile(tmp_path / "config" / "tokens.json")
            ben = tokens.issue("operator", "ben")
            (tmp_path / "lax.rules").write_text("")
            agreed = await rules(here, "apply", "--proposed", "--no-backtest", "--yes", secret=ben)
            assert "(takes another person to turn off)" in agreed.stdout
            assert "Applied to sessions that begin from now on" in agreed.stdout
            assert await outcome(here, "s-2", "deploy") == "allow"
            assert await outcome(here, "s-3", "rm") == "block"

    async def test_nothing_by_mistake(self, tmp_path: Path) -> None:
        """Nobody to ask, a token that may only look, faulty rules, and nothing that is proposed."""
        async with beside(tmp_path, "block rm\n") as here:
            here.write("block push\n")
            assert "--yes" in (await rules(here, "apply", "--no-backtest", code=2)).stderr
            tokens = TokenFile(tmp_path / "config" / "tokens.json")
            eve = tokens.issue("operator", "eve", rights="decide")
            line = ("apply", "--no-backtest", "--yes", "--reason", "x")
            assert "administer" in (await rules(here, *line, secret=eve, code=1)).stderr
            assert "no rules are proposed" in (await rules(here, *line, "--proposed", code=2)).stderr
            assert "got both" in (await rules(here, *line, "--proposed", "a.rules", code=2)).stderr
            assert "No rules are proposed" in (await rules(here, "drop", code=1)).stderr
            here.write("blok push\n")
            assert "a.rules:1:1" in (await rules(here, *line, code=2)).stderr
            assert await outcome(here, "s-1", "rm") == "block"

    async def test_taken_back(self, tmp_path: Path) -> None:
        """What is proposed can be taken back by any operator."""
        async with beside(tmp_path, GUARDED) as here:
            here.write("block rm\n")
            await rules(here, "apply", "--no-backtest", "--yes", "--reason", "night")
            assert "taken back" in (await rules(here, "drop")).stdout
            assert "Proposed" not in (await rules(here, "diff", "--no-backtest", code=1)).stdout
