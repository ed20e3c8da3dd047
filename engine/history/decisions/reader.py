"""Decisions of all sessions and changes of settings, newest first, read in pages of bounded cost.

A list is split into pages of at most `PAGE_SIZE` decisions. `scan` finds their borders, walking the index
by time in bounded steps; `read` reads one. Both cost the same at the beginning and at the end of a
journal, so a view needs to keep only the borders and the pages on screen.

Words are searched with LIKE, which takes some tenths of a second for a million lines; a trigram index
would double what the writer writes for each decision. A line has only the beginning of its input.
`input:` reads the event of every line that matches the other criteria, which takes seconds for a million
lines, so its steps are smaller.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args

from ...core.people import person_key
from ..database import compiled as sql
from ..database.compiled import DecisionLine
from ..database.connection import Connection
from ..database.location import Location
from ..errors import JournalError
from ..fold.setting_changes import Kind
from ..journal.reader import open_reader
from ..journal.schema import name_of, reading
from ..model.events import JournalEvent
from ..model.listed_values import Listed, known_values, unknown_value
from ..model.records import Record
from ..model.times import from_ms, to_ms
from ..postgres.connection import PostgresConnection
from .filter import RESULTS, VERDICTS, DecisionFilter, Result, Verdict

if TYPE_CHECKING:
    import sqlite3

PAGE_SIZE = 200
FIRST_STEP = 2_000
STEP = 50_000
SCAN_SECONDS = 0.05
"""Lines that a scan reads in one step, and the seconds after which it returns what it has found."""

STOP_EVERY = 20_000
"""Steps of SQLite between two checks whether the result is still wanted."""

_MANY = 500
"""Maximum number of sessions that a filter lists by id."""

ListPosition: TypeAlias = tuple[int, int]
"""Position in the order of the list: UTC milliseconds and cursor."""


_LISTED: Listed = {
    "verdict": ("block", *VERDICTS),
    "mode": ("enforce", "shadow"),
    "result": ("unknown", *RESULTS),
    "kind": get_args(Kind),
}


class Decision(Record):
    """One decision in a list; see `tables.Decision`.

    `unclear` says that the call could not be analysed completely (G-64); its event has the reason.
    `newer` names the column with a value that only a newer version knows, which is replaced here by
    another one.
    """

    cursor: int
    session: str
    seq: int
    at: datetime
    agent: str
    call_id: str
    tool: str
    called: str
    input: str
    mode: Literal["enforce", "shadow"]
    verdict: Verdict
    net: str | None = None
    rule: str | None = None
    place: str | None = None
    by: str | None = None
    via: str | None = None
    result: Result | None = None
    unclear: bool = False
    kind: Kind = "call"
    off: str | None = None
    newer: str | None = None


class DecisionPage(Record):
    """Consecutive decisions: `count` of them, from `top` down to `bottom`, which is excluded.

    Without a `bottom` they continue to the oldest.
    """

    top: ListPosition
    bottom: ListPosition | None
    count: int


class Scan(Record):
    """The pages found, newest first, the number of lines read, and the position to continue from."""

    parts: tuple[DecisionPage, ...] = ()
    looked: int = 0
    next: ListPosition | None = None


@contextmanager
def decision_connection(
    path: Location, stop: threading.Event | None = None
) -> Generator[Connection, None, None]:
    """Open a connection to a journal. Raises `JournalError`, also if `stop` is set during a query."""
    with reading(path) as connection:
        if isinstance(connection, PostgresConnection):
            with nullcontext() if stop is None else connection.stopped_by(stop):
                yield connection
            return
        file = cast("sqlite3.Connection", connection)
        file.create_function("input_of", 1, _input_of, deterministic=True)
        file.create_function("unclear_in", 1, _unclear_in, deterministic=True)
        if stop is not None:
            file.set_progress_handler(stop.is_set, STOP_EVERY)
        yield file


@dataclass(slots=True)
class Where:
    """A condition and the values for its question marks."""

    conditions: list[str] = field(default_factory=list[str])
    values: list[str | int] = field(default_factory=list[str | int])

    def add(self, condition: str, *values: str | int) -> None:
        self.conditions.append(condition)
        self.values.extend(values)

    def add_any(self, condition: str, values: Sequence[tuple[str, ...]]) -> None:
        """Add that the condition is true for one of `values`."""
        self.add(" OR ".join([condition] * len(values)), *[each for group in values for each in group])

    def between(self, top: ListPosition | None, bottom: ListPosition | None) -> Where:
        """Return this condition restricted to the positions from `top` down to `bottom`, excluding it."""
        where = Where([*self.conditions], [*self.values])
        if top is not None:
            where.add(sql.FROM_POSITION, *top)
        if bottom is not None:
            where.add(sql.BEFORE_POSITION, *bottom)
        return where

    @property
    def sql(self) -> str:
        return " AND ".join(f"({each})" for each in self.conditions) or "TRUE"


def condition(connection: Connection, criteria: DecisionFilter) -> Where:
    """Return the SQL condition of a filter in this journal, in which names are looked up."""
    where = Where()
    if criteria.since is not None:
        where.add(sql.SINCE, to_ms(criteria.since))
    if criteria.until is not None:
        where.add(sql.UNTIL, to_ms(criteria.until))
    if criteria.tools:
        tool_names = [*_distinct(connection, "tool"), *_distinct(connection, "called")]
        tools = _matching(criteria.tools, tool_names)
        where.add(_in_list(sql.TOOL_AMONG, tools), *tools, *tools)
    if criteria.rules:
        nets = _nets(connection, criteria.rules)
        where.add(_in_list(sql.NET_AMONG, nets), *nets)
    if criteria.verdicts:
        where.add(_in_list(sql.VERDICT_AMONG, criteria.verdicts), *criteria.verdicts)
        if "allow" not in criteria.verdicts:
            where.add(sql.VERDICT_NOT_ALLOW)  # the index is limited to these
    if criteria.results:
        where.add(_in_list(sql.RESULT_AMONG, criteria.results), *criteria.results)
    if criteria.kinds:
        where.add(_in_list(sql.KIND_AMONG, criteria.kinds), *criteria.kinds)
        if "call" not in criteria.kinds:
            where.add(sql.KIND_NOT_CALL)  # the index is limited to these
    if criteria.people:
        _of_people(connection, where, criteria.people)
    if criteria.sessions:
        _of_sessions(connection, where, criteria.sessions)
    if criteria.agents:
        where.add_any(sql.AGENT_CONTAINS, [(_containing(agent),) for agent in criteria.agents])
    if criteria.inputs:
        # As written inside a string of JSON.
        forms = (
            json.dumps(form, ensure_ascii=False)[1:-1] for w in criteria.inputs for form in _forms(w)
        )
        where.add_any(sql.INPUT_CONTAINS, [(_containing(form),) * 2 for form in forms])
    for word in criteria.words:
        where.add_any(sql.WORD_CONTAINED, [(_containing(form),) * 6 for form in _forms(word)])
    return where


def _forms(word: str) -> list[str]:
    """Return the forms of a word that differ in case: LIKE ignores the case of ASCII only."""
    return [word] if word.isascii() else [*dict.fromkeys([word, word.lower(), word.upper()])]


def _input_of(body: object) -> str | None:
    """Return the input in an event's body, as JSON. SQLite's own functions fail at numbers like `NaN`."""
    try:
        members: dict[str, object] = json.loads(body) if isinstance(body, str) else {}
        return json.dumps(members.get("input"), ensure_ascii=False)
    except (ValueError, AttributeError, RecursionError):
        return None  # a column may hold a value of any type


def _unclear_in(body: object) -> bool:
    """Return whether the body of a decision's event says why its call was unclear."""
    if not isinstance(body, str) or '"uninspectable":"' not in body:
        return False
    try:
        members: dict[str, object] = json.loads(body)
        return isinstance(members.get("uninspectable"), str)
    except (ValueError, AttributeError, RecursionError):
        return False


def _containing(word: str) -> str:
    for special in "\\%_":
        word = word.replace(special, f"\\{special}")
    return f"%{word}%"


def _in_list(condition: str, values: Sequence[str]) -> str:
    """Return a condition on a list of values, with a question mark for each."""
    return condition.format(values=", ".join("?" * len(values)))


def _distinct(connection: Connection, column: str) -> list[str]:
    """Return the values of a column."""
    return [str(value) for (value,) in connection.execute(sql.SELECT_DISTINCT[column])]


def _matching(patterns: Iterable[str], names: Sequence[str]) -> list[str]:
    """Return the names equal to a pattern; for a pattern equal to none, those that contain it."""
    matches: dict[str, None] = {}
    for pattern in patterns:
        exact = [value for value in names if value == pattern]
        part = pattern.casefold()
        matches.update(dict.fromkeys(exact or [value for value in names if part in value.casefold()]))
    return [*matches]


def _nets(connection: Connection, patterns: Iterable[str]) -> list[str]:
    """Return nets by their names, or by the text or the position of their rules."""
    net_names = _distinct(connection, "net")
    words: dict[str, str] = {}
    for net in net_names:
        row = connection.execute(sql.SELECT_RULE_OF_NET, (net,)).fetchone()
        words[net] = "\n".join(filter(None, row or ())).casefold()
    matches: dict[str, None] = {}
    for pattern in patterns:
        net_matches = _matching([pattern], net_names)
        net_matches = net_matches or [net for net in net_names if pattern.casefold() in words[net]]
        matches.update(dict.fromkeys(net_matches))
    return [*matches]


def _of_people(connection: Connection, where: Where, patterns: Sequence[str]) -> None:
    """Add who approved, denied or changed something, or switched off a rule that would have stopped it.

    A pattern is an operator's name, compared as `person_key` does, or if no operator has it, a part of
    names.
    """
    keys_by_column = {
        column: {text: _names_in(column, text) for text in _distinct(connection, column)}
        for column in ("by", "off")
    }
    everybody = {key for texts in keys_by_column.values() for keys in texts.values() for key in keys}
    chosen_keys: set[str] = set()
    for pattern in map(person_key, patterns):
        chosen_keys |= {pattern} & everybody or {key for key in everybody if pattern in key}
    name_lists = [
        json.dumps([text for text, keys in texts.items() if not chosen_keys.isdisjoint(keys)])
        for texts in keys_by_column.values()
    ]
    where.add(sql.NAMES_PEOPLE, *name_lists)


def _names_in(column: str, text: str) -> frozenset[str]:
    """Return the keys of the people in a column: `ada, ben`, or `block-rm was off: ada, ben; …`."""
    parts = [text]
    if column == "off":
        parts = [names for part in text.split("; ") for _, sign, names in [part.rpartition(": ")] if sign]
    return frozenset(person_key(name) for part in parts for name in (part, *part.split(", ")))


def _of_sessions(connection: Connection, where: Where, patterns: Sequence[str]) -> None:
    """Add the sessions by id, or by a part of it; a subagent's calls are in its parent's session."""
    session_ids: dict[str, None] = {}
    for pattern in patterns:
        exact = connection.execute(sql.SELECT_KIND, (pattern,)).fetchall()
        rows = exact or connection.execute(
            sql.SELECT_SESSION_IDS_CONTAINING, (_containing(pattern), _MANY + 1)
        )
        session_ids.update(dict.fromkeys(str(row[0]) for row in rows))
    if len(session_ids) <= _MANY:
        where.add(_in_list(sql.SESSION_AMONG, [*session_ids]), *session_ids, *session_ids)
    else:
        where.add_any(sql.SESSION_CONTAINS, [(_containing(pattern),) * 2 for pattern in patterns])


class DecisionReader:
    """The decisions in the journal at `path` at the time of each query. Methods raise `JournalError`."""

    def __init__(self, path: Location) -> None:
        self.path = path

    def scan(
        self,
        criteria: DecisionFilter,
        *,
        top: ListPosition | None = None,
        bottom: ListPosition | None = None,
        seconds: float = SCAN_SECONDS,
    ) -> Scan:
        """Find pages from `top` on (by default the newest) down to `bottom`, which is excluded.

        It stops after `seconds`; continue from `next` then.
        """
        ends = time.monotonic() + seconds
        parts: list[DecisionPage] = []
        line_count, step = 0, FIRST_STEP
        with decision_connection(self.path) as connection:
            where = condition(connection, criteria)
            while True:
                border = _border(connection, top, bottom, step)
                lower = bottom if border is None else border
                parts += _pages(connection, where, top, lower)
                line_count += step
                if border is None:
                    return Scan(parts=tuple(parts), looked=line_count)
                top = border
                if time.monotonic() >= ends:
                    return Scan(parts=tuple(parts), looked=line_count, next=top)
                step = FIRST_STEP if criteria.inputs else min(STEP, step * 5)

    def read(self, criteria: DecisionFilter, part: DecisionPage) -> list[Decision]:
        """Return the decisions of one page, newest first."""
        with decision_connection(self.path) as connection:
            where = condition(connection, criteria).between(part.top, part.bottom)
            rows = connection.execute(
                sql.SELECT_DECISION_PAGE.format(where=where.sql), [*where.values, PAGE_SIZE]
            ).fetchall()
        return [self._decision(DecisionLine(*row), unclear=bool(unclear)) for *row, unclear in rows]

    def event(self, session: str, seq: int) -> JournalEvent:
        """Return the complete event of a decision."""
        for event in open_reader(self.path).events(session, after=seq - 1, limit=1):
            return event
        raise JournalError(f"Journal '{name_of(self.path)}' has no event {seq} of session '{session}'.")

    def _decision(self, line: DecisionLine, *, unclear: bool) -> Decision:
        try:
            values = known_values(line._asdict(), _LISTED)
            newer = unknown_value(line._asdict(), _LISTED)
            return Decision.model_validate(
                {**values, "at": from_ms(line.at), "unclear": unclear, "newer": newer}
            )
        except (ValueError, OverflowError) as error:
            raise JournalError(
                f"Journal '{name_of(self.path)}': the line of decision {line.cursor} cannot be read: "
                f"{error}. Another program changed the file; rebuild it, or restore a backup."
            ) from error


def _border(
    connection: Connection, top: ListPosition | None, bottom: ListPosition | None, step: int
) -> ListPosition | None:
    """Return the start of the next step, `step` lines further whatever the filter; `None` at the end."""
    where = Where().between(top, bottom)
    row = connection.execute(
        sql.SELECT_POSITION.format(where=where.sql), [*where.values, step]
    ).fetchone()
    return None if row is None else (row[0], row[1])


def _pages(
    connection: Connection, where: Where, top: ListPosition | None, bottom: ListPosition | None
) -> list[DecisionPage]:
    """Return the pages between two positions. Borders and counts come from one query of the index."""
    range_condition = where.between(top, bottom)
    rows = connection.execute(
        sql.SELECT_PAGE_BORDERS.format(where=range_condition.sql), [*range_condition.values, PAGE_SIZE]
    ).fetchall()
    if not rows:
        return []
    total = rows[-1][2]
    starts = [(at, cursor) for at, cursor, number in rows if number % PAGE_SIZE == 1]
    ends = [*starts[1:], bottom]
    return [
        DecisionPage(top=start, bottom=end, count=min(PAGE_SIZE, total - n * PAGE_SIZE))
        for n, (start, end) in enumerate(zip(starts, ends, strict=True))
    ]
