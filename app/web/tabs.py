"""The process behind one tab: its own console, which ends with the tab."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from aiohttp import WSMsgType, web
from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError
from textual_serve.app_service import AppService
from textual_serve.download_manager import DownloadManager

from ...engine.core.sanitize import visible
from ...engine.gateway.server.limits import Bucket, weight

PRELUDE = b"__GANGLION__\n"
"""First output of Textual's driver; it sends packets after that."""
GRACE = 5.0
"""Seconds allowed for a console to end in order."""
MESSAGES_PER_SECOND = 500.0
"""Maximum messages per second of a tab; the rest waits in its socket."""
KEPT_BYTES = 8192
"""Bytes kept of a console's error output."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Console:
    """Command that starts a console: its command line and its complete environment."""

    line: Sequence[str]
    environment: Mapping[str, str]


class _Size(BaseModel):
    model_config = ConfigDict(frozen=True)

    width: int = Field(ge=1, le=1000)
    height: int = Field(ge=1, le=500)


class Tab(AppService):
    """textual-serve's app process, started without a shell and awaited until it has ended.

    It only paints in the browser: it cannot open pages or send files there.
    """

    def __init__(self, console: Console, socket: web.WebSocketResponse) -> None:
        super().__init__(
            console.line[0],
            write_bytes=socket.send_bytes,
            write_str=socket.send_str,
            close=self._close,
            download_manager=DownloadManager(),
        )
        self._console = console
        self._socket = socket
        self._ended = False

    async def _close(self) -> None:
        await self._socket.close()

    def _build_environment(self, width: int = 80, height: int = 24) -> dict[str, str]:
        return {**self._console.environment, "COLUMNS": str(width), "ROWS": str(height)}

    async def _open_app_process(self, width: int = 80, height: int = 24) -> Process:
        # In its own process group: Ctrl+C at the server's terminal goes to the server, which ends this in
        # order.
        self._process = process = await asyncio.create_subprocess_exec(
            *self._console.line,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=self._build_environment(width, height),
            start_new_session=True,
        )
        self._stdin = process.stdin
        return process

    async def run(self) -> None:
        """Forward what the console paints until it ends; if it failed, show its error output."""
        process = self._process
        assert process is not None
        assert process.stdout is not None
        assert process.stderr is not None
        last_words = asyncio.create_task(_read_last_words(process.stderr))
        try:
            await self._pass_on(process.stdout)
            code = await process.wait()
            if code and not self._ended:
                await self._paint_text(
                    (await last_words).decode("utf-8", "replace") or f"It ended with code {code}."
                )
        finally:
            last_words.cancel()
            with suppress(ConnectionError):
                await self._socket.close()

    async def on_meta(self, data: bytes) -> None:
        """Ignore all packets: nothing is needed but the end, which is detected by itself."""

    async def stop(self) -> None:
        """End the process: in order, or by force after `GRACE`."""
        if self._ended or self._process is None:
            return
        self._ended = True
        try:
            async with asyncio.timeout(GRACE):
                await self.send_meta({"type": "quit"})
                await self._process.wait()
        except TimeoutError:
            log.info("a tab's console did not end by itself")
        finally:
            if self._process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
            if self._task is not None:
                await self._task

    async def receive(self) -> None:
        """Forward the browser's messages, until it closes the tab or sends an invalid one."""
        bucket = Bucket(MESSAGES_PER_SECOND)
        async for message in self._socket:
            if message.type is not WSMsgType.TEXT:
                break
            await asyncio.sleep(bucket.take(weight(message.data)))
            try:
                await self._handle(message.data)
            except (ValueError, RecursionError):
                log.warning("a tab sent an invalid message")
                break

    async def _handle(self, text: str) -> None:
        """Handle one message of textual-serve's script. Raises `ValueError`."""
        match _MESSAGE.validate_python(json.loads(text)):
            case ["stdin", str(typed)]:
                await self.send_bytes(typed.encode())
            case ["resize", size]:
                new_size = _Size.model_validate(size)
                await self.set_terminal_size(new_size.width, new_size.height)
            case ["ping", str(data)]:
                await self._socket.send_json(["pong", data])
            case ["focus"]:
                await self.focus()
            case ["blur"]:
                await self.blur()
            case _:
                raise ValueError("unknown")

    async def _pass_on(self, output: asyncio.StreamReader) -> None:
        with suppress(asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            await output.readuntil(PRELUDE)
            while True:
                head = await output.readexactly(5)
                payload = await output.readexactly(int.from_bytes(head[1:], "big"))
                # Keep reading after the tab is gone: a console that cannot write cannot end, either.
                if head[:1] == b"D" and not self._socket.closed:
                    with suppress(ConnectionError):
                        await self._socket.send_bytes(payload)

    async def _paint_text(self, text: str) -> None:
        """Paint a plain text in place of the console."""
        plain = visible(text.strip(), keep_newlines=True)
        log.warning("a tab's console failed: %s", plain)
        with suppress(ConnectionError):
            painted = "\x1b[2J\x1b[H" + plain.replace("\n", "\r\n") + "\r\n"
            await self._socket.send_bytes(painted.encode())


_MESSAGE: TypeAdapter[list[JsonValue]] = TypeAdapter(list[JsonValue])


def size_of(width: str, height: str) -> tuple[int, int]:
    """Return the initial size of a tab: the requested one, or a default."""
    try:
        size = _Size(width=int(width), height=int(height))
    except (ValueError, ValidationError):
        return 80, 24
    return size.width, size.height


async def _read_last_words(stream: asyncio.StreamReader) -> bytes:
    """Return the end of the error output: a failing program prints the reason last."""
    tail = b""
    while data := await stream.read(4096):
        tail = (tail + data)[-KEPT_BYTES:]
    return tail
