"""The end of everything that a command has started, wherever it has moved to.

A process that calls `setsid` leaves the group by which a command is killed. On Linux a command therefore
runs below two small processes, `subreaper`, to which the kernel gives every orphan below them
(`PR_SET_CHILD_SUBREAPER`). They end when nothing below them is alive any more, with the exit code or the
signal of the command. They end all of that when this process or the thread that has started them ends,
and when the command kills or stops one of them. SIGKILL would end a supervisor and nothing else, so
`end_all` is what ends a command.

A command that kills both in one moment is left with what has both left its session and lost its parent by
then: the rest is found by its session, see `CommandSession`. Elsewhere there is no subreaper: the
command's process group is killed, and a process that has left it lives on. Nowhere is anything ended that
another service starts (cron, systemd, Docker), and a command that forks without end and faster than it is
killed is bounded by the limits of the machine only; where commands come from somebody hostile, use
`SandboxRuntime`.
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
# Imported by its name it is read as it was compiled; a program is compiled each time it is started.
_PROGRAM = (
    "import sys; sys.path.append(sys.argv[1]); import subreaper; "
    "subreaper.main(int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), sys.argv[5:])"
)


class CommandSession:
    """Session that a supervised command leads, known also when both of its supervisors were killed.

    The command's process writes its number into an eventfd and closes that before the command runs. An
    eventfd, unlike a pipe, cannot be opened by way of /proc.
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
        """The session's number, `None` where no command has run. The first call closes the eventfd."""
        if self._eventfd is not None:
            with contextlib.suppress(BlockingIOError):
                self._number = os.eventfd_read(self._eventfd)
            self.close()
        return self._number

    def close(self) -> None:
        """Close the eventfd: a number that was not read is not needed."""
        if self._eventfd is not None:
            self._eventfd = None
            self._finalizer()


def supervise(argv: Sequence[str], session: CommandSession, grace: float = 0.0) -> list[str]:
    """Command line that runs `argv` supervised, so that `end_all` ends it and all that it starts.

    This process is to start it in a session of its own, with `session.pass_fds`. What `argv` leaves
    behind is killed `grace` seconds after it ended. A program that cannot be started ends with 127 and
    says why on standard error.
    """
    if not IS_POSSIBLE:
        return list(argv)
    python = [sys.executable, "-I", "-S", "-c", _PROGRAM]
    return [*python, _PLACE, str(os.getpid()), str(grace), *map(str, session.pass_fds), *argv]


def end_all(pid: int) -> None:
    """Kill the supervised command that runs as process `pid`, and all that it has started.

    This does not wait; the process must not be reaped yet.
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
    """Have what the supervised command leaves behind killed at its end: its output is read no more."""
    if IS_POSSIBLE:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGUSR1)


def is_stopped(pid: int) -> bool:
    """Tell whether the supervisor that runs as process `pid` is stopped, which only its command does."""
    if not IS_POSSIBLE:
        return False
    with contextlib.suppress(ChildProcessError):
        return os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None
    return False


def end_sessions(pid: int, command: int | None) -> None:
    """See to it that nothing is left of the sessions of process `pid`, a supervisor that was killed, and
    of its command: the other one ends it, or this does where both were killed. Waits `2 * END_SECONDS` at
    most.

    The process must not be reaped long: numbers come again, though only after all others.
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
