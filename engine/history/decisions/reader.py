"""Decisions of all sessions and what people changed, newest first: read in parts, however many there are.

A list is cut into parts of at most `PART` decisions. `scan` finds their borders, walking the index by
time in bounded steps; `read` reads one. Both cost the same at the beginning and at the end of a journal,
so a view needs to keep only the borders and the parts on screen.

Words are looked for with LIKE, which goes through a million lines in some tenths of a second; an index of
trigrams would double what the writer writes for each decision. A line has only the head of its input:
`input:` reads the event of every line that nothing else rules out, which takes seconds for a million, so
steps are smaller then.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal, TypeAlias

from ...core.people import person_key
from ..errors import JournalError
from ..fold.setting_changes import STEPS, Kind
from ..journal.reader import open_reader
from ..journal.schema import name_of, reading
from ..model.events import JournalEvent
from ..model.records import Record
from ..model.times import from_ms, to_ms
from .filter import DecisionFilter, Result, Verdict
from .index import COLUMNS, DecisionLine

PART = 200
FIRST_STEP = 2_000
STEP = 50_000
SCAN_SECONDS = 0.05
"""Lines that a scan looks at in one step, and the time after which it hands over what it has found."""

STOP_EVERY = 20_000
"""Steps of SQLite between looks at whether an answer is still wanted."""

_MANY = 500
"""Sessions that a filter may name one by one."""

Mark: TypeAlias = tuple[int, int]
"""Position in the order of the list: UTC milliseconds and cursor."""

_ORDER = "ORDER BY at DESC, cursor DESC"
_UNCLEAR = "coalesce((SELECT unclear_in(body) FROM event WHERE event.cursor = decision.cursor), 0)"
_INPUT_HAS = (
    "EXISTS (SELECT 1 FROM event WHERE event.cursor = decision.cursor AND CASE "
    "WHEN event.body LIKE ? ESCAPE '\\' THEN input_of(event.body) LIKE ? ESCAPE '\\' END)"
)
"""The whole event is looked at first: most need not be read as JSON then."""

CALLS_ONLY = f"verdict NOT IN ({', '.join(repr(step) for step in STEPS)})"
"""The condition of a line that is a call's. By its verdict, which the indexes for counting have."""


class Decision(Record):
    """One decision in a list; see `index.DecisionLine`.

    `unclear` tells that the call could not be read to its end (G-64); its event has the reason.
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


class Part(Record):
    """Consecutive decisions: `count` of them, from `top` down to `bottom`, which is none of them.

    Without a `bottom` they go on to the oldest.
    """

    top: Mark
    bottom: Mark | None
    count: int


class Scan(Record):
    """The parts that were found, newest first, how many lines were looked at, and where to go on."""

    parts: tuple[Part, ...] = ()
    looked: int = 0
    next: Mark | None = None


_COLUMN_NAMES = "SELECT name FROM pragma_table_info('decision')"
_OLDER = "CREATE TEMP VIEW decision AS SELECT *, 'call' AS kind, NULL AS \"off\" FROM main.decision"
"""The decisions of a journal of schema 0004 or 0005, which lists calls and not what people changed.

Journals are upgraded when they are opened for writing, which a medium may not allow.
"""


@contextmanager
def deciding(
    path: Path, stop: threading.Event | None = None
) -> Generator[sqlite3.Connection, None, None]:
    """A connection to a journal that has lines for its decisions. Raises `JournalError`.

    It does so, too, for a question that still runs when `stop` is set. Those of an older version have no
    lines for what people changed.
    """
    with reading(path) as connection:
        connection.create_function("input_of", 1, _input_of, deterministic=True)
        connection.create_function("unclear_in", 1, _unclear_in, deterministic=True)
        if stop is not None:
            connection.set_progress_handler(stop.is_set, STOP_EVERY)
        columns = {str(name) for (name,) in connection.execute(_COLUMN_NAMES)}
        if not columns:
            raise JournalError(
                f"Journal '{name_of(path)}' was written by an older version and has no list of its "
                "decisions yet. Open it once for writing to make one; a copy is kept."
            )
        if "kind" not in columns:
            connection.execute(_OLDER)
        yield connection


@dataclass(slots=True)
class Where:
    """A condition and the values for its question marks."""

    parts: list[str] = field(default_factory=list[str])
    given: list[str | int] = field(default_factory=list[str | int])

    def add(self, condition: str, *given: str | int) -> None:
        self.parts.append(condition)
        self.given.extend(given)

    def between(self, top: Mark | None, bottom: Mark | None) -> Where:
        """The same from `top` on, down to `bottom` without it."""
        found = Where([*self.parts], [*self.given])
        if top is not None:
            found.add("(at, cursor) <= (?, ?)", *top)
        if bottom is not None:
            found.add("(at, cursor) > (?, ?)", *bottom)
        return found

    @property
    def sql(self) -> str:
        return f"WHERE {' AND '.join(self.parts)}" if self.parts else ""


def condition(connection: sqlite3.Connection, wanted: DecisionFilter) -> Where:
    """The SQL condition of a filter in this journal; names are looked up among those there are."""
    where = Where()
    if wanted.since is not None:
        where.add("at >= ?", to_ms(wanted.since))
    if wanted.until is not None:
        where.add("at < ?", to_ms(wanted.until))
    if wanted.tools:
        known = [*_distinct(connection, "tool"), *_distinct(connection, "called", "called <> tool")]
        tools = _matching(wanted.tools, known)
        some = _marks(tools)
        where.add(f"(tool IN ({some}) OR (called IN ({some}) AND called <> tool))", *tools, *tools)
    if wanted.rules:
        nets = _nets(connection, wanted.rules)
        where.add(f"net IN ({_marks(nets)})", *nets)
    if wanted.verdicts:
        where.add(f"verdict IN ({_marks(wanted.verdicts)})", *wanted.verdicts)
        if "allow" not in wanted.verdicts:
            where.add("verdict <> 'allow'")  # what the index is limited to
    if wanted.results:
        where.add(f"result IN ({_marks(wanted.results)})", *wanted.results)
    if wanted.kinds:
        where.add(f"kind IN ({_marks(wanted.kinds)})", *wanted.kinds)
        if "call" not in wanted.kinds:
            where.add("kind <> 'call'")  # what the index is limited to
    if wanted.people:
        _of_people(connection, where, wanted.people)
    if wanted.sessions:
        _of_sessions(connection, where, wanted.sessions)
    if wanted.agents:
        each = " OR ".join(["agent LIKE ? ESCAPE '\\'"] * len(wanted.agents))
        where.add(f"({each})", *map(_containing, wanted.agents))
    if wanted.inputs:
        said = [_containing(_as_json(form)) for word in wanted.inputs for form in _forms(word)]
        each = " OR ".join([_INPUT_HAS] * len(said))
        where.add(f"({each})", *[pattern for pattern in said for _ in range(2)])
    for word in wanted.words:
        forms = _forms(word)
        columns = ("input", "tool", "net", "rule", "agent", '"off"')
        each = " OR ".join(f"{column} LIKE ? ESCAPE '\\'" for column in columns for _ in forms)
        where.add(f"({each})", *[_containing(form) for _ in columns for form in forms])
    return where


def _forms(word: str) -> list[str]:
    """LIKE knows upper and lower case of ASCII only."""
    return [word] if word.isascii() else [*dict.fromkeys([word, word.lower(), word.upper()])]


def _as_json(text: str) -> str:
    """Text as it is written within a string of JSON."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _input_of(body: object) -> str | None:
    """The input in an event's body, as JSON. SQLite's own functions stop at numbers such as `NaN`."""
    try:
        found: dict[str, object] = json.loads(body) if isinstance(body, str) else {}
        return json.dumps(found.get("input"), ensure_ascii=False)
    except (ValueError, AttributeError, RecursionError):
        return None  # a column may hold a value of any type


def _unclear_in(body: object) -> bool:
    """Tell whether the body of a decision's event says why its call was unclear."""
    if not isinstance(body, str) or '"uninspectable":"' not in body:
        return False
    try:
        found: dict[str, object] = json.loads(body)
        return isinstance(found.get("uninspectable"), str)
    except (ValueError, AttributeError, RecursionError):
        return False


def _containing(word: str) -> str:
    for special in "\\%_":
        word = word.replace(special, f"\\{special}")
    return f"%{word}%"


def _marks(values: Sequence[str]) -> str:
    return ", ".join("?" * len(values))


def _distinct(connection: sqlite3.Connection, column: str, among: str = "TRUE") -> list[str]:
    """The values of a column that begins an index, found by skipping from one to the next."""
    rows = connection.execute(
        f"WITH RECURSIVE each(value) AS (SELECT min({column}) FROM decision WHERE {among} UNION ALL "
        f"SELECT (SELECT min({column}) FROM decision WHERE {among} AND {column} > each.value) "
        "FROM each WHERE each.value IS NOT NULL) SELECT value FROM each WHERE value IS NOT NULL"
    )
    return [str(row[0]) for row in rows]


def _matching(patterns: Iterable[str], known: Sequence[str]) -> list[str]:
    """Those that a pattern names exactly; for a pattern that names none so, those that contain it."""
    found: dict[str, None] = {}
    for pattern in patterns:
        exact = [value for value in known if value == pattern]
        part = pattern.casefold()
        found.update(dict.fromkeys(exact or [value for value in known if part in value.casefold()]))
    return [*found]


def _nets(connection: sqlite3.Connection, patterns: Iterable[str]) -> list[str]:
    """Nets by their names, or by the text or the position of their rules."""
    known = _distinct(connection, "net")
    words: dict[str, str] = {}
    for net in known:
        row = connection.execute(
            "SELECT rule, place FROM decision WHERE net = ? AND verdict <> 'allow' "
            f"AND {CALLS_ONLY} ORDER BY at DESC LIMIT 1",
            (net,),
        ).fetchone()
        words[net] = "\n".join(filter(None, row or ())).casefold()
    found: dict[str, None] = {}
    for pattern in patterns:
        chosen = _matching([pattern], known)
        chosen = chosen or [net for net in known if pattern.casefold() in words[net]]
        found.update(dict.fromkeys(chosen))
    return [*found]


def _of_people(connection: sqlite3.Connection, where: Where, patterns: Sequence[str]) -> None:
    """Add the people who approved, denied or changed something, or switched off what would have stopped.

    A pattern is a person's name, compared as `person_key` does; where no person has it, a part of names.
    """
    said = {
        column: {
            text: _names_in(column, text)
            for text in _distinct(connection, column, f"{column} IS NOT NULL")
        }
        for column in ('"by"', '"off"')
    }
    everybody = {key for texts in said.values() for keys in texts.values() for key in keys}
    chosen: set[str] = set()
    for pattern in map(person_key, patterns):
        chosen |= {pattern} & everybody or {key for key in everybody if pattern in key}
    found = {
        column: json.dumps([text for text, keys in texts.items() if not chosen.isdisjoint(keys)])
        for column, texts in said.items()
    }
    each = " OR ".join(
        f"({column} IS NOT NULL AND {column} IN (SELECT value FROM json_each(?)))" for column in found
    )
    where.add(f"({each})", *found.values())


def _names_in(column: str, text: str) -> frozenset[str]:
    """The keys of the people that a column names: `ada, ben`, or `block-rm was off: ada, ben; …`."""
    parts = [text]
    if column == '"off"':
        parts = [names for part in text.split("; ") for _, sign, names in [part.rpartition(": ")] if sign]
    return frozenset(person_key(name) for part in parts for name in (part, *part.split(", ")))


def _of_sessions(connection: sqlite3.Connection, where: Where, patterns: Sequence[str]) -> None:
    """Add the sessions by id, or by a part of it; a subagent's calls are in its parent's session."""
    found: dict[str, None] = {}
    for pattern in patterns:
        exact = connection.execute("SELECT id FROM session WHERE id = ?", (pattern,)).fetchall()
        rows = exact or connection.execute(
            "SELECT id FROM session WHERE id LIKE ? ESCAPE '\\' LIMIT ?",
            (_containing(pattern), _MANY + 1),
        )
        found.update(dict.fromkeys(str(row[0]) for row in rows))
    if len(found) <= _MANY:
        some = _marks([*found])
        where.add(f"(session IN ({some}) OR via IN ({some}))", *found, *found)
        return
    each = " OR ".join(["session LIKE ? ESCAPE '\\' OR via LIKE ? ESCAPE '\\'"] * len(patterns))
    where.add(f"({each})", *[_containing(p) for p in patterns for _ in range(2)])


class DecisionReader:
    """The decisions in the journal at `path`, as of each question. Methods raise `JournalError`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def scan(
        self,
        wanted: DecisionFilter,
        *,
        top: Mark | None = None,
        bottom: Mark | None = None,
        seconds: float = SCAN_SECONDS,
    ) -> Scan:
        """Find parts from `top` on (the newest without it), down to `bottom`, which is none of them.

        After some `seconds` it stops; go on from `next` then.
        """
        ends = time.monotonic() + seconds
        parts: list[Part] = []
        looked, step = 0, FIRST_STEP
        with deciding(self.path) as connection:
            where = condition(connection, wanted)
            while True:
                border = _border(connection, top, bottom, step)
                lower = bottom if border is None else border
                parts += _parts(connection, where, top, lower)
                looked += step
                if border is None:
                    return Scan(parts=tuple(parts), looked=looked)
                top = border
                if time.monotonic() >= ends:
                    return Scan(parts=tuple(parts), looked=looked, next=top)
                step = FIRST_STEP if wanted.inputs else min(STEP, step * 5)

    def read(self, wanted: DecisionFilter, part: Part) -> list[Decision]:
        """The decisions of one part, newest first."""
        with deciding(self.path) as connection:
            where = condition(connection, wanted).between(part.top, part.bottom)
            rows = connection.execute(
                f"SELECT {COLUMNS}, {_UNCLEAR} FROM decision {where.sql} {_ORDER} LIMIT ?",
                [*where.given, PART],
            ).fetchall()
        return [self._decision(DecisionLine(*row), unclear=bool(unclear)) for *row, unclear in rows]

    def event(self, session: str, seq: int) -> JournalEvent:
        """The event of a decision, with all that it says."""
        for event in open_reader(self.path).events(session, after=seq - 1, limit=1):
            return event
        raise JournalError(f"Journal '{name_of(self.path)}' has no event {seq} of session '{session}'.")

    def _decision(self, line: DecisionLine, *, unclear: bool) -> Decision:
        try:
            return Decision.model_validate({**line._asdict(), "at": from_ms(line.at), "unclear": unclear})
        except (ValueError, OverflowError) as error:
            raise JournalError(
                f"Journal '{name_of(self.path)}': the line of decision {line.cursor} cannot be read: "
                f"{error}. The file was changed by something else; rebuild it, or restore a backup."
            ) from error


def _border(
    connection: sqlite3.Connection, top: Mark | None, bottom: Mark | None, step: int
) -> Mark | None:
    """The start of the next step: `step` decisions on, whatever the filter; none when fewer are left."""
    where = Where().between(top, bottom)
    row = connection.execute(
        f"SELECT at, cursor FROM decision {where.sql} {_ORDER} LIMIT 1 OFFSET ?", [*where.given, step]
    ).fetchone()
    return None if row is None else (row[0], row[1])


def _parts(
    connection: sqlite3.Connection, where: Where, top: Mark | None, bottom: Mark | None
) -> list[Part]:
    """The parts between two marks. Their borders and their number come from one look at the index."""
    here = where.between(top, bottom)
    rows = connection.execute(
        "SELECT at, cursor, number FROM (SELECT at, cursor, "
        f"row_number() OVER ({_ORDER}) AS number, "
        f"lead(cursor) OVER ({_ORDER}) IS NULL AS final FROM decision {here.sql}) "
        f"WHERE number % {PART} = 1 OR final ORDER BY number",
        here.given,
    ).fetchall()
    if not rows:
        return []
    total = rows[-1][2]
    starts = [(at, cursor) for at, cursor, number in rows if number % PART == 1]
    ends = [*starts[1:], bottom]
    return [
        Part(top=start, bottom=end, count=min(PART, total - n * PART))
        for n, (start, end) in enumerate(zip(starts, ends, strict=True))
    ]
