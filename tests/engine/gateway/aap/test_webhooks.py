"""Notifications of ended requests to the protocol's own receiver behind a real HTTP server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from agentapprovalprotocol import Receiver
from agentapprovalprotocol._wire import Request
from agentapprovalprotocol.receiver import new_secret
from aiohttp import web
from pydantic import ValidationError

from interlock.engine.gateway.aap.receiver import WebhookReceiver
from interlock.engine.gateway.aap.webhooks import asked_pause, instance_id
from interlock.engine.history.model.events import RequestStep
from tests.app.hosting.aap_server import AapServer, aap_server, submission
from tests.engine.gateway.served import until

CONTEXT = {"resume": {"framework": "test", "run": "7"}}


class Endpoint:
    """The protocol's receiver; it first answers with the statuses in `failures`."""

    def __init__(self, failures: list[int] | None = None) -> None:
        self.woken: list[tuple[object, str]] = []
        self.messages: list[tuple[dict[str, str], bytes]] = []
        self.failures = failures or []
        self.receiver = Receiver(
            resumers={"test": self._resume},
            secret=new_secret(),
            registration_id=str(uuid4()),
            instance_id=instance_id("bot"),
        )

    def _resume(self, handle: Mapping[str, object], request: Request) -> None:
        self.woken.append((handle["run"], request.status))

    async def answer(self, request: web.Request) -> web.Response:
        headers, body = dict(request.headers), await request.read()
        self.messages.append((headers, body))
        if b"request.resolved" in body and self.failures:
            return web.Response(status=self.failures.pop(0))
        status, answered = await self.receiver.handle(headers, body)
        return web.Response(status=status, body=answered)

    def settings(self, port: int, secret: str | None = None) -> WebhookReceiver:
        return WebhookReceiver(
            url=f"http://127.0.0.1:{port}/events",
            secret=secret or self.receiver.secret or "",
            registration=self.receiver.registration_id or "",
        )


@asynccontextmanager
async def listening(endpoint: Endpoint) -> AsyncGenerator[int, None]:
    application = web.Application()
    application.router.add_post("/events", endpoint.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def wait_for_notification(server: AapServer) -> None:
    """Wait until the record contains the delivery of the notification."""

    async def found() -> bool:
        return any(isinstance(e, RequestStep) and e.step == "notified" for e in await server.bodies())

    assert await until(found)


class TestNotifications:
    @pytest.mark.slow
    async def test_ended_request_is_notified_once(self, tmp_path: Path) -> None:
        """The receiver answers the challenge, gets one notification and reads the request."""
        endpoint = Endpoint()
        async with (
            listening(endpoint) as port,
            aap_server(tmp_path, receivers={"bot": endpoint.settings(port)}) as server,
        ):
            endpoint.receiver.client = server.client()
            await server.client().create(submission(context=CONTEXT), "k")
            await server.decide(approved=True)
            await wait_for_notification(server)

            async def woken() -> bool:
                return bool(endpoint.woken)

            assert await until(woken)
            assert endpoint.woken == [("7", "approved")]
            assert len(endpoint.messages) == 2

    @pytest.mark.slow
    async def test_failed_notification_is_sent_again(self, tmp_path: Path) -> None:
        """A failed notification is sent again with the same id and body."""
        endpoint = Endpoint([500, 302, 503])
        async with (
            listening(endpoint) as port,
            aap_server(tmp_path, receivers={"bot": endpoint.settings(port)}) as server,
        ):
            endpoint.receiver.client = server.client()
            await server.client().create(submission("rm", context=CONTEXT), "k")
            await wait_for_notification(server)
            sent = [each for each in endpoint.messages if b"request.resolved" in each[1]]
            assert len(sent) == 4
            assert len({body for _, body in sent}) == 1
            assert len({headers["webhook-id"] for headers, _ in sent}) == 1

    async def test_delivered_notification_is_forgotten(self, tmp_path: Path) -> None:
        """A delivered notification leaves memory, and a later change of the request sends none."""
        endpoint = Endpoint()
        async with (
            listening(endpoint) as port,
            aap_server(tmp_path, receivers={"bot": endpoint.settings(port)}) as server,
        ):
            endpoint.receiver.client = server.client()
            request = await server.client().create(submission(context=CONTEXT), "k")
            await server.decide(approved=True)
            await wait_for_notification(server)

            async def forgotten() -> bool:
                return not server.provider._webhooks._under_way

            assert await until(forgotten)
            await server.client().consume(request.id, "c")
            assert await until(forgotten)
            assert len([each for _, each in endpoint.messages if b"request.resolved" in each]) == 1

    @pytest.mark.slow
    async def test_next_server_delivers_undelivered_notification(self, tmp_path: Path) -> None:
        """The next server delivers a notification that the previous one could not deliver."""
        endpoint = Endpoint([500] * 1000)
        async with (
            listening(endpoint) as port,
            aap_server(tmp_path, receivers={"bot": endpoint.settings(port)}) as server,
        ):
            await server.client().create(submission("rm"), "k")
        endpoint.failures = []
        async with (
            listening(endpoint) as port,
            aap_server(tmp_path, receivers={"bot": endpoint.settings(port)}) as server,
        ):
            endpoint.receiver.client = server.client()

            async def delivered() -> bool:
                return any(b"request.resolved" in body for _, body in endpoint.messages)

            assert await until(delivered)

    @pytest.mark.slow
    async def test_receiver_without_the_secret_gets_none(self, tmp_path: Path) -> None:
        """A receiver that does not know the secret gets challenges, but no notification."""
        endpoint = Endpoint()
        async with (
            listening(endpoint) as port,
            aap_server(tmp_path, receivers={"bot": endpoint.settings(port, new_secret())}) as server,
        ):
            await server.client().create(submission("rm"), "k")

            async def asked() -> bool:
                return len(endpoint.messages) > 2

            assert await until(asked)
            assert all(b"webhook.verification" in body for _, body in endpoint.messages)

    async def test_agent_without_receiver_sends_none(self, tmp_path: Path) -> None:
        """A request of an agent without a receiver is decided as usual and sends no notification."""
        endpoint = Endpoint()
        async with (
            listening(endpoint) as port,
            aap_server(tmp_path, receivers={"bot": endpoint.settings(port)}) as server,
        ):
            client = server.client(server.served.other)
            made = await client.create(submission("rm"), "k")
            assert made.status == "denied"
            await asyncio.sleep(0)
            assert not any(b"request.resolved" in body for _, body in endpoint.messages)


class TestSettings:
    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("url", "http://receiver.example/events"),
            ("url", "https://user:word@receiver.example/"),
            ("url", "receiver"),
            ("secret", "whsec_c2hvcnQ="),
            ("secret", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="),
            ("registration", "bot"),
        ],
    )
    def test_invalid_settings_are_refused(self, field: str, value: str) -> None:
        """A URL without TLS or with credentials, a short key and an id that is no UUID are refused."""
        fields = {"url": "https://r.example/e", "secret": new_secret(), "registration": str(uuid4())}
        WebhookReceiver.model_validate(fields)
        with pytest.raises(ValidationError):
            WebhookReceiver.model_validate(fields | {field: value})

    def test_the_secret_is_not_shown(self) -> None:
        """The `repr` of a receiver does not contain its secret."""
        secret = new_secret()
        shown = repr(WebhookReceiver(url="https://r.example/e", secret=secret, registration=str(uuid4())))
        assert secret not in shown


class TestAskedPause:
    @pytest.mark.parametrize(
        ("status", "header", "seconds"),
        [
            (429, "7", 7.0),
            (503, "120", 120.0),
            (200, "7", 0.0),
            (503, "", 0.0),
            (503, "-1", 0.0),
            (503, "Thu, 26 Nov 2026 15:00:00 GMT", 0.0),
            (503, "9" * 500, 3600.0),
        ],
    )
    def test_retry_delay_is_at_most_an_hour(self, status: int, header: str, seconds: float) -> None:
        """A receiver cannot delay the next attempt by more than an hour."""
        assert asked_pause(status, header) == seconds
