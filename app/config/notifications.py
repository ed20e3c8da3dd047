"""`[attention]` and `[notify]`: signals and notifications for an operator who is not looking."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import Annotated, ClassVar, Self, cast
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, model_validator

from .loader import Key
from .paths import is_sequence
from .quantities import length_of_time, one_or_more
from .tables import SettingsTable

MOST_MESSAGES = 600
"""Messages a minute, at most."""


class AttentionSettings(SettingsTable):
    """Switches for bell and notification, and the least time between two of them."""

    table: ClassVar = "attention"

    bell: Annotated[StrictBool, Key("the terminal's bell; `true` by default")] = True
    every: Annotated[
        timedelta,
        BeforeValidator(length_of_time),
        Key('shortest time between two signals, `"30s"` by default'),
    ] = timedelta(seconds=30)
    notify: Annotated[StrictBool, Key("the desktop's notification; `true` by default")] = True


def attention_settings(
    *, environ: Mapping[str, str] | None = None, directory: Path | None = None
) -> AttentionSettings:
    """The user's `[attention]`, or that of a file that is named. Raises `SettingsError`."""
    return AttentionSettings.read(environ, directory)[1] or AttentionSettings()


def _words(value: object) -> list[str]:
    items: list[object] = [*value] if is_sequence(value) else []
    words = [word for word in items if isinstance(word, str)]
    if not words or words != items:
        raise ValueError('expected a program and its words, like ["notify-me", "--quiet"]')
    if not words[0] or any("\0" in word for word in words):
        raise ValueError("expected the name of a program, without NUL characters")
    return words


def _http(value: str) -> str:
    try:
        parts = urlsplit(value)
        good = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        good = False
    if not good:
        raise ValueError("expected an address that begins with https:// or http://")
    return value


def _service(value: str) -> str:
    """An address of a service, which Apprise has to be there to read."""
    scheme = value.partition("://")[0]
    try:
        from apprise import Apprise
    except ImportError as error:
        raise ValueError("services need the package Apprise: pip install 'interlock[notify]'") from error
    # What follows the scheme is often a secret, and not shown.
    # Its parameters are typed in part only.
    if not Apprise.instantiate(value):  # pyright: ignore[reportUnknownMemberType]
        raise ValueError(
            f"'{scheme}://…' is no address that Apprise can read; "
            "its forms stand in the documentation, under Notifications"
        )
    return value


Services = Annotated[tuple[Annotated[str, AfterValidator(_service)], ...], BeforeValidator(one_or_more)]


def _times(value: object) -> object:
    """Lengths of time as keys of a table."""
    if isinstance(value, dict):
        return {length_of_time(k): each for k, each in cast("dict[str, object]", value).items()}
    return value


class NotifySettings(SettingsTable):
    """Settings of notifications: the delay, and a command, an address of one's own, or services."""

    table: ClassVar = "notify"

    after: Annotated[
        timedelta,
        BeforeValidator(length_of_time),
        Key('how long a request has waited, `"2m"` by default'),
    ] = timedelta(minutes=2)
    command: Annotated[
        tuple[str, ...],
        BeforeValidator(_words),
        Key("a program and its words; JSON on its standard input; this, `url` or `to`"),
    ] = ()
    url: Annotated[str, AfterValidator(_http), Key("where JSON is posted")] = ""
    to: Annotated[
        Services,
        Key('services that get a message, `["ntfys://…", "slack://…"]`; told of the decision too'),
    ] = ()
    later: Annotated[
        dict[timedelta, Services],
        BeforeValidator(_times),
        Key('further services after a longer time, `{ "10m" = ["pagerduty://…"] }`'),
    ] = Field(default_factory=dict[timedelta, tuple[str, ...]])
    most: Annotated[
        int,
        Field(strict=True, ge=1, le=MOST_MESSAGES),
        Key("messages a minute to each of them, 10 by default; what is beyond comes together in one"),
    ] = 10
    link: Annotated[
        str | None,
        AfterValidator(lambda value: value and _http(value).rstrip("/")),
        Key("where phones reach `interlock web`, `https://…`: messages link to the request there"),
    ] = None
    include_input: Annotated[StrictBool, Key("`true`: with the call's input, masked as on screen")] = (
        False
    )

    @property
    def ways(self) -> tuple[str | None, ...]:
        """The services, or `None` for the command or the address of one's own."""
        return (None,) if self.command or self.url else self.to

    @property
    def services(self) -> tuple[str, ...]:
        """All services, each once."""
        return tuple(dict.fromkeys((*self.to, *chain.from_iterable(self.later.values()))))

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        given = [name for name in ("command", "url", "to") if getattr(self, name)]
        if len(given) > 1:
            raise ValueError(f"has {' and '.join(given)}; give one of them")
        if not given and not self.later:
            raise ValueError("needs command, url or to; give one of them")
        return self


def notify_settings(
    *, environ: Mapping[str, str] | None = None, directory: Path | None = None
) -> NotifySettings | None:
    """The user's `[notify]`, or that of a file that is named. Raises `SettingsError`."""
    return NotifySettings.read(environ, directory)[1]
