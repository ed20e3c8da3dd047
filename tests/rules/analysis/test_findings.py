"""Findings about a rule set as a whole."""

from __future__ import annotations

from collections import deque
from itertools import permutations
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine.gate import GateContext, GateManager, ToolResult, classify_nets
from interlock.engine.net.net import SkillNet, ToolCall, auto_advance, fire, is_enabled
from interlock.engine.verify import Most, Never, Way
from interlock.rules import Problem, compile_rules, library_rules, load_rules
from interlock.rules.analysis.findings import Findings, examine

from ...support.laws import examples


def findings(text: str, tools: list[str] | None = None) -> Findings:
    return examine(compile_rules(text), tools)


def lines(problems: tuple[Problem, ...]) -> list[tuple[int, str]]:
    return [(problem.line, problem.message) for problem in problems]


class TestUnreachable:
    """Tools that no rule blocks and no session can call."""

    def test_tools_that_require_each_other(self) -> None:
        """One error covers both tools, at a rule of the first one and with the other rule beside it."""
        found = findings("limit z to 2 per session\nrequire a before b\nrequire b before a\nblock x")
        assert [str(e) for e in found.errors] == [
            "<rules>:2:1: 'b' and 'a' can never be called, though no rule blocks them\n"
            "    require a before b\n"
            "    ^^^^^^^^^^^^^^^^^^\n"
            "    forbidden together with line 3 (require b before a): change one of them"
        ]
        assert found.warnings == ()

    def test_tool_that_requires_a_blocked_one(self) -> None:
        """A tool that requires a blocked one can never be called."""
        found = findings("block a\nrequire a before b")
        assert lines(found.errors) == [(2, "'b' can never be called, though no rule blocks it")]
        assert "line 1 (block a)" in found.errors[0].remedy

    def test_blocked_tool_is_no_error(self) -> None:
        """A blocked tool is no error by itself."""
        found = findings("block a")
        assert (found.errors, found.warnings) == ((), ())
        assert found.tools[0].way == Never(("block-a",))

    def test_mapped_name_of_a_blocked_tool(self) -> None:
        """G-50: a name that only calls of a blocked tool can have is unreachable."""
        found = findings(
            "map bash.command ./deploy as deploy\nblock bash\nrequire human-approval before deploy"
        )
        (error,) = found.errors
        assert error.message == "'deploy' can never be called, though no rule blocks it"
        assert found.tools[1].way == Never(("block-bash",))


class TestLimits:
    """Limits that have no effect."""

    def test_never_reached(self) -> None:
        """A limit above the number of calls that other rules allow is an error at its count."""
        found = findings("limit a to 2 per session\nrequire a before b\nlimit b to 10 per session")
        (problem,) = found.errors
        assert (problem.line, problem.column, problem.length) == (3, 12, 2)
        expected = "this limit can never be reached: other rules let 'b' be called at most 2 times"
        assert problem.message == expected

    def test_never_refilled(self) -> None:
        """A limit is never refilled if the tool that refills it is blocked."""
        found = findings("block r\nlimit a to 3 per r")
        assert lines(found.errors) == [(2, "this limit is never refilled: 'r' can never be called")]

    def test_blocked_in_the_same_file(self) -> None:
        """A rule about a tool that the same file blocks is an error."""
        found = findings("block a\nlimit a to 3 per session")
        assert lines(found.errors) == [(2, "no call can ever meet this rule: 'a' is blocked")]

    def test_blocked_in_another_file(self, tmp_path: Path) -> None:
        """A rule about a tool that another file blocks is only a warning."""
        (tmp_path / "a.rules").write_text("limit a to 3 per session")
        (tmp_path / "b.rules").write_text("block a")
        found = examine(load_rules(tmp_path / "a.rules", tmp_path / "b.rules"))
        assert found.errors == ()
        assert lines(found.warnings) == [(1, "no call can ever meet this rule: 'a' is blocked")]

    def test_larger_limit_is_redundant(self) -> None:
        """The larger of two limits of a tool is redundant."""
        found = findings("limit a to 5 per session\nlimit a to 3 per session")
        assert lines(found.warnings) == [(1, "this limit is redundant beside a smaller one")]

    def test_limit_ensured_by_other_rules_is_redundant(self) -> None:
        """A limit that other rules ensure anyway is redundant."""
        found = findings("limit a to 2 per session\nrequire a before b\nlimit b to 2 per session")
        assert [line for line, _ in lines(found.warnings)] == [3]


LIMITS = (
    "limit a to 1 per session",
    "limit a to 2 per session",
    "limit a to 2 per session when input.x > 0",
    "limit a to 1 per 1h",
    "limit a to 2 per 1h",
    "limit a to 2 per 2h",
    "limit a to 1 per 1h when input.x > 0",
    "limit a to 1 per 1h when input.x > 1",
    "limit a to 2 per 2h when input.x > 1",
    "limit a to 1 per r",
    "limit a to 2 per r",
    "limit a to 2 per r when input.x > 1",
)


class TestSlidingLimits:
    """Limits over a time beside other limits: a time is neither a tool nor a total."""

    def test_same_time_in_other_units(self) -> None:
        """`per 60m` and `per 1h` are the same rule, with one warning."""
        found = findings("limit a to 3 per 1h\nlimit a to 3 per 60m")
        assert lines(found.warnings) == [(2, "the same rule as in line 1")]

    def test_limit_per_session_bounds_one_per_hour(self) -> None:
        """A limit per session bounds one per hour, but not vice versa."""
        found = findings("limit a to 5 per 1h\nlimit a to 3 per session")
        assert lines(found.warnings) == [(1, "this limit is redundant beside a smaller one")]
        found = findings("limit a to 3 per 1h\nlimit a to 5 per session")
        assert (found.errors, found.warnings) == ((), ())
        assert list(map(str, found.tools[0].most.paces)) == ["3 per 1h"]

    def test_error_points_at_the_count(self) -> None:
        """The error points at the count, not at the same digit in the time."""
        found = findings("limit a to 2 per session\nrequire a before b\nlimit b to 3 per 3h")
        (problem,) = found.errors
        assert (problem.line, problem.column, problem.length) == (3, 12, 1)

    @pytest.mark.parametrize(("one", "other"), permutations(LIMITS, 2))
    async def test_redundant_limit_never_blocks_alone(self, one: str, other: str) -> None:
        """A limit reported as redundant is never the only rule that blocks a call."""
        rules = compile_rules([one, other])
        reported = {p.line - 1 for p in examine(rules).warnings if "redundant beside" in p.message}
        for seed in range(4 if reported else 0):
            draw = Random(seed)
            now = [0.0]
            manager = GateManager(rules.registry, clock=lambda now=now: now[0])
            for number in range(30):
                now[0] += draw.choice([0, 1800, 3600])
                call = ToolCall(f"c{number}", draw.choice("aaaar"), {"x": draw.randrange(3)})
                states = list(manager.states.values())
                verdicts = classify_nets(rules.nets, states, call, clock=lambda now=now: now[0])
                blocking = {place for place, v in enumerate(verdicts) if v.kind == "blocked"}
                assert len(blocking) != 1 or not blocking & reported
                decision = await manager.handle_tool_call(call, GateContext())
                if not decision.block:
                    result = ToolResult(call.tool_call_id, call.tool_name, call.input)
                    manager.handle_tool_result(result)


class TestConditions:
    """Calls that meet a condition, separate from those that do not."""

    def test_impossible_condition_is_an_error(self) -> None:
        """An impossible condition is an error at its rule, although the tool can be called otherwise."""
        found = findings('block test\nrequire test before deploy when input.env = "prod" # never')
        assert [str(e) for e in found.errors] == [
            "<rules>:2:1: no call of 'deploy' that meets this condition is ever possible\n"
            '    require test before deploy when input.env = "prod" # never\n'
            "    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
            "    forbidden together with line 1 (block test): change one of them"
        ]
        deploy = found.tools[1]
        assert str(deploy.way) == "deploy (outside require-test-before-deploy)"
        assert [(w.when, isinstance(w.way, Never)) for w in deploy.within] == [
            ('input.env = "prod"', True)
        ]

    def test_missing_required_tool_is_named(self) -> None:
        """The error names a required tool that does not exist."""
        found = findings("require tset before deploy when input.n = 1", ["test", "deploy"])
        assert found.errors[0].remedy == "there is no call to 'tset'"

    def test_equal_condition_adds_no_error(self) -> None:
        """A second rule with the same condition adds no error."""
        found = findings(
            "block x\nrequire x before d when input.n = 1\nrequire y before d when input.n = 1\n"
            "limit d to 2 per session when input.n = 1"
        )
        assert [line for line, _ in lines(found.errors)] == [2]
        assert found.warnings == ()

    @pytest.mark.parametrize(
        "text",
        [
            "require test before deploy when input.n = 1",
            "require x before d when input.n = 1\nblock x when input.n = 1",
            "limit a to 2 per 1h when input.n = 1",
            "require human-approval before a by 3 when input.n = 1",
        ],
    )
    def test_possible_condition_causes_no_finding(self, text: str) -> None:
        """A possible condition causes no finding, and `within` contains its way."""
        found = findings(text)
        assert (found.errors, found.warnings) == ((), ())
        assert [type(w.way) for tool in found.tools for w in tool.within] == [Way]

    def test_opposite_conditions_block_every_call(self) -> None:
        """The warning says that both rules together block every call."""
        found = findings("block f when input.n = 1\nblock f when input.n != 1")
        assert found.errors == ()
        assert lines(found.warnings) == [(2, "with line 1 this blocks every call of 'f'")]

    def test_smaller_conditional_limit_needs_coverage(self) -> None:
        """A limit with a condition makes another one redundant only if it covers the other's calls."""
        message = "this limit is redundant beside a smaller one"
        wide, narrow = "limit a to 3 per session when input.n > 0", "limit a to 5 per session"
        assert lines(findings(f"{wide}\n{narrow} when input.n > 1").warnings) == [(2, message)]
        for when in ("", " when input.n > -1", " when input.m > 1"):
            found = findings(f"{wide}\n{narrow}{when}")
            assert (found.errors, found.warnings) == ((), ())

    def test_conditional_limit_ensured_by_other_rules(self) -> None:
        """A conditional limit that other rules ensure is an error that mentions the condition."""
        found = findings(
            "limit a to 2 per session\nrequire a before b\nlimit b to 9 per session when input.n = 1"
        )
        (problem,) = found.errors
        assert problem.message.endswith("let 'b' be called at most 2 times where it applies")


class TestRedundant:
    """Rules that block no more calls than the others do."""

    def test_requirement_implied_through_a_third_tool(self) -> None:
        """With one deploy per session, a requirement of its prerequisite need not be repeated."""
        text = "require a before b\nrequire b before c\nlimit c to 1 per session\nrequire a before c"
        message = "this rule is redundant: the others already block all that it blocks"
        assert lines(findings(text).warnings) == [(4, message)]

    def test_repeated_calls_make_the_rule_count(self) -> None:
        """Without the limit the rule counts: after a, b, a, b, c only the use of b is spent."""
        text = "require a before b\nrequire b before c\nrequire a before c"
        assert findings(text).warnings == ()

    @given(
        st.lists(
            st.sampled_from(
                [
                    "require a before b",
                    "require b before c",
                    "require a before c",
                    "require c before d",
                    "require a before d",
                    "limit a to 2 per session",
                    "limit c to 1 per session",
                    "limit b to 1 per a",
                    "limit d to 2 per session",
                    "limit d to 3 per b",
                ]
            ),
            min_size=2,
            max_size=5,
            unique=True,
        )
    )
    @settings(max_examples=examples(60), deadline=None)
    def test_redundant_rule_never_blocks_alone(self, text: list[str]) -> None:
        """A require rule is reported if and only if it alone never blocks a call; a limit only if so."""
        rules = compile_rules(text)
        found = examine(rules)
        warned = {p.line for p in found.warnings if "rule is redundant" in p.message}
        limits = {p.line for p in (*found.warnings, *found.errors) if p.message.startswith("this limit")}
        for number, line in enumerate(text, start=1):
            if line.startswith("require"):
                assert (number in warned) == (not alone_blocks(rules.nets, number - 1)), line
            elif number in limits:
                assert not alone_blocks(rules.nets, number - 1), line


def alone_blocks(nets: tuple[SkillNet, ...], one: int) -> bool:
    """Return true if in some reachable state only net `one` blocks a call, after trying all."""
    start = tuple(tuple(auto_advance(net, net.initial_marking).items()) for net in nets)
    seen = {start}
    waiting = deque([start])
    while waiting:
        state = waiting.popleft()
        for tool in "abcd":
            after = list(state)
            blocking: set[int] = set()
            for position, net in enumerate(nets):
                covering = [t for t in net.transitions if tool in t.tools]
                enabled = [t for t in covering if is_enabled(dict(state[position]), t)]
                if enabled:
                    after[position] = tuple(fire(dict(state[position]), enabled[0]).items())
                elif covering:
                    blocking.add(position)
            if blocking == {one}:
                return True
            if not blocking and tuple(after) not in seen:
                seen.add(tuple(after))
                waiting.append(tuple(after))
    return False


class TestMaps:
    """Maps that have no effect."""

    def test_repeated_map_is_a_warning(self) -> None:
        """A repeated map is a warning."""
        found = findings("map x.path /a/ as n\nmap x.path /a/ as n\nblock n")
        assert lines(found.warnings) == [(2, "the same map as in line 1")]

    def test_later_map_never_matches_in_a_shell_command(self) -> None:
        """G-51: in a shell command the first map wins, so that a longer word after it never matches."""
        found = findings("map bash.command rm as a\nmap bash.command rm-rf as b\nblock a\nblock b")
        assert [line for line, _ in lines(found.warnings)] == [2]

    def test_other_fields_use_every_map(self) -> None:
        """G-50: in other fields every map counts."""
        found = findings("map x.path rm as a\nmap x.path rm-rf as b\nblock a\nblock b")
        assert found.warnings == ()


class TestTools:
    """Findings with a list of the existing tools."""

    def test_misspelt_tool_is_reported(self) -> None:
        """A name that is neither mapped nor a tool is reported, with the call it makes impossible."""
        found = findings("require tset before deploy", ["test", "deploy"])
        (warning,) = found.warnings
        assert (warning.column, warning.remedy) == (9, "did you mean 'test'?")
        assert lines(found.errors) == [(1, "'deploy' can never be called, though no rule blocks it")]
        assert found.errors[0].remedy == "there is no call to 'tset'"

    def test_known_names(self) -> None:
        """Mapped names and dotted names of existing tools are known."""
        text = "map bash.command x as y\nblock y\nblock slack.send\nblock bash"
        assert findings(text, ["bash", "slack"]).warnings == ()

    def test_map_of_unknown_tool_is_reported(self) -> None:
        """A map of a tool that does not exist is reported."""
        found = findings("map bsh.command x as y\nblock y", ["bash"])
        assert found.warnings[0].message == "'bsh' is not among the tools"


class TestReport:
    """Every gated tool with its way and its maximum number of calls."""

    def test_library_deploy_rules(self) -> None:
        """The library's deploy rules yield the way with its approval, and one call per session."""
        found = examine(load_rules(library_rules("deploy")))
        tools = {tool.name: tool for tool in found.tools}
        assert isinstance(tools["deploy"].way, Way)
        assert str(tools["deploy"].way) == "lint → test → deploy (approval)"
        assert tools["deploy"].most == Most(1, 1)
        assert tools["test"].most.unlimited
        assert found.errors == ()

    @pytest.mark.parametrize("count", [1, 3, 1_000_000])
    def test_maximum_passes_through_other_tools(self, count: int) -> None:
        """G-56: the maximum passes on through other tools, for any number."""
        found = findings(f"limit a to {count} per session\nrequire a before b\nrequire b before c")
        assert found.tools[-1].most == Most(count, count)
