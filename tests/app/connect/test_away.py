"""A remote console whose operator looks away, and one that continues from an earlier event."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from interlock.app.console.app import InterlockConsole
from interlock.app.console.attention import BELL
from interlock.app.screens.common.confirm import Confirm
from interlock.app.sources.messages import ContinueChosen
from interlock.engine.gateway.client.console import ConsoleClient

from ...engine.gateway.served import Served
from ...support.openai_server import OpenAIServer, says
from ..console.test_attention import Recorder
from .seats import Seat, attached, served

AGENT = 'name = "helper"\nmodel = "openai/test-model"\napi_base = "{url}"\nrules = ["a.rules"]\n'


class Away:
    """An operator at a console on `server`, with a terminal that records everything written to it."""

    def __init__(self, server: Served) -> None:
        self.terminal = Recorder()
        self.client = ConsoleClient(server.url, server.ada)

    async def at_console(self) -> InterlockConsole:
        operator = await self.client.open()
        app = InterlockConsole(self.client, operator=operator, quiet=0)
        app._terminal = replace(self.terminal.terminal(), focused=lambda: self.terminal.focused)
        return app

    async def until(self, text: str) -> None:
        for _ in range(2000):
            if any(text in each for each in self.terminal.written):
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"{text!r} is not in {self.terminal.written}")


class TestAttention:
    async def test_request_rings_and_is_counted(self, tmp_path: Path) -> None:
        """A request at the server is counted in the title, and a bell rings, until the decision."""
        async with served(tmp_path) as server, server.agent_client() as agent:
            away = Away(server)
            app = await away.at_console()
            async with app.run_test(size=(120, 40)):
                await away.until("]0;Interlock\x1b")
                gate = await agent.open("robin")
                await gate.call("test", {}, call_id="t1")
                await gate.result("t1", "42 passed")
                call = asyncio.ensure_future(gate.call("deploy", {"env": "prod"}, call_id="d1"))
                await away.until("(1 waiting)")
                await away.until("deploy of robin")
                assert away.terminal.calls.count(BELL) == 1
                written = len(away.terminal.written)
                [request] = await server.hub.approvals()
                await server.hub.decide(request.id, approved=True, by="ben")
                assert (await asyncio.wait_for(call, 10)).outcome == "allow"
                for _ in range(2000):
                    if any("]0;Interlock\x1b" in each for each in away.terminal.written[written:]):
                        break
                    await asyncio.sleep(0.01)
                else:
                    raise AssertionError(away.terminal.written)
            await away.client.close()

    @pytest.mark.slow
    async def test_focused_terminal_does_not_ring(self, tmp_path: Path) -> None:
        """With a focused terminal the title counts the request, and no bell rings."""
        async with served(tmp_path) as server, server.agent_client() as agent:
            away = Away(server)
            away.terminal.focused = True
            app = await away.at_console()
            async with app.run_test(size=(120, 40)):
                gate = await agent.open("robin")
                await gate.call("test", {}, call_id="t1")
                await gate.result("t1", "42 passed")
                call = asyncio.ensure_future(gate.call("deploy", {}, call_id="d1"))
                await away.until("(1 waiting)")
                assert BELL not in away.terminal.written
                call.cancel()
            await away.client.close()


async def confirm(seat: Seat) -> None:
    """Confirm the question after it was shown long enough."""
    await seat.at(Confirm)
    screen = seat.app.screen
    assert isinstance(screen, Confirm)
    await seat.until(lambda: screen._shown_at is not None)
    seat.seconds += 10.0
    await seat.press("y")
    await seat.until(lambda: seat.app.screen is not screen)


class TestBranching:
    @pytest.mark.slow
    async def test_branch_starts_at_an_event(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Continuing from a replay's event starts a branch at the server, from that event."""
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("OPENAI_API_KEY", "test")
        (tmp_path / "a.rules").write_text("block rm\n")
        with OpenAIServer([says("One."), says("Two.")]) as model:
            (tmp_path / "agent.toml").write_text(AGENT.format(url=model.base_url))
            async with served(tmp_path) as server, attached(server) as ada:
                form = {"agent": "agent.toml", "rules": "", "tools": "", "task": "x", "shadow": False}
                source = await ada.hub.start({"form": form})  # type: ignore[attr-defined]
                await ada.shows("One.")
                await server.hub.wait(source)
                ada.app.post_message(ContinueChosen(source, 1))
                await confirm(ada)

                def branches() -> list[tuple[str | None, int | None]]:
                    live = server.hub._live
                    return [(h.state.parent, h.state.parent_seq) for h in live if h.id != source]

                await ada.until(branches)
                assert branches() == [(source, 1)]
                states = await server.hub.sessions()
                assert [state.kind for state in states] == ["root", "branch"]
                [branch] = [state for state in states if state.id != source]
                [opened] = [e for e in await server.hub.recorded(branch.id) if e.seq == 1]
                assert opened.body.opened_by == "ada"  # type: ignore[union-attr]
                await ada.until(lambda: branch.id in {s.id for s in ada.hub._mirror._states.values()})  # type: ignore[attr-defined]
