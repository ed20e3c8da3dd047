"""Environment of the process behind a tab: only those of the server's variables that it needs."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ...engine.gateway.protocol.address import CA, TOKEN
from ...engine.gateway.protocol.token_paths import config_directory

DRIVER = "interlock.app.web.driver:TabDriver"
_PASSED_ON = frozenset(
    {"HOME", "INTERLOCK_CONFIG", "LANG", "LANGUAGE", "PATH", "SSL_CERT_DIR", "SSL_CERT_FILE", "TZ", CA}
)
"""Variables passed on, including those with certificates for a server that the console connects to."""


def tab_environment(token: str, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment of a console whose operator's token is `token`.

    The token must not be on the command line, which every user can read.
    """
    inherited = {
        name: value
        for name, value in environ.items()
        if name in _PASSED_ON or name.startswith("LC_") or name.startswith("TEXTUAL_")
    }
    return {
        **inherited,
        "INTERLOCK_CONFIG_DIR": str(config_directory(environ)),
        "TERM": "xterm-256color",
        "TEXTUAL_COLOR_SYSTEM": "truecolor",
        "TEXTUAL_DRIVER": DRIVER,
        TOKEN: token,
    }
