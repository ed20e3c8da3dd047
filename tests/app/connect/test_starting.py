"""Starting and continuing sessions on a server from a remote console."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import JsonValue

from interlock.app.screens.common.confirm import Confirm
from interlock.app.screens.live.screen import LiveScreen
from interlock.app.screens.live.start import StartScreen
from interlock.app.sources.messages import ContinueChosen
from interlock.engine.gateway.client.connection import GatewayError

from ...support.openai_server import OpenAIServer, says
from .seats import Seat, attached, served

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
    async def test_session_runs_on_the_server(self, here: Path) -> None:
        """The form says that files are the server's; the agent runs there, and its session is shown."""
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

    async def test_every_problem_is_shown(self, here: Path) -> None:
        """The form shows every problem that the server finds, and keeps its input."""
        async with served(here) as server, attached(server) as ada:
            await ada.press("s")
            await ada.at(StartScreen)
            await ada.type("gone.toml")
            await ada.press("ctrl+s")
            await ada.shows("gone.toml", "no such")
            assert isinstance(ada.app.screen, StartScreen)


class TestServerRules:
    """G-67: sessions started on a server are always under the server's rules."""

    RULES = (
        "map bash.command rm as delete\nblock delete\n"
        "require 2 human-approvals before deploy risk high no grants\n"
    )

    @pytest.fixture(autouse=True)
    def files(self, here: Path) -> None:
        (here / "server.rules").write_text(self.RULES)
        (here / "lax.rules").write_text("allow unclear bash\n")
        (here / "one.rules").write_text("require human-approval before unclear\n")
        (here / "names.rules").write_text("limit publish to 9 per session\n")

    async def refused(self, ada: Seat, **spec: JsonValue) -> str:
        wanted = {"model": "openai/test-model", "task": "deploy", **spec}
        with pytest.raises(GatewayError) as refused:
            await ada.starter.start(wanted, by="ada")
        return str(refused.value)

    @pytest.mark.slow
    async def test_are_active(self, here: Path) -> None:
        """The server's nets are active with other rules, without rules, and with another `active`."""
        with OpenAIServer([says("One."), says("Two."), says("Three.")]) as model:
            spec = {"model": "openai/test-model", "api_base": model.base_url, "task": "x"}
            async with (
                served(here, server_rules=["server.rules"]) as server,
                attached(server) as ada,
            ):
                for more in (
                    {},
                    {"rules": [str(here / "a.rules")]},
                    {"rules": [str(here / "a.rules")], "active": ["block-rm"]},
                ):
                    started = await ada.starter.start({**spec, **more}, by="ada")
                    state = await server.hub.session(started)
                    assert {"approve-before-deploy", "block-delete"} <= set(state.active)
                    assert ("block-rm" in state.active) == bool(more)
                    await server.hub.wait(started)

    @pytest.mark.slow
    async def test_removal_is_refused(self, here: Path) -> None:
        """Shadow mode, and rules that remove a server's rule, are refused with the reason."""
        async with served(here, server_rules=["server.rules"]) as server, attached(server) as ada:
            lax = await self.refused(ada, rules=[str(here / "lax.rules")])
            assert "the server's own approve-before-unclear would be missing" in lax
            shadow = await self.refused(ada, mode="shadow")
            assert "approve-before-deploy of this server needs several people" in shadow
            assert await server.hub.sessions() == []

    async def test_weaker_rules_are_refused(self, here: Path) -> None:
        """Rules that need fewer approvals than the server's or take calls from a default are refused."""
        default = "require 2 human-approvals before anything-else\n"
        (here / "server.rules").write_text(
            "map bash.command rm as delete\nrequire 2 human-approvals before delete\n" + default
        )
        async with served(here, server_rules=["server.rules"]) as server, attached(server) as ada:
            one = await self.refused(ada, rules=[str(here / "one.rules")])
            assert "the server's own approve-before-unclear would be missing or weaker" in one
            names = await self.refused(ada, rules=[str(here / "names.rules")])
            assert "take calls from the server's own: limit-publish-9 (from approve-before-any" in names
            assert await server.hub.sessions() == []

    @pytest.mark.parametrize(
        "terms", ["require 2 human-approvals before {}", "require human-approval before {} with passkey"]
    )
    async def test_map_that_takes_a_tool_from_a_default_is_refused(self, here: Path, terms: str) -> None:
        """A map must not take a tool from a default, because no rule would then govern its calls."""
        (here / "server.rules").write_text(f"{terms.format('anything-else')}\n")
        (here / "maps.rules").write_text("map bash.command make as ship\n")
        async with served(here, server_rules=["server.rules"]) as server, attached(server) as ada:
            said = await self.refused(ada, rules=[str(here / "maps.rules")])
            assert "take calls from the server's own: a map (from approve-before-anything-else)" in said
            assert await server.hub.sessions() == []

    @pytest.mark.slow
    async def test_continued_session_cannot_weaken_them(self, here: Path) -> None:
        """A session whose own rules would weaken the server's current rules cannot continue."""
        with OpenAIServer([says("One.")]) as model:
            rules, spec = [str(here / "lax.rules")], {"model": "openai/test-model", "task": "x"}
            async with served(here) as server, attached(server) as ada:
                started = await ada.starter.start(
                    {**spec, "api_base": model.base_url, "rules": rules}, by="ada"
                )
                await server.hub.wait(started)
            async with served(here, server_rules=["server.rules"]) as server, attached(server) as ada:
                with pytest.raises(GatewayError, match="own approve-before-unclear would be missing"):
                    await ada.starter.resume(started, by="ada")

    @pytest.mark.slow
    async def test_continued_session_is_under_them(self, here: Path) -> None:
        """A session from before the server had rules continues under them as well."""
        with OpenAIServer([says("One.")]) as model:
            rules, spec = [str(here / "a.rules")], {"model": "openai/test-model", "task": "x"}
            async with served(here) as server, attached(server) as ada:
                started = await ada.starter.start(
                    {**spec, "api_base": model.base_url, "rules": rules}, by="ada"
                )
                await server.hub.wait(started)
            async with served(here, server_rules=["server.rules"]) as server, attached(server) as ada:
                await ada.starter.resume(started, by="ada")
                state = await server.hub.session(started)
                assert {"approve-before-deploy", "block-delete", "block-rm"} <= set(state.active)


class TestGoingOn:
    @pytest.mark.slow
    async def test_ended_session_continues_under_the_same_id(self, here: Path) -> None:
        """A recorded session continues at the server under the same id."""
        with OpenAIServer([says("One."), says("Two.")]) as model:
            (here / "agent.toml").write_text(AGENT.format(url=model.base_url))
            async with served(here) as server, attached(server) as ada:
                started = await ada.starter.start(
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

    @pytest.mark.slow
    async def test_remote_agents_session_cannot_be_continued(self, here: Path) -> None:
        """Continuing a remote agent's session is refused: the agent reconnects by itself."""
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
