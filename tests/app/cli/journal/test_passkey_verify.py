"""`interlock history verify` and `interlock web keys` on a journal with passkey approvals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.engine.history.audit.test_proof_check import check, recorded, rewrite
from tests.engine.history.support.keeping import tamper
from tests.support.command import command
from tests.support.postgres import is_on

__all__ = ["recorded"]


class TestVerify:
    def test_valid_signatures_are_counted(self, recorded: Path) -> None:
        """Two approvals with valid signatures are counted as proofs (G-104)."""
        done = command(recorded.parent, "history", "verify", "--db", str(recorded), env={})
        assert done.returncode == 0
        assert "2 passkey proofs" in done.stdout
        assert "all intact" in done.stdout

    @pytest.mark.slow
    def test_forged_approval_is_named(self, recorded: Path) -> None:
        """A forged approval is reported with session, event and operator, despite an intact chain."""

        def change(kind: str, body: dict[str, Any]) -> None:
            if kind == "approval.decided":
                body["by"] = "ben"

        rewrite(recorded, change)
        session = check(recorded).session
        done = command(recorded.parent, "history", "verify", "--db", str(recorded), env={})
        assert done.returncode == 1
        lines = done.stdout.splitlines()
        at = next(at for at, line in enumerate(lines) if line.startswith(f"✗ {session}"))
        assert "(approval.decided): the passkey of ben does not prove this approval" in lines[at + 1]
        assert "1 session with approvals that no passkey proves" in done.stdout


class TestKeys:
    def test_keys_are_listed(self, recorded: Path) -> None:
        """Each key is listed with operator, name, page and confirmation."""
        done = command(recorded.parent, "web", "keys", "--db", str(recorded), env={})
        assert done.returncode == 0
        first, second = done.stdout.splitlines()
        assert first.startswith("maria  phone  https://laptop.example:8738  since ")
        assert second.startswith("ada  phone")
        assert "confirmed by a code" in first

    @pytest.mark.slow
    def test_changed_key_log_is_reported(self, recorded: Path) -> None:
        """A changed key log is reported, with exit code 1."""
        if is_on():
            tamper(recorded, "UPDATE line SET text = replace(text, ':\"phone\"', ':\"stick\"')")
        else:
            log = recorded.with_name(f"{recorded.name}.keys")
            log.write_text(log.read_text().replace('"name":"phone"', '"name":"stick"', 1))
        done = command(recorded.parent, "web", "keys", "--db", str(recorded), env={})
        assert done.returncode == 1
        assert "a line before this one was changed or removed" in done.stderr
