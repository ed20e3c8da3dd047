"""Look and keys of a console. Invalid settings are rejected before anything starts."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..config.keys import KeySetting, key_settings
from ..config.loader import SettingsError
from .charset import needs_ascii


@dataclass(frozen=True, slots=True)
class Appearance:
    """A theme's name, whether symbols are ASCII, and the operator's own keys by binding id."""

    theme: str | None = None
    ascii_only: bool = False
    keys: Mapping[str, str] = field(default_factory=dict[str, str])


def appearance_of(
    args: argparse.Namespace,
    *,
    environ: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> Appearance:
    """Return the appearance from `args` and settings, for a command that opens a console. Raises
    `SettingsError`.

    Textual is imported only if a theme or keys were set that have to be looked up.
    """
    environ = os.environ if environ is None else environ
    ascii_only = needs_ascii(environ) if args.ascii is None else bool(args.ascii)
    return Appearance(
        _theme(args.theme), ascii_only, _keys(key_settings(environ=environ, directory=directory))
    )


def _theme(name: str | None) -> str | None:
    if name is None:
        return None
    from .theme import theme_names

    known = theme_names()
    if name in known:
        return name
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=1)
    hint = f"did you mean '{close[0]}'? Known" if close else "known"
    raise SettingsError(f"theme: unknown theme '{name}'; {hint}: {', '.join(known)}")


def _keys(settings: list[KeySetting]) -> Mapping[str, str]:
    if not settings:
        return {}
    from .keymap_check import check_keymap

    return check_keymap(settings)
