"""Verification of an exported session without its journal, and import into another journal."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from ...core.sanitize import visible
from ..database import compiled as sql
from ..database.compiled import LinkedRow
from ..database.location import Location
from ..decisions.index import rebuild_decisions
from ..errors import FoldError, JournalError
from ..fold.fold import fold
from ..journal.maintenance import changing
from ..journal.schema import MAGIC, name_of
from ..journal.session_index import SessionLine
from ..model.events import JournalEvent, event_body
from ..model.times import from_ms, to_ms
from ..postgres.connection import PostgresConnection
from ..postgres.maintenance import add_unowned, next_numbers
from .attestation import is_vouched, vouched
from .canonical_json import canonical
from .export import FORMAT, FORMAT_VERSION
from .hash_chain import ChainPosition, content_hash
from .signing import Signer
from .verify import ChainCheck, ChainFault, LinkedEvent, check_chain, strict_json

LONGEST_NAME = 200
"""Maximum length of an imported session's name; no console asks for a longer one."""
_HASH = r"^[0-9a-f]{64}$"
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


class ExportError(Exception):
    """A file that is not an export, or cannot be read; the message names file, line and remedy."""


class _Format(BaseModel):
    model_config = ConfigDict(strict=True)

    format: Literal["interlock-session"]
    version: int


class _Heading(_Format):
    model_config = ConfigDict(strict=True, extra="forbid")

    session: str = Field(min_length=1)
    events: int = Field(ge=0)
    head: str | None = Field(pattern=_HASH)


class Line(BaseModel):
    """An event with its link, as in exports and receipts."""

    # Members that no hash covers are rejected.
    model_config = ConfigDict(strict=True, extra="forbid")

    session: str
    seq: int
    at: str
    body: dict[str, JsonValue]
    prev: str | None = Field(pattern=_HASH)
    hash: str = Field(pattern=_HASH)
    salt: str | None = Field(default=None, pattern=r"^[0-9a-f]{32}$")
    content: str | None = Field(default=None, pattern=_HASH)


@dataclass(frozen=True, slots=True)
class Export:
    """Events of an export, and the result of verifying their chain."""

    session: str
    events: tuple[LinkedEvent, ...]
    check: ChainCheck


def read_export(path: Path) -> Export:
    """Read a session's file and verify its chain. Raises `ExportError` if it is not an export.

    An export that was changed is read all the same: `check` names the fault.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="\n") as file:
            return _read(name_of(path), file)
    except UnicodeDecodeError as error:
        raise ExportError(
            f"'{name_of(path)}' is not UTF-8 text, so it is not an export. {_way(path)}"
        ) from error
    except OSError as error:
        raise ExportError(
            f"Cannot read '{name_of(path)}': {error.strerror}. Name a file that export wrote."
        ) from error


def _way(path: Path) -> str:
    """Return the remedy for a file that is not text."""
    with suppress(OSError), path.open("rb") as file:
        if file.read(len(MAGIC)) == MAGIC:
            return f"If it is a journal: interlock history --db {name_of(path)} verify"
    return "Write one with: interlock history export SESSION -o FILE"


def _read(file_name: str, lines: Iterable[str]) -> Export:
    numbered_lines = enumerate(lines, 1)
    heading = _heading(file_name, next(numbered_lines, (1, ""))[1])
    events: list[LinkedEvent] = []
    fault: ChainFault | None = None
    prev: str | None = None
    for number, text in numbered_lines:
        if not text.strip():
            continue
        line = _line(file_name, number, text)
        if fault is None and line.prev != prev:
            fault = ChainFault(
                len(events) + 1, "changed", f"line {number} does not follow the line before it"
            )
        prev = line.hash
        events.append(event_of_line(file_name, number, line))
    check = check_chain(heading.session, events, expected=heading.events)
    if check.fault is None and heading.head != prev:
        fault = fault or ChainFault(len(events) + 1, "changed", "the heading names another last hash")
    if check.fault is None and fault is not None:
        check = ChainCheck(check.session, fault.seq - 1, check.head, check.masked, fault)
    return Export(heading.session, tuple(events), check)


def _heading(file_name: str, text: str) -> _Heading:
    try:
        heading = strict_json(text)
        version = _Format.model_validate(heading).version
        if version > FORMAT_VERSION:
            raise ExportError(
                f"{file_name}:1: this is version {version} of the format; this Interlock reads version "
                f"{FORMAT_VERSION}. Use the newer one that wrote it."
            )
        if version != FORMAT_VERSION:
            raise ValueError(f"there is no version {version}")
        return _Heading.model_validate(heading)
    except (ValueError, RecursionError) as error:
        raise ExportError(
            f"{file_name}:1: expected the heading of an exported session ('format': '{FORMAT}'). "
            "Make one with: interlock history export SESSION"
        ) from error


def _line(file_name: str, number: int, text: str) -> Line:
    try:
        # Not pydantic's parser, which rejects nesting that it accepts in a body on its own.
        line = strict_json(text)
        if isinstance(line, dict):
            return Line.model_validate(line)
        why, cause = "expected an object", None
    except ValidationError as error:
        first = error.errors()[0]
        why = f"{'.'.join(map(str, first['loc'])) or 'the line'}: {first['msg']}"
        cause = error
    except json.JSONDecodeError as error:
        column = min(error.pos, len(text.rstrip("\r\n"))) + 1
        why, cause = f"the line is not JSON at column {column}: {error.msg}", error
    except (ValueError, RecursionError) as error:
        why, cause = f"the line is not readable JSON: {error}", error
    raise ExportError(
        f"{file_name}:{number}: not an event of a session: {visible(why)}. "
        "The file was changed or cut off; export the session again."
    ) from cause


def event_of_line(shown: str, number: int, line: Line) -> LinkedEvent:
    """Return the event of a line. Raises `ExportError`, naming file and line."""
    try:
        if not _TIME.fullmatch(line.at):
            raise ValueError(line.at)
        at = to_ms(datetime.fromisoformat(line.at))
        body = canonical(line.body)
        body.encode()
    except (ValueError, OverflowError, RecursionError) as error:
        raise ExportError(
            f"{shown}:{number}: event {line.seq} cannot be read: {visible(str(error))}. "
            "The file was changed or cut off; export the session again."
        ) from error
    return LinkedEvent(
        ChainPosition(line.session, line.seq, at),
        str(line.body.get("type", "")),
        body,
        None if line.salt is None else bytes.fromhex(line.salt),
        None if line.content is None else bytes.fromhex(line.content),
        bytes.fromhex(line.hash),
    )


def import_session(export: Export, database: Location, key: Path) -> None:
    """Import an export into the journal at `database`, which is created if there is none.

    Its chain is unchanged. The key in the file `key`, created if there is none, signs that it was
    imported and its masked content. Raises `ExportError` if its chain has a fault or this version cannot
    process its events, `JournalError` if the journal has the session already or cannot be written.
    """
    if export.check.fault is not None:
        raise ExportError(
            f"Session '{visible(export.session)}' is not as it was exported: "
            f"{visible(export.check.fault.message)}. Nothing was imported."
        )
    if len(export.session) > LONGEST_NAME:
        raise ExportError(
            f"Session '{visible(export.session[:40])}…': a name of {len(export.session):,} characters, "
            f"expected {LONGEST_NAME} at most; Interlock did not write this file. Nothing was imported."
        )
    events = list(_journal_events(export))
    try:
        fold(events)
    except FoldError as error:
        raise ExportError(
            f"Session '{visible(export.session)}' cannot be replayed: {visible(str(error))}. "
            "A newer Interlock may have written it; use that one. Nothing was imported."
        ) from error
    signer = Signer.open(key)
    with changing(database, create=True) as connection:
        session_row = connection.execute(sql.SELECT_SESSION, (export.session,)).fetchone()
        stub = connection.execute(sql.SELECT_STUB, (export.session,)).fetchone()
        if session_row or stub:
            relation = "is in" if session_row else "was pruned from"
            raise JournalError(
                f"Session '{visible(export.session)}' {relation} journal '{name_of(database)}' already; "
                "import it into another: --db JOURNAL"
            )
        if isinstance(connection, PostgresConnection):
            cursor = next_numbers(connection, len(export.events))
            add_unowned(connection, export.session, len(export.events), export.events[-1].hash)
        else:
            cursor = int(connection.execute(sql.SELECT_LAST_CURSOR).fetchone()[0])
        line = SessionLine.of(events)
        line.imported = True
        connection.execute(sql.UPSERT_SESSION, line.row())
        connection.executemany(sql.INSERT_EVENT, _rows(export.events, cursor, signer))
        rebuild_decisions(connection, export.session)


def _journal_events(export: Export) -> Iterator[JournalEvent]:
    for event in export.events:
        place = event.place
        try:
            body = event_body.validate_json(event.body)
            yield JournalEvent(
                cursor=place.seq, session=place.session, seq=place.seq, at=from_ms(place.at), body=body
            )
        except ValidationError as error:
            raise ExportError(
                f"Event {place.seq} of session '{visible(export.session)}' is unknown to this version. "
                "A newer Interlock may have written it; use that one. Nothing was imported."
            ) from error


def _rows(events: Iterable[LinkedEvent], cursor: int, signer: Signer) -> Iterator[LinkedRow]:
    for event in events:
        place, content = event.place, event.content
        if event.salt is not None and is_vouched(place.seq, event.salt):
            content = content_hash(event.body, event.salt)
        if content is not None:
            content = vouched(content, event.hash, event.body, signer)
        yield LinkedRow(
            cursor + place.seq,
            place.session,
            place.seq,
            place.at,
            event.kind,
            event.body,
            event.salt,
            content,
            event.hash,
        )
