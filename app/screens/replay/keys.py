"""Key bindings of the replay screen, and its panes in the order of their keys."""

from __future__ import annotations

from functools import partial

from textual.binding import BindingType

from ...terminal.bindings import COPY_KEY, FOCUS_KEYS, key_binding, pane_key

PANES = (
    ("transcript", "Transcript"),
    ("details", "Event"),
    ("nets", "Nets"),
    ("queues", "Pending"),
    ("picture", "Picture"),
)

TITLES = {
    "transcript": "Transcript up to this moment",
    "details": "This event",
    "nets": "Nets",
    "pending": "Pending",
    "waiting": "Waiting",
}


_key = partial(key_binding, priority=True)
"""Priority binding of this screen, since the panes' lists bind `g`, `home` and `end` too."""


REPLAY_KEYS: tuple[BindingType, ...] = (
    _key("left_square_bracket", "step(-1)", "back", "replay.back", "One event back", key_display="["),
    _key("right_square_bracket", "step(1)", "step", "replay.step", "One event forward", key_display="]"),
    _key("left", "step(-1)", "back", "replay.back-arrow", "One event back", show=False),
    _key("right", "step(1)", "step", "replay.step-arrow", "One event forward", show=False),
    _key(
        "left_curly_bracket",
        "decision(-1)",
        "previous decision",
        "replay.previous-decision",
        "Back to the block or approval before this event",
        key_display="{",
    ),
    _key(
        "right_curly_bracket",
        "decision(1)",
        "next decision",
        "replay.next-decision",
        "On to the next block or approval",
        key_display="}",
    ),
    _key("g", "go_to", "go to", "replay.go-to", "Go to an event's number or a time"),
    _key("home", "edge(0)", "first", "replay.first", "Go to the first event", show=False),
    _key("end", "edge(-1)", "last", "replay.last", "Go to the last event", show=False),
    _key("w", "what_if", "what if", "replay.what-if", "Judge the calls after this event by other rules"),
    _key("b", "backtest", "backtest", "replay.backtest", "Judge recorded calls under other rules"),
    _key(
        "o",
        "open_decision",
        "open decision",
        "replay.open",
        "What was decided about this event's call, and why",
    ),
    _key(
        "p",
        "picture",
        "picture",
        "replay.picture",
        "Show the chosen net as a picture, or the event again",
    ),
    _key("R", "app.rules", "rule files", "replay.rules", "The rules of this session, and others"),
    _key("c", "continue", "continue", "replay.continue", "Continue from here in a new session"),
    _key("f5", "reload", "reload", "replay.reload", "Read what has been recorded since"),
    *(
        pane_key(number, pane, title, f"replay.pane-{pane}", f"Show {title}", priority=True)
        for number, (pane, title) in enumerate(PANES, 1)
    ),
    key_binding("escape", "leave", "close", "replay.leave", "Leave the replay"),
    *FOCUS_KEYS,
    COPY_KEY,
)
