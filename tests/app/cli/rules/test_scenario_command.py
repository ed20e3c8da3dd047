"""`interlock test`: scenarios against the real gate."""

from __future__ import annotations

import re
from argparse import Namespace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from interlock.app.cli.main import parser
from interlock.app.cli.rules.scenario_runner import ScenarioDivergence, run_scenario
from interlock.app.cli.rules.test import LINES, run
from interlock.rules import compile_rules
from interlock.rules.library import LIBRARY
from interlock.rules.scenarios.scenarios import parse_scenarios
from tests.support.command import printed

ROOT = Path(__file__).parents[4]
DEPLOY = """\
require test before deploy
require lint before deploy
require human-approval before deploy
"""
EXAMPLE = """\
use deploy.rules
scenario "no deploy without tests"
  call deploy
  expect block "requires a successful call to test"
  call lint
  call test fails
  call deploy
  expect block
  call test
  call deploy
  expect ask
  deny "not on Friday"
  expect block "not on Friday"
"""


def command(*paths: Path | str, junit: Path | None = None) -> tuple[int, str, str]:
    return printed(lambda: run(Namespace(paths=[str(path) for path in paths], junit=junit)))


def diverges(rules: str, text: str) -> ScenarioDivergence | None:
    """Return a scenario's divergence, if any."""
    [scenario] = parse_scenarios(f'use r\nscenario "x"\n{text}', file="x").scenarios
    return run_scenario(scenario, compile_rules(rules, file="r.rules"))


def message(rules: str, text: str) -> str:
    divergence = diverges(rules, text)
    assert divergence is not None
    return f"{divergence.problem.line}: {divergence.problem.message}"


ASK = "require human-approval before a"


class TestRuns:
    def test_reserved_names(self) -> None:
        """G-64, G-66: unclear calls, and calls that no map names, are judged as at the real gate."""
        rules = "map bash.command rm as delete\nblock delete\nlimit anything-else to 1 per session\n"
        ask = '  call bash command "eval $x"\n  expect ask\n  approve\n  expect allow\n'
        once = "  call other\n  expect allow\n  call more\n  expect block\n"
        assert diverges(rules, f'{ask}{once}  call bash command "ls"\n  expect allow\n') is None
        blocked = '  call bash command "eval $x"\n  expect block "cannot be read to its end"\n'
        assert diverges(f"{rules}block unclear", blocked) is None
        assert "expected ask" in message(f"{rules}allow unclear bash", ask)

    def test_example_runs_as_in_a_session(self, tmp_path: Path) -> None:
        """Calls, failures, requests and denials run as in a session of the real gate."""
        (tmp_path / "deploy.rules").write_text(DEPLOY)
        (tmp_path / "deploy_test.rules").write_text(EXAMPLE)
        code, out, err = command(tmp_path / "deploy_test.rules")
        assert (code, err) == (0, "")
        assert out == (
            f"ok    {tmp_path}/deploy_test.rules:2  no deploy without tests\n"
            "\n1 scenario, all as expected.\n"
        )

    @pytest.mark.parametrize(
        ("rules", "text"),
        [
            ("", "call a\nexpect allow"),
            (ASK, "call a\nexpect ask"),
            (ASK, "call a\napprove"),
            (ASK, "call a\napprove\nexpect allow"),
            (ASK, "call a\ndeny"),
            (ASK, 'call a\nexpect ask\ndeny "no"\nexpect block "human review: no"\ncall b\nexpect allow'),
            (ASK, "call a\nexpect ask\ncall a\nexpect ask\napprove\nexpect allow"),
            (
                f"{ASK}\nrequire human-approval before b\nmap a.x b as b",
                "call a x b\napprove\nexpect ask\napprove",
            ),
            ("require a before b", "call a fails\ncall b\nexpect block\ncall a\ncall b"),
            (
                "limit a to 1 per b",
                "call a\ncall a\nexpect block\ncall b fails\ncall a\nexpect block\ncall b\ncall a",
            ),
            ("block a", "switch block-a off\ncall a\nswitch block-a on\ncall a\nexpect block"),
            ("block a\nblock a", 'switch block-a off\nswitch "block-a#2" off\ncall a'),
            ("block a", 'call x y 1\ncall a\nexpect block "blocked"\nexpect block "cannot be called"'),
            ("block a.b", "call a action b\nexpect block\ncall a action c\nexpect allow"),
            ("map t.c /x\\d/ as a\nblock a", 'call t c "x1"\nexpect block\ncall t c "x"'),
        ],
    )
    def test_every_gate_behaviour_can_be_expected(self, rules: str, text: str) -> None:
        """Every behaviour of the gate can be expected in a scenario."""
        assert diverges(rules, text) is None

    def test_net_switched_on_during_request_takes_effect(self) -> None:
        """G-58: a net that is switched on while a request is open takes effect, and can be tested."""
        rules = f"{ASK}\nblock a"
        start = "switch block-a off\ncall a\nexpect ask\n"
        assert diverges(rules, f"{start}approve\nexpect allow") is None
        assert diverges(rules, f"{start}switch block-a on\napprove\nexpect block") is None

    def test_shadow_never_asks(self) -> None:
        """G-57: in shadow mode a call runs at once, and its outcome in enforce mode can be expected."""
        rules = f"{ASK}\nblock b\nrequire b before c"
        assert diverges(rules, "mode shadow\ncall a\nexpect ask\ncall b\nexpect block\ncall c") is None
        assert diverges(rules, "mode shadow\ncall b fails\ncall c\nexpect block") is None
        assert message(rules, "mode shadow\ncall a\napprove").startswith(
            "5: expected a request to answer"
        )
        assert diverges(rules, "mode shadow\ncall b\nmode enforce\ncall b\nexpect block") is None

    def test_scenarios_share_nothing(self, tmp_path: Path) -> None:
        """Each scenario has its own session, with all nets active and enforce mode."""
        (tmp_path / "a.rules").write_text("limit a to 1 per session\nblock b")
        (tmp_path / "a_test.rules").write_text(
            'use a.rules\nscenario "1"\nmode shadow\nswitch block-b off\ncall a\ncall b\n'
            'scenario "2"\ncall a\ncall b\nexpect block\n'
        )
        assert command(tmp_path)[0] == 0


HOURLY = "limit a to 2 per 1h"
TWO = f"{ASK} by 2 within 15m"
PROD = 'block a when input.env = "prod"'


class TestTimeAndPeople:
    """Conditions, sliding limits, times and several approvers in scenarios."""

    @pytest.mark.parametrize(
        ("rules", "text"),
        [
            (PROD, 'call a env prod\nexpect block "a is blocked"\ncall a env dev\nexpect allow'),
            (PROD, 'call a\nexpect block "the call has no input.env"'),
            (
                f"{ASK} when input.n > 3",
                "call a n 3\nexpect allow\ncall a n 4\nexpect ask\ncall a n x\nexpect ask",
            ),
            (HOURLY, 'call a\nwait 30m\ncall a\ncall a\nexpect block "2 calls per 1h"'),
            (
                HOURLY,
                "call a\nwait 30m\ncall a\nwait 30m\ncall a\ncall a\nexpect block\nwait 30m\ncall a",
            ),
            (
                HOURLY,
                "wait 365d\ncall a\ncall a\nwait 59m\nwait 59s\ncall a\nexpect block\nwait 1s\ncall a",
            ),
            (TWO, "call a\nexpect ask\napprove\nexpect ask\napprove\nexpect allow"),
            (TWO, 'call a\napprove\ndeny "no"\nexpect block "no"'),
            (TWO, 'call a\nwait 15m\nexpect block "nobody decided within 15 min (r.rules:1)"'),
            (TWO, "call a\nwait 14m\nwait 59s\napprove\napprove\nexpect allow\nwait 1h\nexpect allow"),
            (TWO, "call a\napprove\nwait 15m\nexpect block\ncall a\nexpect ask"),
            (f"{ASK} within 15m\nrequire human-approval before b", "call b\nwait 365d\nexpect ask"),
            # The second request has its own deadline.
            (
                f"{ASK} within 15m risk low\n{ASK} within 15m risk high",
                "call a\nwait 10m\napprove\nwait 10m\nexpect ask\nwait 5m\nexpect block",
            ),
        ],
    )
    def test_wait_advances_time_and_approvers_differ(self, rules: str, text: str) -> None:
        """Time passes only in `wait`, and each `approve` is by another operator."""
        assert diverges(rules, text) is None

    @pytest.mark.parametrize(
        ("rules", "text", "said"),
        [
            (HOURLY, "call a\ncall a\nwait 59m\ncall a", "6: expected the call to run, got block"),
            (TWO, "call a\napprove\nexpect allow", "5: expected allow, got ask"),
            (TWO, "call a\napprove\napprove\napprove", "6: expected a request to answer, got allow"),
            (TWO, "call a\nwait 15m", "3: expected the call to run, got block"),
            (TWO, "call a\nwait 15m\napprove", "5: expected a request to answer, got block"),
            (PROD, "call a env prod", "3: expected the call to run, got block"),
        ],
    )
    def test_wrong_expectations_diverge(self, rules: str, text: str, said: str) -> None:
        """A scenario with wrong expectations about time or approvers diverges."""
        assert message(rules, text).startswith(said)


class TestDivergence:
    @pytest.mark.parametrize(
        ("rules", "text", "expected"),
        [
            ("", "call a\nexpect block", "4: expected block, got allow"),
            (ASK, "call a\nexpect allow", "4: expected allow, got ask"),
            (
                "block a",
                'call a\nexpect block "limit"',
                '4: expected block "limit", got block "a is blocked and cannot be called." (r.rules:1)',
            ),
            (
                "block a",
                "call a",
                '3: expected the call to run, got block "a is blocked and cannot be called."',
            ),
            ("block a", "call a\ncall b", "3: expected the call to run, got block"),
            (ASK, "call a\ncall b", "3: expected the call to run, got ask"),
            (ASK, "call a", "3: expected the call to run, got ask"),
            (
                f"{ASK}\nblock a",
                "switch block-a off\ncall a\nswitch block-a on\napprove",
                "4: expected the call",
            ),
            ("", "call a\napprove", "4: expected a request to answer, got allow"),
            (ASK, "call a\napprove\ndeny", "5: expected a request to answer, got allow"),
            (ASK, "call a\ndeny\nexpect allow", "5: expected allow, got block"),
            (
                "block a",
                "call b\nswitch block-x off",
                "4: expected to switch off 'block-x': 'block-x' is not",
            ),
            ("block a", "call b\nswitch block-x on", "4: expected to switch on 'block-x': Unknown net"),
            (
                "block a",
                "call b\nswitch block-a on",
                "4: expected to switch on 'block-a': 'block-a' is already",
            ),
        ],
    )
    def test_ends_scenario_at_first_failing_line(self, rules: str, text: str, expected: str) -> None:
        """A scenario ends at the first line that fails; a call without an expectation must run."""
        assert message(rules, text).startswith(expected)

    def test_is_shown_with_the_markings(self, tmp_path: Path) -> None:
        """A divergence shows the line, the expected and actual outcome, and every net's marking."""
        (tmp_path / "deploy.rules").write_text(DEPLOY)
        (tmp_path / "deploy_test.rules").write_text(
            'use deploy.rules\nscenario "wrong"\n  switch approve-before-deploy off\n  call lint\n'
            "  call deploy\n  expect ask  # really\n"
            '  call deploy\nscenario "right"\n  call lint\n'
        )
        code, out, err = command(tmp_path)
        assert (code, err) == (1, "")
        path = f"{tmp_path}/deploy_test.rules"
        assert out == (
            f"FAIL  {path}:2  wrong\n"
            f"      {path}:6:3: expected ask, got block "
            f'"deploy requires a successful call to test first." ({tmp_path}/deploy.rules:1)\n'
            "            expect ask  # really\n"
            "            ^^^^^^^^^^\n"
            "      the nets at that moment:\n"
            "          require-test-before-deploy  ready:1\n"
            "          require-lint-before-deploy  gate:1\n"
            "          approve-before-deploy       ready:1  (inactive)\n"
            f"ok    {path}:8  right\n"
            "\n2 scenarios, 1 failed.\n"
        )

    def test_of_a_hostile_name_is_harmless(self, tmp_path: Path) -> None:
        """Control characters of a file are not printed."""
        (tmp_path / "a.rules").write_text("block a\x1b[2J")
        (tmp_path / "a_test.rules").write_text('use a.rules\nscenario "\x1b[1A"\ncall a\x1b[2J\n')
        code, out, _ = command(tmp_path)
        assert code == 1
        assert "\x1b" not in out


class TestFiles:
    def test_are_found_below_a_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without a path, all `*_test.rules` below the working directory run, but not hidden ones."""
        for folder in (".", "b", "a", ".hidden", "node_modules"):
            (tmp_path / folder).mkdir(exist_ok=True)
            (tmp_path / folder / "r.rules").write_text("block a")
            (tmp_path / folder / "r_test.rules").write_text(f'use r.rules\nscenario "{folder}"\ncall b')
        monkeypatch.chdir(tmp_path)
        code, out, _ = command()
        assert code == 0
        assert out.splitlines() == [
            "ok    r_test.rules:2  .",
            "ok    a/r_test.rules:2  a",
            "ok    b/r_test.rules:2  b",
            "",
            "3 scenarios, all as expected.",
        ]
        assert command("a", "a/r_test.rules")[1].count("ok ") == 1

    def test_may_use_several_rules(self, tmp_path: Path) -> None:
        """All rules files of a `use` line apply together."""
        (tmp_path / "a.rules").write_text("map t.c x as a")
        (tmp_path / "b.rules").write_text("block a")
        (tmp_path / "c_test.rules").write_text(
            'use a.rules b.rules\nscenario "x"\ncall t c x\nexpect block'
        )
        assert command(tmp_path)[0] == 0

    def test_faulty_files_do_not_hide_valid_ones(self, tmp_path: Path) -> None:
        """Faulty files are reported with exit code 2 and their place; valid files still run."""
        (tmp_path / "a.rules").write_text("block a")
        (tmp_path / "bad.rules").write_text("blok a")
        (tmp_path / "1_test.rules").write_text("scenario x")
        (tmp_path / "2_test.rules").write_text('use none.rules\nscenario "x"\ncall b')
        (tmp_path / "3_test.rules").write_text('use bad.rules\nscenario "x"\ncall b')
        (tmp_path / "4_test.rules").write_text('use a.rules\nscenario "x"\ncall a')
        code, out, err = command(tmp_path)
        assert code == 2
        assert out.startswith("FAIL  ")
        assert f"{tmp_path}/1_test.rules:1:10: expected a text in double quotes" in err
        assert f"{tmp_path}/2_test.rules:1:1: no such rules file: {tmp_path}/none.rules" in err
        assert f"{tmp_path}/bad.rules:1:1: unknown keyword 'blok'" in err
        assert "3 errors in the files to be tested." in err

    def test_missing_path_is_an_error(self, tmp_path: Path) -> None:
        """A missing path or a folder without scenarios is an error."""
        for path, said in ((tmp_path / "none", "no such rules file"), (tmp_path, "holds no file named")):
            code, out, err = command(path)
            assert (code, out) == (2, "")
            assert said in err


class TestLibrary:
    @pytest.mark.slow
    def test_every_file_is_tested(self) -> None:
        """Each library file has its scenarios beside it, and all of them hold."""
        names = {path.stem for path in LIBRARY.glob("*.rules")}
        rules = {name for name in names if not name.endswith("_test")}
        assert {"deploy", "freeze", "file-safety", "git", "chat", "infrastructure"} <= rules
        assert {"coding-agent", "tool-approval", "production"} <= rules
        assert names == rules | {f"{name}_test" for name in rules}
        code, out, err = command(LIBRARY)
        assert (code, err) == (0, ""), out

    @pytest.mark.slow
    def test_every_line_is_needed_by_a_scenario(self) -> None:
        """Every rule and map of the library is needed by one of its scenarios."""
        unnoticed = [line for path in LIBRARY.glob("*_test.rules") for line in _removable(path)]
        assert unnoticed == []


def _removable(path: Path) -> list[str]:
    """Return the lines that can be removed without a scenario of the file failing."""
    file = parse_scenarios(path.read_text(), file=str(path))
    lines = [line for use in file.uses for line in Path(use.path).read_text().splitlines()]
    own = Path(str(path).replace("_test.rules", ".rules")).read_text().splitlines()
    rules = [line for line in own if line.startswith(("require", "limit", "block", "map"))]
    found: list[str] = []
    for rule in rules:
        without = compile_rules([line for line in lines if line != rule])
        if all(run_scenario(scenario, without) is None for scenario in file.scenarios):
            found.append(f"{path.name}: {rule}")
    return found


class TestJunit:
    """JUnit XML besides the printed lines."""

    def test_files_are_suites_and_scenarios_are_cases(self, tmp_path: Path) -> None:
        """Each file is a suite and each scenario a case with its place; a divergence has its details."""
        (tmp_path / "deploy.rules").write_text(DEPLOY)
        path = tmp_path / "deploy_test.rules"
        path.write_text(f'{EXAMPLE}scenario "wrong \\u001b <&>"\n  call deploy\n  expect allow\n')
        out = tmp_path / "out.xml"
        code, shown, err = command(path, junit=out)
        assert (code, err) == (1, "")
        assert "1 failed." in shown
        top = ElementTree.fromstring(out.read_text("utf-8"))
        [suite] = top
        counts = [suite.get(name) for name in ("name", "tests", "failures", "errors")]
        assert counts == [str(path), "2", "1", "0"]
        right, wrong = suite
        assert (right.get("name"), right.get("line"), len(right)) == ("no deploy without tests", "2", 0)
        assert wrong.get("name") == r"wrong \x1b <&>"
        [failure] = wrong
        assert (failure.get("message") or "").startswith("expected allow, got block")
        assert "the nets at that moment:" in (failure.text or "")

    def test_file_with_errors_is_a_case(self, tmp_path: Path) -> None:
        """A file with errors is a case with these errors."""
        path = tmp_path / "a_test.rules"
        path.write_text("use missing.rules\nscenario x")
        out = tmp_path / "out.xml"
        code, _, _ = command(path, junit=out)
        assert code == 2
        [suite] = ElementTree.fromstring(out.read_text("utf-8"))
        assert (suite.get("tests"), suite.get("errors")) == ("1", "1")
        assert suite.findall("testcase/error")

    def test_unwritable_target_is_named(self, tmp_path: Path) -> None:
        """A target that cannot be written is named, after the scenarios have run."""
        path = tmp_path / "a_test.rules"
        (tmp_path / "a.rules").write_text("block a")
        path.write_text('use a.rules\nscenario "x"\n  call a\n  expect block\n')
        code, shown, err = command(path, junit=tmp_path)
        assert code == 2
        assert "all as expected" in shown
        assert err.startswith(f"interlock test: cannot write '{tmp_path}': ")


class TestHelp:
    """The grammar of scenarios in the help."""

    def test_help_and_reference_have_every_statement(self) -> None:
        """The help and the reference's table have all statements of the grammar."""
        shown = " ".join(parser("test").commands["test"].format_help().split())
        page = (ROOT / "docs" / "reference" / "scenarios.md").read_text("utf-8")
        for forms, meaning in LINES:
            assert f"| {', '.join(f'`{form}`' for form in forms)} | {meaning} |" in page
            assert all(form in shown for form in forms)
        assert len(re.findall(r"^\| `", page, re.MULTILINE)) == len(LINES)
        grammar = (ROOT / "rules" / "parse" / "scenario.lark").read_text("utf-8")
        statements = re.findall(r"^([a-z]+): +\"(\w+)\"", grammar, re.MULTILINE)
        assert {word for _, word in statements} == {forms[0].split()[0] for forms, _ in LINES}

    def test_fits_eighty_columns(self) -> None:
        """The help fits into 80 columns."""
        assert max(map(len, parser("test").commands["test"].format_help().splitlines())) <= 80
