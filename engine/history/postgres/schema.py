"""Identity, age and creation of a journal's schema in PostgreSQL."""

from __future__ import annotations

from typing import Any, Literal, cast

from ...core.sanitize import visible
from ..database import compiled as sql
from ..database.location import PostgresLocation
from ..errors import JournalError
from .connection import PostgresConnection, connect, driver, unreachable
from .pool import reading

_VERSION_TABLE = (
    "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, "
    "CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
)
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


def inspect(location: PostgresLocation) -> tuple[Literal["fresh", "current"], str | None]:
    """Find the age of a schema, and its revision. Reads only.

    Raises `JournalError` for one that holds other tables, is of another version, or cannot be reached.
    """
    with reading(location) as connection:
        return _age(connection, location)


def _age(
    connection: PostgresConnection, location: PostgresLocation
) -> tuple[Literal["fresh", "current"], str | None]:
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
    found = [str(each) for (each,) in connection.execute("SELECT version_num FROM alembic_version")]
    if found != [sql.REVISION]:
        raise JournalError(
            f"Journal '{location}' has schema {visible(', '.join(found)) or 'none'}; this version knows "
            f"{sql.REVISION}. It was left as it is; use the Interlock that wrote it."
        )
    return "current", found[0]


def prepare(location: PostgresLocation) -> None:
    """Create the journal's tables, in one transaction, unless they are there. Raises `JournalError`.

    Of two servers that do so at once one makes them, and the other finds them.
    """
    psycopg = driver()
    if inspect(location)[0] == "current":
        return
    try:
        connection = connect(location)
        try:
            with cast("Any", connection.raw).transaction():
                for statement in (
                    f"CREATE SCHEMA IF NOT EXISTS {location.schema}",
                    _VERSION_TABLE,
                    *sql.POSTGRESQL_SCHEMA,
                    *_FUNCTIONS,
                    f"INSERT INTO alembic_version VALUES ('{sql.REVISION}')",
                ):
                    cast("Any", connection.raw).execute(statement)
        finally:
            connection.close()
    except psycopg.Error as error:
        if inspect(location)[0] != "current":
            raise unreachable(location, error) from error
