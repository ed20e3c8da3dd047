"""The chain of a session's events: each carries a hash over itself and over the hash before it.

What anybody may see of an event (facts: who, when, which tool, how it was decided) is hashed as it is.
What may hold secrets (content: inputs, outputs, texts) is hashed with a salt of its own, and that hash
takes its place. So an event can be shown with parts of its content masked, and its facts and its place
can still be checked; who has the salt can check the content too.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass

from pydantic import JsonValue

from .canonical import canonical, parse
from .times import from_ms

CONTENT = frozenset(
    {
        "anomaly",
        "calls",
        "error",
        "input",
        "malformed",
        "message",
        "output",
        "preview",
        "reason",
        "source",
        "text",
        "title",
        "uninspectable",
    }
)
"""The members of an event's body that are its content. A new one needs a new `VERSION`."""

VERSION = 1
SALT_BYTES = 16


@dataclass(frozen=True, slots=True)
class Place:
    """Where an event stands: its session, its number, its time in UTC milliseconds."""

    session: str
    seq: int
    at: int


def new_salt() -> bytes:
    """A salt nobody can guess."""
    return os.urandom(SALT_BYTES)


def time_text(at: int) -> str:
    """UTC milliseconds as they are hashed and exported: `2026-11-21T16:51:31.123Z`.

    Raises `OverflowError` for no time of this calendar.
    """
    return from_ms(at).isoformat(timespec="milliseconds")[:-6] + "Z"


def content_hash(body: str, salt: bytes) -> bytes:
    """What stands for the content of an event with this body. Raises `ValueError` for no JSON object."""
    members, plain = _members(body)
    content: dict[str, JsonValue] = {k: v for k, v in members.items() if k in CONTENT}
    return hashlib.sha256(salt + canonical(content, plain=plain).encode()).digest()


def event_hash(place: Place, body: str, content: bytes, prev: bytes | None) -> bytes:
    """The hash of an event whose content has the hash `content`; `prev` is that of the event before.

    SHA-256 over the canonical JSON of `{at, body, content, prev, seq, session, v}`, where `body` has the
    facts alone. Raises `ValueError` for a body that is no JSON object, or a time that is none.
    """
    members, plain = _members(body)
    return _hash(place, {k: v for k, v in members.items() if k not in CONTENT}, content, prev, plain)


def link(place: Place, body: str, salt: bytes, prev: bytes | None) -> bytes:
    """Both at once: the hash of an event with this body and salt."""
    members, plain = _members(body)
    content = {k: members.pop(k) for k in CONTENT if k in members}
    commitment = hashlib.sha256(salt + canonical(content, plain=plain).encode()).digest()
    return _hash(place, members, commitment, prev, plain)


def _members(body: str) -> tuple[dict[str, JsonValue], bool]:
    value, plain = parse(body)
    if not isinstance(value, dict):
        raise ValueError("an event's body is a JSON object")  # noqa: TRY004 - a text was given
    return value, plain


def _hash(
    place: Place, facts: dict[str, JsonValue], content: bytes, prev: bytes | None, plain: bool
) -> bytes:
    try:
        at = time_text(place.at)
    except OverflowError as error:
        raise ValueError(f"{place.at} is no time") from error
    envelope: dict[str, JsonValue] = {
        "at": at,
        "body": facts,
        "content": content.hex(),
        "prev": None if prev is None else prev.hex(),
        "seq": place.seq,
        "session": place.session,
        "v": VERSION,
    }
    return hashlib.sha256(canonical(envelope, plain=plain).encode()).digest()
