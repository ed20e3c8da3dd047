"""Pictures of the approval dialog and its panels, wide and at 80 columns."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import timedelta

import pytest
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Input, TextArea

from interlock.app.console.app import InterlockConsole
from interlock.engine.core.approvers import Approvers, Escalation
from interlock.engine.history.model.records import PlanFinding, PlanStepRecord
from interlock.engine.history.redaction.hidden_text import HiddenText
from tests.support.fake_hub import FakeHub

from ...support.scenes import NOW, before, deploy_request, release_bot, rule

Compare = Callable[..., bool]
REASONS = ("wrong environment", "not now", "ask the release manager first")


def console(**more: object) -> App[None]:
    """A console with a request that uses all options of a rule."""
    state = release_bot()
    state.starters = {"maria": "opened"}
    state.approvals["ap1"] = deploy_request(
        **{
            "input": {
                "command": "cd infra && ./deploy --env prod; git push --force origin main",
                "timeout": 30,
                "dry": False,
                "labels": {"team": "shop"},
            },
            "names": ("deploy", "push", "bash"),
            "risk": "high",
            "expires": NOW + timedelta(seconds=858),
            "note": "the call has no input.path",
            **more,
        }
    )
    passing = itertools.count()
    return InterlockConsole(
        FakeHub(state, now=NOW),
        operator="maria",
        deny_reasons=REASONS,
        clock=lambda: NOW,
        monotonic=lambda: float(next(passing)),
    )


def keys(*pressed: str) -> Callable[[Pilot[None]], object]:
    """Press keys; the screen comes to rest after each of them. No cursor blinks."""

    async def run(pilot: Pilot[None]) -> None:
        await pilot.pause()
        for key in pressed:
            await pilot.press(key)
            await at_rest(pilot)
            for each in pilot.app.screen.query("Input, TextArea").results(Input | TextArea):
                each.cursor_blink = False
        await pilot.pause(0.15)
        await pilot.pause()

    return run


async def at_rest(pilot: Pilot[None]) -> None:
    """Wait until the screen has not changed for a while, however busy the machine is."""
    before, same = "", 0
    for _ in range(500):
        await pilot.pause(0.01)
        now = "\n".join(strip.text for strip in pilot.app.screen._compositor.render_strips())
        same = same + 1 if now == before else 0
        if same == 3:
            return
        before = now
    raise AssertionError("the screen never comes to rest")


def read_with(key: str, size: tuple[int, int]) -> list[str]:
    """The key, if a narrow terminal has a second page to read."""
    return [key] if size[0] < 80 else []


@pytest.mark.parametrize("size", [(120, 40), (80, 24)], ids=["120x40", "80x24"])
class TestLooks:
    @pytest.mark.slow
    def test_dialog(self, snap_compare: Compare, size: tuple[int, int]) -> None:
        """Effects, risk, commands, the rule and why it applies, people, expiry."""
        app = console(people=2, given=("ada",), given_at=(before(120),))
        assert snap_compare(app, terminal_size=size, run_before=keys("a"))

    @pytest.mark.slow
    def test_group(self, snap_compare: Compare, size: tuple[int, int]) -> None:
        """The group that can approve, the approval so far, and a greyed key for an outside operator."""
        more = {"people": 2, "given": ("ada",), "given_at": (before(120),), "since": before(700)}
        groups = {"given_groups": (("security",),), "escalated": before(100), "note": None}
        who = Approvers("security", author=False, escalation=Escalation("oncall", 600))
        given = {"input": {"command": "./deploy prod"}, "names": ("deploy", "bash")}
        app = console(**more, **groups, **given, approvers=who)
        assert snap_compare(app, terminal_size=size, run_before=keys("a"))

    @pytest.mark.slow
    def test_deny_and_stop(self, snap_compare: Compare, size: tuple[int, int]) -> None:
        """The line for the reason, the numbered reasons, and the effect of enter."""
        assert snap_compare(console(), terminal_size=size, run_before=keys("a", "s", "2"))


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 24)], ids=["120x40", "80x24", "60x24"])
class TestPanels:
    """Panels over the dialog; the last one is over the live screen."""

    @pytest.mark.slow
    def test_edit(self, snap_compare: Compare, size: tuple[int, int]) -> None:
        """Each field with its JSON type, the changes, and the errors with their positions."""
        run = keys("a", *read_with("e", size), "e", "x", "tab", "tab", "space", "tab", "x")
        assert snap_compare(console(), terminal_size=size, run_before=run)

    @pytest.mark.slow
    def test_review(self, snap_compare: Compare, size: tuple[int, int]) -> None:
        """Before and after, and the key that approves."""
        run = keys("a", *read_with("e", size), "e", "x", "tab", "tab", "space", "ctrl+s")
        assert snap_compare(console(), terminal_size=size, run_before=run)

    @pytest.mark.slow
    def test_grant(self, snap_compare: Compare, size: tuple[int, int]) -> None:
        """The scope, the limit, and the sentence about the calls that will pass."""
        run = keys("a", *read_with("g", size), "g", "tab", "right", "tab", "tab", "tab", *"often")
        assert snap_compare(console(commands=3), terminal_size=size, run_before=run)

    @pytest.mark.slow
    def test_decided_elsewhere(self, snap_compare: Compare, size: tuple[int, int]) -> None:
        """The operator who decided first, and that there is nothing left to decide."""

        async def run(pilot: Pilot[None]) -> None:
            await keys("a")(pilot)
            hub = pilot.app.hub  # type: ignore[attr-defined]
            hub.decided_elsewhere("ap1", approved=False, by="jo")
            await keys()(pilot)

        assert snap_compare(console(), terminal_size=size, run_before=run)

    @pytest.mark.slow
    def test_limit(self, snap_compare: Compare, size: tuple[int, int]) -> None:
        """Over the live screen: the cost of a session and the line for its limit."""
        app = console()
        state = app.hub.states["release-bot-1f3a"]  # type: ignore[attr-defined]
        state.max_cost, state.cost, state.input_tokens = 1.0, 1.25, 12_000
        assert snap_compare(app, terminal_size=size, run_before=keys("dollar_sign", "2"))


CART = """\
def total(items, rate):
    # Prices are in cents.
    net = sum(each.price for each in items)
    return net * (1 + rate)
"""
EDIT = {
    "path": "shop/cart.py",
    "old_text": CART,
    "new_text": CART.replace("(1 + rate)", "1").replace("# Prices", "# All prices"),
}
WRITE_PREVIEW = """\
Compared with what shop/rates.py holds now:
--- shop/rates.py
+++ shop/rates.py
@@ -1,4 +1,4 @@
 import os

-RATE = float(os.environ["RATE"])
+RATE = 0.0  # for now
 DEFAULT = "standard"
"""
WRITE = {"path": "shop/rates.py", "content": 'import os\n\nRATE = 0.0  # for now\nDEFAULT = "standard"\n'}
MASKED = {"command": "./deploy prod --token [masked: 34 characters]"}
LOOK_ALIKE = {"command": "git рush origin main && сurl https://раypal.com"}
SCRIPT = "".join(f'step {n} --name "part {n}" # of many\n' for n in range(1, 60))
UNNAMED = {"note": None, "risk": None, "expires": None}


@pytest.mark.parametrize("size", [(100, 30), (80, 24)], ids=["100x30", "80x24"])
class TestWhatWillRun:
    """The call that will run: diffs, commands, unseen pages, masks, look-alike letters."""

    def picture(self, compare: Compare, size: tuple[int, int], *pressed: str, **more: object) -> bool:
        app = console(**{**UNNAMED, "names": ("bash",), **more})
        return compare(app, terminal_size=size, run_before=keys("a", *pressed))

    @pytest.mark.slow
    def test_diff_of_an_edit(self, snap_compare: Compare, size: tuple[int, int]) -> None:
        """A sign and a colour mark removed and added lines; their code is highlighted."""
        more = {"called": "edit", "tool": "edit", "names": ("edit",), "input": EDIT}
        assert self.picture(snap_compare, size, **more)

    @pytest.mark.slow
    def test_diff_of_a_write(self, snap_compare: Compare, size: tuple[int, int]) -> None:
        """A file's new content and its difference from the current content."""
        more = {"called": "write", "tool": "write", "names": ("write",), "input": WRITE}
        assert self.picture(snap_compare, size, "space", preview=WRITE_PREVIEW, **more)

    @pytest.mark.slow
    def test_command(self, snap_compare: Compare, size: tuple[int, int]) -> None:
        """A one-line command has highlighted parts, in the dialog and in the queue behind it."""
        command = 'for f in *.py; do ruff check "$f" || echo "bad: $f"; done'
        runs = ("ruff check $f", 'echo "bad: $f"')
        given = {"command": command, "timeout": 30}
        assert self.picture(snap_compare, size, input=given, runs=runs, commands=2)

    @pytest.mark.slow
    def test_unseen_pages(self, snap_compare: Compare, size: tuple[int, int]) -> None:
        """Bar and frame show that `a` shows the next page, and the page numbers."""
        assert self.picture(snap_compare, size, "a", input={"command": SCRIPT})

    @pytest.mark.slow
    def test_mask_that_may_run(self, snap_compare: Compare, size: tuple[int, int]) -> None:
        """The dialog warns about masked text that may be more than a secret, and `a` shows it first."""
        hidden = (HiddenText(place="command", characters=34, lines=1, holds="'$('"),)
        assert self.picture(snap_compare, size, input=MASKED, hidden=hidden, runs=("./deploy prod",))

    @pytest.mark.slow
    def test_look_alike_letters(self, snap_compare: Compare, size: tuple[int, int]) -> None:
        """Letters that look like Latin ones are marked."""
        runs = ("git рush origin main", "сurl https://раypal.com")
        assert self.picture(snap_compare, size, input=LOOK_ALIKE, runs=runs, commands=2)


PLAN = {
    "title": "Release 1.4 to staging, then production",
    "steps": [
        {"tool": "test"},
        {
            "tool": "deploy",
            "count": 3,
            "when": 'input.env = "staging" and input.version matches "1[.]4[.]"',
        },
        {"tool": "bash", "count": 2, "when": 'input.command matches "^git push"', "effects": ["push"]},
        {"tool": "delete", "count": 1},
        {"tool": "migrate", "when": 'input.env = "prod"'},
        {"tool": "notify"},
    ],
}


def forecast(tool: str, count: int, most: int, *findings: tuple[int, str, str | None]) -> PlanStepRecord:
    found = tuple(PlanFinding(calls=n, outcome=o, reason=why) for n, o, why in findings)  # type: ignore[arg-type]
    return PlanStepRecord(tool=tool, count=count, findings=found, most=most)


FORECAST = (
    forecast("test", 1, 0, (1, "runs", None)),
    forecast("deploy", 3, 3, (2, "planned", None), (1, "blocked", "deploy is limited to 2 per session.")),
    forecast("bash", 2, 2, (2, "planned", None)),
    forecast("delete", 1, 0, (1, "blocked", "delete is blocked: nothing is deleted in a release.")),
    forecast("migrate", 1, 0, (1, "asks", "migrate needs 2 people")),
    forecast("notify", 1, 1, (1, "open", "notify requires a successful call to deploy first.")),
)


@pytest.mark.parametrize("size", [(120, 40), (80, 24)], ids=["120x40", "80x24"])
class TestPlan:
    """A plan: each step with the outcome of its calls and the most calls that it allows."""

    def plan(self, **more: object) -> App[None]:
        asked = rule(2, "require human-approval before plan")
        about: dict[str, object] = {
            "tool": "plan",
            "called": "plan",
            "names": ("plan",),
            "rule": asked,
            "may_grant": False,
        }
        about["title"] = "Approve: plan"
        return console(**{**UNNAMED, **about, "input": PLAN, "plan": FORECAST, **more})

    @pytest.mark.slow
    def test_forecast(self, snap_compare: Compare, size: tuple[int, int]) -> None:
        """Each step has its findings and the most calls that it allows."""
        assert snap_compare(self.plan(), terminal_size=size, run_before=keys("a"))

    @pytest.mark.slow
    def test_second_page(self, snap_compare: Compare, size: tuple[int, int]) -> None:
        """Steps that do not fit are on the next page, which must be seen before approval."""
        assert snap_compare(self.plan(), terminal_size=size, run_before=keys("a", "a"))

    @pytest.mark.variants
    def test_queue(self, snap_compare: Compare, size: tuple[int, int]) -> None:
        """The queue and its preview show the plan on one line."""
        assert snap_compare(self.plan(), terminal_size=size, run_before=keys())


@pytest.mark.slow
class TestColours:
    @pytest.mark.parametrize("theme", ["textual-light", "ansi-dark", "no-colour"])
    def test_diff(self, snap_compare: Compare, monkeypatch: pytest.MonkeyPatch, theme: str) -> None:
        """A diff is readable in a light theme, in the terminal's own colours, and without colours."""
        if theme == "no-colour":
            monkeypatch.setenv("NO_COLOR", "1")
        app = console(**{**UNNAMED, "called": "edit", "tool": "edit", "names": ("edit",), "input": EDIT})
        if theme != "no-colour":
            app.theme = theme
        assert snap_compare(app, terminal_size=(100, 30), run_before=keys("a"))
