"""`interlock flow draw` and `check`: pictures of flows, and their findings."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from .shipping import flow, here, only_run, run

SVG = "{http://www.w3.org/2000/svg}"

__all__ = ["here"]


def texts(file: Path) -> list[str | None]:
    return [each.text for each in ElementTree.parse(file).iter(f"{SVG}text")]


class TestDraw:
    def test_mermaid(self, here: Path) -> None:
        """Section 12: the printed form is Mermaid, with each node's kind and name."""
        done = flow(here, "draw", "ship:Ship")
        assert done.returncode == 0
        assert done.stdout.startswith("flowchart TD\n")
        for node in ("work collect", "agent Write", "suspend for a person", "work publish"):
            assert f'"{node}"' in done.stdout

    def test_svg(self, here: Path) -> None:
        """Section 12: the file's ending selects a drawing."""
        assert flow(here, "draw", "ship:Stuck", "-o", "a.SVG").returncode == 0
        shown = texts(here / "a.SVG")
        assert {"fork parted", "either turned", "join met", "Commit", "Notes"} <= set(shown)

    def test_states_of_a_run_are_marked_as_live(self, here: Path) -> None:
        """Section 12: the states that a recorded run holds are marked as live."""
        run(here, "Ship", "--rules", "a.rules")
        assert flow(here, "draw", "ship:Ship", "--live", "Ship", "-o", "a.svg").returncode == 0
        assert [text for text in texts(here / "a.svg") if text and "live" in text] == ["Notes · live"]
        assert '"Notes - live"' in flow(here, "draw", "ship:Ship", "--live", only_run(here)).stdout

    def test_live_of_another_flow(self, here: Path) -> None:
        """A run of a flow with other states is refused."""
        run(here, "Short")
        done = flow(here, "draw", "ship:Ship", "--live", "Short")
        assert (done.returncode, "whose states are not those of ship:Ship" in done.stderr) == (2, True)

    @pytest.mark.parametrize(
        ("line", "problem"),
        [
            (("ship:Ship", "-o", "a.png"), "does not end in a format that can be drawn: .mmd, .svg"),
            (("ship:Ship", "-o", "no/a.svg"), "cannot write 'no/a.svg'"),
            (("ship:Wrong",), "work 'Commit': duplicate node key"),
            (("ship:Ship", "--live", "nobody"), "nobody"),
        ],
    )
    def test_refused(self, here: Path, line: tuple[str, ...], problem: str) -> None:
        """Invalid input is reported in a sentence."""
        run(here, "Short")
        done = flow(here, "draw", *line)
        assert (done.returncode, problem in done.stderr) == (2, True)
        assert "Traceback" not in done.stderr


class TestCheck:
    def test_nothing_found(self, here: Path) -> None:
        """P-46: a flow without findings is reported as such."""
        done = flow(here, "check", "ship:Ship")
        assert done.returncode == 0
        assert done.stdout.splitlines() == [
            "ship:Ship: 4 nodes, 5 states, from Commit to Shipped",
            "people are asked at: Notes",
            "Every run ends, and no value is lost on the way.",
        ]

    def test_deadlock(self, here: Path) -> None:
        """P-63: a deadlock is reported with the waiting state and the shortest way to it."""
        done = flow(here, "check", "ship:Stuck")
        assert done.returncode == 1
        assert done.stdout.splitlines()[2:] == [
            "deadlock: no join can fire, and these wait forever: 'Right'",
            "  the shortest way there:",
            "    1. fork 'Commit'",
            "    2. either 'Left' to 'Notes'",
        ]

    def test_overwrite(self, here: Path) -> None:
        """P-58: an overwrite is reported with node, state and the shortest way to it."""
        done = flow(here, "check", "ship:Overwrites")
        assert done.returncode == 1
        assert done.stdout.splitlines()[2:] == [
            "overwrite: either 'Left' to 'Right' would overwrite state 'Right', whose value is lost",
            "  the shortest way there:",
            "    1. fork 'Commit'",
        ]

    def test_no_graph(self, here: Path) -> None:
        """P-43: a flow that cannot be built has errors instead of findings."""
        done = flow(here, "check", "ship:Wrong")
        assert (done.returncode, done.stdout) == (2, "")
        assert len(done.stderr.splitlines()) == 2
