"""Progress display for long work on recorded calls."""

from __future__ import annotations

import sys

INTERRUPTED = 130
"""Exit code of a command that was interrupted."""


class Progress:
    """Progress line on a terminal, removed when other output is printed."""

    def __init__(self) -> None:
        self._err = sys.stderr if sys.stderr.isatty() else None
        self._shown = False

    def __call__(self, done: int, total: int | None) -> None:
        if self._err is not None:
            of = "" if total is None else f" of {total:,}"
            print(f"\r  {done:,}{of} calls", end="", file=self._err, flush=True)
            self._shown = True

    def clear(self) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=self._err, flush=True)
            self._shown = False
