"""Free ports of this machine."""

from __future__ import annotations

import socket


def free_port() -> int:
    """Return a port of this machine on which no program listens."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])
