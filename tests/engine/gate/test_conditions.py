"""Rules that apply only if their condition holds."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from interlock.engine import (
    GateContext,
    GateDecision,
    ReplayEntry,
    ToolCall,
    create_gate,
    create_gate_state,
    handle_tool_call,
)
from interlock.engine.core.condition import Compare, Not, Surroundings
from interlock.engine.gate import classify_nets
from interlock.engine.net.net import initial_state
from interlock.engine.verify import Way

from .support.helpers import Operator, call, everything, reason
from .support.ruled import Asker, approval, block, gate_of, is_, limit, nets_of, sequence, yes

PROD = is_("env", "prod")


@dataclass(frozen=True)
class Raising:
    """A matcher that raises."""

    text: str = "/x/"

    @staticmethod
    def search(_text: str) -> bool:
        raise OSError("no more memory")


class TestJurisdiction:
    """A net judges only calls for which its condition holds or is unknown."""

    async def test_unmet_condition_abstains(self) -> None:
        """G-10: if the condition does not hold, the net abstains."""
        gate = gate_of(block("deploy", PROD))
        assert await reason(gate, "deploy", env="dev") is None
        assert [v.kind for v in gate.classify(call("deploy", env="dev"))] == ["abstain"]
        assert await reason(gate, "deploy", env="prod") == 'deploy is blocked when input.env = "prod".'

    async def test_limit_counts_only_matching_calls(self) -> None:
        """G-15: a limit counts only calls that meet its condition."""
        gate = gate_of(limit("deploy", 1, None, PROD))
        assert await reason(gate, "deploy", "1", env="dev") is None
        assert await reason(gate, "deploy", "2", env="prod") is None
        assert await reason(gate, "deploy", "3", env="dev") is None
        assert await reason(gate, "deploy", "4", env="prod") is not None

    async def test_request_only_if_condition_holds(self) -> None:
        """G-13: a request is made only if the condition holds."""
        decide = Asker(gate_of(approval(when=PROD)))
        assert (await decide("deploy", env="dev")).outcome == "allow"
        assert decide.asked == []
        assert (await decide("deploy", True, env="prod")).outcome == "allow"
        assert len(decide.asked) == 1

    async def test_prerequisite_is_not_conditional(self) -> None:
        """G-50: the condition of a sequence does not apply to its prerequisite."""
        gate = gate_of(sequence("lint", "deploy", PROD))
        assert await reason(gate, "deploy", "0", env="prod") is not None
        assert await reason(gate, "deploy", "1", env="dev") is None
        assert await reason(gate, "lint", "2", env="dev") is None
        assert gate.states["require-lint-before-deploy"].pending.keys() == {"2"}

    async def test_decision_has_names_of_abstaining_nets(self) -> None:
        """G-50: the decision has all names of the call, also those whose nets abstain."""
        names = lambda made: ("deploy", made.tool_name)  # noqa: E731 - as short as a names function is
        gate = gate_of(block("deploy", PROD), block("format"), names=names)
        decision = await gate.handle_tool_call(call("bash", env="dev"))
        assert (decision.outcome, decision.names) == ("allow", ("deploy", "bash"))

    async def test_condition_removes_only_its_rules_names(self) -> None:
        """G-50: a condition removes only the names that its rule governs."""
        names = lambda made: ("deploy", "lint")  # noqa: E731 - as above
        gate = gate_of(sequence("lint", "deploy", PROD), names=names)
        decision = await gate.handle_tool_call(call("bash", env="dev"))
        assert [step.tool for step in decision.steps] == ["lint"]

    async def test_conditional_net_beside_plain_nets_is_judged(self) -> None:
        """G-10: a conditional net beside plain nets of the same tool is judged along with them."""
        gate = gate_of(limit("bash", 5, None), block("bash", PROD), limit("ls", 1, None))
        assert await reason(gate, "bash", "1", env="prod") is not None
        assert await reason(gate, "bash", "2", env="dev") is None
        assert gate.states["limit-bash-5"].marking["budget"] == 4


class TestUntold:
    """An unknown condition counts as met, and the reason says so."""

    async def test_block_names_the_missing_field(self) -> None:
        """G-18: a block by an unknown condition names the missing field."""
        gate = gate_of(block("write", Not(Compare(("path",), "under", "src/"))))
        assert await reason(gate, "write") == (
            'write is blocked when input.path not under "src/" '
            "(it applies because the call has no input.path)."
        )

    async def test_request_names_the_missing_field(self) -> None:
        """G-13: the request says why the condition is unknown; without an approver, the reason does."""
        gate = gate_of(approval(when=PROD))
        decide = Asker(gate)
        await decide("deploy", True)
        assert [request.note for request in decide.asked] == ["the call has no input.env"]
        assert await reason(gate, "deploy") == (
            "deploy requires human approval (it applies because the call has no input.env)."
        )

    async def test_no_note_if_condition_holds(self) -> None:
        """G-18: if the condition holds, the verdict has no note."""
        gate = gate_of(block("deploy", PROD))
        assert gate.classify(call("deploy", env="prod"))[0].note is None

    async def test_failing_matcher_blocks(self) -> None:
        """G-59: a condition that raises blocks in its net's name and moves nothing."""
        gate = gate_of(limit("bash", 5, None), block("bash", Compare(("command",), "matches", Raising())))
        before = everything(gate)
        decision = await gate.handle_tool_call(call("bash", command="ls"))
        assert decision.block
        assert decision.reason == "block-bash: condition failed: no more memory"
        assert everything(gate) == before


class TestSurroundings:
    """Paths are resolved where the calls run."""

    async def test_links_are_followed(self, tmp_path: Path) -> None:
        """G-10: a path through a link that leads out of the folder is not under the folder."""
        (tmp_path / "src").mkdir()
        (tmp_path / "etc").mkdir()
        (tmp_path / "src" / "out").symlink_to(tmp_path / "etc")
        here = Surroundings(str(tmp_path), None, os.path.realpath)
        gate = gate_of(block("write", Not(Compare(("path",), "under", "src/"))), surroundings=here)
        assert await reason(gate, "write", "1", path="src/a.py") is None
        assert await reason(gate, "write", "2", path="src/out/passwd") is not None
        assert await reason(gate, "write", "3", path="src/../etc/passwd") is not None

    async def test_create_gate_accepts_surroundings(self, tmp_path: Path) -> None:
        """G-30: `create_gate` accepts surroundings, too."""
        here = Surroundings(str(tmp_path))
        rule = block("write", Not(Compare(("path",), "under", str(tmp_path))))
        session = create_gate(nets_of(rule), surroundings=here).wrap_tools({"write": lambda path: path})
        assert await session.call("write", {"path": "a"}) == "a"
        assert [v.kind for v in session.manager.classify(call("write", path="../a"))] == ["blocked"]


class TestElsewhere:
    """Every other function that judges calls respects conditions."""

    def test_classify_nets_respects_conditions(self) -> None:
        """G-10: phase 1 alone respects conditions."""
        nets = nets_of(block("deploy", PROD))
        states = [initial_state(net) for net in nets]
        assert [classify_nets(nets, states, call("deploy", env=e))[0].kind for e in ("dev", "prod")] == [
            "abstain",
            "blocked",
        ]

    async def test_single_net_allows_excluded_calls(self) -> None:
        """G-12: a single net allows calls that its condition excludes, but not unknown tools."""
        (net,) = nets_of(approval(when=PROD))

        async def decide(made: ToolCall) -> GateDecision:
            return await handle_tool_call(made, GateContext(), net, initial_state(net))

        assert (await decide(call("deploy", env="dev"))).outcome == "allow"
        assert (await decide(call("deploy", env="prod"))).block
        assert (await decide(call("deploy"))).block
        assert (await decide(call("other", env="dev"))).block

    async def test_single_net_with_edit_out_of_condition(self) -> None:
        """G-12: if an edit leads out of the condition, the editor's approval is enough."""
        (net,) = nets_of(approval(when=PROD))
        operator = Operator(yes(input={"env": "dev"}))
        state = create_gate_state(initial_state(net).marking)
        decision = await handle_tool_call(call("deploy", env="prod"), operator.context, net, state)
        assert (decision.outcome, decision.call.input) == ("allow", {"env": "dev"})

    async def test_replayed_call_outside_condition_moves_nothing(self) -> None:
        """G-25: a replayed call that does not meet a condition does not move the net."""
        gate = gate_of(limit("deploy", 2, None, PROD))
        gate.replay([ReplayEntry("deploy", {"env": e}) for e in ("dev", "prod", "dev")])
        assert gate.states["limit-deploy-2"].marking["budget"] == 1
        gate.replay(["deploy"])
        assert gate.states["limit-deploy-2"].marking["budget"] == 0

    def test_explanation_names_unmet_condition_or_missing_field(self) -> None:
        """G-60: an abstaining net names the unmet condition, an applying one the missing field."""
        gate = gate_of(block("deploy", PROD), approval(when=is_("dry", value=False)))
        explained = gate.explain(call("deploy", env="dev"))
        assert explained.outcome == "ask"
        assert [(n.verdict.kind, n.verdict.note) for n in explained.nets] == [
            ("abstain", 'input.env = "prod" does not hold'),
            ("gated", "the call has no input.dry"),
        ]

    def test_abstaining_net_does_not_affect_the_way(self) -> None:
        """G-60: a net that abstains by its condition does not affect the proved way."""
        gate = gate_of(block("deploy", PROD), sequence("lint", "deploy"))
        way = gate.explain(call("deploy", env="dev")).way
        assert isinstance(way, Way)
        assert [made.names for made in way.calls] == [("lint",), ("deploy",)]

    async def test_edited_call_is_judged_by_other_conditions(self) -> None:
        """G-15: an edit that meets another rule's condition is judged by that rule."""
        decide = Asker(gate_of(approval(), block("deploy", PROD)))
        decision = await decide("deploy", yes(input={"env": "prod"}), env="dev")
        assert decision.block
        assert decision.net == "block-deploy"
