"""`interlock replay`: shows a recorded session on a screen, or prints it."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from datetime import tzinfo
from typing import TYPE_CHECKING

from ...config.arguments import database, in_terminal, needs_terminal, redaction, refuse
from ..options import add_appearance, add_journal, add_switch

if TYPE_CHECKING:
    from ....engine.history.model.events import JournalEvent
    from ....engine.history.model.state import SessionState


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("session", help="its id or the beginning of it")
    add_switch(parser, "--plain", "print instead of opening a screen")
    add_journal(parser)
    add_appearance(parser)


def run(args: argparse.Namespace, *, zone: tzinfo | None = None) -> int:
    """Replay the session whose id is or begins with `args.session`. Returns the exit code.

    An unknown or ambiguous session, an unreadable journal and contradictory events are reported, with
    exit code 2.
    """
    if not args.plain and not in_terminal():
        return needs_terminal("replay", "use --plain to print it instead")
    from ....engine.history.errors import FoldError, JournalError, SessionNotFound
    from ....engine.history.journal.reader import open_reader
    from ....engine.history.redaction.masked_events import MaskedEvents
    from ...terminal.gc import bulk_load

    try:
        reader = open_reader(database(args)).showing()
        session = reader.session(args.session).id
        hidden = redaction(args)
        with bulk_load():
            recorded = MaskedEvents(reader.recorded(session), hidden)
        if args.plain:
            _print(recorded, zone)
            return 0
        from ...console.driver import run_until_ended
        from ...console.history_app import HistoryConsole
        from ...sources.recorded_file import RecordedFile
        from ...viewmodels.playback import playable_at

        source = RecordedFile(database(args), hidden)
        app = HistoryConsole(source, recorded=playable_at(recorded, 1), appearance=args.appearance)
        return asyncio.run(run_until_ended(app))
    except (JournalError, SessionNotFound, FoldError) as error:
        return refuse("replay", error)


def _print(recorded: Sequence[JournalEvent], zone: tzinfo | None) -> None:
    """Print every event with its number and time, its changes, and the markings that it moved.

    Raises `FoldError` at an event that cannot follow the events before it, after printing these.
    """
    from ....engine.core.sanitize import visible
    from ....engine.history.fold.event_text import changes, headline
    from ....engine.history.fold.fold import apply, new_state, snapshot
    from ...format.times import clock

    if not recorded:
        return
    width = len(str(len(recorded)))
    indent = " " * (width + 12)
    state = new_state(recorded[0].session)
    for event in recorded:
        before = snapshot(state)
        apply(state, event)
        line = visible(headline(event, before.wanting))
        print(f"{event.seq:>{width}}  {clock(event.at, zone)}  {line}")
        for change in changes(before, event, state):
            print(f"{indent}{visible(change)}")
        if event.seq == 1:
            continue  # An opening event changes nothing except its markings.
        was, now = _markings(before), _markings(state)
        for key in (key for key in now if was.get(key) != now[key]):
            print(f"{indent}{visible(key)} [{visible(now[key])}]")


def _markings(state: SessionState) -> dict[str, str]:
    """Return every net's marking by key; `off` for inactive nets."""
    from ....engine.net.net import format_marking

    return {
        key: format_marking(net.marking) + ("" if net.active else ", off")
        for key, net in state.nets.items()
    }
