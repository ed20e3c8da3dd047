"""Resuming an imported session: conversation and nets stay, operators' acts do not count."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from interlock.engine import CostLimitError
from interlock.engine.agents import C, T, Usage
from interlock.engine.gate.types import GrantTerms
from interlock.engine.history.audit.export import as_jsonl, linked_events
from interlock.engine.history.audit.importing import import_session, read_export
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import (
    ApprovalRequested,
    CallDecided,
    ChangeDropped,
    ChangeProposed,
    EventBody,
    MessageAdded,
    MessageQueued,
    ModeChanged,
    NetToggled,
    SessionOpened,
    SessionResumed,
    SessionStatus,
    StepEnded,
)
from interlock.engine.hub.hub import Hub
from interlock.engine.sessions.config import SessionConfig
from interlock.engine.sessions.recovery import _Family
from interlock.rules import compile_rules

from ..history.support.keeping import NOW, saved
from ..history.support.recording import asks, opening
from ..support.shop import RULES, Shop, bodies, bot, check, prompt, start, until

REGISTRY = compile_rules(RULES).registry
WRITTEN: tuple[EventBody, ...] = (
    NetToggled(net="block-rm", active=False, by="boss", message="block-rm off", reason="so"),
    ModeChanged(mode="shadow", by="boss", reason="so"),
    ChangeProposed(
        change_id="x1",
        net="require-test-before-deploy",
        by="boss",
        reason="so",
        people=2,
        expires=NOW + timedelta(days=9_999),
        counts=True,
    ),
    StepEnded(finish_reason="stop", input_tokens=1, output_tokens=1, cost=-1_000.0),
    MessageAdded(role="user", text="ship it", by="boss"),
)
"""Forged events: a rule off, shadow mode, a proposal for a guarded rule, a negative cost, a message."""


async def forged(tmp_path: Path, shop: Shop) -> str:
    """Import a forged session, whose operator granted every deploy, into `mine.db`; return its id."""
    hub = Hub.open(tmp_path / "theirs.db")
    events = hub.subscribe()
    session = await start(hub, shop, C(test={}), C(deploy={}), T("done"))
    asked = (await until(events, ApprovalRequested)).body
    assert isinstance(asked, ApprovalRequested)
    [request] = await hub.approvals()
    outcome = await hub.decide(
        request.id,
        approved=True,
        by="boss",
        digest=request.digest,
        grant=GrantTerms("names", uses=9),
        reason="so",
    )
    assert outcome.ok, outcome.message
    await hub.wait(session)
    await hub.close()
    with Journal.open(tmp_path / "theirs.db") as journal:
        journal.write(session, *WRITTEN)
    shop.ran.clear()
    taken_in(tmp_path, session)
    return session


def taken_in(tmp_path: Path, session: str) -> None:
    """Import a session of `theirs.db` into `mine.db`."""
    lines = as_jsonl(session, linked_events(tmp_path / "theirs.db", session), None)
    import_session(
        read_export(saved(tmp_path / "theirs.jsonl", lines)), tmp_path / "mine.db", tmp_path / "key.pem"
    )


class TestLimitsOverSessions:
    async def test_only_calls_made_here_count(self, tmp_path: Path) -> None:
        """Calls made before the import do not count; calls made here do, also after a restart."""
        config = SessionConfig(compile_rules("limit test to 2 per 1d across everyone").registry, by="ben")
        there = Hub.open(tmp_path / "theirs.db")
        session = await there.open_session(bot(Shop(), C(test={}), T("done")), config)
        await there.send(session, "go", by="ben")
        await there.wait(session)
        await there.close()
        taken_in(tmp_path, session)
        shop = Shop()
        mine = Hub.open(tmp_path / "mine.db")
        await mine.resume_session(session, bot(shop, C(test={}), T("done")), config)
        await mine.send(session, "go on", by="ben")
        await mine.wait(session)
        await mine.close()
        assert shop.ran == ["test"]
        again = Hub.open(tmp_path / "mine.db")
        other = await again.open_session(bot(shop, C(test={}), C(test={}), T("done")), config)
        await again.send(other, "go", by="ben")
        await again.wait(other)
        await again.close()
        assert shop.ran == ["test", "test"]


class TestGoesOn:
    async def test_acts_of_operators_do_not_count(self, tmp_path: Path) -> None:
        """The session is in enforce mode with all nets active, without grants or proposals."""
        shop = Shop()
        session = await forged(tmp_path, shop)
        hub = Hub.open(tmp_path / "mine.db")
        agent = bot(shop, C(rm={}, test={}), C(deploy={}), T("done"))
        await hub.resume_session(session, agent, SessionConfig(REGISTRY, by="ben"))
        state = await hub.session(session)
        assert (state.mode, set(state.active), state.changes) == ("enforce", set(REGISTRY), {})
        assert (state.off, state.shadowed) == ({}, None)
        [dropped] = bodies(hub, session, ChangeDropped)
        [resumed] = bodies(hub, session, SessionResumed)
        assert (dropped.change_id, resumed.ended_grants) == ("x1", tuple(state.grants))
        events = hub.subscribe()
        await hub.send(session, "go on", by="ben")
        await until(events, ApprovalRequested)
        assert shop.ran == ["test"]
        [request] = await hub.approvals()
        await hub.decide(request.id, approved=False, by="ben")
        await hub.wait(session)
        assert [d.outcome for d in bodies(hub, session, CallDecided)][-3:] == [
            "block",
            "allow",
            "block",
        ]
        assert prompt(agent)[:3] == ["user: go", "assistant: ", "tool: test ok"]
        await check(hub, session)
        await hub.close()

    async def test_open_calls_do_not_run(self, tmp_path: Path) -> None:
        """A call that was open in the import does not run, and a waiting message is not delivered."""
        with Journal.open(tmp_path / "theirs.db") as journal:
            journal.write(
                "left-1",
                opening(*REGISTRY.values()),
                SessionStatus(status="running"),
                MessageAdded(role="user", text="go", by="boss"),
                asks(("c1", "test")),
                MessageQueued(message_id="m1", mode="queue", text="hurry", by="boss"),
            )
        taken_in(tmp_path, "left-1")
        shop, hub = Shop(), Hub.open(tmp_path / "mine.db")
        agent = bot(shop, T("done"), T("more"))
        await hub.resume_session("left-1", agent, SessionConfig(REGISTRY, by="ben"))
        await hub.send("left-1", "go on", by="ben")
        await hub.wait("left-1")
        assert shop.ran == []
        said = [(m.text, m.by) for m in bodies(hub, "left-1", MessageAdded) if m.role == "user"]
        assert said == [("go", "boss"), ("go on", "ben")]
        assert "tool: Tool call not executed" in prompt(agent)[2]
        await check(hub, "left-1")
        await hub.close()

    @pytest.mark.slow
    async def test_forged_negative_cost_does_not_raise_limit(self, tmp_path: Path) -> None:
        """A forged negative cost does not raise the cost limit."""
        shop = Shop()
        session = await forged(tmp_path, shop)
        hub = Hub.open(tmp_path / "mine.db")
        dear = replace(C(test={}), usage=Usage(input=10, output=5, cost=1.2))
        agent = bot(shop, dear, T("never")).replace(max_cost=1.0)
        await hub.resume_session(session, agent, SessionConfig(REGISTRY, by="ben"))
        await hub.send(session, "go on", by="ben")
        with pytest.raises(CostLimitError):
            await hub.wait(session)
        await hub.close()

    @pytest.mark.slow
    async def test_branch_has_the_same_restrictions(self, tmp_path: Path) -> None:
        """A branch of an imported session has the same restrictions, but counts as made here."""
        shop = Shop()
        session = await forged(tmp_path, shop)
        hub = Hub.open(tmp_path / "mine.db")
        last = open_reader(hub.database).count(session)
        branch = await hub.branch_session(
            session, last, bot(shop, T("")), SessionConfig(REGISTRY, by="ben")
        )
        state = await hub.session(branch)
        assert (state.mode, set(state.active), state.grants) == ("enforce", set(REGISTRY), {})
        assert not (await hub.origin(branch)).imported
        # Messages of the imported record do not count as said by an operator here.
        said = [m for m in bodies(hub, branch, MessageAdded) if m.role == "user"]
        assert said[-1].text == "ship it"
        assert {(m.by, m.reported_by) for m in said} == {(None, "an imported record")}
        await hub.close()

    async def test_operator_may_choose_mode_and_nets(self, tmp_path: Path) -> None:
        """The operator who resumes it may choose the mode and active nets."""
        shop = Shop()
        session = await forged(tmp_path, shop)
        hub = Hub.open(tmp_path / "mine.db")
        config = SessionConfig(REGISTRY, mode="shadow", active=["block-rm"], reason="to look at it")
        await hub.resume_session(session, bot(shop, T("")), config)
        state = await hub.session(session)
        assert (state.mode, state.active) == ("shadow", ["block-rm"])
        await hub.close()


class TestSubagents:
    def test_imported_subagent_has_no_local_parent(self, tmp_path: Path) -> None:
        """An imported subagent's session does not become the child of a session made here."""
        child = opening(kind="child", parent="own-1", parent_call="c1", parent_seq=1)
        assert isinstance(child, SessionOpened)
        for name in ("theirs", "mine"):
            with Journal.open(tmp_path / f"{name}.db") as journal:
                journal.write("child-1" if name == "theirs" else "child-2", child)
        taken_in(tmp_path, "child-1")
        reader = open_reader(tmp_path / "mine.db")
        assert {line.id: line.imported for line in reader.sessions()} == {
            "child-1": True,
            "child-2": False,
        }
        assert _Family(reader, [], frozenset()).children == {("own-1", "c1"): ["child-2"]}
