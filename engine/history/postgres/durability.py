"""Settings of a database under which what it acknowledged can be lost, found before a server starts."""

from __future__ import annotations

from typing import Any

from ..database.location import PostgresLocation
from .connection import connect, driver, unreachable

PATIENCE = 10.0
_SETTINGS = """
SELECT current_setting('fsync'), current_setting('full_page_writes'),
    current_setting('synchronous_standby_names'), (SELECT count(*) FROM pg_stat_replication)
"""


def durability(location: PostgresLocation) -> list[str]:
    """Warnings of what the database's settings do not promise; none where they promise everything.

    Whether a commit waits for the disk is not among them: the journal says so itself with each batch.
    Raises `JournalError` for a database that cannot be asked.
    """
    psycopg = driver()
    try:
        connection = connect(location, patience=PATIENCE)
        try:
            row: Any = connection.execute(_SETTINGS).fetchone()
        finally:
            connection.close()
    except psycopg.Error as error:
        raise unreachable(location, error) from error
    fsync, pages, standbys, attached = row
    warnings: list[str] = []
    if fsync != "on":
        warnings.append(
            f"fsync is {fsync} in '{location}': events that were acknowledged are lost, and the whole "
            "database may be, when its machine goes down. Set fsync = on."
        )
    if pages != "on":
        warnings.append(
            f"full_page_writes is {pages} in '{location}': when its machine goes down, pages may be left "
            "half written. Set full_page_writes = on, but where the file system writes pages whole."
        )
    if attached and not standbys.strip():
        warnings.append(
            f"'{location}' has {attached} standby{'s' if attached != 1 else ''} and "
            "synchronous_standby_names is empty: a standby that takes over may lack events that were "
            "acknowledged. Their sessions stop as diverged then. Name the standbys that a commit waits "
            "for."
        )
    return warnings
