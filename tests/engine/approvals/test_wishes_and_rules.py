"""A tool's own approval hint together with rules: each call requires approval, and only once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.agents import Tool, tool
from interlock.engine.approvals.tool_hints import hinted, with_wishes
from interlock.engine.core.condition import Surroundings
from interlock.engine.gate import create_gate_manager, tool_approval_net
from interlock.engine.net.net import SkillNet, ToolCall, Transition, define_skill_net
from interlock.rules import compile_rules

Input = dict[str, object]
Wish = bool | Callable[[Mapping[str, object]], bool]

HERE = Surroundings(workdir="/srv/shop")
ASK = "require human-approval before deploy"
OWN = (
    f"{ASK} by 2 no grants",
    f'{ASK} when input.env = "prod"',
    f'{ASK} when input.env != "prod" and input.n > 3',
    f'{ASK} when input.path under "/srv"',
    f'{ASK} when input.path not under "src" or input.n = 7',
)
OTHERS = (
    "map deploy.env prod as live",
    "map deploy.env staging as deploy",
    "require human-approval before live",
    "require human-approval before deploy.go",
    "limit deploy to 9 per session",
)
WISHES: Sequence[Wish] = (
    True,
    lambda args: args["env"] != "prod",
    lambda args: args["n"] > 3,
    lambda args: False,
)
CALLS = st.fixed_dictionaries(
    {},
    optional={
        "env": st.sampled_from(["prod", "staging", 5]),
        "n": st.sampled_from([1, 5, 7, "x"]),
        "path": st.sampled_from(["src/a", "/srv/shop/src", "../x", "/etc", "~/b", 3]),
        "action": st.just("go"),
    },
)


def tool_with_hint(wish: Wish, name: str = "deploy") -> Tool:
    @tool(name=name, needs_approval=wish)
    async def made() -> str:
        """Do something."""
        return "done"

    return made


def nets_of(rules: Sequence[str], *tools: Tool) -> tuple[dict[str, SkillNet], tuple[str, ...]]:
    registry = compile_rules("\n".join(rules)).registry
    nets = with_wishes(registry, tools)
    return nets, hinted(registry, nets)


def asking_nets(nets: dict[str, SkillNet], given: Input, name: str = "deploy") -> list[str]:
    """Return the nets that require approval of a call."""
    manager = create_gate_manager(registry=nets, surroundings=HERE)
    return [each.net for each in manager.explain(ToolCall("c", name, given)).nets if each.asks]


def hint_asks(wish: Wish, given: Input) -> bool:
    try:
        return wish if isinstance(wish, bool) else bool(wish(given))
    except (KeyError, TypeError):
        return True


class TestBesideAnyRules:
    @given(
        rules=st.tuples(
            st.sampled_from(OWN), st.sampled_from((*OWN, *OTHERS, "")), st.sampled_from(OTHERS)
        ),
        wish=st.sampled_from(WISHES),
        call=CALLS,
    )
    def test_hint_asks_unless_a_rule_does(self, rules: tuple[str, ...], wish: Wish, call: Input) -> None:
        """A rule about the tool that applies takes precedence over the hint; otherwise the hint asks.

        Both ask only about a path that cannot be resolved, because either could stand aside for the
        other.
        """
        nets, own = nets_of(rules, tool_with_hint(wish))
        asks = asking_nets(nets, call)
        ruled = [
            key for key in asks if key not in own and getattr(nets[key].rule, "tool", "") == "deploy"
        ]
        by_wish = [key for key in asks if key in own]
        placed = call.get("path", 3) in ("src/a", "/srv/shop/src", "../x", "/etc")
        if not hint_asks(wish, call):
            assert by_wish == []
        elif not ruled:
            assert len(by_wish) == 1
        elif placed or not any(" under " in rule for rule in rules):
            assert by_wish == []


class TestBesideARule:
    @pytest.mark.parametrize("wish", [True, lambda args: True])
    @pytest.mark.parametrize(
        ("rule", "given", "asks"),
        [
            ("", {}, "wish"),
            (ASK, {}, "rule"),
            (f'{ASK} when input.env = "prod"', {"env": "prod"}, "rule"),
            (f'{ASK} when input.env = "prod"', {"env": "staging"}, "wish"),
            (f'{ASK} when input.env = "prod"', {}, "rule"),
            (f'{ASK} when input.path under "/srv"', {"path": "a"}, "rule"),
            (f'{ASK} when input.path under "/srv"', {"path": "/etc"}, "wish"),
            ("require human-approval before deploy.go", {"action": "stay"}, "wish"),
            (f'{ASK} when input.path not under "src" or input.n = 7', {"path": "src/a"}, "rule"),
            (f'{ASK} when input.path not under "src" and input.n = 7', {"path": "src/a"}, "wish"),
        ],
    )
    def test_rule_about_other_calls_keeps_the_hint(
        self, wish: Wish, rule: str, given: Input, asks: str
    ) -> None:
        """A rule about other calls or another tool does not remove a tool's hint."""
        nets, own = nets_of([rule], tool_with_hint(wish))
        assert ["wish" if key in own else "rule" for key in asking_nets(nets, given)] == [asks]

    def test_second_rule_without_condition_replaces_the_hint(self) -> None:
        """G-43: a second rule of the same name, under another key, replaces the hint as well."""
        _, own = nets_of([f'{ASK} when input.env = "prod"', ASK], tool_with_hint(True))
        assert own == ()

    def test_rule_about_a_mapped_name_keeps_the_hint(self) -> None:
        """G-50: a rule about a mapped name does not replace the hint of the whole tool."""
        rules = "map bash.command rm as delete", "require human-approval before delete"
        nets, [own] = nets_of(rules, tool_with_hint(True, "bash"))
        assert asking_nets(nets, {"command": "rm a; ./x"}, "bash") == ["approve-before-delete", own]
        assert asking_nets(nets, {"command": "./x"}, "bash") == [own]


class TestBesideANetMadeByHand:
    def test_net_that_always_asks_replaces_the_hint(self) -> None:
        """A net that asks about every call of the tool replaces the hint, regardless of its name."""
        registry = {"look-first": tool_approval_net}
        assert hinted(registry, with_wishes(registry, [tool_with_hint(True, "bash")])) == ()

    @pytest.mark.parametrize("manual", [True, False])
    def test_net_of_the_rules_key_replaces_hint_if_it_asks(self, manual: bool) -> None:
        """A net that only shares the rule's key and allows calls does not replace the hint."""
        kind = "manual" if manual else "auto"
        net = define_skill_net(
            "approve-before-deploy",
            places=["ready"],
            transitions=[Transition("go", ("ready",), ("ready",), ("deploy",), type=kind)],
            initial_marking={"ready": 1},
        )
        registry = {"approve-before-deploy": net}
        own = hinted(registry, with_wishes(registry, [tool_with_hint(True)]))
        assert own == (() if manual else ("approve-before-deploy#2",))


class TestToolsOfOneName:
    def test_tool_of_a_subagent_keeps_its_hint(self) -> None:
        """A subagent's tool requires approval even if another tool of that name has no hint."""
        nets, [own] = nets_of([], tool_with_hint(lambda args: False), tool_with_hint(lambda args: True))
        assert asking_nets(nets, {}) == [own]
