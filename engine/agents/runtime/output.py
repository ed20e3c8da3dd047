"""Output of a command, stored up to a limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from .base import ExecResult

OUTPUT_LIMIT = 1_048_576
FLOOD_LIMIT = 256 * OUTPUT_LIMIT


@dataclass(frozen=True, slots=True)
class OutputLimits:
    """Limits in bytes: output kept of each stream, and total output at which the command is killed."""

    kept: int = OUTPUT_LIMIT
    flood: int = FLOOD_LIMIT


@dataclass(slots=True)
class _Stream:
    kept: bytearray = field(default_factory=bytearray)
    total: int = 0


class Output:
    """Both streams of one command (A-102, A-103).

    Output within the limit is stored and passed to `on_data` as it arrives; the rest is only counted.
    `stop` is called if a command exceeds the limit of both streams or the flood limit, or if `on_data`
    raises: the call then fails with that error.
    """

    def __init__(
        self,
        limits: OutputLimits,
        on_data: Callable[[bytes], None] | None = None,
        stop: Callable[[], None] | None = None,
    ) -> None:
        self._limits = limits
        self._on_data = on_data
        self._stop = stop
        self._streams = {"stdout": _Stream(), "stderr": _Stream()}
        self.problem: Exception | None = None

    def feed(self, name: Literal["stdout", "stderr"], data: bytes) -> None:
        """Add data of one stream."""
        stream = self._streams[name]
        fits = data[: self._limits.kept - len(stream.kept)]
        stream.kept += fits
        stream.total += len(data)
        if self.is_too_much:
            self._end()
        if fits and self._on_data is not None and self.problem is None:
            try:
                self._on_data(fits)
            except Exception as error:
                self.problem = error
                self._end()

    def _end(self) -> None:
        if self._stop is not None:
            self._stop()

    @property
    def is_too_much(self) -> bool:
        totals = [stream.total for stream in self._streams.values()]
        return min(totals) > self._limits.kept or sum(totals) > self._limits.flood

    def result(self, exit_code: int, signal: int | None = None) -> ExecResult:
        """Return the command's result. Raises the error of `on_data`, if any."""
        if self.problem is not None:
            raise self.problem
        texts = {name: stream.kept.decode(errors="replace") for name, stream in self._streams.items()}
        return ExecResult(
            stdout=texts["stdout"],
            stderr=texts["stderr"],
            exit_code=exit_code,
            truncated=any(stream.total > self._limits.kept for stream in self._streams.values()),
            signal=signal,
        )
