"""`interlock check`."""

from __future__ import annotations

import json as json_text
import re
import unicodedata
from argparse import Namespace
from pathlib import Path

import pytest

from interlock.app.cli.main import parser
from interlock.app.cli.rules.check import run
from interlock.rules import library_rules
from tests.support.command import command, printed

ROOT = Path(__file__).parents[4]

PLAIN = {"approval": False, "succeeds": True, "people": 1, "outside": [], "seconds": None}
"""A step that needs no approval."""


def check(
    *files: Path | str,
    tools: str | None = None,
    form: str | None = None,
    against: list[str] | None = None,
    **switches: bool,
) -> tuple[int, str, str]:
    names = [str(file) for file in files]
    options = {
        "json": False,
        "strict": False,
        "quiet": False,
        "each": False,
        "against": against,
        **switches,
    }
    return printed(lambda: run(Namespace(files=names, tools=tools, format=form, **options)))


OPERATORS = """
[operators.maria]
groups = ["security"]
[operators.ben]
role = "look"
groups = ["security"]
"""


class TestOperators:
    def checked(self, tmp_path: Path, rules: str, settings: str | None) -> tuple[int, str]:
        (tmp_path / "deploy.rules").write_text(f"block rm\n\n{rules}\n")
        if settings is not None:
            (tmp_path / "interlock.toml").write_text(settings)
        done = command(
            tmp_path, "check", "deploy.rules", "--quiet", env={"INTERLOCK_CONFIG_DIR": str(tmp_path)}
        )
        return done.returncode, done.stderr

    def test_group_that_is_too_small_is_an_error(self, tmp_path: Path) -> None:
        """The error has the rule's place, the required number and the group's members."""
        rules = "require human-approval before deploy by 2 of security"
        code, said = self.checked(tmp_path, rules, OPERATORS)
        assert code == 1
        assert "deploy.rules:3:46: needs 2 of security, which has 1 member (maria)" in said

    def test_group_without_members_is_an_error(self, tmp_path: Path) -> None:
        """A group without members is an error that suggests a similar name."""
        code, said = self.checked(tmp_path, "require human-approval before deploy of securty", OPERATORS)
        assert code == 1
        assert "no operator is in the group 'securty'" in said
        assert "did you mean 'security'?" in said

    def test_missing_group_without_operators_is_a_warning(self, tmp_path: Path) -> None:
        """Without configured operators a missing group is only a warning."""
        rules = "require human-approval before deploy of security"
        assert self.checked(tmp_path, rules, None) == (0, "")
        done = command(
            tmp_path, "check", "deploy.rules", "--strict", env={"INTERLOCK_CONFIG_DIR": str(tmp_path)}
        )
        assert done.returncode == 1
        assert "no operators are configured: nobody can approve it" in done.stdout

    def test_server_does_not_start_with_too_small_group(self, tmp_path: Path) -> None:
        """A server refuses to start with rules whose group is too small."""
        rules = "require human-approval before deploy by 2 of security"
        self.checked(tmp_path, rules, OPERATORS)
        env = {"INTERLOCK_CONFIG_DIR": str(tmp_path), "HOME": str(tmp_path)}
        line = ("serve", "--rules", "deploy.rules", "--listen", f"unix:{tmp_path / 's'}", "--db", "j.db")
        done = command(tmp_path, *line, env=env)
        assert done.returncode == 2
        assert "needs 2 of security, which has 1 member (maria)" in done.stderr

    def test_faulty_table_ends_the_check(self, tmp_path: Path) -> None:
        """A faulty operators table ends the check with exit code 2."""
        code, said = self.checked(tmp_path, "block a", '[operators.ada]\nrole = "boss"\n')
        assert code == 2
        assert "operators]: ada.role: expected" in said


class TestSound:
    def test_prints_each_net_with_its_states(self, tmp_path: Path) -> None:
        """A net is shown with its rule, places, transitions and reachable states."""
        path = tmp_path / "a.rules"
        path.write_text("require human-approval before deploy # always\nrequire lint before test")
        code, out, err = check(path)
        assert (code, err) == (0, "")
        assert out.startswith(f"{path}: 2 nets\n")
        lines = [line.strip() for line in out.splitlines()]
        assert any(line.startswith("approve-before-deploy ") and line.endswith(":1") for line in lines)
        for line in (
            "require human-approval before deploy",
            "places       idle 1, ready",
            "transitions  start: idle → ready; structural",
            "approve: ready → ready; on deploy (manual)",
            "do-lint: ready → gate; on lint (deferred)",
            "again-lint: gate → gate; on lint",
            "do-test: gate → ready; on test",
            "reachable    2 states",
            "reachable    3 states",
            "gate:1",
        ):
            assert line in lines

    def test_fits_eighty_columns(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The output for the library's rules fits into 80 columns."""
        path = library_rules("deploy")
        monkeypatch.chdir(path.parent)
        _, out, _ = check(path.name, "freeze.rules")
        assert max(map(len, out.splitlines())) <= 80

    def test_shortens_a_long_list_of_states(self, tmp_path: Path) -> None:
        """G-56: of a million states the first are shown and the others counted."""
        path = tmp_path / "a.rules"
        path.write_text("limit push to 1000000 per review")
        _, out, _ = check(path)
        assert "reachable    1,000,002 states" in out
        assert "refill: ready → ready, all spent → budget; on review (deferred)" in out
        assert "ready:1, budget:999990, spent:10" in out
        assert "… 999,990 more" in out

    def test_keys_and_warns_of_duplicates(self, tmp_path: Path) -> None:
        """G-43: the second net with a name has its own key, and a warning names the duplicate."""
        path = tmp_path / "a.rules"
        path.write_text("block x\nblock x")
        code, out, _ = check(path)
        assert code == 0
        assert "\nblock-x#2 " in out
        assert f"warning: {path}:2:1: the same rule as in line 1" in out

    def test_says_when_nothing_is_restricted(self, tmp_path: Path) -> None:
        """For a file without rules the output says that every call is allowed."""
        path = tmp_path / "a.rules"
        path.write_text("# nothing yet")
        code, out, _ = check(path)
        assert code == 0
        assert "every call is allowed" in out

    def test_control_characters_are_not_printed(self, tmp_path: Path) -> None:
        """Control characters in a rules file are not printed."""
        path = tmp_path / "a\x1b.rules"
        path.write_text("block \x1b[2Jrm\u202e # \x07")
        _, out, _ = check(path)
        assert not [c for c in out if c != "\n" and unicodedata.category(c) in {"Cc", "Cf"}]


class TestFaulty:
    def test_prints_every_error(self, tmp_path: Path) -> None:
        """G-40: exit code 2, and all errors with carets on stderr only."""
        path = tmp_path / "a.rules"
        path.write_text("block a\nallow b\nrequire a after b")
        code, out, err = check(path, tmp_path / "missing.rules")
        assert (code, out) == (2, "")
        assert f"{path}:2:1: unknown keyword 'allow'" in err
        assert "    require a after b\n              ^^^^^\n" in err
        assert "missing.rules: no such rules file" in err
        assert err.endswith("3 errors; nothing was compiled.\n")

    def test_needs_a_file(self) -> None:
        """Without a file the command fails."""
        assert check() == (2, "", "interlock check: name at least one rules file\n")


class TestTogether:
    """The rules as a whole."""

    def test_each_tool_has_shortest_way_and_limit(self, tmp_path: Path) -> None:
        """For every gated tool the output has the shortest way to it and the most calls."""
        path = tmp_path / "a.rules"
        path.write_text(
            "require lint before test\nrequire test before deploy\nblock rm\n"
            "require human-approval before deploy\nlimit deploy to 2 per session\n"
        )
        code, out, _ = check(path)
        assert code == 0
        together = out.partition("All rules together")[2]
        for line in (
            "  deploy       lint → test → deploy (approval)\n               at most 2 calls a session\n",
            "  test         lint → test\n               any number of calls a session\n",
        ):
            assert line in together
        assert f"rm blocked by {path}:3" in " ".join(together.split())

    def test_contradiction(self, tmp_path: Path) -> None:
        """Contradictory rules are an error with place and caret; the exit code is 1."""
        path = tmp_path / "a.rules"
        path.write_text("require a before b\nrequire b before a\n")
        code, out, err = check(path)
        assert (code, err) == (1, "")
        assert out.startswith(f"{path}: 2 nets, 1 error\n")
        assert f"error: {path}:1:1: 'b' and 'a' can never be called" in out
        assert "\n    require a before b\n    ^^^^^^^^^^^^^^^^^^\n" in out
        assert "can never be called\n" in out

    def test_strict(self, tmp_path: Path) -> None:
        """A warning fails the check only with `--strict`."""
        path = tmp_path / "a.rules"
        path.write_text("limit a to 3 per session\nlimit a to 2 per session\n")
        assert check(path)[0] == 0
        assert check(path, strict=True)[0] == 1

    def test_json(self, tmp_path: Path) -> None:
        """`--json` prints nets, tools and errors as JSON."""
        path = tmp_path / "a.rules"
        path.write_text(
            "require a before b\nrequire human-approval before b\nblock c\nrequire c before d"
        )
        code, out, _ = check(path, json=True)
        found = json_text.loads(out)
        assert code == 1
        assert [net["key"] for net in found["nets"]][:2] == ["require-a-before-b", "approve-before-b"]
        b, c, d = found["tools"]
        assert b == {
            "name": "b",
            "blocked": None,
            "reachable": "yes",
            "way": [
                {"tool": "a", **PLAIN},
                {"tool": "b", **PLAIN, "approval": True},
            ],
            "shortest": True,
            "within": [],
            "most": {"least": 0, "most": None, "unlimited": True, "exact": True, "paces": [], "each": []},
        }
        assert (c["reachable"], c["blocked"]) == ("never", f"{path}:3")
        assert d["forbidden_by"] == ["block-c", "require-c-before-d"]
        assert [(e["line"], e["column"]) for e in found["errors"]] == [(4, 1)]


class TestNewer:
    """Times, several approvers and conditions in the output."""

    def test_timed_and_partial_transitions_are_described(self, tmp_path: Path) -> None:
        """A timed transition is shown with its time, and one of several approvals as partial."""
        path = tmp_path / "a.rules"
        path.write_text("limit push to 3 per 90m\nrequire human-approval before deploy by 2")
        _, out, _ = check(path)
        lines = [line.strip() for line in out.splitlines()]
        assert "recover: spent → budget; after 1 h 30 min" in lines
        assert "approve: ready, approval, approval → ready; on deploy" in lines
        assert "person: ready → ready, approval; on deploy (manual, partial)" in lines

    def test_limit_per_time_is_shown_beside_limit_per_session(self, tmp_path: Path) -> None:
        """G-56: a limit per time is shown beside the limit per session."""
        path = tmp_path / "a.rules"
        path.write_text(
            "limit a to 3 per 1h\nlimit b to 3 per 1h\nlimit b to 20 per 1d\n"
            "limit c to 3 per 1h\nlimit c to 5 per session\nlimit d to 3 per 1h when input.n = 1"
        )
        _, out, _ = check(path)
        together = [line.strip() for line in out.partition("All rules together")[2].splitlines()]
        assert together[1:] == [
            "a            a",
            "at most 3 per 1h",
            "b            b",
            "at most 3 per 1h and at most 20 per 1d",
            "c            c",
            "at most 5 calls a session; at most 3 per 1h",
            "d            d",
            "any number of calls a session",
        ]

    def test_way_under_each_condition_is_shown(self, tmp_path: Path) -> None:
        """The output has the shortest way, the way under each condition, and the meaning of `outside`."""
        path = tmp_path / "a.rules"
        path.write_text(
            'require test before deploy when input.env = "#1" # not yet\n'
            "require human-approval before deploy by 2\nblock rm when input.n = 1\n"
        )
        code, out, _ = check(path)
        assert code == 0
        assert '\n  require test before deploy when input.env = "#1"\n' in out
        assert out.partition("All rules together")[2].partition("\n")[2] == (
            "(outside NET: by a call that does not meet the condition of NET)\n"
            "  deploy       deploy (2 people approve, outside require-test-before-deploy)\n"
            '               when input.env = "#1": test → deploy (2 people approve)\n'
            "               any number of calls a session\n"
            "  rm           rm (outside block-rm)\n"
            "               any number of calls a session\n"
        )

    def test_many_conditions_are_counted(self, tmp_path: Path) -> None:
        """Of many conditions the first are shown and the others counted."""
        path = tmp_path / "a.rules"
        path.write_text("\n".join(f"require t{n} before d when input.n = {n}" for n in range(8)))
        _, out, _ = check(path)
        assert "when input.n = 5: t5 → d" in out
        assert "when input.n = 6:" not in out
        assert "\n               and under 2 more conditions\n" in out

    def test_impossible_condition_fails_the_check(self, tmp_path: Path) -> None:
        """An impossible condition fails the check, and its way is `never`."""
        path = tmp_path / "a.rules"
        path.write_text("block x\nrequire x before d when input.n = 1")
        code, out, _ = check(path)
        assert code == 1
        assert "when input.n = 1: never\n" in out
        assert f"error: {path}:2:1: no call of 'd' that meets this condition is ever possible" in out

    def test_json_has_conditions_paces_and_ways(self, tmp_path: Path) -> None:
        """The JSON output has conditions, paces and ways."""
        path = tmp_path / "a.rules"
        path.write_text(
            "limit a to 3 per 1h\nrequire human-approval before d by 2\n"
            "require t before d when input.n = 1"
        )
        found = json_text.loads(check(path, json=True)[1])
        assert [net["when"] for net in found["nets"]] == [None, None, "input.n = 1"]
        a, d, *_ = found["tools"]
        assert a["most"]["paces"] == [{"calls": 3, "seconds": 3600}]
        asked = {"tool": "d", **PLAIN, "approval": True, "people": 2}
        assert d["way"] == [{**asked, "outside": ["require-t-before-d"]}]
        assert d["within"] == [
            {
                "net": "require-t-before-d",
                "when": "input.n = 1",
                "reachable": "yes",
                "way": [{"tool": "t", **PLAIN}, asked],
                "shortest": True,
            }
        ]


class TestTools:
    """`--tools`."""

    @pytest.mark.parametrize(
        "text",
        [
            '["test", "deploy"]',
            '[{"name": "test"}, {"type": "function", "function": {"name": "deploy"}}]',
            '{"tools": [{"name": "test"}, {"name": "deploy"}]}',
        ],
    )
    def test_tools_file_has_names_or_descriptions(self, tmp_path: Path, text: str) -> None:
        """A tools file has names, or descriptions as a model or an MCP server gets them."""
        path, tools = tmp_path / "a.rules", tmp_path / "tools.json"
        path.write_text("require tset before deploy")
        tools.write_text(text)
        code, out, _ = check(path, tools=str(tools))
        assert code == 1
        assert "warning: " in out
        assert "did you mean 'test'?" in out

    def test_tools_option_takes_a_list(self, tmp_path: Path) -> None:
        """`--tools a,b` takes a list of names."""
        path = tmp_path / "a.rules"
        path.write_text("require test before deploy")
        code, out, _ = check(path, tools="test, deploy")
        assert code == 0
        assert "warning" not in out

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("{", "cannot read the tools in"),
            ("[" * 100_000, "cannot read the tools in"),
            ('"a"', "is not a list of tools"),
            ("[1]", "lists 1, expected a tool's name"),
            ("[{}]", "lists {}, expected a tool's name"),
        ],
    )
    def test_faulty(self, tmp_path: Path, text: str, said: str) -> None:
        """A file that is not a list of tools is refused with a reason."""
        path, tools = tmp_path / "a.rules", tmp_path / "tools.json"
        path.write_text("block a")
        tools.write_text(text)
        code, out, err = check(path, tools=str(tools))
        assert (code, out) == (2, "")
        assert said in err

    def test_missing(self, tmp_path: Path) -> None:
        """A missing tools file is reported."""
        path = tmp_path / "a.rules"
        path.write_text("block a")
        code, _, err = check(path, tools=str(tmp_path / "none.json"))
        assert code == 2
        assert "No such file" in err


FAULTY = "require human-approval before ship\nblock ship\nrequire ship before log\n"


class TestForPrograms:
    """Formats for other programs, including errors of the language."""

    def test_json_of_faulty_rules_has_every_error(self, tmp_path: Path) -> None:
        """G-40: the JSON object has the same keys as for valid rules, and every error."""
        path = tmp_path / "a.rules"
        path.write_text("block a\nallow b")
        code, out, err = check(path, json=True)
        found = json_text.loads(out)
        assert (code, err) == (2, "")
        assert found.keys() == json_text.loads(check(library_rules("deploy"), json=True)[1]).keys()
        assert (found["files"], found["nets"], found["tools"]) == ([str(path)], [], [])
        [error] = found["errors"]
        assert (error["file"], error["line"], error["column"]) == (str(path), 2, 1)
        assert error["message"].startswith("unknown keyword 'allow'")
        assert check(path, form="json")[1] == out

    def test_json_has_reasons(self, tmp_path: Path) -> None:
        """A net has the `because` of its rule."""
        path = tmp_path / "a.rules"
        path.write_text('block a because "b"\nblock c')
        nets = json_text.loads(check(path, json=True)[1])["nets"]
        assert [net["because"] for net in nets] == ["b", None]

    def test_sarif(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """SARIF 2.1.0: each finding has kind, level, message and region."""
        monkeypatch.chdir(tmp_path)
        path = tmp_path / "a file.rules"
        path.write_text("block a\nallow b")
        for file in (path, path.name):
            code, out, err = check(file, "missing.rules", form="sarif")
            assert (code, err) == (2, "")
            log = json_text.loads(out)
            assert log["version"] == "2.1.0"
            [ran] = log["runs"]
            assert ran["tool"]["driver"]["name"] == "interlock"
            known = {rule["id"] for rule in ran["tool"]["driver"]["rules"]}
            one, missing = ran["results"]
            assert (one["ruleId"], one["level"]) == ("syntax", "error")
            assert one["ruleId"] in known
            assert one["message"]["text"].startswith("unknown keyword 'allow'")
            place = one["locations"][0]["physicalLocation"]
            assert place["artifactLocation"]["uri"] == "a%20file.rules"
            assert place["region"] == {"startLine": 2, "startColumn": 1, "endColumn": 6}
            assert "region" not in missing["locations"][0]["physicalLocation"]

    def test_sarif_of_findings(self, tmp_path: Path) -> None:
        """Contradictions and warnings have their own kinds; valid rules have no result."""
        path = tmp_path / "a.rules"
        path.write_text(FAULTY)
        code, out, _ = check(path, form="sarif")
        results = json_text.loads(out)["runs"][0]["results"]
        assert code == 1
        assert {(each["ruleId"], each["level"]) for each in results} >= {("contradiction", "error")}
        path.write_text("block a\nblock a")
        results = json_text.loads(check(path, form="sarif")[1])["runs"][0]["results"]
        assert [(each["ruleId"], each["level"]) for each in results] == [("warning", "warning")]
        path.write_text("block a")
        assert json_text.loads(check(path, form="sarif")[1])["runs"][0]["results"] == []

    def test_github(self, tmp_path: Path) -> None:
        """Each finding is one escaped workflow command; text of a rules file cannot add one."""
        path = tmp_path / "a,b.rules"
        path.write_text("block a\nallow 100%\nblock \x1b[2J::warning::x y")
        code, out, err = check(path, form="github")
        assert (code, err) == (2, "")
        first, second = out.splitlines()
        where = str(path).replace(",", "%2C")
        title = "interlock check%3A syntax"
        assert first.startswith(f"::error file={where},title={title},line=2,col=1,endColumn=5::unknown")
        assert "%0Awhat no rule restricts" in first
        assert second.startswith("::error ")
        assert "\x1b" not in out

    def test_json_and_another_format(self, tmp_path: Path) -> None:
        """`--json` with another format is refused."""
        path = tmp_path / "a.rules"
        path.write_text("block a")
        code, out, err = check(path, json=True, form="sarif")
        assert (code, out) == (2, "")
        assert "--json and --format sarif exclude each other" in err


class TestQuiet:
    """`--quiet` prints only what fails the check."""

    def test_valid_rules_print_nothing(self, tmp_path: Path) -> None:
        """Valid rules print nothing; warnings are printed only if they fail the check."""
        path = tmp_path / "a.rules"
        path.write_text("block a\nblock a")
        assert check(path, quiet=True) == (0, "", "")
        code, out, err = check(path, quiet=True, strict=True)
        assert (code, out) == (1, "")
        assert err.startswith(f"{path}:2:")

    def test_errors_are_printed_on_stderr(self, tmp_path: Path) -> None:
        """Errors of the language and contradictions are printed on stderr."""
        path = tmp_path / "a.rules"
        path.write_text("allow b")
        code, out, err = check(path, quiet=True)
        assert (code, out) == (2, "")
        assert f"{path}:1:1: unknown keyword 'allow'" in err
        path.write_text(FAULTY)
        code, out, err = check(path, quiet=True)
        assert (code, out) == (1, "")
        assert f"{path}:" in err


class TestEach:
    """`--each`: files that do not form a set."""

    def test_every_file_is_checked_alone(self, tmp_path: Path) -> None:
        """With `--each` every file is checked alone, and a faulty file does not stop the others."""
        one, two, bad = (tmp_path / name for name in ("a.rules", "b.rules", "c.rules"))
        one.write_text("require a before b")
        two.write_text("block a")
        bad.write_text("allow x")
        assert check(one, two)[0] == 1
        code, out, err = check(one, two, each=True)
        assert (code, err) == (0, "")
        assert f"{one}: 1 net" in out
        assert f"{two}: 1 net" in out
        code, out, err = check(one, bad, two, each=True, json=True)
        found = json_text.loads(out)
        assert (code, err) == (2, "")
        assert [net["key"] for net in found["nets"]] == ["require-a-before-b", "block-a"]
        assert [error["file"] for error in found["errors"]] == [str(bad)]


class TestPreCommit:
    """Hooks for pre-commit."""

    def test_entries_are_commands(self, tmp_path: Path) -> None:
        """Each hook's entry is a valid command line for the files of the hook."""
        text = (ROOT / ".pre-commit-hooks.yaml").read_text("utf-8")
        entries = re.findall(r"^  entry: interlock (.*)$", text, re.MULTILINE)
        assert len(entries) == len(re.findall(r"^- id: ", text, re.MULTILINE)) == 2
        path = tmp_path / "a.rules"
        path.write_text("block a")
        for entry in entries:
            files = [str(path)] if entry.startswith("check") else []
            args = parser().parse_args([*entry.split(), *files])
            assert args.command in ("check", "test")
        done = command(tmp_path, *entries[0].split(), str(path), env={"HOME": str(tmp_path)})
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


class TestAgainst:
    """`--against OLD`: the changes for calls, with an exit code for CI."""

    OLD = "require test before deploy\nrequire human-approval before push\n"

    @pytest.fixture
    def old_rules(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "old.rules").write_text(self.OLD)
        return "old.rules"

    def test_equivalent_rules_pass(self, old_rules: str) -> None:
        Path("new.rules").write_text(f"# moved\n{self.OLD}")
        code, out, err = check("new.rules", against=[old_rules])
        assert (code, err) == (0, "")
        assert out == (
            "Against old.rules\n"
            "  The same: every sequence of calls is allowed, asked about and blocked as before.\n"
        )

    def test_newly_possible_calls_fail(self, old_rules: str) -> None:
        Path("new.rules").write_text("require human-approval before push by 2\nblock rm\n")
        code, out, _ = check("new.rules", against=[old_rules])
        assert (code, out) == (
            3,
            "Against old.rules\n"
            "  newly possible\n"
            "    deploy\n"
            "      blocked before, allowed now (old.rules:1: require test before deploy)\n"
            "  newly blocked\n"
            "    rm\n"
            "      allowed before, blocked now (new.rules:2: block rm)\n"
            "  needs more people\n"
            "    push (approval)\n"
            "      asked before, 2 people asked now (new.rules:1: require human-approval\n"
            "      before push by 2)\n",
        )

    def test_stricter_rules_pass(self, old_rules: str) -> None:
        Path("new.rules").write_text(f"{self.OLD}block rm\n")
        assert check("new.rules", against=[old_rules])[0] == 0

    def test_unknown_difference_fails(self, old_rules: str) -> None:
        Path(old_rules).write_text("limit push to 3 per 1h\n")
        Path("new.rules").write_text("limit push to 3 per 2h\n")
        code, out, _ = check("new.rules", against=[old_rules])
        assert code == 3
        assert "not known: times differ" in out

    def test_errors_of_either_file_come_first(self, old_rules: str) -> None:
        Path("new.rules").write_text("require test befor deploy\n")
        assert check("new.rules", against=[old_rules])[0] == 2
        code, out, err = check(old_rules, against=["new.rules"])
        assert (code, out) == (2, "")
        assert "new.rules:1:14" in err
        Path("new.rules").write_text("block a\nrequire a before b\n")
        assert check("new.rules", against=[old_rules])[0] == 1

    def test_formats(self, old_rules: str) -> None:
        Path("new.rules").write_text("require test before deploy\n")
        found = json_text.loads(check("new.rules", against=[old_rules], form="json")[1])["against"]
        [difference] = found["differences"]
        assert (found["same"], found["looser"], found["unknown"]) == (False, True, [])
        assert (difference["kind"], difference["before"], difference["now"]) == ("fewer", 1, 0)
        assert difference["rule"] == "old.rules:2"
        code, out, _ = check("new.rules", against=[old_rules], form="github")
        assert code == 3
        assert out == (
            "::warning file=new.rules,title=interlock check%3A warning::needs fewer people: push%0A"
            "asked before, allowed now (old.rules:2: require human-approval before push)\n"
        )

    def test_each_is_refused(self, old_rules: str) -> None:
        code, _, err = check(old_rules, against=[old_rules], each=True)
        assert code == 2
        assert "--each" in err
