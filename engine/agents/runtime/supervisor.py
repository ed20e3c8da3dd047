"""The end of everything that a command has started, wherever it has moved to.

A process that calls `setsid` leaves the group by which a command is killed. On Linux a command therefore
runs below a small process, `subreaper`, to which the kernel gives every orphan below it
(`PR_SET_CHILD_SUBREAPER`). It ends when nothing below it is alive any more, with the exit code or the
signal of the command, and it ends all of that when this process or the thread that has started it ends.
SIGKILL would end the supervisor and nothing else, so `end_all` is what ends a command.

Elsewhere there is no subreaper: the command's process group is killed, and a process that has left it
lives on. Nowhere is anything ended that another service starts (cron, systemd, Docker) or whose command
killed its supervisor before; where commands come from somebody hostile, use `SandboxRuntime`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Sequence

IS_POSSIBLE = sys.platform == "linux" and bool(sys.executable)
_PLACE = os.path.dirname(__file__)
# Imported by its name it is read as it was compiled; a program is compiled each time it is started.
_PROGRAM = (
    "import sys; sys.path.append(sys.argv[1]); import subreaper; "
    "subreaper.main(int(sys.argv[2]), float(sys.argv[3]), sys.argv[4:])"
)


def supervise(argv: Sequence[str], grace: float = 0.0) -> list[str]:
    """What this process is to start, in a session of its own, so that `end_all` ends `argv` and all that
    it starts.

    What `argv` leaves behind is killed `grace` seconds after it ended. A program that cannot be started
    ends with 127 and says why on standard error.
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
            os.kill(pid, signal.SIGUSR2)
            os.kill(pid, signal.SIGCONT)
        else:
            os.killpg(pid, signal.SIGKILL)


def end_grace(pid: int) -> None:
    """What the supervised command leaves behind is killed at its end: nobody hears it any more."""
    if IS_POSSIBLE:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGUSR1)
