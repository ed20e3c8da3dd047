"""Settings: options missing on the command line come from the environment, then from files.

Order: option, `INTERLOCK_<OPTION>`, `interlock.toml` in the working directory or the file named instead
(`--config`, `INTERLOCK_CONFIG`), `interlock.toml` in the user's config directory. In a file an option is
a key, at the top or in a table of its command's name; dashes become underscores. The other tables (see
`TABLES`) are not options of a command: `keys`, `attention`, `notify`, `approvals`, `audit`, `gateway`,
`hook`, `oidc` and `operators`. They set key bindings, signals and notifications, the options of dialogs,
where the record is sent, the terms for external agents and remote consoles, the answers to hooks, and who
the operators are and how they log in.
"""

from __future__ import annotations

import argparse
import os
import stat
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, get_type_hints

from ...engine.gateway.protocol.token_paths import CONFIG_DIRECTORY, config_directory
from .paths import is_list, is_table

if TYPE_CHECKING:
    from .arguments import CommandParser
    from .rule_texts import RuleTexts

FILE_NAME = "interlock.toml"
CONFIG = "INTERLOCK_CONFIG"
"""Variable that names a file to read instead of the working directory's; the user vouches for it."""
KEYS = "keys"
"""Table of key bindings in a file."""
TABLES = (KEYS, "attention", "notify", "approvals", "audit", "gateway", "hook", "oidc", "operators")
"""Tables that hold no options of a command. Each is read where it is used."""
MAX_FILE_BYTES = 1 << 20
"""Maximum size of a settings file in bytes."""
_NO_WAIT: int = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"0", "false", "no", "off", ""}


class SettingsError(ValueError):
    """A setting that cannot be used; the message has its position and what is expected."""


@dataclass(frozen=True, slots=True)
class Key:
    """Declaration of a key in a table: its meaning, as shown on the settings' page.

    `project` describes the values that a working directory's file may set. It is `None` if such a file
    may not set the key, because an agent may be able to write there.
    """

    meaning: str
    project: str | None = None


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A table in a file."""

    file: Path
    name: str
    values: Mapping[str, object]

    @property
    def where(self) -> str:
        """Position as shown in messages."""
        return f"{self.file}: [{self.name}]"


@dataclass(frozen=True, slots=True)
class _Found:
    value: object
    where: str
    file: Path | None = None


def apply_settings(
    top: CommandParser,
    args: argparse.Namespace,
    *,
    whole: Callable[[], CommandParser] | None = None,
    environ: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> None:
    """Set the options of `args.command` that were not given. Raises `SettingsError`.

    `whole` makes the parser of every command, for a `top` that has the options of only one: a settings
    file may set options of any command, and most starts have no such file. Also raised for unusable
    paths, from the command line or a setting, and for settings that a working directory may not have. Its
    settings about rules and mode are then in `args.of_directory`, and the texts of the rules checked for
    that in `args.rule_texts`; see `trust`.
    """
    environ = with_named_file(args, os.environ if environ is None else environ)
    directory = directory or Path.cwd()
    command = top.commands[args.command]
    part = command.commands.get(getattr(args, "part", None) or "")
    chosen = [command] if part is None else [command, part]
    sources = _Sources(
        args.command,
        directory,
        environ,
        list(settings_files(directory, environ)),
        [action for each in chosen for action in each.repeated],
    )
    args.of_directory = {}
    every = whole() if whole is not None and sources.files else top
    options = {name for action in every.all_options() for name in option_names(action)}
    problems = [
        fault for path, table in sources.files for fault in _unknown(path, table, options, every.commands)
    ]
    for action in (action for each in chosen for action in each.options):
        try:
            sources.settle(action, args)
        except SettingsError as error:
            problems.append(str(error))
    if problems:
        # A command and its subcommand may share an option.
        raise SettingsError("\n".join(dict.fromkeys(problems)))


@dataclass(frozen=True, slots=True)
class _Sources:
    """Sources of a command's settings other than the command line; the nearest file comes first."""

    command: str
    directory: Path
    environ: Mapping[str, str]
    files: list[tuple[Path, Mapping[str, object]]]
    repeated: list[argparse.Action]
    """Options that take one value each time they are given."""

    def settle(self, action: argparse.Action, args: argparse.Namespace) -> None:
        """Set an option that was not given, and check its paths. Raises `SettingsError`."""
        from .paths import path_fault

        found, value = None, getattr(args, action.dest, None)
        if value is None:
            found = self.find(action)
            if found is None:
                return
            value = self.value(action, found)
        fault = path_fault(action, value)
        if fault is not None:
            place = action.option_strings[-1] if found is None else found.where
            raise SettingsError(f"{place}: {fault}")
        if (
            found is not None
            and found.file
            and is_agent_writable(found.file, self.directory, self.environ)
        ):
            if action.dest in ("rules", "mode"):
                args.of_directory |= {action.dest: value, "where": found.file}
            counts = self.in_directory(action, found, value)
            if action.dest == "rules":
                args.rule_texts = self.rule_texts(action, found, value)
            value = counts
        setattr(args, action.dest, value)

    @property
    def own(self) -> Path:
        """Path of the user's own file."""
        return users_file(self.environ)

    def find(self, action: argparse.Action) -> _Found | None:
        """Find an option's value in the first source that has one."""
        for name in option_names(action):
            variable = f"INTERLOCK_{name.upper()}"
            if variable in self.environ:
                return _Found(self.environ[variable], variable)
            for path, file in self.files:
                for table in (file.get(self.command), file):
                    if is_table(table) and name in table:
                        return _Found(table[name], f"{path}: {name}", path)
        return None

    def value(self, action: argparse.Action, found: _Found) -> object:
        """Convert a value to the option's type. Raises `SettingsError`.

        The user's rules files are resolved in the directory of the settings file that names them: where
        an agent writes, a file of the same name could replace them.
        """
        value = self._convert(action, found)
        if action.dest not in ("added_rules", "rules") or found.file != self.own:
            return value
        from .paths import resolve_in

        try:
            return [resolve_in(self.own.parent, each) for each in _texts(value)]
        except ValueError as error:
            raise SettingsError(f"{found.where}: {error}") from error

    def in_directory(self, action: argparse.Action, found: _Found, value: object) -> object:
        """Return the effective value if the working directory sets `value`: not looser than the user's.

        Raises `SettingsError` for a value that is not allowed there.
        """
        from .trust import effective_value

        users = self._users_value(action)
        counts = effective_value(self.command, action.dest, value, users, self.directory)
        if counts is None:
            option = next(each for each in action.option_strings if each.startswith("--"))
            raise SettingsError(
                f"{found.where}: is allowed in {self.own} only, since agents may write in the working "
                f"directory; move it there, or give it on the command line: {option}"
            )
        return counts

    def rule_texts(self, action: argparse.Action, found: _Found, added: object) -> RuleTexts:
        """Read the texts of the user's rules and of those that the working directory `added`.

        For a command that judges by these rules, raises `SettingsError` if the added ones take calls from
        the user's.
        """
        # Imported here: most commands compile no rules.
        from ...rules import RuleError
        from .rule_texts import RuleTexts, find_loosened_rule
        from .trust import JUDGING_COMMANDS

        if self.command not in JUDGING_COMMANDS:
            return RuleTexts()
        users = _texts(self._users_value(action))
        files = [os.path.join(self.directory, os.path.expanduser(each)) for each in _texts(added)]
        texts = RuleTexts().with_files([*users, *files])
        # Errors in these texts are reported when they are compiled.
        with suppress(RuleError):
            if (rule := find_loosened_rule(texts, users, files)) is not None:
                raise SettingsError(
                    f"{found.where}: what they name would no longer be covered by '{rule}' of "
                    f"{self.own}, and agents may write in the working directory; name the tools in rules "
                    "of your own, or all files on the command line: --rules"
                )
        return texts

    def _convert(self, action: argparse.Action, found: _Found) -> object:
        value = found.value
        if action.nargs == 0:
            return _boolean(found)
        if action.nargs == "+":
            items = value if is_list(value) else [v.strip() for v in str(value).split(",")]
            return [_scalar(action, replace(found, value=item)) for item in items if item != ""]
        if action in self.repeated:
            # One value each time it is given, commas included; only a list in a file has several.
            return [
                _scalar(action, replace(found, value=v)) for v in (value if is_list(value) else [value])
            ]
        if is_list(value) and action.dest in ("tools", "redact"):
            return ",".join(str(item) for item in value)
        return _scalar(action, found)

    def _users_value(self, action: argparse.Action) -> object:
        """Return an option's value in the user's own file; `None` if it has none."""
        of_user = [each for each in self.files if each[0] == self.own]
        found = replace(self, environ={}, files=of_user).find(action)
        return None if found is None else self.value(action, found)


def with_named_file(args: argparse.Namespace, environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment with the file of `--config` as the one to read, if that option was given.

    A settings file cannot name another one: a file that came with the directory could name one to be
    trusted.
    """
    on_line = getattr(args, "config", None) if "config" in getattr(args, "typed", ()) else None
    return environ if on_line is None else {**environ, CONFIG: str(on_line)}


def find_tables(
    name: str, declaration: type, environ: Mapping[str, str], directory: Path
) -> tuple[FoundTable | None, FoundTable | None]:
    """Find one of `TABLES` in the working directory's file, and in the nearest other file that has it.

    The tables are not merged here; readers do that. Raises `SettingsError` for a value that is not a
    table, and for settings that a working directory may not have; `declaration` has the `Key` of each.
    """
    project: FoundTable | None = None
    for path, tables in settings_files(directory, environ):
        if name not in tables:
            continue
        values = tables[name]
        if not is_table(values):
            raise SettingsError(f"{path}: [{name}]: expected a table of settings, found {values!r}")
        found = FoundTable(path, name, values)
        if not is_agent_writable(path, directory, environ):
            return project, found
        _check_directory(found, declaration, environ)
        project = found
    return project, None


def declared_keys(declaration: type) -> dict[str, Key]:
    """Return the keys of a table by name, from the annotations of its class."""
    hints = get_type_hints(declaration, include_extras=True)
    found = {name: getattr(hint, "__metadata__", ()) for name, hint in hints.items()}
    return {name: each for name, all_of in found.items() for each in all_of if isinstance(each, Key)}


def _check_directory(found: FoundTable, declaration: type, environ: Mapping[str, str]) -> None:
    """Raise `SettingsError` for settings in one of `TABLES` that a working directory may not have."""
    keys = declared_keys(declaration)
    allowed = {name for name, key in keys.items() if key.project is not None}
    refused = [f"{found.where}: {key}" for key in found.values if key not in allowed]
    if not allowed and not refused:
        refused = [found.where]
    if refused:
        raise SettingsError(
            "\n".join(
                f"{each}: is allowed in {users_file(environ)} only, since agents may write in the "
                f"working directory; move [{found.name}] there"
                for each in refused
            )
        )


def is_agent_writable(path: Path, directory: Path, environ: Mapping[str, str]) -> bool:
    """Return whether a settings file is that of a working directory, where agents may write.

    A file named by the user is not: the user vouches for its content.
    """
    project = directory / FILE_NAME
    if path != project or environ.get(CONFIG):
        return False
    return project.resolve() != users_file(environ).resolve()


def users_file(environ: Mapping[str, str]) -> Path:
    """Return the path of the file in the user's config directory, whether it exists or not."""
    return config_directory(environ) / FILE_NAME


def _texts(value: object) -> list[str]:
    return [str(each) for each in value] if is_list(value) else []


def option_names(action: argparse.Action) -> tuple[str, ...]:
    """Return an option's names in the environment and files: that on the command line, then `dest`."""
    on_line = next((o for o in action.option_strings if o.startswith("--")), action.dest)
    return tuple(dict.fromkeys([on_line.lstrip("-").replace("-", "_"), action.dest]))


def settings_files(
    directory: Path, environ: Mapping[str, str]
) -> Iterator[tuple[Path, Mapping[str, object]]]:
    """Yield the existing settings files, the nearest first. Raises `SettingsError` for an invalid one."""
    named = environ.get(CONFIG)
    for path in (Path(named) if named else directory / FILE_NAME, users_file(environ)):
        try:
            text = _text(path)
        except FileNotFoundError as error:
            if named and path == Path(named):
                raise SettingsError(f"{path}: no such settings file") from error
            continue
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(_unread(path, error, environ)) from error
        try:
            found = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise SettingsError(f"{path}: {error}") from error
        except RecursionError as error:
            raise SettingsError(f"{path}: is nested too deeply to be read; flatten it") from error
        yield path, found


def _text(path: Path) -> str:
    """Return the text of a settings file.

    Raises `SettingsError` if it is not a regular file or is too large, and `OSError` or
    `UnicodeDecodeError` if it cannot be read.
    """
    # Non-blocking: opening a pipe without a writer would never return.
    with open(os.open(path, os.O_RDONLY | _NO_WAIT), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise SettingsError(f"{path}: is a pipe or a device, expected a settings file; remove it")
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise SettingsError(f"{path}: is larger than {MAX_FILE_BYTES:,} bytes; is this a settings file?")
    return data.decode("utf-8")


def _unread(path: Path, error: OSError | UnicodeDecodeError, environ: Mapping[str, str]) -> str:
    """Return the reason why a settings file cannot be read, with the remedy."""
    from .paths import describe_unusable_path

    config = environ.get(CONFIG_DIRECTORY)
    if config and path == users_file(environ):
        fault = describe_unusable_path(config)
        if fault is None and isinstance(error, NotADirectoryError):
            fault = f"expected a directory, found '{config}'; name the one that holds {FILE_NAME}"
        if fault is not None:
            return f"{CONFIG_DIRECTORY}: {fault}"
    reason = error.strerror if isinstance(error, OSError) else error
    return f"{path}: cannot be read ({reason}); fix its permissions or remove it"


def _unknown(
    path: Path, table: Mapping[str, object], options: Collection[str], commands: Collection[str]
) -> Iterator[str]:
    """Yield a message for each unknown key of a file."""
    from .errors import unknown_setting

    for key, value in table.items():
        if key in TABLES:
            continue
        if key in commands and is_table(value):
            for each in value:
                if each not in options:
                    yield f"{path}: [{key}]: {unknown_setting(each, sorted(options))}"
        elif key not in options:
            yield f"{path}: {unknown_setting(key, sorted({*options, *commands, *TABLES}))}"


def _scalar(action: argparse.Action, found: _Found) -> object:
    if is_list(found.value) or is_table(found.value):
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
    text = str(found.value).strip().lower()
    if text in {*_TRUE, *_FALSE}:
        return text in _TRUE
    raise SettingsError(f"{found.where}: expected true or false, found '{found.value}'")
