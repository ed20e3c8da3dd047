"""Logins that outlast a restart of their server. The file holds digests of cookies and public keys, so
that reading it gives no login."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from ...engine.gateway.protocol.address import Address
from ...engine.gateway.protocol.token_paths import config_directory
from ...engine.gateway.protocol.tokens import TokenError, check_private, write_private

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Login:
    """One browser that came in, until the time `ends`; `id` and the public `key` are no secrets."""

    id: str
    ends: float
    key: str


class _Content(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    served: str
    logins: dict[str, Login]


class LoginFile:
    """The logins in the file at `path`, by the digest of their cookie.

    They are for what `served` names only: a server that shows another queue, or decides under another
    name, begins without them.
    """

    def __init__(self, path: Path, served: str) -> None:
        self.path = path
        self._served = served

    def read(self) -> dict[str, Login]:
        """The logins that were kept; none where the file cannot be trusted."""
        try:
            with self.path.open(encoding="utf-8") as file:
                check_private(self.path, os.fstat(file.fileno()))
                content = _Content.model_validate_json(file.read())
        except FileNotFoundError:
            return {}
        except (OSError, TokenError, UnicodeDecodeError, ValidationError) as error:
            log.warning("%s: everybody has to log in again: %s", self.path, error)
            return {}
        return content.logins if content.served == self._served else {}

    def write(self, logins: Mapping[str, Login]) -> None:
        """Keep these and no others. Where that fails none is kept: one that was ended must not return."""
        content = _Content(served=self._served, logins=dict(logins))
        try:
            write_private(self.path, content.model_dump_json())
        except TokenError as error:
            log.warning("everybody has to log in again after a restart: %s", error)
            with suppress(FileNotFoundError):
                self.path.unlink()


def login_file(listen: Address) -> Path:
    """File in which a server at this address keeps its logins, next to the tokens."""
    return config_directory() / f"web-{listen.host.replace('/', '_')}-{listen.port}.json"
