"""Nets as SVG: places as circles with their tokens, transitions as bars, one net below the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from ...engine.net.net import SkillNet
from ...rules.errors.problems import cells
from .graph_text import DOTS, Arc, Markings, Nets, arcs, clipped, described, marking_of, notes
from .net_layout import NetLayout, Node, layout

RADIUS = 20
BAR_WIDTH = 10
BAR_HEIGHT = 44
GAP = 76
ROW = 118
MARGIN = 24
LANE = 16
TITLE = 46
LINE = 17
CHARACTER = 6.6
BOW = 15

STYLE = """\
text{font:12px system-ui,sans-serif;fill:#1f2328;text-anchor:middle}
.title{font-weight:600;font-size:14px;text-anchor:start}
.note{font-size:11px;fill:#59636e}
.rule{font:12px ui-monospace,monospace;fill:#59636e;text-anchor:start}
.place{fill:#fff;stroke:#1f2328;stroke-width:1.5}
.bar{fill:#1f2328;stroke:#1f2328;stroke-width:1.5}
.manual{fill:#fff}
.arc{fill:none;stroke:#59636e;stroke-width:1.3}
.head{fill:#59636e}
.transfer{stroke-dasharray:5 3}
.token{fill:#0969da}
.back{fill:#fff}
.count{font-weight:600;fill:#0969da}"""


@dataclass(frozen=True, slots=True)
class _Point:
    x: float
    y: float


def to_svg(nets: Nets, markings: Markings | None = None) -> str:
    """The nets as one SVG document."""
    body: list[str] = []
    width, top = 0.0, float(MARGIN)
    for key, net in nets.items():
        picture = _Picture(key, net, marking_of(key, net, markings))
        body += [f'<g transform="translate({MARGIN} {_number(top)})">', *picture.lines(), "</g>"]
        width = max(width, picture.width)
        top += picture.height + MARGIN
    wide, high = _number(width + 2 * MARGIN), _number(top)
    title = escape(", ".join(map(clipped, nets)))
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" '
            f'width="{wide}" height="{high}" role="img">',
            f"<title>{title}</title>",
            f"<style>{STYLE}</style>",
            '<rect width="100%" height="100%" fill="#fff"/>',
            *body,
            "</svg>",
            "",
        ]
    )


class _Picture:
    """One net, with its title above it."""

    def __init__(self, key: str, net: SkillNet, marking: Mapping[str, int]) -> None:
        self._key, self._net, self._marking = key, net, marking
        self._layout: NetLayout = layout(net)
        self._arcs = [arc for i, t in enumerate(net.transitions) for arc in arcs(i, t)]
        self._long = [arc for arc in self._arcs if abs(self._span(arc)) > 1]
        self._tallest = max((len(column) for column in self._layout.columns), default=1)
        self._xs, right = self._place_columns()
        self._described = described(net)
        title = TITLE + LINE * max(0, len(self._described) - 1)
        self._top = title + LANE * (len(self._long) + 1) + RADIUS
        longest = max(map(cells, self._described), default=0)
        self.width = max(right, cells(clipped(key)) * 8.5, longest * 7.4)
        self.height = self._top + (self._tallest - 1) * ROW + BAR_HEIGHT / 2 + 40

    def _place_columns(self) -> tuple[list[float], float]:
        """The middle of each column, and where the last one ends."""
        xs: list[float] = []
        right = 0.0
        for position, column in enumerate(self._layout.columns):
            half = max([RADIUS, *(self._label_width(node) / 2 for node in column)])
            middle = right + half
            if position:
                middle = max(middle + GAP / 3, xs[-1] + 2 * RADIUS + GAP)
            xs.append(middle)
            right = middle + half
        return xs, right + (LANE * 2 if self._long else 0)

    def _label_width(self, node: Node) -> float:
        if node.is_place:
            return CHARACTER * cells(clipped(self._net.places[node.position]))
        transition = self._net.transitions[node.position]
        return CHARACTER * max(cells(clipped(transition.name)), cells(notes(transition)))

    def _at(self, node: Node) -> _Point:
        return _Point(self._xs[node.column], self._top + node.row * ROW)

    def _ends(self, arc: Arc) -> tuple[Node, Node]:
        """Nodes at which an arc begins and ends."""
        place, transition = self._layout.places[arc.place], self._layout.transitions[arc.transition]
        return (place, transition) if arc.into else (transition, place)

    def _span(self, arc: Arc) -> int:
        source, target = self._ends(arc)
        return target.column - source.column

    def lines(self) -> Iterator[str]:
        """The elements of the picture, arcs below nodes."""
        yield f'<text class="title" x="0" y="14">{escape(clipped(self._key))}</text>'
        for number, line in enumerate(self._described):
            yield f'<text class="rule" x="0" y="{33 + LINE * number}">{escape(line)}</text>'
        lanes = {id(arc): number for number, arc in enumerate(sorted(self._long, key=self._reach), 1)}
        for arc, bow in self._bows():
            if id(arc) in lanes:
                yield from self._over(arc, lanes[id(arc)])
            else:
                yield from self._beside(arc, bow)
        for node in self._layout.places.values():
            yield from self._place(node)
        for node in self._layout.transitions:
            yield from self._transition(node)

    def _reach(self, arc: Arc) -> int:
        return abs(self._span(arc))

    def _bows(self) -> Iterator[tuple[Arc, float]]:
        """Every arc, and how far it bends away from the others of the same two nodes."""
        pairs: dict[tuple[str, int], list[Arc]] = {}
        for arc in self._arcs:
            pairs.setdefault((arc.place, arc.transition), []).append(arc)
        for pair in pairs.values():
            for position, arc in enumerate(pair):
                yield arc, (position - (len(pair) - 1) / 2) * 2 * BOW

    def _beside(self, arc: Arc, bow: float) -> Iterator[str]:
        """An arc between neighbouring columns."""
        begin, end = self._ends(arc)
        source, target = self._at(begin), self._at(end)
        middle = _Point((source.x + target.x) / 2, (source.y + target.y) / 2 + 1.6 * bow)
        start, stop = _edge(begin, source, middle, bow), _edge(end, target, middle, bow)
        yield _path(arc, f"M{_xy(start)} Q{_xy(middle)} {_xy(stop)}")
        yield _head(middle, stop)
        at = _Point((start.x + stop.x + 2 * middle.x) / 4, (start.y + stop.y + 2 * middle.y) / 4 - 4)
        yield from _label(arc, at)

    def _over(self, arc: Arc, number: int) -> Iterator[str]:
        """An arc between distant columns, led above the nodes in a lane of its own."""
        begin, end = self._ends(arc)
        lane = self._top - RADIUS - 8 - LANE * number
        out, back = self._exit(begin, lane, leaving=True), self._exit(end, lane, leaving=False)
        points = [*out, *reversed(back)]
        yield _path(arc, _rounded(points))
        yield _head(points[-2], points[-1])
        yield from _label(arc, _Point((out[-1].x + back[-1].x) / 2, lane - 3))

    def _exit(self, node: Node, lane: float, *, leaving: bool) -> list[_Point]:
        """Path from a node to the lane: straight up, or past those above it in its column."""
        at = self._at(node)
        half = RADIUS if node.is_place else BAR_HEIGHT / 2
        # Two arcs at one top would lie on each other: those that leave stand left of those that arrive.
        shift = 0 if not node.is_place else (-7 if leaving else 7)
        if node.row == 0:
            height = (half * half - shift * shift) ** 0.5 if node.is_place else half
            return [_Point(at.x + shift, at.y - height), _Point(at.x + shift, lane)]
        side = RADIUS if node.is_place else BAR_WIDTH / 2
        past = max(self._label_width(n) / 2 for n in self._layout.columns[node.column])
        # The higher the lane the farther out, so that no two arcs share an aisle.
        aisle = at.x + max(past, RADIUS) + 4 + (self._top - lane) / 8
        return [_Point(at.x + side, at.y), _Point(aisle, at.y), _Point(aisle, lane)]

    def _place(self, node: Node) -> Iterator[str]:
        at = self._at(node)
        name = self._net.places[node.position]
        tokens = self._marking.get(name, 0)
        yield (
            f'<circle class="place" cx="{_number(at.x)}" cy="{_number(at.y)}" r="{RADIUS}">'
            f"<title>{escape(clipped(name))}: {tokens:,}</title></circle>"
        )
        if tokens > DOTS:
            yield _text("count", _Point(at.x, at.y + 4), _short(tokens))
        else:
            for dot in _dots(at, tokens):
                yield f'<circle class="token" cx="{_number(dot.x)}" cy="{_number(dot.y)}" r="4.5"/>'
        yield from _named("", _Point(at.x, at.y + RADIUS + 16), clipped(name))

    def _transition(self, node: Node) -> Iterator[str]:
        transition = self._net.transitions[node.position]
        at = self._at(node)
        look = "bar manual" if transition.type == "manual" else "bar"
        yield (
            f'<rect class="{look}" x="{_number(at.x - BAR_WIDTH / 2)}" '
            f'y="{_number(at.y - BAR_HEIGHT / 2)}" width="{BAR_WIDTH}" height="{BAR_HEIGHT}"/>'
        )
        below = at.y + BAR_HEIGHT / 2
        yield from _named("", _Point(at.x, below + 16), clipped(transition.name))
        yield from _named("note", _Point(at.x, below + 31), notes(transition))


def _edge(node: Node, at: _Point, towards: _Point, bow: float) -> _Point:
    """Point at which an arc between a node and `towards` touches the node."""
    dx, dy = towards.x - at.x, towards.y - at.y
    if node.is_place:
        length = (dx * dx + dy * dy) ** 0.5 or 1
        return _Point(at.x + dx / length * RADIUS, at.y + dy / length * RADIUS)
    reach = BAR_HEIGHT / 2 - 6
    return _Point(
        at.x + (BAR_WIDTH / 2 if dx > 0 else -BAR_WIDTH / 2),
        at.y + max(-reach, min(reach, bow * 0.6 if bow else dy * 0.25)),
    )


def _rounded(points: Sequence[_Point], radius: float = 8) -> str:
    """A path along `points` with round corners."""
    path = [f"M{_xy(points[0])}"]
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        path.append(f"L{_xy(_towards(corner, before, radius))}")
        path.append(f"Q{_xy(corner)} {_xy(_towards(corner, after, radius))}")
    return " ".join([*path, f"L{_xy(points[-1])}"])


def _towards(begin: _Point, end: _Point, distance: float, *, most: float = 0.5) -> _Point:
    """The point at `distance` on the way, at `most` that part of it."""
    length = ((end.x - begin.x) ** 2 + (end.y - begin.y) ** 2) ** 0.5 or 1
    part = min(distance, length * most) / length
    return _Point(begin.x + (end.x - begin.x) * part, begin.y + (end.y - begin.y) * part)


def _dots(at: _Point, number: int) -> Iterator[_Point]:
    """One token in the middle, two side by side, more around it."""
    offsets = {1: [(0, 0)], 2: [(-6, 0), (6, 0)], 3: [(0, -6), (-6, 5), (6, 5)]}
    square = [(-6, -6), (6, -6), (-6, 6), (6, 6)]
    for dx, dy in offsets.get(number, square if number else []):
        yield _Point(at.x + dx, at.y + dy)


def _path(arc: Arc, path: str) -> str:
    return f'<path class="arc{" transfer" if arc.transfer else ""}" d="{path}"/>'


def _head(before: _Point, tip: _Point) -> str:
    """The arrowhead of an arc that comes from `before`."""
    back = _towards(tip, before, 8, most=1)
    dx, dy = (tip.x - back.x) * 0.45, (tip.y - back.y) * 0.45
    wings = f"{_number(back.x - dy)},{_number(back.y + dx)} {_number(back.x + dy)},{_number(back.y - dx)}"
    return f'<polygon class="head" points="{_xy(tip)} {wings}"/>'


def _label(arc: Arc, at: _Point) -> Iterator[str]:
    if arc.label:
        yield _text("note", at, arc.label)


def _named(look: str, at: _Point, text: str) -> Iterator[str]:
    """A text that no arc crosses: those that pass are hidden behind it."""
    width = cells(text) * CHARACTER
    yield (
        f'<rect class="back" x="{_number(at.x - width / 2)}" y="{_number(at.y - 11)}" '
        f'width="{_number(width)}" height="15"/>'
    )
    yield _text(look, at, text)


def _text(look: str, at: _Point, text: str) -> str:
    named = f' class="{look}"' if look else ""
    return f'<text{named} x="{_number(at.x)}" y="{_number(at.y)}">{escape(text)}</text>'


def _short(tokens: int) -> str:
    """A count that fits a circle: `500`, `9,999`, `25k`, `1M`; its title has all digits."""
    if tokens < 10_000:
        return f"{tokens:,}"
    return f"{tokens // 1_000_000}M" if tokens >= 1_000_000 else f"{tokens // 1_000}k"


def _xy(point: _Point) -> str:
    return f"{_number(point.x)},{_number(point.y)}"


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
