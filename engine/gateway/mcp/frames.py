"""Reader of MCP frames; accepts only those that every reader interprets as the same message."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from typing import Final, TypeAlias

from pydantic import JsonValue

from ...core.json_values import unique
from .results import is_object

CALL: Final = "tools/call"
INVALID_REQUEST, INVALID_PARAMS = -32600, -32602
_MEMBERS: Final = frozenset({"jsonrpc", "id", "method", "params", "result", "error"})

Message: TypeAlias = dict[str, JsonValue]
Id: TypeAlias = int | str
Key: TypeAlias = tuple[type, object]


class RefusedError(Exception):
    """A line that must not reach the server."""

    def __init__(self, message: str, request_id: Id | None = None, code: int = INVALID_REQUEST) -> None:
        super().__init__(message)
        self.id = request_id
        self.code = code


def read(body: bytes) -> JsonValue:
    """Parse the JSON of a line without its end. Raises `RefusedError`."""
    # A reader that takes CR as the end of a line would find other messages in this one. Other characters
    # that end lines for some readers occur only within JSON's texts, and no part of such a line is JSON.
    if b"\r" in body:
        raise RefusedError("the line contains a carriage return")
    try:
        return json.loads(
            body.decode(), object_pairs_hook=unique, parse_constant=_no_number, parse_float=_float
        )
    except (ValueError, RecursionError) as error:
        raise RefusedError(f"not unambiguous JSON: {error}", code=-32700) from error


def _float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        return _no_number(text)
    return number


def _no_number(text: str) -> float:
    raise ValueError(f"{text[:100]} is not a JSON number")


def message_of(found: JsonValue) -> Message:
    """Check that a value is a message that all readers interpret alike. Raises `RefusedError`."""
    if not is_object(found):
        raise RefusedError("expected a JSON-RPC message, an object")
    request_id = id_of(found.get("id"))
    check_keys(found, _MEMBERS, request_id)
    if "method" in found:
        method = found["method"]
        if not isinstance(method, str) or has_controls(method):
            raise RefusedError("method: expected a name", request_id)
        if method != CALL and _plain(method) == CALL:
            raise RefusedError(f"method: expected '{CALL}', found another spelling of it", request_id)
        if "result" in found or "error" in found:
            raise RefusedError("expected a request or an answer, found both in one message", request_id)
    return found


def check_keys(found: Message, keys: frozenset[str], request_id: Id | None) -> None:
    """Raise `RefusedError` for a key that a reader may mistake for one of `keys`."""
    for key in found:
        if key not in keys and _plain(key) in keys:
            raise RefusedError(f"expected '{_plain(key)}', found another spelling of it", request_id)


def _plain(text: str) -> str:
    """Normalize a name as a lenient reader may: without case and invisible characters."""
    folded_text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return "".join(each for each in folded_text if unicodedata.category(each)[0] not in "CZ")


def has_controls(text: str) -> bool:
    """Return whether a text has control characters, at which a reader may truncate it."""
    return re.search(r"[\x00-\x1f\x7f-\x9f]", text) is not None


def id_of(value: JsonValue) -> Id | None:
    """Return the id of a request; `None` for an invalid one."""
    return value if isinstance(value, int | str) and not isinstance(value, bool) else None


def key_of(value: JsonValue) -> Key:
    """Return the key of an id: `1`, `1.0`, `true` and `"1"` differ; an invalid id equals no other."""
    return (type(value), value if isinstance(value, int | str | float) else None)


def error_of(request_id: Id | None, code: int, message: str) -> Message:
    """Build a JSON-RPC error, to be sent alone or with others."""
    text = f"Interlock did not pass this on: {message}"
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": text}}


def line_of(message: JsonValue) -> bytes:
    """Encode a message as a line, in ASCII."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def error_line(request_id: Id | None, code: int, message: str) -> bytes:
    """Encode a JSON-RPC error as a line."""
    return line_of(error_of(request_id, code, message))
