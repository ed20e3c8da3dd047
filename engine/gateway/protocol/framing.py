"""Frames: JSON-RPC 2.0, one message per text frame, read strictly and written as bytes.

Input of agents and consoles is untrusted: it either becomes a model of this module or raises an error.
"""

from __future__ import annotations

import json
import math
from enum import IntEnum
from typing import Annotated, Literal, TypeAlias, cast

import orjson
from pydantic import BaseModel, ConfigDict, Field, JsonValue, StrictInt, StrictStr, ValidationError
from pydantic_core import from_json

from ...core.json_values import RepeatedKeyError, check_unique
from ...history.model.fast_models import construct_model

VERSION = 1
"""Version of the protocol."""
LONGEST_ID = 128
"""Maximum number of characters of a message id."""
LONGEST_METHOD = 100
"""Maximum number of characters of a method name."""
LARGEST_ID = 2**53
"""Largest absolute value of a numeric message id: the largest that every language represents exactly."""
DEEPEST = 64
"""Maximum nesting of a frame. Readers of its record add a few levels."""

Id: TypeAlias = (
    Annotated[StrictInt, Field(ge=-LARGEST_ID, le=LARGEST_ID)]
    | Annotated[StrictStr, Field(max_length=LONGEST_ID)]
)

_MEMBERS = {"jsonrpc", "method", "id", "params"}
_DIGITS = bytes.maketrans(b"123456789E", b"000000000e")
_LARGE = b"0e000", b"0e+000", b"0" * 210
"""Parts of every number that may be too large, with all digits as 0: 210 digits and `e99` make 309."""


class Code(IntEnum):
    """Error codes, for programs; the first five are JSON-RPC's own."""

    PARSE = -32700
    REQUEST = -32600
    METHOD = -32601
    PARAMS = -32602
    INTERNAL = -32603
    REFUSED = -32000
    """The request cannot be fulfilled in the present state; the message says why."""
    UNKNOWN = -32001
    """There is no such session, call or request, or it belongs to another token."""
    NOT_ALLOWED = -32002
    """The token is of the wrong kind for this method."""
    LIMIT = -32003
    """A limit was exceeded; see `data.limit`."""
    CALL_ID_USED = -32004
    """The call id was already used with another tool or input."""
    UNRECORDED = -32005
    """The journal could not record the request, so it had no effect."""
    VERSION = -32006
    """Client and server have no protocol version in common."""
    NOT_FOUND = -32007
    """No recorded session, or more than one, has an id with this prefix; `data` lists candidates."""


class Payload(BaseModel):
    """Parameters sent to a server. An unknown field is an error, because it may have been a limit."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class ServerMessage(BaseModel):
    """Message sent by a server. Unknown fields, which a later server may add, are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Nothing(ServerMessage):
    """An answer without content."""


class ErrorInfo(ServerMessage):
    """Description of an error; `message` is for people and models, `code` and `data` for programs."""

    code: int
    message: str
    data: dict[str, JsonValue] | None = None


class Request(Payload):
    """Call of a method; without `id` it is a notification, which has no response."""

    jsonrpc: Literal["2.0"]
    method: str = Field(max_length=LONGEST_METHOD)
    id: Id | None = None
    params: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])


class Response(ServerMessage):
    """Response to a request: exactly one of `result` and `error`."""

    jsonrpc: Literal["2.0"]
    id: Id | None
    result: JsonValue = None
    error: ErrorInfo | None = None


class Notice(ServerMessage):
    """Notice sent by the server without a request."""

    jsonrpc: Literal["2.0"]
    method: str
    params: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])


class WireError(Exception):
    """A failed request: the error for the client, and `request_id` if it could be read."""

    def __init__(
        self,
        code: int,
        message: str,
        data: dict[str, JsonValue] | None = None,
        *,
        request_id: Id | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.data = data
        self.request_id = request_id


def read_request(frame: str | bytes) -> Request:
    """Parse a client's frame. Raises `WireError`."""
    if isinstance(frame, bytes):
        raise WireError(Code.REQUEST, "expected a text frame, found a binary one")
    document = read_json(frame)
    if (quickly := _quickly(document)) is not None:
        return quickly
    try:
        return Request.model_validate(document)
    except ValidationError as error:
        message = f"not a JSON-RPC 2.0 request: {problems(error)}"
        raise WireError(Code.REQUEST, message, request_id=_id_of(document)) from error


def read_json(frame: str) -> object:
    """Parse JSON that operators may approve and that a record can hold. Raises `WireError`."""
    try:
        # Integers of any size are kept exactly, because operators approve what they see.
        document = from_json(frame, allow_inf_nan=False)
    except ValueError as error:
        raise WireError(Code.PARSE, f"the frame is not JSON: {error}") from error
    if frame.count("{") + frame.count("[") > DEEPEST and _depth(document) > DEEPEST:
        message = f"the frame has more than {DEEPEST} levels"
        raise WireError(Code.PARSE, message, request_id=_id_of(document))
    if _may_have_infinite(frame) and _has_infinite(document):
        message = "the frame has a number that is too large"
        raise WireError(Code.PARSE, message, request_id=_id_of(document))
    try:
        check_unique(frame, document)
    except RepeatedKeyError as error:
        message = f"the frame is ambiguous: {error}"
        raise WireError(Code.PARSE, message, request_id=_id_of(document)) from error
    return document


def _quickly(loaded: object) -> Request | None:
    """Parse a request of the usual form in a tenth of the time; return `None` for any other.

    The frame is already parsed JSON, so its `params` need no validation of their own.
    """
    if type(loaded) is not dict:
        return None
    members = cast("dict[str, object]", loaded)
    request_id, method = members.get("id"), members.get("method")
    if (
        members.keys() != _MEMBERS
        or members["jsonrpc"] != "2.0"
        or type(method) is not str
        or len(method) > LONGEST_METHOD
        or type(request_id) is not int
        or abs(request_id) > LARGEST_ID
        or type(members["params"]) is not dict
    ):
        return None
    return construct_model(Request, members)


def _id_of(loaded: object) -> Id | None:
    """Id of an invalid request, for the error response."""
    if not isinstance(loaded, dict):
        return None
    request_id = cast("dict[str, object]", loaded).get("id")
    if isinstance(request_id, str):
        return request_id if len(request_id) <= LONGEST_ID else None
    if isinstance(request_id, int) and not isinstance(request_id, bool) and abs(request_id) <= LARGEST_ID:
        return request_id
    return None


def _depth(loaded: object) -> int:
    """Nesting depth of lists and objects."""
    depth, level_values = 0, [loaded]
    while level_values := [part for each in level_values for part in _parts(each)]:
        depth += 1
    return depth


def _may_have_infinite(text: str) -> bool:
    """Return whether a JSON text may contain a number that is too large; much faster than a regex."""
    digits = text.encode().translate(_DIGITS)
    return any(part in digits for part in _LARGE)


def _has_infinite(loaded: object) -> bool:
    level_values = [loaded]
    while level_values:
        if any(isinstance(each, float) and not math.isfinite(each) for each in level_values):
            return True
        level_values = [part for each in level_values for part in _parts(each)]
    return False


def _parts(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(cast("dict[str, object]", value).values())
    return cast("list[object]", value) if isinstance(value, list) else []


def read_incoming(frame: str | bytes) -> Response | Notice:
    """Parse a server's frame. Raises `WireError`."""
    try:
        document = _loaded(frame)
        model = Notice if isinstance(document, dict) and "method" in document else Response
        return model.model_validate(document)
    except (ValueError, RecursionError) as error:
        raise WireError(Code.PARSE, f"the server sent an invalid message: {error}") from error


def _loaded(frame: str | bytes) -> object:
    """Parse JSON of a server: recorded inputs may have many levels and numbers that JSON lacks."""
    try:
        return from_json(frame)
    except ValueError:
        return json.loads(frame)


def request_frame(method: str, params: BaseModel, request_id: Id | None) -> bytes:
    """A client's frame."""
    head = b'{"jsonrpc":"2.0","method":' + orjson.dumps(method)
    number = b"" if request_id is None else b',"id":' + orjson.dumps(request_id)
    body = params.model_dump_json(exclude_unset=True, by_alias=True).encode()
    return head + number + b',"params":' + body + b"}"


def result_frame(request_id: Id, result: BaseModel) -> bytes:
    """Response to a request."""
    return (
        b'{"jsonrpc":"2.0","id":'
        + orjson.dumps(request_id)
        + b',"result":'
        + result.model_dump_json().encode()
        + b"}"
    )


def error_frame(request_id: Id | None, error: WireError) -> bytes:
    """Error response; without an id if the request's id could not be read."""
    message = str(error).encode("utf-8", "replace").decode()
    info: dict[str, object] = {"code": int(error.code), "message": message}
    if error.data is not None:
        info["data"] = error.data
    return orjson.dumps({"jsonrpc": "2.0", "id": request_id, "error": info})


def notice_frame(method: str, params: BaseModel) -> bytes:
    """Frame of a notice."""
    body = params.model_dump_json().encode()
    return b'{"jsonrpc":"2.0","method":' + orjson.dumps(method) + b',"params":' + body + b"}"


def problems(error: ValidationError) -> str:
    """List the faults by field, without the values, which may be secret."""
    errors = error.errors(include_url=False, include_context=False, include_input=False)
    lines = [
        f"{'.'.join(map(str, each['loc']))[:200] or 'message'}: {each['msg']}" for each in errors[:5]
    ]
    more = f" (and {len(errors) - 5} more)" if len(errors) > 5 else ""
    return "; ".join(lines).replace("Value error, ", "") + more
