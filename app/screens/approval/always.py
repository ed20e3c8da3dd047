"""Panel *always like this*: a change of the requesting rule that lets similar calls pass from now on.

It does not decide the request. A change cannot be saved if it has not been judged, or if a call that an
operator denied would pass under it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from ....engine.backtest.answers import Narrowed
from ....engine.backtest.input_fields import PlainField
from ....engine.backtest.suggestions import Narrowing
from ....engine.core.condition import Compare, condition_text
from ....engine.history.model.state import ApprovalState, SessionState
from ....engine.hub.api import AgentStarter
from ....rules import condition_of, read_rules
from ....rules.editing.narrowing import narrowed
from ...config.rules_edit import RuleEdit
from ...format.text import MUTED, clip, count, name_shown, shown, styled_rows
from ...sources.rules_files import files_of
from ...terminal.bindings import key_binding
from ...terminal.charset import to_charset
from ...viewmodels.always_like import (
    RulePlace,
    condition_of_fields,
    condition_words,
    other_fields,
    place_of,
    writable_fields,
)
from ...widgets.base.blocks import Block, BlockList
from ...widgets.base.greyed_keys import Parameters
from ..common.operator_context import OperatorContext
from ..common.rule_change import check_blocks, difference_rows, effect_blocks, part
from ..common.save_rule import ask_to_save, copy_rule
from .panel import RequestPanel

JUDGED = timedelta(days=30)
SAME = "Calls are like this one when they have the same"
OPEN = "The request stays open: this decides nothing."


class AlwaysScreen(RequestPanel[None]):
    """Proposes a change of the rule that asked, and has the hub of `context` judge it."""

    DEFAULT_CSS = """
    AlwaysScreen > .frame {
        width: 100%; max-width: 118; height: 94%;
        border: round $warning; border-title-color: $text-warning;
        & BlockList { height: 1fr; max-height: 1fr; }
        & #said { height: auto; display: none; }
    }
    """
    DECIDES = ("save", "always.save", "save the rule")
    BINDINGS: ClassVar[list[BindingType]] = [
        key_binding(
            "space",
            "switch_field",
            "same or any",
            "always.toggle",
            "Let this field differ, or be the same",
        ),
        key_binding(
            "ctrl+s",
            "save",
            "save the rule",
            "always.save",
            "Write the rule into your file, with a reason; the request stays open",
        ),
        key_binding("c", "copy_rule", "copy rule", "always.copy", "Copy the rule as a line"),
    ]

    @dataclass
    class Read(Message):
        """The rules files were read, or `problem` says why the rule cannot be judged."""

        place: RulePlace | None
        problem: str = ""

    @dataclass
    class Judged(Message):
        """Result of judging recorded calls by the changed rule: progress, final result, or problem."""

        run: int
        part: Narrowed | None
        problem: str = ""

    def __init__(
        self, request: ApprovalState, session: SessionState | None, context: OperatorContext
    ) -> None:
        super().__init__(request, context.monotonic, context.quiet)
        self._session = session
        self._operator_context = context
        self._fields = writable_fields(request)
        self._any: set[tuple[str, ...]] = set()
        self._place: RulePlace | None = None
        self._problem = ""
        self._run = 0
        self._share = 0
        self._found: Narrowing | None = None

    def compose(self) -> ComposeResult:
        with self.panel_frame(f"Always like this: {clip(name_shown(self.request.tool), 40)}"):
            yield Static("", id="said")
            yield BlockList()

    def on_mount(self) -> None:
        self.query_one(BlockList).focus()
        self._read()
        self._show()

    def how(self) -> Content:
        return Content("") if self.app.size.width < 80 else Content("space same or any · ")

    # Workers

    @work(exclusive=True, group="always-read", exit_on_error=False)
    async def _read(self) -> None:
        hub, rule = self._operator_context.hub, self.request.rule
        assert rule is not None
        try:
            if hub.server:
                if not isinstance(hub, AgentStarter):
                    raise ValueError("the server does not show its rules")
                texts = (await hub.running_rules()).files
            else:
                texts = await asyncio.to_thread(read_rules, *(files_of(self._session) or (rule.file,)))
            place = place_of(rule, texts)
        except Exception as error:
            self.post_message(self.Read(None, str(error) or type(error).__name__))
            return
        self.post_message(self.Read(place))

    @work(exclusive=True, group="always-judge", exit_on_error=False)
    async def _judge(self, run: int, place: RulePlace, when: str) -> None:
        hub = self._operator_context.hub
        since = self._operator_context.clock() - JUDGED
        try:
            judged = hub.narrow_rule(
                dict(place.texts), file=place.file, line=place.line, when=when, since=since
            )
            async with aclosing(judged) as parts:
                async for each in parts:
                    self.post_message(self.Judged(run, each))
        except Exception as error:
            self.post_message(self.Judged(run, None, str(error) or type(error).__name__))

    @on(Read)
    def take_place(self, message: Read) -> None:
        self._place, self._problem = message.place, message.problem
        self._again()

    @on(Judged)
    def take_judged(self, message: Judged) -> None:
        if message.run != self._run:
            return
        if message.part is None:
            self._problem = message.problem
        elif message.part.found is not None:
            self._found = message.part.found
            # The new result has to be read before a key can save the rule.
            self.fall_asleep()
        elif message.part.total:
            self._share = round(100 * message.part.done / message.part.total)
        self._show()

    def _again(self) -> None:
        """Judge the rule as it is chosen now."""
        self._run += 1
        self._found, self._share = None, 0
        if self._place is not None and self._same:
            self._problem = ""
            self._judge(self._run, self._place, condition_words(self._same))
        self.fall_asleep()
        self._show()

    # Actions

    @property
    def _same(self) -> list[PlainField]:
        """Return the fields that calls must share."""
        return [each for each in self._fields if each[0] not in self._any]

    @property
    def _edit(self) -> RuleEdit | None:
        """Return the change as far as it is known; `None` if no field is chosen."""
        rule, same = self.request.rule, self._same
        if rule is None or not same:
            return None
        if self._found is not None and self._place is not None:
            made = self._found.suggestion
            return self._place.edit(made.before or "", made.rule)
        net = None if self._session is None else self._session.nets.get(self.request.net)
        when = None if net is None or net.net.when is None else condition_of(net.net.when)
        after = narrowed(rule.text, when, condition_of_fields(same))
        return RuleEdit(rule.file, "", after, rule.line, rule.text)

    def action_switch_field(self) -> None:
        """Switch the field under the cursor between *same* and *any*."""
        key = self.query_one(BlockList).current
        path = next((each[0] for each in self._fields if _key(each[0]) == key), None)
        if path is not None:
            self._any ^= {path}
            self._again()

    @on(BlockList.Opened)
    def opened(self, message: BlockList.Opened) -> None:
        """Switch the field, as space does. Saves nothing."""
        message.stop()
        self.action_switch_field()

    def action_copy_rule(self) -> None:
        """Copy the changed rule."""
        edit = self._edit
        if edit is not None:
            copy_rule(self.app, edit.after)

    def action_save(self) -> None:
        """Request a reason, and write the rule."""
        self.deliberately(self._save)

    def _save(self) -> None:
        edit = self._edit
        if edit is None or self._obstacle() is not None:
            return
        server = self._operator_context.hub.server
        elsewhere = f"The rules are those of the server at {server}" if server else None
        if self._place is None:
            elsewhere = self._problem or "The rule was not read"
        asking = ask_to_save(
            self.app,
            edit,
            by=self._operator_context.operator,
            clock=self._operator_context.clock,
            elsewhere=elsewhere,
        )
        self.app.run_worker(asking, group="rule-save", exit_on_error=False)

    def _obstacle(self) -> str | None:
        """Return the reason why the rule cannot be saved now, or `None`."""
        found = self._found
        if not self._same:
            return "Choose a field that must be the same"
        if found is not None and found.denied:
            return f"Not saved: {count(found.denied, 'call')} would pass that people denied"
        if found is not None and found.errors:
            return "Not saved: the rules would contradict each other"
        if found is None and not self._problem:
            return "The recorded calls are still being judged"
        if found is None and self._place is not None:
            return "Not saved: the rule was not judged"
        return None

    def obstacle(self, action: str, parameters: Parameters = ()) -> str | None:
        """Permit saving only after judging, and only if no denied call would pass."""
        if action == "save":
            return super().obstacle(action, parameters) or self._obstacle()
        if action == "copy_rule" and not self._same:
            return "Choose a field that must be the same"
        return None

    # Painting

    def _show(self) -> None:
        if self.is_mounted:
            self.query_one(BlockList).show(list(self._blocks()))
            self.refresh_bindings()

    def _blocks(self) -> Iterator[Block]:
        yield from _text("open", OPEN, MUTED)
        yield from _text("same", SAME, "")
        for path, _, value in self._fields:
            chosen = path not in self._any
            mark = to_charset("[x]") if chosen else "[ ]"
            words = condition_text(Compare(path, "=", value))
            yield Block(
                _key(path),
                chosen,
                lambda width, row=f"{mark} {words}": styled_rows([shown(row)], width),
            )
        differ = [_name(path) for path, _, _ in self._fields if path in self._any]
        yield from _fixed_and_open(self._same, [*differ, *other_fields(self.request)])
        edit = self._edit
        if edit is None:
            yield from _text("none", "Choose a field that must be the same.", "$text-warning")
            return
        place = None if self.request.rule is None else self.request.rule.where
        yield Block(
            "rule",
            (edit.before, edit.after),
            lambda width: [Content(""), *difference_rows(place, edit.before, edit.after, width)],
            selectable=False,
        )
        yield from self._results()

    def _results(self) -> Iterator[Block]:
        found = self._found
        if found is None:
            said = f"✗ not judged: {self._problem}" if self._problem else f"judging… {self._share} %"
            yield from part("last 30 days", [said], "$text-warning" if self._problem else MUTED)
            return
        if found.denied:
            calls = [
                f"{each.session} event {each.event}: {each.tool} {each.input}"
                for each in found.listed_denied
            ]
            head = f"✗ {count(found.denied, 'call')} would pass that people denied: this cannot be saved"
            yield from part("denied", [head, *calls], "bold $text-error")
        yield from effect_blocks(found.suggestion.effect, heading="last 30 days")
        if found.errors:
            yield from part("check", found.errors, "$text-error")
        else:
            yield from check_blocks(found.suggestion.warnings)


def _key(path: tuple[str, ...]) -> str:
    return f"field {_name(path)}"


def _name(path: tuple[str, ...]) -> str:
    return ".".join(path)


def _fixed_and_open(same: Sequence[PlainField], free: Sequence[str]) -> Iterator[Block]:
    """Yield the fields that the rule fixes, and those that may have any value.

    Fields that the requested call does not have are open as well, since the rule does not mention them.
    """
    fixed = ", ".join(_name(path) for path, _, _ in same)
    if fixed:
        yield from _text("fixed", f"fixed  {fixed}", "")
    others = "every field that this call does not have"
    named = f"{', '.join(free)}; and {others}" if free else others
    yield from _text("any", f"▲ open   any value in {named}", "$text-warning")


def _text(key: str, text: str, style: str) -> Iterator[Block]:
    yield Block(key, text, lambda width: styled_rows([shown(text)], width, style), selectable=False)
