"""The `[gateway]` of a settings file: what agents and consoles from elsewhere may do at a server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import cast

from ..engine.gateway.limits import Limits
from .settings import SettingsError, table_setting

USERS_OWN = ("agents_may_shadow", "hosts", "limits", "origins")
"""What would loosen a server; an agent may write in the working directory."""
KNOWN = (*USERS_OWN, "rules")


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """`rules` are sets that agents may add to a server's own, each a few files; `hosts` further names,
    with port, under which the server is reached; `origins` pages that may connect from a browser;
    `limits` how much one peer may ask for.
    """

    rules: Mapping[str, tuple[str, ...]]
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    agents_may_shadow: bool = False
    limits: Limits = field(default_factory=Limits)


def gateway_settings(
    *, environ: Mapping[str, str] | None = None, directory: Path | None = None
) -> GatewaySettings:
    """Those of the nearest file that has any. Raises `SettingsError`."""
    found = table_setting("gateway", environ=environ, directory=directory, users_own=USERS_OWN)
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
