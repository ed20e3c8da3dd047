"""Rules from the `permissions` of Claude Code's settings: `allow`, `ask`, `deny` and `defaultMode`.

A denial becomes a block, and an `ask` entry requires approval. So does a call of a tool that Claude Code
asks about by default, unless an entry allows it. If rules cannot express an entry exactly, they ask or
block more, never less.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from .draft import ASK, BLOCK, Draft, PermissionsError, allowed_command, escaped, quoted, starred

_ENTRY = re.compile(r"(?P<tool>[A-Za-z][\w-]*)(?:\((?P<about>.*)\))?", re.DOTALL)
_ASKING = ("Bash", "Edit", "Write", "NotebookEdit", "WebFetch", "WebSearch")
"""Tools about which Claude Code asks by default, in its usual mode."""
_EDITING = ("Edit", "Write", "NotebookEdit")
_PATHS = {"Read": "file_path", "Edit": "file_path", "Write": "file_path", "NotebookEdit": "notebook_path"}
_GLOB = re.compile(r"[*?\[\]{}!\\]")
_GLOB_PART = re.compile(r"\[[^\]]*\]?|\{[^}]*\}?|\\.?|[*?!\]}]")
_NO_BYPASS = "disableBypassPermissionsMode"
_MODES = ("default", "acceptEdits", "plan", "dontAsk", "bypassPermissions")


@dataclass(frozen=True, slots=True)
class _Entry:
    text: str
    tool: str
    about: str | None


def from_claude_settings(files: Iterable[tuple[str, str]]) -> Draft:
    """Rules of several settings files, given as names and texts; all their entries count.

    Raises `PermissionsError` for a file that is not a settings file.
    """
    entries: dict[str, list[str]] = {"allow": [], "ask": [], "deny": []}
    draft, mode, may_bypass = Draft(), "default", True
    for name, text in files:
        permissions = _permissions(name, text)
        for kind in entries:
            entries[kind] += _texts(name, kind, permissions.get(kind, []))
        mode = str(permissions.get("defaultMode", mode))
        may_bypass = may_bypass and permissions.get(_NO_BYPASS) != "disable"
        for key in sorted(permissions.keys() - {*entries, "defaultMode", _NO_BYPASS}):
            draft.skip(f"permissions.{key}", "rules cannot express it")
    if mode == "bypassPermissions" and not may_bypass:
        mode = "default"
    for kind, verb in (("deny", BLOCK), ("ask", BLOCK if mode == "dontAsk" else ASK)):
        for entry in map(_entry, dict.fromkeys(entries[kind])):
            _restrict(draft, f"{kind} {entry.text}", entry, verb)
    _allow(draft, [_entry(text) for text in dict.fromkeys(entries["allow"])], mode)
    return draft


def _permissions(name: str, text: str) -> dict[str, object]:
    try:
        settings = cast("object", json.loads(text))
    except json.JSONDecodeError as error:
        raise PermissionsError(f"{name}:{error.lineno}:{error.colno}: not JSON: {error.msg}") from error
    except RecursionError as error:
        raise PermissionsError(f"{name}: nested too deeply to be settings") from error
    found = cast("dict[str, object]", settings).get("permissions") if isinstance(settings, dict) else None
    if not isinstance(found, dict):
        raise PermissionsError(
            f"{name}: expected an object with 'permissions', as in .claude/settings.json"
        )
    return cast("dict[str, object]", found)


def _texts(name: str, kind: str, value: object) -> list[str]:
    items = cast("list[object]", value) if isinstance(value, list) else [None]
    texts = [item for item in items if isinstance(item, str)]
    if len(texts) < len(items):
        raise PermissionsError(f"{name}: 'permissions.{kind}' must be a list of texts")
    return texts


def _entry(text: str) -> _Entry:
    found = _ENTRY.fullmatch(text.strip())
    if found is None:
        return _Entry(text, "", None)
    about = (found["about"] or "").strip()
    return _Entry(text, found["tool"], None if about in {"", "*"} else about)


# Restrictions


def _restrict(draft: Draft, shown: str, entry: _Entry, verb: str) -> None:
    """Add the rule of a `deny` or `ask` entry; it may restrict more than the entry."""
    tool, about = entry.tool, entry.about
    if not tool:
        draft.skip(shown, "not an entry that names a tool")
    elif tool.startswith("mcp__") and tool.count("__") < 2:
        draft.skip(shown, "a server covers tools that are not named: add a rule for each")
    elif about is None:
        draft.add(shown, *(f"{verb} {one}" for one in _tools(tool)))
    elif tool == "Bash":
        draft.add_command(shown, verb, _words(about), stars=True)
    elif tool in _PATHS:
        draft.add(shown, *(f"{verb} {one} when {_about_path(one, about)}" for one in _tools(tool)))
        draft.skip(
            shown, f"shell commands and searches that {'read' if tool == 'Read' else 'write'} there"
        )
    elif tool == "WebFetch" and about.startswith("domain:"):
        host = starred(about.removeprefix("domain:").removeprefix("*."), ".*")
        draft.add(shown, f"{verb} WebFetch when input.url matches /{host}/i")
    else:
        draft.add(shown, f"{ASK} {tool}")
        draft.skip(shown, f"what is in the brackets: every call of {tool} asks")


def _tools(tool: str) -> Sequence[str]:
    return _EDITING if tool == "Edit" else (tool,)


def _words(about: str) -> list[list[str]]:
    """Words of a command that an entry begins with; a `*` alone matches any word, as others may."""
    words = about.removesuffix(":*").split()
    return [[word] for word in words if word.strip("*")] or [["*"]]


def _path(about: str) -> str:
    """A path as written in rules: `//etc` is absolute, `/src` begins where the settings are."""
    return about[1:] if about.startswith("//") else about.removeprefix("/")


def _about_path(tool: str, about: str) -> str:
    """Condition that a call is about the path, or a wider one; a bare name may be in any folder."""
    path, field = _path(about), f"input.{_PATHS[tool]}"
    # A bare name, even of a folder, may be anywhere.
    path = path if "/" in path.rstrip("/") else path.rstrip("/")
    folder = path.removesuffix("/**").removesuffix("/*") or "/"
    if not _GLOB.search(folder) and "/" in path:
        return f"{field} under {quoted(folder)}"
    last = [part for part in path.split("/") if part not in {"**", "*", ".", "~", ""}] or ["*"]
    parts = [_glob(part) for part in last]
    whole = r"\/(?:.*\/)?".join(parts)
    return rf"{field} matches /(?:^|\/){whole}(?:\/|$)/i"


def _glob(part: str) -> str:
    """A regular expression for a part of a path, or a wider one.

    Sets and special characters match any text.
    """
    return r"[^\/]*".join(map(escaped, _GLOB_PART.split(part)))


# Permissions


def _allow(draft: Draft, entries: Sequence[_Entry], mode: str) -> None:
    """Require approval of tools about which Claude Code asks by default, except for allowed calls."""
    if mode not in _MODES:
        draft.skip(f"defaultMode {mode}", "unknown; taken as default")
    if mode == "plan":
        draft.skip("defaultMode plan", "taken as default: rules have no plan mode")
    asking = () if mode == "bypassPermissions" else _ASKING
    verb = BLOCK if mode == "dontAsk" else ASK
    for tool in asking:
        allowed = [e for e in entries if e.tool == tool or (e.tool == "Edit" and tool in _EDITING)]
        if any(entry.about is None for entry in allowed):
            continue
        conditions = {_condition(tool, entry.about or "") for entry in allowed}
        conditions.discard(None)
        if mode == "acceptEdits" and tool in _EDITING:
            conditions.add(f'input.{_PATHS[tool]} under "."')
        found = " or ".join(sorted(map(str, conditions)))
        shown = f"allow {', '.join(entry.text for entry in allowed)}" if allowed else f"{tool} by default"
        draft.add(shown, f"{verb} {tool}{f' when not ({found})' if found else ''}")
        draft.carried += max(0, len(allowed) - 1) - (not allowed)
    for entry in entries:
        known = entry.tool in asking or entry.tool in {"Read", "Edit"}
        if entry.about is not None and _condition(entry.tool, entry.about) is None:
            draft.skip(
                f"allow {entry.text}", "rules cannot express this safely: such calls need approval"
            )
        elif not known:
            draft.skip(f"allow {entry.text}", "needs no rule: what no rule restricts runs")
    if asking:
        draft.skip(
            "files elsewhere",
            "by default Claude Code asks before it reads outside the folder: add a rule on Read",
        )
        draft.skip(
            "other tools", "by default Claude Code asks about MCP tools; name them in rules of their own"
        )


def _condition(tool: str, about: str) -> str | None:
    """Condition that an entry allows a call, or a narrower one; `None` if rules cannot express it."""
    if tool == "Bash":
        exact = not about.endswith("*")
        text = about.removesuffix(":*").removesuffix("*").strip()
        if not text or "*" in text:
            return None
        return allowed_command([[word] for word in text.split()], exact=exact)
    if tool in _PATHS:
        folder = _path(about).removesuffix("/**")
        if _GLOB.search(folder) or "/" not in _path(about):
            return None
        return f"input.{_PATHS[tool]} under {quoted(folder or '/')}"
    if tool == "WebFetch" and about.startswith("domain:") and "*" not in about:
        return rf"input.url matches /^https:\/\/{escaped(about.removeprefix('domain:'))}(?:[\/?]|$)/i"
    return None
