"""Rules from Codex: `prefix_rule` in its `.rules` files, and `config.toml`."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import cast

from .draft import ASK, BLOCK, Draft, PermissionsError, allowed_command

_NAME = re.compile(r"[A-Za-z0-9_-]+")
_VERBS = {"prompt": ASK, "forbidden": BLOCK}
_POLICIES = {
    "never": "Codex asks nobody, and what no rule restricts runs",
    "on-request": "the model decides when to ask",
    "on-failure": "Codex asks once a command has failed in its sandbox",
}


@dataclass(slots=True)
class _Allowed:
    """Commands that are allowed without approval, and the entries that allow them."""

    conditions: list[str] = field(default_factory=list[str])
    entries: list[str] = field(default_factory=list[str])


def from_codex(files: Iterable[tuple[str, str]]) -> Draft:
    """Rules of several files, given as names and texts; names of rules files end in `.rules`.

    Raises `PermissionsError` for a file that is neither.
    """
    draft, allowed, policy = Draft(), _Allowed(), None
    calls: list[tuple[str, dict[str, object]]] = []
    for name, text in files:
        if name.endswith(".rules"):
            calls += _calls(name, text, draft)
        else:
            policy = _config(draft, name, text) or policy
    # Codex applies the strictest of the rules that a command matches.
    for shown, call in sorted(calls, key=lambda each: each[1].get("decision") != "forbidden"):
        _prefix_rule(draft, shown, call, allowed)
    if policy == "untrusted":
        conditions = " or ".join(dict.fromkeys(allowed.conditions))
        shown = "; ".join(["approval_policy = untrusted", *allowed.entries])
        draft.add(
            shown, f"{ASK} Bash{f' when not ({conditions})' if conditions else ''}", f"{ASK} apply_patch"
        )
        draft.skip(
            "approval_policy untrusted",
            "commands that only read also need approval, unless a rule allows them",
        )
        return draft
    for entry in allowed.entries:
        draft.skip(entry, "needs no rule: what no rule restricts runs")
    if policy is not None:
        draft.skip(f"approval_policy {policy}", _POLICIES.get(policy, "rules cannot express it"))
    return draft


def _config(draft: Draft, name: str, text: str) -> str | None:
    """Read the permissions in a `config.toml`; return its approval policy."""
    try:
        config = cast("dict[str, object]", tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise PermissionsError(f"{name}: not TOML: {error}") from error
    for key in sorted(config.keys() & {"sandbox_mode", "sandbox_workspace_write"}):
        draft.skip(key, "a sandbox confines what runs; rules decide what does")
    servers = config.get("mcp_servers")
    for server, settings in (
        cast("dict[str, object]", servers).items() if isinstance(servers, dict) else ()
    ):
        known = cast("dict[str, object]", settings) if isinstance(settings, dict) else {}
        _tools(draft, server, known.get("disabled_tools", []))
        if "enabled_tools" in known:
            draft.skip(f"mcp_servers.{server}.enabled_tools", "Codex offers no others by itself")
    policy = config.get("approval_policy")
    if policy is not None and not isinstance(policy, str):
        draft.skip("approval_policy", "more than a name")
        return None
    return policy


def _tools(draft: Draft, server: str, disabled: object) -> None:
    for tool in cast("list[object]", disabled) if isinstance(disabled, list) else [disabled]:
        shown = f"mcp_servers.{server}.disabled_tools {tool}"
        if isinstance(tool, str) and _NAME.fullmatch(tool) and _NAME.fullmatch(server):
            draft.add(shown, f"{BLOCK} mcp__{server}__{tool}")
        else:
            draft.skip(shown, "not a name that a rule can have")


def _calls(name: str, text: str, draft: Draft) -> Iterator[tuple[str, dict[str, object]]]:
    """Calls of `prefix_rule` in a file, with their arguments; all else is noted as not carried over."""
    try:
        lines = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = error.lineno if isinstance(error, SyntaxError) else None
        place = name if line is None else f"{name}:{line}"
        raise PermissionsError(f"{place}: cannot be read as rules of Codex: {error}") from error
    for line in lines:
        shown = f"{name}:{line.lineno}"
        call = line.value if isinstance(line, ast.Expr) else None
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
            draft.skip(shown, "a statement other than a call of prefix_rule")
        elif call.func.id != "prefix_rule" or call.args or any(k.arg is None for k in call.keywords):
            draft.skip(shown, "not a call of prefix_rule with named arguments")
        else:
            try:
                yield shown, {str(k.arg): ast.literal_eval(k.value) for k in call.keywords}
            except (ValueError, TypeError):
                draft.skip(shown, "its arguments are computed")


def _prefix_rule(draft: Draft, shown: str, call: dict[str, object], allowed: _Allowed) -> None:
    words = _pattern(call.get("pattern"))
    decision = call.get("decision", "allow")
    if words is None:
        draft.skip(shown, "its pattern is not a list of words")
        return
    entry = f"{shown} {decision} {' '.join('|'.join(each) for each in words)}"
    if decision in _VERBS:
        draft.add_command(entry, _VERBS[str(decision)], words)
    elif decision == "allow":
        allowed.entries.append(entry)
        allowed.conditions.append(allowed_command(words))
    else:
        draft.skip(entry, "an unknown decision")


def _pattern(value: object) -> list[list[str]] | None:
    """Words of a command, each with its alternatives."""
    words: list[list[str]] = []
    for item in cast("list[object]", value) if isinstance(value, list) else []:
        each = cast("list[object]", item) if isinstance(item, list) else [item]
        texts = [text for text in each if isinstance(text, str) and text]
        if not texts or len(texts) < len(each):
            return None
        words.append(texts)
    return words or None
