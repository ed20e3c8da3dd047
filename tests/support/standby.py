"""A database and its standby, which can take over."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from interlock.engine.history.database.location import PostgresLocation
from tests.engine.history.postgres.support.servers import rows, wait_for

from .memory import in_memory
from .ports import free_port
from .postgres import REMEDY, PostgresServer, other_user, own_server


class Pair:
    """A database and its standby, and the location of the one that accepts writes."""

    def __init__(self, primary: PostgresServer, standby: PostgresServer) -> None:
        self.primary = primary
        self.standby = standby
        ports = f"{primary.port},{standby.port}"
        self.location = PostgresLocation(
            f"postgresql:///postgres?user=interlock&host=127.0.0.1,127.0.0.1&port={ports}"
            "&target_session_attrs=read-write",
            "journal",
        )
        self.one = PostgresLocation(primary.url, "journal")
        self.other = PostgresLocation(standby.url, "journal")

    def set(self, location: PostgresLocation, name: str, value: str) -> None:
        rows(location, f"ALTER SYSTEM SET {name} = '{value}'")
        rows(location, "SELECT pg_reload_conf()")

    def attached(self) -> int:
        return int(rows(self.one, "SELECT count(*) FROM pg_stat_replication")[0][0])

    def cut_off(self) -> None:
        """Stop the replication of further acknowledged changes to the standby."""
        self.set(self.other, "primary_conninfo", "")
        wait_for(lambda: self.attached() == 0)

    def caught_up(self) -> bool:
        """Return true if the standby has all changes of the database."""
        lag = "SELECT pg_current_wal_lsn() = replay_lsn FROM pg_stat_replication"
        return rows(self.one, lag) == [(True,)]

    def fail_over(self) -> None:
        """End the database, and promote the standby."""
        self.primary.stop(signal.SIGQUIT)
        assert rows(self.other, "SELECT pg_promote()") == [(True,)]


@contextmanager
def replicated() -> Iterator[Pair]:
    """Provide a database with a standby that follows it. Skips the test without PostgreSQL's programs."""
    found = shutil.which("pg_basebackup") or next(
        Path("/usr/lib/postgresql").glob("*/bin/pg_basebackup"), None
    )
    if found is None:
        pytest.skip(REMEDY)
    with own_server(port=free_port()) as primary, tempfile.TemporaryDirectory(dir=in_memory()) as folder:
        standby = PostgresServer(Path(folder), port=free_port(), durable=True)
        user = other_user()
        if user:
            standby.folder.chmod(0o777)
        source = ["-h", "127.0.0.1", "-p", str(primary.port), "-U", "interlock"]
        subprocess.run(
            [found, *source, "-D", standby.data, "-R", "-X", "stream", "-c", "fast"],
            check=True,
            cwd=folder,
            **user,
        )
        standby.start()
        pair = Pair(primary, standby)
        wait_for(lambda: pair.attached() == 1)
        yield pair
        standby.stop(signal.SIGQUIT)
