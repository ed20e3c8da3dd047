"""Tests run in several processes: each once, with what came of it told, also where one dies."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CONFTEST = """
from tests.support import processes

pytest_addoption = processes.add_option
pytest_configure = processes.install
"""
MANY = """
import os
import pytest

@pytest.mark.parametrize("number", range({count}))
def test_each(number, tmp_path):
    with open({log!r}, "a") as log:
        print({name!r}, number, os.getpid(), tmp_path, file=log)
"""
DIES = """
import os

def test_before():
    print("before")

def test_dies():
    os._exit(7)

def test_after():
    print("after")
"""
FAILS = """
import sys
import warnings

STREAM = sys.stdout

def test_fails():
    print("what was printed")
    print("to a stream that was kept", file=STREAM)
    assert len("a") == 2

def test_warns():
    warnings.warn("beware")
"""


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(CONFTEST)
    here = Path(__file__).parents[1]
    line = [sys.executable, "-m", "pytest", "--processes", "2", "-p", "no:cacheprovider", *options]
    environ = {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": str(here),
        # Of which these tests need none.
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    return subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False, env=environ)


class TestProcesses:
    def test_each_is_run_once(self, tmp_path: Path) -> None:
        """Also those that one process takes over from another, each with a folder of its own."""
        log = tmp_path / "log"
        for name, count in (("one", 40), ("two", 3)):
            code = MANY.format(count=count, log=str(log), name=name)
            (tmp_path / f"test_{name}.py").write_text(code)
        ran = run(tmp_path)
        assert "43 passed" in ran.stdout, ran.stdout + ran.stderr
        assert ran.returncode == 0
        lines = [line.split() for line in log.read_text().splitlines()]
        expected = {*(("one", str(n)) for n in range(40)), *(("two", str(n)) for n in range(3))}
        assert len(lines) == len(expected)
        assert {(name, number) for name, number, _, _ in lines} == expected
        assert len({pid for _, _, pid, _ in lines}) == 2
        assert len({folder for _, _, _, folder in lines}) == len(lines)

    def test_a_failure_is_told(self, tmp_path: Path) -> None:
        """With what the test printed and what it compared; warnings are listed."""
        (tmp_path / "test_it.py").write_text(FAILS)
        ran = run(tmp_path, "--junit-xml", "it.xml")
        assert ran.returncode == 1
        for text in (
            *(
                "what was printed",
                "to a stream that was kept",
                "assert 1 == 2\nE        +  where 1 = len('a')",
                "beware",
            ),
            "1 failed, 1 passed, 1 warning",
        ):
            assert text in ran.stdout, ran.stdout + ran.stderr
        assert 'failures="1"' in (tmp_path / "it.xml").read_text()

    def test_the_rest_is_run_when_one_dies(self, tmp_path: Path) -> None:
        """The test in which a process ends has failed; those that it had before it are run elsewhere."""
        (tmp_path / "test_it.py").write_text(DIES)
        ran = run(tmp_path)
        assert ran.returncode == 1
        assert "its process ended with 7 in this test" in ran.stdout
        assert "1 failed, 2 passed" in ran.stdout, ran.stdout + ran.stderr

    def test_it_stops_where_it_is_told_to(self, tmp_path: Path) -> None:
        """After so many failures no further test is handed out."""
        (tmp_path / "test_it.py").write_text("def test_fails():\n    assert 0\n")
        (tmp_path / "test_later.py").write_text(
            "import time\n" + "".join(f"def test_{n}():\n    time.sleep(0.2)\n" for n in range(50))
        )
        ran = run(tmp_path, "-x")
        assert ran.returncode == 1
        assert "stopping after 1 failures" in ran.stdout, ran.stdout + ran.stderr
