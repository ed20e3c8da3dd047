"""The database's time as a server computes it between two answers."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest

from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.times import from_ms
from interlock.engine.history.postgres.servers import lease as leasing
from interlock.engine.history.postgres.servers.clock import DatabaseClock, time_of

from ..support.recording import opening
from .support.servers import lease, wait_for

HOUR = 3_600_000


class Steady:
    """A steady clock that a test advances."""

    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        return self.at


class TestClock:
    def test_advances_between_answers(self) -> None:
        """Between two answers the clock advances with the steady clock."""
        steady = Steady()
        clock = DatabaseClock(5_000_000, 99.9, 100.1, steady=steady)
        assert clock() == from_ms(5_000_000)
        steady.at += 2.5
        assert clock() == from_ms(5_002_500)

    def test_answer_within_bounds_changes_nothing(self) -> None:
        """An answer only bounds the database's time; one within the bounds changes nothing."""
        clock = DatabaseClock(5_000_000, 99.9, 100.1, steady=Steady())
        clock.set(5_001_000, 100.5, 101.4)
        assert clock() == from_ms(5_000_000)

    @pytest.mark.parametrize("jump", [HOUR, -HOUR])
    def test_follows_a_changed_database_clock(self, jump: int, caplog: pytest.LogCaptureFixture) -> None:
        """The clock follows a database whose clock was set, with one warning."""
        clock = DatabaseClock(5_000_000, 99.9, 100.1, steady=Steady())
        for _ in range(2):
            clock.set(5_000_000 + jump, 99.9, 100.1)
        assert abs(clock() - from_ms(5_000_000 + jump)) <= timedelta(seconds=0.11)
        [said] = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
        assert f"clock is 1 h {'ahead of' if jump > 0 else 'behind'} what" in said


class TestServers:
    def test_events_are_dated_by_the_database(
        self, postgresql: PostgresLocation, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An event has the database's time, even if the machine's time differs."""
        for name in ("_REGISTER", "_RENEW"):
            ahead = getattr(leasing, name).replace(leasing.NOW, f"({leasing.NOW} + {HOUR})")
            monkeypatch.setattr(leasing, name, ahead)
        with Journal.open(postgresql) as journal:
            [event] = journal.write("s", opening())
        ahead = event.at - time_of(postgresql)
        assert timedelta(minutes=59) < ahead <= timedelta(hours=1)

    @pytest.mark.slow
    def test_clock_change_is_noticed_at_next_renewal(
        self, postgresql: PostgresLocation, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A server notices a change of the database's clock at its next renewal."""
        monkeypatch.setattr(leasing, "LEASE_SECONDS", 1.0)
        with Journal.open(postgresql) as journal:
            begun = lease(journal).clock()
            ahead = leasing._RENEW.replace(leasing.NOW, f"({leasing.NOW} + {HOUR})")
            monkeypatch.setattr(leasing, "_RENEW", ahead)
            wait_for(lambda: journal.clock() - begun > timedelta(minutes=59))
