"""The end of everything that a command has started, wherever it has moved to.

A process that calls `setsid` leaves the group by which a command is killed. On Linux a command therefore
runs below two small processes, `subreaper`, to which the kernel gives every orphan below them
(`PR_SET_CHILD_SUBREAPER`). They end when nothing below them is alive any more, with the exit code or the
signal of the command. They end all of that when this process or the thread that has started them ends,
and when the command kills or stops one of them. SIGKILL would end a supervisor and nothing else, so
`end_all` is what ends a command.

A command that kills both in one moment is left with what has both left its session and lost its parent by
then: the rest is found by the session. Elsewhere there is no subreaper: the command's process group is
killed, and a process that has left it lives on. Nowhere is anything ended that another service starts
(cron, systemd, Docker), and a command that forks without end and faster than it is killed is bounded by
the limits of the machine only; where commands come from somebody hostile, use `SandboxRuntime`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Sequence

from .subreaper import END_SECONDS, LOOK_AGAIN_SECONDS, in_session

IS_POSSIBLE = sys.platform == "linux" and bool(sys.executable)
_PLACE = os.path.dirname(__file__)
# Imported by its name it is read as it was compiled; a program is compiled each time it is started.
_PROGRAM = (
    "import sys; sys.path.append(sys.argv[1]); import subreaper; "
    "subreaper.main(int(sys.argv[2]), float(sys.argv[3]), sys.argv[4:])"
)


def supervise(argv: Sequence[str], grace: float = 0.0) -> list[str]:
    """Command line that runs `argv` supervised, so that `end_all` ends it and all that it starts.

    This process is to start it in a session of its own. What `argv` leaves behind is killed `grace`
    seconds after it ended. A program that cannot be started ends with 127 and says why on standard error.
    """
    if not IS_POSSIBLE:
        return list(argv)
    python = [sys.executable, "-I", "-S", "-c", _PROGRAM]
    return [*python, _PLACE, str(os.getpid()), str(grace), *argv]


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


def end_session(pid: int) -> None:
    """See to it that nothing is left of the session of process `pid`, a supervisor that was killed: the
    other one ends it, or this does where both were killed. Waits `2 * END_SECONDS` at most.

    The process must not be reaped long: numbers come again, though only after all others.
    """
    if not IS_POSSIBLE:
        return
    kill_at = time.monotonic() + END_SECONDS
    while (now := time.monotonic()) < kill_at + END_SECONDS:
        alive, is_supervised = in_session(pid)
        if not alive:
            return
        if not is_supervised or now >= kill_at:
            for process in alive:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(process, signal.SIGKILL)
        time.sleep(LOOK_AGAIN_SECONDS)
