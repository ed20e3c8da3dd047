"""`interlock flow run`: checks before the start, and headless runs."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from interlock.app.cli.main import parser
from interlock.app.flows.inputs import input_text
from interlock.app.flows.spec import FlowLimits
from interlock.app.hosting.flow import limits_of
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import (
    ApprovalDecided,
    ApprovalRequested,
    ApprovalWithdrawn,
    SessionOpened,
    SessionStatus,
)
from interlock.engine.history.model.records import FlowStepped

from .shipping import INPUT, bodies, flow, here, run

SIGN = ("--fill", 'Notes={"by": "ada"}')
RULES = ("--rules", "a.rules")

__all__ = ["here"]


def refused(here: Path, name: str, *line: str, said: str = INPUT) -> list[str]:
    """Expect a refused run that records nothing, and return its messages."""
    done = run(here, name, *line, said=said)
    assert (done.returncode, done.stdout) == (2, "")
    assert not (here / "flow.db").exists()
    assert done.stderr.startswith("interlock flow run: ")
    return [line.removeprefix("interlock flow run: ") for line in done.stderr.splitlines()]


class TestRefused:
    def test_all_problems_of_the_graph(self, here: Path) -> None:
        """P-43: each error of `build` has a line with the flow's name."""
        assert refused(here, "Wrong") == [
            "ship:Wrong: work 'Commit': duplicate node key",
            "ship:Wrong: node 'Signed': unreachable from entry 'Commit'",
        ]

    def test_input_field_by_field(self, here: Path) -> None:
        """Section 14: invalid input is reported by field, with the fields of the model."""
        assert refused(here, "Short", said='{"tries": "x"}') == [
            "--input: sha: Field required",
            "--input: tries: Input should be a valid integer, unable to parse string as an integer",
            "--input: Commit is {sha, tries (optional)}",
        ]
        [problem, _] = refused(here, "Short", said="{")
        assert "Invalid JSON" in problem

    def test_all_errors_at_once(self, here: Path) -> None:
        """Errors in rules, input, answers and paths are reported together."""
        (here / "bad.rules").write_text("allow x\n")
        line = ("--rules", "bad.rules", "--fill", "Note={}", "--workdir", "nowhere")
        told = "\n".join(refused(here, "Ship", *line, said="{}"))
        assert "--input: sha: Field required" in told
        assert "--fill Note: no step waits for a person under this name; did you mean 'Notes'?" in told
        assert "bad.rules:1" in told
        assert "--workdir: there is no directory" in told

    @pytest.mark.parametrize(
        ("name", "problem"),
        [
            ("Nothing", "has no 'Nothing'"),
            ("Commit", "ship:Commit: expected a flow, found Commit; write class Commit(Flow["),
            ("Breaks", "ship:Breaks: build failed: "),
            ("Ship", "no rules were given; name at least one file with --rules"),
        ],
    )
    def test_no_flow(self, here: Path, name: str, problem: str) -> None:
        """The name must be a flow that can be built; agents with tools need rules."""
        [said] = refused(here, name)
        assert problem in said

    def test_no_module(self, here: Path) -> None:
        """A missing module and an invalid name are reported."""
        done = flow(here, "run", "shop:Ship", "--headless")
        assert (done.returncode, "no module 'shop'" in done.stderr) == (2, True)
        done = flow(here, "run", "ship", "--headless")
        assert done.returncode == 2
        assert "FLOW: expected package.module:FlowClass, found 'ship'" in done.stderr

    def test_models_are_known(self, here: Path) -> None:
        """P-123: an unknown provider and a missing key are reported before anything starts."""
        [said] = refused(here, "Lost", *RULES)
        assert "agent 'Draft'" in said
        assert "nobody" in said
        [said] = refused(here, "Remote", *RULES)
        assert "agent 'Draft'" in said
        assert "OPENAI_API_KEY" in said

    @pytest.mark.parametrize(
        ("fill", "problem"),
        [
            ('Notes={"severity": 2}', "--fill Notes: by: Field required"),
            ("Notes={", "--fill Notes: not JSON"),
            ("Notes", "--fill: expected KEY='{…}', found 'Notes'"),
            ("Notes=1", "--fill: expected KEY='{…}', found 'Notes=1'"),
        ],
    )
    def test_answers_are_checked_against_their_model(self, here: Path, fill: str, problem: str) -> None:
        """P-81: an answer is checked against its model before the flow starts."""
        assert refused(here, "Ship", *RULES, "--fill", fill)[0].startswith(problem)

    def test_no_terminal(self, here: Path) -> None:
        """Without a terminal `--headless` is required."""
        done = flow(here, "run", "ship:Short", "--input", INPUT)
        assert done.returncode == 2
        assert "not a terminal; use --headless" in done.stderr

    def test_read_only(self, here: Path) -> None:
        """`--read-only` is refused."""
        done = flow(here, "run", "ship:Short", "--input", INPUT, "--headless", "--read-only")
        assert (done.returncode, "--read-only changes nothing" in done.stderr) == (2, True)

    def test_project_settings_cannot_contain_answers(self, here: Path) -> None:
        """P-81: a project's settings file must not contain answers."""
        (here / "interlock.toml").write_text("""fill = ['Notes={"by": "me"}']""")
        done = run(here, "Ship", *RULES)
        assert (done.returncode, "fill: is allowed in" in done.stderr) == (2, True)

    def test_both_inputs(self, here: Path) -> None:
        """`--input` together with `--input-file` is refused."""
        [said] = refused(here, "Short", "--input-file", "x.json")
        assert said == "--input and --input-file both say what the flow begins with; leave one out"


class TestRun:
    def test_run_completes_and_prints_every_event(self, here: Path) -> None:
        """P-50, P-81, P-82: calls are approved, human steps filled in, and every event printed."""
        done = run(here, "Ship", *RULES, *SIGN)
        assert (done.returncode, done.stderr) == (0, "")
        assert (here / "deployed").read_text() == "staging"
        assert '"signed by ada"' in done.stdout
        [opened] = bodies(here, SessionOpened)
        assert opened.source["flow"] == "ship:Ship"
        assert opened.source["rules"] == [str(here / "a.rules")]
        assert [decided.by for decided in bodies(here, ApprovalDecided)] == ["headless", "headless"]
        told = [line for line in done.stdout.splitlines() if line and not line.startswith(" ")]
        assert len(told) == len(list(_events(here)))

    def test_denied_by_default(self, here: Path) -> None:
        """Without `--answer` a headless run denies its requests and fails."""
        options = ("--input", INPUT, "--headless", *RULES, *SIGN)
        done = flow(here, "run", "ship:Ship", *options)
        assert done.returncode == 1
        assert not (here / "deployed").exists()
        assert "Notes was denied by headless: answered by --answer deny" in done.stdout

    def test_unanswered_step_is_named(self, here: Path) -> None:
        """P-81: without an answer the error names the step and the remedy; the request is withdrawn."""
        done = run(here, "Ship", *RULES)
        assert done.returncode == 1
        assert "Notes waits for an answer that a person fills in" in done.stderr
        assert "--fill Notes='{…}'" in done.stderr
        [*_, last] = bodies(here, SessionStatus)
        assert (last.status, "interlock flow resume" in (last.error or "")) == ("failed", True)
        assert len(bodies(here, ApprovalWithdrawn)) == 1

    def test_choices(self, here: Path) -> None:
        """Section 12: a request with choices accepts only one of them."""
        done = run(here, "Choose", "--fill", 'Notes={"answer": "yes"}')
        assert (done.returncode, '"yes"' in done.stdout) == (0, True)
        done = run(here, "Choose", "--fill", 'Notes={"answer": "maybe"}')
        assert done.returncode == 1
        assert "expected one of 0 (yes), 1 (later)" in done.stdout

    def test_question_of_a_tool_is_answered(self, here: Path) -> None:
        """P-71: a tool's question is answered under the names of its agent and the tool."""
        done = run(here, "Consults", *RULES, "--fill", 'Draft::consult={"answer": "this"}')
        assert (done.returncode, "this" in done.stdout) == (0, True)

    def test_input_from_a_file(self, here: Path) -> None:
        """Input can come from a file; an unreadable file is named."""
        (here / "in.json").write_text(INPUT)
        assert flow(here, "run", "ship:Short", "--headless", "--input-file", "in.json").returncode == 0
        done = flow(here, "run", "ship:Short", "--headless", "--input-file", "no.json")
        assert (done.returncode, "--input-file: cannot read 'no.json'" in done.stderr) == (2, True)

    def test_input_from_standard_input(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """`-` as the input file is standard input."""
        monkeypatch.setattr(sys, "stdin", io.StringIO(INPUT))
        assert input_text(None, Path("-")) == (INPUT, "--input-file -")

    def test_workdir_is_used(self, here: Path) -> None:
        """P-150: `--workdir` sets the working directory of functions and tools."""
        (here / "work").mkdir()
        assert run(here, "Ship", *RULES, *SIGN, "--workdir", "work").returncode == 0
        assert (here / "work" / "deployed").exists()
        assert (here / "work" / "collected").exists()

    def test_only_allowed_commands_run(self, here: Path) -> None:
        """P-158: functions may run only commands that were allowed by name."""
        done = run(here, "Commands")
        assert done.returncode == 1
        assert "command 'git' is not in the allowed list" in done.stdout
        assert run(here, "Commands", "--allow-command", "git").returncode == 0

    @pytest.mark.variants
    @pytest.mark.parametrize(
        ("option", "limit"), [("--max-steps", "max_steps is 1"), ("--max-turns", "max_turns is 1")]
    )
    def test_limit_ends_the_run_between_steps(self, here: Path, option: str, limit: str) -> None:
        """Section 12: a limit ends the run between two steps, and the run can be resumed."""
        done = run(here, "Ship", *RULES, *SIGN, option, "1")
        assert (done.returncode, limit in done.stdout) == (1, True)
        again = flow(here, "resume", "Ship", "--headless", "--answer", "approve", *SIGN)
        assert (again.returncode, (here / "collected").read_text()) == (0, "once ")

    @pytest.mark.parametrize(("answer", "ran"), [("approve", True), ("deny", False)])
    def test_tools_that_need_approval(self, here: Path, answer: str, ran: bool) -> None:
        """A tool with `needs_approval` requires an approval, whatever the rules say."""
        (here / "none.rules").write_text("")
        done = run(here, "Erases", "--rules", "none.rules", "--answer", answer)
        assert done.returncode == 0
        assert [asked.tool for asked in bodies(here, ApprovalRequested)] == ["erase"]
        assert (here / "erased").exists() is ran

    def test_time_without_a_unit_is_refused(self, here: Path) -> None:
        """A time without a unit is refused."""
        done = run(here, "Short", "--max-time", "soon")
        assert (done.returncode, "a time such as 90s, 10m or 2h" in done.stderr) == (2, True)

    def test_shadow_mode_still_waits_for_human_steps(self, here: Path) -> None:
        """In shadow mode calls run without approval, but human steps still wait."""
        done = run(here, "Ship", *RULES, *SIGN, "--mode", "shadow")
        assert done.returncode == 0
        [decided] = bodies(here, ApprovalDecided)
        assert decided.input == {"by": "ada"}
        assert bodies(here, FlowStepped)[-1].done


def _events(here: Path):
    reader = open_reader(here / "flow.db")
    [session] = reader.sessions()
    return reader.events(session.id)


class TestOptions:
    def test_times_have_units(self) -> None:
        """Section 12: `--max-time 10m` is a limit of 600 seconds."""
        args = parser().parse_args(["flow", "run", "ship:Ship", "--max-time", "10m", "--max-steps", "3"])
        assert limits_of(args) == FlowLimits(max_steps=3, max_seconds=600)
