"""`interlock check`."""

from __future__ import annotations

import io
import unicodedata
from pathlib import Path

import pytest

from interlock.app.commands.check import run
from interlock.rules import library_rules


def check(*files: Path | str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    return run([str(file) for file in files], out=out, err=err), out.getvalue(), err.getvalue()


class TestSound:
    def test_prints_each_net_with_its_states(self, tmp_path: Path) -> None:
        """A net is shown with its rule, places, transitions and reachable states."""
        path = tmp_path / "a.rules"
        path.write_text("require human-approval before deploy # always\nrequire lint before test")
        code, out, err = check(path)
        assert (code, err) == (0, "")
        assert out.startswith(f"{path}: 2 nets\n")
        lines = [line.strip() for line in out.splitlines()]
        assert any(line.startswith("approve-before-deploy ") and line.endswith(":1") for line in lines)
        for line in (
            "require human-approval before deploy",
            "places       idle 1, ready",
            "transitions  start: idle → ready; structural",
            "approve: ready → ready; on deploy (manual)",
            "do-lint: ready → gate; on lint (deferred)",
            "again-lint: gate → gate; on lint",
            "do-test: gate → ready; on test",
            "reachable    2 states",
            "reachable    3 states",
            "gate:1",
        ):
            assert line in lines

    def test_fits_eighty_columns(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The ready-made rules can be read in a small terminal."""
        path = library_rules("deploy")
        monkeypatch.chdir(path.parent)
        _, out, _ = check(path.name, "freeze.rules")
        assert max(map(len, out.splitlines())) <= 80

    def test_shortens_a_long_list_of_states(self, tmp_path: Path) -> None:
        """G-56: of a million states the first are shown and the rest counted."""
        path = tmp_path / "a.rules"
        path.write_text("limit push to 1000000 per review")
        _, out, _ = check(path)
        assert "reachable    1,000,002 states" in out
        assert "refill: ready → ready, all spent → budget; on review (deferred)" in out
        assert "ready:1, budget:999990, spent:10" in out
        assert "… 999,990 more" in out

    def test_keys_and_warns_of_duplicates(self, tmp_path: Path) -> None:
        """G-43: the second net of a name has its own key, and the duplicate is pointed at."""
        path = tmp_path / "a.rules"
        path.write_text("block x\nblock x")
        code, out, _ = check(path)
        assert code == 0
        assert "\nblock-x#2 " in out
        assert f"warning: {path}:2:1: the same rule as in line 1" in out

    def test_says_when_nothing_is_restricted(self, tmp_path: Path) -> None:
        """A file without rules is no silent success."""
        path = tmp_path / "a.rules"
        path.write_text("# nothing yet")
        code, out, _ = check(path)
        assert code == 0
        assert "every call is allowed" in out

    def test_prints_nothing_a_terminal_obeys(self, tmp_path: Path) -> None:
        """A rules file cannot move the cursor of the person who checks it."""
        path = tmp_path / "a\x1b.rules"
        path.write_text("block \x1b[2Jrm\u202e # \x07")
        _, out, _ = check(path)
        assert not [c for c in out if c != "\n" and unicodedata.category(c) in {"Cc", "Cf"}]


class TestFaulty:
    def test_prints_every_error(self, tmp_path: Path) -> None:
        """G-40: exit code 2, all errors with carets on the error stream, nothing on the other."""
        path = tmp_path / "a.rules"
        path.write_text("block a\nallow b\nrequire a after b")
        code, out, err = check(path, tmp_path / "missing.rules")
        assert (code, out) == (2, "")
        assert f"{path}:2:1: unknown keyword 'allow'" in err
        assert "    require a after b\n              ^^^^^\n" in err
        assert "missing.rules: no such rules file" in err
        assert err.endswith("3 errors; nothing was compiled.\n")

    def test_needs_a_file(self) -> None:
        """Without a file there is nothing to check."""
        assert check() == (2, "", "interlock check: name at least one rules file\n")
