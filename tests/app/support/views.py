"""Every screen and dialog of the console, with the keys that lead to it, for tests of all of them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from textual import events
from textual.app import App
from textual.pilot import Pilot
from textual.strip import Strip
from textual.widgets import Input

from interlock.app.console.app import InterlockConsole
from interlock.app.console.history_app import HistoryConsole
from interlock.app.screens.replay.screen import ReplayScreen
from interlock.app.sources.recorded_file import RecordedFile
from interlock.app.terminal.appearance import Appearance
from interlock.app.terminal.charset import use_ascii
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.state import SessionState
from interlock.engine.recording.explanation import ExplanationView, NetView, PlannedCallView, WayView

from ...support import decisions
from ...support.approvals import tired
from ...support.copies import copied
from ...support.fake_hub import FakeHub
from ..screens.flows.flows import release
from ..screens.replay import journal
from .queue_scenes import grant, several
from .scenes import NOW, deploy_request, release_bot
from .stage import everyone

LIVE, DECISIONS, REPLAY, FATIGUE = "live", "decisions", "replay", "fatigue"
EXPLAINED = ExplanationView(
    tool="deploy",
    input={},
    names=("deploy",),
    outcome="block",
    way=WayView(
        reachable="yes",
        calls=tuple(
            PlannedCallView(names=(tool,), approval=tool == "deploy", succeeds=True)
            for tool in ("test", "deploy")
        ),
        shortest=True,
    ),
    nets=(
        NetView(
            net="require-test-before-deploy",
            verdict="blocked",
            tool="deploy",
            asks=False,
            reason="deploy requires a successful call to test first.",
            marking={"idle": 1},
            rule=None,
        ),
    ),
)


@dataclass(frozen=True)
class View:
    """A screen: its console, the keys that lead to it, and a text that it shows."""

    name: str
    console: str
    keys: Sequence[str]
    shows: str
    at: int = 1
    """The event shown in a replay."""
    rules: str = ""
    """The text for a dialog's rules field, entered at the key `*`."""
    first: Callable[[], SessionState] = release_bot
    """The first session of a live console."""


TYPED = "type "
"""The prefix of a text among a view's keys; no key has a blank in its name."""


def hard() -> SessionState:
    """Return a session with a long request that cannot be analysed and would change files."""
    state = release_bot()
    state.approvals["ap1"] = hard_request()
    return state


def doubtful() -> SessionState:
    """Return a session with a request that cannot be analysed."""
    state = release_bot()
    state.approvals["ap1"] = deploy_request(uninspectable="it sources a file")
    return state


def limited() -> SessionState:
    """Return a session that its cost limit has stopped."""
    spent = {"max_cost": 1.0, "cost": 1.25, "input_tokens": 12_000, "output_tokens": 800}
    return release_bot().model_copy(update=spent)


def granting() -> SessionState:
    """Return a session with an active grant."""
    state = release_bot()
    state.grants["grant-1"] = grant()
    return state


MARKED = ("alt+5", "space", "j", "space", "j", "space", "B", ".")
"""The keys that show three requests as a table."""


VIEWS = [
    View("live", LIVE, (), "release-bot"),
    View("live-sessions", LIVE, ("alt+1",), "nightly-sync"),
    View("live-nets", LIVE, ("alt+3",), "require-lint-before-test"),
    View("live-pending", LIVE, ("alt+4",), "No calls in progress"),
    View("live-waiting", LIVE, ("alt+5",), "deploy"),
    View("say", LIVE, ("i",), "To release-bot"),
    View("approval", LIVE, ("a",), "WHAT WILL RUN"),
    View("approval-hard", LIVE, ("a",), "CANNOT BE FULLY ANALYSED", first=hard),
    View("approval-whole", LIVE, ("a", ".", "space", "end"), "THE AGENT SAYS", first=hard),
    View("deny", LIVE, ("a", ".", "d"), "Reason"),
    View("deny-and-stop", LIVE, ("a", ".", "s"), "stops release-bot"),
    View("edit", LIVE, ("a", ".", "e", ".", "x"), "changed"),
    View("edit-review", LIVE, ("a", ".", "e", ".", "x", ".", "ctrl+s", "."), "Rules are checked again"),
    View("grant", LIVE, ("a", ".", "g", ".", "tab", "right"), "the next 3 calls"),
    View("grant-once", LIVE, ("a", ".", "g", ".", "down"), "exactly", first=doubtful),
    View("batch", LIVE, MARKED, "3 requests", first=several),
    View("batch-read", LIVE, (*MARKED, "end", "."), "approve all once", first=several),
    View("batch-deny", LIVE, (*MARKED, "end", ".", "D"), "Reason for all", first=several),
    View("triage", LIVE, ("Q",), "in 1 group", first=several),
    View("triage-deny", LIVE, ("Q", ".", ".", "d"), "Reason", first=several),
    View("grant-given", LIVE, ("alt+3", "G", "enter"), "grant-1", first=granting),
    View("revoke", LIVE, ("alt+3", "G", "x"), "Revoke grant-1?", first=granting),
    View("limit", LIVE, ("dollar_sign",), "of $1.00", first=limited),
    View(
        "limit-mistake", LIVE, ("dollar_sign", TYPED + "1", "enter"), "Expected more than", first=limited
    ),
    View("explain", LIVE, ("a", ".", "x"), "require-test-before-deploy"),
    View("answer", LIVE, ("a",), "WHAT IS ASKED", first=release),
    View("answer-form", LIVE, ("a", ".", "a", "."), "severity", first=release),
    View("answer-refused", LIVE, ("a", ".", "a", ".", "ctrl+s", "."), "Not yet. by", first=release),
    View("flow-nets", LIVE, ("alt+3", "g"), "at Notes", first=release),
    View("flow-graph", LIVE, ("alt+3", "g", "enter"), "worked last", first=release),
    View("help", LIVE, ("question_mark",), "THIS SCREEN"),
    View("help-approval", LIVE, ("a", ".", "question_mark", "end"), "EVERYWHERE"),
    View("palette", LIVE, ("ctrl+p",), "Open the selected request"),
    View("confirm", LIVE, ("ctrl+x",), "Stop agent"),
    View("loosen", LIVE, ("m",), "stop blocking calls"),
    View("start", LIVE, ("s",), "Start a session"),
    View("switch-nets", LIVE, ("n",), "[ ] require-freeze-before-deploy"),
    View("net", LIVE, ("alt+3", "down", "enter"), "with a token"),
    View("call", LIVE, ("alt+2", "up", "up", "enter"), "INPUT"),
    View("decisions", DECISIONS, ("v",), "12 decisions"),
    View("decision-groups", DECISIONS, ("v", ".", "g"), "block-rm"),
    View("decision", DECISIONS, ("v", ".", *["down"] * 8, "enter"), "decided by"),
    View("decision-mistake", DECISIONS, ("v", ".", "slash", TYPED + "verdict:no"), "is not a verdict"),
    View("shadow", DECISIONS, ("v", ".", "s"), "would block  3"),
    View("fatigue", FATIGUE, ("v", ".", "f", ".", "."), "60 requests"),
    View("fatigue-rule", FATIGUE, ("v", ".", "f", ".", ".", "enter"), "60 requests"),
    View("history", DECISIONS, (), "history"),
    View("rules", REPLAY, ("R", "o", TYPED + "strict.rules", "enter", "."), "block-deploy"),
    View("rules-errors", REPLAY, ("R", "o", TYPED + "faulty.rules", "enter", "."), "expected 'before'"),
    View("rule", REPLAY, ("R", "o", TYPED + "strict.rules", "enter", ".", "enter"), "do-lint"),
    View("replay", REPLAY, (), "call.decided", at=3),
    View("replay-blocked", REPLAY, ("alt+2",), "block", at=3),
    View("replay-nets", REPLAY, ("alt+3",), "require-test-before", at=7),
    View("palette-replay", REPLAY, ("ctrl+p", TYPED + "step"), "One event forward"),
    View("picture", REPLAY, ("p",), "enabled", at=7),
    View("go-to", REPLAY, ("g",), "Go to"),
    View("what-if", REPLAY, ("w", "down", "space"), "What if", at=4),
    View("what-if-problem", REPLAY, ("w", "*", "ctrl+s", "."), "after", at=4, rules="faulty.rules"),
    View("judged", REPLAY, ("w", "*", "ctrl+s", ".", "."), "newly", at=1, rules="strict.rules"),
    View("backtest", REPLAY, ("b", "*", "enter", "."), "first diverges", rules="strict.rules"),
    View("recorded-decision", REPLAY, ("o", "."), "verdict", at=8),
    View("event", REPLAY, ("alt+2", "enter"), "Event", at=8),
]
NAMES = [view.name for view in VIEWS]
VARIANTS = {
    *("live-sessions", "live-pending", "live-waiting", "approval", "deny-and-stop", "edit", "grant-once"),
    *("batch", "batch-deny", "limit", "answer", "answer-refused", "help-approval", "palette-replay"),
    *("decision-mistake", "fatigue", "replay", "what-if", "net", "rules"),
}
"""Views whose screens others also show: in ASCII and grey only the thorough run tests them."""
BY_NAME = {view.name: view for view in VIEWS}


@dataclass
class Shown:
    """A view on screen."""

    app: App[None]
    pilot: Pilot[None]

    def strips(self) -> list[Strip]:
        """Return every painted line."""
        return self.app.screen._compositor.render_strips()

    def painted(self) -> str:
        """Return every line on the screen, as an operator reads it."""
        return "\n".join(strip.text.rstrip() for strip in self.strips())

    async def until(self, text: str) -> None:
        """Wait until `text` is painted."""
        for _ in range(300):
            if text in self.painted():
                return
            await self.pilot.pause(0.01)
        raise AssertionError(f"{text!r} was not painted:\n{self.painted()}")


def prepare(view: View, folder: Path) -> None:
    """Write the journal and the rules that a view needs."""
    if view.console == DECISIONS:
        copied(decisions.usual, folder / "journal.db")
    elif view.console == FATIGUE:
        copied(tired, folder / "journal.db")
    elif view.console == REPLAY:
        journal.write(folder)


def make(view: View, folder: Path, appearance: Appearance | None = None) -> App[None]:
    """Return the console of a view whose journal is in `folder`."""
    match view.console:
        case "live":
            hub = FakeHub(view.first(), *everyone()[1:], now=NOW)
            hub.explanation = EXPLAINED
            passing = itertools.count()
            return InterlockConsole(
                hub,
                operator="maria",
                clock=lambda: NOW,
                monotonic=lambda: float(next(passing)),
                appearance=appearance,
            )
        case "decisions" | "fatigue":
            source = RecordedFile(folder / "journal.db")
            return HistoryConsole(
                source, zone=decisions.NOW.tzinfo, clock=lambda: decisions.NOW, appearance=appearance
            )
        case _:
            database = folder / "journal.db"
            recorded = list(open_reader(database).events(journal.SESSION))
            return HistoryConsole(
                RecordedFile(database),
                recorded=recorded,
                zone=journal.NOW.tzinfo,
                clock=lambda: journal.NOW,
                appearance=appearance,
            )


def hard_request(**more: object):
    """Return a request with a long script, a preview of changes, and a part that cannot be analysed."""
    command = "\n".join(f"echo step {n}" for n in range(60)) + "\ngit push --force origin main"
    changed = "@@ -1,2 +1,2 @@\n-for i in range(n):\n+for i in range(n + 1):\n"
    return deploy_request(
        input={"command": command},
        preview=f"--- a/cart.py\n+++ b/cart.py\n{changed}",
        uninspectable="it sources a file",
        **more,
    )


@asynccontextmanager
async def showing(
    view: View,
    folder: Path,
    size: tuple[int, int] = (80, 24),
    appearance: Appearance | None = None,
) -> AsyncIterator[Shown]:
    """A view on the screen; if it names rules, the working directory has to be `folder`."""
    await asyncio.to_thread(prepare, view, folder)
    app = make(view, folder, appearance)
    try:
        async with app.run_test(size=size) as pilot:
            on = Shown(app, pilot)
            await _settle(on)
            if view.console == REPLAY:
                assert isinstance(app.screen, ReplayScreen)
                app.screen.position = view.at
                await pilot.pause()
            for key in view.keys:
                if key == "*":
                    app.screen.query_one("#rules", Input).value = view.rules
                elif key == ".":
                    await _settle(on)
                elif key.startswith(TYPED):
                    await _type(on, key.removeprefix(TYPED))
                else:
                    await pilot.press(key)
            await _settle(on)
            await on.until(view.shows)
            yield on
    finally:
        use_ascii(False)


async def _settle(on: Shown) -> None:
    """Wait until the pressed keys have taken effect, including reads of a journal or rules file."""
    await on.pilot.pause()
    waiting = [w for w in on.app.workers if w.name not in ("hub", "start")]
    if waiting:
        await on.app.workers.wait_for_complete(waiting)
    await on.pilot.pause()


async def _type(on: Shown, text: str) -> None:
    """Type as fast as the console accepts keys; the pilot waits for an idle processor after each."""
    for letter in text:
        on.app.post_message(events.Key(letter, letter))
        await on.pilot.pause(0)
