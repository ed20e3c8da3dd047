"""What every crash needs: a failing disk, a process to fork lives from, and a journal to begin with."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from interlock.engine.history.journal.journal import Journal

from .disk import NoCompilerError, compiled
from .host import Host

MEMORY = Path("/dev/shm")
ROOM = 1 << 30
"""Bytes that must be free there."""
_passed = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call":
        item.stash[_passed] = report.passed
    return report


def in_memory() -> Path | None:
    """Where files are in memory, if there is such a place and room in it."""
    try:
        free = os.statvfs(MEMORY)
    except OSError:
        return None
    roomy = free.f_bavail * free.f_frsize >= ROOM and os.access(MEMORY, os.W_OK | os.X_OK)
    return MEMORY if roomy else None


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
