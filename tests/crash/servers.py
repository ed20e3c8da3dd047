"""A server that writes a shared database, and keeps a list of acknowledged events.

`python -m tests.crash.servers URL FILE NAME`: each line of FILE is a session, an event's number and its
text. It ends with exit code 3 once another server has ended it, and cleanly on SIGTERM.
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
import threading
import time
from pathlib import Path
from random import Random

from interlock.engine.history.errors import JournalDisturbed, JournalError, SessionElsewhere
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import MessageAdded, SessionOpened, SessionStatus
from interlock.engine.history.postgres import writer
from interlock.engine.history.postgres.servers import lease as leasing

LEASE = 1.0
FENCED = 3
_THREADS = 3
_OPENING = SessionOpened.model_validate(
    {"agent": "crashing", "model": "none", "mode": "enforce", "nets": (), "active": ()}
)


class Busy:
    """Threads that write sessions, both new ones and orphans of ended servers."""

    def __init__(self, url: str, file: Path, name: str) -> None:
        self.name = name
        self._file = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._journal = Journal.open(url)
        self._stop = threading.Event()
        self._fenced = threading.Event()
        self._orphans: list[str] = []
        self._numbers = iter(range(10**9))
        self._journal.on_servers_ended = self._take

    def run(self) -> int:
        threads = [threading.Thread(target=self._write, args=(each,)) for each in range(_THREADS)]
        for each in threads:
            each.start()
        self._take()
        for each in threads:
            each.join()
        self._journal.close()
        return FENCED if self._fenced.is_set() else 0

    def stop(self) -> None:
        self._stop.set()

    def _take(self) -> None:
        """Take over all orphaned sessions, as soon as the database answers."""
        while not self._stop.is_set():
            try:
                while taken := self._journal.orphans(4):
                    self._orphans += taken
            except JournalDisturbed:
                return
            except JournalError:
                time.sleep(0.1)
            else:
                return

    def _write(self, number: int) -> None:
        random = Random(f"{self.name} {number}")
        fenced_for = 0
        while not self._stop.is_set() and fenced_for < 20:
            try:
                self._one_session(random)
            except JournalDisturbed:
                self._fenced.set()
                fenced_for += 1
            except SessionElsewhere:
                pass
            except JournalError:
                time.sleep(0.05)

    def _one_session(self, random: Random) -> None:
        """Continue an orphaned session or start a new one, and write some events."""
        try:
            session = self._orphans.pop(0)
        except IndexError:
            session = secrets.token_hex(6)
            self._journal.write(session, _OPENING)
        for _ in range(random.randrange(2, 30)):
            bodies = [
                MessageAdded(role="user", text=f"{self.name}.{next(self._numbers)}")
                for _ in range(random.choice((1, 1, 1, 2, 5)))
            ]
            written = self._journal.write(session, *bodies)
            lines = "".join(
                f"{session} {event.seq} {body.text}\n"
                for event, body in zip(written, bodies, strict=True)
            )
            os.write(self._file, lines.encode())
            if self._stop.is_set():
                return
        self._journal.write(session, SessionStatus(status="done"))


def main() -> int:
    url, file, name = sys.argv[1:]
    leasing.LEASE_SECONDS = LEASE
    writer.PATIENCE = 1.0
    writer.LOOK_SECONDS = 1.0
    busy = Busy(url, Path(file), name)
    leasing.PATIENCE = 0.5
    signal.signal(signal.SIGTERM, lambda *_: busy.stop())
    print("ready", flush=True)
    return busy.run()


if __name__ == "__main__":
    sys.exit(main())
