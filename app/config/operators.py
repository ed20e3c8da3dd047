"""`[operators]`: the operators, what each may do, and their groups."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    RootModel,
    ValidationError,
)

from ...engine.core.approvers import GROUP, Operator, Operators, login_id
from ...engine.core.people import name_shape, person_key
from ...engine.core.rights import FULL, Rights
from ...engine.core.sanitize import visible
from ...engine.net.net import SkillNet
from .errors import UNKNOWN, describe_error, dotted, unknown_setting
from .identity import operator_name
from .loader import FoundTable, Key, SettingsError, find_tables
from .oidc import oidc_settings
from .quantities import one_or_more

if TYPE_CHECKING:
    from ...engine.history.database.location import Location

TABLE = "operators"
ACCOUNT = re.compile(r"[TE][A-Z0-9]{2,30}/[UW][A-Z0-9]{2,30}")
"""A Slack account: the ids of its team and of its user there."""


def _group(name: str) -> str:
    if not GROUP.fullmatch(name):
        raise ValueError(f"a group is one word of letters, digits, '-' and '_', found {name!r}")
    return name


def _account(text: str) -> str:
    if not ACCOUNT.fullmatch(text):
        raise ValueError(
            "expected the ids of a team and of a user in Slack, such as T012AB3C4/U012AB3C4 (a name may "
            f"be anybody's), found {text!r:.60}"
        )
    return text


class OperatorSettings(BaseModel):
    """Settings of one operator: `[operators.NAME]`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: Annotated[
        Rights,
        Key('`"look"`, `"decide"` or `"administer"`, the default: no token of the name may do more'),
    ] = FULL
    groups: Annotated[
        tuple[Annotated[str, AfterValidator(_group)], ...],
        BeforeValidator(one_or_more),
        Key('the groups the operator is in, such as `["security"]`: rules say `of security`'),
    ] = ()
    subject: Annotated[
        Annotated[str, Field(pattern=r"\S")] | None,
        Key(
            "who the operator is at the provider of `[oidc]`, by the claim `sub`: their login has this "
            "name"
        ),
    ] = None
    slack: Annotated[
        Annotated[str, AfterValidator(_account)] | None,
        Key(
            "the operator's account in Slack by the ids of team and user, `T012AB3C4/U012AB3C4`: whoever "
            "has it decides what `[notify.chat]` allows; not with `subject`"
        ),
    ] = None


class OperatorsTable(RootModel[dict[str, OperatorSettings]]):
    """All of `[operators]`, by name. A working directory's file may not have it."""

    model_config = ConfigDict(frozen=True)
    table: ClassVar = TABLE


def operators(*, environ: Mapping[str, str] | None = None, directory: Path | None = None) -> Operators:
    """Return the operators of the user's file, or of the file named instead. Raises `SettingsError`."""
    environ = os.environ if environ is None else environ
    found = find_tables(TABLE, OperatorsTable, environ, directory or Path.cwd())[1]
    provider = oidc_settings(environ=environ, directory=directory)
    claimed = () if provider is None else tuple(provider.groups)
    issuer = None if provider is None else provider.issuer
    if found is None:
        return Operators(None, claimed, issuer)
    table = _table(found)
    _check_names(found)
    logins = _logins(found, table, issuer)
    _accounts(found, table)
    return Operators(
        tuple(
            Operator(operator_name(name), each.role, tuple(dict.fromkeys(each.groups)), logins.get(name))
            for name, each in table.root.items()
        ),
        claimed,
        issuer,
    )


def slack_accounts(
    *, environ: Mapping[str, str] | None = None, directory: Path | None = None
) -> Mapping[str, str]:
    """Return names of operators by Slack account. Raises `SettingsError`."""
    environ = os.environ if environ is None else environ
    found = find_tables(TABLE, OperatorsTable, environ, directory or Path.cwd())[1]
    if found is None:
        return {}
    # An error anywhere in the table leaves the operators unchanged, so their accounts must not change
    # either.
    operators(environ=environ, directory=directory)
    return _accounts(found, _table(found))


def with_keys(known: Operators, journal: Location, *, sure: bool = False) -> Operators:
    """Return the operators, including who has enrolled a passkey in the journal's log of keys.

    Without `sure`, a missing or unreadable log leaves the operators unchanged: this may not be the
    journal that the rules are used with.
    """
    from ...engine.history.logs.key_log import KeyLog
    from ...engine.history.logs.line_log import FileLines

    log = KeyLog(journal)
    file = log.lines.path if isinstance(log.lines, FileLines) else None
    if not sure and file is not None and not os.access(file, os.R_OK):
        return known
    holders = [each.key.operator for each in log.read().in_force()]
    return replace(known, keyed=tuple(dict.fromkeys(holders)))


def report_approvers(command: str, nets: Iterable[SkillNet], known: Operators | None = None) -> None:
    """Print which approvals required by these nets can never be given, so that calls stay blocked.

    Raises `RuleError` for a group that is empty or has too few members, and `SettingsError`.
    """
    from ...rules import RuleError
    from ...rules.analysis.approvers import about_approvers

    found = about_approvers((net.rule for net in nets), operators() if known is None else known)
    if found.errors:
        raise RuleError(found.errors)
    for problem in found.warnings:
        text = f"{problem.where}: {problem.message}; {problem.remedy}"
        print(f"interlock {command}: {visible(text)}", file=sys.stderr, flush=True)


def _table(found: FoundTable) -> OperatorsTable:
    try:
        return OperatorsTable.model_validate(dict(found.values))
    except ValidationError as error:
        raise SettingsError("\n".join(_problems(found, error))) from error


def _problems(found: FoundTable, error: ValidationError) -> list[str]:
    problems: list[str] = []
    for each in error.errors(include_url=False):
        keys = tuple(key for key in each["loc"] if key != "root")
        if each["type"] in UNKNOWN:
            *keys, key = keys
            text = unknown_setting(str(key), list(OperatorSettings.model_fields))
        elif len(keys) == 1:
            text = f"expected a table with role, groups, subject and slack, found {each['input']!r}"
        else:
            text = describe_error(each)
        problems.append(f"{found.where}: {dotted(tuple(keys))}: {text}")
    return problems


def _logins(found: FoundTable, table: OperatorsTable, issuer: str | None) -> Mapping[str, str]:
    """Return the operators' identities at the provider, by name. Raises `SettingsError`."""
    logins: dict[str, str] = {}
    for name, each in table.root.items():
        if each.subject is None:
            continue
        place = f"{found.where}: {dotted((name, 'subject'))}"
        if issuer is None:
            raise SettingsError(
                f"{place}: belongs to the provider in [oidc], and there is no [oidc]: add it"
            )
        login = login_id(issuer, each.subject)
        other = next((known for known, its in logins.items() if its == login), None)
        if other is not None:
            raise SettingsError(f"{place}: is that of '{other}', too: list each person once")
        logins[name] = login
    return logins


def _accounts(found: FoundTable, table: OperatorsTable) -> Mapping[str, str]:
    """Return the operators' names by Slack account. Raises `SettingsError`."""
    accounts: dict[str, str] = {}
    for name, each in table.root.items():
        if each.slack is None:
            continue
        place = f"{found.where}: {dotted((name, 'slack'))}"
        if each.subject is not None:
            raise SettingsError(
                f"{place}: the provider says the role of people who log in there, and a click "
                "in Slack cannot ask it: leave out slack or subject"
            )
        other = accounts.setdefault(each.slack, name)
        if other != name:
            raise SettingsError(f"{place}: is that of '{other}', too: list each person once")
    return accounts


def _check_names(found: FoundTable) -> None:
    """Raise `SettingsError` for invalid names, and for names that are one person's or easily confused."""
    shapes: dict[str, str] = {}
    for name in found.values:
        try:
            operator_name(name)
        except argparse.ArgumentTypeError as error:
            raise SettingsError(f"{found.where}: {error}") from error
        other = shapes.setdefault(name_shape(name), name)
        if other != name:
            same = person_key(other) == person_key(name)
            why = "are one person's" if same else "are easily confused"
            raise SettingsError(f"{found.where}: '{other}' and '{name}' {why}: list each person once")
