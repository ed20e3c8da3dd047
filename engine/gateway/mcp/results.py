"""Reads an MCP server's answer to a call: text for the record, and whether the call failed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeGuard

from pydantic import JsonValue

from ..client.agent_tools import edit_note

LONGEST = 100_000
"""Maximum number of recorded characters of a result; JSON may encode each as six bytes."""


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """Result of a call, as text and as success or failure."""

    output: str
    is_error: bool


CANCELLED = ToolOutcome("The client cancelled the call; whether it was carried out is not known.", True)
ENDED = ToolOutcome("The MCP server ended before it answered.", True)
NOT_RUN = ToolOutcome("The client cancelled the call; it was not made.", True)


def is_object(value: object) -> TypeGuard[dict[str, JsonValue]]:
    """Narrow a JSON value to an object."""
    return isinstance(value, dict)


def result_type(result: dict[str, JsonValue]) -> JsonValue:
    """Type of a result; `complete` by default."""
    return result.get("resultType", "complete")


def read_outcome(answer: dict[str, JsonValue]) -> ToolOutcome:
    """Return the outcome in an answer to a call. Anything that is not clearly a success is a failure."""
    result = answer.get("result")
    if "error" in answer or not is_object(result):
        error = answer.get("error")
        message = error.get("message") if is_object(error) else None
        return ToolOutcome(
            _shorten(message if isinstance(message, str) else "The MCP server gave no result."), True
        )
    is_error = result.get("isError", False) is not False or result_type(result) != "complete"
    return ToolOutcome(_shorten(_text(result)), is_error)


def _text(result: dict[str, JsonValue]) -> str:
    content = result.get("content")
    parts = [_part(each) for each in content] if isinstance(content, list) else []
    if not parts and "structuredContent" in result:
        parts = [json.dumps(result["structuredContent"], ensure_ascii=False)]
    return "\n".join(parts)


def _part(part: JsonValue) -> str:
    if not is_object(part):
        return "[invalid content]"
    text = part.get("text")
    if isinstance(text, str):
        return text
    kind, data, uri = part.get("type"), part.get("data"), part.get("uri")
    about = [str(each) for each in (part.get("mimeType"), uri) if isinstance(each, str)]
    if isinstance(data, str):
        about.append(f"{len(data)} characters of base64")
    resource = part.get("resource")
    if is_object(resource):
        inner = resource.get("text")
        return inner if isinstance(inner, str) else f"[resource {resource.get('uri')}]"
    return f"[{', '.join([str(kind), *about])}]"


def _shorten(text: str) -> str:
    # A lone surrogate cannot be sent as text.
    whole = text.encode("utf-8", "replace").decode()
    if len(whole) <= LONGEST:
        return whole
    return f"{whole[:LONGEST]}\n… ({len(whole) - LONGEST} more characters)"


# Note for an MCP client's model that a call ran with an edited input. No I/O.
#
# The note is added to the result's `content`. Clients that find `structuredContent` show their model that
# instead, so the note is also added there, as the field `interlock`, if an additional field is harmless:
# the server has listed the tool, and its `outputSchema`, if it has one, is open. Under a schema that
# forbids further fields, or might, the data stays unchanged: a client that validates it would take the
# result of a call that has run for a failure, and its model would call again.


FIELD: Final = "interlock"
"""Field of `structuredContent` that contains the note."""
MOST_TOOLS: Final = 10_000
"""Maximum number of a server's tools that are remembered."""
_OPEN: Final = frozenset(
    {
        "$schema",
        "$id",
        "$comment",
        "$defs",
        "definitions",
        "title",
        "description",
        "examples",
        "default",
        "type",
        "properties",
        "required",
    }
)
"""JSON Schema keywords that allow further fields; all other keywords count as forbidding them."""


class Outputs:
    """Tools whose results may have additional fields, by the server's answers to `tools/list`."""

    def __init__(self) -> None:
        self._open: dict[str, bool] = {}

    def note_tools(self, method: str, result: JsonValue) -> None:
        """Register the tools of an answer to a request of `method`."""
        tools = result.get("tools") if method == "tools/list" and is_object(result) else None
        for tool in tools if isinstance(tools, list) else []:
            name = tool.get("name") if is_object(tool) else None
            if not is_object(tool) or not isinstance(name, str):
                continue
            if name in self._open or len(self._open) < MOST_TOOLS:
                self._open[name] = _is_open(tool.get("outputSchema"))

    def take_more(self, tool: str) -> bool:
        """Return whether results of `tool` may have additional fields; false for an unlisted tool."""
        return self._open.get(tool, False)


def add_note(
    result: dict[str, JsonValue], approved: Mapping[str, JsonValue], *, structured: bool
) -> None:
    """Add the input that a call ran with to its result; with `structured`, also to its data, if any."""
    note = edit_note(approved)
    content, data = result.get("content"), result.get("structuredContent")
    if isinstance(content, list):
        content.append({"type": "text", "text": note})
    if structured and is_object(data):
        data.setdefault(FIELD, note)


def _is_open(schema: JsonValue) -> bool:
    if schema is None:
        return True
    if not is_object(schema) or schema.get("type") != "object":
        return False
    words = {name for name in schema if not (name == "additionalProperties" and schema[name] is True)}
    properties = schema.get("properties", {})
    return words <= _OPEN and is_object(properties) and FIELD not in properties
