"""Switching a session's nets on and off."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from ...engine.history.state import NetState, SessionState
from ...engine.hub import Outcome
from ..door import Door
from ..keymap import hints
from ..messages import ActionDone, HubMoved
from ..text import clip, place, shown
from ..widgets.blocks import Block, BlockList
from .panel import Panel


class SwitchNets(Panel[None]):
    """The nets of `session` with their boxes; `space` or `enter` switches the one under the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "switch", "switch", id="nets.switch", tooltip="Switch this net on or off"),
    ]

    DEFAULT_CSS = """
    SwitchNets > .frame { max-width: 84; }
    SwitchNets #said { height: auto; max-height: 3; padding: 0 2; margin-top: 1; }
    """

    def __init__(self, hub: Door, session: SessionState, *, operator: str) -> None:
        super().__init__()
        self._hub = hub
        self._session = session
        self._operator = operator

    def compose(self) -> ComposeResult:
        with Vertical(classes="frame") as frame:
            frame.border_title = Content(f"Nets of {shown(self._session.agent or self._session.id)}")
            frame.border_subtitle = hints(self, ("nets.switch", "switches"), ("panel.close", "closes"))
            yield BlockList(id="boxes", empty="This session has no nets.")
            yield Static(
                Content.styled(
                    "A net that is off keeps its tokens and blocks nothing.", "$foreground 60%"
                ),
                id="said",
            )

    def on_mount(self) -> None:
        self._show()
        self.query_one(BlockList).focus()

    def _show(self) -> None:
        nets = self._session.nets.items()
        self.query_one(BlockList).show([_box(key, net) for key, net in nets])

    def action_switch(self) -> None:
        """Switch the net under the cursor; the hub's sentence says what became of it."""
        key = self.query_one(BlockList).current
        if key is not None:
            active = not self._session.nets[key].active
            self.app.run_worker(self._switch(key, active), group="decisions", exit_on_error=False)

    @on(BlockList.Opened)
    def opened(self, event: BlockList.Opened) -> None:
        event.stop()
        self.action_switch()

    async def _switch(self, key: str, active: bool) -> None:
        try:
            outcome = await self._hub.toggle_net(self._session.id, key, active, by=self._operator)
        except Exception as error:
            outcome = Outcome(ok=False, message=f"Not switched: {error}")
        self.post_message(ActionDone(outcome))

    @on(ActionDone)
    def done(self, event: ActionDone) -> None:
        event.stop()
        style = "bold $text-success" if event.outcome.ok else "bold $text-error"
        self.query_one("#said", Static).update(Content.styled(shown(event.outcome.message), style))

    @on(HubMoved)
    async def moved(self) -> None:
        """Boxes follow the session, whoever switches."""
        try:
            self._session = await self._hub.session(self._session.id)
        except LookupError as error:
            self.post_message(ActionDone(Outcome(ok=False, message=str(error))))
            return
        self._show()


def _box(key: str, net: NetState) -> Block:
    rule = net.net.rule
    active = net.active

    def lines(width: int) -> list[Content]:
        where = f"{place(rule)}  {shown(rule.text.strip())}" if rule else ""
        made = [
            Content.assemble(
                ("[x] " if active else "[ ] ", "$text-success" if active else "$foreground 60%"),
                (clip(shown(key), width - 4), "bold" if active else "$foreground 60%"),
            )
        ]
        if where:
            made.append(Content.styled(f"    {clip(where, width - 4)}", "$foreground 60%"))
        return made

    return Block(key, active, lines)
