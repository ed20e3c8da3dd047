"""A remote console at a server with an agent that makes requests."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from textual.widgets import Input

from interlock.app.screens.common.confirm import Confirm
from interlock.app.screens.live.screen import LiveScreen
from interlock.app.screens.live.switch_nets import SwitchNets
from interlock.app.terminal.key_rights import READ_ONLY
from interlock.engine.gateway.client.agent import AgentClient, AgentSession
from interlock.engine.sessions.call_answer import CallAnswer

from .seats import attached, seated, served


async def start_deploy(
    agent_client: AgentClient, *, call: str = "d1", test: bool = True
) -> tuple[AgentSession, asyncio.Future[CallAnswer]]:
    """Open an agent's session, with a call of test, and return it with its waiting deploy call."""
    session = await agent_client.open("robin")
    await session.report_message("user", "Ship it.")
    if test:
        await session.call("test", {}, call_id="t1")
        await session.result("t1", "42 passed")
    return session, asyncio.ensure_future(session.call("deploy", {"env": "prod"}, call_id=call))


class TestDeciding:
    @pytest.mark.slow
    async def test_key_approves_a_remote_request(self, tmp_path: Path) -> None:
        """A remote agent's request appears; a key approves it, and the agent continues."""
        async with served(tmp_path) as server, server.agent_client() as agent, attached(server) as ada:
            _, deploy = await start_deploy(agent)
            await ada.dialog()
            await ada.shows("deploy", "prod", "robin")
            await ada.press("a")
            answer = await asyncio.wait_for(deploy, 10)
            assert answer.outcome == "allow"
            await ada.at(LiveScreen)
            # The agent reports its user's message: no operator sent one here.
            await ada.shows("0 waiting", "user?    Ship it.")
            [state] = await server.hub.sessions()
            assert state.calls["d1"].approved_by == ("ada",)

    async def test_title_names_server_and_operator(self, tmp_path: Path) -> None:
        """The title has the server and, in a wide terminal, the operator's name at the server."""
        for size, name in (((120, 40), "as ada"), ((80, 24), "")):
            async with served(tmp_path) as server, attached(server, size=size) as ada:
                await ada.shows(name, f"127.0.0.1:{server.address.port}")

    @pytest.mark.slow
    async def test_request_is_opened_again_from_the_list(self, tmp_path: Path) -> None:
        """A request closed with escape is opened again from the waiting list, and denied."""
        async with served(tmp_path) as server, server.agent_client() as agent, attached(server) as ada:
            _, deploy = await start_deploy(agent)
            await ada.dialog()
            await ada.press("escape")
            await ada.at(LiveScreen)
            await ada.shows("1 waiting")
            await ada.press("a")
            screen = await ada.dialog()
            await ada.press("d")
            await ada.until(lambda: isinstance(screen.focused, Input))
            await ada.type("not today")
            ada.seconds += 10
            await ada.press("enter")
            await ada.at(LiveScreen)
            answer = await asyncio.wait_for(deploy, 10)
            assert answer.outcome == "block"
            assert "not today" in (answer.reason or "")

    @pytest.mark.slow
    async def test_nets_are_switched(self, tmp_path: Path) -> None:
        """After a remote console switches a net off, the agent's next call is allowed."""
        async with served(tmp_path) as server, server.agent_client() as agent, attached(server) as ada:
            session = await agent.open("robin")
            assert (await session.call("rm", {}, call_id="r1")).outcome == "block"
            await ada.shows("block-rm")
            outcome = await ada.hub.toggle_net(session.id, "block-rm", False, by="ada", reason="a test")
            assert outcome.ok
            assert (await session.call("rm", {}, call_id="r2")).outcome == "allow"
            await ada.press("n")
            await ada.at(SwitchNets)
            await ada.shows("block-rm")


class TestLeaving:
    @pytest.mark.slow
    async def test_closes_without_a_question(self, tmp_path: Path) -> None:
        """A remote console closes without a question, and its agent continues to wait."""
        async with served(tmp_path) as server, server.agent_client() as agent:
            async with attached(server) as ada:
                _, deploy = await start_deploy(agent)
                await ada.dialog()
                await ada.press("escape")
                await ada.at(LiveScreen)
                await ada.press("q")
                await ada.until(lambda: ada.app._exit)
                assert not isinstance(ada.app.screen, Confirm)
            assert len(await server.hub.approvals()) == 1
            assert not deploy.done()
            deploy.cancel()


class TestReadOnly:
    @pytest.mark.slow
    async def test_no_key_decides(self, tmp_path: Path) -> None:
        """Issue 7: `--read-only` shows a server's requests, and no key decides one."""
        async with (
            served(tmp_path) as server,
            server.agent_client() as agent,
            attached(server, only_reading=True) as ada,
        ):
            _, deploy = await start_deploy(agent)
            await ada.dialog()
            await ada.shows("prod")
            await ada.press("a")
            await ada.shows(READ_ONLY[:30])
            assert len(await server.hub.approvals()) == 1
            deploy.cancel()


class TestRights:
    @pytest.mark.slow
    async def test_decide_token_can_only_decide(self, tmp_path: Path) -> None:
        """A token of kind `decide` decides requests; keys for more are disabled and name the right."""
        async with served(tmp_path) as server, server.agent_client() as agent:
            secret = server.tokens.issue("operator", "cy", rights="decide")
            async with attached(server, secret) as cy:
                _, deploy = await start_deploy(agent)
                dialog = await cy.dialog()
                offered = {b.binding.id: b.enabled for b in dialog.active_bindings.values()}
                assert (offered["approval.approve"], offered["approval.grant"]) == (True, False)
                await cy.press("a")
                assert (await asyncio.wait_for(deploy, 10)).outcome == "allow"
                await cy.at(LiveScreen)
                await cy.press("m")
                await cy.shows("decides only", "'administer'", "rotate")
                [state] = await server.hub.sessions()
                assert state.mode == "enforce"

    @pytest.mark.slow
    async def test_look_token_makes_the_console_read_only(self, tmp_path: Path) -> None:
        """A token of kind `look` makes the console read-only; the message names the required right."""
        async with served(tmp_path) as server, server.agent_client() as agent:
            secret = server.tokens.issue("operator", "cy", rights="look")
            async with attached(server, secret) as cy:
                _, deploy = await start_deploy(agent)
                await cy.dialog()
                await cy.press("a")
                await cy.shows("read-only", "'decide'", "rotate")
                assert len(await server.hub.approvals()) == 1
                deploy.cancel()


class TestMany:
    @pytest.mark.slow
    @pytest.mark.parametrize("first", [0, 1, 2])
    async def test_one_console_decides_and_all_show_it(self, tmp_path: Path, first: int) -> None:
        """Of two remote consoles and one in the server's process one decides, and all show who."""
        async with (
            served(tmp_path) as server,
            server.agent_client() as agent,
            attached(server) as ada,
            attached(server, server.ben) as ben,
            seated(server.hub, "cy") as cy,
        ):
            seats = (ada, ben, cy)
            _, deploy = await start_deploy(agent)
            for seat in seats:
                await seat.dialog()
            order = (*seats[first:], *seats[:first])
            await asyncio.gather(*(seat.press("a") for seat in order))
            answer = await asyncio.wait_for(deploy, 10)
            assert answer.outcome == "allow"
            [state] = await server.hub.sessions()
            [winner] = state.calls["d1"].approved_by
            assert winner in ("ada", "ben", "cy")
            for seat in seats:
                await seat.shows("0 waiting", f"by {winner}")

    @pytest.mark.slow
    async def test_open_dialog_shows_who_decided(self, tmp_path: Path) -> None:
        """The dialog of another operator shows who decided, and accepts no decision."""
        async with (
            served(tmp_path) as server,
            server.agent_client() as agent,
            attached(server) as ada,
            attached(server, server.ben) as ben,
        ):
            _, deploy = await start_deploy(agent)
            await ada.dialog()
            await ben.dialog()
            await ben.press("a")
            await asyncio.wait_for(deploy, 10)
            await ada.shows("Already approved by ben", "nothing left to decide")
            await ada.press("a")
            await ada.press("escape")
            await ada.at(LiveScreen)
            await ben.at(LiveScreen)
