"""G-81: rules that a call brings into effect: `after … require human-approval`, `block … after`."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from interlock.app.format.rules import does
from interlock.engine import ReplayEntry
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
        """What was called before any page was read needs nobody, what is called after it always does."""
        gate, operator = manager(ASKS), Operator(True, False)
        await succeed(gate, "send_email", "c1")
        await succeed(gate, "read_web", "c2")
        decisions = [
            await gate.handle_tool_call(call("send_email", call_id), operator.context)
            for call_id in ("c3", "c4")
        ]
        assert [decision.outcome for decision in decisions] == ["allow", "block"]
        assert len(operator.asked) == 2

    async def test_from_the_calls_beginning(self) -> None:
        """A page that is still being read, or could not be read, has been asked for."""
        gate = manager(ASKS)
        assert await reason(gate, "read_web", "c1") is None
        assert await reason(gate, "send_email", "c2") is not None
        gate.handle_tool_result(result("read_web", "c1", is_error=True))
        assert await reason(gate, "send_email", "c3") is not None

    async def test_not_by_a_call_that_was_blocked(self) -> None:
        gate = manager(f"{ASKS}\nblock read_web")
        assert await reason(gate, "read_web") is not None
        assert await reason(gate, "send_email") is None

    async def test_of_two_people(self) -> None:
        gate = manager("after read_web require 2 human-approvals before send_email")
        operator = Operator()
        await succeed(gate, "read_web")
        await gate.handle_tool_call(call("send_email"), operator.context)
        assert [asked.people for asked in operator.asked] == [2]

    async def test_the_same_tool(self) -> None:
        """The first deploy needs nobody."""
        gate = manager("after deploy require human-approval before deploy")
        await succeed(gate, "deploy", "c1")
        assert await reason(gate, "deploy", "c2") is not None

    async def test_a_condition_is_about_what_is_asked(self) -> None:
        gate = manager(f'{ASKS} when input.to = "x"')
        await succeed(gate, "read_web", "c1", to="y")
        assert await reason(gate, "send_email", "c2", to="y") is None
        assert await reason(gate, "send_email", "c3", to="x") is not None

    async def test_in_shadow_mode(self) -> None:
        gate, operator = manager(ASKS, mode="shadow"), Operator()
        await succeed(gate, "read_web", "c1")
        decision = await gate.handle_tool_call(call("send_email", "c2"), operator.context)
        assert (decision.outcome, operator.asked) == ("ask", [])

    async def test_a_page_that_was_never_read(self) -> None:
        """A call that was allowed and never ran takes its flag back, as it does a token (A-40)."""
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

    async def test_says_when(self) -> None:
        gate = manager(f"{BLOCKS} when input.sum > 10")
        await succeed(gate, "read_web", "c1")
        assert await reason(gate, "pay", "c2", sum=5) is None
        said = await reason(gate, "pay", "c3", sum=50)
        assert said == "pay is blocked after a call to read_web when input.sum > 10."


class TestOneCall:
    """A shell command may do both: what it reads counts before what it does."""

    @pytest.mark.parametrize("command", ["mail ada < x; curl y", "curl y | mail ada", "mail `curl y`"])
    async def test_of_both_names(self, command: str) -> None:
        gate = manager(MAPS + PUT + ASKS)
        assert await reason(gate, "bash", "c1", command="mail ada < x") is None
        assert await reason(gate, "bash", "c2", command=command) is not None

    async def test_of_a_tool_that_is_itself_the_cause(self) -> None:
        """`after bash`: a mapped command of the first `bash` call comes after none."""
        gate = manager(f"{MAPS}{PUT}after bash require human-approval before send_email")
        await succeed(gate, "bash", "c1", command="mail ada < x")
        assert await reason(gate, "bash", "c2", command="mail ada < x") is not None

    async def test_of_an_unclear_command(self) -> None:
        """What cannot be read may be what brings a rule into effect: it needs approval itself (G-64)."""
        gate = manager(f"map bash.command /^curl/ as read_web\n{BLOCKS}")
        assert await reason(gate, "bash", "c1", command="ls") is None
        assert await reason(gate, "bash", "c2", command="$TOOL y") is not None


@dataclass
class Plainly:
    """What such rules say of calls, without nets: whether each call needs approval or is blocked."""

    rules: Sequence[tuple[str, str, str]]
    begun: set[str] = field(default_factory=set[str])

    def verdict(self, names: Sequence[str]) -> str:
        found = "allow"
        for kind, cause, tool in self.rules:
            at_once = cause in names[:-1] and cause != tool
            if tool in names and (cause in self.begun or at_once):
                found = "block" if "block" in (kind, found) else "ask"
        return found


class TestLaw:
    @pytest.mark.parametrize("seed", range(examples(300)))
    async def test_any_calls(self, seed: int) -> None:
        """Any calls under any such rules, several names in one call too, as their words say."""
        chance, tools = random.Random(seed), ["a", "b", "c", "bash"]
        rules = [
            (chance.choice(["ask", "block"]), chance.choice(tools), chance.choice(tools))
            for _ in range(chance.randrange(1, 5))
        ]
        lines = [
            f"after {cause} require human-approval before {tool}"
            if kind == "ask"
            else f"block {tool} after {cause}"
            for kind, cause, tool in rules
        ]
        maps = "".join(f"map bash.command {name} as {name}\n" for name in "abc")
        gate = manager(f"{maps}allow unclear bash\n" + "\n".join(lines))
        plainly, operator = Plainly(rules), Operator()
        for number in range(12):
            some = chance.sample("abc", chance.randrange(3))
            made = call("bash", f"c{number}", command="; ".join(some) or "ls")
            if chance.random() < 0.5:
                made = call(chance.choice("abc"), f"c{number}")
            names = gate.names_of(made)
            operator.asked.clear()
            decision = await gate.handle_tool_call(made, operator.context)
            assert {"block": "block", "allow": "ask" if operator.asked else "allow"}[
                decision.outcome
            ] == plainly.verdict(names), (lines, names)
            if decision.outcome == "allow":
                plainly.begun.update(names)


class TestWords:
    def test_for_the_model(self) -> None:
        """The account of the rules says what calls brought into effect."""
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

    def test_for_people(self) -> None:
        rules = [net.rule for net in compile_rules(f"{ASKS} risk high\n{BLOCKS}").nets]
        assert [[*does(rule)] for rule in rules if rule is not None] == [
            ["send_email needs approval after a call of read_web", "risk high"],
            ["pay is blocked after a call of read_web"],
        ]


class TestHistory:
    def test_calls_that_failed_count(self) -> None:
        """A history's failed call unlocks nothing and brings rules into effect (G-25)."""
        gate = manager(f"{BLOCKS}\nrequire read_web before deploy")
        gate.replay([ReplayEntry("read_web", {}, is_error=True)])
        assert [verdict.kind for verdict in gate.classify(call("pay"))] == ["blocked", "abstain"]
        assert [verdict.kind for verdict in gate.classify(call("deploy"))] == ["abstain", "blocked"]

    def test_the_record_keeps_what_counts_first(self) -> None:
        [net] = [net for net in compile_rules(MAPS + PUT + ASKS).nets if net.leads]
        assert skill_net(net_record(net.name, net)).leads == ("read_web",)


class TestChecked:
    def test_what_can_never_be(self) -> None:
        """`require … before` and `block … after` of the same call leave no way, which the proof finds."""
        [error] = examine(compile_rules(f"require read_web before pay\n{BLOCKS}")).errors
        assert error.message == "'pay' can never be called, though no rule blocks it"

    def test_nothing_is_said_of_what_can(self) -> None:
        rules = compile_rules(f"{ASKS}\n{BLOCKS}\nrequire human-approval before pay\nblock rm after rm")
        found = examine(rules)
        assert (found.errors, found.warnings) == ((), ())
        assert [(tool.name, tool.most.most) for tool in found.tools][-1] == ("rm", 1)

    def test_a_block_leaves_the_rest_nothing(self) -> None:
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
                "'after' stands in approvals and blocks only",
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
                "after * require human-approval before send",
                "*",
                "'*' stands for nothing in a name, got '*'",
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
    def test_a_line_that_ends_too_soon(self, line: str) -> None:
        with pytest.raises(RuleError) as caught:
            compile_rules(line)
        [problem] = caught.value.problems
        assert problem.remedy.startswith("write: ")
        assert problem.column == len(line) + 1

    @pytest.mark.parametrize(
        "line",
        ["block after", "require after before b", "limit after to 1 per after2", "block a after a"],
    )
    def test_a_tool_may_be_called_after(self, line: str) -> None:
        assert len(compile_rules(line)) == 1
