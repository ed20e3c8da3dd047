"""Several requests decided together: comparison, decisions, and the requests that stay open."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from interlock.app.console.app import InterlockConsole
from interlock.app.console.base import binding_commands
from interlock.app.screens.approval.batch import BatchScreen
from interlock.app.screens.common.guarded_keys import ASLEEP
from interlock.app.screens.live.screen import LiveScreen
from interlock.app.terminal.keymap import decides
from interlock.app.widgets.base.blocks import BlockList
from interlock.engine.agents import Agent, C, ScriptedModel, T, ToolContext, tool
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import ApprovalDecided, ApprovalExpired
from interlock.engine.history.model.records import ClaimRecord
from interlock.engine.history.model.state import ApprovalState
from interlock.engine.hub.hub import Hub, Outcome
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

from ...support.queue_scenes import asking, asks
from ...support.scenes import NOW
from ...support.stage import Stage, stage


@asynccontextmanager
async def batch(
    *requests: ApprovalState,
    size: tuple[int, int] = (120, 40),
    awake: bool = True,
    quiet: float = 0.0,
) -> AsyncIterator[tuple[Stage, BatchScreen]]:
    """A console that shows all `requests` as one marked batch."""
    async with stage(asking(*requests), size=size, quiet=quiet) as on:
        await on.press("alt+5")
        for _ in requests:
            await on.press("space", "j")
        await on.press("B")
        await on.settle()
        screen = on.app.screen
        assert isinstance(screen, BatchScreen)
        if awake:
            await on.wake()
            await on.until("decide later")
            screen.tick()
        yield on, screen


def answered(on: Stage) -> list[tuple[str, bool, str, str | None]]:
    """The answers that the hub received, each with its digest."""
    return [(a.approval_id, a.approved, a.by, a.digest) for a in on.hub.answers]


THREE = (asks(1), asks(2), asks(3))


@pytest.mark.slow
class TestPlaces:
    async def test_deny_key_keeps_its_place(self) -> None:
        """The label of `A` changes after everything was seen, but `D` keeps its place."""
        many = [asks(n) for n in range(1, 30)]
        async with batch(*many, size=(80, 24)) as (on, _):
            before = on.painted()
            await on.read_on("A")
            after = on.painted()
        assert "A next page" in before
        assert "A approve all once" in after
        places = [next(ln for ln in each.split("\n") if "D deny all" in ln) for each in (before, after)]
        assert places[0].index("D deny all") == places[1].index("D deny all")
        assert places[0].index("A next") == places[1].index("A approve")


class TestDeciding:
    @pytest.mark.slow
    async def test_each_request_is_approved_by_its_digest(self) -> None:
        """Batch: `A` approves every request as the operator, bound to the digest in the table."""
        async with batch(*THREE) as (on, _):
            await on.press("A")
            await on.until("3 requests decided")
            assert sorted(answered(on)) == [(f"q{n}", True, "maria", f"digest-{n}") for n in (1, 2, 3)]
            assert on.painted().count("✓ approved") == 3
            await on.press("A", "D", "enter")
            await on.settle()
            assert len(on.hub.answers) == 3
            await on.press("escape")
            await on.settle()
            assert isinstance(on.app.screen, LiveScreen)

    @pytest.mark.slow
    async def test_all_are_denied_with_one_reason(self) -> None:
        """Batch: `D` asks for a reason; enter denies all of them with it."""
        async with batch(*THREE) as (on, _):
            await on.press("D")
            await on.until("Reason for all")
            assert on.hub.answers == []
            await on.press(*"not now", "enter")
            await on.until("3 requests decided")
            assert {(a.approved, a.reason) for a in on.hub.answers} == {(False, "not now")}
            assert on.painted().count("✓ denied") == 3

    @pytest.mark.slow
    async def test_request_claimed_by_another_requires_second_key(self) -> None:
        """Batch: requests that another operator has claimed are decided only after a second key press."""
        taken = asks(2, claim=ClaimRecord(by="ben", at=NOW, until=NOW + timedelta(minutes=5)))
        for key, said in (("A", "approved"), ("D", "Reason for all")):
            async with batch(asks(1), taken, asks(3)) as (on, _):
                await on.press(key)
                await on.until("ben has 1 of these: press it again to decide anyway")
                await on.press(key)
                await on.settle()
                assert said not in on.painted()
                await on.wake()
                await on.press(key)
                await on.until(said)

    @pytest.mark.slow
    async def test_keys_sleep_at_first(self) -> None:
        """Never by accident: for 400 ms after the table opens, no key decides."""
        async with batch(*THREE, awake=False) as (on, screen):
            assert screen.sleeps_for() > 0
            await on.press("A", "D", *"yes", "enter")
            await on.settle()
            assert on.hub.answers == []

    @pytest.mark.slow
    async def test_keys_pressed_together_decide_nothing(self) -> None:
        """Never by accident: a key that arrives together with others decides nothing."""
        async with batch(*THREE, quiet=0.2) as (on, _):
            await on.press("A", "j")
            await on.pilot.pause(0.3)
            assert on.hub.answers == []
            assert "nothing was decided" in on.painted()

    @pytest.mark.slow
    @pytest.mark.parametrize("key", ["enter", "space", "escape", "a", "d", "y"])
    async def test_no_other_key_decides(self, key: str) -> None:
        """Never by accident: there is no default, and escape only closes the table."""
        async with batch(*THREE) as (on, _):
            await on.press(key)
            await on.settle()
            assert on.hub.answers == []

    @pytest.mark.slow
    async def test_escape_leaves_the_reason_first(self) -> None:
        """Never by accident: escape in the reason line goes back to the table and denies nothing."""
        async with batch(*THREE) as (on, screen):
            await on.press("D")
            await on.until("Reason for all")
            await on.press(*"no", "escape")
            await on.settle()
            assert on.app.screen is screen
            assert "Reason for all" not in on.painted()
            assert on.hub.answers == []

    @pytest.mark.slow
    async def test_missing_approvals_are_counted(self) -> None:
        """Batch: if two operators must approve, the row says that one more is missing."""
        async with batch(asks(1, people=2), asks(2)) as (on, _):
            assert "0 of 2: two people must approve" in on.painted()
            await on.press("A")
            await on.until("2 requests decided")
            assert "must approve" in on.painted()

    @pytest.mark.slow
    async def test_hub_refusal_is_shown_per_request(self) -> None:
        """Batch: each row shows its result in the hub's words."""
        async with batch(*THREE) as (on, _):
            on.hub.refuse = "Already denied by ben"
            await on.press("A")
            await on.until("0 requests decided, 3 not")
            assert on.painted().count("■ already denied by ben") == 3

    @pytest.mark.slow
    async def test_hub_exception_is_shown_and_other_requests_are_decided(self) -> None:
        """Batch: a request whose decision raises an exception shows it. The others are decided."""
        async with batch(*THREE) as (on, _):

            async def broken(approval_id: str, **_: object) -> Outcome:
                if approval_id == "q2":
                    raise ConnectionError("the journal is gone")
                return Outcome(ok=True, message="approved")

            on.hub.decide = broken
            await on.press("A")
            await on.until("2 requests decided, 1 not")
            assert "■ not decided: the journal is gone" in on.painted()

    @pytest.mark.slow
    async def test_palette_lists_both_decisions(self) -> None:
        """Palette: both decisions are listed by name and count as deciding keys."""
        async with batch(*THREE) as (on, screen):
            named = {c.title: c for c in binding_commands(on.app, screen)}
            assert {"Approve all once", "Deny all"} <= set(named)
            assert decides("approval.approve-all")
            assert decides("approval.deny-all")


@pytest.mark.slow
class TestReading:
    async def test_approval_requires_all_pages_shown(self) -> None:
        """Batch: `A` shows page after page, and approves only once all of the table was on screen."""
        requests = [asks(n) for n in range(20)]
        async with batch(*requests, size=(80, 24)) as (on, _):
            assert "A show the next page · 2 of 3" in on.painted()
            assert await on.read_on("A") == 2
            assert on.hub.answers == []
            await on.press("A")
            await on.until("20 requests decided")
            assert len(on.hub.answers) == 20

    async def test_lines_skipped_by_end_count_as_unseen(self) -> None:
        """Batch: lines skipped by a jump to the end count as unseen."""
        requests = [asks(n) for n in range(40)]
        async with batch(*requests, size=(80, 24)) as (on, screen):
            screen.query_one(BlockList).action_edge(-1)
            await on.wake()
            await on.press("A")
            await on.wake()
            assert on.hub.answers == []
            assert await on.read_on("A") > 0
            await on.press("A")
            await on.until("40 requests decided")

    async def test_denial_does_not_require_all_pages(self) -> None:
        """Batch: a denial does not require that all pages were on screen."""
        requests = [asks(n) for n in range(20)]
        async with batch(*requests, size=(80, 24)) as (on, _):
            await on.press("D")
            await on.until("Reason for all")
            await on.press("enter")
            await on.until("20 requests decided")

    async def test_request_too_long_for_the_table_is_not_approved(self) -> None:
        """Batch: a request whose input is too long for the table must be approved in its own dialog."""
        async with batch(asks(1), asks(2, input={"text": "x" * 5_000})) as (on, screen):
            assert "5,004 characters: open the request to read them" in on.painted()
            assert "approve it separately" in on.painted()
            screen.tick()
            await on.press("A")
            await on.until("1 request decided, 1 not")
            assert [a.approval_id for a in on.hub.answers] == ["q1"]


class TestMeanwhile:
    @pytest.mark.slow
    async def test_decided_elsewhere(self) -> None:
        """Batch: a request decided elsewhere is struck out with the decider's name and not decided."""
        async with batch(*THREE) as (on, screen):
            on.hub.decided_elsewhere("q2", approved=False, by="ben")
            await on.until("✗ not decided: already denied by ben")
            assert screen.sleeps_for() > 0
            await on.wake()
            await on.press("A")
            await on.until("2 requests decided, 1 not")
            assert sorted(a.approval_id for a in on.hub.answers) == ["q1", "q3"]

    @pytest.mark.slow
    async def test_withdrawn_and_expired(self) -> None:
        """Batch: requests that end are struck out with the reason. With none left, no key decides."""
        async with batch(*THREE) as (on, _):
            on.hub.withdraw("q1", "the agent was interrupted")
            on.hub.settle("q2")
            reason = "nobody decided within 15 min"
            on.hub.publish(
                "release-bot-1f3a", ApprovalExpired(approval_id="q2", call_id="c2", reason=reason)
            )
            on.hub.withdraw("q3", "gone")
            await on.until("withdrawn: gone")
            assert "withdrawn: the agent was interrupted" in on.painted()
            assert "too late: nobody decided within 15 min" in on.painted()
            assert "nothing left to decide" in on.painted()
            await on.wake()
            await on.press("A", "D")
            await on.settle()
            assert on.hub.answers == []

    @pytest.mark.slow
    async def test_a_changed_request_is_not_decided(self) -> None:
        """Batch: a request that has changed since it was shown is struck out."""
        async with batch(*THREE) as (on, _):
            state = on.hub.states["release-bot-1f3a"]
            state.approvals["q2"] = asks(2, digest="other", input={"command": "rm -rf /"})
            on.hub.withdraw("q1", "gone")
            await on.until("✗ not decided: changed: look again")
            assert "rm -rf /" not in on.painted()
            await on.wake()
            await on.press("A")
            await on.until("1 request decided, 2 not")
            assert [a.approval_id for a in on.hub.answers] == ["q3"]

    @pytest.mark.slow
    async def test_partial_approval_updates_the_row(self) -> None:
        """Batch: when one of two operators approves, the row is updated and keys sleep again."""
        async with batch(asks(1, people=2), asks(2)) as (on, screen):
            on.hub.given("q1", "ben")
            await on.until("1 of 2: ben just now ✓ — 1 more needed")
            assert screen.sleeps_for() > 0

    @pytest.mark.slow
    async def test_new_request_does_not_change_the_table(self) -> None:
        """Never by accident: a notice announces a new request, and the table does not change."""
        async with batch(*THREE) as (on, screen):
            on.hub.request(asks(9, tool="rm"))
            await on.until("needs approval")
            assert on.app.screen is screen
            assert len(screen.rows) == 3

    @pytest.mark.slow
    async def test_hub_failure_is_reported(self) -> None:
        """Batch: if the hub does not answer, the table reports this and strikes nothing out."""
        async with batch(*THREE) as (on, screen):

            async def broken() -> list[ApprovalState]:
                raise ConnectionError("no journal")

            on.hub.approvals = broken
            on.hub.publish(
                "release-bot-1f3a", ApprovalExpired(approval_id="q2", call_id="c2", reason="late")
            )
            await on.until("The hub does not answer: no journal")
            assert all(row.over is None for row in screen.rows)


class TestTimes:
    async def test_request_shows_age_and_time_left(self) -> None:
        """Batch: each request shows its age and the time until it expires."""
        async with batch(asks(1, expires=NOW + timedelta(seconds=90)), asks(2)) as (on, _):
            assert "waits 1:00 · 1:30 left" in on.painted()


@pytest.mark.slow
class TestRealHub:
    async def test_a_batch_of_two_sessions(self, tmp_path: Path) -> None:
        """Batch: two agents' calls run after both are approved. The journal has each with its digest."""
        ran: list[str] = []

        @tool
        async def deploy(ctx: ToolContext, env: str) -> str:
            """Deploy."""
            ran.append(env)
            return "ok"

        hub = Hub(Journal.open(tmp_path / "hub.db"))
        rules = compile_rules("require human-approval before deploy risk high").registry
        app = InterlockConsole(hub, operator="maria", quiet=0.0)
        async with app.run_test(size=(120, 40)) as pilot:
            sessions: list[str] = []
            for env in ("a", "b"):
                model = ScriptedModel([C(deploy={"env": env}), T("done")])
                agent = Agent(model, name=f"bot-{env}", tools=[deploy])
                sessions.append(await hub.open_session(agent, SessionConfig(rules)))
                await hub.send(sessions[-1], "go")
            for _ in range(200):
                if len(await hub.approvals()) == 2:
                    break
                await pilot.pause(0.02)
            while not isinstance(app.screen, LiveScreen):
                await pilot.press("escape")
                await pilot.pause(0.05)
            await pilot.press("alt+5", "space", "j", "space", "B")
            await pilot.pause(ASLEEP + 0.3)
            assert isinstance(app.screen, BatchScreen)
            assert ran == []
            digests = {row.request.digest for row in app.screen.rows}
            await pilot.press("A")
            for session in sessions:
                await hub.wait(session)
            assert sorted(ran) == ["a", "b"]
            decided = [e.body for s in sessions for e in await hub.recorded(s)]
            found = {b.digest: b.by for b in decided if isinstance(b, ApprovalDecided)}
            assert found == dict.fromkeys(digests, "maria")
        await hub.close()
