"""Decisions are recorded before they are returned."""

from __future__ import annotations

import asyncio
import logging

import pytest

from interlock.engine import GateContext, GateDecision, GateManager, ToolCall

from ..support.helpers import Operator, call, manager, markings, reason


class Journal:
    """A record that can fail or be delayed."""

    def __init__(self) -> None:
        self.kept: list[tuple[str, str]] = []
        self.problem: Exception | None = None
        self.written = asyncio.Event()
        self.written.set()
        self.writing = asyncio.Event()

    async def __call__(self, called: ToolCall, decision: GateDecision) -> None:
        self.writing.set()
        await self.written.wait()
        if self.problem is not None:
            raise self.problem
        self.kept.append((called.tool_call_id, decision.outcome))


class TestRecording:
    """No unrecorded decision is returned."""

    async def test_every_decision_is_recorded(self) -> None:
        """Allowed, blocked, refused and failed calls are all recorded."""
        journal = Journal()
        gate = manager("block x\nrequire human-approval before y", record=journal)

        def explode(_request: object) -> bool:
            raise OSError

        await reason(gate, "free", "1")
        await reason(gate, "x", "2")
        await gate.handle_tool_call(call("y", "3"), Operator(False).context)
        await gate.handle_tool_call(call("y", "4"), GateContext(explode))
        assert journal.kept == [("1", "allow"), ("2", "block"), ("3", "block"), ("4", "block")]

    async def test_unrecorded_decision_blocks(self, caplog: pytest.LogCaptureFixture) -> None:
        """An unrecorded decision blocks, and so does every later call until the gate is restored."""
        journal = Journal()
        heard: list[str] = []
        gate: GateManager = manager(
            "limit x to 2 per session", record=journal, on_decision=lambda _, d: heard.append(d.outcome)
        )
        journal.problem = OSError("disk full")
        expected = "decision could not be recorded: disk full"
        with caplog.at_level(logging.CRITICAL):
            assert await reason(gate, "x", "1") == expected
            journal.problem = None
            assert await reason(gate, "free", "2") == expected
        assert (journal.kept, heard) == ([], ["block", "block"])
        gate.restore(markings={"limit-x-2": {"ready": 1, "budget": 2}}, pending=[])
        assert await reason(gate, "x", "1") is None
        assert journal.kept == [("1", "allow")]

    async def test_failure_is_logged_once_until_a_success(self, caplog: pytest.LogCaptureFixture) -> None:
        """A failure is logged once until a decision is recorded; the next failure is logged again."""
        journal = Journal()
        gate = manager("limit x to 9 per session", record=journal)
        logged: list[int] = []
        for problem in (OSError("disk full"), OSError("disk full"), None, OSError("disk full")):
            journal.problem = problem
            await reason(gate, "x", str(len(logged)))
            gate.restore(markings={"limit-x-9": {"ready": 1, "budget": 9}}, pending=[])
            logged.append(len([each for each in caplog.records if each.levelno >= logging.ERROR]))
        assert logged == [1, 1, 1, 2]

    async def test_unrecorded_call_does_not_run_in_shadow(self) -> None:
        """An unrecorded call does not run in shadow mode either."""
        journal = Journal()
        journal.problem = OSError("disk full")
        gate = manager("block x", record=journal, mode="shadow")
        assert (await gate.handle_tool_call(call("free"))).block

    async def test_repeated_id_after_unrecorded_decision(self) -> None:
        """G-53: shadow mode allows a repeated id, but not after a decision could not be recorded."""
        journal = Journal()
        gate = manager("require x before y", record=journal, mode="shadow")
        assert not (await gate.handle_tool_call(call("x", "1"))).block
        assert not (await gate.handle_tool_call(call("x", "1"))).block
        journal.problem = OSError("disk full")
        assert (await gate.handle_tool_call(call("free", "2"))).block
        assert (await gate.handle_tool_call(call("x", "1"))).block

    async def test_decision_waits_for_its_record(self) -> None:
        """The decision is returned only once it is recorded; until then its id is in use."""
        journal = Journal()
        journal.written.clear()
        gate = manager("block x", record=journal)
        deciding = asyncio.create_task(gate.handle_tool_call(call("free")))
        await journal.writing.wait()
        assert not deciding.done()
        second = asyncio.create_task(gate.handle_tool_call(call("free")))
        journal.written.set()
        assert (await deciding).outcome == "allow"
        assert (await second).reason == "Tool call id '1' is already in use."

    async def test_cancellation_while_recording_still_returns_decision(self) -> None:
        """A decision that is being recorded is returned despite a cancellation: the nets have moved."""
        journal = Journal()
        journal.written.clear()
        gate = manager("limit x to 2 per session", record=journal)
        deciding = asyncio.create_task(gate.handle_tool_call(call("x")))
        await journal.writing.wait()
        deciding.cancel()
        asyncio.get_running_loop().call_soon(journal.written.set)
        assert (await deciding).outcome == "allow"
        assert journal.kept == [("1", "allow")]
        assert markings(gate)["limit-x-2"]["budget"] == 1
        assert await reason(gate, "x", "1") is None
