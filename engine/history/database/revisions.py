"""Revisions of the journal's tables: which this version knows, and who may go on beside a newer one.

A migration names in `compatible` the older revisions whose servers may go on with the tables that it
makes. What holds for all migrations since then is recorded with the revision, in the same transaction:
an older server reads there whether it may go on. A journal that records nothing is for its own revision
only.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..errors import JournalError
from . import compiled as sql
from .connection import Connection

if TYPE_CHECKING:
    from alembic.script import ScriptDirectory
    from sqlalchemy.engine import Connection as EngineConnection

VERSION_TABLE = (
    "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, "
    "CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
)
MIGRATIONS = Path(__file__).parents[1] / "migrations"
_COMPATIBLE = "compatible"
"""Column of the table of versions that the first migration adds which lets older servers go on."""


DATABASES_ONLY = ("0007",)
"""Revisions whose migrations change nothing in a file: one of the revision before is used as it is."""


@dataclass(frozen=True, slots=True)
class Schema:
    """The revisions this version knows, oldest first, and the scripts that make them."""

    known: tuple[str, ...] = ("0006", sql.REVISION)
    scripts: Path = MIGRATIONS

    @property
    def newest(self) -> str:
        return self.known[-1]

    def changes_file(self, since: str) -> bool:
        """Tell whether a file of a known revision differs from one of the newest."""
        later = self.known[self.known.index(since) + 1 :]
        return any(each not in DATABASES_ONLY for each in later)


class Revision(NamedTuple):
    """Revision of a journal's tables, and the older ones whose servers may go on beside it.

    `number` is empty where there is none, and has all where there are several.
    """

    number: str
    compatible: tuple[str, ...] = ()


def read_revision(connection: Connection) -> Revision:
    """Read the revision of a journal, and who may go on beside it."""
    cursor = connection.execute("SELECT * FROM alembic_version")
    rows = cursor.fetchall()
    names = [column[0] for column in cursor.description or ()]
    found = [dict(zip(names, row, strict=True)) for row in rows]
    if len(found) != 1:
        return Revision(", ".join(str(each["version_num"]) for each in found))
    revision = str(found[0]["version_num"])
    # What was said of another revision says nothing of this one.
    of, _, older = str(found[0].get(_COMPATIBLE) or "").partition(":")
    return Revision(revision, tuple(older.split()) if of == revision else ())


def run_migrations(
    connection: EngineConnection,
    schema: Schema,
    shown: str,
    target: str = "head",
) -> Revision:
    """Bring a journal up to a revision in the transaction of `connection`; what it says from then on.

    Raises `JournalError`, and what the database raises.
    """
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory
    from alembic.util.exc import CommandError
    from sqlalchemy.exc import DBAPIError, SQLAlchemyError

    config = Config()
    config.set_main_option("script_location", str(schema.scripts).replace("%", "%%"))
    config.attributes.update(connection=connection)
    try:
        command.upgrade(config, target)
        found = compatible(ScriptDirectory.from_config(config), target)
        _record(connection, found)
    except DBAPIError:
        raise
    except (SQLAlchemyError, CommandError) as error:
        raise JournalError(f"Cannot bring journal '{shown}' up to date: {error}.") from error
    return found


def compatible(scripts: ScriptDirectory, target: str = "head") -> Revision:
    """A revision, and those older ones whose servers every migration since them lets go on."""
    migrations = list(scripts.walk_revisions("base", target))
    if not migrations:
        return Revision("")
    allowed: list[str] = []
    for place, older in enumerate(migrations):
        since = migrations[:place]
        if since and all(older.revision in getattr(each.module, _COMPATIBLE, ()) for each in since):
            allowed.append(older.revision)
    return Revision(migrations[0].revision, tuple(allowed))


def _record(connection: EngineConnection, found: Revision) -> None:
    from sqlalchemy import text

    columns = connection.exec_driver_sql("SELECT * FROM alembic_version").keys()
    if _COMPATIBLE not in columns:
        if not found.compatible:
            return
        connection.exec_driver_sql(f"ALTER TABLE alembic_version ADD COLUMN {_COMPATIBLE} TEXT")
    said = {"said": f"{found.number}:{' '.join(found.compatible)}"}
    connection.execute(text(f"UPDATE alembic_version SET {_COMPATIBLE} = :said"), said)
