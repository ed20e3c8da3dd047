"""Ways in which servers end, or are out of reach for a while."""

from __future__ import annotations

import signal
import time
from random import Random

from ..bad_proxy import FINE, Trouble
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
