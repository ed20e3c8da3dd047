"""The `[approvals]` of a settings file: options of the dialog, and defaults where rules say nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from ...engine.approvals.requests import ApprovalPolicy
from .loader import CONFIG, SettingsError, table_setting, users_table
from .quantities import age

KNOWN = ("deny_reasons", "expire", "own_approvals")
NEVER = "never"
MOST = 9
"""Reasons there can be: each has a digit."""


@dataclass(frozen=True, slots=True)
class ApprovalSettings:
    """`deny_reasons` are offered when a request is denied; for `policy` see there."""

    deny_reasons: tuple[str, ...] = ()
    policy: ApprovalPolicy = field(default_factory=ApprovalPolicy)


def approval_settings(
    *, environ: Mapping[str, str] | None = None, directory: Path | None = None
) -> ApprovalSettings:
    """Settings of the nearest file that has any. Raises `SettingsError`.

    A working directory's reasons replace the user's; of two times the shorter one counts.
    """
    environ = os.environ if environ is None else environ
    near = table_setting("approvals", environ=environ, directory=directory)
    own = users_table("approvals", environ)
    if near == own or environ.get(CONFIG):
        return _read(near)
    here, user = _read(near), _read(own)
    times = [each for each in (here.policy.expire, user.policy.expire) if each is not None]
    policy = replace(user.policy, expire=min(times, default=None))
    return ApprovalSettings(here.deny_reasons or user.deny_reasons, policy)


def _read(found: tuple[Mapping[str, object], str] | None) -> ApprovalSettings:
    if found is None:
        return ApprovalSettings()
    table, where = found
    for key in table:
        if key not in KNOWN:
            raise SettingsError(f"{where}: unknown setting '{key}'; known: {', '.join(KNOWN)}")
    reasons = tuple(_reasons(table.get("deny_reasons", []), where))
    own = table.get("own_approvals", False)
    if not isinstance(own, bool):
        raise SettingsError(f"{where}: own_approvals: expected true or false, found {own!r}")
    return ApprovalSettings(reasons, ApprovalPolicy(_expiry(table.get("expire", NEVER), where), own))


def _expiry(value: object, where: str) -> float | None:
    if value == NEVER:
        return None
    try:
        seconds = age(str(value)).total_seconds()
    except ValueError as error:
        raise SettingsError(f"{where}: expire: {error}; or '{NEVER}'") from error
    if seconds <= 0:
        raise SettingsError(f"{where}: expire: expected some time, or '{NEVER}', found {value!r}")
    return seconds


def _reasons(value: object, where: str) -> list[str]:
    if not isinstance(value, list):
        raise SettingsError(f"{where}: deny_reasons: expected a list of texts, found {value!r}")
    reasons = cast("list[object]", value)
    for reason in reasons:
        if not isinstance(reason, str) or not reason.strip() or "\n" in reason:
            raise SettingsError(f"{where}: deny_reasons: expected texts of one line, found {reason!r}")
    if len(reasons) > MOST:
        raise SettingsError(f"{where}: deny_reasons: at most {MOST}, found {len(reasons)}")
    return [str(reason).strip() for reason in reasons]
