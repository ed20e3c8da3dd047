"""Graphs as SVG, one below the other: circles and bars for nets, boxes for flows.

Distances are measured along the arrows and across them; they become x and y when points are written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from ..core.sanitize import cells, visible
from .diagram_text import DOTS
from .graph import Diagram, Direction, Edge, Node
from .layout import layers

RADIUS = 20.0
BAR_WIDTH = 10.0
BAR_HEIGHT = 44.0
BOX_HEIGHT = 30.0
COLUMN = 116.0
ROW = 118.0
GAP = 34.0
LABEL_GAP = 25.0
MARGIN = 24.0
CAPTION = 42.0
LANE = 16.0
LINE = 17.0
CHARACTER = 6.6
MONOSPACE = 7.4
BOW = 15.0

STYLE = """\
text{font:12px system-ui,sans-serif;fill:#1f2328;text-anchor:middle}
.title{font-weight:600;font-size:14px;text-anchor:start}
.note{font-size:11px;fill:#59636e}
.rule{font:12px ui-monospace,monospace;fill:#59636e;text-anchor:start}
.label{font:12px ui-monospace,monospace}
.place,.state{fill:#fff;stroke:#1f2328;stroke-width:1.5}
.bar{fill:#1f2328;stroke:#1f2328;stroke-width:1.5}
.manual,.page,.back{fill:#fff}
.node{fill:#e8eef7;stroke:#59636e}
.live{stroke:#b35900;stroke-width:3}
path{fill:none;stroke:#59636e;stroke-width:1.3}
.head{fill:#59636e}
.transfer,.choice{stroke-dasharray:5 3}
.token{fill:#0969da}
.count{font-weight:600;fill:#0969da}"""


@dataclass(frozen=True, slots=True)
class _Point:
    along: float
    across: float

    def moved(self, step: float, across: float = 0) -> _Point:
        return _Point(self.along + step, self.across + across)


@dataclass(frozen=True, slots=True)
class _Shape:
    """A node with its middle, half its size, its layer and row, and half the length of its layer."""

    node: Node
    at: _Point
    half: _Point
    layer: int
    row: int
    reach: float


def svg(graphs: Sequence[Diagram], direction: Direction = "LR") -> str:
    """The graphs as one SVG document with most arrows in one direction."""
    body: list[str] = []
    width, top = 0.0, MARGIN
    for graph in graphs:
        picture = _Picture(graph, direction)
        body += [f'<g transform="translate({MARGIN:g} {_number(top)})">', *picture.lines(), "</g>"]
        width = max(width, picture.width)
        top += picture.height + MARGIN
    wide, high = _number(width + 2 * MARGIN), _number(top)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" '
            f'width="{wide}" height="{high}" role="img">',
            f"<title>{escape(', '.join(visible(graph.title) for graph in graphs))}</title>",
            f"<style>{STYLE}</style>",
            f'<polygon class="page" points="0,0 {wide},0 {wide},{high} 0,{high}"/>',
            *body,
            "</svg>",
            "",
        ]
    )


class _Picture:
    """One graph, with its title above it."""

    def __init__(self, graph: Diagram, direction: Direction) -> None:
        self._graph, self._down = graph, direction == "TD"
        self._shapes = self._placed()
        self._long = sorted((e for e in graph.edges if self._span(e) > 1), key=self._span)
        self._lines = [visible(line) for line in (graph.rule, graph.condition) if line]
        title = 29 + LINE * max(1, len(self._lines)) if graph.title else 0
        self._lanes = LANE * (len(self._long) + 1) if self._long else 0
        self._top = title if self._down else title + max(self._lanes, LANE)
        shapes = self._shapes.values()
        along = max((s.at.along + s.reach for s in shapes), default=0) + (2 * LANE if self._long else 0)
        across = max((s.at.across + s.half.across for s in shapes), default=0)
        texts = [8.5 * cells(visible(graph.title)), *(MONOSPACE * cells(line) for line in self._lines)]
        self.width = max(self._lanes + across if self._down else along, *texts)
        self.height = self._top + (along if self._down else across + CAPTION)

    def _placed(self) -> dict[str, _Shape]:
        """The nodes by key: layers one after the other, rows of a flow are centred."""
        found: dict[str, _Shape] = {}
        rows = layers(self._graph)
        sizes = [[self._half(node) for node in layer] for layer in rows]
        spans = [sum(2 * half.across + GAP for half in halves) - GAP for halves in sizes]
        gap, pitch = (GAP, 0) if self._down else (LABEL_GAP, COLUMN)
        end, along = -gap, -pitch
        for number, (layer, halves) in enumerate(zip(rows, sizes, strict=True)):
            reach = max(map(self._reach, layer), default=0)
            along = max(end + gap + reach, along + pitch)
            end = along + reach
            begin = (max(spans) - spans[number]) / 2
            for row, (node, half) in enumerate(zip(layer, halves, strict=True)):
                across = begin + half.across if self._down else RADIUS + row * ROW
                found[node.key] = _Shape(node, _Point(along, across), half, number, row, reach)
                begin += 2 * half.across + GAP
        return found

    def _half(self, node: Node) -> _Point:
        """Half of a node's length and width."""
        if node.kind == "place":
            return _Point(RADIUS, RADIUS)
        if node.kind in ("transition", "manual"):
            return _Point(BAR_WIDTH / 2, BAR_HEIGHT / 2)
        return _Point(BOX_HEIGHT / 2, MONOSPACE * cells(_label(node)) / 2 + 12)

    def _reach(self, node: Node) -> float:
        """Half of the length that a node takes with its name."""
        if self._down:
            return BOX_HEIGHT / 2
        return max(RADIUS, CHARACTER * max(cells(visible(text)) for text in (node.name, node.note)) / 2)

    def _span(self, edge: Edge) -> int:
        return abs(self._shapes[edge.target].layer - self._shapes[edge.source].layer)

    def lines(self) -> Iterator[str]:
        """Elements of the picture, arrows below nodes."""
        if self._graph.title:
            yield f'<text class="title" x="0" y="14">{escape(visible(self._graph.title))}</text>'
        for number, line in enumerate(self._lines):
            yield f'<text class="rule" x="0" y="{33 + LINE * number:g}">{escape(line)}</text>'
        for edge, bow in self._bows():
            yield from self._lane_edge(edge) if edge in self._long else self._across(edge, bow)
        for shape in self._shapes.values():
            yield from self._circle(shape) if shape.node.kind == "place" else self._rectangle(shape)

    def _bows(self) -> Iterator[tuple[Edge, float]]:
        """Every edge, and how far it bends away from the others between the same two nodes."""
        pairs: dict[frozenset[str], list[Edge]] = {}
        for edge in self._graph.edges:
            pairs.setdefault(frozenset((edge.source, edge.target)), []).append(edge)
        for pair in pairs.values():
            for position, edge in enumerate(pair):
                yield edge, (position - (len(pair) - 1) / 2) * 2 * BOW

    def _across(self, edge: Edge, bow: float) -> Iterator[str]:
        """An edge between neighbouring layers."""
        source, target = self._shapes[edge.source], self._shapes[edge.target]
        middle = _middle(source.at, target.at).moved(0, 1.6 * bow)
        start, stop = _border(source, middle, bow), _border(target, middle, bow)
        path = f"M{self._xy(start)} Q{self._xy(middle)} {self._xy(stop)}"
        yield from self._arrow(
            edge, path, middle, stop, _middle(_middle(start, stop), middle).moved(0, -4)
        )

    def _lane_edge(self, edge: Edge) -> Iterator[str]:
        """An edge between distant layers, routed beside the nodes in a lane of its own."""
        lane = -8 - LANE * (1 + self._long.index(edge))
        out = self._exit(self._shapes[edge.source], lane, leaving=True)
        back = self._exit(self._shapes[edge.target], lane, leaving=False)
        points = [*out, *reversed(back)]
        label = _middle(out[-1], back[-1]).moved(0, -3)
        yield from self._arrow(edge, self._rounded(points), points[-2], points[-1], label)

    def _exit(self, shape: _Shape, lane: float, *, leaving: bool) -> list[_Point]:
        """Path from a node to the lane: straight, or past the nodes beside it in its layer."""
        if shape.row == 0:
            # Outgoing paths are offset from incoming ones, so that they do not overlap.
            shift = min(7, shape.half.along - 2) * (-1 if leaving else 1)
            round_ = shape.node.kind == "place"
            side = (RADIUS**2 - shift**2) ** 0.5 if round_ else shape.half.across
            return [shape.at.moved(shift, -side), _Point(shape.at.along + shift, lane)]
        # The farther the lane, the farther the aisle, so that no two edges share one.
        sign = 1 if leaving or shape.layer == 0 else -1
        aisle = shape.at.along + sign * (shape.reach + (4 if self._down else 10) - lane / 8)
        begin = shape.at.moved(sign * shape.half.along)
        return [begin, _Point(aisle, shape.at.across), _Point(aisle, lane)]

    def _arrow(self, edge: Edge, path: str, before: _Point, tip: _Point, label: _Point) -> Iterator[str]:
        look = edge.style if edge.style != "transfer" else "arc transfer"
        yield f'<path class="{look}" d="{path}"/>'
        back = _towards(tip, before, 8, most=1)
        wing = _Point((tip.across - back.across) * 0.45, (back.along - tip.along) * 0.45)
        wings = [back.moved(wing.along, wing.across), back.moved(-wing.along, -wing.across)]
        yield f'<polygon class="head" points="{" ".join(map(self._xy, [tip, *wings]))}"/>'
        if edge.label:
            yield self._text("note", label, edge.label)

    def _rounded(self, points: Sequence[_Point]) -> str:
        """A path along `points` with round corners."""
        path = [f"M{self._xy(points[0])}"]
        for before, corner, after in zip(points, points[1:], points[2:], strict=False):
            path.append(f"L{self._xy(_towards(corner, before, 8))}")
            path.append(f"Q{self._xy(corner)} {self._xy(_towards(corner, after, 8))}")
        return " ".join([*path, f"L{self._xy(points[-1])}"])

    def _circle(self, shape: _Shape) -> Iterator[str]:
        """A place with its tokens, and its name below."""
        name, tokens = escape(visible(shape.node.name)), shape.node.tokens
        yield (
            f'<circle class="place" {self._position("c", shape.at)} r="{RADIUS:g}">'
            f"<title>{name}: {tokens:,}</title></circle>"
        )
        if tokens > DOTS:
            yield self._text("count", shape.at.moved(0, 4), _short(tokens))
        for offset in _DOTS[tokens] if tokens <= DOTS else ():
            yield f'<circle class="token" {self._position("c", shape.at.moved(*offset))} r="4.5"/>'
        yield from self._caption("", shape.at.moved(0, RADIUS + 16), shape.node.name)

    def _rectangle(self, shape: _Shape) -> Iterator[str]:
        """A transition as a bar with its name below, or a state or node of a flow as a box."""
        node, half = shape.node, shape.half
        bar = node.kind in ("transition", "manual")
        look = "bar" if bar else "state" if node.is_place else "node"
        marks = [" manual"] if node.kind == "manual" else []
        marks += [" live"] if node.live else []
        width, height = (half.across, half.along) if self._down else (half.along, half.across)
        corner = self._position("", shape.at.moved(-half.along, -half.across))
        round_ = "" if bar else f' rx="{15 if node.is_place else 3}"'
        yield (
            f'<rect class="{look}{"".join(marks)}" {corner} width="{_number(2 * width)}" '
            f'height="{_number(2 * height)}"{round_}/>'
        )
        if not bar:
            yield self._text("label", shape.at.moved(4), _label(node))
            return
        yield from self._caption("", shape.at.moved(0, half.across + 16), node.name)
        yield from self._caption("note", shape.at.moved(0, half.across + 31), node.note)

    def _caption(self, look: str, at: _Point, text: str) -> Iterator[str]:
        """A text with a background that hides arrows passing behind it."""
        width = cells(visible(text)) * CHARACTER
        corner = self._position("", at.moved(-width / 2, -11))
        yield f'<rect class="back" {corner} width="{_number(width)}" height="15"/>'
        yield self._text(look, at, text)

    def _text(self, look: str, at: _Point, text: str) -> str:
        named = f'class="{look}" ' if look else ""
        return f"<text {named}{self._position('', at)}>{escape(visible(text))}</text>"

    def _position(self, prefix: str, at: _Point) -> str:
        x, y = self._xy(at).split(",")
        return f'{prefix}x="{x}" {prefix}y="{y}"'

    def _xy(self, at: _Point) -> str:
        if self._down:
            return f"{_number(self._lanes + at.across)},{_number(self._top + at.along)}"
        return f"{_number(at.along)},{_number(self._top + at.across)}"


_DOTS: Sequence[Sequence[tuple[float, float]]] = (
    (),
    ((0, 0),),
    ((-6, 0), (6, 0)),
    ((0, -6), (-6, 5), (6, 5)),
    ((-6, -6), (6, -6), (-6, 6), (6, 6)),
)
"""Offsets of a place's tokens from its middle, by their number."""


def _label(node: Node) -> str:
    """Text in a box."""
    return " · ".join(visible(text) for text in (node.name, node.note) if text)


def _border(shape: _Shape, towards: _Point, bow: float) -> _Point:
    """Point at which an edge between a node and `towards` touches the node."""
    if shape.node.kind == "place":
        return _towards(shape.at, towards, RADIUS, most=float("inf"))
    reach = shape.half.across - 6
    side = shape.half.along if towards.along > shape.at.along else -shape.half.along
    offset = bow * 0.6 if bow else (towards.across - shape.at.across) * 0.25
    return shape.at.moved(side, max(-reach, min(reach, offset)))


def _middle(one: _Point, other: _Point) -> _Point:
    return _Point((one.along + other.along) / 2, (one.across + other.across) / 2)


def _towards(begin: _Point, end: _Point, distance: float, *, most: float = 0.5) -> _Point:
    """Point at `distance` from `begin` towards `end`, at most the fraction `most` of the way."""
    along, across = end.along - begin.along, end.across - begin.across
    length = (along**2 + across**2) ** 0.5 or 1
    part = min(distance / length, most)
    return begin.moved(along * part, across * part)


def _short(tokens: int) -> str:
    """A number that fits a circle: `500`, `9,999`, `25k`, `1M`; its title has all digits."""
    if tokens < 10_000:
        return f"{tokens:,}"
    return f"{tokens // 1_000_000}M" if tokens >= 1_000_000 else f"{tokens // 1_000}k"


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
