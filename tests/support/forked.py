"""Python processes that start as forks of a process which has already imported a program's modules.

`python_with("acp.schema")` replaces `sys.executable` in a command; it is followed by `-c CODE`, `-m
MODULE` or a file, and the program's own arguments. The started program, `forked_start`, passes these, its
environment, its directory and its three streams to the process that has imported everything, and ends as
the fork ends. If it is killed, so are the fork and its process group.

Not suitable for testing a start itself, terminals or process groups: a fork has its own session.
"""

from __future__ import annotations

import atexit
import gc
import marshal
import os
import random
import runpy
import selectors
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType

HUB = (
    "alembic.command",
    "alembic.config",
    "interlock.engine.hub.hub",
    "interlock.engine.history.journal.file_schema",
    "interlock.engine.history.journal.writer",
    "interlock.rules",
    "sqlalchemy",
)
"""Modules imported by a program with a hub on a new journal, many of them only when needed."""
COMMANDS = (
    *HUB,
    "interlock.app.cli.main",
    "interlock.app.config.loader",
    "interlock.app.hosting.headless",
)
"""Modules imported by commands without a screen; use with `-m interlock.app.cli`."""
START = Path(__file__).with_name("forked_start.py")

_servers: dict[tuple[str, ...], tuple[subprocess.Popen[bytes], str]] = {}


def python_with(*modules: str) -> list[str]:
    """Return the beginning of a command that runs Python with `modules` imported.

    The process that has imported them is started once, and ends with this one.
    """
    server, path = _servers.get(modules, (None, ""))
    if server is None or server.poll() is not None:
        _servers[modules] = server, path = _begin(modules)
    return [sys.executable, "-S", "-E", "-I", str(START), path]


def put_interlock(folder: Path) -> None:
    """Write an `interlock` program into a new folder; it forks a process that has imported Interlock."""
    folder.mkdir()
    start = shlex.join([*python_with(*COMMANDS), "-m", "interlock.app.cli"])
    (folder / "interlock").write_text(f'#!/bin/sh\nexec {start} "$@"\n', encoding="utf-8")
    (folder / "interlock").chmod(0o755)


def _begin(modules: tuple[str, ...]) -> tuple[subprocess.Popen[bytes], str]:
    path = str(Path(tempfile.mkdtemp(prefix="forked-")) / "s")
    server = subprocess.Popen(
        [sys.executable, "-P", __file__, path, *modules],
        cwd=START.parent,  # the current directory of a test may be removed before the last fork
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert server.stdout is not None
    if server.stdout.readline() != b"ready\n":
        raise AssertionError(f"no process with {', '.join(modules)}: it ended with {server.wait()}")
    atexit.register(_end, server)
    return server, path


def _end(server: subprocess.Popen[bytes]) -> None:
    server.communicate()


@dataclass(frozen=True, slots=True)
class Asked:
    """A requested start: the arguments after `python`, directory, environment and streams."""

    words: list[str]
    directory: str
    environ: dict[str, str]
    streams: list[int]

    @classmethod
    def of(cls, start: socket.socket) -> Asked | None:
        """Read a requested start; `None` if the requesting process was killed in between."""
        length, streams, _, _ = socket.recv_fds(start, 8, 3)
        said, missing = b"", int.from_bytes(length, "big")
        while missing and (more := start.recv(missing)):
            said, missing = said + more, missing - len(more)
        if missing or len(streams) != 3:
            for stream in streams:
                os.close(stream)
            return None
        words, directory, environ = marshal.loads(said)
        return cls(words, directory, environ, streams)

    def take_over(self) -> None:
        """Adopt the requested directory, environment and streams."""
        os.setsid()
        for number, stream in enumerate(self.streams):
            os.dup2(stream, number)
            os.close(stream)
        os.chdir(self.directory)
        os.environ.clear()
        os.environ.update(self.environ)
        random.seed()

    def run(self) -> None:
        """Run the program as Python would."""
        match self.words:
            case ["-c", code, *rest]:
                sys.argv = ["-c", *rest]
                main = sys.modules["__main__"] = ModuleType("__main__")
                exec(compile(code, "<string>", "exec"), vars(main))
            case ["-m", module, *rest]:
                sys.argv = [module, *rest]
                # It runs as the main module, instead of being found among imported ones.
                sys.modules.pop(module, None)
                runpy.run_module(module, run_name="__main__", alter_sys=True)
            case [file, *rest]:
                sys.argv = [file, *rest]
                runpy.run_path(file, run_name="__main__")
            case _:
                raise ValueError("no program was named")


class Forking:
    """The process that has imported everything.

    `fork` returns only in forks, with the requested start.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._starts: dict[int, socket.socket] = {}
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(path)
        self._listener.listen(64)
        self._ended, self._ending = socket.socketpair()
        self._ending.setblocking(False)
        signal.set_wakeup_fd(self._ending.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # The tests handle Ctrl+C; this ends with them.
        self._waiting = selectors.DefaultSelector()
        for each in (0, self._listener, self._ended):
            self._waiting.register(each, selectors.EVENT_READ)

    def fork(self) -> Asked:
        while True:
            for key, _ in self._waiting.select():
                if key.fileobj == 0:
                    self._end()
                elif key.fileobj is self._listener:
                    if (asked := self._fork()) is not None:
                        return asked
                elif key.fileobj is self._ended:
                    self._ended.recv(4096)
                    self._tell_ends()
                else:
                    # The requesting process sends nothing more, so this means that it was killed.
                    self._waiting.unregister(key.fileobj)
                    if key.data in self._starts:
                        _kill(key.data)

    def _fork(self) -> Asked | None:
        start = self._listener.accept()[0]
        asked = Asked.of(start)
        if asked is None:
            start.close()
            return None
        pid = os.fork()
        if pid == 0:
            self._forget(start)
            return asked
        for stream in asked.streams:
            os.close(stream)
        self._starts[pid] = start
        self._waiting.register(start, selectors.EVENT_READ, pid)
        _tell(start, pid)
        return None

    def _forget(self, start: socket.socket) -> None:
        """In a fork: close everything that belongs to this process."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self._waiting.close()
        for each in (start, self._listener, self._ended, self._ending, *self._starts.values()):
            each.close()

    def _tell_ends(self) -> None:
        """Report to each requesting process how its fork has ended."""
        for pid in list(self._starts):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                start = self._starts.pop(pid)
                with suppress(KeyError):
                    self._waiting.unregister(start)
                _tell(start, status)
                start.close()

    def _end(self) -> None:
        for pid in self._starts:
            _kill(pid)
        shutil.rmtree(Path(self._path).parent, ignore_errors=True)
        os._exit(0)


def _tell(start: socket.socket, number: int) -> None:
    with suppress(OSError):
        start.sendall(number.to_bytes(8, "big"))


def _kill(pid: int) -> None:
    """Kill a fork with its process group; a fork that has no group yet is killed alone."""
    for kill in (os.killpg, os.kill):
        with suppress(ProcessLookupError):
            kill(pid, signal.SIGKILL)


def serve(path: str, modules: Sequence[str]) -> None:
    for name in modules:
        import_module(name)
    gc.collect()
    gc.freeze()
    forking = Forking(path)
    print("ready", flush=True)
    asked = forking.fork()
    asked.take_over()
    code: object = 1
    try:
        asked.run()
        code = 0
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        traceback.print_exc()
    _leave(code)


def _leave(code: object) -> None:
    """Exit like Python, but without tearing down imported modules: that takes longer than a start."""
    if not isinstance(code, int | None):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code or 0)


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2:])
