"""The `[gateway]` of a settings file: terms for external agents and remote consoles of a server."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import cast

from ...engine.gateway.server.limits import Limits
from .loader import CONFIG, FILE_NAME, SettingsError, table_setting, users_file, users_table
from .paths import beside

KNOWN = ("agents_may_shadow", "hosts", "limits", "origins", "rules")


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """Settings of a server.

    `rules` are sets that agents may add to a server's own, each a few files; `hosts` further names, with
    port, under which the server is reached; `origins` pages that may connect from a browser; `limits` the
    limits of one peer. `added` are the files in `rules` that a working directory names.
    """

    rules: Mapping[str, tuple[str, ...]]
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    agents_may_shadow: bool = False
    limits: Limits = field(default_factory=Limits)
    added: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


def gateway_settings(
    *, environ: Mapping[str, str] | None = None, directory: Path | None = None
) -> GatewaySettings:
    """The user's settings, with additional rule sets of the working directory. Raises `SettingsError`.

    A set defined by both has the rules of both: none of the user's is removed.
    """
    environ = os.environ if environ is None else environ
    near = table_setting("gateway", environ=environ, directory=directory)
    own = users_table("gateway", environ)
    user = _beside(users_file(environ).parent, _read(own))
    if near == own:
        return user
    if environ.get(CONFIG):
        return _read(near)
    rules, added = dict(user.rules), _read(near).rules
    for name, files in added.items():
        rules[name] = (*rules.get(name, ()), *files)
    return replace(user, rules=rules, added=added)


def _beside(directory: Path, settings: GatewaySettings) -> GatewaySettings:
    """Resolve the user's files in `directory`: where an agent writes, others could replace them."""
    try:
        sets = {
            name: tuple(beside(directory, file) for file in files)
            for name, files in settings.rules.items()
        }
    except ValueError as error:
        raise SettingsError(f"{directory / FILE_NAME}: [gateway]: rules: {error}") from error
    return replace(settings, rules=sets)


def _read(found: tuple[Mapping[str, object], str] | None) -> GatewaySettings:
    if found is None:
        return GatewaySettings({})
    table, where = found
    for key in table:
        if key not in KNOWN:
            raise SettingsError(f"{where}: unknown setting '{key}'; known: {', '.join(KNOWN)}")
    shadow = table.get("agents_may_shadow", False)
    if not isinstance(shadow, bool):
        raise SettingsError(f"{where}: agents_may_shadow: expected true or false, found {shadow!r}")
    sets = table.get("rules", {})
    if not isinstance(sets, dict):
        raise SettingsError(
            f'{where}: rules: expected lines like deploy = "deploy.rules", found {sets!r}'
        )
    return GatewaySettings(
        rules={
            name: _texts(value, f"{where}: rules: {name}")
            for name, value in cast("dict[str, object]", sets).items()
        },
        hosts=_texts(table.get("hosts", []), f"{where}: hosts"),
        origins=_texts(table.get("origins", []), f"{where}: origins"),
        agents_may_shadow=shadow,
        limits=_limits(table.get("limits", {}), f"{where}: limits"),
    )


def _limits(value: object, where: str) -> Limits:
    if not isinstance(value, dict):
        raise SettingsError(f"{where}: expected lines like rate = 500, found {value!r}")
    known = {each.name: getattr(Limits(), each.name) for each in fields(Limits)}
    given: dict[str, int | float] = {}
    for name, number in cast("dict[str, object]", value).items():
        if name not in known:
            raise SettingsError(f"{where}: unknown limit '{name}'; known: {', '.join(known)}")
        kinds = (int,) if isinstance(known[name], int) else (int, float)
        if isinstance(number, bool) or not isinstance(number, kinds) or not 0 < number < float("inf"):
            whole = "a whole number" if kinds == (int,) else "a number"
            raise SettingsError(f"{where}: {name}: expected {whole} above 0, found {number!r}")
        given[name] = number
    return replace(Limits(), **given)


def _texts(value: object, where: str) -> tuple[str, ...]:
    values = cast("list[object]", value) if isinstance(value, list) else [value]
    for each in values:
        if not isinstance(each, str) or not each.strip():
            raise SettingsError(f"{where}: expected a text or a list of texts, found {each!r}")
    return tuple(str(each) for each in values)
