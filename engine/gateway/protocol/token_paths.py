"""The files of a server and its clients on one machine, all of them for their owner only."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

CONFIG_DIRECTORY = "INTERLOCK_CONFIG_DIR"


def config_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """The user's own directory of settings; an agent's working directory holds nothing of this."""
    from platformdirs import user_config_path

    given = environ.get(CONFIG_DIRECTORY)
    return Path(given) if given else user_config_path("interlock")


def token_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Who may connect to the servers of this user; see `tokens.TokenFile`."""
    return config_directory(environ) / "tokens.json"


def agent_token_file(environ: Mapping[str, str] = os.environ) -> Path:
    """The token that this user's agents come with when they are given none."""
    return config_directory(environ) / "agent.token"


def operator_token_file(environ: Mapping[str, str] = os.environ) -> Path:
    """The token that this user's consoles come with when they are given none."""
    return config_directory(environ) / "operator.token"
