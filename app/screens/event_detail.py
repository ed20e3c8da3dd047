"""The panel with everything an event says."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

from ...engine.history.events import JournalEvent
from ..charset import ours, told
from ..moments import clock
from ..widgets.event_details import fields
from .detail import Detail, text_blocks

HEADING = "bold $text-primary"


def event_detail(event: JournalEvent, changes: Sequence[str], zone: tzinfo | None = None) -> Detail:
    """The panel with everything an event says, however long."""
    blocks = text_blocks("changed", "CHANGED", style=HEADING)
    blocks += text_blocks("changes", "\n".join(map(told, changes)) or "nothing in the nets or the queue")
    for name, lines in fields(event.body, longest=None):
        blocks += text_blocks(f"{name} label", f"\n{name.upper()}", style=HEADING)
        blocks += text_blocks(name, "\n".join(lines))
    return Detail(ours(f"Event {event.seq} · {event.body.type} · {clock(event.at, zone)}"), blocks)
