"""`[gateway]`: terms of a server for external agents and remote consoles."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, ValidationInfo

from ...engine.gateway.aap.receiver import WebhookReceiver
from ...engine.gateway.server.limits import Limits
from .loader import Key
from .paths import resolve_in
from .quantities import one_or_more
from .tables import BASE, SettingsTable

LIMITS_PAGE = "api/engine-gateway.md#interlock.engine.gateway.server.limits.Limits"


def _resolved(files: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
    """Resolve the user's own files next to the settings file.

    Elsewhere, in directories where agents write, others could replace them.
    """
    context: Mapping[str, Path | None] = info.context or {}
    base = context.get(BASE)
    return files if base is None else tuple(resolve_in(base, file) for file in files)


def _page(value: str) -> str:
    """Validate the origin on which browsers create passkeys; empty if none is set."""
    if not value:
        return value
    from ...engine.history.audit.passkeys import rp_of

    rp_of(value)
    return value


Texts = Annotated[tuple[Annotated[str, Field(pattern=r"\S")], ...], BeforeValidator(one_or_more)]


class GatewayTable(SettingsTable):
    """Settings of a server as in a file."""

    table: ClassVar = "gateway"

    agents_may_shadow: Annotated[
        StrictBool, Key("`true`: an agent may open a session in shadow mode")
    ] = False
    hosts: Annotated[Texts, Key("further names, with port, by which the server is reached")] = ()
    limits: Annotated[
        Limits,
        Key(
            f"a table of [limits]({LIMITS_PAGE}) on what one peer may ask for, such as "
            "`{ requests_per_token = 100 }`"
        ),
    ] = Limits()
    origins: Annotated[Texts, Key("pages that may connect from a browser")] = ()
    page: Annotated[
        str,
        AfterValidator(_page),
        Key(
            "where an `interlock web` on this server has its pages for phones, such as "
            '`"https://laptop.example:8738"`: links lead there, and passkeys are for that page only'
        ),
    ] = ""
    rules: Annotated[
        Mapping[str, Annotated[Texts, AfterValidator(_resolved)]],
        Key(
            'sets of rules files that agents may add, such as `deploy = "deploy.rules"`',
            "further sets, and files in yours",
        ),
    ] = {}
    webhooks: Annotated[
        Mapping[str, WebhookReceiver],
        Key(
            "receivers of the Agent Approval Protocol by the agent's token, such as "
            '`bot = { url = "https://…", secret = "whsec_…", registration = "UUID" }`'
        ),
    ] = {}


class GatewaySettings(GatewayTable):
    """Settings of a server. `added` are the files in `rules` that a working directory names."""

    added: Mapping[str, tuple[str, ...]] = {}


def gateway_settings(
    *, environ: Mapping[str, str] | None = None, directory: Path | None = None
) -> GatewaySettings:
    """Return the user's settings, with additional rule sets of the working directory.

    Raises `SettingsError`. A set defined in both has the rules of both: none of the user's is removed.
    """
    project, own = GatewayTable.read(environ, directory)
    user = own or GatewayTable()
    added: Mapping[str, tuple[str, ...]] = {} if project is None else project.rules
    rules = dict(user.rules)
    for name, files in added.items():
        rules[name] = (*rules.get(name, ()), *files)
    return GatewaySettings.model_validate({**dict(user), "rules": rules, "added": added})
