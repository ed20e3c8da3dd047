"""`interlock suggest`: rules suggested from the journal, printed or as JSON."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from interlock.app.cli.main import main
from interlock.engine.history.database import location
from interlock.rules import compile_rules
from tests.engine.backtest.suggestions.learning import Did, deploys, record
from tests.engine.history.support.keeping import contents
from tests.support.clock import NOON, Clock

RULES = "require human-approval before deploy  # ask\n"


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A journal with approved deploys to staging and denied ones to prod, and a rules file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INTERLOCK_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("TZ", "UTC")
    Path("deploy.rules").write_text(RULES)
    path = tmp_path / "journal.db"
    calls = [*deploys(22, env="staging"), *deploys(2, approved=False, env="prod")]
    record(path, RULES, [calls], clock=Clock())
    return path


def suggest(capsys: pytest.CaptureFixture[str], *line: str, code: int = 0) -> tuple[str, str]:
    """Return the command's output for `deploy.rules` and the journal."""
    assert main(["suggest", "deploy.rules", "--db", "journal.db", *line]) == code
    return capsys.readouterr()


class TestPrinted:
    @pytest.mark.usefixtures("journal")
    def test_suggestion_has_lines_evidence_and_effect(self, capsys: pytest.CaptureFixture[str]) -> None:
        """A suggestion shows old and new line, the evidence, the effect, and scenarios."""
        out, err = suggest(capsys)
        assert err == ""
        head, _, rest = out.partition("    bot-0 event 4, ")
        assert head == (
            "24 calls in 1 session, 22 approved and 2 denied under these rules: 1 suggestion\n"
            "\n"
            "1. fewer approvals: a condition that every denied call meets\n"
            "  deploy.rules:1\n"
            "  - require human-approval before deploy  # ask\n"
            '  + require human-approval before deploy when input.env != "staging" # ask\n'
            "  why   22 calls in 1 session approved by maria, 2026-03-14 12:00 to 2026-03-14\n"
            "        12:00; 2 denied calls it still asks about\n"
            "  does  of 24 calls: 22 approval requests saved, 22 newly allowed, 0 newly\n"
            "        asked, 0 newly blocked\n"
            "  newly allowed\n"
        )
        assert rest.endswith(
            "    and 2 more\n"
            "  check no new findings\n"
            "  scenarios\n"
            '    scenario "deploy passes (1)"\n'
            '      call deploy env "staging"\n'
            "      expect allow\n"
            '    scenario "deploy needs approval (2)"\n'
            '      call deploy env "prod"\n'
            "      expect ask\n"
            "\n"
            "What held in this history says nothing about calls that are not in it. Read\n"
            "each rule, then write it into your file and run `interlock check` and\n"
            "`interlock test`.\n"
        )
        assert rest.count("bot-0 event ") == 19

    def test_rules_and_journal_stay_unchanged(
        self, journal: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The command changes neither the rules nor the journal."""
        before = contents(journal)
        suggest(capsys)
        assert Path("deploy.rules").read_text() == RULES
        assert contents(journal) == before

    @pytest.mark.slow
    @pytest.mark.usefixtures("journal")
    def test_no_calls_or_no_suggestion_is_reported(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Without recorded calls, or without a suggestion, the output says what is missing."""
        later = (NOON + timedelta(days=1)).date().isoformat()
        out, _ = suggest(capsys, "--since", later)
        assert out.startswith("No recorded call to learn from: let an agent work")
        Path("deploy.rules").write_text("require human-approval before deploy by 2\n")
        out, _ = suggest(capsys)
        assert "0 suggestions" in out
        assert "Nothing to suggest. A condition needs 10 approved calls" in out

    @pytest.mark.slow
    def test_constant_order_is_suggested_as_new_rule(
        self, journal: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """An order that always held is suggested as a new rule."""
        calls = [Did("look"), *[Did("test"), Did("ship")] * 4]
        record(journal, RULES, [calls] * 5, bot="ship")
        out, _ = suggest(capsys)
        assert "2. new rule: an order that always held\n  + require test before ship\n" in out


class TestJson:
    @pytest.mark.usefixtures("journal")
    def test_object(self, capsys: pytest.CaptureFixture[str]) -> None:
        """The JSON output is one object with calls, suggestions and effects."""
        out, _ = suggest(capsys, "--json")
        found = json.loads(out)
        assert (found["files"], found["calls"], found["approved"]) == (["deploy.rules"], 24, 22)
        [suggestion] = found["suggestions"]
        assert len(compile_rules(suggestion["rule"])) == 1
        assert suggestion["replaces"] == "deploy.rules:1"
        assert suggestion["loosens"] is True
        assert suggestion["effect"]["saved"] == 22
        assert len(suggestion["effect"]["listed_allowed"]) == 20


class TestRefused:
    @pytest.mark.usefixtures("journal")
    def test_unusable_input_is_reported(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Faulty rules, a missing journal and an invalid time end with exit code 2 and a reason."""
        _, err = suggest(capsys, "--since", "soon", code=2)
        assert "soon" in err
        assert main(["suggest", "deploy.rules", "--db", "none.db"]) == 2
        assert str(location.location_of("none.db")) in capsys.readouterr().err
        Path("deploy.rules").write_text("require\n")
        _, err = suggest(capsys, code=2)
        assert "deploy.rules:1" in err
