"""`with passkey`: an approval that needs the proof of a key, from text to net."""

from __future__ import annotations

import pytest

from interlock.engine.core.approvers import Approvers, Operator, Operators
from interlock.engine.core.rule import ApprovalRule, is_weaker_approval, people_to_loosen, strictest
from interlock.engine.gate import GateManager
from interlock.engine.gate.types import ApprovalAnswer, ApprovalRequest, GateContext
from interlock.engine.net.net import ToolCall
from interlock.rules import RuleError, compile_rules
from interlock.rules.analysis.approvers import about_approvers
from interlock.rules.analysis.comparison import compare
from interlock.rules.editing.next_words import next_rule_words

HEAD = "require human-approval before deploy"
SECURITY = (
    Operator("ada", "decide", ("security",)),
    Operator("maria", "decide", ("security",)),
    Operator("omar", "look"),
)


def rule(options: str) -> ApprovalRule:
    [net] = compile_rules(f"{HEAD} {options}").nets
    assert isinstance(net.rule, ApprovalRule)
    return net.rule


class TestSyntax:
    @pytest.mark.parametrize(
        ("options", "approvers"),
        [
            ("with passkey", Approvers(passkey=True)),
            ("risk high with passkey", Approvers(passkey=True)),
            ("with passkey by 2 of security", Approvers("security", passkey=True)),
            ("not by author with passkey within 1h", Approvers(author=False, passkey=True)),
            ('with passkey when input.env = "prod"', Approvers(passkey=True)),
        ],
    )
    def test_options_in_any_order(self, options: str, approvers: Approvers) -> None:
        """The option may be given once, in any order (G-105)."""
        made = rule(options)
        assert made.approvers == approvers
        assert made.passkey
        assert made.guards
        assert not made.may_grant

    def test_other_forms_of_an_approval(self) -> None:
        """Rules with a number, with `after` and with `until human-approval` accept it as well."""
        for text in (
            "require 2 human-approvals before deploy with passkey",
            "after read require human-approval before deploy with passkey",
            "block deploy after read until human-approval with passkey",
        ):
            [net] = compile_rules(text).nets
            assert isinstance(net.rule, ApprovalRule)
            assert net.rule.passkey

    @pytest.mark.parametrize(
        ("options", "message", "remedy"),
        [
            ("with", "expected 'passkey' after 'with', got the end", f"write: {HEAD} with passkey"),
            ("with key", "expected 'passkey' after 'with', got 'key'", f"write: {HEAD} with passkey"),
            ("passkey", "'with', 'when'", f"write: {HEAD} with passkey"),
            ("with passkey with passkey", "'with passkey' is given twice", f"write: {HEAD} with passkey"),
            ("when input.a = 1 with passkey", "'with' must come before 'when'", "with passkey when"),
        ],
    )
    def test_faults_with_their_remedies(self, options: str, message: str, remedy: str) -> None:
        """The error has the word found, the expected word and the remedy."""
        with pytest.raises(RuleError) as raised:
            compile_rules(f"{HEAD} {options}")
        [problem] = raised.value.problems
        assert message in problem.message
        assert remedy in problem.remedy

    @pytest.mark.parametrize(
        "text",
        [
            "require test before deploy with passkey",
            "block deploy with passkey",
            "limit deploy to 3 per session with passkey",
        ],
    )
    def test_only_approvals_accept_it(self, text: str) -> None:
        """Other rules have no approval, and the error names the right place."""
        with pytest.raises(RuleError, match="'with passkey' is an option of 'require human-approval"):
            compile_rules(text)

    def test_editors_propose_it(self) -> None:
        """Editors propose both words in their place."""
        assert "with" in next_rule_words(f"{HEAD} ").words
        assert next_rule_words(f"{HEAD} with ").words == ("passkey",)


class TestNet:
    def test_manual_transition_contains_it(self) -> None:
        """The net contains the option, so that a record, a drawing and a resume need no text."""
        [net] = compile_rules(f"{HEAD} by 2 with passkey").nets
        [terms] = [each.approvers for each in net.transitions if each.type == "manual"]
        assert terms == Approvers(passkey=True)
        assert terms.words == "with passkey"

    def test_implied_rule_requires_it_with_the_group(self) -> None:
        """The implied rule requires a passkey together with the group of another rule (G-64)."""
        text = "map bash.command ./deploy as deploy\nmap bash.command ./migrate as migrate\n"
        rules = compile_rules(f"{text}require human-approval before migrate of dba\n{HEAD} with passkey")
        [implied] = [net.rule for net in rules.nets if net.rule and net.rule.source.implied]
        assert implied.approvers == Approvers("dba", passkey=True)


class TestGate:
    @pytest.mark.parametrize(
        ("answer", "outcome"),
        [
            (True, "block"),
            (ApprovalAnswer(True, by="ada"), "block"),
            (ApprovalAnswer(True, by="ada", keys=("maria",)), "block"),
            (ApprovalAnswer(True, by="ada", keys=("ada",)), "allow"),
        ],
    )
    async def test_approval_without_a_key_does_not_count(
        self, answer: bool | ApprovalAnswer, outcome: str
    ) -> None:
        """The gate does not count an approval without a key (G-105)."""
        manager = GateManager(compile_rules(f"{HEAD} with passkey").nets)

        def confirm(request: ApprovalRequest) -> bool | ApprovalAnswer:
            return answer

        decision = await manager.handle_tool_call(
            ToolCall("c1", "deploy", {}), GateContext(confirm=confirm)
        )
        assert decision.outcome == outcome
        if outcome == "block":
            assert "1 person must approve with passkey" in (decision.reason or "")

    async def test_each_of_two_approvals_needs_a_key(self) -> None:
        """Of two approvals, one without a key does not count."""
        manager = GateManager(compile_rules(f"{HEAD} by 2 with passkey").nets)
        for keys, outcome in ((("ada",), "block"), (("ada", "maria"), "allow")):
            answer = ApprovalAnswer(True, by="ada", others=("maria",), keys=keys)
            decision = await manager.handle_tool_call(
                ToolCall(f"c{len(keys)}", "deploy", {}), GateContext(confirm=lambda _, a=answer: a)
            )
            assert decision.outcome == outcome


class TestComparison:
    def test_removing_it_is_weaker(self) -> None:
        """Removing the option is weaker, and adding it is stricter."""
        old, new = compile_rules(f"{HEAD} with passkey"), compile_rules(HEAD)
        assert [each.kind for each in compare(old, new).differences] == ["weaker"]
        assert [each.kind for each in compare(new, old).differences] == ["stricter"]

    def test_strictest_terms_include_it(self) -> None:
        """A rule without the option is weaker, and the strictest terms of several rules include it."""
        one, other = rule("with passkey"), rule("of security")
        assert is_weaker_approval(rule("risk low"), one)
        found = strictest([one, other])
        assert found is not None
        assert found.approvers == Approvers("security", passkey=True)
        assert people_to_loosen(one) == 1


class TestCheck:
    @pytest.mark.parametrize(
        ("options", "keyed", "message"),
        [
            ("with passkey", (), "needs 1 person with passkey, and nobody has enrolled one"),
            ("with passkey", ("ada",), None),
            ("with passkey", ("omar",), "nobody has enrolled one"),
            ("by 2 of security with passkey", ("ada",), "needs 2 of security with passkey, and 1 has"),
            ("by 2 of security with passkey", ("ada", "Maria"), None),
            ("with passkey", None, None),
        ],
    )
    def test_check_counts_operators_with_a_key(
        self, options: str, keyed: tuple[str, ...] | None, message: str | None
    ) -> None:
        """The check counts keys of operators who may decide and belong to the group."""
        [net] = compile_rules(f"{HEAD} {options}").nets
        found = about_approvers([net.rule], Operators(SECURITY, keyed=keyed))
        warnings = [each for each in found.warnings if "passkey" in each.message]
        assert not found.errors
        assert [message in each.message for each in warnings] == ([True] if message else [])
