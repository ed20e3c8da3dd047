"""A time in which a database cannot be asked, which whoever runs a server is told of once."""

from __future__ import annotations

import re
import time

from ..connection import driver

STEADY_SECONDS = 5.0
"""Time for which a database has to answer until what it refuses counts as something new."""
_PASSING = ("starting up", "shutting down", "recovery", "not yet accepting")
_AWAY = ""
_NAMES = re.compile('"[^"]*"')


class Outage:
    """The failures since the database last answered for a while, by what there is to do about them."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._answered: float | None = None

    def begins(self, error: BaseException) -> bool:
        """Note a failure; true where it is the first one about which the same has to be done."""
        self._answered = None
        cause = _cause(error)
        if cause in self._known:
            return False
        self._known.add(cause)
        return True

    def is_over(self) -> bool:
        """Note an answer; true where there was an outage that is over with it."""
        if not self._known:
            return False
        now = time.monotonic()
        self._answered = now if self._answered is None else self._answered
        if now - self._answered < STEADY_SECONDS:
            return False
        self._known.clear()
        return True


def _cause(error: BaseException) -> str:
    """A failure's kind. A database that is not there fails in many words, of one kind.

    One that answers and refuses says why, by a code or, of a connection, by its sentence.
    """
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, driver().Error):
        cause = cause.__cause__
    if cause is None:
        return type(error).__name__
    code = str(getattr(cause, "sqlstate", None) or "")
    if code:
        return _AWAY if code[:2] == "08" or code.startswith("57P") else code
    sentence = str(cause).rpartition("FATAL:")
    if not sentence[1] or any(each in sentence[2] for each in _PASSING):
        return _AWAY
    # Names differ from one attempt to the next, such as those of memory that cannot be had.
    return _NAMES.sub("", sentence[2].strip().partition("\n")[0])
