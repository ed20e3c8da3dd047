"""The answer to a what if: every recorded call after an event, what became of it and what would now."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Static
from textual.worker import get_current_worker

from ...engine.backtest import Change, Judge, Judgement, fork
from ...engine.history.decision_source import DecisionSource
from ...engine.history.events import CallDecided, JournalEvent
from ...engine.history.queries import open_reader
from ...engine.history.state import SessionState
from ..judged_text import NOW, judged_facts, judged_height, judged_lines, masked
from ..keymap import key_of
from ..text import shown, wrap_all
from ..what_if import WhatIf
from ..widgets.bars import KeyBar
from ..widgets.blocks import Block, BlockList
from ..widgets.cursor_list import GUTTER
from ..words import count
from .keys import COPY_KEY, FOCUS_KEYS

TELLS_PER_SECOND = 4
MUTED = "$foreground 60%"
DIVIDER = "hypothetical from here on: the agent would have gone on differently after event {}"


class JudgedScreen(Screen[int], inherit_bindings=False):
    """Judges the calls of `recorded` after event `at` as `chosen`; answers with the event to go to.

    `state` is the session after that event. With a `journal` its events are judged as they are there:
    those that are shown have their secrets masked.
    """

    CSS_PATH = "judged.tcss"
    VERTICAL_BREAKPOINTS: ClassVar[list[tuple[int, str]]] = [(0, "-low"), (16, "-high")]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "only", "differences", id="judged.only", tooltip="Show only what differs, or all"),
        Binding("n", "next(1)", "next difference", id="judged.next", tooltip="Go to the next difference"),
        Binding(
            "N,p", "next(-1)", "last difference", show=False, id="judged.last", tooltip="The one before"
        ),
        Binding(
            "escape", "leave", "back", id="judged.leave", tooltip="Stop judging; then back to the replay"
        ),
        *FOCUS_KEYS,
        COPY_KEY,
    ]

    @dataclass
    class Judged(Message):
        """More calls were judged; with `finished` there are no more."""

        found: Sequence[Judgement]
        finished: bool
        error: str = ""

    def __init__(
        self,
        recorded: Sequence[JournalEvent],
        at: int,
        state: SessionState,
        chosen: WhatIf,
        *,
        journal: DecisionSource | None = None,
        zone: tzinfo | None = None,
    ) -> None:
        super().__init__()
        self._recorded = recorded
        self._at = at
        self._state = state
        self._chosen = chosen
        self._journal = journal
        self._zone = zone
        self._stop = threading.Event()
        self._total = 0
        self._found: list[Judgement] = []
        self._first: Judgement | None = None
        self._changes: Counter[Change] = Counter()
        self._border: Judgement | None = None
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
        yield BlockList(id="calls", empty="No call was recorded after this event.")
        yield Static("", id="facts")
        yield KeyBar()

    def on_mount(self) -> None:
        self.query_one(BlockList).focus()
        self._sum()
        self._judge()

    def on_unmount(self) -> None:
        self._stop.set()

    def on_resize(self) -> None:
        self._describe()

    # Judging

    @work(thread=True, group="judged", exit_on_error=False)
    def _judge(self) -> None:
        """Judge in this thread; messages bring what was judged, some times a second."""
        batch: list[Judgement] = []
        told = time.monotonic()
        worker = get_current_worker()
        rest = (self._recorded[n].body for n in range(self._at, len(self._recorded)))
        self._total = sum(type(body) is CallDecided for body in rest)
        try:
            trial = self._chosen.trial(self._state)
            recording = fork(self._events(), self._at, trial)
            for judged in Judge(trial).judge(recording.items, recording.start):
                batch.append(judged if self._journal is None else masked(judged, self._journal.redaction))
                if self._stop.is_set() or worker.is_cancelled:
                    break
                if time.monotonic() - told >= 1 / TELLS_PER_SECOND:
                    self.post_message(self.Judged(tuple(batch), finished=False))
                    batch.clear()
                    told = time.monotonic()
        except Exception as error:
            self.post_message(self.Judged(tuple(batch), True, str(error) or type(error).__name__))
            return
        self.post_message(self.Judged(tuple(batch), finished=True))

    def _events(self) -> Iterable[JournalEvent]:
        if self._journal is None:
            return self._recorded
        return open_reader(self._journal.database).events(self._state.id, limit=len(self._recorded))

    @on(Judged)
    def take(self, message: Judged) -> None:
        """Add what was judged; what is shown already stays as it is."""
        calls = self.query_one(BlockList)
        here, first = calls.current, self._first
        blocks: list[Block] = []
        for judged in message.found:
            self._count(judged)
            blocks += self._lines_of(judged)
        calls.show(blocks, keep=len(calls.blocks))
        if first is None and self._first is not None and here in (None, str(self._found[0].call.seq)):
            calls.select(str(self._first.call.seq))
        self._finished, self._error = message.finished, message.error
        self._sum()
        self._describe()

    def _count(self, judged: Judgement) -> None:
        if judged.hypothetical:
            if not self._unsure:
                self._border = judged
                self._after = self._found[-1].call.seq if self._found else self._at
            self._unsure += 1
        if self._first is None and judged.change != "same":
            self._first = judged
        self._changes[judged.change] += 1
        self._found.append(judged)

    # Painting

    def _lines_of(self, judged: Judgement) -> list[Block]:
        """A call's block, with a line before it where the rest begins to be hypothetical."""
        blocks = [_divider(self._after)] if judged is self._border else []
        if not self._only or judged.change != "same":
            blocks.append(self._block(judged))
        return blocks

    def _block(self, judged: Judgement) -> Block:
        first, zone = judged is self._first, self._zone
        return Block(
            str(judged.call.seq),
            first,
            lambda width: judged_lines(judged, width, first=first, zone=zone),
            height=lambda width: judged_height(judged, width),
        )

    def _sum(self) -> None:
        judged = len(self._found)
        parts: list[tuple[str, str]] = [(count(judged, "call"), "bold")]
        if self._error:
            parts = [(f"✗ {shown(self._error)}", "$text-error")]
        elif self._finished and judged and self._first is None and not self._stop.is_set():
            parts.append(("   nothing would have gone differently", "bold $text-success"))
        else:
            parts.append((f", {self._unsure:,} of them hypothetical", MUTED))
            for kind, look in (
                ("blocked", NOW["block"]),
                ("asked", NOW["ask"]),
                ("allowed", NOW["allow"]),
            ):
                number = self._changes[kind]
                parts.append(
                    (f"   {look.symbol} {number:,} newly {kind}", look.style if number else MUTED)
                )
        if not self._finished:
            key = key_of(JudgedScreen, "judged.leave")
            parts.append((f"   judging, {judged:,} of {self._total:,}   {key} cancels", "$text-accent"))
        elif self._stop.is_set():
            parts.append((f"   cancelled, {judged:,} of {self._total:,} judged", "$text-warning"))
        self.query_one("#sums", Static).update(Content.assemble(*parts))

    @on(BlockList.Moved)
    def moved(self) -> None:
        self._describe()

    def _describe(self) -> None:
        """The call under the cursor in full lines."""
        current = self.query_one(BlockList).current
        judged = next((j for j in self._found if str(j.call.seq) == current), None)
        width = max(20, self.size.width - GUTTER)
        facts = [] if judged is None else judged_facts(judged, width)
        self.query_one("#facts", Static).update(Content("\n").join(facts))

    # What the operator does

    def action_only(self) -> None:
        """Only what differs, or all."""
        self._only = not self._only
        calls = self.query_one(BlockList)
        calls.show([block for judged in self._found for block in self._lines_of(judged)])
        self._describe()

    def action_next(self, step: int) -> None:
        """To the next call that is judged differently, or the one before."""
        calls = self.query_one(BlockList)
        here = int(calls.current) if calls.current is not None else 0
        different = [j.call.seq for j in self._found if j.change != "same"]
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
        """Stop judging while that is under way, else go back."""
        if not self._finished and not self._stop.is_set():
            self._stop.set()
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
