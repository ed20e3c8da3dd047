"""Servers of one database that are killed, paused and cut off, and whose database is ended at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from interlock.engine.history.audit.verify import check_file, verify_journal
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import MessageAdded
from interlock.engine.history.postgres.connection import connect

from ..support.networks import Cable, End, Machine, require_networks
from ..support.ports import free_port
from ..support.postgres import PostgresServer, own_server
from .lives import seeds
from .proxy import Proxy
from .servers import FENCED
from .waiting import wait_for

SERVERS = 3
WITHIN = 180.0


class Line:
    """A connection to the database by a cable, from a separate machine."""

    def __init__(self, database: Machine, port: int) -> None:
        self._machine = Machine()
        self.cable = Cable(database, self._machine)
        self.address = f"{self.cable.near}:{port}"

    def command(self, words: Sequence[str]) -> list[str]:
        return self._machine.command(words)

    def close(self) -> None:
        self._machine.close()


class Process:
    """A server process, its connection to the database, and its list of acknowledged events."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.name = name
        self.way = cluster.way()
        self.file = cluster.folder / name
        self.file.touch()
        url = f"postgresql://interlock@{self.way.address}/postgres?schema=journal"
        self.process = subprocess.Popen(
            self.way.command([sys.executable, "-m", "tests.crash.servers", url, str(self.file), name]),
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""},
        )
        self.paused = False

    def acknowledged(self) -> int:
        """Return the number of events acknowledged so far."""
        return self.file.stat().st_size

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self, expected: int) -> None:
        ended = self.process.wait(WITHIN)
        assert ended in (expected, FENCED), f"{self.name} ended with {ended}"
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.way.close()


class Cluster:
    """Some servers of one database."""

    def __init__(self, database: PostgresServer, folder: Path, way: Callable[[], Proxy | Line]) -> None:
        self.database = database
        self.way = way
        self.folder = folder
        self.location = PostgresLocation(database.url, "journal")
        self.epochs: dict[str, tuple[int, str | None]] = {}
        self.problems: list[str] = []
        self._names = iter(range(10**6))
        self.servers: list[Process] = []

    def start(self) -> Process:
        process = Process(self, f"server{next(self._names)}")
        self.servers.append(process)
        return process

    def ask(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        connection = connect(self.location)
        try:
            return connection.execute(statement, values).fetchall()
        finally:
            connection.close()

    def id_of(self, process: Process) -> str:
        """Return the id under which a process wrote the database."""
        found = self.ask("SELECT id FROM server WHERE name LIKE ?", f"%process {process.process.pid} %")
        assert found, f"{process.name} is no server"
        return str(found[-1][0])

    def go_on(self) -> None:
        """Wait until every server has had another event acknowledged; check the owners meanwhile."""
        before = {each.name: each.acknowledged() for each in self.servers}
        for each in [*self.servers]:
            wait_for(
                lambda each=each: self._went_on(each, before[each.name]), f"{each.name} goes on", WITHIN
            )
        self.look()

    def _went_on(self, process: Process, before: int) -> bool:
        ended = process.process.poll()
        if ended == FENCED:  # on a machine that is too busy a server may exceed its lease
            self.replace(process, FENCED)
            return True
        assert ended is None, f"{process.name} ended with {ended}"
        return process.acknowledged() > before

    def look(self) -> None:
        for session, epoch, server in self.ask("SELECT session, epoch, server FROM owner"):
            known, owner = self.epochs.get(session, (0, None))
            if epoch < known or (epoch == known and server not in (owner, None)):
                self.problems.append(f"{session}: {owner} had epoch {known}, {server} has {epoch}")
            self.epochs[session] = epoch, server

    def ended(self, server: str) -> bool:
        return self.ask("SELECT ended FROM server WHERE id = ?", server) != [(None,)]

    def replace(self, process: Process, ending: int) -> None:
        process.end(ending)
        self.servers.remove(process)
        self.start()

    def close(self) -> None:
        for each in self.servers:
            # One that has just replaced another may still be importing, and a signal would kill it.
            wait_for(
                lambda each=each: each.acknowledged() or each.process.poll(),
                f"{each.name} begins",
                WITHIN,
            )
            each.signal(signal.SIGTERM)
        for each in self.servers:
            each.end(0)
        self.look()

    def judge(self) -> Counter[str]:
        """Compare acknowledged events with the database; return the counts."""
        tally: Counter[str] = Counter()
        there: dict[tuple[str, int], str] = {}
        times: Counter[str] = Counter()
        reader = open_reader(self.location)
        for line in reader.sessions(None):
            writers: list[str] = []
            for event in reader.events(line.id):
                if isinstance(event.body, MessageAdded):
                    text = event.body.text or ""
                    there[line.id, event.seq] = text
                    times[text] += 1
                    name = text.partition(".")[0]
                    if not writers or writers[-1] != name:
                        writers.append(name)
            tally["sessions"] += 1
            tally["moved"] += len(writers) > 1
            if len(set(writers)) != len(writers):
                self.problems.append(f"{line.id}: a server wrote after another one: {writers}")
        self.problems += [f"{text}: is there {count} times" for text, count in times.items() if count > 1]
        for file in self.folder.iterdir():
            for line in file.read_text().splitlines():
                session, seq, text = line.split()
                tally["acknowledged"] += 1
                if there.get((session, int(seq))) != text:
                    self.problems.append(
                        f"{file.name}: {session} {seq} {text} was acknowledged and is lost"
                    )
        checks = [check for check in verify_journal(self.location) if check.fault is not None]
        self.problems += [f"{check.session}: {check.fault}" for check in checks]
        if missing := check_file(self.location).missing:
            self.problems.append(f"{missing} events that were numbered are missing")
        tally["events"] = len(there)
        tally["fenced"] = self.ask("SELECT count(*) FROM fenced")[0][0]
        tally["taken"] = self.ask("SELECT count(*) FROM owner WHERE epoch > 1")[0][0]
        return tally


def killed(cluster: Cluster, random: Random) -> None:
    """Kill one server."""
    victim = random.choice(cluster.servers)
    victim.signal(signal.SIGKILL)
    cluster.replace(victim, -signal.SIGKILL)


def paused(cluster: Cluster, random: Random) -> None:
    """Suspend one until another has ended it, then continue it: it must acknowledge nothing more."""
    victim = random.choice(cluster.servers)
    own = cluster.id_of(victim)
    victim.signal(signal.SIGSTOP)
    before = victim.acknowledged()
    wait_for(lambda: cluster.ended(own), f"{victim.name} is ended", WITHIN)
    taken = (
        "SELECT count(*) FROM owner JOIN session ON id = session WHERE server = ? AND status <> 'done'"
    )
    wait_for(
        lambda: cluster.ask(taken, own) == [(0,)], f"the sessions of {victim.name} are taken", WITHIN
    )
    victim.signal(signal.SIGCONT)
    cluster.replace(victim, FENCED)
    # Events that were durable at the suspension may be acknowledged to three threads.
    late = victim.file.read_bytes()[before:].decode().splitlines()
    writes = {line.split()[0] for line in late}
    if len(writes) > 3:
        cluster.problems.append(f"{victim.name} was acknowledged {late} after it was ended")


def restarted(cluster: Cluster, random: Random) -> None:
    """End the database at once, as after a crash, and restart it."""
    cluster.database.stop(signal.SIGQUIT)
    time.sleep(random.choice((0, 0, 0.2, 1)))
    cluster.database.start()


def cut_off(cluster: Cluster, random: Random) -> None:
    """Cut one off from the database until it is ended; data it sent arrives late, or is lost."""
    victim = random.choice(cluster.servers)
    own = cluster.id_of(victim)
    assert isinstance(victim.way, Proxy)
    victim.way.cut()
    wait_for(lambda: cluster.ended(own), f"{victim.name} is ended", WITHIN)
    victim.way.mend(late=random.random() < 0.5)
    cluster.replace(victim, FENCED)


def blinked(cluster: Cluster, random: Random) -> None:
    """Interrupt one server's connections for less than its lease; it continues."""
    victim = random.choice(cluster.servers)
    assert isinstance(victim.way, Proxy)
    victim.way.cut()
    time.sleep(random.random() * 0.3)
    victim.way.mend(late=random.random() < 0.5)
    if victim.process.poll() == FENCED:  # this machine was too slow
        cluster.replace(victim, FENCED)


def vanished(cluster: Cluster, random: Random) -> None:
    """Drop packets from one server, to it, or both, until it is ended; then stop dropping them."""
    victim = random.choice(cluster.servers)
    own = cluster.id_of(victim)
    assert isinstance(victim.way, Line)
    victim.way.cable.cut(*random.choice(ENDS))
    wait_for(lambda: cluster.ended(own), f"{victim.name} is ended", WITHIN)
    time.sleep(random.choice((0, 0, 0, 6)))  # by then the system has also given up its connections
    victim.way.cable.mend()
    cluster.replace(victim, FENCED)


def flickered(cluster: Cluster, random: Random) -> None:
    """Drop packets for less than a lease, repeatedly; the server continues."""
    victim = random.choice(cluster.servers)
    assert isinstance(victim.way, Line)
    for _ in range(random.choice((1, 1, 3))):
        victim.way.cable.cut(*random.choice(ENDS))
        time.sleep(random.random() * 0.3)
        victim.way.cable.mend()
        time.sleep(random.random() * 0.1)
    if victim.process.poll() == FENCED:  # this machine was too slow
        cluster.replace(victim, FENCED)


ENDS: tuple[tuple[End, ...], ...] = ((), (), ("near",), ("far",))
"""Ends of a cable at which packets vanish: both, the database's, the server's."""


@contextmanager
def running(database: PostgresServer, folder: Path, way: Callable[[], Proxy | Line]) -> Iterator[Cluster]:
    """Provide servers of a database, connected to it by `way`."""
    acknowledged = folder / "acknowledged"
    acknowledged.mkdir()
    cluster = Cluster(database, acknowledged, way)
    for _ in range(SERVERS):
        cluster.start()
    try:
        yield cluster
    finally:
        for each in cluster.servers:
            each.process.kill()
            each.process.wait()
            each.way.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Provide servers that reach their database through a proxy each."""
    port = free_port()
    with own_server(port=port) as database, running(database, tmp_path, lambda: Proxy(port)) as found:
        yield found


@pytest.fixture
def cabled(tmp_path: Path) -> Iterator[Cluster]:
    """Provide servers on separate machines, each with a cable to the database."""
    require_networks()
    machine, port = Machine(), 5432
    try:
        with (
            own_server(port=port, machine=machine) as database,
            running(database, tmp_path, lambda: Line(machine, port)) as found,
        ):
            yield found
    finally:
        machine.close()


def disturb_and_check(
    cluster: Cluster,
    way: Callable[[Cluster, Random], None],
    record_property: Callable[[str, object], None],
) -> None:
    """Disturb a cluster repeatedly, and check the result in the end."""
    for seed in seeds():
        cluster.go_on()
        way(cluster, Random(f"{way.__name__} {seed}"))
    cluster.go_on()
    cluster.close()
    tally = cluster.judge()
    record_property("tally", dict(tally))
    print(way.__name__, len(seeds()), dict(tally))
    assert cluster.problems == []
    assert tally["acknowledged"] > 0


@pytest.mark.timeout(3600)
class TestNothingAcknowledgedIsLost:
    @pytest.mark.variants
    @pytest.mark.parametrize("way", [killed, paused, restarted, cut_off, blinked])
    def test_events_survive_any_fault(
        self,
        cluster: Cluster,
        way: Callable[[Cluster, Random], None],
        record_property: Callable[[str, object], None],
    ) -> None:
        """Whatever ends, however often: acknowledged events are there, once, and in complete chains."""
        disturb_and_check(cluster, way, record_property)

    @pytest.mark.slow
    @pytest.mark.parametrize("way", [vanished, flickered])
    def test_events_survive_a_cut_network(
        self,
        cabled: Cluster,
        way: Callable[[Cluster, Random], None],
        record_property: Callable[[str, object], None],
    ) -> None:
        """The same holds if packets vanish, in both directions or in one, without any notification."""
        disturb_and_check(cabled, way, record_property)
