"""Stops the servers that hooks have started; the next call starts a server with the current rules."""

from __future__ import annotations

import os
import signal
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path

from ....engine.gateway.hooks.websocket import HookError
from .server import directory

END_TIMEOUT = 10.0
"""Seconds allowed for a server to end."""
_MAC_LOCAL, _MAC_PEER_PID = 0, 2


def stop_servers(environ: Mapping[str, str] = os.environ) -> list[Path]:
    """Stop every server at the sockets of hooks; return these sockets. Raises `HookError`."""
    sockets: list[Path] = []
    for path in sorted(directory(environ).glob("*.sock")):
        process = _listener(path)
        if process is None:
            continue
        try:
            os.kill(process, signal.SIGTERM)
        except OSError as error:
            raise HookError(f"process {process} at {path} cannot be ended: {error.strerror}") from error
        latest = time.monotonic() + END_TIMEOUT
        while _is_alive(process):
            if time.monotonic() > latest:
                raise HookError(f"process {process} at {path} does not end; run: kill -9 {process}")
            time.sleep(0.05)
        sockets.append(path)
    return sockets


def _is_alive(process: int) -> bool:
    """Return whether a process is alive; a zombie is not."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return not Path("/proc").is_dir()
    return state != "Z"


def _listener(path: Path) -> int | None:
    """Return the process that listens on a socket, as reported by the system."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
            if hasattr(socket, "SO_PEERCRED"):
                credentials = probe.getsockopt(
                    socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")
                )
                return struct.unpack("3i", credentials)[0]
            return probe.getsockopt(_MAC_LOCAL, _MAC_PEER_PID)
        except OSError:
            return None
