"""Token files of a server and its clients on one machine, readable only by their owner."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

CONFIG_DIRECTORY = "INTERLOCK_CONFIG_DIR"


def config_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """The user's own configuration directory; nothing in it comes from an agent's working directory."""
    from platformdirs import user_config_path

    directory = environ.get(CONFIG_DIRECTORY)
    return Path(directory) if directory else user_config_path("interlock")


def token_file(environ: Mapping[str, str] = os.environ) -> Path:
    """File with the tokens of this user's servers; see `tokens.TokenFile`."""
    return config_directory(environ) / "tokens.json"


def agent_token_file(environ: Mapping[str, str] = os.environ) -> Path:
    """File with the default token of this user's agents."""
    return config_directory(environ) / "agent.token"


def operator_token_file(environ: Mapping[str, str] = os.environ) -> Path:
    """File with the default token of this user's consoles."""
    return config_directory(environ) / "operator.token"
