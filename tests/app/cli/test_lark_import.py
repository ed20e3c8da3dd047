"""Interlock's own programs import lark without `regex`, which none of its grammars needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ELSEWHERE = """
import sys
from threading import Thread
from types import ModuleType
from interlock.app.cli.lark_import import keep_lark_small
keep_lark_small()
finder = sys.meta_path[0]
begins = Thread(target=finder.find_spec, args=("lark",))
begins.start()
begins.join()
sys.modules["lark"] = ModuleType("lark")
import regex
print(regex.compile("a").match("a") is not None)
"""


def _modules(*line: str, cwd: Path) -> set[str]:
    """Return the modules that a Python process imports."""
    command = [sys.executable, "-X", "importtime", *line]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=True)
    return {each.rpartition("|")[2].strip() for each in done.stderr.splitlines()}


def _of_regex(modules: set[str]) -> bool:
    # Python also lists the package itself, although its import was refused.
    return any(each.startswith("regex.") for each in modules)


class TestLark:
    def test_comes_without_regex(self, tmp_path: Path) -> None:
        """A command that reads rules imports lark without `regex`; other programs' lark is unchanged."""
        pytest.importorskip("regex")
        (tmp_path / "a.rules").write_text("block rm\n")
        own = _modules("-m", "interlock.app.cli", "check", "a.rules", cwd=tmp_path)
        assert "lark" in own
        assert not _of_regex(own)
        assert _of_regex(_modules("-c", "import interlock.app.cli.lark_import, lark", cwd=tmp_path))

    def test_leaves_regex_to_others(self, tmp_path: Path) -> None:
        """Another thread can import `regex` while lark is being imported."""
        pytest.importorskip("regex")
        line = [sys.executable, "-c", ELSEWHERE]
        done = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path, check=True)
        assert done.stdout == "True\n"
