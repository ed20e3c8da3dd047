"""A request stays open when its client gives up; the agent gets its answer by calling again (G-102)."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

import pytest

from interlock.engine.gate.types import GrantTerms
from interlock.engine.history.errors import JournalError
from interlock.engine.history.fold.event_text import headline
from interlock.engine.history.model.events import (
    ApprovalDecided,
    ApprovalFused,
    ApprovalRequested,
    ApprovalWithdrawn,
    CallDecided,
    CallLate,
    CallRepeated,
)
from interlock.engine.history.model.state import ApprovalState
from interlock.engine.hub.hub import ApprovalPolicy, CallAnswer, CallIdUsed, CallWithdrawn, Hub

from ..support.external_agent import check_fold, events, opened, recorded, resumed
from ..support.shop import until
from .late_host import RULES as TWO_TOOLS

PLAIN = "require human-approval before deploy"
PROD = {"env": "prod"}
LONG = 3600.0


@asynccontextmanager
async def hub_with_late_request(
    folder: Path, rules: str = PLAIN, late: float = LONG, **policy: float
) -> AsyncGenerator[tuple[Hub, ApprovalState]]:
    """A hub with the request of a deploy `d1` whose client has given up."""
    hub = Hub.open(folder / "hub.db", policy=ApprovalPolicy(late=late, **policy))
    await opened(hub, rules)
    heard = hub.subscribe()
    first = asyncio.ensure_future(hub.call("robin-1", "d1", "deploy", PROD))
    await until(heard, ApprovalRequested)
    heard.close()
    first.cancel()
    assert await hub.give_up_call("robin-1", "d1", "nobody decided") is not None
    [request] = await hub.approvals()
    try:
        yield hub, request
    finally:
        await hub.close()


def repeat_call(hub: Hub, call_id: str = "d2", **other: str) -> asyncio.Future[CallAnswer]:
    """Make the same call under another id."""
    return hub.submit_call("robin-1", call_id, "deploy", PROD, **other)


async def repeat_call_until_recorded(hub: Hub, call_id: str = "d2") -> asyncio.Future[CallAnswer]:
    """Make the same call again; return it when the repetition is in the record."""
    heard = hub.subscribe()
    waits = repeat_call(hub, call_id)
    await until(heard, CallRepeated)
    heard.close()
    return waits


async def approve(hub: Hub, request: ApprovalState, by: str = "maria", **more: object) -> str:
    outcome = await hub.decide(request.id, approved=True, by=by, digest=request.digest, **more)
    assert outcome.ok, outcome.message
    return outcome.message


def set_clock(hub: Hub, now: datetime) -> None:
    """Set a time later than any timer knows, as after sleep of the machine."""
    hosted = hub._live.hosted("robin-1")
    hub._journal._clock = hosted.questions.table.clock = lambda: now


async def wait_until_recorded(hub: Hub) -> None:
    """Return when everything submitted earlier is in the record."""
    await hub.record_message("robin-1", "assistant", "still here")


class TestStaysOpen:
    async def test_request_stays_in_queue_as_late(self, tmp_path: Path) -> None:
        """G-102: the request stays in the queue; both it and the record say that it is late."""
        async with hub_with_late_request(tmp_path) as (hub, request):
            assert request.late is not None
            [body] = recorded(hub.database, CallLate)
            assert (body.call_id, body.until) == ("d1", request.late)
            assert "its client is gone, open until" in headline(events(hub.database)[-1])
            assert recorded(hub.database, ApprovalWithdrawn) == []
            await check_fold(hub)

    async def test_withdrawn_if_late_answers_are_off(self, tmp_path: Path) -> None:
        """If late answers are off, giving up withdraws the request. A withdrawal always does."""
        async with hub_with_late_request(tmp_path) as (hub, _):
            hub._live.hosted("robin-1").questions.table.policy = ApprovalPolicy()
            heard = hub.subscribe()
            waits = hub.submit_call("robin-1", "x1", "deploy", {"env": "lab"})
            await until(heard, ApprovalRequested)
            assert await hub.give_up_call("robin-1", "x1", "nobody decided") is None
            with pytest.raises(CallWithdrawn):
                await waits
            await hub.withdraw_call("robin-1", "d1", "not wanted")
            assert await hub.approvals() == []
            await check_fold(hub)

    async def test_giving_up_again_keeps_the_deadline(self, tmp_path: Path) -> None:
        """A client that gives up repeatedly gets the same deadline, and no further event is recorded."""
        async with hub_with_late_request(tmp_path) as (hub, request):
            for _ in range(3):
                assert await hub.give_up_call("robin-1", "d1", "still nobody") == request.late
            assert len(recorded(hub.database, CallLate)) == 1

    async def test_giving_up_after_the_deadline_withdraws(self, tmp_path: Path) -> None:
        """Giving up again after the late deadline withdraws the request."""
        async with hub_with_late_request(tmp_path) as (hub, request):
            set_clock(hub, request.late)
            assert await hub.give_up_call("robin-1", "d1", "still nobody") is None
            assert await hub.approvals() == []

    async def test_late_request_not_repeated_in_time_is_withdrawn(self, tmp_path: Path) -> None:
        """A late request that is not repeated in time is withdrawn with a reason, even if approved."""
        async with hub_with_late_request(tmp_path, late=0.2) as (hub, request):
            heard = hub.subscribe()
            await approve(hub, request)
            body = (await until(heard, ApprovalWithdrawn)).body
            assert "the agent did not make the call again by" in body.reason
            await wait_until_recorded(hub)
            assert recorded(hub.database, CallDecided) == []
            await check_fold(hub)
            waits = repeat_call(hub)
            await until(heard, ApprovalRequested)
            waits.cancel()

    @pytest.mark.slow
    async def test_rules_deadline_applies_to_late_request(self, tmp_path: Path) -> None:
        """The rule's deadline also applies to a late request; a repeated call is requested again."""
        async with hub_with_late_request(tmp_path, f"{PLAIN} within 1s") as (hub, _):
            heard = hub.subscribe()
            await until(heard, CallDecided)
            waits = repeat_call(hub)
            await until(heard, ApprovalRequested)
            assert not waits.done()
            waits.cancel()
            await check_fold(hub)


class TestMadeAgain:
    async def test_waits_for_the_same_request(self, tmp_path: Path) -> None:
        """A repeated call waits for the existing request instead of opening a second one."""
        async with hub_with_late_request(tmp_path) as (hub, request):
            waits = await repeat_call_until_recorded(hub)
            await wait_until_recorded(hub)
            [stands] = await hub.approvals()
            assert (stands.id, stands.late, waits.done()) == (request.id, None, False)
            await approve(hub, request)
            answer = await waits
            assert (answer.outcome, answer.input, answer.approved_by) == ("allow", PROD, ("maria",))
            assert [b.made_as for b in recorded(hub.database, CallRepeated)] == ["d2"]
            await hub.result("robin-1", "d2", output="ok", is_error=False)
            assert (await hub.session("robin-1")).calls["d1"].status == "done"
            await check_fold(hub)

    async def test_approval_is_held_for_the_repeated_call(self, tmp_path: Path) -> None:
        """G-103: an approval of a late request is held for the repeated call and allows it once."""
        async with hub_with_late_request(tmp_path) as (hub, request):
            assert "it runs once the agent makes the call again" in await approve(hub, request)
            [held] = await hub.approvals()
            assert (held.fuse and held.fuse.by, held.late) == ("maria", request.late)
            [fused] = recorded(hub.database, ApprovalFused)
            assert fused.held == request.late
            await wait_until_recorded(hub)
            assert recorded(hub.database, CallDecided) == []
            answer = await repeat_call(hub)
            assert (answer.outcome, answer.approved_by) == ("allow", ("maria",))
            assert await hub.approvals() == []
            heard = hub.subscribe()
            second = repeat_call(hub, "d3")
            await until(heard, ApprovalRequested)
            assert not second.done()
            second.cancel()
            await check_fold(hub)

    async def test_only_one_of_two_repeated_calls_passes(self, tmp_path: Path) -> None:
        """G-103: of two repeated calls at once, one takes the answer; the other needs an approval."""
        async with hub_with_late_request(tmp_path) as (hub, request):
            await approve(hub, request)
            heard = hub.subscribe()
            one, other = repeat_call(hub, "d2"), repeat_call(hub, "d3")
            assert (await one).outcome == "allow"
            await until(heard, ApprovalRequested)
            assert not other.done()
            [asked] = await hub.approvals()
            assert asked.call_id == "d3"
            other.cancel()
            await check_fold(hub)

    async def test_repeated_under_the_same_id(self, tmp_path: Path) -> None:
        """A client that repeats the call under the same id also gets the answer."""
        async with hub_with_late_request(tmp_path) as (hub, request):
            await approve(hub, request)
            assert (await repeat_call(hub, "d1")).outcome == "allow"
            await check_fold(hub)

    async def test_first_id_is_a_separate_call_afterwards(self, tmp_path: Path) -> None:
        """G-103: once the call is repeated under another id, the first id is a separate call."""
        async with hub_with_late_request(tmp_path) as (hub, request):
            waits = await repeat_call_until_recorded(hub)
            heard = hub.subscribe()
            first = repeat_call(hub, "d1")
            await until(heard, ApprovalRequested)
            await approve(hub, request)
            assert (await waits).outcome == "allow"
            await wait_until_recorded(hub)
            assert not first.done()
            [asked] = await hub.approvals()
            await hub.result("robin-1", "d2", output="ok", is_error=False)
            await approve(hub, asked, "ben")
            assert (await first).approved_by == ("ben",)
            await hub.result("robin-1", "d1", output="ok too", is_error=False)
            assert len(recorded(hub.database, CallDecided)) == 2
            await check_fold(hub)

    async def test_first_id_needs_new_approval_after_restart(self, tmp_path: Path) -> None:
        """The answer was used under another id; after a restart, the first id requires a new approval."""
        async with hub_with_late_request(tmp_path) as (hub, request):
            await approve(hub, request)
            assert (await repeat_call(hub)).outcome == "allow"
        hub = Hub.open(tmp_path / "hub.db", policy=ApprovalPolicy(late=LONG))
        await resumed(hub, rules=PLAIN)
        assert (await repeat_call(hub)).repeated
        heard = hub.subscribe()
        first = repeat_call(hub, "d1")
        await until(heard, ApprovalRequested)
        assert not first.done()
        first.cancel()
        await check_fold(hub)
        await hub.close()

    async def test_repeated_call_takes_the_approved_request(self, tmp_path: Path) -> None:
        """If the same call is late twice, a repeated call takes the approved request first."""
        async with hub_with_late_request(tmp_path) as (hub, _):
            heard = hub.subscribe()
            waiting = [await repeat_call_until_recorded(hub), repeat_call(hub, "d3")]
            await until(heard, ApprovalRequested)
            for call_id, waits in zip(("d2", "d3"), waiting, strict=True):
                waits.cancel()
                assert await hub.give_up_call("robin-1", call_id, "nobody decided") is not None
            [second] = [each for each in await hub.approvals() if each.call_id == "d3"]
            await approve(hub, second)
            assert (await repeat_call(hub, "d4")).outcome == "allow"
            await check_fold(hub)

    async def test_same_id_after_the_deadline(self, tmp_path: Path) -> None:
        """If the deadline passed while the machine slept, the approval is void."""
        async with hub_with_late_request(tmp_path) as (hub, request):
            await approve(hub, request)
            set_clock(hub, request.late)
            heard = hub.subscribe()
            waits = repeat_call(hub, "d1")
            await until(heard, ApprovalRequested)
            assert not waits.done()
            [gone] = recorded(hub.database, ApprovalWithdrawn)
            assert "did not make the call again" in gone.reason
            waits.cancel()
            await check_fold(hub)

    async def test_subagent_cannot_use_the_parents_call_id(self, tmp_path: Path) -> None:
        """A subagent cannot repeat a call under the parent's call id."""
        async with hub_with_late_request(tmp_path) as (hub, request):
            await approve(hub, request)
            with pytest.raises(CallIdUsed):
                repeat_call(hub, "d1", subagent="a7")
            assert (await repeat_call(hub)).outcome == "allow"

    @pytest.mark.parametrize(
        ("tool", "given", "subagent"),
        [
            ("deploy", {"env": "lab"}, ""),
            ("deploy", {}, ""),
            ("Deploy", PROD, ""),
            ("deploy", PROD, "a7"),
        ],
    )
    async def test_other_calls_need_their_own_approval(
        self, tmp_path: Path, tool: str, given: dict[str, str], subagent: str
    ) -> None:
        """Another input, tool or subagent requires its own approval; the held approval remains."""
        async with hub_with_late_request(tmp_path) as (hub, request):
            await approve(hub, request)
            heard = hub.subscribe()
            other = hub.submit_call("robin-1", "x1", tool, given, subagent)
            await until(heard, ApprovalRequested)
            assert not other.done()
            other.cancel()
            assert (await repeat_call(hub)).outcome == "allow"

    async def test_same_call_in_another_session(self, tmp_path: Path) -> None:
        """The same call in another session requires its own approval."""
        from interlock.engine.sessions.config import SessionConfig
        from interlock.rules import compile_rules

        from ..support.external_agent import AGENT

        async with hub_with_late_request(tmp_path) as (hub, request):
            await approve(hub, request)
            config = SessionConfig(compile_rules(PLAIN).registry, by="ada")
            await hub.open_external(AGENT, config, session_id="robin-2")
            heard = hub.subscribe()
            other = hub.submit_call("robin-2", "d2", "deploy", PROD)
            await until(heard, ApprovalRequested)
            assert not other.done()
            other.cancel()

    async def test_giving_up_twice_leaves_same_request_open(self, tmp_path: Path) -> None:
        """A client that gives up a second time leaves the same request open again."""
        async with hub_with_late_request(tmp_path) as (hub, request):
            (await repeat_call_until_recorded(hub)).cancel()
            assert await hub.give_up_call("robin-1", "d2", "nobody decided") is not None
            await approve(hub, request)
            assert (await repeat_call(hub, "d3")).outcome == "allow"
            assert len(recorded(hub.database, ApprovalRequested)) == 1
            await check_fold(hub)

    async def test_edited_input_runs(self, tmp_path: Path) -> None:
        """The agent repeats the call with its original input, and the edited input runs."""
        async with hub_with_late_request(tmp_path) as (hub, request):
            await approve(hub, request, input={"env": "lab"})
            answer = await repeat_call(hub)
            assert (answer.input, answer.edited) == ({"env": "lab"}, True)
            await check_fold(hub)

    async def test_grant_takes_effect_with_the_repeated_call(self, tmp_path: Path) -> None:
        """A grant given with a held approval takes effect when the call is made again."""
        async with hub_with_late_request(tmp_path) as (hub, request):
            terms = GrantTerms(scope="input", uses=2)
            await approve(hub, request, grant=terms, reason="a release night")
            assert (await hub.session("robin-1")).grants == {}
            assert (await repeat_call(hub)).outcome == "allow"
            assert (await repeat_call(hub, "d3")).outcome == "allow"
            await check_fold(hub)


class TestDenied:
    async def test_next_identical_call_is_refused_once(self, tmp_path: Path) -> None:
        """G-104: the next identical call is refused with the reason; the one after is requested."""
        async with hub_with_late_request(tmp_path) as (hub, request):
            outcome = await hub.decide(
                request.id, approved=False, by="ben", reason="not on a Friday", digest=request.digest
            )
            assert outcome.ok
            await wait_until_recorded(hub)
            answer = await repeat_call(hub)
            assert answer.outcome == "block"
            assert "not on a Friday" in (answer.reason or "")
            heard = hub.subscribe()
            second = repeat_call(hub, "d3")
            await until(heard, ApprovalRequested)
            second.cancel()
            await check_fold(hub)

    async def test_denial_ends_a_held_approval(self, tmp_path: Path) -> None:
        """A denial ends an approval that is held."""
        async with hub_with_late_request(tmp_path) as (hub, request):
            await approve(hub, request)
            denied = await hub.decide(
                request.id, approved=False, by="ben", reason="no", digest=request.digest
            )
            assert denied.ok
            await wait_until_recorded(hub)
            assert (await repeat_call(hub)).outcome == "block"

    async def test_survives_a_restart(self, tmp_path: Path) -> None:
        """After a restart, the recorded denial still refuses the repeated call once."""
        async with hub_with_late_request(tmp_path) as (hub, request):
            await hub.decide(
                request.id, approved=False, by="ben", reason="no disk", digest=request.digest
            )
            await wait_until_recorded(hub)
        hub = Hub.open(tmp_path / "hub.db", policy=ApprovalPolicy(late=LONG))
        await resumed(hub, rules=PLAIN)
        assert "no disk" in ((await repeat_call(hub)).reason or "")
        heard = hub.subscribe()
        second = repeat_call(hub, "d3")
        await until(heard, ApprovalRequested)
        second.cancel()
        await check_fold(hub)
        await hub.close()


class TestGuards:
    async def test_one_of_two_approvals_is_not_held(self, tmp_path: Path) -> None:
        """If two approvers are required, a single approval is not held."""
        async with hub_with_late_request(tmp_path, "require 2 human-approvals before deploy") as (
            hub,
            request,
        ):
            assert "one more person" in await approve(hub, request)
            waits = await repeat_call_until_recorded(hub)
            await wait_until_recorded(hub)
            assert not waits.done()
            await approve(hub, request, "ben")
            assert (await waits).approved_by == ("maria", "ben")
            await check_fold(hub)

    async def test_approvals_without_waiting_client_are_held(self, tmp_path: Path) -> None:
        """Both approvals are given while no client waits, and the result is held."""
        async with hub_with_late_request(tmp_path, "require 2 human-approvals before deploy") as (
            hub,
            request,
        ):
            await approve(hub, request)
            assert "makes the call again" in await approve(hub, request, "ben")
            assert (await repeat_call(hub)).approved_by == ("maria", "ben")
            await check_fold(hub)

    async def test_held_approval_can_be_taken_back(self, tmp_path: Path) -> None:
        """A held approval can be taken back; the request stays open with the same late deadline."""
        async with hub_with_late_request(tmp_path) as (hub, request):
            await approve(hub, request)
            assert (await hub.take_back(request.id, by="ben")).ok
            [stands] = await hub.approvals()
            assert (stands.fuse, stands.taken_back, stands.late) == (None, "ben", request.late)
            waits = await repeat_call_until_recorded(hub)
            await wait_until_recorded(hub)
            assert not waits.done()
            waits.cancel()
            await check_fold(hub)

    async def test_switched_rule_voids_the_held_approval(self, tmp_path: Path) -> None:
        """A switched rule voids the held approval; the request is renewed and stays late."""
        async with hub_with_late_request(tmp_path, f"{PLAIN}\nblock rm") as (hub, request):
            await approve(hub, request)
            heard = hub.subscribe()
            assert (await hub.toggle_net("robin-1", "block-rm", False, by="ben", reason="x")).ok
            await until(heard, ApprovalRequested)
            [anew] = await hub.approvals()
            assert (anew.id != request.id, anew.fuse, anew.late) == (True, None, request.late)
            waits = await repeat_call_until_recorded(hub)
            await wait_until_recorded(hub)
            assert not waits.done()
            waits.cancel()
            await check_fold(hub)

    async def test_net_that_blocks_precedes_the_approval(self, tmp_path: Path) -> None:
        """A net that blocks the call when it is made again takes precedence over the approval."""
        rules = f"{PLAIN}\nblock deploy after rm"
        async with hub_with_late_request(tmp_path, rules) as (hub, request):
            await approve(hub, request)
            assert (await hub.call("robin-1", "r1", "rm", {})).outcome == "allow"
            answer = await repeat_call(hub)
            assert answer.outcome == "block"
            assert "maria" not in answer.approved_by
            await check_fold(hub)

    async def test_repeated_call_waits_during_a_freeze(self, tmp_path: Path) -> None:
        """A repeated call waits while all agents are frozen, even if it is approved."""
        async with hub_with_late_request(tmp_path) as (hub, request):
            await approve(hub, request)
            await hub.freeze(by="ben")
            waits = await repeat_call_until_recorded(hub)
            await wait_until_recorded(hub)
            assert (waits.done(), recorded(hub.database, ApprovalDecided)) == (False, [])
            await hub.lift_freeze(by="ben", reason="looked at")
            assert (await waits).outcome == "allow"

    async def test_repeated_call_does_not_shorten_the_fuse(self, tmp_path: Path) -> None:
        """Repeating the call does not release a high-risk approval before its fuse has burned down."""
        async with hub_with_late_request(tmp_path, f"{PLAIN} risk high", fuse=LONG) as (hub, request):
            await approve(hub, request)
            waits = await repeat_call_until_recorded(hub)
            await wait_until_recorded(hub)
            assert not waits.done()
            assert (await hub.take_back(request.id, by="ben")).ok
            waits.cancel()

    async def test_stopped_agent_withdraws_late_requests(self, tmp_path: Path) -> None:
        """Stopping the agent withdraws its late requests, so nothing runs later."""
        async with hub_with_late_request(tmp_path) as (hub, request):
            await approve(hub, request)
            await hub.abort("robin-1", by="ben")
            assert await hub.approvals() == []
            heard = hub.subscribe()
            waits = repeat_call(hub)
            await until(heard, ApprovalRequested)
            waits.cancel()
            await check_fold(hub)


class TestFailures:
    async def test_failed_record_keeps_the_approval_held(self, tmp_path: Path) -> None:
        """If the record of the repeated call fails, the call fails and the approval stays held."""
        async with hub_with_late_request(tmp_path) as (hub, request):
            await approve(hub, request)
            late = hub._live.hosted("robin-1").questions.late
            rejoin = late.rejoin

            async def fails(call_id: str, made_as: str) -> None:
                raise JournalError("the disk is full")

            late.rejoin = fails
            with pytest.raises(JournalError):
                await repeat_call(hub)
            late.rejoin = rejoin
            [held] = await hub.approvals()
            assert held.fuse is not None
            assert (await repeat_call(hub)).outcome == "allow"
            await check_fold(hub)

    @pytest.mark.slow
    async def test_killed_host_withdraws_late_requests(self, tmp_path: Path) -> None:
        """After a kill, late requests are withdrawn, approved or not, and calls are requested again."""
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.engine.approvals.late_host",
            str(tmp_path / "hub.db"),
            stdout=asyncio.subprocess.PIPE,
        )
        assert child.stdout is not None
        async with asyncio.timeout(60):
            assert await child.stdout.readline() == b"held\n"
        os.kill(child.pid, signal.SIGKILL)
        await child.wait()
        hub = Hub.open(tmp_path / "hub.db", policy=ApprovalPolicy(late=LONG))
        await resumed(hub, rules=TWO_TOOLS)
        await check_fold(hub)
        assert [b.reason for b in recorded(hub.database, ApprovalWithdrawn)] == [
            "the process that asked has ended"
        ] * 2
        heard = hub.subscribe()
        for call_id, tool in (("d2", "deploy"), ("m2", "migrate")):
            waits = hub.submit_call("robin-1", call_id, tool, {})
            await until(heard, ApprovalRequested)
            assert not waits.done()
            waits.cancel()
        assert all(each.late is None for each in await hub.approvals())
        assert recorded(hub.database, CallDecided) == []
        await hub.close()


class TestRoom:
    """If the queue is full, a late request gives way to a new request of an active agent."""

    async def test_oldest_late_request_is_withdrawn(self, tmp_path: Path) -> None:
        """At the limit the oldest late request is withdrawn, and the new call gets a request."""
        async with hub_with_late_request(tmp_path) as (hub, request):
            assert request.late is not None
            opener = hub._live.hosted("robin-1").bounded_by
            assert opener is not None
            hub.bound_requests(1)
            heard = hub.subscribe()
            waits = hub.submit_call("robin-1", "x1", "deploy", {"env": "lab"})
            await until(heard, ApprovalRequested)
            await until(heard, ApprovalWithdrawn)
            [gone] = recorded(hub.database, ApprovalWithdrawn)
            assert (gone.approval_id, "made room" in (gone.reason or "")) == (request.id, True)
            [asked] = await hub.approvals()
            assert (asked.call_id, asked.late) == ("x1", None)
            # A request with a waiting client does not give way.
            refused = await hub.submit_call("robin-1", "x2", "deploy", {"env": "dev"})
            assert "are open already" in (refused.reason or "")
            await approve(hub, asked)
            assert (await waits).outcome == "allow"
            await check_fold(hub)

    async def test_held_approval_is_not_withdrawn(self, tmp_path: Path) -> None:
        """A held approval is not withdrawn; the call beyond the limit is blocked."""
        async with hub_with_late_request(tmp_path) as (hub, request):
            await approve(hub, request)
            hub.bound_requests(1)
            refused = await hub.submit_call("robin-1", "x1", "deploy", {"env": "lab"})
            assert "are open already" in (refused.reason or "")
            assert recorded(hub.database, ApprovalWithdrawn) == []
            assert (await repeat_call(hub)).outcome == "allow"

    async def test_partly_approved_request_is_not_withdrawn(self, tmp_path: Path) -> None:
        """A late request with one of two approvals is not withdrawn either."""
        async with hub_with_late_request(tmp_path, f"{PLAIN} by 2") as (hub, request):
            await approve(hub, request)
            hub.bound_requests(1)
            refused = await hub.submit_call("robin-1", "x1", "deploy", {"env": "lab"})
            assert "are open already" in (refused.reason or "")
            [same] = await hub.approvals()
            assert (same.id, same.given) == (request.id, ("maria",))
