"""One attempt to deliver a notification: run a command, or post JSON to an address.

Neither can block anything: both have ten seconds, and their answers are only logged.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from typing import BinaryIO

from ....engine.core.sanitize import visible

TIMEOUT = 10.0
"""Seconds allowed for a command or a server."""
LOGGED = 2_000
"""Characters of their output that are logged."""

log = logging.getLogger(__name__)


class SendError(Exception):
    """A notification was not delivered; the message says why."""


async def run_command(command: Sequence[str], payload: bytes, *, timeout: float = TIMEOUT) -> str:  # noqa: ASYNC109 - it also ends the command
    """Run a program, without a shell, with `payload` on its standard input. Returns its output.

    Input and output are files, so that nothing waits for a program that reads or writes slowly, or whose
    children keep a pipe open. Raises `SendError`, after all processes of its group were killed.
    """
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as printed:
        source.write(payload)
        source.seek(0)
        try:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=source, stdout=printed, stderr=printed, start_new_session=True
            )
        except (OSError, ValueError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
            raise SendError(f"'{_short(command[0])}' cannot be run: {reason}") from error
        try:
            code = await asyncio.wait_for(process.wait(), timeout)
        except TimeoutError as error:
            raise SendError(
                f"'{_short(command[0])}' took longer than {timeout:g} s and was ended"
            ) from error
        finally:
            with suppress(ProcessLookupError, PermissionError):
                if process.returncode is None:
                    os.killpg(process.pid, signal.SIGKILL)
            await asyncio.shield(process.wait())
        output = _head(printed)
    if output:
        log.info("%s said: %s", command[0], output)
    if code:
        last = f": {_short(output.splitlines()[-1])}" if output else ""
        raise SendError(f"'{_short(command[0])}' ended with {code}{last}")
    return output


def _head(file: BinaryIO) -> str:
    file.seek(0)
    return visible(file.read(4 * LOGGED).decode("utf-8", "replace")[:LOGGED], keep_newlines=True).strip()


def _short(text: str) -> str:
    text = visible(text)
    return text if len(text) <= 120 else text[:119] + "…"


async def post(
    url: str,
    payload: bytes,
    *,
    timeout: float = TIMEOUT,  # noqa: ASYNC109 - of the whole exchange
    content_type: str = "application/cloudevents+json",
) -> str:
    """Post `payload`, by default a CloudEvent. Returns the status. Raises `SendError` unless it is 2xx.

    Redirections are not followed: data goes only to the configured address.
    """
    import httpx  # importing it takes longer than starting a console

    headers = {"Content-Type": content_type, "User-Agent": "interlock"}
    try:
        async with (
            asyncio.timeout(timeout),
            httpx.AsyncClient(follow_redirects=False, timeout=timeout) as client,
            client.stream("POST", url, content=payload, headers=headers) as answer,
        ):
            status = f"{answer.status_code} {answer.reason_phrase}".strip()
            good = answer.is_success
    except TimeoutError as error:
        raise SendError(f"{host_of(url)} did not answer within {timeout:g} s") from error
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        reason = str(error) or type(error).__name__
        raise SendError(f"{host_of(url)} cannot be reached: {_short(reason)}") from error
    log.info("%s answered %s", host_of(url), status)
    if not good:
        raise SendError(f"{host_of(url)} answered {_short(status)}, expected 2xx")
    return status


def host_of(url: str) -> str:
    """Return the part of an address that may be shown: what follows the host is often a secret."""
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return visible(f"{parts.scheme}://{parts.hostname}{port}")
