"""A connection to a server that can be cut: connections stay open, but no data passes."""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress


class Proxy:
    """Listens at 127.0.0.1 on `port` and forwards bytes to `target`, except while it is cut.

    `mend` determines whether data sent in the meantime arrives late or is lost with its connection.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self._open = threading.Event()
        self._open.set()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def command(self, words: Sequence[str]) -> list[str]:
        """Return the command that runs a program through this connection."""
        return [*words]

    def cut(self) -> None:
        self._open.clear()

    def mend(self, *, late: bool) -> None:
        """Forward again: with `late` including the data held back, else only on new connections."""
        if not late:
            pairs, self._pairs = self._pairs, []
            for each in pairs:
                for end in each:
                    with suppress(OSError):
                        end.shutdown(socket.SHUT_RDWR)
        self._open.set()

    def stall(self) -> None:
        """Stop forwarding on the present connections without closing them: they are half-open.

        Later connections are not affected.
        """
        self._open.clear()
        self._open = threading.Event()
        self._open.set()

    def close(self) -> None:
        self.mend(late=False)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._pass, args=(near,), daemon=True).start()

    def _pass(self, near: socket.socket) -> None:
        through = self._open
        try:
            through.wait()
            far = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            near.close()
            return
        self._pairs.append((near, far))
        with selectors.DefaultSelector() as selector, near, far:
            selector.register(near, selectors.EVENT_READ, far)
            selector.register(far, selectors.EVENT_READ, near)
            with suppress(OSError):
                while True:
                    for key, _ in selector.select():
                        data = key.fileobj.recv(1 << 16)
                        through.wait()
                        if not data:
                            return
                        key.data.sendall(data)
