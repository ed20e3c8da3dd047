"""Changes by operators on the decisions screen."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from interlock.app.screens.decisions.detail import DecisionDetail
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import (
    ApprovalDecided,
    ApprovalExtended,
    ChangeProposed,
    GrantGiven,
    GrantRevoked,
    LimitRaised,
    MessageAdded,
    NetToggled,
    SessionResumed,
)
from interlock.engine.history.model.records import CallRecord, GrantRecord
from interlock.engine.recording.records import net_record
from tests.engine.history.support.recording import NOON, approval, opening, request
from tests.support.decisions import call

from .decisions_world import desk
from .test_decisions_live import live

ASKS = approval("deploy")


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """A journal with one call and the changes of two operators."""
    path = tmp_path / "j.db"
    with Journal.open(path) as written:
        written.write("s1", opening(ASKS))
        written.write(
            "s1",
            call("c1", "bash", "echo hello"),
            ChangeProposed(
                change_id="x1",
                net=ASKS.name,
                by="ada",
                reason="too many questions",
                people=2,
                expires=NOON,
                counts=True,
            ),
            NetToggled(
                net=ASKS.name,
                active=False,
                by="ben",
                others=("ada",),
                message="off",
                reason="too many questions",
                until=NOON + timedelta(minutes=10),
                waiting=("c7",),
                change_id="x1",
            ),
            LimitRaised(max_cost=5, by="ben", reason="more to do"),
        )
    return path


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
class TestList:
    @pytest.mark.variants
    async def test_calls_and_changes_are_filtered_by_kind_and_operator(
        self, journal: Path, size: tuple[int, int]
    ) -> None:
        """One view shows calls and changes. `kind:` and `by:` narrow it to certain changes."""
        async with desk(journal, size) as on:
            await on.until("4 decisions", "Δ changed by", "? proposed by", "echo hello", "limit")
            await on.filter("kind:change by:ADA")
            await on.until("2 decisions match", "toggle", gone="echo hello")
            await on.filter("kind:limit")
            await on.until("1 decision match", "cost limit $5.00", gone="proposed")

    @pytest.mark.slow
    async def test_enter_opens_all_fields_of_a_change(self, journal: Path, size: tuple[int, int]) -> None:
        """An opened change shows its operators, reason, end time and waiting requests."""
        async with desk(journal, size) as on:
            await on.filter("kind:toggle verdict:changed")
            await on.until("1 decision match")
            await on.press("enter")
            await on.when(lambda: isinstance(on.app.screen, DecisionDetail))
            await on.until(
                "Change: toggle",
                "ada, ben",
                "too many questions",
                "2026-03-14 12:10:00",
                "requests      c7",
                gone="asking the nets",
            )


@pytest.fixture
def journal_of_more_kinds(tmp_path: Path) -> Path:
    """A journal with a grant given and revoked, an extended request, and changed rules."""
    path = tmp_path / "m.db"
    grant = GrantRecord(
        key="grant-1",
        net=net_record("grant-1", ASKS),
        asks=ASKS.name,
        asked="deploy",
        tool="bash",
        names=("deploy",),
        uses=20,
        since=NOON.timestamp(),
    )
    asked = request("ap", "c1", "deploy")
    with Journal.open(path) as written:
        written.write("s1", opening(ASKS))
        written.write(
            "s1",
            asked,
            ApprovalExtended(approval_id="ap", call_id="c1", until=NOON, by="ben"),
            ApprovalDecided(approval_id="ap", call_id="c1", approved=True, by="ada", reason="night"),
            GrantGiven(grant=grant, by="ada", call_id="c1", reason="release night"),
            GrantRevoked(key="grant-1", by="cleo"),
            SessionResumed(
                agent="agent",
                model="model",
                mode="enforce",
                nets=(),
                dropped=(ASKS.name,),
                active=(),
                by="dora",
            ),
        )
    return path


@pytest.mark.slow
@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
class TestMoreKinds:
    async def test_grants_extensions_and_rules_are_listed(
        self, journal_of_more_kinds: Path, size: tuple[int, int]
    ) -> None:
        """Each change is a row with its kind and operator. The opened row has reason and request."""
        async with desk(journal_of_more_kinds, size) as on:
            await on.filter("kind:grant")
            await on.until("2 decisions match", "grant-1 revoked", "grant-1 given", "Δ changed by")
            await on.filter("kind:extension")
            await on.until("1 decision match", "Δ changed by b", "extension")
            await on.filter("kind:rules by:dora")
            await on.until("1 decision match", "Δ changed by d", "resumed with")
            await on.filter("kind:grant by:ada")
            await on.until("1 decision match")
            await on.press("enter")
            await on.when(lambda: isinstance(on.app.screen, DecisionDetail))
            await on.until("release night", "c1", "lets pass")


class TestLive:
    @pytest.mark.slow
    async def test_new_change_becomes_first_row(self, tmp_path: Path) -> None:
        """A change made while the list is shown becomes its first row."""
        async with live(tmp_path / "j.db") as on:
            net = (await on.hub.session("day")).active[0]
            assert (await on.hub.toggle_net("day", net, False, by="ada", reason="noise")).ok
            await on.filter("kind:toggle by:ada")
            await on.until("1 decision match", "changed by ada", f"{net} off: noise")


@pytest.mark.slow
class TestEdited:
    async def test_editor_and_original_input_are_shown(self, tmp_path: Path) -> None:
        """G-75: an edited call's decision names the editor and shows the agent's input beside it."""
        path = tmp_path / "j.db"
        wanted = CallRecord(call_id="c1", tool="bash", input={"command": "./deploy prod"})
        with Journal.open(path) as written:
            written.write("s1", opening(ASKS))
            written.write(
                "s1",
                MessageAdded(role="assistant", calls=(wanted,)),
                call("c1", "deploy", "./deploy staging", edited=True, edited_by="ada"),
            )
        async with desk(path, (120, 40)) as on:
            await on.until("1 decision")
            await on.press("enter")
            await on.when(lambda: isinstance(on.app.screen, DecisionDetail))
            await on.until(
                "by ada: changed command from",
                "WHAT THE AGENT ASKED FOR, AND WHAT RUNS",
                '- │ "./deploy prod"',
                '+ │ "./deploy staging"',
            )
