"""An ACP agent as a session: a real agent process of the protocol's own SDK, a real hub and journal."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import suppress

import pytest

from interlock.engine.agents import AgentError
from interlock.engine.gateway.acp import process as acp_process
from interlock.engine.gateway.acp.agent import AcpAgent, AcpError
from interlock.engine.history.model.events import (
    ApprovalWithdrawn,
    CallDecided,
    JournalEvent,
    MessageAdded,
    MessageQueued,
    SessionOpened,
    SessionStatus,
)
from interlock.engine.hub.hub import Hub, Streaming
from interlock.engine.sessions.config import SessionConfig

from .acp_world import World, asks, call, is_running


class TestSession:
    @pytest.mark.slow
    async def test_has_agent_name_directory_and_operator(self, world: World) -> None:
        """The record contains the agent's name without its scope, its directory and its operator."""
        await world.start()
        [opened] = await world.events(SessionOpened)
        assert (opened.agent, opened.kind, opened.opened_by) == ("scripted", "outside", "mia")
        assert opened.workdir == str(world.directory)
        assert "execute" in opened.tools
        assert world.hub.steers(world.session)

    @pytest.mark.slow
    async def test_transcript_has_message_and_reply(self, world: World) -> None:
        """The transcript contains the operator's message and the agent's reply as one text."""
        await world.start()
        await world.hub.send(world.session, "hello", by="mia")
        await world.hub.wait(world.session)
        entries = [(e.kind, e.text, e.by) for e in (await world.state()).transcript]
        assert entries == [("user", "hello", "mia"), ("assistant", "You said: hello", None)]
        statuses = [e.status for e in await world.events(SessionStatus)]
        assert statuses == ["running", "idle"]
        await world.check_fold()

    async def test_streams_text(self, world: World) -> None:
        """Text is streamed as it arrives, before the whole message is recorded."""
        await world.start()
        heard = world.hub.subscribe()
        await world.turn(["say", "one "], ["say", "two "], ["say", "three"])
        heard.close()
        streamed, recorded = "", []
        async for event in heard:
            match event:
                case Streaming(kind="text", text=text):
                    assert not recorded
                    streamed += text
                case JournalEvent(body=MessageAdded(role="assistant", text=str(text))):
                    recorded.append(text)
                case _:
                    pass
        assert recorded == ["one two three"]
        assert streamed.startswith("one two ")

    async def test_transcript_shows_each_plan_state_once(self, world: World) -> None:
        """The transcript shows a plan once; an unchanged plan is not shown again."""
        await world.start()
        plan = {
            "sessionUpdate": "plan",
            "entries": [
                {"content": "test", "priority": "high", "status": "completed"},
                {"content": "ship", "priority": "low", "status": "pending"},
            ],
        }
        state = await world.turn(["update", plan], ["update", plan])
        assert [e.text for e in state.transcript if e.kind == "assistant"] == [
            "Plan:\n[x] test\n[ ] ship"
        ]

    async def test_state_has_the_agents_refusal(self, world: World) -> None:
        """The session's state contains the agent's refusal after the end of the turn."""
        await world.start()
        state = await world.turn(["stop", "refusal"])
        assert (state.status, state.error) == ("idle", "the agent refused to continue")


class TestSteering:
    async def test_interrupts_a_turn(self, world: World) -> None:
        """A steering message waits in the record, cancels the turn and becomes the next prompt."""
        await world.start()
        await world.tell(["until_cancelled"])
        await world.until(lambda: world.done("prompted"))
        await world.hub.send(world.session, "stop that", by="mia")
        await world.hub.wait(world.session)
        assert world.done("prompted")[1:] == [["stop that"]]
        [queued] = await world.events(MessageQueued)
        assert (queued.mode, queued.text) == ("steer", "stop that")
        assert (await world.state()).queued == []
        await world.check_fold()

    async def test_queued_message_waits_for_end_of_turn(self, world: World) -> None:
        """A queued message does not interrupt the turn."""
        await world.start()
        await world.tell(["ask", call("c1", "fetch")])
        request = await world.question()
        await world.hub.send(world.session, "then this", by="mia", mode="queue")
        await world.hub.send(world.session, "then that", by="mia", mode="queue")
        await world.hub.decide(request.id, approved=True, by="mia")
        await world.hub.wait(world.session)
        assert world.done("prompted")[1:] == [["then this"], ["then that"]]
        assert world.done("chosen") == ["yes"]

    async def test_request_of_interrupted_turn_is_withdrawn(self, world: World) -> None:
        """The request of an interrupted turn leaves the queue, and the agent gets "cancelled"."""
        await world.start()
        await world.tell(["ask", call("c1", "fetch")])
        await world.question()
        await world.hub.send(world.session, "no, wait", by="mia")
        await world.hub.wait(world.session)
        assert (world.done("chosen"), world.asked()) == (["cancelled"], [])
        assert len(await world.events(ApprovalWithdrawn)) == 1
        await world.check_fold()

    async def test_abort_ends_turn_and_withdraws_queued_messages(self, world: World) -> None:
        """An aborted agent gets no further prompt, and queued messages are withdrawn."""
        await world.start()
        await world.tell(["until_cancelled"])
        await world.until(lambda: world.done("prompted"))
        await world.hub.send(world.session, "later", by="mia", mode="queue")
        await world.hub.abort(world.session, "by mia")
        await world.hub.wait(world.session)
        assert world.done("prompted") == [['[["until_cancelled"]]']]
        state = await world.state()
        assert (state.status, state.queued) == ("idle", [])
        assert any("not delivered" in note and "later" in note for note in await world.notes())


class TestEnd:
    @pytest.mark.slow
    async def test_agent_exit_during_a_turn_fails_the_session(self, world: World) -> None:
        """The session fails with the agent's exit and its last output, and its requests are withdrawn."""
        await world.start(real=True)
        await world.tell(["pid"], ["complain", "out of memory"], ["ask_twice", call("c1", "fetch")])
        await world.until(lambda: len(world.asked()) == 2)
        os.kill(world.done("pid")[0], 9)
        await world.hub.wait(world.session)
        state = await world.state()
        assert state.status == "failed"
        assert "signal 9" in (state.error or "")
        assert "out of memory" in (state.error or "")
        assert world.asked() == []
        with pytest.raises(AgentError, match="cannot receive messages: the agent ended"):
            await world.hub.send(world.session, "are you there?", by="mia")
        await world.check_fold()

    @pytest.mark.slow
    async def test_agent_exit_between_turns_fails_the_session(self, world: World) -> None:
        """A session whose agent ends between turns is shown as failed, not as idle."""
        agent = await world.start(real=True)
        await world.turn(["say", "hello"])
        os.kill(agent._process._process.pid, 15)
        hosted = world.hub._live.hosted(world.session)
        await world.until(lambda: hosted.shown.status == "failed")
        assert (await world.state()).status == "failed"

    @pytest.mark.slow
    async def test_closing_session_ends_agent_and_children(self, world: World) -> None:
        """Closing the session ends the agent and its children, including one with its own session id."""
        await world.start(real=True)
        await world.turn(["pid"], ["start_child"], ["start_child", "session"])
        await world.hub.close_session(world.session, by="mia")
        assert await world.hub.sessions() == []
        for pid in (*world.done("pid"), *world.done("child")):
            await world.until(lambda pid=pid: not is_running(pid))

    @pytest.mark.slow
    async def test_agent_exit_ends_its_children(self, world: World) -> None:
        """A child of an agent that ended does not run on, and does not keep the session open."""
        await world.start(real=True)
        await world.turn(["start_child", "session"])
        await world.tell(["die", 4])
        await asyncio.wait_for(world.hub.wait(world.session), 20)
        assert "exit code 4" in ((await world.state()).error or "")
        [child] = world.done("child")
        await world.until(lambda: not is_running(child))

    @pytest.mark.slow
    async def test_daemon_holding_pipes_does_not_keep_session_open(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A daemon that no supervisor can end does not keep the session or the hub open."""
        monkeypatch.setattr(acp_process, "GRACE", 0.2)
        await world.start(real=True)
        await world.turn(["start_daemon"])
        [child] = world.done("child")
        try:
            # The outer one is stopped first; otherwise it may end the daemon before its own signal.
            signals = [["outer", 19], ["inner", 9], ["outer", 9]]
            await world.tell(["signal_supervisors", signals], ["until_cancelled"])
            await asyncio.wait_for(world.hub.wait(world.session), 20)
            assert (await world.state()).status == "failed"
            await asyncio.wait_for(world.hub.close(), 20)
            assert is_running(child)
        finally:
            os.kill(child, 9)

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "signals", [[["inner", 9]], [["outer", 19]], [["inner", 9], ["outer", 9]]], ids=str
    )
    async def test_killed_supervisor_ends_the_agent(self, world: World, signals: list) -> None:
        """An agent that kills or stops one or both of its supervisors is ended with its children."""
        await world.start(real=True)
        await world.turn(["pid"], ["start_child", "session"])
        processes = [*world.done("pid"), *world.done("child")]
        try:
            await world.tell(["signal_supervisors", signals], ["until_cancelled"])
            await asyncio.wait_for(world.hub.wait(world.session), 20)
            assert (await world.state()).status == "failed"
            for pid in processes:
                await world.until(lambda pid=pid: not is_running(pid))
        finally:
            for pid in processes:
                with suppress(ProcessLookupError):
                    os.kill(pid, 9)

    @pytest.mark.slow
    async def test_closing_hub_during_a_turn_ends_the_agent(self, world: World) -> None:
        """Closing the hub during a turn ends the agent, and the record shows the session as closed."""
        agent = await world.start(real=True)
        await world.tell(["until_cancelled"])
        await world.until(lambda: world.done("prompted"))
        pid = agent._process._process.pid
        reader = await world.hub.recorded(world.session)
        assert reader
        await world.hub.close()
        assert not is_running(pid)
        hub = Hub.open(world.hub.database)
        try:
            events = await hub.recorded(world.session)
            last = [e.body for e in events if isinstance(e.body, SessionStatus)][-1]
            assert (last.status, last.error) == ("done", None)
        finally:
            await hub.close()


class TestStart:
    async def test_missing_command_is_named(self, world: World) -> None:
        """The error names a command that does not exist."""
        agent = AcpAgent(world.hub, ["no-such-agent-here"], world.directory)
        with pytest.raises(AcpError, match="'no-such-agent-here' cannot be run"):
            await agent.open(SessionConfig({}))
        assert await world.hub.sessions() == []

    @pytest.mark.parametrize(
        ("how", "says"),
        [
            ("dies", r"exit code 3\)\. Its last output:\nno key was given"),
            ("old", "speaks version 0"),
            ("locked", "requires a login"),
        ],
    )
    async def test_failed_start_reports_the_reason(self, world: World, how: str, says: str) -> None:
        """An agent that cannot start reports the reason, and no session is opened."""
        with pytest.raises(AcpError, match=says):
            await world.start(how)
        assert await world.hub.sessions() == []


FRAMES = [
    "hello, I am a log line",
    "[1, 2]",
    '{"jsonrpc": "2.0", "id": [1], "result": {}}',
    '{"jsonrpc": "2.0", "id": 77, "result": {}}',
    '{"jsonrpc": "2.0", "id": 1, "error": "no object"}',
    '{"jsonrpc": "2.0", "method": 5}',
    '{"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s1"}}',
    '{"jsonrpc": "2.0", "method": "session/update", "params": [1]}',
    "[" * 100_000,
]


class TestMisbehaving:
    async def test_invalid_frames_are_skipped(self, world: World) -> None:
        """Lines that are not messages are skipped, and the session still judges the next call."""
        await world.start()
        for number, frame in enumerate(FRAMES, 1):
            state = await world.turn(["raw", frame], ["ask", call(f"c{number}", "delete")])
            assert (frame[:90], world.done("chosen")) == (frame[:90], ["no"] * number)
            assert state.status == "idle"
        assert any("something unreadable: hello, I am a log line" in note for note in await world.notes())

    @pytest.mark.parametrize("params", [{}, {"sessionId": "s1"}, {**asks(call("c1")), "sessionId": "s2"}])
    async def test_unreadable_or_foreign_request_gets_an_error(self, world: World, params: dict) -> None:
        """A request that is unreadable or belongs to another session gets an error."""
        await world.start()
        await world.turn(["request", "session/request_permission", params])
        assert world.done("answer") == []
        assert world.done("error") == ["Invalid params"]

    @pytest.mark.parametrize(
        "method", ["fs/read_text_file", "fs/write_text_file", "terminal/create", "_x/y"]
    )
    async def test_file_and_terminal_requests_are_rejected(self, world: World, method: str) -> None:
        """Requests for files and terminals are rejected, and nothing is written."""
        target = world.directory / "written.txt"
        await world.start()
        given = {"sessionId": "s1", "path": str(target), "content": "x", "command": "touch written.txt"}
        await world.turn(["request", method, given])
        assert world.done("error") == ["Method not found"]
        assert not target.exists()

    async def test_nan_input_is_refused(self, world: World) -> None:
        """A call whose input contains NaN, which is no JSON number, is not judged."""
        await world.start()
        raw = json.dumps(
            {
                "jsonrpc": "2.0",
                "id": "x1",
                "method": "session/request_permission",
                "params": asks({**call("c1"), "rawInput": {"n": float("nan")}}),
            }
        )
        await world.turn(["raw", raw], ["say", "on"])
        assert await world.events(CallDecided) == []

    @pytest.mark.slow
    async def test_stderr_goes_to_the_log(self, world: World) -> None:
        """Standard error goes to the log and not to the transcript."""
        await world.start()
        state = await world.turn(["complain", "debug: token=abc"], ["say", "done"])
        assert world.log is not None
        await world.until(lambda: "debug: token=abc" in world.log.read_text())
        assert [e.text for e in state.transcript if e.kind != "user"] == ["done"]
