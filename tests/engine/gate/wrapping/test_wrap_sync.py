"""Wrapped tools with and without an event loop."""

from __future__ import annotations

import asyncio

import pytest

from interlock.engine import SyncToolError

from ..support.helpers import Operator, Spy, gate, markings


class TestSyncAndAsync:
    """Synchronous tools stay synchronous, async tools async."""

    def test_sync_tool_with_a_prompt_confirm(self) -> None:
        """A synchronous tool can use a confirm that answers at once, async or not, without a loop."""

        async def confirm(_request: object) -> bool:
            return True

        for asking in (Operator(), confirm):
            tools = (
                gate("require human-approval before bash", confirm=asking).wrap_tools([Spy().bash]).tools
            )
            assert tools[0]() == "done"

    async def test_sync_tool_that_would_have_to_wait(self) -> None:
        """A synchronous tool that would have to wait does not run and uses no id; `call` can wait."""

        async def confirm(_request: object) -> bool:
            await asyncio.sleep(0)
            return True

        spy = Spy()
        rules = "require human-approval before bash\nlimit bash to 1 per session"
        session = gate(rules, confirm=confirm).wrap_tools({"bash": spy.bash})
        with pytest.raises(SyncToolError, match="Tool 'bash' is synchronous"):
            session.tools["bash"](tool_call_id="c1")
        assert (spy.ran, markings(session.manager)["limit-bash-1"]["budget"]) == ([], 1)
        assert await session.call("bash", {"command": "pwd"}, tool_call_id="c1") == "done"
        assert spy.ran == [{"command": "pwd", "cwd": "."}]

    async def test_sync_function_that_returns_an_awaitable(self) -> None:
        """The unlocking waits until the awaitable ends."""

        async def work() -> str:
            return "done"

        session = gate("require lint before deploy").wrap_tools({"lint": lambda *_: work()})
        running = session.tools["lint"]()
        assert markings(session.manager)["require-lint-before-deploy"]["gate"] == 0
        assert await running == "done"
        assert markings(session.manager)["require-lint-before-deploy"]["gate"] == 1

    async def test_call_by_name(self) -> None:
        """`call` runs any wrapped tool by name; for an unknown name, the error lists them."""

        async def lint(path: str) -> str:
            return path

        session = gate("block x").wrap_tools({"lint": lint, "schema": {}}, passthrough=["schema"])
        assert await session.call("lint", {"path": "a"}) == "a"
        with pytest.raises(TypeError, match="takes no argument 'nope'"):
            await session.call("lint", {"nope": "a"})
        for name in ("schema", "other"):
            with pytest.raises(LookupError, match=f"No tool '{name}' to run. Available: lint"):
                await session.call(name)
