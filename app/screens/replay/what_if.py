"""Dialog of a what-if analysis: the choice of nets that decide the rest of a recorded session."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from ....engine.history.model.records import NetRecord
from ....engine.history.model.state import SessionState
from ....rules import RuleSet
from ...config.rules_compiler import rules_of_files
from ...format.text import MUTED, pad, place, shown, shown_lines, width_of
from ...terminal.bindings import key_binding
from ...terminal.charset import to_charset
from ...viewmodels.backtest_job import rules_files
from ...viewmodels.what_if import ALWAYS, OTHER, OWN, WhatIf, active_at, nets_of
from ...widgets.base.blocks import Block, BlockList
from ..common.panel import Panel

BOX = 4
"""Width of `[x] ` in cells."""


class WhatIfDialog(Panel[WhatIf]):
    """Choice of nets that decide the calls after event `at`; `state` is the session at that event."""

    DEFAULT_CSS = """
    WhatIfDialog > .frame { max-width: 96; }
    WhatIfDialog .field { height: 1; margin-bottom: 1; }
    WhatIfDialog .label { width: 7; color: $text-primary; text-style: bold; }
    WhatIfDialog Input, WhatIfDialog Input:focus {
        width: 1fr; height: 1; border: none; padding: 0; background: $boost;
    }
    WhatIfDialog #said { height: auto; max-height: 8; overflow-y: auto; margin-top: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        key_binding("space", "switch", "switch", "what-if.switch", "Switch this rule on or off"),
        key_binding(
            "ctrl+s,f5",
            "judge",
            "judge",
            "what-if.judge",
            "Judge the recorded calls after this event by these rules",
        ),
    ]

    @dataclass
    class Compiled(Message):
        """The rules files were read: the rule set, or an error message."""

        text: str
        rules: RuleSet | str
        judge: bool

    def __init__(self, state: SessionState, at: int) -> None:
        super().__init__()
        self._state = state
        self._at = at
        self._rules: RuleSet | None = None
        self._read = ""
        self._nets = nets_of(state, None)
        self._active = set(active_at(state, None))

    def compose(self) -> ComposeResult:
        title = f"What if, after event {self._at} of {shown(self._state.id)}"
        keys = ("what-if.switch", "switch"), ("what-if.judge", "judge"), ("panel.close", "close")
        with self.panel_frame(title, *keys):
            names = Input(placeholder="its own rules; or name rules files, enter reads them", id="rules")
            yield Horizontal(Static("Rules", classes="label"), names, classes="field")
            yield BlockList(id="boxes", empty="There are no rules: every call runs.")
            yield Static("", id="said")

    def on_mount(self) -> None:
        self._show()
        self.query_one(BlockList).focus()

    def _show(self) -> None:
        longest = max((width_of(shown(key)) for key in self._nets), default=0)
        self.query_one(BlockList).show(
            [_box(key, net, key in self._active, longest) for key, net in self._nets.items()]
        )
        how = OWN if self._rules is None else OTHER
        self._say(f"{how} {ALWAYS}", MUTED)

    def _say(self, text: str, style: str) -> None:
        self.query_one("#said", Static).update(Content.styled("\n".join(shown_lines(text)), style))

    def action_switch(self) -> None:
        """Switch the net under the cursor."""
        key = self.query_one(BlockList).current
        if key is not None:
            self._active ^= {key}
            self._show()

    @on(BlockList.Opened)
    def opened(self, message: BlockList.Opened) -> None:
        message.stop()
        self.action_switch()

    @on(Input.Submitted)
    def read(self, message: Input.Submitted) -> None:
        message.stop()
        self._compile(judge=False)

    def action_judge(self) -> None:
        """Close with the choice. Rules files that were typed but not read are read first."""
        if self.query_one(Input).value.strip() != self._read:
            self._compile(judge=True)
        elif self.is_current:
            active = tuple(key for key in self._nets if key in self._active)
            self.dismiss(WhatIf(active, self._rules))

    def _compile(self, *, judge: bool) -> None:
        text = self.query_one(Input).value.strip()
        if text:
            self._say("reading the rules…", MUTED)
            self.run_worker(self._load(text, judge), exclusive=True, exit_on_error=False)
        else:
            self._take("", None, judge)

    async def _load(self, text: str, judge: bool) -> None:
        try:
            rules: RuleSet | str = await asyncio.to_thread(lambda: rules_of_files(*rules_files(text)))
        except Exception as error:
            rules = str(error) or type(error).__name__
        self.post_message(self.Compiled(text, rules, judge))

    @on(Compiled)
    def show_compiled(self, message: Compiled) -> None:
        """Offer the nets that were read, or show the error in the files."""
        if isinstance(message.rules, str):
            self._say(
                "\n".join(row for row in f"{to_charset('✗')} {message.rules}".split("\n") if row),
                "$text-error",
            )
            self.query_one(Input).focus()
        elif self.query_one(Input).value.strip() == message.text:
            self._take(message.text, message.rules, message.judge)

    def _take(self, text: str, rules: RuleSet | None, judge: bool) -> None:
        self._read, self._rules = text, rules
        self._nets = nets_of(self._state, rules)
        self._active = set(active_at(self._state, rules))
        self._show()
        self.query_one(BlockList).focus()
        if judge:
            self.action_judge()


def _box(key: str, net: NetRecord, active: bool, longest: int) -> Block:
    """Return the row of a net. Its name is not cut off in favour of the rule's text, which is similar."""
    rule = net.rule
    where = f"  {place(rule)}  {shown(rule.text.strip())}" if rule else ""

    def lines(width: int) -> list[Content]:
        name = min(longest, width - BOX)
        return [
            Content.assemble(
                ("[x] " if active else "[ ] ", "$text-success" if active else MUTED),
                (pad(shown(key), name), "bold" if active else MUTED),
                (where, MUTED),
            ).truncate(width, ellipsis=True)
        ]

    return Block(key, (active, where, longest), lines)
