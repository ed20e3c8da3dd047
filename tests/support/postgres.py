"""A PostgreSQL server of the tests, from this machine's programs, and schemas in it.

All processes of a pytest run share a server. The first that needs it starts it, as a user permitted to do
so. It ends when the last process has ended, however that ended.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from interlock.engine.history.database import location
from interlock.engine.history.database.location import Location, PostgresLocation
from interlock.engine.history.postgres.pool import close_idle

from .memory import in_memory
from .networks import Machine

if TYPE_CHECKING:
    from psycopg import Connection

REMEDY = "needs PostgreSQL's server: apt install postgresql"
STARTS_WITHIN = 60.0
_DEBIAN = Path("/usr/lib/postgresql")
_QUICK = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
_ALWAYS = {
    "max_connections": "200",
    "shared_buffers": "32MB",
    "dynamic_shared_memory_type": "mmap",
    "autovacuum": "off",
    "timezone": "UTC",
}
_USER = "interlock"


@cache
def programs() -> Path | None:
    """Return the folder of `initdb` and `postgres`, of the newest version."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).parent

    def version(folder: Path) -> float:
        with suppress(ValueError):
            return float(folder.name)
        return 0.0

    folders = sorted(_DEBIAN.glob("*"), key=version, reverse=True) if _DEBIAN.is_dir() else []
    return next((each / "bin" for each in folders if (each / "bin" / "initdb").exists()), None)


def other_user() -> dict[str, Any]:
    """Return the arguments that run a process as an unprivileged user, which PostgreSQL requires."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


class PostgresServer:
    """A server in its own folder, reached by a socket in that folder and, with a `port`, at 127.0.0.1.

    A server on a `machine` is reached there at all addresses, from every machine with a cable to it.
    """

    def __init__(
        self,
        folder: Path,
        *,
        port: int | None = None,
        durable: bool = False,
        machine: Machine | None = None,
    ) -> None:
        self.folder = folder
        self.port = port
        self._durable = durable
        self._machine = machine
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def url(self) -> str:
        """URL of its database."""
        if self.port is None or self._machine is not None:
            port = f"&port={self.port}" if self.port is not None else ""
            return f"postgresql://{_USER}@/postgres?host={self.folder}{port}"
        return f"postgresql://{_USER}@127.0.0.1:{self.port}/postgres"

    def make(self) -> None:
        """Create its files."""
        found = programs()
        assert found is not None, REMEDY
        user = other_user()
        if user:
            os.chown(self.folder, user["user"], user["group"])
        options = ["--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C", f"--username={_USER}"]
        subprocess.run(
            [found / "initdb", *options, "-D", self.data],
            check=True,
            capture_output=True,
            cwd=self.folder,
            **user,
        )
        if self._machine is not None:
            with (self.data / "pg_hba.conf").open("a") as file:
                file.write("host all all all trust\n")

    def start(self, **settings: str) -> None:
        """Start it, and wait until it accepts connections."""
        command, user = self.command(**settings), other_user()
        if self._machine is not None:  # entering a namespace requires root
            command, user = self._machine.command(command, user["user"], user["group"]), {}
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=(self.folder / "log").open("ab"),
            cwd=self.folder,
            start_new_session=True,
            **user,
        )
        self.wait()

    def command(self, **settings: str) -> list[str]:
        """Command that runs it until it is ended."""
        found = programs()
        assert found is not None, REMEDY
        given = {**_ALWAYS, **({} if self._durable else _QUICK), **settings}
        given["unix_socket_directories"] = str(self.folder)
        given["listen_addresses"] = "" if self.port is None else "127.0.0.1"
        if self._machine is not None:
            given["listen_addresses"] = "*"
        command = [str(found / "postgres"), "-D", str(self.data)]
        command += ["-p", str(self.port or 5432)]
        for name, value in given.items():
            command += ["-c", f"{name}={value}"]
        return command

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop all its processes (SIGSTOP) while the context is open; then they continue."""
        assert self._process is not None
        pid = self._process.pid
        processes = [pid]
        _signal_all(processes, signal.SIGSTOP)
        try:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            processes += [int(each) for each in children]
            _signal_all(processes, signal.SIGSTOP)
            yield
        finally:
            _signal_all(processes, signal.SIGCONT)

    @contextmanager
    def away(self) -> Iterator[None]:
        """End it while the context is open; then start it again."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    def wait(self) -> None:
        """Wait until it accepts connections."""
        import psycopg

        until = time.monotonic() + STARTS_WITHIN
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=5).close()
            except psycopg.OperationalError as error:
                ended = self._process is not None and self._process.poll() is not None
                if ended or time.monotonic() > until:
                    log = self.folder / "log"
                    said = log.read_text("utf-8", "replace")[-2000:] if log.exists() else ""
                    raise RuntimeError(f"PostgreSQL did not start: {error}\n{said}") from error
                time.sleep(0.05)
            else:
                return

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it: SIGINT ends transactions first; SIGQUIT ends it at once, as after a crash."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait()
            self._process = None


def _signal_all(processes: list[int], number: signal.Signals) -> None:
    for each in processes:
        with suppress(ProcessLookupError):
            os.kill(each, number)


@contextmanager
def own_server(
    *, port: int | None = None, durable: bool = True, machine: Machine | None = None
) -> Iterator[PostgresServer]:
    """Provide a running server that a test may end and restart. Skips the test without the programs."""
    if programs() is None:
        pytest.skip(REMEDY)
    with tempfile.TemporaryDirectory(prefix="interlock-pg-", dir=in_memory()) as folder:
        server = PostgresServer(Path(folder), port=port, durable=durable, machine=machine)
        server.make()
        server.start()
        try:
            yield server
        finally:
            server.stop()


# The server shared by all processes of a run

_KEEPER = """
"$@" </dev/null >/dev/null 2>>"$0/log" &
server=$!
cat >/dev/null
kill -INT $server
wait $server
rm -rf "$0" "$0.lock"
"""
"""Runs the server until no process has the pipe `users` open."""

_pipe: int | None = None


@cache
def shared_server() -> PostgresServer:
    """Return the server of this pytest run. Skips the test without PostgreSQL's programs."""
    global _pipe  # noqa: PLW0603 - it is open as long as this process lives
    if programs() is None:
        pytest.skip(REMEDY)
    runs = map(os.environ.get, ("INTERLOCK_TEST_RUN", "PYTEST_XDIST_TESTRUNUID"))
    run = next(filter(None, runs), str(os.getpid()))
    folder = (in_memory() or Path(tempfile.gettempdir())) / f"interlock-pg-{run[:12]}"
    lock = os.open(f"{folder}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if user := other_user():
            os.fchown(lock, user["user"], user["group"])
        server = PostgresServer(folder)
        users = folder / "users"
        with suppress(OSError):  # no reader: the server is not running, or is just ending
            _pipe = os.open(users, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if _pipe is None:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(0o755)
            server.make()
            os.mkfifo(users, 0o666)
            end = os.open(users, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            _pipe = os.open(users, os.O_WRONLY | os.O_CLOEXEC)
            os.set_blocking(end, True)
            subprocess.Popen(
                ["/bin/sh", "-c", _KEEPER, str(folder), *server.command()],
                stdin=end,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=folder,
                start_new_session=True,
                **other_user(),
            )
            os.close(end)
        server.wait()
    finally:
        os.close(lock)
    return server


@cache
def _administration() -> Connection[tuple[Any, ...]]:
    import psycopg

    return psycopg.connect(shared_server().url, autocommit=True, options="-c lock_timeout=2000")


_numbers = count(1)


def fresh_location() -> PostgresLocation:
    """Return the location of a new schema in this run's server."""
    return PostgresLocation(shared_server().url, f"t{os.getpid()}_{next(_numbers)}")


def drop(schema: PostgresLocation) -> None:
    """Remove a schema, and close the connections kept for it."""
    close_idle(schema)
    _administration().execute(f"DROP SCHEMA IF EXISTS {schema.schema} CASCADE".encode())


# Tests that name files: use PostgreSQL for their journals instead

SWITCH = "INTERLOCK_TEST_DATABASE"
_on = os.environ.get(SWITCH) == "postgresql"  # cleared for tests of the command line
_MOST_IN_USE = 20
"""Number of schemas whose connections are kept: the server has about two hundred for all processes."""
_mapped: dict[Path, PostgresLocation] = {}


def is_on() -> bool:
    """Return whether all tests of this run keep their journals in PostgreSQL."""
    return _on


def map_files(root: Callable[[], Path]) -> None:
    """Replace each file that a test names as a journal, below a folder, by a schema.

    Only in this process: other processes still open files.
    """
    known = location.location_of

    def mapped(text: str | Path | PostgresLocation) -> Location:
        found = known(text)
        if not isinstance(found, Path):
            return found
        path = found.absolute()
        if not path.is_relative_to(root()):
            return found
        if path not in _mapped:
            for older in [*_mapped.values()][:-_MOST_IN_USE]:
                close_idle(older)
            _mapped[path] = fresh_location()
        return _mapped[path]

    location.location_of = mapped


def named(place: str | Path | PostgresLocation) -> str:
    """Return a location as typed on a command line, also for another process."""
    found = location.location_of(place)
    if isinstance(found, Path):
        return str(found)
    return f"{found.url}{'&' if '?' in found.url else '?'}schema={found.schema}"


def end_killed(place: Path) -> None:
    """Mark the servers of a database as ended, as another server does after their leases expire.

    A file is free at once when the process that had it is killed.
    """
    found = location.location_of(place)
    if isinstance(found, PostgresLocation):
        statement = f"UPDATE {found.schema}.server SET ended = lease WHERE ended IS NULL"
        _administration().execute(statement.encode())


def remove_journal(path: Path) -> None:
    """Remove a journal completely."""
    found = location.location_of(path)
    if isinstance(found, PostgresLocation):
        drop(found)
    else:
        path.unlink()


def drop_below(folder: Path) -> None:
    """Remove the schemas that stand for the files below a folder."""
    for path in [each for each in _mapped if each.is_relative_to(folder)]:
        with suppress(Exception):  # a schema still in use is removed with the server
            drop(_mapped.pop(path))


@contextmanager
def fresh_schema() -> Iterator[PostgresLocation]:
    """Provide a schema for a test, and remove it afterwards."""
    schema = fresh_location()
    try:
        yield schema
    finally:
        drop(schema)
