"""G-67: replacing the rules of a live session is recorded and releases no waiting call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from interlock.app.viewmodels.marks import marks_of
from interlock.engine.agents import C, T
from interlock.engine.backtest import Judge, Trial
from interlock.engine.backtest.journal_reader import recordings
from interlock.engine.gate import GateManager
from interlock.engine.gate.types import GrantTerms
from interlock.engine.history.decisions.filter import DecisionFilter
from interlock.engine.history.errors import JournalError
from interlock.engine.history.fold.event_text import headline
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import ApprovalRequested, CallDecided, RulesReplaced
from interlock.engine.history.model.records import AppliedRules
from interlock.engine.hub.api import Outcome
from interlock.engine.hub.hub import Hub
from interlock.engine.net.net import NetError, ToolCall
from interlock.engine.sessions.call_answer import CallAnswer
from interlock.engine.sessions.config import SessionConfig
from interlock.engine.sessions.external import ExternalAgent
from interlock.engine.sessions.new_rules import NewRules
from interlock.rules import compile_rules

from ..support.external_agent import check_fold
from ..support.shop import Shop, bodies, bot, check, until

AT = datetime(2026, 11, 23, 14, 0, tzinfo=UTC)
LIMITED = "limit push to 2 per session\nrequire test before deploy\n"
SESSION = "s-1"


@asynccontextmanager
async def closing_hub(directory: Path) -> AsyncIterator[Hub]:
    hub = Hub(Journal.open(directory / "hub.db"))
    try:
        yield hub
    finally:
        await hub.close()


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    async with closing_hub(tmp_path) as hub:
        yield hub


async def begin(hub: Hub, rules: str, *, mode: str = "enforce", by: str = "carl") -> None:
    config = SessionConfig(compile_rules(rules).registry, mode=mode, by=by)
    await hub.open_external(ExternalAgent(name="robin"), config, session_id=SESSION)


async def replace(
    hub: Hub,
    rules: str,
    by: str = "ada",
    others: tuple[str, ...] = (),
    reason: str | None = "new policy",
    required: bool = True,
) -> Outcome:
    registry = compile_rules(rules).registry
    applied = AppliedRules(by=by, at=AT, others=others, reason=reason)
    return await hub.replace_rules(SESSION, NewRules(registry, registry if required else (), applied))


async def call(hub: Hub, call_id: str, tool: str, done: bool | None = True, **of: str) -> CallAnswer:
    """Make a call and report its success, its failure or no result yet."""
    answer = await hub.call(SESSION, call_id, tool, dict(of))
    if answer.outcome == "allow" and done is not None:
        await hub.result(SESSION, call_id, output="", is_error=not done)
    return answer


async def markings(hub: Hub) -> Mapping[str, Mapping[str, int]]:
    return {key: net.marking for key, net in (await hub.session(SESSION)).nets.items()}


class TestNets:
    async def test_kept_limit_keeps_uses_and_changed_rule_starts_fresh(self, hub: Hub) -> None:
        """A kept limit keeps its uses; a new or changed rule starts fresh."""
        await begin(hub, LIMITED + "block rm\n")
        await call(hub, "c1", "push")
        await call(hub, "c2", "test")
        before = await markings(hub)
        done = await replace(hub, "limit push to 2 per session\nrequire lint before deploy\nblock mkfs\n")
        assert done == Outcome(ok=True, message="is under these rules from now on")
        [event] = bodies(hub, SESSION, RulesReplaced)
        assert event.applied == AppliedRules(by="ada", at=AT, reason="new policy")
        assert [net.key for net in event.nets] == ["require-lint-before-deploy", "block-mkfs"]
        assert event.dropped == ("require-test-before-deploy", "block-rm")
        after = await markings(hub)
        assert after["limit-push-2"] == before["limit-push-2"]
        outcomes = [
            (await call(hub, f"d{n}", tool)).outcome
            for n, tool in enumerate(["push", "push", "deploy", "lint", "deploy", "rm", "mkfs"])
        ]
        assert outcomes == ["allow", "block", "block", "allow", "allow", "allow", "block"]
        await check_fold(hub, SESSION)

    async def test_the_same_rules_are_no_event(self, hub: Hub) -> None:
        """If the rules do not differ, nothing is recorded and no reason is needed."""
        await begin(hub, LIMITED)
        assert (await replace(hub, LIMITED, reason=None)).message == "is under these rules already"
        assert bodies(hub, SESSION, RulesReplaced) == []

    async def test_net_of_same_structure_keeps_tokens(self, hub: Hub) -> None:
        """A net of the same structure keeps its tokens, and the record has its new rule."""
        await begin(hub, "require human-approval before deploy\n")
        done = await replace(hub, "require human-approval before deploy risk high\n")
        assert done.ok
        [event] = bodies(hub, SESSION, RulesReplaced)
        assert (event.nets, [net.people for net in event.renewed]) == ((), [1])
        [net] = (await hub.session(SESSION)).nets.values()
        assert net.net.people == 1
        outcome = await hub.toggle_net(SESSION, net.net.key, False, by="carl", reason="late")
        assert "carl started this session and does not count" in outcome.message
        await check_fold(hub, SESSION)

    async def test_unchanged_rule_stays_switched_off(self, hub: Hub) -> None:
        """An unchanged rule stays switched off; a changed one is switched on."""
        await begin(hub, "block rm\nblock push\n")
        for net in ("block-rm", "block-push"):
            assert (await hub.toggle_net(SESSION, net, False, by="ada", reason="a drill")).ok
        await replace(hub, "block rm\nrequire human-approval before push\n")
        state = await hub.session(SESSION)
        assert (tuple(state.active), list(state.off)) == (("approve-before-push",), ["block-rm"])
        await check_fold(hub, SESSION)

    @pytest.mark.parametrize("first", ["", LIMITED, "map bash.command rm as delete\nblock delete\n"])
    @pytest.mark.parametrize(
        "then",
        ["block push\n", "limit deploy to 1 per session\n", "require human-approval before deploy\n"],
    )
    async def test_without_kept_rules_calls_are_judged_fresh(
        self, hub: Hub, first: str, then: str
    ) -> None:
        """If no rule is kept, calls are judged as in a new session."""
        await begin(hub, first)
        for n, tool in enumerate(["push", "test", "deploy", "push"]):
            await call(hub, f"c{n}", tool)
        assert (await replace(hub, then)).ok
        fresh = GateManager(compile_rules(then).registry)
        for n, (tool, of) in enumerate(
            [("push", {}), ("bash", {"command": "rm x"}), ("deploy", {}), ("deploy", {})]
        ):
            live = hub._live.hosted(SESSION).manager
            one, other = ToolCall(f"d{n}", tool, of), ToolCall(f"d{n}", tool, of)
            assert [v.kind for v in live.classify(one)] == [v.kind for v in fresh.classify(other)]
            if (await fresh.handle_tool_call(other)).outcome == "allow":
                await call(hub, f"d{n}", tool, **of)
        await check_fold(hub, SESSION)


class TestPending:
    @pytest.mark.parametrize("stays", [True, False])
    async def test_result_moves_only_a_kept_net(self, hub: Hub, stays: bool) -> None:
        """A pending result still moves its net if the rule is kept, but not a new rule's net."""
        await begin(hub, "require test before deploy\n")
        await call(hub, "c1", "test", done=None)
        kept = "require test before deploy\nblock rm\n"
        await replace(hub, kept if stays else "require test before push\n")
        await check_fold(hub, SESSION)
        await hub.result(SESSION, "c1", output="ok", is_error=False)
        tool = "deploy" if stays else "push"
        assert (await call(hub, "c2", tool)).outcome == ("allow" if stays else "block")
        await check_fold(hub, SESSION)

    async def test_call_that_never_ran_returns_no_token_to_new_rule(self, hub: Hub, shop: Shop) -> None:
        """A call that never ran does not return a token to a new rule of the same name."""
        await begin(hub, "limit push to 1 per session\n")
        await call(hub, "c1", "push", done=None)
        await replace(hub, "limit push to 2 per session\n")
        await hub.end_turn(SESSION)
        await check_fold(hub, SESSION)
        assert [(await call(hub, f"d{n}", "push")).outcome for n in range(3)] == [
            "allow",
            "allow",
            "block",
        ]


class TestRequests:
    async def waiting(self, hub: Hub, rules: str) -> asyncio.Task[CallAnswer]:
        await begin(hub, rules)
        events = hub.subscribe()
        task = asyncio.create_task(call(hub, "c1", "deploy", done=None))
        await until(events, ApprovalRequested)
        events.close()
        return task

    async def test_waiting_call_needs_approvals_as_before(self, hub: Hub) -> None:
        """A waiting call needs as many approvals as before, even if its rule was dropped."""
        task = await self.waiting(hub, "require 2 human-approvals before deploy\n")
        events = hub.subscribe()
        assert (await replace(hub, "block rm\n", others=("ben",))).ok
        await until(events, ApprovalRequested)
        [request] = await hub.approvals()
        assert (request.people, task.done()) == (2, False)
        for name in ("ada", "ben"):
            assert (await hub.decide(request.id, approved=True, by=name)).ok
        assert (await task).outcome == "allow"
        await check_fold(hub, SESSION)

    async def test_newly_blocked_call_stays_blocked(self, hub: Hub) -> None:
        """A call that the new rules block stays blocked, even if it is approved at the same time."""
        task = await self.waiting(hub, "require human-approval before deploy\n")
        [request] = await hub.approvals()
        assert (await replace(hub, "require human-approval before deploy\nblock deploy\n")).ok
        await hub.decide(request.id, approved=True, by="ben")
        answer = await task
        assert answer.outcome == "block"
        [decided] = bodies(hub, SESSION, CallDecided)
        assert decided.net == "block-deploy"
        await check_fold(hub, SESSION)

    async def test_old_approval_does_not_satisfy_stricter_rule(self, hub: Hub) -> None:
        """An approval under the old rule does not count for a stricter new one."""
        task = await self.waiting(hub, "require human-approval before deploy\n")
        events = hub.subscribe()
        assert (await replace(hub, "require 2 human-approvals before deploy\n")).ok
        await until(events, ApprovalRequested)
        names = iter(["ada", "ben", "eve", "fay"])
        async with asyncio.timeout(10):
            while not task.done():
                for request in await hub.approvals():
                    await hub.decide(request.id, approved=True, by=next(names))
                await asyncio.sleep(0.01)
        assert (await task).outcome == "allow"
        assert next(names, None) != "eve"
        await check_fold(hub, SESSION)


class TestPeople:
    """Loosening a rule requires the approvers that each session's rules require."""

    async def test_dropping_a_rule_needs_a_reason(self, hub: Hub) -> None:
        """Without a reason a rule cannot be dropped; adding rules needs none."""
        await begin(hub, "block rm\n")
        refused = await replace(hub, "block mkfs\n", reason=" ")
        assert refused == Outcome(ok=False, message="this may loosen block-rm, and no reason is given")
        assert (await replace(hub, "block rm\nblock mkfs\n", reason=None)).ok

    @pytest.mark.parametrize(("others", "done"), [((), False), (("ben",), True), (("Carl",), False)])
    async def test_starter_does_not_count(self, hub: Hub, others: tuple[str, ...], done: bool) -> None:
        """Two other operators loosen a rule for two; the session's starter counts under no spelling."""
        await begin(hub, "require 2 human-approvals before deploy\n")
        outcome = await replace(hub, "block rm\n", others=others)
        assert outcome.ok == done
        if not done:
            assert "needs 2 who neither started it nor gave it its task; 1 of those" in outcome.message
            assert list((await hub.session(SESSION)).nets) == ["approve-before-deploy"]

    async def test_new_rule_takes_calls_from_default(self, hub: Hub) -> None:
        """A new rule that names a tool takes its calls from a rule on anything else (G-66)."""
        await begin(hub, "require human-approval before anything-else risk high\n", by="ada")
        outcome = await replace(
            hub, "require human-approval before anything-else risk high\nlimit push to 9 per session\n"
        )
        assert "loosening approve-before-anything-else needs 1" in outcome.message

    async def test_several_approver_rule_is_refused_in_shadow_mode(self, hub: Hub) -> None:
        """In shadow mode, a new rule for several approvers is refused: none agreed to shadow it."""
        await begin(hub, "block rm\n", mode="shadow")
        outcome = await replace(hub, "block rm\nrequire human-approval before deploy risk high\n")
        assert (outcome.ok, "shadow mode" in outcome.message) == (False, True)

    async def test_earlier_proposal_needs_two_under_new_rule(self, hub: Hub) -> None:
        """A proposal that one confirmation could complete needs two under the new rule."""
        await begin(hub, "require human-approval before deploy risk high\n", by="carl")
        net = "approve-before-deploy"
        await hub.toggle_net(SESSION, net, False, by="carl", reason="late")
        [change] = (await hub.session(SESSION)).changes.values()
        assert (await replace(hub, "require 2 human-approvals before deploy\n", others=("ben",))).ok
        outcome = await hub.confirm_change(SESSION, change.id, by="ada")
        assert not outcome.ok
        assert net in (await hub.session(SESSION)).active
        await check_fold(hub, SESSION)


class TestGrants:
    ASKS = "require human-approval before deploy\n"

    async def asked(self, hub: Hub) -> tuple[asyncio.Task[CallAnswer], Awaitable[Outcome]]:
        """A deploy that waits, and an awaitable answer that approves it with a grant."""
        await begin(hub, self.ASKS)
        events = hub.subscribe()
        task = asyncio.create_task(call(hub, "c1", "deploy"))
        await until(events, ApprovalRequested)
        events.close()
        [request] = await hub.approvals()
        grant = GrantTerms("names", None, None, False)
        return task, hub.decide(request.id, approved=True, by="ben", grant=grant, reason="often")

    async def granted(self, hub: Hub) -> None:
        task, answer = await self.asked(hub)
        assert (await answer).ok
        await task

    async def test_stays_with_its_rule(self, hub: Hub) -> None:
        await self.granted(hub)
        await replace(hub, self.ASKS + "block rm\n")
        assert (await call(hub, "c2", "deploy")).outcome == "allow"
        await check_fold(hub, SESSION)

    async def test_unrecorded_grant_ends_like_any_other(self, hub: Hub) -> None:
        """A grant given while the rules are replaced ends like any other."""
        task, answer = await self.asked(hub)
        answering = asyncio.ensure_future(answer)
        manager = hub._live.hosted(SESSION).manager
        for _ in range(10_000):
            if manager.grants:
                break
            await asyncio.sleep(0)
        assert manager.grants
        assert (await hub.session(SESSION)).grants == {}
        assert (await replace(hub, self.ASKS + "map bash.command rm as delete\n")).ok
        await asyncio.gather(answering, task)
        assert manager.grants == {}
        assert not any(each.net.active for each in (await hub.session(SESSION)).grants.values())
        await check_fold(hub, SESSION)

    @pytest.mark.parametrize(
        "rules",
        [ASKS + "map bash.command rm as delete\n", ASKS.rstrip() + " no grants\n", "block rm\n"],
    )
    async def test_ends_with_its_maps_or_rule(self, hub: Hub, rules: str) -> None:
        """A grant ends under other maps, another rule or none, also if its rule comes back later."""
        await self.granted(hub)
        assert (await replace(hub, rules)).ok
        assert not any(grant.net.active for grant in (await hub.session(SESSION)).grants.values())
        await check_fold(hub, SESSION)
        await replace(hub, self.ASKS, others=("ben",))
        events = hub.subscribe()
        task = asyncio.create_task(call(hub, "c9", "deploy", done=None))
        await until(events, ApprovalRequested)
        task.cancel()


class TestFailing:
    async def test_unrecorded_rules_are_not_applied(
        self, hub: Hub, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """If the journal refuses the new rules, the gate keeps the recorded ones."""
        await begin(hub, "block rm\nlimit push to 2 per session\n")
        await call(hub, "c1", "push")
        journal = hub._journal

        def refuses(session: str, *bodies: object, after: int | None = None) -> object:
            raise JournalError("the disk is full")

        with monkeypatch.context() as patch:
            patch.setattr(journal, "submit", refuses)
            outcome = await replace(hub, "block mkfs\n")
        assert (outcome.ok, "the disk is full" in outcome.message) == (False, True)
        await check_fold(hub, SESSION)
        tools = ["rm", "mkfs", "push", "push"]
        outcomes = [(await call(hub, f"d{n}", tool)).outcome for n, tool in enumerate(tools)]
        assert outcomes == ["block", "allow", "allow", "block"]

    async def test_waiting_request_stays_valid(self, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
        """If the journal refuses the new rules, a waiting request stays valid as it was shown."""
        await begin(hub, "require human-approval before deploy\n")
        events = hub.subscribe()
        task = asyncio.create_task(call(hub, "c1", "deploy", done=None))
        await until(events, ApprovalRequested)
        [request] = await hub.approvals()

        def refuses(*_: object, **__: object) -> object:
            raise JournalError("the disk is full")

        with monkeypatch.context() as patch:
            patch.setattr(hub._journal, "submit", refuses)
            assert not (await replace(hub, "block rm\n")).ok
        done = await hub.decide(request.id, approved=True, by="ben", digest=request.digest)
        assert done.ok, done.message
        assert (await task).outcome == "allow"
        await check_fold(hub, SESSION)

    async def test_static_nets_cannot_be_replaced(self) -> None:
        """A gate with a static list of nets cannot replace them."""
        gate = GateManager(list(compile_rules("block rm\n").nets))
        with pytest.raises(NetError, match="Static"):
            gate.replace_nets(compile_rules("block mkfs\n").registry, ["block-mkfs"])

    async def test_kept_net_must_have_the_same_structure(self) -> None:
        """A kept net must have the same structure; otherwise nothing changes."""
        gate = GateManager(compile_rules("limit push to 1 per session\n").registry)
        (net,) = compile_rules("require test before push\n").nets
        with pytest.raises(NetError, match="structure"):
            gate.replace_nets({"limit-push-1": net}, ["limit-push-1"], ["limit-push-1"])
        assert gate.active == ("limit-push-1",)


class TestRecord:
    async def test_resumes_with_the_new_rules_only(self, tmp_path: Path) -> None:
        """After a restart, the session can be resumed with the new rules but not with the old ones."""
        async with closing_hub(tmp_path) as hub:
            await begin(hub, LIMITED)
            await call(hub, "c1", "push")
            await replace(hub, LIMITED + "block rm\n")
            await call(hub, "c2", "push")
        async with closing_hub(tmp_path) as hub:
            new = SessionConfig(compile_rules(LIMITED + "block rm\n").registry)
            with pytest.raises(ValueError, match="block-rm"):
                await hub.resume_external(
                    SESSION, ExternalAgent(name="robin"), SessionConfig(compile_rules(LIMITED).registry)
                )
            await hub.resume_external(SESSION, ExternalAgent(name="robin"), new)
            tools = ["rm", "push"]
            assert [(await call(hub, f"d{n}", t)).outcome for n, t in enumerate(tools)] == ["block"] * 2

    async def test_replacement_is_in_replay_and_list(self, hub: Hub) -> None:
        """A replacement has an event, a line in the decisions and a mark in the replay."""
        await begin(hub, "block rm\n")
        await call(hub, "c1", "rm")
        await replace(hub, "block mkfs\n", others=("ben",))
        await call(hub, "c2", "rm")
        await call(hub, "c3", "mkfs")
        events = list(await hub.recorded(SESSION))
        [event] = [event for event in events if isinstance(event.body, RulesReplaced)]
        assert headline(event) == (
            "rules.replaced  fresh: block-mkfs  dropped: block-rm  "
            "rules applied by ben and ada: new policy"
        )
        assert marks_of(events)[event.seq] == "off"
        assert fold(events).transcript[-3].text == "rules replaced by ben and ada: new policy"
        wanted = DecisionFilter(kinds=("rules",))
        found = await hub.scan_decisions(wanted)
        [line] = await hub.read_decisions(wanted, found.parts[0])
        assert line.by == "ben, ada"
        assert "new or changed: block-mkfs; dropped: block-rm" in line.input

    async def test_backtest_activates_a_dropped_rule(self, tmp_path: Path) -> None:
        """A backtest also activates a rule that the record had dropped."""
        async with closing_hub(tmp_path) as hub:
            await begin(hub, "block rm\n")
            await call(hub, "c1", "rm")
            await replace(hub, "block mkfs\n")
            for n, tool in enumerate(["rm", "mkfs"]):
                await call(hub, f"d{n}", tool)
        recording = next(recordings(tmp_path / "hub.db", [SESSION]))
        both = Trial.of(compile_rules("block rm\nblock mkfs\n").registry)
        assert [j.now.outcome for j in Judge(both).judge(recording.items)] == ["block"] * 3


async def test_hosted_agent_continues_under_new_rules(hub: Hub, shop: Shop) -> None:
    """A hosted agent continues under the new rules."""
    agent = bot(shop, C(deploy={"env": "prod"}), C(rm={}), T("done"))
    registry = compile_rules("require human-approval before deploy\n").registry
    session = await hub.open_session(agent, SessionConfig(registry, by="carl"), session_id=SESSION)
    events = hub.subscribe()
    await hub.send(session, "ship it", by="carl")
    await until(events, ApprovalRequested)
    assert (await replace(hub, "require human-approval before deploy\nblock rm\n")).ok
    async with asyncio.timeout(10):
        while "rm" not in {c.tool for c in (await hub.session(session)).calls.values()}:
            for request in await hub.approvals():
                await hub.decide(request.id, approved=True, by="ada")
            await asyncio.sleep(0.01)
    await hub.wait(session)
    assert shop.ran == ["deploy prod"]
    await check(hub, session)
