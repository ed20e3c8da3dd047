"""The limit of messages per minute: further requests share one later message, and none is lost."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from interlock.app.config.notifications import NotifySettings
from interlock.app.hosting.notifications.limit import (
    MOST_LINES,
    Channel,
    several_message,
    several_waiting,
)
from interlock.app.hosting.notifications.service_messages import Message
from interlock.engine.history.model.events import ApprovalCommented, ApprovalRequested
from interlock.engine.history.model.state import ApprovalState
from tests.support.clock import Clock

from ...support.scenes import NOW, deploy_request
from .test_notify import FAILS, Desk, Server, running, served
from .test_notify_services import OK, ntfy


def request(number: int) -> ApprovalState:
    return deploy_request(id=f"ap{number}", call_id=f"c{number}", agent=f"bot{number}")


@asynccontextmanager
async def notifier_at_its_limit(
    server: Server, settings: NotifySettings, number: int
) -> AsyncIterator[tuple[Desk, Clock]]:
    """Run a notifier with `number` requests, two of which have used up the limit of the minute."""
    clock = Clock(NOW)
    async with running(settings, clock=clock) as on:
        for each in range(1, number + 1):
            on.hub.request(request(each))
            await on.waiting.slept(each)
        for each in range(1, number + 1):
            on.waiting.wake(each)
        await on.waiting.until(lambda: len(server.heard) == 2)
        # Messages beyond the limit wait.
        await on.waiting.slept(number + 1)
        yield on, clock


async def pass_a_minute(on: Desk, clock: Clock, number: int) -> None:
    clock.advance(60)
    on.waiting.wake(number + 1)


class TestLimit:
    @pytest.mark.slow
    async def test_further_requests_share_one_message(self) -> None:
        """With a limit of two per minute, two messages are followed by one about the other three."""
        async with served(OK) as server:
            settings = NotifySettings(to=(ntfy(server),), most=2, link="https://desk.example")
            async with notifier_at_its_limit(server, settings, 5) as (on, clock):
                assert 0 < on.waiting.sleeps[5][0] <= 60
                await pass_a_minute(on, clock, 5)
                await on.waiting.until(lambda: len(server.heard) == 3)
                said = json.loads(server.heard[2][2])
                assert said["title"] == "3 requests wait for approval"
                assert said["message"].splitlines()[-1] == "https://desk.example/m/"
                assert all(f"bot{each}" in said["message"] for each in (3, 4, 5))

    async def test_url_gets_a_waiting_event(self) -> None:
        """A configured URL gets an `approvals.waiting` event with the number and the ids."""
        async with served() as server:
            settings = NotifySettings(url=server.url, most=2)
            async with notifier_at_its_limit(server, settings, 5) as (on, clock):
                await pass_a_minute(on, clock, 5)
                await on.waiting.until(lambda: len(server.heard) == 3)
                said = json.loads(server.heard[2][2])["data"]
                assert (said["event"], said["number"]) == ("approvals.waiting", 3)
                assert said["approval_ids"] == ["ap3", "ap4", "ap5"]
                assert "link" not in said

    @pytest.mark.slow
    async def test_decided_requests_are_omitted(self) -> None:
        """Requests that are decided in time are omitted; a single remaining one gets a normal message."""
        async with served() as server:
            settings = NotifySettings(url=server.url, most=2)
            async with notifier_at_its_limit(server, settings, 4) as (on, clock):
                on.hub.decided_elsewhere("ap3", approved=True, by="jo")
                await pass_a_minute(on, clock, 4)
                await on.waiting.until(lambda: len(server.heard) == 3)
                said = json.loads(server.heard[2][2])["data"]
                assert (said["event"], said["approval_id"]) == ("approval.waiting", "ap4")

    @pytest.mark.slow
    async def test_mentioned_operator_is_named(self) -> None:
        """The message about several requests names an operator who was asked to look at one of them."""
        async with served(OK) as server:
            settings = NotifySettings(to=(ntfy(server),), most=2)
            async with notifier_at_its_limit(server, settings, 4) as (on, clock):
                on.hub.publish(
                    "release-bot-1f3a",
                    ApprovalCommented(
                        approval_id="ap4", call_id="c4", by="maria", to="ben", text="@ben look"
                    ),
                )
                [channel] = on.notifier._channels.values()
                await on.waiting.until(lambda: channel.waiting.get("ap4") is not None)
                await pass_a_minute(on, clock, 4)
                await on.waiting.until(lambda: len(server.heard) == 3)
                assert "ben: maria asks you to look" in json.loads(server.heard[2][2])["message"]

    async def test_outcomes_share_the_message(self) -> None:
        """The outcomes of notified requests share the same message."""
        async with served(OK) as server:
            settings = NotifySettings(to=(ntfy(server),), most=2)
            async with notifier_at_its_limit(server, settings, 3) as (on, clock):
                for each in (1, 2):
                    on.hub.decided_elsewhere(f"ap{each}", approved=True, by="jo")
                [channel] = on.notifier._channels.values()
                await on.waiting.until(lambda: len(channel.endings) == 2)
                await pass_a_minute(on, clock, 3)
                await on.waiting.until(lambda: len(server.heard) >= 3)
                said = json.loads(server.heard[2][2])
                assert said["title"] == "1 request waits for approval; 2 requests need nobody any more"
                assert "deploy of bot1: approved by jo" in said["message"]

    async def test_each_service_has_its_own_limit(self) -> None:
        """A service that has reached its limit does not delay another one."""
        first, second = Channel(1), Channel(1)
        assert first.take(NOW)
        assert not first.take(NOW + timedelta(seconds=59))
        assert second.take(NOW + timedelta(seconds=59))
        assert first.take(NOW + timedelta(seconds=60))

    async def test_failed_message_is_repeated(self) -> None:
        """A failed message about several requests is repeated three times, like any other message."""
        async with served(OK, OK, FAILS) as server:
            settings = NotifySettings(to=(ntfy(server),), most=2)
            async with notifier_at_its_limit(server, settings, 4) as (on, clock):
                number = 5
                clock.advance(60)
                for tried in range(3, 7):
                    await on.waiting.slept(number)
                    clock.advance(60)
                    on.waiting.wake(number)
                    number += 1
                    await on.waiting.until(lambda tried=tried: len(server.heard) == tried)
                assert len(on.problems) == 1


class TestMessage:
    def test_ten_requests_are_named_and_others_counted(self) -> None:
        """The message names ten requests and counts the others."""
        told = [(f"ap{n}", f"deploy of bot{n} has waited") for n in range(25)]
        message = several_message(several_waiting(told, None), ())
        lines = message.text.splitlines()
        assert message.title == "25 requests wait for approval"
        assert len(lines) == MOST_LINES + 1
        assert lines[-1] == "and 15 more"

    def test_agent_names_have_no_markup(self) -> None:
        """Agents' names have no markup in the message about several requests."""
        told = [("a", "<!channel> of @here"), ("b", "[x](http://evil)")]
        message = several_message(several_waiting(told, None), [Message("done", "")])
        assert not set("<>@[]") & set(message.title + message.text)


class TestAskedAnew:
    async def test_waiting_time_counts_from_first_request(self) -> None:
        """The waiting time of a repeated request counts from its first request."""
        async with served() as server:
            settings = NotifySettings.model_validate({"url": server.url, "after": "2m"})
            async with running(settings, now=NOW + timedelta(seconds=5)) as on:
                state = deploy_request()
                on.hub.publish(
                    state.session,
                    ApprovalRequested(
                        approval_id="ap9",
                        call_id=state.call_id,
                        tool="deploy",
                        called="deploy",
                        input={},
                        names=("deploy",),
                        net=state.net,
                        transition="approve",
                        title="",
                        message="",
                        marking={},
                        first_asked=NOW - timedelta(seconds=60),
                    ),
                )
                assert await on.waiting.slept(1) == pytest.approx(55.0)
