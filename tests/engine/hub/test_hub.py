"""The hub: sessions, approvals, switches and the journal behind them, with real parts."""

from __future__ import annotations

import asyncio
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from interlock.engine.agents import Agent, C, Reply, ScriptedModel, T, Usage, tool
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import (
    ApprovalDecided,
    ApprovalRequested,
    ApprovalWithdrawn,
    CallDecided,
    CallResult,
    MessageAdded,
    ModeChanged,
    NetToggled,
    StepEnded,
)
from interlock.engine.hub.hub import DIED, Hub, Streaming
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules
from tests.support.raw_database import raw_database

from ..support.shop import RULES, Shop, bodies, start, until


@contextmanager
def full_disk() -> Iterator[None]:
    """Let no file grow: every write beyond the present end fails, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class TestApproval:
    async def test_releases_the_call(self, hub: Hub, shop: Shop) -> None:
        """An approved call runs, and the record names its approver."""
        events = hub.subscribe()
        session = await start(hub, shop, C(test={}), C(deploy={"env": "prod"}), T("done"))
        await until(events, ApprovalRequested)
        assert shop.ran == ["test"]
        [request] = await hub.approvals()
        outcome = await hub.decide(request.id, approved=True, by="maria")
        assert outcome.ok
        await hub.wait(session)
        assert shop.ran == ["test", "deploy prod"]
        decided = bodies(hub, session, CallDecided)[-1]
        assert (decided.tool, decided.outcome, decided.approved_by) == ("deploy", "allow", ("maria",))

    async def test_denial_reaches_the_model(self, hub: Hub, shop: Shop) -> None:
        """A denied call does not run, and the model reads the operator's reason."""
        events = hub.subscribe()
        session = await start(hub, shop, C(test={}), C(deploy={}), T("sorry"))
        await until(events, ApprovalRequested)
        [request] = await hub.approvals()
        await hub.decide(request.id, approved=False, by="maria", reason="not on Friday")
        await hub.wait(session)
        assert shop.ran == ["test"]
        told = [m.text for m in bodies(hub, session, MessageAdded) if m.role == "tool"][-1]
        assert told == "deploy was rejected by human review: not on Friday"

    async def test_is_durable_before_it_is_shown(self, hub: Hub, shop: Shop) -> None:
        """A request is in the journal's file before it is published."""
        events = hub.subscribe()
        session = await start(hub, shop, C(test={}), C(deploy={}), T("done"))
        shown = await until(events, ApprovalRequested)
        assert bodies(hub, session, ApprovalRequested) == [shown.body]

    async def test_decision_is_durable_before_the_tool_runs(self, hub: Hub, shop: Shop) -> None:
        """While the tool runs, its decision and the operator's answer are already in the file."""
        seen: list[tuple[str, int]] = []

        def look(name: str) -> None:
            kinds = raw_database(hub.database).execute("select type from event").fetchall()
            seen.append(
                (name, sum(1 for (kind,) in kinds if kind in ("call.decided", "approval.decided")))
            )

        shop.before_run = look
        events = hub.subscribe()
        session = await start(hub, shop, C(test={}), C(deploy={}), T("done"))
        await until(events, ApprovalRequested)
        await hub.decide((await hub.approvals())[0].id, approved=True, by="maria")
        await hub.wait(session)
        assert seen == [("test", 1), ("deploy staging", 3)]

    async def test_first_answer_counts(self, hub: Hub, shop: Shop) -> None:
        """Of two simultaneous answers the first decides, and the second is told who decided."""
        events = hub.subscribe()
        session = await start(hub, shop, C(test={}), C(deploy={}), T("done"))
        await until(events, ApprovalRequested)
        request = (await hub.approvals())[0].id
        first, second = await asyncio.gather(
            hub.decide(request, approved=False, by="maria"), hub.decide(request, approved=True, by="ben")
        )
        late = await hub.decide(request, approved=True, by="ben")
        await hub.wait(session)
        assert (first.ok, second.ok, late.ok) == (True, False, False)
        assert late.message == "Already denied by maria"
        own = await hub.decide(request, approved=False, by=" maria ")
        assert own.message == "You have denied this: it is recorded"
        assert shop.ran == ["test"]
        assert len(bodies(hub, session, ApprovalDecided)) == 1

    async def test_interruption_withdraws_it(self, hub: Hub, shop: Shop) -> None:
        """A-78: a message sent while a call waits skips the call and withdraws the request."""
        events = hub.subscribe()
        session = await start(hub, shop, C(test={}), C(deploy={}), T("all right"))
        await until(events, ApprovalRequested)
        request = (await hub.approvals())[0].id
        await hub.send(session, "not now", by="maria")
        await hub.wait(session)
        assert (await hub.approvals()) == []
        assert [w.approval_id for w in bodies(hub, session, ApprovalWithdrawn)] == [request]
        assert not (await hub.decide(request, approved=True, by="ben")).ok
        assert shop.ran == ["test"]
        texts = [(m.role, m.text, m.by) for m in bodies(hub, session, MessageAdded)]
        assert ("user", "not now", "maria") in texts
        assert ("tool", "Skipped: user sent a new message", None) in texts

    async def test_interruption_while_the_answer_is_written(self, hub: Hub, shop: Shop) -> None:
        """If the answer is being written, an interruption does not withdraw the request again."""
        events = hub.subscribe()
        session = await start(hub, shop, C(test={}), C(deploy={}), T("all right"))
        await until(events, ApprovalRequested)
        request = (await hub.approvals())[0].id
        deciding = asyncio.create_task(hub.decide(request, approved=True, by="maria"))
        await asyncio.sleep(0)
        # The hub would record the message first, after the answer: this one comes in between.
        hub._live.get(session)[1].send("not now", by="ben")
        assert not (await deciding).ok
        await hub.wait(session)
        assert shop.ran == ["test"]
        assert bodies(hub, session, ApprovalWithdrawn) == []
        assert [a.by for a in bodies(hub, session, ApprovalDecided)] == ["maria"]
        assert fold(await hub.recorded(session)) == await hub.session(session)

    async def test_interruption_while_a_decision_is_written(self, hub: Hub, shop: Shop) -> None:
        """At any moment of a message, an allowed call has a result and none stays pending."""
        events = hub.subscribe()
        session = await start(hub, shop, C(test={}), C(deploy={}), C(test={}), T("ok"), T("ok"))
        await until(events, ApprovalRequested)
        request = (await hub.approvals())[0].id
        deciding = asyncio.create_task(hub.decide(request, approved=True, by="maria"))
        await until(events, ApprovalDecided)
        await hub.send(session, "wait", by="ben")
        await deciding
        await hub.wait(session)
        allowed = {d.call_id for d in bodies(hub, session, CallDecided) if d.outcome == "allow"}
        assert allowed == {r.call_id for r in bodies(hub, session, CallResult)}
        assert (await hub.session(session)).pending == []

    async def test_unknown_request(self, hub: Hub) -> None:
        """Deciding an unknown request is refused with a message."""
        outcome = await hub.decide("nope", approved=True, by="maria")
        assert (outcome.ok, outcome.message) == (False, "This request is no longer open")


class TestSwitches:
    async def test_switched_off_net_does_not_judge(self, hub: Hub, shop: Shop) -> None:
        """A net that is off does not judge; switching is recorded with the operator's name."""
        agent = Agent(
            ScriptedModel([C(rm={}), T("ok"), C(rm={}), T("ok")]), name="bot", tools=shop.tools()
        )
        session = await hub.open_session(agent, SessionConfig(compile_rules(RULES).registry))
        off = await hub.toggle_net(session, "block-rm", False, by="maria", reason="a test")
        assert off.message == "maria turned off block-rm"
        await hub.send(session, "go")
        await hub.wait(session)
        assert (await hub.toggle_net(session, "block-rm", True, by="maria")).ok
        await hub.send(session, "again")
        await hub.wait(session)
        assert shop.ran == ["rm"]
        assert [(t.net, t.active, t.by) for t in bodies(hub, session, NetToggled)] == [
            ("block-rm", False, "maria"),
            ("block-rm", True, "maria"),
        ]

    async def test_refused_switch_is_no_event(self, hub: Hub, shop: Shop) -> None:
        """G-21: switching an unknown net, or one that is already on, changes nothing."""
        session = await start(hub, shop, T("hi"))
        await hub.wait(session)
        assert (await hub.toggle_net(session, "nope", True, by="maria")).message.startswith(
            "Unknown net 'nope'. Available:"
        )
        assert not (await hub.toggle_net(session, "block-rm", True, by="maria")).ok
        assert bodies(hub, session, NetToggled) == []

    async def test_shadow_blocks_nothing_and_records(self, hub: Hub, shop: Shop) -> None:
        """G-57: in shadow mode calls run at once, and the record has the outcome of enforce mode."""
        session = await start(hub, shop, C(deploy={}), C(test={}), C(deploy={}), T("ok"), mode="shadow")
        await hub.wait(session)
        assert shop.ran == ["deploy staging", "test", "deploy staging"]
        decided = [(d.tool, d.outcome, d.mode) for d in bodies(hub, session, CallDecided)]
        assert decided == [
            ("deploy", "block", "shadow"),
            ("test", "allow", "shadow"),
            ("deploy", "ask", "shadow"),
        ]

    async def test_mode_is_an_event(self, hub: Hub, shop: Shop) -> None:
        """A change of mode is recorded once; setting the present mode is not recorded."""
        session = await start(hub, shop, T("hi"))
        await hub.set_mode(session, "shadow", by="maria", reason="a test")
        await hub.set_mode(session, "shadow", by="maria", reason="a test")
        assert [(m.mode, m.by) for m in bodies(hub, session, ModeChanged)] == [("shadow", "maria")]
        assert (await hub.session(session)).mode == "shadow"


class TestRecord:
    async def test_fold_equals_the_gate(self, hub: Hub, shop: Shop) -> None:
        """The fold of the journal equals the markings, pending calls and active nets of the gate."""
        events = hub.subscribe()
        session = await start(hub, shop, C(test={}), C(deploy={}), C(test={}, deploy={}), T("done"))
        await until(events, ApprovalRequested)
        await hub.decide((await hub.approvals())[0].id, approved=True, by="maria")
        await hub.toggle_net(session, "block-rm", False, by="maria", reason="a test")
        await hub.wait(session)
        folded = fold(open_reader(hub.database).events(session))
        live = hub._live.get(session)[0].manager
        assert {k: n.marking for k, n in folded.nets.items()} == {
            k: s.marking for k, s in live.states.items()
        }
        assert folded.active == list(live.active)
        assert folded == await hub.session(session)

    async def test_agent_exception_fails_its_session(self, hub: Hub, shop: Shop) -> None:
        """An agent's exception fails its session; other sessions continue."""

        def crash(messages: object) -> Reply:
            raise RuntimeError("model fell over")

        agent = Agent(ScriptedModel(crash), name="bad", tools=shop.tools())
        bad = await hub.open_session(agent, SessionConfig({}))
        good = await start(hub, shop, C(test={}), T("fine"))
        await hub.send(bad, "go")
        with pytest.raises(RuntimeError, match="model fell over"):
            await hub.wait(bad)
        await hub.wait(good)
        assert (await hub.session(bad)).status == "failed"
        assert "model fell over" in ((await hub.session(bad)).error or "")
        assert (await hub.session(good)).status == "idle"
        assert shop.ran == ["test"]


@pytest.mark.sqlite("a disk that is full")
class TestFullDisk:
    async def test_no_call_runs_unrecorded(self, hub: Hub, shop: Shop) -> None:
        """A call that cannot be recorded does not run; with space again, the session continues."""
        events = hub.subscribe()
        session = await start(hub, shop, C(test={}), C(deploy={}), T("after"), T("again"))
        await until(events, ApprovalRequested)
        request = (await hub.approvals())[0].id
        with full_disk():
            outcome = await hub.decide(request, approved=True, by="maria")
        assert not outcome.ok
        assert "journal refused it" in outcome.message
        assert shop.ran == ["test"]
        assert (await hub.approvals())[0].id == request
        assert (await hub.decide(request, approved=True, by="maria")).ok
        await hub.wait(session)
        assert shop.ran == ["test", "deploy staging"]


DYING = """
import asyncio, os, signal, sys
from interlock.engine.agents import Agent, C, ScriptedModel, tool
from interlock.engine.hub.hub import Hub, SessionConfig
from interlock.rules import compile_rules

@tool
async def deploy() -> str:
    \"\"\"Deploy.\"\"\"
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"

async def main():
    hub = Hub.open(sys.argv[1])
    agent = Agent(ScriptedModel([C(deploy={})]), name="bot", tools=[deploy])
    rules = compile_rules("limit deploy to 2 per session")
    session = await hub.open_session(agent, SessionConfig(rules.registry))
    await hub.send(session, "go")
    await hub.wait(session)

asyncio.run(main())
"""


class TestCrash:
    @pytest.mark.slow
    @pytest.mark.sqlite("another process opens the file")
    async def test_killed_host_leaves_call_decided_but_unknown(self, tmp_path: Path) -> None:
        """After `kill -9` during a tool, its call has a decision but an unknown outcome."""
        database = tmp_path / "dead.db"
        died = await asyncio.create_subprocess_exec(sys.executable, "-c", DYING, str(database))
        assert await died.wait() == -signal.SIGKILL
        hub = Hub.open(database)
        try:
            [summary] = await hub.history()
            state = fold(await hub.recorded(summary.id))
            assert (state.status, state.error) == ("failed", DIED)
            [call] = state.calls.values()
            assert (call.outcome, call.status) == ("allow", "unknown")
            assert state.nets["limit-deploy-2"].marking["budget"] == 1
            assert await hub.sessions() == []
        finally:
            await hub.close()


class TestSubscription:
    async def test_unread_text_pieces_are_joined(self, hub: Hub, shop: Shop) -> None:
        """A slow reader gets several pieces of text as one."""
        events = hub.subscribe()
        session = await start(hub, shop, T("one ", "two ", "three "))
        await hub.wait(session)
        events.close()
        texts = [e.text async for e in events if isinstance(e, Streaming)]
        assert texts == ["one two three "]

    async def test_ends_with_the_hub(self, tmp_path: Path) -> None:
        """Closing the hub ends every subscription."""
        hub = Hub.open(tmp_path / "a.db")
        events = hub.subscribe()
        await hub.close()
        assert [e async for e in events] == []


class TestUninspectable:
    @pytest.mark.parametrize(
        ("command", "clear"), [("deploy now", True), ("$(cat todo) && deploy now", False)]
    )
    async def test_request_notes_unreadable_command(self, hub: Hub, command: str, clear: bool) -> None:
        """G-51: only a request whose command could not be read completely says so."""

        async def shell(command: str) -> str:
            """Run."""
            return command

        rules = compile_rules(
            "map sh.command deploy as deploy\nrequire human-approval before deploy"
        ).registry
        agent = Agent(
            ScriptedModel([C(sh={"command": command}), T("ok")]),
            name="bot",
            tools=[tool(shell, name="sh")],
        )
        events = hub.subscribe()
        session = await hub.open_session(agent, SessionConfig(rules))
        await hub.send(session, "go")
        await until(events, ApprovalRequested)
        [request] = await hub.approvals()
        assert (request.uninspectable is None) == clear
        await hub.decide(request.id, approved=False, by="maria")
        await hub.wait(session)


class TestUsage:
    async def test_tokens_and_cost_add_up_in_the_record(self, hub: Hub, shop: Shop) -> None:
        """Tokens and cost of each model call are recorded with its step and summed up (A-27)."""
        paid = Usage(input=100, output=20, cached=60, cost=0.25)
        session = await start(hub, shop, replace(C(test={}), usage=paid), replace(T("done"), usage=paid))
        await hub.wait(session)
        state = await hub.session(session)
        assert (state.input_tokens, state.output_tokens, state.cost) == (200, 40, 0.5)
        steps = bodies(hub, session, StepEnded)
        assert [(s.cached_tokens, s.cost) for s in steps] == [(60, 0.25), (60, 0.25)]
        assert fold(await hub.recorded(session)).cost == 0.5
