"""What a working directory's settings may say: an agent may write there, and sets the next start with it.

So what stands there loosens nothing. Its rules come on top of the user's own; what would hold an agent
less, show what is private or run code is taken from the line, the environment or the user's own file.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path

from ..engine.text import visible

_HOSTING = frozenset({"acp", "demo", "flow", "resume", "run"})
_SERVING = frozenset({"serve", "web"})
_JUDGING = _HOSTING | _SERVING


def loosens(command: str, option: str, value: object, directory: Path, users: object = None) -> bool:
    """Whether `option` may not be set so in `directory`, where the user's own file says `users`."""
    match option:
        case "connect" | "token_file" | "fill" | "allow_command":
            return True
        case "certificate" | "key" if command in _SERVING:
            return True
        case "listen" | "agents" if command in _SERVING:
            return not _is_local(str(value))
        case "mode" if command in _JUDGING:
            return value == "shadow"
        case "answer":
            return value == "approve"
        case "api_base" if command == "run":
            # The provider's key goes there.
            return True
        case "active" if command == "run":
            # It would leave out nets of rules that were named elsewhere.
            return True
        case "runtime" if command == "run":
            return users not in (None, "local", value)
        case "network" if command == "run":
            return value is True
        case "workdir" if command in _HOSTING:
            # Tools in the sandbox may write there.
            return not (directory / str(value)).resolve().is_relative_to(directory.resolve())
        case "tools" if command == "run":
            # A tool of a module is code that runs outside the gate.
            return ":" in str(value)
        case _:
            return False


def added(args: argparse.Namespace, rules: Iterable[object] | None = None) -> str | None:
    """What the working directory has to do with how agents are judged, in a sentence for who starts them.

    `rules` are those that count, where that is not all of `args.rules`. `None` where it has nothing to.
    """
    said: Mapping[str, object] = getattr(args, "of_directory", {})
    parts: list[str] = []
    found = said.get("rules")
    if isinstance(found, list):
        used = None if rules is None else {Path(str(each)).absolute() for each in rules}
        names = [str(each) for each in found if used is None or Path(str(each)).absolute() in used]
        if names:
            parts.append(f"rules {', '.join(map(visible, names))}")
    if "mode" in said and rules is None:
        parts.append(f"mode {said['mode']}")
    if not parts:
        return None
    where = visible(str(said["where"]))
    return f"{' and '.join(parts)} from {where}: a working directory may add rules, and loosen nothing"


def _is_local(text: str) -> bool:
    from ..engine.gateway.address import Address

    try:
        return Address.parse(text).is_local
    except ValueError:
        return True  # None at all, which is for whoever listens to say.
