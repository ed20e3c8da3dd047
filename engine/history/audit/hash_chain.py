"""Hash chain of a session's events: each has a hash over itself and the hash before it.

The facts of an event (who, when, which tool, how it was decided) may be seen by anybody and are hashed as
they are. The content (inputs, outputs, texts) may have secrets and is hashed with its own salt; its hash
takes its place in the event's hash. So an event can be shown with parts of its content masked, and its
facts and its position can still be verified. With the salt the content can be verified too.
"""

from __future__ import annotations

import hashlib
import json
import os
from binascii import hexlify
from functools import lru_cache
from typing import NamedTuple

import orjson
from pydantic import JsonValue

from ..model.times import from_ms
from .canonical_json import canonical, common, is_plain

CONTENT = frozenset(
    {
        "anomaly",
        "calls",
        "digest_salt",
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


_sha256 = hashlib.sha256


class ChainPosition(NamedTuple):
    """Position of an event: its session, its number, its time in UTC milliseconds."""

    session: str
    seq: int
    at: int


def new_salts(count: int) -> list[bytes]:
    """Return `count` unguessable salts, generated at once."""
    random_bytes = os.urandom(SALT_BYTES * count)
    return [random_bytes[at : at + SALT_BYTES] for at in range(0, len(random_bytes), SALT_BYTES)]


@lru_cache(maxsize=1024)
def time_text(at: int) -> str:
    """Format UTC milliseconds as they are hashed and exported: `2026-11-21T16:51:31.123Z`.

    Raises `OverflowError` for a time outside the calendar.
    """
    return from_ms(at).isoformat(timespec="milliseconds")[:-6] + "Z"


def content_hash(body: str, salt: bytes) -> bytes:
    """Return the salted hash of the content in an event's body.

    Raises `ValueError` for a body that is not a JSON object.
    """
    return hashlib.sha256(salt + parts(body)[1]).digest()


def event_hash(place: ChainPosition, body: str, content: bytes, prev: bytes | None) -> bytes:
    """Return the hash of an event whose content has the hash `content`; `prev` is the hash before it.

    SHA-256 over the canonical JSON of `{at, body, content, prev, seq, session, v}`, where `body` has only
    the facts. Raises `ValueError` for a body that is not a JSON object, or an invalid time.
    """
    return _hash(place, parts(body)[0], hexlify(content), prev)


def event_hash_of_body(place: ChainPosition, body: str, salt: bytes, prev: bytes | None) -> bytes:
    """Return the hash of an event with this body, whose content is salted with `salt`."""
    return event_hash_of_parts(place, parts(body), salt, prev)


def event_hash_of_parts(
    place: tuple[str, int, int], parts: tuple[bytes, bytes], salt: bytes, prev: bytes | None
) -> bytes:
    """Return the hash of an event whose body has these `parts`, as returned by `parts`."""
    facts, content = parts
    return _hash(place, facts, _sha256(salt + content).hexdigest().encode(), prev)


def parts(body: str) -> tuple[bytes, bytes]:
    """Return the canonical JSON of a body's facts and of its content.

    Raises `ValueError` for a body that is not a JSON object.
    """
    try:
        text = body.encode()
        facts, content = _split(orjson.loads(text))
        if is_plain(text):
            plain = _sorted(facts), _sorted(content)
            # ASCII keys have the same order in UTF-8 and UTF-16.
            if plain[0].isascii() and plain[1].isascii():
                return plain
        quick = common(facts), common(content)
        if quick[0] is not None and quick[1] is not None:
            return quick[0], quick[1]
    except ValueError:
        pass  # `NaN`, and other texts that orjson rejects
    facts, content = _split(json.loads(body))
    return canonical(facts).encode(), canonical(content).encode()


def _sorted(members: dict[str, JsonValue]) -> bytes:
    return orjson.dumps(members, option=orjson.OPT_SORT_KEYS)


def _split(members: JsonValue) -> tuple[dict[str, JsonValue], dict[str, JsonValue]]:
    if not isinstance(members, dict):
        raise ValueError("an event's body is a JSON object")  # noqa: TRY004 - a text was given
    content = {name: members.pop(name) for name in CONTENT & members.keys()}
    return members, content


def _hash(place: tuple[str, int, int], facts: bytes, content: bytes, prev: bytes | None) -> bytes:
    session, seq, at = place
    try:
        begin = _begin(at)
    except OverflowError as error:
        raise ValueError(f"{at} is not a valid time") from error
    envelope = (
        begin,
        facts,
        b',"content":"',
        content,
        b'","prev":null,"seq":' if prev is None else b'","prev":"%b","seq":' % hexlify(prev),
        b"%d" % seq,
        _end(session),
    )
    return _sha256(b"".join(envelope)).digest()


@lru_cache(maxsize=1024)
def _begin(at: int) -> bytes:
    return f'{{"at":"{time_text(at)}","body":'.encode()


@lru_cache(maxsize=1024)
def _end(session: str) -> bytes:
    return f',"session":{canonical(session)},"v":{VERSION}}}'.encode()
