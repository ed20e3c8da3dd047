"""Resuming a recorded session: its conversation, totals, nets and source."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from interlock.engine.agents import C, Override, ScriptedModel, T
from interlock.engine.agents.rules_notice import RULES_SENDER
from interlock.engine.agents.turn.compaction import prompt_of
from interlock.engine.history.fold.event_text import changes, headline
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.fold.setting_changes import RecordedSettings
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.journal.reader import SessionNotFound
from interlock.engine.history.model.events import (
    ApprovalRequested,
    ApprovalWithdrawn,
    CallDecided,
    CallResult,
    SessionOpened,
    SessionResumed,
    SessionStatus,
)
from interlock.engine.history.model.records import StepRecord
from interlock.engine.hub.hub import Hub, ResumeError, UnknownSessionError
from interlock.engine.net.net import NetError, SkillNet, Transition, define_skill_net
from interlock.engine.recording.resume_checks import check_reason, standing
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

from ...history.support.recording import approval, limit, opening, registry, sequence
from ...support.shop import RULES, Shop, bodies, bot, check, prompt, start, until

REGISTRY = compile_rules(RULES).registry


class TestConversation:
    async def test_model_gets_the_complete_conversation(self, hub: Hub, shop: Shop) -> None:
        """A-7: the model gets the complete conversation with all results, then the new message."""
        session = await start(hub, shop, C(test={}, rm={}), T("done"))
        await hub.wait(session)
        await hub.close_session(session, by="maria")
        agent = bot(shop, T("and more"))
        assert await hub.resume_session(session, agent, SessionConfig(REGISTRY, by="ben")) == session
        await hub.send(session, "go on", by="ben")
        await hub.wait(session)
        blocked = bodies(hub, session, CallDecided)[1].reason
        assert prompt(agent) == [
            "user: go",
            "assistant: ",
            "tool: test ok",
            f"tool: {blocked}",
            "assistant: done",
            "user: go on",
        ]
        await check(hub, session)

    async def test_loaded_messages_equal_the_next_prompt(self, hub: Hub, shop: Shop) -> None:
        """A-77: after a steered run, the loaded messages equal the model's next prompt."""
        events = hub.subscribe()
        session = await start(hub, shop, C(test={}), C(deploy={}), T("fine"), T("bye"))
        await until(events, ApprovalRequested)
        await hub.send(session, "rather not", by="maria")
        await hub.wait(session)
        hosted, live = hub._live.get(session)
        assert await hosted.load(session) == list(live.messages)
        await hub.send(session, "bye", mode="queue", by="maria")
        await hub.wait(session)
        agent = bot(shop, T("again"))
        await hub.close_session(session, by="maria")
        await hub.resume_session(session, agent, SessionConfig(REGISTRY))
        await hub.send(session, "more")
        await hub.wait(session)
        assert isinstance(agent.model, ScriptedModel)
        read = agent.model.requests[0].messages
        assert list(read[:-1]) == prompt_of(live.messages)
        read = [m for m in read if getattr(m, "by", None) != RULES_SENDER]
        assert [m.by for m in read if m.role == "user"] == ["maria", "maria", "maria", None]

    async def test_overridden_blocked_call_keeps_its_text(self, hub: Hub, shop: Shop) -> None:
        """A-77: a call blocked with overridden arguments is loaded with the text the model read."""
        agent = bot(shop, C(deploy={}), T("ok"))
        rules = compile_rules("map deploy.env prod as release\nblock release")
        session = await hub.open_session(agent, SessionConfig(rules.registry))
        hosted, live = hub._live.get(session)
        live.on("tool_call", lambda event: Override(args={"env": "prod"}))
        await hub.send(session, "go")
        await hub.wait(session)
        [told] = [m.text for m in live.messages if m.role == "tool"]
        assert told == bodies(hub, session, CallDecided)[1].reason
        assert bodies(hub, session, CallResult)[0].output != told
        assert await hosted.load(session) == list(live.messages)
        assert shop.ran == []

    async def test_totals_continue_with_the_new_agent(self, hub: Hub, shop: Shop) -> None:
        """Token counts continue; agent, model and status are the new ones, also in the list."""
        session = await start(hub, shop, C(test={}), T("done"))
        await hub.wait(session)
        await hub.close_session(session, by="maria")
        await hub.resume_session(session, bot(shop, T("ok"), name="other"), SessionConfig(REGISTRY))
        assert (await hub.session(session)).status == "idle"
        await hub.send(session, "more")
        await hub.wait(session)
        state = await hub.session(session)
        assert (state.input_tokens, state.output_tokens) == (30, 15)
        assert (state.agent, state.model) == ("other", "other-model")
        [line] = await hub.history()
        assert (line.agent, line.model, line.status, line.error) == ("other", "other-model", "idle", None)

    async def test_unique_id_prefix_is_enough(self, hub: Hub, shop: Shop) -> None:
        """The beginning of an id is enough if it is unique."""
        session = await start(hub, shop, T("done"))
        await hub.wait(session)
        await hub.close_session(session, by="maria")
        assert await hub.resume_session(session[:-2], bot(shop), SessionConfig(REGISTRY)) == session


class TestRefused:
    async def test_live_session(self, hub: Hub, shop: Shop) -> None:
        """A live session cannot be resumed."""
        session = await start(hub, shop, T("done"))
        with pytest.raises(ResumeError, match=f"'{session}' is live here"):
            await hub.resume_session(session, bot(shop), SessionConfig(REGISTRY))
        await hub.wait(session)

    async def test_second_simultaneous_resume(self, hub: Hub, shop: Shop) -> None:
        """If two clients resume a session at once, one of them succeeds."""
        session = await start(hub, shop, T("done"))
        await hub.wait(session)
        await hub.close_session(session, by="maria")
        tries = [hub.resume_session(session, bot(shop), SessionConfig(REGISTRY)) for _ in range(2)]
        ended = await asyncio.gather(*tries, return_exceptions=True)
        assert sorted(type(e).__name__ for e in ended) == ["ResumeError", "str"]
        assert len(bodies(hub, session, SessionResumed)) == 1
        await check(hub, session)

    async def test_unknown_session(self, hub: Hub, shop: Shop) -> None:
        """A-5: the error names an unrecorded session."""
        with pytest.raises(SessionNotFound, match="Session not found: nope"):
            await hub.resume_session("nope", bot(shop), SessionConfig(REGISTRY))

    async def test_record_that_cannot_be_folded(self, tmp_path: Path, shop: Shop) -> None:
        """A record that cannot be folded cannot be resumed."""
        with Journal.open(tmp_path / "odd.db") as journal:
            stray = StepRecord(net="none", transition="t", tool="test")
            body = CallResult(call_id="c", tool="test", output="", is_error=False, fired=(stray,))
            journal.write("odd", opening(), body)
        hub = Hub.open(tmp_path / "odd.db")
        with pytest.raises(ResumeError, match=r"its record is inconsistent: session 'odd', event 2"):
            await hub.resume_session("odd", bot(shop), SessionConfig({}))
        await hub.close()


class TestNets:
    async def ended(self, hub: Hub, shop: Shop, nets: dict[str, SkillNet]) -> str:
        """A session that ran one test and ended."""
        agent = bot(shop, C(test={}), T("ok"))
        session = await hub.open_session(agent, SessionConfig(nets))
        await hub.send(session, "go")
        await hub.wait(session)
        await hub.close_session(session, by="maria")
        return session

    async def test_markings_are_kept(self, hub: Hub, shop: Shop) -> None:
        """G-63: unlocked calls stay unlocked, and used limits stay used."""
        session = await self.ended(hub, shop, registry(sequence("test", "deploy"), limit("test", 2)))
        agent = bot(shop, C(deploy={}, test={}), C(test={}), T("ok"))
        await hub.resume_session(
            session, agent, SessionConfig(registry(sequence("test", "deploy"), limit("test", 2)))
        )
        await hub.send(session, "go on")
        await hub.wait(session)
        assert shop.ran == ["test", "deploy staging", "test"]
        assert (await hub.session(session)).nets["limit-test-2"].marking["budget"] == 0
        assert bodies(hub, session, CallDecided)[-1].outcome == "block"
        await check(hub, session)

    async def test_active_nets_and_mode_are_kept(self, hub: Hub, shop: Shop) -> None:
        """Active nets, their order and the mode come from the record unless others are given."""
        nets = registry(sequence("test", "deploy"), limit("test", 2))
        session = await hub.open_session(bot(shop), SessionConfig(nets))
        await hub.toggle_net(session, "require-test-before-deploy", False, by="maria", reason="a test")
        await hub.toggle_net(session, "limit-test-2", False, by="maria", reason="a test")
        await hub.toggle_net(session, "require-test-before-deploy", True, by="maria")
        await hub.set_mode(session, "shadow", by="maria", reason="a test")
        await hub.close_session(session, by="maria")
        await hub.resume_session(session, bot(shop), SessionConfig(nets))
        state = await hub.session(session)
        assert (state.active, state.mode) == (["require-test-before-deploy"], "shadow")
        await hub.close_session(session, by="maria")
        await hub.resume_session(
            session,
            bot(shop),
            SessionConfig(nets, active=["limit-test-2"], mode="enforce", reason="a test"),
        )
        state = await hub.session(session)
        assert (state.active, state.mode) == (["limit-test-2"], "enforce")
        await check(hub, session)

    @pytest.mark.parametrize(
        ("terms", "said"),
        [
            ({"registry": {}, "nets": "changed"}, "'limit-test-2' is missing"),
            (
                {"registry": {"limit-test-2": limit("test", 5)}, "nets": "changed"},
                "'limit-test-2' differs",
            ),
            ({"active": []}, "'limit-test-2' is off"),
            ({"mode": "shadow"}, "shadow mode instead of enforce mode"),
        ],
    )
    async def test_dropping_a_rule_needs_a_reason(
        self, hub: Hub, shop: Shop, terms: dict[str, Any], said: str
    ) -> None:
        """G-67: dropping even a plain rule needs a reason, which the record and the list contain."""
        nets = registry(limit("test", 2))
        session = await self.ended(hub, shop, nets)
        terms = {"registry": nets, "by": "maria", **terms}
        before = len(await hub.recorded(session))
        for reason in (None, " "):
            with pytest.raises(ResumeError) as caught:
                await hub.resume_session(session, bot(shop), SessionConfig(**terms, reason=reason))
            assert caught.value.unexplained
            assert said in str(caught.value)
            assert "Say why" in str(caught.value)
        assert len(await hub.recorded(session)) == before
        await hub.resume_session(session, bot(shop), SessionConfig(**terms, reason="a new suite"))
        [opened] = bodies(hub, session, SessionOpened)
        [resumed] = bodies(hub, session, SessionResumed)
        assert (resumed.by, resumed.reason) == ("maria", "a new suite")
        events = await hub.recorded(session)
        assert any("a new suite" in headline(each) for each in events if each.body == resumed)
        change = RecordedSettings.opened(opened).take(resumed)
        assert change is not None
        assert (change.kind, change.people) == ("rules", ("maria",))
        assert change.words.endswith(": a new suite")
        await check(hub, session)

    async def test_refusal_without_reason_names_waiting_calls(self, hub: Hub, shop: Shop) -> None:
        """G-67: an operator who loosens a rule is told which calls wait for approval."""
        session = await hub.open_session(
            bot(shop, C(deploy={}), T("done")), SessionConfig(registry(approval("deploy")))
        )
        events = hub.subscribe()
        await hub.send(session, "go")
        await until(events, ApprovalRequested)
        state = await hub.session(session)
        [asked] = state.approvals.values()
        fit = standing(state, {}, active=None, nets="changed")
        with pytest.raises(
            ResumeError, match=rf"For an answer wait: deploy \({asked.call_id}\)\. Say why"
        ):
            check_reason(state, fit, {}, "enforce", None, None)

    async def test_missing_or_changed_nets_are_refused(self, hub: Hub, shop: Shop) -> None:
        """Missing or changed nets are named, and nothing is recorded."""
        session = await self.ended(hub, shop, registry(sequence("test", "deploy"), limit("test", 2)))
        before = list(await hub.recorded(session))
        changed = {"limit-test-2": limit("test", 5)}
        with pytest.raises(ResumeError) as caught:
            await hub.resume_session(session, bot(shop), SessionConfig(changed))
        assert (caught.value.missing, caught.value.changed) == (
            ("require-test-before-deploy",),
            ("limit-test-2",),
        )
        assert str(caught.value).startswith(
            f"The given nets do not match those of session '{session}': "
            "'require-test-before-deploy' is missing; "
            "'limit-test-2' differs (name, initial marking). Give the rules"
        )
        assert list(await hub.recorded(session)) == before
        await hub.resume_session(
            session, bot(shop), SessionConfig(registry(sequence("test", "deploy"), limit("test", 2)))
        )

    async def test_changed_nets_start_fresh_when_permitted(self, hub: Hub, shop: Shop) -> None:
        """With nets="changed", changed nets start fresh and missing ones are dropped, on record."""
        session = await self.ended(hub, shop, registry(sequence("test", "deploy"), limit("test", 2)))
        nets = {"limit-test-2": limit("test", 5), "limit-rm-1": limit("rm", 1)}
        await hub.resume_session(
            session, bot(shop), SessionConfig(nets, nets="changed", by="maria", reason="fewer rules")
        )
        [resumed] = bodies(hub, session, SessionResumed)
        assert [net.key for net in resumed.nets] == ["limit-test-2", "limit-rm-1"]
        assert (resumed.dropped, resumed.by) == (("require-test-before-deploy",), "maria")
        state = await hub.session(session)
        assert state.nets["limit-test-2"].marking["budget"] == 5
        assert state.active == ["limit-test-2", "limit-rm-1"]
        await check(hub, session)
        events = await hub.recorded(session)
        at = next(n for n, e in enumerate(events) if isinstance(e.body, SessionResumed))
        told = changes(fold(events[:at]), events[at], fold(events[: at + 1]))
        assert told == [
            "resumed: bot on bot-model, enforce mode",
            "starts fresh: limit-test-2: ready:1, budget:5",
            "starts fresh: limit-rm-1: ready:1, budget:1",
            "require-test-before-deploy: dropped",
            "status done → idle",
        ]
        assert headline(events[at]) == (
            "session.resumed  bot  on bot-model, enforce mode  fresh: limit-test-2, limit-rm-1  "
            "dropped: require-test-before-deploy  (by maria)  fewer rules"
        )

    async def test_additional_net_needs_no_permission(self, hub: Hub, shop: Shop) -> None:
        """An additional net applies from now on without a permission to change nets."""
        session = await self.ended(hub, shop, registry(limit("test", 2)))
        await hub.resume_session(
            session, bot(shop), SessionConfig(registry(limit("test", 2), limit("rm", 1)))
        )
        assert (await hub.session(session)).active == ["limit-test-2", "limit-rm-1"]
        await check(hub, session)

    async def test_moved_rule_is_the_same_rule(self, hub: Hub, shop: Shop) -> None:
        """A rule that moved to another line of its file is the same rule."""
        session = await hub.open_session(bot(shop), SessionConfig(REGISTRY))
        await hub.close_session(session, by="maria")
        moved = compile_rules(f"# a comment more\n{RULES}").registry
        await hub.resume_session(session, bot(shop), SessionConfig(moved))

    async def test_net_with_notes_is_refused_or_loses_them(self, hub: Hub, shop: Shop) -> None:
        """A net whose hook keeps notes is refused, or with nets="changed" resumed without its notes."""

        def noting() -> SkillNet:
            return define_skill_net(
                "noting",
                places=["ready", "spent"],
                transitions=[Transition("use", ("ready",), ("spent",), ("test",), deferred=True)],
                initial_marking={"ready": 1},
                on_deferred_result=lambda call, name, transition, state: None,
            )

        session = await self.ended(hub, shop, registry(noting()))
        with pytest.raises(ResumeError, match="'noting' keeps notes that are not recorded") as caught:
            await hub.resume_session(session, bot(shop), SessionConfig(registry(noting())))
        assert caught.value.forgetful == ("noting",)
        await hub.resume_session(session, bot(shop), SessionConfig(registry(noting()), nets="changed"))
        assert (await hub.session(session)).nets["noting"].marking == {"ready": 0, "spent": 1}
        [resumed] = bodies(hub, session, SessionResumed)
        assert (resumed.forgot, resumed.nets) == (("noting",), ())
        await check(hub, session)

    async def test_unknown_active_name_is_an_error(self, hub: Hub, shop: Shop) -> None:
        """An unknown name in `active` is an error, and the session can still be resumed."""
        session = await self.ended(hub, shop, registry(limit("test", 2)))
        with pytest.raises(NetError, match="Unknown nets in active: 'nope'"):
            await hub.resume_session(
                session, bot(shop), SessionConfig(registry(limit("test", 2)), active=["nope"])
            )
        await hub.resume_session(session, bot(shop), SessionConfig(registry(limit("test", 2))))


class TestClosing:
    async def test_closing_one_session_leaves_the_other(self, hub: Hub, shop: Shop) -> None:
        """A session is closed by name and its requests are withdrawn; the other session continues."""
        events = hub.subscribe()
        one = await start(hub, shop, C(test={}), C(deploy={}), T("one"))
        await until(events, ApprovalRequested)
        two = await start(hub, shop, C(test={}), T("two"))
        await hub.close_session(one, by="maria")
        assert [s.id for s in await hub.sessions()] == [two]
        assert await hub.approvals() == []
        assert len(bodies(hub, one, ApprovalWithdrawn)) == 1
        last = bodies(hub, one, SessionStatus)[-1]
        assert (last.status, last.by) == ("done", "maria")
        with pytest.raises(UnknownSessionError, match=f"No live session '{one}'"):
            await hub.close_session(one, by="maria")
        await hub.wait(two)
        assert (await hub.session(two)).status == "idle"

    async def test_source_is_kept_until_replaced(self, hub: Hub, shop: Shop) -> None:
        """The source of a session is kept until it is resumed with another one."""
        source = {"model": "openai/x", "rules": ["a.rules"]}
        session = await hub.open_session(bot(shop), SessionConfig({}, source=source))
        assert (await hub.session(session)).source == source
        await hub.close_session(session, by="maria")
        await hub.resume_session(session, bot(shop), SessionConfig({}))
        assert (await hub.session(session)).source == source
        await hub.close_session(session, by="maria")
        await hub.resume_session(session, bot(shop), SessionConfig({}, source={"model": "y"}))
        [line] = await hub.history()
        assert (await hub.session(session)).source == line.source == {"model": "y"}
