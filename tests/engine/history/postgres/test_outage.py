"""Outages of a database: a server reports each outage, and each remedy, once."""

from __future__ import annotations

import psycopg
import pytest

from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.postgres.connection import unreachable
from interlock.engine.history.postgres.servers import outage
from interlock.engine.history.postgres.servers.outage import Outage

WHERE = PostgresLocation("postgresql://db.example/interlock", "interlock")
REFUSED = 'connection failed: connection to server at "db.example", port 5432 failed: Connection refused'
AWAY = (
    psycopg.errors.AdminShutdown("terminating connection due to administrator command"),
    psycopg.OperationalError(REFUSED),
    psycopg.OperationalError("consuming input failed: server closed the connection unexpectedly"),
    psycopg.OperationalError(
        'connection to server at "db.example" failed: FATAL:  the database system is starting up'
    ),
    psycopg.OperationalError("no answer within 4 s"),
    psycopg.errors.CannotConnectNow("the database system is in recovery mode"),
)
PASSWORD = psycopg.OperationalError(
    'connection to server at "db.example" failed: FATAL:  password authentication failed for user "x"'
)
CROWDED = psycopg.OperationalError(
    'connection to server at "db.example" failed: FATAL:  sorry, too many clients already'
)
RIGHTS = psycopg.errors.InsufficientPrivilege("permission denied for table act")


def raised(error: psycopg.Error) -> Exception:
    """Return the error as a query raises it."""
    try:
        raise unreachable(WHERE, error) from error
    except Exception as found:
        return found


class TestOutage:
    def test_errors_of_one_restart_are_one_outage(self) -> None:
        """The different errors of a restart are one outage, reported once."""
        found = Outage()
        assert [found.begins(raised(each)) for each in AWAY] == [True, False, False, False, False, False]
        assert not found.begins(AWAY[0])

    def test_each_remedy_is_reported_once(self) -> None:
        """A wrong password, a missing right and too many connections are each reported once."""
        found = Outage()
        every = [AWAY[1], PASSWORD, CROWDED, RIGHTS]
        assert [found.begins(raised(each)) for each in every * 3] == [True] * 4 + [False] * 8

    def test_varying_error_text_is_one_outage(self) -> None:
        """On a full disk errors differ only in the name of a memory segment, and are reported once."""
        refused = (
            "connection failed: FATAL:  could not resize shared memory segment "
            f'"/PostgreSQL.{number}" to 16777216 bytes: No space left on device'
            for number in (1, 2, 3)
        )
        found = Outage()
        errors = [raised(psycopg.OperationalError(each)) for each in refused]
        assert [found.begins(each) for each in errors] == [True, False, False]

    def test_ends_after_answering_for_a_while(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Answers between failures do not end an outage; a later outage is reported again."""
        now = 0.0
        monkeypatch.setattr(outage.time, "monotonic", lambda: now)
        found = Outage()
        assert not found.is_over()
        assert found.begins(raised(AWAY[1]))
        for _ in range(10):
            now += outage.STEADY_SECONDS / 2
            assert not found.is_over()
            assert not found.begins(raised(AWAY[1]))
        assert not found.is_over()
        now += outage.STEADY_SECONDS
        assert found.is_over()
        assert not found.is_over()
        assert found.begins(raised(AWAY[1]))
