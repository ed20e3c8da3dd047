"""Forecasts of plans, for their approvers."""

from __future__ import annotations

import pytest

from interlock.engine import ToolCall
from interlock.engine.core.condition import Surroundings
from interlock.engine.core.plan import calls_text
from interlock.engine.gate import GateManager
from interlock.engine.gate.grants.forecast import ANY_COMMAND, IF_ASKED, NO_EFFECT
from interlock.engine.gate.types import ReplayEntry
from interlock.engine.net.net import Transition, define_skill_net
from interlock.rules import compile_rules
from interlock.rules.compiler import condition_of

from ..support.planning import plan, planning
from ..support.ruled import Asker, approval, gate_of

ASKS = "require human-approval before plan\n"


def gate(rules: str, **options: object) -> GateManager:
    return GateManager(compile_rules(rules).nets, conditions=condition_of, **options)  # type: ignore[arg-type]


def forecast_lines(manager: GateManager, *steps: dict[str, object]) -> list[str]:
    """Return each finding on one line: `2 planned`, `1 blocked: …`."""
    return [
        f"{found.calls} {found.outcome}{f': {found.reason}' if found.reason else ''}"
        for each in manager.plan_forecast({"title": "Release", "steps": list(steps)})
        for found in each.findings
    ]


def covered_calls(manager: GateManager, *steps: dict[str, object]) -> str:
    found = manager.plan_forecast({"title": "Release", "steps": list(steps)})
    return calls_text({each.step.tool: each.most for each in found})


class TestOutcome:
    """The outcome of a step's calls."""

    def test_unrestricted_call_runs_anyway(self) -> None:
        """A call that no net restricts runs anyway."""
        assert forecast_lines(gate(ASKS), {"tool": "push"}) == ["1 runs"]

    def test_plan_covers_rule_of_one_approver(self) -> None:
        """The plan covers calls that one approver could allow, as many as the step has."""
        manager = gate(f"{ASKS}require human-approval before deploy")
        assert forecast_lines(manager, {"tool": "deploy", "count": 2}) == ["2 planned"]
        assert covered_calls(manager, {"tool": "deploy", "count": 2}) == "2 deploy"

    @pytest.mark.parametrize(
        ("options", "why"),
        [
            ("by 2", "deploy needs 2 people"),
            ("risk high", "deploy is of high risk"),
            ("with passkey", "deploy needs a passkey"),
            ("no grants", "deploy has a rule that says 'no grants'"),
            ("not by author", "deploy needs approval not by author"),
        ],
    )
    def test_rule_for_several_approvers_still_asks(self, options: str, why: str) -> None:
        """A rule that asks for more than one approver of the plan still asks, with the reason."""
        manager = gate(f"{ASKS}require human-approval before deploy {options}")
        assert forecast_lines(manager, {"tool": "deploy"}) == [f"1 asks: {why}"]
        assert covered_calls(manager, {"tool": "deploy"}) == "0 deploy"

    def test_rule_of_the_plans_group_is_covered(self) -> None:
        """A plan that the same group must approve covers the group's rule."""
        rules = "require human-approval before plan by 1 of ops\n"
        manager = gate(f"{rules}require human-approval before deploy by 1 of ops")
        assert forecast_lines(manager, {"tool": "deploy"}) == ["1 planned"]

    def test_group_rule_covered_if_plan_approver_is_member(self) -> None:
        """A group's rule is covered if the plan's approver is in the group, so the maximum counts it."""
        manager = gate(f"{ASKS}require human-approval before deploy by 1 of ops")
        step = {"tool": "deploy", "count": 2}
        assert forecast_lines(manager, step) == ["2 planned: if a member of ops approves it"]
        assert covered_calls(manager, step) == "2 deploy"

    def test_name_dependent_on_a_missing_field_still_asks(self) -> None:
        """A name that calls have only without a field still asks, but the maximum counts the calls."""

        def names(made: ToolCall) -> tuple[str, ...]:
            return ("deploy",) if "env" in made.input else ("anywhere", "deploy")

        manager = gate_of(approval("plan"), approval(), names=names)
        assert forecast_lines(manager, {"tool": "deploy"})[0].startswith(
            "1 asks: its calls also count as 'anywhere'"
        )
        assert covered_calls(manager, {"tool": "deploy"}) == "1 deploy"

    def test_rule_about_later_content_still_asks(self) -> None:
        """A rule about a call's later content still asks, because the plan's approver did not see it."""
        manager = gate(f"{ASKS}after fetch require human-approval before send")
        send = {"tool": "send", "count": 2}
        assert forecast_lines(manager, send) == ["2 runs"]
        assert covered_calls(manager, send) == "0 send"
        why = "send needs approval by somebody who sees what fetch returned"
        assert forecast_lines(manager, {"tool": "fetch"}, send) == ["1 runs", f"2 asks: {why}"]

    def test_net_that_asks_only_later_is_covered(self) -> None:
        """The forecast says that the plan also covers a net that asks only later."""
        transitions = [
            Transition("open", ("shut",), ("ready",), ("fetch",)),
            Transition("pass", ("shut",), ("shut",), ("send",)),
            Transition("ask", ("ready",), ("ready",), ("send",), type="manual"),
        ]
        net = define_skill_net(
            "later", places=("shut", "ready"), transitions=transitions, initial_marking={"shut": 1}
        )
        manager = GateManager([*compile_rules(ASKS).nets, net], conditions=condition_of)
        send = {"tool": "send", "count": 2}
        assert forecast_lines(manager, send) == [f"2 runs: {IF_ASKED}"]
        assert covered_calls(manager, send) == "2 send"

    def test_approval_that_frees_later_calls_is_not_covered(self) -> None:
        """An approval that also allows later calls cannot come from a plan."""
        manager = gate(f"{ASKS}block send after fetch until human-approval")
        fetch, send = {"tool": "fetch"}, {"tool": "send"}
        why = "send has a rule whose approval lets later calls pass, too"
        assert forecast_lines(manager, fetch, send) == ["1 runs", f"1 asks: {why}"]
        assert covered_calls(manager, send) == "0 send"

    def test_blocked(self) -> None:
        """A call that a rule blocks stays blocked."""
        (found,) = forecast_lines(gate(f"{ASKS}block deploy"), {"tool": "deploy", "count": 3})
        assert found.startswith("3 blocked: deploy")

    def test_limit(self) -> None:
        """Calls beyond a limit are blocked, after the calls that it allows."""
        rules = f"{ASKS}require human-approval before deploy\nlimit deploy to 2 per session"
        found = forecast_lines(gate(rules), {"tool": "deploy", "count": 3})
        assert found[0] == "2 planned"
        assert found[1].startswith("1 blocked: deploy")

    def test_order_of_steps(self) -> None:
        """A step may fulfil what the next one needs; in the other order that one is blocked."""
        manager = gate(f"{ASKS}require test before deploy")
        test, deploy = {"tool": "test"}, {"tool": "deploy"}
        assert forecast_lines(manager, test, deploy) == ["1 runs", "1 runs"]
        assert forecast_lines(manager, deploy, test)[0].startswith("1 blocked: ")

    def test_earlier_calls_count_and_forecast_changes_nothing(self) -> None:
        """Earlier calls of the session count, and a forecast changes nothing."""
        manager = gate(f"{ASKS}require test before deploy")
        manager.replay([ReplayEntry("test")])
        for _ in range(2):
            assert forecast_lines(manager, {"tool": "deploy"}) == ["1 runs"]

    def test_invalid_plan_has_no_forecast(self) -> None:
        """An invalid plan has no forecast."""
        assert gate(ASKS).plan_forecast({"title": "Release"}) == ()


class TestConditions:
    """Conditions of a step on its calls' input."""

    RULES = f'{ASKS}require human-approval before deploy\nblock deploy when input.env = "prod"'

    def test_surely_outside(self) -> None:
        """A step for other values is outside the rule."""
        step = {"tool": "deploy", "when": 'input.env = "staging"'}
        assert forecast_lines(gate(self.RULES), step) == ["1 planned"]

    def test_surely_inside(self) -> None:
        """A step for the rule's own value is certainly blocked."""
        (found,) = forecast_lines(gate(self.RULES), {"tool": "deploy", "when": 'input.env = "prod"'})
        assert found.startswith("1 blocked: ")

    def test_negated(self) -> None:
        """A step that excludes exactly the rule's value is outside the rule."""
        step = {"tool": "deploy", "when": 'not input.env = "prod"'}
        assert forecast_lines(gate(self.RULES), step) == ["1 planned"]

    def test_open_value_may_be_blocked(self) -> None:
        """A step that leaves the value open may be blocked."""
        (found,) = forecast_lines(gate(self.RULES), {"tool": "deploy"})
        assert found.startswith("1 open: ")

    def test_present_or_missing(self) -> None:
        """A field that a step does not mention may be present."""
        rules = f"{ASKS}block deploy when input.force is missing"
        step = {"tool": "deploy", "when": 'input.env = "staging"'}
        (found,) = forecast_lines(gate(rules), step)
        assert found.startswith("1 open: ")

    def test_session_field(self) -> None:
        """Conditions on the session are evaluated."""
        rules = f'{ASKS}block deploy when session.agent = "bot"'
        session = {"agent": "bot", "started_by": None, "labels": ()}
        manager = gate(rules, surroundings=Surroundings(session=session))
        (found,) = forecast_lines(manager, {"tool": "deploy"})
        assert found.startswith("1 blocked: ")

    def test_limit_with_open_condition(self) -> None:
        """A limit with an open condition may be used up by the earlier calls."""
        rules = f'{ASKS}limit deploy to 1 per session when input.env = "prod"'
        found = forecast_lines(gate(rules), {"tool": "deploy", "count": 2})
        assert found[0] == "1 runs"
        assert found[1].startswith("1 open: ")

    def test_sum_is_known_only_if_the_step_fixes_it(self) -> None:
        """The number that a sum counts is known only if the step fixes it."""
        rules = f"{ASKS}limit pay to 100 of input.amount per session"
        fixed = {"tool": "pay", "count": 3, "when": "input.amount = 40"}
        found = forecast_lines(gate(rules), fixed)
        assert found[0] == "2 runs"
        assert found[1].startswith("1 blocked: ")
        (open_,) = forecast_lines(gate(rules), {"tool": "pay"})
        assert open_ == "1 open: it depends on the number in input.amount"

    def test_rule_per_value_counts_by_the_steps_value(self) -> None:
        """A rule per value counts by the step's value, and is open without one."""
        rules = f"{ASKS}require test before deploy for same input.env"
        test = {"tool": "test", "when": 'input.env = "a"'}
        manager = gate(rules)
        assert forecast_lines(manager, test, {"tool": "deploy", "when": 'input.env = "a"'})[1] == "1 runs"
        assert forecast_lines(manager, test, {"tool": "deploy", "when": 'input.env = "b"'})[1].startswith(
            "1 blocked: "
        )
        assert forecast_lines(manager, test, {"tool": "deploy"})[1].startswith(
            "1 open: it depends on the value of"
        )


class TestEffects:
    """Names that maps give to calls."""

    RULES = f"{ASKS}map bash.command make_deploy as deploy\nrequire human-approval before deploy"

    def test_named_effects_are_covered(self) -> None:
        """A step covers the effects that it names."""
        step = {"tool": "bash", "when": 'input.command = "make_deploy"', "effects": ["deploy"]}
        assert forecast_lines(gate(self.RULES), step) == ["1 planned"]

    def test_unnamed_effect_still_asks(self) -> None:
        """An effect that the step does not name still asks."""
        (found,) = forecast_lines(
            gate(self.RULES), {"tool": "bash", "when": 'input.command = "make_deploy"'}
        )
        assert found == "1 asks: its calls also count as 'deploy', which the step does not name"

    def test_anything_else_still_asks(self) -> None:
        """The name of calls that no rule mentions also asks."""
        (found,) = forecast_lines(
            gate(f"{ASKS}require human-approval before anything-else"), {"tool": "push"}
        )
        assert found == "1 asks: its calls also count as 'anything-else', which the step does not name"


class TestCommands:
    """Steps of a tool whose commands maps read: the coverage depends on the program (G-109)."""

    RULES = (
        f"{ASKS}map bash.command /^git\\s+push/ as push\nrequire human-approval before push\n"
        "require human-approval before bash\n"
    )

    @pytest.mark.parametrize(
        ("parts", "finding"),
        [
            ({"effects": ["push"]}, f"2 may_ask: {ANY_COMMAND}"),
            ({"effects": ["push"], "when": 'input.cwd = "/src"'}, f"2 may_ask: {ANY_COMMAND}"),
            ({"when": "input.command matches /^git status/"}, f"2 may_ask: {NO_EFFECT}"),
            ({"effects": ["push"], "when": "input.command matches /^git push/"}, "2 planned"),
            ({"effects": ["push"], "when": 'input.command = "git push"'}, "2 planned"),
            (
                {"when": 'input.command = "git status"'},
                "2 asks: the command runs more than its effects name",
            ),
            (
                {"effects": ["push"], "when": 'input.command = "git push; $X"'},
                "2 asks: its calls also count as 'unclear', which the step does not name",
            ),
        ],
    )
    def test_outcome(self, parts: dict[str, object], finding: str) -> None:
        """A step with an open command may ask; one that fixes its command has a certain outcome."""
        assert forecast_lines(gate(self.RULES), {"tool": "bash", "count": 2, **parts}) == [finding]

    def test_no_commands(self) -> None:
        """Maps that read no commands leave nothing open."""
        rules = f"{ASKS}map http.url /prod/ as production\nrequire human-approval before http"
        assert forecast_lines(gate(rules), {"tool": "http"}) == ["1 planned"]

    @pytest.mark.parametrize(
        ("command", "effects"),
        [
            ("git push", ["push"]),
            ("git status", []),
            ("git push; $X", ["push"]),
            ("git push; ls", ["push"]),
        ],
    )
    async def test_forecast_of_fixed_command_matches_outcome(
        self, command: str, effects: list[str]
    ) -> None:
        """G-109: for a step with a fixed command, the forecast matches the actual outcome."""
        manager = planning(self.RULES.removeprefix(ASKS))
        given: dict[str, object] = {
            "tool": "bash",
            "when": f'input.command = "{command}"',
            "effects": effects,
        }
        [(forecast,)] = [
            each.findings for each in manager.plan_forecast({"title": "x", "steps": [given]})
        ]
        decide = Asker(manager)
        await plan(decide, given)
        await decide("bash", command=command)
        assert forecast.outcome == ("asks" if decide.asked else "planned")
