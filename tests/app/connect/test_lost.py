"""A connection that is lost, restored or refused."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from interlock.app.screens.approval.screen import ApprovalScreen
from interlock.app.screens.common.help import Help
from interlock.app.screens.history.screen import HistoryScreen
from interlock.app.screens.live.screen import LiveScreen
from interlock.app.screens.triage.screen import TriageScreen
from interlock.engine.gateway.client.console import LOST, NOT_IN

from .seats import attached, between, served
from .test_attached import start_deploy

NOTHING_DECIDED = "nothing can be decided"


class TestLine:
    @pytest.mark.slow
    async def test_loss_is_shown_on_every_screen(self, tmp_path: Path) -> None:
        """A lost connection is shown on every screen, including screens opened afterwards."""
        async with (
            served(tmp_path) as server,
            between(server) as (network, url),
            attached(server, url=url) as ada,
        ):
            await ada.at(LiveScreen)
            await server.gateway.close()
            network.cut()
            await ada.shows(LOST, NOTHING_DECIDED)
            await ada.press("question_mark")
            await ada.at(Help)
            await ada.shows(LOST)
            await ada.press("escape")
            await ada.press("h")
            await ada.at(HistoryScreen)
            await ada.shows(LOST)

    async def test_loss_is_shown_in_a_small_terminal(self, tmp_path: Path) -> None:
        """A small terminal also shows the lost connection."""
        async with served(tmp_path) as server, attached(server, size=(80, 24)) as ada:
            await server.gateway.close()
            await ada.shows(LOST)

    @pytest.mark.slow
    async def test_approve_key_decides_nothing_while_disconnected(self, tmp_path: Path) -> None:
        """While disconnected, the approve key reports that nothing was decided."""
        async with (
            served(tmp_path) as server,
            server.agent_client() as agent,
            attached(server) as ada,
        ):
            _, deploy = await start_deploy(agent)
            await ada.dialog()
            await server.gateway.close()
            await ada.shows(LOST)
            assert isinstance(ada.app.screen, ApprovalScreen)
            await ada.press("a")
            await ada.shows("Not decided")
            deploy.cancel()

    @pytest.mark.slow
    async def test_current_server_is_named(self, tmp_path: Path) -> None:
        """A console that moved to another server names it in the title and in the loss message."""
        async with AsyncExitStack() as near, served(tmp_path) as server, between(server) as (_, second):
            _, first = await near.enter_async_context(between(server))
            here, there = (each.removeprefix("ws://") for each in (first, second))
            async with attached(server, url=f"{first},{second}") as ada:
                await ada.shows("0 waiting", here)
                await near.aclose()
                await ada.shows("0 waiting", there)
                await ada.press("5")
                await ada.at(TriageScreen)
                await ada.shows("0 waiting", there)
                await server.gateway.close()
                await ada.shows(f"{there}: {LOST}")


class TestBack:
    @pytest.mark.slow
    async def test_request_during_the_loss_appears_afterwards(self, tmp_path: Path) -> None:
        """A request made while the connection was cut appears after the reconnection, and is decided."""
        async with (
            served(tmp_path) as server,
            between(server) as (network, url),
            server.agent_client() as agent,
            attached(server, url=url) as ada,
        ):
            session = await agent.open("robin")
            await ada.shows("robin")
            network.cut()
            await session.call("test", {}, call_id="t1")
            await session.result("t1", "42 passed")
            deploy = asyncio.ensure_future(session.call("deploy", {"env": "prod"}, call_id="d1"))
            await ada.dialog()
            await ada.until(lambda: LOST not in ada.painted())
            await ada.shows("prod")
            await ada.press("a")
            assert (await asyncio.wait_for(deploy, 10)).outcome == "allow"
            await ada.shows("42 passed")

    @pytest.mark.slow
    async def test_console_continues_with_a_restarted_server(self, tmp_path: Path) -> None:
        """The console continues with the restarted server, and so does the agent's request."""
        async with served(tmp_path) as first:
            address = first.address
            agent = first.agent_client()
            console = attached(first)
            ada = await console.__aenter__()
            _, deploy = await start_deploy(agent)
            await ada.dialog()
        try:
            await ada.shows(LOST)
            async with served(tmp_path, address=address):
                await ada.until(lambda: LOST not in ada.painted())
                # Its agent has made the request again, so it is another one.
                await ada.until(lambda: bool(ada.app.screen_stack[0].query("#sessions")))
                async with asyncio.timeout(20):
                    # Its dialog may open right after the other one's is closed.
                    while not isinstance(ada.app.screen, LiveScreen):
                        await ada.press("escape")
                await ada.shows("1 waiting")
                await ada.press("a")
                await ada.dialog()
                await ada.press("a")
                assert (await asyncio.wait_for(deploy, 10)).outcome == "allow"
        finally:
            deploy.cancel()
            await console.__aexit__(None, None, None)
            await agent.close()


class TestToken:
    @pytest.mark.slow
    async def test_revoked_token_makes_the_console_read_only(self, tmp_path: Path) -> None:
        """A console whose token is revoked says so, stays readable, and decides nothing."""
        async with (
            served(tmp_path) as server,
            server.agent_client() as agent,
            attached(server) as ada,
        ):
            _, deploy = await start_deploy(agent)
            await ada.dialog()
            server.tokens.revoke("ada")
            await ada.shows(NOT_IN)
            await ada.shows("prod")
            await ada.press("a")
            await ada.shows("Not decided")
            assert len(await server.hub.approvals()) == 1
            await ada.press("escape")
            await ada.at(LiveScreen)
            await ada.shows("robin", NOT_IN)
            deploy.cancel()


@pytest.mark.slow
class TestSlow:
    async def test_slow_answers_do_not_delay_keys(self, tmp_path: Path) -> None:
        """Slow answers of a server do not delay keys, and arrive in the end."""
        async with (
            served(tmp_path) as server,
            between(server) as (network, url),
            server.agent_client() as agent,
            attached(server, url=url) as ada,
        ):
            await ada.at(LiveScreen)
            network.late = 1.0
            _, deploy = await start_deploy(agent)
            loop = asyncio.get_running_loop()
            await ada.dialog()
            begun = loop.time()
            await ada.press("escape")
            await ada.at(LiveScreen)
            await ada.press("question_mark")
            await ada.at(Help)
            assert loop.time() - begun < 2 * network.late
            await ada.press("escape")
            network.late = 0.0
            await ada.shows("1 waiting")
            deploy.cancel()
