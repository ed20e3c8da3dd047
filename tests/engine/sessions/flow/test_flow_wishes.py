"""Tools with an approval hint in flows, also those that are known only during the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from interlock.engine.agents import C, ScriptedModel, Tool, tool
from interlock.engine.flows import AgentConfig, AgentNode, Context, Flow, FlowBuilder
from interlock.engine.history.model.events import (
    ApprovalRequested,
    CallDecided,
    SessionOpened,
    SessionResumed,
)
from interlock.engine.hub.hub import Hub
from interlock.engine.net.net import NetError
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

from ...support.flow_hosts import asked, begin, bodies, checked, ended, go_on, hubs, killed
from ...support.release import URL, Commit, Notes, Released, deploy, ran

__all__ = ["hubs"]

ASK = "require human-approval before deploy\n"
SUBMIT = C(submit={"text": "notes"})
KEY = "approve-when-a-tool-asks"


def erasing(wishes: bool | Callable[[Mapping[str, object]], bool]) -> Tool:
    """A tool with this approval hint."""

    @tool(name="erase", needs_approval=wishes)
    async def erase(files: int = 1) -> str:
        """Remove everything."""
        ran.append(f"erase {files}")
        return "gone"

    return erase


def flow_of(*tools: Tool, known: Sequence[Tool] = ()) -> type[Flow]:
    """A flow whose agent gets `tools` in the run; only `known` is declared before."""

    class Write(AgentNode[Commit, Notes]):
        config = AgentConfig("Write.", URL, known) if known else None

        def configure(self, value: Commit, ctx: Context) -> AgentConfig:
            return AgentConfig(f"Write about {value.sha}.", URL, tools)

    class Short(Flow[Commit, Notes]):
        @classmethod
        def build(cls, g: FlowBuilder) -> FlowBuilder:
            return g.agent(Write)

    return Short


class TestChosenInTheRun:
    @pytest.mark.parametrize("approved", [True, False])
    async def test_configured_tool_needs_approval_without_a_rule(
        self, hubs: Callable[[], Hub], approved: bool
    ) -> None:
        """P-82: a tool that only `configure` provides does not run before it is approved."""
        hub = hubs()
        session = await begin(hub, flow_of(erasing(True)), C(erase={}), SUBMIT)
        request = await asked(hub)
        assert (request.called, request.net, ran) == ("erase", KEY, [])
        await hub.decide(request.id, approved=approved, by="ada", reason="so")
        assert (await ended(hub, session)).status == "done"
        assert ran == (["erase 1"] if approved else [])
        [opened] = bodies(hub, session, SessionOpened)
        assert (KEY in [net.key for net in opened.nets], opened.active) == (True, (KEY,))
        await checked(hub, session)

    async def test_function_hint_depends_on_the_input(self, hubs: Callable[[], Hub]) -> None:
        """P-82: a hint that is a function asks if it returns true or raises."""
        hub = hubs()
        flow = flow_of(erasing(lambda args: args["files"] > 1))
        calls = C(erase={"files": 1}), C(erase={}), C(erase={"files": 2})
        session = await begin(hub, flow, *calls, SUBMIT)
        for _ in range(2):
            await hub.decide((await asked(hub)).id, approved=False, by="ada")
        assert (await ended(hub, session)).status == "done"
        assert ran == ["erase 1"]
        assert [call.input for call in bodies(hub, session, ApprovalRequested)] == [{}, {"files": 2}]

    async def test_tool_without_hint_needs_no_approval(self, hubs: Callable[[], Hub]) -> None:
        """A tool without a hint needs no approval beside one that has a hint."""
        hub = hubs()
        session = await begin(hub, flow_of(erasing(True), deploy), C(deploy={}), SUBMIT)
        assert (await ended(hub, session)).status == "done"
        assert (ran, bodies(hub, session, ApprovalRequested)) == (["deploy staging"], [])

    async def test_rule_makes_the_only_request(self, hubs: Callable[[], Hub]) -> None:
        """If a rule already asks for the tool, the only request is the rule's."""
        hub = hubs()
        rules = "require human-approval before erase\n"
        session = await begin(hub, flow_of(erasing(True)), C(erase={}), SUBMIT, rules=rules)
        request = await asked(hub)
        assert request.rule is not None
        await hub.decide(request.id, approved=True, by="ada")
        assert (await ended(hub, session)).status == "done"
        assert len(bodies(hub, session, ApprovalRequested)) == 1

    @pytest.mark.parametrize("known", [True, False])
    async def test_hint_covers_calls_outside_the_rule(self, hubs: Callable[[], Hub], known: bool) -> None:
        """Calls that the rule does not cover are requested by the hint, and each call only once."""
        hub = hubs()
        erase = erasing(True)
        flow = flow_of(erase, known=[erase] if known else ())
        rules = "require human-approval before erase when input.files > 1\n"
        calls = C(erase={"files": 1}), C(erase={"files": 2})
        session = await begin(hub, flow, *calls, SUBMIT, rules=rules)
        by_wish = await asked(hub)
        assert by_wish.net == ("approve-before-erase#2" if known else KEY)
        await hub.decide(by_wish.id, approved=True, by="ada")
        by_rule = await asked(hub)
        assert (by_rule.net, ran) == ("approve-before-erase", ["erase 1"])
        await hub.decide(by_rule.id, approved=False, by="ada")
        assert (await ended(hub, session)).status == "done"
        assert (ran, len(bodies(hub, session, ApprovalRequested))) == (["erase 1"], 2)
        await checked(hub, session)

    async def test_replacing_tools_hint_applies(self, hubs: Callable[[], Hub]) -> None:
        """If `configure` replaces a known tool of the same name, the new tool's hint applies."""
        hub = hubs()
        flow = flow_of(erasing(True), known=[erasing(lambda args: False)])
        session = await begin(hub, flow, C(erase={}), SUBMIT)
        request = await asked(hub)
        assert request.net == KEY
        await hub.decide(request.id, approved=False, by="ada")
        await ended(hub, session)
        assert ran == []

    async def test_resumed_run_repeats_open_request_only(self, hubs: Callable[[], Hub]) -> None:
        """P-94: a resumed run repeats the open request, and asks nothing for tools without hints."""
        flow = flow_of(erasing(True), deploy)
        hub = hubs()
        session = await begin(hub, flow, C(erase={}), rules=ASK)
        waited = await asked(hub)
        await killed(hub, session)
        hub = hubs()
        await go_on(hub, session, flow, C(deploy={}), rules=ASK)
        again = await asked(hub)
        assert (again.call_id, again.net) == (waited.call_id, KEY)
        await hub.decide(again.id, approved=True, by="ada")
        waited = await asked(hub)
        assert waited.net == "approve-before-deploy"
        await killed(hub, session)
        hub = hubs()
        await go_on(hub, session, flow, SUBMIT, rules=ASK)
        await hub.decide((await asked(hub)).id, approved=True, by="ada")
        assert (await ended(hub, session)).status == "done"
        assert ran == ["erase 1", "deploy staging"]
        assert len(bodies(hub, session, ApprovalRequested)) == 4
        await checked(hub, session)

    async def test_run_begun_without_configure_is_resumed(self, hubs: Callable[[], Hub]) -> None:
        """G-63: a run whose agent has since gained `configure` is resumed with the additional net."""
        hub = hubs()

        class Write(AgentNode[Commit, Notes]):
            config = AgentConfig("Write.", URL, [deploy])

        class Short(Flow[Commit, Notes]):
            @classmethod
            def build(cls, g: FlowBuilder) -> FlowBuilder:
                return g.agent(Write)

        session = await begin(hub, Short)
        await ended(hub, session)
        await hub.close_session(session, by="maria")
        await go_on(hub, session, flow_of(erasing(True)), C(erase={}), SUBMIT)
        await hub.decide((await asked(hub)).id, approved=False, by="ada")
        await ended(hub, session)
        assert ran == []
        [resumed] = bodies(hub, session, SessionResumed)
        assert (KEY in [net.key for net in resumed.nets], resumed.active) == (True, (KEY,))

    async def test_shadow_mode_records_would_be_approval(self, hubs: Callable[[], Hub]) -> None:
        """In shadow mode no approval is requested, and the record says that one would have been."""
        hub = hubs()
        session = await begin(hub, flow_of(erasing(True)), C(erase={}), SUBMIT, mode="shadow")
        assert (await ended(hub, session)).status == "done"
        [decided] = bodies(hub, session, CallDecided)
        assert (decided.outcome, ran) == ("ask", ["erase 1"])


class TestKnown:
    async def test_tools_of_one_name_have_their_own_hints(self, hubs: Callable[[], Hub]) -> None:
        """If two agents have tools of the same name, each tool's own hint applies."""

        class First(AgentNode[Commit, Notes]):
            config = AgentConfig("", ScriptedModel([C(erase={}), SUBMIT]), [erasing(lambda args: False)])

        class Second(AgentNode[Notes, Released]):
            config = AgentConfig("", ScriptedModel([C(erase={"files": 2}), SUBMIT]), [erasing(True)])

        class Both(Flow[Commit, Released]):
            @classmethod
            def build(cls, g: FlowBuilder) -> FlowBuilder:
                return g.agent(First).agent(Second)

        hub = hubs()
        session = await hub.open_flow(Both, Commit(sha="a"), SessionConfig({}))
        await hub.decide((await asked(hub)).id, approved=False, by="ada")
        assert (await ended(hub, session)).status == "done"
        assert ran == ["erase 1"]

    async def test_reserved_net_name_is_refused(self, hubs: Callable[[], Hub]) -> None:
        """A rule's net with the reserved name of the hints' net is refused."""
        registry = {KEY: compile_rules(ASK).registry["approve-before-deploy"]}
        with pytest.raises(NetError, match=KEY):
            await hubs().open_flow(flow_of(erasing(True)), Commit(sha="a"), SessionConfig(registry))
