"""The flow in the documentation."""

from __future__ import annotations

from interlock.app.demo import release_flow
from interlock.engine import agents, flows

from ...docs.blocks import titled


def test_documented_flow_builds_without_findings() -> None:
    """Section 14: the documented flow builds without findings, and has at most 40 lines."""
    text = titled("how-to/flows.md", "release.py")
    assert len([line for line in text.splitlines() if line.strip()]) <= 40
    names = {**vars(flows), **vars(agents)}
    names |= {
        name: value for name, value in vars(release_flow).items() if name not in ("Draft", "Deploy")
    }
    exec(text, names)
    graph = names["ReleaseFlow"].graph()
    graph.check_output()
    assert (graph.findings, len(graph.distinct)) == ((), 8)
