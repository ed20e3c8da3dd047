"""Panel that compares the shown rules with those of the server, and applies them there (G-67)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from ....engine.core.clock import Clock, utc_now
from ....engine.hub.api import AgentStarter, DecisionApi, Outcome, ReplacedIn, RunningRules
from ....rules import read_rules
from ...format.backtest import session_lines, total_lines
from ...format.text import MUTED, shown, shown_lines, wrap
from ...terminal.bindings import key_binding
from ...viewmodels.rules_comparison import RulesComparison, state_lines
from ...widgets.base.blocks import Block, BlockList, StyledRows
from ...widgets.base.greyed_keys import Parameters
from ..common.confirm import Confirm, when_yes
from ..common.detail import section
from ..common.operator_context import outcome_of
from ..common.panel import Panel
from ..live.loosen import Loosen, Loosening

JUDGED = timedelta(days=7)
MOST_NAMED = 6
"""Number of changed rules that the confirmation lists."""
LIVE_TOO = "live sessions and to those that begin from now on"
NEW_ONLY = "sessions that begin from now on"


class ApplyRules(Panel[None]):
    """Compares the rules of files with those of `server`, and applies them for `operator`.

    The files at `paths` are read once, so that what is shown is what is applied. The rules are backtested
    on the calls in the server's `journal`.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        key_binding(
            "n",
            "apply('new')",
            "apply",
            "apply.new",
            "Apply these rules to sessions that begin from now on",
        ),
        key_binding(
            "l",
            "apply('all')",
            "live too",
            "apply.all",
            "Apply these rules to live sessions as well: there, rules that are the same keep their state",
        ),
        key_binding(
            "p", "proposed", "proposed", "apply.proposed", "Show what another operator has proposed"
        ),
        key_binding("x", "drop", "take back", "apply.drop", "Take back the proposed rules"),
    ]

    DEFAULT_CSS = """
    ApplyRules > .frame { border: round $warning; }
    ApplyRules #state { height: auto; display: none; }
    """

    @dataclass
    class Compared(Message):
        """The rules have been compared, or could not be because of `problem`."""

        running: RunningRules | None
        found: RulesComparison | None
        problem: str = ""

    @dataclass
    class JudgedLines(Message):
        """Lines of the backtest, so far or, if `finished`, complete."""

        lines: list[str]
        finished: bool

    @dataclass
    class Answered(Message):
        """The server has answered; `again` repeats the action with a reason."""

        outcome: Outcome
        again: Callable[[str], object] | None

    def __init__(
        self,
        server: AgentStarter,
        journal: DecisionApi,
        paths: Sequence[str],
        operator: str,
        *,
        clock: Clock = utc_now,
    ) -> None:
        super().__init__()
        self._server = server
        self._journal = journal
        self._paths = paths
        self._files: Mapping[str, str] = {}
        self._operator = operator
        self._clock = clock
        self._theirs: RunningRules | None = None
        self._found: RulesComparison | None = None
        self._judged: list[str] = []
        self._finished = False
        self._sending = False

    def compose(self) -> ComposeResult:
        keys = (
            ("apply.new", "apply"),
            ("apply.all", "live too"),
            ("apply.proposed", "proposed"),
            ("apply.drop", "take back"),
            ("panel.close", "close"),
        )
        with self.panel_frame("Apply rules", *keys):
            yield Static(id="state")
            yield BlockList(cursor=False)

    def on_mount(self) -> None:
        self.query_one(BlockList).focus()
        self._compare()

    # Workers

    @work(exclusive=True, group="rules-compare", exit_on_error=False)
    async def _compare(self) -> None:
        running = None
        try:
            self._files = self._files or await asyncio.to_thread(read_rules, *self._paths)
            running = await self._server.running_rules()
            found = await asyncio.to_thread(RulesComparison.between, running, self._files)
        except Exception as error:
            self.post_message(self.Compared(running, None, str(error) or type(error).__name__))
            return
        self.post_message(self.Compared(running, found))

    @work(exclusive=True, group="rules-judge", exit_on_error=False)
    async def _judge(self, since: datetime) -> None:
        lines: list[str] = []
        try:
            async for part in self._journal.backtest(dict(self._files), since=since):
                lines += [line for report in part.reports for line in session_lines(report)]
                totals = [*total_lines(part.totals), ""] if part.finished else []
                self.post_message(self.JudgedLines([*totals, *lines], part.finished))
        except Exception as error:
            self.post_message(self.JudgedLines([*lines, f"not judged: {error}"], True))

    @on(Compared)
    def show_comparison(self, message: Compared) -> None:
        self._theirs, self._found = message.running, message.found
        self._judged, self._finished = [], False
        if message.problem:
            self.show_text("#state", shown(message.problem), "$text-error")
        if message.found is not None and message.found.changes:
            self._judge(self._clock() - JUDGED)
        self._show()

    @on(JudgedLines)
    def show_judged(self, message: JudgedLines) -> None:
        self._judged, self._finished = message.lines, message.finished
        self._show()

    # Actions

    def action_apply(self, to: ReplacedIn) -> None:
        """Confirm, then apply the rules that are shown."""
        found = self._found
        if found is None:
            return
        where = LIVE_TOO if to == "all" else NEW_ONLY
        lines = found.change_lines()
        named = lines[:MOST_NAMED] + ([f"and {len(lines) - MOST_NAMED} more"] * (len(lines) > MOST_NAMED))
        self.app.push_screen(
            Confirm("Apply rules", f"Apply these rules to {where}?", named),
            when_yes(partial(self._apply, to, None, found.running.digest)),
        )

    @work(exclusive=True, group="rules-apply", exit_on_error=False)
    async def _apply(self, to: ReplacedIn, reason: str | None, against: str) -> None:
        outcome = await self._sent(
            lambda: self._server.apply_rules(
                dict(self._files), by=self._operator, against=against, reason=reason, to=to
            )
        )
        self.post_message(self.Answered(outcome, lambda why: self._apply(to, why, against)))

    def action_proposed(self) -> None:
        """Compare the proposed rules instead of the files."""
        if self._theirs is not None and self._theirs.proposed is not None:
            self._files = self._theirs.proposed.files
            self._compare()

    def action_drop(self) -> None:
        """Confirm, then take back the proposal."""
        question = Confirm("Apply rules", "Take back the rules that are proposed?")
        self.app.push_screen(question, when_yes(self._drop))

    @work(exclusive=True, group="rules-apply", exit_on_error=False)
    async def _drop(self) -> None:
        outcome = await self._sent(lambda: self._server.drop_rules(by=self._operator))
        self.post_message(self.Answered(outcome, None))

    async def _sent(self, act: Callable[[], Awaitable[Outcome]]) -> Outcome:
        self._sending = True
        self.refresh_bindings()
        try:
            return await outcome_of(act, "Not applied: ")
        finally:
            self._sending = False

    @on(Answered)
    def show_answer(self, message: Answered) -> None:
        """Show the outcome, or request the reason that the action needs."""
        outcome, again = message.outcome, message.again
        if outcome.needs_reason and again is not None:

            def given(loosening: Loosening | None) -> None:
                if loosening is not None:
                    again(loosening.reason)

            panel = Loosen("Apply rules", [outcome.message], for_good=True)
            self.app.push_screen(panel, given)
        else:
            style = "$text-success" if outcome.ok else "$text-error"
            self.show_text("#state", "\n".join(shown_lines(outcome.message)), style)
        self._compare()

    def obstacle(self, action: str, parameters: Parameters = ()) -> str | None:
        """Return why an action is not possible now: rules not compared, nothing proposed, or waiting."""
        proposed = None if self._theirs is None else self._theirs.proposed
        match action:
            case "apply" | "drop" if self._sending:
                return "Waiting for the server."
            case "apply" if self._found is None:
                return "These rules have not been compared."
            case "apply" if parameters == ("new",) and not self._found:
                return "The server runs these rules."
            case "proposed" | "drop" if proposed is None:
                return "Nothing is proposed."
            case _:
                return None

    # Painting

    def _show(self) -> None:
        running, found = self._theirs, self._found
        blocks: list[Block] = []
        if running is not None and (said := [*state_lines(running)]):
            blocks += _part("running", said, first=True)
        if found is None:
            waiting = ["comparing with the server…"] if running is None else []
            blocks += _part("comparison", waiting, first=not blocks) if waiting else []
        else:
            blocks += _part("rules", found.change_lines(), first=not blocks)
            if found.changes:
                lines = self._judged or ([] if self._finished else ["judging…"])
                blocks += _part("calls of the last 7 days, judged by these rules", lines)
            if found.texts:
                blocks += _part("texts", found.texts)
        self.query_one(BlockList).show(blocks)
        self.refresh_bindings()


def _part(heading: str, lines: Iterable[str], *, first: bool = False) -> list[Block]:
    return [section(heading, first=first), *(_line(heading, n, line) for n, line in enumerate(lines))]


def _line(heading: str, number: int, text: str) -> Block:
    """Return a wrapped line of a comparison, in the colour of its sign."""
    style = {"-": "$text-error", "+": "$text-success", "~": "$text-warning", "@": MUTED}.get(text[:1], "")

    def styled(_: int, row: str) -> Content:
        return Content.styled(row, style)

    return Block(
        f"{heading} {number}", text, lambda width: StyledRows(wrap(shown(text), width) or [""], styled)
    )
