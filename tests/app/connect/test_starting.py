"""Starting and continuing sessions on a server from a console elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.app.messages import ContinueChosen
from interlock.app.screens.confirm import Confirm
from interlock.app.screens.live import LiveScreen
from interlock.app.screens.start import StartScreen
from tests.app.connect.seats import attached, served
from tests.support.openai_server import OpenAIServer, says

AGENT = """\
name = "helper"
model = "openai/test-model"
api_base = "{url}"
rules = ["a.rules"]
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    (tmp_path / "a.rules").write_text("block rm\n")
    return tmp_path


class TestForm:
    async def test_runs_on_the_server(self, here: Path) -> None:
        """The form says whose files it means; the agent runs there, and its session is shown."""
        with OpenAIServer([says("Hello ", "there.")]) as model:
            (here / "agent.toml").write_text(AGENT.format(url=model.base_url))
            async with served(here) as server, attached(server) as ada:
                await ada.press("s")
                await ada.at(StartScreen)
                await ada.shows(f"It runs on 127.0.0.1:{server.address.port}", "files and modules")
                await ada.type("agent.toml")
                await ada.press("enter", "enter", "enter")
                await ada.type("Say hello")
                await ada.press("enter")
                await ada.at(LiveScreen)
                await ada.shows("Hello there.", "helper")
                [state] = await server.hub.sessions()
                assert (state.agent, list(state.nets)) == ("helper", ["block-rm"])

    async def test_what_is_wrong_is_said(self, here: Path) -> None:
        """Every problem that the server finds stands in the form, and what was typed stays."""
        async with served(here) as server, attached(server) as ada:
            await ada.press("s")
            await ada.at(StartScreen)
            await ada.type("gone.toml")
            await ada.press("ctrl+s")
            await ada.shows("gone.toml", "no such")
            assert isinstance(ada.app.screen, StartScreen)


class TestGoingOn:
    async def test_a_session_that_ended(self, here: Path) -> None:
        """A recorded session goes on there, in a new one from an event when that is asked."""
        with OpenAIServer([says("One."), says("Two.")]) as model:
            (here / "agent.toml").write_text(AGENT.format(url=model.base_url))
            async with served(here) as server, attached(server) as ada:
                started = await ada.hub.start(  # type: ignore[attr-defined]
                    {
                        "form": {
                            "agent": "agent.toml",
                            "rules": "",
                            "tools": "",
                            "task": "x",
                            "shadow": False,
                        }
                    }
                )
                await ada.shows("One.")
                await server.hub.wait(started)
                await ada.hub.close_session(started, "ada")
                ada.app.post_message(ContinueChosen(started, None))
                await ada.at(Confirm)
                ada.seconds += 10
                await ada.until(lambda: True)
                await ada.pilot.pause(0.05)
                ada.seconds += 10
                await ada.press("y")
                await ada.shows("helper")
                assert [s.id for s in await server.hub.sessions()] == [started]

    async def test_one_that_a_program_hosts(self, here: Path) -> None:
        """An agent elsewhere comes back by itself; that is said."""
        async with served(here) as server, server.agent_client() as agent, attached(server) as ada:
            session = await agent.open("robin")
            await session.close()
            ada.app.post_message(ContinueChosen(session.id, None))
            await ada.at(Confirm)
            ada.seconds += 10
            await ada.pilot.pause(0.05)
            ada.seconds += 10
            await ada.press("y")
            await ada.shows("Cannot continue")
