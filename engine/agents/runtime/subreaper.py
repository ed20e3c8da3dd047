"""The process above a command, a program of its own: it ends when nothing below it is alive any more.

It is started once for each command and imports as little as it can: every import is time that a command
takes longer. It runs on Linux only.
"""

import ctypes
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Iterable
else:
    # Without the enums around it, which take almost as long as the interpreter itself.
    import _signal as signal

END_SECONDS = 1.0
"""How long killed processes are waited for: those of another user cannot be killed, for one."""
LOOK_AGAIN_SECONDS = 0.01
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 1, 4, 36
CANNOT_START = 127

FORWARDED = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
HEARD = FORWARDED | {signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD}


def main(parent: int, grace: float, argv: list[str]) -> None:
    """Run the command `argv` below this process, and end as it does; end it when `parent` ends.

    What the command leaves behind is killed `grace` seconds after it ended. SIGTERM, SIGINT and SIGHUP
    go on to its process group, SIGUSR1 takes the grace away, SIGUSR2 kills everything.
    """
    kernel = ctypes.CDLL(None)
    # No signal of the command's ends this process, except for SIGKILL.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    kernel.prctl(PR_SET_PDEATHSIG, int(signal.SIGUSR2), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(128 + signal.SIGKILL)
    kernel.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    command = os.fork()
    if command == 0:
        _become(argv, mask)
    silence = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silence, stream)
    status = os.waitstatus_to_exitcode(_Watch(command, grace).over())
    if status >= 0:
        os._exit(status)
    kernel.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    if -status != signal.SIGKILL:
        signal.signal(-status, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {-status})
    os.kill(os.getpid(), -status)
    os._exit(128 - status)


class _Watch:
    """What is known of a command and those below it."""

    def __init__(self, command: int, grace: float) -> None:
        self._command = command
        self._grace = grace
        self._status: int | None = None
        self._kill_at: float | None = None

    def over(self) -> int:
        """Wait until everything has ended; the command's status as `os.wait` gives it.

        Those who go on starting others are killed until there are no more; those who cannot be killed are
        left after `END_SECONDS`.
        """
        killed: set[int] = set()
        give_up_at = 0.0
        while self._reap():
            now = time.monotonic()
            if self._kill_at is None or now < self._kill_at:
                self._hear(None if self._kill_at is None else self._kill_at - now)
                continue
            alive = set(descendants(os.getpid()))
            if not alive <= killed:
                give_up_at = now + END_SECONDS
            elif now >= give_up_at:
                break
            for process in alive:
                _signal(process, signal.SIGKILL)
            if alive <= killed:
                self._hear(LOOK_AGAIN_SECONDS)
            killed = alive
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
            _signal(-self._command, number)
        elif number == signal.SIGUSR1:
            self._grace = 0.0
            self._kill_at = self._kill_at if self._status is None else time.monotonic()
        elif number == signal.SIGUSR2:
            self._kill_at = time.monotonic()


def _become(argv: list[str], mask: "Iterable[int]") -> None:
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


def _signal(process: int, number: int) -> None:
    """Send a signal to a process, or to a group where it is negative, if there is one that takes it."""
    try:
        os.kill(process, number)
    except (ProcessLookupError, PermissionError):
        return


def descendants(pid: int) -> list[int]:
    """The processes below `pid` that run, as far as one look at all processes tells."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                stat = file.read()
        except OSError:
            continue
        # A program's name stands before, in parentheses, and may hold anything.
        children.setdefault(int(stat.rpartition(b")")[2].split()[1]), []).append(int(name))
    found = list(children.get(pid, ()))
    for process in found:
        found += children.get(process, ())
    return found
