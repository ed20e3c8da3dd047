"""Names that the gate gives to calls, and names that only look like those in the rules."""

from __future__ import annotations

import pytest

from interlock.engine import (
    ApprovalAnswer,
    ApprovalRequest,
    GateContext,
    GateDecision,
    GateManager,
    GrantTerms,
    ReplayEntry,
    Transition,
    create_gate,
    create_gate_manager,
    define_skill_net,
    handle_tool_call,
)
from interlock.engine.agents.tool import tool, tool_table
from interlock.engine.gate.types import ToolResult
from interlock.engine.gateway.protocol.agent_methods import OpenSession
from interlock.engine.net.net import ToolCall, initial_state
from interlock.rules import compile_rules

UNREAD = "eval $x"


def gate(text: str, **options: object) -> GateManager:
    return create_gate_manager(compile_rules(text).nets, **options)


async def decide(
    manager: GateManager, tool: str, yes: bool | None = None, **fields: object
) -> GateDecision:
    """Decide a call with a fresh id; `yes` is the answer to requests, or None without an approver."""
    decide.calls += 1
    context = GateContext() if yes is None else GateContext(lambda _: yes)
    return await manager.handle_tool_call(ToolCall(f"c{decide.calls}", tool, fields), context)


decide.calls = 0


def succeed(manager: GateManager, decision: GateDecision) -> None:
    call = decision.call
    manager.handle_tool_result(ToolResult(call.tool_call_id, call.tool_name, call.input))


class TestUnclear:
    async def test_rules_can_name_it(self) -> None:
        """G-64: rules about `unclear` can block, limit and ask, with conditions."""
        maps = "map bash.command rm as delete\nblock delete\n"
        manager = gate(f"{maps}block unclear when input.quiet = true")
        assert (await decide(manager, "bash", command=UNREAD, quiet=False)).outcome == "allow"
        blocked = await decide(manager, "bash", command=UNREAD, quiet=True)
        assert blocked.outcome == "block"
        assert blocked.names == ("unclear", "bash")
        manager = gate(f"{maps}limit unclear to 1 per session")
        assert (await decide(manager, "bash", command=UNREAD)).outcome == "allow"
        assert (await decide(manager, "bash", command=UNREAD)).outcome == "block"
        assert (await decide(manager, "bash", command="ls")).outcome == "allow"

    async def test_needs_approval_by_default(self) -> None:
        """G-64: an unreadable command needs approval by default, and the decision says why."""
        manager = gate("map bash.command rm as delete\nblock delete")
        alone = await decide(manager, "bash", command=UNREAD)
        assert alone.outcome == "block"
        assert alone.reason is not None
        assert alone.reason.startswith(
            "unclear requires human approval. The call cannot be read to its end"
        )
        passed = await decide(manager, "bash", yes=True, command=UNREAD)
        assert passed.outcome == "allow"
        assert passed.unclear is not None
        assert passed.unclear.startswith("command: ")
        denied = await decide(manager, "bash", yes=False, command=UNREAD)
        assert (denied.outcome, denied.unclear) == ("block", passed.unclear)
        assert (await decide(manager, "bash", command="ls")).unclear is None

    async def test_explanation_says_why(self) -> None:
        """The explanation of an unclear call says why it is unclear."""
        manager = gate("map bash.command rm as delete\nblock delete")
        explained = manager.explain(ToolCall("c", "bash", {"command": UNREAD}))
        assert explained.outcome == "ask"
        assert explained.unclear is not None
        assert str(explained.way) != ""

    @pytest.mark.parametrize("mode", ["enforce", "shadow"])
    async def test_success_unlocks_nothing(self, mode: str) -> None:
        """G-64: the success of an unclear call fulfils no `require`, under none of its names."""
        rules = (
            "map bash.command ./test as test\nallow unclear bash\nrequire test before deploy\n"
            "require bash before release\nlimit deploy to 1 per bash"
        )
        manager = gate(rules, mode=mode)
        unread = await decide(manager, "bash", command="./test; $x")
        assert (unread.outcome, unread.steps) == ("allow", ())
        assert "test" in unread.names
        succeed(manager, unread)
        assert (await decide(manager, "deploy")).outcome == "block"
        assert (await decide(manager, "release")).outcome == "block"
        succeed(manager, await decide(manager, "bash", command="./test"))
        assert (await decide(manager, "deploy")).outcome == "allow"
        assert (await decide(manager, "release")).outcome == "allow"

    async def test_refills_nothing(self) -> None:
        """G-64: an unclear call refills no limit."""
        manager = gate("map bash.command x as y\nlimit deploy to 1 per bash")
        await decide(manager, "deploy")
        succeed(manager, await decide(manager, "bash", command=UNREAD))
        assert (await decide(manager, "deploy")).outcome == "block"
        succeed(manager, await decide(manager, "bash", command="ls"))
        assert (await decide(manager, "deploy")).outcome == "allow"

    def test_replayed_success_unlocks_nothing(self) -> None:
        """G-64: an unclear call in a replayed history unlocks nothing either."""
        manager = gate("map bash.command ./test as test\nrequire test before deploy")
        manager.replay([ReplayEntry("bash", {"command": "./test; $x"})])
        assert manager.states["require-test-before-deploy"].marking["gate"] == 0
        manager.replay([ReplayEntry("bash", {"command": "./test"})])
        assert manager.states["require-test-before-deploy"].marking["gate"] == 1

    async def test_not_covered_by_a_grant_by_names(self) -> None:
        """A grant by names covers no call that may do more than its names tell."""
        rules = "map bash.command ./deploy as deploy\nrequire human-approval before deploy\n"
        manager = gate(f"{rules}allow unclear bash")
        asked: list[ApprovalRequest] = []

        def confirm(request: ApprovalRequest) -> ApprovalAnswer:
            asked.append(request)
            return ApprovalAnswer(
                True, by="maria", grant=GrantTerms("names") if len(asked) == 1 else None
            )

        for number, command in enumerate(
            ("./deploy a", "./deploy a", "./deploy a; $x", "$x; ./deploy a")
        ):
            call = ToolCall(f"g{number}", "bash", {"command": command})
            assert (await manager.handle_tool_call(call, GateContext(confirm))).outcome == "allow"
        assert [request.call.tool_call_id for request in asked] == ["g0", "g2", "g3"]

    async def test_tool_of_that_name_is_not_unclear(self) -> None:
        """A tool called `unclear` is judged by the rules for that name and `anything-else`."""
        manager = gate("map bash.command rm as delete\nblock delete\nblock anything-else")
        decision = await decide(manager, "unclear", yes=True)
        assert decision.outcome == "block"
        assert set(decision.names) == {"unclear", "anything-else"}
        manager = gate("map bash.command rm as delete\nblock delete")
        assert (await decide(manager, "unclear")).outcome == "block"


class TestAllowedUnclear:
    """`allow unclear TOOL` beside other rules about unreadable calls."""

    RISKY = "map {0}.command rm as delete\n"
    BOTH = f"{RISKY.format('bash')}{RISKY.format('sh')}block delete\nallow unclear bash\n"

    async def test_holds_for_its_tool_only(self) -> None:
        """G-64: the implied rule stays for other tools; the allowed call keeps its reason."""
        manager = gate(self.BOTH)
        passed = await decide(manager, "bash", command=UNREAD)
        assert (passed.outcome, passed.names) == ("allow", ("bash",))
        assert passed.unclear is not None
        stopped = await decide(manager, "sh", command=UNREAD)
        assert (stopped.outcome, stopped.names) == ("block", ("unclear", "sh"))

    @pytest.mark.parametrize("tool", ["bash", "sh"])
    @pytest.mark.parametrize(
        "rule",
        ["block unclear", "require human-approval before unclear", "limit unclear to 1 per session"],
    )
    async def test_gives_way_to_a_written_rule(self, rule: str, tool: str) -> None:
        """G-64: a rule that names `unclear` applies to all tools despite `allow unclear`."""
        manager = gate(f"{self.BOTH}{rule}")
        first = await decide(manager, tool, command=UNREAD)
        assert "unclear" in first.names
        second = await decide(manager, tool, command=UNREAD)
        assert second.outcome == "block"


class TestToolDefinitions:
    @pytest.mark.parametrize("name", ["unclear", "anything-else", "Unclear ", "ANYTHING-else"])
    def test_reserved_names_are_refused(self, name: str) -> None:
        """G-64, G-66: tools with reserved names are refused, and the error says what to do."""

        @tool(name=name)
        async def run() -> str:
            """Do nothing."""
            return ""

        for define in (
            lambda: create_gate([]).wrap_tools({name: print}),
            lambda: tool_table([run]),
            lambda: OpenSession(agent="a", tools=("bash", name)),
        ):
            with pytest.raises(ValueError, match=r"reserved name.*give the tool another name"):
                define()


class TestAnythingElse:
    RULES = (
        "block anything-else\nlimit read to 9 per session\nmap bash.command rm as delete\n"
        'block slack.delete\nblock deploy when input.env = "prod"\n'
    )

    @pytest.mark.parametrize("tool", ["read", "bash", "slack", "deploy"])
    async def test_excludes_named_tools(self, tool: str) -> None:
        """G-66: a tool is named by a rule, map or action, whether or not that applies."""
        decision = await decide(gate(self.RULES), tool, env="dev", command="ls", action="post")
        assert (decision.outcome, "anything-else" in decision.names) == ("allow", False)

    @pytest.mark.parametrize("tool", ["write", "anything-else", "delete_all", "unclear"])
    async def test_default_deny_blocks_unknown_tools(self, tool: str) -> None:
        """G-66: `block anything-else` is a default deny, and the reason names the unknown tool."""
        manager = gate(self.RULES)
        decision = await decide(manager, tool)
        assert decision.outcome == "block"
        assert decision.names[0] == "anything-else"
        assert (
            decision.reason == f"anything-else is blocked and cannot be called. No rule names '{tool}'."
        )
        assert manager.pass_at_once(ToolCall("p", tool)) is None

    async def test_default_can_ask_and_limit(self) -> None:
        """G-66: a default can also ask, or limit all such calls together."""
        manager = gate("require human-approval before anything-else\nlimit read to 1 per session")
        assert (await decide(manager, "write")).outcome == "block"
        assert (await decide(manager, "write", yes=True)).outcome == "allow"
        assert (await decide(manager, "read")).outcome == "allow"
        manager = gate("limit anything-else to 2 per session")
        outcomes = [(await decide(manager, tool)).outcome for tool in ("a", "b", "c")]
        assert outcomes == ["allow", "allow", "block"]

    async def test_only_active_nets_name_tools(self) -> None:
        """G-66: only active nets count as naming a tool."""
        manager = create_gate_manager(
            registry=compile_rules("block anything-else\nlimit read to 9 per session").registry
        )
        assert (await decide(manager, "read")).outcome == "allow"
        manager.remove_net("limit-read-9")
        assert (await decide(manager, "read")).outcome == "block"

    @pytest.mark.parametrize(
        ("default", "more", "left"),
        [
            ("block anything-else", "limit deploy to 5 per session", True),
            ("block anything-else", "require deploy before rm", True),
            ("block anything-else", "require human-approval before deploy", True),
            ("block anything-else", "block deploy when input.env = 1", True),
            ("block anything-else", "block deploy", False),
            ("block anything-else", "limit rm to 5 per session", False),
            (
                "require 2 human-approvals before anything-else",
                "require human-approval before deploy",
                True,
            ),
            (
                "require human-approval before anything-else no grants",
                "require 2 human-approvals before deploy",
                True,
            ),
            (
                "require 2 human-approvals before anything-else",
                "require 2 human-approvals before deploy no grants",
                False,
            ),
            ("limit anything-else to 1 per session", "limit deploy to 5 per session", True),
            ("block rm", "limit deploy to 5 per session", False),
            ("require 2 human-approvals before deploy", "limit Deploy to 5 per session", True),
            ("require 2 human-approvals before deploy", "limit deploy to 5 per session", False),
            ("require 2 human-approvals before deploy", "block DEPLOY", False),
            ("require 2 human-approvals before deploy", "require human-approval before DEPLOY", True),
        ],
    )
    async def test_activated_net_removes_its_names(self, default: str, more: str, left: bool) -> None:
        """G-66: a net that is switched on takes its names out of the rules on `anything-else`."""
        rules = compile_rules(f"{default}\nlimit rm to 3 per session\n{more}").registry
        *first, added = rules
        manager = GateManager(registry=rules, active=first)
        assert bool(manager.loses_to(added)) is left
        assert manager.loses_to(first[0]) == manager.loses_to("unknown") == ()

    async def test_names_in_an_active_block_too(self) -> None:
        """A net counts as taking calls from the default even if an active block names them too."""
        rules = compile_rules("block anything-else\nblock deploy\nlimit deploy to 5 per session").registry
        default, block, limit = rules
        manager = GateManager(registry=rules, active=(default, block))
        assert manager.loses_to(limit) == (default,)
        off = GateManager(registry=rules, active=(block,))
        assert (off.loses_to(limit), off.loses_to(limit, (default,))) == ((), (default,))

    async def test_net_with_callback_may_take_any_call(self) -> None:
        """The names of a net with a callback are unknown, so it may take any call."""
        net = define_skill_net(
            "own", places=("p",), transitions=(), initial_marking={"p": 1}, tool_mapper=lambda _: "x"
        )
        rules = {**compile_rules("block anything-else").registry, "own": net}
        manager = GateManager(registry=rules, active=("block-anything-else",))
        assert manager.loses_to("own") == ("block-anything-else",)

    async def test_free_and_renamed_tools_count_as_named(self) -> None:
        """G-66: a net's free tools count as named, and so does a tool that a mapper renames."""
        free = define_skill_net(
            "free", places=("p",), transitions=(), initial_marking={"p": 1}, free_tools=("look",)
        )
        mapped = define_skill_net(
            "mapped",
            places=("p",),
            transitions=(Transition("go", ("p",), ("p",), ("moved",)),),
            initial_marking={"p": 1},
            tool_mapper=lambda call: "moved" if call.tool_name == "mv" else call.tool_name,
        )
        manager = create_gate_manager([*compile_rules("block anything-else").nets, free, mapped])
        outcomes = {tool: (await decide(manager, tool)).outcome for tool in ("look", "mv", "rm")}
        assert outcomes == {"look": "allow", "mv": "allow", "rm": "block"}


FOLDED = [
    "Deploy",
    "DEPLOY",
    " deploy",
    "deploy\n",
    "dep\u200bloy",
    "ｄｅｐｌｏｙ",
    "deploy\u00a0",
    "deploy\0",
]


class TestFoldedNames:
    @pytest.mark.parametrize("tool", FOLDED)
    @pytest.mark.parametrize("rules", ["block deploy", "limit deploy to 1 per session\nblock deploy"])
    async def test_blocked_like_the_name_in_the_rules(self, tool: str, rules: str) -> None:
        """G-66: a name that only folds to one in the rules is blocked like that one."""
        manager = gate(rules)
        decision = await decide(manager, tool)
        assert decision.outcome == "block"
        assert (decision.judged_as, decision.names) == (("deploy",), ("deploy", tool))
        assert manager.explain(ToolCall("e", tool)).judged_as == ("deploy",)
        assert (await decide(manager, "deploy")).judged_as == ()

    @pytest.mark.parametrize("tool", ["Bash", "BASH ", "b\u00adash"])
    async def test_maps_apply_to_folded_names(self, tool: str) -> None:
        """G-66: the maps of a tool apply to every name that folds to its name."""
        manager = gate("map bash.command rm as delete\nblock delete")
        decision = await decide(manager, tool, command="rm x")
        assert decision.outcome == "block"
        assert decision.names == ("delete", "bash", tool)
        assert (await decide(manager, tool, command=UNREAD)).unclear is not None

    async def test_name_in_the_rules_is_judged_by_itself(self) -> None:
        """A name that itself is in the rules is judged only by that."""
        manager = gate("block deploy\nlimit Deploy to 1 per session")
        decision = await decide(manager, "Deploy")
        assert (decision.outcome, decision.judged_as) == ("allow", ())

    async def test_folded_name_unlocks_nothing(self) -> None:
        """A name that only folds to a tool's name unlocks nothing by its success."""
        manager = gate("require test before deploy")
        succeed(manager, await decide(manager, "Test"))
        assert (await decide(manager, "deploy")).outcome == "block"
        succeed(manager, await decide(manager, "test"))
        assert (await decide(manager, "deploy")).outcome == "allow"

    async def test_single_net_does_not_allow_them(self) -> None:
        """G-12: a single net allows no name that only folds to its own."""
        (net,) = compile_rules("limit deploy to 1 per session").nets
        call = ToolCall("c", "Deploy")
        decision = await handle_tool_call(call, GateContext(), net, initial_state(net))
        assert decision.outcome == "block"

    @pytest.mark.parametrize("tool", ["deploys", "de ploy", "déploy", "deplоy"])
    async def test_different_letters_make_a_different_name(self, tool: str) -> None:
        """Different letters make a different name."""
        assert (await decide(gate("block deploy"), tool)).judged_as == ()
