"""Shell without a machine: just-bash interprets commands in this process, with files in memory.

Agents' tests, demonstrations and untrusted snippets thus need no process, disk or network. The
interpreter is Python. A single step that does not return to Python, such as matching a catastrophic
regular expression, blocks the whole program, and commands can exhaust the program's memory. For commands
that may be hostile, use `SandboxRuntime`.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import importlib
import inspect
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from ..errors import AgentRuntimeError, RuntimeFileNotFoundError
from .base import CheckedCommand, ExecResult, RuntimeBase
from .local.termination import wait_bounded
from .output import FLOOD_LIMIT, OUTPUT_LIMIT, Output, OutputLimits

if TYPE_CHECKING:
    import just_bash
    from just_bash.types import IFileSystem

T = TypeVar("T")

DIRECTORY = "/home/user"
GIVE_UP_SECONDS = 1.0
POLL_SECONDS = 0.02


class JustBashRuntime(RuntimeBase):
    """Runs commands with just-bash; they share files in memory and nothing else (A-108).

    Each command is a separate shell in its own thread, so it does not block the program. It has no
    standard input, network or processes: background commands run in the foreground, and no signal ends
    them. A loop or condition whose own output is redirected raises `AgentRuntimeError`, because just-bash
    would ignore the redirection. Output is text and arrives at once at the end. just-bash limits loops,
    which also raises `AgentRuntimeError`. A command stopped by timeout or abort can no longer change
    files. Its thread is ended, or left to end by itself if it is within a single long step.

    `files` maps paths to texts; relative paths start at `cwd`, which always exists. Raises
    `AgentRuntimeError` if the just-bash package is not installed.
    """

    def __init__(
        self,
        cwd: str = DIRECTORY,
        *,
        files: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
        output_limit: int = OUTPUT_LIMIT,
    ) -> None:
        self._shell, files_in_memory = _package()
        self._cwd = Path(cwd)
        if not self._cwd.is_absolute():
            raise ValueError(f"cwd must start with /, got {cwd!r}")
        self._env = dict(env or {})
        self._limits = OutputLimits(output_limit, FLOOD_LIMIT)
        self._files = files_in_memory({self._path(p): text for p, text in (files or {}).items()})
        self._lock = threading.Lock()
        _run_now(self._files.mkdir(str(self._cwd), recursive=True))

    async def _run(self, command: CheckedCommand) -> ExecResult:
        if (compound := _ignored_redirection(command.text)) is not None:
            raise AgentRuntimeError(
                f"just-bash would ignore the redirection of {compound}: nothing was run. Put "
                "the whole of it into braces and redirect these, as in { for …; done; } > file"
            )
        directory = self._path(command.cwd or ".")
        with self._lock:
            if not _run_now(self._files.is_directory(directory)):
                raise AgentRuntimeError(f"Working directory does not exist: {directory}")
        view = _FilesView(self._files, self._lock)
        # Entities in a command are not decoded: exactly what was approved runs.
        bash = self._shell(
            fs=cast("IFileSystem", view), cwd=directory, env=self._env, unescape_html=False
        )
        result = await wait_bounded(
            _Interpretation(bash, command.text, view).result(), command.timeout, command.abort
        )
        output = Output(self._limits, command.on_data)
        output.feed("stdout", result.stdout.encode(errors="replace"))
        output.feed("stderr", result.stderr.encode(errors="replace"))
        return output.result(result.exit_code)

    async def read_file(self, path: str) -> str:
        """See `Runtime.read_file`; bytes that are not UTF-8 become U+FFFD."""
        with self._lock:
            try:
                content = _run_now(self._files.read_file_bytes(self._path(path)))
            except FileNotFoundError as error:
                raise RuntimeFileNotFoundError(path) from error
        return content.decode(errors="replace")

    async def write_file(self, path: str, content: str) -> None:
        """See `Runtime.write_file`."""
        full_path = self._path(path)
        with self._lock:
            if _run_now(self._files.is_directory(full_path)):
                raise IsADirectoryError(f"Is a directory: {path}")
            _run_now(self._files.write_file(full_path, content.encode()))

    def _path(self, path: str) -> str:
        return str(self._cwd / path)


_COMPOUNDS = {
    "If": "if … fi",
    "For": "for … done",
    "CStyleFor": "for ((…)) … done",
    "While": "while … done",
    "Until": "until … done",
    "Case": "case … esac",
    "ConditionalCommand": "[[ … ]]",
    "ArithmeticCommand": "((…))",
}
"""Commands whose output just-bash does not redirect, as they are written."""
_INPUTS = frozenset({"<", "<<", "<<-", "<<<", "<&"})


def _ignored_redirection(command: str) -> str | None:
    """Return the first compound command whose output is redirected; `None` if there is none.

    A command that cannot be parsed has none: just-bash reports the error itself.
    """
    from just_bash.parser import parse

    try:
        waiting: list[object] = [parse(command)]
    except Exception:
        return None
    while waiting:
        node = waiting.pop()
        if isinstance(node, list | tuple):
            waiting += reversed(cast("Sequence[object]", node))
        elif is_dataclass(node) and not isinstance(node, type):
            kind = _COMPOUNDS.get(str(getattr(node, "type", "")))
            redirections: Sequence[object] = getattr(node, "redirections", ())
            if kind is not None and any(
                getattr(each, "operator", "") not in _INPUTS for each in redirections
            ):
                return kind
            waiting += [getattr(node, each.name) for each in reversed(fields(node))]
    return None


class _Stopped(BaseException):
    """Raised inside an interpreter that must end."""


class _FilesView:
    """The files as one interpreter sees them, one operation at a time, until they are closed to it."""

    def __init__(self, files: just_bash.InMemoryFs, lock: threading.Lock) -> None:
        self.lock = lock
        self.closed = False
        self._files = files

    def __getattr__(self, name: str) -> Callable[..., object]:
        operation: Callable[..., object] = getattr(self._files, name)

        def at_once(*args: object, **kwargs: object) -> object:
            with self.lock:
                if self.closed:
                    raise _Stopped
                done = operation(*args, **kwargs)
                return _run_now(done) if inspect.iscoroutine(done) else done

        async def later(*args: object, **kwargs: object) -> object:
            return at_once(*args, **kwargs)

        return later if inspect.iscoroutinefunction(operation) else at_once


class _Interpretation:
    """One command in a thread with its own event loop."""

    def __init__(self, bash: just_bash.Bash, command: str, view: _FilesView) -> None:
        self._bash = bash
        self._command = command
        self._view = view
        self._lock = threading.Lock()
        self._is_over = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[just_bash.ExecResult | None] | None = None
        self._thread = threading.Thread(
            target=self._interpret, name=f"just-bash {command[:40]}", daemon=True
        )
        self._ours = asyncio.get_running_loop()
        self._result: asyncio.Future[just_bash.ExecResult] = self._ours.create_future()

    async def result(self) -> just_bash.ExecResult:
        """Wait for the interpreter's result. Cancelling this ends the interpreter."""
        self._thread.start()
        try:
            return await self._result
        except asyncio.CancelledError:
            await self._stop()
            raise

    def _interpret(self) -> None:
        """Run the command; called in the thread."""
        answer: just_bash.ExecResult | Exception | None = None
        try:
            with contextlib.closing(asyncio.new_event_loop()) as self._loop:
                self._task = self._loop.create_task(self._until_stopped())
                answer = self._loop.run_until_complete(self._task)
        except (_Stopped, asyncio.CancelledError):
            return
        except Exception as error:
            answer = error
        finally:
            with self._lock:
                self._is_over = True
        with contextlib.suppress(RuntimeError):
            self._ours.call_soon_threadsafe(self._set_result, answer)

    async def _until_stopped(self) -> just_bash.ExecResult | None:
        if self._view.closed:
            return None
        try:
            return await self._bash.exec(self._command)
        except _Stopped:
            return None

    def _set_result(self, answer: just_bash.ExecResult | Exception | None) -> None:
        if self._result.done() or answer is None:
            return
        if isinstance(answer, Exception):
            problem = AgentRuntimeError(f"just-bash stopped the command: {answer}")
            problem.__cause__ = answer
            self._result.set_exception(problem)
        else:
            self._result.set_result(answer)

    async def _stop(self) -> None:
        """Close the files, then end the thread: wake it if it sleeps, raise in it if it computes."""
        with self._view.lock:
            self._view.closed = True
        if self._loop is not None and self._task is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._task.cancel)
        for _ in range(int(GIVE_UP_SECONDS / POLL_SECONDS)):
            await asyncio.sleep(POLL_SECONDS)
            if not self._raise_in_thread():
                return

    def _raise_in_thread(self) -> bool:
        """Raise `_Stopped` in the thread; return whether the thread still exists."""
        # Not while it uses the files, and not after its end, when another thread may have its number.
        with self._view.lock, self._lock:
            if self._is_over or not self._thread.is_alive():
                return False
            number = ctypes.c_ulong(self._thread.ident or 0)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(number, ctypes.py_object(_Stopped))
            return True


def _run_now(work: Coroutine[object, object, T]) -> T:
    """Return the result of a coroutine that never waits, as all file operations in memory are."""
    try:
        work.send(None)
    except StopIteration as done:
        return cast("T", done.value)
    work.close()
    raise AgentRuntimeError("just-bash waited where its files in memory have nothing to wait for")


def _package() -> tuple[type[just_bash.Bash], type[just_bash.InMemoryFs]]:
    """Return the classes of the just-bash package. Raises `AgentRuntimeError` if it is not installed."""
    try:
        from just_bash import Bash, InMemoryFs

        nest_asyncio = cast("_NestAsyncio", importlib.import_module("nest_asyncio"))
    except ImportError as error:
        raise AgentRuntimeError(
            "just-bash is not installed: pip install 'interlock[just-bash]', or the package just-bash"
        ) from error
    if not isinstance(nest_asyncio.apply, _GuardedApply):
        nest_asyncio.apply = _GuardedApply(nest_asyncio.apply)
    return Bash, InMemoryFs


class _NestAsyncio(Protocol):
    """The used part of nest-asyncio."""

    apply: Callable[..., object]


class _GuardedApply:
    """`nest_asyncio.apply` that does nothing when just-bash calls it.

    It replaces asyncio's tasks and loops for the whole program, and just-bash calls it for certain forms
    of commands. A command must not do that; just-bash does the same work without it.
    """

    def __init__(self, apply: Callable[..., object]) -> None:
        self._apply = apply

    def __call__(self, *args: object) -> None:
        caller = sys._getframe(1).f_globals.get("__name__", "")  # pyright: ignore[reportPrivateUsage]
        if not str(caller).startswith("just_bash."):
            self._apply(*args)
