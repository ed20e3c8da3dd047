"""Number of ordinary commands in each corpus that are unclear, that is, cannot be parsed completely.

`python -m tests.bench harmless` prints the figures, and then each command. The corpora are the commands
allowed by the library's scenarios, those of the demo's scripted agents and of the documentation, and what
a developer types or an agent runs all day (`tests/data/harmless_more.txt`, one JSON text per line).
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from interlock.rules.shell import Shell, read

from ..docs.blocks import blocks

ROOT = Path(__file__).parents[2]
_CALL = re.compile(
    r'^\s*call (?:[Bb]ash|shell) (?:command|cmd) ("(?:[^"\\]|\\.)*").*\n(?!\s*expect (?:block|ask))',
    re.MULTILINE,
)
_LINE = re.compile(
    r"^((?:make|interlock|pip|npm|npx|python|git|curl|docker|uv|cd|export) .*?)(?: {2,}#.*)?$",
    re.MULTILINE,
)
_SHELLS: tuple[Shell | None, ...] = ("bash", None)


def unclear(commands: Sequence[str], shell: Shell | None) -> list[str]:
    """Return the commands of a corpus that are unclear, parsed for `shell`."""
    return [command for command in commands if read(command, shell).uninspectable is not None]


@cache
def corpora() -> Mapping[str, Sequence[str]]:
    """Return the harmless commands by origin, each once."""
    everyday = (ROOT / "tests" / "data" / "harmless_more.txt").read_text(encoding="utf-8")
    found = {
        "library": [*_of_scenarios()],
        "demo": [*_of_demo()],
        "documentation": [line for block in blocks("bash") for line in _LINE.findall(block.text)],
        "everyday": [json.loads(line) for line in everyday.split("\n") if line],
    }
    return {name: tuple(dict.fromkeys(commands)) for name, commands in found.items()}


def _of_scenarios() -> Iterator[str]:
    for path in sorted((ROOT / "rules" / "library").glob("*_test.rules")):
        for written in _CALL.findall(path.read_text(encoding="utf-8")):
            yield json.loads(written)


def _of_demo() -> Iterator[str]:
    """Yield the commands in the scripts of the demo's agents, as far as they are constants."""
    for path in sorted((ROOT / "app" / "demo").glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        constants = {
            target.id: node.value.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            values: list[ast.expr] = []
            if isinstance(node, ast.Dict):
                pairs = zip(node.keys, node.values, strict=True)
                values = [v for k, v in pairs if isinstance(k, ast.Constant) and k.value == "command"]
            elif (
                isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "_try"
            ):
                values = node.args[1:]
            for value in values:
                said = constants.get(value.id) if isinstance(value, ast.Name) else None
                said = value.value if isinstance(value, ast.Constant) else said
                if isinstance(said, str):
                    yield said


def measure() -> Iterator[tuple[str, float, str]]:
    """Measure each corpus's size, the number unclear for bash and an unknown shell, and the share."""
    every: set[str] = set()
    for name, commands in corpora().items():
        every.update(commands)
        yield f"{name}: commands", len(commands), ""
        for shell in _SHELLS:
            yield f"{name}: unclear for {_shown(shell)}", len(unclear(commands, shell)), ""
    yield "all: commands", len(every), ""
    found: list[str] = []
    for shell in _SHELLS:
        found = unclear(sorted(every), shell)
        yield f"all: unclear for {_shown(shell)}", len(found), ""
        yield f"all: unclear for {_shown(shell)}", 100 * len(found) / len(every), "% (goal at most 1)"
    for command in found:
        print(f"    {read(command, None).uninspectable}: {json.dumps(command)}")


def _shown(shell: Shell | None) -> str:
    return shell or "an unknown shell"
