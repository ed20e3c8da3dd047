"""The line that `hook install` writes into an agent's settings, and that the hook's command reads.

What decides stands on it and not in the environment, which a project's settings may set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..engine.gateway.address import TOKEN, URL
from ..engine.gateway.places import CONFIG_DIRECTORY, config_directory

TIMEOUT = 60.0
"""Seconds after which the agent ends the command; `hook install` writes the same into its settings."""
_PATHS = ("--project", "--config-dir", "--rules")


@dataclass(frozen=True, slots=True)
class HookLine:
    """`config` is the user's own directory of settings, and `rules` are files that its settings named
    when the hooks were installed. Without a directory the line is that of an older Interlock.
    """

    timeout: float = TIMEOUT
    project: Path | None = None
    config: Path | None = None
    rules: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        """What stands on the line."""
        words = ["--timeout", f"{self.timeout:.0f}"]
        if self.project is not None:
            words += ["--project", str(self.project)]
        if self.config is not None:
            words += ["--config-dir", str(self.config)]
        for each in self.rules:
            words += ["--rules", each]
        return words

    @classmethod
    def read(cls, words: Sequence[str]) -> HookLine:
        """The line that these words are. Raises `ValueError`."""
        line, left = cls(), iter(words)
        for word in left:
            name, equals, value = word.partition("=")
            value = value if equals else next(left, "")
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
                case _:
                    return replace(self, rules=(*self.rules, value))
        raise ValueError(
            f"expected --timeout SECONDS, or --project DIR, --config-dir DIR or --rules FILE (absolute), "
            f"found '{name} {value}'"
        )

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The environment that counts here and for a server that is started: of Interlock's own
        variables it says who is asked, and with which token.
        """
        config = self.config or config_directory(environ).absolute()
        kept = {
            name: value
            for name, value in environ.items()
            if name in (URL, TOKEN) or not name.startswith("INTERLOCK_")
        }
        return kept | {CONFIG_DIRECTORY: str(config)}
