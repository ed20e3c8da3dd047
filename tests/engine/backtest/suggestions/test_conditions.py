"""Conditions that separate approved calls from denied ones."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from interlock.engine.history.redaction.redaction import Redaction
from tests.support.clock import Clock

from .learning import Did, deploys, divergences, learned, record, suggested

ASKS = "require human-approval before deploy"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


class TestConditions:
    def test_one_approved_value_becomes_a_comparison(self, path: Path) -> None:
        """A value of approved calls that no denied call has becomes one comparison."""
        calls = [*deploys(12, env="staging"), *deploys(3, approved=False, env="prod")]
        [found] = learned(path, f"# releases\n{ASKS}", [calls])
        assert found.rule == f'{ASKS} when input.env != "staging"'
        assert (found.kind, found.replaces, found.before) == ("condition", "deploy.rules:2", ASKS)
        assert found.loosens
        assert (found.support.calls, found.support.denied, found.support.sessions) == (12, 3, 1)
        assert found.support.people == ("maria",)
        effect = found.effect
        assert (effect.calls, effect.saved, effect.allowed) == (15, 12, 12)
        assert (effect.asked, effect.blocked) == (0, 0)
        assert [call.event for call in effect.listed_allowed][:2] == [4, 8]
        assert found.warnings == ()

    @pytest.mark.slow
    def test_several_values_become_a_list(self, path: Path) -> None:
        """Values that occurred more than once become a list."""
        calls = [*deploys(6, env="staging"), *deploys(6, env="dev"), *deploys(1, env="lab")]
        [found] = learned(path, ASKS, [[*calls, *deploys(2, approved=False, env="prod")]])
        assert found.rule == f'{ASKS} when input.env not in ["dev", "staging"]'

    @pytest.mark.slow
    def test_approved_numbers_become_a_range(self, path: Path) -> None:
        """Approved numbers without a denial between them become a range."""
        amounts = [1.5 + number for number in range(12)]
        calls = [Did("deploy", {"amount": amount}) for amount in amounts]
        refused = [Did("deploy", {"amount": amount}, approved=False) for amount in (0, 13, 400)]
        [found] = learned(path, ASKS, [[*calls, *refused]])
        assert found.rule == f"{ASKS} when input.amount < 1.5 or input.amount > 12.5"

    @pytest.mark.slow
    def test_no_range_across_a_denial(self, path: Path) -> None:
        """A denied number among approved ones ends the range."""
        calls = [Did("deploy", {"amount": n}) for n in range(30)]
        [found] = learned(path, ASKS, [[*calls, Did("deploy", {"amount": 9}, approved=False)]])
        assert found.rule == f"{ASKS} when input.amount < 10 or input.amount > 29"
        assert found.effect.saved == 20

    @pytest.mark.slow
    def test_approved_paths_become_a_common_folder(self, path: Path) -> None:
        """Approved paths become a comparison with their common folder."""
        names = [f"/srv/web/page{n}.html" for n in range(12)]
        calls = [Did("deploy", {"file": name}) for name in names]
        refused = [Did("deploy", {"file": "/srv/keys/a"}, approved=False)]
        [found] = learned(path, ASKS, [[*calls, *refused]])
        assert found.rule == f'{ASKS} when input.file not under "/srv/web"'

    def test_no_folder_of_commands(self, path: Path) -> None:
        """Commands get no folder, because it would also allow anything after the path."""
        calls = [Did("deploy", {"command": f"/srv/web/run{n}"}) for n in range(12)]
        assert learned(path, ASKS, [calls]) == []

    @pytest.mark.slow
    def test_two_fields_are_combined(self, path: Path) -> None:
        """If no single field separates the calls, two fields are combined."""
        calls = [
            *deploys(12, env="staging", force=False),
            *deploys(2, approved=False, env="staging", force=True),
            *deploys(2, approved=False, env="prod", force=False),
        ]
        [found] = learned(path, ASKS, [calls])
        assert found.rule == f'{ASKS} when input.force != false or input.env != "staging"'
        assert found.effect.saved == 12

    @pytest.mark.slow
    def test_field_of_denied_calls_is_preferred(self, path: Path) -> None:
        """Of two equally good fields the one of denied calls is used, as an agent could add the other."""
        calls = [*deploys(12, env="staging", q=1), *deploys(3, approved=False, env="prod")]
        [found] = learned(path, ASKS, [calls])
        assert found.rule == f'{ASKS} when input.env != "staging"'

    @pytest.mark.slow
    def test_warning_names_unrestricted_fields(self, path: Path) -> None:
        """The suggestion warns about the fields that its condition leaves unrestricted."""
        values = {f"f{number}": number for number in range(9)}
        [found] = learned(path, ASKS, [deploys(12, a={"b": 1, "c": 2}, **{"x\n": [0]}, **values)])
        assert found.rule == f"{ASKS} when input.f0 != 0"
        assert found.warnings == (
            'deploy.rules:1: such calls pass whatever they have in input.a, input."x\\n", input.f1, '
            "input.f2, input.f3, input.f4, input.f5, input.f6 and 2 more",
        )

    def test_warning_names_other_fields_of_objects(self, path: Path) -> None:
        """The warning names the other fields of an object that the condition looks into."""
        [found] = learned(path, ASKS, [deploys(12, a={"b": 1, "c": [2]})])
        assert found.rule == f"{ASKS} when input.a.b != 1"
        assert found.warnings == ("deploy.rules:1: such calls pass whatever they have in input.a.c",)

    def test_rule_keeps_its_condition(self, path: Path) -> None:
        """A rule keeps its condition, reason and comment."""
        rules = f'{ASKS} when input.n > 1 or input.m = 2 because "it is live"  # ops'
        calls = [*deploys(12, n=2, env="dev"), *deploys(1, approved=False, n=2, env="prod")]
        [found] = learned(path, rules, [calls])
        condition = '(input.n > 1 or input.m = 2) and input.env != "dev"'
        assert found.rule == f'{ASKS} when {condition} because "it is live" # ops'

    def test_values_always_approved_are_a_separate_suggestion(self, path: Path) -> None:
        """A separate suggestion has only the values that were approved at least ten times."""
        calls = [*deploys(12, env="dev"), *deploys(2, env="lab")]
        found = learned(path, ASKS, [calls])
        assert [(each.kind, each.rule) for each in found] == [
            ("condition", f'{ASKS} when input.env not in ["dev", "lab"]'),
            ("value", f'{ASKS} when input.env != "dev"'),
        ]


class TestNone:
    @pytest.mark.parametrize("term", ["risk high", "by 2", "no grants"])
    def test_strict_rules(self, path: Path, term: str) -> None:
        """A rule with high risk, several approvers or without grants is not loosened."""
        record(path, ASKS, [deploys(15, env="dev")])
        assert suggested(path, f"{ASKS} {term}").suggestions == ()
        assert len(suggested(path, ASKS).suggestions) == 1

    def test_implied_rules(self, path: Path) -> None:
        """A rule that a map implies gets no suggestion, because it has no line to change."""
        rules = "map bash.command ./deploy as deploy\nblock deploy"
        calls = [Did("bash", {"command": 'eval "$X"', "n": n // 9}) for n in range(18)]
        record(path, rules, [calls])
        found = suggested(path, rules)
        assert found.calls == 18
        assert found.suggestions == ()

    def test_few_calls(self, path: Path) -> None:
        """Nine approved calls give no suggestion, but ten do."""
        assert learned(path, ASKS, [deploys(9, env="dev")]) == []
        assert len(learned(path.with_name("ten.db"), ASKS, [deploys(10, env="dev")])) == 1

    def test_equal_calls_with_both_answers(self, path: Path) -> None:
        """Equal calls with both approvals and denials give no suggestion."""
        calls = [*deploys(20, env="dev"), *deploys(1, approved=False, env="dev")]
        assert learned(path, ASKS, [calls]) == []

    def test_edited_inputs(self, path: Path) -> None:
        """A call that was approved with an edited input does not count as approved."""
        edited = [Did("deploy", {"env": "prod"}, edited={"env": "dev"})] * 12
        assert learned(path, ASKS, [[*edited, *deploys(12, env="prod")]]) == []

    @pytest.mark.parametrize("tool", ["Deploy", " deploy", "\uff44eploy", "deploy\u200b"])
    def test_edited_inputs_of_another_spelling(self, path: Path, tool: str) -> None:
        """G-66: calls with another spelling of the tool count for the rule as well."""
        edited = Did(tool, {"env": "prod"}, edited={"env": "dev"})
        assert learned(path, ASKS, [[edited, *deploys(12, env="prod")]]) == []

    def test_masked_values(self, path: Path) -> None:
        """A masked value is never written into a rule or a scenario."""
        record(path, ASKS, [deploys(12, password="hunter2hunter2", env="dev")])
        [found] = suggested(path, ASKS).suggestions
        assert found.rule == f'{ASKS} when input.env != "dev"'
        assert "hunter2" not in found.model_dump_json()
        assert found.scenarios == ""
        assert suggested(path, ASKS, redaction=Redaction(["env"])).suggestions == ()

    @pytest.mark.parametrize("value", ["a\nb", "a\u202eb", "\x1b[2J", "x" * 81, None, ["a"]])
    def test_values_that_are_not_written(self, path: Path, value: object) -> None:
        """Texts with hidden characters, long texts and lists give no condition."""
        assert learned(path, ASKS, [deploys(12, v=value)]) == []

    def test_condition_that_saves_no_request(self, path: Path) -> None:
        """A condition that would save no request is not suggested."""
        rules = f"{ASKS}\nrequire human-approval before deploy risk high"
        assert learned(path, rules, [deploys(12, env="dev")]) == []

    @pytest.mark.variants
    @pytest.mark.parametrize(
        ("limit", "allowed"),
        [
            ("limit deploy to 12 per 1d across everyone", 12),
            ("limit deploy to 19 per 1d across agent", 19),
            ("limit deploy to 20 per 1d across everyone", 20),
            ("limit deploy to 12 per 1d", 20),
            ("limit rm to 12 per 1d across everyone", 20),
        ],
    )
    def test_warning_counts_calls_that_the_limit_stops(
        self, path: Path, limit: str, allowed: int
    ) -> None:
        """Calls that the limit would stop are counted, and a warning has their number."""
        clock = Clock()
        for bot in ("one", "two"):
            record(path, ASKS, [deploys(10, env="dev")], clock=clock, bot=bot)
            clock.now += timedelta(minutes=1)
        [found] = [
            each for each in suggested(path, f"{ASKS}\n{limit}").suggestions if each.replaces is not None
        ]
        assert found.effect.allowed == allowed
        named = [each for each in found.warnings if each.startswith("deploy.rules:2: this limit counts")]
        assert bool(named) is (allowed < 20)
        assert all(f"would stop {20 - allowed} recorded call" in each for each in named)


class TestTimes:
    def test_old_denials_still_count(self, path: Path) -> None:
        """Earlier calls do not support a suggestion, but their denials still count."""
        clock = Clock()
        record(path, ASKS, [deploys(1, approved=False, env="dev")], clock=clock)
        clock.now += timedelta(days=40)
        record(path, ASKS, [deploys(12, env="dev"), deploys(12, env="lab")], clock=clock, bot="new")
        since = clock.now - timedelta(days=1)
        [found] = suggested(path, ASKS, since=since).suggestions
        assert found.rule == f'{ASKS} when input.env != "lab"'
        assert (found.effect.calls, found.effect.saved) == (24, 12)
        later = suggested(path, ASKS, since=clock.now + timedelta(days=1))
        assert (later.calls, later.suggestions) == (0, ())


class TestScenarios:
    def test_scenarios_are_an_allowed_and_a_denied_call(self, path: Path) -> None:
        """The scenarios are an allowed call and a denied one, with the decisions of the new rules."""
        calls = [*deploys(12, env="dev"), *deploys(3, approved=False, env="prod")]
        [found] = learned(path, ASKS, [calls])
        assert found.scenarios == (
            'scenario "deploy passes (1)"\n  call deploy env "dev"\n  expect allow\n'
            'scenario "deploy needs approval (2)"\n  call deploy env "prod"\n  expect ask'
        )
        assert divergences(ASKS, found) == [None, None]
