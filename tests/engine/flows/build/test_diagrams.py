"""Flows as diagrams."""

from __future__ import annotations

from xml.etree import ElementTree

from hypothesis import given

from interlock.engine.flows import Invalid

from ..support.plain import Plain, grown
from ..support.shapes import E, F, J, W, builder

SVG = "{http://www.w3.org/2000/svg}"
MADE = {"W": W, "E": E, "F": F, "J": J}
NODES = (F("S", "A", "B"), E("A", "A1", "Z"), J("A1", "B", "Z"))


class TestMermaid:
    def test_every_node_and_state(self) -> None:
        """Section 14: each state appears once, each node with its arrows; branches are dashed."""
        assert builder("S", "Z", *NODES).build().mermaid().splitlines() == [
            "flowchart TD",
            '    s0(["S"])',
            '    s1(["A"])',
            '    s2(["B"])',
            '    s3(["A1"])',
            '    s4(["Z"])',
            '    n0[/"fork"\\]',
            "    s0 --> n0",
            "    n0 --> s1",
            "    n0 --> s2",
            '    n1{"either"}',
            "    s1 --> n1",
            "    n1 -.-> s3",
            "    n1 -.-> s4",
            '    n2[\\"join"/]',
            "    s3 --> n2",
            "    s2 --> n2",
            "    n2 --> s4",
        ]

    def test_live_states(self) -> None:
        """Section 12: live states are highlighted."""
        graph = builder("S", "Z", *NODES).build()
        drawn = graph.mermaid(live=("B", "A1", "nowhere"))
        assert drawn.splitlines()[-1] == "    class s2,s3 live"

    def test_labels_are_escaped(self) -> None:
        """Section 14: the label of a state is escaped, whatever its name."""
        name = 'Page["x"]<b>;`'
        drawn = builder(name, "Z", W(name, "Z")).build().mermaid()
        assert 's0(["Page#91;#34;x#34;#93;#60;b#62;#59;#96;"])' in drawn


class TestSvg:
    def test_every_node_and_state(self) -> None:
        """Section 14: a box for each state and node, an arrow for each edge; live states highlighted."""
        drawn = ElementTree.fromstring(builder("S", "Z", *NODES).build().svg(live=("B",)))
        texts = [each.text for each in drawn.iter(f"{SVG}text")]
        assert sorted(texts) == sorted(["S", "A", "B", "A1", "Z", "fork", "either", "join"])
        paths = list(drawn.iter(f"{SVG}path"))
        assert len(paths) == 9
        assert sum(path.get("class") == "choice" for path in paths) == 2
        [live] = [rect for rect in drawn.iter(f"{SVG}rect") if "live" in rect.get("class", "")]
        boxes = list(drawn.iter(f"{SVG}rect"))
        assert texts[boxes.index(live)] == "B"

    def test_joins_are_below_their_parents(self) -> None:
        """Section 14: only a loop's arrow points upwards, whichever path is longer."""
        nodes = (F("S", "A", "B"), W("A", "A2"), E("A2", "A3", "A"), W("B", "B2"), J("A3", "B2", "Z"))
        drawn = ElementTree.fromstring(builder("S", "Z", *nodes).build().svg())
        texts = [each.text for each in drawn.iter(f"{SVG}text")]
        heights = [float(each.get("y", "")) for each in drawn.iter(f"{SVG}text")]
        at = dict(zip(texts, heights, strict=True))
        assert at["A"] < at["A2"] < at["A3"] < at["join"] < at["Z"]
        assert at["B2"] < at["join"]

    def test_names_are_shown_as_text(self) -> None:
        """Section 14: a name is shown as text, with invisible characters made visible."""
        name = "a<b>&\x07\u202e"
        drawn = ElementTree.fromstring(builder(name, "Z", W(name, "Z")).build().svg())
        shown = next(each.text for each in drawn.iter(f"{SVG}text"))
        assert shown is not None
        assert shown.startswith("a<b>&")
        assert "\u202e" not in shown

    @given(grown())
    def test_nothing_overlaps(self, nodes: list[Plain]) -> None:
        """Section 14: boxes do not overlap and are inside the drawing."""
        g = builder("S", "Z", *(MADE[kind](*keys) for kind, *keys in nodes))
        try:
            graph = g.build()
        except Invalid:
            return
        drawn = ElementTree.fromstring(graph.svg())
        _, _, width, height = map(float, drawn.get("viewBox", "").split())
        boxes = []
        for rect in drawn.iter(f"{SVG}rect"):
            x, y, w, h = (float(rect.get(name, "")) for name in ("x", "y", "width", "height"))
            assert 0 <= x <= x + w <= width
            assert 0 <= y <= y + h <= height
            boxes.append((x, y, w, h))
        for n, (x, y, w, h) in enumerate(boxes):
            for ox, oy, ow, oh in boxes[n + 1 :]:
                assert x + w <= ox or ox + ow <= x or y + h <= oy or oy + oh <= y
