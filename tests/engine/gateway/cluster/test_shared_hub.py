"""Several servers on one database share one queue, which every console shows."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest

from interlock.engine.approvals.policy import Credential
from interlock.engine.core.approvers import Operator
from interlock.engine.gateway.cluster import forwarding_hub, shared_hub
from interlock.engine.gateway.cluster.shared_hub import DEAF, SharedHub
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.errors import JournalError
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.logs.freeze_log import UNREADABLE
from interlock.engine.history.model.events import (
    ApprovalDecided,
    JournalEvent,
)
from interlock.engine.history.model.records import FreezeRecord
from interlock.engine.history.postgres.acts import Acts
from interlock.engine.history.postgres.pool import reading

from ...support.external_agent import opened
from .support.hubs import (
    RULES,
    approve,
    asked,
    becomes,
    stop_following,
)


class TestOneQueue:
    @pytest.mark.slow
    async def test_lists_sessions_of_the_other_server(self, two: tuple[SharedHub, SharedHub]) -> None:
        """The other server lists the session with its state and its owner."""
        here, there = two
        await opened(here, RULES)
        await becomes(there.sessions)
        [state] = await there.sessions()
        assert state.id == "robin-1"
        assert there.server_of("robin-1")
        assert not here.server_of("robin-1")

    @pytest.mark.slow
    async def test_events_arrive_once_and_in_order(self, two: tuple[SharedHub, SharedHub]) -> None:
        """Subscribers at one server receive each event of the other server once and in order."""
        here, there = two
        heard = there.subscribe()
        task = await asked(here, there)
        [request] = await there.approvals()
        await there.decide(request.id, approved=True, by="ada", digest=request.digest)
        await task
        numbers: list[int] = []
        async with asyncio.timeout(20):
            async for event in heard:
                if isinstance(event, JournalEvent):
                    numbers.append(event.seq)
                    if event.body.type == "call.decided":
                        break
        assert numbers == list(range(1, len(numbers) + 1))

    @pytest.mark.slow
    async def test_approval_at_one_server_releases_call_at_other(
        self, two: tuple[SharedHub, SharedHub]
    ) -> None:
        """An approval at one server releases the call at the other and is recorded with its approver."""
        here, there = two
        task = await asked(here, there)
        [request] = await there.approvals()
        outcome = await there.decide(request.id, approved=True, by="ada", digest=request.digest)
        assert outcome.ok, outcome.message
        assert (await task).outcome == "allow"  # type: ignore[attr-defined]
        [decided] = [
            each.body
            for each in await there.recorded("robin-1")
            if isinstance(each.body, ApprovalDecided)
        ]
        assert decided.by == "ada"

    @pytest.mark.slow
    async def test_counts_the_first_answer(self, two: tuple[SharedHub, SharedHub]) -> None:
        """If two servers answer a request simultaneously, one answer counts and the other is refused."""
        here, there = two
        task = await asked(here, there)
        [request] = await there.approvals()
        answers = await asyncio.gather(
            here.decide(request.id, approved=False, by="ben", digest=request.digest, reason="no"),
            there.decide(request.id, approved=True, by="ada", digest=request.digest),
        )
        assert sorted(each.ok for each in answers) == [False, True]
        await task

    @pytest.mark.slow
    async def test_answer_with_different_digest_is_refused(
        self, two: tuple[SharedHub, SharedHub]
    ) -> None:
        """The owner refuses a forwarded answer with a different digest."""
        here, there = two
        task = await asked(here, there)
        [request] = await there.approvals()
        outcome = await there.decide(request.id, approved=True, by="ada", digest="another")
        assert not outcome.ok
        assert not task.done()
        await there.decide(request.id, approved=False, by="ada", digest=request.digest)
        await task


class TestClaim:
    async def test_ends_when_its_own_console_disconnects(self, two: tuple[SharedHub, SharedHub]) -> None:
        """A claim at the other server ends when its own console, and no other one, disconnects."""
        here, there = two
        task = await asked(here, there)
        [request] = await there.approvals()
        assert (await there.claim(request.id, by="ada", console="ada's")).ok
        await there.console_gone("ben's")
        [shown] = await here.approvals()
        assert shown.claim is not None
        assert shown.claim.by == "ada"
        await there.console_gone("ada's")

        async def free() -> bool:
            return (await here.approvals())[0].claim is None

        await becomes(free)
        assert (await here.claim(request.id, by="ben")).ok
        task.cancel()


class TestFreeze:
    @pytest.mark.slow
    async def test_holds_at_every_server(self, two: tuple[SharedHub, SharedHub]) -> None:
        """One operator freezes the agents of all servers; they continue when another one lifts it."""
        here, there = two
        await opened(here, RULES)
        frozen = await there.freeze(by="ada", reason="the deploys look wrong")
        assert frozen.ok, frozen.message

        async def is_frozen() -> bool:
            return here.current_freeze() is not None

        await becomes(is_frozen)
        task = asyncio.ensure_future(here.call("robin-1", "t1", "test", {}))

        async def made() -> bool:
            return "t1" in (await here.session("robin-1")).calls

        await becomes(made)
        assert not task.done()
        lifted = await there.lift_freeze(by="ben", reason="looked at")
        assert lifted.ok, lifted.message
        assert (await asyncio.wait_for(task, 20)).outcome == "allow"
        kinds = [each.body.type for each in await here.recorded("robin-1")]
        assert "freeze.began" in kinds
        assert "freeze.lifted" in kinds

    async def test_is_confirmed_after_every_server_holds(self, two: tuple[SharedHub, SharedHub]) -> None:
        """A freeze is confirmed only after the other server holds its calls."""
        here, there = two
        await opened(here, RULES)
        for _ in range(3):
            frozen = await there.freeze(by="ada", reason="the deploys look wrong")
            assert frozen.ok, frozen.message
            assert here.current_freeze() is not None
            assert (await here.recorded("robin-1"))[-1].body.type == "freeze.began"
            assert (await there.lift_freeze(by="ben", reason="looked at")).ok

            async def goes_on() -> bool:
                return here.current_freeze() is None

            await becomes(goes_on)

    @pytest.mark.slow
    async def test_simultaneous_freezes_end_with_one_lift(self, two: tuple[SharedHub, SharedHub]) -> None:
        """Simultaneous freezes at two servers are both confirmed as in force, and one lift ends them."""
        here, there = two
        await opened(here, RULES)
        await asyncio.to_thread(there._lease.name_server, "ws://there.example:8737")
        frozen = await asyncio.gather(
            here.freeze(by="ada", reason="wrong"), there.freeze(by="ben", reason="wrong, too")
        )
        assert all(each.message.startswith("All agents are frozen") for each in frozen)
        assert any(each.ok for each in frozen)
        assert not any("not yet at" in each.message for each in frozen)
        assert (await here.lift_freeze(by="cyd", reason="looked at")).ok

        async def is_lifted_at_both() -> bool:
            return here.current_freeze() is None and there.current_freeze() is None

        await becomes(is_lifted_at_both)

    async def test_confirmation_of_lifted_freeze_names_the_lift(
        self, two: tuple[SharedHub, SharedHub]
    ) -> None:
        """If a freeze is lifted before the other servers hold, its confirmation names the lift."""
        here, there = two
        await stop_following(here)
        frozen = asyncio.ensure_future(there.freeze(by="ada", reason="the deploys look wrong"))

        await becomes(lambda: is_freeze_recorded(there))
        assert (await there.lift_freeze(by="ben", reason="looked at")).ok
        answer = await frozen
        assert not answer.ok
        assert answer.message.endswith("but ben lifted that in the meantime: calls continue")

    async def test_freeze_after_unseen_lift_begins_as_new(self, two: tuple[SharedHub, SharedHub]) -> None:
        """A freeze that follows an unseen lift at another server begins as a new freeze."""
        here, there = two
        assert (await there.freeze(by="ada", reason="the deploys look wrong")).ok
        await stop_following(here)
        assert (await there.lift_freeze(by="ben", reason="looked at")).ok
        assert here.current_freeze() is not None
        answer = await here.freeze(by="cyd", reason="the next one, too")
        assert answer.ok, answer.message
        assert "frozen by cyd" in answer.message

    async def test_immediate_lift_at_another_server_is_followed(
        self, two: tuple[SharedHub, SharedHub]
    ) -> None:
        """A server follows the lift of its own freeze, even if it has not read the freeze log before."""
        here, there = two
        await stop_following(here)
        frozen = asyncio.ensure_future(here.freeze(by="ada", reason="the deploys look wrong"))

        await becomes(lambda: is_freeze_recorded(there))
        assert (await there.lift_freeze(by="ben", reason="looked at")).ok
        await here.follow_freeze()
        assert here.current_freeze() is None
        await frozen

    async def test_freeze_stays_after_lift_with_lost_answer(
        self, two: tuple[SharedHub, SharedHub], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A lift that the database recorded, but whose answer was lost, does not end the freeze later."""
        here, there = two
        assert (await here.freeze(by="ada", reason="the deploys look wrong")).ok
        freezes = here._live.freeze.log
        assert freezes is not None
        lift = freezes.lift

        def lost(*args: FreezeRecord) -> None:
            raise OSError("the connection was lost")

        def taken(record: FreezeRecord) -> None:
            lift(record)
            lost()

        with monkeypatch.context() as away:
            await stop_following(here)
            away.setattr(freezes, "lift", taken)
            away.setattr(freezes, "begin", lost)
            answer = await here.lift_freeze(by="ben", reason="looked at")
        assert "all agents stay frozen" in answer.message
        await here.follow_freeze()
        assert here.current_freeze() is not None
        await becomes(lambda: is_freeze_recorded(there))

    async def test_freeze_stays_after_database_lost_it(
        self, two: tuple[SharedHub, SharedHub], postgresql: PostgresLocation
    ) -> None:
        """A freeze that the database lost in a failover is recorded again: no earlier lift ends it."""
        here, there = two
        assert (await here.freeze(by="ada", reason="a test")).ok
        assert (await here.lift_freeze(by="ben", reason="looked at")).ok
        assert (await here.freeze(by="ada", reason="the deploys look wrong")).ok
        for each in two:
            await stop_following(each)
        with reading(postgresql) as connection:
            connection.execute("DELETE FROM line WHERE number = (SELECT max(number) FROM line)")
        assert not await is_freeze_recorded(here)
        for each in two:
            await each.follow_freeze()
            assert each.current_freeze() is not None
        assert await is_freeze_recorded(here)
        assert (await there.lift_freeze(by="ben", reason="looked at again")).ok
        await here.follow_freeze()
        assert here.current_freeze() is None

    @pytest.mark.slow
    async def test_confirmation_names_server_that_does_not_hold(
        self, two: tuple[SharedHub, SharedHub], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The confirmation names a living server that does not confirm the freeze."""
        here, there = two
        monkeypatch.setattr(shared_hub, "ANSWER_SECONDS", 0.5)
        await opened(here, RULES)
        await asyncio.to_thread(here._lease.name_server, "ws://here.example:8737")
        await stop_following(here)
        frozen = await there.freeze(by="ada", reason="the deploys look wrong")
        assert not frozen.ok
        assert "All agents are frozen by ada" in frozen.message
        assert "but not yet at ws://here.example:8737" in frozen.message

    @pytest.mark.slow
    async def test_confirmation_names_server_just_started(
        self, two: tuple[SharedHub, SharedHub], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A server without a URL or sessions is named too, as it may begin a session unfrozen."""
        here, there = two
        monkeypatch.setattr(shared_hub, "ANSWER_SECONDS", 0.5)
        await stop_following(here)
        frozen = await there.freeze(by="ada", reason="the deploys look wrong")
        assert not frozen.ok
        assert "but not yet at" in frozen.message

    @pytest.mark.slow
    async def test_does_not_wait_for_import(
        self, two: tuple[SharedHub, SharedHub], postgresql: PostgresLocation
    ) -> None:
        """A process that only writes decides no calls, so a freeze does not wait for it."""
        _, there = two
        writing = await asyncio.to_thread(Journal.open, postgresql)
        try:
            assert (await there.freeze(by="ada", reason="the deploys look wrong")).ok
        finally:
            await asyncio.to_thread(writing.close)

    @pytest.mark.slow
    async def test_waits_for_restarting_database(
        self, two: tuple[SharedHub, SharedHub], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A freeze during a restart of the database is confirmed once it holds at every server."""
        here, there = two
        await opened(here, RULES)
        freezes = there._live.freeze.log
        assert freezes is not None
        begin, failures = freezes.begin, 2

        def away(freeze: FreezeRecord) -> None:
            nonlocal failures
            if failures > 0:
                failures -= 1
                raise OSError("the connection was lost")
            begin(freeze)

        monkeypatch.setattr(freezes, "begin", away)
        frozen = await there.freeze(by="ada", reason="the deploys look wrong")
        assert frozen.ok, frozen.message
        assert failures == 0
        assert here.current_freeze() is not None

    @pytest.mark.slow
    async def test_failed_look_at_freeze_log_is_repeated(
        self, two: tuple[SharedHub, SharedHub], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A failed look at the freeze log is repeated, so that the server does not stay frozen."""
        here, there = two
        await opened(here, RULES)
        assert (await there.freeze(by="ada", reason="the deploys look wrong")).ok
        freezes = here._live.freeze.log
        assert freezes is not None
        lifted, failures = freezes.lifted, 2

        def away() -> FreezeRecord | None:
            nonlocal failures
            if failures > 0:
                failures -= 1
                raise OSError("the connection was lost")
            return lifted()

        monkeypatch.setattr(freezes, "lifted", away)
        assert (await there.lift_freeze(by="ben", reason="looked at")).ok

        async def is_lifted_here() -> bool:
            return here.current_freeze() is None

        await becomes(is_lifted_here)
        assert failures == 0


async def is_freeze_recorded(hub: SharedHub) -> bool:
    """Tell whether a server is frozen and its freeze is recorded."""
    freezes = hub._live.freeze.log
    assert freezes is not None
    return hub.current_freeze() is not None and freezes.read() is not None


class TestFollowing:
    @pytest.mark.slow
    async def test_unreadable_freezes_are_logged_once(
        self,
        two: tuple[SharedHub, SharedHub],
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """A server that cannot read freezes logs this once and still performs forwarded acts."""
        here, there = two
        freezes = here._live.freeze.log
        assert freezes is not None
        reason = "the record of freezes cannot be read: permission denied for table line"
        blind = FreezeRecord(by=UNREADABLE, at=here._journal.clock(), reason=reason)
        monkeypatch.setattr(freezes, "read", lambda: blind)
        task = await asked(here, there)
        await approve(there, task)
        said = [each.message for each in caplog.records if "permission denied" in each.message]
        assert said == [f"the other servers cannot be followed: {reason}"]

    @pytest.mark.slow
    async def test_continues_after_repeated_failures(
        self,
        two: tuple[SharedHub, SharedHub],
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """Repeated failures of any kind are logged once, and following continues after them."""
        here, there = two
        looked, failures = here._peers.look, 3

        async def faulty(tell: Callable[[JournalEvent], None]) -> None:
            nonlocal failures
            if failures > 0:
                failures -= 1
                raise LookupError("what nobody thought of")
            await looked(tell)

        monkeypatch.setattr(here._peers, "look", faulty)
        task = await asked(there, here)
        await approve(here, task)
        assert failures == 0
        said = [each for each in caplog.records if "was not followed" in each.message]
        assert len(said) == 1


class TestBell:
    @pytest.mark.slow
    async def test_swallowed_notifications_cause_a_warning(
        self, two: tuple[SharedHub, SharedHub]
    ) -> None:
        """If a pooler swallows notifications, the server warns its operators."""
        here, _ = two
        said: list[str] = []
        here.warn_operators = said.append
        here._bell.deaf = True
        for _ in range(400):
            if said:
                break
            here._rung.set()
            await asyncio.sleep(0.01)
        assert said[:1] == [DEAF]


class TestActs:
    @pytest.mark.slow
    async def test_answers_are_retried_after_lost_connection(
        self, two: tuple[SharedHub, SharedHub], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Writing and reading the answer of an act are repeated after a lost connection."""
        here, there = two
        task = await asked(here, there)
        failures = Counter[str]()

        def failing(acts: Acts, name: str) -> None:
            work = getattr(acts, name)

            def fails(*args: object) -> object:
                failures[name] += 1
                if failures[name] <= 2:
                    raise JournalError("too many connections")
                return work(*args)

            monkeypatch.setattr(acts, name, fails)

        failing(here._acts, "answer")
        failing(there._acts, "result")
        await approve(there, task)
        assert min(failures["answer"], failures["result"]) > 2

    @pytest.mark.slow
    async def test_unknown_outcome_reports_the_doubt(
        self, two: tuple[SharedHub, SharedHub], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """If the database cannot say whether an answer counted, the outcome reports the doubt."""
        here, there = two
        monkeypatch.setattr(forwarding_hub, "ANSWER_SECONDS", 0.5)
        task = await asked(here, there)

        def away(act: str) -> None:
            raise JournalError("too many connections")

        monkeypatch.setattr(there._acts, "result", away)
        monkeypatch.setattr(there._acts, "withdraw", away)
        [request] = await there.approvals()
        outcome = await there.decide(request.id, approved=True, by="ada", digest=request.digest)
        assert not outcome.ok
        assert outcome.message.startswith("Perhaps not decided")
        task.cancel()

    @pytest.mark.slow
    async def test_withdrawn_act_is_reported_as_failed(
        self, two: tuple[SharedHub, SharedHub], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A withdrawn act is reported as failed; one that cannot be withdrawn as perhaps not decided."""
        here, there = two
        task = await asked(here, there)
        await stop_following(here)
        [request] = await there.approvals()
        post = there._acts.post

        def lost(*args: str) -> None:
            post(*args)
            raise JournalError("the connection was lost")

        monkeypatch.setattr(there._acts, "post", lost)
        with pytest.raises(JournalError, match="the connection was lost"):
            await there.decide(request.id, approved=True, by="ada", digest=request.digest)
        monkeypatch.setattr(there._acts, "withdraw", lambda act: False)
        outcome = await there.decide(request.id, approved=True, by="ada", digest=request.digest)
        assert outcome.message.startswith("Perhaps not decided")
        task.cancel()

    @pytest.mark.slow
    async def test_old_answered_acts_are_deleted(
        self, two: tuple[SharedHub, SharedHub], postgresql: PostgresLocation
    ) -> None:
        """Old answered acts are deleted from the database and from the memory of both servers."""
        here, there = two
        task = await asked(here, there)
        await approve(there, task)
        assert there._posted
        with reading(postgresql) as connection:
            connection.execute("UPDATE act SET done = 1")
        await there._tidy()
        assert not there._posted

        async def is_forgotten() -> bool:
            return not here._foreign

        here._rung.set()
        await becomes(is_forgotten)
        with reading(postgresql) as connection:
            assert connection.number("SELECT count(*) FROM act") == 0

    @pytest.mark.slow
    async def test_approval_of_open_request_is_kept(
        self, two: tuple[SharedHub, SharedHub], postgresql: PostgresLocation
    ) -> None:
        """The first of two approvals, given at another server, counts while the request is open."""
        here, there = two
        await opened(here, "require 2 human-approvals before deploy")
        task = asyncio.ensure_future(here.call("robin-1", "d1", "deploy", {}))
        await becomes(there.approvals)
        [request] = await there.approvals()
        first = Credential("eve's", lambda token, needed: True, Operator("eve"))
        outcome = await there.decide(
            request.id, approved=True, by="eve", digest=request.digest, credential=first
        )
        assert outcome.ok, outcome.message
        with reading(postgresql) as connection:
            connection.execute("UPDATE act SET done = 1, at = 1")
        await there._tidy()
        await here._tidy()
        here._rung.set()
        second = Credential(
            "ben's",
            lambda token, needed: token == "ben's" or here._is_in_force(token, needed),
            Operator("ben"),
        )
        [request] = await here.approvals()
        outcome = await here.decide(
            request.id, approved=True, by="ben", digest=request.digest, credential=second
        )
        assert outcome.ok, outcome.message
        assert (await task).outcome == "allow"
