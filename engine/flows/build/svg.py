"""Flows as SVG, drawn here: states and nodes in layers, each below those that lead to it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from ...core.sanitize import visible
from .nodes import Node, full_name, states_of

CHARACTER, PADDING = 7.5, 24.0
HEIGHT, GAP_X, GAP_Y, MARGIN = 30.0, 30.0, 34.0, 20.0

_STYLE = (
    "text{font:12px ui-monospace,monospace;text-anchor:middle;dominant-baseline:central;fill:#111}"
    "rect{fill:#fff;stroke:#444}.node{fill:#e8eef7}.live{stroke:#b35900;stroke-width:3}"
    "path{fill:none;stroke:#666}.choice{stroke-dasharray:5 4}"
)


@dataclass(frozen=True, slots=True)
class _Box:
    """A state or a node: the middle of its box, and how wide it is."""

    text: str
    x: float
    y: float
    width: float


def svg(entry: str, nodes: Sequence[Node], *, live: Collection[str] = (), named: bool = False) -> str:
    """Drawing of the flow; states are rounded, `live` ones highlighted, a choice's arrows dashed.

    With `named` nodes have their functions' names next to their kind, and live states say that they are.
    """
    texts = {
        f"s{key}": f"{key} · live" if named and key in live else key for key in _states(entry, nodes)
    }
    texts |= {f"n{n}": full_name(node) if named else node.kind for n, node in enumerate(nodes)}
    arrows = _arrows(nodes)
    boxes, width, height = _placed(texts, _layers(f"s{entry}", arrows), arrows)
    parts = [_arrow(boxes[begin], boxes[end], dashed) for (begin, end), dashed in arrows.items()]
    for name, box in boxes.items():
        shape = "node" if name.startswith("n") else "state"
        marked = " live" if name.startswith("s") and name[1:] in live else ""
        round_ = 15 if shape == "state" else 3
        parts.append(
            f'<rect class="{shape}{marked}" x="{box.x - box.width / 2:g}" y="{box.y - HEIGHT / 2:g}" '
            f'width="{box.width:g}" height="{HEIGHT:g}" rx="{round_}"/>'
            f'<text x="{box.x:g}" y="{box.y:g}">{escape(box.text)}</text>'
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}"><style>{_STYLE}</style>'
        '<defs><marker id="end" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto"><polygon points="0,0 8,4 0,8" fill="#666"/></marker></defs>'
        f"{''.join(parts)}</svg>\n"
    )


def _states(entry: str, nodes: Sequence[Node]) -> dict[str, None]:
    return dict.fromkeys((entry, *(state.key for node in nodes for state in states_of(node))))


def _arrows(nodes: Sequence[Node]) -> dict[tuple[str, str], bool]:
    """From what to what, each once, and whether it is one of several ways."""
    arrows: dict[tuple[str, str], bool] = {}
    for number, node in enumerate(nodes):
        for state in node.inputs:
            arrows[f"s{state.key}", f"n{number}"] = False
        for outcome in node.outcomes:
            for state in outcome:
                arrows[f"n{number}", f"s{state.key}"] = len(node.outcomes) > 1
    return arrows


def _layers(entry: str, arrows: Iterable[tuple[str, str]]) -> list[list[str]]:
    """The boxes by the longest way from the entry that does not go round."""
    after: dict[str, list[str]] = {}
    for begin, end in arrows:
        after.setdefault(begin, []).append(end)
    depth = {entry: 0}
    for name, ends in _forward(entry, after):
        for end in ends:
            depth[end] = max(depth.get(end, 0), depth[name] + 1)
    layers: dict[int, list[str]] = {}
    for name, at in depth.items():
        layers.setdefault(at, []).append(name)
    return [layers[at] for at in sorted(layers)]


def _forward(entry: str, after: Mapping[str, list[str]]) -> list[tuple[str, list[str]]]:
    """Every box before those it leads to, with these; arrows that lead back are left out."""
    ended: dict[str, list[str]] = {}
    forward: dict[str, list[str]] = {entry: []}
    path = [(entry, iter(after.get(entry, ())))]
    while path:
        name, ends = path[-1]
        end = next(ends, None)
        if end is None:
            ended[name] = forward[name]
            path.pop()
        elif end in ended:
            forward[name].append(end)
        elif end not in forward:
            forward[name].append(end)
            forward[end] = []
            path.append((end, iter(after.get(end, ()))))
    return list(reversed(ended.items()))


def _placed(
    texts: Mapping[str, str], layers: Sequence[Sequence[str]], arrows: Iterable[tuple[str, str]]
) -> tuple[dict[str, _Box], float, float]:
    """The boxes, each layer in the order of what leads to it, and the size of it all."""
    shown = {name: visible(text) for name, text in texts.items()}
    widths = {name: len(text) * CHARACTER + PADDING for name, text in shown.items()}
    spans = [sum(widths[name] for name in layer) + GAP_X * (len(layer) - 1) for layer in layers]
    widest = max(spans)
    before: dict[str, list[str]] = {}
    for begin, end in arrows:
        before.setdefault(end, []).append(begin)
    boxes: dict[str, _Box] = {}
    for number, (layer, span) in enumerate(zip(layers, spans, strict=True)):
        left = MARGIN + (widest - span) / 2
        y = MARGIN + HEIGHT / 2 + number * (HEIGHT + GAP_Y)
        above = {name: _mean([boxes[a].x for a in before.get(name, ()) if a in boxes]) for name in layer}
        for name in sorted(layer, key=above.__getitem__):
            boxes[name] = _Box(shown[name], left + widths[name] / 2, y, widths[name])
            left += widths[name] + GAP_X
    height = 2 * MARGIN + len(layers) * HEIGHT + (len(layers) - 1) * GAP_Y
    return boxes, widest + 2 * MARGIN, height


def _arrow(begin: _Box, end: _Box, dashed: bool) -> str:
    """From the foot of one box to the head of another; back up it leaves and enters at their sides."""
    kind = ' class="choice"' if dashed else ""
    if end.y > begin.y:
        y1, y2 = begin.y + HEIGHT / 2, end.y - HEIGHT / 2
        middle = (y1 + y2) / 2
        line = f"M{begin.x:g},{y1:g} C{begin.x:g},{middle:g} {end.x:g},{middle:g} {end.x:g},{y2:g}"
    else:
        x1, x2 = begin.x + begin.width / 2, end.x + end.width / 2
        out = max(x1, x2) + MARGIN
        line = f"M{x1:g},{begin.y:g} C{out:g},{begin.y:g} {out:g},{end.y:g} {x2:g},{end.y:g}"
    return f'<path{kind} d="{line}" marker-end="url(#end)"/>'


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / max(len(numbers), 1)
