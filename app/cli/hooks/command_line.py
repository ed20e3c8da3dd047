"""Command line that `hook install` writes into an agent's settings, and that the hook command parses.

Everything that affects a decision is on this line and not in the environment, which a project's settings
may change.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ....engine.gateway.protocol.address import TOKEN, URL
from ....engine.gateway.protocol.token_paths import CONFIG_DIRECTORY, config_directory

TIMEOUT = 60.0
"""Seconds after which the agent kills the command; `hook install` writes the same into its settings."""
_DIRECTORIES = {"--home": "HOME", "--data-dir": "XDG_DATA_HOME", "--state-dir": "XDG_STATE_HOME"}
"""Options for the user's directories, and the variables by which programs find these directories."""
_PATHS = ("--project", "--config-dir", "--rules", *_DIRECTORIES)


@dataclass(frozen=True, slots=True)
class HookLine:
    """Options on a hook's command line.

    `config` is the user's own settings directory. `directories` maps variables to the user's other
    directories. `rules` are the files that the settings named when the hooks were installed. A line
    without any directory was written by an older Interlock.
    """

    timeout: float = TIMEOUT
    project: Path | None = None
    config: Path | None = None
    rules: tuple[str, ...] = ()
    directories: tuple[tuple[str, str], ...] = ()

    @property
    def words(self) -> list[str]:
        """Arguments of this command line."""
        words = ["--timeout", f"{self.timeout:.0f}"]
        if self.project is not None:
            words += ["--project", str(self.project)]
        if self.config is not None:
            words += ["--config-dir", str(self.config)]
        for each in self.rules:
            words += ["--rules", each]
        options = {variable: option for option, variable in _DIRECTORIES.items()}
        for variable, path in self.directories:
            words += [options[variable], path]
        return words

    @classmethod
    def read(cls, words: Sequence[str]) -> HookLine:
        """Parse the arguments of a command line. Raises `ValueError`."""
        line, remaining = cls(), iter(words)
        for word in remaining:
            name, equals, value = word.partition("=")
            value = value if equals else next(remaining, "")
            line = line._with(name, value)
        return line

    def _with(self, name: str, value: str) -> HookLine:
        if name == "--timeout" and value.isascii() and value.isdecimal() and 1 <= int(value) <= 86400:
            return replace(self, timeout=float(value))
        if name in _PATHS and Path(value).is_absolute():
            match name:
                case "--project":
                    return replace(self, project=Path(value))
                case "--config-dir":
                    return replace(self, config=Path(value))
                case "--rules":
                    return replace(self, rules=(*self.rules, value))
                case _:
                    return replace(self, directories=(*self.directories, (_DIRECTORIES[name], value)))
        raise ValueError(
            f"expected --timeout SECONDS, --rules FILE, --project DIR, --config-dir DIR, --home DIR, "
            f"--data-dir DIR or --state-dir DIR (absolute), found '{name} {value}'"
        )

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the environment for the hook and for a server that it starts.

        Of Interlock's own variables it keeps the server's URL and the token. The server's socket and the
        journal are looked up where the user's files were when the hooks were installed.
        """
        config = self.config or config_directory(environ).absolute()
        inherited = {
            name: value
            for name, value in environ.items()
            if name in (URL, TOKEN) or not name.startswith("INTERLOCK_")
        }
        return inherited | dict(self.directories) | {CONFIG_DIRECTORY: str(config)}


def user_directories() -> tuple[tuple[str, str], ...]:
    """Return the directories of this user's files, as `HookLine.directories`."""
    from platformdirs import user_data_path, user_state_path

    found = {
        "HOME": Path.home(),
        "XDG_DATA_HOME": user_data_path("interlock").parent,
        "XDG_STATE_HOME": Path(os.environ.get("XDG_STATE_HOME") or user_state_path("interlock").parent),
    }
    return tuple((variable, str(path.absolute())) for variable, path in found.items())
