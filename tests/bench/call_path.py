"""Code executed by one allowed tool call of a hosted session: product files and functions.

Counted from the model's reply to its next request: decision, journal, execution, result, message.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType

import interlock.engine.hub.hub
from interlock.engine.agents import Agent, C, Reply, ScriptedModel, T, tool
from interlock.engine.hub.hub import Hub, SessionConfig
from interlock.rules import compile_rules

PRODUCT = Path(interlock.engine.hub.hub.__file__).parents[2]
FOLDERS = tuple(f"{PRODUCT / name}/" for name in ("app", "engine", "rules"))


class CallPath:
    """Product code executed while `is_counting`, in this thread and in threads started from now on."""

    def __init__(self) -> None:
        self.codes: set[CodeType] = set()
        self.is_counting = False
        threading.setprofile(self._seen)
        sys.setprofile(self._seen)

    def _seen(self, frame: FrameType, event: str, _: object) -> None:
        if self.is_counting and event == "call" and frame.f_code.co_filename.startswith(FOLDERS):
            self.codes.add(frame.f_code)

    def files(self) -> set[str]:
        return {str(Path(code.co_filename).relative_to(PRODUCT)) for code in self.codes}

    def functions(self) -> set[tuple[str, str]]:
        """Return named functions: no comprehensions, lambdas or class bodies."""
        return {
            (code.co_filename, code.co_qualname)
            for code in self.codes
            if not code.co_name.startswith("<")
        }


async def walk(folder: Path) -> CallPath:
    """Return the path of the second of two calls, for which nothing has to be loaded or compiled."""
    path = CallPath()

    @tool(name="test")
    async def run_tests() -> str:
        """Run the tests."""
        return "ok"

    def reply(messages: object) -> Reply:
        requests.append(messages)
        path.is_counting = len(requests) == 2
        if len(requests) == 3:
            answered.set()
        return C(test={}) if len(requests) < 3 else T("done")

    requests: list[object] = []
    answered = asyncio.Event()
    hub = Hub.open(folder / "hub.db")
    agent = Agent(ScriptedModel(reply), name="bot", tools=[run_tests])
    rules = compile_rules("require test before deploy")
    session = await hub.open_session(agent, SessionConfig(rules.registry))
    await hub.send(session, "go", by="maria")
    await answered.wait()
    await hub.close()
    sys.setprofile(None)
    threading.setprofile(None)
    return path


def measure() -> Iterator[tuple[str, float, str]]:
    with tempfile.TemporaryDirectory() as folder:
        path = asyncio.run(walk(Path(folder)))
    yield "a call of a hosted session, files", len(path.files()), "files"
    yield "a call of a hosted session, functions", len(path.functions()), "functions"
