"""Grants among the nets: shown, counted down, revoked, and named by the calls that they allowed."""

from __future__ import annotations

import pytest

from interlock.app.format.calls import call_timeline
from interlock.app.format.times import in_force
from interlock.app.screens.common.confirm import Confirm
from interlock.app.screens.common.detail import call_detail
from interlock.app.widgets.lists.transcript import approval_words
from interlock.app.widgets.nets.grants import bounds, passes
from interlock.app.widgets.nets.list import net_blocks
from interlock.app.widgets.replay.event_details import fields
from interlock.app.widgets.replay.nets import MomentNets, changed_nets
from interlock.engine.history.model.events import (
    ApprovalExpired,
    ApprovalExtended,
    ApprovalGiven,
    ApprovalRequested,
    CallDecided,
    EventBody,
    GrantGiven,
    JournalEvent,
)
from interlock.engine.history.model.records import StepRecord
from interlock.engine.history.model.state import GrantState, SessionState
from interlock.engine.hub.hub import Outcome

from ...support.queue_scenes import grant
from ...support.scenes import NOW, before, call, release_bot
from ...support.stage import Stage, stage


def granted(*grants: GrantState) -> SessionState:
    """A release-bot with these grants."""
    state = release_bot(waiting=False)
    state.grants = {each.key: each for each in grants}
    return state


def lines(*grants: GrantState, width: int = 100) -> list[str]:
    """The lines of the grants, without the nets."""
    state = granted(*grants)
    state.nets.clear()
    return [line.plain.strip() for b in net_blocks(state, now=NOW) for line in b.lines(width)]


class TestLines:
    def test_line_shows_uses_time_and_operator(self) -> None:
        """Grants: one line has the allowed calls, uses left as tokens, time left and the operator."""
        assert lines(grant()) == [
            "▸  grant-1  deploy passes without asking  ●●○ 2 left · 12 min · by maria"
        ]

    def test_many_uses_are_counted(self) -> None:
        """Grants: more than five uses are a number instead of tokens."""
        assert "18 of 20 left · by jo" in lines(grant(uses=20, used=2, seconds=None, by="jo"))[0]

    def test_grant_without_limit(self) -> None:
        """Grants: without a limit a grant allows any number of calls."""
        assert "● any number of times · by maria" in lines(grant(uses=None, seconds=None))[0]

    def test_grant_for_exact_input(self) -> None:
        """Grants: a grant for one exact input is described as such."""
        one = grant(value={"command": "./deploy"})
        assert passes(one) == "deploy with one exact input passes without asking"

    def test_grant_of_a_plan(self) -> None:
        """Grants: a grant of a plan shows the plan's title and its tool."""
        steps = [{"tool": "bash", "count": 3, "effects": ["deploy"]}]
        of_plan = grant(plan="plan-1", value={"title": "Release\x1b 1.4", "steps": steps})
        assert passes(of_plan) == r"bash of “Release\x1b 1.4” passes without asking"

    @pytest.mark.parametrize(
        "over",
        [
            grant(revoked_by="ben"),
            grant(uses=3, used=3),
            grant(seconds=1800.0, ago=1801),
            grant(uses=None, seconds=60.0, ago=60),
        ],
        ids=["revoked", "used up", "expired", "expired session grant"],
    )
    def test_ended_grants_are_not_listed(self, over: GrantState) -> None:
        """Grants: revoked, used up and expired grants are not in force and not listed."""
        assert lines(over) == []
        assert not in_force(over, NOW)

    def test_the_last_second(self) -> None:
        """Grants: a grant in its last second is shown with a second left."""
        assert bounds(grant(ago=1799.7), NOW)[1] == "1 s"

    @pytest.mark.parametrize("width", [20, 40, 60, 72, 100])
    def test_no_line_is_too_wide(self, width: int) -> None:
        """Grants: lines fit at any width."""
        state = granted(grant(), grant(key="grant-2", asked="git push --force"))
        for block in net_blocks(state, now=NOW):
            assert all(line.cell_length <= width for line in block.lines(width))


class TestRevoking:
    async def test_x_asks_before_it_revokes(self) -> None:
        """Grants: `x` on a grant asks first. Enter does nothing; `y` revokes it as the operator."""
        async with stage(granted(grant())) as on:
            revoked = record_revokes(on)
            await on.press("alt+3", "G", "x")
            await on.settle()
            assert isinstance(on.app.screen, Confirm)
            assert "Now deploy passes without asking: 2 left, 12 min, by maria." in on.painted()
            await on.wake()
            await on.press("enter")
            await on.settle()
            assert revoked == []
            await on.press("y")
            await on.until("grant-1 revoked by maria")
            assert revoked == [("release-bot-1f3a", "grant-1", "maria")]

    @pytest.mark.slow
    async def test_other_nets_cannot_be_revoked(self) -> None:
        """Grants: on the net of a rule, and in other panes, the key does nothing."""
        async with stage(granted(grant())) as on:
            revoked = record_revokes(on)
            await on.press("alt+3", "g", "x", "alt+2", "x")
            await on.settle()
            assert not isinstance(on.app.screen, Confirm)
            assert revoked == []

    @pytest.mark.slow
    async def test_enter_shows_terms_input_and_net(self) -> None:
        """Grants: the panel has the terms, the exact input, and the net with its tokens."""
        async with stage(granted(grant(value={"command": "./deploy --env prod"}))) as on:
            await on.press("alt+3", "G", "enter")
            await on.until("Grant: grant-1")
            shown = on.painted()
        for part in (
            "bash with one exact input, 3 times for 30 min",
            "maria at 13:44:10",
            '"./deploy --env prod"',
            "(2) granted",
            "fires by itself after 30 min",
        ):
            assert part in shown


def record_revokes(on: Stage) -> list[tuple[str, str, str]]:
    """Record the calls that would revoke a grant."""
    asked: list[tuple[str, str, str]] = []

    async def revoke(session: str, key: str, *, by: str) -> Outcome:
        asked.append((session, key, by))
        return Outcome(ok=True, message=f"{key} revoked by {by}")

    on.hub.revoke_grant = revoke  # type: ignore[method-assign]
    return asked


class TestCalls:
    @pytest.mark.parametrize(
        ("more", "words"),
        [
            ({}, ""),
            ({"approved_by": ("maria",)}, "approved by maria"),
            ({"approved_by": ("maria",), "edited": True}, "edited by maria"),
            ({"approved_by": ("ada", "ben")}, "approved by ada, ben"),
            ({"approved_by": ("ada", "ben"), "edited": True}, "edited, approved by ada, ben"),
            (
                {"approved_by": ("ben",), "edited": True, "edited_by": "ada"},
                "edited by ada, approved by ben",
            ),
            ({"approved_by": ("ada",), "edited": True, "edited_by": "ada"}, "edited by ada"),
            ({"edited": True, "edited_by": "ada"}, "edited by ada"),
            ({"granted": ("grant-1",)}, "allowed by grant-1"),
            (
                {"granted": ("grant-1",), "approved_by": ("maria",)},
                "allowed by grant-1, approved by maria",
            ),
        ],
    )
    def test_call_shows_how_it_was_allowed(self, more: dict[str, object], words: str) -> None:
        """Transcript: a call shows that it was approved, edited or allowed by a grant, and by whom."""
        assert approval_words(call("c1", "deploy", "./deploy", "done", 1, **more)) == words

    def test_panel_shows_editor_and_original_input(self) -> None:
        """G-75: a call's panel names its editor and shows the agent's original input beside it."""
        edited = call(
            "c1",
            "deploy",
            "./deploy staging",
            "done",
            1,
            approved_by=("ben",),
            edited=True,
            edited_by="ada",
            original={"command": "./deploy prod"},
        )
        lines = [row.plain for block in call_detail(edited, "s1")._blocks for row in block.lines(90)]
        assert any(line.startswith("edited        by ada: changed command from") for line in lines)
        at = lines.index("WHAT THE AGENT ASKED FOR, AND WHAT RUNS")
        assert '"./deploy prod"' in lines[at + 2]
        assert '"./deploy staging"' in lines[at + 3]
        assert lines[at + 2].lstrip().startswith("-")

    async def test_granted_call_is_named_in_list_and_panel(self) -> None:
        """Transcript: a call allowed by a grant says so in the list and in its panel."""
        state = granted(grant())
        state.calls["c6"].granted = ("grant-1",)
        async with stage(state) as on:
            assert "allowed by grant-1  8.1 s" in on.painted()
            await on.press("alt+2", "G", "k", "k", "enter")
            await on.until("Call: test")
            assert "allowed by" in on.painted()


class TestEvents:
    def events(self, *bodies: EventBody) -> list[JournalEvent]:
        return [
            JournalEvent(cursor=n, session="s", seq=n, at=before(100 - n), body=body)
            for n, body in enumerate(bodies, 1)
        ]

    def test_timeline_includes_approvals_expiry_and_grants(self) -> None:
        """Replay: a call's timeline includes approvals, extensions, expiry and grants."""
        ids = {"approval_id": "a1", "call_id": "c1"}
        recorded = self.events(
            ApprovalRequested(
                **ids,
                tool="deploy",
                called="bash",
                input={},
                names=("deploy", "bash"),
                net="approve-before-deploy",
                transition="approve",
                title="",
                message="",
                marking={},
            ),
            ApprovalGiven(**ids, by="ada"),
            ApprovalExtended(**ids, until=NOW, by="ben"),
            ApprovalExtended(**ids, until=NOW, by="ben"),
            ApprovalExtended(**ids, until=NOW, by="ben"),
            ApprovalExpired(**ids, reason="nobody decided within 15 min"),
            GrantGiven(grant=grant().record, by="maria", call_id="c1", reason="release night"),
        )
        rows = dict.fromkeys(text for _, text in call_timeline(recorded, 7))
        assert list(rows) == [
            "net approve-before-deploy",
            "approved by ada 5 s ago, others must too",
            "may wait until 14:02:10 UTC, by ben",
            "expired: nobody decided within 15 min",
            "grant-1 by maria: bash as deploy, bash, 3 times for 30 min: release night",
        ]

    def test_a_decision_by_a_grant(self) -> None:
        """Replay: a call that a grant allowed says so."""
        recorded = self.events(
            CallDecided(
                call_id="c1",
                tool="bash",
                input={},
                names=("deploy", "bash"),
                outcome="allow",
                mode="enforce",
                granted=("grant-1",),
            )
        )
        assert call_timeline(recorded, 1) == [("decided", "allowed, by grant-1")]

    def test_event_details_are_in_words(self) -> None:
        """Replay: a grant, a step made by time and a clock are words in an event's details."""
        given = dict(fields(GrantGiven(grant=grant().record, by="maria")))
        assert given["grant"][0].startswith(
            "grant-1: bash as deploy, bash, 3 times for 30 min, 30 min from"
        )
        aged = StepRecord(net="limit-push-3-per-1h", transition="recover", tool="")
        decided = CallDecided(
            call_id="c1",
            tool="push",
            input={},
            names=("push",),
            outcome="allow",
            mode="enforce",
            steps=(aged,),
            clock=NOW.timestamp(),
        )
        found = dict(fields(decided))
        assert found["steps"] == ["limit-push-3-per-1h: recover by itself, after its time"]
        assert found["clock"] == ["2026-11-20 14:02:10 UTC"]

    def test_grants_are_among_the_nets_of_a_moment(self) -> None:
        """Replay: the event that gave, used or revoked a grant marks it."""
        nothing, given = granted(), granted(grant(used=0))
        used, revoked = granted(grant(used=1)), granted(grant(used=1, revoked_by="ben"))
        assert changed_nets(nothing, given) == {"grant-1"}
        assert changed_nets(given, used) == {"grant-1"}
        assert changed_nets(used, revoked) == {"grant-1"}
        assert changed_nets(used, used) == set()
        shown = MomentNets()
        shown.show_moment(used, revoked)
        text = [line.plain for block in shown.blocks for line in block.lines(150)]
        assert any("revoked by ben" in line and "deploy passes without asking" in line for line in text)
