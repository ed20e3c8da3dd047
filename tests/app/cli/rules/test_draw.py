"""Nets as pictures: DOT, Mermaid and SVG, and `interlock draw`."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.app.cli.rules.draw import run
from interlock.app.format.net_graph import net_graph
from interlock.engine.core.condition import Compare
from interlock.engine.core.sanitize import cells
from interlock.engine.drawing.diagram_text import dot, mermaid
from interlock.engine.drawing.graph import Diagram
from interlock.engine.drawing.layout import layers
from interlock.engine.drawing.svg import svg
from interlock.engine.gate import tool_approval_net
from interlock.engine.net.net import SkillNet, Transition, define_skill_net
from interlock.rules import compile_rules
from tests.support.command import printed
from tests.support.laws import examples

RULES = """\
require lint before test   # first
require human-approval before deploy
limit push to 500 per review
limit deploy to 3 per session
block rm
block rm
require a before a
"""
Markings: TypeAlias = Mapping[str, Mapping[str, int]]
NETS = compile_rules(RULES, file="r.rules").registry

DOT_LINE = re.compile(
    r"""\s*(digraph\snets\s\{|rankdir=LR;|subgraph\scluster_\d+\s\{|\}|color=gray70;
    |(node|edge)\s\[.*\];|label="([^"\\]|\\.)*";
    |n\d+[pt]\d+(\s->\sn\d+[pt]\d+)?(\s\[(\w+=("([^"\\]|\\.)*"|[\w.]+)(,\s)?)+\])?;)""",
    re.VERBOSE,
)
MERMAID_LINE = re.compile(
    r"""\s*(flowchart\sLR|direction\sLR|end|subgraph\sn\d+\["[^"]*"\]
    |n\d+p\d+\(\("[^"]*"\)\)|n\d+t\d+\[\[?"[^"]*"\]?\]
    |n\d+[pt]\d+\s(-->|-\.->)(\|"[^"]*"\|)?\sn\d+[pt]\d+)""",
    re.VERBOSE,
)


def graphs(nets: Mapping[str, SkillNet], markings: Markings | None = None) -> list[Diagram]:
    marked = markings or {}
    return [net_graph(key, net, marked.get(key)) for key, net in nets.items()]


def to_svg(nets: Mapping[str, SkillNet], markings: Markings | None = None) -> str:
    return svg(graphs(nets, markings))


def to_dot(nets: Mapping[str, SkillNet]) -> str:
    return dot(graphs(nets))


def to_mermaid(nets: Mapping[str, SkillNet]) -> str:
    return mermaid(graphs(nets))


def placed(net: SkillNet) -> dict[str, tuple[int, int]]:
    """Return column and row of each place and transition; a transition's key is `t` and its number."""
    graph = net_graph("n", net)
    names = {node.key: place for node, place in zip(graph.nodes, net.places, strict=False)}
    return {
        names.get(node.key, node.key): (column, row)
        for column, members in enumerate(layers(graph))
        for row, node in enumerate(members)
    }


def elements(svg: str, look: str) -> list[ElementTree.Element]:
    """Return the picture's elements with the class `look`."""
    return [e for e in ElementTree.fromstring(svg).iter() if look in e.get("class", "").split()]


def texts(svg: str) -> list[str]:
    return [e.text or "" for e in ElementTree.fromstring(svg).iter() if e.tag.endswith("text")]


def draw(
    file: Path | str, *, net: str | None = None, out_file: Path | str | None = None
) -> tuple[int, str, str]:
    target = None if out_file is None else Path(out_file)
    return printed(lambda: run(Namespace(file=str(file), net=net, out=target)))


@st.composite
def nets(draw: st.DrawFn) -> SkillNet:
    """Small nets of any shape, with names that need escaping in every format."""
    name = st.text(alphabet='ab "\\<&#;]\n\x1b\u202e\ud800|', min_size=1, max_size=4)
    places = draw(st.lists(name, min_size=1, max_size=5, unique=True))
    some = st.lists(st.sampled_from(places), max_size=3)
    names = draw(st.lists(name, max_size=5, unique=True))
    transitions = [
        Transition(
            each,
            tuple(draw(some)),
            tuple(draw(some)),
            ("tool",),
            transfers=tuple(draw(st.lists(st.tuples(*[st.sampled_from(places)] * 2), max_size=1))),
        )
        for each in names
    ]
    marking = {place: draw(st.integers(0, 9)) for place in places}
    return define_skill_net(draw(name), places=places, transitions=transitions, initial_marking=marking)


NEWER = compile_rules(
    """\
limit push to 3 per 90m
require human-approval before deploy by 3 within 15m when input.env = "#1"  # not test
""",
    file="n.rules",
).registry


def net_without_rule() -> SkillNet:
    """Return a net with a condition but without a rule."""
    return define_skill_net(
        "gate",
        places=["p"],
        transitions=[Transition("t", ("p",), ("p",), ("bash", "write"), partial=True)],
        initial_marking={"p": 1},
        condition=Compare(("n",), ">", 3),
        governs=["bash", "write"],
    )


class TestNewer:
    """Times, several approvers and conditions, in every format."""

    def test_timed_transition_has_its_time(self) -> None:
        """A timed transition is drawn with its time."""
        net = {"n": NEWER["limit-push-3-per-90m"]}
        assert "after 1 h 30 min" in texts(to_svg(net))
        assert r'label="recover\nafter 1 h 30 min"' in to_dot(net)
        assert '["recover (after 1 h 30 min)"]' in to_mermaid(net)
        assert "by itself" in texts(to_svg(net))

    def test_partial_approval_is_labelled(self) -> None:
        """An approval that is one of several is labelled so; the arc's weight is their number."""
        net = {"n": NEWER["approve-before-deploy"]}
        svg = to_svg(net)
        assert "deploy · needs one of several approvals" in texts(svg)
        assert "3" in texts(svg)
        assert len(elements(svg, "manual")) == 1
        assert r'label="person\ndeploy · needs one of several approvals"' in to_dot(net)
        assert '[["person (deploy · needs one of several approvals)"]]' in to_mermaid(net)

    def test_condition_is_drawn_below_the_rule(self) -> None:
        """The condition is drawn below the rule; a `#` inside its text does not end it."""
        net = {"n": NEWER["approve-before-deploy"]}
        rule, when = "require human-approval before deploy by 3 within 15m", 'when input.env = "#1"'
        svg = to_svg(net)
        assert [e.text for e in elements(svg, "rule")] == [rule, when]
        assert r'label="n\nrequire human-approval before deploy by 3 within 15m\nwhen' in to_dot(net)
        assert 'subgraph n0["n · when input.env = #34;#35;1#34;"]' in to_mermaid(net)

    def test_long_condition_is_cut(self) -> None:
        """A long condition is cut like any text, and no place covers it."""
        either = " or ".join(f'input.path under "src/{part}"' for part in ("app", "engine", "rules"))
        svg = to_svg(compile_rules(f"block write when not ({either})").registry)
        [_, when] = elements(svg, "rule")
        assert (when.text or "").endswith("…")
        assert cells(when.text or "") == 100
        highest = min(float(e.get("cy", "")) - 20 for e in elements(svg, "place"))
        assert float(when.get("y", "")) < highest

    def test_rule_options_are_not_cut(self) -> None:
        """A rule's options are not cut off."""
        rule = "require human-approval before deploy by 10 within 15m risk medium no grants"
        svg = to_svg(compile_rules(rule).registry)
        assert [e.text for e in elements(svg, "rule")] == [rule]
        assert float(ElementTree.fromstring(svg).get("width", "")) > 6.6 * cells(rule)

    def test_net_without_rule_names_its_calls(self) -> None:
        """For a net without a rule, the label names the calls that its condition governs."""
        net = {"gate": net_without_rule()}
        assert [e.text for e in elements(to_svg(net), "rule")] == ["bash, write when input.n > 3"]
        assert "bash, write · partial" in texts(to_svg(net))
        assert "when input.n #62; 3" in to_mermaid(net)


class TestLayout:
    def test_follows_the_tokens(self) -> None:
        """A net is laid out from left to right; a budget is beside the transitions that use it."""
        found = placed(NETS["limit-push-500-per-review"])
        assert {name: found[name][0] for name in ("idle", "ready", "budget", "spent")} == {
            "idle": 0,
            "ready": 2,
            "budget": 2,
            "spent": 4,
        }
        assert [found[key] for key in ("t0", "t1", "t2")] == [(1, 0), (3, 0), (3, 1)]

    def test_unreachable_place_is_below_the_others(self) -> None:
        """A place that no token reaches is below the others."""
        assert placed(NETS["block-rm"])["locked"] == (0, 1)

    @settings(max_examples=examples(80), deadline=None)
    @given(nets())
    def test_no_two_nodes_share_a_cell(self, net: SkillNet) -> None:
        """No two nodes share a cell, and transitions are in columns between places."""
        graph = net_graph("n", net)
        found = [(node, column) for column, members in enumerate(layers(graph)) for node in members]
        assert sorted(node.key for node, _ in found) == sorted(node.key for node in graph.nodes)
        assert len(found) == len(net.places) + len(net.transitions)
        assert all(node.is_place == (column % 2 == 0) for node, column in found)


class TestSvg:
    def test_shows_places_tokens_and_transitions(self) -> None:
        """Places are circles, transitions bars, tokens dots or numbers; manual bars are open."""
        svg = to_svg(NETS)
        assert len(elements(svg, "place")) == sum(len(net.places) for net in NETS.values())
        assert len(elements(svg, "bar")) == sum(len(net.transitions) for net in NETS.values())
        assert len(elements(svg, "manual")) == 1
        assert len(elements(svg, "token")) == len(NETS) + 3
        assert [e.text for e in elements(svg, "count")] == ["500"]
        assert [e.text for e in elements(svg, "title")] == list(NETS)
        assert [e.text for e in elements(svg, "rule")][:2] == [
            "require lint before test",
            "require human-approval before deploy",
        ]
        assert "review · on success" in texts(svg)

    def test_shows_every_arc(self) -> None:
        """Each arc has a line and a head; weights and transfers are labelled."""
        transition = Transition("t", ("a", "a"), ("b",), ("x",), transfers=(("c", "a"),))
        net = define_skill_net(
            "n", places=["a", "b", "c"], transitions=[transition], initial_marking={"a": 2}
        )
        svg = to_svg({"n": net})
        assert len(elements(svg, "arc")) == len(elements(svg, "head")) == 4
        assert len(elements(svg, "transfer")) == 2
        assert sorted(e.text or "" for e in elements(svg, "note")) == ["2", "all", "all", "x"]

    def test_draws_another_marking(self) -> None:
        """A net can be drawn with another marking."""
        svg = to_svg({"x": NETS["block-rm"]}, {"x": {"idle": 0, "ready": 2, "locked": 1_500_000}})
        assert len(elements(svg, "token")) == 2
        assert [e.text for e in elements(svg, "count")] == ["1M"]
        assert "<title>locked: 1,500,000</title>" in svg

    @settings(max_examples=examples(80), deadline=None)
    @given(nets())
    def test_is_well_formed(self, net: SkillNet) -> None:
        """For any names the picture is safe, valid XML, and everything lies inside it."""
        svg = to_svg({net.name: net})
        root = ElementTree.fromstring(svg.encode())
        assert "\x1b" not in svg
        assert "\u202e" not in svg
        width, height = float(root.get("width", "")), float(root.get("height", ""))
        for circle in elements(svg, "place"):
            assert 0 < float(circle.get("cx", "")) < width
            assert 0 < float(circle.get("cy", "")) < height
        for numbers in re.findall(r' d="([^"]*)"', svg):
            pairs = re.findall(r"(-?[\d.]+),(-?[\d.]+)", numbers)
            assert all(0 <= float(x) <= width and 0 <= float(y) <= height for x, y in pairs)

    def test_clips_long_names(self) -> None:
        """A very long name does not make the picture too wide."""
        svg = to_svg(compile_rules(f"block {'x' * 5_000}").registry)
        assert float(ElementTree.fromstring(svg).get("width", "")) < 2_000


class TestDot:
    def test_has_a_cluster_per_net(self) -> None:
        """Places are circles, transitions boxes; a manual transition is bold, a transfer dashed."""
        dot = to_dot(NETS)
        assert dot.count("subgraph") == len(NETS)
        assert dot.count("shape=circle") == sum(len(net.places) for net in NETS.values())
        assert dot.count("style=bold") == 1
        assert dot.count("[style=dashed") == 2
        assert r'label="approve\ndeploy · needs approval"' in dot
        assert 'label="●", xlabel="idle"' in dot
        assert "n2p3 -> n2t2 [style=dashed" in dot

    @settings(max_examples=examples(80), deadline=None)
    @given(nets())
    def test_is_well_formed(self, net: SkillNet) -> None:
        """Every name stays inside its quotes."""
        for line in to_dot({net.name: net}).splitlines():
            assert DOT_LINE.fullmatch(line), line


class TestMermaid:
    def test_has_a_subgraph_per_net(self) -> None:
        """Places are circles, transitions boxes; a manual transition has double sides."""
        text = to_mermaid({"tool-approval": tool_approval_net})
        assert text.splitlines()[:5] == [
            "flowchart LR",
            '  subgraph n0["tool-approval"]',
            "    direction LR",
            '    n0p0(("idle ●"))',
            '    n0p1(("ready"))',
        ]
        assert '    n0t1[["execShell (bash · needs approval)"]]' in text.splitlines()
        assert text.endswith("    n0t2 --> n0p1\n  end\n")

    @settings(max_examples=examples(80), deadline=None)
    @given(nets())
    def test_is_well_formed(self, net: SkillNet) -> None:
        """Every name stays inside its quotes and is not markup."""
        for line in to_mermaid({net.name: net}).splitlines():
            assert MERMAID_LINE.fullmatch(line), line


class TestReservedNames:
    TEXT = "map bash.command rm as delete\nblock delete\nblock anything-else\n"

    @pytest.mark.parametrize("to_text", [to_dot, to_mermaid, to_svg])
    def test_implied_rule_is_drawn(self, to_text: Callable[[dict[str, SkillNet]], str]) -> None:
        """G-64, G-66: the implied rule and a rule for `anything-else` are drawn with their texts."""
        drawn = to_text(compile_rules(self.TEXT, file="r.rules").registry)
        assert "approve-before-unclear" in drawn
        if to_text is not to_mermaid:
            said = "require human-approval before unclear (implied by the map of bash.command)"
            assert said in drawn
        assert "block-anything-else" in drawn
        kept = to_text(compile_rules(f"{self.TEXT}allow unclear bash\n", file="r.rules").registry)
        assert "unclear" not in kept


class TestCommand:
    @pytest.mark.parametrize(
        ("ending", "begins"),
        [("svg", "<svg "), ("SVG", "<svg "), ("dot", "digraph"), ("gv", "digraph"), ("mmd", "flowchart")],
    )
    def test_file_ending_chooses_the_format(self, ending: str, begins: str, tmp_path: Path) -> None:
        """The output file's ending chooses the format."""
        (tmp_path / "r.rules").write_text(RULES)
        target = tmp_path / f"nets.{ending}"
        assert draw(tmp_path / "r.rules", out_file=target) == (0, "", "")
        assert target.read_text("utf-8").startswith(begins)

    def test_without_output_prints_mermaid(self, tmp_path: Path) -> None:
        """Without an output file Mermaid is printed; `--net` chooses one net by its key."""
        (tmp_path / "r.rules").write_text(RULES)
        code, out, err = draw(tmp_path / "r.rules", net="block-rm#2")
        assert (code, err) == (0, "")
        assert out == to_mermaid({"block-rm#2": NETS["block-rm#2"]})

    @pytest.mark.parametrize(
        ("net", "out_file", "said"),
        [
            ("block-r", None, "has no net 'block-r'; did you mean 'block-rm'? Available: require-lint"),
            ("\x1b[2J", None, "has no net '\\x1b[2J'"),
            (
                None,
                "nets.png",
                "'nets.png' does not end in a format that can be drawn: .svg, .dot, .gv, .mmd",
            ),
            (None, "nets", "'nets' does not end in a format"),
            (None, "missing/nets.svg", "cannot write 'missing/nets.svg': No such file"),
        ],
    )
    def test_bad_input(
        self,
        net: str | None,
        out_file: str | None,
        said: str,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """A wrong net, ending or folder is reported with a remedy, and nothing is written."""
        (tmp_path / "r.rules").write_text(RULES)
        monkeypatch.chdir(tmp_path)
        code, out, err = draw("r.rules", net=net, out_file=out_file)
        assert (code, out) == (2, "")
        assert err.startswith("interlock draw: ")
        assert said in err
        assert [path.name for path in tmp_path.iterdir()] == ["r.rules"]

    def test_bad_rules(self, tmp_path: Path) -> None:
        """Rules that do not compile or are empty are reported as by `check`."""
        (tmp_path / "r.rules").write_text("blok x")
        (tmp_path / "e.rules").write_text("# nothing")
        assert "unknown keyword 'blok'" in draw(tmp_path / "r.rules")[2]
        assert "holds no rule" in draw(tmp_path / "e.rules")[2]
        assert draw(tmp_path / "e.rules")[0] == draw(tmp_path / "r.rules")[0] == 2
