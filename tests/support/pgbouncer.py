"""A PgBouncer of the tests in front of a PostgreSQL, for one pool mode."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from interlock.engine.history.database.location import Pooling

from .memory import in_memory
from .postgres import STARTS_WITHIN, PostgresServer, other_user

REMEDY = "needs PgBouncer: apt install pgbouncer"


@contextmanager
def pooler(database: PostgresServer, mode: Pooling, *settings: str) -> Iterator[str]:
    """Provide the URL parameters of a pooler in front of a database. Skips the test without PgBouncer."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip(REMEDY)
    with tempfile.TemporaryDirectory(prefix="interlock-pool-", dir=in_memory()) as text:
        folder = Path(text)
        (folder / "users").write_text('"interlock" ""\n')
        lines = (
            "[databases]",
            f"postgres = host={database.folder} port={database.port or 5432}",
            "[pgbouncer]",
            "listen_addr =",
            "listen_port = 6432",
            f"unix_socket_dir = {folder}",
            "auth_type = trust",
            f"auth_file = {folder / 'users'}",
            f"pool_mode = {mode}",
            "max_client_conn = 200",
            "default_pool_size = 20",
            *settings,
        )
        (folder / "pgbouncer.ini").write_text("\n".join(lines) + "\n")
        user = other_user()
        if user:
            for each in (folder, *folder.iterdir()):
                os.chown(each, user["user"], user["group"])
        log = (folder / "log").open("wb")
        process = subprocess.Popen(
            [program, str(folder / "pgbouncer.ini")], stdout=log, stderr=log, cwd=folder, **user
        )
        try:
            until = time.monotonic() + STARTS_WITHIN
            while not _listens(folder / ".s.PGSQL.6432"):
                assert process.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < until, "PgBouncer does not listen"
                time.sleep(0.02)
            yield f"host={folder}&port=6432"
        finally:
            process.terminate()
            process.wait()
            log.close()


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as found, suppress(OSError):
        found.connect(str(path))
        return True
    return False
