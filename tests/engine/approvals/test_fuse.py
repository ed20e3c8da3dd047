"""The fuse of a high-risk approval: the call is released after a delay, until then it can be taken
back."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from interlock.engine.approvals.policy import Credential
from interlock.engine.core.approvers import Operator, Operators
from interlock.engine.gate.types import GrantTerms
from interlock.engine.history.errors import JournalError, ServerEnded
from interlock.engine.history.fold.event_text import headline
from interlock.engine.history.model.events import (
    ApprovalDecided,
    ApprovalFused,
    ApprovalRequested,
    ApprovalTakenBack,
    ApprovalWithdrawn,
    CallDecided,
    GrantGiven,
)
from interlock.engine.history.model.state import ApprovalState
from interlock.engine.hub.hub import ApprovalPolicy, CallAnswer, Hub

from ..support.external_agent import check_fold, events, opened, recorded, resumed
from ..support.shop import until

HIGH = "require human-approval before deploy risk high"
TWO = "require 2 human-approvals before deploy within 10m risk high"
LONG = 3600.0


@asynccontextmanager
async def asked(
    folder: Path, rules: str = HIGH, fuse: float = LONG
) -> AsyncGenerator[tuple[Hub, ApprovalState, asyncio.Future[CallAnswer]]]:
    """A hub with an agent's deploy that waits for approval, its request and its answer."""
    hub = Hub.open(folder / "hub.db", policy=ApprovalPolicy(fuse=fuse))
    await opened(hub, rules)
    heard = hub.subscribe()
    call = asyncio.ensure_future(hub.call("robin-1", "d1", "deploy", {"env": "prod"}))
    await until(heard, ApprovalRequested)
    heard.close()
    [request] = await hub.approvals()
    try:
        yield hub, request, call
    finally:
        call.cancel()
        await hub.close()


async def end_fuse(hub: Hub) -> None:
    """End the fuse of the only request now, as its timer would."""
    questions = hub._live.hosted("robin-1").questions
    [waiting] = questions.table.open.values()
    assert waiting.fuse is not None
    await questions.fuses.release(waiting, waiting.fuse)


async def approve_with_fuse(hub: Hub, request: ApprovalState, by: str = "maria") -> None:
    outcome = await hub.decide(request.id, approved=True, by=by, digest=request.digest)
    assert outcome.ok, outcome.message
    assert outcome.message.endswith("unless taken back")


def headlines(hub: Hub) -> list[str]:
    return [headline(event) for event in events(hub.database)]


class TestRelease:
    async def test_call_follows_after_the_fuse(self, tmp_path: Path) -> None:
        """The approval is recorded at once; the decision and the call follow after the fuse."""
        async with asked(tmp_path, fuse=0.05) as (hub, request, call):
            await approve_with_fuse(hub, request)
            assert (await call).approved_by == ("maria",)
            kinds = [
                type(event.body)
                for event in events(hub.database)
                if isinstance(event.body, ApprovalFused | ApprovalDecided | CallDecided)
            ]
            assert kinds == [ApprovalFused, ApprovalDecided, CallDecided]
            await check_fold(hub)

    async def test_burning_fuse_shows_approver_and_time(self, tmp_path: Path) -> None:
        """While the fuse burns, the call does not run and a second approval is refused."""
        async with asked(tmp_path) as (hub, request, call):
            await approve_with_fuse(hub, request)
            [waits] = await hub.approvals()
            assert waits.fuse is not None
            assert waits.fuse.by == "maria"
            assert round((waits.fuse.until - waits.fuse.at).total_seconds()) == LONG
            second = await hub.decide(request.id, approved=True, by="ben", digest=request.digest)
            assert not second.ok
            assert "maria has approved it already" in second.message
            assert (call.done(), recorded(hub.database, CallDecided)) == (False, [])
            await end_fuse(hub)
            assert (await call).outcome == "allow"

    @pytest.mark.variants
    @pytest.mark.parametrize(
        ("error", "again"), [(ServerEnded("its lease is over"), False), (JournalError("no room"), True)]
    )
    async def test_refused_release_is_retried(
        self,
        tmp_path: Path,
        error: JournalError,
        again: bool,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """A refused release is retried, except on a server that has ended; that logs no traceback."""
        async with asked(tmp_path) as (hub, request, call):
            await approve_with_fuse(hub, request)
            questions = hub._live.hosted("robin-1").questions
            [waiting] = questions.table.open.values()
            assert waiting.fuse is not None
            before = waiting.fuse.timer

            def refuse(*_: object, **__: object) -> None:
                raise error

            with monkeypatch.context() as journal:
                journal.setattr(hub._journal, "submit", refuse)
                await end_fuse(hub)
            assert (waiting.fuse.timer is not before) is again
            assert any(each.levelname == "ERROR" for each in caplog.records) is again
            assert not any(each.exc_info for each in caplog.records)
            assert not call.done()

    async def test_lower_risk_is_released_at_once(self, tmp_path: Path) -> None:
        """A rule of lower risk releases its call at once."""
        async with asked(tmp_path, "require human-approval before deploy risk low") as (
            hub,
            request,
            call,
        ):
            await hub.decide(request.id, approved=True, by="maria", digest=request.digest)
            assert (await call).outcome == "allow"
            assert recorded(hub.database, ApprovalFused) == []

    async def test_fuse_starts_with_last_approval(self, tmp_path: Path) -> None:
        """If two approvers are required, only the second approval starts the fuse."""
        async with asked(tmp_path, TWO) as (hub, request, call):
            first = await hub.decide(request.id, approved=True, by="maria", digest=request.digest)
            assert "one more person" in first.message
            [waits] = await hub.approvals()
            assert waits.fuse is None
            await approve_with_fuse(hub, request, "ben")
            await end_fuse(hub)
            assert (await call).approved_by == ("maria", "ben")
            await check_fold(hub)

    async def test_edited_input_runs_after_the_fuse(self, tmp_path: Path) -> None:
        """An edited input is part of the approval and runs after the fuse."""
        async with asked(tmp_path) as (hub, request, call):
            outcome = await hub.decide(
                request.id, approved=True, by="maria", digest=request.digest, input={"env": "lab"}
            )
            assert outcome.ok
            [waits] = await hub.approvals()
            assert waits.fuse is not None
            assert waits.fuse.edited
            await end_fuse(hub)
            answer = await call
            assert (answer.input, answer.edited) == ({"env": "lab"}, True)


class TestTakenBack:
    async def test_request_is_open_again(self, tmp_path: Path) -> None:
        """The request is open again and names who took it back; a new approval starts a new fuse."""
        async with asked(tmp_path) as (hub, request, call):
            await approve_with_fuse(hub, request)
            outcome = await hub.take_back(request.id, by="ben")
            assert outcome.ok
            assert outcome.message == "deploy: ben took back the approval of maria"
            [waits] = await hub.approvals()
            assert (waits.id, waits.fuse, waits.taken_back) == (request.id, None, "ben")
            assert [each.by for each in recorded(hub.database, ApprovalTakenBack)] == ["ben"]
            assert not call.done()
            await check_fold(hub)
            await approve_with_fuse(hub, request, "ben")
            await end_fuse(hub)
            assert (await call).approved_by == ("ben",)
            await check_fold(hub)

    async def test_voids_all_approvals(self, tmp_path: Path) -> None:
        """Taking back voids the approvals of all approvers."""
        async with asked(tmp_path, TWO) as (hub, request, call):
            await hub.decide(request.id, approved=True, by="maria", digest=request.digest)
            await approve_with_fuse(hub, request, "ben")
            assert (await hub.take_back(request.id, by="maria")).ok
            [waits] = await hub.approvals()
            assert (waits.given, call.done()) == ((), False)
            first = await hub.decide(request.id, approved=True, by="maria", digest=request.digest)
            assert "one more person" in first.message
            await check_fold(hub)

    async def test_only_approved_request_can_be_taken_back(self, tmp_path: Path) -> None:
        """An open or decided request cannot be taken back; without a name none can."""
        async with asked(tmp_path) as (hub, request, call):
            assert not (await hub.take_back(request.id, by="ben")).ok
            await approve_with_fuse(hub, request)
            assert not (await hub.take_back(request.id, by=" ")).ok
            await end_fuse(hub)
            late = await hub.take_back(request.id, by="ben")
            assert (late.ok, late.message) == (False, "Already approved by maria")
            assert (await call).outcome == "allow"

    async def test_denial_blocks_the_call(self, tmp_path: Path) -> None:
        """A denial while the fuse burns blocks the call."""
        async with asked(tmp_path) as (hub, request, call):
            await approve_with_fuse(hub, request)
            denied = await hub.decide(
                request.id, approved=False, by="ben", reason="no", digest=request.digest
            )
            assert denied.ok
            assert (await call).outcome == "block"
            await check_fold(hub)


class TestMovedWorld:
    async def test_switched_rule_voids_the_approval(self, tmp_path: Path) -> None:
        """Switching a rule while the fuse burns voids the approval, and the call gets a new request."""
        async with asked(tmp_path, f"{HIGH}\nblock rm") as (hub, request, call):
            await approve_with_fuse(hub, request)
            heard = hub.subscribe()
            assert (await hub.toggle_net("robin-1", "block-rm", False, by="ben", reason="x")).ok
            await until(heard, ApprovalRequested)
            [again] = await hub.approvals()
            assert (again.id != request.id, again.fuse, call.done()) == (True, None, False)
            await check_fold(hub)

    async def test_approver_who_left_the_group_renews_request(self, tmp_path: Path) -> None:
        """The approver's groups are checked at the release; if they changed, the request is renewed."""
        rule = "require human-approval before deploy of security risk high"
        members = Operators(
            (Operator("maria", groups=("security",)), Operator("ada", groups=("security",)))
        )
        async with asked(tmp_path, rule) as (hub, request, call):
            hub.know_operators(members)
            token = Credential("t1", lambda *_: True, members.find("maria"))
            outcome = await hub.decide(
                request.id, approved=True, by="maria", digest=request.digest, credential=token
            )
            assert outcome.ok, outcome.message
            hub.know_operators(Operators((Operator("maria"), Operator("ada", groups=("security",)))))
            heard = hub.subscribe()
            await end_fuse(hub)
            await until(heard, ApprovalRequested)
            [withdrawn] = recorded(hub.database, ApprovalWithdrawn)
            assert "The approval of maria no longer counts, maria is not in security" in withdrawn.reason
            assert recorded(hub.database, CallDecided) == []
            assert not call.done()

    @pytest.mark.slow
    async def test_deadline_during_the_fuse_does_not_matter(self, tmp_path: Path) -> None:
        """An approval in time counts even if the deadline passes during the fuse."""
        rules = "require human-approval before deploy within 1s risk high"
        async with asked(tmp_path, rules) as (hub, request, call):
            await approve_with_fuse(hub, request)
            assert request.expires is not None
            left = (request.expires - hub._journal.clock()).total_seconds()
            await asyncio.sleep(max(0.0, left) + 0.05)
            await hub.record_message("robin-1", "assistant", "still here")
            [waits] = await hub.approvals()
            assert waits.fuse is not None
            assert (await hub.take_back(request.id, by="ben")).ok
            assert (await call).outcome == "block"

    @pytest.mark.slow
    async def test_freeze_prevents_the_release(self, tmp_path: Path) -> None:
        """A fuse that ends during a freeze releases nothing, and the approval can still be taken back."""
        async with asked(tmp_path) as (hub, request, call):
            await approve_with_fuse(hub, request)
            await hub.freeze(by="ben")
            burning = asyncio.ensure_future(end_fuse(hub))
            await hub.record_message("robin-1", "assistant", "still here")
            assert recorded(hub.database, ApprovalDecided) == []
            assert (await hub.take_back(request.id, by="ben")).ok
            await hub.lift_freeze(by="ben", reason="looked at")
            await burning
            assert (recorded(hub.database, ApprovalDecided), call.done()) == ([], False)

    async def test_freeze_at_end_of_fuse_prevents_the_release(self, tmp_path: Path) -> None:
        """A freeze while the end of the fuse waits for another action prevents the release."""
        async with asked(tmp_path) as (hub, request, call):
            await approve_with_fuse(hub, request)
            said = asyncio.ensure_future(hub.comment(request.id, "is this right?", by="ada"))
            await asyncio.sleep(0)
            burning = asyncio.ensure_future(end_fuse(hub))
            await asyncio.sleep(0)
            assert (await hub.freeze(by="ben")).ok
            await said
            await hub.record_message("robin-1", "assistant", "still here")
            assert recorded(hub.database, ApprovalDecided) == []
            assert (await hub.take_back(request.id, by="ben")).ok
            await hub.lift_freeze(by="ben", reason="looked at")
            await burning
            assert (recorded(hub.database, ApprovalDecided), call.done()) == ([], False)
            await check_fold(hub)

    async def test_approver_without_grant_right_renews_request(self, tmp_path: Path) -> None:
        """A grant requires that the approver may still grant when the call is released."""
        operators = Operators((Operator("maria", "administer"),))
        rights = ["decide", "administer"]
        async with asked(tmp_path) as (hub, request, _):
            hub.know_operators(operators)
            token = Credential("t1", lambda _, needed: needed in rights, operators.find("maria"))
            outcome = await hub.decide(
                request.id,
                approved=True,
                by="maria",
                digest=request.digest,
                credential=token,
                grant=GrantTerms("names"),
                reason="often",
            )
            assert outcome.ok, outcome.message
            rights.remove("administer")
            await end_fuse(hub)
            [withdrawn] = recorded(hub.database, ApprovalWithdrawn)
            assert "the token of maria may not 'administer' any more" in withdrawn.reason
            assert recorded(hub.database, GrantGiven) == []


class TestCrash:
    @pytest.mark.slow
    async def test_call_gets_a_new_request(self, tmp_path: Path) -> None:
        """If the host is killed during the fuse, the call was not released and gets a new request."""
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.engine.approvals.fused_host",
            str(tmp_path / "hub.db"),
            stdout=asyncio.subprocess.PIPE,
        )
        assert child.stdout is not None
        async with asyncio.timeout(60):
            assert await child.stdout.readline() == b"burns\n"
        os.kill(child.pid, signal.SIGKILL)
        await child.wait()
        hub = Hub.open(tmp_path / "hub.db", policy=ApprovalPolicy(fuse=0.05))
        await resumed(hub, rules=HIGH)
        heard = hub.subscribe()
        call = asyncio.ensure_future(hub.call("robin-1", "d1", "deploy", {}))
        await until(heard, ApprovalRequested)
        [request] = await hub.approvals()
        assert (request.fuse, recorded(hub.database, CallDecided)) == (None, [])
        assert len(recorded(hub.database, ApprovalWithdrawn)) == 1
        await hub.decide(request.id, approved=False, by="ben", digest=request.digest)
        assert (await call).outcome == "block"
        await check_fold(hub)
        await hub.close()
