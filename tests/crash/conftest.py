"""What every crash needs: a failing disk, a process to fork lives from, and a journal to begin with."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from interlock.engine.history.journal.journal import Journal

from ..support.memory import in_memory
from .disk import NoCompilerError, compiled
from .host import Host

_passed = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call":
        item.stash[_passed] = report.passed
    return report


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A folder of files as real as any, but that no sync of theirs waits for a disk.

    What they would lose without power is up to `preload.c`, not to the disk. Kept when the test fails.
    """
    folder = Path(tempfile.mkdtemp(prefix="interlock-crash-", dir=in_memory()))
    yield folder
    if request.node.stash.get(_passed, False):
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """Forks processes that have the failing disk preloaded. Skips where it cannot be compiled."""
    try:
        library = compiled(tmp_path_factory.mktemp("disk"))
    except NoCompilerError as reason:
        pytest.skip(str(reason))
    host = Host(library)
    yield host
    host.close()


@pytest.fixture(scope="session")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A journal without sessions, to be copied."""
    path = tmp_path_factory.mktemp("empty") / "journal.db"
    Journal.open(path).close()
    return path
