"""Messages to an external agent that Interlock has started: one turn at a time, recorded first."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from interlock.engine.agents import AgentError
from interlock.engine.history.journal.journal import JournalError
from interlock.engine.history.model.events import MessageAdded, SessionStatus
from interlock.engine.hub.hub import ExternalSessionError, Hub

from ..support.external_agent import check_fold, opened, recorded
from ..support.shop import until
from ..support.stepwise import Clock, StepwiseJournal


class Program:
    """A driver whose turns end when the test says so, or when interrupted."""

    def __init__(self, *, takes_edits: bool = True) -> None:
        self.takes_edits = takes_edits
        self.told: list[list[str]] = []
        self.interrupted = 0
        self.closed = False
        self.ending: asyncio.Future[str | None] | None = None
        self.begun = asyncio.Event()
        self._gone: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def turn(self, messages: Sequence[str]) -> str | None:
        self.told.append([*messages])
        self.ending = asyncio.get_running_loop().create_future()
        self.begun.set()
        return await self.ending

    def interrupt(self) -> None:
        self.interrupted += 1
        self.end()

    def end(self, why: str | Exception | None = None) -> None:
        assert self.ending is not None
        if self.ending.done():
            return
        if isinstance(why, Exception):
            self.ending.set_exception(why)
        else:
            self.ending.set_result(why)

    def die(self, why: str) -> None:
        self._gone.set_result(why)

    async def wait_for_exit(self) -> str:
        return await asyncio.shield(self._gone)

    async def close(self) -> None:
        self.closed = True
        if self.ending is not None:
            self.end(AgentError("closed"))


async def driven(hub: Hub) -> Program:
    """A program with the session `robin-1` in its first turn."""
    program = Program()
    await opened(hub, driver=program)
    await hub.send("robin-1", "go", by="ada")
    await asyncio.wait_for(program.begun.wait(), 5)
    program.begun.clear()
    return program


def statuses(hub: Hub) -> list[tuple[str, str | None]]:
    return [(s.status, s.error) for s in recorded(hub.database, SessionStatus)]


class TestTurn:
    async def test_message_is_recorded_before_send_returns(self, hub: Hub) -> None:
        """A message is recorded with its sender before `send` returns."""
        program = await driven(hub)
        [said] = recorded(hub.database, MessageAdded)
        assert (said.role, said.text, said.by) == ("user", "go", "ada")
        assert ((await hub.session("robin-1")).status, program.told) == ("running", [["go"]])
        program.end()
        await hub.wait("robin-1")
        assert statuses(hub) == [("running", None), ("idle", None)]

    async def test_failed_turn_is_followed_by_another(self, hub: Hub) -> None:
        """A failed turn is shown as failed, and the next message begins a new turn."""
        program = await driven(hub)
        program.end(RuntimeError("no network"))
        await hub.wait("robin-1")
        assert statuses(hub)[-1] == ("failed", "no network")
        await hub.send("robin-1", "again", by="ada")
        await program.begun.wait()
        program.end()
        await hub.wait("robin-1")
        assert (program.told, statuses(hub)[-1]) == ([["go"], ["again"]], ("idle", None))
        await check_fold(hub)

    async def test_failed_turn_withdraws_queued_messages(self, hub: Hub) -> None:
        """Messages that were queued during a failed turn are withdrawn."""
        program = await driven(hub)
        await hub.send("robin-1", "later", by="ada", mode="queue")
        program.end(RuntimeError("no network"))
        await hub.wait("robin-1")
        assert (await hub.session("robin-1")).queued == []
        assert program.told == [["go"]]
        await check_fold(hub)

    async def test_interrupting_messages_form_the_next_turn(self, hub: Hub) -> None:
        """Messages that interrupted a turn form the next one together, before queued messages."""
        program = await driven(hub)
        program.ending, held = asyncio.get_running_loop().create_future(), program.ending
        await hub.send("robin-1", "for later", by="ada", mode="queue")
        await hub.send("robin-1", "one", by="ada")
        await hub.send("robin-1", "two", by="ada")
        assert held is not None
        held.set_result(None)
        await program.begun.wait()
        assert program.told[1] == ["one", "two"]
        program.begun.clear()
        program.end()
        await program.begun.wait()
        assert program.told[2] == ["for later"]
        program.end()
        await hub.wait("robin-1")
        await check_fold(hub)


class TestEnd:
    async def test_program_exit_at_rest_fails_the_session(self, hub: Hub) -> None:
        """If the program exits, its session fails and accepts no more messages."""
        program = await driven(hub)
        program.end()
        await hub.wait("robin-1")
        heard = hub.subscribe()
        program.die("it crashed")
        await until(heard, SessionStatus)
        heard.close()
        assert statuses(hub)[-1] == ("failed", "it crashed")
        with pytest.raises(AgentError, match="it crashed"):
            await hub.send("robin-1", "hello?", by="ada")

    async def test_program_exit_during_a_turn_fails_the_session(self, hub: Hub) -> None:
        """If the program has exited, a turn that ends well is not followed by another."""
        program = await driven(hub)
        program.die("it crashed")
        for _ in range(5):
            await asyncio.sleep(0)
        program.end()
        await hub.wait("robin-1")
        assert statuses(hub)[-1] == ("failed", "it crashed")

    async def test_closing_session_during_a_turn_ends_the_program(self, hub: Hub) -> None:
        """Closing a session during a turn ends its program and is not recorded as a failure."""
        program = await driven(hub)
        await hub.send("robin-1", "later", by="ada", mode="queue")
        await hub.close_session("robin-1", by="ada")
        assert program.closed
        assert statuses(hub)[-1] == ("done", None)
        assert not any(status == "failed" for status, _ in statuses(hub))

    async def test_closing_ends_the_wait_for_idle(self, hub: Hub) -> None:
        """A caller that waits for the session to be idle returns when it is closed."""
        await driven(hub)
        waiting = asyncio.create_task(hub.wait("robin-1"))
        await asyncio.sleep(0)
        await hub.close_session("robin-1", by="ada")
        await asyncio.wait_for(waiting, 5)


class TestRefusal:
    async def test_message_refused_by_journal_is_not_sent(self, tmp_path: Path) -> None:
        """A message that the journal refuses is not sent to the program."""
        journal = StepwiseJournal.open(tmp_path / "hub.db", clock=Clock()).quick([0])
        hub = Hub(journal)
        program = Program()
        await opened(hub, driver=program)
        journal.refuse = 1
        with pytest.raises(JournalError):
            await hub.send("robin-1", "go", by="ada")
        assert program.told == []
        await hub.close()

    async def test_unrecorded_turn_end_fails_the_session(self, tmp_path: Path) -> None:
        """If the end of a turn cannot be recorded, the session fails instead of staying running."""
        journal = StepwiseJournal.open(tmp_path / "hub.db", clock=Clock()).quick([0])
        hub = Hub(journal)
        program = await driven(hub)
        journal.refuse = 1
        program.end()
        await asyncio.wait_for(hub.wait("robin-1"), 5)
        assert (await hub.session("robin-1")).status == "failed"
        await hub.close()

    async def test_compaction_is_refused(self, hub: Hub) -> None:
        """Compaction is refused, because the conversation belongs to the program."""
        program = await driven(hub)
        with pytest.raises(ExternalSessionError):
            await hub.compact("robin-1", by="ada")
        program.end()
