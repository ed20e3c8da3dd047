"""Connections whose peer has vanished: a machine without power, a cut network, a firewall that forgot.

Nothing comes of those, not even that they ended. The system asks the peer's system whether it is still
there, which wakes neither program, and breaks the connection once there is no answer.
"""

from __future__ import annotations

import socket

SECONDS = 10
"""Time without a sign of life after which a connection is lost, and the next server is tried."""


def break_when_silent(connection: socket.socket, seconds: int | None = None) -> None:
    """Have a connection break within `seconds` (`SECONDS`) of its peer's last sign of life.

    Sockets of this machine alone need it not; what a system does not know is left out.
    """
    if connection.family not in (socket.AF_INET, socket.AF_INET6):
        return
    allowed = SECONDS if seconds is None else seconds
    probes = 3
    interval = max(1, allowed // 5)
    idle = max(1, allowed - probes * interval)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for names, value in (
        (("TCP_KEEPIDLE", "TCP_KEEPALIVE"), idle),
        (("TCP_KEEPINTVL",), interval),
        (("TCP_KEEPCNT",), probes),
        (("TCP_USER_TIMEOUT",), allowed * 1000),  # while something that was sent is not acknowledged
    ):
        name = next((each for each in names if hasattr(socket, each)), None)
        if name is not None:
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
