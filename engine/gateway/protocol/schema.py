"""The whole protocol as a document and as JSON Schema, generated from its models."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from pydantic import BaseModel, JsonValue
from pydantic.json_schema import models_json_schema

from ...core.rights import ABOUT
from .agent_methods import AGENT_METHODS, ENDED, HELLO, Hello, Welcome
from .console_methods import CONSOLE_METHODS, DISCONNECTED, EVENT, FREEZE, READERS
from .framing import DEEPEST, VERSION, Code, Payload
from .login_exchange import CHECK, END, ID_TOKEN_HEADER, OFFER, OPEN, PIECE, RENEW
from .login_exchange import NONCE_HEADER as LOGIN_NONCE
from .method import Method, NoticeType
from .server_proof import NONCE_HEADER, PATH, TOKEN_HEADER

METHODS: tuple[Method[Payload, BaseModel], ...] = (*AGENT_METHODS, *CONSOLE_METHODS)  # type: ignore[assignment]
NOTICES: tuple[NoticeType, ...] = (ENDED, EVENT, DISCONNECTED, FREEZE, READERS)

_ABOUT = {
    Code.PARSE: "The frame is not JSON.",
    Code.REQUEST: "The frame is not a request of JSON-RPC 2.0.",
    Code.METHOD: "There is no such method.",
    Code.PARAMS: "The parameters do not fit; the message says where.",
    Code.INTERNAL: "The server failed. Nothing was allowed by it.",
    Code.REFUSED: "It cannot be done as things stand; the message says why.",
    Code.UNKNOWN: "There is no such session, call or request, or it is somebody else's.",
    Code.NOT_ALLOWED: "The token is of the wrong kind for this method, or may not choose this.",
    Code.LIMIT: "Too many or too much; `data.limit` says how much there may be.",
    Code.CALL_ID_USED: "A call of this id was made before, with another tool or input.",
    Code.UNRECORDED: "The journal refused it, so it did not happen.",
    Code.VERSION: "The two sides speak no common version.",
    Code.NOT_FOUND: "No recorded session, or more than one, has an id that begins so; `data.candidates` "
    "are ids to choose from. Operators only.",
}

_INTRODUCTION = f"""\
# The protocol

Made by `interlock protocol`; version {VERSION}.

JSON-RPC 2.0 over WebSocket, one message in each text frame, no batches. Agents connect to `/agent`,
consoles to `/console`, both with their token (`Authorization: Bearer TOKEN`) and the subprotocol
`interlock.v1`. Clients that cannot set headers, as browsers, offer the token as a second subprotocol,
`bearer.TOKEN`; it is never the one that the server chooses. The first request is `{HELLO}`. Requests are
answered side by side, in any order.

Anybody on a machine may listen on a port while no server does. So before a token goes over TCP without
TLS a client has who listens prove that it knows it: `GET {PATH}`, with the token's name as
`{TOKEN_HEADER}` and 64 new hexadecimal digits as `{NONCE_HEADER}`, is answered with the hexadecimal
HMAC-SHA256 of `interlock proof HOST NONCE`; its key is the 32 bytes of the token's SHA-256, and HOST the
request's own, in lower case: without TLS a server answers to the addresses that it has and to no other
name of its machine, as `localhost` is, where somebody else may listen. A token's name is the first 32
digits of the same of `interlock name`.

An operator may log in at a provider of OpenID Connect instead of being given a token. `GET {OFFER}` is
answered with JSON, the provider's `issuer`, the `client_id` for the device flow and its `scopes`; 404
where there are no logins. `GET {OPEN}` with an ID token in `{ID_TOKEN_HEADER}` (in several headers of
that name where it is longer than {PIECE} characters), and where the login had a nonce with that in
`{LOGIN_NONCE}`, gives a token that `ends`, with the operator's `name`, `rights` and `groups`.
`GET {RENEW}`, `GET {CHECK}` and `GET {END}` take that token as `Authorization`, the first with a new ID
token, whose role and groups count from then on; the second is refused once the login is over. None of
these takes an Origin. An ID token is not for a server that has not proved who it is: by TLS, or as above.

A field that a server does not know is an error, so that a misspelt limit is never passed over. Clients
pass over fields they do not know. Times are ISO 8601 in UTC, lengths of time seconds.

Nothing may run unless the answer to its `tool.call` was `allow`, and then with exactly the `input` of
that answer. A call's id makes asking idempotent: a client whose connection was lost connects again, finds
its session with `session.resume`, and asks again under the same id. So does one whose connection was
closed with 1012: the server ends, and its sessions go on where the next one finds them, or the token was
given another name, owner or kind, which holds from then on. Numbers are read exactly, whole ones of any
size; a frame has at most {DEEPEST} levels.
"""


_CONSOLES = """\
Who decides is whoever the token belongs to; no field says it. A token is of one of these kinds, each of
which may do what those before it may; the server refuses whatever needs more, and changes to a console
that said in its greeting that it is read-only.

| kind | |
| --- | --- |
""" + "\n".join(f"| `{kind}` | {about} |" for kind, about in ABOUT.items())


@cache
def _sent() -> tuple[dict[tuple[type[BaseModel], str], JsonValue], dict[str, JsonValue]]:
    """References to the models of all messages, and their definitions."""
    sent: list[tuple[type[BaseModel], str]] = [(Hello, "validation"), (Welcome, "serialization")]
    for method in METHODS:
        sent += [(method.params, "validation"), (method.result, "serialization")]
    sent += [(notice.params, "serialization") for notice in NOTICES]
    return models_json_schema(  # type: ignore[return-value]
        list(dict.fromkeys(sent)),  # type: ignore[arg-type]
        ref_template="#/$defs/{model}",
    )


def schema() -> dict[str, JsonValue]:
    """JSON Schema of all messages; `methods` and `notices` name the model of each."""
    references, definitions = _sent()

    def of(model: type[BaseModel], mode: str) -> JsonValue:
        return dict(references[model, mode])  # type: ignore[arg-type]

    methods: dict[str, JsonValue] = {
        HELLO: {"params": of(Hello, "validation"), "result": of(Welcome, "serialization")}
    }
    for method in METHODS:
        methods[method.name] = {
            "for": method.kind,
            "needs": method.needs,
            "about": _joined(method.about),
            "params": of(method.params, "validation"),
            "result": of(method.result, "serialization"),
        }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Interlock protocol",
        "version": VERSION,
        "methods": methods,
        "notices": {
            notice.name: {
                "for": notice.kind,
                "about": notice.about,
                "params": of(notice.params, "serialization"),
            }
            for notice in NOTICES
        },
        "errors": {str(int(code)): about for code, about in _ABOUT.items()},
        **definitions,
    }


def document() -> str:
    """Return the text of docs/protocol.md."""
    parts = [
        _INTRODUCTION,
        "## Greeting",
        _method(f"`{HELLO}`", "Agree on a version.", Hello, Welcome, _text(Hello)),
        "## For agents",
        *(_described(method) for method in METHODS if method.kind == "agent"),
        *(_notice(notice) for notice in NOTICES if notice.kind == "agent"),
        "## For consoles",
        _CONSOLES,
        *(_described(method) for method in METHODS if method.kind == "operator"),
        *(_notice(notice) for notice in NOTICES if notice.kind == "operator"),
        "## Errors",
        "| code | meaning |\n| --- | --- |\n"
        + "\n".join(f"| {int(code)} | {about} |" for code, about in _ABOUT.items()),
        "## Models",
        *_models(),
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _described(method: Method[Payload, BaseModel]) -> str:
    about, _, details = method.about.partition("\n\n")
    needs = "" if method.needs == "agent" else f" Needs `{method.needs}`."
    text = details or _text(method.params)
    return _method(f"`{method.name}`", _joined(about) + needs, method.params, method.result, text)


def _method(name: str, about: str, params: type[BaseModel], result: type[BaseModel], text: str) -> str:
    taken = f"Takes {_link(params, 'validation')}, gives {_link(result)}."
    return "\n\n".join([f"### {name}", about, taken, _joined(text)]).strip()


def _notice(notice: NoticeType) -> str:
    return f"### `{notice.name}` (sent by the server)\n\n{notice.about} Carries {_link(notice.params)}."


def _link(model: type[BaseModel], mode: str = "serialization") -> str:
    # Link by reference, not by class name: two models of different modules may have the same name.
    return _type(_sent()[0][model, mode])


def _text(model: type[BaseModel]) -> str:
    return model.__doc__ or ""


def _joined(text: str) -> str:
    """Join the lines of each paragraph of a docstring."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _models() -> Iterable[str]:
    """Yield the name, description and fields of every model."""
    found: dict[str, JsonValue] = schema()["$defs"]  # type: ignore[assignment]
    for name in sorted(found):
        described = found[name]
        assert isinstance(described, dict)
        lines = [f"### {name}"]
        if isinstance(about := described.get("description"), str):
            lines.append(_joined(about))
        properties = described.get("properties")
        if isinstance(properties, dict) and properties:
            required = described.get("required")
            needed = required if isinstance(required, list) else []
            rows = [
                f"| `{field}` | {_type(kind)} | {'yes' if field in needed else ''} |"
                for field, kind in properties.items()
            ]
            lines.append("| field | type | required |\n| --- | --- | --- |\n" + "\n".join(rows))
        elif "enum" in described or described.get("type") != "object":
            lines.append(_type(described))
        yield "\n\n".join(lines)


def _type(kind: JsonValue) -> str:
    """Return a short description of a type."""
    if not isinstance(kind, dict):
        return "any"
    match kind:
        case {"$ref": str(target)}:
            name = target.rpartition("/")[2]
            return f"[{name}](#{name.lower()})"
        case {"const": value}:
            return f"`{value}`"
        case {"enum": list(values)}:
            return " or ".join(f"`{value}`" for value in values)
        case {"anyOf": list(every)} | {"oneOf": list(every)}:
            return " or ".join(dict.fromkeys(map(_type, every)))
        case {"type": "array", "prefixItems": list(items)}:
            return f"list of {', '.join(map(_type, items))}"
        case {"type": "array"}:
            return f"list of {_type(kind.get('items', True))}"
        case {"type": "object", "additionalProperties": values} if values is not True:
            return f"object of {_type(values)}"
        case {"type": "string", "format": "date-time"}:
            return "time"
        case {"type": str(name)}:
            return name
        case _:
            return "any"
