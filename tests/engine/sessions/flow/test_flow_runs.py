"""Flows under the hub: recorded steps, requests in the queue, and resuming after a crash."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from pydantic import BaseModel

from interlock.engine.agents import C, Reply
from interlock.engine.agents.events import Usage
from interlock.engine.flows import Context, Flow, FlowBuilder, SnapLoadError, Traced
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import (
    ApprovalDecided,
    ApprovalRequested,
    CallDecided,
    CallResult,
    SessionOpened,
    SessionStatus,
)
from interlock.engine.history.model.records import FlowStepped
from interlock.engine.hub.hub import Hub
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

from ...support.flow_hosts import asked, begin, bodies, checked, ended, go_on, hubs, killed
from ...support.release import Commit, Notes, Release, Script, Short, ran

__all__ = ["hubs"]

ASK = "require human-approval before deploy\n"
SUBMIT = C(submit={"text": "notes"})


class TestRun:
    async def test_each_step_is_recorded(self, hubs: Callable[[], Hub]) -> None:
        """P-50, P-90: each step has an event with the resulting states and a snapshot."""
        hub = hubs()
        session = await begin(hub, Short, C(test={}), SUBMIT)
        state = await ended(hub, session)
        assert (state.kind, state.status, state.agent) == ("flow", "done", "Short")
        steps = bodies(hub, session, FlowStepped)
        assert [(s.step, s.node, s.live, s.done) for s in steps] == [
            (0, None, ("Commit",), False),
            (1, "Commit", ("Draft",), False),
            (2, "Draft", ("Draft",), False),
            (3, "Draft", ("Notes",), True),
        ]
        assert all(step.output["snapshot"] for step in steps)
        assert [len(step.output["history"]) for step in steps] == [0, 0, 3, 2]
        assert ran == ["collect", "test"]
        assert '"notes"' in (state.transcript[-1].text or "")

    async def test_record_contains_graph_and_position(self, hubs: Callable[[], Hub]) -> None:
        """The record alone contains the graph and the run's position in it."""
        hub = hubs()
        session = await begin(hub, Short, SUBMIT)
        await ended(hub, session)
        [opened] = bodies(hub, session, SessionOpened)
        assert opened.flow.net.places == ("Commit", "Draft", "Notes")
        state = fold(open_reader(hub.database).events(session))
        assert state.flow.marking == {"Commit": 0, "Draft": 0, "Notes": 1}

    async def test_failed_step_can_be_resumed(self, hubs: Callable[[], Hub]) -> None:
        """P-56: a failed run keeps its position and reason, and resumes from there."""
        hub = hubs()
        session = await begin(hub, Short)
        state = await ended(hub, session)
        assert state.status == "failed"
        assert "agent 'Draft'" in (state.error or "")
        assert [s.step for s in bodies(hub, session, FlowStepped)] == [0, 1]
        await hub.close_session(session, by="maria")
        assert await go_on(hub, session, Short, SUBMIT) == session
        assert (await ended(hub, session)).status == "done"
        assert ran == ["collect"]

    async def test_tokens_and_cost_include_failed_steps(self, hubs: Callable[[], Hub]) -> None:
        """The tokens and cost of a run include all model calls, also those of a failed step."""
        hub = hubs()
        usage = Usage(input=100, output=7, cost=0.25)
        bad = Reply(calls=C(nope={}).calls * 2, usage=usage)
        session = await begin(hub, Short, Reply(calls=C(test={}).calls, usage=usage), bad)
        state = await ended(hub, session)
        assert (state.input_tokens, state.output_tokens, state.cost) == (200, 14, 0.5)


class TestTraced:
    async def test_tracer_receives_steps_and_calls_live(self, hubs: Callable[[], Hub]) -> None:
        """Section 12: a tracer of a hosted run receives steps, model calls and tool calls."""
        hub, traced = hubs(), list[Traced]()
        session = await hub.open_flow(
            Short,
            Commit(sha="a"),
            SessionConfig({}),
            factory=Script([C(test={}), SUBMIT]),
            trace=traced.append,
        )
        await ended(hub, session)
        assert [type(each).__name__ for each in traced] == [
            *("StepBegan", "StepEnded"),
            *("StepBegan", "ModelCalled", "ToolRan", "StepEnded"),
            *("StepBegan", "ModelCalled", "StepEnded"),
        ]


class TestDeps:
    async def test_run_uses_dependencies_of_its_flow(self, hubs: Callable[[], Hub]) -> None:
        """P-159: a run without its own context uses the dependencies of its flow."""

        async def count(commit: Commit, ctx: Context) -> Notes:
            return Notes(text=f"{ctx.require(list)[0]} files")

        class Counted(Flow[Commit, Notes]):
            @classmethod
            def build(cls, g: FlowBuilder) -> FlowBuilder:
                return g.work(count)

            @classmethod
            def deps(cls) -> dict[type, object]:
                return {list: ["twelve"]}

        hub = hubs()
        state = await ended(hub, await begin(hub, Counted))
        assert "twelve files" in (state.transcript[-1].text or "")
        bare = await hub.open_flow(
            Counted, Commit(sha="a"), SessionConfig({}), context=Context(), session_id="bare"
        )
        error = (await ended(hub, bare)).error or ""
        assert "the context has no list; give it in the flow's deps()" in error
        assert error.endswith("(in work 'Commit')")


class TestGate:
    async def test_agent_node_calls_are_judged(self, hubs: Callable[[], Hub]) -> None:
        """Calls of an agent node are judged by the nets, and their results move the nets."""
        hub = hubs()
        replies = C(deploy={}), C(test={}), C(deploy={}), SUBMIT
        session = await begin(hub, Short, *replies, rules="require test before deploy\n")
        await ended(hub, session)
        assert ran == ["collect", "test", "deploy staging"]
        decided = bodies(hub, session, CallDecided)
        assert [(d.tool, d.outcome) for d in decided] == [
            ("deploy", "block"),
            ("test", "allow"),
            ("deploy", "allow"),
        ]
        assert [r.output for r in bodies(hub, session, CallResult)] == ["all pass", "deployed to staging"]

    async def test_approved_in_the_queue(self, hubs: Callable[[], Hub]) -> None:
        """P-82: a call that needs approval waits in the queue and runs once approved."""
        hub = hubs()
        session = await begin(hub, Short, C(deploy={"env": "prod"}), SUBMIT, rules=ASK)
        request = await asked(hub)
        assert (request.tool, request.input, request.wants) == ("deploy", {"env": "prod"}, None)
        assert ran == ["collect"]
        [*_, last] = bodies(hub, session, FlowStepped)
        assert last.waits == request.call_id
        assert (await hub.decide(request.id, approved=True, by="ada")).ok
        assert (await ended(hub, session)).status == "done"
        assert ran == ["collect", "deploy prod"]

    async def test_edited_input_runs(self, hubs: Callable[[], Hub]) -> None:
        """P-82: an edited input runs in place of the model's."""
        hub = hubs()
        session = await begin(hub, Short, C(deploy={"env": "prod"}), SUBMIT, rules=ASK)
        request = await asked(hub)
        assert (await hub.decide(request.id, approved=True, by="ada", input={"env": "test"})).ok
        await ended(hub, session)
        assert ran == ["collect", "deploy test"]

    async def test_denial_reason_becomes_the_result(self, hubs: Callable[[], Hub]) -> None:
        """P-82: the reason of a denial becomes the call's result, and the agent continues."""
        hub = hubs()
        session = await begin(hub, Short, C(deploy={}), SUBMIT, rules=ASK)
        request = await asked(hub)
        assert (await hub.decide(request.id, approved=False, by="ada", reason="not on Friday")).ok
        assert (await ended(hub, session)).status == "done"
        assert ran == ["collect"]
        said = bodies(hub, session, FlowStepped)[-2].output["history"]
        assert "not on Friday" in str(said)

    async def test_shadow_mode_requests_no_call_approval(self, hubs: Callable[[], Hub]) -> None:
        """In shadow mode calls run, and the record has what would be asked; suspend nodes still wait."""
        hub = hubs()
        session = await begin(hub, Release, C(deploy={}), SUBMIT, rules=ASK, mode="shadow")
        request = await asked(hub)
        assert request.tool == "Notes"
        assert ran == ["collect", "deploy staging"]
        assert bodies(hub, session, CallDecided)[0].outcome == "ask"


class TestPeople:
    async def test_request_has_schema_of_its_answer(self, hubs: Callable[[], Hub]) -> None:
        """P-81: a suspend node's request is in the queue with the schema of its answer."""
        hub = hubs()
        session = await begin(hub, Release, SUBMIT)
        request = await asked(hub)
        assert (request.tool, request.input) == ("Notes", {"text": "notes"})
        assert request.wants["required"] == ["by"]
        assert not request.may_grant
        assert (await hub.decide(request.id, approved=True, by="ada", input={"by": "ada"})).ok
        state = await ended(hub, session)
        assert state.status == "done"
        assert "signed by ada" in (state.transcript[-1].text or "")
        [decided] = bodies(hub, session, CallDecided)
        assert (decided.tool, decided.outcome, decided.approved_by) == ("Notes", "allow", ("ada",))
        [result] = bodies(hub, session, CallResult)
        assert result.output == '{"by":"ada"}'

    @pytest.mark.parametrize(
        ("answer", "problem"),
        [
            (None, "fill it in"),
            ({}, "by"),
            ({"by": "ada", "severity": "very"}, "severity"),
        ],
    )
    async def test_invalid_answer_is_refused(
        self, hubs: Callable[[], Hub], answer: dict | None, problem: str
    ) -> None:
        """P-81: the refusal names the field, nothing is recorded and the request stays open."""
        hub = hubs()
        session = await begin(hub, Release, SUBMIT)
        request = await asked(hub)
        outcome = await hub.decide(request.id, approved=True, by="ada", input=answer)
        assert not outcome.ok
        assert problem in outcome.message
        assert bodies(hub, session, ApprovalDecided) == []
        assert [a.id for a in await hub.approvals()] == [request.id]

    async def test_denied_step_ends_the_run(self, hubs: Callable[[], Hub]) -> None:
        """The run fails with the name of the denier; resumed, it makes a new request."""
        hub = hubs()
        session = await begin(hub, Release, SUBMIT)
        request = await asked(hub)
        await hub.decide(request.id, approved=False, by="ada", reason="too early")
        state = await ended(hub, session)
        assert (state.status, state.error) == ("failed", "Notes was denied by ada: too early")
        await hub.close_session(session, by="maria")
        await go_on(hub, session, Release)
        again = await asked(hub)
        assert again.call_id != request.call_id
        await hub.decide(again.id, approved=True, by="ada", input={"by": "ada"})
        assert (await ended(hub, session)).status == "done"

    async def test_answer_is_the_tools_result(self, hubs: Callable[[], Hub]) -> None:
        """P-70, P-72: the operator's answer is the tool's result; the tool does not run again."""
        hub = hubs()
        session = await begin(hub, Short, C(consult={"about": "the name?"}), SUBMIT)
        request = await asked(hub)
        assert (request.tool, request.message) == ("Draft::consult", "the name?")
        await hub.decide(request.id, approved=True, by="ada", input={"answer": "Iris"})
        assert (await ended(hub, session)).status == "done"
        assert ran == ["collect", "consult"]
        outputs = [(r.tool, r.output) for r in bodies(hub, session, CallResult)]
        said = '{"approved":true,"by":"ada","answer":"Iris"}'
        assert outputs == [("Draft::consult", said), ("consult", said)]

    async def test_denial_is_the_tools_result(self, hubs: Callable[[], Hub]) -> None:
        """A denial is passed to the model as the tool's result."""
        hub = hubs()
        session = await begin(hub, Short, C(consult={"about": "?"}), SUBMIT)
        request = await asked(hub)
        await hub.decide(request.id, approved=False, by="ada", reason="no")
        assert (await ended(hub, session)).status == "done"
        [result] = bodies(hub, session, CallResult)
        assert '"approved":false' in result.output
        assert "no" in result.output


class TestDeath:
    async def test_open_request_is_repeated_after_resume(self, hubs: Callable[[], Hub]) -> None:
        """P-94: a resumed run waits for the same approval again, and the call runs once."""
        hub = hubs()
        session = await begin(hub, Short, C(deploy={}), rules=ASK)
        first = await asked(hub)
        await killed(hub, session)
        hub = hubs()
        await go_on(hub, session, Short, SUBMIT, rules=ASK)
        again = await asked(hub)
        assert (again.call_id, again.id != first.id) == (first.call_id, True)
        await hub.decide(again.id, approved=True, by="ada")
        assert (await ended(hub, session)).status == "done"
        assert ran == ["collect", "deploy staging"]

    async def test_recorded_answer_is_not_requested_again(self, hubs: Callable[[], Hub]) -> None:
        """An answer that was recorded before the host died is not requested again."""
        hub = hubs()
        session = await begin(hub, Release, SUBMIT)
        request = await asked(hub)
        hosted = hub._live.hosted(session)
        hosted.run._request_input = None  # the host dies before it uses the answer
        await hub.decide(request.id, approved=True, by="ada", input={"by": "ada"})
        await killed(hub, session)
        hub = hubs()
        await go_on(hub, session, Release)
        assert (await ended(hub, session)).status == "done"
        assert len(bodies(hub, session, ApprovalRequested)) == 1
        assert len(bodies(hub, session, CallResult)) == 1

    async def test_an_approved_call_never_runs_twice(self, hubs: Callable[[], Hub]) -> None:
        """An approved call that ran when the host died has an unknown outcome and is not repeated."""
        hub = hubs()
        session = await begin(hub, Short, C(deploy={}), rules=ASK)
        request = await asked(hub)
        hosted = hub._live.hosted(session)

        deployed = asyncio.Event()

        async def dies(*_: object) -> None:
            deployed.set()
            await asyncio.Event().wait()

        hosted.result = dies
        await hub.decide(request.id, approved=True, by="ada")
        async with asyncio.timeout(10):
            await deployed.wait()
        await killed(hub, session)
        hub = hubs()
        await go_on(hub, session, Short, SUBMIT, rules=ASK)
        assert (await ended(hub, session)).status == "done"
        assert ran == ["collect", "deploy staging"]
        assert "unknown" in str(bodies(hub, session, FlowStepped)[-2].output["history"])

    async def test_flow_over_a_list_resumes_at_its_item(self, hubs: Callable[[], Hub]) -> None:
        """Section 12: a flow that works on each item of a list resumes at its current item."""

        class Commits(BaseModel):
            all: list[Commit]

        class Written(BaseModel):
            notes: list[Notes]

        class Every(Flow[Commits, Written]):
            @classmethod
            def build(cls, g: FlowBuilder) -> FlowBuilder:
                return g.each(Commits, Short, Written)

        hub = hubs()
        value = Commits(all=[Commit(sha="a"), Commit(sha="b")])
        script = [SUBMIT, C(deploy={})]
        session = await hub.open_flow(
            Every, value, SessionConfig(compile_rules(ASK).registry), factory=Script(script)
        )
        waited = await asked(hub)
        assert bodies(hub, session, FlowStepped)[-1].live == ("Commits::left", "Commits::Draft")
        await killed(hub, session)
        hub = hubs()
        await go_on(hub, session, Every, SUBMIT, rules=ASK)
        request = await asked(hub)
        assert request.call_id == waited.call_id
        await hub.decide(request.id, approved=True, by="ada")
        state = await ended(hub, session)
        assert (state.status, ran) == ("done", ["collect", "collect", "deploy staging"])
        assert (state.transcript[-1].text or "").count('"notes"') == 3
        await checked(hub, session)

    async def test_another_flow_is_refused(self, hubs: Callable[[], Hub]) -> None:
        """P-97: a run can be resumed only with the graph that it began with."""
        hub = hubs()
        session = await begin(hub, Short)
        await ended(hub, session)
        await hub.close_session(session, by="maria")
        with pytest.raises(SnapLoadError, match="fingerprint"):
            await go_on(hub, session, Release)


class TestStop:
    async def test_stopped_run_can_be_resumed(self, hubs: Callable[[], Hub]) -> None:
        """A stopped run's request leaves the queue, and the resumed run makes it again."""
        hub = hubs()
        session = await begin(hub, Short, C(deploy={}), rules=ASK)
        await asked(hub)
        await hub.abort(session, "by ada")
        assert await hub.approvals() == []
        state = await hub.session(session)
        assert (state.status, state.error) == ("failed", "the run was stopped: by ada")
        await hub.close_session(session, by="ada")
        await go_on(hub, session, Short, SUBMIT, rules=ASK)
        request = await asked(hub)
        await hub.decide(request.id, approved=True, by="ada")
        assert (await ended(hub, session)).status == "done"
        assert ran == ["collect", "deploy staging"]
        assert [s.status for s in bodies(hub, session, SessionStatus)][-1] == "done"
