"""Revisions of the journal's tables, and which older ones are compatible with a newer one.

A migration lists in `compatible` the older revisions whose servers may keep using the tables after it.
The revisions that all later migrations list are recorded with the revision, in the same transaction. An
older server reads there whether it may continue. A journal without such a record is for its own revision
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
"""Column of compatible revisions in the version table, added by the first migration that has any."""


DATABASES_ONLY = ("0007", "0008")
"""Revisions whose migrations do not change files: a file of the revision before is used as it is."""


@dataclass(frozen=True, slots=True)
class Schema:
    """The revisions this version knows, oldest first, and the scripts that make them."""

    known: tuple[str, ...] = ("0006", "0007", sql.REVISION)
    scripts: Path = MIGRATIONS

    @property
    def newest(self) -> str:
        return self.known[-1]

    def changes_file(self, since: str) -> bool:
        """Return whether a file of the known revision `since` differs from one of the newest revision."""
        later = self.known[self.known.index(since) + 1 :]
        return any(each not in DATABASES_ONLY for each in later)


class Revision(NamedTuple):
    """Revision of a journal's tables, and the older ones whose servers may continue alongside it.

    `number` is empty if there is no revision, and lists all if there are several.
    """

    number: str
    compatible: tuple[str, ...] = ()


def read_revision(connection: Connection) -> Revision:
    """Read the revision of a journal and the compatible older ones."""
    cursor = connection.execute("SELECT * FROM alembic_version")
    rows = cursor.fetchall()
    names = [column[0] for column in cursor.description or ()]
    records = [dict(zip(names, row, strict=True)) for row in rows]
    if len(records) != 1:
        return Revision(", ".join(str(each["version_num"]) for each in records))
    revision = str(records[0]["version_num"])
    # Compatibility recorded for another revision does not apply to this one.
    owner, _, older = str(records[0].get(_COMPATIBLE) or "").partition(":")
    return Revision(revision, tuple(older.split()) if owner == revision else ())


def run_migrations(
    connection: EngineConnection,
    schema: Schema,
    shown: str,
    target: str = "head",
) -> Revision:
    """Bring a journal to a revision in the transaction of `connection`; return what is recorded then.

    Raises `JournalError`, and the database's errors.
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
        revision = compatible(ScriptDirectory.from_config(config), target)
        _record(connection, revision)
    except DBAPIError:
        raise
    except (SQLAlchemyError, CommandError) as error:
        raise JournalError(f"Cannot bring journal '{shown}' up to date: {error}.") from error
    return revision


def compatible(scripts: ScriptDirectory, target: str = "head") -> Revision:
    """Return a revision, and the older ones that every migration since them lists as compatible."""
    migrations = list(scripts.walk_revisions("base", target))
    if not migrations:
        return Revision("")
    allowed: list[str] = []
    for place, older in enumerate(migrations):
        since = migrations[:place]
        if since and all(older.revision in getattr(each.module, _COMPATIBLE, ()) for each in since):
            allowed.append(older.revision)
    return Revision(migrations[0].revision, tuple(allowed))


def _record(connection: EngineConnection, revision: Revision) -> None:
    from sqlalchemy import text

    columns = connection.exec_driver_sql("SELECT * FROM alembic_version").keys()
    if _COMPATIBLE not in columns:
        if not revision.compatible:
            return
        connection.exec_driver_sql(f"ALTER TABLE alembic_version ADD COLUMN {_COMPATIBLE} TEXT")
    params = {"said": f"{revision.number}:{' '.join(revision.compatible)}"}
    connection.execute(text(f"UPDATE alembic_version SET {_COMPATIBLE} = :said"), params)
