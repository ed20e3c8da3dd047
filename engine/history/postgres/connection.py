"""Connections to PostgreSQL, which run the statements that are written for both databases."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Any, LiteralString, cast

from ...core.sanitize import visible
from ..database import compiled as sql
from ..database.location import PostgresLocation
from ..errors import JournalError, error_text
from .servers.silence import silence_check
from .statement_limits import bounded, bounded_by, watchful
from .timelines import newest

if TYPE_CHECKING:
    from psycopg import Connection, Cursor

CONNECT_SECONDS = 5
STOP_SECONDS = 0.1
"""Time between looks at whether an answer is still wanted."""
_ALIVE: dict[str, str | int] = {
    "connect_timeout": CONNECT_SECONDS,
    "keepalives_idle": 2,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "tcp_user_timeout": 5000,
}
"""A peer that is gone is noticed within five seconds or so. In seconds or milliseconds, as libpq does."""
RECONNECT_SECONDS = 30.0
"""Time for which a database that is away is tried again before a batch or a question fails."""
PAUSE = 0.05
"""Time between two such attempts."""
ASK_SECONDS = 4.0
"""Time limit of the question whether the database still executes a statement."""

_SETTINGS = {
    "standard_conforming_strings": "on",
    "array_nulls": "on",
    "default_transaction_isolation": "read committed",
    "default_transaction_deferrable": "off",
}
"""Settings that statements rest on, and that a role or a database may have otherwise."""
_OPTIONS = " ".join(
    "-c " + f"{name}={value}".replace(" ", "\\ ")
    for name, value in {**_SETTINGS, "client_encoding": "UTF8"}.items()
)
_SINCE_VERSION = {
    # A commit that did not wait for its standby says so in a warning.
    "client_min_messages = warning": 0,
    # Compiling a statement can take seconds, for each new connection, and saves milliseconds.
    "jit = off": 110000,
    # Connections that listen, or wait for the next batch, are idle for long.
    "idle_session_timeout = 0": 140000,
}
"""Settings of every connection that not every version of PostgreSQL has, with the first that does."""
_ENDS_WITH_CLIENT = "client_connection_check_interval = '2s'", 140000
"""Setting that ends a statement nobody waits for any more; not every system of a database has it.

Otherwise each attempt of a server would leave a process behind a lock that somebody holds for long.
"""

NOW = "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)"
"""The database's time, in UTC milliseconds, by which servers compare times."""

_LANE = f"cursor >> {sql.LANE_BITS}"
_FIRST = f"(({_LANE}) << {sql.LANE_BITS})"
_OTHERWISE = {
    sql.SELECT_LAST_CURSOR: "SELECT coalesce(max(cursor), 0) FROM event",
    sql.SELECT_LANES: f"SELECT lane, (lane << {sql.LANE_BITS}) + last FROM lane",
    # Cursors of several lanes say nothing of what came first.
    sql.SELECT_USES: sql.SELECT_USES.replace(
        "ORDER BY event.cursor", "ORDER BY event.at, event.session, event.seq"
    ),
    sql.SELECT_TALKS: sql.SELECT_TALKS.replace("max(event.cursor) DESC", "max(event.at) DESC"),
    # What every lane numbered; of a journal without servers, what it came with.
    sql.COUNT_FILE: (
        "SELECT (SELECT coalesce(sum(last), 0) FROM lane)::bigint, (SELECT count(*) FROM event), "
        "((SELECT coalesce(sum(events), 0) FROM pruned) + (SELECT count(*) FROM fenced))::bigint"
    ),
    sql.SELECT_GAPS: (
        "SELECT previous + 1, cursor - 1, "
        "(SELECT session FROM event WHERE event.cursor = followed.previous), "
        "(SELECT seq FROM event WHERE event.cursor = followed.previous) FROM (SELECT cursor, "
        f"lag(cursor, 1, {_FIRST}) OVER (PARTITION BY {_LANE} ORDER BY cursor) AS previous FROM ("
        "SELECT cursor FROM event UNION ALL SELECT cursor FROM fenced UNION ALL "
        f"SELECT (lane << {sql.LANE_BITS}) + last + 1 FROM lane) AS present) AS followed "
        "WHERE cursor > previous + 1 AND ? > 0 ORDER BY cursor LIMIT ?"
    ),
    "BEGIN": "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY",
}
"""Statements that mean something else where servers share a database."""
_FIRST_OF_EACH = (
    "decision.cursor IN (SELECT min(decision.cursor) AS min_1 FROM decision",
    "(decision.session, decision.seq) IN (SELECT decision.session, min(decision.seq) FROM decision",
)
_NAMED = re.compile(r"%\((\w+)\)s")
_EACH = re.compile(r"\(SELECT (anon_\d+)\.value FROM json_each\(\?\) AS \1\)")


@cache
def translated(statement: str) -> LiteralString:
    """A statement for SQLite as psycopg takes it.

    `LIKE` does not tell upper from lower case of ASCII there, as `ILIKE` does with the order of bytes.
    """
    text = _OTHERWISE.get(statement, statement)
    text = _EACH.sub("(SELECT json_array_elements_text(CAST(? AS json)))", text)
    text = text.replace(*_FIRST_OF_EACH).replace(" IN ()", " IN (NULL)")
    text = text.replace(" LIKE ", " ILIKE ").replace("%", "%%").replace("?", "%s")
    return cast("LiteralString", text)


@cache
def _numbered(statement: str) -> tuple[bytes, tuple[str, ...]]:
    """A statement with `$1` for its first value, and so on, and the names of these values."""
    names = tuple(dict.fromkeys(_NAMED.findall(statement)))
    return _NAMED.sub(lambda found: f"${names.index(found[1]) + 1}", statement).encode(), names


_WAITS_FOR_STANDBY = "SyncRepWaitForLSN"
"""The function of PostgreSQL that reports that it does not wait any longer."""
_LACKS_STANDBY = (
    "the wait for a synchronous standby was cancelled in the database, and it is not known whether the "
    "standby has what was committed"
)

STANDS_FOR_NUL = "\N{SYMBOL FOR NULL}"


def storable(text: str) -> str:
    """A text without the character that PostgreSQL does not store; a visible one stands for it."""
    return text.replace("\0", STANDS_FOR_NUL) if "\0" in text else text


def stored_row(values: Iterable[object]) -> tuple[object, ...]:
    """Values as they are when they are read again."""
    return tuple([storable(value) if type(value) is str else value for value in values])


class PostgresConnection:
    """A connection that takes statements as `sqlite3.Connection` does, with `?` for values.

    Each statement is a transaction of its own unless one was begun. One that was committed without the
    standby for which it waited, since somebody cancelled that, raises `OperationalError`, as if its
    answer were lost: what is not on the standby is not durable yet.
    """

    def __init__(self, connection: Connection[tuple[Any, ...]]) -> None:
        self.raw = connection
        self._lacks_standby = False
        connection.add_notice_handler(self._hear)
        self.text_factory: object = str
        self.used = float("-inf")
        """Time at which it was last given back to the pool, by the monotonic clock."""

    def execute(
        self, statement: str, values: Sequence[Any] | Mapping[str, Any] = ()
    ) -> Cursor[tuple[Any, ...]]:
        """Run a statement. Raises `psycopg.Error`."""
        assert not isinstance(values, Mapping), "statements for both databases have no names"
        return self._replicated(self.raw.execute(translated(statement), stored_row(values)))

    def execute_named(self, statement: str, values: Mapping[str, Any]) -> Cursor[tuple[Any, ...]]:
        """Run a statement of PostgreSQL's own with `%(name)s` for values. Raises `psycopg.Error`.

        It is taken apart once: psycopg does that each time for one of thousands of characters.
        """
        text, names = _numbered(statement)
        cursor: Cursor[tuple[Any, ...]] = driver().RawCursor(self.raw)
        return self._replicated(cursor.execute(text, [values[name] for name in names]))

    def _hear(self, notice: Any) -> None:
        """Take a message of the database. Its text depends on the database's language."""
        self._lacks_standby |= notice.source_function == _WAITS_FOR_STANDBY

    def _replicated(self, cursor: Cursor[tuple[Any, ...]]) -> Cursor[tuple[Any, ...]]:
        lacks_standby, self._lacks_standby = self._lacks_standby, False
        if lacks_standby:
            raise driver().OperationalError(_LACKS_STANDBY)
        return cursor

    def number(self, statement: str, values: Sequence[Any] = ()) -> int:
        """The number that a statement gives. Raises `psycopg.Error`."""
        [(value,)] = self.execute(statement, values).fetchall()
        return int(value)

    def executemany(self, statement: str, values: Iterable[Sequence[Any]]) -> None:
        """Run a statement for each of `values`. Raises `psycopg.Error`."""
        with self.raw.cursor() as cursor:
            cursor.executemany(translated(statement), [stored_row(each) for each in values])

    @contextmanager
    def stopped_by(self, stop: threading.Event) -> Generator[None, None, None]:
        """Cancel what the connection is asked once `stop` is set: it then raises `psycopg.Error`.

        Where it is set already nothing is asked.
        """
        if stop.is_set():
            raise driver().errors.QueryCanceled("it is not wanted any more")
        done = threading.Event()

        def watch() -> None:
            while not done.wait(STOP_SECONDS):
                if stop.is_set():
                    self.raw.cancel_safe(timeout=CONNECT_SECONDS)

        watcher = threading.Thread(target=watch, name="questions to stop", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()

    def close(self) -> None:
        self.raw.close()


def connect(
    location: PostgresLocation,
    *,
    name: str = "interlock",
    patience: float | Callable[[float], str | None] | None = None,
    gives_up: bool = False,
) -> PostgresConnection:
    """A connection in which the journal's schema is the only one looked into. Raises `psycopg.Error`.

    With `patience` a statement that has no answer after so many seconds raises `OperationalError`: a
    database that is stopped, not gone, keeps its sockets open. The connection has to be closed then. A
    function as `patience` returns the error of a statement that has waited for so many seconds. With
    `gives_up` one takes as long as the database executes it, unless this process's lease says that
    nothing answers. An old primary, from which a standby took over, counts as a database that is away; so
    does a standby in a process that has a lease in the database, whose reads must not lag behind.
    Raises `JournalError` where the library for PostgreSQL is not installed, where another schema is
    looked into, for a pooler that the location does not name, and for a database of another encoding.

    A pooler that gives each transaction to some session of the database knows no prepared statements, or
    not all, and nothing that was set for a session; most refuse the parameter `options`. So nothing is
    prepared there, and the schema is the role's own.
    """
    psycopg = driver()
    if patience is not None:
        kind = bounded_by(patience) if callable(patience) else bounded(patience)
    else:
        kind = _watchful(location) if gives_up else psycopg.Connection
    options: dict[str, Any] = {"client_encoding": "UTF8"}
    if location.pooler is None:
        options = {"options": f"-c search_path={location.schema} {_OPTIONS}"}
    elif location.pooler == "transaction":
        options["prepare_threshold"] = None
    try:
        connection = newest(
            location.url,
            lambda url: kind.connect(url, autocommit=True, application_name=name, **options, **_ALIVE),
        )
    except psycopg.OperationalError as error:
        if location.pooler is None and _REFUSED in str(error):
            raise _unnamed_pooler(location) from error
        raise
    try:
        if silence_check(location) is not None and connection.info.parameter_status(_STANDBY) == "on":
            raise psycopg.OperationalError(_LAGS.format(connection.info))
        if location.pooler == "session":
            settings = "; ".join(f"SET {name} = '{value}'" for name, value in _SETTINGS.items())
            connection.execute(f"SET search_path = {location.schema}; {settings}".encode())
        if location.pooler != "transaction":
            _set(connection)
        if location.pooler == "transaction" or location not in _looked_into:
            _require_unicode(connection, location)
            _require_schema(connection, location)
            if location.pooler == "transaction":
                _require_settings(connection, location)
            _looked_into.add(location)
    except BaseException:
        connection.close()
        raise
    return PostgresConnection(connection)


_STANDBY = "in_hot_standby"
"""The status by which PostgreSQL 14 and later tell whether they take writes."""
_LAGS = (
    "{0.host}:{0.port} is a standby, which may lack what was recorded last: a server reads only from the "
    "database that it writes"
)


def _set(connection: Any) -> None:
    """Set what the version of the database, and its operating system, have."""
    version = connection.info.server_version
    settings = [setting for setting, since in _SINCE_VERSION.items() if version >= since]
    setting, since = _ENDS_WITH_CLIENT
    with suppress(driver().DataError):
        if version >= since:
            connection.execute("; ".join(f"SET {each}" for each in (*settings, setting)).encode())
            return
    connection.execute("; ".join(f"SET {each}" for each in settings).encode())


_REFUSED = "unsupported startup parameter"
"""The words of a pooler that takes no `options`."""
_looked_into: set[PostgresLocation] = set()
"""Locations whose connections look into their schema, as one of them was asked."""


def _require_unicode(connection: Any, location: PostgresLocation) -> None:
    encoding = connection.info.parameter_status("server_encoding")
    if encoding not in ("UTF8", None):
        raise JournalError(
            f"Journal '{location}': the encoding of this database is {visible(encoding)}, which cannot "
            "hold whatever agents write. Name one in UTF8: CREATE DATABASE interlock ENCODING 'UTF8' "
            "TEMPLATE template0"
        )


def _require_schema(connection: Any, location: PostgresLocation) -> None:
    row = connection.execute("SELECT current_setting('search_path'), current_user").fetchone()
    if row[0] == location.schema:
        return
    if location.pooler is None:
        raise _unnamed_pooler(location)
    raise JournalError(
        f"Journal '{location}': behind a pooler the role's own schema counts, and that of role "
        f"'{visible(row[1])}' is '{visible(row[0])}'. Say it once in the database: "
        f"ALTER ROLE {visible(row[1])} SET search_path = {location.schema}; then have the pooler connect "
        "again (RECONNECT in its console): connections that it has go on as they were."
    )


def _require_settings(connection: Any, location: PostgresLocation) -> None:
    """Look whether a role behind a pooler, for which nothing can be set, has what statements rest on."""
    names = [*_SETTINGS]
    row = connection.execute(
        "SELECT current_user, " + ", ".join(f"current_setting('{name}')" for name in names)
    ).fetchone()
    for name, setting in zip(names, row[1:], strict=True):
        if setting != _SETTINGS[name]:
            role = visible(row[0])
            raise JournalError(
                f"Journal '{location}': behind a pooler the role's own settings count, and {name} of "
                f"'{role}' is '{visible(setting)}'. Say it once in the database: ALTER ROLE {role} SET "
                f"{name} = '{_SETTINGS[name]}'; then have the pooler connect again (RECONNECT in its "
                "console)."
            )


def _unnamed_pooler(location: PostgresLocation) -> JournalError:
    """The error for a pooler that keeps the schema from the database."""
    mark = "&" if "?" in str(location) else "?"
    return JournalError(
        f"Journal '{location}': there is a pooler between, such as PgBouncer, which does not pass on "
        f"which schema is meant. Name its pool_mode in the URL: {mark}pooler=transaction or "
        f"{mark}pooler=session."
    )


@cache
def _watchful(location: PostgresLocation) -> Any:
    """Return the class of connections for statements that have no time limit of their own."""
    return watchful(location, partial(connect, location, patience=ASK_SECONDS))


def driver() -> Any:
    """The module `psycopg`. Raises `JournalError` where it is not installed."""
    try:
        import psycopg
    except ImportError as error:
        raise JournalError(
            "A journal in PostgreSQL needs the package psycopg: pip install 'interlock[postgresql]'"
        ) from error
    return psycopg


def is_away(error: BaseException | None) -> bool:
    """Tell whether an error says that the database is away, or is one that takes no writes now."""
    if not isinstance(error, driver().OperationalError | driver().InternalError):
        return False
    state = cast("str | None", getattr(error, "sqlstate", None))
    return state is None or state in ("25006", "25P02") or state.startswith(("08", "57P"))


def unreachable(location: PostgresLocation, error: Exception) -> JournalError:
    """The error for a question or a write that PostgreSQL did not take."""
    text = error_text(error)
    return JournalError(f"Journal '{location}': PostgreSQL says: {visible(text)}. {remedy(error)}")


def remedy(error: Exception) -> str:
    """A sentence on what to do about an error of PostgreSQL."""
    text, state = str(error), getattr(error, "sqlstate", None) or ""
    advice = _NO_TABLES if state == "42501" and "for database" in text else _REMEDIES.get(state)
    if advice is None:  # a refused connection has words only
        advice = next((remedy for words, remedy in _REFUSALS.items() if words in text), None)
        if advice is None and not state and "does not exist" in text:
            advice = "Correct its name in the URL, or create it."
    return advice or (
        "Check that the database runs, that it is reached from here, and that the role may use the "
        "schema."
    )


_REMEDIES = {
    "42501": (
        "The role lacks a right: give it those of a server, as docs/how-to/many-servers.md lists them, "
        "or name the role that owns the tables."
    ),
    "42P01": (
        "There is no journal in this schema, or the role may not use it (GRANT USAGE ON SCHEMA), or a "
        "pooler between does not pass on which schema is meant, as where the URL names another pool_mode."
    ),
    "25006": (
        "It takes no writes, as a standby: name the database that does, or all of its hosts. Where it is "
        "no standby, default_transaction_read_only is on for the role or the database."
    ),
    "25P03": "Give the role more time: ALTER ROLE … SET idle_in_transaction_session_timeout = 0.",
    "53100": "Its disk is full: make room there.",
    "53300": "Raise max_connections, or the role's CONNECTION LIMIT: ten for each server.",
    "55P03": "Give the role more time: ALTER ROLE … SET lock_timeout = 0, or try again.",
    "57014": "Give the role more time: ALTER ROLE … SET statement_timeout = 0.",
}
"""Remedies by the codes of errors."""
_NO_TABLES = (
    "The journal's tables are not there yet, and this role may not create them: start one server as the "
    "role that is to own them, which needs CREATE on the database (docs/how-to/many-servers.md)."
)
_PASSWORD = (
    "Give this server the role's password, in ~/.pgpass or PGPASSFILE: each connection reads it anew."
)
_URL = "Correct the URL of the database."
_REFUSALS = {
    "too many": _REMEDIES["53300"],
    "remaining connection slots": _REMEDIES["53300"],
    "password authentication failed": _PASSWORD,
    "no password supplied": _PASSWORD,
    "failed to resolve host": "Correct the host in the URL, or how this machine resolves names.",
    "URI query parameter": _URL,
    "invalid connection option": _URL,
    "invalid sslmode value": _URL,
    "invalid integer value": _URL,
    "does not support SSL": "Switch TLS on in the database (ssl = on), or leave sslmode out of the URL.",
    "pg_hba.conf": (
        "The database lets nobody in from here under this role, or only with TLS (sslmode=require)."
    ),
}
"""Remedies by words of refused connections, as PostgreSQL says them in English."""
