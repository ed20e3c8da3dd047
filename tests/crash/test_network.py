"""Consoles and agents whose servers are cut off, whose packets vanish, or whose servers restart."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from interlock.engine.history.audit.verify import check_file, verify_journal
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import ApprovalDecided, CallDecided, CallResult

from ..support.networks import Cable, End, Machine, require_networks
from ..support.postgres import PostgresServer, own_server
from .lives import seeds
from .networked import PORT, issue
from .test_servers import WITHIN
from .waiting import wait_for

ROOT = Path(__file__).parents[2]
AGENTS = 3
CLIENTS = ("console", *(f"agent{each}" for each in range(AGENTS)))


class Program:
    """A program on a machine."""

    def __init__(self, machine: Machine, *words: str) -> None:
        self.process = subprocess.Popen(
            machine.command([sys.executable, "-m", "tests.crash.networked", *words]),
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""},
        )

    def ready(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(60)
        finally:
            assert self.process.stdout is not None
            self.process.stdout.close()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Network:
    """A database, two servers with a cable to it, and clients with a cable to each server."""

    def __init__(self, database: PostgresServer, at: Machine, folder: Path) -> None:
        self.folder = folder
        self.location = PostgresLocation(database.url, "journal")
        self.machines: list[Machine] = []
        self.cables: dict[tuple[str, int], Cable] = {}
        self.servers: list[Program] = []
        self.clients: dict[str, Program] = {}
        issue(folder)
        self.hosts = hosts = [self._machine(), self._machine()]
        self.urls: list[str] = []
        homes = {name: self._machine() for name in CLIENTS}
        for name, home in homes.items():
            for number, host in enumerate(hosts):
                self.cables[name, number] = Cable(host, home)
        for host in hosts:
            cable = Cable(at, host)
            place = f"{cable.near}:{database.port}/postgres?schema=journal"
            self.urls.append(f"postgresql://interlock@{place}")
            self.servers.append(self._serve(len(self.urls) - 1))
        for number, (name, home) in enumerate(homes.items()):
            urls = [f"ws://{self.cables[name, each].near}:{PORT}" for each in (0, 1)]
            role = "approve" if name == "console" else "work"
            # Clients start at different servers.
            order = urls if number % 2 else urls[::-1]
            (folder / name).touch()
            self.clients[name] = Program(home, role, ",".join(order), str(folder), name)

    def _machine(self) -> Machine:
        self.machines.append(Machine())
        return self.machines[-1]

    def _serve(self, number: int) -> Program:
        server = Program(self.hosts[number], "serve", self.urls[number], str(self.folder), "0.0.0.0")
        server.ready()
        return server

    def lines(self, name: str) -> list[list[str]]:
        """Return the lines of a client's answers."""
        return [line.split() for line in (self.folder / name).read_text().splitlines()]

    def go_on(self) -> None:
        """Wait until each client has received another answer."""
        before = {name: len(self.lines(name)) for name in CLIENTS}
        for name in CLIENTS:
            wait_for(lambda name=name: len(self.lines(name)) > before[name], f"{name} goes on", WITHIN)

    def cut(self, random: Random) -> None:
        """Cut a client off from a server, in one or both directions; it continues at the other."""
        ends: tuple[End, ...] = random.choice(((), (), ("near",), ("far",)))
        name, number = random.choice(CLIENTS), random.randrange(2)
        cable = self.cables[name, number]
        cable.cut(*ends)
        if random.random() < 0.3:
            time.sleep(random.random())  # it need not notice
        else:
            self.go_on()
        cable.mend()

    def restart(self, random: Random) -> None:
        """End one of the servers and restart it, as in a rolling upgrade."""
        number = random.randrange(2)
        assert self.servers[number].end() == 0
        self.servers[number] = self._serve(number)

    def kill_amid_its_end(self, random: Random) -> None:
        """Restart a server in the same way, but kill it while it hands over its sessions."""
        number = random.randrange(2)
        process = self.servers[number].process
        process.send_signal(signal.SIGTERM)
        time.sleep(random.random() * 0.5)
        process.kill()
        process.wait()
        self.servers[number] = self._serve(number)

    def close(self) -> list[int]:
        ended = [self.clients[name].end() for name in CLIENTS]
        return ended + [each.end() for each in self.servers]

    def judge(self) -> tuple[Counter[str], list[str]]:
        """Compare the answers with the journal; return counts and problems."""
        problems: list[str] = []
        tally: Counter[str] = Counter()
        allowed: dict[tuple[str, str], int] = {}
        decided: Counter[str] = Counter()
        approved: set[str] = set()
        results: Counter[tuple[str, str]] = Counter()
        reader = open_reader(self.location)
        for line in reader.sessions(None):
            events = list(reader.events(line.id))
            unknown = [each.call_id for each in fold(events).calls.values() if each.status == "unknown"]
            tally["unknown"] += len(unknown)
            for event in events:
                match event.body:
                    case CallDecided(call_id=call, outcome="allow"):
                        allowed[line.id, call] = allowed.get((line.id, call), 0) + 1
                    case ApprovalDecided(approval_id=request, approved=yes):
                        decided[request] += 1
                        if yes:
                            approved.add(request)
                    case CallResult(call_id=call):
                        results[line.id, call] += 1
                    case _:
                        pass
        problems += [f"request {r} was decided {n} times" for r, n in decided.items() if n > 1]
        problems += [f"call {call} was allowed {n} times" for call, n in allowed.items() if n > 1]
        problems += [f"call {call} has {n} results" for call, n in results.items() if n > 1]
        for name in CLIENTS:
            for session, item, outcome in self.lines(name):
                tally[f"{outcome} at the {'console' if name == 'console' else 'agents'}"] += 1
                if name == "console" and item not in approved:
                    problems.append(f"approval {item} was acknowledged and is lost")
                if name != "console" and outcome == "allow" and (session, item) not in allowed:
                    problems.append(f"call {item} was allowed, and the journal does not say so")
        checks = [each for each in verify_journal(self.location) if each.fault is not None]
        problems += [f"{each.session}: {each.fault}" for each in checks]
        if missing := check_file(self.location).missing:
            problems.append(f"{missing} events that were numbered are missing")
        return tally, problems

    def release(self) -> None:
        for each in (*self.clients.values(), *self.servers):
            each.kill()
        for each in self.machines:
            each.close()


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    require_networks()
    machine = Machine()
    try:
        with own_server(port=5432, machine=machine) as database:
            found = Network(database, machine, tmp_path)
            try:
                yield found
            finally:
                found.release()
    finally:
        machine.close()


@pytest.mark.slow
@pytest.mark.timeout(3600)
class TestConsolesAndAgents:
    @pytest.mark.parametrize("way", [Network.cut, Network.restart, Network.kill_amid_its_end])
    def test_continue_at_another_server(
        self, network: Network, way: Callable[[Network, Random], None]
    ) -> None:
        """Each request is decided once, no received answer is lost, and a handover loses no outcome."""
        for seed in seeds():
            network.go_on()
            way(network, Random(f"{way.__name__} {seed}"))
        network.go_on()
        assert network.close() == [0] * (len(CLIENTS) + 2)
        tally, problems = network.judge()
        print(way.__name__, len(seeds()), dict(tally))
        assert problems == []
        assert tally["allow at the agents"] > 0
        assert tally["approved at the console"] > 0
        if way is not Network.kill_amid_its_end:
            assert tally["unknown"] == 0
