"""`[approvals]`: options of the approval dialog, and defaults for what rules leave open."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field, StrictBool

from ...engine.approvals.policy import ApprovalPolicy
from .loader import Key
from .quantities import age
from .tables import SettingsTable

NEVER = "never"
LONGEST_FUSE = 600
"""Maximum number of seconds during which an approval can be taken back."""
LATE = 900
"""Default number of seconds for which a request stays open after its client has gone.

An operator who was away for a short time still finds it, and the answer is still recent when the agent
uses it.
"""
LONGEST_LATE = 24 * 3600
MAX_REASONS = 9
"""Maximum number of predefined reasons: each has a digit key."""


def _expiry(value: object) -> float | None:
    if value == NEVER:
        return None
    try:
        seconds = age(str(value)).total_seconds()
    except ValueError as error:
        raise ValueError(f"{error}; or '{NEVER}'") from error
    if seconds <= 0:
        raise ValueError(f"expected a length of time, or '{NEVER}', found {value!r}")
    return seconds


def _fuse(value: object) -> float:
    if value in (0, "none"):
        return 0.0
    try:
        seconds = age(str(value)).total_seconds()
    except ValueError as error:
        raise ValueError(f"{error}; or 'none'") from error
    if not 0 <= seconds <= LONGEST_FUSE:
        raise ValueError(f"expected at most {LONGEST_FUSE // 60} minutes, or 'none', found {value!r}")
    return seconds


def _late(value: object) -> float:
    if value in (0, "0", "off"):
        return 0.0
    try:
        seconds = age(str(value)).total_seconds()
    except ValueError as error:
        raise ValueError(f"{error}; or 'off'") from error
    if seconds > LONGEST_LATE:
        raise ValueError(f"expected at most {LONGEST_LATE // 3600} hours, or 'off', found {value!r}")
    return seconds


def _line(value: object) -> str:
    if not isinstance(value, str) or not value.strip() or "\n" in value:
        raise ValueError(f"expected texts on one line each, found {value!r}")
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
            'how long a request waits if its rule does not say; or `"never"`, the default',
            "a shorter time",
        ),
    ] = None
    own_approvals: Annotated[
        StrictBool,
        Key("`true`: whoever started a session may be one of several people who must approve"),
    ] = False

    fuse: Annotated[
        float,
        BeforeValidator(_fuse),
        Key(
            "how long a call of `risk high` waits after its approval, which `u` can take back meanwhile: "
            '`"5s"`; `"none"`, the default'
        ),
    ] = 0.0

    late_answers: Annotated[
        float,
        BeforeValidator(_late),
        Key(
            "how long a request whose client has gone stays open, for an answer that the agent gets when "
            'it makes the same call again: `"15m"`, the default; `"off"`'
        ),
    ] = LATE

    @property
    def policy(self) -> ApprovalPolicy:
        """Policy for what rules leave open."""
        return ApprovalPolicy(self.expire, self.own_approvals, self.fuse, self.late_answers)


def approval_settings(
    *, environ: Mapping[str, str] | None = None, directory: Path | None = None
) -> ApprovalSettings:
    """Return the effective settings. Raises `SettingsError`.

    A working directory's reasons replace the user's; of two expiry times the shorter one applies.
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
