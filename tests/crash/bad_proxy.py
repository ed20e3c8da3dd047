"""A bad way to a server: bytes come late, connections are torn amid a message, or go half-open."""

from __future__ import annotations

import socket
import struct
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from random import Random

from .proxy import Proxy


@dataclass(frozen=True)
class Trouble:
    """Chances for each piece that is passed on. `delay` is how many seconds it takes at most.

    `tears` resets the connection after some bytes of it, `hangs` passes some bytes of it and nothing
    more in that direction, and says so to nobody.
    """

    delay: float = 0.0
    tears: float = 0.0
    hangs: float = 0.0


FINE = Trouble()


class BadProxy(Proxy):
    """Passes bytes on with the `trouble` that is set. `seen` counts what happened."""

    def __init__(self, target: int, seed: str) -> None:
        self.trouble = FINE
        self.torn = self.hung = 0
        self._random = Random(seed)
        super().__init__(target)

    def _pass(self, near: socket.socket) -> None:
        through = self._open
        try:
            through.wait()
            far = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            near.close()
            return
        for end in (near, far):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._pairs.append((near, far))
        ways = [
            threading.Thread(target=self._pump, args=(a, b, through), daemon=True)
            for a, b in ((near, far), (far, near))
        ]
        for each in ways:
            each.start()
        for each in ways:
            each.join()
        for end in (near, far):
            end.close()

    def _pump(self, source: socket.socket, sink: socket.socket, through: threading.Event) -> None:
        """Pass on what comes from one end, until either is gone."""
        hangs = False
        with suppress(OSError):
            while data := source.recv(1 << 16):
                through.wait()
                trouble, random = self.trouble, self._random
                if hangs:
                    continue
                if trouble.delay:
                    time.sleep(random.random() ** 3 * trouble.delay)
                if random.random() < trouble.tears:
                    self.torn += 1
                    sink.sendall(data[: random.randrange(len(data))])
                    _reset(source)
                    _reset(sink)
                    return
                if random.random() < trouble.hangs:
                    self.hung += 1
                    hangs = True
                    data = data[: random.randrange(len(data))]
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def _reset(end: socket.socket) -> None:
    """Have a connection end with a reset once it is closed: nothing more of it arrives."""
    with suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        end.shutdown(socket.SHUT_RDWR)
