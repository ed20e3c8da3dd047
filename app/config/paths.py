"""Paths in settings: an unusable path is rejected where it was set.

The code that opens the file later could not say where the path came from.
"""

from __future__ import annotations

import argparse
import errno
from collections.abc import Sequence
from pathlib import Path
from typing import TypeGuard

_LONGEST_SHOWN = 60
JOURNAL = "db"
_LISTS = frozenset({"added_rules", "rules"})
"""Options with paths that are kept as written, for use in messages."""


def path_fault(action: argparse.Action, value: object) -> str | None:
    """Return the problem of `value` for an option with paths, with the remedy; `None` if it is usable."""
    is_path = action.type is Path or isinstance(value, Path)  # the journal may be a database
    if not is_path and action.dest not in _LISTS:
        return None
    for each in value if is_sequence(value) else [value]:
        fault = describe_unusable_path(str(each), expand=is_path)
        if fault is None and action.dest == JOURNAL and Path(str(each)).expanduser().is_dir():
            fault = (
                f"expected the journal's file, found the directory {_quote(str(each))}; "
                "name a file in it, such as interlock.db"
            )
        if fault is not None:
            return fault
    return None


def describe_unusable_path(text: str, *, expand: bool = True) -> str | None:
    """Return the problem of a path that cannot exist, with the remedy.

    `expand` if `~` is a home directory.
    """
    if "\0" in text:
        return f"a path cannot hold a NUL character, found {_quote(text)}; write it without"
    try:
        (Path(text).expanduser() if expand else Path(text)).stat()
    except RuntimeError:
        user = Path(text).parts[0]
        return f"expected a path, found {_quote(text)}: nobody's home is {_quote(user)}; write it out"
    except UnicodeEncodeError:
        return f"a path cannot hold some of the characters in {_quote(text)}; choose another name"
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return (
                f"a path of {len(text)} characters is longer than this system allows, "
                f"found {_quote(text)}; choose a shorter one"
            )
    return None


def resolve_in(directory: Path, text: str) -> str:
    """Resolve a path in a settings file, relative to the file's `directory`. Raises `ValueError`."""
    if (fault := describe_unusable_path(text)) is not None:
        raise ValueError(fault)
    return str(directory / Path(text).expanduser())


def is_table(value: object) -> TypeGuard[dict[str, object]]:
    """Narrow a value of a settings file to a table."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[object]]:
    """Narrow a value of a settings file to a list."""
    return isinstance(value, list)


def is_sequence(value: object) -> TypeGuard[Sequence[object]]:
    """Narrow a value to a list or a tuple."""
    return isinstance(value, Sequence) and not isinstance(value, str)


def _quote(text: str) -> str:
    short = text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 1]}…"
    return f"'{short}'"
