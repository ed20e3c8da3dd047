"""Fixtures for every crash test: a failing disk, a process to fork lives from, and an empty journal."""

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
    """Provide a folder with real files whose syncs do not wait for a disk.

    What a power loss discards is determined by `preload.c`, not by the disk. Kept if the test fails.
    """
    folder = Path(tempfile.mkdtemp(prefix="interlock-crash-", dir=in_memory()))
    yield folder
    if request.node.stash.get(_passed, False):
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """Provide a host that forks processes with the failing disk preloaded.

    Skips if it cannot be compiled.
    """
    try:
        library = compiled(tmp_path_factory.mktemp("disk"))
    except NoCompilerError as reason:
        pytest.skip(str(reason))
    host = Host(library)
    yield host
    host.close()


@pytest.fixture(scope="session")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a journal without sessions, to be copied."""
    path = tmp_path_factory.mktemp("empty") / "journal.db"
    Journal.open(path).close()
    return path
