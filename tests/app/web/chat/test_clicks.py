"""Clicks in Slack that decide a request, and clicks that do not: real HTTP to a real hub."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
from aiohttp import ClientSession
from pydantic import JsonValue

from interlock.app.hosting.notifications.slack import SAMPLE, ChatTerms, button_value
from interlock.app.web.chat import decisions
from interlock.app.web.chat.slack_request import is_answer_address
from interlock.app.web.server import ConsoleServer
from interlock.engine.core.approvers import Operator, Operators
from interlock.engine.core.clock import utc_now
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.fold.event_text import headline
from interlock.engine.hub.hub import ApprovalPolicy

from ....engine.gateway.cluster.support.hubs import hub_on
from ....engine.gateway.served import until
from ....engine.support.external_agent import opened
from ..fronts import client, fronted
from .slack_app import (
    ANSWERS,
    BEN,
    BUTTONS,
    MARIA,
    OPERATORS,
    SECRET,
    STRANGER,
    TERMS,
    agent,
    payload,
    signed,
    slack_app,
    taking_clicks,
)


class TestDecided:
    async def test_approved(self, tmp_path: Path) -> None:
        """The call is allowed, the record names operator and account, the answer replaces the message."""
        async with slack_app(tmp_path) as slack, agent(slack) as bot:
            request = await slack.ask(bot, "lint", text="a.py")
            assert await slack.click(slack.button(request)) == "lint of bot: approved by maria in Slack"
            assert (await slack.calls[0]).outcome == "allow"
            body = await slack.decided(request)
            assert (body.approved, body.by) == (True, "maria")
            assert body.login == f"https://hooks.slack.com {MARIA}"
            [(address, said)] = slack.answers
            assert address == ANSWERS
            assert said["replace_original"] is True

    async def test_denied(self, tmp_path: Path) -> None:
        """The other button denies the call."""
        async with slack_app(tmp_path) as slack, agent(slack) as bot:
            request = await slack.ask(bot, "lint", text="a.py")
            said = await slack.click(slack.button(request, "deny"), "deny")
            assert said == "lint of bot: denied by maria in Slack"
            assert (await slack.calls[0]).outcome == "block"

    async def test_history_names_slack(self, tmp_path: Path) -> None:
        """The history shows that the request was decided in Slack."""
        async with slack_app(tmp_path) as slack, agent(slack) as bot:
            request = await slack.ask(bot, "lint", text="a.py")
            await slack.click(slack.button(request))
            events = await slack.hub.recorded(request.session)
            assert any("approved by maria in Slack" in headline(each) for each in events)

    async def test_overlong_request_can_only_be_denied(self, tmp_path: Path) -> None:
        """A request whose input is too long for a message can be denied in Slack, but not approved."""
        async with slack_app(tmp_path) as slack, agent(slack) as bot:
            request = await slack.ask(bot, "lint", text="x" * 5000)
            assert "too long" in await slack.click(slack.button(request))
            assert await slack.is_open(request)
            assert "denied by maria" in await slack.click(slack.button(request, "deny"), "deny")

    async def test_sample_button_decides_nothing(self, tmp_path: Path) -> None:
        """The button of `interlock notify --test` reports that it works and decides nothing."""
        async with slack_app(tmp_path) as slack:
            said = await slack.click(button_value(SECRET, "approve", SAMPLE, ""))
            assert said == "It works: maria decides from here. This was only a test"


class TestWhoClicks:
    @pytest.mark.parametrize(
        ("account", "problem"),
        [
            ("T012/U999", 'slack = "T012/U999" in ·operators.NAME·'),
            (STRANGER, "the account T999/U034 belongs to no operator here"),
            (BEN, "the role of ben is 'look', and this needs 'decide'"),
        ],
    )
    async def test_account_without_the_right_decides_nothing(
        self, tmp_path: Path, account: str, problem: str
    ) -> None:
        """An unknown account, the user id in another team and a role that is too low decide nothing."""
        async with slack_app(tmp_path) as slack, agent(slack) as bot:
            request = await slack.ask(bot, "lint", text="a.py")
            for answer in BUTTONS:
                value = slack.button(request, answer)
                said = await slack.click(value, answer, account)
                assert said.startswith("Nothing is decided: ")
                assert problem in said
                assert slack.answers[-1][1]["response_type"] == "ephemeral"
            assert await slack.is_open(request)

    async def test_unlisted_operator_decides_nothing(self, tmp_path: Path) -> None:
        """An account whose operator is no longer in the configuration decides nothing."""
        async with slack_app(tmp_path) as slack, agent(slack) as bot:
            request = await slack.ask(bot, "lint", text="a.py")
            slack.hub.know_operators(Operators((Operator("ada"),)))
            assert "belongs to no operator here" in await slack.click(slack.button(request))
            slack.hub.know_operators(Operators())
            assert "belongs to no operator here" in await slack.click(slack.button(request))
            assert await slack.is_open(request)

    async def test_account_removed_before_the_decision(self, tmp_path: Path) -> None:
        """The hub checks again at the decision whether the account is still valid."""
        async with slack_app(tmp_path) as slack, agent(slack) as bot:
            request = await slack.ask(bot, "lint", text="a.py")
            hub, decide = slack.hub, slack.hub.decide

            async def later(*args: object, **kwargs: object) -> object:
                slack.terms[0] = ChatTerms(SECRET, {}, shows_input=True)
                return await decide(*args, **kwargs)  # type: ignore[arg-type]

            hub.decide = later  # type: ignore[method-assign,assignment]
            assert "no longer in force" in await slack.click(slack.button(request))
            assert await slack.is_open(request)


class TestWhatIsClicked:
    @pytest.mark.parametrize(
        ("name", "problem"),
        [
            ("build", "does not say 'risk low'"),
            ("deploy", "does not say 'risk low'"),
            ("run", "does not say 'risk low'"),
            ("both", "does not take anybody's approval"),
            ("grouped", "does not take anybody's approval"),
            ("others", "does not take anybody's approval"),
        ],
    )
    async def test_rules_that_need_more_are_not_decided(
        self, tmp_path: Path, name: str, problem: str
    ) -> None:
        """Medium, high or no risk, two approvers, a group or `not by author` is not decided in Slack."""
        async with slack_app(tmp_path) as slack, agent(slack) as bot:
            request = await slack.ask(bot, name, text="a")
            for answer in BUTTONS:
                value = slack.button(request, answer)
                assert problem in await slack.click(value, answer)
            assert await slack.is_open(request)

    async def test_earlier_digest_is_not_accepted(self, tmp_path: Path) -> None:
        """A button for an earlier digest of the request is not accepted, even with a valid seal."""
        async with slack_app(tmp_path) as slack, agent(slack) as bot:
            request = await slack.ask(bot, "lint", text="a.py")
            old = request.model_copy(update={"digest": "0" * 64})
            assert "have changed since this message" in await slack.click(slack.button(old))
            assert await slack.is_open(request)

    async def test_edited_request_has_a_new_id(self, tmp_path: Path) -> None:
        """An edited request is requested again under another id; the old button no longer works."""
        rules = "require human-approval before lint by 2 risk low\n"
        async with slack_app(tmp_path, rules=rules) as slack, agent(slack) as bot:
            request = await slack.ask(bot, "lint", text="a.py")
            hub = slack.hub
            edited = await hub.decide(
                request.id, approved=True, by="ada", input={"text": "b.py"}, digest=request.digest
            )
            assert edited.ok
            await slack.click(slack.button(request))
            assert slack.answers[-1][1]["replace_original"] is True
            [anew] = await until(hub.approvals)
            assert anew.edited_by == "ada"
            await slack.click(slack.button(anew))
            assert await slack.is_open(anew)

    @pytest.mark.parametrize("text", ["", "{}", "approve", '{"request": "x", "digest": "y", "seal": ""}'])
    async def test_foreign_button_is_not_accepted(self, tmp_path: Path, text: str) -> None:
        """The server accepts no button that it did not make, such as one posted through the webhook."""
        async with slack_app(tmp_path) as slack, agent(slack) as bot:
            request = await slack.ask(bot, "lint", text="a.py")
            assert "this button is from another server" in await slack.click(text)
            other = button_value("another secret", "approve", request.id, request.digest or "")
            assert "this button is from another server" in await slack.click(other)
            assert "this button is from another server" in await slack.click(
                slack.button(request, "deny"), "approve"
            )
            assert await slack.is_open(request)

    async def test_earlier_decision_is_named(self, tmp_path: Path) -> None:
        """The answer names the operator who decided first, and replaces the message and its buttons."""
        async with slack_app(tmp_path) as slack, agent(slack) as bot:
            request = await slack.ask(bot, "lint", text="a.py")
            await slack.hub.decide(request.id, approved=False, by="ada", digest=request.digest)
            assert await slack.click(slack.button(request)) == "Already denied by ada"
            assert slack.answers[-1][1]["replace_original"] is True
            assert (await slack.decided(request)).by == "ada"

    async def test_expired_request_is_not_decided(self, tmp_path: Path) -> None:
        """A click after the request has expired decides nothing."""
        policy = ApprovalPolicy(expire=0.05)
        async with slack_app(tmp_path, policy=policy) as slack, agent(slack) as bot:
            request = await slack.ask(bot, "lint", text="a.py")
            await slack.calls[0]
            assert (await slack.click(slack.button(request))).startswith("Too late: ")

    async def test_freeze_allows_only_denial(self, tmp_path: Path) -> None:
        """While all agents are frozen, a click cannot approve but can still deny."""
        async with slack_app(tmp_path) as slack, agent(slack) as bot:
            request = await slack.ask(bot, "lint", text="a.py")
            await slack.hub.freeze(by="ada", reason="look first")
            said = await slack.click(slack.button(request))
            assert "all agents are frozen by ada: look first" in said
            assert await slack.is_open(request)
            assert "denied by maria" in await slack.click(slack.button(request, "deny"), "deny")

    async def test_claimed_request_needs_a_second_click(self, tmp_path: Path) -> None:
        """The first click reports another operator's claim; a second click decides anyway."""
        async with slack_app(tmp_path) as slack, agent(slack) as bot:
            request = await slack.ask(bot, "lint", text="a.py")
            await slack.hub.claim(request.id, by="ada")
            assert "ada has this: press it again" in await slack.click(slack.button(request))
            assert await slack.is_open(request)
            assert "approved by maria" in await slack.click(slack.button(request))

    async def test_hidden_inputs_prevent_approval(self, tmp_path: Path) -> None:
        """If messages no longer show inputs, a button of an earlier message cannot approve."""
        async with slack_app(tmp_path) as slack, agent(slack) as bot:
            request = await slack.ask(bot, "lint", text="a.py")
            slack.terms[0] = ChatTerms(SECRET, TERMS.accounts, shows_input=False)
            assert "messages have no input here" in await slack.click(slack.button(request))
            assert await slack.is_open(request)

    async def test_request_of_another_server_is_not_decided(self, tmp_path: Path) -> None:
        """A click that reaches another server with the same app decides nothing."""
        one, other = tmp_path / "one", tmp_path / "other"
        one.mkdir()
        other.mkdir()
        async with slack_app(one) as slack, slack_app(other) as elsewhere, agent(slack) as bot:
            request = await slack.ask(bot, "lint", text="a.py")
            assert await elsewhere.click(slack.button(request)) == "This request is no longer open"
            assert await slack.is_open(request)

    async def test_simultaneous_clicks_decide_once(self, tmp_path: Path) -> None:
        """Of two simultaneous clicks only one decides, and the record has one decision."""
        async with slack_app(tmp_path) as slack, agent(slack) as bot:
            request = await slack.ask(bot, "lint", text="a.py")
            await asyncio.gather(
                slack.post(signed(payload(slack.button(request)))),
                slack.post(signed(payload(slack.button(request, "deny"), "deny"))),
            )
            said = sorted(str(each["text"]) for _, each in slack.answers)
            assert len(said) == 2
            assert sum("in Slack" in each for each in said) == 1
            await slack.decided(request)

    async def test_failing_hub_leaves_the_request_open(self, tmp_path: Path) -> None:
        """If the hub fails, the answer reports the error, and the request stays open."""
        async with slack_app(tmp_path) as slack, agent(slack) as bot:
            request = await slack.ask(bot, "lint", text="a.py")

            async def broken() -> list[object]:
                raise OSError("the disk is gone")

            approvals, hub = slack.hub.approvals, slack.hub
            hub.approvals = broken  # type: ignore[method-assign,assignment]
            assert "the disk is gone" in await slack.click(slack.button(request))
            hub.approvals = approvals  # type: ignore[method-assign]
            assert await slack.is_open(request)


class TestSignature:
    @pytest.mark.parametrize(
        "case",
        ["secret", "stale", "ahead", "none", "no time", "twice", "body", "time", "not ascii", "empty"],
    )
    async def test_forged_request_is_refused(self, tmp_path: Path, case: str) -> None:
        """A missing, outdated or wrong signature is refused: nothing is decided or sent to Slack."""
        async with slack_app(tmp_path) as slack, agent(slack) as bot:
            request = await slack.ask(bot, "lint", text="a.py")
            said = payload(slack.button(request))
            body, headers = signed(said)
            match case:
                case "secret":
                    body, headers = signed(said, secret="another")
                case "stale":
                    body, headers = signed(said, age=301)
                case "ahead":
                    body, headers = signed(said, age=-310)
                case "none":
                    del headers["X-Slack-Signature"]
                case "no time":
                    del headers["X-Slack-Request-Timestamp"]
                case "twice":
                    headers["X-Slack-Signature"] += f", {headers['X-Slack-Signature']}"
                case "body":
                    body = body.replace(b"U034", b"U035")
                case "time":
                    headers["X-Slack-Request-Timestamp"] += "0"
                case "not ascii":
                    headers["X-Slack-Signature"] = "v0=ä"
                case _:
                    headers["X-Slack-Signature"] = ""
            status, text = await slack.post((body, headers))
            assert status == 403, text
            assert text.startswith("This does not count: ")
            assert slack.answers == []
            assert await slack.is_open(request)

    async def test_recent_signature_is_accepted(self, tmp_path: Path) -> None:
        """A request signed a few minutes ago is accepted."""
        async with slack_app(tmp_path) as slack, agent(slack) as bot:
            request = await slack.ask(bot, "lint", text="a.py")
            assert (await slack.post(signed(payload(slack.button(request)), age=280)))[0] == 200
            assert not await slack.is_open(request)

    async def test_replayed_request_is_refused(self, tmp_path: Path) -> None:
        """The same signed request is accepted only once, whatever its result."""
        async with slack_app(tmp_path) as slack, agent(slack) as bot:
            request = await slack.ask(bot, "lint", text="a.py")
            await slack.hub.freeze(by="ada")
            click = signed(payload(slack.button(request)))
            assert (await slack.post(click))[0] == 200
            await slack.hub.lift_freeze(by="ada", reason="it is all right")
            assert await slack.post(click) == (409, "This click was already taken\n")
            assert await slack.is_open(request)

    async def test_forged_clicks_do_not_block_signed_ones(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Too many forged clicks are answered with 429; clicks that Slack signed are still accepted."""
        monkeypatch.setattr(decisions, "MOST_FORGED", 3)
        async with slack_app(tmp_path) as slack, agent(slack) as bot:
            request = await slack.ask(bot, "lint", text="a.py")
            forged = signed(payload(slack.button(request)), secret="another")
            assert [(await slack.post(forged))[0] for _ in range(5)] == [403, 403, 403, 429, 429]
            assert "approved by maria" in await slack.click(slack.button(request))

    async def test_clicks_are_limited_per_account(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The number of clicks per minute is limited for each account separately."""
        monkeypatch.setattr(decisions, "MOST_CLICKS", 2)
        async with slack_app(tmp_path) as slack:
            found = [(await slack.post(signed(payload(f"{n}", account=BEN))))[0] for n in range(3)]
            assert found == [200, 200, 429]
            assert (await slack.post(signed(payload("x"))))[0] == 200


class TestRequest:
    @pytest.mark.parametrize(
        "said",
        [
            {"type": "view_submission"},
            {"actions": []},
            {"user": {"id": "U034"}},
            {"user": {"id": "maria", "team_id": "T012"}},
            {"actions": [{"type": "static_select", "action_id": "approve"}]},
            {"response_url": None},
        ],
    )
    async def test_unknown_kind_of_click_decides_nothing(
        self, tmp_path: Path, said: dict[str, JsonValue]
    ) -> None:
        """A signed request that is not a known kind of click decides nothing."""
        async with slack_app(tmp_path) as slack, agent(slack) as bot:
            request = await slack.ask(bot, "lint", text="a.py")
            status, text = await slack.post(signed(payload(slack.button(request), **said)))
            assert status == 400
            assert text.startswith("This is not accepted: ")
            assert await slack.is_open(request)

    @pytest.mark.parametrize("form", ["", "payload", "payload=1&payload=2", "payload=%7B", "other=1"])
    async def test_invalid_form_is_refused(self, tmp_path: Path, form: str) -> None:
        """A form without a payload, with two payloads or with invalid JSON is refused."""
        async with slack_app(tmp_path) as slack:
            assert (await slack.post(signed(None, form=form)))[0] == 400

    @pytest.mark.parametrize("kind", ["application/json", "text/plain", "multipart/form-data", ""])
    async def test_other_content_type_is_refused(self, tmp_path: Path, kind: str) -> None:
        """Only the content type of forms is accepted."""
        async with slack_app(tmp_path) as slack:
            body, headers = signed(payload("x"))
            headers["Content-Type"] = kind or "application/octet-stream"
            assert (await slack.post((body, headers)))[0] == 415

    async def test_oversized_body_is_refused(self, tmp_path: Path) -> None:
        """A body that is too large is refused, even if it is signed."""
        async with slack_app(tmp_path) as slack:
            assert (await slack.post(signed(payload("x", filler="x" * 100_000))))[0] == 413

    async def test_get_is_refused(self, tmp_path: Path) -> None:
        """GET is refused."""
        async with (
            slack_app(tmp_path) as slack,
            ClientSession() as session,
            session.get(f"{slack.front.url}/chat/slack") as answer,
        ):
            assert answer.status in (401, 405)

    async def test_foreign_host_name_is_refused(self, tmp_path: Path) -> None:
        """A request whose Host header names another server is refused."""
        async with slack_app(tmp_path) as slack:
            body, headers = signed(payload("x"))
            assert (await slack.post((body, {**headers, "Host": "evil.example"})))[0] == 421

    async def test_no_route_without_settings(self) -> None:
        """Without Slack settings there is no route: a stranger gets 403, a logged-in browser 404."""
        async with fronted() as front, client(front) as browser, ClientSession() as stranger:
            body, headers = signed(payload("x"))
            found = []
            for path in ("/chat/slack", "/nothing"):
                async with stranger.post(front.url + path, data=body, headers=headers) as answer:
                    found.append((answer.status, await answer.text()))
            assert found[0] == found[1]
            assert found[0][0] == 403
            headers["Origin"] = front.url
            async with browser.post(f"{front.url}/chat/slack", data=body, headers=headers) as answer:
                assert answer.status == 404

    async def test_removed_settings_return_404(self, tmp_path: Path) -> None:
        """After the settings are removed, clicks are answered with 404."""
        async with slack_app(tmp_path) as slack:
            slack.terms[0] = None
            assert (await slack.post(signed(payload("x"))))[0] == 404

    async def test_other_routes_refuse_foreign_pages(self, tmp_path: Path) -> None:
        """All other routes refuse requests from other pages."""
        async with slack_app(tmp_path) as slack:
            front: ConsoleServer = slack.front
            async with client(front) as session, session.post(f"{front.url}/logout") as answer:
                assert answer.status == 403


class TestAnswerAddress:
    @pytest.mark.parametrize(
        "url",
        [
            "http://hooks.slack.com/actions/x",
            "https://hooks.slack.com.evil.example/x",
            "https://evil.example/hooks.slack.com",
            "https://hooks.slack.com@evil.example/x",
            "https://evil.example#@hooks.slack.com/",
            "https://hooks.slack.com:8443/x",
            "https://127.0.0.1/x",
            "https://hooks.slack.com\\@evil.example/x",
            "https://[hooks.slack.com/x",
            "//hooks.slack.com/x",
            "",
        ],
    )
    def test_only_slacks_host_is_accepted(self, url: str) -> None:
        """Answers are sent only to Slack's host over HTTPS."""
        assert not is_answer_address(url)

    def test_address_from_slack_is_accepted(self) -> None:
        """The address that Slack gives is accepted."""
        assert is_answer_address(ANSWERS)

    async def test_answer_to_another_address_is_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        """An answer to another address is logged instead of sent."""
        await decisions._answer("http://127.0.0.1:1/x", {})
        assert "its address is not Slack's" in caplog.text


class TestLate:
    async def test_request_without_its_client_cannot_be_approved(self, tmp_path: Path) -> None:
        """If the client has given up the call, the request cannot be approved in Slack."""
        policy = ApprovalPolicy(late=600.0)
        async with slack_app(tmp_path, policy=policy) as slack, agent(slack) as bot:
            assert (await bot.call("lint", {"text": "a"}, call_id="c1", wait=0.01)).outcome == "waiting"
            await until(slack.hub.approvals)
            await bot.give_up("c1")
            [late] = await slack.hub.approvals()
            assert late.late is not None
            assert late.late > utc_now() + timedelta(seconds=60)
            assert "its client is gone" in await slack.click(slack.button(late))
            assert await slack.is_open(late)


class TestManyServers:
    async def test_sessions_own_server_decides(self, postgresql: PostgresLocation) -> None:
        """Another server of the database takes the click, and the session's own server decides."""
        here, there = await hub_on(postgresql), await hub_on(postgresql)
        try:
            for each in (here, there):
                each.know_operators(OPERATORS)
            await opened(here, "require human-approval before deploy risk low\n")
            call = asyncio.ensure_future(here.call("robin-1", "d1", "deploy", {"env": "prod"}))
            [request] = await until(there.approvals)
            async with taking_clicks(there) as slack:
                said = await slack.click(slack.button(request))
                assert said.endswith(": approved by maria in Slack")
                assert (await call).outcome == "allow"
                body = await slack.decided(request)
                assert (body.by, body.login) == ("maria", f"https://hooks.slack.com {MARIA}")
        finally:
            await here.close()
            await there.close()
