"""A read-only console on a journal that another process writes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.app.console.app import InterlockConsole
from interlock.app.screens.approval.screen import ApprovalScreen
from interlock.app.sources.read_only import read_only
from interlock.app.sources.watch import WatchedJournal
from interlock.engine.history.errors import JournalError
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.logs.freeze_log import FreezeLog
from interlock.engine.history.model.events import (
    ApprovalDecided,
    ApprovalRequested,
    NewerEvent,
    SessionStatus,
)
from interlock.engine.history.model.records import FreezeRecord
from interlock.engine.history.redaction.redaction import Redaction
from interlock.engine.hub.hub import UnknownSessionError

from ...engine.history.support.recording import approval, opening
from ...support.decisions import asked
from ...support.newer import SessionPaused

SESSION = "release-bot-1f3a"


def approval_requested(**more: object) -> ApprovalRequested:
    return asked("c1", "deploy", approved=True)[0].model_copy(update=more)


def remove(folder: Path) -> None:
    for file in folder.glob("deploy.db*"):
        file.unlink()


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    """A journal that stays open for writing, as in a host."""
    with Journal.open(tmp_path / "deploy.db") as journal:
        journal.write(SESSION, opening(approval("deploy"), agent="release-bot"))
        yield journal


class TestFollowing:
    async def test_reads_open_sessions(self, journal: Journal) -> None:
        """Open sessions are read from the record while another process writes it."""
        journal.write(SESSION, approval_requested())
        watched = WatchedJournal(journal.path)
        await watched.look()
        [state] = await watched.sessions()
        assert (state.id, state.status) == (SESSION, "waiting")
        assert [a.id for a in await watched.approvals()] == ["ap-c1"]

    async def test_delivers_later_events_in_order(self, journal: Journal) -> None:
        """Later events reach a subscriber in order."""
        watched = WatchedJournal(journal.path)
        await watched.look()
        subscription = watched.subscribe()
        journal.write(SESSION, approval_requested())
        journal.write("other-2", opening(agent="other"))
        journal.write(SESSION, *asked("c1", "deploy", approved=True)[1:])
        await watched.look()
        await watched.look()
        await watched.close()
        told = [event.body.type async for event in subscription]
        assert told == ["approval.requested", "session.opened", "approval.decided"]
        assert await watched.approvals() == []
        assert [s.id for s in await watched.sessions()] == [SESSION, "other-2"]

    async def test_shows_the_type_of_newer_events(self, journal: Journal) -> None:
        """An event of a newer version is shown by its type, and later events are shown as usual."""
        watched = WatchedJournal(journal.path)
        await watched.look()
        journal.write(SESSION, SessionPaused(), approval_requested())
        journal.write("other-2", opening(agent="other"))
        await watched.look()
        state, other = await watched.sessions()
        assert state.newer
        assert (state.id, other.id) == (SESSION, "other-2")
        assert [a.id for a in await watched.approvals()] == ["ap-c1"]
        bodies = [event.body for event in await watched.recorded(SESSION)]
        assert bodies[1] == NewerEvent(name="session.paused")

    async def test_reads_new_events_periodically(self, journal: Journal) -> None:
        """`follow` reads new events periodically."""
        watched = WatchedJournal(journal.path)
        await watched.look()
        subscription = watched.subscribe()
        watched.follow(every=0.01)
        journal.write(SESSION, SessionStatus(status="done"))
        event = await anext(aiter(subscription))
        assert event.body == SessionStatus(status="done")
        assert (await watched.session(SESSION)).status == "done"
        await watched.close()

    async def test_reads_the_freeze(self, journal: Journal, tmp_path: Path) -> None:
        """The writer's freeze is read, also if the journal is opened through a link."""
        link = tmp_path / "elsewhere.db"
        link.symlink_to(journal.path)
        watched = WatchedJournal(link)
        assert watched.current_freeze() is None
        freeze = FreezeRecord(by="maria", at=journal.clock(), reason="wrong")
        FreezeLog(journal.path, journal.clock).begin(freeze)
        assert watched.current_freeze() == freeze

    async def test_masks(self, journal: Journal) -> None:
        """Secrets are masked in states and in events."""
        watched = WatchedJournal(journal.path, Redaction())
        await watched.look()
        subscription = watched.subscribe()
        journal.write(SESSION, approval_requested(input={"password": "hunter2hunter2"}))
        await watched.look()
        await watched.close()
        [request] = await watched.approvals()
        assert request.input == {"password": "[masked: 14 characters]"}
        assert "hunter2" not in str([event async for event in subscription])

    async def test_finds_precedents(self, journal: Journal) -> None:
        """Earlier decisions on the same input are counted; a request that is not open raises."""
        journal.write(SESSION, *asked("c0", "deploy", approved=True), approval_requested())
        watched = WatchedJournal(journal.path)
        await watched.look()
        assert (await watched.precedents("ap-c1")).approved == 1
        with pytest.raises(LookupError, match="No open request 'ap-c0'"):
            await watched.precedents("ap-c0")

    async def test_explains(self, journal: Journal) -> None:
        """A waiting call is explained by the recorded nets; unknown calls and sessions raise."""
        journal.write(SESSION, approval_requested())
        watched = WatchedJournal(journal.path)
        await watched.look()
        view = await watched.explain(SESSION, "c1")
        assert [(n.net, n.asks) for n in view.nets] == [("approve-before-deploy", True)]
        with pytest.raises(LookupError, match="has made no call 'c9'"):
            await watched.explain(SESSION, "c9")
        with pytest.raises(UnknownSessionError):
            await watched.explain("nobody", "c1")

    async def test_deleted_journal_is_an_error(self, journal: Journal, tmp_path: Path) -> None:
        """A deleted journal is an error, and does not look like an idle one."""
        watched = WatchedJournal(journal.path)
        await watched.look()
        journal.close()
        remove(tmp_path)
        watched.follow(every=0.01)

        async def asked_again() -> None:
            while True:
                await watched.sessions()
                await asyncio.sleep(0.01)

        with pytest.raises(JournalError, match="There is no journal"):
            await asyncio.wait_for(asked_again(), 20)
        await watched.close()


async def test_console_shows_a_request_of_another_process(journal: Journal) -> None:
    """The console shows a request of another process and its decision."""
    journal.write(SESSION, approval_requested())
    watched = WatchedJournal(journal.path)
    await watched.look()
    app = InterlockConsole(read_only(watched), operator="maria")
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await pilot.press("alt+5", "enter")
        for _ in range(100):
            if isinstance(app.screen, ApprovalScreen):
                break
            await pilot.pause(0.02)
        assert isinstance(app.screen, ApprovalScreen)
        journal.write(SESSION, ApprovalDecided(approval_id="ap-c1", call_id="c1", approved=True, by="jo"))
        await watched.look()
        for _ in range(100):
            strips = app.screen._compositor.render_strips()
            if "Already approved by jo" in "\n".join(strip.text for strip in strips):
                break
            await pilot.pause(0.02)
        else:
            raise AssertionError("it was not told")
    await watched.close()
