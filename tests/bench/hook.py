"""Time that an agent with hooks waits at each tool call that needs no approval."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from interlock.app.cli.hooks.command_line import HookLine
from interlock.app.cli.hooks.main import own_command

REPEATS = 31
INTERLOCK = str(Path(sys.executable).with_name("interlock"))
RULES = "block deploy\nlimit push to 100 per session\nrequire test before release\n"


def measure() -> Iterator[tuple[str, float, str]]:
    """Measure the hook's command and a bare interpreter in alternation, with a separate server."""
    with tempfile.TemporaryDirectory(prefix="hook") as folder:
        (Path(folder) / "bench.rules").write_text(RULES)
        environ = os.environ | {
            "INTERLOCK_CONFIG_DIR": f"{folder}/config",
            "INTERLOCK_URL": f"unix:{folder}/s",
        }
        serve = [INTERLOCK, "serve", "--listen", f"unix:{folder}/s", "--db", f"{folder}/bench.db"]
        with subprocess.Popen(
            [*serve, "--rules", f"{folder}/bench.rules"], stdout=subprocess.PIPE, env=environ
        ) as server:
            try:
                assert server.stdout is not None
                assert b"Listening" in server.stdout.readline()
                yield from _times(environ)
            finally:
                server.terminate()


def _times(environ: dict[str, str]) -> Iterator[tuple[str, float, str]]:
    line = HookLine(config=Path(environ["INTERLOCK_CONFIG_DIR"]))
    hook = [*own_command(), "hook", "claude-code", *line.words]
    bare, free, denied, result = [], [], [], []
    for number in range(REPEATS):
        bare.append(_seconds([sys.executable, "-c", "pass"], b"", environ))
        free.append(_seconds(hook, _event("PreToolUse", f"a{number}", "Bash"), environ))
        result.append(_seconds(hook, _event("PostToolUse", f"a{number}", "Bash"), environ))
        denied.append(_seconds(hook, _event("PreToolUse", f"b{number}", "deploy"), environ))
    yield "hook: python -c pass", median(bare) * 1000, "ms"
    yield "hook: a free call", median(free) * 1000, "ms (goal ≤ 150)"
    yield "hook: a free call, worst", max(free) * 1000, "ms"
    yield "hook: a free call / python -c pass", median(free) / median(bare), "ratio"
    yield "hook: a blocked call", median(denied) * 1000, "ms (goal ≤ 150)"
    yield "hook: a result", median(result) * 1000, "ms (goal ≤ 150)"


def _event(name: str, call: str, tool: str) -> bytes:
    event = {
        "session_id": "bench",
        "cwd": "/",
        "hook_event_name": name,
        "tool_name": tool,
        "tool_input": {"command": "ls -la"},
        "tool_use_id": call,
        "tool_response": {"stdout": "a\nb", "stderr": ""},
    }
    return json.dumps(event).encode()


def _seconds(command: list[str], data: bytes, environ: dict[str, str]) -> float:
    start = time.monotonic()
    subprocess.run(command, input=data, check=True, stdout=subprocess.DEVNULL, env=environ)
    return time.monotonic() - start
