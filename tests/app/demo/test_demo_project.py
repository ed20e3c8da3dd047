"""The demo's project and its scripts."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.app.demo.agent import FIX
from interlock.app.demo.project import create_project


@pytest.fixture
def project() -> Iterator[Path]:
    """A fresh project, removed afterwards."""
    root = create_project()
    yield root
    shutil.rmtree(root)


def run(project: Path, command: str) -> subprocess.CompletedProcess[str]:
    """Run a command as the agent's tool would."""
    return subprocess.run(
        ["/bin/sh", "-c", command], cwd=project, capture_output=True, text=True, check=False
    )


class TestProject:
    def test_is_a_clean_repository(self, project: Path) -> None:
        """The project is a repository with one commit and no changes."""
        if shutil.which("git") is None:
            pytest.skip("git is missing: apt-get install git")
        assert run(project, "git status --porcelain").stdout == ""
        assert run(project, "git rev-list --count HEAD").stdout.strip() == "1"

    def test_lint_passes(self, project: Path) -> None:
        """The initial code passes lint."""
        done = run(project, "./lint")
        assert (done.returncode, done.stdout) == (0, "lint: 4 files clean\n")

    @pytest.mark.slow
    def test_one_test_fails_until_the_line_is_fixed(self, project: Path) -> None:
        """One test fails until the agent's one-line fix."""
        before = run(project, "./test")
        assert before.returncode == 1
        assert "FAILED (failures=1)" in before.stdout
        assert run(project, FIX).returncode == 0
        after = run(project, "./test")
        assert (after.returncode, after.stdout.split()[-1]) == (0, "OK")

    def test_deploy_leaves_a_mark(self, project: Path) -> None:
        """A deployment leaves a file that records it."""
        assert run(project, "./deploy staging").returncode == 0
        assert len((project / "deployed" / "staging").read_text().splitlines()) == 1

    def test_tests_can_be_slowed_down(self, tmp_path: Path) -> None:
        """The project's tests can be slowed down for a console."""
        assert "sleep 3\n" in (create_project(tmp_path, test_seconds=3) / "test").read_text()

    @pytest.mark.slow
    def test_lint_finds_trailing_blanks(self, project: Path) -> None:
        """Lint fails for trailing blanks."""
        (project / "shop" / "price.py").write_text("x = 1 \n")
        assert run(project, "./lint").returncode == 1
