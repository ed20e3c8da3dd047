"""Rules for "another person", tested on names and session facts and then under a hub (G-77)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from interlock.engine.agents import Agent, C, ScriptedModel, T
from interlock.engine.approvals.policy import Credential
from interlock.engine.core.approvers import Operator, Operators
from interlock.engine.core.people import involvement_reason, is_among, name_shape, part_in, same_person
from interlock.engine.gate import GateManager
from interlock.engine.gate.types import ApprovalAnswer, GateContext, GrantTerms
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import (
    ApprovalExtended,
    ApprovalGiven,
    ApprovalRequested,
    ApprovalWithdrawn,
)
from interlock.engine.history.model.state import ApprovalState, SessionState
from interlock.engine.hub.hub import ApprovalPolicy, Hub
from interlock.engine.net.net import ToolCall
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules
from tests.support.clock import Clock

from ..support.shop import Shop, bodies, until

TWO = "require 2 human-approvals before deploy"
TWO_WITHIN = "require 2 human-approvals before deploy within 10m"


class TestNames:
    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("mia", "MIA"),
            ("mia", " mia "),
            ("straße", "STRASSE"),
            ("José", "Jose\u0301"),
            ("mia", "\uff4d\uff49\uff41"),
            ("mia", "m\u200bia"),
            ("mia  lee", "mia lee"),
        ],
    )
    def test_one_person_in_two_spellings(self, one: str, other: str) -> None:
        """Case, width, composition, blanks and invisible characters do not distinguish names."""
        assert same_person(one, other)
        assert is_among(one, ["ben", other])

    @pytest.mark.parametrize(("one", "other"), [("mia", "mio"), ("José", "Jose"), ("mia", "m\u0456a")])
    def test_different_letters_are_different_people(self, one: str, other: str) -> None:
        """Names that differ after folding are different people."""
        assert not same_person(one, other)

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("alice", "\u0430lice"),
            ("AI", "al"),
            ("bob", "b0b"),
            ("jose", "josé"),
            ("lee-ann", "lee\u2010ann"),
            ("marnie", "mamie"),
            ("Ρaul", "paul"),
        ],
    )
    def test_names_that_look_alike_share_a_shape(self, one: str, other: str) -> None:
        """Other scripts, accents, digits and dashes give a confusable name the same shape."""
        assert name_shape(one) == name_shape(other)

    @pytest.mark.parametrize(("one", "other"), [("alice", "alicia"), ("bob", "rob"), ("dan", "ben")])
    def test_names_that_differ_do_not(self, one: str, other: str) -> None:
        """Ordinary different names have different shapes."""
        assert name_shape(one) != name_shape(other)


class TestSessionPeople:
    def state(self, **facts: object) -> SessionState:
        return SessionState.model_validate({"id": "s"} | facts)

    @pytest.mark.parametrize(
        ("facts", "expected"),
        [
            ({"starters": {"Mia": "opened"}}, "mia started this session"),
            ({"starters": {"Mia": "branched"}}, "mia branched this session"),
            ({"starters": {"ben": "opened", "mia": "resumed"}}, "mia resumed this session"),
            ({"starters": {"bot": "opened", "mia": "owner"}}, "mia owns the token of this agent"),
            ({"task_by": ("ben", "mia")}, "mia gave the running turn its task"),
            ({"starters": {"ben": "opened"}, "task_by": ("ada",)}, None),
        ],
    )
    def test_reason_names_the_operators_part(
        self, facts: dict[str, object], expected: str | None
    ) -> None:
        """The reason names the operator's part in the session."""
        assert involvement_reason("mia", self.state(**facts)) == expected

    def test_sender_of_a_subagents_task_is_involved(self) -> None:
        """An operator who gave a subagent its task is involved in the subagent's calls."""
        assert part_in("mia", self.state(), self.state(task_by=("mia",))) == "task"

    def test_own_approvals_policy_lets_them_count(self) -> None:
        """The policy `own_approvals` lets people behind a session count."""
        assert (
            involvement_reason("mia", self.state(starters={"mia": "opened"}), own_approvals=True) is None
        )


class TestGate:
    async def test_two_spellings_are_one_approver(self) -> None:
        """An answer with one name in two spellings counts as one approver."""
        manager = GateManager(compile_rules(TWO).registry)

        def confirm(_: object) -> ApprovalAnswer:
            return ApprovalAnswer(True, by="Mia", others=("mia",))

        decision = await manager.handle_tool_call(ToolCall("c1", "deploy", {}), GateContext(confirm))
        assert decision.outcome == "block"


@pytest.fixture
async def hub(tmp_path: Path, clock: Clock) -> AsyncIterator[Hub]:
    hub = Hub(Journal.open(tmp_path / "hub.db", clock=clock), policy=ApprovalPolicy())
    yield hub
    await hub.close()


def agent(shop: Shop, *replies: object) -> Agent:
    model = ScriptedModel(list(replies or (C(deploy={}), T("done"))))  # type: ignore[arg-type]
    return Agent(model, name="bot", tools=shop.tools())


async def session_with_request(
    hub: Hub, shop: Shop, *, by: str = "mia", task_by: str = "mia", rules: str = TWO
) -> tuple[str, ApprovalState]:
    """A session that `by` opened and `task_by` gave a task, and the request of its deploy."""
    events = hub.subscribe()
    session = await hub.open_session(agent(shop), SessionConfig(compile_rules(rules).registry, by=by))
    await hub.send(session, "go", by=task_by)
    await until(events, ApprovalRequested)
    [request] = await hub.approvals()
    return session, request


async def refusal(hub: Hub, request: ApprovalState, by: str) -> str:
    """Approve a request and return the message of the refusal."""
    outcome = await hub.decide(request.id, approved=True, by=by)
    assert not outcome.ok
    return outcome.message


class TestOtherPeople:
    async def test_opener_under_another_spelling_does_not_count(self, hub: Hub, shop: Shop) -> None:
        """The operator who opened the session does not count under another spelling of the name."""
        session, request = await session_with_request(hub, shop)
        assert await refusal(hub, request, "MIA") == (
            "MIA started this session: 2 other people must approve"
        )
        assert (await hub.decide(request.id, approved=True, by="ada")).ok
        assert "has approved already" in await refusal(hub, request, "ＡＤＡ")
        assert len(bodies(hub, session, ApprovalGiven)) == 1
        assert shop.ran == []

    async def test_sender_of_the_task_does_not_count(self, hub: Hub, shop: Shop) -> None:
        """The operator who gave the session its task does not count either."""
        _, request = await session_with_request(hub, shop, task_by="ben")
        assert await refusal(hub, request, "ben") == (
            "ben gave the running turn its task: 2 other people must approve"
        )

    async def test_operator_who_steers_does_not_count_afterwards(self, hub: Hub, shop: Shop) -> None:
        """An operator who steers the running turn does not count for later calls, only before."""
        events = hub.subscribe()
        bot = agent(shop, C(deploy={}), C(deploy={}), T("done"))
        session = await hub.open_session(bot, SessionConfig(compile_rules(TWO).registry, by="mia"))
        await hub.send(session, "go", by="mia")
        await until(events, ApprovalRequested)
        [first] = await hub.approvals()
        assert (await hub.decide(first.id, approved=True, by="ben")).ok
        await hub.send(session, "to production", by="ben")
        await until(events, ApprovalRequested)
        [second] = await hub.approvals()
        assert "ben gave the running turn its task" in await refusal(hub, second, "ben")

    async def test_sender_of_an_earlier_task_counts(self, hub: Hub, shop: Shop) -> None:
        """The sender of the running turn's task is excluded, but not that of an earlier task."""
        events = hub.subscribe()
        bot = agent(shop, T("hello"), C(deploy={}), T("done"))
        session = await hub.open_session(bot, SessionConfig(compile_rules(TWO).registry, by="mia"))
        await hub.send(session, "hello", by="ben")
        await hub.wait(session)
        await hub.send(session, "deploy", by="ada")
        await until(events, ApprovalRequested)
        [request] = await hub.approvals()
        assert (await hub.decide(request.id, approved=True, by="ben")).ok
        assert "gave the running turn its task" in await refusal(hub, request, "ada")

    async def test_operator_who_resumed_does_not_count(
        self, hub: Hub, shop: Shop, tmp_path: Path
    ) -> None:
        """The operator who resumes a session is excluded, and so is the one who started it."""
        session, _ = await session_with_request(hub, shop)
        await hub.close_session(session, "mia")
        events = hub.subscribe()
        await hub.resume_session(
            session, agent(shop), SessionConfig(compile_rules(TWO).registry, by="ben")
        )
        await hub.send(session, "again", by="ada")
        await until(events, ApprovalRequested)
        [request] = await hub.approvals()
        assert "ben resumed this session" in await refusal(hub, request, "ben")
        assert "mia started this session" in await refusal(hub, request, "mia")
        assert "ada gave the running turn its task" in await refusal(hub, request, "ada")
        assert (await hub.decide(request.id, approved=True, by="jo")).ok

    async def test_operator_who_branched_does_not_count(self, hub: Hub, shop: Shop) -> None:
        """The operator who made the branch is excluded; the sender of a copied message is not."""
        session = await hub.open_session(
            agent(shop, T("hello")), SessionConfig(compile_rules(TWO).registry, by="mia")
        )
        await hub.send(session, "hello", by="jo")
        await hub.wait(session)
        events = hub.subscribe()
        at = (await hub.session(session)).seq
        branch = await hub.branch_session(
            session, at, agent(shop), SessionConfig(compile_rules(TWO).registry, by="ben")
        )
        await hub.send(branch, "deploy", by="ada")
        await until(events, ApprovalRequested)
        [request] = await hub.approvals()
        assert "ben branched this session" in await refusal(hub, request, "ben")
        assert "ada gave the running turn its task" in await refusal(hub, request, "ada")
        assert (await hub.decide(request.id, approved=True, by="jo")).ok


class Tokens:
    """A set of valid tokens, by id."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = set(tokens)

    def of(self, token: str) -> Credential:
        return Credential(token, lambda each, _: each in self.tokens)


class TestTokens:
    async def test_revoked_before_the_last_approval(self, hub: Hub, shop: Shop) -> None:
        """If an approver's token is revoked before the last approval, all approvals are void."""
        session, request = await session_with_request(hub, shop)
        tokens = Tokens("t-ada", "t-ben")
        assert (await hub.decide(request.id, approved=True, by="ada", credential=tokens.of("t-ada"))).ok
        tokens.tokens.discard("t-ada")
        events = hub.subscribe()
        second = await hub.decide(request.id, approved=True, by="ben", credential=tokens.of("t-ben"))
        assert not second.ok
        assert "the token of ada is no longer in force" in second.message
        await until(events, ApprovalRequested)
        assert shop.ran == []
        [gone] = bodies(hub, session, ApprovalWithdrawn)
        assert gone.again
        assert "ada" in gone.reason
        [again] = await hub.approvals()
        assert (again.given, again.id != request.id) == ((), True)

    async def test_revoked_token_is_refused(self, hub: Hub, shop: Shop) -> None:
        """An approval with a revoked token is refused."""
        _, request = await session_with_request(hub, shop)
        tokens = Tokens()
        outcome = await hub.decide(request.id, approved=True, by="ada", credential=tokens.of("t-ada"))
        assert (outcome.ok, outcome.message) == (False, "The token of ada is no longer in force")

    async def test_uncheckable_token_does_not_count(self, hub: Hub, shop: Shop) -> None:
        """An approval that was given with a token does not count if no host can check the token."""
        _, request = await session_with_request(hub, shop)
        tokens = Tokens("t-ada")
        assert (await hub.decide(request.id, approved=True, by="ada", credential=tokens.of("t-ada"))).ok
        assert "is no longer in force" in await refusal(hub, request, "ben")


class TestLengthening:
    async def test_two_operators_needed_beyond_the_rules_time(
        self, hub: Hub, shop: Shop, clock: Clock
    ) -> None:
        """One operator's extension is only recorded and shown; a second operator's takes effect."""
        session, request = await session_with_request(hub, shop, rules=TWO_WITHIN)
        first = await hub.extend(request.id, seconds=3600, by="ada")
        assert (first.ok, first.message) == (True, "deploy: a second person must extend it as well")
        [open_still] = await hub.approvals()
        assert open_still.expires == request.expires
        assert open_still.extension is not None
        assert open_still.extension.by == "ada"
        assert (await hub.extend(request.id, seconds=3600, by="Ada")).message == first.message
        assert (await hub.extend(request.id, seconds=1800, by="ben")).ok
        [longer] = await hub.approvals()
        assert longer.expires == clock.now + timedelta(seconds=1800), "the shorter time counts"
        assert longer.extension is None
        last = bodies(hub, session, ApprovalExtended)[-1]
        assert (last.by, last.others) == ("ben", ("Ada",))

    async def test_two_operators_needed_to_remove_the_deadline(self, hub: Hub, shop: Shop) -> None:
        """Removing the deadline also takes two operators."""
        _, request = await session_with_request(hub, shop, rules=TWO_WITHIN)
        await hub.extend(request.id, seconds=None, by="ada")
        [still] = await hub.approvals()
        assert still.expires == request.expires
        await hub.extend(request.id, seconds=None, by="ben")
        [longer] = await hub.approvals()
        assert longer.expires is None

    async def test_operator_behind_the_session_cannot_extend(self, hub: Hub, shop: Shop) -> None:
        """An operator behind the session cannot extend its request."""
        session, request = await session_with_request(hub, shop, rules=TWO_WITHIN)
        outcome = await hub.extend(request.id, seconds=3600, by="mia")
        assert (outcome.ok, outcome.message) == (
            False,
            "mia started this session: two other people must extend this request",
        )
        assert not bodies(hub, session, ApprovalExtended)

    async def test_one_operator_is_enough_within_the_rules_time(
        self, hub: Hub, shop: Shop, clock: Clock
    ) -> None:
        """One operator may change the deadline within the rule's own time."""
        _, request = await session_with_request(hub, shop, rules=TWO_WITHIN)
        assert (await hub.extend(request.id, seconds=300, by="ada")).ok
        [shorter] = await hub.approvals()
        assert shorter.expires == clock.now + timedelta(seconds=300)
        assert (await hub.extend(request.id, seconds=600, by="ada")).ok
        [back] = await hub.approvals()
        assert back.expires == request.expires

    async def test_one_operator_is_enough_for_a_single_approver(self, hub: Hub, shop: Shop) -> None:
        """If one approver decides, one operator may extend."""
        rules = "require human-approval before deploy within 10m"
        _, request = await session_with_request(hub, shop, rules=rules)
        assert (await hub.extend(request.id, seconds=3600, by="mia")).ok
        [longer] = await hub.approvals()
        assert longer.expires is not None
        assert request.expires is not None
        assert longer.expires > request.expires

    async def test_revoked_token_does_not_count_as_the_first(self, hub: Hub, shop: Shop) -> None:
        """An operator whose token was revoked does not count as the first of two."""
        _, request = await session_with_request(hub, shop, rules=TWO_WITHIN)
        tokens = Tokens("t-ada", "t-ben")
        await hub.extend(request.id, seconds=3600, by="ada", credential=tokens.of("t-ada"))
        tokens.tokens.discard("t-ada")
        await hub.extend(request.id, seconds=3600, by="ben", credential=tokens.of("t-ben"))
        [still] = await hub.approvals()
        assert still.expires == request.expires
        assert still.extension is not None
        assert still.extension.by == "ben"

    async def test_simultaneous_extensions_count_as_two(self, hub: Hub, shop: Shop, clock: Clock) -> None:
        """Two simultaneous extensions by two operators count as two."""
        _, request = await session_with_request(hub, shop, rules=TWO_WITHIN)
        await asyncio.gather(*(hub.extend(request.id, seconds=3600, by=name) for name in ("ada", "ben")))
        [longer] = await hub.approvals()
        assert longer.expires == clock.now + timedelta(seconds=3600)


class TestRoles:
    async def test_role_look_cannot_decide(self, hub: Hub, shop: Shop) -> None:
        """A configured name has its role's rights; an unlisted name is not restricted by a role."""
        session, request = await session_with_request(
            hub, shop, rules="require human-approval before deploy"
        )
        hub.know_operators(Operators((Operator("Ada", "look"), Operator("ben", "decide"))))
        assert await refusal(hub, request, "ada") == (
            "The role of ada is 'look', and this needs 'decide': see [operators]"
        )
        assert not (await hub.extend(request.id, seconds=60, by="ada")).ok
        granted = await hub.decide(
            request.id, approved=True, by="ben", reason="all of them", grant=GrantTerms("names")
        )
        assert "The role of ben is 'decide', and this needs 'administer'" in granted.message
        off = await hub.toggle_net(session, "approve-before-deploy", False, by="ben", reason="a drill")
        assert "The role of ben is 'decide'" in off.message
        assert (await hub.decide(request.id, approved=True, by="cy")).ok
