"""Switching of a session's nets, with the reason and the confirmations that this needs (G-67).

Most nets are turned on at once. A net that takes calls away from a rule on `anything-else` needs the same
as turning that rule off.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from ....engine.history.model.state import ChangeState, NetState, SessionState
from ....engine.hub.api import HubApi
from ....engine.hub.hub import Outcome
from ...format.text import MUTED, clip, name_shown, place, shown
from ...sources.messages import ActionDone, HubMoved
from ...terminal.bindings import key_binding
from ...widgets.base.blocks import Block, BlockList
from ..common.confirm import when_yes
from ..common.operator_context import outcome_of
from ..common.panel import Panel
from .loosen import Loosening, ProposedChange, change_line, loosen_net, switch_line, turn_on_net

OFF_NOTE = "A rule that is off keeps its state and enforces nothing. Waiting requests keep waiting."


@dataclass
class ReasonNeeded(Message):
    """Turning on `net` needs a reason; `reason` explains why."""

    net: str
    reason: str


class SwitchNets(Panel[None]):
    """Nets of `session` with their boxes; `space` or `enter` switches the net under the cursor.

    If the change is already proposed, the panel asks whether to confirm it.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        key_binding("space", "switch", "switch", "nets.switch", "Switch this rule on or off"),
        key_binding("x", "drop", "take back", "nets.drop", "Take back the change proposed for it"),
    ]

    DEFAULT_CSS = """
    SwitchNets > .frame { max-width: 84; }
    SwitchNets #said { height: auto; max-height: 6; padding: 0 2; margin-top: 1; }
    """

    def __init__(self, hub: HubApi, session: SessionState, *, operator: str) -> None:
        super().__init__()
        self._hub = hub
        self._session = session
        self._operator = operator

    def compose(self) -> ComposeResult:
        title = f"Rules of {name_shown(self._session.agent or self._session.id)}"
        with self.panel_frame(title, ("nets.switch", "switch"), ("panel.close", "close")):
            yield BlockList(id="boxes", empty="This session has no rules.")
            yield Static(Content.styled(OFF_NOTE, MUTED), id="said")

    def on_mount(self) -> None:
        self._show()
        self.query_one(BlockList).focus()

    def _show(self) -> None:
        off, made = self._session.off, list[Block]()
        for key, net in self._session.nets.items():
            change = self._proposed(key)
            notes = [] if key not in off else [switch_line("off", off[key])]
            notes += [] if change is None else [change_line(change)]
            made.append(_box(key, net, notes))
        self.query_one(BlockList).show(made)

    def action_switch(self) -> None:
        """Turn on the net under the cursor, or request the reason for turning it off."""
        key = self.query_one(BlockList).current
        if key is None:
            return
        session, change = self._session, self._proposed(key)
        if change is not None:
            agree = partial(self._hub.confirm_change, session.id, change.id, by=self._operator)
            panel = ProposedChange(change, self.action_drop)
            self.app.push_screen(panel, when_yes(lambda: self._do(agree())))
        elif not session.nets[key].active:
            self._do(self._hub.toggle_net(session.id, key, True, by=self._operator), turning_on=key)
        else:
            switch = partial(self._hub.toggle_net, session.id, key, False, by=self._operator)

            def answered(answer: Loosening | None) -> None:
                if answer is not None:
                    self._do(switch(reason=answer.reason, seconds=answer.seconds))

            self.app.push_screen(loosen_net(session, key), answered)

    def action_drop(self) -> None:
        """Take back the proposal for the net under the cursor."""
        change = self._proposed(self.query_one(BlockList).current)
        if change is not None:
            self._do(self._hub.drop_change(self._session.id, change.id, by=self._operator))

    def _proposed(self, key: str | None) -> ChangeState | None:
        """Return the proposed change of a net, if any."""
        changes = self._session.changes.values()
        return next((c for c in changes if key is not None and c.net == key), None)

    @on(BlockList.Opened)
    def opened(self, event: BlockList.Opened) -> None:
        event.stop()
        self.action_switch()

    def _do(self, action: Coroutine[object, object, Outcome], *, turning_on: str | None = None) -> None:
        finish = self._finish(action, turning_on)
        self.app.run_worker(finish, group="decisions", exit_on_error=False)

    async def _finish(self, action: Coroutine[object, object, Outcome], turning_on: str | None) -> None:
        outcome = await outcome_of(lambda: action, "Not switched: ")
        if turning_on is not None and outcome.needs_reason:
            self.post_message(ReasonNeeded(turning_on, outcome.message))
        else:
            self.post_message(ActionDone(outcome))

    @on(ReasonNeeded)
    def ask_reason(self, event: ReasonNeeded) -> None:
        """Request the reason for turning on a net that takes calls from a rule on `anything-else`."""
        event.stop()
        if not self.is_current or event.net not in self._session.nets:
            return

        session = self._session
        switch = partial(self._hub.toggle_net, session.id, event.net, True, by=self._operator)

        def answered(answer: Loosening | None) -> None:
            if answer is not None:
                self._do(switch(reason=answer.reason))

        self.app.push_screen(turn_on_net(session, event.net, event.reason), answered)

    @on(ActionDone)
    def done(self, event: ActionDone) -> None:
        event.stop()
        style = "bold $text-success" if event.outcome.ok else "bold $text-error"
        self.query_one("#said", Static).update(Content.styled(shown(event.outcome.message), style))

    @on(HubMoved)
    async def moved(self) -> None:
        """Update the boxes from the session, no matter who switched its nets."""
        try:
            self._session = await self._hub.session(self._session.id)
        except LookupError as error:
            self.post_message(ActionDone(Outcome(ok=False, message=str(error))))
            return
        self._show()


def _box(key: str, net: NetState, notes: Sequence[str] = ()) -> Block:
    rule = net.net.rule
    active = net.active

    def lines(width: int) -> list[Content]:
        where = f"{place(rule)}  {shown(rule.text.strip())}" if rule else ""
        made = [
            Content.assemble(
                ("[x] " if active else "[ ] ", "$text-success" if active else MUTED),
                (clip(shown(key), width - 4), "bold" if active else MUTED),
            )
        ]
        if where:
            made.append(Content.styled(f"    {clip(where, width - 4)}", MUTED))
        made += [Content.styled(f"    {clip(shown(n), width - 4)}", "$text-warning") for n in notes]
        return made

    return Block(key, (active, *notes), lines)
