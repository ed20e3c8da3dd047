"""Requests while the journal refuses to write: no call runs unrecorded; later, sessions continue."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from interlock.engine.agents import C, ErrorEvent, T
from interlock.engine.approvals import deadlines, fuse
from interlock.engine.approvals import withdrawals as withdrawing
from interlock.engine.gate.types import GrantTerms
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.journal import Journal, JournalError
from interlock.engine.history.journal.writer import Writer, Written
from interlock.engine.history.model.events import (
    ApprovalDecided,
    ApprovalExpired,
    ApprovalExtended,
    ApprovalGiven,
    ApprovalRequested,
    ApprovalWithdrawn,
    CallDecided,
    EventBody,
    GrantGiven,
    GrantRevoked,
    MessageAdded,
    ModeChanged,
    NetToggled,
    SessionStatus,
)
from interlock.engine.hub.hub import ApprovalPolicy, Hub
from interlock.engine.net.net import ToolCall
from interlock.engine.sessions.hosted import HostedSession
from tests.support.clock import Clock

from ..support.shop import Shop, bodies, check, start, until

ASK = "require human-approval before deploy"
TWO = "require 2 human-approvals before deploy"
DEPLOYED = ["deploy staging"]


class Disk:
    """A disk that is full whenever an event of a chosen type is written."""

    def __init__(self) -> None:
        self.refuses: type[EventBody] | None = None
        self.refused = 0

    @contextmanager
    def full_for(self, kind: type[EventBody]) -> Iterator[None]:
        """Refuse events of this type within the block; at least one must have been refused."""
        self.refuses, self.refused = kind, 0
        try:
            yield
        finally:
            self.refuses = None
        assert self.refused


async def wait_until(holds: Callable[[], object]) -> None:
    """Yield to other tasks until `holds` is true."""
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 - the state belongs to another task
            await asyncio.sleep(0.002)


@pytest.fixture(autouse=True)
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()
    commit = Writer.commit

    def committed(writer: Writer, batch: list[Written]) -> None:
        if disk.refuses is not None and any(type(w.event.body) is disk.refuses for w in batch):
            disk.refused += 1
            raise OSError("no space left on device")
        commit(writer, batch)

    monkeypatch.setattr(Writer, "commit", committed)
    for module in (deadlines, fuse, withdrawing):
        monkeypatch.setattr(module, "RETRY", 0.01)
    return disk


@pytest.fixture
async def hub(tmp_path: Path, clock: Clock) -> AsyncIterator[Hub]:
    hub = Hub(Journal.open(tmp_path / "hub.db", clock=clock))
    yield hub
    async with asyncio.timeout(20):
        await hub.close()


async def wait_until_idle(hub: Hub, session: str) -> None:
    """Wait until the session is idle; then check that fold, hub and gate agree."""
    async with asyncio.timeout(20):
        with suppress(JournalError):  # the run failed with the refused write
            await hub.wait(session)
    await hub._live.get(session)[0].ledger.catch_up()
    await check(hub, session)


def told(hub: Hub, session: str) -> str:
    """Return the latest tool result that the model received."""
    return [m.text or "" for m in bodies(hub, session, MessageAdded) if m.role == "tool"][-1]


class TestAsking:
    async def test_unrecorded_request_blocks_the_call(self, hub: Hub, shop: Shop, disk: Disk) -> None:
        """If a request cannot be recorded, no operator sees it and the call is blocked."""
        events = hub.subscribe()
        with disk.full_for(ApprovalRequested):
            session = await start(hub, shop, C(deploy={}), T("first"), C(deploy={}), T("done"), rules=ASK)
            await wait_until_idle(hub, session)
        assert "could not be written" in told(hub, session)
        assert (shop.ran, await hub.approvals()) == ([], [])
        await hub.send(session, "again", by="ada")
        await until(events, ApprovalRequested)
        [request] = await hub.approvals()
        assert (await hub.decide(request.id, approved=True, by="ada")).ok
        await wait_until_idle(hub, session)
        assert shop.ran == DEPLOYED


class TestAnswering:
    async def session_with_request(
        self, hub: Hub, shop: Shop, rules: str = ASK, *replies: object
    ) -> tuple[str, str]:
        events = hub.subscribe()
        session = await start(hub, shop, *(replies or (C(deploy={}), T("done"))), rules=rules)  # type: ignore[arg-type]
        await until(events, ApprovalRequested)
        [request] = await hub.approvals()
        return session, request.id

    @pytest.mark.parametrize("approved", [True, False])
    async def test_unrecorded_answer_leaves_request_open(
        self, hub: Hub, shop: Shop, disk: Disk, approved: bool
    ) -> None:
        """The request stays open, the operator gets the reason, and the same answer counts later."""
        session, request = await self.session_with_request(hub, shop)
        with disk.full_for(ApprovalDecided):
            outcome = await hub.decide(request, approved=approved, by="ada")
        assert not outcome.ok
        assert outcome.message.startswith("Not decided, the journal refused it: ")
        assert ([a.id for a in await hub.approvals()], shop.ran) == ([request], [])
        assert (await hub.decide(request, approved=approved, by="ada")).ok
        await wait_until_idle(hub, session)
        assert shop.ran == (DEPLOYED if approved else [])

    async def test_unrecorded_approval_of_two_does_not_count(
        self, hub: Hub, shop: Shop, disk: Disk
    ) -> None:
        """An approval that was not recorded does not count: two recorded approvals are still required."""
        session, request = await self.session_with_request(hub, shop, TWO)
        with disk.full_for(ApprovalGiven):
            assert not (await hub.decide(request, approved=True, by="ada")).ok
        assert (await hub.approvals())[0].given == ()
        assert (await hub.decide(request, approved=True, by="ben")).ok
        assert shop.ran == []
        assert (await hub.decide(request, approved=True, by="ada")).ok
        await wait_until_idle(hub, session)
        assert shop.ran == DEPLOYED

    async def test_answer_of_disconnected_operator_counts_once(self, hub: Hub, shop: Shop) -> None:
        """If an operator disconnects while an approval is written, it counts exactly once."""
        session, request = await self.session_with_request(hub, shop, TWO)
        gone = asyncio.ensure_future(hub.decide(request, approved=True, by="ada"))
        await asyncio.sleep(0)
        gone.cancel()
        again, other = await asyncio.gather(
            *(hub.decide(request, approved=True, by=by) for by in ("ada", "ben"))
        )
        assert (again.ok, other.ok) == (False, True)
        await wait_until_idle(hub, session)
        assert (shop.ran, len(bodies(hub, session, ApprovalGiven))) == (DEPLOYED, 1)

    async def test_unrecorded_request_has_no_withdrawal(
        self, hub: Hub, shop: Shop, disk: Disk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """If a call is cancelled at the moment its request is refused, no withdrawal is recorded."""
        session = await start(hub, shop, T("hello"), rules=ASK)
        await wait_until_idle(hub, session)
        hosted = hub._live.hosted(session)
        record = HostedSession.record

        async def cancelling(
            self: HostedSession, *some: EventBody, on_written: Callable[[bool], None] | None = None
        ) -> None:
            def told(written: bool) -> None:
                assert on_written is not None
                on_written(written)
                deciding.cancel()

            asks = any(isinstance(body, ApprovalRequested) for body in some)
            await record(self, *some, on_written=told if asks else on_written)

        monkeypatch.setattr(HostedSession, "record", cancelling)
        with disk.full_for(ApprovalRequested):
            deciding = asyncio.ensure_future(hosted.decide(ToolCall("c1", "deploy", {})))
            with pytest.raises(asyncio.CancelledError):
                await deciding
        await hosted.record()
        assert bodies(hub, session, ApprovalWithdrawn) == []
        await check(hub, session)

    async def test_unrecorded_extension_keeps_the_deadline(
        self, hub: Hub, shop: Shop, disk: Disk, clock: Clock
    ) -> None:
        """If the journal refuses an extension, the deadline of the request stays."""
        session, request = await self.session_with_request(hub, shop, f"{ASK} within 15m")
        before = (await hub.approvals())[0].expires
        with disk.full_for(ApprovalExtended):
            outcome = await hub.extend(request, seconds=3600, by="ben")
        assert outcome.message.startswith("Not extended, the journal refused it: ")
        assert (await hub.approvals())[0].expires == before
        clock.advance(901)
        assert "Too late" in (await hub.decide(request, approved=True, by="ada")).message
        await hub.abort(session)
        await wait_until_idle(hub, session)

    async def test_unrecorded_decision_blocks_the_call(self, hub: Hub, shop: Shop, disk: Disk) -> None:
        """G-15: an approved call whose decision cannot be recorded does not run; the next one may."""
        replies = (C(deploy={}), T("first"), C(deploy={}), T("done"))
        session, request = await self.session_with_request(hub, shop, ASK, *replies)
        with disk.full_for(CallDecided):
            assert (await hub.decide(request, approved=True, by="ada")).ok
            await wait_until(lambda: disk.refused)
            await wait_until_idle(hub, session)
        assert shop.ran == []
        assert "decision could not be recorded" in told(hub, session)
        await self.answer_another_request(hub, session)
        assert shop.ran == DEPLOYED

    @pytest.mark.slow
    async def test_unrecorded_grant_has_no_effect(self, hub: Hub, shop: Shop, disk: Disk) -> None:
        """If the grant cannot be recorded, neither the call nor the grant takes effect."""
        replies = (C(deploy={}), T("first"), C(deploy={}), T("done"))
        session, request = await self.session_with_request(hub, shop, ASK, *replies)
        with disk.full_for(GrantGiven):
            grant = GrantTerms("names")
            assert (await hub.decide(request, approved=True, by="ada", grant=grant, reason="often")).ok
            await wait_until(lambda: disk.refused)
            await wait_until_idle(hub, session)
        assert (shop.ran, (await hub.session(session)).grants) == ([], {})
        await self.answer_another_request(hub, session)
        assert shop.ran == DEPLOYED

    async def answer_another_request(self, hub: Hub, session: str) -> None:
        """Send another message, approve the resulting request and wait for the session to be idle."""
        events = hub.subscribe()
        await hub.send(session, "again", by="ada")
        await until(events, ApprovalRequested)
        [request] = await hub.approvals()
        assert (await hub.decide(request.id, approved=True, by="ada")).ok
        await wait_until_idle(hub, session)

    @pytest.mark.slow
    async def test_unrecorded_revocation_keeps_the_grant(self, hub: Hub, shop: Shop, disk: Disk) -> None:
        """If the journal refuses a revocation, the grant stays, and the revocation can be repeated."""
        replies = (C(deploy={}), T("first"), C(deploy={}), T("second"), C(deploy={}), T("done"))
        session, request = await self.session_with_request(hub, shop, ASK, *replies)
        await hub.decide(request, approved=True, by="ada", grant=GrantTerms("names"), reason="often")
        await wait_until_idle(hub, session)
        with disk.full_for(GrantRevoked):
            outcome = await hub.revoke_grant(session, "grant-1", by="ben")
        assert outcome.message.startswith("Not revoked, the journal refused it: ")
        await hub.send(session, "again", by="ada")
        await wait_until_idle(hub, session)
        assert shop.ran == DEPLOYED * 2
        assert (await hub.revoke_grant(session, "grant-1", by="ben")).ok
        await self.answer_another_request(hub, session)
        assert bodies(hub, session, CallDecided)[-1].granted == ()


class TestEnding:
    session_with_request = TestAnswering.session_with_request

    async def test_withdrawal_is_retried_until_recorded(self, hub: Hub, shop: Shop, disk: Disk) -> None:
        """A stopped agent's request stays until its withdrawal is recorded, but cannot be approved."""
        session, request = await self.session_with_request(hub, shop)
        with disk.full_for(ApprovalWithdrawn):
            await hub.abort(session)
            await wait_until(lambda: disk.refused > 1)
            assert [a.id for a in await hub.approvals()] == [request]
            assert not (await hub.decide(request, approved=True, by="ada")).ok
        await wait_until(lambda: not hub._live.get(session)[0].state.approvals)
        await wait_until_idle(hub, session)
        assert (shop.ran, len(bodies(hub, session, ApprovalWithdrawn))) == ([], 1)

    async def test_refused_answer_during_stop_leaves_no_request_open(
        self, hub: Hub, shop: Shop, disk: Disk
    ) -> None:
        """If the agent is stopped while an answer is written and refused, the request is withdrawn."""
        session, request = await self.session_with_request(hub, shop)
        with disk.full_for(ApprovalDecided):
            answer = asyncio.ensure_future(hub.decide(request, approved=True, by="ada"))
            await asyncio.sleep(0)
            await hub.abort(session)
            assert not (await answer).ok
        await wait_until(lambda: not hub._live.get(session)[0].state.approvals)
        await wait_until_idle(hub, session)
        assert (shop.ran, len(bodies(hub, session, ApprovalWithdrawn))) == ([], 1)

    async def test_failed_run_after_a_refused_write_is_recorded(
        self, hub: Hub, shop: Shop, disk: Disk
    ) -> None:
        """A failed run is recorded even if the session has not learned of an earlier refused write."""
        session, _ = await self.session_with_request(hub, shop)
        hosted = hub._live.get(session)[0]
        with disk.full_for(ModeChanged):
            lost = hosted.hand_over(ModeChanged(mode="shadow", by="ada"))
            while session in hub._journal._heads:  # the event loop is blocked, so no task learns of it
                time.sleep(0.001)  # noqa: ASYNC251
        await hosted.on_event(ErrorEvent(error=RuntimeError("broken")))
        with pytest.raises(JournalError):
            await lost
        failed = bodies(hub, session, SessionStatus)[-1]
        assert (failed.status, failed.error) == ("failed", "RuntimeError: broken")
        assert fold(await hub.recorded(session)) == await hub.session(session)

    async def test_closing_retries_the_withdrawal_once(self, hub: Hub, shop: Shop, disk: Disk) -> None:
        """Closing retries the withdrawal once; if that is refused too, the request stays."""
        session, request = await self.session_with_request(hub, shop)
        with disk.full_for(ApprovalWithdrawn):
            await hub.abort(session)
            with pytest.raises(JournalError):
                await hub.close_session(session, by="ada")
            tried = disk.refused
            await wait_until(lambda: disk.refused > tried)
            assert [a.id for a in await hub.approvals()] == [request]
        await hub.close_session(session, by="ada")
        assert len(bodies(hub, session, ApprovalWithdrawn)) == 1

    async def test_expiry_is_retried_until_recorded(
        self, tmp_path: Path, shop: Shop, disk: Disk, clock: Clock, caplog: pytest.LogCaptureFixture
    ) -> None:
        """An expired request stays until its denial is recorded, but cannot be approved; logged once."""
        policy = ApprovalPolicy(expire=0.02)
        hub = Hub(Journal.open(tmp_path / "short.db", clock=clock), policy=policy)
        with disk.full_for(ApprovalExpired):
            session, request = await self.session_with_request(hub, shop)
            clock.advance(1)
            await wait_until(lambda: disk.refused > 2)
            assert not (await hub.decide(request, approved=True, by="ada")).ok
        await wait_until_idle(hub, session)
        assert (shop.ran, len(bodies(hub, session, ApprovalExpired))) == ([], 1)
        assert [each.levelname for each in caplog.records if "has expired" in each.message] == ["ERROR"]
        await hub.close()


class TestSwitching:
    session_with_request = TestAnswering.session_with_request

    @pytest.mark.parametrize("how", ["net", "mode"])
    async def test_unrecorded_switch_has_no_effect(
        self, hub: Hub, shop: Shop, disk: Disk, how: str
    ) -> None:
        """G-63: a switch that the journal refuses has no effect, also on a waiting call."""
        session, request = await self.session_with_request(hub, shop)
        with disk.full_for(NetToggled if how == "net" else ModeChanged):
            outcome = (
                await hub.toggle_net(session, "approve-before-deploy", False, by="ben", reason="a test")
                if how == "net"
                else await hub.set_mode(session, "shadow", by="ben", reason="a test")
            )
        assert outcome.message.startswith("Not switched, the journal refused it: ")
        assert ([a.id for a in await hub.approvals()], shop.ran) == ([request], [])
        assert (await hub.decide(request, approved=False, by="ada")).ok
        await wait_until_idle(hub, session)
        assert shop.ran == []

    async def test_switch_counts_although_withdrawal_fails(
        self, hub: Hub, shop: Shop, disk: Disk
    ) -> None:
        """The switch takes effect even if the request cannot be withdrawn; an answer does not count."""
        session, request = await self.session_with_request(hub, shop, f"{ASK}\nblock rm")
        with disk.full_for(ApprovalWithdrawn):
            assert (await hub.toggle_net(session, "block-rm", False, by="ben", reason="a test")).ok
        assert [a.id for a in await hub.approvals()] == [request]
        events = hub.subscribe()
        late = await hub.decide(request, approved=True, by="ada")
        assert not late.ok
        await until(events, ApprovalRequested)
        [again] = await hub.approvals()
        assert (again.id != request, shop.ran) == (True, [])
        assert (await hub.decide(again.id, approved=True, by="ada")).ok
        await wait_until_idle(hub, session)
        assert shop.ran == DEPLOYED
