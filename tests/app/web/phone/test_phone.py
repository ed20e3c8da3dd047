"""The page on a phone: from a login link to a decision by touch, and what it shows on the way."""

from __future__ import annotations

import asyncio
from math import inf
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, Request, expect

from interlock.app.screens.common.guarded_keys import ASLEEP
from interlock.engine.history.journal import write_monitor
from interlock.engine.history.model.events import ApprovalDecided

from ..fronts import NEEDS_CHROMIUM, until
from .phones import Phones, agent, awake, deploy, enter, erase, open_request, phone, phones, run

pytestmark = [NEEDS_CHROMIUM, pytest.mark.asyncio(loop_scope="session")]

MOST_BYTES = 60_000
"""Limit in bytes for the first view of a request, with everything that it loads."""
LONG = "\n".join(f"line {number} of a script" for number in range(200))


async def recorded_decisions(of: Phones) -> list[ApprovalDecided]:
    """Return every decision in the journal."""
    recorded = [await of.served.hub.recorded(each.id) for each in await of.served.hub.history()]
    return [e.body for events in recorded for e in events if isinstance(e.body, ApprovalDecided)]


async def read_to_the_end(page: Page) -> None:
    """Scroll to the end by less than a screen at a time, as a thumb does."""
    for _ in range(200):
        if await page.locator("#next").is_hidden():
            return
        await page.mouse.wheel(0, 300)
        await page.evaluate("() => new Promise(requestAnimationFrame)")
    raise AssertionError("there is always more to read")


@pytest.mark.slow
class TestTogether:
    async def test_claim_and_comment_are_shown(self, tmp_path: Path, browser: Browser) -> None:
        """An operator claims a request and comments to another; the page shows claim and comment."""
        async with phones(tmp_path) as of, phone(browser) as page, agent(of) as gate:
            await enter(page, of)
            of.ask(gate(deploy)(env="prod"))
            await open_request(page, of, (await of.asked())[0])
            await page.tap("text=Take it on")
            await page.wait_for_selector("text=Give it up")
            await page.tap("summary >> text=Comment")
            await page.fill("#comment", "@ben whose host is this?")
            await page.tap("text=Send the comment")
            await expect(page.locator("article[data-view=request]")).to_contain_text(
                "whose host is this?"
            )
            await expect(page.locator("#comment")).to_have_value("")
            [request] = await of.asked()
            assert request.claim is not None
            assert [each.to for each in request.comments] == ["ben"]
            # New parts of the page have to be seen before an approval.
            await expect(page.locator("#right")).to_have_attribute("aria-disabled", "true")

    async def test_outage_is_shown_until_it_ends(
        self, tmp_path: Path, browser: Browser, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The page shows that the journal cannot be written until the outage ends."""
        monkeypatch.setattr(write_monitor, "PROOF_SECONDS", inf)
        async with phones(tmp_path) as of, phone(browser) as page:
            await enter(page, of)
            await expect(page.locator("#outage")).to_be_empty()
            monitor = of.served.hub._journal._monitor
            monitor.begin()
            monitor.end(OSError("disk full"))
            await expect(page.locator("#outage")).to_contain_text("The journal cannot be written since")
            await expect(page.locator("#outage")).to_contain_text("may not be recorded")
            monitor.end(None)
            await expect(page.locator("#outage")).to_be_empty()

    async def test_frozen_and_lifted(self, tmp_path: Path, browser: Browser) -> None:
        """A phone freezes all agents; lifting without a reason shows a message at the field."""
        async with phones(tmp_path) as of, phone(browser) as page:
            await enter(page, of)
            await page.tap("summary >> text=Freeze all agents")
            await page.fill("#why-freeze", "deploys look wrong")
            await page.tap("button >> text=Freeze all agents")
            await expect(page.locator(".warning")).to_contain_text("frozen by ada: deploys look wrong")
            await page.tap("summary >> text=Lift the freeze")
            await page.tap("button >> text=Lift the freeze")
            await expect(page.locator("#preason")).to_contain_text("Type a reason")
            assert of.served.hub.current_freeze() is not None
            await page.fill("#why-lift", "it is replaced")
            await asyncio.sleep(ASLEEP + 0.05)
            await page.tap("button >> text=Lift the freeze")
            await page.wait_for_selector("summary >> text=Freeze all agents")
            assert of.served.hub.current_freeze() is None


class TestDeciding:
    async def test_login_link_to_decided_request(self, tmp_path: Path, browser: Browser) -> None:
        """A phone logs in, opens a new request, approves it by touch, and lists it as decided."""
        async with phones(tmp_path) as of, phone(browser) as page, agent(of) as gate:
            await enter(page, of)
            assert "Nothing waits" in await page.inner_text("main")
            call = of.ask(gate(deploy)(env="prod"))
            await page.tap(".rows a")
            await page.wait_for_selector("article[data-view=request]")
            text = await page.inner_text("article")
            for each in ('"prod"', "risk high", "require human-approval before deploy", "<rules>:1"):
                assert each in text
            await awake(page)
            await page.tap("#right")
            assert await call == "deployed to prod"
            await expect(page.locator("#said")).to_contain_text("approved by ada")
            await page.tap("nav >> text=Decided")
            await expect(page.locator(".verdict")).to_contain_text("approved by ada")

    @pytest.mark.slow
    async def test_a_denial_has_a_reason(self, tmp_path: Path, browser: Browser) -> None:
        """Deny opens a field that offers the configured reasons; a second button denies."""
        reasons = ("not today",)
        async with (
            phones(tmp_path, deny_reasons=reasons) as of,
            phone(browser) as page,
            agent(of) as gate,
        ):
            await enter(page, of)
            of.ask(gate(deploy)(env="prod"))
            await open_request(page, of, (await of.asked())[0])
            await awake(page, "left")
            await page.tap("#left")
            assert await page.locator("#reasons option").get_attribute("value") == "not today"
            await page.fill("#reason", "after the freeze")
            await awake(page)
            await page.tap("#right")
            await page.wait_for_selector("article[data-view=queue]")
            [answer] = await recorded_decisions(of)
            assert (answer.approved, answer.by, answer.reason) == (False, "ada", "after the freeze")
            await page.tap("nav >> text=Decided")
            await expect(page.locator(".why")).to_contain_text("after the freeze")

    @pytest.mark.slow
    async def test_an_edit_is_reviewed(self, tmp_path: Path, browser: Browser) -> None:
        """A changed field is shown before and after and only then approved; the call runs with it."""
        async with phones(tmp_path) as of, phone(browser) as page, agent(of) as gate:
            await enter(page, of)
            call = of.ask(gate(deploy)(env="prod"))
            await open_request(page, of, (await of.asked())[0])
            await page.tap("summary >> text=Edit the input")
            await page.tap("text=Review the changes")
            await expect(page.locator("#said")).to_contain_text("Nothing is changed")
            await page.fill("#f0", "staging")
            await page.tap("text=Review the changes")
            panel = page.locator("[data-panel=review]")
            await expect(panel.locator(".removed")).to_contain_text('- "prod"')
            await expect(panel.locator(".added")).to_contain_text('+ "staging"')
            await awake(page)
            await page.tap("#right")
            assert await call == "deployed to staging"

    @pytest.mark.slow
    async def test_a_grant_is_read_before_it_is_given(self, tmp_path: Path, browser: Browser) -> None:
        """The review shows the grant's sentence, a reason is required, and the next call is allowed."""
        async with phones(tmp_path) as of, phone(browser) as page, agent(of) as gate:
            await enter(page, of)
            call = of.ask(gate(deploy)(env="prod"))
            await open_request(page, of, (await of.asked())[0])
            await page.tap("summary >> text=Approve later calls too")
            await page.tap("text=a number of calls")
            await page.fill("#typed", "2")
            await page.tap("text=Read what it allows")
            await expect(page.locator("#preason")).to_contain_text("recorded with the grant")
            await page.fill("#why-grant", "release day")
            await page.tap("text=Read what it allows")
            await expect(page.locator("[data-panel=review]")).to_contain_text(
                "the next 2 calls of deploy"
            )
            await awake(page)
            await page.tap("#right")
            assert await call == "deployed to prod"
            assert await gate(deploy)(env="prod") == "deployed to prod"


@pytest.mark.slow
class TestGuards:
    async def test_a_tap_that_comes_too_early_does_nothing(
        self, tmp_path: Path, browser: Browser
    ) -> None:
        """Within 0.4 s after a request is painted, no tap decides."""
        async with phones(tmp_path) as of, phone(browser) as page, agent(of) as gate:
            await enter(page, of)
            of.ask(gate(deploy)(env="prod"))
            [request] = await of.asked()
            await page.evaluate(
                """() => {
                  window.taps = 0;
                  new MutationObserver(() => {
                    if (!document.querySelector("article[data-view=request]")) return;
                    for (const side of ["left", "right"]) {
                      const button = document.getElementById(side);
                      for (const kind of ["pointerdown", "click"])
                        button.dispatchEvent(new PointerEvent(kind, { bubbles: true, detail: 1 }));
                      window.taps += 1;
                    }
                  }).observe(document.getElementById("main"), { childList: true });
                }"""
            )
            await page.tap(".rows a")
            await page.wait_for_selector("article[data-view=request]")
            assert await page.evaluate("window.taps") >= 2
            await awake(page)
            assert await page.locator("[data-panel=deny]").is_hidden()
            assert [each.id for each in await of.asked()] == [request.id]

    async def test_a_long_part_has_to_be_opened_and_read(self, tmp_path: Path, browser: Browser) -> None:
        """A long input must be unfolded and scrolled through before an approval; a jump is not enough."""
        async with phones(tmp_path) as of, phone(browser) as page, agent(of) as gate:
            await enter(page, of)
            call = of.ask(gate(run)(text=LONG))
            await open_request(page, of, (await of.asked())[0])
            await awake(page, "left")
            await expect(page.locator("summary").first).to_contain_text("200 lines")
            for gesture in ("closed", "open", "jump"):
                if gesture == "open":
                    await page.tap("summary >> nth=0")
                if gesture == "jump":
                    await page.evaluate("scrollTo(0, document.body.scrollHeight)")
                await awake(page, "left")
                await expect(page.locator("#wake")).to_contain_text("left")
                await page.tap("#right", force=True)  # Even though the button says that it is disabled.
                assert len(await of.asked()) == 1, gesture
            await page.evaluate("scrollTo(0, 0)")
            await read_to_the_end(page)
            await awake(page)
            await page.tap("#right")
            assert await call == LONG

    async def test_button_shows_the_input_screen_by_screen(
        self, tmp_path: Path, browser: Browser
    ) -> None:
        """A button unfolds the input and shows it screen by screen, for operators who cannot scroll."""
        async with phones(tmp_path) as of, phone(browser) as page, agent(of) as gate:
            await enter(page, of)
            call = of.ask(gate(run)(text=LONG))
            await open_request(page, of, (await of.asked())[0])
            while await page.locator("#next").is_visible():
                await page.locator("#next").press("Enter")
            await awake(page)
            await page.locator("#right").press("Enter")
            assert await call == LONG

    async def test_buttons_have_equal_size_and_are_off_while_scrolling(
        self, tmp_path: Path, browser: Browser
    ) -> None:
        """The buttons have the same size and distinct labels, and are off while the page scrolls."""
        async with phones(tmp_path) as of, phone(browser) as page, agent(of) as gate:
            await enter(page, of)
            of.ask(gate(deploy)(env="prod"))
            await open_request(page, of, (await of.asked())[0])
            await awake(page)
            left, right = await page.locator("#left").bounding_box(), None
            right = await page.locator("#right").bounding_box()
            assert left is not None
            assert right is not None
            assert (left["width"], left["height"]) == (right["width"], right["height"])
            assert min(left["height"], left["width"]) >= 44
            assert await page.inner_text("#left") == "✗ Deny"
            assert await page.inner_text("#right") == "✓ Approve"
            await page.evaluate("scrollBy(0, 40); new Promise(requestAnimationFrame)")
            assert await page.evaluate(
                """() => new Promise((done) => {
                  addEventListener("scroll", () => requestAnimationFrame(() => {
                    for (const kind of ["pointerdown", "click"])
                      document.getElementById("right").dispatchEvent(
                        new PointerEvent(kind, { bubbles: true, detail: 1 }));
                    done(document.getElementById("wake").textContent);
                  }), { once: true });
                  scrollBy(0, 40);
                })"""
            )
            await awake(page)
            assert len(await of.asked()) == 1


@pytest.mark.slow
class TestElsewhere:
    async def test_only_one_of_two_answers_counts(self, tmp_path: Path, browser: Browser) -> None:
        """Only one answer counts; the other phone shows that the request is already decided."""
        async with (
            phones(tmp_path) as of,
            phone(browser) as one,
            phone(browser) as two,
            agent(of) as gate,
        ):
            for each in (one, two):
                await enter(each, of)
            of.ask(gate(deploy)(env="prod"))
            [request] = await of.asked()
            for each in (one, two):
                await open_request(each, of, request)
                await awake(each)
            await two.tap("#left")
            await awake(two)
            await asyncio.gather(one.tap("#right"), two.tap("#right"))
            ended = [page.locator("article:not([data-view=request])").first for page in (one, two)]
            for each in ended:
                await expect(each).to_be_visible()
            assert len(await recorded_decisions(of)) == 1
            said = " ".join([await page.inner_text("body") for page in (one, two)])
            assert "Already" in said

    async def test_request_decided_elsewhere_loses_its_buttons(
        self, tmp_path: Path, browser: Browser
    ) -> None:
        """The open page names the operator who decided, with the reason, and hides its buttons."""
        async with phones(tmp_path) as of, phone(browser) as page, agent(of) as gate:
            await enter(page, of)
            of.ask(gate(deploy)(env="prod"))
            [request] = await of.asked()
            await open_request(page, of, request)
            await of.served.hub.decide(
                request.id, approved=False, by="ben", reason="no release", digest=request.digest
            )
            await expect(page.locator(".over")).to_contain_text("Already denied by ben: no release")
            assert await page.locator("#bar").is_hidden()

    async def test_first_of_two_approvals_is_shown(self, tmp_path: Path, browser: Browser) -> None:
        """Another operator's approval appears on the open page and has to be seen before approving."""
        async with phones(tmp_path) as of, phone(browser) as page, agent(of) as gate:
            await enter(page, of)
            call = of.ask(gate(erase)(text="disk"))
            [request] = await of.asked()
            await open_request(page, of, request)
            await awake(page)
            await of.served.hub.decide(request.id, approved=True, by="ben", digest=request.digest)
            await expect(page.locator("article").first).to_contain_text("1 of 2: ben")
            await awake(page)
            await page.tap("#right")
            assert await call == "disk"

    async def test_lost_server_is_shown(self, tmp_path: Path, browser: Browser) -> None:
        """While disconnected, the page cannot decide; it reconnects by itself when the server is back."""
        async with phone(browser) as page:
            async with phones(tmp_path / "one") as of, agent(of) as gate:
                await enter(page, of)
                of.ask(gate(deploy)(env="prod"))
                await open_request(page, of, (await of.asked())[0])
                await awake(page)
                port, logins = int(of.front.url.rpartition(":")[2]), of.front.logins
                # Before the agent: its end would withdraw the request.
                await of.front.close()
            await expect(page.locator("#link")).to_contain_text("Disconnected")
            await expect(page.locator("#right")).to_have_attribute("aria-disabled", "true")
            assert "(disconnected)" in await page.title()
            async with phones(tmp_path / "two", port=port, logins=logins) as of:
                await expect(page.locator("#link")).to_have_text("", timeout=20_000)
                await expect(page.locator(".over")).to_contain_text("not open")


@pytest.mark.slow
class TestLooks:
    async def test_first_load_is_small(self, tmp_path: Path, browser: Browser) -> None:
        """A phone loads at most 60 kB up to a request, all of it from this server."""
        async with phones(tmp_path) as of, phone(browser) as page, agent(of) as gate:
            await enter(page, of)
            of.ask(gate(deploy)(env="prod"))
            [request] = await of.asked()
            sizes: dict[str, int] = {}
            weighing: list[asyncio.Task[None]] = []

            async def weigh(asked: Request) -> None:
                found = await asked.sizes()
                parts = found["responseHeadersSize"], found["responseBodySize"]
                sizes[asked.url] = sizes.get(asked.url, 0) + sum(max(0, each) for each in parts)

            def finished(asked: Request) -> None:
                weighing.append(asyncio.ensure_future(weigh(asked)))

            page.on("requestfinished", finished)
            await open_request(page, of, request)
            await awake(page)
            page.remove_listener("requestfinished", finished)
            await asyncio.gather(*weighing)
            assert all(url.startswith(of.front.url + "/") for url in sizes)
            assert 10_000 < sum(sizes.values()) <= MOST_BYTES, sizes

    async def test_light_and_dark(self, tmp_path: Path, browser: Browser) -> None:
        """The page follows the phone's colour scheme."""
        grounds = []
        async with phones(tmp_path) as of, phone(browser) as page:
            await enter(page, of)
            for colours in ("light", "dark"):
                await page.emulate_media(color_scheme=colours)  # type: ignore[arg-type]
                grounds.append(await page.evaluate("getComputedStyle(document.body).backgroundColor"))
        assert grounds == ["rgb(255, 255, 255)", "rgb(20, 24, 29)"]

    async def test_phone_is_redirected_to_the_phone_page(self, tmp_path: Path, browser: Browser) -> None:
        """A phone is led to the phone page, also by a request's link; a link opens the terminal."""
        async with phones(tmp_path) as of, phone(browser) as page:
            await enter(page, of)
            await page.goto(of.front.url)
            await until(lambda: page.url == f"{of.front.url}/m/", "the page for phones")
            answer = await page.goto(f"{of.front.url}/a/abc")
            assert answer is not None
            assert page.url == f"{of.front.url}/m/a/abc"
            await expect(page.locator(".over")).to_contain_text("not open")
            await page.tap("nav >> text=Terminal")
            await page.wait_for_selector("#terminal")
            assert page.url == f"{of.front.url}/console"
