"""The `[hook]` of a settings file: answers to agents with hooks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from ...engine.gateway.protocol.token_paths import config_directory
from .loader import SettingsError, table_setting
from .quantities import age

OnAllow = Literal["approved", "allow", "defer"]
OnWait = Literal["deny", "ask"]
OnEdit = Literal["pass", "deny"]
KNOWN = ("on_allow", "on_wait", "on_edit", "wait", "rules", "idle_exit")
WAIT = 50.0
IDLE_EXIT = "30m"
LONGEST_WAIT = 3600.0
MARGIN = 10
"""Seconds between the longest wait for an operator and when the agent ends the command."""


@dataclass(frozen=True, slots=True)
class HookSettings:
    """Settings of the hooks.

    `wait` is the time in seconds to wait for an operator, and `on_wait` the answer after that. `on_allow`
    says for which calls an allowed call skips the agent's own question: those that an operator approved,
    all of them, or none. `on_edit` says whether edited input is passed on or the call denied; `None`
    selects what is safe with the agent. `rules` are sets of the server's `[gateway.rules]` to add.
    `idle_exit` is how long a server that was started here goes on without a session and a connection, as
    `interlock serve --idle-exit` takes it.
    """

    wait: float = WAIT
    on_allow: OnAllow = "approved"
    on_wait: OnWait = "deny"
    on_edit: OnEdit | None = None
    rules: tuple[str, ...] = ()
    idle_exit: str = IDLE_EXIT


def hook_settings(
    project: Path | None = None, *, environ: Mapping[str, str] = os.environ
) -> HookSettings:
    """The user's settings, with a project's waiting time and additional rules.

    A project's table removes nothing from the user's. Raises `SettingsError`.
    """
    own = table_setting("hook", environ=environ, directory=config_directory(environ))
    user = HookSettings() if own is None else _read(*own)
    if project is None:
        return user
    found = table_setting("hook", environ=environ, directory=project)
    if found is None or found == own:
        return user
    there = _read(*found)
    return HookSettings(
        wait=there.wait if "wait" in found[0] else user.wait,
        on_allow=user.on_allow,
        on_wait=user.on_wait,
        on_edit=user.on_edit,
        rules=tuple(dict.fromkeys((*user.rules, *there.rules))),
        idle_exit=user.idle_exit,
    )


def waiting_time(text: object) -> float:
    """Seconds of `50s`, `9m`. Raises `ValueError`."""
    seconds = age(text if isinstance(text, str) else repr(text)).total_seconds()
    if not 0 < seconds <= LONGEST_WAIT:
        raise ValueError(f"expected from 1s to 60m, found '{text}'")
    return seconds


def _read(table: Mapping[str, object], where: str) -> HookSettings:
    for key in table:
        if key not in KNOWN:
            raise SettingsError(f"{where}: unknown setting '{key}'; known: {', '.join(KNOWN)}")
    try:
        wait = waiting_time(table["wait"]) if "wait" in table else WAIT
    except ValueError as error:
        raise SettingsError(f"{where}: wait: {error}") from error
    rules = table.get("rules", [])
    names = cast("list[object]", rules) if isinstance(rules, list) else [rules]
    if not all(isinstance(name, str) and name for name in names):
        raise SettingsError(f"{where}: rules: expected names of the server's rule sets, found {rules!r}")
    return HookSettings(
        wait=wait,
        on_allow=cast("OnAllow", _one_of(table, where, "on_allow", ("approved", "allow", "defer"))),
        on_wait=cast("OnWait", _one_of(table, where, "on_wait", ("deny", "ask"))),
        on_edit=cast("OnEdit", _one_of(table, where, "on_edit", ("pass", "deny")))
        if "on_edit" in table
        else None,
        rules=tuple(cast("list[str]", names)),
        idle_exit=_idle_exit(table, where),
    )


def _idle_exit(table: Mapping[str, object], where: str) -> str:
    found = table.get("idle_exit", IDLE_EXIT)
    if found != "never":
        try:
            if not isinstance(found, str) or not age(found):
                raise ValueError(f"expected a length of time such as {IDLE_EXIT}, found {found!r}")
        except ValueError as error:
            raise SettingsError(f"{where}: idle_exit: {error}, or 'never'") from error
    return cast("str", found)


def _one_of(table: Mapping[str, object], where: str, key: str, known: tuple[str, ...]) -> object:
    found = table.get(key, known[0])
    if found not in known:
        raise SettingsError(f"{where}: {key}: expected {' or '.join(known)}, found {found!r}")
    return found
