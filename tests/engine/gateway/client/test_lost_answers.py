"""Changes of a console whose answer is lost with its connection: they are not reported as not made."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from interlock.engine.gateway.client import remote_hub
from interlock.engine.gateway.client.console import ConsoleClient
from interlock.engine.hub.hub import Outcome

from ..served import served, until


async def lost(
    console: ConsoleClient,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[], Awaitable[Outcome]],
    made: Callable[[], bool],
    newer: Callable[[], Awaitable[Outcome]],
) -> Outcome:
    """Make a change whose answer is lost; somebody else makes a newer one before the console is back."""

    async def is_made() -> bool:
        return made()

    with monkeypatch.context() as mute:
        mute.setattr(console.link, "_take", lambda *_: None)
        changing = asyncio.ensure_future(change())
        await until(is_made)
        outcome = await newer()
        assert outcome.ok, outcome.message
        assert not changing.done()
    socket = console.link._socket
    assert socket is not None
    socket.transport.abort()
    return await changing


class TestLostAnswers:
    async def test_a_newer_freeze_stays(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A lift is not repeated: that would lift a freeze that began after it."""
        async with served(tmp_path) as server, server.console() as console:
            hub = server.hub
            assert (await hub.freeze(by="ben", reason="one")).ok
            outcome = await lost(
                console,
                monkeypatch,
                lambda: console.lift_freeze(by="", reason="over"),
                lambda: hub.current_freeze() is None,
                lambda: hub.freeze(by="ben", reason="two"),
            )
            frozen = hub.current_freeze()
            assert frozen is not None
            assert frozen.reason == "two"
            assert outcome.message.startswith("Perhaps not lifted: ")

    async def test_a_net_stays_on(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Switching a net off is not repeated: somebody may have switched it on again since."""
        async with served(tmp_path) as server, server.console() as console:
            hub = server.hub
            async with server.agent_client() as client, client.session("bot") as session:
                net = next(iter((await hub.session(session.id)).active))
                state = hub._live.hosted(session.id).state
                outcome = await lost(
                    console,
                    monkeypatch,
                    lambda: console.toggle_net(session.id, net, active=False, by="", reason="slow"),
                    lambda: net not in state.active,
                    lambda: hub.toggle_net(session.id, net, active=True, by="ben"),
                )
                assert net in state.active
                assert outcome.message.startswith("Perhaps not switched: ")

    async def test_a_session_stays_enforced(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Setting shadow mode is not repeated: somebody may have set enforce mode again since."""
        async with served(tmp_path) as server, server.console() as console:
            hub = server.hub
            async with server.agent_client() as client, client.session("bot") as session:
                state = hub._live.hosted(session.id).state
                outcome = await lost(
                    console,
                    monkeypatch,
                    lambda: console.set_mode(session.id, "shadow", by="", reason="a trial"),
                    lambda: state.mode == "shadow",
                    lambda: hub.set_mode(session.id, "enforce", by="ben"),
                )
                assert state.mode == "enforce"
                assert outcome.message.startswith("Perhaps not switched: ")

    async def test_of_a_new_connection_are_in_doubt(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A change sent while a console is just coming back may have been made, like any other."""
        async with served(tmp_path) as server, server.console() as console:
            hub = server.hub
            assert (await hub.freeze(by="ben", reason="one")).ok
            begun, released = asyncio.Event(), asyncio.Event()
            changing: list[asyncio.Task[Outcome]] = []

            async def slow(**_: object) -> Outcome:
                begun.set()
                await released.wait()
                return Outcome(ok=True, message="")

            def lift(is_connected: bool) -> None:
                if not is_connected and not changing:
                    lifting = console.lift_freeze(by="", reason="over")
                    changing.append(asyncio.ensure_future(lifting))

            monkeypatch.setattr(hub, "lift_freeze", slow)
            console.connected = lift
            for _ in range(2):
                socket = console.link._socket
                assert socket is not None
                socket.transport.abort()
                async with asyncio.timeout(20):
                    await begun.wait()
            outcome = await changing[0]
            released.set()
            assert outcome.message.startswith("Perhaps not lifted: ")

    async def test_of_requests_that_were_not_sent_are_not_in_doubt(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """If no server answers at all, nothing was changed, and the outcome says so."""
        monkeypatch.setattr(remote_hub, "PATIENCE", 0.1)
        async with served(tmp_path) as server, server.console() as console:
            await server.gateway.close()
            outcome = await console.freeze(by="", reason="odd")
            assert outcome.message.startswith("Not frozen: ")
