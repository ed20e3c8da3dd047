"""The hook command as an agent runs it: a process with an event on stdin."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.engine.gateway.served import Served
from tests.support.forked import python_with

DATA = Path(__file__).parents[3] / "data" / "hook"
ANSWERING = (
    "interlock.app.cli.main",
    "interlock.app.cli.hooks.answers",
    "interlock.app.cli.hooks.main",
    "interlock.engine.gateway.hooks.client",
)
"""The modules that the command has imported when it answers, and no others: it has to stay light."""
INTERLOCK = str(Path(sys.executable).with_name("interlock"))


def recorded(name: str, **changed: object) -> dict[str, object]:
    """Return a recorded event; `changed` replaces fields, and `...` removes one."""
    found = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    return {key: value for key, value in (found | changed).items() if value is not ...}


def every(*prefixes: str) -> list[str]:
    """Return the names of the recorded events with one of these prefixes."""
    return sorted(path.stem for path in DATA.glob("*.json") if path.stem.startswith(prefixes))


@dataclass(frozen=True)
class Ran:
    """The command's exit code and output."""

    code: int
    out: str
    err: str

    @property
    def decision(self) -> dict[str, object]:
        assert self.code == 0, self.err
        return json.loads(self.out)["hookSpecificOutput"]


@dataclass
class Hook:
    """An agent's hook, with the user's files under `home`."""

    home: Path
    environ: dict[str, str] = field(default_factory=dict)

    @classmethod
    def at(cls, home: Path, served: Served | None = None, **environ: str) -> Hook:
        """Return a hook that asks `served` with its agent's token."""
        if served is not None:
            environ = {"INTERLOCK_URL": served.url, "INTERLOCK_TOKEN": served.agent} | environ
        home.mkdir(exist_ok=True)
        return cls(home, environ)

    @property
    def config(self) -> Path:
        found = self.home / "config"
        found.mkdir(exist_ok=True)
        return found

    @property
    def environment(self) -> dict[str, str]:
        clean = {
            k: v for k, v in os.environ.items() if not k.startswith(("INTERLOCK_", "CLAUDE", "CODEX"))
        }
        own = {
            "HOME": str(self.home),
            "INTERLOCK_CONFIG_DIR": str(self.home / "config"),
            "XDG_DATA_HOME": str(self.home / "data"),
            "XDG_STATE_HOME": str(self.home / "s"),
        }
        return clean | own | self.environ

    async def start(
        self, event: bytes | Mapping[str, object], *line: str, agent: str = "claude-code"
    ) -> asyncio.subprocess.Process:
        """Start the command and write its event; it runs as a fork, because tests start many."""
        process = await asyncio.create_subprocess_exec(
            *python_with(*ANSWERING),
            *("-m", "interlock.app.cli", "hook"),
            agent,
            *("--config-dir", str(self.config)),
            *line,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self.environment,
            cwd=self.home,
        )
        assert process.stdin is not None
        process.stdin.write(event if isinstance(event, bytes) else json.dumps(event).encode())
        process.stdin.close()
        return process

    async def command(self, *line: str) -> Ran:
        """Run `interlock hook` with another argument than an agent's name."""
        process = await asyncio.create_subprocess_exec(
            INTERLOCK,
            "hook",
            *line,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self.environment,
        )
        return await ended(process)

    async def run(
        self, event: bytes | Mapping[str, object], *line: str, agent: str = "claude-code"
    ) -> Ran:
        """Run the command to its end."""
        return await ended(await self.start(event, *line, agent=agent))


async def ended(process: asyncio.subprocess.Process) -> Ran:
    """Wait for a command's end and return its result."""
    assert process.stdout is not None
    assert process.stderr is not None
    out, err = await asyncio.gather(process.stdout.read(), process.stderr.read())
    code = await process.wait()
    return Ran(code, out.decode(), err.decode())
