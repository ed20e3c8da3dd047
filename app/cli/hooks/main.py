"""`interlock hook AGENT`: answers one event of an agent that runs a command before each tool call.

Exit code 0 with the answer on stdout, or 2: agents treat every other code, and a late command, as
permission. So every failure ends with 2 and a message, and a timer ends a command that hangs. Only
necessary modules are loaded, because an agent waits for them at every call.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

from .command_line import HookLine

FAILED = 2
LATE = "Interlock could not answer in time, so this is blocked."
RESUME = (
    "No tool runs until this is fixed. Start a server with `interlock serve`, or take the hook out with "
    "`interlock hook uninstall {agent}`."
)


class HookInterrupted(BaseException):
    """The agent ends this command, or its time has run out."""


def main(agent: str, line: Sequence[str]) -> int:
    """Answer the event on stdin. Returns the exit code; raises nothing."""
    try:
        return _main(agent, line)
    except BaseException as error:
        return _fail(agent, error)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def _main(agent: str, line: Sequence[str]) -> int:
    started_at = time.monotonic()
    read = HookLine.read(line)
    _guard(agent, read.timeout)
    environ = read.environment(os.environ)
    # Sets the home directory for `~` in the files read below.
    os.environ.update(dict(read.directories))
    from .answers import answer

    data = answer(
        agent,
        sys.stdin.buffer.read(),
        line=read,
        started_at=started_at,
        interlock=own_command(),
        environ=environ,
    ).encode()
    # A partly written answer is invalid.
    while data:
        data = data[os.write(1, data) :]
    return 0


def _guard(agent: str, timeout: float) -> None:
    """Ensure an answer when the agent stops this command, and before the agent's own timeout."""

    last = f"{LATE} {RESUME.format(agent=agent)}\n".encode()

    def end(number: int, frame: object) -> None:
        try:
            os.write(2, last)
        finally:
            os._exit(FAILED)

    def stop(number: int, frame: object) -> None:
        late = number == signal.SIGALRM
        # A second alarm ends the process if it still hangs then.
        signal.signal(signal.SIGALRM, end)
        signal.setitimer(signal.ITIMER_REAL, min(1.5, timeout / 20))
        raise HookInterrupted("there was no answer in time" if late else "the agent stopped waiting")

    for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.setitimer(signal.ITIMER_REAL, timeout - min(3.0, timeout / 10))


def _fail(agent: str, error: BaseException) -> int:
    try:
        from ....engine.core.sanitize import visible

        fault = visible(str(error) or type(error).__name__, keep_newlines=True)
    except BaseException:
        fault = type(error).__name__
    if getattr(error, "has_run", False):
        _tell(fault)
        return FAILED
    remedy = "" if getattr(error, "can_retry", False) else " " + RESUME.format(agent=agent)
    _tell(f"Interlock could not answer, so this is blocked: {fault.rstrip('.')}.{remedy}")
    return FAILED


def _tell(text: str) -> None:
    with suppress(OSError):
        os.write(2, f"{text}\n".encode("utf-8", "replace"))


def own_command() -> tuple[str, ...]:
    """Return the command that starts this Interlock again, from anywhere and regardless of PYTHONPATH."""
    return (sys.executable, "-I", "-m", "interlock.app.cli")
