"""Validation errors of an agent's spec, reworded for the author of a file or an option."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import get_args

from pydantic import BaseModel, ValidationError

from ..config.errors import Keys, describe_error, describe_value, dotted
from ..config.paths import is_table
from .spec import KINDS, SessionLimits, SubagentLimits, WebFetchOptions

_EXPECTED_KEYS = {
    "subagents": "names of up to 59 letters, digits, '_' and '-'",
    "files": "paths of files",
}
_SHARED = "it works in the agent's runtime, under the session's rules and in its mode; leave this out"
_NO_SUBAGENTS_KEYS = {
    **dict.fromkeys(("runtime", *(key for kind in KINDS.values() for key in kind.model_fields)), _SHARED),
    **dict.fromkeys(("rules", "active", "gate", "mode", "explain_blocks"), _SHARED),
    **dict.fromkeys(
        ("web_fetch", "tell_rules"), "the agent's applies to its subagents, too; leave this out"
    ),
    "subagents": "give the agent all of them, or put a tool made with task_tool into this one's tools",
    "name": "its name is that of its table, [subagents.NAME]",
    "agent": "to use an Agent from a module, make it a tool with task_tool, among the agent's tools",
    "task": "it gets its tasks from the agent",
}
"""Keys that a subagent's table may not have, with the reason or an alternative."""
_SECRET = re.compile(r"key|token|secret|password", re.IGNORECASE)


def describe_errors(error: ValidationError, model: type[BaseModel]) -> Iterator[tuple[Keys, str, str]]:
    """Describe each pydantic error: its keys, a message that begins with their path, a remedy."""
    for found in error.errors(include_url=False):
        keys = _keys(found["loc"])
        place = dotted(keys)
        match found["type"]:
            case "extra_forbidden":
                yield keys, *_unknown(keys, model, found["loc"])
            case "string_pattern_mismatch" if keys[-1] == "[key]":
                # Pydantic's marker for an error in the key itself.
                *_, table, _, _ = keys
                expected = _EXPECTED_KEYS[str(table)]
                shown = describe_value(found["input"])
                yield keys[:-1], f"{dotted(keys[:-2])}: expected {expected}, found {shown}", ""
            case "missing":
                yield (
                    keys,
                    f"{place}: there is none",
                    "the agent's model reads it to learn what this is for",
                )
            case "union_tag_invalid":
                keys = (*keys, "kind")
                kind: object = found["input"]
                if is_table(kind):
                    kind = kind.get("kind")
                kinds = ", ".join(KINDS)
                yield keys, f"{place}: unknown runtime {kind!r:.60}", f"known: {kinds}"
            case "string_pattern_mismatch":
                shown = describe_value(found["input"])
                expected = _EXPECTED_TEXT.get(str(keys[-1]), "some text")
                yield keys, f"{place}: expected {expected}, found {shown}", ""
            case "too_short" if isinstance(found["input"], (list, tuple)):
                yield keys, f"{place}: expected at least one", "leave it out for all"
            case _:
                yield keys, f"{place}: {describe_error(found)}", ""


def _keys(loc: Sequence[str | int]) -> Keys:
    """Return the keys of a value in the file, without the runtime's kind that pydantic inserts."""
    inside = len(loc) > 1 and loc[0] == "runtime" and loc[1] in KINDS
    return (loc[0], *loc[2:]) if inside else tuple(loc)


_EXPECTED_TEXT = {
    "name": "up to 64 letters, digits, '.', '_' and '-'",
    "agent": "package.module:name",
    "workdir": "a path that starts with /",
}


def _unknown(keys: Keys, model: type[BaseModel], loc: Sequence[str | int]) -> tuple[str, str]:
    """Return the message and the remedy for an unknown key."""
    key = str(keys[-1])
    home = "limits"
    match loc:
        case ("limits", _):
            table = SessionLimits
        case ("subagents", _, "limits", _):
            table = SubagentLimits
        case ("web_fetch", _):
            table = WebFetchOptions
        case ("runtime", kind, _):
            table = KINDS[str(kind)]
        case ("subagents", _, _):
            if key in _NO_SUBAGENTS_KEYS:
                return f"{dotted(keys)}: a subagent has no '{key}' of its own", _NO_SUBAGENTS_KEYS[key]
            home = dotted((*keys[:-1], "limits"))
            _, table = get_args(model.model_fields["subagents"].annotation)
        case _:
            table = model
    names = list(table.model_fields)
    message = f"unknown key '{dotted(keys)}'"
    if key in (SubagentLimits if loc[0] == "subagents" else SessionLimits).model_fields:
        return message, f"it belongs in the table [{home}]"
    for kind, options in KINDS.items():
        if key in options.model_fields and key != "kind":
            return message, f"it belongs in the table [runtime] with kind = '{kind}'"
    if key in WebFetchOptions.model_fields:
        return message, "it belongs in the table [web_fetch]"
    if _SECRET.search(key):
        return message, "a secret does not belong in an agent file; put it into the environment"
    if close := get_close_matches(key, names, n=2, cutoff=0.7):
        return message, "did you mean '" + "' or '".join(close) + "'?"
    return message, f"known: {', '.join(names)}"
