"""`[attention]` and `[notify]`: signals and notifications for an operator who is not looking."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, ClassVar, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, StrictBool, model_validator

from .loader import Key
from .paths import is_sequence
from .quantities import length_of_time
from .tables import SettingsTable


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


class NotifySettings(SettingsTable):
    """Settings of notifications: the delay, and a command to run or an address to post JSON to."""

    table: ClassVar = "notify"

    after: Annotated[
        timedelta,
        BeforeValidator(length_of_time),
        Key('how long a request has waited, `"2m"` by default'),
    ] = timedelta(minutes=2)
    command: Annotated[
        tuple[str, ...],
        BeforeValidator(_words),
        Key("a program and its words; JSON on its standard input; this or `url`"),
    ] = ()
    url: Annotated[str, AfterValidator(_http), Key("where JSON is posted")] = ""
    include_input: Annotated[StrictBool, Key("`true`: with the call's input, masked as on screen")] = (
        False
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if bool(self.command) == bool(self.url):
            wrong = "has a command and a url" if self.url else "needs a command or a url"
            raise ValueError(f"{wrong}; give one of them")
        return self


def notify_settings(
    *, environ: Mapping[str, str] | None = None, directory: Path | None = None
) -> NotifySettings | None:
    """The user's `[notify]`, or that of a file that is named. Raises `SettingsError`."""
    return NotifySettings.read(environ, directory)[1]
