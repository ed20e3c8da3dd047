"""`interlock explain`, and the explanation in the approval dialog and for blocked calls."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

import pytest

from interlock.app.cli.main import parser
from interlock.app.cli.rules.explain import run
from interlock.app.format.explanation import Moment
from interlock.app.format.explanation import explained as explain_lines
from interlock.app.screens.approval.screen import ApprovalScreen
from interlock.app.screens.common.detail import Detail
from interlock.engine.gate import create_gate_manager
from interlock.engine.net.net import ToolCall
from interlock.engine.recording.explain import view_of
from interlock.engine.recording.explanation import ExplanationView
from interlock.rules import compile_rules
from tests.support.command import printed

from ...support.stage import Stage, stage

RULES = """\
map bash.command ./deploy as deploy
map bash.command rm as rm
require lint before test
require test before deploy
require human-approval before deploy
block rm
limit push to 1 per session
"""


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("deploy.rules").write_text(RULES)
    return "deploy.rules"


def explain(
    *files: str, call: str, after: tuple[str, ...] = (), as_json: bool = False
) -> tuple[int, str, str]:
    args = Namespace(files=list(files), call=call, after=list(after), json=as_json)
    return printed(lambda: run(args))


class TestExitCode:
    """The exit code for scripts."""

    @pytest.mark.parametrize("as_json", [False, True])
    @pytest.mark.parametrize(
        ("call", "after", "code"),
        [
            ("lint", (), 0),
            ("unknown", (), 0),
            ("deploy", ("lint", "test"), 3),
            ("deploy", (), 4),
            ("rm", (), 4),
            ("push", ("push",), 4),
        ],
    )
    def test_exit_code_names_the_outcome(
        self, rules: str, call: str, after: tuple[str, ...], code: int, *, as_json: bool
    ) -> None:
        """The exit code is 0 for an allowed call, 3 for one that needs approval, 4 for a blocked one."""
        assert explain(rules, call=call, after=after, as_json=as_json)[0] == code

    def test_help_names_each_code(self) -> None:
        """The help names each code."""
        shown = " ".join(parser("explain").commands["explain"].format_help().split())
        assert "0 allowed, 3 needs approval, 4 blocked, 2 wrong input." in shown


class TestCommand:
    def test_a_blocked_call(self, rules: str) -> None:
        """The output has the reason, the rule, the way to the call, and each net that governs it."""
        assert explain(rules, call="deploy") == (
            4,
            "now     ■ blocked: deploy requires a successful call to test first.\n"
            "rule    deploy.rules:4  require test before deploy\n"
            "allow   lint → test → deploy (approval)\n"
            "rules   ■ require-test-before-deploy  blocks it\n"
            "          ready:1   deploy.rules:4\n"
            "        ◐ approve-before-deploy  needs approval\n"
            "          ready:1   deploy.rules:5\n"
            "        4 other rules do not apply\n",
            "",
        )

    def test_after_other_calls(self, rules: str) -> None:
        """`--after` makes approved calls first; the output has the remaining way."""
        code, out, _ = explain(rules, call='bash command "./deploy staging"', after=("lint", "test"))
        assert code == 3
        assert "now     ◐ needs approval\n" in out
        assert "allow   one approval\n" in out
        assert "counts  as deploy, bash\n" in out

    def test_a_failing_call_before(self, rules: str) -> None:
        """A failing call of `--after` does not advance its nets."""
        _, out, _ = explain(rules, call="test", after=("lint fails",))
        assert "allow   lint → test\n" in out

    def test_reserved_and_folded_names(self, rules: str) -> None:
        """G-64, G-66: the output explains unclear, unnamed and look-alike names of calls."""
        text = (
            "map bash.command rm as delete\nblock delete\nrequire human-approval before anything-else\n"
        )
        Path("r.rules").write_text(text)
        _, out, _ = explain("r.rules", call='bash command "eval $x"')
        assert "rule    r.rules:1  require human-approval before unclear (implied by the map of" in out
        assert "counts  as unclear, bash\n" in out
        assert "unclear cannot be fully analysed: command: what 'eval' runs is known only when" in out
        _, out, _ = explain("r.rules", call="mystery")
        assert "counts  as anything-else, mystery\n" in out
        assert "◐ approve-before-anything-else  needs approval" in out
        _, out, _ = explain("r.rules", call='Bash command "rm x"')
        assert "counts  as delete, bash, Bash\n" in out
        assert "taken   for bash, too: 'Bash' only looks different\n" in out

    def test_block_and_used_budget_forbid_the_call(self, rules: str) -> None:
        """A block and a used budget are named as what forbids the call."""
        _, out, _ = explain(rules, call='bash command "rm -rf /"')
        assert "allow   no way: block-rm always forbids it\n" in out
        _, out, _ = explain(rules, call="push", after=("push",))
        assert "allow   no way: limit-push-1 always forbids it\n" in out

    def test_an_allowed_call(self, rules: str) -> None:
        """An allowed call has no way; the output counts the rules that do not apply."""
        assert explain(rules, call="look") == (
            0,
            "now     ▸ allowed\nrules   6 rules do not apply\n",
            "",
        )

    def test_json_has_the_shape_for_consoles(self, rules: str) -> None:
        """The JSON output has the shape that consoles get."""
        code, out, _ = explain(rules, call="test", as_json=True)
        view = ExplanationView.model_validate(json.loads(out))
        assert (code, view.outcome, str(view.way)) == (4, "block", "lint → test")

    @pytest.mark.parametrize(
        ("call", "after", "message"),
        [
            ("", (), "call:1:5: expected a word at position 2"),
            ("deploy now", (), "call:1:"),
            ('bash command "x', (), "end it with"),
            ("deploy", ("test",), "--after: call 1, test, is blocked itself: test requires"),
            ("deploy", ("lint", "rm"), "--after: call 2, rm, is blocked itself"),
            ("deploy", ('"',), "--after:1:6"),
        ],
    )
    def test_bad_input(self, rules: str, call: str, after: tuple[str, ...], message: str) -> None:
        """A call that cannot be parsed or made is reported with place and remedy."""
        code, out, err = explain(rules, call=call, after=after)
        assert (code, out) == (2, "")
        assert message in err

    def test_bad_rules(self, rules: str) -> None:
        """A missing rules file is reported as by `check`."""
        code, _, err = explain("missing.rules", call="deploy")
        assert (code, "no such rules file" in err) == (2, True)

    def test_hostile_text_is_visible(self, tmp_path: Path) -> None:
        """Control characters of a rules file are shown as text."""
        path = tmp_path / "a.rules"
        path.write_text("block a\x1b[31m\u202e")
        _, out, _ = explain(str(path), call="a\x1b[31m\u202e")
        assert "\x1b" not in out
        assert "\u202e" not in out
        assert "is blocked" in out


NEWER = """\
require human-approval before deploy by 2
require test before deploy when input.env = "prod"
limit push to 1 per 1h
block write when input.path not under "src"
block test when input.dry = true
"""


class TestNewer:
    """Times, several approvers, conditions and paths."""

    @pytest.fixture(autouse=True)
    def newer(self, rules: str) -> None:
        Path(rules).write_text(NEWER)

    def test_unmet_condition_abstains(self) -> None:
        """G-10: a net whose condition does not hold is shown as abstaining; approvals are counted."""
        assert explain("deploy.rules", call="deploy env test")[1] == (
            "now     ◐ needs 2 approvals\n"
            "rule    deploy.rules:1  require human-approval before deploy by 2\n"
            "allow   2 approvals\n"
            "rules   ◐ approve-before-deploy  needs 2 approvals\n"
            "          ready:1   deploy.rules:1\n"
            '        · require-test-before-deploy  abstains: input.env = "prod" does not hold\n'
            "          ready:1   deploy.rules:2\n"
            "        3 other rules do not apply\n"
        )

    def test_unevaluable_condition_applies(self) -> None:
        """G-10: a net whose condition cannot be evaluated applies, and the output says why."""
        _, out, _ = explain("deploy.rules", call="deploy")
        assert (
            "        ■ require-test-before-deploy  blocks it\n"
            "          applies because the call has no input.env\n"
            "          ready:1   deploy.rules:2\n"
        ) in out
        assert (
            "allow   test (outside block-test) → deploy (2 people approve)\n"
            "        outside a net: by a call that does not meet its condition\n"
        ) in out

    def test_met_condition_is_shown(self) -> None:
        """G-10: a condition that holds is shown below its net, but not if the net allows the call."""
        _, out, _ = explain("deploy.rules", call="deploy env prod")
        assert '  blocks it\n          when input.env = "prod"\n          ready:1' in out
        _, out, _ = explain("deploy.rules", call="test dry false")
        assert "▸ require-test-before-deploy  lets it pass\n          ready:1" in out

    def test_earlier_calls_get_required_approvals(self) -> None:
        """G-13: calls of `--after` get as many approvals as their rule requires."""
        code, out, _ = explain("deploy.rules", call="look", after=("deploy env test",))
        assert (code, out.startswith("now     ▸ allowed\n")) == (0, True)

    def test_waiting_restores_a_used_budget(self) -> None:
        """G-10: a used budget returns by waiting; `--after "wait 1h"` advances the time."""
        _, out, _ = explain("deploy.rules", call="push", after=("push",))
        assert "allow   wait 1h → push\n" in out
        _, out, _ = explain("deploy.rules", call="push", after=("push", "wait 59m"))
        assert "now     ■ blocked" in out
        _, out, _ = explain("deploy.rules", call="push", after=("push", "wait 59m", " wait 60s"))
        assert "now     ▸ allowed\n" in out

    def test_invalid_waiting_time(self) -> None:
        """An invalid waiting time is reported as such."""
        code, out, err = explain("deploy.rules", call="push", after=("wait 999d",))
        assert (code, out) == (2, "")
        assert "--after:1:6: a time is at least 1s and at most 365d, got '999d'" in err

    def test_under_is_relative_to_this_folder(self, tmp_path: Path) -> None:
        """G-10: `under` is judged as for a session started in this folder; links are followed."""
        (tmp_path / "src").mkdir()
        (tmp_path / "src" / "out").symlink_to(tmp_path.parent)
        for path, allowed in (
            (tmp_path / "src" / "a.py", True),
            ("src/a.py", True),
            ("src/../a.py", False),
            ("src/out/a.py", False),
            ("~/a.py", False),
        ):
            _, out, _ = explain("deploy.rules", call=f'write path "{path}"')
            assert out.startswith("now     ▸ allowed" if allowed else "now     ■ blocked"), path
            assert "applies because" not in out

    def test_unknown_start_folder_applies_the_rule(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """G-59: if the start of relative paths is unknown, the rule applies."""
        gone = tmp_path / "gone"
        gone.mkdir()
        monkeypatch.chdir(gone)
        gone.rmdir()
        code, out, _ = explain(str(tmp_path / "deploy.rules"), call=f'write path "{tmp_path}/a"')
        assert code == 4
        assert "applies because input.path cannot be compared by 'under'" in out

    def test_recorded_call_uses_past_tense_and_names_grant(self) -> None:
        """For a recorded call the explanation uses the past tense and names the grant."""
        gate = create_gate_manager(registry=compile_rules(NEWER).registry)
        view = view_of(gate.explain(ToolCall("c1", "deploy", {"env": "x"})))
        view = view.model_copy(update={"granted": ("grant-1",)})
        said = [line.text for line in explain_lines(view, "then")]
        assert said[0] == "◐ needed 2 approvals"
        assert said[1] == "grant-1 answered in a person's place"
        assert '· require-test-before-deploy  abstained: input.env = "prod" does not hold' in said
        untold = view_of(gate.explain(ToolCall("c1", "deploy", {})))
        said = [line.text for line in explain_lines(untold, "then")]
        assert "  applied because the call has no input.env" in said


def explained(rules: str, tool: str) -> ExplanationView:
    gate = create_gate_manager(registry=compile_rules(rules, file="deploy.rules").registry)
    return view_of(gate.explain(ToolCall("c1", tool, {})))


class TestMoments:
    """The same explanation for the present and for a recorded decision."""

    PRESENT = frozenset(
        {"now", "asks", "blocks", "lets", "allows", "does", "do", "is", "forbids", "forbid"}
    )

    def texts(self, rules: str, tool: str, moment: Moment) -> list[str]:
        return [f"{line.label} {line.text}" for line in explain_lines(explained(rules, tool), moment)]

    @pytest.mark.parametrize(
        ("rules", "tool", "now", "then"),
        [
            (RULES, "push", "rules ▸ limit-push-1  lets it pass", "rules ▸ limit-push-1  let it pass"),
            (RULES, "push", " 5 other rules do not apply", " 5 other rules did not apply"),
            ("require human-approval before a", "a", "now ◐ needs approval", "then ◐ needed approval"),
            (
                "require human-approval before a",
                "a",
                "allow one approval",
                "allow one approval",
            ),
            (
                RULES,
                "rm",
                "allow no way: block-rm always forbids it",
                "allow no way: block-rm always forbade it",
            ),
            ("block a", "b", "rules 1 rule does not apply", "rules 1 rule did not apply"),
            ("", "b", "rules no rule is active", "rules no rule was active"),
            ("block a", "b", "now ▸ allowed", "then ▸ allowed"),
        ],
    )
    def test_past_explanation_differs_only_in_tense(
        self, rules: str, tool: str, now: str, then: str
    ) -> None:
        """An explanation of the past uses the past tense and is otherwise the same."""
        assert now in self.texts(rules, tool, "now")
        assert then in self.texts(rules, tool, "then")

    @pytest.mark.parametrize("tool", ["deploy", "rm", "push", "lint", "nothing"])
    def test_past_explanation_has_no_present_tense(self, tool: str) -> None:
        """An explanation of the past has no present tense, except in the rules' own reasons."""
        view = explained(RULES, tool)
        said = " ".join(line.text for line in explain_lines(view, "then"))
        reasons = " ".join(net.reason or "" for net in view.nets)
        assert not {word for word in said.split() if word not in reasons.split()} & self.PRESENT


async def open_blocked(on: Stage) -> None:
    """Open the blocked call in release-bot's transcript."""
    await on.press("alt+2", "g")
    for _ in range(20):
        await on.press("enter")
        await on.settle()
        if isinstance(on.app.screen, Detail):
            if "■ blocked" in on.painted():
                return
            await on.press("escape")
        await on.press("j")
    raise AssertionError(on.painted())


class TestConsole:
    @pytest.mark.slow
    @pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 24)])
    async def test_x_explains_a_request(self, size: tuple[int, int]) -> None:
        """The dialog's `x` shows every net's verdict; closing it leaves the request undecided."""
        async with stage(size=size) as on:
            on.hub.explanation = explained(RULES, "deploy")
            await on.open_dialog()
            await on.press("x")
            await on.until("RULES NOW")
            await on.until("lint → test → deploy (approval)")
            shown = on.painted()
            assert "Explain: deploy" in shown
            assert "■ require-test-before-deploy  blocks it" in shown
            assert "◐ approve-before-deploy  needs approval" in shown
            await on.press("a", "d", "escape")
            await on.settle()
            assert isinstance(on.app.screen, ApprovalScreen)
            assert on.decisions() == []
            assert [a for a in on.hub.asked if a[0] == "explain"] == [
                ("explain", "release-bot-1f3a", "c9")
            ]

    @pytest.mark.slow
    async def test_x_shows_why_a_rule_applies(self) -> None:
        """G-10: the dialog's `x` shows why a net applies and how many approvals it requires."""
        async with stage() as on:
            on.hub.explanation = explained(NEWER, "deploy")
            await on.open_dialog()
            await on.press("x")
            await on.until("needs 2 approvals")
            await on.until("applies because the call has no input.env")
            await on.until("test (outside block-test) → deploy (2 people approve)")

    @pytest.mark.slow
    async def test_keys_sleep_again_after_an_explanation(self) -> None:
        """After the explanation closes, keys in the dialog decide nothing for a moment."""
        async with stage() as on:
            on.hub.explanation = explained(RULES, "deploy")
            await on.open_dialog()
            await on.press("x")
            await on.until("RULES NOW")
            await on.press("escape")
            await on.settle()
            await on.press("a")
            await on.settle()
            assert on.decisions() == []
            await on.wake()
            await on.press("a")
            await on.settle()
            assert len(on.decisions()) == 1

    @pytest.mark.slow
    async def test_panel_of_blocked_call_shows_the_way(self) -> None:
        """A blocked call's panel shows the way to it."""
        async with stage() as on:
            on.hub.explanation = explained(RULES, "deploy")
            await open_blocked(on)
            await on.until("lint → test → deploy (approval)")

    @pytest.mark.slow
    async def test_failed_explanation_shows_the_reason(self) -> None:
        """If the hub cannot explain a call, the panel says why and keeps its other parts."""
        async with stage() as on:
            await open_blocked(on)
            await on.until("cannot be explained: No live session")
            assert "deploy requires a successful call to test first." in on.painted()

    @pytest.mark.slow
    async def test_rule_names_are_never_markup(self) -> None:
        """Brackets and control characters in names are shown as text."""
        async with stage() as on:
            on.hub.explanation = explained("block [red]x[/red]\x1b[7m", "[red]x[/red]\x1b[7m")
            await on.open_dialog()
            await on.press("x")
            await on.until("block-[red]x[/red]")
            assert "\x1b" not in on.painted()
