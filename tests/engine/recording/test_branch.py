"""A new session that begins at an event of another one."""

from __future__ import annotations

import pytest

from interlock.engine.agents import Agent, C, Reply, ScriptedModel, T
from interlock.engine.history.fold.event_text import changes, headline
from interlock.engine.history.fold.fold import FoldError, fold
from interlock.engine.history.journal.session_index import SessionLine
from interlock.engine.history.model.events import (
    ApprovalRequested,
    CallDecided,
    CallResult,
    MessageAdded,
    SessionOpened,
    StepEnded,
)
from interlock.engine.hub.hub import BranchError, Hub, ResumeError
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

from ..history.support.recording import limit, opening, recorded, registry, sequence
from ..support.shop import RULES, Shop, bodies, prompt, start, until

REGISTRY = compile_rules(RULES).registry
NETS = registry(sequence("test", "deploy"), limit("deploy", 2))


def bot(shop: Shop, *replies: Reply) -> Agent:
    return Agent(ScriptedModel(list(replies)), name="bot", tools=shop.tools())


async def worked_session(hub: Hub, shop: Shop) -> str:
    """A session with a test, two deploys and a third deploy that was blocked."""
    agent = bot(shop, C(test={}), C(deploy={}), C(test={}), C(deploy={}), C(deploy={}), T("done"))
    session = await hub.open_session(agent, SessionConfig(NETS, by="maria"))
    await hub.send(session, "ship it", by="maria")
    await hub.wait(session)
    return session


async def seq_after(hub: Hub, session: str, kind: type, number: int) -> int:
    """Return the number of the tool message that follows the `number`-th event of `kind`."""
    events = await hub.recorded(session)
    found = [e.seq for e in events if isinstance(e.body, kind)][number]
    return next(
        e.seq
        for e in events
        if e.seq >= found and isinstance(e.body, MessageAdded) and e.body.role == "tool"
    )


class TestBranch:
    async def test_starts_with_state_of_its_event(self, hub: Hub, shop: Shop) -> None:
        """A branch has the conversation and markings of its event, and then diverges."""
        session = await worked_session(hub, shop)
        at = await seq_after(hub, session, CallResult, 1)
        then = fold((await hub.recorded(session))[:at])
        assert then.nets["limit-deploy-2"].marking["budget"] == 1
        agent = bot(shop, C(test={}), T("enough"))
        branch = await hub.branch_session(session, at, agent, SessionConfig(NETS, by="ben"))
        state = await hub.session(branch)
        assert {k: n.marking for k, n in state.nets.items()} == {
            k: n.marking for k, n in then.nets.items()
        }
        assert (state.kind, state.parent, state.parent_seq) == ("branch", session, at)
        await hub.send(branch, "only test", by="ben")
        await hub.wait(branch)
        assert isinstance(agent.model, ScriptedModel)
        read = [tuple(line.split(": ", 1)) for line in prompt(agent)]
        assert read == [
            ("user", "ship it"),
            ("assistant", ""),
            ("tool", "test ok"),
            ("assistant", ""),
            ("tool", "deploy staging ok"),
            ("user", "only test"),
        ]
        assert shop.ran[-1] == "test"

    async def test_branch_folds_without_its_parent(self, hub: Hub, shop: Shop) -> None:
        """The branch's events fold to its state and contain no decisions or results of the parent."""
        session = await worked_session(hub, shop)
        at = (await hub.recorded(session))[-2].seq
        branch = await hub.branch_session(session, at, bot(shop), SessionConfig(NETS))
        state = fold(await hub.recorded(branch))
        assert state == await hub.session(branch)
        parent = await hub.session(session)
        assert {i: (c.status, c.output) for i, c in state.calls.items()} == {
            i: (c.status, c.output or c.reason) for i, c in parent.calls.items()
        }
        assert [c.status for c in state.calls.values()] == ["done", "done", "done", "done", "blocked"]
        for kind in (CallDecided, CallResult, StepEnded):
            assert bodies(hub, branch, kind) == []
        assert (state.input_tokens, state.pending) == (0, [])
        line = next(s for s in await hub.history() if s.id == branch)
        assert line == SessionLine.of(await hub.recorded(branch)).summary()
        assert (line.kind, line.parent, line.parent_seq, line.calls) == ("branch", session, at, 0)

    async def test_gate_has_the_limit_left_at_its_event(self, hub: Hub, shop: Shop) -> None:
        """G-63: the gate of a branch has the limit that was left at its event."""
        session = await worked_session(hub, shop)
        at = await seq_after(hub, session, CallResult, 1)
        agent = bot(shop, C(deploy={}), C(test={}), C(deploy={}), C(test={}), C(deploy={}), T("done"))
        branch = await hub.branch_session(session, at, agent, SessionConfig(NETS))
        await hub.send(branch, "go on")
        await hub.wait(branch)
        outcomes = [(d.tool, d.outcome) for d in bodies(hub, branch, CallDecided)]
        assert outcomes == [
            ("deploy", "block"),
            ("test", "allow"),
            ("deploy", "allow"),
            ("test", "allow"),
            ("deploy", "block"),
        ]
        assert fold(await hub.recorded(branch)) == await hub.session(branch)

    async def test_branch_can_be_branched_and_resumed(self, hub: Hub, shop: Shop) -> None:
        """A branch can be branched and resumed like any session."""
        session = await worked_session(hub, shop)
        at = await seq_after(hub, session, CallResult, 1)
        branch = await hub.branch_session(
            session, at, bot(shop, T("x")), SessionConfig(NETS), branch_id="b1"
        )
        twig = await hub.branch_session(branch, 4, bot(shop), SessionConfig(NETS), branch_id="b2")
        assert (await hub.session(twig)).parent == "b1"
        await hub.close_session(branch, by="maria")
        agent = bot(shop, T("on"))
        await hub.resume_session(branch, agent, SessionConfig(NETS))
        await hub.send(branch, "go")
        await hub.wait(branch)
        assert (await hub.session(branch)).kind == "branch"
        assert fold(await hub.recorded(branch)) == await hub.session(branch)

    async def test_active_nets_and_mode_are_those_of_the_event(self, hub: Hub, shop: Shop) -> None:
        """Active nets and mode are those of the event, not the latest."""
        session = await hub.open_session(bot(shop), SessionConfig(NETS, mode="shadow"))
        await hub.toggle_net(session, "limit-deploy-2", False, by="maria", reason="a test")
        await hub.set_mode(session, "enforce", by="maria")
        branch = await hub.branch_session(session, 1, bot(shop), SessionConfig(NETS))
        state = await hub.session(branch)
        assert (state.active, state.mode) == (list(NETS), "shadow")
        later = await hub.session(await hub.branch_session(session, 2, bot(shop), SessionConfig(NETS)))
        assert (later.active, later.mode) == (["require-test-before-deploy"], "shadow")
        assert (await hub.session(session)).mode == "enforce"

    async def test_differing_nets_are_refused(self, hub: Hub, shop: Shop) -> None:
        """Nets that differ from the record's are refused unless nets="changed" is given."""
        session = await worked_session(hub, shop)
        at = await seq_after(hub, session, CallResult, 0)
        others = {"limit-deploy-2": limit("deploy", 2)}
        with pytest.raises(ResumeError, match="'require-test-before-deploy' is missing"):
            await hub.branch_session(session, at, bot(shop), SessionConfig(others))
        others_only = {"registry": others, "nets": "changed"}
        with pytest.raises(ResumeError, match=r"is missing\. Say why"):
            await hub.branch_session(session, at, bot(shop), SessionConfig(**others_only))
        branch = await hub.branch_session(
            session, at, bot(shop), SessionConfig(**others_only, reason="other rules")
        )
        [opened] = bodies(hub, branch, SessionOpened)
        assert opened.reason == "other rules"
        assert list((await hub.session(branch)).nets) == ["limit-deploy-2"]


class TestPoints:
    async def test_open_call_cannot_be_branched(self, hub: Hub, shop: Shop) -> None:
        """If a call has no result, the error names the call and the nearest possible events."""
        session = await worked_session(hub, shop)
        events = await hub.recorded(session)
        proposed = next(e for e in events if isinstance(e.body, MessageAdded) and e.body.calls)
        answered = await seq_after(hub, session, CallResult, 0)
        call = proposed.body.calls[0].call_id
        for at in range(proposed.seq, answered):
            with pytest.raises(BranchError) as caught:
                await hub.branch_session(session, at, bot(shop), SessionConfig(NETS))
            assert caught.value.nearest == (proposed.seq - 1, answered)
            assert str(caught.value) == (
                f"Session '{session}' cannot be branched at event {at}: no result yet for "
                f"test (call {call}). The nearest events where it can be are "
                f"{proposed.seq - 1} and {answered}."
            )

    async def test_earlier_events_can_be_branched_during_a_request(self, hub: Hub, shop: Shop) -> None:
        """During a request, earlier events can be branched; the request stays with its session."""
        events = hub.subscribe()
        session = await start(hub, shop, C(test={}), C(deploy={}), T("done"))
        shown = await until(events, ApprovalRequested)
        with pytest.raises(BranchError) as caught:
            await hub.branch_session(session, shown.seq, bot(shop), SessionConfig(REGISTRY))
        [before] = caught.value.nearest
        branch = await hub.branch_session(session, before, bot(shop), SessionConfig(REGISTRY))
        assert [a.session for a in await hub.approvals()] == [session]
        assert (await hub.session(branch)).nets["require-test-before-deploy"].marking["gate"] == 1

    @pytest.mark.parametrize("at", [-1, 0, 10_000])
    async def test_invalid_event_number_names_the_range(self, hub: Hub, shop: Shop, at: int) -> None:
        """For an invalid event number, the error names the range."""
        session = await hub.open_session(bot(shop), SessionConfig({}))
        with pytest.raises(BranchError, match=f"has events 1 to 1, not {at}") as caught:
            await hub.branch_session(session, at, bot(shop), SessionConfig({}))
        assert caught.value.nearest == (1,)


class TestWords:
    def test_origin_is_in_headline_changes_and_transcript(self) -> None:
        """The origin of a branch is in its headline, changes and transcript."""
        net = limit("deploy", 2)
        spent = {net.name: {"idle": 0, "ready": 1, "budget": 1}}
        body = opening(net, kind="branch", parent="s0", parent_seq=7, markings=spent)
        [event] = recorded(body)
        state = fold([event])
        assert "branch of s0 at event 7" in headline(event)
        before = state.model_copy(update={"seq": 0, "nets": {}})
        assert changes(before, event, state) == [
            "opened: release-bot on a-model, enforce mode",
            "branch of s0 at event 7",
            "limit-deploy-2: ready:1, budget:1",
        ]
        assert [e.text for e in state.transcript] == ["branch of s0 at event 7"]

    @pytest.mark.parametrize(
        "markings", [{"limit-deploy-2": {"ready": 1}}, {"other": {}}], ids=["places", "net"]
    )
    def test_invalid_marking_cannot_be_folded(self, markings: dict[str, dict[str, int]]) -> None:
        """A marking with other places or of an unknown net cannot be folded."""
        body = opening(limit("deploy", 2), markings=markings)
        assert isinstance(body, SessionOpened)
        with pytest.raises(FoldError, match=r"the marking of net '.*' does not fit it"):
            fold(recorded(body))
