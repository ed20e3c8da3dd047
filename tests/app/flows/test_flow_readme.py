"""The flow in the README is one."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent

from interlock.app.demo import release_flow
from interlock.engine import agents, flows

README = Path(__file__).parents[3] / "README.md"


def test_it_can_be_run() -> None:
    """Section 14: with the demo's models it is built, nothing can go wrong, and it is a page at most."""
    [block] = re.findall(r"(?m)^    # release\.py\n(?:    .*\n|\n(?=    ))+", README.read_text())
    text = dedent(block)
    assert len([line for line in text.splitlines() if line.strip()]) <= 40
    names = {**vars(flows), **vars(agents)}
    names |= {
        name: value for name, value in vars(release_flow).items() if name not in ("Draft", "Deploy")
    }
    exec(text, names)
    graph = names["ReleaseFlow"].graph()
    graph.check_output()
    assert (graph.findings, len(graph.distinct)) == ((), 8)
