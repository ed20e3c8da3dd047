"""Identity, age, creation and upgrade of a journal's schema in PostgreSQL.

Of several servers that start one makes or upgrades the tables, in one transaction, and the others find
them. No server begins while that happens, and none goes on that may not use what comes of it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ...core.sanitize import visible
from ..database import compiled as sql
from ..database.location import PostgresLocation
from ..database.revisions import VERSION_TABLE, Revision, Schema, read_revision, run_migrations
from ..errors import JournalError
from ..journal.schema import CURRENT, Age, age_of, name_of
from .connection import NOW, PostgresConnection, connect, driver, unreachable
from .pool import reading

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection as EngineConnection

LOCK_SECONDS = 2.0
"""Time for which an upgrade waits for a table, and everybody who writes waits behind it."""
TURN_SECONDS = 60.0
"""Time for which a server waits for another one that makes or upgrades the tables."""
SILENT_SECONDS = 10.0
"""Time after which a server that does not renew its lease counts as ended; longer than any lease."""
UPGRADE = "interlock journal upgrade --db URL"
_LOCK_CLASS = sql.APPLICATION_ID
_TURN = f"pg_advisory_xact_lock{{}}({_LOCK_CLASS}, hashtext(current_schema()))"
_ALIVE = "SELECT id, name, version, lease FROM server WHERE ended IS NULL ORDER BY started"
_END = f"UPDATE server SET ended = {NOW} WHERE id = ? AND lease = ? AND ended IS NULL"

_FUNCTIONS = (
    # Numbers such as NaN, which Python writes, are none of this JSON.
    r"""
    CREATE FUNCTION json_of(body text) RETURNS json LANGUAGE plpgsql IMMUTABLE AS $$
    BEGIN
        RETURN CAST(body AS json);
    EXCEPTION WHEN others THEN
        RETURN CAST(
            regexp_replace(body, '([:,[]\s*)(NaN|-?Infinity)(?=\s*[],}])', '\1"\2"', 'g') AS json
        );
    END $$
    """,
    """
    CREATE FUNCTION input_of(body text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
    BEGIN
        RETURN CAST(json_of(body) -> 'input' AS text);
    EXCEPTION WHEN others THEN
        RETURN body;
    END $$
    """,
    """
    CREATE FUNCTION unclear_in(body text) RETURNS integer LANGUAGE plpgsql IMMUTABLE AS $$
    BEGIN
        IF position('"uninspectable":"' IN body) = 0 THEN
            RETURN 0;
        END IF;
        RETURN CASE WHEN json_typeof(json_of(body) -> 'uninspectable') = 'string' THEN 1 ELSE 0 END;
    EXCEPTION WHEN others THEN
        RETURN 0;
    END $$
    """,
)
"""Functions on an event's body that the statements call; SQLite has them from Python."""


def inspect(location: PostgresLocation, schema: Schema = CURRENT) -> tuple[Age, str | None]:
    """Find the age of a schema, and its revision; see `journal.schema.inspect`. Reads only.

    Raises `JournalError` for one that holds other tables, is of a version that does not let this one go
    on, or cannot be reached.
    """
    with reading(location) as connection:
        return _age(connection, location, schema)


def _age(
    connection: PostgresConnection, location: PostgresLocation, schema: Schema
) -> tuple[Age, str | None]:
    rows = connection.execute(
        "SELECT relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace "
        "WHERE nspname = ? AND relkind IN ('r', 'p', 'v', 'm') ORDER BY relname",
        (location.schema,),
    ).fetchall()
    tables = [str(name) for (name,) in rows]
    if not tables:
        return "fresh", None
    if "alembic_version" not in tables:
        listed = visible(", ".join(tables[:5])) + (", …" if len(tables) > 5 else "")
        raise JournalError(
            f"Schema '{location.schema}' of '{location}' holds other tables ({listed}). It was left as "
            "it is; name another for the journal: ?schema=NAME"
        )
    revision = read_revision(connection)
    return age_of(revision, str(location), schema), revision.number


def enter(connection: PostgresConnection, location: PostgresLocation, schema: Schema) -> None:
    """Begin to use the tables, in a transaction that says so to whoever wants to upgrade them.

    Raises `JournalError` where they were upgraded meanwhile, and do not let this version go on.
    """
    connection.execute(f"SELECT {_TURN.format('_shared')}")
    age, number = _age(connection, location, schema)
    if age != "current":
        raise JournalError(
            f"Journal '{location}' has schema {number or 'none'} now, and this version needs "
            f"{schema.newest}. It was changed while this one began with it: start again."
        )


def version_text(version: str, schema: Schema) -> str:
    """A server's version in the list of servers, with the schema that it knows."""
    return f"{version} (schema {schema.newest})"


def _revision_of(version: str) -> str:
    """The schema that a server knows; one that does not say is from before the second."""
    _, _, revision = version.partition("(schema ")
    return revision.removesuffix(")") or "0006"


def prepare(location: PostgresLocation, schema: Schema = CURRENT) -> None:
    """Create the journal's tables, or upgrade older ones, in one transaction. Raises `JournalError`.

    Nothing is changed then. Tables of a newer version that lets this one go on stay as they are.
    """
    psycopg = driver()
    age, _ = inspect(location, schema)
    if age == "current":
        return
    if age == "older" or schema != CURRENT:
        _upgrade(location, schema, age)
        return
    try:
        connection = connect(location)
        try:
            with cast("Any", connection.raw).transaction():
                for statement in (
                    f"CREATE SCHEMA IF NOT EXISTS {location.schema}",
                    VERSION_TABLE,
                    *sql.POSTGRESQL_SCHEMA,
                    *_FUNCTIONS,
                    f"INSERT INTO alembic_version VALUES ('{sql.REVISION}')",
                ):
                    cast("Any", connection.raw).execute(statement)
        finally:
            connection.close()
    except psycopg.Error as error:
        if inspect(location, schema)[0] != "current":
            raise unreachable(location, error) from error


# Upgrades


class _Server(NamedTuple):
    """A server that has not ended."""

    id: str
    name: str
    version: str
    lease: int


def _upgrade(location: PostgresLocation, schema: Schema, age: Age) -> None:
    """Run the migrations, if nobody else has meanwhile. Raises `JournalError`."""
    from sqlalchemy import NullPool, create_engine
    from sqlalchemy.exc import DBAPIError

    def plain() -> Any:
        raw = connect(location, name="interlock upgrade").raw
        raw.autocommit = False
        return raw

    psycopg = driver()
    if age == "older":
        end_silent(location)
    engine = create_engine(
        "postgresql+psycopg://", creator=plain, poolclass=NullPool, use_native_hstore=False
    )
    role = "?"
    try:
        with engine.begin() as connection:
            role = str(connection.exec_driver_sql("SELECT current_user").scalar_one())
            if age == "fresh":
                connection.exec_driver_sql(f"CREATE SCHEMA IF NOT EXISTS {location.schema}")
            _upgrade_in(connection, location, schema)
    except DBAPIError as error:
        raise _failure(location, schema, role, cast("Exception", error.orig)) from error
    except psycopg.Error as error:
        raise _failure(location, schema, role, error) from error
    finally:
        engine.dispose()


def _upgrade_in(connection: EngineConnection, location: PostgresLocation, schema: Schema) -> None:
    raw = PostgresConnection(cast("Any", connection.connection.dbapi_connection))
    # Nothing is read before: who waits here must not hold what the one before wants to change.
    connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{int(TURN_SECONDS * 1000)}ms'")
    raw.execute(f"SELECT {_TURN.format('')}")
    age, _ = _age(raw, location, schema)
    if age == "current":
        return
    connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{int(LOCK_SECONDS * 1000)}ms'")
    revisions = run_migrations(connection, schema, name_of(location))
    if age == "older":
        _require_compatible(raw, location, revisions)


def _require_compatible(
    connection: PostgresConnection, location: PostgresLocation, found: Revision
) -> None:
    """Raise `JournalError` where a server runs that could not go on with the tables as they are now."""
    allowed = {found.number, *found.compatible}
    running = [_Server(*row) for row in connection.execute(_ALIVE)]
    others = [each for each in running if _revision_of(each.version) not in allowed]
    if others:
        listed = visible("; ".join(f"{each.name}, {each.version}" for each in others))
        raise JournalError(
            f"Journal '{location}' was not upgraded to schema {found.number}: servers run that cannot "
            f"go on beside it ({listed}). End all of them, then start this one again: this upgrade does "
            "not let two versions run side by side."
        )


def end_silent(location: PostgresLocation) -> None:
    """Say of servers that do not renew their leases that they have ended.

    Only who looks on for a time can tell: where the database's clock went back, the lease of a dead one
    seems to hold for long. Raises `JournalError`.
    """
    leases: dict[str, int] | None = None
    until = time.monotonic() + SILENT_SECONDS
    while True:
        with reading(location) as connection:
            alive = {
                each.id: each.lease for each in (_Server(*row) for row in connection.execute(_ALIVE))
            }
            leases = alive if leases is None else {i: n for i, n in leases.items() if alive.get(i) == n}
            if not leases:
                return
            if time.monotonic() > until:
                for server, lease in leases.items():
                    connection.execute(_END, (server, lease))
                return
        time.sleep(0.2)


def _failure(location: PostgresLocation, schema: Schema, role: str, error: Exception) -> JournalError:
    """The error for an upgrade that PostgreSQL did not take."""
    state = getattr(error, "sqlstate", None)
    text = visible(" ".join(str(error).split()))
    begins = f"Journal '{location}' was not upgraded to schema {schema.newest}, and is as it was: "
    if state == "42501":
        return JournalError(
            f"{begins}role '{visible(role)}' may not change its tables ({text}). Run as the role that "
            f"owns them: {UPGRADE}. Then give this role its rights again, and start this server again."
        )
    if state == "55P03":
        return JournalError(
            f"{begins}something holds one of its tables, such as a long question, a backup or another "
            f"upgrade ({text}). Servers go on. Try again when that has ended: {UPGRADE}"
        )
    return unreachable(location, error)
