"""The streams of `[audit]`: each sends the record from its last position, in the background.

Nothing waits for a stream. It reads the journal after its last position, a page of events at a time, so
its memory does not grow however long a receiver is down. Of the servers of a database, one sends each
stream; a server whose attempts fail releases the stream to the others.
"""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count

from ....engine.core.sanitize import visible
from ....engine.gateway.aap.receiver import signing_key
from ....engine.history.audit.stream import Backlog, LineFormat, RecordStream, StreamLine
from ....engine.history.audit.stream_positions import StreamElsewhereError
from ....engine.history.errors import JournalError
from ....engine.hub.hub import Hub
from ...config.loader import SettingsError
from .file import FileTarget
from .posting import PostingTarget
from .settings import AuditSettings, StreamAddress
from .syslog import ConnectionTarget, DatagramTarget
from .target import PATIENCE, Target, TargetError, TooLargeError

EVERY = 1.0
"""Seconds between two looks at the journal once everything has been sent."""
WATCHED_EVERY = 5.0
"""Seconds between two counts of the events that wait."""
PAGE = 100
"""Number of events of a lane that are read at a time."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds before the next attempt: the first pause, doubled each time, up to the longest."""
LET_GO_AFTER = 3
"""Number of failed attempts before another server may send the stream."""
LAST_SECONDS = 5.0
"""Seconds allowed for the remaining events when the process ends."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class StreamState:
    """State of a stream for monitoring.

    `sending` is true if this process sends it; `problem` is set while sending fails.
    """

    name: str
    sending: bool = False
    sent: int = 0
    failures: int = 0
    problem: str | None = None
    backlog: Backlog = field(default_factory=Backlog)


class AuditStream:
    """One stream. `tell` is called once when the stream fails, and once when it works again."""

    def __init__(
        self,
        name: str,
        source: RecordStream,
        target: Target,
        form: LineFormat,
        tell: Callable[[str], object],
        *,
        pause: float = FIRST_PAUSE,
    ) -> None:
        self.state = StreamState(name)
        self._source = source
        self._target = target
        self._form = form
        self._tell = tell
        self._first_pause = pause
        self._attempts = 0
        self._ending = asyncio.Event()
        self._stopped = False

    async def run(self) -> None:
        """Send until `stop`, or until `end` and then the remaining events, unless that fails."""
        watching = asyncio.get_running_loop().create_task(self._watch(), name="backlog of a stream")
        try:
            while not self._stopped and (pause := await self._step()) is not None:
                if pause:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(pause):
                            await self._ending.wait()
        finally:
            watching.cancel()
            await self._target.close()
            with suppress(JournalError):
                await asyncio.to_thread(self._source.let_go)

    def end(self) -> None:
        """Make `run` send the remaining events and return."""
        self._ending.set()

    def stop(self) -> None:
        """Make `run` return after the current batch; the remaining events are left to another stream."""
        self._stopped = True
        self._ending.set()

    async def _step(self) -> float | None:
        """Send some events; return the seconds until the next step, `None` at the end."""
        ending = self._ending.is_set()
        try:
            self.state.sending = await asyncio.to_thread(self._source.claim)
            number, working = await self._send() if self.state.sending else (0, 0.0)
        except StreamElsewhereError:
            number, working, self.state.sending = 0, 0.0, False
        except TooLargeError:
            # Not counted as a failure: the pause would let an agent delay the stream with large inputs.
            return 0.0
        except (TargetError, JournalError) as error:
            return None if ending else await self._failed(str(error), getattr(error, "wait", 0.0))
        except Exception as error:
            # A fault of one event must not end the stream, which would be silent from then on.
            log.exception("the audit stream to %s failed", self.state.name)
            return None if ending else await self._failed(f"{type(error).__name__}: {error}", 0.0)
        if number or self.state.problem is not None:
            self._worked()
        if number:
            # Masking is CPU-bound; an equal pause leaves half of the time for judging calls.
            return 0.0 if ending else working
        return None if ending else EVERY

    async def _send(self) -> tuple[int, float]:
        """Send the next events; return their number, and the CPU seconds spent on formatting them."""
        events = await asyncio.to_thread(self._source.events, PAGE)
        if not events:
            return 0, 0.0
        largest = self._target.largest

        def lines() -> tuple[list[StreamLine], float]:
            started_at = time.thread_time()
            return [self._form.line(each, largest) for each in events], time.thread_time() - started_at

        content, working = await asyncio.to_thread(lines)
        for part in _parts(content, self._target.most):
            await self._target.send(part)
            await asyncio.to_thread(self._source.note, [each.source for each in part])
            self.state.sent += len(part)
        return len(events), working

    async def _failed(self, problem: str, wait: float) -> float:
        """Record a failure; return the seconds before the next attempt."""
        self._attempts += 1
        self.state.failures += 1
        if self.state.problem is None:
            log.warning("the audit stream to %s does not work: %s", self.state.name, problem)
            self._tell(
                f"The audit stream to {visible(self.state.name)} does not work: {problem}. Nothing is "
                "lost: it continues from there as soon as it works again."
            )
        self.state.problem = problem
        if self._attempts % LET_GO_AFTER == 0:
            with suppress(JournalError):
                await asyncio.to_thread(self._source.let_go)
        longest = min(LONGEST_PAUSE, self._first_pause * 2 ** min(self._attempts - 1, 16))
        return max(wait, longest * random.uniform(0.5, 1.0))

    def _worked(self) -> None:
        if self.state.problem is not None:
            log.warning("the audit stream to %s works again", self.state.name)
            self._tell(f"The audit stream to {visible(self.state.name)} works again.")
        self.state.problem, self._attempts = None, 0

    async def _watch(self) -> None:
        while True:
            try:
                self.state.backlog = await asyncio.to_thread(self._source.backlog)
            except JournalError as error:
                log.info("the backlog of the audit stream to %s: %s", self.state.name, error)
            await asyncio.sleep(WATCHED_EVERY)


def _parts(lines: Sequence[StreamLine], most: int) -> Iterator[list[StreamLine]]:
    """Split the lines into parts of at most `most` bytes; a single line is never split."""
    part: list[StreamLine] = []
    size = 0
    for each in lines:
        if part and size + len(each.data) > most:
            yield part
            part, size = [], 0
        part.append(each)
        size += len(each.data) + 1
    if part:
        yield part


class AuditStreams:
    """The streams of a hub's record, from `start` until `finish`; empty without settings."""

    def __init__(self, hub: Hub, settings: AuditSettings | None, tell: Callable[[str], object]) -> None:
        self._hub = hub
        self._settings = settings
        self._tell = tell
        self._targets: Mapping[StreamAddress, Target] = {}
        self._streams: list[AuditStream] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._changing = asyncio.Lock()
        self._finished = False

    @property
    def states(self) -> list[StreamState]:
        """State of each stream."""
        return [each.state for each in self._streams]

    async def start(self) -> None:
        """Start sending. Raises `SettingsError` if a file cannot be written."""
        targets = _targets(self._settings)
        await _check(targets)
        self._run(targets)

    async def change(self, settings: AuditSettings | None) -> None:
        """Apply other settings, and read again the files that they name; streams keep their positions.

        Raises `SettingsError` if the new settings cannot be used: the streams then continue as before.
        """
        async with self._changing:
            if self._finished:
                return
            targets = _targets(settings)
            # Only one stream at a time writes a file, so the new one cannot be tested before the old one
            # ends.
            for stream in self._streams:
                stream.stop()
            await self._end(PATIENCE + LAST_SECONDS)
            try:
                await _check(targets)
            except SettingsError:
                self._run(self._targets)
                raise
            self._settings = settings
            self._run(targets)

    async def finish(self) -> None:
        """Send the remaining events, within a few seconds.

        After the hub was closed, no events follow these.
        """
        async with self._changing:
            self._finished = True
            for stream in self._streams:
                stream.end()
            await self._end(LAST_SECONDS)

    async def _end(self, seconds: float) -> None:
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    def _run(self, targets: Mapping[StreamAddress, Target]) -> None:
        """Start sending to these receivers; a stream keeps the counters of an earlier one of its name."""
        counted = {each.name: each for each in self.states}
        self._targets, self._streams = targets, []
        if (settings := self._settings) is None:
            return
        form = LineFormat(settings.format, None if settings.unmasked else self._hub.redaction.body)
        for address, target in targets.items():
            # Addresses may differ only in parts that their names omit, and metrics are labelled by name.
            names = {each.name for each in self.states}
            name = next(each for each in _numbered(address.name) if each not in names)
            source = self._hub.record_stream(address.id, settings.begin)
            stream = AuditStream(name, source, target, form, self._tell)
            if (known := counted.get(name)) is not None:
                stream.state.sent, stream.state.failures = known.sent, known.failures
            self._streams.append(stream)
            task = asyncio.get_running_loop().create_task(stream.run(), name=f"audit stream to {name}")
            self._tasks.append(task)


def _targets(settings: AuditSettings | None) -> dict[StreamAddress, Target]:
    """Create the receivers of the settings.

    Raises `SettingsError` for certificates that cannot be used.
    """
    if settings is None:
        return {}
    return {each: target_of(each, settings) for each in settings.addresses}


async def _check(targets: Mapping[StreamAddress, Target]) -> None:
    """Check the receivers' requirements. Raises `SettingsError`, after closing all of them."""
    try:
        for target in targets.values():
            await asyncio.to_thread(target.check)
    except TargetError as error:
        for target in targets.values():
            await target.close()
        raise SettingsError(f"[audit]: stream: {error}") from error


def _numbered(name: str) -> Iterator[str]:
    """Yield a name, then the name with increasing numbers."""
    yield name
    yield from (f"{name} ({number})" for number in count(2))


def target_of(address: StreamAddress, settings: AuditSettings) -> Target:
    """Create the receiver for an address. Raises `SettingsError` for certificates that cannot be used."""
    match address.kind, address.transport:
        case "file", _:
            return FileTarget(address.path)
        case "syslog", "tcp":
            return ConnectionTarget(address, settings.largest)
        case "syslog", "tls":
            return ConnectionTarget(address, settings.largest, _tls(settings))
        case "syslog", _:
            return DatagramTarget(address, settings.largest)
        case _:
            key = None if settings.secret is None else signing_key(settings.secret)
            tls = _tls(settings) if settings.ca or settings.certificate else None
            return PostingTarget(address, key=key, headers=settings.headers, tls=tls)


def _tls(settings: AuditSettings) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=settings.ca)
        if settings.certificate is not None:
            # An empty password prevents a prompt, which nobody might answer.
            context.load_cert_chain(settings.certificate, password=lambda: b"")
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"[audit]: ca or certificate cannot be used: {error}; each is a PEM file, and the "
            "second also has its key, without a password"
        ) from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
