"""Result of a what-if analysis: every recorded call after an event, its outcome then and now."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import tzinfo
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import Static
from textual.worker import Worker

from ....engine.backtest import BacktestDivergence, Change
from ....engine.backtest.answers import Judged
from ....engine.backtest.source import judge_rest
from ....engine.backtest.threaded import stream_progress
from ....engine.history.model.events import CallDecided, JournalEvent
from ....engine.history.model.state import SessionState
from ....engine.hub.api import DecisionApi
from ...config.rules_compiler import LANGUAGE, redaction
from ...format.text import MUTED, count, in_rows, shown, wrap_all
from ...terminal.bindings import COPY_KEY, FOCUS_KEYS, key_binding
from ...terminal.keymap import key_of
from ...viewmodels.what_if import WhatIf
from ...widgets.base.bars import KeyBar
from ...widgets.base.blocks import Block, BlockList
from ...widgets.base.cursor_list import GUTTER
from ..common.deferred_paint import SettledScreen
from .what_if_text import NOW, Look, judged_facts, judged_height, judged_lines

SIDES = 2
"""Columns left and right of the sums."""
DIVIDER = "hypothetical from here on: the agent would have acted differently after event {}"


class JudgedScreen(SettledScreen[int], inherit_bindings=False):
    """Decides the calls of `recorded` after event `at` as `chosen`; dismissed with the event to go to.

    `state` is the session after that event. With a `journal` the unmasked events there are used, since
    the events that are shown have their secrets masked.
    """

    CSS_PATH = "what_if_result.tcss"
    VERTICAL_BREAKPOINTS: ClassVar[list[tuple[int, str]] | None] = [(0, "-low"), (16, "-high")]
    BINDINGS: ClassVar[list[BindingType]] = [
        key_binding("d", "only", "differences", "judged.only", "Show only what differs, or all"),
        key_binding("n", "next(1)", "next difference", "judged.next", "Go to the next difference"),
        key_binding(
            "N,p", "next(-1)", "previous difference", "judged.last", "The previous one", show=False
        ),
        key_binding("escape", "leave", "back", "judged.leave", "Stop judging; then back to the replay"),
        *FOCUS_KEYS,
        COPY_KEY,
    ]

    @dataclass
    class Found(Message):
        """More calls were decided; with `finished` there are no more."""

        found: Sequence[BacktestDivergence]
        finished: bool
        error: str = ""

    def __init__(
        self,
        recorded: Sequence[JournalEvent],
        at: int,
        state: SessionState,
        chosen: WhatIf,
        *,
        journal: DecisionApi | None = None,
        zone: tzinfo | None = None,
    ) -> None:
        super().__init__()
        self._recorded = recorded
        self._at = at
        self._state = state
        self._chosen = chosen
        self._journal = journal
        self._zone = zone
        self._work: Worker[None] | None = None
        self._cancelled = False
        self._total = 0
        self._found: list[BacktestDivergence] = []
        self._first: BacktestDivergence | None = None
        self._changes: Counter[Change] = Counter()
        self._border: BacktestDivergence | None = None
        self._after = at
        self._unsure = 0
        self._finished = False
        self._error = ""
        self._only = False

    def compose(self) -> ComposeResult:
        dot = (" · ", MUTED)
        yield Static(
            Content.assemble(
                ("what if ", "bold"),
                (shown(self._state.id), "bold $text-primary"),
                dot,
                f"after event {self._at}",
                dot,
                (shown(self._chosen.words(self._state)), ""),
            ),
            id="title",
        )
        yield Static("", id="sums")
        yield BlockList(id="calls")
        yield Static("", id="facts")
        yield KeyBar()

    def on_mount(self) -> None:
        self.query_one(BlockList).focus()
        self._sum()
        self._work = self.run_worker(self._judge(), group="judged", exit_on_error=False)

    def on_resize(self) -> None:
        self._sum()
        self._describe()

    # Deciding

    async def _judge(self) -> None:
        """Run the analysis in a worker; messages report results several times a second."""
        error = ""
        try:
            self._total = await asyncio.to_thread(self._count_calls)
            async with aclosing(self._parts()) as parts:
                async for part in parts:
                    self.post_message(self.Found(part.found, finished=False))
        except Exception as failed:
            error = str(failed) or type(failed).__name__
        self.post_message(self.Found((), True, error))

    def _count_calls(self) -> int:
        rest = (self._recorded[n].body for n in range(self._at, len(self._recorded)))
        return sum(type(body) is CallDecided for body in rest)

    def _parts(self) -> AsyncGenerator[Judged, None]:
        active, rules = self._chosen.active, self._chosen.texts
        if self._journal is None:
            recorded, at = self._recorded, self._at
            return stream_progress(
                lambda parts: judge_rest(parts, recorded, at, active, rules, LANGUAGE, redaction())
            )
        until = len(self._recorded)
        return self._journal.what_if(self._state.id, self._at, until=until, active=active, rules=rules)

    @on(Found)
    def take(self, message: Found) -> None:
        """Add new results; rows that are already shown stay as they are."""
        calls = self.query_one(BlockList)
        here, first = calls.current, self._first
        blocks: list[Block] = []
        for judged in message.found:
            self._count(judged)
            blocks += self._lines_of(judged)
        calls.show(blocks, keep=len(calls.blocks))
        if first is None and self._first is not None and here in (None, str(self._found[0].event)):
            calls.select(str(self._first.event))
        self._finished, self._error = message.finished or self._cancelled, message.error
        self._sum()
        self._describe()

    def _count(self, judged: BacktestDivergence) -> None:
        if judged.hypothetical:
            if not self._unsure:
                self._border = judged
                self._after = self._found[-1].event if self._found else self._at
            self._unsure += 1
        if self._first is None and judged.change != "same":
            self._first = judged
        self._changes[judged.change] += 1
        self._found.append(judged)

    # Painting

    def _lines_of(self, judged: BacktestDivergence) -> list[Block]:
        """Return a call's block, preceded by a divider where the rest becomes hypothetical."""
        blocks = [_divider(self._after)] if judged is self._border else []
        if not self._only or judged.change != "same":
            blocks.append(self._block(judged))
        return blocks

    def _block(self, judged: BacktestDivergence) -> Block:
        first, zone = judged is self._first, self._zone
        return Block(
            str(judged.event),
            first,
            lambda width: judged_lines(judged, width, first=first, zone=zone),
            height=lambda width: judged_height(judged, width),
        )

    def _sum(self) -> None:
        judged = len(self._found)
        calls = Content.styled(count(judged, "call"), "bold")
        pieces: list[Content] = [calls]
        if self._error:
            pieces = [Content.styled(f"✗ {shown(self._error)}", "$text-error")]
        elif self._finished and judged and self._first is None and not self._cancelled:
            pieces.append(Content.styled("nothing would have gone differently", "bold $text-success"))
        else:
            pieces = [Content.assemble(calls, (f", {self._unsure:,} of them hypothetical", MUTED))]
            newly: dict[Change, Look] = {
                "blocked": NOW["block"],
                "asked": NOW["ask"],
                "allowed": NOW["allow"],
            }
            for kind, look in newly.items():
                number = self._changes[kind]
                style = look.style if number else MUTED
                pieces.append(Content.styled(f"{look.symbol} {number:,} newly {kind}", style))
        if not self._finished:
            key = key_of(JudgedScreen, "judged.leave")
            of = f", {judged:,} of {self._total:,}" if self._total else ""
            pieces.append(Content.styled(f"judging{of}   {key} cancels", "$text-accent"))
        elif self._cancelled:
            of = f", {judged:,} of {self._total:,} judged" if self._total else ""
            pieces.append(Content.styled(f"cancelled{of}", "$text-warning"))
        # Lines break between counts, not inside one. An error is plain text and wraps by itself.
        lines = pieces if self._error else in_rows(pieces, max(20, self.size.width - SIDES))
        self.query_one("#sums", Static).update(Content("\n").join(lines))
        self.query_one(BlockList).say_when_empty(self._silence())

    def _silence(self) -> str:
        """Return the text for an empty list. *None differs* is shown only when all calls were decided."""
        if self._found:
            return (
                f"No call was judged differently. Press {key_of(JudgedScreen, 'judged.only')} to see all."
            )
        if self._error or self._cancelled or not self._finished:
            return ""
        return "No call was recorded after this event."

    @on(BlockList.Moved)
    def moved(self) -> None:
        self._describe()

    def _describe(self) -> None:
        """Show the call under the cursor in full."""
        current = self.query_one(BlockList).current
        judged = next((j for j in self._found if str(j.event) == current), None)
        width = max(20, self.size.width - GUTTER)
        facts = [] if judged is None else judged_facts(judged, width)
        self.query_one("#facts", Static).update(Content("\n").join(facts))

    # Actions

    def action_only(self) -> None:
        """Toggle between all calls and those that differ."""
        self._only = not self._only
        calls = self.query_one(BlockList)
        calls.show([block for judged in self._found for block in self._lines_of(judged)])
        self._describe()

    def action_next(self, step: int) -> None:
        """Move to the next or previous call that is decided differently."""
        calls = self.query_one(BlockList)
        here = int(calls.current) if calls.current is not None else 0
        different = [j.event for j in self._found if j.change != "same"]
        if step > 0:
            there = next((seq for seq in different if seq > here), None)
        else:
            there = next((seq for seq in reversed(different) if seq < here), None)
        if there is None:
            self.notify("No difference after this call" if step > 0 else "No difference before this call")
        elif calls.select(str(there)):
            self._describe()

    @on(BlockList.Opened)
    def go(self, message: BlockList.Opened) -> None:
        """Go to the call's event in the replay."""
        if self.is_current and message.key.isdecimal():
            self.dismiss(int(message.key))

    def action_leave(self) -> None:
        """Cancel a running analysis, else leave the screen."""
        if not self._finished and self._work is not None:
            self._work.cancel()
            self._cancelled = self._finished = True
            self._sum()
        elif self.is_current:
            self.dismiss(None)


def _divider(after: int) -> Block:
    text = DIVIDER.format(after)

    def lines(width: int) -> list[Content]:
        return [
            Content.styled(f"── {row.rstrip()} ".ljust(width, "─"), "$text-warning")
            for row in wrap_all([text], width - 4)
        ]

    return Block("hypothetical", after, lines, selectable=False)
