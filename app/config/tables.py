"""Tables of `interlock.toml` without options of a command: each is a model with declared keys."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Self, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo

from .errors import UNKNOWN, Keys, describe_error, dotted, unknown_setting
from .loader import FoundTable, SettingsError, declared_keys, find_tables, users_file
from .paths import resolve_in

BASE = "base"
"""Validation context key for the directory of the user's own file; its paths are relative to it."""


class SettingsTable(BaseModel):
    """A table with the name `table`; each key is declared with a `Key`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    table: ClassVar[str]

    @classmethod
    def read(
        cls, environ: Mapping[str, str] | None = None, directory: Path | None = None
    ) -> tuple[Self | None, Self | None]:
        """Return the working directory's table and the user's; a file named instead counts as the user's.

        Raises `SettingsError` with all problems of one of them.
        """
        environ = os.environ if environ is None else environ
        project, own = find_tables(cls.table, cls, environ, directory or Path.cwd())
        at_home = own is not None and own.file == users_file(environ)
        base = own.file.parent if own is not None and at_home else None
        return cls._validated(project, None), cls._validated(own, base)

    @classmethod
    def _validated(cls, found: FoundTable | None, base: Path | None) -> Self | None:
        if found is None:
            return None
        try:
            return cls.model_validate(found.values, context={BASE: base})
        except ValidationError as error:
            problems: list[str] = []
            for each in error.errors(include_url=False):
                keys, text = tuple(each["loc"]), ""
                if each["type"] in UNKNOWN:
                    *keys, key = keys
                    text = unknown_setting(str(key), _key_names(cls, tuple(keys)))
                elif each["type"] == "missing":
                    text = f"is missing: {declared_keys(cls)[str(keys[0])].meaning}"
                place = f"{found.where}: {dotted(tuple(keys))}" if keys else found.where
                problems.append(f"{place}: {text or describe_error(each)}")
            raise SettingsError("\n".join(problems)) from error


def _key_names(table: type[BaseModel], keys: Keys) -> list[str]:
    """Return the keys of the table, or of the nested table at `keys`."""
    if not keys:
        return list(table.model_fields)
    part: object = table.model_fields[str(keys[0])].annotation
    for each in (part, *get_args(part)):
        if isinstance(each, type) and issubclass(each, BaseModel):
            return _key_names(each, keys[1:])
    hints = get_type_hints(part) if isinstance(part, type) else {}
    return [name for name in hints if not name.startswith("_")]


# Files with a secret


def secret_file(file: str | None, info: ValidationInfo) -> str | None:
    """Return the path of a file with a secret, relative to the user's own settings file."""
    context: Mapping[str, Path | None] = info.context or {}
    base = context.get(BASE)
    return file if base is None or file is None else resolve_in(base, file)


def secret_in(file: str, setting: str, meaning: str) -> str:
    """Read the secret in the file that a setting names, such as `[oidc]: client_secret_file`.

    Raises `SettingsError` if the file is missing, readable by others, or without a secret.
    """
    from ...engine.gateway.protocol.tokens import TokenError, read_private

    try:
        secret = read_private(Path(file)).strip()
    except FileNotFoundError as error:
        raise SettingsError(
            f"{setting}: there is no file {file}; put {meaning} there, and chmod 600 it"
        ) from error
    except TokenError as error:
        raise SettingsError(f"{setting}: {error}") from error
    if not secret or not secret.isprintable():
        raise SettingsError(f"{setting}: {file}: expected {meaning}, on one line")
    return secret
