"""What every crash needs: a failing disk, a process to fork lives from, and a journal to begin with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.engine.history.journal import Journal
from tests.crash.disk import NoCompilerError, compiled
from tests.crash.host import Host


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
