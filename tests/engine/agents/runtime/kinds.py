"""The runtimes under one contract: their creation and their limitations."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import os
import shutil
import subprocess
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from interlock.engine.agents import (
    ExecResult,
    FakeCall,
    FakeRuntime,
    JustBashRuntime,
    LocalRuntime,
    Runtime,
    SandboxRuntime,
    VercelSandboxRuntime,
)
from tests.support.vercel_server import PROJECT, TEAM, TOKEN, VercelServer

from ..script import until

KINDS = ("local", "sandbox", "just-bash", "vercel", "fake")

# Parts of the contract that a runtime cannot support, with the reason; the contract states what it does
# instead.
CANNOT = {
    (
        "sandbox",
        "name the signal",
    ): "bubblewrap reports a signal as 128 plus its number, like an exit code",
    ("vercel", "name the signal"): "the service reports an exit code and nothing else",
    ("just-bash", "signals"): "nothing is a process; there is no kill command, which exits with 127",
    ("just-bash", "bytes"): "the interpreter's output is text: an octal escape is a character",
    ("just-bash", "stream"): "the interpreter gives its output at the end, in one piece a stream",
    (
        "just-bash",
        "background",
    ): "what is put into the background runs in line, and its end is waited for",
    ("fake", "background"): "a script is one function and starts nothing",
}
CLAUSES = {clause for _, clause in CANNOT}

# Durations of sleeps whose end is checked: each is unique, even across concurrent tests.
numbers = itertools.count(10_000_000 + 1000 * os.getpid())


@dataclass(frozen=True)
class Subject:
    """A runtime under test. `sleeps(seconds)` tells whether `sleep <seconds>` is still running in it."""

    kind: str
    runtime: Runtime
    sleeps: Callable[[int], bool]

    def can(self, clause: str) -> bool:
        assert clause in CLAUSES, clause
        return (self.kind, clause) not in CANNOT


@contextlib.asynccontextmanager
async def made(
    kind: str, root: Path, monkeypatch: pytest.MonkeyPatch, *, output_limit: int = 1_048_576
) -> AsyncIterator[Subject]:
    """Yield a runtime of a kind; skip with the reason if this machine cannot have it."""
    match kind:
        case "local":
            yield Subject(kind, LocalRuntime(root, output_limit=output_limit), process_sleeps)
        case "sandbox":
            skip_without_sandbox()
            yield Subject(kind, SandboxRuntime(root, output_limit=output_limit), process_sleeps)
        case "just-bash":
            yield Subject(kind, JustBashRuntime(output_limit=output_limit), is_interpreting)
        case "fake":
            script = Scripts()
            runtime = FakeRuntime(otherwise=script, output_limit=output_limit)
            yield Subject(kind, runtime, script.sleeping.__contains__)
        case "vercel":
            credentials(monkeypatch)
            with VercelServer(root) as server:
                async with VercelSandboxRuntime(
                    base_url=server.url, output_limit=output_limit
                ) as runtime:
                    yield Subject(kind, runtime, process_sleeps)


def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the credentials that the fake Vercel service accepts."""
    monkeypatch.delenv("VERCEL_OIDC_TOKEN", raising=False)
    monkeypatch.setenv("VERCEL_TOKEN", TOKEN)
    monkeypatch.setenv("VERCEL_TEAM_ID", TEAM)
    monkeypatch.setenv("VERCEL_PROJECT_ID", PROJECT)


@functools.cache
def why_no_sandbox(user: int | None = None) -> str | None:
    """Return the reason why no sandbox works here, for `user` if given; `None` if one works."""
    if shutil.which("bwrap") is None:
        return "bubblewrap is missing: apt-get install bubblewrap"
    probe = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "/bin/true"]
    groups = None if user is None else []
    done = subprocess.run(
        probe, capture_output=True, text=True, check=False, user=user, group=user, extra_groups=groups
    )
    whom = "" if user is None else f" for user {user}"
    return None if done.returncode == 0 else f"bubblewrap cannot work here{whom}: {done.stderr.strip()}"


def skip_without_sandbox(user: int | None = None) -> None:
    """Skip a test that needs bubblewrap, for the given user, if it does not work here."""
    if reason := why_no_sandbox(user):
        pytest.skip(reason)


def process_sleeps(seconds: int) -> bool:
    """Return whether a process on this machine, in any namespace, is `sleep <seconds>`."""
    wanted = f"sleep\0{seconds}\0".encode()
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with contextlib.suppress(OSError):
                if (process / "cmdline").read_bytes() == wanted:
                    return True
    return False


def is_interpreting(seconds: int = 0) -> bool:
    """Return whether any interpreter of just-bash is running."""
    return any(thread.name.startswith("just-bash ") for thread in threading.enumerate())


class Scripts:
    """The contract's commands for the runtime that has scripts as commands.

    It knows the commands by their words; the runtime limits their end and output.
    """

    def __init__(self) -> None:
        self.sleeping: set[int] = set()

    async def __call__(self, call: FakeCall) -> ExecResult | int | str | None:
        """Play each part of a command; the last exit code counts."""
        code: ExecResult | int | str | None = 0
        for part in call.command.split("; "):
            code = await self._play(part.split(), call)
        return code

    async def _play(self, words: list[str], call: FakeCall) -> ExecResult | int | str | None:
        match words:
            case ["true"]:
                return 0
            case ["exit", code]:
                return int(code)
            case ["kill", "-9", "$$"]:
                return ExecResult("", "", 137, signal=9)
            case ["pwd"]:
                call.write(f"{call.cwd}\n")
            case ["cat"]:
                call.write(call.stdin)
            case ["echo", *texts, ">&2"]:
                call.write_error(" ".join(texts) + "\n")
            case ["echo", *texts, ">", name]:
                call.files[str(call.cwd / name)] = " ".join(texts) + "\n"
            case ["echo", *texts]:
                call.write(" ".join(texts) + "\n")
            case ["printf", r"'\377\376", "a'"]:
                call.write(b"\xff\xfe a")
            case ["printf", form, "x"]:
                call.write("x".rjust(int(form.strip("'%s"))))
            case ["printf", form, "x", ">&2"]:
                call.write_error("x".rjust(int(form.strip("'%s"))))
            case ["sleep", seconds]:
                await self._sleep(float(seconds))
            case ["until", "[", "-e", "seen", "]"]:
                await until(lambda: str(call.cwd / "seen") in call.files)
            case ["do", *_] | ["done"]:
                pass
            case _:
                call.write_error(f"sh: {words[0]}: not found\n")
                return 127
        return 0

    async def _sleep(self, seconds: float) -> None:
        self.sleeping.add(int(seconds))
        try:
            await asyncio.sleep(seconds)
        finally:
            self.sleeping.discard(int(seconds))
