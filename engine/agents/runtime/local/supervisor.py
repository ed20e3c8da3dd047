"""End of everything that a command has started, wherever it has moved to.

A process that calls `setsid` leaves the group by which a command is killed. On Linux a command therefore
runs below two small processes, `subreaper`, to which the kernel reparents every orphan below them
(`PR_SET_CHILD_SUBREAPER`). They end when nothing below them is alive, with the exit code or the signal of
the command. They kill everything below them when the process or thread that started them ends, and when
the command kills or stops one of them. SIGKILL would end only a supervisor itself, so commands are ended
by `end_all`.

A command that kills both supervisors at once can keep only those processes that have by then left its
session and lost their parent; the others are found by its session, see `CommandSession`. Other systems
have no subreaper: the command's process group is killed, and a process that has left it survives. On no
system are processes ended that another service starts (cron, systemd, Docker). A command that forks
endlessly and faster than it is killed is bounded only by the machine's limits; for commands from hostile
sources, use `SandboxRuntime`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import weakref
from collections.abc import Sequence

from .subreaper import END_SECONDS, LOOK_AGAIN_SECONDS, in_sessions

IS_POSSIBLE = sys.platform == "linux" and bool(sys.executable)
_PLACE = os.path.dirname(__file__)
# Imported by name, its compiled version is used; a program would be compiled at each start.
_PROGRAM = (
    "import sys; sys.path.append(sys.argv[1]); import subreaper; "
    "subreaper.main(int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), sys.argv[5:])"
)


class CommandSession:
    """Session led by a supervised command, known even if both of its supervisors were killed.

    The command's process writes its id into an eventfd and closes it before the command runs. Unlike a
    pipe, an eventfd cannot be opened through /proc.
    """

    def __init__(self) -> None:
        self._number: int | None = None
        self._eventfd: int | None = None
        if IS_POSSIBLE:
            self._eventfd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            self._finalizer = weakref.finalize(self, os.close, self._eventfd)

    @property
    def pass_fds(self) -> tuple[int, ...]:
        """File descriptors to keep open for the supervisor."""
        return () if self._eventfd is None else (self._eventfd,)

    def number(self) -> int | None:
        """Return the session's id, `None` if no command has run. The first call closes the eventfd."""
        if self._eventfd is not None:
            with contextlib.suppress(BlockingIOError):
                self._number = os.eventfd_read(self._eventfd)
            self.close()
        return self._number

    def close(self) -> None:
        """Close the eventfd: an id that was not read is not needed."""
        if self._eventfd is not None:
            self._eventfd = None
            self._finalizer()


def supervise(argv: Sequence[str], session: CommandSession, grace: float = 0.0) -> list[str]:
    """Return the command line that runs `argv` supervised, so that `end_all` ends everything it starts.

    The caller must start it in a new session, with `session.pass_fds`. Processes that `argv` leaves
    behind are killed `grace` seconds after its end. If the program cannot be started, the exit code is
    127 and standard error has the reason.
    """
    if not IS_POSSIBLE:
        return list(argv)
    python = [sys.executable, "-I", "-S", "-c", _PROGRAM]
    return [*python, _PLACE, str(os.getpid()), str(grace), *map(str, session.pass_fds), *argv]


def end_all(pid: int) -> None:
    """Kill the supervised command that runs as process `pid`, and all that it has started.

    Does not wait; the process must not have been reaped.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if IS_POSSIBLE:
            os.killpg(pid, signal.SIGUSR2)
            os.killpg(pid, signal.SIGCONT)
        else:
            os.killpg(pid, signal.SIGKILL)


def terminate(pid: int) -> None:
    """Send SIGTERM to the process group of the supervised command that runs as process `pid`."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if IS_POSSIBLE:
            os.kill(pid, signal.SIGTERM)
        else:
            os.killpg(pid, signal.SIGTERM)


def end_grace(pid: int) -> None:
    """Kill what the supervised command leaves behind as soon as it ends: its output is no longer read."""
    if IS_POSSIBLE:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGUSR1)


def is_stopped(pid: int) -> bool:
    """Return whether the supervisor with process id `pid` is stopped, which only its command does."""
    if not IS_POSSIBLE:
        return False
    with contextlib.suppress(ChildProcessError):
        return os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None
    return False


def end_sessions(pid: int, command: int | None) -> None:
    """Ensure that nothing is left of the sessions of a killed supervisor `pid` and its command.

    The other supervisor ends these processes, or this function if both were killed. Waits at most `2 *
    END_SECONDS`. The process must not have been reaped long ago, because process ids are reused, though
    only after all others.
    """
    if not IS_POSSIBLE:
        return
    kill_at = time.monotonic() + END_SECONDS
    while (now := time.monotonic()) < kill_at + END_SECONDS:
        alive, is_supervised = in_sessions(pid, command)
        if not alive:
            return
        if not is_supervised or now >= kill_at:
            for process in alive:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(process, signal.SIGKILL)
        time.sleep(LOOK_AGAIN_SECONDS)
