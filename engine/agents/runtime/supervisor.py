"""The end of everything that a command has started, wherever it has moved to.

A process that calls `setsid` leaves the group by which a command is killed. On Linux a command therefore
runs below a small process, this file run as a program, to which the kernel gives every orphan below it
(`PR_SET_CHILD_SUBREAPER`). It ends when nothing below it is alive any more, with the exit code or the
signal of the command. SIGTERM, SIGINT and SIGHUP go on to the command's process group; SIGKILL would end
the supervisor and nothing else, so `end_all` is what ends a command.

Elsewhere there is no subreaper: the command's process group is killed, and a process that has left it
lives on. Nowhere is anything ended that another service starts (cron, systemd, Docker) or whose command
killed its supervisor before; where commands come from somebody hostile, use `SandboxRuntime`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable, Sequence

IS_POSSIBLE = sys.platform == "linux" and bool(sys.executable)
END_SECONDS = 1.0
"""How long killed processes are waited for: those of another user cannot be killed, for one."""
LOOK_AGAIN_SECONDS = 0.01
PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 4, 36
CANNOT_START = 127


def supervise(argv: Sequence[str], grace: float = 0.0) -> list[str]:
    """What to start, in a session of its own, so that `end_all` can end `argv` and all that it starts.

    What `argv` leaves behind is killed `grace` seconds after it ended. A program that cannot be started
    ends with 127 and says why on standard error.
    """
    if not IS_POSSIBLE:
        return list(argv)
    return [sys.executable, "-I", "-S", __file__, str(grace), *argv]


def end_all(pid: int) -> None:
    """Kill the supervised command that runs as process `pid`, and all that it has started.

    This does not wait; the process must not be reaped yet.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if sys.platform == "linux" and IS_POSSIBLE:
            os.kill(pid, signal.SIGUSR2)
            os.kill(pid, signal.SIGCONT)
        else:
            os.killpg(pid, signal.SIGKILL)


def end_grace(pid: int) -> None:
    """What the supervised command leaves behind is killed at its end: nobody hears it any more."""
    if sys.platform == "linux" and IS_POSSIBLE:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGUSR1)


if sys.platform == "linux":
    FORWARDED = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
    HEARD = FORWARDED | {signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD}

    class Supervisor:
        """The process above a command."""

        def __init__(self, command: int, grace: float) -> None:
            self._command = command
            self._grace = grace
            self._status: int | None = None
            self._kill_at: float | None = None
            self._give_up_at: float | None = None

        def supervise(self) -> int:
            """Wait until everything has ended; the command's status as `os.wait` gives it."""
            while self._reap():
                now = time.monotonic()
                if self._kill_at is not None and now >= self._kill_at:
                    self._give_up_at = self._give_up_at or now + END_SECONDS
                    if now >= self._give_up_at:
                        break
                    for process in descendants(os.getpid()):
                        with contextlib.suppress(ProcessLookupError, PermissionError):
                            os.kill(process, signal.SIGKILL)
                    self._hear(LOOK_AGAIN_SECONDS)
                else:
                    self._hear(None if self._kill_at is None else self._kill_at - now)
            return signal.SIGKILL if self._status is None else self._status

        def _reap(self) -> bool:
            """Take the status of those who have ended; whether anybody is left."""
            while True:
                try:
                    process, status = os.waitpid(-1, os.WNOHANG)
                except ChildProcessError:
                    return False
                if process == 0:
                    return True
                if process == self._command:
                    self._status = status
                    self._kill_at = self._kill_at or time.monotonic() + self._grace

        def _hear(self, seconds: float | None) -> None:
            """Wait for a signal, and do what it says."""
            if seconds is None:
                number = signal.sigwaitinfo(HEARD).si_signo
            elif (heard := signal.sigtimedwait(HEARD, max(seconds, 0))) is not None:
                number = heard.si_signo
            else:
                return
            if number in FORWARDED and self._status is None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._command, number)
            elif number == signal.SIGUSR1:
                self._grace = 0.0
                self._kill_at = self._kill_at if self._status is None else time.monotonic()
            elif number == signal.SIGUSR2:
                self._kill_at = time.monotonic()

    def main() -> None:
        """Run the command of this process's arguments below it, and end as it does."""
        import ctypes

        grace, *argv = sys.argv[1:]
        kernel = ctypes.CDLL(None)
        kernel.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
        command = os.fork()
        if command == 0:
            _become(argv, mask)
        silence = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silence, stream)
        status = os.waitstatus_to_exitcode(Supervisor(command, float(grace)).supervise())
        if status >= 0:
            os._exit(status)
        kernel.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
        with contextlib.suppress(OSError):
            signal.signal(-status, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {-status})
        os.kill(os.getpid(), -status)
        os._exit(128 - status)

    def _become(argv: list[str], mask: Iterable[int]) -> None:
        """Become the command, with the environment and the signals that this process was started with."""
        try:
            os.setsid()
            for number in (signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            # The interpreter itself may have added to os.environ (PEP 538).
            with open("/proc/self/environ", "rb") as file:
                variables = [each.partition(b"=") for each in file.read().split(b"\0") if each]
            os.execvpe(argv[0], argv, {name: value for name, _, value in variables})
        except OSError as error:
            os.write(2, f"Cannot start {argv[0]}: {error.strerror}\n".encode())
        finally:
            os._exit(CANNOT_START)

    def descendants(pid: int) -> list[int]:
        """The processes below `pid`, as far as one look at all processes tells."""
        children: dict[int, list[int]] = {}
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                # A program's name stands before, in parentheses, and may hold anything.
                parent = int(file.read().rpartition(b")")[2].split()[1])
                children.setdefault(parent, []).append(int(name))
        found = list(children.get(pid, ()))
        for process in found:
            found += children.get(process, ())
        return found

    if __name__ == "__main__":
        main()
