"""Servers of one database, as run by teams.

The connections to the database and from clients pass proxies, which can be cut or made unreliable.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from interlock.engine.gateway.protocol.tokens import TokenFile
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.postgres.servers.listing import list_servers

from ...support.ports import free_port
from ...support.postgres import PostgresServer
from ..bad_proxy import BadProxy
from ..waiting import wait_for
from .deaths import VARIABLE

SERVERS = 3
LEASE = 2.5
WITHIN = 120.0
MOST_SPENT = 60
RULES = f"""\
require human-approval before plan
require human-approval before deploy
require human-approval before ship
require human-approval before danger risk high
require human-approval before pay by 2
require human-approval before seal by 2 with passkey
limit spend to {MOST_SPENT} per 1d across everyone
block rm
"""
SETTINGS = '[approvals]\nfuse = "1s"\n'
PEOPLE = ("ada", "ben", "cyd")
EXPECTED = ("fsync is off", "full_page_writes is off")


class Server:
    """A server at a fixed address, whose process is restarted again and again."""

    def __init__(self, team: Team, number: int) -> None:
        self._team = team
        self._number = number
        self._port = free_port()
        self.way = BadProxy(team.database.port or 0, f"way {number}")
        self.front = BadProxy(self._port, f"front {number}")
        self.url = f"ws://127.0.0.1:{self._port}"
        self.reached = f"ws://{self.front.address}"
        self.log = team.folder / f"server{number}.log"
        self.point = team.folder / f"point{number}"

    def begin(self) -> None:
        """Start its process."""
        self.process = self._begin()

    def _begin(self) -> subprocess.Popen[bytes]:
        url = f"postgresql://interlock@{self.way.address}/postgres?schema=journal"
        words = [sys.executable, "-m", "tests.crash.gates.server", str(LEASE), "--db", url]
        words += ["--rules", str(self._team.rules), "--listen", f"127.0.0.1:{self._port}"]
        root = Path(__file__).parents[3]
        return subprocess.Popen(
            words,
            stdout=subprocess.DEVNULL,
            stderr=self.log.open("ab"),
            cwd=self._team.folder,
            env={**self._team.environment, "PYTHONPATH": str(root), VARIABLE: str(self.point)},
        )

    def is_up(self) -> bool:
        ended = self.process.poll()
        assert ended is None, f"a server ended with {ended}: {self.log.read_text()[-2000:]}"
        try:
            socket.create_connection(("127.0.0.1", self._port), 1).close()
        except OSError:
            return False
        return True

    def wait(self) -> None:
        wait_for(self.is_up, f"{self.url} is up", WITHIN)

    def id(self) -> str | None:
        """Id under which its process writes the database; `None` once that process has been ended."""
        own = [each for each in list_servers(self._team.location) if each.url == self.url]
        return next((each.id for each in own if each.ended is None), None)

    def again(self) -> None:
        """Restart it, once its process has ended."""
        self.process.wait(WITHIN)
        self.process = self._begin()
        self.wait()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.again()

    def die_at(self, point: str, seconds: float = 5.0) -> bool:
        """Return whether the server reached a point in time, and so killed itself; then restart it."""
        self.point.write_text(point)
        until = time.monotonic() + seconds
        while self.process.poll() is None and time.monotonic() < until:
            time.sleep(0.02)
        self.point.unlink(missing_ok=True)
        died = self.process.poll() is not None
        if died:
            self.again()
        return died

    def pause(self) -> None:
        """Suspend it until another server has ended it, then let it continue."""
        own = self.id()
        self.process.send_signal(signal.SIGSTOP)
        wait_for(lambda: self._is_ended(own), f"{self.url} is ended", WITHIN)
        self.process.send_signal(signal.SIGCONT)
        self.again()

    def pause_shortly(self, seconds: float) -> None:
        """Suspend it for less than its lease."""
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.process.send_signal(signal.SIGCONT)
        time.sleep(0.5)
        if self.process.poll() is not None:  # this machine was too busy
            self.again()

    def cut_off(self, *, late: bool) -> None:
        """Cut its connection to the database until another server has ended it.

        Data that it sent may arrive late.
        """
        own = self.id()
        self.way.cut()
        wait_for(lambda: self._is_ended(own), f"{self.url} is ended", WITHIN)
        self.way.mend(late=late)
        self.again()

    def _is_ended(self, own: str | None) -> bool:
        return own not in [each.id for each in list_servers(self._team.location) if each.ended is None]

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(WITHIN)
        self.close()

    def close(self) -> None:
        self.way.close()
        self.front.close()


class Team:
    """Servers, and the tokens of an agent and three operators."""

    def __init__(self, database: PostgresServer, folder: Path) -> None:
        self.database = database
        self.folder = folder
        self.location = PostgresLocation(database.url, "journal")
        self.rules = folder / "a.rules"
        self.rules.write_text(RULES)
        config = folder / "config"
        config.mkdir(mode=0o700)
        tokens = TokenFile(config / "tokens.json")
        self.agent = tokens.issue("agent", "bot")
        self.people = {name: tokens.issue("operator", name) for name in PEOPLE}
        self.environment = {
            "INTERLOCK_CONFIG_DIR": str(config),
            "HOME": str(folder),
            "PATH": os.environ["PATH"],
        }
        self.deaths = Counter[str]()
        """Points at which servers died."""
        self.servers = [Server(self, number) for number in range(SERVERS)]
        hosts = ", ".join(f'"{each.front.address}"' for each in self.servers)
        (config / "interlock.toml").write_text(f"{SETTINGS}[gateway]\nhosts = [{hosts}]\n")
        for each in self.servers:
            each.begin()
            self.servers[0].wait()  # the first one creates the tables
        for each in self.servers:
            each.wait()

    def urls(self, first: int) -> str:
        """Return the URLs of all servers, beginning with this one."""
        every = [each.reached for each in self.servers]
        return ",".join([*every[first:], *every[:first]])

    def close(self) -> None:
        for each in self.servers:
            each.end()

    def kill(self) -> None:
        """Kill all remaining processes."""
        for each in self.servers:
            if each.process.poll() is None:
                each.process.kill()
                each.process.wait()
            each.close()

    def faults(self) -> list[str]:
        """Return errors in the servers' logs, except errors of the database."""
        return [
            f"{each.log.name}: {found[0][-1500:]}"
            for each in self.servers
            for found in _RAISED.finditer(each.log.read_text())
            if not found["error"].startswith(("psycopg.", "interlock.engine.history.errors."))
        ]


_RAISED = re.compile(r"^Traceback .*\n(?:(?: .*|)\n)*(?P<error>[^\s:]+)", re.MULTILINE)
"""A traceback, and the class of its error."""
