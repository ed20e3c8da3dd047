"""Calls that enforce mode would have stopped, by session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import Static

from ....engine.history.decisions.counts import RuleShare, ShadowSession, ShadowSummary
from ....engine.hub.api import HubApi
from ....engine.hub.hub import Outcome
from ...format.decisions import session_words, shadow_words, share_lines
from ...format.text import MUTED, count, name_shown
from ...sources.messages import ActionDone
from ...terminal.bindings import key_binding
from ...terminal.keymap import key_of
from ...widgets.base.blocks import Block, BlockList
from ..common.confirm import Confirm, when_yes
from ..common.operator_context import outcome_of
from ..common.panel import Panel


@dataclass(frozen=True, slots=True)
class ShadowChoice:
    """A chosen session: `switch` it to enforce, or else list its decisions that would have differed."""

    session: str
    switch: bool = False


class ShadowPanel(Panel[ShadowChoice]):
    """Panel of shadow sessions; `e` and `enter` dismiss it with the chosen one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key_binding("e", "enforce", "enforce", "shadow.enforce", "Switch this session to enforce"),
    ]

    def __init__(self, summary: ShadowSummary, *, switches: bool) -> None:
        super().__init__()
        self._summary = summary
        self._switches = switches

    def compose(self) -> ComposeResult:
        title = "Shadow mode: what enforce would have done"
        switches = [("shadow.enforce", "enforce this session")] if self._switches else []
        lists = (f"{key_of(BlockList, 'list.open')} lists them", *switches)
        with self.panel_frame(title, *lists, ("panel.close", "close")):
            yield Static(shadow_words(self._summary))
            yield BlockList()

    def on_mount(self) -> None:
        sessions = self.query_one(BlockList)
        sessions.show([_block(session) for session in self._summary.sessions])
        sessions.focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer the switch only where sessions run."""
        return self._switches if action == "enforce" else True

    def action_enforce(self) -> None:
        """Close with the chosen session, to switch it."""
        chosen = self.query_one(BlockList).current
        if chosen is not None and self.is_current:
            self.dismiss(ShadowChoice(chosen, switch=True))

    @on(BlockList.Opened)
    def list_decisions(self, message: BlockList.Opened) -> None:
        """Close with the chosen session, to list what enforce mode would have blocked or asked."""
        message.stop()
        if self.is_current:
            self.dismiss(ShadowChoice(message.key))


def _block(session: ShadowSession) -> Block:
    rows: list[tuple[str, RuleShare]] = [
        *(("■ would block", share) for share in session.blocked),
        *(("◐ would ask", share) for share in session.asked),
    ]

    def lines(width: int) -> list[Content]:
        calls = count(session.calls, "call")
        made = [
            Content(""),
            Content.assemble(
                (name_shown(session.session), "bold"), (f"  {name_shown(session.agent)} · {calls}", MUTED)
            ),
        ]
        if rows:
            made += share_lines(rows, width)
        else:
            made.append(Content.styled("  nothing would have been blocked or asked", MUTED))
        return [row.truncate(width, ellipsis=True) for row in made]

    return Block(session.session, tuple(session), lines, height=lambda _: 2 + max(1, len(rows)))


# Switching a live session from shadow to enforce, with a confirmation.


WHAT_CHANGES = "From its next call on, rules block calls and calls wait for approval."
WHEN_NOT_LIVE = "Resume it and switch it then, or start its next run in enforce mode"


async def enforce(
    app: App[None], hub: HubApi, session: str, *, by: str, found: ShadowSummary | None = None
) -> None:
    """Confirm, showing what was `found` for the session, and switch it to enforce.

    For a session that is not live or enforces already, report why not.
    """
    try:
        modes = {state.id: state.mode for state in await hub.sessions()}
    except Exception as error:
        _tell(app, f"Cannot switch {session}: {error}")
        return
    if session not in modes:
        _tell(app, f"{session} is not live. {WHEN_NOT_LIVE}")
    elif modes[session] != "shadow":
        _tell(app, f"{session} enforces already")
    else:

        def switch() -> None:
            app.run_worker(_switch(app, hub, session, by), group="decisions", exit_on_error=False)

        shown = () if found is None else found.sessions
        details = [session_words(each).plain for each in shown if each.session == session]
        question = Confirm("Enforce", f"Enforce the rules in {session}?", [WHAT_CHANGES, *details])
        app.call_later(app.push_screen, question, when_yes(switch))


async def _switch(app: App[None], hub: HubApi, session: str, by: str) -> None:
    app.post_message(ActionDone(await outcome_of(lambda: hub.set_mode(session, "enforce", by=by))))


def _tell(app: App[None], problem: str) -> None:
    app.post_message(ActionDone(Outcome(ok=False, message=problem)))
