"""Text of an outage of the journal: the fault, its start, and the consequences for operators."""

from __future__ import annotations

import re
from datetime import datetime, tzinfo

from ...engine.history.model.records import JournalOutage
from .text import age, seconds_between, shown
from .times import clock, day, short_day_and_time

_WHAT = {
    "unreachable": "The database cannot be reached",
    "unwritable": "The journal cannot be written",
    "ended": "This server records nothing more",
}
_FOR_OPERATORS = (
    "Nothing is decided: open requests wait, new calls wait or are blocked. What you approve now may "
    "not be recorded.",
    "Nothing is decided; calls wait. What you approve now may not be recorded.",
    "Nothing is decided. Approvals may not be recorded.",
)
_BEFORE_CAUSE = re.compile(r' failed: |": ')
_FOR_READERS = (
    "Nothing is decided: open requests wait, new calls wait or are blocked.",
    "Nothing is decided; calls wait.",
)
_ENDED = (
    "Nothing is decided or recorded here any more: start this server again, or decide at another one.",
    "Nothing is decided here any more. Start this server again.",
)


def outage_kind(outage: JournalOutage) -> str:
    """Return the fault: `The database cannot be reached`."""
    return _WHAT[outage.kind]


def outage_headline(outage: JournalOutage, now: datetime, zone: tzinfo | None = None) -> str:
    """Return the fault with its start and age: `THE DATABASE CANNOT BE REACHED since 02:13:05 (0:47)`."""
    lasted = age(seconds_between(outage.since, now))
    return f"{outage_kind(outage).upper()} since {_since(outage, now, zone)} ({lasted})"


def outage_sentence(outage: JournalOutage, now: datetime, zone: tzinfo | None = None) -> str:
    """Return the fault, its start, the last error and the consequences, for the command line."""
    consequence = outage_consequences(outage)[0]
    return (
        f"{outage_kind(outage)} since {_since(outage, now, zone)} ({shown(outage.reason)}). {consequence}"
    )


def outage_cause(outage: JournalOutage) -> str:
    """Return the end of the last error: `Connection refused`, without the address that was tried.

    Of a full disk this is `No space left on device`, without the file and PostgreSQL's hint.
    """
    return _BEFORE_CAUSE.split(outage.reason.partition(". HINT: ")[0])[-1]


def outage_consequences(outage: JournalOutage, *, decides: bool = True) -> tuple[str, ...]:
    """Return the consequences in texts from long to short, for operators who decide or only look."""
    if outage.kind == "ended":
        return _ENDED
    return _FOR_OPERATORS if decides else _FOR_READERS


def _since(outage: JournalOutage, now: datetime, zone: tzinfo | None) -> str:
    since = outage.since
    is_today = day(since, zone) == day(now, zone)
    return clock(since, zone) if is_today else short_day_and_time(since, zone)
