"""Key bindings of the live screen, and its panes in the order of their keys."""

from __future__ import annotations

from textual.binding import BindingType

from ...terminal.bindings import COPY_KEY, key_binding, pane_key

PANES = (
    ("sessions", "Sessions"),
    ("transcript", "Transcript"),
    ("nets", "Nets"),
    ("pending", "Pending"),
    ("waiting", "Waiting"),
)

LIVE_KEYS: tuple[BindingType, ...] = (
    key_binding(
        "a", "decide('approve')", "approve", "live.approve", "Open the selected request to approve it"
    ),
    key_binding("d", "decide('deny')", "deny", "live.deny", "Open the selected request to deny it"),
    key_binding(
        "space", "mark", "mark", "live.mark", "Mark the request, to decide it together with others"
    ),
    key_binding(
        "B",
        "together",
        "decide together",
        "live.together",
        "Show the marked requests as a table of what differs, and decide them together",
    ),
    key_binding("Q", "triage", "triage", "live.triage", "All waiting requests, one line each"),
    key_binding(
        "escape",
        "choose_none",
        "whole queue",
        "live.choose-none",
        "Choose no session: all waiting requests in the middle",
        show=False,
    ),
    key_binding("plus", "extend", "15 min more", "live.extend", "Extend by 15 min"),
    key_binding(
        "c",
        "claim",
        "claim",
        "live.claim",
        "Claim the request; press again to give it up",
        show=False,
    ),
    key_binding(
        "u",
        "take_back",
        "take it back",
        "live.take_back",
        "Take back the approval of the request before its call runs",
    ),
    key_binding(
        "x", "revoke", "revoke the grant", "live.revoke", "End the grant; its calls need approval again"
    ),
    key_binding("i", "interrupt", "interrupt", "live.interrupt", "Interrupt the agent with a message"),
    key_binding("s", "app.start_session", "start", "live.start", "Start another session"),
    key_binding("n", "switch_nets", "rules", "live.nets", "Switch rules of this session on or off"),
    key_binding("m", "mode", "mode", "live.mode", "Enforce or shadow: block, or only record"),
    key_binding(
        "dollar_sign",
        "raise_limit",
        "raise the limit",
        "live.limit",
        "Raise the cost limit of this session",
    ),
    # Shown in the title bar instead.
    key_binding(
        "v", "app.decisions", "decisions", "live.decisions", "All decisions of all sessions", show=False
    ),
    key_binding("h", "app.history", "history", "live.history", "The recorded sessions", show=False),
    key_binding(
        "R", "app.rules", "rule files", "live.rules", "The rules of this session, and others", show=False
    ),
    key_binding("r", "replay", "replay", "live.replay", "Step through this session's events"),
    key_binding("z", "fold", "nets", "live.fold", "Fold nets and pending calls, or unfold them"),
    key_binding("ctrl+x", "stop", "stop", "live.stop", "Stop the agent"),
    key_binding(
        "ctrl+k",
        "compact",
        "compact the conversation",
        "live.compact",
        "Have the model summarize the conversation; it then reads the summary instead",
        show=False,
    ),
    key_binding(
        "b",
        "app.backtest",
        "backtest rules…",
        "live.backtest",
        "Judge recorded calls under other rules",
        show=False,
    ),
    key_binding("tab", "turn(1)", "next pane", "live.next", "Go to the next pane", show=False),
    key_binding(
        "shift+tab", "turn(-1)", "previous pane", "live.previous", "Go to the previous pane", show=False
    ),
    COPY_KEY,
    *(
        pane_key(number, pane, title, f"live.pane-{pane}", f"Bring {title.lower()} forward")
        for number, (pane, title) in enumerate(PANES, 1)
    ),
)
