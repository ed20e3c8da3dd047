"""The keys of the live screen, and its panes in the order of theirs."""

from __future__ import annotations

from textual.binding import Binding, BindingType

from ...terminal.bindings import COPY_KEY

PANES = (
    ("sessions", "Sessions"),
    ("transcript", "Transcript"),
    ("nets", "Nets"),
    ("pending", "Pending"),
    ("waiting", "Waiting"),
)

LIVE_KEYS: tuple[BindingType, ...] = (
    Binding(
        "a",
        "decide('approve')",
        "approve",
        id="live.approve",
        tooltip="Open the selected request to approve it",
    ),
    Binding(
        "d", "decide('deny')", "deny", id="live.deny", tooltip="Open the selected request to deny it"
    ),
    Binding(
        "space",
        "mark",
        "mark",
        id="live.mark",
        tooltip="Mark the request, to decide it together with others",
    ),
    Binding(
        "B",
        "together",
        "decide together",
        id="live.together",
        tooltip="Show the marked requests as a table of what differs, and decide them together",
    ),
    Binding("plus", "extend", "15 min more", id="live.extend", tooltip="Extend by 15 min"),
    Binding(
        "x",
        "revoke",
        "revoke the grant",
        id="live.revoke",
        tooltip="End the grant; its calls need approval again",
    ),
    Binding(
        "i",
        "interrupt",
        "interrupt",
        id="live.interrupt",
        tooltip="Interrupt the agent with a message",
    ),
    Binding("s", "app.start_session", "start", id="live.start", tooltip="Start another session"),
    Binding(
        "n",
        "switch_nets",
        "rules",
        id="live.nets",
        tooltip="Switch rules of this session on or off",
    ),
    Binding("m", "mode", "mode", id="live.mode", tooltip="Enforce or shadow: block, or only record"),
    Binding(
        "dollar_sign",
        "raise_limit",
        "raise the limit",
        id="live.limit",
        tooltip="Let this session cost more than it may now",
    ),
    Binding(
        "v", "app.decisions", "decisions", id="live.decisions", tooltip="All decisions of all sessions"
    ),
    Binding("h", "app.history", "history", id="live.history", tooltip="The recorded sessions"),
    Binding(
        "R", "app.rules", "rule files", id="live.rules", tooltip="The rules of this session, and others"
    ),
    Binding("r", "replay", "replay", id="live.replay", tooltip="Step through this session's events"),
    Binding("ctrl+x", "stop", "stop", id="live.stop", tooltip="Stop the agent"),
    Binding(
        "ctrl+k",
        "compact",
        "compact the conversation",
        show=False,
        id="live.compact",
        tooltip="Have the model sum up what was said; it then reads the summary instead",
    ),
    Binding(
        "b",
        "app.backtest",
        "backtest rules…",
        show=False,
        id="live.backtest",
        tooltip="Judge recorded calls under other rules",
    ),
    Binding("tab", "turn(1)", "next pane", show=False, id="live.next", tooltip="Go to the next pane"),
    Binding(
        "shift+tab",
        "turn(-1)",
        "previous pane",
        show=False,
        id="live.previous",
        tooltip="Go to the pane before",
    ),
    COPY_KEY,
    *(
        Binding(
            str(number),
            f"pane('{pane}')",
            f"go to {title.lower()}",
            show=False,
            id=f"live.pane-{pane}",
            tooltip=f"Bring {title.lower()} forward",
        )
        for number, (pane, title) in enumerate(PANES, 1)
    ),
)
