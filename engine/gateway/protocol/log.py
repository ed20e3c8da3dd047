"""Log of the WebSocket library, without headers (some hold tokens) and noise caused by unknown peers."""

from __future__ import annotations

import logging


class _Strangers(logging.Filter):
    """Lower errors of unauthenticated peers to level INFO, because they are not errors of this server."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.msg == "opening handshake failed":
            record.levelno, record.levelname = logging.INFO, "INFO"
            # The exception contains what the peer sent, possibly a token.
            record.exc_info = record.exc_text = None
        return True


def socket_log(name: str) -> logging.Logger:
    """Logger for the WebSocket library, which writes every header at level DEBUG."""
    log = logging.getLogger(f"{name}.sockets")
    log.setLevel(max(logging.INFO, log.level))
    if not any(isinstance(each, _Strangers) for each in log.filters):
        log.addFilter(_Strangers())
    return log
