"""The failing disk of `preload.c`: compiled for a test, and controlled by the process that loads it."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import TypeAdapter

SOURCE = Path(__file__).with_name("preload.c")
INSTALL = "no C compiler (cc or gcc) for the failing disk: apt-get install gcc libc6-dev"

When: TypeAlias = Literal["before", "amid", "after"]

WRITES, SYNCS, OPENS, DELETIONS = 1, 2, 4, 8
_WHEN = {"before": 1, "amid": 2, "after": 3}


class NoCompilerError(Exception):
    """The failing disk cannot be compiled here; the message has the remedy."""


@dataclass(frozen=True, slots=True)
class Death:
    """The process dies before, amid or after (`when`) operation number `at` on the database's files.

    `kinds` are the operations that count; 0 means all. With `power_loss` unsynced data is lost in part,
    at random from `seed`.
    """

    when: When
    at: int
    kinds: int = 0
    power_loss: bool = False
    seed: int = 0


NEVER = -1
_death = TypeAdapter(Death)


def compiled(folder: Path) -> Path:
    """Compile the library in `folder`, and return its path. Raises `NoCompilerError`."""
    if not sys.platform.startswith("linux"):
        raise NoCompilerError("the failing disk is preloaded, which it can be on Linux only")
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise NoCompilerError(INSTALL)
    library = folder / "preload.so"
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-pthread"]
    made = subprocess.run(
        [compiler, *flags, "-o", library, SOURCE, "-ldl"], capture_output=True, text=True, check=False
    )
    if made.returncode != 0:
        if "No such file or directory" in made.stderr:
            raise NoCompilerError(f"{INSTALL}\n{made.stderr}")
        raise AssertionError(f"{SOURCE.name} does not compile:\n{made.stderr}")
    return library


def arm(database: Path, death: Mapping[str, object] | None = None) -> None:
    """Start counting operations on the files of `database`; they end in `death`, given as JSON."""
    chosen = Death("after", NEVER) if death is None else _death.validate_python(death)
    ctypes.CDLL(None).disk_arm(
        str(database).encode(),
        _WHEN[chosen.when],
        ctypes.c_long(chosen.at),
        chosen.kinds,
        int(chosen.power_loss),
        ctypes.c_uint(chosen.seed),
    )


def operations() -> int:
    """Return the number of counted operations."""
    library = ctypes.CDLL(None)
    library.disk_operations.restype = ctypes.c_long
    return int(library.disk_operations())


def refuse(error: int, kinds: int) -> None:
    """Make these operations on the armed database's files fail with `error` from now on."""
    ctypes.CDLL(None).disk_refuse(error, kinds)


def recover() -> None:
    """Make the disk work again."""
    refuse(0, 0)
