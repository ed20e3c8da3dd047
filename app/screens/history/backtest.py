"""The backtest screen: a worker decides recorded calls again under other rules."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import tzinfo
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static
from textual.worker import Worker

from ....engine.backtest import SessionReport, Totals
from ....engine.backtest.answers import Backtested
from ....engine.core.clock import Clock, utc_now
from ....engine.hub.api import DecisionApi
from ...format.text import MUTED, shown, shown_lines, styled_rows
from ...sources.messages import ReplayChosen
from ...terminal.bindings import COPY_KEY, FOCUS_KEYS, key_binding
from ...terminal.keymap import key_of
from ...viewmodels.backtest_job import Scope, backtest, rules_files
from ...widgets.base.bars import KeyBar
from ...widgets.base.blocks import Block, BlockList
from ...widgets.base.title_bar import ScreenBar
from ...widgets.inputs.choice import Choice
from ..common.deferred_paint import SettledScreen
from ..replay.what_if_text import report_lines, totals_lines

BAR = 24
LAST_DAY = "24h"
HINT = "Name the rules files to judge by, and press enter. Nothing runs and nothing is changed."
NONE_DIVERGES = "No session diverges: under these rules every recorded call would end as it did."
NO_CALLS = "No call is recorded in these sessions, so there is nothing to judge."


class BacktestScreen(SettledScreen[None], inherit_bindings=False):
    """Backtest of a `journal`. `session` is the session chosen where this screen was opened.

    `rules` are the initial rules files. `clock` is the reference for time spans, `zone` is the operator's
    time zone.
    """

    CSS_PATH = "backtest.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        key_binding("f5", "run", "judge", "backtest.run", "Judge the recorded calls by these rules"),
        key_binding("r", "rules", "rules", "backtest.rules", "Name other rules files"),
        key_binding("s", "scope", "sessions", "backtest.scope", "Choose other sessions to judge"),
        key_binding(
            "escape",
            "leave",
            "back",
            "backtest.leave",
            "Stop judging and keep the results so far; then go back",
        ),
        *FOCUS_KEYS,
        COPY_KEY,
    ]

    @dataclass
    class Progressed(Message):
        """More calls have been judged."""

        run: int
        part: Backtested

    @dataclass
    class Failed(Message):
        """The backtest could not start or stopped with an error."""

        run: int
        error: str

    def __init__(
        self,
        journal: DecisionApi,
        session: str | None = None,
        rules: Sequence[str] = (),
        *,
        clock: Clock = utc_now,
        zone: tzinfo | None = None,
    ) -> None:
        super().__init__()
        self._journal = journal
        self._session = session
        self._rules = " ".join(f'"{name}"' if " " in name or "," in name else name for name in rules)
        self._clock = clock
        self._zone = zone
        self._run = 0
        self._work: Worker[None] | None = None
        self._reports: list[SessionReport] = []
        self._totals = Totals()
        self._progress: tuple[int, int] | None = None
        self._error = ""
        self._judged_selection: tuple[str, Scope] | None = None

    def compose(self) -> ComposeResult:
        this = [] if self._session is None else [("this", "this session")]
        opened = "" if self._session is None else f"this session: {shown(self._session)}"
        title = ScreenBar("backtest", id="title")
        title.say(Content.styled(opened, MUTED))
        yield title
        with Horizontal(classes="field"):
            yield Static("Rules", classes="label")
            yield Input(self._rules, placeholder="rules files", id="rules")
        with Horizontal(classes="field"):
            yield Static("Over", classes="label")
            yield Choice([*this, ("all", "all sessions"), ("since", "since")], id="scope")
            yield Input(LAST_DAY, placeholder="24h, 7d or 2026-11-20", id="since")
        yield Static(Content.styled(HINT, MUTED), id="state")
        with Vertical(id="found"):
            yield BlockList(id="report")
        yield KeyBar()

    def on_mount(self) -> None:
        self.query_one("#since").display = False
        self.query_one("#rules").focus()

    def on_unmount(self) -> None:
        self._cancel()

    @property
    def judging(self) -> bool:
        """Return whether a backtest is running."""
        return self._work is not None

    @property
    def scope(self) -> Scope:
        """Return the chosen sessions."""
        match self.query_one(Choice).chosen:
            case "this":
                return Scope(session=self._session)
            case "since":
                return Scope(since=self.query_one("#since", Input).value)
            case _:
                return Scope()

    # Actions

    @property
    def _selection(self) -> tuple[str, Scope]:
        """Return the input of the next backtest: the rules as typed, and the sessions."""
        return self.query_one("#rules", Input).value.strip(), self.scope

    @on(Choice.Changed)
    def show_since(self, message: Choice.Changed) -> None:
        self.query_one("#since").display = message.chosen == "since"
        self.tell_state()

    @on(Input.Changed)
    def tell_state(self) -> None:
        """Show the state, so that earlier findings are not mistaken for those of the current input."""
        self.query_one("#state", Static).update(self._state())

    @on(Input.Submitted)
    def submit(self) -> None:
        self.action_run()

    def action_rules(self) -> None:
        """Focus the field for rules files."""
        self.query_one("#rules").focus()

    def action_scope(self) -> None:
        """Focus the choice of sessions."""
        self.query_one(Choice).focus()

    def action_run(self) -> None:
        """Start a new backtest; a running one is cancelled."""
        self._cancel()
        self._run += 1
        self._reports, self._totals, self._progress, self._error = [], Totals(), None, ""
        try:
            files = rules_files(self.query_one("#rules", Input).value)
        except ValueError as error:
            self._fail(str(error))
            return
        self._judged_selection = self._selection
        self.query_one(BlockList).scroll_to(y=0, animate=False)
        judging = self._judge(self._run, files, self.scope)
        self._work = self.run_worker(judging, group="backtest", exit_on_error=False)
        self._show()
        self.query_one(BlockList).focus()

    def action_leave(self) -> None:
        """Cancel a running backtest, else leave the screen."""
        if self.judging:
            self._cancel()
            # Ignore progress messages that are already queued.
            self._run += 1
            self._progress = self._progress or (0, 0)
            self._totals = self._totals.model_copy(update={"cancelled": True})
            self._show()
        elif self.is_current:
            self.dismiss()

    def _cancel(self) -> None:
        if self._work is not None:
            self._work.cancel()
            self._work = None

    @on(BlockList.Opened)
    def open_session(self, message: BlockList.Opened) -> None:
        """Replay a session from its first divergence."""
        report = next((r for r in self._reports if r.session == message.key), None)
        if report is not None and report.first is not None:
            self.post_message(ReplayChosen(report.session, at=report.first.event))

    # Results

    async def _judge(self, run: int, files: Sequence[str], scope: Scope) -> None:
        """Run the backtest in a worker. Messages report progress several times a second."""
        try:
            now, zone = self._clock(), self._zone
            async with aclosing(backtest(self._journal, files, scope, now=now, zone=zone)) as parts:
                async for part in parts:
                    self.post_message(self.Progressed(run, part))
        except Exception as error:
            self.post_message(self.Failed(run, str(error) or type(error).__name__))

    @on(Progressed)
    def show_progress(self, message: Progressed) -> None:
        if message.run != self._run:
            return
        part = message.part
        self._reports += part.reports
        self._totals = part.totals
        self._progress = (part.done, part.total)
        if part.finished:
            self._work = None
        self._show()

    @on(Failed)
    def show_failure(self, message: Failed) -> None:
        if message.run == self._run:
            self._fail(message.error)

    def _fail(self, error: str) -> None:
        self._work = None
        self._error = error
        self._show()

    # Painting

    def _show(self) -> None:
        self.query_one("#state", Static).update(self._state())
        blocks = [_heading(self._totals)] if self._totals.sessions else []
        blocks += [self._block(report) for report in self._reports]
        if self._progress is not None and not self.judging and not self._reports:
            blocks.append(_none(self._totals))
        self.query_one(BlockList).show(blocks)
        # The state line above may have become shorter, which is known only after layout.
        self.call_after_refresh(self._leave_totals)
        self.refresh_bindings()

    def _leave_totals(self) -> None:
        """Move the cursor from the totals to the first session if the report fits without scrolling."""
        report = self.query_one(BlockList)
        fits = report.virtual_size.height <= report.size.height
        if report.current == "" and self._reports and fits:
            report.select(self._reports[0].session)

    def _state(self) -> Content:
        if self._error:
            rows = [row for row in shown_lines(self._error) if row.strip()]
            return Content.styled("\n".join(["✗ " + rows[0], *rows[1:]]) if rows else "✗", "$text-error")
        if self._progress is None:
            return Content.styled("reading the rules…" if self.judging else HINT, MUTED)
        done, total = self._progress
        if self.judging:
            share = min(1.0, done / total) if total else 0.0
            full = round(BAR * share)
            leave = key_of(BacktestScreen, "backtest.leave")
            return Content.assemble(
                ("━" * full, "$text-accent"),
                ("─" * (BAR - full), MUTED),
                f"  {done:,} of {total:,} calls",
                (f"  {leave} cancels", MUTED),
            )
        if self._judged_selection is not None and self._judged_selection != self._selection:
            again = key_of(BacktestScreen, "backtest.run")
            rules, scope = self._judged_selection
            before = f"◌ found under {shown(rules)} over {self._over(scope)}"
            return Content.assemble((before, "$text-warning"), (f"  {again} judge again", MUTED))
        if self._totals.cancelled:
            return Content.styled(f"◐ cancelled after {done:,} of {total:,} calls", "$text-warning")
        hint = f"  {key_of(BlockList, 'list.open')} opens a session where it first diverges"
        opens = Content.styled(hint if self._totals.diverging else "", MUTED)
        return Content.styled("✓ done", "$text-success") + opens

    def _over(self, scope: Scope) -> str:
        """Return the scope as text, such as `sessions since 24h`."""
        if scope.session is not None:
            return "this session"
        return "all sessions" if scope.since is None else f"sessions since {shown(scope.since)}"

    def _block(self, report: SessionReport) -> Block:
        zone, stamp = self._zone, (self._run, *report.counts)
        return Block(report.session, stamp, lambda width: report_lines(report, width, zone))


def _heading(totals: Totals) -> Block:
    """Return the totals of all sessions, and of each rule."""

    def lines(width: int) -> list[Content]:
        rows = [*totals_lines(totals, width), Content(" ")]
        if totals.diverging:
            rows.append(Content.styled("Sessions that diverge", "bold $text-primary"))
        return rows

    return Block("", tuple(totals), lines)


def _none(totals: Totals) -> Block:
    text = NONE_DIVERGES if totals.counts.judged.calls else NO_CALLS
    if totals.cancelled:
        text = "No session judged before the cancellation diverges."
    style = "bold $text-success"
    return Block("none", text, lambda width: styled_rows([text], width, style), selectable=False)
