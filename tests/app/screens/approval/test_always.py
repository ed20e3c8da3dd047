"""`G` in the dialog: change the rule that asked so that calls like this one pass, and save it."""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from textual.pilot import Pilot

from interlock.app.config.rules_compiler import LANGUAGE
from interlock.app.console.app import InterlockConsole
from interlock.app.screens.approval.always import AlwaysScreen
from interlock.app.screens.approval.screen import ApprovalScreen
from interlock.app.screens.common.confirm import Confirm
from interlock.app.screens.common.save_rule import RuleByHand
from interlock.app.screens.live.loosen import Loosen
from interlock.app.terminal.key_rights import Permission
from interlock.app.viewmodels.always_like import no_always_reason, other_fields, writable_fields
from interlock.engine.history.model.state import SessionState
from tests.engine.backtest.suggestions.learning import Did, deploys, record
from tests.engine.gate.support.helpers import manager, reason
from tests.support.clock import Clock
from tests.support.fake_hub import FakeHub

from ...support.scenes import NOW, deploy_request, release_bot, rule
from ...support.stage import Stage, stage

RULE = "require human-approval before deploy"
RULES = f"# ours\n{RULE}  # the usual\n"
COMPARE = Callable[..., bool]


def asking(**more: object) -> SessionState:
    """A session that asks whether it may deploy to staging."""
    state = release_bot()
    state.approvals["ap1"] = deploy_request(
        **{
            "called": "deploy",
            "names": ("deploy",),
            "input": {"env": "staging", "notes": ["a"]},
            "rule": rule(2, f"{RULE}  # the usual"),
            "may_grant": True,
            "digest": "shown",
            **more,
        }
    )
    return state


def calls() -> list[Did]:
    return [*deploys(6, env="staging"), *deploys(2, approved=False, env="prod")]


@pytest.fixture(autouse=True)
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A rules file in the working directory, and a journal of calls under it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INTERLOCK_CONFIG_DIR", str(tmp_path / "config"))
    path = tmp_path / "deploy.rules"
    path.write_text(RULES)
    path.chmod(0o640)
    record(tmp_path / "calls.db", RULES, [calls()], clock=Clock(NOW - timedelta(days=2)))
    monkeypatch.setattr(FakeHub, "database", tmp_path / "calls.db")
    monkeypatch.setattr(FakeHub, "language", LANGUAGE)
    return path


@asynccontextmanager
async def proposed(size: tuple[int, int] = (120, 40), **more: object) -> AsyncIterator[Stage]:
    """Open the panel over the dialog and wait until the calls are judged."""
    async with stage(asking(**more), size=size) as on:
        await on.open_dialog()
        await on.read_all()
        await on.press("G")
        await on.settle()
        assert isinstance(on.app.screen, AlwaysScreen)
        await judged(on)
        yield on


async def judged(on: Stage) -> None:
    for _ in range(1000):
        screen = on.app.screen
        assert isinstance(screen, AlwaysScreen)
        if screen._found is not None or screen._problem:
            break
        await on.pilot.pause(0.01)
    await on.wake()
    await on.pilot.pause(0.3)


async def wait_for_screen(on: Stage, kind: type) -> None:
    for _ in range(1000):
        if isinstance(on.app.screen, kind):
            return
        await on.pilot.pause(0.01)
    raise AssertionError(on.painted())


async def save(on: Stage, reason: str = "always fine") -> None:
    """Save as an operator does: the key, a reason, yes."""
    await on.press("ctrl+s")
    await wait_for_screen(on, Loosen)
    await on.press(*(" " if each == " " else each for each in reason), "enter")
    await wait_for_screen(on, Confirm)
    await on.wake()
    await on.press("y")


@pytest.mark.slow
class TestProposed:
    async def test_smallest_change_is_shown_with_its_effect(self) -> None:
        """The panel shows the rule's line before and after, its effect on 30 days, and the findings."""
        async with proposed() as on:
            text = on.painted()
            assert "deploy.rules:2" in text
            assert f"- {RULE}  # the usual" in text
            assert f'+ {RULE} when input.env != "staging" # the usual' in text
            assert "6 approval requests saved, 6 newly allowed" in text
            assert "no new findings" in text
            assert "fixed  env" in text
            assert "any value in notes (a list); and every field that this call does not have" in text

    @pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 24)])
    async def test_fixed_and_open_fields_are_listed(self, size: tuple[int, int]) -> None:
        """The panel lists the fields that the rule fixes and leaves open, also on a small terminal."""
        given = {"env": "staging", "force": False, "service": "shop", "region": "eu-west-1"}
        async with proposed(size, input=given) as on:
            await on.press("down", "space")
            await judged(on)
            text = " ".join(each.strip(" │") for each in on.painted().splitlines())
            assert "fixed env, service, region" in " ".join(text.split())
            assert "open any value in force; and every field that this call does not have" in " ".join(
                text.split()
            )

    async def test_further_field_is_treated_as_displayed(self) -> None:
        """The gate treats a field that the call does not have as the panel says."""
        async with proposed() as on:
            edit = on.app.screen._edit
            assert edit is not None
            gate = manager(edit.after)
        assert await reason(gate, "deploy", "c1", env="staging", force=True) is None
        assert await reason(gate, "deploy", "c2", env="prod") is not None

    async def test_selected_field_may_differ(self) -> None:
        """Space lets a field differ. The panel rewrites the rule and judges it again."""
        async with proposed(input={"env": "staging", "force": False}) as on:
            assert 'when input.env != "staging" or input.force != false' in on.painted()
            await on.press("down", "space")
            await judged(on)
            assert f'+ {RULE} when input.env != "staging" # the usual' in on.painted()
            await on.press("up", "space")
            await on.until("Choose a field that must be the same.")

    async def test_change_that_passes_a_denied_call_is_not_saved(self, rules: Path) -> None:
        """If a denied call would pass, the panel shows it and the rule cannot be saved."""
        async with proposed(input={"env": "prod"}) as on:
            await on.until("2 calls would pass that people denied")
            assert "bot-0 event" in on.painted()
            await on.press("ctrl+s")
            await on.until("Not saved: 2 calls would pass that people denied")
            assert isinstance(on.app.screen, AlwaysScreen)
            assert text_of(rules) == RULES

    async def test_escape_leaves_request_and_file_unchanged(self, rules: Path) -> None:
        """Escape leaves the request open and the file as it is."""
        async with proposed() as on:
            await on.press("escape")
            await wait_for_screen(on, ApprovalScreen)
            assert on.hub.asked == []
            assert text_of(rules) == RULES


@pytest.mark.slow
class TestSaved:
    async def test_comment_names_operator_time_and_reason(self, rules: Path) -> None:
        """A comment and the new line replace the old one. File mode and request stay unchanged."""
        async with proposed() as on:
            await save(on)
            await on.until("Saved in")
            assert text_of(rules) == (
                f"# ours\n# {NOW:%Y-%m-%d} maria: always fine\n"
                f'{RULE} when input.env != "staging" # the usual\n'
            )
            assert mode_of(rules) == 0o640
            assert on.hub.asked == []
            # A long path folds the notice.
            assert "applies" in on.painted()

    async def test_confirmation_names_the_file(self, rules: Path) -> None:
        """The confirmation names the file that is written, with symbolic links resolved."""
        replace_by_link(rules)
        async with proposed() as on:
            await on.press("ctrl+s")
            await wait_for_screen(on, Loosen)
            await on.press("x", "enter")
            await wait_for_screen(on, Confirm)
            await on.until("real.rules?")
            await on.press("n")
            assert "maria" not in text_of(rules)

    async def test_reason_is_required(self, rules: Path) -> None:
        """Enter without a reason asks for one."""
        async with proposed() as on:
            await on.press("ctrl+s")
            await wait_for_screen(on, Loosen)
            await on.press("enter")
            await on.until("Type a reason")
            assert text_of(rules) == RULES

    async def test_changed_file_is_not_written(self, rules: Path) -> None:
        """A file that changed after the judgement is not written. The panel shows the rule instead."""
        async with proposed() as on:
            write_changed_rules(rules)
            await on.press("ctrl+s")
            await wait_for_screen(on, RuleByHand)
            await on.until("Add the rule by hand")
            assert "has changed" in on.painted()
            await on.press("c")
            assert on.app.clipboard.startswith(f'{RULE} when input.env != "staging"')
            assert text_of(rules) == f"{RULES}block rm\n"

    async def test_already_changed_line_is_not_saved(self, rules: Path) -> None:
        """If the rule's line has changed in the file, the new rule is shown, not judged and not saved."""
        write_changed_rules(rules, RULES.replace("usual", "other"))
        async with proposed() as on:
            assert "not judged: deploy.rules:2 has changed" in on.painted()
            await on.press("ctrl+s")
            await wait_for_screen(on, RuleByHand)

    async def test_file_in_agents_directory_is_never_changed(self, rules: Path) -> None:
        """A rules file named by the settings in a directory that an agent can write is never changed."""
        name_in_working_directory(rules)
        async with proposed() as on:
            await on.press("ctrl+s")
            await wait_for_screen(on, RuleByHand)
            await on.until("settings of the working directory")
            assert text_of(rules) == RULES


class TestGuarded:
    async def test_key_typed_ahead_is_ignored(self) -> None:
        """A key typed ahead does nothing."""
        async with stage(asking()) as on:
            await on.open_dialog(awake=False)
            await on.press("G")
            await on.settle()
            assert isinstance(on.app.screen, ApprovalScreen)

    @pytest.mark.slow
    async def test_save_key_requires_displayed_rule(self, rules: Path) -> None:
        """The key saves only after the judged rule has been on screen."""
        async with proposed() as on:
            screen = on.app.screen
            assert isinstance(screen, AlwaysScreen)
            screen.fall_asleep()
            await on.settle()
            await on.press("ctrl+s")
            await on.settle()
            assert isinstance(on.app.screen, AlwaysScreen)

    @pytest.mark.slow
    async def test_operator_without_admin_right_cannot_open_it(self) -> None:
        """For an operator who may not administer, `G` does not open the panel."""
        async with stage(asking()) as on:
            on.app.permission = Permission("decide", "ops")
            await on.open_dialog()
            await on.read_all()
            await on.press("G")
            await on.settle()
            assert isinstance(on.app.screen, ApprovalScreen)

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("more", "said"),
        [
            ({"rule": None}, "No rule"),
            ({"risk": "high"}, "risk high"),
            ({"people": 2}, "2 people"),
            ({"may_grant": False}, "no grants"),
            ({"rule": rule(1, "block deploy after read until human-approval")}, "blocks until"),
            ({"rule": rule(1, f"{RULE} (implied by the map of x)")}, "map implies"),
            ({"uninspectable": "a variable"}, "cannot be fully analysed"),
            ({"names": ("deploy", "unclear")}, "cannot be fully analysed"),
            ({"original": {"env": "x"}}, "A person has changed"),
            ({"input": {"notes": ["a"], "text": "x" * 81}}, "No field"),
            ({"input": {f"f{n}": n for n in range(101)}}, "more than 100 fields"),
            ({"input": {"o": {f"f{n}": {"p": [n]} for n in range(15_000)}}}, "more than 100 fields"),
        ],
    )
    def test_greyed(self, more: dict[str, object], said: str) -> None:
        """`G` is greyed for strict rules, calls that are unclear or changed, and nets without a rule."""
        state = asking(**more)
        reason = no_always_reason(state.approvals["ap1"], state)
        assert reason is not None
        assert said in reason

    def test_hundred_fields_are_accepted(self) -> None:
        """The panel accepts a hundred fields."""
        state = asking(input={f"f{n}": n for n in range(100)})
        assert no_always_reason(state.approvals["ap1"], state) is None

    def test_masked_long_and_invisible_values_are_not_written(self) -> None:
        """Masked, long and invisible values are never in a rule. The panel lists them as open fields."""
        secret = {
            "env": "staging",
            "password": "hunter2-SuperSecret",
            "long": "x" * 81,
            "odd": "a\u200bb",
        }
        request = asking(input=secret).approvals["ap1"]
        assert [path for path, _, _ in writable_fields(request)] == [("env",)]
        assert other_fields(request) == (
            "password (masked)",
            "long (longer than 80 characters)",
            "odd (invisible characters)",
        )


def text_of(path: Path) -> str:
    return path.read_text()


def mode_of(path: Path) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


def write_changed_rules(path: Path, text: str = f"{RULES}block rm\n") -> None:
    path.write_text(text)


def replace_by_link(path: Path) -> None:
    path.rename(path.parent / "real.rules")
    path.symlink_to("real.rules")


def name_in_working_directory(path: Path) -> None:
    (path.parent / "interlock.toml").write_text('rules = ["deploy.rules"]\n')


def keys(app: InterlockConsole) -> Callable[[Pilot[None]], object]:
    async def run(pilot: Pilot[None]) -> None:
        on = Stage(app, app.hub, pilot)  # type: ignore[arg-type]
        seconds[0] = 0.0
        await on.press("a")
        await on.settle()
        seconds[0] += 1.0
        await on.read_all()
        seconds[0] += 1.0
        await on.press("G")
        await on.settle()
        await judged(on)
        seconds[0] += 1.0
        await pilot.pause(0.3)

    return run


seconds = [0.0]


@pytest.mark.slow
@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 24)], ids=["120x40", "80x24", "60x24"])
@pytest.mark.parametrize("env", ["staging", "prod"])
def test_looks(snap_compare: COMPARE, size: tuple[int, int], env: str) -> None:
    """A change that saves requests, and one under which denied calls would pass."""
    hub = FakeHub(asking(input={"env": env, "notes": ["a"]}), now=NOW)
    app = InterlockConsole(
        hub, operator="maria", quiet=0, clock=lambda: NOW, monotonic=lambda: seconds[0]
    )
    assert snap_compare(app, terminal_size=size, run_before=keys(app))
