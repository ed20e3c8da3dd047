"""Ways in which servers end, or are out of reach for a while."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
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
    """The database is ended at once, as after a crash, and started again."""
    team.database.stop(signal.SIGQUIT)
    time.sleep(random.choice((0, 0, 0.3, 1)))
    team.database.start()


def all_killed(team: Team, random: Random) -> None:
    """All servers are killed at once; they come again one after the other."""
    for each in team.servers:
        each.process.kill()
    for each in random.sample(team.servers, len(team.servers)):
        each.again()


def drained(team: Team, random: Random) -> None:
    """A server is told to end, hands over what it has, and comes again, as in a rolling upgrade."""
    server = random.choice(team.servers)
    server.process.send_signal(signal.SIGTERM)
    server.again()


def killed_amid_drain(team: Team, random: Random) -> None:
    """The same, but that it is killed on the way."""
    server = random.choice(team.servers)
    server.process.send_signal(signal.SIGTERM)
    time.sleep(random.uniform(0.0, 1.0))
    server.kill()


def badly_reached(team: Team, random: Random) -> None:
    """For a while bytes come late, connections are torn amid a message, and others go half-open."""
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
    """A server dies right before or after something is written, before anybody is told."""
    _die(team, random, POINTS)


def dead_amid_keys(team: Team, random: Random) -> None:
    """The same where keys are used."""
    _die(team, random, KEY_POINTS)


def _die(team: Team, random: Random, points: Sequence[str]) -> None:
    server = random.choice(team.servers)
    for point in random.sample(points, len(points)):
        if server.die_at(point):
            team.deaths[point] += 1
            return
    raise AssertionError("the server got to no point")
