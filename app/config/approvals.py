"""`[approvals]`: options of the dialog, and defaults where rules say nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field, StrictBool

from ...engine.approvals.requests import ApprovalPolicy
from .loader import Key
from .quantities import age
from .tables import SettingsTable

NEVER = "never"
MAX_REASONS = 9
"""Reasons there can be: each has a digit."""


def _expiry(value: object) -> float | None:
    if value == NEVER:
        return None
    try:
        seconds = age(str(value)).total_seconds()
    except ValueError as error:
        raise ValueError(f"{error}; or '{NEVER}'") from error
    if seconds <= 0:
        raise ValueError(f"expected some time, or '{NEVER}', found {value!r}")
    return seconds


def _line(value: object) -> str:
    if not isinstance(value, str) or not value.strip() or "\n" in value:
        raise ValueError(f"expected texts of one line, found {value!r}")
    return value.strip()


class ApprovalSettings(SettingsTable):
    """Settings of approvals; times in seconds, `None` for never."""

    table: ClassVar = "approvals"

    deny_reasons: Annotated[
        tuple[Annotated[str, BeforeValidator(_line)], ...],
        Field(max_length=MAX_REASONS),
        Key("up to nine texts, offered by number when a request is denied", "other texts"),
    ] = ()
    expire: Annotated[
        float | None,
        BeforeValidator(_expiry),
        Key(
            'how long a request waits where its rule does not say, or `"never"`, the default',
            "a shorter time",
        ),
    ] = None
    own_approvals: Annotated[
        StrictBool,
        Key("`true`: who started a session may be one of several who must approve"),
    ] = False

    @property
    def policy(self) -> ApprovalPolicy:
        """Policy where rules say nothing."""
        return ApprovalPolicy(self.expire, self.own_approvals)


def approval_settings(
    *, environ: Mapping[str, str] | None = None, directory: Path | None = None
) -> ApprovalSettings:
    """The user's settings. Raises `SettingsError`.

    A working directory's reasons replace the user's; of two times the shorter one counts.
    """
    project, own = ApprovalSettings.read(environ, directory)
    user = own or ApprovalSettings()
    if project is None:
        return user
    times = [each for each in (project.expire, user.expire) if each is not None]
    return user.model_copy(
        update={
            "deny_reasons": project.deny_reasons or user.deny_reasons,
            "expire": min(times, default=None),
        }
    )
