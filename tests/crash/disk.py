"""The failing disk of `preload.c`: compiled for a test, and told what to do by the process it is in."""

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
    """The failing disk cannot be made here; the message says how to change that."""


@dataclass(frozen=True, slots=True)
class Death:
    """The process dies `when` its operation number `at` on the database's files is done.

    `kinds` are the operations that count, all for 0. With `power_loss` what was not synced is lost in
    part, at random from `seed`.
    """

    when: When
    at: int
    kinds: int = 0
    power_loss: bool = False
    seed: int = 0


NEVER = -1
_death = TypeAdapter(Death)


def compiled(folder: Path) -> Path:
    """The library, made in `folder`. Raises `NoCompilerError`."""
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
    """From now on operations on the files of `database` count; `death`, as JSON, is what they end in."""
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
    """How many operations were counted."""
    library = ctypes.CDLL(None)
    library.disk_operations.restype = ctypes.c_long
    return int(library.disk_operations())


def refuse(error: int, kinds: int) -> None:
    """From now on these operations on the armed database's files fail with `error`."""
    ctypes.CDLL(None).disk_refuse(error, kinds)


def recover() -> None:
    """The disk works again."""
    refuse(0, 0)
