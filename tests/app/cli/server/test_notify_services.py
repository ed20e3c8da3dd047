"""Messages to services: real HTTP and SMTP on loopback, in the forms of ntfy, Mattermost and e-mail."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from interlock.app.cli.main import main
from interlock.app.config.loader import SettingsError
from interlock.app.config.notifications import NotifySettings, notify_settings
from interlock.app.hosting.notifications.delivery import SendError
from interlock.app.hosting.notifications.notifier import payload_of, send_notification
from interlock.app.hosting.notifications.service_messages import (
    Message,
    _reason,
    service_name,
    tell_service,
    waiting_message,
    without_markup,
)
from interlock.engine.core.approvers import Approvers, Escalation
from interlock.engine.history.model.events import ApprovalEscalated

from ...support.scenes import NOW, deploy_request
from .test_notify import FAILS, Server, running, served

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}"
FORMS = (
    "ntfy://127.0.0.1:1/topic",
    "ntfys://topic",
    "mailto://user:word@mail.example?to=oncall@mail.example",
    "mailtos://user:word@mail.example",
    "slack://TAAAAAAAA/BAAAAAAAA/abcdefghijklmnopqrstuvwx",
    "https://hooks.slack.com/services/TAAAAAAAA/BAAAAAAAA/abcdefghijklmnopqrstuvwx",
    "mmosts://chat.example/abcdefghijklmnopqrstuvwxyz",
    "pagerduty://abcdefghijklmnopqrstuvwxyzabcdef@abcdefghijklmnopqrst",
    "workflows://host.example:443/workflow_id/signature",
    "discord://123456789012345678/abcdefghijklmnopqrstuvwxyz",
)
"""Addresses as in the documentation."""


def ntfy(server: Server) -> str:
    return f"ntfy://127.0.0.1:{server.port}/oncall-s3cr3t"


def bodies(server: Server) -> list[dict[str, str]]:
    return [json.loads(body) for _, _, body in server.heard]


class TestMessage:
    def test_message_has_summary_rule_digest_and_link(self) -> None:
        """The message has the summary, rule, place, start of the digest and link, but not the input."""
        request = deploy_request(risk="high", digest="0123456789abcdef")
        told = payload_of(request, NOW, include_input=False, link="https://desk.example")
        message = waiting_message(told)
        assert message.title == "deploy of release-bot has waited for 1 min for approval, risk high"
        rule, digest, link = message.text.splitlines()
        assert rule.startswith("rule: require human-approval before deploy (")
        assert digest == "digest: 0123456789ab"
        assert link == "https://desk.example/m/a/ap1"

    def test_include_input_adds_beginning_of_input(self) -> None:
        """With `include_input` the message has the beginning of the input."""
        request = deploy_request(input={"text": "x" * 5000})
        [line] = [
            line
            for line in waiting_message(payload_of(request, NOW, include_input=True)).text.splitlines()
            if line.startswith("input: ")
        ]
        assert len(line) < 1100
        assert line.endswith("…")

    @pytest.mark.parametrize("name", ["<!channel>", "@here", "<@U123>", "*x* ~y~ `z`", "[x](y)", "#ops"])
    def test_agent_name_cannot_apply_markup(self, name: str) -> None:
        """An agent's name cannot mention users or apply markup."""
        request = deploy_request(agent=name, tool=name, called=name, input={"a": name})
        message = waiting_message(payload_of(request, NOW, include_input=True))
        assert not set("<>@&*~`|[]#") & set(message.title + message.text)

    @pytest.mark.parametrize(
        ("given", "shown"),
        [
            ("_quiet_ __bold__", "·quiet· ·bold·"),
            ("read_web_page", "read_web_page"),
            ("=?utf-8?b?YXBwcm92ZWQ?=", "·?utf-8?b?YXBwcm92ZWQ?="),
            (":white_check_mark: ok", "·white_check_mark: ok"),
            ("https://evil.example/m/a/1", "https·//evil.example/m/a/1"),
            ("10:30:45", "10:30:45"),
        ],
    )
    def test_style_and_links_have_no_effect(self, given: str, shown: str) -> None:
        """Underscores, emoji codes, encoded words and URL schemes lose their effect."""
        assert without_markup(given) == shown


class TestSend:
    async def test_each_service_has_its_own_error(self) -> None:
        """If two services fail at the same time, each error has the reason of its own service."""
        async with served(FAILS) as first, served(FAILS) as second:
            other = f"json://user:word@127.0.0.1:{second.port}/s3cr3t"
            said = await asyncio.gather(
                *(tell_service(each, Message("a", "b")) for each in (ntfy(first), other)),
                return_exceptions=True,
            )
        assert "ntfy notification" in str(said[0])
        assert "JSON" not in str(said[0])
        assert "JSON" in str(said[1])

    def test_reason_omits_the_address(self) -> None:
        """The reason contains no part of the address, even if one part is a prefix of another."""
        address = "slack://abcdef/abcdefghi"
        assert "ghi" not in _reason("no such abcdefghi, nor abcdef", address)

    async def test_ntfy(self) -> None:
        """An ntfy message is one HTTP request with title and text."""
        async with served(OK) as server:
            assert await tell_service(ntfy(server), Message("deploy waits", "rule: x")) == "ntfy"
        [said] = bodies(server)
        assert (said["topic"], said["title"], said["message"]) == (
            "oncall-s3cr3t",
            "deploy waits",
            "rule: x",
        )

    async def test_mattermost(self) -> None:
        """The Mattermost webhook gets JSON whose text contains title and text."""
        async with served(OK) as server:
            address = f"mmost://127.0.0.1:{server.port}/abcdefghijklmnopqrstuvwxyz"
            await tell_service(address, Message("deploy waits", "rule: x"))
        [said] = bodies(server)
        assert "deploy waits" in said["text"]
        assert "rule: x" in said["text"]

    async def test_mail(self) -> None:
        """The mail has the title as its subject."""
        async with mail_server() as (port, mails):
            address = (
                f"mailto://127.0.0.1:{port}?from=interlock@a.example&to=oncall@b.example&mode=insecure"
            )
            await tell_service(address, Message("deploy waits", "rule: x"))
        [mail] = mails
        assert "Subject: deploy waits" in mail
        assert "rule: x" in mail

    async def test_error_has_answer_but_no_secret(self) -> None:
        """The error has the service's answer, but no secret of its address."""
        async with served(FAILS) as server:
            with pytest.raises(SendError, match=r"ntfy did not take the message: .*500") as caught:
                await tell_service(ntfy(server), Message("a", "b"))
        assert "s3cr3t" not in str(caught.value)

    @pytest.mark.slow
    async def test_silent_service_is_a_failure(self) -> None:
        """A service that never answers is a failure after the timeout."""
        async with served(b"") as server:
            with pytest.raises(SendError, match="ntfy did not"):
                await tell_service(ntfy(server), Message("a", "b"), timeout=0.5)

    async def test_configured_service_gets_message_with_link(self) -> None:
        """A configured service gets a message about a request, with the link to its page."""
        async with served(OK) as server:
            settings = NotifySettings(to=(ntfy(server),), link="https://desk.example")
            assert await send_notification(settings, deploy_request(), NOW, ntfy(server)) == "ntfy"
        assert "https://desk.example/m/a/ap1" in bodies(server)[0]["message"]

    def test_only_service_name_is_shown(self) -> None:
        """Only the service's name is shown of an address."""
        assert service_name("slack://secret/words") == "slack"


@asynccontextmanager
async def mail_server() -> AsyncIterator[tuple[int, list[str]]]:
    """Run a server that accepts every mail."""
    mails: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 here\r\n")
        while line := (await reader.readline()).decode().strip():
            verb = line.split()[0].upper()
            if verb == "DATA":
                writer.write(b"354 go on\r\n")
                mails.append((await reader.readuntil(b"\r\n.\r\n")).decode())
            writer.write(b"221 bye\r\n" if verb == "QUIT" else b"250 ok\r\n")
            if verb == "QUIT":
                break
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield listening.sockets[0].getsockname()[1], mails
    finally:
        listening.close()


class TestWhen:
    async def test_notified_service_gets_the_decision(self) -> None:
        """A service that was notified of a request is notified of its decision."""
        async with served(OK) as server, running(NotifySettings(to=(ntfy(server),))) as on:
            on.hub.request(deploy_request())
            await on.waiting.slept(1)
            on.waiting.wake(1)
            await on.waiting.until(lambda: len(server.heard) == 1)
            on.hub.decided_elsewhere("ap1", approved=True, by="jo")
            await on.waiting.until(lambda: len(server.heard) == 2)
            said = bodies(server)[1]
            assert "approved by jo" in said.get("title", "") + said["message"]
            assert on.problems == []

    async def test_other_service_does_not_get_the_decision(self) -> None:
        """A service that was not notified of a request is not notified of its decision."""
        async with served(OK) as server, running(NotifySettings(to=(ntfy(server),))) as on:
            on.hub.request(deploy_request())
            await on.waiting.slept(1)
            on.hub.decided_elsewhere("ap1", approved=False, by="jo")
            await on.waiting.until(on.waiting.sleeps[0][1].cancelled)
            on.hub.request(deploy_request(id="ap2"))
            await on.waiting.slept(2)
            on.waiting.wake(2)
            await on.waiting.until(lambda: len(server.heard) == 1)
            assert "denied" not in bodies(server)[0]["message"]

    async def test_later_services_wait_longer(self) -> None:
        """Services in `later` are notified after their longer time."""
        async with served(OK) as first, served(OK) as second:
            settings = NotifySettings(to=(ntfy(first),), later={timedelta(minutes=10): (ntfy(second),)})
            async with running(settings) as on:
                on.hub.request(deploy_request())
                await on.waiting.slept(2)
                assert sorted(seconds for seconds, _ in on.waiting.sleeps) == [120.0, 600.0]
                on.waiting.wake(1)
                on.waiting.wake(2)
                await on.waiting.until(lambda: bool(first.heard and second.heard))
                on.hub.withdraw("ap1", "interrupted")
                await on.waiting.until(lambda: len(first.heard) == len(second.heard) == 2)
                assert "withdrawn" in json.dumps(bodies(second)[1])

    async def test_escalation_does_not_advance_later_services(self) -> None:
        """An escalation notifies the first services at once; those in `later` keep their time."""
        settings = NotifySettings(to=("ntfy://127.0.0.1:1/a",), later={timedelta(minutes=10): ()})
        async with running(settings) as on:
            on.hub.request(deploy_request(approvers=Approvers("a", escalation=Escalation("oncall", 60))))
            await on.waiting.slept(2)
            by_time = dict(on.waiting.sleeps)
            request = on.hub._change("ap1", escalated=NOW)
            escalated = ApprovalEscalated(approval_id="ap1", call_id=request.call_id, group="oncall")
            on.hub.publish(request.session, escalated)
            assert await on.waiting.slept(3) == 0.0
            assert (by_time[120.0].cancelled(), by_time[600.0].done()) == (True, False)

    @pytest.mark.slow
    async def test_decision_follows_the_request_message(self) -> None:
        """A decision is sent only after a service has answered the message about the request."""
        happened: list[str] = []
        answers = asyncio.Event()

        class Slow(Server):
            async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                head = await reader.readuntil(b"\r\n\r\n")
                size = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
                body = await reader.readexactly(size)
                happened.append("decision" if b"approved by jo" in body else "waits")
                await answers.wait()
                happened.append("answered")
                writer.write(OK)
                writer.close()

        slow = Slow()
        listening = await asyncio.start_server(slow.serve, "127.0.0.1", 0)
        slow.port = listening.sockets[0].getsockname()[1]
        async with running(NotifySettings(to=(ntfy(slow),))) as on:
            on.hub.request(deploy_request())
            await on.waiting.slept(1)
            on.waiting.wake(1)
            await on.waiting.until(lambda: happened == ["waits"])
            on.hub.decided_elsewhere("ap1", approved=True, by="jo")
            await on.waiting.until(lambda: not on.hub.states["release-bot-1f3a"].approvals)
            for _ in range(100):
                # Long enough for a message that does not wait for the previous one.
                await asyncio.sleep(0.005)
            answers.set()
            await on.waiting.until(lambda: len(happened) == 4)
            assert happened == ["waits", "answered", "decision", "answered"]
        listening.close()

    async def test_only_failed_service_is_retried(self) -> None:
        """Only the failed service is tried again; the other is notified once."""
        async with served(FAILS, OK) as failing, served(OK) as good:
            settings = NotifySettings(to=(ntfy(failing), ntfy(good)))
            async with running(settings) as on:
                on.hub.request(deploy_request())
                await on.waiting.slept(1)
                on.waiting.wake(1)
                assert await on.waiting.slept(2) == 2.0
                on.waiting.wake(2)
                await on.waiting.until(lambda: len(failing.heard) == 2)
                assert len(good.heard) == 1
                assert len(on.problems) == 1

    async def test_escalation_is_notified_at_once(self) -> None:
        """An escalation is notified at once."""
        async with served(OK) as server, running(NotifySettings(to=(ntfy(server),))) as on:
            on.hub.request(deploy_request(approvers=Approvers("a", escalation=Escalation("oncall", 60))))
            await on.waiting.slept(1)
            request = on.hub._change("ap1", escalated=NOW)
            escalated = ApprovalEscalated(approval_id="ap1", call_id=request.call_id, group="oncall")
            on.hub.publish(request.session, escalated)
            assert await on.waiting.slept(2) == 0.0
            on.waiting.wake(2)
            await on.waiting.until(lambda: len(server.heard) == 1)
            assert "escalated to oncall" in bodies(server)[0]["title"]


class TestSettings:
    def read(self, tmp_path: Path, text: str) -> NotifySettings | None:
        (tmp_path / "interlock.toml").write_text(text)
        return notify_settings(environ={"INTERLOCK_CONFIG_DIR": str(tmp_path)}, directory=tmp_path)

    @pytest.mark.parametrize("address", FORMS)
    def test_documented_addresses_are_accepted(self, tmp_path: Path, address: str) -> None:
        """Addresses in the documented forms are accepted."""
        found = self.read(tmp_path, f'[notify]\nto = "{address}"')
        assert found is not None
        assert found.to == (address,)

    def test_later_maps_times_to_services(self, tmp_path: Path) -> None:
        """`later` maps waiting times to services, and `to` is optional."""
        found = self.read(tmp_path, '[notify]\nlater = { "10m" = ["ntfys://a"], "1h" = "ntfys://b" }')
        assert found is not None
        assert found.later == {
            timedelta(minutes=10): ("ntfys://a",),
            timedelta(hours=1): ("ntfys://b",),
        }

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ('to = "s3cr3t://x"', "'s3cr3t://…' is not an address that Apprise can read"),
            ('to = "ntfys://a"\nurl = "https://b.example"', "has url and to"),
            ('later = { "soon" = "ntfys://a" }', "soon"),
            ('to = "ntfys://a"\nlink = "desk"', "begins with https://"),
        ],
    )
    def test_error_names_file_and_shows_no_secret(self, tmp_path: Path, text: str, message: str) -> None:
        """The error about an unreadable setting names its file and shows no secret."""
        with pytest.raises(SettingsError, match=message.replace("(", r"\(")) as caught:
            self.read(tmp_path, f"[notify]\n{text}")
        assert "interlock.toml" in str(caught.value)

    async def test_test_option_reports_each_service(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """`notify --test` sends to each service and reports each result."""
        monkeypatch.setenv("INTERLOCK_CONFIG_DIR", str(tmp_path))
        async with served(OK) as good, served(FAILS) as failing:
            text = f'[notify]\nto = "{ntfy(good)}"\nlater = {{ "10m" = "{ntfy(failing)}" }}'
            (tmp_path / "interlock.toml").write_text(text)
            assert await asyncio.to_thread(main, ["notify", "--test"]) == 1
        out, err = capsys.readouterr()
        assert "tell ntfy" in out
        assert "600 s" in out
        assert "It worked: ntfy" in out
        assert "ntfy did not take the message" in err
        assert "Only a test" in bodies(good)[0]["title"]
        assert "s3cr3t" not in out + err
