"""Processes that may die: one that has imported everything, and a fork of it for each life.

`python -m tests.crash.host` reads one order per line, forks, calls the named function in the child, and
answers with how the child ended. Starting Python for each life would take longer than the life.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import subprocess
import sys
import traceback
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRELOADED = (
    "alembic.command",
    "alembic.config",
    "sqlalchemy",
    "tests.crash.busy",
    "tests.crash.check",
    "tests.crash.elsewhere",
    "tests.crash.planning",
    "tests.crash.planted",
    "tests.crash.restart",
)
LONGEST_LIFE = 60.0
"""Seconds after which a life counts as hanging."""


@dataclass(frozen=True, slots=True)
class End:
    """Result of a life: the signal that killed it, or what its function returned or raised."""

    signal: int | None
    value: dict[str, object]
    error: str | None

    @property
    def killed(self) -> bool:
        return self.signal == signal.SIGKILL and self.error is None


class Host:
    """The process that has imported everything, with `library` preloaded. `close` ends it."""

    def __init__(self, library: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.host"],
            cwd=ROOT,
            env={**os.environ, "LD_PRELOAD": str(library)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def life(self, function: str, /, *, kill_after: int | None = None, **arguments: object) -> End:
        """Call `module:function` in a separate process, with arguments that JSON can represent.

        With `kill_after` it is killed from outside when it has reported that many events.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = {"function": function, "arguments": arguments, "kill_after": kill_after}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise AssertionError(f"the host of the lives ended with {self._process.wait()}")
        return End(**json.loads(answer))

    def close(self) -> None:
        """End the host; all of its lives have ended by then."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def serve() -> None:
    """Process orders until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # a life's output must not mix with the answers
    for name in PRELOADED:
        import_module(name)
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)  # the same thresholds as in the program itself
    for line in sys.stdin:
        order = json.loads(line)
        answers.write(json.dumps(_live(order)) + "\n")
        answers.flush()


def _live(order: dict[str, object]) -> dict[str, object]:
    """Fork, wait for the child's end, and return it."""
    progress, reporting = os.pipe()
    values, returning = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(progress)
        os.close(values)
        os.set_blocking(reporting, False)
        _call(order, reporting, returning)
    os.close(reporting)
    os.close(returning)
    told = _watch(child, order["kill_after"], progress, values)
    os.close(progress)
    os.close(values)
    _, status = os.waitpid(child, 0)
    value = json.loads(told) if told else {}
    killed = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    error = value.pop("error", None)
    if killed is None and not told:
        error = f"the process ended with {os.waitstatus_to_exitcode(status)} and said nothing"
    return {"signal": killed, "value": value, "error": error}


def _watch(child: int, kill_after: object, progress: int, values: int) -> bytes:
    """Read the child's reports until it has ended; kill it when it is due."""
    told, events, open_pipes = b"", 0, {progress, values}
    while open_pipes:
        ready, _, _ = select.select(list(open_pipes), [], [], LONGEST_LIFE)
        if not ready:
            os.kill(child, signal.SIGKILL)
            return json.dumps({"error": f"hung: nothing happened for {LONGEST_LIFE:.0f} s"}).encode()
        for pipe in ready:
            read = os.read(pipe, 65536)
            if not read:
                open_pipes.discard(pipe)
            elif pipe == values:
                told += read
            else:
                events += len(read)
                if kill_after is not None and events >= int(str(kill_after)):
                    os.kill(child, signal.SIGKILL)
    return told


def _call(order: dict[str, object], reporting: int, returning: int) -> None:
    """In the child: call the function, return its result, and exit."""
    try:
        module, _, name = str(order["function"]).partition(":")
        arguments = order["arguments"]
        assert isinstance(arguments, dict)
        value = getattr(import_module(module), name)(reporting=reporting, **arguments) or {}
    except BaseException:
        value = {"error": traceback.format_exc()}
    text = json.dumps(value).encode()
    while text:
        text = text[os.write(returning, text) :]
    os._exit(0)


if __name__ == "__main__":
    serve()
