"""`interlock history approvals`: statistics and suggestions, in a terminal and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from interlock.app.cli.main import main
from tests.support.approvals import tired


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tired(tmp_path_factory.mktemp("tired") / "deploy.db")


class Shell:
    def __init__(self, journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.journal, self.capsys = journal, capsys

    def run(self, *line: str, code: int = 0) -> tuple[str, str]:
        assert main(["history", "--db", str(self.journal), "approvals", *line]) == code
        return self.capsys.readouterr()


@pytest.fixture
def shell(
    journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shell:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INTERLOCK_CONFIG_DIR", str(tmp_path))
    return Shell(journal, capsys)


class TestPrinted:
    def test_every_rule_and_operator_has_a_line(self, shell: Shell) -> None:
        """Every rule and operator has a line, no wider than 80 columns."""
        out, _ = shell.run()
        lines = out.splitlines()
        assert lines[0].startswith("Approvals: 60 requests · ")
        assert max(map(len, lines)) <= 80
        deploy = next(line for line in lines if line.startswith("approve-before-deploy "))
        assert "    deploy.rules:1  require human-approval before deploy" in lines
        assert deploy.split()[1:3] == ["30", "always"]
        assert any(line.split()[:1] == ["maria"] for line in lines)

    def test_suggestion_only_for_always_approved_rule(self, shell: Shell) -> None:
        """Only the rule that is always approved and not of high risk has a suggestion, with a warning."""
        out, _ = shell.run()
        said = " ".join(out.split())
        assert "In this history all 30 answers were unchanged approvals" in said
        assert 'With `when input.env != "staging"` it would not have asked' in said
        assert "That nobody denied these calls does not make them harmless" in said
        assert said.count("In this history") == 1

    def test_since_limits_the_period(self, shell: Shell) -> None:
        """With `--since` in the future there are no requests."""
        out, _ = shell.run("--since", "2030-01-01")
        assert "since 2030-01-01" in out
        assert "0 requests" in out

    def test_invalid_time_and_missing_journal_are_reported(self, shell: Shell, tmp_path: Path) -> None:
        """An invalid time and a missing journal are each reported in one line."""
        _, err = shell.run("--since", "soon", code=2)
        assert "interlock history approvals: 'soon' is not a time" in err
        shell.journal = tmp_path / "missing.db"
        _, err = shell.run(code=2)
        assert "There is no journal" in err


@pytest.mark.slow
def test_json(shell: Shell) -> None:
    """The JSON output has all statistics and the approvals that a suggestion would save."""
    out, _ = shell.run("--json")
    told = json.loads(out)
    deploy = next(rule for rule in told["rules"] if rule["net"] == "approve-before-deploy")
    push = next(rule for rule in told["rules"] if rule["net"] == "approve-before-push")
    assert (deploy["always_approved"], push["always_approved"], push["risk_high"]) == (True, False, True)
    assert deploy["approve_rate"] == 1.0
    [less] = told["suggestions"]
    assert less["net"] == "approve-before-deploy"
    assert less["condition"] == 'input.env != "staging"'
    assert 0 < less["saved_by_condition"] <= less["asked"] == 30
    assert {o["name"] for o in told["operators"]} == {"maria", "jo"}
