"""Settings allowed in a working directory: an agent may write there, and so influence the next start.

Only listed settings are allowed there. Its rules and masked fields are added to the user's own. The lower
of two limits applies, and the stricter of two choices. All other settings, such as files, addresses,
names and code, must come from the command line, the environment or the user's own file.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ...engine.core.sanitize import visible
from .paths import is_list

if TYPE_CHECKING:
    from .rule_texts import RuleTexts

_ANY_VALUE = frozenset(
    {
        "ascii",
        "explain_blocks",
        "flow",
        "input",
        "json",
        "limit",
        "net",
        "plain",
        "system_prompt",
        "task",
        "theme",
    }
)
_STRICTEST_VALUE = {
    "answer": "deny",
    "mode": "enforce",
    "network": False,
    "read_only": True,
    "strict": True,
}
_MODEL_NAME = re.compile(r"(?!.*(?:://|arn:))[\w.:/@-]+", re.IGNORECASE)
"""Neither a URL nor an AWS name (`arn:…`), whose region becomes part of a host.

Both decide where requests that the user's credentials sign are sent.
"""
JUDGING_COMMANDS = frozenset({"acp", "flow", "resume", "run", "serve", "web"})
"""Commands that judge calls by rules, and run allowed calls."""
_LIMITS = frozenset({"max_cost", "max_steps", "max_time", "max_turns"})


def effective_value(
    command: str, option: str, value: object, users: object, directory: Path
) -> object | None:
    """Return the effective value if `directory` sets an option to `value`; `users` is the user's own.

    `None` if a working directory may not set that.
    """
    match option, value:
        case "rules", _ if is_list(value) and command != "hook":
            # The user's maps come first: of two that match a command, the first one applies.
            return _join_lists(users, value)
        case "redact", str():
            return ",".join(_join_lists(str(users or "").split(","), value.split(",")))
        case _ if option in _LIMITS:
            from ...engine.agents.session.config import MAX_STEPS

            usual = MAX_STEPS if option == "max_steps" and command in ("run", "resume") else None
            return min(
                each
                for each in (value, usual if users is None else users)
                if isinstance(each, int | float)
            )
        case _:
            return value if _is_allowed(command, option, value, users, directory) else None


def _is_allowed(command: str, option: str, value: object, users: object, directory: Path) -> bool:
    match option:
        case _ if option in _ANY_VALUE:
            return True
        case _ if option in _STRICTEST_VALUE:
            return value == _STRICTEST_VALUE[option]
        case "model":
            return _MODEL_NAME.fullmatch(str(value)) is not None
        case "tools":
            # `check` only checks the rules against these names; an agent's tools are what it can do.
            return command == "check"
        case "runtime":
            # A remote runtime costs money.
            return value == users or (users in (None, "local") and value != "vercel")
        case "workdir" | "cwd":
            # Tools in the sandbox may write in this directory.
            is_below = (directory / str(value)).resolve().is_relative_to(directory.resolve())
            return is_below and users is None
        case "listen" | "agents":
            return _is_local(str(value))
        case _:
            return False


def _join_lists(*parts: object) -> list[str]:
    """Join lists without repetition, in order; drops empty texts and values that are not lists."""
    each = [str(text).strip() for part in parts if is_list(part) for text in part]
    return list(dict.fromkeys(filter(None, each)))


def rule_texts(args: argparse.Namespace) -> RuleTexts:
    """Return the texts of rules files as read when the working directory's were checked.

    These texts are enforced.
    """
    from .rule_texts import RuleTexts

    return getattr(args, "rule_texts", None) or RuleTexts()


def directory_notice(args: argparse.Namespace, rules: Iterable[object] | None = None) -> str | None:
    """Return a sentence for the operator about the working directory's influence on the rules.

    `rules` are those in effect, if not all of `args.rules`. Returns `None` without such influence.
    """
    settings: Mapping[str, object] = getattr(args, "of_directory", {})
    parts: list[str] = []
    found = settings.get("rules")
    if is_list(found):
        used = None if rules is None else {Path(str(each)).absolute() for each in rules}
        names = [str(each) for each in found if used is None or Path(str(each)).absolute() in used]
        if names:
            parts.append(f"rules {', '.join(map(visible, names))}")
    if "mode" in settings and rules is None:
        parts.append(f"mode {settings['mode']}")
    if not parts:
        return None
    directory = visible(str(settings["where"]))
    return (
        f"{' and '.join(parts)} from {directory}: a working directory may add rules, and loosen nothing"
    )


def _is_local(text: str) -> bool:
    from ...engine.gateway.protocol.address import Address

    try:
        return Address.parse(text).is_local
    except ValueError:
        return True  # Invalid; reported later, by the code that listens on it.
