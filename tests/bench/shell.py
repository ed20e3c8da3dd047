"""Shell commands: from the text of a call to all of its names."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from statistics import median

from interlock.engine import ToolCall
from interlock.rules import compile_rules

MAPS = 100
PIPELINE = (
    "find src -name '*.py' -newer .stamp | xargs grep -n TODO | sort -u | head -20 && make test "
    '| tee out.log; cp -r build /srv/app && git commit -am "release {n:04}" '
    "|| echo failed > log; rm -rf build"
)
ROUNDS = 300


def rules() -> str:
    """Return a hundred maps, most of programs that the command does not run, and a rule for one map."""
    words = [f"tool-{i}" for i in range(MAPS - 4)]
    lines = [f"map bash.command {word} as {word}" for word in words]
    lines += [f"map bash.command {word} as {word}" for word in ("rm", "cp", "git", "make")]
    return "\n".join((*lines, "block rm"))


def measure() -> Iterator[tuple[str, float, str]]:
    """Measure one check including parsing; no two commands are equal, as parsed commands are cached."""
    resolve = compile_rules(rules()).resolve
    texts = [PIPELINE.format(n=n) for n in range(ROUNDS)]
    yield "characters of the shell command", len(texts[0]), ""
    yield (
        "shell command, 100 maps",
        _median([lambda t=text: resolve(ToolCall("c", "bash", {"command": t})) for text in texts]),
        "µs (goal < 300)",
    )
    garbage = ["&>}`" * 150 + str(n) for n in range(20)]
    yield (
        "shell command that cannot be parsed",
        _median([lambda t=text: resolve(ToolCall("c", "bash", {"command": t})) for text in garbage]),
        "µs",
    )


def _median(checks: list[Callable[[], object]]) -> float:
    checks[0]()
    taken: list[float] = []
    for check in checks:
        start = time.perf_counter()
        check()
        taken.append(time.perf_counter() - start)
    return median(taken) * 1e6
