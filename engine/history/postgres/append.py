"""The SQL statement with which a server appends a batch of events to the sessions that it owns.

The statement compares and sets the lane's last number and, for each session, its owner, epoch and head
hash. It writes only the sessions that match, in one transaction that stays open across no round trip. A
statement that a paused server sends after another server took its sessions over writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, ForwardRef, NamedTuple

from ..database.compiled import DecisionLine, LinkedRow, SessionRow
from .connection import storable
from .servers.lease import DURABLE, WHOLE

_TYPES = {
    "str": "text",
    "int": "bigint",
    "float": "float8",
    "bytes": "bytea",
    "bool": "boolean",
    "Kind": "text",
}
_KEPT = frozenset({"id", "opened", "kind", "parent", "parent_seq", "imported"})


class Gap(NamedTuple):
    """A cursor that stays unused: the event to which it was assigned was not written."""

    cursor: int
    session: str
    at: int


class CountedUse(NamedTuple):
    """A reserved use that a decision of the batch consumes; `undone` if a result in it returns it."""

    id: str
    net: str
    session: str
    at: float
    undone: bool


class UndoneUse(NamedTuple):
    """A use that a result returns to its limit, because the call never ran."""

    session: str
    call_id: str
    net: str


class Move(NamedTuple):
    """A session's last number and head hash before and after a batch. `epoch` is 0 for a new session."""

    session: str
    epoch: int
    seq: int
    hash: bytes
    new_seq: int
    new_hash: bytes


def _type(annotation: object) -> str:
    text = annotation.__forward_arg__ if isinstance(annotation, ForwardRef) else str(annotation)
    return _TYPES[text.removesuffix(" | None")]


def _columns(kind: type) -> dict[str, str]:
    """Column names of a row type, with their PostgreSQL types."""
    return {name: _type(annotation) for name, annotation in kind.__annotations__.items()}


_SESSION = _columns(SessionRow)
_EVENT = _columns(LinkedRow)
_DECISION = _columns(DecisionLine)
_MOVE = _columns(Move)
_RESULT = {"result": "text", "cursor": "bigint"}
_GAP = _columns(Gap)
_USE = _columns(CountedUse)
_UNDONE = _columns(UndoneUse)
_PARTS = {
    "m": _MOVE,
    "s": _SESSION,
    "e": _EVENT,
    "d": _DECISION,
    "r": _RESULT,
    "g": _GAP,
    "u": _USE,
    "x": _UNDONE,
}


_MADE_STORABLE = frozenset("sd")
"""Parts whose texts are copies of event data, so that NUL characters in them may be replaced."""


def _unnested(part: str) -> str:
    """SQL that expands the rows of a part. Each column is one array parameter of the statement."""
    columns = _PARTS[part]
    arrays = ", ".join(f"%({part}_{name})s::{kind}[]" for name, kind in columns.items())
    return f"unnest({arrays}) AS {part}({_names(columns)})"


def _names(columns: dict[str, str], of: str = "") -> str:
    return ", ".join(f'{of}"{name}"' for name in columns)


_CHANGED = ", ".join(f'"{name}" = excluded."{name}"' for name in _SESSION if name not in _KEPT)

_STANDS = f"""
, standing AS (
    SELECT reservation.id, reservation.net FROM place, {_unnested("u")} JOIN reservation
    ON reservation.id = u.id AND reservation.net = u.net AND NOT reservation.kept
    FOR UPDATE OF reservation
), short AS (
    SELECT u.session FROM {_unnested("u")}
    WHERE NOT EXISTS (SELECT FROM standing WHERE standing.id = u.id AND standing.net = u.net)
)"""
_COUNT = f"""
, counted AS (
    UPDATE reservation SET kept = TRUE, at = u.at, until = CASE WHEN u.undone THEN 0 ELSE until END
    FROM {_unnested("u")}, held
    WHERE reservation.id = u.id AND reservation.net = u.net AND held.session = u.session
), uncounted AS (
    DELETE FROM reservation USING {_unnested("x")}, held
    WHERE reservation.session = x.session AND reservation.call_id = x.call_id AND reservation.net = x.net
        AND reservation.kept AND held.session = x.session AND NOT EXISTS (
            SELECT FROM reservation AS later WHERE later.session = x.session AND later.kept
            AND later.call_id = x.call_id AND later.net = x.net AND later.at > reservation.at)
)"""


_ACCEPT = """
, accepted AS (
    UPDATE divergence SET accepted = owner.seq + 1 FROM held JOIN owner ON owner.session = held.session
    WHERE divergence.session = held.session AND held.session = ANY(%(accepting)s::text[])
        AND divergence.accepted IS NULL
)"""
"""A statement sees the rows of `owner` as they were before it, so the next event is `seq + 1`."""
DISCARDED = "a trigger of table event discarded some of the batch"
"""The error, of class 22, for events that the database took and did not insert."""
_COMPLETE = f"""
CASE (SELECT count(*) FROM added) WHEN (SELECT coalesce(sum(events), 0) FROM held) THEN TRUE
ELSE CAST(concat('{DISCARDED}') AS boolean) END"""
"""SQL condition that is true or fails.

Only a failed cast has a text of one's own without a function; a constant would fail when it is planned.
"""


def _append(*, counting: bool, accepting: bool = False) -> str:
    whole = f"AND {WHOLE.format('m')}"
    if accepting:
        whole = f"AND (m.session = ANY(%(accepting)s::text[]) OR {WHOLE.format('m')})"
    if counting:
        whole += " AND NOT EXISTS (SELECT FROM short WHERE short.session = m.session)"
    return f"""
WITH place AS (
    UPDATE lane SET last = %(last)s
    WHERE lane = %(lane)s AND server = %(server)s AND last = %(before)s RETURNING lane
){_STANDS if counting else ""}, moved AS (
    UPDATE owner SET seq = m.new_seq, hash = m.new_hash FROM place, {_unnested("m")}
    WHERE owner.session = m.session AND m.epoch > 0 AND owner.server = %(server)s
        AND owner.epoch = m.epoch AND owner.seq = m.seq AND owner.hash = m.hash {whole}
    RETURNING owner.session, m.new_seq - m.seq AS events
), opened AS (
    INSERT INTO owner (session, server, epoch, seq, hash)
    SELECT m.session, %(server)s, 1, m.new_seq, m.new_hash FROM place, {_unnested("m")}
    WHERE m.epoch = 0 {whole}
    ON CONFLICT (session) DO NOTHING RETURNING session, seq AS events
), held AS (
    SELECT session, events FROM moved UNION ALL SELECT session, events FROM opened
), listed AS (
    INSERT INTO session ({_names(_SESSION)})
    SELECT {_names(_SESSION, "s.")} FROM {_unnested("s")} JOIN held ON held.session = s.id
    ON CONFLICT (id) DO UPDATE SET {_CHANGED}
), added AS (
    INSERT INTO event ({_names(_EVENT)})
    SELECT {_names(_EVENT, "e.")} FROM {_unnested("e")} JOIN held ON held.session = e.session
    RETURNING cursor
), decided AS (
    INSERT INTO decision ({_names(_DECISION)})
    SELECT {_names(_DECISION, "d.")} FROM {_unnested("d")} JOIN held ON held.session = d.session
), ended AS (
    UPDATE decision SET result = r.result FROM {_unnested("r")}, held
    WHERE decision.cursor = r.cursor AND decision.session = held.session
), fence AS (
    INSERT INTO fenced (cursor, server, session, at)
    SELECT e.cursor, %(server)s, e.session, e.at FROM place, {_unnested("e")}
    WHERE NOT EXISTS (SELECT FROM held WHERE held.session = e.session)
    UNION ALL SELECT g.cursor, %(server)s, g.session, g.at FROM place, {_unnested("g")}
){_COUNT if counting else ""}{_ACCEPT if accepting else ""}
SELECT NULL AS session FROM place WHERE {DURABLE} IS NOT NULL AND {_COMPLETE}
UNION ALL SELECT session FROM held
"""


APPEND = _append(counting=False)
"""Returns a row without a session if this server still owns the lane, and one per session written."""
APPEND_COUNTING = _append(counting=True)
"""`APPEND` for batches in which decisions consume, or results return, uses of limits across sessions.

A session is written only if all uses that its decisions consume are still reserved. Few batches need it.
"""
APPEND_ACCEPTING = _append(counting=True, accepting=True)
"""The same for a batch in which an operator accepts the loss of a session's events."""


def arrays(**parts: Sequence[Sequence[Any]]) -> dict[str, str]:
    """Return the parameters of `APPEND` for the rows of each part, which is named by its letter.

    Arrays are written in PostgreSQL's text format here. psycopg takes ten times as long for the same
    arrays, which would be a third of the time for a batch.
    """
    parameters: dict[str, str] = {}
    for part, columns in _PARTS.items():
        rows = parts[part]
        by_column = zip(*rows, strict=True) if rows else [()] * len(columns)
        for (name, kind), values in zip(columns.items(), by_column, strict=True):
            text = _elements(kind, values)
            parameters[f"{part}_{name}"] = f"{{{storable(text) if part in _MADE_STORABLE else text}}}"
    return parameters


def _elements(kind: str, values: tuple[Any, ...]) -> str:
    """Array elements for the values of one column, formatted together where the type allows it."""
    nulls = values.count(None)
    if nulls == len(values):
        return ",".join(["NULL"] * nulls)
    write = _ELEMENT[kind]
    if nulls == 0:
        return _texts(values) if kind == "text" else ",".join(map(write, values))
    return ",".join(["NULL" if each is None else write(each) for each in values])


def _text(value: str) -> str:
    return f'"{_escaped(value)}"'


def _escaped(value: str) -> str:
    if "\\" in value or '"' in value:
        value = value.replace("\\", "\\\\").replace('"', '\\"')
    return value


def _texts(values: Sequence[str]) -> str:
    joined = "\0".join(values)
    if joined.count("\0") >= len(values):
        return ",".join(map(_text, values))  # a value contains the separator itself
    return f'"{_escaped(joined)}"'.replace("\0", '","')


def _bytes(value: bytes) -> str:
    return f'"\\\\x{value.hex()}"'


_ELEMENT: dict[str, Callable[[Any], str]] = {
    "text": _text,
    "bytea": _bytes,
    "bigint": str,
    "float8": repr,
    "boolean": str,
}

assert [each.name for each in fields(SessionRow)] == [*_SESSION]
