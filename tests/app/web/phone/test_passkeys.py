"""Passkeys on a phone, with Chromium's virtual authenticator: enrolled, used, and required."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from interlock.app.screens.common.guarded_keys import ASLEEP
from interlock.engine.core.approvers import Operator, Operators
from interlock.engine.history.audit.verify import verify_journal
from interlock.engine.history.model.events import ApprovalDecided, ApprovalGiven
from interlock.engine.hub.api import KeyRequest
from tests.support.authenticator import Authenticator

from ..fronts import NEEDS_CHROMIUM
from .phones import (
    Program,
    add_key,
    agent,
    authenticator,
    awake,
    deploy,
    enter,
    keyed_phones,
    open_request,
    phone,
    phones,
    program,
)
from .test_accessibility import violations

pytestmark = [NEEDS_CHROMIUM, pytest.mark.asyncio(loop_scope="session")]

ONE = "require human-approval before deploy risk high with passkey"
TWO = "require human-approval before deploy by 2 of security not by author with passkey"
SECURITY = Operators((Operator("ada", groups=("security",)), Operator("ben", groups=("security",))))


async def asked(page: Program, act: str, body: object) -> KeyRequest:
    """Return the key request that the server sends to the page."""
    status, said = await page.post(f"/m/keys/{act}", body)
    assert status == 200, said
    found = KeyRequest.model_validate_json(said)
    assert found.ok, found.message
    return found


class TestOne:
    @pytest.mark.slow
    async def test_passkey_is_enrolled_and_used(self, tmp_path: Path, browser: Browser) -> None:
        """An operator enrolls a passkey on a phone and approves a request with it."""
        async with (
            keyed_phones(tmp_path, "ada", rules=ONE, operators=SECURITY) as [of],
            phone(browser) as page,
            agent(of) as gate,
            authenticator(page),
        ):
            await enter(page, of)
            call = of.ask(gate(deploy)(env="prod"))
            [request] = await of.asked()
            await open_request(page, of, request)
            await awake(page, "left")
            await expect(page.locator("#wake")).to_contain_text("you have none for this page")
            await expect(page.locator("#right")).to_have_attribute("aria-disabled", "true")
            assert await violations(page) == []
            await add_key(page, of)
            assert await violations(page) == []
            await expect(page.locator("article")).to_contain_text("confirmed by a code")
            await open_request(page, of, request)
            await awake(page)
            await expect(page.locator("#right")).to_have_text("✓ Approve with key")
            await page.tap("#right")
            await expect(page.locator("#said")).to_contain_text("deploy approved by ada")
            assert await call == "deployed to prod"
            [decided] = [
                each.body
                for found in await of.served.hub.history()
                for each in await of.served.hub.recorded(found.id)
                if isinstance(each.body, ApprovalDecided)
            ]
            assert decided.proof is not None
            assert decided.proof.rp == "localhost"

    @pytest.mark.slow
    async def test_missing_user_verification_leaves_the_request_open(
        self, tmp_path: Path, browser: Browser
    ) -> None:
        """If the device cannot verify its owner, the request stays open."""
        async with (
            keyed_phones(tmp_path, "ada", rules=ONE, operators=SECURITY) as [of],
            phone(browser) as page,
            agent(of) as gate,
            authenticator(page) as device,
        ):
            await enter(page, of)
            await add_key(page, of)
            await device.lock()
            of.ask(gate(deploy)(env="prod"))
            [request] = await of.asked()
            await open_request(page, of, request)
            await awake(page)
            await page.tap("#right")
            await expect(page.locator("#said")).to_contain_text("signed nothing")
            assert [each.id for each in await of.served.hub.approvals()] == [request.id]

    @pytest.mark.slow
    async def test_key_is_removed_and_reported(self, tmp_path: Path, browser: Browser) -> None:
        """Two taps remove a key, and the server's terminal reports the removal."""
        async with (
            keyed_phones(tmp_path, "ada", rules=ONE, operators=SECURITY) as [of],
            phone(browser) as page,
            authenticator(page),
        ):
            await enter(page, of)
            await add_key(page, of)
            row = page.locator(".rows li", has_text="phone")
            await row.locator("summary").tap()
            assert await violations(page) == []
            await row.locator("button").tap()
            await expect(page.locator("#said")).to_contain_text("Passkey 'phone' is removed")
            await expect(page.locator("article")).to_contain_text("ada has none yet")
            assert "is removed" in of.said[-1]

    async def test_second_key_is_confirmed_by_the_first(self, tmp_path: Path) -> None:
        """The page asks the earlier key to sign, and no code is shown."""
        async with (
            keyed_phones(tmp_path, "ada", rules=ONE, operators=SECURITY) as [of],
            program(of) as page,
        ):
            device = Authenticator(of.front.url)
            for name in ("phone", "stick"):
                begun = await asked(page, "begin", {})
                made = await asked(page, "register", device.make(begun, name).model_dump(mode="json"))
                confirmation = {"id": made.id, "code": of.said[-1].partition("code ")[2][:9]}
                if made.options is not None:
                    answer = device.sign(made).model_dump(mode="json")
                    confirmation = {"id": made.id, "passkey": answer}
                _, said = await page.post("/m/keys/confirm", confirmation)
                assert f"Passkey '{name}' is enrolled" in said
            assert "confirmed by an earlier key" in of.said[-1]
            assert sum("code" in each and "by a code" not in each for each in of.said) == 1

    @pytest.mark.slow
    async def test_an_answer_without_a_key_is_refused(self, tmp_path: Path) -> None:
        """A program with the login and the tab's secret but without the passkey decides nothing."""
        async with phones(tmp_path, rules=ONE) as of, agent(of) as gate, program(of) as other:
            of.ask(gate(deploy)(env="prod"))
            [request] = await of.asked()
            await other.get(f"/m/part?view=/m/a/{request.id}")
            await asyncio.sleep(ASLEEP + 0.05)
            status, said = await other.post(
                f"/m/a/{request.id}/decide", {"digest": request.digest, "approved": True}
            )
            assert status == 200
            assert "its rule asks for a passkey" in said
            status, said = await other.post(f"/m/a/{request.id}/challenge", {"digest": request.digest})
            assert "passkeys need a host name, and 127.0.0.1 is an address" in said
            assert await of.served.hub.approvals()


class TestTwoOfSecurity:
    @pytest.mark.slow
    async def test_two_phones_approve_and_the_journal_verifies(
        self, tmp_path: Path, browser: Browser
    ) -> None:
        """Two operators approve, each with a phone and a passkey; the journal proves both (G-107)."""
        async with (
            keyed_phones(tmp_path, "ada", "ben", rules=TWO, operators=SECURITY) as [ada, ben],
            phone(browser) as adas,
            phone(browser) as bens,
            agent(ada) as gate,
            authenticator(adas),
            authenticator(bens),
        ):
            for page, of in ((adas, ada), (bens, ben)):
                await enter(page, of)
                await add_key(page, of)
            call = ada.ask(gate(deploy)(env="prod"))
            [request] = await ada.asked()
            await open_request(adas, ada, request)
            await expect(adas.locator("article[data-view=request]")).to_contain_text(
                "needs 2 of security with passkey"
            )
            await awake(adas)
            await adas.tap("#right")
            await expect(adas.locator("#said")).to_contain_text("one more person must approve")
            await open_request(bens, ben, request)
            await awake(bens)
            await bens.tap("#right")
            await expect(bens.locator("#said")).to_contain_text("deploy approved by ben")
            assert await call == "deployed to prod"
            hub = ada.served.hub
            [session] = [each.id for each in await hub.history()]
            events = [each.body for each in await hub.recorded(session)]
            proved = [e for e in events if isinstance(e, ApprovalGiven | ApprovalDecided)]
            assert [(each.by, each.proof is not None) for each in proved] == [
                ("ada", True),
                ("ben", True),
            ]
            [found] = verify_journal(hub.database)
            assert (found.proofs, found.unproved, found.fault) == (2, (), None)
