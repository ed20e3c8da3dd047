"""Installs hooks in an agent's settings, keeping all other content, and removes them."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, cast

from ...config.hooks import MARGIN
from ...config.paths import is_list, is_table
from .command_line import HookLine

JsonObject = dict[str, object]


class HookInstallError(ValueError):
    """Settings to which hooks cannot be added; nothing was written."""


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """Location of an agent's hooks, and the events they are installed for.

    `blocks` are members that make the agent block a call when the hook fails; they are written with the
    hook that decides calls. `ending` is the longest time in seconds that the agent waits while it ends.
    """

    folder: str
    file: str
    home: str
    events: tuple[str, ...]
    blocks: tuple[tuple[str, str], ...] = ()
    ending: int = 86_400


SETTINGS_FILES = {
    "claude-code": SettingsFile(
        ".claude",
        "settings.json",
        "CLAUDE_CONFIG_DIR",
        ("SessionStart", "PreToolUse", "PostToolUse", "PostToolUseFailure", "Stop", "SessionEnd"),
        # Supported since 2.1.295, ignored before.
        (("onFailure", "block"),),
    ),
    "codex": SettingsFile(
        ".codex",
        "hooks.json",
        "CODEX_HOME",
        # Versions that do not support the last events ignore them.
        ("SessionStart", "PreToolUse", "PostToolUse", "Stop", "SessionEnd"),
        ending=3,
    ),
}
_NEVER_BLOCKING = ("Stop",)
"""Events at which exit code 2 keeps the agent working: failures are only reported."""
_KNOWN_MEMBERS: Final = frozenset({"type", "command", "timeout", "onFailure", "statusMessage"})
"""Members of a hook that do not weaken its blocking."""
_TOOL_EVENTS = ("PreToolUse", "PostToolUse", "PostToolUseFailure")


def settings_path(agent: str, project: Path | None) -> Path:
    """Return the path of an agent's settings, for one project or for all."""
    place = SETTINGS_FILES[agent]
    if project is not None:
        return project / place.folder / place.file
    home = os.environ.get(place.home)
    return (Path(home) if home else Path.home() / place.folder) / place.file


def check_inside(path: Path, project: Path) -> None:
    """Check that a project's settings file is inside the project: its hooks must not reach another agent.

    Raises `HookInstallError`.
    """
    target = path.resolve()
    if not target.is_relative_to(project.resolve()) or (target.exists() and not target.is_file()):
        raise HookInstallError(
            f"{path}: expected a file in the project, found {target}; remove it, nothing was changed"
        )


def hook_command(agent: str, interlock: tuple[str, ...], line: HookLine, event: str = "") -> str:
    """Return the shell command of a hook; if our program is missing, its exit code is still 0 or 2.

    It is 0 or 1 for an event at which 2 would keep the agent working.
    """
    words = [*interlock, "hook", agent, *line.words]
    if event in _NEVER_BLOCKING:
        return f"{shlex.join(words)} || exit 1"
    remedy = shlex.quote(
        "Interlock could not run, so this is blocked. Install it again and run: "
        f"interlock hook install {agent}. Or take its hooks out of the settings."
    )
    return f"{shlex.join(words)} || {{ [ $? -eq 2 ] || echo {remedy} >&2; exit 2; }}"


def install(agent: str, path: Path, interlock: tuple[str, ...], wait: float, line: HookLine) -> bool:
    """Install the hooks, replacing older ones of ours.

    `line` is their command line, except for its timeout. Returns whether anything changed. Raises
    `HookInstallError`.
    """
    text, settings = _read(path)
    if settings.get("disableAllHooks") is True:
        raise HookInstallError(f"{path}: disableAllHooks is true, so no hook would run; remove it first")
    place, longest = SETTINGS_FILES[agent], int(wait) + MARGIN
    hooks = _without_our_hooks(agent, path, settings)
    for event in place.events:
        timeout = min(longest, place.ending) if event == "SessionEnd" else longest
        hook: JsonObject = {
            "type": "command",
            "command": hook_command(agent, interlock, replace(line, timeout=timeout), event),
            "timeout": timeout,
        }
        group: JsonObject = {"hooks": [hook]}
        if event in _TOOL_EVENTS:
            group = {"matcher": "*"} | group
        if event == "PreToolUse":
            hook |= dict(place.blocks)
        hooks[event] = [*cast("list[object]", hooks.get(event, [])), group]
    return _write(path, text, settings | {"hooks": hooks})


def uninstall(agent: str, path: Path) -> bool:
    """Remove the hooks; return whether there were any. Raises `HookInstallError`."""
    if not path.exists():
        return False
    text, settings = _read(path)
    hooks = _without_our_hooks(agent, path, settings)
    if hooks == settings.get("hooks", {}):
        return False
    rest = {key: value for key, value in settings.items() if key != "hooks"}
    return _write(path, text, settings | {"hooks": hooks} if hooks else rest)


def check_isolated(interlock: tuple[str, ...]) -> None:
    """Check that this Interlock can be imported in isolated mode. Raises `HookInstallError`."""
    ran = subprocess.run(
        [*interlock, "hook", "--help"], stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if ran.returncode:
        raise HookInstallError(
            f"{interlock[0]} does not find Interlock without PYTHONPATH and your own site-packages, "
            "which hooks do not use; install it in an environment of its own, as pipx and uv tool do"
        )


@dataclass(frozen=True, slots=True)
class InstalledHook:
    """One of our hooks in a file: its event, the tools it matches, its command, and all members."""

    event: str
    matcher: str | None
    command: str
    members: JsonObject = field(default_factory=JsonObject, hash=False)


def installed_hooks(agent: str, path: Path) -> list[InstalledHook]:
    """Return our hooks in a file, as far as the file can be read."""
    with suppress(HookInstallError):
        return [
            InstalledHook(event, None if matcher is None else str(matcher), command, _table(hook))
            for event, groups in _table(read_settings(path).get("hooks")).items()
            for group in _list(groups)
            for hook in _list(_table(group).get("hooks"))
            if (command := _our_command(agent, hook)) is not None
            for matcher in [_table(group).get("matcher")]
        ]
    return []


def installed_commands(agent: str, path: Path) -> list[str]:
    """Return the commands of our hooks in a file, as far as the file can be read."""
    return [each.command for each in installed_hooks(agent, path)]


def read_settings(path: Path) -> JsonObject:
    """Return the settings in a file; empty if there is none. Raises `HookInstallError`."""
    return _read(path)[1]


def any_outdated(commands: Iterable[str]) -> bool:
    """Return whether some of these commands are early ones, with deciding options in the environment."""
    return any("--config-dir " not in command for command in commands)


def _read(path: Path) -> tuple[str | None, JsonObject]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None, {}
    except (OSError, UnicodeDecodeError) as error:
        raise HookInstallError(f"{path}: cannot be read: {error}") from error
    if not text.strip():
        return text, {}
    try:
        found: object = json.loads(text, object_pairs_hook=_unique_keys)
    except (ValueError, RecursionError) as error:
        raise HookInstallError(
            f"{path}: is not JSON ({error}); fix it first, nothing was changed"
        ) from error
    if not isinstance(found, dict):
        raise HookInstallError(f"{path}: expected an object of settings; nothing was changed")
    return text, cast("JsonObject", found)


def _unique_keys(pairs: list[tuple[str, object]]) -> JsonObject:
    """Build an object whose keys are unique: writing one with repeated keys would lose values."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key appears twice in one object")
    return found


def _without_our_hooks(agent: str, path: Path, settings: JsonObject) -> JsonObject:
    """Return the settings without our hooks; groups left empty are removed."""
    hooks = settings.get("hooks", {})
    if not is_table(hooks):
        raise HookInstallError(f"{path}: hooks: expected an object, found {hooks!r}; nothing was changed")
    others: JsonObject = {}
    for event, groups in hooks.items():
        if not is_list(groups):
            raise HookInstallError(f"{path}: hooks: {event}: expected a list; nothing was changed")
        rest = [each for each in (_other_hooks(agent, group) for group in groups) if each is not None]
        if rest or not groups:
            others[event] = rest
    return others


def _other_hooks(agent: str, group: object) -> object:
    """Return a group without our hooks; `None` if nothing is left."""
    if not is_table(group) or not is_list(hooks := group.get("hooks")):
        return group
    rest = [hook for hook in hooks if _our_command(agent, hook) is None]
    if len(rest) == len(hooks):
        return group
    return group | {"hooks": rest} if rest else None


def _our_command(agent: str, hook: object) -> str | None:
    """Return the command of a hook if it is ours, otherwise `None`."""
    command = _table(hook).get("command")
    if not isinstance(command, str):
        return None
    match = re.search(rf"interlock(\.app\.cli)?'? hook {re.escape(agent)} --timeout ", command)
    return command if match else None


def weak_points(hook: InstalledHook) -> Iterator[str]:
    """Describe the members of a hook that may let its agent run a call which the hook would block."""
    members = hook.members
    if (kind := members.get("type")) != "command":
        yield f"is of the type {kind!r}, not 'command', so its command is not run"
    for name in sorted(members.keys() - _KNOWN_MEMBERS):
        if members[name] not in (None, False):
            yield f"has {name!r}, with which it may not be run, or not be waited for"
    own = re.search(r" --timeout (\d+)", hook.command)
    timeout = members.get("timeout")
    if own is not None and isinstance(timeout, int | float) and timeout < int(own[1]):
        yield f"is cut off after {timeout:g} s, and its answer may take {own[1]} s"
    if not hook.command.rstrip().endswith("; exit 2; }"):
        yield "does not exit with code 2 when its command fails, so a failure may let calls run"


def _table(value: object) -> JsonObject:
    return value if is_table(value) else {}


def _list(value: object) -> list[object]:
    return value if is_list(value) else []


def _write(path: Path, before: str | None, settings: JsonObject) -> bool:
    """Replace the file atomically; keep the old content as a copy."""
    after = json.dumps(settings, indent=2, ensure_ascii=False) + "\n"
    if before is not None and before.strip() and json.loads(before) == settings:
        return False
    target = path.resolve()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = target.stat().st_mode & 0o777 if before is not None else 0o600
        if before is not None:
            _replace(target.with_name(f"{target.name}.before-interlock"), before, mode)
        _replace(target, after, mode)
    except OSError as error:
        raise HookInstallError(f"{path}: cannot be written: {error.strerror}") from error
    return True


def _replace(path: Path, text: str, mode: int) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            os.fchmod(file.fileno(), mode)
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
