"""Who approves: `of GROUP`, `not by author`, `escalate to GROUP after TIME`, from text to net."""

from __future__ import annotations

import pytest

from interlock.engine.core.approvers import Approvers, Escalation, Operator, Operators
from interlock.engine.core.rule import (
    ApprovalRule,
    is_weaker_approval,
    people_to_loosen,
    strictest,
)
from interlock.engine.gate import GateManager
from interlock.engine.gate.types import ApprovalAnswer, GateContext
from interlock.engine.net.net import ToolCall
from interlock.rules import RuleError, compile_rules
from interlock.rules.analysis.approvers import ApproverFindings, about_approvers
from interlock.rules.analysis.comparison import compare
from interlock.rules.editing.next_words import next_rule_words

HEAD = "require human-approval before deploy"


def rule(options: str) -> ApprovalRule:
    [net] = compile_rules(f"{HEAD} {options}").nets
    assert isinstance(net.rule, ApprovalRule)
    return net.rule


class TestSyntax:
    @pytest.mark.parametrize(
        ("options", "people", "approvers"),
        [
            ("of security", 1, Approvers("security")),
            ("by 1 of security", 1, Approvers("security")),
            ("by 2 of security", 2, Approvers("security")),
            ("of security by 2", 2, Approvers("security")),
            ("not by author", 1, Approvers(author=False)),
            ("escalate to oncall after 10m", 1, Approvers(escalation=Escalation("oncall", 600))),
            (
                "not by author escalate to on_call-2 after 1h within 2h by 3 of 2nd-line risk high",
                3,
                Approvers("2nd-line", False, Escalation("on_call-2", 3600)),
            ),
            ('of security when input.env = "prod"', 1, Approvers("security")),
        ],
    )
    def test_options_in_any_order(self, options: str, people: int, approvers: Approvers) -> None:
        """Each stands once, among the others."""
        made = rule(options)
        assert (made.people, made.approvers) == (people, approvers)

    def test_the_other_forms_of_an_approval(self) -> None:
        """A number before, a cause before, and a block until an approval take them as well."""
        for text in (
            "require 2 human-approvals before deploy of security",
            "after read require human-approval before deploy by 2 of security",
            "after read require 2 human-approvals before deploy of security",
            "block deploy after read until human-approval of security",
        ):
            [net] = compile_rules(text).nets
            assert isinstance(net.rule, ApprovalRule)
            assert net.rule.group == "security"

    def test_a_group_may_be_any_plain_word(self) -> None:
        """Words of the language are words like any other behind `of`."""
        assert rule("of risk risk high").group == "risk"

    @pytest.mark.parametrize(
        ("options", "message", "remedy"),
        [
            ("of", "expected a group's name: one word", f"write: {HEAD} of security"),
            ("of on.call", "expected a group's name", "write for example: of security"),
            ("by 2 of security, oncall", "got 'security,'", "write for example: of security"),
            ("of a of b", "'of' is given twice", f"write: {HEAD} of a"),
            ("not by autor", "expected 'author' after 'not by', got 'autor'", f"{HEAD} not by author"),
            ("not author", "expected 'by author' after 'not', got 'author'", f"{HEAD} not by author"),
            ("not by", "expected 'author' after 'by'", f"write: {HEAD} not by author"),
            ("not by author not by author", "'not by author' is given twice", HEAD),
            (
                "escalate oncall after 10m",
                "expected 'escalate to <group> after <time>', got 'oncall'",
                "write for example: escalate to oncall after 10m",
            ),
            ("escalate to oncall", "expected 'escalate to <group> after <time>', got the end", "oncall"),
            ("escalate to oncall after 10", "got '10'", "escalate to oncall after 10m"),
            ("escalate to oncall after 0m", "a time is", "write a time such as"),
            (
                "of security escalate to security after 5m",
                "members of 'security' may approve from the beginning",
                "name another group",
            ),
            (
                "within 10m escalate to oncall after 10m",
                "the request ends after 10m, and would be escalated after '10m'",
                "within 10m escalate to oncall after 5m",
            ),
            ("when input.env = 1 of security", "'of' must come before 'when'", "of security when input"),
        ],
    )
    def test_faults_with_their_remedies(self, options: str, message: str, remedy: str) -> None:
        """What was found, what was expected, and what to write."""
        with pytest.raises(RuleError) as raised:
            compile_rules(f"{HEAD} {options}")
        [problem] = raised.value.problems
        assert message in problem.message
        assert remedy in problem.remedy

    def test_an_order_has_no_approvers(self) -> None:
        """They are options of approvals alone."""
        with pytest.raises(RuleError, match="'of' is an option of 'require human-approval before"):
            compile_rules("require test before deploy of security")

    def test_editors_propose_the_words(self) -> None:
        """Each word of an option is known where it may stand; a group is no tool."""
        assert {"of", "not", "escalate"} <= {*next_rule_words(f"{HEAD} ").words}
        assert next_rule_words(f"{HEAD} not ").words == ("by",)
        assert next_rule_words(f"{HEAD} escalate ").words == ("to",)
        assert next_rule_words(f"{HEAD} of ").names == frozenset()


class TestNet:
    def test_the_manual_transition_says_who(self) -> None:
        """The net has it, so that a record, a drawing and a resume know it without the text."""
        for options, name in (("of security", "approve"), ("by 2 of security", "person")):
            [net] = compile_rules(f"{HEAD} {options}").nets
            terms = {each.name: each.approvers for each in net.transitions if each.type == "manual"}
            assert terms == {name: Approvers("security")}

    def test_an_implied_rule_asks_the_same_people(self) -> None:
        """A command that cannot be read may be what only some may approve (G-64)."""
        rules = compile_rules(f"map bash.command ./deploy as deploy\n{HEAD} by 2 of security")
        [implied] = [net.rule for net in rules.nets if net.rule and net.rule.source.implied]
        assert implied.approvers == Approvers("security")
        assert "by the map" in implied.source.text
        assert "of security" in implied.source.text


class TestGate:
    @pytest.mark.parametrize(
        ("answer", "outcome"),
        [
            (True, "block"),
            (ApprovalAnswer(True, by="ada", others=("maria",)), "block"),
            (ApprovalAnswer(True, by="ada", others=("maria",), groups={"ada": ("security",)}), "block"),
            (
                ApprovalAnswer(
                    True,
                    by="ada",
                    others=("maria",),
                    groups=dict.fromkeys(("ada", "maria"), ("security",)),
                ),
                "allow",
            ),
            (
                ApprovalAnswer(
                    True, by="ada", others=("omar",), groups={"ada": ("security",), "omar": ("oncall",)}
                ),
                "block",
            ),
            (
                ApprovalAnswer(
                    True,
                    by="ada",
                    others=("omar",),
                    groups={"ada": ("security",), "omar": ("oncall",)},
                    escalated=True,
                ),
                "allow",
            ),
        ],
    )
    async def test_only_members_count(self, answer: bool | ApprovalAnswer, outcome: str) -> None:
        """A confirm that does not say who of the group has approved has approved nothing."""
        rules = f"{HEAD} by 2 of security escalate to oncall after 10m"
        manager = GateManager(compile_rules(rules).registry)
        context = GateContext(lambda _: answer)
        decision = await manager.handle_tool_call(ToolCall("c1", "deploy", {}), context)
        assert decision.outcome == outcome
        if outcome == "block":
            assert "2 of security must approve" in (decision.reason or "")

    async def test_one_of_a_group(self) -> None:
        """Also where one approval is enough."""
        manager = GateManager(compile_rules(f"{HEAD} of security").registry)
        context = GateContext(lambda _: True)
        decision = await manager.handle_tool_call(ToolCall("c1", "deploy", {}), context)
        assert "1 of security must approve; nobody known did" in (decision.reason or "")

    def test_the_model_is_told(self) -> None:
        """Who must approve; when others are called is none of its business."""
        text = f"{HEAD} by 2 of security not by author escalate to oncall after 10m"
        [sentence] = GateManager(compile_rules(text).registry).constraints()
        assert sentence == (
            "deploy needs human approval by 2 of security, not by whoever started this or gave the task."
        )


class TestStrictness:
    @pytest.mark.parametrize(
        ("one", "other", "weaker"),
        [
            ("of security", "", False),
            ("", "of security", True),
            ("of security", "of oncall", True),
            ("of security not by author", "of security", False),
            ("of security", "of security not by author", True),
            ("of security escalate to oncall after 10m", "of security", True),
            ("of security", "of security escalate to oncall after 10m", False),
            (
                "of security escalate to oncall after 5m",
                "of security escalate to oncall after 10m",
                True,
            ),
            (
                "of security escalate to oncall after 20m",
                "of security escalate to oncall after 10m",
                False,
            ),
            ("of security escalate to dba after 20m", "of security escalate to oncall after 10m", True),
            ("escalate to oncall after 5m", "", False),
        ],
    )
    def test_weaker(self, one: str, other: str, weaker: bool) -> None:
        """Weaker is what some people could approve who could not before."""
        assert is_weaker_approval(rule(one), rule(other)) is weaker

    def test_other_people_turn_it_off(self) -> None:
        """A rule on who approves is not turned off by one person alone."""
        assert people_to_loosen(rule("of security")) == 1
        assert people_to_loosen(rule("by 2 of security")) == 2
        assert people_to_loosen(rule("not by author")) == 1
        assert people_to_loosen(rule("escalate to oncall after 10m")) == 0

    def test_the_strictest_of_several(self) -> None:
        """Terms that are as strict as all others; never those of nobody in particular."""
        of, anybody = rule("of security"), rule("risk high")
        found = strictest([anybody, of])
        assert found is not None
        assert (found.approvers, found.risk) == (Approvers("security"), "high")


class TestComparison:
    @pytest.mark.parametrize(
        ("old", "new", "kinds"),
        [
            ("of security", "", {"weaker"}),
            ("", "of security", {"stricter"}),
            ("of security", "of oncall", {"weaker", "stricter"}),
            ("of security not by author", "of security", {"weaker"}),
            ("by 2 of security", "by 3", {"weaker", "more"}),
            ("of security", "of security escalate to oncall after 10m", {"weaker"}),
        ],
    )
    def test_kinds(self, old: str, new: str, kinds: set[str]) -> None:
        """Another group, or the author, is a difference, in both ways where neither is stricter."""
        found = compare(compile_rules(f"{HEAD} {old}"), compile_rules(f"{HEAD} {new}"))
        assert {each.kind for each in found.differences} == kinds
        assert not found.same

    def test_what_is_neither_is_not_called_the_same(self) -> None:
        """An escalation that only calls others lets nobody else approve, and is a change."""
        new = compile_rules(f"{HEAD} escalate to oncall after 10m")
        found = compare(compile_rules(HEAD), new)
        assert (found.differences, found.same) == ((), False)
        assert found.unknown == ("deploy is approved by other people, or escalated in another way",)

    def test_the_same(self) -> None:
        """Nothing is said of what did not change."""
        text = f"{HEAD} by 2 of security not by author escalate to oncall after 10m"
        assert compare(compile_rules(text), compile_rules(text)).same


MARIA = Operator("maria", groups=("security",))
ADA = Operator("ada", "decide", ("security", "oncall"))
BEN = Operator("ben", "look", ("security",))


class TestMembers:
    def found(self, options: str, *operators: Operator) -> tuple[list[str], list[str]]:
        rules = compile_rules(f"{HEAD} {options}")
        result = about_approvers((net.rule for net in rules.nets), Operators(operators))
        return [each.message for each in result.errors], [each.message for each in result.warnings]

    def test_too_few(self) -> None:
        """Only members who may decide are counted."""
        errors, _ = self.found("by 2 of security", MARIA, BEN)
        assert errors == ["needs 2 of security, which has 1 member (maria)"]
        errors, _ = self.found("of security", BEN)
        assert errors == ["needs 1 of security, which has no members who may decide"]

    def test_enough(self) -> None:
        """Nothing is said of a rule that can be met."""
        third = Operator("cleo", groups=("security",))
        assert self.found("by 2 of security", MARIA, ADA, third) == ([], [])
        assert self.found("of security", MARIA) == ([], [])

    def test_a_group_that_nobody_is_in(self) -> None:
        """Said once for each group, with the one that was probably meant."""
        errors, _ = self.found("of securty escalate to oncal after 10m", MARIA, ADA)
        assert errors == [
            "no operator is in the group 'securty'",
            "no operator is in the group 'oncal'",
        ]

    def test_the_author_is_the_only_member(self) -> None:
        """It can be met, but not where that person is behind the session."""
        errors, warnings = self.found("of security not by author", MARIA)
        assert errors == []
        assert warnings == [
            "needs 1 of security, which has 1 member (maria): nobody can approve a session that maria "
            "starts or gives its task"
        ]
        _, warnings = self.found("by 2 of security", MARIA, ADA)
        assert "a session that one of them starts" in warnings[0]

    def test_only_once_it_is_escalated(self) -> None:
        """Members of the other group count only then."""
        errors, warnings = self.found("by 2 of security escalate to oncall after 10m", MARIA, OMAR)
        assert errors == []
        assert "can be met only after 10 min, with oncall" in warnings[0]

    def test_nobody_is_configured(self) -> None:
        """Then nobody is in a group: said with the remedy, once for each rule on one."""
        rules = compile_rules(f"{HEAD} by 2 of security\n{HEAD} not by author")
        result = about_approvers((net.rule for net in rules.nets), Operators())
        assert result.errors == ()
        [problem] = result.warnings
        assert problem.message == (
            "needs 2 of security, and no operators are configured: nobody can approve it"
        )
        assert 'groups = ["security"]' in problem.remedy


OMAR = Operator("omar", groups=("oncall",))


class TestGroupsOfAProvider:
    def test_members_are_not_counted(self) -> None:
        """A group whose members a provider names is known, with or without configured operators."""
        nets = compile_rules(f"{HEAD} by 2 of security").nets
        for listed in (None, (Operator("ada", groups=("dba",)),)):
            assert about_approvers((net.rule for net in nets), Operators(listed, ("security",))) == (
                ApproverFindings()
            )
        [unknown] = about_approvers(
            (net.rule for net in nets), Operators((Operator("ada"),), ("secuirty",))
        ).errors
        assert unknown.remedy == "did you mean 'secuirty'?"
