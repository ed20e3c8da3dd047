"""Approval statistics: costs for operators, by rule and by operator, and rules that could ask less."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.message import Message

from ....engine.backtest.answers import Saved
from ....engine.history.decisions.approval_stats import ENOUGH, Fatigue, RuleFatigue, Tally
from ....engine.hub.api import DecisionApi
from ...format.approval_stats import (
    ALWAYS,
    WARNING,
    heading,
    row,
    rule_notes,
    rule_text,
    saved_lines,
    total_line,
)
from ...format.text import MUTED, indented, shown, styled_rows, wrap
from ...terminal.bindings import COPY_KEY, FOCUS_KEYS, key_binding
from ...widgets.base.bars import KeyBar
from ...widgets.base.blocks import Block, BlockList
from ...widgets.base.title_bar import ScreenBar
from ..common.deferred_paint import SettledScreen

PERIODS: tuple[tuple[str, timedelta | None], ...] = (
    ("last 30 days", timedelta(days=30)),
    ("all", None),
    ("last 24 h", timedelta(hours=24)),
    ("last 7 days", timedelta(days=7)),
)
ROOMS = (None, 60, 45, 30, 15)
"""Widths in cells for which the totals are worded. The title bar shows the longest text that fits."""
TITLE = "bold $text-primary"


class FatigueScreen(SettledScreen[None], inherit_bindings=False):
    """Approval statistics of `source`, counted when the screen is opened. `zone` is the operator's."""

    CSS_PATH = "approval_stats.tcss"
    VERTICAL_BREAKPOINTS: ClassVar[list[tuple[int, str]] | None] = [(0, "-low"), (18, "-high")]
    BINDINGS: ClassVar[list[BindingType]] = [
        key_binding("t", "period", "period", "fatigue.period", "Count over another period"),
        key_binding("f5", "reload", "reload", "fatigue.reload", "Count again"),
        key_binding("escape", "leave", "back", "fatigue.back", "Back to the decisions"),
        *FOCUS_KEYS,
        COPY_KEY,
    ]

    @dataclass
    class Counted(Message, bubble=False):
        """Numbers for the period requested in request number `turn`."""

        turn: int
        found: Fatigue

    @dataclass
    class Suggested(Message, bubble=False):
        """A rule that could ask less; without a rule, the search is finished."""

        turn: int
        rule: RuleFatigue | None = None
        saved: Saved | None = None

    @dataclass
    class Failed(Message, bubble=False):
        """The numbers could not be counted."""

        turn: int
        error: str

    def __init__(
        self, source: DecisionApi, *, clock: Callable[[], datetime], zone: tzinfo | None = None
    ) -> None:
        super().__init__()
        self._source = source
        self._clock = clock
        self._zone = zone
        self._period = 0
        self._turn = 0
        self._found: Fatigue | None = None
        self._less: list[tuple[RuleFatigue, Saved]] = []
        self._looking = True
        self._problem = ""

    def compose(self) -> ComposeResult:
        yield ScreenBar("approvals", id="title")
        yield BlockList(id="numbers", cursor=False)
        yield KeyBar()

    def on_mount(self) -> None:
        self.query_one(BlockList).focus()
        self.action_reload()

    # Counting

    def action_reload(self) -> None:
        """Count again."""
        self._turn += 1
        self._found, self._less, self._looking, self._problem = None, [], True, ""
        self.run_worker(self._count(self._turn), group="fatigue", exclusive=True, exit_on_error=False)
        self._show()

    def action_period(self) -> None:
        """Switch to the next period."""
        self._period = (self._period + 1) % len(PERIODS)
        self.action_reload()

    async def _count(self, turn: int) -> None:
        length = PERIODS[self._period][1]
        since = None if length is None else self._clock() - length
        try:
            async with aclosing(self._source.approval_statistics(since)) as parts:
                async for part in parts:
                    if part.found is not None:
                        self.post_message(self.Counted(turn, part.found))
                    else:
                        self.post_message(self.Suggested(turn, part.rule, part.what))
            self.post_message(self.Suggested(turn))
        except Exception as error:
            self.post_message(self.Failed(turn, str(error) or type(error).__name__))

    @on(Counted)
    def counted(self, message: Counted) -> None:
        if message.turn == self._turn:
            self._found = message.found
            self._show()

    @on(Suggested)
    def suggested(self, message: Suggested) -> None:
        if message.turn != self._turn:
            return
        if message.rule is None or message.saved is None:
            self._looking = False
        else:
            self._less.append((message.rule, message.saved))
        self._show()

    @on(Failed)
    def failed(self, message: Failed) -> None:
        if message.turn == self._turn:
            self._problem, self._looking = message.error, False
            self._show()

    # Painting

    def on_resize(self) -> None:
        self._show()

    def _show(self) -> None:
        found = self._found
        period = Content.styled(f"{PERIODS[self._period][0]} · ", MUTED)
        if found is None:
            totals = ["" if self._problem else "counting…"]
        else:
            totals = [total_line(found, room) for room in ROOMS]
        self.query_one(ScreenBar).say(*(period + each for each in totals))
        self.query_one(BlockList).show(list(self._blocks()))

    def _blocks(self) -> list[Block]:
        if self._problem:
            text = f"✗ {shown(self._problem)}"
            return [Block("problem", text, lambda width: styled_rows([text], width, "$text-error"))]
        found = self._found
        if found is None:
            return []
        if not found.rules:
            text = "Nobody was asked in this period."
            return [Block("none", text, lambda width: styled_rows([text], width, MUTED))]
        stamp = self._turn, self._looking, len(self._less)
        return [
            Block("rules", stamp, lambda width: _rules(found, width)),
            Block("operators", stamp, lambda width: _operators(found, width)),
            Block("less", stamp, lambda width: self._suggestions(found, width)),
        ]

    def _suggestions(self, found: Fatigue, width: int) -> list[Content]:
        made = [Content(""), Content.styled("Suggestions", TITLE)]
        for rule, saved in self._less:
            made += styled_rows([rule_text(rule)], width, "bold")
            made += indented(styled_rows(list(saved_lines(rule, saved)), width - 2))
        if self._looking:
            made.append(Content.styled("judging the recorded calls again…", MUTED))
        elif self._less:
            made += styled_rows([WARNING], width, "$text-warning")
        else:
            text = (
                f"No rule of less than high risk was approved {ENOUGH} times and never denied, edited or "
                "left to expire, where a grant or a condition would have saved requests."
            )
            made += styled_rows([text], width, MUTED)
        return made


def _rules(found: Fatigue, width: int) -> list[Content]:
    made = [_line(heading("By rule", width), TITLE, width)]
    for rule in found.rules:
        line = row(shown(rule.net), rule.tally, width, always=rule.always)
        made.append(_numbers(line, rule.tally, width, always=rule.always))
        text = rule_text(rule) + rule_notes(rule)
        made += [Content.styled(f"  {each}", MUTED) for each in wrap(text, width - 2)]
    return made


def _operators(found: Fatigue, width: int) -> list[Content]:
    made = [Content(""), _line(heading("By operator", width), TITLE, width)]
    if not found.operators:
        made.append(Content.styled("Nobody has decided anything yet.", MUTED))
    for operator in found.operators:
        made.append(_numbers(row(shown(operator.name), operator.tally, width), operator.tally, width))
    return made


def _line(text: str, style: str, width: int) -> Content:
    return Content.styled(text, style).truncate(width, ellipsis=True)


def _numbers(text: str, tally: Tally, width: int, *, always: bool = False) -> Content:
    """Return a row; signs of fatigue are bold: *always yes*, and half of the answers too quick."""
    line = Content(text)
    if always:
        at = text.rindex(ALWAYS)
        line = line.stylize("bold $text-warning", at, at + len(ALWAYS))
    if tally.decided and tally.quick * 2 >= tally.decided:
        quick = f"{tally.quick:,}"
        at = len(text) - 14 - len(quick)
        line = line.stylize("bold $text-warning", at, at + len(quick))
    return line.truncate(width, ellipsis=True)
