"""Text for the model about a late call: it is undecided, and how the model gets the answer (G-102).

Hooks load this module at each call, so it needs nothing else of the protocol.
"""

from __future__ import annotations

from datetime import UTC, datetime

from ...core.durations import format_duration


def late_answer(undecided: str, until: datetime, now: datetime | None = None) -> str:
    """Return the text of a refusal; `undecided` says for how long nobody has decided.

    A time without a zone is UTC.
    """
    until = until if until.tzinfo is not None else until.replace(tzinfo=UTC)
    seconds = (until - (now or datetime.now(UTC))).total_seconds()
    return (
        f"So far {undecided}, so it was not made. The request stays open until "
        f"{until.astimezone():%H:%M} ({format_duration(max(seconds, 1.0))} from now): call the same tool "
        "again with exactly the same input to get the answer, which counts once. Everything else is "
        "judged as usual meanwhile."
    )
