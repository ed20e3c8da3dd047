"""The log of the sockets: no headers, since tokens are in some, and no noise that strangers can make."""

from __future__ import annotations

import logging


class _Strangers(logging.Filter):
    """What fails before anybody was let in is no error of this server."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.msg == "opening handshake failed":
            record.levelno, record.levelname = logging.INFO, "INFO"
            # The error says what was sent, be it a token.
            record.exc_info = record.exc_text = None
        return True


def socket_log(name: str) -> logging.Logger:
    """A log for the WebSocket library, which writes every header where a level is as low as DEBUG."""
    log = logging.getLogger(f"{name}.sockets")
    log.setLevel(max(logging.INFO, log.level))
    if not any(isinstance(each, _Strangers) for each in log.filters):
        log.addFilter(_Strangers())
    return log
