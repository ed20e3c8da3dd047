"""G-81, G-111: rules that a call activates: `after …`, `block … after`."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from interlock.app.format.rules import does
from interlock.engine import ApprovalAnswer, GateContext, ReplayEntry
from interlock.engine.gate.types import ApprovalRequest, GrantTerms
from interlock.engine.history.fold.markings import skill_net
from interlock.engine.recording.records import net_record
from interlock.rules import RuleError, compile_rules
from interlock.rules.analysis.findings import examine
from tests.engine.gate.support.helpers import Operator, call, manager, reason, result, succeed
from tests.support.laws import examples

ASKS = "after read_web require human-approval before send_email"
BLOCKS = "block pay after read_web"
MAPS = "map bash.command /^curl/ as read_web\nmap bash.command /^mail/ as send_email\n"
PUT = "allow unclear bash\n"


class TestApproval:
    async def test_only_after_the_call(self) -> None:
        """A call before the first page needs no approval, and each call after it needs one."""
        gate, operator = manager(ASKS), Operator(True, False)
        await succeed(gate, "send_email", "c1")
        await succeed(gate, "read_web", "c2")
        decisions = [
            await gate.handle_tool_call(call("send_email", call_id), operator.context)
            for call_id in ("c3", "c4")
        ]
        assert [decision.outcome for decision in decisions] == ["allow", "block"]
        assert len(operator.asked) == 2

    async def test_from_the_start_of_the_call(self) -> None:
        """A call that is still running, or failed, activates the rule."""
        gate = manager(ASKS)
        assert await reason(gate, "read_web", "c1") is None
        assert await reason(gate, "send_email", "c2") is not None
        gate.handle_tool_result(result("read_web", "c1", is_error=True))
        assert await reason(gate, "send_email", "c3") is not None

    async def test_blocked_call_does_not_activate_the_rule(self) -> None:
        gate = manager(f"{ASKS}\nblock read_web")
        assert await reason(gate, "read_web") is not None
        assert await reason(gate, "send_email") is None

    async def test_two_approvals(self) -> None:
        gate = manager("after read_web require 2 human-approvals before send_email")
        operator = Operator()
        await succeed(gate, "read_web")
        await gate.handle_tool_call(call("send_email"), operator.context)
        assert [asked.people for asked in operator.asked] == [2]

    async def test_tool_that_activates_its_own_rule(self) -> None:
        """The first deploy needs no approval."""
        gate = manager("after deploy require human-approval before deploy")
        await succeed(gate, "deploy", "c1")
        assert await reason(gate, "deploy", "c2") is not None

    async def test_condition_applies_to_the_restricted_call(self) -> None:
        gate = manager(f'{ASKS} when input.to = "x"')
        await succeed(gate, "read_web", "c1", to="y")
        assert await reason(gate, "send_email", "c2", to="y") is None
        assert await reason(gate, "send_email", "c3", to="x") is not None

    async def test_in_shadow_mode(self) -> None:
        gate, operator = manager(ASKS, mode="shadow"), Operator()
        await succeed(gate, "read_web", "c1")
        decision = await gate.handle_tool_call(call("send_email", "c2"), operator.context)
        assert (decision.outcome, operator.asked) == ("ask", [])

    async def test_call_that_never_ran_deactivates_the_rule(self) -> None:
        """A call that was allowed and never ran deactivates the rule again (A-40)."""
        gate = manager(ASKS)
        decision = await gate.handle_tool_call(call("read_web", "c1"))
        never_ran = result("read_web", "c1", is_error=True)
        gate.handle_tool_result(type(never_ran)("c1", "read_web", {}, True, undo=decision.steps))
        assert await reason(gate, "send_email", "c2") is None


class TestBlock:
    async def test_for_the_rest_of_the_session(self) -> None:
        gate = manager(f'{BLOCKS} because "a page may say whom"')
        await succeed(gate, "pay", "c1")
        await succeed(gate, "read_web", "c2")
        said = await reason(gate, "pay", "c3")
        assert said == "pay is blocked after a call to read_web: a page may say whom."

    async def test_reason_contains_the_condition(self) -> None:
        gate = manager(f"{BLOCKS} when input.sum > 10")
        await succeed(gate, "read_web", "c1")
        assert await reason(gate, "pay", "c2", sum=5) is None
        said = await reason(gate, "pay", "c3", sum=50)
        assert said == "pay is blocked after a call to read_web when input.sum > 10."


class TestOneCall:
    """One shell command with both names: reading counts before sending."""

    @pytest.mark.parametrize("command", ["mail ada < x; curl y", "curl y | mail ada", "mail `curl y`"])
    async def test_call_with_both_names(self, command: str) -> None:
        gate = manager(MAPS + PUT + ASKS)
        assert await reason(gate, "bash", "c1", command="mail ada < x") is None
        assert await reason(gate, "bash", "c2", command=command) is not None

    async def test_carrier_tool_that_activates_the_rule(self) -> None:
        """With `after bash`, a mapped command of the first `bash` call needs no approval."""
        gate = manager(f"{MAPS}{PUT}after bash require human-approval before send_email")
        await succeed(gate, "bash", "c1", command="mail ada < x")
        assert await reason(gate, "bash", "c2", command="mail ada < x") is not None

    async def test_unclear_command_needs_approval(self) -> None:
        """An unclear command may activate the rule, so it needs approval itself (G-64)."""
        gate = manager(f"map bash.command /^curl/ as read_web\n{BLOCKS}")
        assert await reason(gate, "bash", "c1", command="ls") is None
        assert await reason(gate, "bash", "c2", command="$TOOL y") is not None


class TestOneOfSeveral:
    """`after A or C` is one rule and one net, which either call activates."""

    async def test_either_call_activates_the_rule(self) -> None:
        for first in ("read_web", "read_mail"):
            gate = manager("after read_web or read_mail require human-approval before send_email")
            assert await reason(gate, "send_email", "c1") is None
            await succeed(gate, first, "c2")
            assert await reason(gate, "send_email", "c3") is not None

    async def test_one_request_after_both(self) -> None:
        gate = manager("after read_web or read_mail require human-approval before send_email")
        operator = Operator()
        await succeed(gate, "read_web", "c1")
        await succeed(gate, "read_mail", "c2")
        await gate.handle_tool_call(call("send_email", "c3"), operator.context)
        assert len(operator.asked) == 1

    async def test_block_reason_names_all_calls(self) -> None:
        gate = manager("block pay after read_web or read_mail or read_file")
        await succeed(gate, "read_mail", "c1")
        said = await reason(gate, "pay", "c2")
        assert said == "pay is blocked after a call to read_web or read_mail or read_file."

    async def test_block_outlasts_an_overlapping_approved_call(self) -> None:
        """An approved call that ran beside one of the causes does not end the block."""
        gate, operator = manager("block pay after read_web or read_mail until human-approval"), Operator()
        await succeed(gate, "read_web", "c1")
        await gate.handle_tool_call(call("pay", "c2"), operator.context)
        await gate.handle_tool_call(call("read_mail", "c3"), operator.context)
        gate.handle_tool_result(result("pay", "c2"))
        gate.handle_tool_result(result("read_mail", "c3"))
        assert await reason(gate, "pay", "c4") is not None
        await gate.handle_tool_call(call("pay", "c5"), operator.context)
        gate.handle_tool_result(result("pay", "c5"))
        assert await reason(gate, "pay", "c6") is None

    async def test_each_name_activates_within_one_call(self) -> None:
        maps = MAPS + "map bash.command /^fetch/ as read_mail\n" + PUT
        for command in ("mail ada < x; fetch y", "mail ada; curl y"):
            gate = manager(f"{maps}after read_web or read_mail require human-approval before send_email")
            assert await reason(gate, "bash", "c1", command="mail ada < x") is None
            assert await reason(gate, "bash", "c2", command=command) is not None

    def test_a_failed_call_of_a_history_counts(self) -> None:
        gate = manager("block pay after read_web or read_mail")
        gate.replay([ReplayEntry("read_mail", {}, is_error=True)])
        assert [verdict.kind for verdict in gate.classify(call("pay"))] == ["blocked"]

    def test_unclear_command_counts_as_any_of_them(self) -> None:
        rules = compile_rules(
            "map bash.command /^fetch/ as read_mail\nblock pay after read_web or read_mail"
        )
        assert any(
            net.rule is not None and net.rule.source.implied for net in rules.nets if net.rule.source
        )

    def test_record_keeps_all_calls(self) -> None:
        maps = MAPS + "map bash.command /^fetch/ as read_mail\n" + PUT
        rule = "after read_web or read_mail require human-approval before send_email"
        [net] = [net for net in compile_rules(maps + rule).nets if net.leads]
        record = net_record(net.name, net)
        assert skill_net(record).leads == ("read_web", "read_mail")
        assert record.lead_maps is not None
        assert [maps is not None for maps in record.other_lead_maps] == [True]

    def test_description_names_all_calls(self) -> None:
        [net] = compile_rules("after a or b require human-approval before x for same input.pr").nets
        assert net.rule is not None
        assert [*does(net.rule)] == ["x needs approval after a call of a or b", "for the same input.pr"]


class TestForSame:
    """`after read_ticket require human-approval before refund for same input.ticket`."""

    RULE = "after read_ticket require human-approval before refund for same input.ticket"

    async def test_applies_only_to_the_ticket_that_was_read(self) -> None:
        gate = manager(self.RULE)
        await succeed(gate, "read_ticket", "c1", ticket=7)
        assert await reason(gate, "refund", "c2", ticket=8) is None
        assert await reason(gate, "refund", "c3", ticket="7") == "refund requires human approval."

    async def test_other_spelling_counts_as_the_same_value(self) -> None:
        gate = manager(self.RULE)
        await succeed(gate, "read_ticket", "c1", ticket="T-9")
        assert await reason(gate, "refund", "c2", ticket=" t-9") is not None

    @pytest.mark.parametrize("tool", ["read_ticket", "refund"])
    async def test_a_call_without_a_value_is_blocked(self, tool: str) -> None:
        """A call without a value is blocked without a request, because its ticket is unknown."""
        gate, operator = manager(self.RULE), Operator()
        decision = await gate.handle_tool_call(call(tool, "c1"), operator.context)
        assert (decision.outcome, operator.asked) == ("block", [])
        assert "no single value in input.ticket" in (decision.reason or "")

    async def test_two_approvals(self) -> None:
        gate, operator = manager(self.RULE.replace("human-approval", "2 human-approvals")), Operator()
        await succeed(gate, "read_ticket", "c1", ticket=7)
        await gate.handle_tool_call(call("refund", "c2", ticket=7), operator.context)
        assert [asked.people for asked in operator.asked] == [2]

    async def test_a_grant_is_for_its_ticket(self) -> None:
        """A grant for one ticket does not cover another one, although a map reads the ticket."""
        gate = manager(f"map refund.ticket /./ as refunding\n{self.RULE}")
        for number in (7, 8):
            await succeed(gate, "read_ticket", f"r{number}", ticket=number)
        operator = Granting()
        for number, call_id in ((7, "c1"), (7, "c2"), (8, "c3")):
            await gate.handle_tool_call(call("refund", call_id, ticket=number), operator.context)
        assert operator.asked == 2


@dataclass
class Granting:
    """An operator who approves each call with a grant for the session."""

    asked: int = 0

    @property
    def context(self) -> GateContext:
        return GateContext(self._confirm)

    def _confirm(self, request: ApprovalRequest) -> ApprovalAnswer:
        self.asked += 1
        return ApprovalAnswer(True, by="ada", grant=GrantTerms("names"))


@dataclass
class Plainly:
    """A model of such rules without nets: it allows a call, requires approval or blocks it."""

    rules: Sequence[tuple[str, tuple[str, ...], str, bool]]
    begun: set[tuple[str, object]] = field(default_factory=set[tuple[str, object]])

    def verdict(self, names: Sequence[str], pr: object) -> str:
        found = "allow"
        for kind, causes, tool, same in self.rules:
            if same and pr is None and ({tool, *causes} & {*names}):
                return "block"
            begun = {name for name, other in self.begun if not same or other == pr}
            at_once = any(cause in names[:-1] and cause != tool for cause in causes)
            if tool in names and (begun & {*causes} or at_once):
                found = "block" if "block" in (kind, found) else "ask"
        return found


class TestLaw:
    @pytest.mark.parametrize("seed", range(examples(300)))
    async def test_arbitrary_calls_agree_with_the_model(self, seed: int) -> None:
        """Any calls under any such rules get the model's verdict, also with several names in one call."""
        chance, tools = random.Random(seed), ["a", "b", "c", "bash"]
        rules: list[tuple[str, tuple[str, ...], str, bool]] = []
        for _ in range(chance.randrange(1, 5)):
            tool = chance.choice(tools)
            causes = tuple(chance.sample(tools, chance.choice((1, 1, 2, 3))))
            if len(causes) > 1:
                causes = tuple(cause for cause in causes if cause != tool)
            rules.append((chance.choice(["ask", "block"]), causes, tool, chance.random() < 0.3))
        lines = [
            (
                f"after {' or '.join(causes)} require human-approval before {tool}"
                if kind == "ask"
                else f"block {tool} after {' or '.join(causes)}"
            )
            + (" for same input.pr" if same else "")
            for kind, causes, tool, same in rules
        ]
        maps = "".join(f"map bash.command {name} as {name}\n" for name in "abc")
        gate = manager(f"{maps}allow unclear bash\n" + "\n".join(lines))
        plainly, operator = Plainly(rules), Operator()
        for number in range(12):
            some = chance.sample("abc", chance.randrange(3))
            pr = chance.choice((1, 1, 2, None))
            given = {} if pr is None else {"pr": pr}
            made = call("bash", f"c{number}", command="; ".join(some) or "ls", **given)
            if chance.random() < 0.5:
                made = call(chance.choice("abc"), f"c{number}", **given)
            names = gate.names_of(made)
            operator.asked.clear()
            decision = await gate.handle_tool_call(made, operator.context)
            assert {"block": "block", "allow": "ask" if operator.asked else "allow"}[
                decision.outcome
            ] == plainly.verdict(names, pr), (lines, names, pr)
            if decision.outcome == "allow":
                plainly.begun.update((name, pr) for name in names)


class TestWords:
    def test_sentences_for_the_model(self) -> None:
        """The model's text of the rules mentions the calls that activated them."""
        gate = manager(f"{ASKS}\n{BLOCKS}")
        assert gate.constraints() == (
            "send_email needs human approval once read_web is called.",
            "pay may be called until read_web is called.",
        )
        gate.replay(["read_web"])
        assert gate.constraints() == (
            "send_email needs human approval, since read_web was called.",
            "pay is blocked, since read_web was called.",
        )

    def test_sentences_for_operators(self) -> None:
        rules = [net.rule for net in compile_rules(f"{ASKS} risk high\n{BLOCKS}").nets]
        assert [[*does(rule)] for rule in rules if rule is not None] == [
            ["send_email needs approval after a call of read_web", "risk high"],
            ["pay is blocked after a call of read_web"],
        ]


class TestHistory:
    def test_calls_that_failed_count(self) -> None:
        """A failed call in a history unlocks nothing and activates rules (G-25)."""
        gate = manager(f"{BLOCKS}\nrequire read_web before deploy")
        gate.replay([ReplayEntry("read_web", {}, is_error=True)])
        assert [verdict.kind for verdict in gate.classify(call("pay"))] == ["blocked", "abstain"]
        assert [verdict.kind for verdict in gate.classify(call("deploy"))] == ["abstain", "blocked"]

    def test_record_keeps_the_activating_call(self) -> None:
        [net] = [net for net in compile_rules(MAPS + PUT + ASKS).nets if net.leads]
        assert skill_net(net_record(net.name, net)).leads == ("read_web",)


class TestChecked:
    def test_impossible_call_is_found(self) -> None:
        """The proof finds that `require … before` and `block … after` of the same call leave no way."""
        [error] = examine(compile_rules(f"require read_web before pay\n{BLOCKS}")).errors
        assert error.message == "'pay' can never be called, though no rule blocks it"

    def test_possible_calls_cause_no_finding(self) -> None:
        rules = compile_rules(f"{ASKS}\n{BLOCKS}\nrequire human-approval before pay\nblock rm after rm")
        found = examine(rules)
        assert (found.errors, found.warnings) == ((), ())
        assert [(tool.name, tool.most.most) for tool in found.tools][-1] == ("rm", 1)

    def test_blocked_tool_makes_the_rule_an_error(self) -> None:
        [error] = examine(compile_rules(f"block send_email\n{ASKS}")).errors
        assert error.message == "no call can ever meet this rule: 'send_email' is blocked"


class TestErrors:
    @pytest.mark.parametrize(
        ("line", "at", "message", "remedy"),
        [
            (
                "after read_web block send",
                "block",
                "expected 'require' at position 3, got 'block'",
                "write: block send after read_web",
            ),
            (
                "after read_web limit send to 3 per session",
                "limit",
                "expected 'require' at position 3, got 'limit'",
                "write: after <tool> require human-approval before <tool>",
            ),
            (
                "after read_web require test before deploy",
                "test",
                "expected 'human-approval' or a number of people at position 4, got 'test'",
                "write: after <tool> require human-approval before <tool>",
            ),
            (
                "require human-approval before send after read_web within 5m",
                "after read_web",
                "'after read_web' begins the rule",
                "write: after read_web require human-approval before send within 5m",
            ),
            (
                "limit send to 2 per session after read_web",
                "after",
                "'after' is allowed only in approvals and blocks",
                "write: block <tool> after <tool>, or after <tool> require human-approval before <tool>",
            ),
            (
                "block send after read_web until approval",
                "approval",
                "a block ends with 'human-approval', got 'approval'",
                "write: block send after read_web until human-approval",
            ),
            (
                "block after read_web",
                "after",
                "expected the tool to block, got 'after'",
                "write: block <tool> after read_web",
            ),
            (
                "after a, b require human-approval before send",
                "a,",
                "tools are joined by 'or', got 'a,'",
                "write: after a or b require human-approval before send",
            ),
            (
                "block send after a and b",
                "and",
                "one call of any of them brings the rule into effect: tools are joined by 'or'",
                "write: block send after a or b",
            ),
            (
                "require human-approval before send after a or b within 5m",
                "after a or b",
                "'after a or b' begins the rule",
                "write: after a or b require human-approval before send within 5m",
            ),
            (
                "after a or b block send",
                "block",
                "expected 'require' at position 5, got 'block'",
                "write: block send after a or b",
            ),
            (
                "block send after a or b until approval",
                "approval",
                "a block ends with 'human-approval', got 'approval'",
                "write: block send after a or b until human-approval",
            ),
            (
                "block send after a or b or a",
                "a",
                "'a' is named twice",
                "name each tool once",
            ),
            (
                "after a require human-approval before send within 5m for same input.to",
                "for",
                "'for' must follow the tool and come before the options",
                "write: … before send for same <field> within …",
            ),
            (
                "after * require human-approval before send",
                "*",
                "'*' has no meaning in a name, got '*'",
                "write 'anything-else' for every call that no rule names, or name each tool",
            ),
            (
                "after deploy require human-approval before deploy when input.env = 1",
                "deploy",
                "a rule on 'deploy' after 'deploy' takes no condition: "
                "calls that do not meet it would not count",
                "give some of them a name of their own: map deploy.<field> <pattern> as <name>",
            ),
        ],
    )
    def test_name_place_and_remedy(self, line: str, at: str, message: str, remedy: str) -> None:
        with pytest.raises(RuleError) as caught:
            compile_rules(line)
        [problem] = caught.value.problems
        assert (problem.message, problem.remedy) == (message, remedy)
        assert line[problem.column - 1 :].startswith(at)
        assert problem.length == len(at)

    @pytest.mark.parametrize(
        "line", ["after", "after a", "after a require", "after a require human-approval", "block a after"]
    )
    def test_incomplete_line(self, line: str) -> None:
        with pytest.raises(RuleError) as caught:
            compile_rules(line)
        [problem] = caught.value.problems
        assert problem.remedy.startswith("write: ")
        assert problem.column == len(line) + 1

    @pytest.mark.parametrize(
        "line",
        ["block after", "require after before b", "limit after to 1 per after2", "block a after a"],
    )
    def test_after_may_be_a_tool_name(self, line: str) -> None:
        assert len(compile_rules(line)) == 1
