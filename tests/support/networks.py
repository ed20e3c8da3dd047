"""Simulated machines: network namespaces of the tests, and cables between them that can be cut.

While a cable is cut, packets in it vanish: no connection is refused or reset, and nothing is reported.
This also works on a kernel without the modules for queues: each end sends its packets to a network card
that does not exist.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from typing import Literal, TypeAlias

import pytest

REMEDY = "needs network namespaces: run as root on Linux, with apt install iproute2 util-linux"
_NOBODY = "02:00:00:00:00:01"
"""Address of a network card that no machine has."""
_PROGRAMS = "unshare", "nsenter", "ip"

End: TypeAlias = Literal["near", "far"]


class NetworkError(RuntimeError):
    """Error message of the system about a change of a network."""


class Machine:
    """A network namespace that lasts until `close`, with its loopback interface up.

    Raises `NetworkError`.
    """

    def __init__(self) -> None:
        # The shell reports when it is in the namespace: later commands must not use the previous one.
        words = ["unshare", "--net", "/bin/sh", "-c", "echo in; exec cat"]
        self._holder = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._holder.stdout is not None
        said = self._holder.stdout.readline()
        if said != b"in\n":
            self.close()
            raise NetworkError("no network namespace can be made here")
        self.run("link", "set", "lo", "up")

    @property
    def pid(self) -> int:
        """Id of a process in the namespace."""
        return self._holder.pid

    def command(
        self, words: Sequence[str], user: int | None = None, group: int | None = None
    ) -> list[str]:
        """Return the command that runs a program here, optionally as a user and its group."""
        options = [f"--net=/proc/{self.pid}/ns/net"]
        if user is not None:
            options += [f"--setuid={user}", f"--setgid={group if group is not None else user}"]
        return ["nsenter", *options, "--", *words]

    def run(self, *words: str) -> str:
        """Run `ip` here, and return its output. Raises `NetworkError`."""
        done = subprocess.run(self.command(["ip", *words]), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise NetworkError(f"ip {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def close(self) -> None:
        assert self._holder.stdin is not None
        assert self._holder.stdout is not None
        with suppress(OSError):
            self._holder.stdin.close()
        self._holder.wait()
        self._holder.stdout.close()


class Cable:
    """A cable between two machines. `near` and `far` are the addresses of its ends."""

    _numbers = count(1)

    def __init__(self, near: Machine, far: Machine) -> None:
        number = next(self._numbers)
        high, low = divmod(number, 64)
        self.near, self.far = f"10.77.{high}.{4 * low + 1}", f"10.77.{high}.{4 * low + 2}"
        self._ends: dict[End, tuple[Machine, str, str, str]] = {}
        names = f"n{number}", f"f{number}"
        near.run("link", "add", names[0], "type", "veth", "peer", "name", names[1], "netns", str(far.pid))
        for machine, name, address in ((near, names[0], self.near), (far, names[1], self.far)):
            machine.run("addr", "add", f"{address}/30", "dev", name)
            machine.run("link", "set", name, "up")
        cards = [_card(near, names[0]), _card(far, names[1])]
        self._ends["near"] = near, names[0], self.far, cards[1]
        self._ends["far"] = far, names[1], self.near, cards[0]
        self.mend()

    def cut(self, *ends: End) -> None:
        """Drop packets sent at `ends`; by default at both."""
        self._send("near", real="near" not in (ends or ("near",)))
        self._send("far", real="far" not in (ends or ("far",)))

    def mend(self) -> None:
        """Let packets through again; retransmitted ones arrive late."""
        self._send("near", real=True)
        self._send("far", real=True)

    def _send(self, end: End, *, real: bool) -> None:
        machine, name, peer, card = self._ends[end]
        to = card if real else _NOBODY
        machine.run("neigh", "replace", peer, "lladdr", to, "dev", name, "nud", "permanent")


def _card(machine: Machine, name: str) -> str:
    found = re.search(r"link/ether ([0-9a-f:]+)", machine.run("-o", "link", "show", name))
    if found is None:
        raise NetworkError(f"{name} has no address of its card")
    return found[1]


def require_networks() -> None:
    """Skip the test if this machine does not permit creating networks."""
    if os.geteuid() != 0 or any(shutil.which(each) is None for each in _PROGRAMS):
        pytest.skip(REMEDY)
    try:
        one = Machine()
        try:
            other = Machine()
            try:
                Cable(one, other)
            finally:
                other.close()
        finally:
            one.close()
    except (NetworkError, OSError) as error:
        pytest.skip(f"{REMEDY} ({error})")
