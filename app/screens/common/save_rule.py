"""Saving of a changed rule, with a reason, into a file that the confirmation names; or display for manual
editing.

Saving does not apply the rule. Sessions that begin later read the file; running sessions keep their
rules.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import Static

from ....engine.core.clock import Clock
from ...config.rules_edit import RuleEdit, RuleEditError, comment, save, target
from ...format.text import MUTED, shown
from ...terminal.bindings import key_binding
from ...terminal.charset import visible
from ...terminal.key_rights import permission_of
from ..live.loosen import Loosen, Loosening
from .confirm import Confirm, when_yes
from .panel import Panel

SAVED = (
    "Saved in {}. The rule applies to sessions that begin from now on; live ones keep their rules. A "
    "server takes it with `interlock rules apply`, or `a` on the rules screen."
)
AGENTS = "An agent that works in this folder can write the file, too."


class RuleByHand(Panel[None]):
    """Panel that shows why a rule is not written from here, and the rule to copy."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key_binding("c", "copy", "copy rule", "by-hand.copy", "Copy the rule as a line"),
    ]

    DEFAULT_CSS = """
    RuleByHand > .frame { padding: 1 2; }
    RuleByHand Static { width: 1fr; }
    RuleByHand #rule { margin: 1 0; }
    """

    def __init__(self, reason: str, edit: RuleEdit) -> None:
        super().__init__()
        self._reason = reason
        self._edit = edit

    def compose(self) -> ComposeResult:
        place = self._edit.file if self._edit.line is None else f"{self._edit.file}:{self._edit.line}"
        with self.panel_frame("Not saved", ("by-hand.copy", "copy rule"), ("panel.close", "close")):
            yield Static(Content(shown(f"{self._reason}. Add the rule by hand:")))
            yield Static(Content.styled(visible(self._edit.after.strip()), "bold"), id="rule")
            yield Static(Content.styled(shown(f"It belongs to {place}."), MUTED))

    def action_copy(self) -> None:
        """Copy the rule to the clipboard."""
        copy_rule(self.app, self._edit.after)


def copy_rule(app: App[None], rule: str) -> None:
    """Copy a rule's line to the clipboard."""
    app.copy_to_clipboard(rule.strip())
    app.notify("Copied: write it into your rules file", markup=False)


async def ask_to_save(
    app: App[None], edit: RuleEdit, *, by: str, clock: Clock, elsewhere: str | None = None
) -> None:
    """Request a reason and a confirmation, then write the rule.

    `elsewhere` is the reason why the file is not on this machine, if so. If the rule cannot be written,
    it is shown for copying.
    """
    refused = permission_of(app).refusal("administer")
    if refused is not None:
        app.notify(shown(refused), severity="error", markup=False)
        return
    if app.is_web:
        elsewhere = "This console is in a browser, and the file is where the console runs"
    try:
        if elsewhere is not None:
            raise RuleEditError(elsewhere)
        path = await asyncio.to_thread(target, edit)
    except RuleEditError as error:
        app.push_screen(RuleByHand(str(error), edit))
        return
    app.call_later(_ask_reason, app, edit, path, by, clock)


def _ask_reason(app: App[None], edit: RuleEdit, path: Path, by: str, clock: Clock) -> None:
    lines = [*([] if edit.before is None else [f"- {edit.before.strip()}"]), f"+ {edit.after.strip()}"]

    def given(loosening: Loosening | None) -> None:
        if loosening is not None:
            said = comment(by, loosening.reason, clock().date())
            question = Confirm("Save rule", f"Write this rule into {path}?", [said, *lines, AGENTS])
            write = partial(_write, app, edit, path, by, loosening.reason, clock)
            app.push_screen(question, when_yes(partial(_in_worker, app, write)))

    app.push_screen(Loosen("Save the rule", [str(path), *lines], for_good=True), given)


def _in_worker(app: App[None], write: Callable[[], object]) -> None:
    app.run_worker(asyncio.to_thread(write), group="rule-save", exit_on_error=False)


def _write(app: App[None], edit: RuleEdit, path: Path, by: str, reason: str, clock: Clock) -> None:
    """Write the rule, in a thread, and report the outcome."""
    try:
        save(edit, path, by=by, reason=reason, day=clock().date())
    except RuleEditError as error:
        app.call_from_thread(app.push_screen, RuleByHand(str(error), edit))
    else:
        said = partial(app.notify, shown(SAVED.format(path)), markup=False, timeout=15)
        app.call_from_thread(said)
