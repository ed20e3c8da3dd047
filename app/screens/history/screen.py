"""The history screen: recorded sessions, newest first, with a filter, to be opened for replay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Input, Static

from ....engine.history.model.state import SessionSummary
from ....engine.hub.api import DecisionApi, HistoryApi
from ...format.sessions import HOW_TO_RECORD, Column, columns, heading, origin, row
from ...format.text import age, seconds_between
from ...format.times import day_and_time
from ...sources.messages import ContinueChosen, HubMoved
from ...terminal.bindings import COPY_KEY, FOCUS_KEYS, key_binding
from ...terminal.charset import visible, visible_words
from ...terminal.keymap import key_of
from ...terminal.symbols import session_look
from ...viewmodels.playback import Playable, open_recorded
from ...widgets.base.bars import KeyBar
from ...widgets.base.blocks import BlockList, line_block, look_of
from ...widgets.base.cursor_list import GUTTER
from ...widgets.base.greyed_keys import Parameters
from ...widgets.base.title_bar import ScreenBar
from ..common.recorded import RecordedSessionScreen
from ..replay.screen import ReplayScreen

SECONDS_BETWEEN_READS = 1.0
LABEL = "label:"
NO_SESSIONS = "No sessions are recorded yet."


def matches(session: SessionSummary, words: str) -> bool:
    """Return whether every word of a filter occurs in the session's columns or labels, ignoring case.

    `label:nightly` matches a whole label, like `session.labels contains "nightly"` in rules.
    """
    said = (session.agent, session.model, session.mode, session.status, session_look(session).word)
    labels = session.session_labels
    text = " ".join((session.id, *said, origin(session), *labels)).casefold()
    return all(
        word.removeprefix(LABEL) in labels if word.startswith(LABEL) else word in text
        for word in words.casefold().split()
    )


class HistoryScreen(RecordedSessionScreen, inherit_bindings=False):
    """Recorded sessions of `source`; see `RecordedSessionScreen` for the other arguments."""

    CSS_PATH = "screen.tcss"
    VERTICAL_BREAKPOINTS: ClassVar[list[tuple[int, str]] | None] = [(0, "-low"), (14, "-high")]
    BINDINGS: ClassVar[list[BindingType]] = [
        key_binding(
            "slash", "filter", "filter", "history.filter", "Filter the sessions", key_display="/"
        ),
        key_binding("c", "continue", "continue", "history.continue", "Resume this session"),
        # Shown in the title bar instead.
        key_binding(
            "v",
            "app.decisions",
            "decisions",
            "history.decisions",
            "All decisions of all sessions",
            show=False,
        ),
        key_binding(
            "R",
            "app.rules",
            "rule files",
            "history.rules",
            "The rules of this session, and others",
            show=False,
        ),
        key_binding(
            "b",
            "backtest",
            "backtest rules…",
            "history.backtest",
            "Judge recorded calls under other rules",
            show=False,
        ),
        key_binding("f5", "reload", "reload", "history.reload", "Read the sessions again"),
        key_binding("escape", "leave", "back", "history.back", "Clear the filter, or go back"),
        *FOCUS_KEYS,
        COPY_KEY,
    ]

    @dataclass
    class Loaded(Message):
        """The recorded sessions have been read."""

        sessions: list[SessionSummary]

    @dataclass
    class Opened(Message):
        """A session has been read and is ready for replay."""

        ready: Playable

    @dataclass
    class Failed(Message):
        """The journal could not be read."""

        error: str

    def __init__(
        self,
        source: HistoryApi,
        *,
        zone: tzinfo | None = None,
        can_continue: bool = False,
        journal: DecisionApi | None = None,
    ) -> None:
        super().__init__(zone=zone, can_continue=can_continue, journal=journal)
        self._source = source
        self._all: list[SessionSummary] | None = None
        self._shown: list[SessionSummary] = []
        self._due: Timer | None = None
        self._error = ""

    def compose(self) -> ComposeResult:
        with Vertical(id="sessions"):
            yield ScreenBar("history", id="title")
            yield Input(
                placeholder="words: session, agent, model, mode, status, or label:nightly", id="filter"
            )
            yield Static("", id="heading")
            yield Static("", id="note")
            yield BlockList(id="table")
            yield Static("", id="detail")
        yield KeyBar()

    def on_mount(self) -> None:
        self.query_one("#filter").display = False
        self.query_one(BlockList).focus()
        self._show()
        self.action_reload()

    def on_screen_resume(self) -> None:
        if self._all is not None:
            self.action_reload()

    def on_resize(self) -> None:
        self._show()

    # Read errors are shown; the console continues.

    @work(exclusive=True, group="history-list", exit_on_error=False)
    async def action_reload(self) -> None:
        """Read the sessions again."""
        try:
            self.post_message(self.Loaded(await self._source.history()))
        except Exception as error:
            self.post_message(self.Failed(str(error)))

    @work(exclusive=True, group="history-open", exit_on_error=False)
    async def open_session(self, session_id: str) -> None:
        """Read a session and replay it."""
        try:
            self.post_message(self.Opened(await open_recorded(self._source, session_id)))
        except Exception as error:
            self.post_message(self.Failed(str(error)))

    @on(Loaded)
    def show_sessions(self, message: Loaded) -> None:
        self._all = message.sessions
        self._error = ""
        self._show()

    @on(Opened)
    def replay_session(self, message: Opened) -> None:
        if self.is_current:
            self.app.push_screen(
                ReplayScreen(
                    message.ready, zone=self._zone, can_continue=self._can_continue, journal=self._journal
                )
            )

    @on(HubMoved)
    def follow(self) -> None:
        """Read the sessions again soon. Events that arrive before then share one read."""
        if self._due is None:
            self._due = self.set_timer(SECONDS_BETWEEN_READS, self._read_again)

    def _read_again(self) -> None:
        self._due = None
        self.action_reload()

    @on(Failed)
    def show_failure(self, message: Failed) -> None:
        self._error = visible(message.error, keep_newlines=True)
        self._show()

    def _show(self) -> None:
        every = self._all or []
        words = self.query_one("#filter", Input).value
        self._shown = [s for s in every if matches(s, words)]
        noun = "session" if len(every) == 1 else "sessions"
        count = f"{len(self._shown)} of {len(every)} {noun}" if words.strip() else f"{len(every)} {noun}"
        if self._all is None:
            count = "reading…"
        self.query_one(ScreenBar).say(Content(count))
        if self._error:
            self._note(self._error, "$text-error")
        elif self._all == []:
            again = key_of(HistoryScreen, "history.reload")
            self._note(f"{NO_SESSIONS}\n\n{HOW_TO_RECORD}, then press {again}.")
        elif self._all and not self._shown:
            key = key_of(HistoryScreen, "history.back")
            self._note(f"No session matches '{visible(words)}'. Press {key} to see all of them.")
        else:
            self._note("")
        self._fill()

    def _fill(self) -> None:
        chosen = columns(self._shown, max(20, self.size.width - 4 - GUTTER), zone=self._zone)
        above = self.query_one("#heading", Static)
        above.set_class(not self._shown, "-empty")
        above.update(Content(heading(chosen)))
        lines = [(session.id, _line(chosen, session)) for session in self._shown]
        blocks = [line_block(key, look_of(line), line) for key, line in lines]
        self.query_one(BlockList).show(blocks)
        self._describe()

    def _note(self, text: str, style: str = "") -> None:
        note = self.query_one("#note", Static)
        note.update(Content.styled(text, style))
        note.set_class(not text, "-empty")

    def _describe(self) -> None:
        """Show the selected session in full below the table, including what a narrow table leaves out."""
        chosen = self.state
        detail = self.query_one("#detail", Static)
        detail.set_class(chosen is None, "-empty")
        detail.update(Content("") if chosen is None else _detail(chosen, self._zone))
        self.refresh_bindings()

    @property
    def state(self) -> SessionSummary | None:
        """Return the selected session."""
        current = self.query_one(BlockList).current
        return next((s for s in self._shown if s.id == current), None)

    @on(BlockList.Moved, "#table")
    def describe_selected(self) -> None:
        self._describe()

    @on(BlockList.Opened, "#table")
    def open_selected(self, message: BlockList.Opened) -> None:
        self.open_session(message.key)

    def obstacle(self, action: str, parameters: Parameters = ()) -> str | None:
        """Return why there is nothing to continue, filter or judge."""
        if action in ("filter", "backtest") and self._all == []:
            return NO_SESSIONS
        if action == "continue" and self.state is None:
            return "No session is chosen." if self._all else NO_SESSIONS
        return None

    def action_continue(self) -> None:
        """Resume the selected session."""
        chosen = self.state
        if chosen is not None:
            self.post_message(ContinueChosen(chosen.id, is_flow=chosen.kind == "flow"))

    def action_filter(self) -> None:
        """Show the filter and focus it."""
        words = self.query_one("#filter", Input)
        words.display = True
        words.focus()

    @on(Input.Changed, "#filter")
    def narrow(self) -> None:
        self._show()

    @on(Input.Submitted, "#filter")
    def to_table(self) -> None:
        self.query_one(BlockList).focus()

    def action_leave(self) -> None:
        """Clear the filter if it is shown, else leave the screen."""
        words = self.query_one("#filter", Input)
        if words.display:
            words.value = ""
            words.display = False
            self.query_one(BlockList).focus()
        elif self.is_current:
            self.dismiss()


def _line(chosen: Sequence[Column], session: SessionSummary) -> Content:
    cells = row(chosen, session)
    parts: list[tuple[str, str]] = []
    for column, cell in zip(chosen, cells, strict=True):
        parts.append((cell, _cell_style(column.name, session)))
        parts.append(("  ", ""))
    return Content.assemble(*parts[:-1])


def _cell_style(name: str, session: SessionSummary) -> str:
    match name:
        case "status":
            return session_look(session).style
        case "session":
            return "bold"
        case "blocked" if session.blocked:
            return "$text-error"
        case "waiting" if session.waiting:
            return "$text-warning bold"
        case _:
            return "$text-muted"


def _detail(session: SessionSummary, zone: tzinfo | None) -> Content:
    lasted = age(seconds_between(session.opened, session.updated))
    on = f" on {visible(session.model)}" if session.model else ""
    parts: list[tuple[str, str]] = [
        (visible_words(session.id), "bold"),
        (f"  {visible_words(session.agent)}{on}, {session.mode} mode\n", ""),
        (f"started {day_and_time(session.opened, zone)}", "$text-muted"),
        (f", {lasted} long, {session.events} events, ", "$text-muted"),
        (f"{session.calls} calls, {session.blocked} blocked, {session.waiting} waiting", "$text-muted"),
    ]
    if session.session_labels:
        parts.append((f"\nlabels {visible_words(', '.join(session.session_labels))}", "$text-muted"))
    if about := _about(session):
        parts.append((f"\n{about}", "$text-muted"))
    if session.error:
        parts.append((f"\n✗ {visible(session.error)}", "$text-error"))
    return Content.assemble(*parts)


def _about(session: SessionSummary) -> str:
    """Return the kind of session if it is not a plain hosted session recorded here."""
    before = "imported, " if session.imported else ""
    if session.kind == "flow":
        return f"{before}a run of flow {visible_words(session.agent)}"
    if session.kind == "outside":
        return f"{before}external agent"
    at = f" at event {session.parent_seq}" if session.parent and session.parent_seq is not None else ""
    return f"{origin(session)}{at}"
