"""Rules that a suggestion writes into a file: the permitted lines, and one writer at a time."""

from __future__ import annotations

import fcntl
import os
from datetime import date
from pathlib import Path

import pytest

from interlock.app.config.rules_edit import RuleEdit, RuleEditError, save, target

RULES = """\
let team = ["ada"]
require human-approval before deploy within 5m when input.to in team # ours
require human-approval before pay risk high
block rm
"""
APPROVAL = RULES.split("\n")[1]
NARROWED = (
    'require human-approval before deploy within 5m when input.to in team and input.env != "dev" # ours'
)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INTERLOCK_CONFIG_DIR", str(tmp_path / "config"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    path = tmp_path / "deploy.rules"
    path.write_text(RULES)
    return path


def edit(path: Path, after: str, line: int | None = 2) -> RuleEdit:
    before = None if line is None else RULES.split("\n")[line - 1]
    return RuleEdit(str(path), RULES, after, line, before)


def save_change(change: RuleEdit) -> None:
    save(change, target(change), by="maria", reason="always fine", day=date(2026, 11, 25))


class TestLines:
    def test_additional_condition_is_permitted(self, path: Path) -> None:
        save_change(edit(path, NARROWED))
        lines = path.read_text().split("\n")
        assert lines[1:3] == ["# 2026-11-25 maria: always fine", NARROWED]

    @pytest.mark.parametrize("after", ["require test before deploy", "limit deploy to 4 per session"])
    def test_new_order_or_limit_is_permitted(self, path: Path, after: str) -> None:
        save_change(edit(path, after, None))
        assert path.read_text().endswith(f"block rm\n# 2026-11-25 maria: always fine\n{after}\n")

    @pytest.mark.parametrize(
        ("line", "after"),
        [
            (2, f"{NARROWED}\nallow unclear bash"),
            (2, f"{NARROWED}\r"),
            (2, 'require human-approval before deploy when input.env != "dev"'),
            (2, 'require human-approval before push within 5m when input.env != "dev"'),
            (2, "# require human-approval before deploy"),
            (2, ""),
            (2, "map bash.command ls as deploy"),
            (2, "require human-approval before deploy within 5m when"),
            (3, 'require human-approval before pay risk high when input.env != "dev"'),
            (4, "block rm when input.path is missing"),
            (1, 'let team = ["ada", "eve"]'),
            (None, "allow unclear bash"),
            (None, "map bash.command ls as rm"),
            (None, 'let team = ["eve"]'),
            (None, "# nothing"),
            (None, "require test before deploy\nmap bash.command ls as test"),
        ],
    )
    def test_other_lines_are_refused(self, path: Path, line: int | None, after: str) -> None:
        """A suggestion may only add a condition to an approval rule, or add an order or a limit."""
        with pytest.raises(RuleEditError):
            save_change(edit(path, after, line))
        assert path.read_text() == RULES


class TestTwoConsoles:
    def test_only_one_console_writes(self, path: Path) -> None:
        """While another console writes in the folder, saving fails; a changed file is refused."""
        change = edit(path, NARROWED)
        found = target(change)
        descriptor = os.open(path.parent, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with pytest.raises(RuleEditError, match="another console writes"):
            save(change, found, by="maria", reason="fine", day=date(2026, 11, 25))
        os.close(descriptor)
        assert path.read_text() == RULES
        save(change, found, by="maria", reason="fine", day=date(2026, 11, 25))
        with pytest.raises(RuleEditError, match="has changed"):
            save(change, found, by="ada", reason="fine", day=date(2026, 11, 25))
