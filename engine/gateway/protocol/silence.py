"""Detection of vanished peers: a machine without power, a cut network, a firewall that dropped state.

Such a connection receives nothing, not even its end. The operating system therefore probes the peer's
system, without waking either program, and breaks the connection if it gets no answer.
"""

from __future__ import annotations

import socket

SECONDS = 10
"""Seconds without a sign of life after which a connection counts as lost and the next server is tried."""


def break_when_silent(connection: socket.socket, seconds: int | None = None) -> None:
    """Make a connection break `seconds` (default `SECONDS`) after its peer's last sign of life.

    Unix sockets do not need this. Options that the operating system does not support are skipped.
    """
    if connection.family not in (socket.AF_INET, socket.AF_INET6):
        return
    limit = SECONDS if seconds is None else seconds
    probes = 3
    interval = max(1, limit // 5)
    idle = max(1, limit - probes * interval)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for names, value in (
        (("TCP_KEEPIDLE", "TCP_KEEPALIVE"), idle),
        (("TCP_KEEPINTVL",), interval),
        (("TCP_KEEPCNT",), probes),
        (("TCP_USER_TIMEOUT",), limit * 1000),  # while sent data is unacknowledged
    ):
        name = next((each for each in names if hasattr(socket, each)), None)
        if name is not None:
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
