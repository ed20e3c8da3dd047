"""The bell between servers: the others hear it, even after its connections were ended or stalled."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.postgres import bell as ringing
from interlock.engine.history.postgres.bell import Bell
from interlock.engine.history.postgres.connection import connect

from ....crash.proxy import Proxy
from ....support.ports import free_port
from ....support.postgres import own_server
from .support.servers import beside, rows, wait_for

PROCESS = "SELECT pid FROM pg_stat_activity WHERE application_name = ?"


class Heard:
    """A bell that records its rings."""

    def __init__(self, location: PostgresLocation) -> None:
        self.rung = threading.Event()
        self.bell = Bell(location, self.rung.set)

    def hears(self) -> bool:
        """Ring another bell; return whether this one hears it."""
        self.rung.clear()
        other = Bell(self.bell._location, lambda: None)
        try:
            other.ring()
            return self.rung.wait(0.5)
        finally:
            other.close()


@pytest.fixture
def heard(postgresql: PostgresLocation) -> Iterator[Heard]:
    heard = Heard(postgresql)
    wait_for(heard.hears)
    yield heard
    heard.bell.close()


@contextmanager
def bells(location: PostgresLocation, number: int) -> Generator[list[tuple[Bell, Callable[[], int]]]]:
    """Listening bells, each with the number of looks by its server since then."""
    with ExitStack() as stack:
        found: list[tuple[Bell, Callable[[], int]]] = []
        for _ in range(number):
            looks: list[None] = []
            bell = Bell(location, lambda looks=looks: looks.append(None))
            stack.callback(bell.close)
            wait_for(lambda looks=looks: len(looks) == 1)  # rings before it listened
            found.append((bell, lambda looks=looks: len(looks) - 1))
        yield found


class TestRing:
    def test_makes_other_servers_look(self, postgresql: PostgresLocation) -> None:
        """Each of the other servers looks for news."""
        with bells(postgresql, 3) as [(bell, _), (_, second), (_, third)]:
            bell.ring()
            wait_for(lambda: second() == third() == 1)

    def test_own_ring_is_ignored(self, postgresql: PostgresLocation) -> None:
        """A server does not look after its own rings, which would be useless work under load."""
        with bells(postgresql, 2) as [(here, looks_here), (there, looks_there)]:
            for number in range(1, 6):
                there.ring()
                wait_for(lambda number=number: looks_here() == number)
            here.ring()  # heard after its own rings
            wait_for(lambda: looks_there() > 0)
            assert looks_there() == 1

    def test_ring_without_server_name_is_heard(self, postgresql: PostgresLocation) -> None:
        """A ring that names no server counts as another server's."""
        with bells(postgresql, 1) as [(_, looks)]:
            connection = connect(postgresql)
            connection.raw.execute(f"NOTIFY interlock_{postgresql.schema}".encode())
            connection.close()
            wait_for(lambda: looks() == 1)


class TestKilledListener:
    @pytest.mark.parametrize("name", ["interlock listener", "interlock bell"])
    def test_listener_is_reconnected(self, postgresql: PostgresLocation, heard: Heard, name: str) -> None:
        """The bell replaces a connection that the database ended; it hears and is heard again."""
        heard.bell.ring()
        wait_for(lambda: bool(rows(postgresql, PROCESS, (name,))))
        before = rows(postgresql, PROCESS, (name,))
        for (process,) in before:
            rows(postgresql, "SELECT pg_terminate_backend(?)", (process,))
        wait_for(heard.hears)

        listener = Heard(postgresql)

        def is_ring_heard() -> bool:
            listener.rung.clear()
            heard.bell.ring()
            return listener.rung.wait(0.5)

        wait_for(is_ring_heard)
        listener.bell.close()
        assert not {*rows(postgresql, PROCESS, (name,))} & {*before}


class TestHalfOpenConnections:
    @pytest.mark.slow
    def test_stalled_connections_are_replaced(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A bell replaces connections that stall but stay open; it hears and is heard again."""
        monkeypatch.setattr(ringing, "SILENCE_SECONDS", 0.5)
        with own_server(port=free_port(), durable=False) as database:
            assert database.port is not None
            place = PostgresLocation(database.url, "journal")
            proxy = Proxy(database.port)
            rung = threading.Event()
            through = PostgresLocation(f"postgresql://interlock@{proxy.address}/postgres", "journal")
            bell = Bell(through, rung.set)
            with beside(place) as listener:
                listener.raw.execute(b"LISTEN interlock_journal")

                def is_heard() -> bool:
                    bell.ring()
                    return bool([*listener.raw.notifies(timeout=0.2, stop_after=1)])

                try:
                    wait_for(is_heard)
                    proxy.stall()
                    while is_heard():  # rings that were on their way
                        pass
                    rung.clear()
                    wait_for(is_heard)
                    wait_for(rung.is_set)
                    wait_for(lambda: not bell.deaf)
                finally:
                    bell.close()
                    proxy.close()


class TestStoppedDatabase:
    @pytest.mark.slow
    def test_silent_database_is_not_taken_for_a_pooler(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A database that does not answer is not mistaken for a pooler that drops notifications."""
        monkeypatch.setattr(ringing, "SILENCE_SECONDS", 0.5)
        with own_server(durable=False) as database:
            rung, deaf = threading.Event(), list[bool]()
            bell = Bell(PostgresLocation(database.url, "journal"), rung.set)
            other = Bell(PostgresLocation(database.url, "journal"), lambda: None)

            def is_heard() -> bool:
                rung.clear()
                other.ring()
                return rung.wait(0.2)

            try:
                wait_for(is_heard)
                with database.paused():
                    until = time.monotonic() + 3.0
                    while time.monotonic() < until:
                        deaf.append(bell.deaf)
                        time.sleep(0.01)
                wait_for(lambda: deaf.append(bell.deaf) is None and is_heard())
                assert not any(deaf)
            finally:
                bell.close()
                other.close()
