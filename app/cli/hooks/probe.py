"""`interlock hook test`: a harmless call that the installed hooks have to block, and their blind spots.

The probe goes through the same steps as every call: the command in the settings, the server, the journal.
The command finally blocks it whatever the rules decide, so the test never depends on the rules.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

from ....engine.core.sanitize import visible
from ....engine.gateway.protocol.probe import PROBE, PROBED, SHADOW, refusal_of_probe
from ...config.paths import is_table
from .install import (
    SETTINGS_FILES,
    HookInstallError,
    InstalledHook,
    installed_hooks,
    read_settings,
    settings_path,
    weak_points,
)

LIMITS: Final = {
    "claude-code": (
        "commands that its user runs with `!` and what an allowed command itself does go through no hook",
    ),
    "codex": (
        "hooks that were not trusted in `/hooks` are skipped, which no command can detect",
        "what an allowed command itself does goes through no hook",
    ),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report; a `fault` means that calls may run without a decision."""

    text: str
    fault: bool = False


def findings(agent: str, project: Path, *, timeout: float = 120.0) -> Iterator[Finding]:
    """Yield the report about an agent's hooks for a project, one finding at a time."""
    paths = [settings_path(agent, None), *_project_files(agent, project)]
    hooks: list[InstalledHook] = []
    for path in paths:
        try:
            settings = read_settings(path)
        except HookInstallError as error:
            yield Finding(str(error), fault=True)
            continue
        if settings.get("disableAllHooks") is True:
            yield Finding(f"{path}: disableAllHooks is true, so no hook runs", fault=True)
        if agent == "codex" and _switched_off(settings):
            yield Finding(f"{path}: hooks are switched off", fault=True)
        found = installed_hooks(agent, path)
        hooks += found
        yield from _unmatched(agent, path, found)
    before = [each for each in hooks if each.event == "PreToolUse"]
    if not before:
        places = ", ".join(map(str, paths))
        yield Finding(
            f"No Interlock hook is in {places}: no call is asked about. "
            f"Install them: interlock hook install {agent}",
            fault=True,
        )
    for each in dict.fromkeys(each.command for each in before):
        yield _probe(each, project, timeout)
    for text in LIMITS[agent]:
        yield Finding(f"not seen: {text}")


def _project_files(agent: str, project: Path) -> list[Path]:
    place = SETTINGS_FILES[agent]
    names = [place.file, "settings.local.json"] if agent == "claude-code" else [place.file]
    return [path for name in names if (path := project / place.folder / name).exists()]


def _switched_off(settings: dict[str, object]) -> bool:
    features = settings.get("features")
    return is_table(features) and features.get("hooks") is False


def _unmatched(agent: str, path: Path, found: list[InstalledHook]) -> Iterator[Finding]:
    """Yield events and tools for which the hooks in a file, if it has any, may not be called."""
    if not found:
        return
    for event in SETTINGS_FILES[agent].events:
        matchers = {each.matcher for each in found if each.event == event}
        fault = event == "PreToolUse"
        if not matchers:
            yield Finding(f"{path}: no hook for {event}; install them again", fault=fault)
        elif not matchers & {"*", "", None}:
            tools = ", ".join(sorted(str(each) for each in matchers))
            yield Finding(f"{path}: {event} sees {visible(tools)} only, and no other tool", fault=fault)
    points = [point for each in found if each.event == "PreToolUse" for point in weak_points(each)]
    for point in dict.fromkeys(points):
        yield Finding(f"{path}: PreToolUse {visible(point)}; install it again", fault=True)


def _probe(command: str, project: Path, timeout: float) -> Finding:
    """Run a hook's command for a call of the probe, as its agent does."""
    session = f"interlock-probe-{uuid4()}"
    event: dict[str, object] = {
        "hook_event_name": "PreToolUse",
        "session_id": session,
        "cwd": str(project),
        "tool_name": PROBE,
        "tool_use_id": f"probe-{uuid4()}",
        "tool_input": {},
        "permission_mode": "default",
        "transcript_path": os.devnull,
    }
    shown = visible(command.partition(" || ")[0])
    try:
        ran = subprocess.run(
            ["sh", "-c", command],
            input=json.dumps(event),
            cwd=project,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding(f"the probe was not blocked: {shown}: {error}", fault=True)
    output = visible((ran.stderr or ran.stdout).strip())
    if ran.returncode == 2:
        return Finding(f"the gate does not work, so every call is blocked: {output}", True)
    reason = _reason(ran.stdout)
    if ran.returncode != 0 or reason not in (PROBED, refusal_of_probe(shadow=True)):
        return Finding(f"the probe was not blocked: {shown}: exit code {ran.returncode}: {output}", True)
    note = SHADOW if reason != PROBED else ""
    return Finding(f"the probe was blocked by {shown}{note}")


def _reason(out: str) -> str | None:
    """Return the reason of a denial; `None` for any other answer."""
    try:
        found: object = json.loads(out)
    except ValueError:
        return None
    output = found.get("hookSpecificOutput") if is_table(found) else None
    if not is_table(output) or output.get("permissionDecision") != "deny":
        return None
    return str(output.get("permissionDecisionReason"))
