"""How an MCP client's model hears that a call ran with another input than it gave. No I/O.

The note stands in the result's `content`. Clients that find `structuredContent` show their model that
instead, so it stands there too, as the field `interlock`, wherever a further field breaks nothing: the
server has listed the tool, and its `outputSchema`, if it has one, is open. Under a schema that forbids
further fields, or might, the data stays as the server sent it: a client that checks it would take the
result of a call that has run for a failure, and its model would call again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from .mcp_results import is_object

FIELD: Final = "interlock"
"""The field of `structuredContent` that has the note."""
MOST_TOOLS: Final = 10_000
"""Tools of a server that are remembered, at most."""
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
"""Words of JSON Schema that forbid no further field; what others mean for one is not worked out."""


class Outputs:
    """Whose results may have a further field, by what the server's answers to `tools/list` said."""

    def __init__(self) -> None:
        self._open: dict[str, bool] = {}

    def listed(self, method: str, result: JsonValue) -> None:
        """Take in an answer to a request of `method`."""
        tools = result.get("tools") if method == "tools/list" and is_object(result) else None
        for tool in tools if isinstance(tools, list) else []:
            name = tool.get("name") if is_object(tool) else None
            if not is_object(tool) or not isinstance(name, str):
                continue
            if name in self._open or len(self._open) < MOST_TOOLS:
                self._open[name] = _is_open(tool.get("outputSchema"))

    def take_more(self, tool: str) -> bool:
        """Whether results of `tool` may; of one that was never listed they may not."""
        return self._open.get(tool, False)


def add_note(
    result: dict[str, JsonValue], approved: Mapping[str, JsonValue], *, structured: bool
) -> None:
    """Say in a call's result what it ran with; with `structured` also in its data, if it has any."""
    said = f"Interlock: a person changed this call's input. It ran with: {json.dumps(approved)}"
    content, data = result.get("content"), result.get("structuredContent")
    if isinstance(content, list):
        content.append({"type": "text", "text": said})
    if structured and is_object(data):
        data.setdefault(FIELD, said)


def _is_open(schema: JsonValue) -> bool:
    if schema is None:
        return True
    if not is_object(schema) or schema.get("type") != "object":
        return False
    words = {name for name in schema if not (name == "additionalProperties" and schema[name] is True)}
    properties = schema.get("properties", {})
    return words <= _OPEN and is_object(properties) and FIELD not in properties
