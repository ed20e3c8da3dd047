"""Rules that were always approved: measures that would have saved requests, judged again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from interlock.engine.backtest.answers import Saved
from interlock.engine.backtest.savings import saved
from interlock.engine.history.decisions.approval_stats import ENOUGH, RuleFatigue, fatigue
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.redaction.redaction import Redaction
from interlock.rules import compile_rules, condition_of

from .recorder import Recorder

ASKS = "require human-approval before deploy"


async def record_session(
    journal: Journal, name: str, rules: str, inputs: list[Mapping[str, object]]
) -> None:
    """Record a session in which every deploy is requested, approved and run."""
    recorder = Recorder(compile_rules(rules).registry)
    for number, values in enumerate(inputs, 1):
        await recorder.call(f"c{number}", "deploy", **values)
        while recorder.waiting:
            await recorder.answer(f"c{number}", True)
        if f"c{number}" in recorder.running:
            recorder.result(f"c{number}")
    journal.write(name, *recorder.bodies)


async def saved_requests(
    tmp_path: Path,
    rules: str,
    sessions: list[list[Mapping[str, object]]],
    redaction: Redaction | None = None,
) -> tuple[RuleFatigue, Saved | None]:
    """Return the rule of the deploys, and the measures that would have saved its requests."""
    with Journal.open(tmp_path / "deploy.db") as journal:
        for number, inputs in enumerate(sessions):
            await record_session(journal, f"bot-{number}", rules, inputs)
        path = journal.path
    rule = next(r for r in fatigue(path).rules if r.net.startswith("approve-before-deploy"))
    return rule, saved(path, rule, conditions=condition_of, redaction=redaction or Redaction())


def equal_inputs(number: int, **values: object) -> list[Mapping[str, object]]:
    return [values] * number


class TestGrants:
    async def test_uses_save_nearly_as_much_as_a_session_grant(self, tmp_path: Path) -> None:
        """The suggested uses save nearly as much as a grant for the whole session."""
        rule, what = await saved_requests(
            tmp_path, ASKS, [equal_inputs(8, n=1), equal_inputs(8, n=2), equal_inputs(8, n=3)]
        )
        assert rule.always
        assert what is not None
        assert (what.asked, what.alone, what.sessions) == (24, 24, 3)
        # With 3 uses each session asks at the 1st and the 5th: 2 of 8; with 5, 2 of 8; with 10, once.
        assert (what.uses, what.by_grant) == (3, 18)

    async def test_no_grant_if_no_session_asks_twice(self, tmp_path: Path) -> None:
        """If no session asks twice, no grant is suggested."""
        _, what = await saved_requests(tmp_path, ASKS, [equal_inputs(1, n=n) for n in range(ENOUGH)])
        assert what is None

    async def test_rule_with_no_grants(self, tmp_path: Path) -> None:
        """A rule with `no grants` gets at most a condition."""
        _, what = await saved_requests(
            tmp_path, f"{ASKS} no grants", [equal_inputs(ENOUGH, env="staging")]
        )
        assert what is not None
        assert (what.uses, what.by_grant) == (None, 0)
        assert what.when == 'input.env != "staging"'


class TestConditions:
    async def test_most_common_value(self, tmp_path: Path) -> None:
        """The condition uses the most common value, and its effect is judged, not estimated."""
        inputs = [*equal_inputs(18, env="staging"), *equal_inputs(4, env="prod")]
        _, what = await saved_requests(tmp_path, ASKS, [[{**v, "n": i} for i, v in enumerate(inputs)]])
        assert what is not None
        assert (what.when, what.by_condition, what.asked) == ('input.env != "staging"', 18, 22)

    async def test_nested_and_plain_values(self, tmp_path: Path) -> None:
        """Nested fields, numbers and booleans are written as rules write them."""
        _, what = await saved_requests(tmp_path, ASKS, [equal_inputs(ENOUGH, to={"dry": True})])
        assert what is not None
        assert what.when == "input.to.dry != true"

    async def test_rule_keeps_its_condition(self, tmp_path: Path) -> None:
        """A rule keeps its condition; the new one is an addition to it."""
        rules = f'{ASKS} when input.env != "dev"'
        inputs = [*equal_inputs(ENOUGH, env="staging"), *equal_inputs(5, env="dev")]
        rule, what = await saved_requests(tmp_path, rules, [inputs])
        assert rule.tally.requests == ENOUGH
        assert what is not None
        assert (what.when, what.by_condition) == ('input.env != "staging"', ENOUGH)

    async def test_rarely_shared_values_give_no_condition(self, tmp_path: Path) -> None:
        """Values that only few requests share give no condition."""
        _, what = await saved_requests(tmp_path, ASKS, [[{"n": n} for n in range(ENOUGH + 4)]])
        assert what is not None
        assert (what.when, what.by_condition) == (None, 0)

    async def test_masked_value_is_not_used(self, tmp_path: Path) -> None:
        """A masked value is not used for a condition."""
        _, what = await saved_requests(
            tmp_path, ASKS, [equal_inputs(ENOUGH, password="hunter2hunter2", env="staging")]
        )
        assert what is not None
        assert what.when == 'input.env != "staging"'
        hidden = Redaction(["env"])
        (tmp_path / "more").mkdir()
        _, what = await saved_requests(
            tmp_path / "more", ASKS, [equal_inputs(ENOUGH, env="staging")], hidden
        )
        assert what is not None
        assert what.when is None

    @pytest.mark.parametrize("value", ["a\nb", "", "x" * 81, None, 1.5, ["a"]])
    async def test_unwritable_values_give_no_condition(self, tmp_path: Path, value: object) -> None:
        """Long texts, several lines, lists and the like give no condition."""
        _, what = await saved_requests(tmp_path, ASKS, [[{"v": value, "n": n} for n in range(ENOUGH)]])
        assert what is not None
        assert what.when is None

    async def test_suggested_condition_compiles(self, tmp_path: Path) -> None:
        """A suggested condition compiles, whatever the value is."""
        _, what = await saved_requests(
            tmp_path, ASKS, [equal_inputs(ENOUGH, env='a "quoted" # \\ value')]
        )
        assert what is not None
        assert what.when is not None
        assert condition_of(what.when) is not None


class TestHonest:
    async def test_another_rule_asks_as_well(self, tmp_path: Path) -> None:
        """A request counts as saved only if no other rule would ask about the call."""
        rules = f"map deploy.env prod as prod\n{ASKS}\nrequire human-approval before prod"
        inputs = [*equal_inputs(ENOUGH, env="staging"), *equal_inputs(ENOUGH, env="prod")]
        rule, what = await saved_requests(tmp_path, rules, [inputs])
        assert rule.tally.requests == 2 * ENOUGH
        assert what is not None
        assert what.alone == ENOUGH
        assert what.asked == 2 * ENOUGH
        assert what.by_grant < ENOUGH

    async def test_high_risk(self, tmp_path: Path) -> None:
        """A high-risk rule gets no suggestion."""
        rule, what = await saved_requests(
            tmp_path, f"{ASKS} risk high", [equal_inputs(40, env="staging")]
        )
        assert not rule.always
        assert what is None

    async def test_cancellation_stops_judging(self, tmp_path: Path) -> None:
        """Judging stops when it is cancelled."""
        rule, _ = await saved_requests(tmp_path, ASKS, [equal_inputs(ENOUGH, env="staging")])
        path = tmp_path / "deploy.db"
        stopped = saved(
            path, rule, conditions=condition_of, redaction=Redaction(), cancelled=lambda: True
        )
        assert stopped is None
