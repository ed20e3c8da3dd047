"""`[attention]` and `[notify]`: signals and notifications for operators who are not at the console."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import Annotated, ClassVar, Self, cast
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    model_validator,
)

from .loader import Key, SettingsError
from .paths import is_sequence
from .quantities import length_of_time, one_or_more
from .tables import SettingsTable, secret_file, secret_in

MOST_MESSAGES = 600
"""Maximum messages per minute."""


class AttentionSettings(SettingsTable):
    """Switches for bell and desktop notification, and the shortest time between two signals."""

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
    """Return `[attention]` of the user's file, or of the file named instead. Raises `SettingsError`."""
    return AttentionSettings.read(environ, directory)[1] or AttentionSettings()


def _words(value: object) -> list[str]:
    items: list[object] = [*value] if is_sequence(value) else []
    words = [word for word in items if isinstance(word, str)]
    if not words or words != items:
        raise ValueError('expected a program and its arguments, like ["notify-me", "--quiet"]')
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
    """Validate the address of a service; this requires Apprise."""
    scheme = value.partition("://")[0]
    try:
        from apprise import Apprise
    except ImportError as error:
        raise ValueError("services need the package Apprise: pip install 'interlock[notify]'") from error
    # What follows the scheme is often a secret, so the message omits it. Apprise's parameters are only
    # partly typed.
    if not Apprise.instantiate(value):  # pyright: ignore[reportUnknownMemberType]
        raise ValueError(
            f"'{scheme}://…' is not an address that Apprise can read; "
            "the documentation has their forms, under Notifications"
        )
    return value


Services = Annotated[tuple[Annotated[str, AfterValidator(_service)], ...], BeforeValidator(one_or_more)]


def _times(value: object) -> object:
    """Parse the lengths of time that are a table's keys."""
    if isinstance(value, dict):
        return {length_of_time(k): each for k, each in cast("dict[str, object]", value).items()}
    return value


SIGNING_SECRET = "INTERLOCK_SLACK_SIGNING_SECRET"
SLACK_HOST = "hooks.slack.com"


def _slack_webhook(value: str) -> str:
    try:
        parts = urlsplit(value)
        good = parts.netloc == SLACK_HOST and parts.scheme == "https" and parts.path.count("/") == 4
    except ValueError:
        good = False
    if not good:  # The message omits the value: it is a secret.
        raise ValueError(
            f"expected a webhook of your Slack app, https://{SLACK_HOST}/services/T…/B…/…, as its page "
            "Incoming Webhooks shows it"
        )
    return value


class SlackSettings(BaseModel):
    """`[notify.chat.slack]`: a Slack app that receives messages, and whose clicks may decide."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    webhook: Annotated[str, AfterValidator(_slack_webhook), Field(repr=False)]
    signing_secret_file: Annotated[
        Annotated[str, Field(pattern=r"\S")] | None, AfterValidator(secret_file)
    ] = None

    def secret(self, environ: Mapping[str, str] | None = None) -> str:
        """Return the secret with which Slack signs clicks. Raises `SettingsError`."""
        where, meaning = "[notify.chat.slack]", "the app's signing secret"
        if self.signing_secret_file is not None:
            return secret_in(self.signing_secret_file, f"{where}: signing_secret_file", meaning)
        found = (os.environ if environ is None else environ).get(SIGNING_SECRET, "").strip()
        if not found:
            raise SettingsError(
                f"{where}: there is no signing secret, without which nobody can decide from Slack: put "
                f"{meaning} (Basic Information) into a file, chmod 600 it, and name it with "
                f"signing_secret_file; or set {SIGNING_SECRET}"
            )
        return found


class ChatSettings(BaseModel):
    """`[notify.chat]`: the chat in which operators may decide."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    slack: SlackSettings


class NotifySettings(SettingsTable):
    """Settings of notifications: the delay, and a command, a URL, or services."""

    table: ClassVar = "notify"

    after: Annotated[
        timedelta,
        BeforeValidator(length_of_time),
        Key('how long a request has waited, `"2m"` by default'),
    ] = timedelta(minutes=2)
    command: Annotated[
        tuple[str, ...],
        BeforeValidator(_words),
        Key("a program and its arguments; JSON on its standard input; this, `url` or `to`"),
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
        Key("messages a minute to each of them, 10 by default; the rest are combined into one"),
    ] = 10
    link: Annotated[
        str | None,
        AfterValidator(lambda value: value and _http(value).rstrip("/")),
        Key("where phones reach `interlock web`, `https://…`: messages link to the request there"),
    ] = None
    include_input: Annotated[StrictBool, Key("`true`: with the call's input, masked as on screen")] = (
        False
    )
    chat: Annotated[
        ChatSettings | None,
        Key(
            "a Slack app that gets messages, and from which requests of low risk may be decided: a table "
            "`[notify.chat.slack]` with `webhook`, and `signing_secret_file`, a file that only you may "
            f"read (else `{SIGNING_SECRET}`)"
        ),
    ] = None

    @property
    def ways(self) -> tuple[str | None, ...]:
        """Channels: `None` for the command or URL, or the services; then the chat."""
        ways = (None,) if self.command or self.url else self.to
        return ways if self.chat is None else (*ways, self.chat.slack.webhook)

    @property
    def services(self) -> tuple[str, ...]:
        """All services, each once."""
        own = (way for way in self.ways if way is not None)
        return tuple(dict.fromkeys((*own, *chain.from_iterable(self.later.values()))))

    def is_chat(self, way: str | None) -> bool:
        """Return whether a channel is the chat."""
        return self.chat is not None and way == self.chat.slack.webhook

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        names = [name for name in ("command", "url", "to") if getattr(self, name)]
        if len(names) > 1:
            raise ValueError(f"has {' and '.join(names)}; give one of them")
        if not names and not self.later and self.chat is None:
            raise ValueError("needs command, url or to; give one of them")
        if self.chat is not None and self.chat.slack.webhook in self.to:
            raise ValueError("the webhook of [notify.chat.slack] is in to as well; name it once")
        return self


def notify_settings(
    *, environ: Mapping[str, str] | None = None, directory: Path | None = None
) -> NotifySettings | None:
    """Return `[notify]` of the user's file, or of the file named instead. Raises `SettingsError`."""
    return NotifySettings.read(environ, directory)[1]
