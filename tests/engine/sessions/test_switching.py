"""G-67: switching off a rule, or shadow mode, is recorded and requires as many people as the rule."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from interlock.app.format.decisions import verdict_words
from interlock.app.format.explanation import explained as explain_lines
from interlock.app.viewmodels.marks import marks_of
from interlock.engine.agents import C, T
from interlock.engine.approvals.policy import Credential
from interlock.engine.core import clock as clock_module
from interlock.engine.gate.types import GrantTerms
from interlock.engine.history.decisions.filter import DecisionFilter
from interlock.engine.history.fold.event_text import headline
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import (
    ApprovalRequested,
    CallDecided,
    ChangeAgreed,
    ChangeDropped,
    ChangeProposed,
    ModeChanged,
    NetToggled,
    event_body,
)
from interlock.engine.history.model.state import ApprovalState, SessionState
from interlock.engine.hub.hub import ApprovalPolicy, Hub
from interlock.engine.sessions.config import SessionConfig
from interlock.engine.sessions.external import ExternalAgent
from interlock.rules import compile_rules

from ..support.external_agent import check_fold
from ..support.shop import Shop, bodies, bot, check, until

RULES = """
map deploy.env prod as prod_deploy
require 2 human-approvals before prod_deploy risk high no grants
require human-approval before publish risk high
require human-approval before push no grants
require human-approval before tag
block rm
"""
TWO, RISK, NO_GRANTS = "approve-before-prod_deploy", "approve-before-publish", "approve-before-push"
REGISTRY = compile_rules(RULES).registry
START = datetime(2026, 11, 20, 14, 0, tzinfo=UTC)


class Watch:
    """A clock that the test advances."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
async def hub(tmp_path: Path, watch: Watch) -> AsyncIterator[Hub]:
    hub = Hub(Journal.open(tmp_path / "hub.db", clock=watch))
    yield hub
    await hub.close()


async def waiting(hub: Hub, shop: Shop) -> str:
    """A session that carl started, whose deploy waits for two approvers."""
    events = hub.subscribe()
    agent = bot(shop, C(deploy={"env": "prod"}), T("done"))
    session = await hub.open_session(agent, SessionConfig(REGISTRY, by="carl"), session_id="s1")
    await hub.send(session, "ship it", by="carl")
    await until(events, ApprovalRequested)
    events.close()
    return session


async def open_requests(hub: Hub) -> list[ApprovalState]:
    """Wait for the open requests, which may be renewed after a withdrawal."""
    for _ in range(1_000):
        found = await hub.approvals()
        if found:
            return found
        await asyncio.sleep(0.005)
    raise AssertionError("nothing is asked")


async def off(hub: Hub, net: str, by: str, reason: str = "a drill") -> tuple[bool, str]:
    outcome = await hub.toggle_net("s1", net, False, by=by, reason=reason)
    return outcome.ok, outcome.message


class TestReason:
    """An act that needs no other operator needs a reason."""

    async def test_off_and_shadow_need_a_reason(self, hub: Hub, shop: Shop) -> None:
        """Without a reason or a name, nothing is switched off; the message says what is missing."""
        await waiting(hub, shop)
        for reason in (None, "", "  "):
            assert (
                "say why"
                in (await hub.toggle_net("s1", "block-rm", False, by="ada", reason=reason)).message
            )
            assert "say why" in (await hub.set_mode("s1", "shadow", by="ada", reason=reason)).message
            assert "say why" in (await hub.raise_limit("s1", 5.0, by="ada", reason=reason)).message
        assert "name" in (await hub.toggle_net("s1", "block-rm", False, by=" ", reason="x")).message
        state = await hub.session("s1")
        assert ("block-rm" in state.active, state.mode) == (True, "enforce")

    async def test_record_names_operator_reason_and_waiting_calls(self, hub: Hub, shop: Shop) -> None:
        """The record names operator, reason and waiting calls; switching on needs no reason."""
        session = await waiting(hub, shop)
        [request] = await hub.approvals()
        assert (await off(hub, "block-rm", "ada", "the disk is full"))[0]
        [toggled] = bodies(hub, session, NetToggled)
        assert (toggled.by, toggled.reason, toggled.waiting) == (
            "ada",
            "the disk is full",
            (request.call_id,),
        )
        switch = (await hub.session(session)).off["block-rm"]
        assert (switch.people, switch.reason, switch.at) == (("ada",), "the disk is full", START)
        assert (await hub.toggle_net(session, "block-rm", True, by="carl")).ok
        assert (await hub.session(session)).off == {}
        await check(hub, session)

    @pytest.mark.parametrize("body", [NetToggled, ModeChanged])
    def test_an_older_event_is_read(self, body: type) -> None:
        """An old toggle or mode event without a reason can be read."""
        old = {
            NetToggled: {"type": "net.toggled", "net": "a", "active": False, "by": "ada", "message": "m"},
            ModeChanged: {"type": "mode.changed", "mode": "shadow", "by": "ada"},
        }[body]
        read = event_body.validate_python(old)
        assert isinstance(read, body)
        assert (read.reason, read.others, read.until) == (None, (), None)


class TestPeople:
    """A guarded rule is switched off by as many other operators as it requires."""

    async def test_second_operator_confirms(self, hub: Hub, shop: Shop) -> None:
        """One operator proposes and another confirms; the waiting call still needs two approvals."""
        session = await waiting(hub, shop)
        [request] = await hub.approvals()
        ok, said = await off(hub, TWO, "ada")
        assert ok
        assert said.startswith("Proposed, nothing is changed yet: turn off approve-before-prod_deploy.")
        assert "1 other person" in said
        [change] = (await hub.session(session)).changes.values()
        assert (change.net, change.given, change.people) == (TWO, ("ada",), 2)
        assert TWO in (await hub.session(session)).active
        assert [a.id for a in await hub.approvals()] == [request.id]
        again = await hub.confirm_change(session, change.id, by=" ADA ")
        assert (again.ok, "others must confirm" in again.message) == (False, True)
        events = hub.subscribe()
        assert (await hub.confirm_change(session, change.id, by="ben")).ok
        await until(events, ApprovalRequested)
        state = await hub.session(session)
        assert (TWO in state.active, state.changes, state.off[TWO].people) == (False, {}, ("ada", "ben"))
        [request] = await hub.approvals()
        assert (request.people, request.net, shop.ran) == (2, TWO, [])
        assert "turned off" in (request.note or "")
        explained = await hub.explain(session, request.call_id)
        assert explained.outcome == "ask"
        [net] = [net for net in explained.nets if net.asks]
        assert (net.net, net.people) == (TWO, 2)
        said = [line.text for line in explain_lines(explained)]
        assert sum("needs 2 approvals" in line for line in said) == 2
        assert any("it had asked before it was switched off" in line for line in said)
        for name in ("ada", "ben"):
            assert (await hub.decide(request.id, approved=True, by=name)).ok
        await hub.wait(session)
        [decided] = bodies(hub, session, CallDecided)
        assert (decided.outcome, decided.steps, shop.ran) == ("allow", (), ["deploy prod"])
        await check(hub, session)

    async def test_starter_may_propose_but_not_confirm(self, hub: Hub, shop: Shop) -> None:
        """The operator who started the session may propose, with an explanation, but not confirm."""
        session = await waiting(hub, shop)
        ok, said = await off(hub, TWO, "carl")
        assert ok
        assert "carl started this session and does not count. It needs 2 other people" in said
        assert "interlock token new" in said
        [change] = (await hub.session(session)).changes.values()
        assert change.given == ()
        refused = await hub.confirm_change(session, change.id, by="Carl")
        assert not refused.ok
        assert "started this session" in refused.message
        assert "1 more must confirm" in (await hub.confirm_change(session, change.id, by="ada")).message
        assert (await hub.confirm_change(session, change.id, by="ben")).ok
        assert TWO not in (await hub.session(session)).active
        [agreed] = bodies(hub, session, ChangeAgreed)
        assert agreed.by == "ada"
        await check(hub, session)

    @pytest.mark.parametrize("net", [RISK, NO_GRANTS])
    async def test_guarded_rule_needs_one_other_operator(self, hub: Hub, shop: Shop, net: str) -> None:
        """A rule with `risk high` or `no grants` requires one operator other than the starter."""
        session = await waiting(hub, shop)
        assert (await off(hub, net, "carl"))[1].startswith("Proposed")
        assert net in (await hub.session(session)).active
        assert (await off(hub, net, "ada"))[0]
        assert net not in (await hub.session(session)).active

    async def test_plain_rule_needs_a_reason_only(self, hub: Hub, shop: Shop) -> None:
        """A plain rule can be switched off with a reason alone, also by the session's starter."""
        await waiting(hub, shop)
        assert (await off(hub, "approve-before-tag", "carl"))[0]
        assert "approve-before-tag" not in (await hub.session("s1")).active

    async def test_shadow_mode_needs_as_many_operators(self, hub: Hub, shop: Shop) -> None:
        """Shadow mode requires as many people as the strictest active rule, and releases nothing."""
        session = await waiting(hub, shop)
        assert "Proposed" in (await hub.set_mode(session, "shadow", by="ada", reason="noise")).message
        assert (await hub.session(session)).mode == "enforce"
        # A second operator's same request confirms the proposal.
        events = hub.subscribe()
        assert (await hub.set_mode(session, "shadow", by="ben", reason="same")).ok
        await until(events, ApprovalRequested)
        state = await hub.session(session)
        assert (state.mode, shop.ran) == ("shadow", [])
        assert state.shadowed is not None
        assert (state.shadowed.people, state.shadowed.reason) == (("ada", "ben"), "noise")
        assert (await hub.set_mode(session, "enforce", by="carl")).ok
        await check(hub, session)

    async def test_own_approvals_counts_the_starter(self, tmp_path: Path, shop: Shop) -> None:
        """With `own_approvals`, the operator who started the session counts."""
        hub = Hub(Journal.open(tmp_path / "own.db"), policy=ApprovalPolicy(own_approvals=True))
        session = await waiting(hub, shop)
        assert "1 other person" in (await off(hub, TWO, "carl"))[1]
        assert (await off(hub, TWO, "ada"))[0]
        assert TWO not in (await hub.session(session)).active
        await hub.close()

    @pytest.mark.slow
    async def test_proposer_with_revoked_token_does_not_count(self, hub: Hub, shop: Shop) -> None:
        """A proposer whose token was revoked does not count."""
        session = await waiting(hub, shop)
        valid = {"a", "b"}
        ada, ben = (Credential(each, lambda token, _: token in valid) for each in "ab")
        await hub.toggle_net(session, TWO, False, by="ada", reason="x", credential=ada)
        [change] = (await hub.session(session)).changes.values()
        valid.discard("a")
        refused = await hub.confirm_change(session, change.id, by="ben", credential=ben)
        assert not refused.ok
        assert "ada no longer counts" in refused.message
        state = await hub.session(session)
        assert (TWO in state.active, state.changes) == (True, {})

    @pytest.mark.slow
    async def test_proposal_can_be_dropped_and_expires(self, hub: Hub, shop: Shop, watch: Watch) -> None:
        """A proposal can be dropped, and it expires."""
        session = await waiting(hub, shop)
        await off(hub, TWO, "ada")
        [change] = (await hub.session(session)).changes.values()
        assert (await hub.drop_change(session, change.id, by="carl")).ok
        assert not (await hub.confirm_change(session, change.id, by="ben")).ok
        await off(hub, TWO, "ada")
        [change] = (await hub.session(session)).changes.values()
        watch.now += timedelta(minutes=16)
        late = await hub.confirm_change(session, change.id, by="ben")
        assert (late.ok, "the time" in late.message) == (False, True)
        assert TWO in (await hub.session(session)).active
        assert len(bodies(hub, session, ChangeProposed)) == len(bodies(hub, session, ChangeDropped)) == 2
        await check(hub, session)


class TestDefaults:
    """G-66: a net that names calls takes them from rules on `anything-else`, which loosens those."""

    LIMIT, BLOCK = "limit-deploy-100", "block-push"

    async def opened(self, hub: Hub, shop: Shop, people: str) -> str:
        """A session with a deploy request by its default; a limit on deploys and a block are off."""
        every = compile_rules(
            f"require {people} before anything-else\nlimit deploy to 100 per session\nblock push"
        ).registry
        default, limit, block = every
        assert (limit, block) == (self.LIMIT, self.BLOCK)
        events = hub.subscribe()
        agent = bot(shop, C(deploy={"env": "prod"}), T("done"))
        session = await hub.open_session(
            agent, SessionConfig(every, active=[default], by="carl"), session_id="s1"
        )
        await hub.send(session, "ship it", by="carl")
        await until(events, ApprovalRequested)
        events.close()
        return session

    async def test_switching_a_limit_on_takes_two_operators(
        self, hub: Hub, shop: Shop, watch: Watch
    ) -> None:
        """One operator proposes to switch the limit on and another confirms; the call still needs two."""
        session = await self.opened(hub, shop, "2 human-approvals")
        refused = await hub.toggle_net(session, self.LIMIT, True, by="ada")
        assert (refused.ok, refused.needs_reason) == (False, True)
        assert "approve-before-anything-else then no longer judges them" in refused.message
        for_long = await hub.toggle_net(session, self.LIMIT, True, by="ada", reason="x", seconds=60)
        assert (for_long.ok, for_long.needs_reason) == (False, False)
        said = await hub.toggle_net(session, self.LIMIT, True, by="ada", reason="deploys are safe")
        assert said.ok
        assert said.message.startswith(f"Proposed, nothing is changed yet: turn on {self.LIMIT}.")
        assert "itself" not in said.message
        assert not (await hub.toggle_net(session, self.LIMIT, True, by="ada", reason="x")).ok
        assert self.LIMIT not in (await hub.session(session)).active
        [change] = (await hub.session(session)).changes.values()
        assert (change.net, change.active, change.words) == (self.LIMIT, True, f"turn on {self.LIMIT}")
        [proposed] = bodies(hub, session, ChangeProposed)
        recorded = next(e for e in await hub.recorded(session) if e.body == proposed)
        assert f"{self.LIMIT} on  proposed, takes 2" in headline(recorded)
        assert (await hub.confirm_change(session, change.id, by="ben")).ok
        state = await hub.session(session)
        assert (self.LIMIT in state.active, state.changes) == (True, {})
        [toggled] = bodies(hub, session, NetToggled)
        assert (toggled.active, toggled.reason, toggled.others) == (True, "deploys are safe", ("ada",))
        [request] = await open_requests(hub)
        assert (request.people, shop.ran) == (2, [])
        await check(hub, session)

    async def test_loosening_a_default_needs_a_reason(self, hub: Hub, shop: Shop) -> None:
        """If one operator may loosen the default, a reason is needed; a block needs none."""
        session = await self.opened(hub, shop, "human-approval")
        assert (await hub.toggle_net(session, self.BLOCK, True, by="carl")).ok
        assert (await hub.toggle_net(session, self.LIMIT, True, by="ada")).needs_reason
        assert (await hub.toggle_net(session, self.LIMIT, True, by="ada", reason="x")).ok
        assert set(self.active(await hub.session(session))) == {self.LIMIT, self.BLOCK}
        await open_requests(hub)
        await check(hub, session)

    def active(self, state: SessionState) -> list[str]:
        """Return the active nets except the default."""
        return [key for key in state.active if "anything-else" not in key]

    async def test_default_counts_while_off_for_a_time(self, hub: Hub, shop: Shop, watch: Watch) -> None:
        """The default counts even while it is off for a limited time."""
        session = await self.opened(hub, shop, "2 human-approvals")
        for name in ("ada", "ben"):
            reply = await hub.toggle_net(
                session, "approve-before-anything-else", False, by=name, reason="x", seconds=600
            )
            assert reply.ok
        assert (await hub.toggle_net(session, self.LIMIT, True, by="ada")).needs_reason
        for name in ("ada", "ben"):
            assert (await hub.toggle_net(session, self.LIMIT, True, by=name, reason="x")).ok
        assert (await hub.toggle_net(session, self.LIMIT, False, by="ada", reason="x", seconds=60)).ok
        assert (await hub.toggle_net(session, self.LIMIT, True, by="ada")).ok

    def test_older_proposal_means_switching_off(self) -> None:
        """An old proposal without `active` is one to switch off."""
        body = {"change_id": "c", "net": "x", "by": "a", "reason": "r", "people": 2, "counts": True}
        older = ChangeProposed.model_validate({**body, "expires": START})
        assert older.active is False


class TestDeadline:
    """A renewed request keeps its deadline (G-67)."""

    async def test_switching_keeps_the_first_deadline(
        self, tmp_path: Path, shop: Shop, watch: Watch
    ) -> None:
        """Switching a rule off and on keeps the first request's deadline; `extend` moves it."""
        journal = Journal.open(tmp_path / "due.db", clock=watch)
        hub = Hub(journal, policy=ApprovalPolicy(expire=600))
        session = await waiting(hub, shop)
        [first] = await hub.approvals()
        assert first.expires == START + timedelta(minutes=10)
        seen = {first.id}
        for active in (False, True, False):
            watch.now += timedelta(minutes=2)
            await hub.toggle_net(session, "block-rm", active, by="ada", reason="x")
            [request] = await open_requests(hub)
            assert request.id not in seen
            seen.add(request.id)
            assert request.expires == first.expires
        # One operator cannot extend a renewed request either, two can.
        assert "a second person" in (await hub.extend(request.id, seconds=900, by="ada")).message
        assert (await hub.extend(request.id, seconds=900, by="ben")).ok
        later = watch.now + timedelta(minutes=15)
        await hub.toggle_net(session, "block-rm", True, by="ada")
        [request] = await open_requests(hub)
        assert request.expires == later
        watch.now = later + timedelta(seconds=1)
        late = await hub.decide(request.id, approved=True, by="ada", digest=request.digest)
        assert (late.ok, "Too late" in late.message) == (False, True)
        await check(hub, session)
        await hub.close()


class TestForATime:
    """`off for 10m`: the net is switched on again after the recorded time."""

    @pytest.mark.slow
    async def test_net_and_mode_are_restored(self, hub: Hub, shop: Shop, watch: Watch) -> None:
        """A net and the mode are restored after their time, and the record marks this as timed."""
        session = await waiting(hub, shop)
        for key in [key for key in REGISTRY if key in (TWO, RISK, NO_GRANTS)]:
            await off(hub, key, "ada")
            await off(hub, key, "ben")
        events = hub.subscribe()
        await hub.toggle_net(session, "block-rm", False, by="ada", reason="x", seconds=0.05)
        await hub.set_mode(session, "shadow", by="ada", reason="x", seconds=0.05)
        watch.now += timedelta(seconds=1)
        changed = (await until(events, ModeChanged)).body
        while not changed.timed:
            changed = (await until(events, ModeChanged)).body
        state = await hub.session(session)
        assert ("block-rm" in state.active, state.mode, state.shadowed) == (True, "enforce", None)
        assert bodies(hub, session, NetToggled)[-1].timed
        assert changed.by == "ada"
        await check(hub, session)

    async def test_net_is_on_after_a_later_resume(
        self, hub: Hub, shop: Shop, watch: Watch, tmp_path: Path
    ) -> None:
        """A net that was off for a limited time is on if its session is resumed later."""
        session = await waiting(hub, shop)
        await hub.toggle_net(session, "block-rm", False, by="ada", reason="x", seconds=600)
        assert (await hub.session(session)).off["block-rm"].until == START + timedelta(minutes=10)
        await hub.close_session(session, by="carl")
        watch.now += timedelta(minutes=11)
        await hub.resume_session(session, bot(shop, T("ok")), SessionConfig(REGISTRY, by="carl"))
        state = await hub.session(session)
        assert ("block-rm" in state.active, state.off) == (True, {})
        assert bodies(hub, session, NetToggled)[-1].timed
        assert fold(await hub.recorded(session)) == state

    async def test_restored_for_next_call_after_machine_sleep(
        self, hub: Hub, shop: Shop, watch: Watch
    ) -> None:
        """Timers stop while the machine sleeps, but the next call is judged by the restored net."""
        agent = bot(shop, C(test={}), C(rm={}), T("done"))
        await hub.open_session(agent, SessionConfig(REGISTRY, by="carl"), session_id="s1")
        await hub.toggle_net("s1", "block-rm", False, by="ada", reason="x", seconds=600)
        watch.now += timedelta(minutes=11)
        await hub.send("s1", "go", by="carl")
        await hub.wait("s1")
        assert (shop.ran, (await hub.session("s1")).off) == (["test"], {})
        assert bodies(hub, "s1", NetToggled)[-1].timed
        await check(hub, "s1")

    async def test_on_again_soon_after_a_sleep_without_a_call(
        self, hub: Hub, shop: Shop, watch: Watch, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Consoles show the net as on although the timer of ten minutes has not run out."""
        monkeypatch.setattr(clock_module, "LOOK_AGAIN", 0.05)
        await hub.open_session(bot(shop), SessionConfig(REGISTRY, by="carl"), session_id="s1")
        await hub.toggle_net("s1", "block-rm", False, by="ada", reason="x", seconds=600)
        watch.now += timedelta(minutes=11)
        async with asyncio.timeout(10):
            while (await hub.session("s1")).off:  # noqa: ASYNC110 - a timer switches it
                await asyncio.sleep(0.01)
        assert "block-rm" in (await hub.session("s1")).active
        await check(hub, "s1")

    async def test_restored_for_next_external_call(self, hub: Hub, watch: Watch) -> None:
        """The same applies to an external call that is decided at once."""
        await hub.open_external(
            ExternalAgent(name="bot"), SessionConfig(REGISTRY, by="carl"), session_id="s1"
        )
        await hub.toggle_net("s1", "block-rm", False, by="ada", reason="x", seconds=600)
        assert (await hub.call("s1", "c1", "rm", {})).outcome == "allow"
        watch.now += timedelta(minutes=11)
        assert (await hub.call("s1", "c2", "rm", {})).outcome == "block"
        await check_fold(hub, "s1")

    async def test_limited_and_permanent_proposals_differ(self, hub: Hub, shop: Shop) -> None:
        """Agreeing to switch a rule off for a limited time does not confirm a proposal without a limit,
        and vice versa."""
        session = await waiting(hub, shop)
        assert (await hub.toggle_net(session, TWO, False, by="ada", reason="x")).ok
        short = await hub.toggle_net(session, TWO, False, by="ben", reason="x", seconds=60)
        assert (short.ok, "proposed this already, with no time limit" in short.message) == (False, True)
        assert TWO in (await hub.session(session)).active
        assert (await hub.toggle_net(session, TWO, False, by="ben", reason="x")).ok

    async def test_proposal_names_its_duration(self, hub: Hub, shop: Shop) -> None:
        """The proposal names the time for which the rule would be off."""
        session = await waiting(hub, shop)
        said = await hub.toggle_net(session, TWO, False, by="ada", reason="x", seconds=600)
        assert f"turn off {TWO} for 10 min" in said.message

    async def test_invalid_duration_is_refused(self, hub: Hub, shop: Shop) -> None:
        """An invalid duration is refused."""
        session = await waiting(hub, shop)
        for seconds in (0, -1, 1e12):
            outcome = await hub.toggle_net(
                session, "block-rm", False, by="ada", reason="x", seconds=seconds
            )
            assert not outcome.ok
        assert "block-rm" in (await hub.session(session)).active


class TestTogether:
    async def test_simultaneous_proposals_of_one_operator_count_once(self, hub: Hub, shop: Shop) -> None:
        """Simultaneous proposals by one operator count as one."""
        session = await waiting(hub, shop)
        await asyncio.gather(*(off(hub, TWO, "ada") for _ in range(5)))
        state = await hub.session(session)
        assert (TWO in state.active, len(state.changes)) == (True, 1)


class TestRecord:
    """The decision of a call that ran because a rule was off names the operator who switched it off."""

    async def test_decision_names_rule_and_operators(self, hub: Hub, shop: Shop) -> None:
        """The decision, its headline, the list and the replay's marks name the rule and the operators."""
        agent = bot(shop, C(rm={}), C(test={}), T("done"))
        session = await hub.open_session(agent, SessionConfig(REGISTRY, by="carl"), session_id="s1")
        assert (await off(hub, "block-rm", "ada"))[0]
        await hub.send(session, "go", by="carl")
        await hub.wait(session)
        removed, tested = bodies(hub, session, CallDecided)
        assert (removed.off, tested.off) == ({"block-rm": ("ada",)}, {})
        events = await hub.recorded(session)
        [line] = [headline(e) for e in events if e.body == removed]
        assert "allow (block-rm was off: ada)" in line
        wanted = DecisionFilter(rules=("block-rm",), kinds=("call",))
        found = await hub.scan_decisions(wanted)
        [decision] = await hub.read_decisions(wanted, found.parts[0])
        assert (decision.by, decision.off) == (None, "block-rm was off: ada")
        assert "allowed (block-rm was off: ada)" in verdict_words(decision)
        marks = marks_of(events)
        marked = {e.body.type for n, e in enumerate(events, start=1) if marks.get(n) == "off"}
        assert marked == {"net.toggled", "call.decided"}

    async def test_approved_call_is_not_marked_as_off(self, hub: Hub, shop: Shop) -> None:
        """A call that was approved while its rule was off is not marked as run because of that."""
        session = await waiting(hub, shop)
        await off(hub, TWO, "ada")
        events = hub.subscribe()
        await off(hub, TWO, "ben")
        await until(events, ApprovalRequested)
        for name in ("ada", "ben"):
            [request] = await hub.approvals()
            assert (await hub.decide(request.id, approved=True, by=name, digest=request.digest)).ok
        await hub.wait(session)
        [decided] = bodies(hub, session, CallDecided)
        assert (decided.off, set(decided.approved_by)) == ({}, {"ada", "ben"})
        assert shop.ran == ["deploy prod"]
        await check(hub, session)


class TestOneOperator:
    """A single operator cannot make a call run that waits for two approvers."""

    @pytest.mark.parametrize("name", ["ada", "carl"])
    async def test_one_operator_cannot_do_it_alone(self, hub: Hub, shop: Shop, name: str) -> None:
        """One operator, starter or not, tries to approve, switch, confirm, grant and extend."""
        session = await waiting(hub, shop)
        for _ in range(2):
            for key in REGISTRY:
                await off(hub, key, name)
            await hub.set_mode(session, "shadow", by=name, reason="x")
            for change in list((await hub.session(session)).changes):
                await hub.confirm_change(session, change, by=name)
                await hub.confirm_change(session, change, by=name.upper())
            for request in await open_requests(hub):
                terms = GrantTerms("names")
                for each in (name, f" {name} ", name.upper()):
                    await hub.decide(request.id, approved=True, by=each, digest=request.digest)
                    await hub.decide(request.id, approved=True, by=each, grant=terms, reason="x")
                await hub.extend(request.id, seconds=None, by=name)
            for key in REGISTRY:
                await hub.toggle_net(session, key, True, by=name)
            await hub.set_mode(session, "enforce", by=name)
        [request] = await open_requests(hub)
        assert shop.ran == []
        assert (request.people, TWO in (await hub.session(session)).active) == (2, True)
        assert not bodies(hub, session, CallDecided)


class TestTakenBack:
    async def test_refused_switch_renews_requests(self, hub: Hub, shop: Shop) -> None:
        """If the journal refuses a switch, requests that were shown under it are renewed.

        Otherwise such a request would count again once the same switch is made successfully.
        """
        agent = bot(shop, C(deploy={"env": "prod"}), T("done"))
        session = await hub.open_session(agent, SessionConfig(REGISTRY, by="carl"), session_id="s1")
        hosted = hub._live.hosted(session)
        # As if a write was lost and no task knows it yet.
        assert hosted.manager.remove_net("block-rm").ok
        events = hub.subscribe()
        await hub.send(session, "ship it", by="carl")
        await until(events, ApprovalRequested)
        [shown] = await hub.approvals()
        hosted.ledger.is_ahead = True
        await hosted.ledger.catch_up()
        await until(events, ApprovalRequested)
        [anew] = await hub.approvals()
        assert (anew.call_id, anew.id != shown.id) == (shown.call_id, True)
        assert anew.digest != shown.digest
        assert not (await hub.decide(shown.id, approved=True, by="ada", digest=shown.digest)).ok
        await check(hub, session)
