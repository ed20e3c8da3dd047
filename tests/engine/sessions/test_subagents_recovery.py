"""Subagents of a resumed session: which of them are continued, how, and which cannot be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from interlock.engine.agents import Agent, C, Reply, ScriptedModel, T, ToolContext, task_tool, tool
from interlock.engine.history.fold.event_text import changes, headline
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import (
    ApprovalWithdrawn,
    EventBody,
    MessageAdded,
    MessageQueued,
    SessionOpened,
    SessionResumed,
    SessionStatus,
)
from interlock.engine.history.model.records import CallRecord
from interlock.engine.hub.hub import Hub
from interlock.engine.sessions.config import SessionConfig

from ..history.support.recording import (
    approval,
    asks,
    decided,
    opening,
    registry,
    request,
    sequence,
    step,
)
from ..support.shop import bodies, prompt

UNKNOWN = "Outcome unknown: the session ended before a result was recorded"
FIRST = sequence("task_helper", "deploy")
ASK = approval("deploy")
WAITS = step(FIRST, "do-task_helper", "task_helper", deferred=True)
WORKING = SessionStatus(status="running")
TASK = MessageAdded(role="user", text="Do it")
DONE = MessageAdded(role="assistant", text="It is done.")


def helper(name: str = "helper-1", **fields: object) -> tuple[str, SessionOpened]:
    """The first event of a subagent's record."""
    origin = {"kind": "child", "parent": "s1", "parent_call": "c1"}
    given = {"agent": "helper", **origin, **fields}
    opened = opening(**given)
    assert isinstance(opened, SessionOpened)
    return name, opened


@asynccontextmanager
async def hub_on_records(
    path: Path,
    *child: EventBody,
    who: tuple[str, SessionOpened] | None = None,
    after: Sequence[EventBody] = (),
) -> AsyncIterator[Hub]:
    """A hub on the records of a session that died while `helper` worked, and of `helper`."""
    call = CallRecord(call_id="c1", tool="task_helper", input={"prompt": "Do it"})
    said = MessageAdded(role="user", text="go")
    with Journal.open(path / "a.db") as journal:
        allowed = decided("c1", "task_helper", WAITS, input={"prompt": "Do it"})
        journal.write("s1", opening(FIRST, ASK), WORKING, said)
        journal.write("s1", MessageAdded(role="assistant", calls=(call,)), allowed, *after)
        name, opened = who or helper()
        journal.write(name, opened, *child)
    hub = Hub.open(path / "a.db")
    yield hub
    await hub.close()


class Agents:
    """`boss` and its `helper`, whose only tool remembers its calls."""

    def __init__(self, replies: list[Reply], *, knows: bool = True) -> None:
        self.ran: list[str] = []

        @tool
        async def deploy(ctx: ToolContext) -> str:
            """Deploy."""
            self.ran.append(ctx.call_id)
            return "deployed"

        self.helper = Agent(ScriptedModel(replies), name="helper", tools=[deploy])
        tasks = [task_tool(self.helper)] if knows else []
        replies = [C(c9=("deploy", {})), T("fine")]
        self.boss = Agent(ScriptedModel(replies), name="boss", tools=[deploy, *tasks])

    async def go_on(self, hub: Hub) -> str:
        """Resume the session, approve everything and return the output of the task's call."""
        await hub.resume_session("s1", self.boss, SessionConfig(registry(FIRST, ASK)))
        async with asyncio.timeout(10):
            while (await hub.session("s1")).phase == "running":
                for request in await hub.approvals():
                    await hub.decide(request.id, approved=True, by="ben")
                await asyncio.sleep(0)
        for hosted in hub._live:
            assert fold(await hub.recorded(hosted.id)) == hosted.state
        output = (await hub.session("s1")).calls["c1"].output
        assert output is not None
        return output


class TestGoesOn:
    @pytest.mark.slow
    async def test_unsent_task_is_sent_now(self, tmp_path: Path) -> None:
        """A subagent whose host died before its task was sent gets the task now."""
        async with hub_on_records(tmp_path) as hub:
            agents = Agents([T("Done.")])
            assert await agents.go_on(hub) == "Done."
            assert prompt(agents.helper) == ["user: Do it"]

    async def test_unanswered_task_is_answered_now(self, tmp_path: Path) -> None:
        """A subagent that had not answered answers now; its success then allows the parent's deploy."""
        async with hub_on_records(tmp_path, WORKING, TASK) as hub:
            agents = Agents([T("Done.")])
            assert await agents.go_on(hub) == "Done."
            assert prompt(agents.helper) == ["user: Do it"]
            assert agents.ran == ["c9"]

    @pytest.mark.slow
    async def test_undecided_calls_are_decided(self, tmp_path: Path) -> None:
        """Its undecided calls are decided by the gate of the top session."""
        async with hub_on_records(tmp_path, WORKING, TASK, asks(("d1", "deploy"))) as hub:
            agents = Agents([T("Done.")])
            assert await agents.go_on(hub) == "Done."
            refused = "Tool 'deploy' is not available in the current state."
            assert prompt(agents.helper)[-1] == f"tool: {refused}"
            [resumed] = bodies(hub, "s1", SessionResumed)
            assert (resumed.asked_again, resumed.going_on) == (("helper-1/d1",), ("c1",))

    async def test_waiting_messages_arrive_in_order(self, tmp_path: Path) -> None:
        """Messages to the subagent reach it in their proper order (A-72)."""
        waiting = [
            MessageQueued(message_id=f"m{n}", mode=mode, text=mode, by="ben")
            for n, mode in enumerate(("queue", "steer"))
        ]
        async with hub_on_records(tmp_path, WORKING, TASK, *waiting) as hub:
            agents = Agents([T("One."), T("Two.")])
            assert await agents.go_on(hub) == "Two."
            assert prompt(agents.helper) == ["user: Do it", "user: steer"]
            assert prompt(agents.helper, 1)[-2:] == ["assistant: One.", "user: queue"]

    @pytest.mark.slow
    async def test_given_answer_is_not_asked_again(self, tmp_path: Path) -> None:
        """If the subagent had given its answer, the model is not asked again."""
        for ended in ((), (SessionStatus(status="idle"),), (SessionStatus(status="done"),)):
            folder = tmp_path / str(len(ended) and ended[0].status)
            folder.mkdir()
            async with hub_on_records(folder, WORKING, TASK, DONE, *ended) as hub:
                assert await Agents([]).go_on(hub) == "It is done."
                assert (await hub.session("helper-1")).status == "done"

    async def test_failure_is_the_calls_error(self, tmp_path: Path) -> None:
        """A-57: the error of a failed subagent is the error of its call."""
        failed = SessionStatus(status="failed", error="ModelError: no model today")
        async with hub_on_records(tmp_path, WORKING, TASK, failed) as hub:
            assert await Agents([]).go_on(hub) == "no model today"
            assert (await hub.session("s1")).calls["c1"].status == "failed"

    @pytest.mark.slow
    async def test_steering_of_the_parent_waits_for_the_task(self, tmp_path: Path) -> None:
        """A-72: a steering message to the parent waits for the running task and stops nothing."""
        waits = MessageQueued(message_id="m1", mode="steer", text="hurry", by="ben")
        async with hub_on_records(tmp_path, WORKING, TASK, after=(waits,)) as hub:
            agents = Agents([T("Done.")])
            assert await agents.go_on(hub) == "Done."
            assert prompt(agents.boss)[2:] == ["tool: Done.", "user: hurry"]

    async def test_aborting_the_parent_stops_the_subagent(self, tmp_path: Path) -> None:
        """A-94: aborting the parent stops a continued subagent."""
        async with hub_on_records(tmp_path, WORKING, TASK) as hub:
            agents = Agents([])
            started = asyncio.Event()
            agents.helper.model = Hanging(started)
            await hub.resume_session("s1", agents.boss, SessionConfig(registry(FIRST, ASK)))
            await started.wait()
            await hub.abort("s1", "enough")
            await hub.wait("s1")
            state = await hub.session("s1")
            assert (state.calls["c1"].status, state.pending) == ("failed", [])
            assert (await hub.session("helper-1")).status == "done"

    @pytest.mark.slow
    async def test_headline_and_replay_name_the_call(self, tmp_path: Path) -> None:
        """The headline and the replay name the continued call."""
        async with hub_on_records(tmp_path, WORKING, TASK) as hub:
            await Agents([T("Done.")]).go_on(hub)
            events = await hub.recorded("s1")
            at = next(n for n, e in enumerate(events) if isinstance(e.body, SessionResumed))
            assert "continuing: c1" in headline(events[at])
            told = changes(fold(events[:at]), events[at], fold(events[: at + 1]))
            assert "continues: task_helper (call c1)" in told
            assert fold(events[: at + 1]).calls["c1"].status == "running"


class Hanging:
    """A model that never replies."""

    name = "hanging"

    def __init__(self, started: asyncio.Event) -> None:
        self._started = started

    async def stream(self, request: object) -> AsyncIterator[object]:
        self._started.set()
        await asyncio.Event().wait()
        yield None


QUESTION = request("a1", "helper-1/d1", "deploy").model_copy(update={"via": "helper-1"})
TAKEN_BACK = ApprovalWithdrawn(
    approval_id="a1", call_id="helper-1/d1", reason="the agent was interrupted"
)
ANSWERED = MessageAdded(role="tool", call_id="d1", tool="deploy", text="no", is_error=True)


class TestCannotGoOn:
    @pytest.mark.variants
    @pytest.mark.parametrize(
        "who",
        [
            helper(parent_call=None),
            helper(parent_call="c2"),
            helper(parent="s0"),
            helper(agent="other"),
        ],
        ids=["older journal", "another call's", "another session's", "another agent's"],
    )
    async def test_record_of_another_call_is_ignored(
        self, tmp_path: Path, who: tuple[str, SessionOpened]
    ) -> None:
        """A record that does not belong to the call is ignored; the call's outcome is unknown."""
        async with hub_on_records(tmp_path, WORKING, TASK, who=who) as hub:
            assert await Agents([]).go_on(hub) == UNKNOWN
            assert fold(await hub.recorded("helper-1")).status == "failed"
            [resumed] = bodies(hub, "s1", SessionResumed)
            assert resumed.going_on == ()

    @pytest.mark.slow
    async def test_two_records_for_one_call(self, tmp_path: Path) -> None:
        """If two records belong to one call, its outcome is unknown."""
        name, opened = helper("helper-2")
        async with hub_on_records(tmp_path, WORKING, TASK) as hub:
            await hub.close()
            with Journal.open(tmp_path / "a.db") as journal:
                journal.write(name, opened, WORKING, TASK)
            again = Hub.open(tmp_path / "a.db")
            assert await Agents([]).go_on(again) == UNKNOWN
            await again.close()

    async def test_agent_without_the_subagent_tool(self, tmp_path: Path) -> None:
        """If the agent no longer has the subagent as a tool, the outcome is unknown."""
        async with hub_on_records(tmp_path, WORKING, TASK) as hub:
            assert await Agents([], knows=False).go_on(hub) == UNKNOWN

    @pytest.mark.slow
    async def test_call_without_a_subagent_record(self, tmp_path: Path) -> None:
        """An allowed call that started no subagent has an unknown outcome."""
        async with hub_on_records(tmp_path, who=helper("helper-9", parent="s9")) as hub:
            assert await Agents([]).go_on(hub) == UNKNOWN

    @pytest.mark.parametrize(
        "child",
        [
            (asks(("d1", "deploy")), ANSWERED, SessionStatus(status="idle")),
            (SessionStatus(status="done"),),
        ],
        ids=["at rest", "ended"],
    )
    async def test_stopped_or_ended_subagent(self, tmp_path: Path, child: tuple[EventBody, ...]) -> None:
        """A subagent that was stopped, or had ended, is not continued."""
        async with hub_on_records(tmp_path, WORKING, TASK, *child) as hub:
            assert await Agents([]).go_on(hub) == UNKNOWN

    async def test_interrupted_subagent_request(self, tmp_path: Path) -> None:
        """A subagent whose request was just withdrawn by an interrupt is not continued."""
        after = (QUESTION, TAKEN_BACK)
        async with hub_on_records(tmp_path, WORKING, TASK, asks(("d1", "deploy")), after=after) as hub:
            agents = Agents([])
            assert await agents.go_on(hub) == UNKNOWN
            assert agents.ran == []

    async def test_waiting_net_was_dropped(self, tmp_path: Path) -> None:
        """If the net that waits for the task is dropped, the outcome of the task is unknown."""
        async with hub_on_records(tmp_path, WORKING, TASK) as hub:
            boss = Agents([]).boss
            await hub.resume_session("s1", boss, SessionConfig(registry(ASK), nets="changed", reason="x"))
            assert (await hub.session("s1")).calls["c1"].output == UNKNOWN
            assert (await hub.session("s1")).pending == []

    async def test_session_closed_by_an_operator(self, tmp_path: Path) -> None:
        """A session that an operator closed does not continue its subagents."""
        closed = SessionStatus(status="done", by="ben")
        async with hub_on_records(tmp_path, WORKING, TASK, after=(closed,)) as hub:
            await hub.resume_session("s1", Agents([]).boss, SessionConfig(registry(FIRST, ASK)))
            state = await hub.session("s1")
            assert (state.status, state.calls["c1"].output) == ("idle", UNKNOWN)
