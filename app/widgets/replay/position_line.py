"""Header of a replay: the position, and the event there."""

from __future__ import annotations

from datetime import tzinfo

from textual.content import Content

from ....engine.history.fold.event_text import headline
from ....engine.history.fold.replay import Replay
from ....engine.history.model.events import JournalEvent
from ...format.text import shown
from ...format.times import clock, day
from ...viewmodels.marks import Mark
from .scrubber import STYLES, SYMBOLS

DOT: tuple[str, str] = (" · ", "$text-muted")


def heading_texts(
    replay: Replay, event: JournalEvent, zone: tzinfo | None
) -> tuple[Content, Content, Content]:
    """Return texts, longest first: session, event number and time, with mode and date if they fit."""
    where = Content.assemble(
        (shown(replay.state.id), "bold"),
        DOT,
        (f"event {replay.position} of {len(replay)}", "bold $text-primary"),
        DOT,
        clock(event.at, zone),
    )
    mode = Content.assemble(DOT, (replay.state.mode, "$text-muted"))
    date = Content.assemble(DOT, (day(event.at, zone), "$text-muted"))
    return where + mode + date, where + mode, where


def event_line(replay: Replay, event: JournalEvent, mark: Mark | None) -> Content:
    """Return the event's kind, and a summary of its content."""
    kind, *words = headline(event, replay.before.wanting).split("  ", 1)
    return Content.assemble(
        (f"{SYMBOLS[mark]} " if mark else "", STYLES[mark] if mark else ""),
        (kind, "$text-muted"),
        ("  ".join(["", *(shown(word) for word in words)]), "bold"),
    )
