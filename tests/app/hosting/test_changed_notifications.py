"""Changes of `[notify]` while a server runs: rotated secrets, new and removed services."""

from __future__ import annotations

import asyncio
import json
import signal
from datetime import timedelta
from pathlib import Path

import pytest

from interlock.app.config.notifications import NotifySettings
from interlock.app.hosting.notifications.notifier import moved_services, notifications_of
from interlock.engine.history.database.location import PostgresLocation

from ...engine.gateway.cluster.support.hubs import asked, hub_on
from ...engine.gateway.served import until
from ..cli.server.test_notify import FAILS, OK, running, served
from ..cli.server.test_notify_services import OK as TAKEN
from ..cli.server.test_serve import serving
from ..support.scenes import deploy_request
from .test_certificate import line_with


def topic_url(port: int, secret: str) -> str:
    return f"ntfy://127.0.0.1:{port}/{secret}"


class TestMoved:
    def test_single_changed_address_is_the_same_service(self) -> None:
        """A single changed address of a scheme is the same service."""
        other = "mmost://h/" + "b" * 26
        before = NotifySettings(to=("ntfy://h/a",), later={timedelta(minutes=5): (other,)})
        now = NotifySettings(to=("ntfy://h/c",), later={timedelta(minutes=9): (other,)})
        assert moved_services(before, now) == {"ntfy://h/a": "ntfy://h/c"}

    def test_two_changed_addresses_are_not_matched(self) -> None:
        """Two changed addresses of a scheme are ambiguous, so they are not matched."""
        before, now = NotifySettings(to=("ntfy://h/a", "ntfy://h/b")), NotifySettings(to=("ntfy://h/c",))
        assert moved_services(before, now) == {}


class TestChanged:
    async def test_waiting_request_uses_the_new_address(self) -> None:
        """A waiting request is announced at the new address, after the new delay."""
        async with served(OK) as old, served(OK) as new, running(NotifySettings(url=old.url)) as on:
            on.hub.request(deploy_request())
            await on.waiting.slept(1)
            on.notifier.change(NotifySettings(url=new.url, after=timedelta(minutes=5)))
            assert await on.waiting.slept(2) == 300.0
            assert on.waiting.sleeps[0][1].cancelled()
            on.waiting.wake(2)
            await on.waiting.until(lambda: len(new.heard) == 1)
            assert old.heard == []

    async def test_failed_message_is_retried_with_the_new_secret(self) -> None:
        """A message that failed with the old secret is tried again once with the new one."""
        async with (
            served(FAILS) as old,
            served(TAKEN) as new,
            running(NotifySettings(to=(topic_url(old.port, "old"),))) as on,
        ):
            on.hub.request(deploy_request())
            await on.waiting.slept(1)
            on.waiting.wake(1)
            await on.waiting.slept(2)
            assert len(on.problems) == 1
            on.notifier.change(NotifySettings(to=(topic_url(new.port, "new"),)))
            on.waiting.wake(2)
            await on.waiting.until(lambda: len(new.heard) == 1)
            assert [len(old.heard), len(on.problems), len(on.waiting.sleeps)] == [1, 1, 2]

    async def test_end_is_reported_once_at_the_new_address(self) -> None:
        """The end of a request is reported once at the new address, even after further changes."""
        async with served(TAKEN) as old, served(TAKEN) as new:
            first, second = topic_url(old.port, "old"), topic_url(new.port, "new")
            async with running(NotifySettings(to=(first,))) as on:
                on.hub.request(deploy_request())
                await on.waiting.slept(1)
                on.waiting.wake(1)
                await on.waiting.until(lambda: len(old.heard) == 1)
                for each in (second, first, second):
                    on.notifier.change(NotifySettings(to=(each,)))
                on.hub.decided_elsewhere("ap1", approved=True, by="jo")
                await on.waiting.until(lambda: len(new.heard) == 1)
                assert "approved by jo" in json.dumps(json.loads(new.heard[0][2]))
                assert len(old.heard) == 1

    async def test_only_new_services_are_notified_of_waiting_requests(self) -> None:
        """New services in `later` are notified of waiting requests, removed ones are not."""
        async with served(TAKEN) as first, served(TAKEN) as second, served(TAKEN) as third:
            ten, five = timedelta(minutes=10), timedelta(minutes=5)
            one, two, three = (topic_url(each.port, "a") for each in (first, second, third))
            async with running(NotifySettings(to=(one,))) as on:
                on.hub.request(deploy_request())
                await on.waiting.slept(1)
                on.waiting.wake(1)
                await on.waiting.until(lambda: len(first.heard) == 1)
                on.notifier.change(NotifySettings(to=(one,), later={ten: (two,), five: (three,)}))
                await on.waiting.slept(3)
                assert [seconds for seconds, _ in on.waiting.sleeps[1:]] == [600.0, 300.0]
                on.notifier.change(NotifySettings(to=(one,), later={ten: (two,)}))
                await on.waiting.until(on.waiting.sleeps[2][1].cancelled)
                await on.waiting.slept(4)
                on.waiting.wake(4)
                await on.waiting.until(lambda: len(second.heard) == 1)
                assert (len(first.heard), third.heard) == (1, [])


class TestManyServers:
    async def test_only_the_sessions_server_notifies(self, postgresql: PostgresLocation) -> None:
        """Of several servers on one database, only the one with the session notifies."""
        async with served(OK) as server:
            settings = NotifySettings(url=server.url, after=timedelta(0))
            here, there = await hub_on(postgresql), await hub_on(postgresql)
            try:
                async with (
                    notifications_of(here, settings, print),
                    notifications_of(there, settings, print) as other,
                ):
                    task = await asked(here, there)
                    await until(lambda: asyncio.sleep(0, server.heard))
                    notifier = other._notifier
                    assert notifier is not None

                    async def over() -> bool:
                        return bool(notifier._since) and not notifier._waiting

                    await until(over)
                    assert len(server.heard) == 1
                    task.cancel()
            finally:
                await here.close()
                await there.close()


class TestHangup:
    @pytest.mark.slow
    async def test_server_uses_the_new_address_on_sighup(self, tmp_path: Path) -> None:
        """On SIGHUP a server uses the new address. An error changes nothing, and messages continue."""
        config = tmp_path / "config"
        config.mkdir()
        own = config / "interlock.toml"
        (tmp_path / "a.rules").write_text("require human-approval before deploy\n")
        async with served(OK) as old, served(OK) as new:

            def write(url: str) -> None:
                own.write_text(f'[notify]\nafter = "0s"\nurl = "{url}"\n')

            line = ("--listen", "127.0.0.1:0", "--rules", "a.rules")
            async with serving(tmp_path, *line) as server, server.agent() as agent:
                gate = await agent.open("bot")

                async def told(where: list[object], number: int) -> None:
                    going.append(asyncio.create_task(gate.call("deploy", {"n": len(going)})))

                    async def heard() -> bool:
                        return len(where) == number

                    await until(heard)

                async def hang_up(answer: str) -> None:
                    server.process.send_signal(signal.SIGHUP)
                    await line_with(server.process.stderr, answer)

                going: list[asyncio.Task[object]] = []
                going.append(asyncio.create_task(gate.call("deploy", {"n": 0})))
                async with server.console() as console:
                    await until(console.approvals)
                write(old.url)
                await hang_up("[notify] was read again: in use")
                await told(old.heard, 2)  # with the request that waited before
                write(new.url)
                await hang_up("[notify] was read again: in use")
                await told(new.heard, 1)
                own.write_text("[notify]\nurl = 7\n")
                await hang_up("notifications stay as they are")
                await told(new.heard, 2)
                own.write_text("")
                await hang_up("[notify] was read again: there is none")
                await asyncio.sleep(0)
                write(new.url)
                await hang_up("[notify] was read again: in use")
                assert len(old.heard) == 2
                for each in going:
                    each.cancel()
