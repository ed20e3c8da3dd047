"""Settings: what the command line left open comes from the environment, then from configuration files.

Order: option, `INTERLOCK_<OPTION>`, `interlock.toml` in the working directory or the file that is named
instead of it (`--config`, `INTERLOCK_CONFIG`), `interlock.toml` in the user's config directory. In a file
an option is a key, at the top or in a table of its command's name; dashes become underscores. The tables
`keys`, `attention`, `notify`, `approvals`, `gateway` and `hook` are no options: they say what keys do,
how an operator who looks elsewhere is told that somebody waits, what dialogs offer, and what agents and
consoles from elsewhere may do.
"""

from __future__ import annotations

import argparse
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

FILE_NAME = "interlock.toml"
CONFIG = "INTERLOCK_CONFIG"
"""The file that is read instead of the working directory's; who names it answers for what is in it."""
KEYS = "keys"
"""The table of a file that says which keys do what."""
TABLES = (KEYS, "attention", "notify", "approvals", "gateway", "hook")
"""The tables that hold no options of a command. Whoever uses one reads it."""
USERS_OWN = frozenset({"connect", "token_file", "fill"})
"""Options that a file in the working directory may not set."""
LOOSER = {("serve", "mode"): "shadow", ("web", "mode"): "shadow"}
"""What such a file may not set for a server: every agent is judged by that, wherever it works."""
_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"0", "false", "no", "off", ""}


class SettingsError(ValueError):
    """A setting that cannot be used; the message names where it was found and what is expected."""


@dataclass(frozen=True, slots=True)
class _Found:
    value: object
    where: str


@dataclass(frozen=True, slots=True)
class KeySetting:
    """The keys that a file gives to an action of the console, by its binding's id, and where it does."""

    binding: str
    keys: tuple[str, ...]
    where: str
    project: bool = False


def apply_settings(
    top: argparse.ArgumentParser,
    args: argparse.Namespace,
    *,
    environ: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> None:
    """Fill the options of `args.command` that were not given. Raises `SettingsError`.

    So do paths that nothing can be called, on the line as in a setting.
    """
    from .setting_paths import path_fault

    environ = named_file(args, os.environ if environ is None else environ)
    command = _subparser(top, args.command)
    files = list(settings_files(directory or Path.cwd(), environ))
    known = {n for p in _subparsers(top).values() for a in _all_options(p) for n in _names(a)}
    for path, table in files:
        _reject_unknown(path, table, known, set(_subparsers(top)))
    for action in _chosen_options(command, args):
        found, value = None, getattr(args, action.dest, None)
        if value is None:
            each = (_find(n, args.command, environ, files) for n in _names(action))
            found = next(filter(None, each), None)
            if found is None:
                continue
            if action.dest in USERS_OWN:
                _check_whose(found, directory or Path.cwd(), environ)
            value = _convert(action, found)
            if LOOSER.get((args.command, action.dest)) == value:
                _check_whose(found, directory or Path.cwd(), environ)
            setattr(args, action.dest, value)
        fault = path_fault(action, value)
        if fault is not None:
            where = action.option_strings[-1] if found is None else found.where
            raise SettingsError(f"{where}: {fault}")


def _check_whose(found: _Found, directory: Path, environ: Mapping[str, str]) -> None:
    """What no agent may say must not stand in the working directory, where one may write.

    Raises `SettingsError`.
    """
    project = directory / FILE_NAME
    here = found.where.startswith(f"{project}: ") and project != users_file(environ)
    if here:
        raise SettingsError(
            f"{found.where}: may stand in {users_file(environ)} only, since agents may write in the "
            "working directory; move it there"
        )


def named_file(args: argparse.Namespace, environ: Mapping[str, str]) -> Mapping[str, str]:
    """The environment in which `--config` is the file to read, where it stands on the line.

    A file names no other: one that came with the directory could name a file to be trusted.
    """
    on_line = getattr(args, "config", None) if "config" in getattr(args, "typed", ()) else None
    return environ if on_line is None else {**environ, CONFIG: str(on_line)}


def key_settings(
    *, environ: Mapping[str, str] | None = None, directory: Path | None = None
) -> list[KeySetting]:
    """The `[keys]` of the files; the working directory's line counts where both have one.

    Raises `SettingsError` for a table that is none, or keys that are not text. Whether there are such
    actions and keys is `keymap_check`'s to say.
    """
    found: dict[str, KeySetting] = {}
    for path, table in settings_files(
        directory or Path.cwd(), os.environ if environ is None else environ
    ):
        chosen = table.get(KEYS, {})
        if not isinstance(chosen, dict):
            raise SettingsError(
                f'{path}: [keys] is a table, with lines like "approval.approve" = "y"; found {chosen!r}'
            )
        for binding, value in _flat(chosen):
            where = f"{path}{_line_of(path, binding)}"
            if binding not in found:
                project = path == (directory or Path.cwd()) / FILE_NAME
                found[binding] = KeySetting(binding, _key_list(binding, value, where), where, project)
    return list(found.values())


def table_setting(
    name: str,
    *,
    environ: Mapping[str, str] | None = None,
    directory: Path | None = None,
    users_own: Iterable[str] = (),
) -> tuple[Mapping[str, object], str] | None:
    """One of `TABLES` as the nearest file has it, and where that is; `None` where no file has it.

    It counts as a whole: a project's table and the user's are not mixed. Raises `SettingsError` for what
    is no table, and for a key of `users_own` in the working directory: an agent may write there, and
    would loosen with it what holds it.
    """
    environ = os.environ if environ is None else environ
    project = (directory or Path.cwd()) / FILE_NAME
    for path, found in settings_files(directory or Path.cwd(), environ):
        if name in found:
            table, where = found[name], f"{path}: [{name}]"
            if not isinstance(table, dict):
                raise SettingsError(f"{where}: expected a table of settings, found {table!r}")
            for key in users_own if path == project and path != users_file(environ) else ():
                if key in table:
                    raise SettingsError(
                        f"{where}: {key}: may stand in {users_file(environ)} only, since agents may "
                        f"write in the working directory; move [{name}] there"
                    )
            return table, where
    return None


def users_file(environ: Mapping[str, str]) -> Path:
    """The file in the user's config directory, whether or not there is one."""
    from platformdirs import user_config_path

    config = environ.get("INTERLOCK_CONFIG_DIR")
    return (Path(config) if config else user_config_path("interlock")) / FILE_NAME


def _flat(table: Mapping[str, object], above: str = "") -> Iterator[tuple[str, object]]:
    """`approval.approve`, whether its dot was written in quotes or made a table."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def _key_list(binding: str, value: object, where: str) -> tuple[str, ...]:
    given = value if isinstance(value, list) else [value]
    values = [each for each in given if isinstance(each, str)]
    if len(values) < len(given):
        raise SettingsError(
            f"{where}: [keys] '{binding}': expected a key like \"y\" or a list of keys, found {value!r}"
        )
    parts = [part for each in values for part in ([each] if each == "," else each.split(","))]
    return tuple("comma" if part == "," else part.strip() for part in parts if part.strip())


def _line_of(path: Path, binding: str) -> str:
    """`:12`, where `binding` is set in a file; empty when it cannot be told."""
    table = ""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if header := re.match(r"\s*\[([^\[\]]+)\]", line):
            table = re.sub(r"[\s\"']", "", header[1])
        elif setting := re.match(r"\s*([\w.\-\"' ]+?)\s*=", line):
            name = re.sub(r"[\s\"']", "", setting[1])
            if f"{table}.{name}".lstrip(".") == f"{KEYS}.{binding}":
                return f":{number}"
    return ""


def _subparsers(top: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in top._actions:  # argparse offers no public way to them
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _subparser(top: argparse.ArgumentParser, command: str) -> argparse.ArgumentParser:
    return _subparsers(top)[command]


def _options(command: argparse.ArgumentParser) -> list[argparse.Action]:
    return [a for a in command._actions if a.option_strings and a.dest != "help"]


def _all_options(command: argparse.ArgumentParser) -> list[argparse.Action]:
    """Those of a command and of its parts."""
    return [a for p in (command, *_subparsers(command).values()) for a in _options(p)]


def _chosen_options(command: argparse.ArgumentParser, args: argparse.Namespace) -> list[argparse.Action]:
    """Those of a command and of the part of it that was named."""
    part = _subparsers(command).get(getattr(args, "part", None) or "")
    return _options(command) + (_options(part) if part is not None else [])


def _names(action: argparse.Action) -> tuple[str, ...]:
    """What an option is called in the environment and in files: as on the line, then as programs do."""
    on_line = next((o for o in action.option_strings if o.startswith("--")), action.dest)
    return tuple(dict.fromkeys([on_line.lstrip("-").replace("-", "_"), action.dest]))


def settings_files(
    directory: Path, environ: Mapping[str, str]
) -> Iterator[tuple[Path, Mapping[str, object]]]:
    """The settings files there are, the nearest first. Raises `SettingsError` for one that is none."""
    named = environ.get(CONFIG)
    for path in (Path(named) if named else directory / FILE_NAME, users_file(environ)):
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError as error:
            if named and path == Path(named):
                raise SettingsError(f"{path}: there is no such file of settings") from error
            continue
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(_unread(path, error, environ)) from error
        try:
            yield path, tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise SettingsError(f"{path}: {error}") from error


def _unread(path: Path, error: OSError | UnicodeDecodeError, environ: Mapping[str, str]) -> str:
    """Why a file of settings cannot be read, with the remedy."""
    from .setting_paths import unusable

    config = environ.get("INTERLOCK_CONFIG_DIR")
    if config and path == users_file(environ):
        fault = unusable(config)
        if fault is None and isinstance(error, NotADirectoryError):
            fault = f"expected a directory, found '{config}'; name the one that holds {FILE_NAME}"
        if fault is not None:
            return f"INTERLOCK_CONFIG_DIR: {fault}"
    why = error.strerror if isinstance(error, OSError) else error
    return f"{path}: cannot be read ({why}); fix its permissions or remove it"


def _reject_unknown(
    path: Path, table: Mapping[str, object], options: set[str], commands: set[str]
) -> None:
    for key, value in table.items():
        if key in TABLES and commands:
            continue
        if key in commands and isinstance(value, dict):
            _reject_unknown(path, value, options, set())
        elif key not in options:
            from difflib import get_close_matches

            close = get_close_matches(key, sorted(options | commands), n=1)
            hint = f"; did you mean '{close[0]}'?" if close else f"; known: {', '.join(sorted(options))}"
            raise SettingsError(f"{path}: unknown setting '{key}'{hint}")


def _find(
    name: str,
    command: str,
    environ: Mapping[str, str],
    files: list[tuple[Path, Mapping[str, object]]],
) -> _Found | None:
    variable = f"INTERLOCK_{name.upper()}"
    if variable in environ:
        return _Found(environ[variable], variable)
    for path, table in files:
        own = table.get(command)
        for place in (own, table):
            if isinstance(place, dict) and name in place:
                return _Found(place[name], f"{path}: {name}")
    return None


def _convert(action: argparse.Action, found: _Found) -> object:
    value = found.value
    if action.nargs == 0:
        return _boolean(found)
    if action.nargs == "+":
        items = value if isinstance(value, list) else [v.strip() for v in str(value).split(",")]
        return [_scalar(action, _Found(item, found.where)) for item in items if item != ""]
    if isinstance(action, argparse._AppendAction):
        # One value each time it is given, commas and all: only a file's own list has several.
        return [
            _scalar(action, _Found(v, found.where))
            for v in (value if isinstance(value, list) else [value])
        ]
    if isinstance(value, list) and action.dest in ("tools", "redact"):
        return ",".join(str(item) for item in value)
    return _scalar(action, found)


def _scalar(action: argparse.Action, found: _Found) -> object:
    if isinstance(found.value, (list, dict)):
        raise SettingsError(f"{found.where}: expected one value, found {found.value!r}")
    convert = action.type if callable(action.type) else str
    try:
        value = convert(str(found.value))
    except (ValueError, argparse.ArgumentTypeError) as error:
        raise SettingsError(f"{found.where}: {error}") from error
    if action.choices is not None and value not in action.choices:
        expected = " or ".join(str(choice) for choice in action.choices)
        raise SettingsError(f"{found.where}: expected {expected}, found '{value}'")
    return value


def _boolean(found: _Found) -> bool:
    if isinstance(found.value, bool):
        return found.value
    text = str(found.value).strip().lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise SettingsError(f"{found.where}: expected true or false, found '{found.value}'")
