"""How an MCP server's answer to a call is read: as text for the record, and whether the call failed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TypeGuard

from pydantic import JsonValue

LONGEST = 100_000
"""Characters of a result that are recorded; JSON may write each of them as six bytes."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call ended."""

    output: str
    is_error: bool


CANCELLED = Outcome("The client cancelled the call; whether it was carried out is not known.", True)
ENDED = Outcome("The MCP server ended before it answered.", True)
NOT_RUN = Outcome("The client cancelled the call; it was not made.", True)


def is_object(value: object) -> TypeGuard[dict[str, JsonValue]]:
    """Whether a value of JSON is an object."""
    return isinstance(value, dict)


def result_type(result: dict[str, JsonValue]) -> JsonValue:
    """`complete` where nothing else is said."""
    return result.get("resultType", "complete")


def outcome_of(answer: dict[str, JsonValue]) -> Outcome:
    """What an answer to a call says. What is not clearly a success is none."""
    result = answer.get("result")
    if "error" in answer or not is_object(result):
        error = answer.get("error")
        said = error.get("message") if is_object(error) else None
        return Outcome(
            _clipped(said if isinstance(said, str) else "The MCP server gave no result."), True
        )
    failed = result.get("isError", False) is not False or result_type(result) != "complete"
    return Outcome(_clipped(_text(result)), failed)


def _text(result: dict[str, JsonValue]) -> str:
    content = result.get("content")
    parts = [_part(each) for each in content] if isinstance(content, list) else []
    if not parts and "structuredContent" in result:
        parts = [json.dumps(result["structuredContent"], ensure_ascii=False)]
    return "\n".join(parts)


def _part(part: JsonValue) -> str:
    if not is_object(part):
        return "[something that is no content]"
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


def _clipped(text: str) -> str:
    # Half a character of UTF-16 is no text that could be sent.
    whole = text.encode("utf-8", "replace").decode()
    if len(whole) <= LONGEST:
        return whole
    return f"{whole[:LONGEST]}\n… ({len(whole) - LONGEST} more characters)"
