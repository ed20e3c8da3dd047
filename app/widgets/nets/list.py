"""Lines of a session's nets: active or not, places with tokens, and what comes next in words.

Used by the live screen and the replay. What a net means for the next call is derived from its structure
and marking alone, so this works for rules' nets and for hand-built nets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest

from textual.content import Content

from ....engine.core.approvers import with_groups
from ....engine.core.durations import format_duration
from ....engine.history.model.records import NetRecord, TransitionRecord
from ....engine.history.model.state import ApprovalState, NetState, SessionState
from ...format.text import MUTED, ago, clip, name_shown, pad, seconds_between, shown, width_of
from ...format.times import aged_net, next_back
from ..base.blocks import Block, BlockList, look_of
from .grants import grant_blocks

NARROW = 72
MANY = 5
MAX_PROSPECTS = 3
_TOKENS = "bold $text-accent"
MOST_VALUES = 3
"""Number of field values whose nets are shown: those that moved last."""
WIDEST = 400
LEAST_WHEN = 20
"""Minimum width in cells for showing a net's condition."""


@dataclass(frozen=True, slots=True)
class Prospect:
    """Result that a call of `tool` would have now in one net."""

    tool: str
    symbol: str
    text: str
    style: str


def enabled(transition: TransitionRecord, marking: Mapping[str, int]) -> bool:
    """Return whether every input place holds the tokens that the transition's arcs need."""
    return all(marking.get(p, 0) >= transition.inputs.count(p) for p in transition.inputs)


def tokens(number: int) -> str:
    """Return tokens as dots, five or more as a number, none as a ring."""
    if number == 0:
        return "○"
    return "●" * number if number < MANY else f"●{number}"


def _number_text(net: NetRecord, place: str, number: int) -> str:
    """Return the tokens of a place; for a place that holds a sum, the amount they represent."""
    for transition in net.transitions:
        amount = transition.amount
        if amount is not None and place in (amount.source, amount.target):
            return amount.field.text(number)
    return tokens(number)


def shown_places(net: NetRecord, marking: Mapping[str, int]) -> list[str]:
    """Return the places worth showing: all except empty places that cannot be filled again.

    Places whose tokens only wait for their time are described in words instead.
    """
    fillable = {p for t in net.transitions for p in t.outputs if not t.partial or p in t.inputs}
    fillable |= {target for t in net.transitions for _, target in t.transfers}
    fillable |= {p for t in net.transitions if t.amount for p in (t.amount.source, t.amount.target) if p}
    aging = {p for t in net.transitions if t.after is not None for p in t.inputs}
    aging -= {p for t in net.transitions if t.after is None for p in t.inputs}
    seen = [p for p in net.places if marking.get(p, 0) or p in fillable or _is_budget(net, p)]
    return [p for p in seen if p not in aging]


def _is_budget(net: NetRecord, place: str) -> bool:
    """Return whether a place is a budget: calls consume its tokens, and only time may put them back."""
    spent = any(t.tools and place in t.inputs for t in net.transitions)
    return spent and not any(place in t.outputs for t in net.transitions if t.after is None)


def prospects(net: NetState, now: datetime | None = None) -> list[Prospect]:
    """Return the result that the next call of each tool would have; tools that only prepare others are
    omitted.

    With `now`, aging since the session's last event is included.
    """
    net = aged_net(net, now)
    record = net.net
    tools = list(dict.fromkeys(tool for t in record.transitions for tool in t.tools))
    preparing = {tool for t in record.transitions if t.deferred for tool in t.tools}
    telling = [tool for tool in tools if tool not in preparing] or tools
    return [_prospect(net, tool, now) for tool in telling]


def _prospect(state: NetState, tool: str, now: datetime | None) -> Prospect:
    net, marking = state.net, state.marking
    covering = [t for t in net.transitions if tool in t.tools]
    ready = next((t for t in covering if enabled(t, marking)), None)
    name = name_shown(tool)
    if ready is None:
        return Prospect(tool, "■", f"{name} {_obstacle(state, covering, now)}", "$text-error")
    spent = [p for p in ready.inputs if _is_budget(net, p)]
    if ready.amount is not None:
        rest = ready.amount.field.text(marking.get(ready.amount.source, 0))
        return Prospect(
            tool, "▸", f"{name}: {rest} of {shown(ready.amount.field.name)} left", "$text-success"
        )
    left = _tokens_left(state, min(spent, key=lambda p: marking.get(p, 0)), now) if spent else ""
    if ready.manual:
        text = f"{name} needs {_approvals(covering, ready)}"
        return Prospect(tool, "◐", text + (f", {left}" if left else ""), "$text-warning")
    return Prospect(tool, "▸", f"{name}: {left}" if left else f"{name} may run", "$text-success")


def _approvals(covering: Sequence[TransitionRecord], ready: TransitionRecord) -> str:
    """Return the approvals that a manual transition needs: as many as the tool's call consumes."""
    given = [p for p in ready.outputs if p not in ready.inputs]
    people = max((t.inputs.count(p) for t in covering for p in given), default=1)
    return "approval" if people < 2 else f"{people} approvals"


def _tokens_left(state: NetState, place: str, now: datetime | None) -> str:
    """Return `2 left`, or `1 of 3 left · next back in 12 min` if time brings tokens back."""
    left = f"{state.marking.get(place, 0)}"
    if any(t.after is not None and place in t.outputs for t in state.net.transitions):
        left = f"{left} of {state.net.initial_marking.get(place, 0)}"
    return f"{left} left{_back(state, place, now)}"


def _back(state: NetState, place: str, now: datetime | None) -> str:
    seconds = next_back(state, place, now)
    return "" if seconds is None else f" · next back in {format_duration(seconds)}"


def _obstacle(state: NetState, covering: list[TransitionRecord], now: datetime | None) -> str:
    net, marking = state.net, state.marking
    lacking = [
        p for t in covering for p in dict.fromkeys(t.inputs) if marking.get(p, 0) < t.inputs.count(p)
    ]
    fed_by = {
        tool for t in net.transitions if t.deferred and set(t.outputs) & set(lacking) for tool in t.tools
    }
    if fed_by:
        return f"needs {shown(' or '.join(sorted(fed_by)))} first"
    spent = next((p for p in lacking if _is_budget(net, p) and net.initial_marking.get(p, 0)), None)
    if spent is None:
        return "is blocked"
    refilling = [t for t in net.transitions if any(to in lacking for _, to in t.transfers)]
    refilled = {tool for t in refilling for tool in t.tools}
    until = f" until {shown(' or '.join(sorted(refilled)))}" if refilled else ""
    return f"at its limit{until}{_back(state, spent, now)}"


def places_line(net: NetState) -> Content:
    """Return `ready ○ → gate ●`, with an arrow if a transition leads from one place to the next."""
    record = net.net
    names = shown_places(record, net.marking)
    parts: list[Content | str] = []
    for index, place in enumerate(names):
        if index:
            leads = any(
                names[index - 1] in t.inputs and place in t.outputs and names[index - 1] not in t.outputs
                for t in record.transitions
            )
            parts.append(Content.styled(" → " if leads else "  ", MUTED))
        number = net.marking.get(place, 0)
        parts.append(Content.styled(f"{shown(place)} ", "" if number else MUTED))
        parts.append(Content.styled(_number_text(record, place, number), _TOKENS if number else MUTED))
    return Content.assemble(*parts)


def words(net: NetState, now: datetime | None = None, asking: Sequence[ApprovalState] = ()) -> Content:
    """Return a line on the next call of a net's tools, each with its symbol; unblocked ones are bold.

    Of the requests in `asking`, those that need several people show how many have approved.
    """
    if not net.active:
        return Content.styled("off (state kept)", "$foreground 60% italic")
    parts: list[Content | str] = []
    all_prospects = prospects(net, now)
    for prospect in all_prospects[:MAX_PROSPECTS]:
        if parts:
            parts.append("  ")
        weight = "bold " if prospect.symbol != "■" else ""
        parts.append(Content.styled(f"{prospect.symbol} ", prospect.style))
        parts.append(Content.styled(prospect.text, weight + "$foreground"))
    if len(all_prospects) > MAX_PROSPECTS:
        parts.append(Content.styled(f"  … {len(all_prospects) - MAX_PROSPECTS} more", MUTED))
    shared = [each for each in asking if each.people > 1]
    for each in shared[:MAX_PROSPECTS]:
        parts.append(Content.assemble("  approvals ", approvals_given(each, now)))
    if len(shared) > MAX_PROSPECTS:
        parts.append(Content.styled(f"  … {len(shared) - MAX_PROSPECTS} more", MUTED))
    return Content.assemble(*parts)


def approvals_given(approval: ApprovalState, now: datetime | None = None) -> Content:
    """Return `●○ ada 2 min ago ✓`: who has approved, as tokens and names; with `now` also when."""
    names = ", ".join(approver_names(approval, now))
    return Content.assemble(dots_of(approval), (f" {names}" if names else "", MUTED))


def approver_names(request: ApprovalState, now: datetime | None) -> list[str]:
    """Return `omar (oncall) 2 min ago ✓` for each approver, in their order.

    Groups are left out for members of the group that must approve, and so is a time that was not
    recorded. Without `now` only the names are returned.
    """
    times = request.given_at[: len(request.given)]
    known = zip_longest(request.given, times, request.given_groups[: len(request.given)])
    group = None if request.approvers is None else request.approvers.group
    people = [
        (shown(name if groups is None or group in groups else with_groups(name, groups)), at)
        for name, at, groups in known
    ]
    if now is None:
        return [name for name, _ in people]
    return [
        f"{name} ✓" if at is None else f"{name} {ago(seconds_between(at, now))} ✓" for name, at in people
    ]


def dots_of(approval: ApprovalState) -> Content:
    """Return a token for each person who has approved, and a ring for each who is missing."""
    given = len(approval.given)
    return Content.assemble(
        ("●" * given, "bold $text-accent"), ("○" * (approval.people - given), "$text-warning")
    )


def net_blocks(
    state: SessionState, *, changed: Collection[str] = (), now: datetime | None = None
) -> list[Block]:
    """Return a block per net, aligned in columns, then one per grant; keys in `changed` are marked.

    On a narrow screen places and words are below the name. With `now`, nets are shown as aged.
    """
    nets = {key: aged_net(net, now) for key, net in state.nets.items()}
    names = {key: shown(key) for key in nets}
    name_width = max((width_of(name) for name in names.values()), default=0)
    places = {key: places_line(net) for key, net in nets.items()}
    places_width = max((line.cell_length for line in places.values()), default=0)

    asking: dict[str, list[ApprovalState]] = {}
    for each in state.approvals.values():
        if each.people > 1:
            asking.setdefault(each.net, []).append(each)

    def block(key: str, net: NetState) -> Block:
        mark = key in changed
        meaning = words(net, now, asking.get(key, ()))
        when = Content.styled(f"{_values_words(net.net)}{_when_words(net.net)}", MUTED)

        def lines(width: int) -> list[Content]:
            sizes = (name_width, places_width)
            line = _lines(width, names[key], net.active, places[key], (meaning, when), mark, sizes)
            return [*line, *_value_lines(state, key, width, now)]

        shows = look_of(places[key], meaning, when, *_value_lines(state, key, WIDEST, now))
        stamp = (net.active, mark, name_width, places_width, shows)
        return Block(key, stamp, lines)

    return [*(block(key, net) for key, net in nets.items()), *grant_blocks(state, name_width, now)]


def _lines(
    width: int,
    name: str,
    active: bool,
    places: Content,
    texts: tuple[Content, Content],
    mark: bool,
    sizes: tuple[int, int],
) -> list[Content]:
    meaning, when = texts
    box = Content.styled("[x] " if active else "[ ] ", "$text-success" if active else MUTED)
    style = "bold $text-accent" if mark else ("" if active else MUTED)
    flag = Content.styled("Δ " if mark else "  ", "bold $text-accent")
    if not active:
        places = Content.styled(places.plain, MUTED)
    if width >= NARROW:
        column = min(sizes[0], width * 2 // 5)
        second = min(sizes[1], (width - column - 8) * 3 // 5)
        fitted = places.truncate(second, ellipsis=True, pad=True)
        line = Content.assemble(box, (pad(name, column), style), flag, fitted, "  ")
        room = width - line.cell_length
        if meaning.cell_length + min(when.cell_length, LEAST_WHEN) <= room:
            return [Content.assemble(line, meaning, when).truncate(width, ellipsis=True)]
        if meaning.cell_length <= room:
            return [Content.assemble(line, meaning)]
        below = Content.assemble(" " * 8, meaning, when)
        return [line, below.truncate(width, ellipsis=True)]
    return [
        Content.assemble(box, (clip(name, width - 6), style), flag).truncate(width),
        Content.assemble("    ", places).truncate(width, ellipsis=True),
        Content.assemble("    ", meaning, when).truncate(width, ellipsis=True),
    ]


def _when_words(net: NetRecord) -> str:
    return f"  when {shown(net.when)}" if net.when else ""


def _values_words(net: NetRecord) -> str:
    """Return `for each input.customer across everyone`: values and sessions that a net counts."""
    each = f"  for each {shown(net.per_value.field)}" if net.per_value is not None else ""
    return (
        each if net.shared is None else f"{each}  across {net.shared.reach}, here for this session alone"
    )


def _value_lines(state: SessionState, key: str, width: int, now: datetime | None) -> Iterator[Content]:
    """Yield the nets of the values that moved last, one line each, and the number of others."""
    if state.nets[key].net.per_value is None:
        return
    keys = [each for each, value in state.values.items() if value.net == key]
    for each in reversed(keys[-MOST_VALUES:]):
        net = state.net_state(each)
        if net is None:
            continue
        net = aged_net(net, now)
        name = clip(shown(state.values[each].value) or "?", width // 3)
        line = Content.assemble(
            " " * 6, (name, "$text-accent"), "  ", places_line(net), "  ", words(net, now)
        )
        yield line.truncate(width, ellipsis=True)
    if len(keys) > MOST_VALUES:
        yield Content.styled(f"{' ' * 6}… {len(keys) - MOST_VALUES:,} more values", MUTED)


NO_SESSION_SELECTED = "No session selected."
NO_RULES = "No rules: every call runs."


class NetList(BlockList):
    """Nets of a session and grants in force, one line each; `enter` opens a picture."""

    def __init__(self) -> None:
        super().__init__(id="nets", empty=NO_SESSION_SELECTED)

    def show_nets(self, state: SessionState | None, *, now: datetime | None = None) -> None:
        """Show the nets of `state` in their markings at `now`, preceded by its flow, if any."""
        from .flow_lines import flow_blocks  # imported here, because flow_lines imports this module

        nets = [] if state is None else net_blocks(state, now=now)
        self.show([*flow_blocks(state), *nets] if state is not None else nets)
