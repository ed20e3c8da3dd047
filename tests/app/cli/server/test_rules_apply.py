"""`interlock rules apply`: one or several operators replace the rules of a running server."""

from __future__ import annotations

import asyncio
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from interlock.engine.gateway.protocol.tokens import TokenFile, write_private
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import RulesReplaced, SessionOpened
from tests.support.command import command

from .test_rules_diff import Beside, beside
from .test_serve import surroundings

GUARDED = "block rm\nrequire human-approval before deploy risk high\n"


async def rules(
    here: Beside, *line: str, secret: str | None = None, code: int = 0
) -> CompletedProcess[str]:
    """Run `interlock rules` with the operator's own or another token; check its exit code."""
    env = surroundings(here.directory) | {"INTERLOCK_URL": f"ws://{here.server.where}"}
    if secret is not None:
        write_private(here.directory / "token", secret + "\n")
        line = (*line, "--token-file", "token")
    done = await asyncio.to_thread(command, here.directory, "rules", *line, env=env)
    assert done.returncode == code, done.stdout + done.stderr
    return done


async def outcome(here: Beside, session: str, tool: str) -> str:
    """Return the server's verdict on a call in a new session."""
    async with here.server.agent() as client:
        gate = await client.open("bot", session=session)
        return (await gate.call(tool, {})).outcome


class TestApply:
    @pytest.mark.slow
    async def test_new_sessions_get_new_rules(self, tmp_path: Path) -> None:
        """Live sessions keep their rules; the next one gets the new rules and records the reason."""
        async with beside(tmp_path, "block rm\n") as here:
            async with here.server.agent() as client:
                live = await client.open("bot", session="s-1")
                here.write("block push\n")
                refused = await rules(here, "apply", "--no-backtest", "--yes", code=1)
                assert "may loosen block-rm. Give a reason" in refused.stderr
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

    @pytest.mark.slow
    async def test_live_session_keeps_used_limit(self, tmp_path: Path) -> None:
        """A live session gets the new rules, and its used limit stays used."""
        async with (
            beside(tmp_path, "limit push to 2 per session\nblock rm\n") as here,
            here.server.agent() as client,
        ):
            live = await client.open("bot", session="s-1")
            assert (await live.call("push", {})).outcome == "allow"
            here.write("limit push to 2 per session\nblock mkfs\n")
            all_of_them = ("apply", "--no-backtest", "--yes", "--to", "all")
            refused = await rules(here, *all_of_them, code=1)
            assert "may loosen block-rm. Give a reason" in refused.stderr
            done = await rules(here, *all_of_them, "--reason", "rm with password=hunter2secret")
            assert "1 live session is under them." in done.stdout
            tools = ["rm", "mkfs", "push", "push"]
            said = [(await live.call(tool, {})).outcome for tool in tools]
            assert said == ["allow", "block", "allow", "block"]
            # Apply again, after other rules were applied to later sessions only.
            here.write("block mkfs\nblock push\nlimit push to 2 per session\n")
            await rules(here, "apply", "--no-backtest", "--yes")
            assert (await live.call("deploy", {})).outcome == "allow"
            again = await rules(here, *all_of_them)
            assert "The server runs these rules." in again.stdout
            assert "1 live session is under them." in again.stdout
        events = [e.body for e in open_reader(tmp_path / "journal.db").events("s-1")]
        first, _ = (body for body in events if isinstance(body, RulesReplaced))
        assert (first.dropped, first.applied.reason) == (
            ("block-rm",),
            "rm with password=[masked: 13 characters]",
        )

    @pytest.mark.slow
    async def test_agreement_covers_only_the_same_scope(self, tmp_path: Path) -> None:
        """Agreeing to rules for new sessions does not confirm a proposal that includes live sessions."""
        async with beside(tmp_path, GUARDED) as here:
            (tmp_path / "lax.rules").write_text("block rm\n")
            tokens = TokenFile(tmp_path / "config" / "tokens.json")
            for name in ("ben", "eve"):
                tokens.issue("operator", name)
            ben, eve = (tokens.rotate(name) for name in ("ben", "eve"))
            line = ("apply", "lax.rules", "--no-backtest", "--yes", "--to", "all", "--reason", "night")
            assert "Proposed" in (await rules(here, *line, secret=ben)).stdout
            new = tuple(part for part in line if part not in ("--to", "all"))
            assert (
                "for live sessions, too. Agree to that"
                in (await rules(here, *new, secret=eve, code=1)).stderr
            )
            agreed = ("apply", "--proposed", "--no-backtest", "--yes")
            assert "0 live sessions are under them" in (await rules(here, *agreed, secret=eve)).stdout

    @pytest.mark.slow
    async def test_second_operator_must_agree(self, tmp_path: Path) -> None:
        """A second operator sees the proposal and agrees to it; the first cannot apply it alone."""
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

    @pytest.mark.slow
    async def test_invalid_attempts_change_no_rule(self, tmp_path: Path) -> None:
        """Missing confirmation or rights, faulty rules and a missing proposal change no rule."""
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

    @pytest.mark.slow
    async def test_drop_takes_a_proposal_back(self, tmp_path: Path) -> None:
        """`rules drop` takes a proposal back."""
        async with beside(tmp_path, GUARDED) as here:
            here.write("block rm\n")
            await rules(here, "apply", "--no-backtest", "--yes", "--reason", "night")
            assert "taken back" in (await rules(here, "drop")).stdout
            assert "Proposed" not in (await rules(here, "diff", "--no-backtest", code=1)).stdout
