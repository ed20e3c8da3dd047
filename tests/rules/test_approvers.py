"""Approvers: `of GROUP`, `not by author`, `escalate to GROUP after TIME`, from text to net."""

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
        """Each option may be given once, in any order."""
        made = rule(options)
        assert (made.people, made.approvers) == (people, approvers)

    def test_other_forms_of_an_approval(self) -> None:
        """Rules with a number, with `after` and with `until human-approval` accept the options, too."""
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
        """A keyword may be the name of a group."""
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
        """The error has the word found, the expected words and the remedy."""
        with pytest.raises(RuleError) as raised:
            compile_rules(f"{HEAD} {options}")
        [problem] = raised.value.problems
        assert message in problem.message
        assert remedy in problem.remedy

    def test_order_rule_has_no_approvers(self) -> None:
        """Only approvals have these options."""
        with pytest.raises(RuleError, match="'of' is an option of 'require human-approval before"):
            compile_rules("require test before deploy of security")

    def test_editors_propose_the_words(self) -> None:
        """Editors propose each word of an option in its place; a group is no tool."""
        assert {"of", "not", "escalate"} <= {*next_rule_words(f"{HEAD} ").words}
        assert next_rule_words(f"{HEAD} not ").words == ("by",)
        assert next_rule_words(f"{HEAD} escalate ").words == ("to",)
        assert next_rule_words(f"{HEAD} of ").names == frozenset()


class TestNet:
    def test_manual_transition_names_the_approvers(self) -> None:
        """The net contains the approvers, so that a record, a drawing and a resume need no text."""
        for options, name in (("of security", "approve"), ("by 2 of security", "person")):
            [net] = compile_rules(f"{HEAD} {options}").nets
            terms = {each.name: each.approvers for each in net.transitions if each.type == "manual"}
            assert terms == {name: Approvers("security")}

    def test_implied_rule_needs_the_same_approvers(self) -> None:
        """An unclear command needs the same approvers as the commands that it may contain (G-64)."""
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
        """An approval without the approver's group does not count for the group."""
        rules = f"{HEAD} by 2 of security escalate to oncall after 10m"
        manager = GateManager(compile_rules(rules).registry)
        context = GateContext(lambda _: answer)
        decision = await manager.handle_tool_call(ToolCall("c1", "deploy", {}), context)
        assert decision.outcome == outcome
        if outcome == "block":
            assert "2 of security must approve" in (decision.reason or "")

    async def test_one_approval_needs_the_group(self) -> None:
        """The group counts also if one approval is enough."""
        manager = GateManager(compile_rules(f"{HEAD} of security").registry)
        context = GateContext(lambda _: True)
        decision = await manager.handle_tool_call(ToolCall("c1", "deploy", {}), context)
        assert "1 of security must approve; nobody known did" in (decision.reason or "")

    def test_model_text_names_the_approvers(self) -> None:
        """The model's text names the approvers, but not the escalation."""
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
    def test_rule_with_more_approvers_is_weaker(self, one: str, other: str, weaker: bool) -> None:
        """A rule is weaker if it allows approval by somebody whom the other rule does not."""
        assert is_weaker_approval(rule(one), rule(other)) is weaker

    def test_switching_off_takes_another_operator(self) -> None:
        """Switching off a rule with approvers takes another operator."""
        assert people_to_loosen(rule("of security")) == 1
        assert people_to_loosen(rule("by 2 of security")) == 2
        assert people_to_loosen(rule("not by author")) == 1
        assert people_to_loosen(rule("escalate to oncall after 10m")) == 0

    def test_the_strictest_of_several(self) -> None:
        """The strictest terms are as strict as each of the rules."""
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
        """A changed group or author is a difference, and both kinds if neither is stricter."""
        found = compare(compile_rules(f"{HEAD} {old}"), compile_rules(f"{HEAD} {new}"))
        assert {each.kind for each in found.differences} == kinds
        assert not found.same

    def test_neutral_escalation_is_still_a_difference(self) -> None:
        """An escalation that adds no approver is neither weaker nor stricter, but is reported."""
        new = compile_rules(f"{HEAD} escalate to oncall after 10m")
        found = compare(compile_rules(HEAD), new)
        assert (found.differences, found.same) == ((), False)
        assert found.unknown == ("deploy is approved by other people, or escalated in another way",)

    def test_unchanged_rule_has_no_difference(self) -> None:
        """An unchanged rule has no difference."""
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

    def test_only_members_who_may_decide_count(self) -> None:
        """Only members who may decide are counted."""
        errors, _ = self.found("by 2 of security", MARIA, BEN)
        assert errors == ["needs 2 of security, which has 1 member (maria)"]
        errors, _ = self.found("of security", BEN)
        assert errors == ["needs 1 of security, which has no members who may decide"]

    def test_enough_members_cause_no_finding(self) -> None:
        """A rule with enough members causes no finding."""
        third = Operator("cleo", groups=("security",))
        assert self.found("by 2 of security", MARIA, ADA, third) == ([], [])
        assert self.found("of security", MARIA) == ([], [])

    def test_empty_group_is_an_error(self) -> None:
        """A group without members is an error for each of the two groups."""
        errors, _ = self.found("of securty escalate to oncal after 10m", MARIA, ADA)
        assert errors == [
            "no operator is in the group 'securty'",
            "no operator is in the group 'oncal'",
        ]

    def test_author_as_only_member_is_a_warning(self) -> None:
        """The only member as author is a warning, because the rule can be met for other sessions."""
        errors, warnings = self.found("of security not by author", MARIA)
        assert errors == []
        assert warnings == [
            "needs 1 of security, which has 1 member (maria): nobody can approve a session that maria "
            "starts or gives its task"
        ]
        _, warnings = self.found("by 2 of security", MARIA, ADA)
        assert "a session that one of them starts" in warnings[0]

    def test_escalation_members_count_after_escalation(self) -> None:
        """Members of the escalation's group count only after the escalation."""
        errors, warnings = self.found("by 2 of security escalate to oncall after 10m", MARIA, OMAR)
        assert errors == []
        assert "can be met only after 10 min, with oncall" in warnings[0]

    def test_missing_operators_cause_one_warning(self) -> None:
        """Without configured operators, each rule on a group causes one warning with a remedy."""
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
        """A provider's group is known, and its members are not counted."""
        nets = compile_rules(f"{HEAD} by 2 of security").nets
        for listed in (None, (Operator("ada", groups=("dba",)),)):
            assert about_approvers((net.rule for net in nets), Operators(listed, ("security",))) == (
                ApproverFindings()
            )
        [unknown] = about_approvers(
            (net.rule for net in nets), Operators((Operator("ada"),), ("secuirty",))
        ).errors
        assert unknown.remedy == "did you mean 'secuirty'?"
