"""Connections to the current primary of a database, never to an old primary that was started again.

A standby that is promoted begins a new timeline. The old primary does not know of it and accepts writes
again as soon as it is started, and libpq chooses the first host that accepts writes. A server refuses a
primary if it has seen a newer timeline of the same database before, or finds one at another host. Of
several hosts it also refuses those that are no standbys of the first one, but databases of their own.
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
"""Reads the current timeline. A primary's control file only has the timeline of its last checkpoint."""
_newest: dict[int, int] = {}
"""Newest timeline seen so far, by database system."""
_systems: dict[str, int] = {}
"""The database system that was seen first, by URL of several hosts."""
_looked: set[str] = set()
"""URLs of which all hosts were checked."""
_said: set[str] = set()
_lock = threading.Lock()


def newest(url: str, connect: Callable[[str], Connection[Any]]) -> Connection[Any]:
    """Open a connection to the primary with the newest timeline known.

    `connect` opens a connection to a URL or to a string of libpq's parameters. Raises what it raises, and
    `OperationalError` if every host that accepts writes is an old primary.
    """
    import psycopg

    orders = list(_orders(url))
    if len(orders) > 1 and url not in _looked:
        _look_at_all(url, connect)
        _looked.add(url)
    for order in orders:
        connection = connect(order)
        try:
            problem = _problem(connection, url)
        except BaseException:
            connection.close()
            raise
        if problem is None:
            return connection
        connection.close()
        _say(problem)
        if order is orders[-1]:
            raise psycopg.OperationalError(problem)
    raise AssertionError("there is one order at least")


def _say(problem: str) -> None:
    if problem not in _said:
        _said.add(problem)
        log.error("%s", problem)


def _problem(connection: Connection[Any], url: str) -> str | None:
    """Reason for which a host of a URL must not be used; `None` if its timeline is the newest known."""
    import psycopg

    try:
        row = connection.execute(_ASK).fetchone()
    except psycopg.OperationalError:
        raise
    except psycopg.Error:  # a managed service that does not show its control file
        return None
    assert row is not None
    system, is_standby, timeline = row
    host = f"{connection.info.host}:{connection.info.port}"
    with _lock:
        if _hosts(url) and _systems.setdefault(url, system) != system:
            return (
                f"{host} is another database than a host of the same URL that was used before, and no "
                "standby of it. Name only a database and its standbys; if this one is to take its place, "
                "restart all servers"
            )
        newest_known = _newest.get(system, 0)
        _newest[system] = max(newest_known, timeline)
    if is_standby or timeline >= newest_known:
        return None
    return (
        f"{host} is an old primary, of timeline {timeline}: a standby took over from it, with timeline "
        f"{newest_known}. Stop it, or make it a standby of that one"
    )


def _look_at_all(url: str, connect: Callable[[str], Connection[Any]]) -> None:
    """Record the timelines of all hosts that answer, standbys included, and log foreign databases."""
    import psycopg
    from psycopg.conninfo import make_conninfo

    for host, port in _hosts(url):
        with suppress(psycopg.OperationalError):
            connection = connect(make_conninfo(url, host=host, port=port, target_session_attrs="any"))
            with connection:
                problem = _problem(connection, url)
                if problem is not None:
                    _say(problem)


def _orders(url: str) -> Iterator[str]:
    """Yield the URL, then variants of it that each have another host first."""
    from psycopg.conninfo import make_conninfo

    yield url
    hosts = _hosts(url)
    for first in range(1, len(hosts)):
        order = [*hosts[first:], *hosts[:first]]
        names, ports = (",".join(each) for each in zip(*order, strict=True))
        yield make_conninfo(url, host=names, port=ports)


def _hosts(url: str) -> list[tuple[str, str]]:
    """Hosts and ports that a URL names; none if it names addresses or only one host."""
    from psycopg.conninfo import conninfo_to_dict

    parameters = conninfo_to_dict(url)
    hosts, ports = (str(parameters.get(name) or "").split(",") for name in ("host", "port"))
    if parameters.get("hostaddr") or len(hosts) < 2:
        return []
    return [*zip(hosts, ports * len(hosts) if len(ports) == 1 else ports, strict=True)]
