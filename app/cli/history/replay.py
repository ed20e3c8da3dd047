"""`interlock replay`: a recorded session, on a screen or printed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import tzinfo
from pathlib import Path
from typing import TextIO

from ....engine.core.sanitize import visible
from ....engine.history.errors import FoldError, JournalError, SessionNotFound
from ....engine.history.fold.event_text import changes, headline
from ....engine.history.fold.fold import apply, new_state, snapshot
from ....engine.history.journal.reader import open_reader
from ....engine.history.model.events import JournalEvent
from ....engine.history.model.state import SessionState
from ....engine.history.redaction.masked_events import MaskedEvents
from ....engine.history.redaction.redaction import Redaction
from ....engine.net.net import format_marking
from ...config.arguments import BAD_INPUT
from ...config.rules_compiler import LANGUAGE
from ...format.times import clock
from ...terminal.appearance import Appearance
from ...terminal.gc import bulk_load


def replay(
    database: Path,
    session: str,
    *,
    plain: bool,
    out: TextIO,
    err: TextIO,
    zone: tzinfo | None = None,
    redaction: Redaction | None = None,
    appearance: Appearance | None = None,
) -> int:
    """Replay the session whose id is `session` or begins with it. Returns the exit code.

    An unknown or ambiguous session, an unreadable journal and contradictory events are reported on `err`,
    with exit code 2.
    """
    try:
        reader = open_reader(database)
        found = reader.session(session).id
        redaction = (redaction or Redaction()).reading(LANGUAGE)
        with bulk_load():
            recorded = MaskedEvents(reader.recorded(found), redaction)
        if not plain:
            return show_replay(database, recorded, zone, redaction, appearance)
        print_replay(recorded, out, zone)
    except (JournalError, SessionNotFound, FoldError) as error:
        print(f"interlock replay: {visible(str(error), keep_newlines=True)}", file=err)
        return BAD_INPUT
    return 0


def show_replay(
    database: Path,
    recorded: Sequence[JournalEvent],
    zone: tzinfo | None = None,
    redaction: Redaction | None = None,
    appearance: Appearance | None = None,
) -> int:
    """Open the replay screen in this terminal until it is closed. Returns the exit code."""
    from ...console.driver import run_until_ended
    from ...console.history_app import HistoryConsole
    from ...sources.api import RecordedFile
    from ...viewmodels.playback import begun

    source = RecordedFile(database, redaction)
    app = HistoryConsole(source, recorded=begun(recorded, 1), zone=zone, appearance=appearance)
    return asyncio.run(run_until_ended(app))


def print_replay(recorded: Sequence[JournalEvent], out: TextIO, zone: tzinfo | None = None) -> None:
    """Print every event with its number and time; below it its changes and the markings it moved.

    Raises `FoldError` at an event that cannot follow those before it; these have been printed then.
    """
    if not recorded:
        return
    width = len(str(len(recorded)))
    indent = " " * (width + 12)
    state = new_state(recorded[0].session)
    for event in recorded:
        before = snapshot(state)
        apply(state, event)
        line = visible(headline(event, before.wanting))
        print(f"{event.seq:>{width}}  {clock(event.at, zone)}  {line}", file=out)
        for change in changes(before, event, state):
            print(f"{indent}{visible(change)}", file=out)
        if event.seq == 1:
            continue  # The changes of an opening are its markings.
        was, now = shown_markings(before), shown_markings(state)
        for key in (key for key in now if was.get(key) != now[key]):
            print(f"{indent}{visible(key)} [{visible(now[key])}]", file=out)


def shown_markings(state: SessionState) -> dict[str, str]:
    """Every net's marking by key, with `off` for those that are not active."""
    return {
        key: format_marking(net.marking) + ("" if net.active else ", off")
        for key, net in state.nets.items()
    }
