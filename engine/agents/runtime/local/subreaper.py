"""The two supervisor processes above a command, a separate program: they end once nothing below is alive.

A command can kill or stop its parent process. Therefore there is another process above the parent, and
each of the two kills everything below it when the other ends. Both are in one process group, which
distinguishes the inner one from the command's processes.

The program is started once for each command and imports as little as possible, because every import
delays the command. It runs only on Linux.
"""

import ctypes
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Iterable
    from typing import NoReturn
else:
    # Without the enums of `signal`, whose import takes almost as long as the interpreter's start.
    import _signal as signal

END_SECONDS = 1.0
"""Maximum seconds to wait for killed processes to end; another user's, for one, cannot be killed."""
LOOK_AGAIN_SECONDS = 0.01
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 1, 4, 36
CANNOT_START = 127

FORWARDED = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
HEARD = FORWARDED | {signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD}


def main(parent: int, grace: float, report: int, argv: list[str]) -> None:
    """Run the command `argv` below this process, and end like it; end it when `parent` ends.

    Before the command runs, its process id is added to the eventfd `report`, which these processes close.
    Processes that the command leaves behind are killed `grace` seconds after its end. SIGTERM, SIGINT and
    SIGHUP are forwarded to its process group, SIGUSR1 ends the grace period, and SIGUSR2 kills
    everything.
    """
    kernel = ctypes.CDLL(None)
    # No signal from the command ends this process, except SIGKILL.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    _adopt_orphans(kernel, parent)
    outer = os.getpid()
    inner = os.fork()
    if inner:
        os.close(report)
        _silence()
        _end_as(kernel, _Watch(inner, 0.0, is_outer=True).over())
    _adopt_orphans(kernel, outer)
    command = os.fork()
    if command == 0:
        _become(argv, mask, report)
    os.close(report)
    _silence()
    _end_as(kernel, _Watch(command, grace).over())


def _adopt_orphans(kernel: ctypes.CDLL, parent: int) -> None:
    """Become the parent of all orphans below this process; the end of `parent` sends SIGUSR2."""
    kernel.prctl(PR_SET_PDEATHSIG, int(signal.SIGUSR2), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(128 + signal.SIGKILL)
    kernel.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _silence() -> None:
    """Release the command's streams."""
    silence = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silence, stream)


def _end_as(kernel: ctypes.CDLL, wait_status: int) -> "NoReturn":
    """End with another process's exit code or by its signal."""
    status = os.waitstatus_to_exitcode(wait_status)
    if status >= 0:
        os._exit(status)
    kernel.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    if -status != signal.SIGKILL:
        signal.signal(-status, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {-status})
    os.kill(os.getpid(), -status)
    os._exit(128 - status)


class _Watch:
    """State of a command and its descendants; the outer process treats the inner one as the command.

    Only a hostile command stops the inner process, so the outer one then kills everything.
    """

    def __init__(self, command: int, grace: float, *, is_outer: bool = False) -> None:
        self._command = command
        self._grace = grace
        self._forwarded = FORWARDED | {signal.SIGUSR1} if is_outer else FORWARDED
        self._to = command if is_outer else -command
        self._also_stops = os.WUNTRACED if is_outer else 0
        self._status: int | None = None
        self._kill_at: float | None = None

    def over(self) -> int:
        """Wait until everything has ended; return the command's status in the format of `os.wait`.

        If a user's processes are limited, killing one makes room for another: all are stopped first,
        until there are no new ones. Processes that keep starting others are killed until none is left;
        those that cannot be killed are left after `END_SECONDS`.
        """
        stopped_ids: set[int] = set()
        kill_from = give_up_at = 0.0
        while self._reap():
            now = time.monotonic()
            if self._kill_at is None or now < self._kill_at:
                self._hear(None if self._kill_at is None else self._kill_at - now)
                continue
            alive = descendants(os.getpid())
            kill_from = kill_from or now + END_SECONDS
            if are_new := not alive <= stopped_ids:
                give_up_at = now + END_SECONDS
            elif now >= give_up_at:
                break
            _signal_each(alive, signal.SIGSTOP if are_new and now < kill_from else signal.SIGKILL)
            if not are_new:
                self._hear(LOOK_AGAIN_SECONDS)
            stopped_ids = alive
        return signal.SIGKILL if self._status is None else self._status

    def _reap(self) -> bool:
        """Collect the status of ended processes; return whether any process is left."""
        while True:
            try:
                process, status = os.waitpid(-1, os.WNOHANG | self._also_stops)
            except ChildProcessError:
                return False
            if process == 0:
                return True
            if os.WIFSTOPPED(status):
                self._kill_at = time.monotonic()
            elif process == self._command:
                self._status = status
                self._kill_at = self._kill_at or time.monotonic() + self._grace

    def _hear(self, seconds: float | None) -> None:
        """Wait for a signal and handle it."""
        if seconds is None:
            number = signal.sigwaitinfo(HEARD).si_signo
        elif (signal_info := signal.sigtimedwait(HEARD, max(seconds, 0))) is not None:
            number = signal_info.si_signo
        else:
            return
        if number in self._forwarded and self._status is None:
            _signal(self._to, number)
        elif number == signal.SIGUSR1:
            self._grace = 0.0
            self._kill_at = self._kill_at if self._status is None else time.monotonic()
        elif number == signal.SIGUSR2:
            self._kill_at = time.monotonic()


def _become(argv: list[str], mask: "Iterable[int]", report: int) -> None:
    """Become the command, in its own session (A-104), with the original environment and signals."""
    try:
        # Its session identifies the command's processes if it kills both supervisors.
        os.eventfd_write(report, os.getpid())
        os.close(report)
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


def _signal_each(processes: set[int], number: int) -> None:
    for process in processes:
        _signal(process, number)


def _signal(process: int, number: int) -> None:
    """Send a signal to a process, or to a group if negative; ignore errors if none can receive it."""
    try:
        os.kill(process, number)
    except (ProcessLookupError, PermissionError):
        return


class _ProcessNumbers:
    """Ids of a process of this machine: its own, its parent's, its group's and its session's.

    `is_over` is true for a process that has ended but is not reaped.
    """

    __slots__ = ("group", "id", "is_over", "parent", "session")

    def __init__(self, name: str) -> None:
        with open(f"/proc/{name}/stat", "rb") as file:
            stat = file.read()
        self.id = int(name)
        # Skip the program's name, which is in parentheses and may contain anything.
        state, *numbers = stat.rpartition(b")")[2].split()
        self.parent, self.group, self.session = map(int, numbers[:3])
        # After its first thread ended, a process whose other threads run still has several threads.
        self.is_over = state in (b"Z", b"X") and int(numbers[16]) <= 1


def descendants(pid: int) -> set[int]:
    """Return running processes below `pid`, as far as a single scan of all processes shows."""
    return _descendants({pid}, _processes())


def in_sessions(outer: int, command: int | None) -> tuple[set[int], bool]:
    """Return the live processes of the sessions led by `outer` and its command, and their descendants.

    `outer` itself is left out. Also returns whether one of them is in the group of `outer`, like the
    inner supervisor.
    """
    processes = _processes()
    sessions = {outer, command}
    members = [
        each for each in processes if each.session in sessions and each.id != outer and not each.is_over
    ]
    member_ids = {each.id for each in members}
    return member_ids | _descendants(member_ids, processes), any(each.group == outer for each in members)


def _processes() -> list[_ProcessNumbers]:
    processes: list[_ProcessNumbers] = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                processes.append(_ProcessNumbers(name))
            except OSError:
                continue
    return processes


def _descendants(processes: set[int], candidates: list[_ProcessNumbers]) -> set[int]:
    """Return the descendants of `processes` among the candidates."""
    children: dict[int, list[int]] = {}
    for each in candidates:
        children.setdefault(each.parent, []).append(each.id)
    descendant_ids: set[int] = set()
    waiting = list(processes)
    while waiting:
        child_ids = set(children.get(waiting.pop(), ())) - descendant_ids
        descendant_ids |= child_ids
        waiting += child_ids
    return descendant_ids
