"""Starting a session from the console with a form, a real hub and a real model server."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from interlock.app.agents.spec import AgentSpecError
from interlock.app.screens.live.screen import LiveScreen
from interlock.app.screens.live.start import StartScreen
from interlock.app.sessions.start import StartForm
from tests.support.openai_server import OpenAIServer, says

from ...support.real_console import real_console

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


@pytest.mark.slow
class TestForm:
    @pytest.mark.parametrize("size", [(120, 40), (80, 24)])
    async def test_starts_an_agent_file(self, here: Path, size: tuple[int, int]) -> None:
        """`s`, an agent file, a task: the agent works, and its session is shown."""
        with OpenAIServer([says("Hello ", "there.")]) as server:
            (here / "agent.toml").write_text(AGENT.format(url=server.base_url))
            async with real_console(size=size) as on:
                await on.pilot.press("s")
                await on.until("Start a session")
                await on.type("agent.toml")
                await on.pilot.press("enter", "enter", "enter")
                await on.type("Say hello")
                await on.pilot.press("enter")
                await on.until("Hello there.")
                assert isinstance(on.app.screen, LiveScreen)
                assert "Say hello" in on.painted()
                [state] = await on.app.hub.sessions()
                assert (state.agent, state.mode, list(state.nets)) == ("helper", "enforce", ["block-rm"])
        assert server.requests[0].body["messages"][-1]["content"] == "Say hello"

    async def test_shadow_and_options_override_the_file(self, here: Path) -> None:
        """Fields of the form override the agent file."""
        (here / "b.rules").write_text("block cp\nblock mv\n")
        with OpenAIServer([says("Done.")]) as server:
            (here / "agent.toml").write_text(AGENT.format(url=server.base_url))
            async with real_console() as on:
                await on.pilot.press("s")
                await on.until("Start a session")
                await on.type("agent.toml")
                await on.pilot.press("enter")
                await on.type("b.rules")
                await on.pilot.press("enter", "enter")
                await on.type("Go")
                assert "[ ] Shadow mode" in on.painted()
                await on.pilot.press("tab", "space")
                await on.until("[x] Shadow mode")
                await on.pilot.press("ctrl+s")
                await on.until("Done.")
                [state] = await on.app.hub.sessions()
                assert (state.mode, list(state.nets)) == ("shadow", ["block-cp", "block-mv"])

    async def test_problems_are_shown_and_texts_kept(self) -> None:
        """Problems are shown below the form, and its texts are kept for another try."""
        async with real_console() as on:
            await on.pilot.press("s")
            await on.until("Start a session")
            await on.type("openai/gpt-4o")
            await on.pilot.press("enter")
            await on.type("missing.rules")
            await on.pilot.press("ctrl+s")
            await on.until("what should the agent do?")
            await on.pilot.press("enter", "enter")
            await on.type("Go")
            await on.pilot.press("enter")
            await on.until("no such rules file")
            assert isinstance(on.app.screen, StartScreen)
            await on.pilot.press("escape")
            await on.pilot.press("s")
            await on.until("missing.rules")
            assert "openai/gpt-4o" in on.painted()
            assert await on.app.hub.sessions() == []

    async def test_agent_file_error_names_file_and_line(self, here: Path) -> None:
        """Errors in an agent file name file and line."""
        (here / "agent.toml").write_text('model = "openai/x"\nrulez = ["a.rules"]\n')
        async with real_console() as on:
            await on.pilot.press("s")
            await on.until("Start a session")
            await on.type("agent.toml")
            await on.pilot.press("tab", "tab", "tab")
            await on.type("Go")
            await on.pilot.press("enter")
            await on.until("agent.toml:2")
            assert "did you mean 'rules'" in on.painted()

    async def test_hub_refusal_stays_on_screen(self, here: Path) -> None:
        """A refusal by the hub stays on screen."""
        with OpenAIServer([]) as server:
            (here / "agent.toml").write_text(AGENT.format(url=server.base_url))
        async with real_console() as on:

            async def refuses(*_: object, **__: object) -> str:
                raise RuntimeError("the journal is full")

            on.app.hub.open_session = refuses
            await on.pilot.press("s")
            await on.until("Start a session")
            await on.type("agent.toml")
            await on.pilot.press("tab", "tab", "tab")
            await on.type("Go")
            await on.pilot.press("enter")
            await on.until("Could not start: RuntimeError: the journal is full")

    async def test_two_sessions_run_concurrently(self, here: Path) -> None:
        """A second session does not wait for the first, and both are listed."""
        with OpenAIServer([says("One."), says("Two.")]) as server:
            (here / "agent.toml").write_text(
                AGENT.format(url=server.base_url) + 'task = "Say a number"\n'
            )
            async with real_console() as on:
                for word in ("One.", "Two."):
                    await on.pilot.press("s")
                    await on.until("Start a session")
                    if word == "One.":
                        await on.type("agent.toml")
                    await on.pilot.press("ctrl+s")
                    await on.until(word)
                assert len(await on.app.hub.sessions()) == 2
                await asyncio.gather(*(on.app.hub.wait(s.id) for s in await on.app.hub.sessions()))


class TestSpec:
    def test_other_name_is_a_model(self) -> None:
        """A name that is neither a file nor a module is a model."""
        spec = StartForm("openai/gpt-4o", "a.rules", "bash, read", "Go", True).spec()
        assert (spec.model, spec.agent, spec.tools) == ("openai/gpt-4o", None, ("bash", "read"))
        assert (spec.mode, spec.task, [p.name for p in spec.rules]) == ("shadow", "Go", ["a.rules"])

    def test_module_is_accepted_without_import(self) -> None:
        """`package.module:agent` is accepted without an import."""
        spec = StartForm("shop.agents:release", "a.rules", task="Go").spec()
        assert (spec.agent, spec.model) == ("shop.agents:release", None)

    @pytest.mark.parametrize("agent", ["missing.toml", "http://[x"])
    def test_missing_file_and_broken_address_are_errors(self, agent: str) -> None:
        """A missing file and a broken address are errors before anything starts."""
        with pytest.raises(AgentSpecError):
            StartForm(agent, "a.rules", task="Go").spec()
