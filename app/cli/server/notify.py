"""`interlock notify`: shows the settings of `[notify]`, and tests them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TextIO

from ....engine.core.sanitize import visible
from ...config.arguments import BAD_INPUT
from ...config.loader import FILE_NAME, SettingsError
from ...config.notify import NotifySettings, notify_settings
from ...hosting.notification_delivery import SendError, host_of
from ...hosting.notifications import as_bytes, payload_of, sample, tell

FAILED = 1
NONE = (
    f"interlock notify: nothing is set up. Put a table [notify] into {FILE_NAME} in the user's "
    'config directory, with after = "2m" and command = ["…"] or url = "https://…".'
)


def notify(*, test: bool, out: TextIO, err: TextIO) -> int:
    """Print the settings; with `test`, notify once. Returns the exit code: 1 when that failed."""
    try:
        settings = notify_settings()
    except SettingsError as error:
        print(f"interlock: {visible(str(error), keep_newlines=True)}", file=err)
        return BAD_INPUT
    if settings is None:
        print(NONE, file=err)
        return BAD_INPUT
    input_too = ", with its masked input" if settings.include_input else ""
    after = f"{settings.after.total_seconds():g} s"
    does = f"POST to {host_of(settings.url)}" if settings.url else f"run {' '.join(settings.command)}"
    print(f"For a request that has waited {after}: {visible(does)}{input_too}", file=out)
    if not test:
        print("Try it with: interlock notify --test", file=out)
        return 0
    return asyncio.run(_try(settings, out, err))


async def _try(settings: NotifySettings, out: TextIO, err: TextIO) -> int:
    now = datetime.now(UTC)
    request = sample(now)
    payload = payload_of(request, now, include_input=settings.include_input, test=True)
    print(f"Sent: {as_bytes(payload).decode()}", file=out, flush=True)
    try:
        answer = await tell(settings, request, now, test=True)
    except SendError as error:
        print(f"interlock notify: it failed: {error}", file=err)
        return FAILED
    print(f"It worked{f': {visible(answer)}' if answer else '.'}", file=out)
    return 0
