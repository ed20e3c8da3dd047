"""Connections to whichever of a database's hosts is the newest: not to an old primary that comes back.

A standby that takes over begins a new timeline. The one that it took over from knows nothing of that: it
takes writes again as soon as somebody starts it, and libpq takes the first host that does. Whoever has
seen a newer timeline of the same database, or finds one at another host, refuses it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from psycopg import Connection

log = logging.getLogger(__name__)

_ASK = """
SELECT system_identifier, pg_is_in_recovery(), CASE WHEN pg_is_in_recovery() THEN timeline_id
    ELSE CAST(CAST('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) AS bit(32)) AS int) END
FROM pg_control_system(), pg_control_checkpoint()
"""
"""The timeline that is in force; the control file of a primary has that of its last checkpoint."""
_newest: dict[int, int] = {}
"""The newest timeline that was seen of each database system."""
_looked: set[str] = set()
"""URLs of which all hosts were looked at."""
_said: set[str] = set()
_lock = threading.Lock()


def newest(url: str, connect: Callable[[str], Connection[Any]]) -> Connection[Any]:
    """A connection to a database that none of its standbys took over from, as far as is known.

    `connect` opens one to a URL or a list of libpq's parameters. Raises as it does, and
    `OperationalError` where every host that takes writes is an old one.
    """
    import psycopg

    orders = list(_orders(url))
    if len(orders) > 1 and url not in _looked:
        _look_at_all(url, connect)
        _looked.add(url)
    for order in orders:
        connection = connect(order)
        try:
            said = _old(connection)
        except BaseException:
            connection.close()
            raise
        if said is None:
            return connection
        connection.close()
        if said not in _said:
            _said.add(said)
            log.error("%s", said)
        if order is orders[-1]:
            raise psycopg.OperationalError(said)
    raise AssertionError("there is one order at least")


def _old(connection: Connection[Any]) -> str | None:
    """A sentence on why a database is not to be used; `None` where it is the newest that is known."""
    import psycopg

    try:
        row = connection.execute(_ASK).fetchone()
    except psycopg.OperationalError:
        raise
    except psycopg.Error:  # a service that does not tell
        return None
    assert row is not None
    system, is_standby, timeline = row
    with _lock:
        known = _newest.get(system, 0)
        _newest[system] = max(known, timeline)
    if is_standby or timeline >= known:
        return None
    return (
        f"{connection.info.host}:{connection.info.port} is an old primary, of timeline {timeline}: a "
        f"standby took over from it, with timeline {known}. Stop it, or make it a standby of that one"
    )


def _look_at_all(url: str, connect: Callable[[str], Connection[Any]]) -> None:
    """Take note of the timelines of all hosts that answer, whether they take writes or not."""
    import psycopg
    from psycopg.conninfo import make_conninfo

    for host, port in _hosts(url):
        with suppress(psycopg.OperationalError):
            connection = connect(make_conninfo(url, host=host, port=port, target_session_attrs="any"))
            with connection:
                _old(connection)


def _orders(url: str) -> Iterator[str]:
    """The URL, and the same with each further host as the first one."""
    from psycopg.conninfo import make_conninfo

    yield url
    hosts = _hosts(url)
    for first in range(1, len(hosts)):
        order = [*hosts[first:], *hosts[:first]]
        names, ports = (",".join(each) for each in zip(*order, strict=True))
        yield make_conninfo(url, host=names, port=ports)


def _hosts(url: str) -> list[tuple[str, str]]:
    """The hosts and ports that a URL names; none where it names addresses, whose order is libpq's."""
    from psycopg.conninfo import conninfo_to_dict

    given = conninfo_to_dict(url)
    hosts, ports = (str(given.get(name) or "").split(",") for name in ("host", "port"))
    if given.get("hostaddr") or len(hosts) < 2:
        return []
    return [*zip(hosts, ports * len(hosts) if len(ports) == 1 else ports, strict=True)]
