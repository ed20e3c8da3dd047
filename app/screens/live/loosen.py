"""Panels for actions that loosen a session's rules: they need a reason and list the open requests (G-67).

The hub decides what is required. If several people have to agree, the panel shows who has agreed so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import Input, Static

from ....engine.core.durations import parse_time
from ....engine.history.model.records import FreezeRecord
from ....engine.history.model.state import ApprovalState, ChangeState, SessionState, SwitchState
from ...format.text import MUTED, clip, shown, width_of
from ...format.times import clock
from ...terminal.bindings import key_binding
from ...terminal.keymap import key_of
from ...widgets.inputs.safe_input import TypedLine
from ..common.confirm import Confirm
from ..common.panel import Panel

MOST_NAMED = 4
"""Number of requests that the panel lists individually."""
MOST_LINES = 4
"""Maximum number of lines in the banner."""


@dataclass(frozen=True, slots=True)
class Loosening:
    """Reason for loosening a rule, and its duration in seconds; `None` means until switched back."""

    reason: str
    seconds: float | None = None


class Loosen(Panel[Loosening | None]):
    """Panel for the reason to loosen something, and for how long. Enter confirms, escape cancels."""

    BINDINGS: ClassVar[list[BindingType]] = []

    DEFAULT_CSS = """
    Loosen > .frame { width: 84; max-width: 95%; border: round $warning; }
    Loosen Static { height: auto; }
    Loosen TypedLine { margin: 1 0 0 0; }
    """

    def __init__(
        self, title: str, details: Sequence[str], *, for_good: bool = False, why: str = "is it on"
    ) -> None:
        super().__init__()
        self._title = title
        self._details = details
        self._for_good = for_good
        self._why = why if for_good else "is it off"

    def compose(self) -> ComposeResult:
        with self.panel_frame(shown(self._title), "enter confirm", ("panel.close", "cancel")):
            for detail in self._details:
                yield Static(Content.styled(shown(detail), MUTED))
            yield TypedLine(placeholder="reason (recorded with your name)", id="reason")
            if not self._for_good:
                yield TypedLine(placeholder="for how long, such as 10m (empty: no limit)", id="time")
            yield Static(id="hint")

    def on_mount(self) -> None:
        self.query_one("#reason", TypedLine).focus()

    @on(Input.Submitted)
    def answer(self, message: Input.Submitted) -> None:
        """Close with what was typed, or report what is missing."""
        message.stop()
        reason = self.query_one("#reason", TypedLine).value.strip()
        typed = "" if self._for_good else self.query_one("#time", TypedLine).value.strip()
        seconds = parse_time(typed) if typed else None
        if not reason:
            self._hint(f"Type a reason: why {self._why}, who knows about it")
            self.query_one("#reason", TypedLine).focus()
        elif typed and not seconds:
            self._hint("Expected a time such as 30s, 10m or 2h")
            self.query_one("#time", TypedLine).focus()
        elif self.is_current:
            self.dismiss(Loosening(reason, seconds))

    def _hint(self, text: str) -> None:
        self.query_one("#hint", Static).update(Content.styled(f"✗ {text}", "$text-error"))


def loosen_net(state: SessionState, key: str) -> Loosen:
    """Return the panel that turns a net off."""
    rule = state.nets[key].net.rule
    written = [] if rule is None else [f"{rule.where}  {rule.text.strip()}"]
    return Loosen(
        f"Turn off {key} in {state.agent or state.id}",
        [
            *written,
            *waiting_lines(state.approvals.values()),
            "Calls made from now on are not judged by it. A rule for several people, with 'no grants' or "
            "'risk high', goes off only once as many other people have confirmed.",
        ],
    )


def turn_on_net(state: SessionState, key: str, reason: str) -> Loosen:
    """Return the panel that turns on a net if this takes calls away from a rule on `anything-else`."""
    rule = state.nets[key].net.rule
    written = [] if rule is None else [f"{rule.where}  {rule.text.strip()}"]
    return Loosen(
        f"Turn on {key} in {state.agent or state.id}",
        [*written, reason, *waiting_lines(state.approvals.values())],
        for_good=True,
    )


def loosen_mode(state: SessionState) -> Loosen:
    """Return the panel that switches to shadow mode."""
    return Loosen(
        f"Shadow mode: stop blocking calls of {state.agent or state.id}",
        [
            "In shadow mode every call runs; what would have been blocked or asked is only recorded.",
            *waiting_lines(state.approvals.values()),
            "Where a rule asks for several people, says 'no grants' or 'risk high', as many other people "
            "have to confirm.",
        ],
    )


def lift_freeze(frozen: FreezeRecord, sessions: Iterable[SessionState]) -> Loosen:
    """Return the panel that lifts the freeze of all agents."""
    waiting = [call for state in sessions for call in state.calls.values() if call.status == "proposed"]
    number = "1 call waits" if len(waiting) == 1 else f"{len(waiting)} calls wait"
    since = f"All agents are {frozen.words} (at {clock(frozen.at)})."
    return Loosen(
        "Lift the freeze of all agents",
        [since, f"{number}. They are judged and continue once you confirm, and so do approved calls."],
        for_good=True,
        why="may they continue",
    )


class ProposedChange(Confirm):
    """Dialog in which an operator agrees to a proposed change; `x` takes the proposal back."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key_binding("x", "drop", "take back", "proposed.drop", "Take back the proposed change"),
    ]

    def __init__(self, change: ChangeState, drop: Callable[[], None]) -> None:
        super().__init__(
            "Proposed change",
            f"{change.by} proposes: {change.words}. Do you confirm it?",
            [
                f"Reason: {change.reason}",
                f"Confirmed by {_confirmations(change)}; {change.missing} missing. "
                f"Until {clock(change.expires)}",
                f"{key_of(ProposedChange, 'proposed.drop')} takes the proposal back.",
            ],
        )
        self._drop = drop

    def action_drop(self) -> None:
        """Take the proposal back, and confirm nothing."""
        if self.is_current:
            self._drop()
            self.dismiss(False)


def waiting_lines(waiting: Iterable[ApprovalState]) -> list[str]:
    """List the open requests that a change affects; each is asked again."""
    named = [f"{a.tool} (call {a.call_id}, {a.net})" for a in waiting]
    if not named:
        return ["No request waits in this session."]
    more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
    listed = "; ".join(named[:MOST_NAMED]) + more
    return [f"These requests keep waiting and are asked again: {listed}"]


def _confirmations(change: ChangeState) -> str:
    return f"{len(change.given)} of {change.people} ({', '.join(change.given) or 'nobody yet'})"


def change_line(change: ChangeState) -> str:
    """Return a proposal in one line: until when, who proposed what, who has confirmed, and why."""
    return (
        f"until {clock(change.expires)} {change.by} proposes: {change.words}; confirmed by "
        f"{_confirmations(change)}: {change.reason}"
    )


def switch_line(subject: str, switch: SwitchState) -> str:
    """Return one line that states what is off, until when, by whom, and why."""
    until = "" if switch.until is None else f" until {clock(switch.until)}"
    why = "" if switch.reason is None else f": {switch.reason}"
    return f"{subject}{until}, by {', '.join(switch.people)}{why}"


def banner(state: SessionState | None, others: Mapping[str, SessionState], width: int) -> Content | None:
    """Return what is switched off or proposed in the session of `state`, and in `others` by name.

    At most `MOST_LINES` lines of at most `width` cells; `None` if nothing is off or proposed.
    """
    others_lines = [_others_line("!", _off, others, width), _others_line("?", _proposed, others, width)]
    below = [line for line in others_lines if line is not None]
    lines = [*([] if state is None else _own_lines(state, MOST_LINES - len(below))), *below]
    styled = (Content.styled(clip(shown(line), width), _STYLES[line[0]]) for line in lines)
    return Content("\n").join(styled) if lines else None


_STYLES = {"!": "bold $text-warning", "?": "$text-warning"}


def _own_lines(state: SessionState, most: int) -> list[str]:
    """Return lines on what is off and then on what is proposed in the session shown, with who and why."""
    off = [switch_line(f"{key} is off", each) for key, each in state.off.items()]
    if state.shadowed is not None:
        off.insert(0, switch_line("shadow mode, nothing is blocked", state.shadowed))
    lines = [*(f"! {line}" for line in off)]
    lines += [f"? {change_line(change)}" for change in state.changes.values()]
    if len(lines) <= most:
        return lines
    rest = [
        *(f"{name} is off" for name in _off(state)),
        *(f"proposed: {name}" for name in _proposed(state)),
    ]
    return [*lines[: most - 1], f"! {len(lines) - most + 1} more: {'; '.join(rest[most - 1 :])}"]


def _off(state: SessionState) -> list[str]:
    return [*(["shadow mode"] if state.shadowed is not None else []), *state.off]


def _proposed(state: SessionState) -> list[str]:
    return [change.words for change in state.changes.values()]


def _others_line(
    sign: str,
    changes: Callable[[SessionState], list[str]],
    others: Mapping[str, SessionState],
    width: int,
) -> str | None:
    """Return how much is off or proposed in other sessions, with as many of their names as fit."""
    found = {name: each for name, state in others.items() if (each := changes(state))}
    if not found:
        return None
    sessions = "1 other session" if len(found) == 1 else f"{len(found)} other sessions"
    head = f"{sign} {sum(map(len, found.values()))} {'off' if sign == '!' else 'proposed'} in {sessions}"
    named = [f"{name}: {', '.join(each)}" for name, each in found.items()]
    for many in range(len(named), 0, -1):
        more = "" if many == len(named) else "; …"
        line = f"{head} ({'; '.join(named[:many])}{more})"
        if width_of(shown(line)) <= width:
            return line
    return f"{head}: {', '.join(found)}"
