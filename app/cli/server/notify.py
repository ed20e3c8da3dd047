"""`interlock notify`: shows the settings of `[notify]`, and sends a test notification."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING

from ...config.arguments import refuse
from ..options import add_switch

if TYPE_CHECKING:
    from ...config.notifications import NotifySettings
    from ...hosting.notifications.slack import ChatTerms

FAILED = 1


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_switch(parser, "--test", "run and send it once, for a sample request")


def run(args: argparse.Namespace) -> int:
    """Print the settings; with `--test`, send one notification.

    Returns the exit code: 1 if that failed.
    """
    from ....engine.core.sanitize import visible
    from ...config.loader import FILE_NAME, SettingsError
    from ...config.notifications import notify_settings
    from ...hosting.notifications.delivery import host_of
    from ...hosting.notifications.slack import chat_terms

    try:
        settings = notify_settings()
    except SettingsError as error:
        return refuse("", error)
    if settings is None:
        return refuse(
            "notify",
            f"nothing is set up. Put a table [notify] into {FILE_NAME} in the user's config directory, "
            'with after = "2m" and command = ["…"], url = "https://…" or to = ["ntfys://…"].',
        )
    try:
        chat = chat_terms()
    except SettingsError as error:
        return refuse("", error)
    input_too = ", with its masked input" if settings.include_input else ""
    if settings.url:
        does = f"POST to {host_of(settings.url)}"
    elif settings.command:
        does = f"run {' '.join(settings.command)}"
    else:
        does = _services(settings.to)
    if chat is not None:
        does = f"{does} and tell Slack" if does else "tell Slack"
    for after, what in ((settings.after, does), *_later(settings)):
        if what:
            waited = f"{after.total_seconds():g} s"
            print(f"For a request that has waited {waited}: {visible(what)}{input_too}")
    if chat is not None:
        print(f"Requests of low risk are decided from Slack by {visible(chat.people)}")
    if not args.test:
        print("Try it with: interlock notify --test")
        return 0
    return asyncio.run(_try(settings, chat))


def _services(addresses: Sequence[str]) -> str:
    from ...hosting.notifications.service_messages import service_name

    return f"tell {', '.join(map(service_name, addresses))}" if addresses else ""


def _later(settings: NotifySettings) -> list[tuple[timedelta, str]]:
    return [(after, _services(addresses)) for after, addresses in settings.later.items()]


async def _try(settings: NotifySettings, chat: ChatTerms | None) -> int:
    from ....engine.core.sanitize import visible
    from ...hosting.notifications.delivery import SendError
    from ...hosting.notifications.notifier import as_bytes, payload_of, sample_request, send_notification

    now = datetime.now(UTC)
    request = sample_request(now)
    ways = (*settings.ways, *chain.from_iterable(settings.later.values()))
    if None in ways:
        payload = payload_of(
            request, now, include_input=settings.include_input, link=settings.link, test=True
        )
        print(f"Sent: {as_bytes(payload).decode()}", flush=True)
    code = 0
    for way in ways:
        # Only requests of low risk can be decided from a chat.
        asked = request.model_copy(update={"risk": "low"}) if settings.is_chat(way) else request
        try:
            answer = await send_notification(settings, asked, now, way, test=True, chat=chat)
        except SendError as error:
            code = refuse("notify", f"it failed: {error}", FAILED)
        else:
            print(f"It worked{f': {visible(answer)}' if answer else '.'}")
    return code
