"""The `interlock` command run in this process, so that its imports are shared by many tests."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

from interlock.app.cli.main import main


def command(directory: Path, *line: str, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run one command line in `directory`, with only `env` in the environment, and no terminal.

    Modules in `directory` are imported from there, and removed from the import cache afterwards.
    """
    for module in directory.glob("*.py"):
        sys.modules.pop(module.stem, None)
    out, err = io.StringIO(), io.StringIO()
    with (
        chdir(directory),
        patch.dict(os.environ, env, clear=True),
        patch.object(sys, "stdin", io.StringIO()),
        patch.object(sys, "path", list(sys.path)),
        redirect_stdout(out),
        redirect_stderr(err),
        # A separate thread: a test may have an event loop running in this one.
        ThreadPoolExecutor(1) as threads,
    ):
        code = threads.submit(_run, line).result()
    # Paths as texts: creating `Path` objects for thousands of modules would take longer than most
    # commands.
    inside = os.path.join(directory, "")
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(inside):
            del sys.modules[name]
    return subprocess.CompletedProcess(list(line), code, out.getvalue(), err.getvalue())


def printed(run: Callable[[], int]) -> tuple[int, str, str]:
    """Return the exit code of a command's `run`, its output and its errors."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run()
    return code, out.getvalue(), err.getvalue()


def _run(line: Sequence[str]) -> int:
    try:
        return main(list(line))
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1
