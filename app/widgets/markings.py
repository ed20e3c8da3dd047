"""The nets of a session as lines: whether active, places with their tokens, and what comes next in words.

The live screen and the replay both show them. What a net means for the next call is read from its
structure and marking alone, so that it holds for nets of rules and for hand-built ones.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from textual.content import Content

from ...engine.history.parts import NetRecord, TransitionRecord
from ...engine.history.state import NetState, SessionState
from ..text import clip, pad, shown, width_of
from .blocks import Block, BlockList

NARROW = 72
MANY = 5
MAX_PROSPECTS = 3


@dataclass(frozen=True, slots=True)
class Prospect:
    """What would become of a call of `tool` now, for one net."""

    tool: str
    symbol: str
    text: str
    style: str


def enabled(transition: TransitionRecord, marking: Mapping[str, int]) -> bool:
    """Whether every input place holds the tokens that the transition's arcs need."""
    return all(marking.get(p, 0) >= transition.inputs.count(p) for p in transition.inputs)


def tokens(number: int) -> str:
    """Tokens as dots, a number from five on, an empty place as a ring."""
    if number == 0:
        return "○"
    return "●" * number if number < MANY else f"●{number}"


def shown_places(net: NetRecord, marking: Mapping[str, int]) -> list[str]:
    """The places worth a look: all but those that are empty and can never be filled again."""
    fillable = {p for t in net.transitions for p in t.outputs}
    fillable |= {target for t in net.transitions for _, target in t.transfers}
    return [p for p in net.places if marking.get(p, 0) or p in fillable or _is_budget(net, p)]


def _is_budget(net: NetRecord, place: str) -> bool:
    """Whether tokens of a place are spent: consumed by calls, put back by no arc."""
    spent = any(t.tools and place in t.inputs for t in net.transitions)
    return spent and not any(place in t.outputs for t in net.transitions)


def prospects(net: NetState) -> list[Prospect]:
    """What the next call of each tool meets. Tools that only ever prepare others are left out."""
    record = net.net
    tools = list(dict.fromkeys(tool for t in record.transitions for tool in t.tools))
    preparing = {tool for t in record.transitions if t.deferred for tool in t.tools}
    telling = [tool for tool in tools if tool not in preparing] or tools
    return [_prospect(record, net.marking, tool) for tool in telling]


def _prospect(net: NetRecord, marking: Mapping[str, int], tool: str) -> Prospect:
    covering = [t for t in net.transitions if tool in t.tools]
    ready = next((t for t in covering if enabled(t, marking)), None)
    name = shown(tool)
    if ready is None:
        return Prospect(tool, "■", f"{name} {_obstacle(net, marking, covering)}", "$text-error")
    left = [marking.get(p, 0) for p in ready.inputs if _is_budget(net, p)]
    if ready.manual:
        text = f"{name} asks a person"
        return Prospect(tool, "◐", text + (f", {min(left)} left" if left else ""), "$text-warning")
    return Prospect(
        tool, "▸", f"{name}: {min(left)} left" if left else f"{name} may run", "$text-success"
    )


def _obstacle(net: NetRecord, marking: Mapping[str, int], covering: list[TransitionRecord]) -> str:
    lacking = [
        p for t in covering for p in dict.fromkeys(t.inputs) if marking.get(p, 0) < t.inputs.count(p)
    ]
    fed_by = {
        tool for t in net.transitions if t.deferred and set(t.outputs) & set(lacking) for tool in t.tools
    }
    if fed_by:
        return f"needs {shown(' or '.join(sorted(fed_by)))} first"
    if any(_is_budget(net, p) and net.initial_marking.get(p, 0) for p in lacking):
        refilled = {
            tool for t in net.transitions for _, to in t.transfers if to in lacking for tool in t.tools
        }
        return (
            f"at its limit until {shown(' or '.join(sorted(refilled)))}" if refilled else "at its limit"
        )
    return "is blocked"


def places_line(net: NetState) -> Content:
    """`ready ○ → gate ●`: an arrow where a transition leads from one place to the next."""
    record = net.net
    names = shown_places(record, net.marking)
    parts: list[Content | str] = []
    for index, place in enumerate(names):
        if index:
            leads = any(
                names[index - 1] in t.inputs and place in t.outputs and names[index - 1] not in t.outputs
                for t in record.transitions
            )
            parts.append(Content.styled(" → " if leads else "  ", "$foreground 60%"))
        number = net.marking.get(place, 0)
        parts.append(Content.styled(f"{shown(place)} ", "" if number else "$foreground 60%"))
        parts.append(Content.styled(tokens(number), "bold $text-accent" if number else "$foreground 60%"))
    return Content.assemble(*parts)


def words(net: NetState) -> Content:
    """What the net means for the next call: enabled bold, each with its symbol."""
    if not net.active:
        return Content.styled("off (state kept)", "$foreground 60% italic")
    parts: list[Content | str] = []
    all_prospects = prospects(net)
    for prospect in all_prospects[:MAX_PROSPECTS]:
        if parts:
            parts.append("  ")
        weight = "bold " if prospect.symbol != "■" else ""
        parts.append(Content.styled(f"{prospect.symbol} ", prospect.style))
        parts.append(Content.styled(prospect.text, weight + "$foreground"))
    if len(all_prospects) > MAX_PROSPECTS:
        parts.append(Content.styled(f"  … {len(all_prospects) - MAX_PROSPECTS} more", "$foreground 60%"))
    return Content.assemble(*parts)


def net_blocks(state: SessionState, *, changed: Collection[str] = ()) -> list[Block]:
    """A block per net, aligned in columns; keys in `changed` carry a mark.

    On a narrow screen places and words go below the name.
    """
    names = {key: shown(key) for key in state.nets}
    name_width = max((width_of(name) for name in names.values()), default=0)
    places = {key: places_line(net) for key, net in state.nets.items()}
    places_width = max((line.cell_length for line in places.values()), default=0)

    def block(key: str, net: NetState) -> Block:
        mark = key in changed
        meaning = words(net)

        def lines(width: int) -> list[Content]:
            return _lines(
                width, names[key], net.active, places[key], meaning, mark, name_width, places_width
            )

        stamp = (net.active, tuple(net.marking.items()), mark, name_width, places_width)
        return Block(key, stamp, lines)

    return [block(key, net) for key, net in state.nets.items()]


def _lines(
    width: int,
    name: str,
    active: bool,
    places: Content,
    meaning: Content,
    mark: bool,
    name_width: int,
    places_width: int,
) -> list[Content]:
    box = Content.styled("[x] " if active else "[ ] ", "$text-success" if active else "$foreground 60%")
    style = "bold $text-accent" if mark else ("" if active else "$foreground 60%")
    flag = Content.styled("Δ " if mark else "  ", "bold $text-accent")
    if not active:
        places = Content.styled(places.plain, "$foreground 60%")
    if width >= NARROW:
        column = min(name_width, width * 2 // 5)
        second = min(places_width, (width - column - 8) * 3 // 5)
        line = Content.assemble(
            box,
            (pad(name, column), style),
            flag,
            places.truncate(second, ellipsis=True, pad=True),
            "  ",
            meaning,
        )
        return [line.truncate(width, ellipsis=True)]
    return [
        Content.assemble(box, (clip(name, width - 6), style), flag).truncate(width),
        Content.assemble("    ", places).truncate(width, ellipsis=True),
        Content.assemble("    ", meaning).truncate(width, ellipsis=True),
    ]


class NetList(BlockList):
    """The nets of a session, one line each; `enter` opens a net's picture."""

    def __init__(self) -> None:
        super().__init__(id="nets", empty="No nets: every call runs.")

    def show_nets(self, state: SessionState | None, *, changed: Collection[str] = ()) -> None:
        """Show the nets of `state`."""
        self.show([] if state is None else net_blocks(state, changed=changed))
