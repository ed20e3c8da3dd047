"""Claims and comments on requests, and the list of operators who are reading one."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from interlock.engine.approvals import claims, readers
from interlock.engine.core.approvers import Operator, Operators
from interlock.engine.core.clock import utc_now
from interlock.engine.history.errors import JournalError
from interlock.engine.history.fold.event_text import headline
from interlock.engine.history.model.events import (
    ApprovalClaimed,
    ApprovalCommented,
    ApprovalUnclaimed,
)
from interlock.engine.hub.hub import Hub, RequestReaders

from ..support.external_agent import check_fold, events, recorded
from ..support.shop import until
from .test_fuse import asked

ASKS = "require human-approval before deploy"


class TestClaim:
    async def test_visible_to_all_and_exclusive(self, tmp_path: Path) -> None:
        """The request shows who claimed it. A second claim is refused, but others may still decide."""
        async with asked(tmp_path, ASKS) as (hub, request, call):
            assert (await hub.claim(request.id, by="maria")).ok
            [shown] = await hub.approvals()
            assert shown.claim is not None
            assert shown.claim.by == "maria"
            second = await hub.claim(request.id, by="ben")
            assert (second.ok, second.message) == (False, "maria has this already")
            await check_fold(hub)
            assert (await hub.decide(request.id, approved=True, by="ben", digest=request.digest)).ok
            assert (await call).approved_by == ("ben",)

    async def test_only_owner_can_give_it_up(self, tmp_path: Path) -> None:
        """Only the operator who claimed a request can give the claim up."""
        async with asked(tmp_path, ASKS) as (hub, request, _):
            await hub.claim(request.id, by="maria")
            assert not (await hub.unclaim(request.id, by="ben")).ok
            assert (await hub.unclaim(request.id, by="Maria")).ok
            assert (await hub.approvals())[0].claim is None
            assert (await hub.claim(request.id, by="ben")).ok
            await check_fold(hub)

    async def test_ends_when_console_disconnects(self, tmp_path: Path) -> None:
        """A claim ends when its console disconnects; the end of another console does not affect it."""
        async with asked(tmp_path, ASKS) as (hub, request, _):
            await hub.claim(request.id, by="maria", console="one")
            await hub.console_gone("two")
            assert (await hub.approvals())[0].claim is not None
            await hub.console_gone("one")
            assert (await hub.approvals())[0].claim is None
            [gone] = recorded(hub.database, ApprovalUnclaimed)
            assert (gone.by, gone.reason) == ("maria", "their console is gone")
            await check_fold(hub)

    async def test_expires_after_its_time(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A claim expires, so a forgotten claim does not keep the request from others."""
        monkeypatch.setattr(claims, "CLAIM", 0.05)
        async with asked(tmp_path, ASKS) as (hub, request, _):
            heard = hub.subscribe()
            await hub.claim(request.id, by="maria")
            await until(heard, ApprovalUnclaimed)
            assert (await hub.approvals())[0].claim is None

    async def test_overdue_claim_does_not_block_a_new_one(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Timers stop while the machine sleeps, but an overdue claim no longer blocks a new one."""
        async with asked(tmp_path, ASKS) as (hub, request, _):
            await hub.claim(request.id, by="maria")
            questions = hub._live.hosted("robin-1").questions
            later = utc_now() + timedelta(seconds=claims.CLAIM + 1)
            monkeypatch.setattr(questions.table, "clock", lambda: later)
            assert (await hub.claim(request.id, by="ben")).ok
            [shown] = await hub.approvals()
            assert shown.claim is not None
            assert shown.claim.by == "ben"
            await check_fold(hub)

    async def test_carries_over_to_renewed_request(self, tmp_path: Path) -> None:
        """A claim carries over to the renewed request, with the same deadline and the same console."""
        async with asked(tmp_path, "require 2 human-approvals before deploy") as (hub, request, _):
            await hub.claim(request.id, by="maria", console="one")
            [first] = recorded(hub.database, ApprovalClaimed)
            heard = hub.subscribe()
            edited = await hub.decide(
                request.id, approved=True, by="ben", input={"env": "dev"}, digest=request.digest
            )
            assert edited.ok, edited.message
            await until(heard, ApprovalClaimed)
            [anew] = await hub.approvals()
            assert anew.id != request.id
            assert anew.claim is not None
            assert (anew.claim.by, anew.claim.until) == ("maria", first.until)
            await check_fold(hub)
            await hub.console_gone("one")
            assert (await hub.approvals())[0].claim is None

    async def test_not_renewed_after_console_disconnects(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A claim is not renewed if its console disconnects just before the renewal is recorded."""
        renew, renewed = claims.Claims.renew, asyncio.Event()
        async with asked(tmp_path, "require 2 human-approvals before deploy") as (hub, request, _):

            async def renew_later(*given: Any) -> None:
                await hub.console_gone("one")
                await renew(*given)
                renewed.set()

            monkeypatch.setattr(claims.Claims, "renew", renew_later)
            await hub.claim(request.id, by="maria", console="one")
            edited = await hub.decide(
                request.id, approved=True, by="ben", input={"env": "dev"}, digest=request.digest
            )
            assert edited.ok, edited.message
            await renewed.wait()
            assert await claim_holder(hub) is None
            assert len(recorded(hub.database, ApprovalClaimed)) == 1
            await check_fold(hub)

    async def test_needs_an_open_request_and_a_name(self, tmp_path: Path) -> None:
        """A claim without a name or on a decided request is refused and not recorded."""
        async with asked(tmp_path, ASKS) as (hub, request, call):
            assert not (await hub.claim(request.id, by=" ")).ok
            await hub.decide(request.id, approved=False, by="ben", digest=request.digest)
            await call
            assert (await hub.claim(request.id, by="maria")).message == "Already denied by ben"
            assert recorded(hub.database, ApprovalClaimed) == []


class TestClaimsAtOnce:
    """The end of a claim does not end a later claim by another operator."""

    async def test_giving_up_expired_claim_keeps_the_next(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Giving up an expired claim does not end another operator's simultaneous claim."""
        async with asked(tmp_path, ASKS) as (hub, request, _):
            await hub.claim(request.id, by="maria")
            let_claim_expire(hub, monkeypatch)
            taken, given_up = await asyncio.gather(
                hub.claim(request.id, by="ben"), hub.unclaim(request.id, by="maria")
            )
            assert (taken.ok, given_up.ok) == (True, False)
            assert given_up.message == "maria does not have this"
            assert await claim_holder(hub) == "ben"
            await check_fold(hub)

    async def test_end_of_console_keeps_the_next_claim(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The end of a console does not end a claim that was just made from another console."""
        async with asked(tmp_path, ASKS) as (hub, request, _):
            await hub.claim(request.id, by="maria", console="one")
            let_claim_expire(hub, monkeypatch)
            await asyncio.gather(
                hub.comment(request.id, "look at the host", by="ada"),
                hub.claim(request.id, by="ben", console="two"),
                hub.console_gone("one"),
            )
            assert await claim_holder(hub) == "ben"
            await check_fold(hub)

    async def test_timer_of_expired_claim_keeps_the_next(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The timer of an expired claim does not end the next claim."""
        async with asked(tmp_path, ASKS) as (hub, request, _):
            questions = hub._live.hosted("robin-1").questions
            [waits] = questions.table.open.values()
            monkeypatch.setattr(claims, "CLAIM", 0.05)
            await hub.claim(request.id, by="maria")
            monkeypatch.setattr(claims, "CLAIM", 600.0)
            timer = waits.claim_timer
            assert timer is not None
            async with waits.turn:
                taken = asyncio.ensure_future(hub.claim(request.id, by="ben"))
                loop = asyncio.get_running_loop()
                rung = loop.create_future()
                loop.call_at(timer.when(), rung.set_result, None)
                await rung
            assert (await taken).ok
            await hub.comment(request.id, "mine", by="ben")
            assert await claim_holder(hub) == "ben"
            await check_fold(hub)

    async def test_journal_refuses_the_end(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """If the journal refuses to record the end of a claim, the claim stays."""
        async with asked(tmp_path, ASKS) as (hub, request, _):
            await hub.claim(request.id, by="maria")

            async def refuse(_: object) -> None:
                raise JournalError("the disk is full")

            monkeypatch.setattr(hub._live.hosted("robin-1").questions.table, "note", refuse)
            given_up = await hub.unclaim(request.id, by="maria")
            assert (given_up.ok, "the disk is full" in given_up.message) == (False, True)
            assert await claim_holder(hub) == "maria"


def let_claim_expire(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Move the clock past the end of a claim without firing its timer, as after sleep."""
    later = utc_now() + timedelta(seconds=claims.CLAIM + 1)
    monkeypatch.setattr(hub._live.hosted("robin-1").questions.table, "clock", lambda: later)


async def claim_holder(hub: Hub) -> str | None:
    """Return the operator who has claimed the only request."""
    [shown] = await hub.approvals()
    return None if shown.claim is None else shown.claim.by


class TestComment:
    async def test_is_recorded_and_shown(self, tmp_path: Path) -> None:
        """Comments appear on the request, in the transcript and in the history, with their addressee."""
        async with asked(tmp_path, ASKS) as (hub, request, _):
            assert (await hub.comment(request.id, "whose host?", by="maria")).ok
            assert (await hub.comment(request.id, "yours", by="maria", to="@ben")).ok
            [shown] = await hub.approvals()
            assert [(each.by, each.text, each.to) for each in shown.comments] == [
                ("maria", "whose host?", None),
                ("maria", "yours", "ben"),
            ]
            notes = [entry.text for entry in (await hub.session("robin-1")).transcript if entry.text]
            assert notes[-1] == "maria on deploy: @ben yours"
            lines = [headline(event) for event in events(hub.database)]
            assert any("@ben yours" in line for line in lines)
            await check_fold(hub)

    async def test_unknown_addressee_gives_a_warning(self, tmp_path: Path) -> None:
        """If operators are configured, a comment to an unknown name is accepted with a warning."""
        async with asked(tmp_path, ASKS) as (hub, request, _):
            said = await hub.comment(request.id, "yours", by="maria", to="bne")
            assert said.message == "bne is asked to look at this"
            hub.know_operators(Operators((Operator("maria"), Operator("ben", "look"))))
            for to, known in (("ben", True), ("Ben", True), ("bne", False)):
                said = await hub.comment(request.id, "yours", by="maria", to=to)
                assert said.ok
                assert ("[operators] lists nobody of that name" in said.message) is not known

    async def test_secrets_are_masked(self, tmp_path: Path) -> None:
        """Text that looks like a secret is masked for operators; the record keeps it."""
        async with asked(tmp_path, ASKS) as (hub, request, _):
            await hub.comment(request.id, "password=hunter2horse works", by="maria")
            [shown] = await hub.approvals()
            assert "hunter2horse" not in shown.model_dump_json()
            state = await hub.session("robin-1")
            assert "hunter2horse" not in state.model_dump_json()
            assert "hunter2horse" in recorded(hub.database, ApprovalCommented)[0].text
            await check_fold(hub)

    async def test_number_is_limited(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The number of comments is limited, and a comment without text is refused."""
        monkeypatch.setattr(claims, "MOST_COMMENTS", 2)
        async with asked(tmp_path, ASKS) as (hub, request, _):
            assert not (await hub.comment(request.id, "  ", by="maria")).ok
            results = [(await hub.comment(request.id, "x", by="maria")).ok for _ in range(3)]
            assert results == [True, True, False]


class TestReading:
    async def test_shown_to_all_but_not_recorded(self, tmp_path: Path) -> None:
        """All operators see who is reading a request until that ends; the record does not contain it."""
        async with asked(tmp_path, ASKS) as (hub, request, _):
            before = len(events(hub.database))
            heard = hub.subscribe()
            await hub.note_reading(request.id, True, by="maria", console="one")
            await hub.note_reading(request.id, True, by="ben", console="two")
            assert (await hub.approvals())[0].readers == ("ben", "maria")
            await hub.console_gone("one")
            await hub.note_reading(request.id, False, by="ben", console="two")
            assert (await hub.approvals())[0].readers == ()
            heard.close()
            told = [event.names async for event in heard if isinstance(event, RequestReaders)]
            assert told == [("maria",), ("ben", "maria"), ("ben",), ()]
            assert len(events(hub.database)) == before

    async def test_reader_without_renewal_is_dropped(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A reader is dropped if its console does not report again in time."""
        monkeypatch.setattr(readers, "LASTS", 0.05)
        async with asked(tmp_path, ASKS) as (hub, request, _):
            heard = hub.subscribe()
            await hub.note_reading(request.id, True, by="maria", console="one")
            async for event in heard:
                if isinstance(event, RequestReaders) and not event.names:
                    break
            assert (await hub.approvals())[0].readers == ()
