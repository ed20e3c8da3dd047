"""The rules screen: the rules files of sessions, and others, with the findings of `interlock check`.

Files are edited in the operator's own editor. A file that changes on disk in another way is read again on
the operator's request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from ....engine.hub.api import AgentStarter, DecisionApi, HistoryApi
from ...format.text import MUTED, count, shown, shown_lines
from ...sources.messages import BacktestChosen, EditChosen
from ...sources.rules_files import OfferedFiles, copy_here, files_of, name_of, offered, stamps, usual
from ...terminal.gc import bulk_load
from ...terminal.keymap import key_of
from ...viewmodels.backtest_job import rules_files
from ...viewmodels.rules_view import RuleNet, RulesView, check, read
from ...widgets.base.bars import KeyBar
from ...widgets.base.blocks import Block, BlockList
from ...widgets.base.greyed_keys import Parameters
from ...widgets.base.title_bar import ScreenBar
from ...widgets.lists.rules import RuleList, RulesFileList, rule_blocks
from ...widgets.lists.rules import key_of as block_of
from ..common.deferred_paint import SettledScreen
from .apply import ApplyRules
from .detail import rule_detail, rule_picture
from .keys import RULES_KEYS

SECONDS_BETWEEN_LOOKS = 2.0
NO_FILES = "No rules files are known here."


class RulesScreen(SettledScreen[None], inherit_bindings=False):
    """Rules files of the sessions of `source`, of this folder and of the library.

    `session` is the session chosen where this screen was opened, and `files` are its files; they are
    shown first. With `judges`, recorded calls can be backtested with the rules shown.
    """

    CSS_PATH = "screen.tcss"
    HORIZONTAL_BREAKPOINTS: ClassVar[list[tuple[int, str]] | None] = [(0, "-narrow"), (100, "-wide")]
    VERTICAL_BREAKPOINTS: ClassVar[list[tuple[int, str]] | None] = [(0, "-low"), (20, "-high")]
    BINDINGS: ClassVar[list[BindingType]] = [*RULES_KEYS]

    @dataclass
    class Offered(Message):
        """The files to choose from have been listed; `trouble` is the reason why some are missing."""

        files: list[OfferedFiles]
        trouble: str

    @dataclass
    class Seen(Message):
        """Files have been read and possibly checked, in read number `run`."""

        run: int
        view: RulesView
        blocks: list[Block]

    @dataclass
    class Failed(Message):
        """Reading or checking failed for a reason that is not an error in the files."""

        run: int
        error: str

    @dataclass
    class Looked(Message):
        """The files of a view have been compared with the disk; `changed` lists those that differ."""

        view: RulesView
        changed: tuple[str, ...]

    def __init__(
        self,
        source: HistoryApi,
        *,
        session: str | None = None,
        files: Sequence[str] = (),
        judges: bool = True,
    ) -> None:
        super().__init__()
        self._source = source
        self._session = session
        self._began = self._files = tuple(files)
        self._judges = judges
        self._server = source if isinstance(source, AgentStarter) else None
        self._named: list[tuple[str, ...]] = []
        self._offered: list[OfferedFiles] = []
        self._view: RulesView | None = None
        self._changed: tuple[str, ...] = ()
        self._error = ""
        self._trouble = ""
        self._run = 0

    def compose(self) -> ComposeResult:
        yield ScreenBar("rules", id="title")
        yield Input(placeholder="rules files: deploy.rules ops.rules", id="named")
        yield Static("", id="note")
        with Container(id="panes"):
            yield RulesFileList()
            yield RuleList()
        yield KeyBar()

    def on_mount(self) -> None:
        self.query_one("#named").display = False
        self.query_one("#files").border_title = "Files"
        self.query_one(RuleList if self._files else RulesFileList).focus()
        self.set_interval(SECONDS_BETWEEN_LOOKS, self.look)
        # Textual leaves an app's return type open.
        self.app.app_resume_signal.subscribe(self, self._reload_after_suspend)  # pyright: ignore[reportUnknownMemberType]
        self._show()
        self.action_reload()

    def _reload_after_suspend(self, _: object) -> None:
        self.action_reload()

    def on_screen_resume(self) -> None:
        self.look()

    @property
    def view(self) -> RulesView | None:
        """Return the rules on screen, or `None` until files have been read."""
        return self._view

    def choose(self, session: str | None, files: Sequence[str]) -> None:
        """Show other files, as when the screen is opened for another session."""
        self._session, self._began = session, tuple(files)
        if files:
            self._take(self._began)
        self._offer()

    # Workers

    @work(exclusive=True, group="rules-offered", exit_on_error=False)
    async def _offer(self) -> None:
        """List the available files. If the journal cannot be read, leave out those of sessions."""
        trouble = ""
        sessions: list[tuple[str, tuple[str, ...]]] = []
        try:
            sessions = [(each.id, files_of(each)) for each in await self._source.history()]
        except Exception as error:
            trouble = f"The sessions cannot be read: {error}"
        if self._session is not None and self._session not in {each for each, files in sessions if files}:
            sessions.insert(0, (self._session, self._began))
        try:
            files = await asyncio.to_thread(offered, sessions, tuple(self._named))
        except OSError as error:
            files, trouble = [], f"The folder cannot be read: {error}"
        self.post_message(self.Offered(files, trouble))

    @work(thread=True, exclusive=True, group="rules-read", exit_on_error=False)
    def _read(self, run: int, files: tuple[str, ...], text: RuleList) -> None:
        """Show the texts at once, and the findings once they are checked."""
        try:
            for step in (read, check):
                with bulk_load():
                    view = step(files)
                    blocks = rule_blocks(view, text.room)
                if run != self._run:
                    return
                self.post_message(self.Seen(run, view, blocks))
        except Exception as error:
            self.post_message(self.Failed(run, f"{type(error).__name__}: {error}"))

    @work(thread=True, exclusive=True, group="rules-look", exit_on_error=False)
    def _look(self, view: RulesView) -> None:
        now = stamps(view.paths)
        changed = [path for path, a, b in zip(view.paths, view.stamps, now, strict=True) if a != b]
        self.post_message(self.Looked(view, tuple(map(name_of, changed))))

    def look(self) -> None:
        """Check in a worker whether a file has changed since it was read."""
        if self._view is not None and self.is_current:
            self._look(self._view)

    @on(Offered)
    def show_offered(self, message: Offered) -> None:
        self._offered, self._trouble = message.files, message.trouble
        if not self._files and message.files:
            self._take(message.files[0].files)
        self._show()
        self.query_one(RulesFileList).select(block_of(self._files))

    @on(Seen)
    def show_rules(self, message: Seen) -> None:
        if message.run != self._run:
            return
        self._view, self._changed, self._error = message.view, (), ""
        self.query_one(RuleList).show_rules(message.view, message.blocks)
        self._show()

    @on(Failed)
    def show_failure(self, message: Failed) -> None:
        if message.run == self._run:
            self._error = message.error
            self._show()

    @on(Looked)
    def show_change(self, message: Looked) -> None:
        if message.view is self._view and message.changed != self._changed:
            self._changed = message.changed
            self._show()

    # Actions

    def _take(self, files: tuple[str, ...]) -> None:
        """Read other files; a read in progress is discarded."""
        if files != self._files:
            self._view = None
            self.query_one(RuleList).show_rules(None, [])
        self._files = files
        self._run += 1
        self._changed, self._error = (), ""
        self._read(self._run, files, self.query_one(RuleList))
        self._show()

    @on(BlockList.Moved, "#files")
    def choose_files(self, message: BlockList.Moved) -> None:
        chosen = next((each for each in self._offered if block_of(each.files) == message.key), None)
        if chosen is not None and chosen.files != self._files and self.focused is message.blocks:
            self._take(chosen.files)

    @on(BlockList.Opened, "#files")
    def to_text(self) -> None:
        self.query_one(RuleList).focus()

    @on(BlockList.Moved, "#text")
    def follow(self) -> None:
        self._show_place()
        self.refresh_bindings()

    @on(BlockList.Opened, "#text")
    def open_rule(self) -> None:
        """Open the detail of the rule under the cursor, with its findings."""
        text = self.query_one(RuleList)
        noted = text.noted()
        if noted.nets or noted.findings:
            self.app.push_screen(rule_detail(text.where(), noted.nets, noted.findings))

    def _net(self) -> RuleNet | None:
        nets = self.query_one(RuleList).noted().nets
        return nets[0] if nets else None

    def action_picture(self) -> None:
        """Show the net of the rule under the cursor."""
        net = self._net()
        if net is not None:
            self.app.push_screen(rule_picture(net))

    def action_backtest(self) -> None:
        """Open a backtest of recorded calls with the rules shown."""
        self.post_message(BacktestChosen(self._session, self._files))

    def action_apply(self) -> None:
        """Compare the rules with those of the server, and apply them there."""
        server, source = self._server, self._source
        if server is not None and isinstance(source, DecisionApi):
            operator: str = getattr(self.app, "operator", "")
            self.app.push_screen(ApplyRules(server, source, self._files, operator))

    def action_edit(self) -> None:
        """Open the file under the cursor in the operator's editor."""
        file = self.query_one(RuleList).file
        if file is not None:
            self.post_message(EditChosen(file.path))

    def _can_edit(self) -> bool:
        """Return whether there is an editor, and the file is not part of the library."""
        file = self.query_one(RuleList).file
        return file is not None and not file.library and getattr(self.app, "can_edit_files", False)

    def _can_copy(self) -> bool:
        """Return whether a library file is shown and the operator is on this machine."""
        file = self.query_one(RuleList).file
        return file is not None and file.library and not self.app.is_web

    async def action_copy_here(self) -> None:
        """Copy the library's file under the cursor into this folder, and show the copy."""
        file = self.query_one(RuleList).file
        if file is None:
            return
        try:
            copy = await asyncio.to_thread(copy_here, file.path)
        except FileExistsError as error:
            self._refuse(f"{usual(str(error.filename))} is there already, and stays as it is.")
            return
        except OSError as error:
            self._refuse(f"It could not be copied: {error.strerror}")
            return
        self.notify(shown(f"Copied to {copy}. It applies to no session yet."), markup=False)
        self._take((copy,))
        self._offer()

    def _refuse(self, text: str) -> None:
        self.notify(shown(text), severity="error", markup=False)

    def action_finding(self, direction: int) -> None:
        """Move to the next or previous line with an error or a warning."""
        if self.query_one(RuleList).step(direction):
            self.query_one(RuleList).focus()
            self.follow()

    def action_name_files(self) -> None:
        """Open the line for the names of other files."""
        named = self.query_one("#named", Input)
        named.display = True
        named.focus()

    @on(Input.Submitted, "#named")
    def take_named(self, message: Input.Submitted) -> None:
        try:
            files = tuple(map(usual, rules_files(message.value)))
        except ValueError as error:
            self.notify(shown(str(error)), severity="error", markup=False)
            return
        if files not in self._named:
            self._named.append(files)
        self._close_line()
        self._take(files)
        self._offer()

    def action_reload(self) -> None:
        """Read the files again, and list the available files."""
        if self._files:
            self._take(self._files)
        self._offer()

    def _close_line(self) -> None:
        self.query_one("#named").display = False
        self.query_one(RuleList).focus()

    def action_leave(self) -> None:
        """Close the line for names if it is open, else leave the screen."""
        if self.query_one("#named").display:
            self._close_line()
        elif self.is_current:
            self.dismiss()

    def offers(self, action: str, parameters: Parameters = ()) -> bool:
        """Offer backtests if there is a journal, copying for the library, applying with a server."""
        match action:
            case "backtest":
                return self._judges
            case "apply":
                return self._server is not None
            case "copy_here":
                return self.is_mounted and self._can_copy()
            case "edit":
                return not self.app.is_web
            case _:
                return True

    def obstacle(self, action: str, parameters: Parameters = ()) -> str | None:
        """Return why an action is not possible now."""
        match action:
            case "backtest" | "apply" | "edit" | "picture" | "finding" if not self._files:
                return f"{NO_FILES} {key_of(RulesScreen, 'rules.open')} names one."
            case "apply" if self._view is None or self._view.findings is None:
                return "These files have errors, or are still being read."
            case "edit":
                return self._edit_obstacle()
            case "picture" if self._net() is None:
                return "No rule is under the cursor."
            case "finding" if self._view is None or not self._view.errors + self._view.warnings:
                return "Nothing was found in these files."
            case _:
                return None

    def _edit_obstacle(self) -> str | None:
        """Return the reason why the file under the cursor cannot be edited here, or `None`."""
        file = self.query_one(RuleList).file
        if file is None:
            return "No file is under the cursor."
        if file.library:
            return f"This file is the library's: {key_of(RulesScreen, 'rules.copy')} copies it here."
        return None if self._can_edit() else "There is no editor: set VISUAL or EDITOR."

    # Painting

    def _show(self) -> None:
        self.query_one(RulesFileList).show_files(self._offered, self._files)
        names = ", ".join(shown(name_of(file)) for file in self._files)
        found = Content.assemble(*self._summary())
        named = Content.styled(f"{'   ' if found else ''}{names}", MUTED)
        self.query_one(ScreenBar).say(found + named, found)
        self._show_note()
        self._show_place()
        self.refresh_bindings()

    def _summary(self) -> list[tuple[str, str]]:
        view = self._view
        if self._error:
            return [("✗ not checked", "$text-error")]
        if not self._files:
            return []
        if view is None or not view.checked:
            return [("checking…", MUTED)]
        parts = [(count(view.rules, "rule"), "")] if view.findings is not None else []
        if view.errors:
            parts.append((f"✗ {count(view.errors, 'error')}", "bold $text-error"))
        if view.warnings:
            parts.append((f"▲ {count(view.warnings, 'warning')}", "$text-warning"))
        if not view.errors and not view.warnings:
            parts.append(("✓ nothing found", "$text-success"))
        return [part for each in parts for part in ((" · ", MUTED), each)][1:]

    def _show_note(self) -> None:
        key = key_of(RulesScreen, "rules.reload")
        view = self._view
        if self._error:
            text, style = f"✗ {_joined(self._error)}", "$text-error"
        elif self._changed:
            names = ", ".join(map(shown, self._changed))
            changed = "has changed on disk" if len(self._changed) == 1 else "have changed on disk"
            text, style = f"◐ {names} {changed} · {key} reads again", "bold $text-warning"
        elif self._trouble:
            text, style = f"✗ {_joined(self._trouble)}", "$text-error"
        elif view is not None and view.checked and view.findings is None:
            text, style = "Nothing was compiled: no session can begin with these rules.", "$text-error"
        elif not self._files and not self._offered:
            name = key_of(RulesScreen, "rules.open")
            text, style = f"{NO_FILES} {name} names some, {key} looks again.", MUTED
        else:
            text, style = "", ""
        note = self.query_one("#note", Static)
        note.update(Content.styled(text, style))
        note.set_class(not text, "-empty")

    def _show_place(self) -> None:
        text = self.query_one(RuleList)
        text.border_title = Content(shown(text.where()))


def _joined(text: str) -> str:
    return " ".join(line.strip() for line in shown_lines(text))
