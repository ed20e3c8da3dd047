"""Flows under the hub with failures: raising steps, reused call ids and late answers."""

from __future__ import annotations

import asyncio
import threading
import types
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict

from interlock.engine.agents import C, Reply, ScriptedModel
from interlock.engine.agents.models.scripted import ScriptedCall
from interlock.engine.flows import AgentConfig, AgentNode, Context, Flow, FlowBuilder, RunLimits
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.journal.writer import Written
from interlock.engine.history.model.events import (
    ApprovalDecided,
    ApprovalRequested,
    CallDecided,
    CallResult,
    JournalEvent,
    SessionStatus,
)
from interlock.engine.history.model.records import FlowStepped
from interlock.engine.hub.hub import ApprovalPolicy, Hub
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

from ...support.flow_hosts import asked, begin, bodies, checked, ended, go_on, hubs, killed
from ...support.full_disk import Disk, before_commits, disk
from ...support.release import Commit, Draft, Notes, Release, Short, deploy, ran, run_tests

__all__ = ["disk", "hubs"]

ASK = "require human-approval before deploy\n"
SUBMIT = C(submit={"text": "notes"})
SIGNED = {"by": "ada"}


class Signing(BaseModel):
    by: str


class Login(BaseModel):
    password: str


class Due(BaseModel):
    model_config = ConfigDict(strict=True)
    on: date


def flow_of_nodes(
    takes: type[BaseModel], gives: type[BaseModel], nodes: Callable[[FlowBuilder], FlowBuilder]
) -> type[Flow]:
    """Build a flow of these nodes."""
    body = {"build": classmethod(lambda _, g: nodes(g))}
    return types.new_class("Made", (Flow[takes, gives],), exec_body=lambda space: space.update(body))


def calls(*named: tuple[str, str]) -> Reply:
    """A reply that calls tools under these ids, without arguments."""
    return Reply(
        calls=tuple(
            ScriptedCall(name, {"about": "?"} if name == "consult" else {}, call_id)
            for call_id, name in named
        )
    )


class TestIds:
    async def test_two_agents_may_use_the_same_ids(self, hubs: Callable[[], Hub]) -> None:
        """Two agents that use the same call id get separate decisions and results."""
        hub = hubs()
        one = ScriptedModel([calls(("c1", "test")), SUBMIT])
        two = ScriptedModel([calls(("c1", "deploy")), C(submit={"by": "robin"})])
        registry = compile_rules("block test\n").registry
        session = await hub.open_flow(two_agents(one, two), Commit(sha="a"), SessionConfig(registry))
        assert (await ended(hub, session)).status == "done"
        assert ran == ["deploy staging"]
        decided = [(d.call_id, d.outcome) for d in bodies(hub, session, CallDecided)]
        assert decided == [("1.c1", "block"), ("2.c1", "allow")]

    @pytest.mark.parametrize("call_id", ["c?", "?1.c", "Notes#3", "2:1.c"])
    async def test_model_cannot_forge_call_ids(self, hubs: Callable[[], Hub], call_id: str) -> None:
        """For any call id that a model chooses, each call is requested once and runs once."""
        hub = hubs()
        session = await begin(
            hub, Release, calls(("c", "consult"), (call_id, "deploy")), SUBMIT, rules=ASK
        )
        first = await asked(hub)
        assert first.tool == "Draft::consult"
        await hub.decide(first.id, approved=True, by="ada", input={"answer": "yes"})
        second = await asked(hub)
        assert second.tool == "deploy"
        await hub.decide(second.id, approved=True, by="ada", input={"env": "test"})
        third = await asked(hub)
        assert third.tool == "Notes"
        await hub.decide(third.id, approved=True, by="ada", input=SIGNED)
        assert (await ended(hub, session)).status == "done"
        assert ran == ["collect", "consult", "deploy test", "publish"]


def two_agents(one: ScriptedModel, two: ScriptedModel) -> type[Flow]:
    """Two agents in sequence, each with its own model."""

    class First(AgentNode[Commit, Notes]):
        config = AgentConfig("Write.", one, (run_tests,))

    class Second(AgentNode[Notes, Signing]):
        config = AgentConfig("Sign.", two, (deploy,))

    return flow_of_nodes(Commit, Signing, lambda g: g.agent(First).agent(Second))


class TestSteps:
    @pytest.mark.parametrize(
        ("raised", "said"), [(SystemExit(3), "SystemExit: 3"), (asyncio.CancelledError(), "cancelled")]
    )
    async def test_exiting_function_fails_its_step(
        self, hubs: Callable[[], Hub], raised: BaseException, said: str
    ) -> None:
        """A function that exits or cancels itself fails its step, and hub and record agree on that."""

        async def gives_up(commit: Commit, ctx: Context) -> Notes:
            raise raised

        hub = hubs()
        session = await begin(hub, flow_of_nodes(Commit, Notes, lambda g: g.work(gives_up)))
        state = await ended(hub, session)
        assert state.status == "failed"
        assert said in (state.error or "")
        await checked(hub, session)

    async def test_step_completed_despite_stop_is_recorded(self, hubs: Callable[[], Hub]) -> None:
        """A step that completes in spite of a stop is recorded, and no other step follows."""
        began, go = asyncio.Event(), asyncio.Event()

        async def stubborn(commit: Commit, ctx: Context) -> Draft:
            began.set()
            while not go.is_set():
                try:
                    await go.wait()
                except asyncio.CancelledError:
                    go.set()
            return Draft(sha=commit.sha)

        async def after(draft: Draft, ctx: Context) -> Notes:
            ran.append("after")
            return Notes(text="")

        hub = hubs()
        flow = flow_of_nodes(Commit, Notes, lambda g: g.work(stubborn).work(after))
        session = await begin(hub, flow)
        await began.wait()
        await hub.abort(session, "enough")
        state = await ended(hub, session)
        assert (state.status, ran) == ("failed", [])
        assert [s.step for s in bodies(hub, session, FlowStepped)] == [0, 1]
        await hub.close_session(session, by="maria")
        await go_on(hub, session, flow)
        assert (await ended(hub, session)).status == "done"
        assert ran == ["after"]

    async def test_stop_after_the_end_leaves_run_done(self, hubs: Callable[[], Hub], disk: Disk) -> None:
        """Stopping a run that has just completed leaves it done."""
        hub = hubs()
        session = await begin(hub, Short, SUBMIT)
        run = hub._live.hosted(session).run
        async with asyncio.timeout(10):
            while not run.over:  # noqa: ASYNC110 - another task's state
                await asyncio.sleep(0)
        await hub.abort(session, "too late")
        assert (await ended(hub, session)).status == "done"
        assert [s.status for s in bodies(hub, session, SessionStatus)] == ["running", "done"]

    async def test_run_with_output_at_time_limit_is_done(self, hubs: Callable[[], Hub]) -> None:
        """A run that has its output when its time limit is reached is done."""
        hub = hubs()

        async def slow(commit: Commit, ctx: Context) -> Notes:
            hub._live.hosted(session).run._began -= 100
            return Notes(text="late")

        flow = flow_of_nodes(Commit, Notes, lambda g: g.work(slow))
        session = await hub.open_flow(
            flow, Commit(sha="a"), SessionConfig({}), limits=RunLimits(max_seconds=50), session_id="slow"
        )
        assert (await ended(hub, session)).status == "done"


class TestAnswers:
    async def test_recorded_denial_is_not_asked_again(self, hubs: Callable[[], Hub]) -> None:
        """If a tool's question was denied before the host died, it is not asked again."""
        hub = hubs()
        session = await begin(hub, Short, C(consult={"about": "?"}))
        request = await asked(hub)
        hub._live.hosted(session).run._request_input = None  # the host dies before the run gets it
        await hub.decide(request.id, approved=False, by="ada", reason="not now")
        await killed(hub, session)
        hub = hubs()
        await go_on(hub, session, Short, SUBMIT)
        assert (await ended(hub, session)).status == "done"
        assert len(bodies(hub, session, ApprovalRequested)) == 1
        [result] = bodies(hub, session, CallResult)
        assert '"approved":false' in result.output
        assert "denied by ada: not now" in result.output
        await checked(hub, session)

    async def test_a_denied_call_stays_denied(self, hubs: Callable[[], Hub], disk: Disk) -> None:
        """P-82: if a denial's decision could not be recorded, the resumed run does not ask again."""
        hub = hubs()
        session = await begin(hub, Short, C(deploy={}), rules=ASK)
        request = await asked(hub)
        disk.full_for(CallDecided)
        assert (await hub.decide(request.id, approved=False, by="ada", reason="no")).ok
        assert (await ended(hub, session)).status == "failed"
        assert disk.refused
        disk.full_for(None)
        await hub.close_session(session, by="maria")
        await go_on(hub, session, Short, SUBMIT, rules=ASK)
        assert (await ended(hub, session)).status == "done"
        assert ran == ["collect"]
        assert len(bodies(hub, session, ApprovalRequested)) == 1
        await checked(hub, session)

    async def test_stop_during_an_answer_prevents_the_call(
        self, hubs: Callable[[], Hub], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """If a run is stopped while an answer is recorded, its call does not run."""
        reached, let_go = threading.Event(), threading.Event()

        def hold(batch: Sequence[Written]) -> None:
            if any(isinstance(each.event.body, ApprovalDecided) for each in batch):
                reached.set()
                assert let_go.wait(20)

        before_commits(monkeypatch, hold)
        hub = hubs()
        session = await begin(hub, Short, C(deploy={}), rules=ASK)
        request = await asked(hub)
        answering = asyncio.create_task(hub.decide(request.id, approved=True, by="ada"))
        assert await asyncio.to_thread(reached.wait, 20)
        stopping = asyncio.create_task(hub.abort(session, "now"))
        for _ in range(20):
            await asyncio.sleep(0)
        let_go.set()
        await asyncio.gather(stopping, answering)
        assert (await ended(hub, session)).status == "failed"
        assert (await hub.approvals(), ran) == ([], ["collect"])
        await hub.close_session(session, by="maria")
        await go_on(hub, session, Short, SUBMIT, rules=ASK)
        again = await asked(hub)
        await hub.decide(again.id, approved=True, by="ada")
        assert (await ended(hub, session)).status == "done"
        assert ran == ["collect", "deploy staging"]

    async def test_the_same_question_is_asked_again(self, hubs: Callable[[], Hub]) -> None:
        """P-94: a step that waited for an answer requests it again for the same call after each death."""
        hub = hubs()
        session = await begin(hub, Release, SUBMIT)
        waited = (await asked(hub)).call_id
        for _ in range(2):
            await killed(hub, session)
            hub = hubs()
            await go_on(hub, session, Release)
            request = await asked(hub)
            assert request.call_id == waited
        await hub.decide(request.id, approved=True, by="ada", input=SIGNED)
        assert (await ended(hub, session)).status == "done"
        await checked(hub, session)

    async def test_net_learns_that_unrepeated_call_is_unknown(self, hubs: Callable[[], Hub]) -> None:
        """A net that waited for an approved call's result is told that the result is unknown."""
        rules = "require human-approval before test\nrequire test before deploy\n"
        hub = hubs()
        session = await begin(hub, Short, C(test={}), rules=rules)
        request = await asked(hub)
        hosted, tested = hub._live.hosted(session), asyncio.Event()

        async def dies(*_: object) -> None:
            tested.set()
            await asyncio.Event().wait()

        hosted.result = dies
        await hub.decide(request.id, approved=True, by="ada")
        async with asyncio.timeout(10):
            await tested.wait()
        await killed(hub, session)
        hub = hubs()
        await go_on(hub, session, Short, C(deploy={}), SUBMIT, rules=rules)
        state = await ended(hub, session)
        assert (state.status, state.pending) == ("done", [])
        assert ran == ["collect", "test"]
        await checked(hub, session)

    async def test_strict_model_answer_is_validated_as_json(self, hubs: Callable[[], Hub]) -> None:
        """P-81: an answer is validated as JSON, also for a strict model."""

        hub = hubs()
        session = await begin(hub, flow_of_nodes(Commit, Due, lambda g: g.suspend(Commit, Due)))
        request = await asked(hub)
        outcome = await hub.decide(request.id, approved=True, by="ada", input={"on": "2025-01-02"})
        assert outcome.ok, outcome.message
        assert (await ended(hub, session)).status == "done"

    async def test_expired_step_ends_the_run(self, tmp_path: Path) -> None:
        """An expired step ends the run; an expired question of a tool is reported to the model."""
        ran.clear()
        journal = Journal.open(tmp_path / "hub.db")
        hub = Hub(journal, policy=ApprovalPolicy(expire=0.05))
        try:
            session = await begin(hub, Release, C(consult={"about": "?"}), SUBMIT)
            state = await ended(hub, session)
            assert state.status == "failed"
            assert "Notes was denied" in (state.error or "")
            [result] = bodies(hub, session, CallResult)
            assert '"approved":false' in result.output
            await checked(hub, session)
        finally:
            await hub.close()


class TestSecrets:
    async def test_step_output_is_masked_in_published_events(self, hubs: Callable[[], Hub]) -> None:
        """A step's output is masked in every published event; the record keeps it for resuming."""

        async def login(commit: Commit, ctx: Context) -> Login:
            return Login(password="hunter22hunter")

        async def use(login: Login, ctx: Context) -> Notes:
            return Notes(text=f"used {len(login.password)}")

        hub = hubs()
        seen: list[str] = []
        events = hub.subscribe()
        flow = flow_of_nodes(Commit, Notes, lambda g: g.work(login).work(use))
        session = await begin(hub, flow)
        async with asyncio.timeout(10):
            async for event in events:
                if isinstance(event, JournalEvent):
                    seen.append(event.model_dump_json())
                    if isinstance(event.body, SessionStatus) and event.body.status == "done":
                        break
        assert not [text for text in seen if "hunter22" in text]
        assert "hunter22" in str(bodies(hub, session, FlowStepped)[1].output)
        state = await ended(hub, session)
        assert "used 14" in (state.transcript[-1].text or "")
