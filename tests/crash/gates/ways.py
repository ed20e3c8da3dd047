"""Faults of servers: kills, pauses, restarts and bad connections."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from random import Random

from ..bad_proxy import FINE, Trouble
from .deaths import KEY_POINTS, POINTS
from .servers import Team


def killed(team: Team, random: Random) -> None:
    random.choice(team.servers).kill()


def paused(team: Team, random: Random) -> None:
    random.choice(team.servers).pause()


def paused_shortly(team: Team, random: Random) -> None:
    random.choice(team.servers).pause_shortly(random.uniform(0.2, 1.2))


def cut_off(team: Team, random: Random) -> None:
    random.choice(team.servers).cut_off(late=random.random() < 0.5)


def restarted(team: Team, random: Random) -> None:
    """End the database at once, as after a crash, and restart it."""
    team.database.stop(signal.SIGQUIT)
    time.sleep(random.choice((0, 0, 0.3, 1)))
    team.database.start()


def all_killed(team: Team, random: Random) -> None:
    """Kill all servers at once; restart them one after the other."""
    for each in team.servers:
        each.process.kill()
    for each in random.sample(team.servers, len(team.servers)):
        each.again()


def drained(team: Team, random: Random) -> None:
    """Stop a server with SIGTERM and restart it, as in a rolling upgrade."""
    server = random.choice(team.servers)
    server.process.send_signal(signal.SIGTERM)
    server.again()


def killed_amid_drain(team: Team, random: Random) -> None:
    """Kill a server while it is stopping."""
    server = random.choice(team.servers)
    server.process.send_signal(signal.SIGTERM)
    time.sleep(random.uniform(0.0, 1.0))
    server.kill()


def badly_reached(team: Team, random: Random) -> None:
    """Delay bytes, break connections within a message, and leave others half-open for a while."""
    some = Trouble(
        delay=random.choice((0.0, 0.05, 0.4)),
        tears=random.choice((0.0, 0.01, 0.05)),
        hangs=random.choice((0.0, 0.005, 0.02)),
    )
    places = [each.way for each in team.servers] + [each.front for each in team.servers]
    bad = [each for each in places if random.random() < 0.7]
    for each in bad:
        each.trouble = some
    time.sleep(random.uniform(2.0, 8.0))
    for each in bad:
        each.trouble = FINE
    time.sleep(1.0)
    for each in team.servers:
        if each.process.poll() is not None:  # it could not renew its lease
            each.again()


def dead_at_a_point(team: Team, random: Random) -> None:
    """Kill a server right before or after a write, before anybody has the answer."""
    _die(team, random, POINTS)


def dead_amid_keys(team: Team, random: Random) -> None:
    """Kill a server right before or after a passkey is used."""
    _die(team, random, KEY_POINTS)


def _die(team: Team, random: Random, points: Sequence[str]) -> None:
    """Kill a server at a point; one that owns no session reaches none, so all are tried."""
    for point in random.sample(points, len(points)):
        for server in random.sample(team.servers, len(team.servers)):
            if server.die_at(point):
                team.deaths[point] += 1
                return
    raise AssertionError("no server reached a point")


WAYS: Sequence[Callable[[Team, Random], None]] = (
    killed,
    paused,
    paused_shortly,
    cut_off,
    restarted,
    all_killed,
    drained,
    killed_amid_drain,
    badly_reached,
)
"""Ways that need nothing of what the servers are doing."""
