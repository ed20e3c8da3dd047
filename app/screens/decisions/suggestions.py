"""The suggestions screen: rules that the journal supports, for known rules files.

Nothing is applied. The operator reads a suggestion, and copies it or saves it into a file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import partial
from typing import ClassVar

from textual import on
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static
from textual.worker import Worker

from ....engine.backtest.answers import Suggested
from ....engine.backtest.suggestions import History, Suggestion
from ....engine.core.clock import Clock
from ....engine.hub.api import DecisionApi, HistoryApi
from ....rules import read_rules
from ...config.rules_edit import RuleEdit
from ...format.suggestions import NOTHING, TITLES, effect_words, history_line, support_words
from ...format.text import MUTED, clip, hanging_rows, shown, shown_lines, styled_rows, wrap
from ...sources.rules_files import OfferedFiles, files_of, offered, usual
from ...terminal.bindings import COPY_KEY, FOCUS_KEYS, key_binding
from ...terminal.keymap import key_of
from ...viewmodels.backtest_job import rules_files
from ...widgets.base.bars import KeyBar
from ...widgets.base.blocks import Block, BlockList
from ...widgets.base.greyed_keys import Parameters
from ...widgets.base.title_bar import ScreenBar
from ...widgets.inputs.choice import Choice
from ..common.deferred_paint import SettledScreen
from ..common.detail import Detail
from ..common.rule_change import check_blocks, difference_rows, effect_blocks, part
from ..common.save_rule import ask_to_save, copy_rule
from .approval_stats import PERIODS

BAR = 24
MOST_OFFERED = 6
"""Number of file sets offered as choices; others are typed by name."""
LONGEST = 40
LABEL = 7
OTHERS = "others"
HINT = "Choose or name the rules files to start from. Nothing is applied."
NO_CALLS = "No recorded call to learn from."
WARNING = "What held in this history says nothing about calls that are not in it."


class SuggestionsScreen(SettledScreen[None], inherit_bindings=False):
    """Suggestions from `journal` for rules files: `known` ones, or others typed by name.

    `trouble` is the reason why some files are not known. `clock` is the reference for periods, `zone` is
    the operator's time zone.
    """

    CSS_PATH = "suggestions.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        key_binding("f5", "run", "suggest", "suggestions.run", "Read the files and the journal again"),
        key_binding("r", "files", "rules", "suggestions.files", "Choose or name other rules files"),
        key_binding("t", "period", "period", "suggestions.period", "Learn from another period"),
        key_binding("c", "copy_rule", "copy rule", "suggestions.copy", "Copy the rule as a line"),
        key_binding(
            "s", "save", "save rule", "suggestions.save", "Write the rule into your file, with a reason"
        ),
        key_binding(
            "escape", "leave", "back", "suggestions.back", "Stop reading the journal; then go back"
        ),
        *FOCUS_KEYS,
        COPY_KEY,
    ]

    @dataclass
    class Progressed(Message):
        """More of the journal was read, or a suggestion was found."""

        run: int
        part: Suggested

    @dataclass
    class Read(Message):
        """The rules files were read; suggestions are for these texts."""

        run: int
        rules: Mapping[str, str]

    @dataclass
    class Failed(Message):
        """No suggestions can be made, for this reason."""

        run: int
        error: str

    def __init__(
        self,
        journal: DecisionApi,
        known: Sequence[OfferedFiles] = (),
        *,
        clock: Clock,
        zone: tzinfo | None = None,
        trouble: str = "",
        operator: str = "",
    ) -> None:
        super().__init__()
        self._operator = operator
        self._rules: Mapping[str, str] = {}
        self._journal = journal
        self._known = known[:MOST_OFFERED]
        self._clock = clock
        self._zone = zone
        self._trouble = trouble
        self._period = [length for _, length in PERIODS].index(None)
        self._run = 0
        self._work: Worker[None] | None = None
        self._progress = (0, 0)
        self._found: list[Suggestion] = []
        self._history: History | None = None
        self._error = ""
        self._stopped = False

    def compose(self) -> ComposeResult:
        yield ScreenBar("suggestions", id="title")
        names = [(str(at), clip(each.names, LONGEST)) for at, each in enumerate(self._known)]
        with Horizontal(classes="field"):
            yield Static("Rules", classes="label")
            yield Choice([*names, (OTHERS, "other files")], id="files", folds=True)
        yield Input(placeholder="rules files: deploy.rules ops.rules", id="named")
        yield Static("", id="state")
        with Vertical(id="found"):
            yield BlockList(id="suggestions")
        yield KeyBar()

    def on_mount(self) -> None:
        self.query_one("#named").display = not self._known
        if self._known:
            self.query_one(BlockList).focus()
            self.action_run()
        else:
            self.query_one("#named").focus()
            self._show()

    def on_unmount(self) -> None:
        self._cancel()

    # Actions

    @property
    def _files(self) -> tuple[str, ...]:
        """Return the chosen files. Raises `ValueError` for names that cannot be parsed."""
        chosen = self.query_one(Choice).chosen
        if chosen != OTHERS:
            return self._known[int(chosen)].files
        return tuple(map(usual, rules_files(self.query_one("#named", Input).value)))

    @on(Choice.Changed, "#files")
    def choose_files(self, message: Choice.Changed) -> None:
        """Suggest rules for the chosen files. For other files, ask for their names first."""
        message.stop()
        named = self.query_one("#named", Input)
        named.display = message.chosen == OTHERS
        if message.chosen != OTHERS:
            self.action_run()
            return
        self._cancel()
        self._forget()
        self._show()
        named.focus()

    @on(Input.Submitted, "#named")
    def take_named(self, message: Input.Submitted) -> None:
        message.stop()
        self.action_run()
        self.query_one(BlockList).focus()

    def action_files(self) -> None:
        """Focus the choice of rules files."""
        self.query_one(Choice).focus()

    def action_period(self) -> None:
        """Switch to the next period."""
        self._period = (self._period + 1) % len(PERIODS)
        self.action_run()

    def action_run(self) -> None:
        """Start again; a running search is cancelled."""
        self._cancel()
        self._forget()
        try:
            files = self._files
        except ValueError as error:
            self._error = str(error)
        else:
            length = PERIODS[self._period][1]
            since = None if length is None else self._clock() - length
            work = self._suggest(self._run, files, since)
            self._work = self.run_worker(work, group="suggestions", exit_on_error=False)
        self._show()

    def action_leave(self) -> None:
        """Cancel a running search, else leave the screen."""
        if self._work is not None:
            self._cancel()
            self._run += 1
            self._stopped = True
            self._show()
        elif self.is_current:
            self.dismiss()

    def _cancel(self) -> None:
        if self._work is not None:
            self._work.cancel()
            self._work = None

    def _forget(self) -> None:
        """Reset the results, and ignore messages of the previous search that are already queued."""
        self._run += 1
        self._progress, self._found, self._history = (0, 0), [], None
        self._error, self._stopped = "", False

    @property
    def _chosen(self) -> Suggestion | None:
        """Return the suggestion under the cursor."""
        key = self.query_one(BlockList).current
        return self._found[int(key)] if key is not None and key.isdecimal() else None

    @on(BlockList.Opened, "#suggestions")
    def open_suggestion(self, message: BlockList.Opened) -> None:
        """Open the detail of a suggestion."""
        message.stop()
        suggestion = self._chosen
        if suggestion is not None:
            self.app.push_screen(
                SuggestionDetail(suggestion, partial(self._save, suggestion), self._zone)
            )

    @on(BlockList.Moved, "#suggestions")
    def follow(self, message: BlockList.Moved) -> None:
        message.stop()
        self.refresh_bindings()

    def action_copy_rule(self) -> None:
        """Copy the rule of the suggestion under the cursor."""
        suggestion = self._chosen
        if suggestion is not None:
            copy_rule(self.app, suggestion.rule)

    def action_save(self) -> None:
        """Write the suggestion under the cursor into the operator's file, with a reason."""
        suggestion = self._chosen
        if suggestion is not None:
            self._save(suggestion)

    def _save(self, suggestion: Suggestion) -> None:
        try:
            edit = edit_of(suggestion, self._rules)
        except ValueError as error:
            self.app.notify(shown(f"Not saved: {error}"), severity="error", markup=False)
            return
        asking = ask_to_save(self.app, edit, by=self._operator, clock=self._clock)
        self.app.run_worker(asking, group="rule-save", exit_on_error=False)

    def obstacle(self, action: str, parameters: Parameters = ()) -> str | None:
        """Return why a rule cannot be copied or saved now: no suggestion is selected."""
        if action in ("copy_rule", "save") and (not self.is_mounted or self._chosen is None):
            return "No suggestion is under the cursor."
        return None

    # Results

    async def _suggest(self, run: int, files: tuple[str, ...], since: datetime | None) -> None:
        try:
            rules = await asyncio.to_thread(read_rules, *files)
            self.post_message(self.Read(run, rules))
            async with aclosing(self._journal.suggest_rules(rules, since=since)) as parts:
                async for part_ in parts:
                    self.post_message(self.Progressed(run, part_))
        except Exception as error:
            self.post_message(self.Failed(run, str(error) or type(error).__name__))

    @on(Read)
    def take_rules(self, message: Read) -> None:
        if message.run == self._run:
            self._rules = message.rules

    @on(Progressed)
    def show_progress(self, message: Progressed) -> None:
        if message.run != self._run:
            return
        part_ = message.part
        if part_.suggestion is not None:
            self._found.append(part_.suggestion)
        elif part_.history is not None:
            self._history = part_.history.model_copy(update={"suggestions": tuple(self._found)})
            self._work = None
        else:
            self._progress = (part_.done, part_.total)
        self._show()

    @on(Failed)
    def show_failure(self, message: Failed) -> None:
        if message.run == self._run:
            self._work = None
            self._error = message.error
            self._show()

    # Painting

    def on_resize(self) -> None:
        self._show()

    def _show(self) -> None:
        period = f"calls: {PERIODS[self._period][0]}"
        self.query_one(ScreenBar).say(Content.styled(period, MUTED))
        self.query_one("#state", Static).update(self._state())
        self.query_one(BlockList).show(list(self._blocks()))
        self.refresh_bindings()

    def _state(self) -> Content:
        if self._error:
            rows = [row for row in shown_lines(self._error) if row.strip()] or [""]
            return Content.styled("\n".join(["✗ " + rows[0], *rows[1:]]), "$text-error")
        if self._history is not None:
            return Content.styled(f"✓ {history_line(self._history)}", "$text-success")
        done, total = self._progress
        if self._work is not None:
            share = min(1.0, done / total) if total else 0.0
            full = round(BAR * share)
            leave = key_of(SuggestionsScreen, "suggestions.back")
            return Content.assemble(
                ("━" * full, "$text-accent"),
                ("─" * (BAR - full), MUTED),
                f"  {round(100 * share)} % read",
                (f"  {leave} cancels", MUTED),
            )
        if self._stopped:
            return Content.styled("◐ cancelled: nothing is suggested", "$text-warning")
        return Content.styled(shown(self._trouble) or HINT, "$text-warning" if self._trouble else MUTED)

    def _blocks(self) -> Iterator[Block]:
        for number, suggestion in enumerate(self._found):
            yield Block(
                f"{number}",
                (suggestion.replaces, suggestion.rule),
                _summary(number + 1, suggestion, self._zone),
            )
        if self._history is not None:
            said = WARNING if self._found else NOTHING if self._history.calls else NO_CALLS
            style = "$text-warning" if self._found else MUTED
            yield Block("said", said, lambda width: styled_rows([said], width, style), selectable=False)


def _summary(number: int, suggestion: Suggestion, zone: tzinfo | None) -> Callable[[int], list[Content]]:
    def rows(width: int) -> list[Content]:
        return [
            *styled_rows([f"{number}. {TITLES[suggestion.kind]}"], width, "bold"),
            *difference_rows(suggestion.replaces, suggestion.before, suggestion.rule, width),
            *_labelled("why", shown(support_words(suggestion, zone)), width),
            *_labelled("does", effect_words(suggestion.effect), width),
            *(
                row
                for each in suggestion.warnings
                for row in _labelled("check", shown(each), width, "$text-warning")
            ),
            Content(""),
        ]

    return rows


def _labelled(label: str, text: str, width: int, style: str = "") -> list[Content]:
    rows = [(row, style) for row in wrap(text, max(1, width - LABEL))]
    return hanging_rows(f"{label:<{LABEL}}", MUTED, rows)


def edit_of(suggestion: Suggestion, rules: Mapping[str, str]) -> RuleEdit:
    """Return the change of a file that a suggestion for `rules` proposes.

    Raises `ValueError` for a line that the rules do not have, since a suggestion may come from a server.
    """
    if suggestion.replaces is None:
        file = next(iter(rules))
        return RuleEdit(file, rules[file], suggestion.rule)
    file, _, number = suggestion.replaces.rpartition(":")
    lines = rules.get(file, "").split("\n")
    if not number.isdecimal() or not 0 < int(number) <= len(lines) or file not in rules:
        raise ValueError(f"{suggestion.replaces} is not a line of these rules")
    line = int(number)
    return RuleEdit(file, rules[file], suggestion.rule, line, lines[line - 1])


class SuggestionDetail(Detail):
    """Panel of one suggestion in full; `c` copies its rule, and `save` writes the rule into a file."""

    HINTS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("suggestion.copy", "copy rule"),
        ("suggestion.save", "save rule"),
        ("panel.close", "close"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        key_binding("c", "copy_rule", "copy rule", "suggestion.copy", "Copy the rule as a line"),
        key_binding(
            "s", "save", "save rule", "suggestion.save", "Write the rule into your file, with a reason"
        ),
    ]

    def __init__(
        self, suggestion: Suggestion, save: Callable[[], object], zone: tzinfo | None = None
    ) -> None:
        super().__init__("Suggestion", suggestion_blocks(suggestion, zone))
        self._suggestion = suggestion
        self._save = save

    def action_save(self) -> None:
        """Write the rule into the operator's file, with a reason."""
        self._save()

    def action_copy_rule(self) -> None:
        """Copy the rule."""
        copy_rule(self.app, self._suggestion.rule)


def suggestion_blocks(suggestion: Suggestion, zone: tzinfo | None = None) -> list[Block]:
    """Return blocks: the rule, its reasons, its effect on recorded calls, findings and scenarios."""
    scenarios = suggestion.scenarios.split("\n") if suggestion.scenarios else []

    def head(width: int) -> list[Content]:
        before, after = suggestion.before, suggestion.rule
        title = styled_rows([TITLES[suggestion.kind]], width, "bold")
        return title + difference_rows(suggestion.replaces, before, after, width)

    return [
        Block("rule", 0, head),
        *part("why", [support_words(suggestion, zone)]),
        *effect_blocks(suggestion.effect, zone),
        *check_blocks(suggestion.warnings),
        *(part("scenarios, for a _test.rules file", scenarios) if scenarios else ()),
    ]


async def show_suggestions(
    app: App[None],
    journal: DecisionApi,
    sessions: HistoryApi | None,
    *,
    session: str | None,
    operator: str,
    clock: Clock,
    zone: tzinfo | None = None,
) -> None:
    """Open the screen with the files of this folder and of sessions, those of `session` first."""
    trouble, known = "", list[tuple[str, tuple[str, ...]]]()
    try:
        found = [] if sessions is None else await sessions.history()
        known = [(each.id, files_of(each)) for each in sorted(found, key=lambda each: each.id != session)]
    except Exception as error:
        trouble = f"The sessions cannot be read: {error}"
    try:
        files = await asyncio.to_thread(offered, known)
    except OSError as error:
        files, trouble = [], f"The folder cannot be read: {error}"
    here = [each for each in files if each.origin != "library"]
    screen = SuggestionsScreen(journal, here, clock=clock, zone=zone, trouble=trouble, operator=operator)
    app.call_later(app.push_screen, screen)
