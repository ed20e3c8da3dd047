"""`[hook]`: answers to agents with hooks.

Checked without a library, whose import hooks would wait for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal, get_args

from ...engine.gateway.protocol.token_paths import config_directory
from .loader import FoundTable, Key, SettingsError, find_tables
from .paths import is_list
from .quantities import age

OnAllow = Literal["approved", "allow", "defer"]
OnWait = Literal["deny", "ask"]
OnEdit = Literal["pass", "deny"]
LONGEST_WAIT = 3600.0
MARGIN = 10
"""Seconds between the longest wait for an operator and the time when the agent ends the command."""


@dataclass(frozen=True, slots=True)
class HookSettings:
    """Settings of the hooks; `wait` in seconds."""

    wait: Annotated[
        float,
        Key('time to wait for an operator, up to `"60m"`; `"50s"` by default', "any time"),
    ] = 50.0
    on_allow: Annotated[
        OnAllow,
        Key(
            "allowed calls that skip the agent's own question: "
            '`"approved"`, the default, `"allow"` all, `"defer"` none'
        ),
    ] = "approved"
    on_wait: Annotated[
        OnWait,
        Key('answer if nobody decided: `"deny"`, the default, or `"ask"` the agent\'s user'),
    ] = "deny"
    on_edit: Annotated[
        OnEdit | None,
        Key(
            'edited input: `"deny"` and tell the model the input, or `"pass"` it on; by default, '
            "whichever is safe with the agent"
        ),
    ] = None
    rules: Annotated[
        tuple[str, ...], Key("further sets of the server's `[gateway.rules]`", "further sets")
    ] = ()
    idle_exit: Annotated[
        str,
        Key('idle time after which a server that a hook started ends, `"30m"` by default, or `"never"`'),
    ] = "30m"


def hook_settings(
    project: Path | None = None, *, environ: Mapping[str, str] = os.environ
) -> HookSettings:
    """Return the user's settings, with a project's waiting time and additional rules.

    A project's table removes nothing of the user's. Raises `SettingsError`.
    """
    directory = config_directory(environ) if project is None else project
    added, own = (
        {} if found is None else _values(found)
        for found in find_tables("hook", HookSettings, environ, directory)
    )
    settings = replace(HookSettings(), **own)
    rules = (*settings.rules, *replace(HookSettings(), **added).rules)
    return replace(settings, **{**added, "rules": tuple(dict.fromkeys(rules))})


def waiting_time(text: object) -> float:
    """Parse `50s` or `9m` to seconds. Raises `ValueError`."""
    seconds = age(text if isinstance(text, str) else repr(text)).total_seconds()
    if not 0 < seconds <= LONGEST_WAIT:
        raise ValueError(f"expected from 1s to 60m, found '{text}'")
    return seconds


def _one_of(kind: object) -> Callable[[object], object]:
    def checked(value: object) -> object:
        choices = get_args(kind)
        if value not in choices:
            raise ValueError(f"expected {' or '.join(choices)}, found {value!r}")
        return value

    return checked


def _names(value: object) -> tuple[str, ...]:
    values = value if is_list(value) else [value]
    names = tuple(name for name in values if isinstance(name, str) and name)
    if len(names) < len(values):
        raise ValueError(f"expected names of the server's rule sets, found {value!r}")
    return names


def _idle_exit(value: object) -> object:
    try:
        if value != "never" and (not isinstance(value, str) or not age(value)):
            raise ValueError(f"expected a length of time such as 30m, found {value!r}")
    except ValueError as error:
        raise ValueError(f"{error}, or 'never'") from error
    return value


_READ: Mapping[str, Callable[[object], object]] = {
    "wait": waiting_time,
    "on_allow": _one_of(OnAllow),
    "on_wait": _one_of(OnWait),
    "on_edit": _one_of(OnEdit),
    "rules": _names,
    "idle_exit": _idle_exit,
}


def _values(found: FoundTable) -> dict[str, object]:
    """Parse the values of a table, by key. Raises `SettingsError` with all problems."""
    values: dict[str, object] = {}
    problems: list[str] = []
    for key, value in found.values.items():
        if key not in _READ:
            from .errors import unknown_setting

            problems.append(f"{found.where}: {unknown_setting(key, _READ)}")
            continue
        try:
            values[key] = _READ[key](value)
        except ValueError as error:
            problems.append(f"{found.where}: {key}: {error}")
    if problems:
        raise SettingsError("\n".join(problems))
    return values
