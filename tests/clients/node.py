"""Node, the compiler and the package as tests use them; a test without them is skipped."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import playwright
import pytest

from ..support.typescript import PACKAGE

OLDEST = (18, 18)
STRIPS = (22, 18)
"""Since then Node runs TypeScript, and writes it as JavaScript."""
_HINT = "apt-get install nodejs, or name one in NODE"


def _found() -> Iterator[str]:
    """Every Node here: the one that is named, the system's, and the one that Playwright brings along."""
    driver = Path(playwright.__file__).parent / "driver" / "node"
    for each in (os.environ.get("NODE"), shutil.which("node"), str(driver) if driver.exists() else None):
        if each:
            yield each


@cache
def _version(program: str) -> tuple[int, ...]:
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    return tuple(map(int, re.findall(r"\d+", done.stdout)))


def node(oldest: tuple[int, int] = OLDEST) -> str:
    """The first Node of this version or newer; skips where there is none."""
    for program in _found():
        if _version(program) >= oldest:
            return program
    pytest.skip(f"no Node {'.'.join(map(str, oldest))} or newer: {_HINT}")


def compiler() -> list[str]:
    """TypeScript's compiler; skips where it is not installed."""
    own = PACKAGE / "node_modules" / ".bin" / "tsc"
    program = str(own) if own.exists() else shutil.which("tsc")
    if program is None or not (PACKAGE / "node_modules" / "@types" / "node").exists():
        pytest.skip("no TypeScript: npm install --no-package-lock in clients/typescript")
    return [program]


def copied(folder: Path) -> Path:
    """A copy of the package's sources in a folder, with the modules that were installed for it."""
    package = folder / "package"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("node_modules", "dist"))
    if (modules := PACKAGE / "node_modules").exists():
        (package / "node_modules").symlink_to(modules)
    return package


def stripped(folder: Path) -> Path:
    """The package with its programs as JavaScript, made without a compiler."""
    package = copied(folder)
    run([node(STRIPS), "--no-warnings", "strip.js"], package)
    return package


def install(package: Path, project: Path) -> None:
    """Put a built package where the programs in a new project's folder find it."""
    modules = project / "node_modules" / "@interlock"
    modules.mkdir(parents=True)
    (modules / "client").symlink_to(package)
    (project / "package.json").write_text('{"type": "module", "private": true}', encoding="utf-8")


def run(command: list[str], folder: Path) -> str:
    """Run a program to its end; its output. It has to succeed."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout
