"""Rules of a server started by a hook: the user's, plus those that a project adds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ...config.loader import FILE_NAME, SettingsError, settings_files, users_file
from ...config.paths import is_list, is_table, resolve_in


def user_rules(environ: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the rules files in the user's settings; `None` if they do not mention rules.

    Raises `SettingsError`.
    """
    own = users_file(environ)
    return _rules_in(own.parent, own, environ)


def project_rules(project: Path | None, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the files that a project's settings add to the user's. Raises `SettingsError`."""
    if project is None or project / FILE_NAME == users_file(environ):
        return ()
    return _rules_in(project, project / FILE_NAME, environ) or ()


def rules_to_start(installed: tuple[str, ...], environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the user's rules files for starting a server.

    Raises `SettingsError` if the settings no longer mention rules, or name fewer files than when the
    hooks were `installed`: the server would allow calls that the missing files block.
    """
    own, users = users_file(environ), user_rules(environ)
    missing = [each for each in installed if each not in (users or ())]
    if missing:
        raise SettingsError(
            f"{own}: no longer names {', '.join(missing)}, with which these hooks were installed; name "
            "it again under rules, or install the hooks again"
        )
    if users is None:
        raise SettingsError(
            f"{own}: names no rules, and a server without any would allow every call; name some, as in "
            '[serve] rules = ["FILE"], or say that there are none: rules = []'
        )
    return users


def _rules_in(directory: Path, file: Path, environ: Mapping[str, str]) -> tuple[str, ...] | None:
    nothing: Mapping[str, object] = {}
    files = settings_files(directory, environ)
    table = next((table for path, table in files if path == file), nothing)
    serve = table.get("serve")
    of_server = serve.get("rules") if is_table(serve) else None
    rules = table.get("rules") if of_server is None else of_server
    if rules is None:
        return None
    names: object = [rules] if isinstance(rules, str) else rules
    if not is_list(names) or not all(isinstance(each, str) for each in names):
        raise SettingsError(f"{file}: rules: expected a list of files, found {rules!r}")
    try:
        return tuple(resolve_in(directory, str(each)) for each in names)
    except ValueError as error:
        raise SettingsError(f"{file}: rules: {error}") from error
