"""Log of the sockets: no headers, since some hold tokens, and no noise that unknown peers can cause."""

from __future__ import annotations

import logging


class _Strangers(logging.Filter):
    """Lowers errors of unauthenticated peers to information: they are no errors of this server."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.msg == "opening handshake failed":
            record.levelno, record.levelname = logging.INFO, "INFO"
            # The error says what was sent, be it a token.
            record.exc_info = record.exc_text = None
        return True


def socket_log(name: str) -> logging.Logger:
    """A log for the WebSocket library, which writes every header at level DEBUG."""
    log = logging.getLogger(f"{name}.sockets")
    log.setLevel(max(logging.INFO, log.level))
    if not any(isinstance(each, _Strangers) for each in log.filters):
        log.addFilter(_Strangers())
    return log
