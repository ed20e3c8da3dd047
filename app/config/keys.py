"""`[keys]` of the settings files: an operator's key bindings for actions of the console."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from .loader import KEYS, SettingsError, is_agent_writable, settings_files
from .paths import is_list, is_table


@dataclass(frozen=True, slots=True)
class KeySetting:
    """Keys that a file sets for an action of the console, and their position; `binding` is its id."""

    binding: str
    keys: tuple[str, ...]
    where: str
    project: bool = False


def key_settings(
    *, environ: Mapping[str, str] | None = None, directory: Path | None = None
) -> list[KeySetting]:
    """Return the `[keys]` of the files; the working directory's line takes precedence.

    Raises `SettingsError` for an invalid table, or keys that are not text. Unknown actions and keys are
    reported by `keymap_check`.
    """
    found: dict[str, KeySetting] = {}
    directory, environ = directory or Path.cwd(), os.environ if environ is None else environ
    for path, table in settings_files(directory, environ):
        chosen = table.get(KEYS, {})
        if not is_table(chosen):
            raise SettingsError(
                f'{path}: [keys] is a table, with lines like "approval.approve" = "y"; found {chosen!r}'
            )
        for binding, value in _flat(chosen):
            place = f"{path}{_line_of(path, binding)}"
            if binding not in found:
                project = is_agent_writable(path, directory, environ)
                found[binding] = KeySetting(binding, _key_list(binding, value, place), place, project)
    return list(found.values())


def _flat(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield items such as `approval.approve`, whether the dot was quoted or created a table."""
    for key, value in table.items():
        if is_table(value):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _key_list(binding: str, value: object, place: str) -> tuple[str, ...]:
    items = value if is_list(value) else [value]
    values = [each for each in items if isinstance(each, str)]
    if len(values) < len(items):
        raise SettingsError(
            f"{place}: [keys] '{binding}': expected a key like \"y\" or a list of keys, found {value!r}"
        )
    parts = [part for each in values for part in ([each] if each == "," else each.split(","))]
    return tuple("comma" if part == "," else part.strip() for part in parts if part.strip())


def _line_of(path: Path, binding: str) -> str:
    """Return the position (`:12`) at which a file sets `binding`; empty if unknown."""
    table = ""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if header := re.match(r"\s*\[([^\[\]]+)\]", line):
            table = re.sub(r"[\s\"']", "", header[1])
        elif setting := re.match(r"\s*([\w.\-\"' ]+?)\s*=", line):
            name = re.sub(r"[\s\"']", "", setting[1])
            if f"{table}.{name}".lstrip(".") == f"{KEYS}.{binding}":
                return f":{number}"
    return ""
