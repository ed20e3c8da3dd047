"""The decisions screen: every decision of every session, newest first, with filter, groups and detail.

It keeps the positions of decisions and the decisions on screen; the rest stays in the journal. Its feed
queries the journal, and the results arrive as messages.
"""

from __future__ import annotations

from datetime import tzinfo
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Static

from ....engine.core.clock import Clock, utc_now
from ....engine.history.decisions.counts import DecisionCounts, GroupBy, ShadowSummary
from ....engine.history.decisions.filter import EVERYTHING, DecisionFilter, FilterError
from ....engine.history.decisions.reader import Decision
from ....engine.hub.api import DecisionApi, HistoryApi, HubApi
from ...format.decisions import (
    choose_shadow,
    course_line,
    facts_within,
    heading,
    line,
    nothing_found,
    shadow_lines,
    title_texts,
    yesterday_words,
)
from ...format.text import shown
from ...sources.messages import HubMoved, ReplayChosen
from ...terminal.key_rights import permission_of, rights_for
from ...terminal.keymap import key_of
from ...viewmodels.decision_feed import (
    DecisionFeed,
    DecisionsCounted,
    DecisionsFailed,
    DecisionsFound,
    NewerDecisions,
    PartLoaded,
    affects_decisions,
)
from ...widgets.base.bars import KeyBar
from ...widgets.base.blocks import BlockList
from ...widgets.base.cursor_list import GUTTER
from ...widgets.base.greyed_keys import Parameters
from ...widgets.base.title_bar import ScreenBar
from ...widgets.inputs.filter_line import FilterLine
from ...widgets.lists.decision_table import DecisionTable, GroupList
from ..common.deferred_paint import SettledScreen
from .approval_stats import FatigueScreen
from .detail import show_decision
from .keys import DECISION_KEYS
from .shadow import ShadowChoice, ShadowPanel, enforce
from .suggestions import show_suggestions

NEWER_PAUSE = 0.3
"""Seconds between checks for newer decisions."""

SCROLLBAR = 1
"""Cells reserved at the table's right edge for the scrollbar, shown or not."""

GROUPS: tuple[GroupBy | None, ...] = (None, "rule", "tool")


class DecisionsScreen(SettledScreen[None], inherit_bindings=False):
    """The decisions of `source`, made in `sessions`. With a `hub`, live sessions can be switched to
    enforce.

    `zone` is the operator's time zone; `None` means the machine's.
    """

    CSS_PATH = "screen.tcss"
    VERTICAL_BREAKPOINTS: ClassVar[list[tuple[int, str]] | None] = [(0, "-low"), (18, "-high")]
    BINDINGS: ClassVar[list[BindingType]] = [*DECISION_KEYS]

    def __init__(
        self,
        source: DecisionApi,
        *,
        sessions: HistoryApi | None = None,
        hub: HubApi | None = None,
        operator: str = "",
        clock: Clock = utc_now,
        zone: tzinfo | None = None,
    ) -> None:
        super().__init__()
        self._source = source
        self._sessions = sessions
        self._hub = hub
        self._operator = operator
        self._clock = clock
        self._zone = zone
        self._feed = DecisionFeed(source, self)
        self._by: GroupBy | None = None
        self._looked = 0
        self._searching = False
        self._mistake = ""
        self._yesterday = ""
        self._failure = ""
        self._counts: DecisionCounts | None = None
        self._shadow = ShadowSummary()
        self._due: Timer | None = None

    def compose(self) -> ComposeResult:
        with Vertical(id="decisions"):
            yield ScreenBar("decisions", id="title")
            yield FilterLine()
            yield Static("", id="note")
            yield Static("", id="course")
            yield Static("", id="heading")
            yield DecisionTable(self._line, self.moved, id="table")
            yield GroupList(id="groups")
            yield Static("", id="detail")
            yield Static("", id="shadow")
        yield KeyBar()

    def on_mount(self) -> None:
        self._front()
        self._start(EVERYTHING)

    def on_resize(self) -> None:
        self._show()

    def on_screen_resume(self) -> None:
        if self._feed.search:
            self._look_again()

    # Results from the journal

    def _start(self, decision_filter: DecisionFilter) -> None:
        """Start another search."""
        self._looked, self._searching, self._failure = 0, True, ""
        self._table.clear()
        self._feed.start(decision_filter)
        self._feed.count(self._by)
        self._show()

    @on(DecisionsFound)
    def show_found(self, message: DecisionsFound) -> None:
        """Append results to the list."""
        if message.search == self._feed.search:
            self._looked += message.scan.looked
            self._searching = message.scan.next is not None
            self._table.extend(message.scan.parts)
            self._show()

    @on(HubMoved)
    def follow(self, moved: HubMoved) -> None:
        """Check for newer decisions soon. Events that arrive before then share one check."""
        if any(affects_decisions(event) for event in moved.events) and self._due is None:
            self._due = self.set_timer(NEWER_PAUSE, self._look_again)

    def _look_again(self) -> None:
        self._due = None
        self._table.outdate()
        if self._searching:
            self._due = self.set_timer(NEWER_PAUSE, self._look_again)
        elif self._failure:
            # After a failure it is unknown which decisions are missing.
            self._start(self._feed.decision_filter)
        else:
            self._feed.look_again(self._table.border)
            self._feed.count_soon(self._by)

    @on(NewerDecisions)
    def show_newer(self, message: NewerDecisions) -> None:
        if message.search == self._feed.search and message.parts:
            self._table.renew(message.parts, message.read)
            self._show()

    @on(DecisionTable.PartNeeded)
    def read_part(self, message: DecisionTable.PartNeeded) -> None:
        for dropped in self._feed.read(message.part):
            self._table.failed(dropped)

    @on(PartLoaded)
    def show_loaded(self, message: PartLoaded) -> None:
        if message.search == self._feed.search:
            self._table.fill(message.part, message.decisions)

    @on(DecisionsCounted)
    def show_counts(self, message: DecisionsCounted) -> None:
        if message.search == self._feed.search:
            self._counts, self._shadow = message.counts, message.shadow
            self.refresh_bindings()
            self._show()

    @on(DecisionsFailed)
    def show_failure(self, message: DecisionsFailed) -> None:
        self._searching = False
        self._failure = message.error
        self._show()

    # Painting

    @property
    def _table(self) -> DecisionTable:
        return self.query_one(DecisionTable)

    def _line(self, decision: Decision, width: int) -> Content:
        return line(decision, width, now=self._clock(), zone=self._zone)

    def _front(self) -> None:
        """Show the list or the groups, and focus it."""
        self._table.display = self._by is None
        groups = self.query_one(GroupList)
        groups.display = self._by is not None
        (self._table if self._by is None else groups).focus()

    def _show(self) -> None:
        self._title()
        self._note()
        self._groups()
        self._describe()
        self._summarize()

    def _title(self) -> None:
        table, looked = self._table, self._looked if self._searching else None
        row = table.row if self._by is None else None
        some = self._feed.decision_filter != EVERYTHING
        texts = title_texts(table.total, row, table.newer, some=some, looked=looked)
        self.query_one(ScreenBar).say(*texts)

    def _note(self) -> None:
        note = self.query_one("#note", Static)
        text = Content("")
        if problem := self._mistake or self._failure:
            text = Content.styled(f"✗ {shown(problem)}", "$text-error")
        elif self._yesterday and (self._searching or self._table.total):
            text = Content.styled(self._yesterday, "$text-warning")
        elif not self._searching and not self._table.total:
            text = Content(
                "\n".join(
                    [
                        *([self._yesterday] if self._yesterday else []),
                        nothing_found(
                            self._feed.decision_filter,
                            key_of(DecisionsScreen, "decisions.back"),
                            key_of(DecisionsScreen, "decisions.reload"),
                        ),
                    ]
                )
            )
        note.update(text)
        note.display = bool(text)

    def _groups(self) -> None:
        # The table itself has no width while it is hidden, and until the next refresh after that.
        width = max(20, self.size.width - (SCROLLBAR if self._by is None else 4) - GUTTER)
        above = f"by {self._by}: calls, ■ stopped, ◐ asked, over time" if self._by else ""
        self.query_one("#heading", Static).update(Content(above or heading(width)))
        course = self.query_one("#course", Static)
        counts = self._counts
        course.update(Content("counting…") if counts is None else course_line(counts, width, self._zone))
        course.display = counts is None or counts.total.count > 0
        if self._by is not None and counts is not None:
            self.query_one(GroupList).show_groups(counts.groups, self._by)

    def _describe(self) -> None:
        """Show the chosen decision in full, including what the list has no space for."""
        detail = self.query_one("#detail", Static)
        detail.display = self._by is None and self._table.total > 0 and self.size.height >= 18
        chosen = self._table.current
        told = "" if chosen is None else facts_within(chosen, self.size.width - 2, self._zone)
        detail.update(told, layout=False)

    def _summarize(self) -> None:
        """Summarize what enforce mode would have done in the sessions that ran in shadow mode."""
        below = self.query_one("#shadow", Static)
        below.display = bool(self._shadow.sessions)
        if below.display:
            sessions = 3 if self.size.height >= 30 else 0
            below.update(shadow_lines(self._shadow, self.size.width - 2, sessions=sessions))

    @on(DecisionTable.Moved)
    def moved(self) -> None:
        """Show the decision under the cursor."""
        self._title()
        self._describe()
        self.refresh_bindings()

    # Actions

    @property
    def _line_typed(self) -> FilterLine:
        return self.query_one(FilterLine)

    def action_filter(self) -> None:
        """Show the filter and focus it."""
        self._line_typed.open()

    @on(FilterLine.Settled)
    def search(self, message: FilterLine.Settled) -> None:
        """Apply the filter; focus the results if the filter is complete."""
        if self._apply() and message.done:
            self._front()

    @on(FilterLine.Cleared)
    def clear(self) -> None:
        """Clear the filter and show everything again."""
        self._line_typed.close()
        self._apply()
        self._front()

    def _apply(self) -> bool:
        """Search with the filter. A filter with an error is reported and changes nothing."""
        try:
            typed = self._line_typed.typed_filter(self._clock(), self._zone)
        except FilterError as error:
            self._mistake = str(error)
            self._note()
            return False
        self._mistake = ""
        self._yesterday = yesterday_words(self._line_typed.text, typed, self._clock(), self._zone)
        if typed != self._feed.decision_filter:
            self._start(typed)
        else:
            self._note()
        return True

    def _narrow(self, *named: tuple[str, str], anew: bool = False) -> None:
        """Add `named` fields to the filter, or replace it if `anew`; see `FilterLine.narrow`."""
        if self._line_typed.narrow(*named, anew=anew):
            self._by = None
            self.refresh_bindings()
            self._apply()
            self._front()
        else:
            self.notify("Its name cannot be typed.")

    def action_group(self) -> None:
        """Cycle through the list, groups by rule and groups by tool."""
        self._group(GROUPS[(GROUPS.index(self._by) + 1) % len(GROUPS)])

    def _group(self, by: GroupBy | None) -> None:
        self._by = by
        self.refresh_bindings()
        if by is not None:
            self._counts = None
            self.query_one(GroupList).show([])
            self._feed.count(by)
        self._front()
        self._show()

    @on(BlockList.Opened, "#groups")
    def open_group(self, message: BlockList.Opened) -> None:
        """Show the decisions of one group."""
        if message.key:
            self._narrow((str(self._by), message.key[1:]))
        else:
            self.notify("These have no rule to filter by.")

    def action_reload(self) -> None:
        """Read everything again. Relative times in the filter are computed from now."""
        self._counts = None
        if self._apply():
            self._start(self._feed.decision_filter)

    @on(DecisionTable.Opened)
    def open_decision(self, message: DecisionTable.Opened) -> None:
        shows = show_decision(
            self.app,
            self._source,
            message.decision,
            sessions=self._sessions,
            hub=self._hub,
            zone=self._zone,
        )
        self.run_worker(shows, group="decisions-open", exclusive=True, exit_on_error=False)

    def action_replay(self) -> None:
        """Open the replay of the chosen decision's session at the decision."""
        chosen = self._table.current
        if chosen is not None:
            self.post_message(ReplayChosen(chosen.session, at=chosen.seq))

    def action_shadow(self) -> None:
        """List every shadow session with what enforce mode would have done."""
        refused = permission_of(self.app).refusal(rights_for("shadow.enforce"))
        changes = self._hub is not None and refused is None
        self.app.push_screen(ShadowPanel(self._shadow, switches=changes), self._shadow_chosen)

    def _shadow_chosen(self, chosen: ShadowChoice | None) -> None:
        """Switch the session to enforce, or list the decisions that enforce mode would have changed."""
        if chosen is not None and chosen.switch:
            self._enforce(chosen.session)
        elif chosen is not None:
            self._narrow(("session", chosen.session), ("verdict", "shadow"), anew=True)

    def action_fatigue(self) -> None:
        """Open the approval statistics."""
        self.app.push_screen(FatigueScreen(self._source, clock=self._clock, zone=self._zone))

    def action_suggest(self) -> None:
        """Open the rules suggested from this journal."""
        chosen = self._table.current
        shows = show_suggestions(
            self.app,
            self._source,
            self._sessions,
            session=None if chosen is None else chosen.session,
            operator=self._operator,
            clock=self._clock,
            zone=self._zone,
        )
        self.run_worker(shows, group="decisions-suggest", exclusive=True, exit_on_error=False)

    def action_enforce(self) -> None:
        """Switch the chosen decision's session to enforce mode."""
        chosen = self._table.current
        if chosen is not None:
            self._enforce(chosen.session)

    def offers(self, action: str, parameters: Parameters = ()) -> bool:
        """Offer replay and enforce only in the list, and enforce only with a hub."""
        match action:
            case "filter":
                return self.focused is None or self.focused.id != "filter"
            case "replay":
                return self._by is None
            case "enforce":
                return self._by is None and self._hub is not None
            case _:
                return True

    def obstacle(self, action: str, parameters: Parameters = ()) -> str | None:
        """Return why an action is not possible now."""
        if action == "suggest" and self._has_no_calls():
            return "No call is recorded in this journal."
        if action in ("shadow", "enforce") and not self._shadow.sessions:
            return "No call in view was made in shadow mode."
        chosen = self._table.current
        if action == "enforce" and (chosen is None or chosen.mode != "shadow"):
            return choose_shadow(key_of(DecisionsScreen, "decisions.shadow"))
        return "No decision is chosen." if action == "replay" and chosen is None else None

    def _has_no_calls(self) -> bool:
        """Return whether a complete search without a filter has found nothing."""
        over = not self._searching and not self._failure
        return over and self._feed.decision_filter == EVERYTHING and not self._table.total

    def _enforce(self, session: str) -> None:
        if self._hub is not None:
            switch = enforce(self.app, self._hub, session, by=self._operator, found=self._shadow)
            self.run_worker(switch, group="decisions-enforce", exclusive=True, exit_on_error=False)

    def action_leave(self) -> None:
        """Clear the filter if it is shown, else leave the groups, else leave the screen."""
        if self._line_typed.display:
            self.clear()
        elif self._by is not None:
            self._group(None)
        elif self.is_current:
            self.dismiss()
