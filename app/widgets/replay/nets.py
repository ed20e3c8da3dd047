"""Nets of a session around one event: every net's places before and after it."""

from __future__ import annotations

from collections.abc import Collection

from textual.content import Content

from ....engine.history.model.events import CallDecided, CallResult, JournalEvent
from ....engine.history.model.records import StepRecord
from ....engine.history.model.state import GrantState, NetState, SessionState
from ...format.text import clip, pad, shown, width_of
from ...format.times import in_force
from ..base.blocks import Block, BlockList, look_of
from ..nets.drawing import picture_blocks
from ..nets.flow_graph import flow_picture
from ..nets.flow_lines import FLOW, flow_blocks
from ..nets.grants import passes
from ..nets.list import places_line

TWO_COLUMNS = 76
GAP = 3
MUTED = "$text-muted"
UNCHANGED = Content.styled("·", MUTED)


def changed_nets(before: SessionState, after: SessionState) -> set[str]:
    """Return the keys of the nets and grants that an event added or changed in marking or activity.

    Includes the flow if it took a step.
    """
    was = _nets(before)
    flow = {FLOW} if after.flow != before.flow else set[str]()
    return flow | {key for key, net in _nets(after).items() if _stamp(was.get(key)) != _stamp(net)}


def _nets(state: SessionState) -> dict[str, NetState]:
    """Return the nets of a session, then those of its grants."""
    return {**state.nets, **{key: grant.net for key, grant in state.grants.items()}}


class MomentNets(BlockList):
    """A line per net, with its marking before and after, side by side or one below the other.

    What the event changed is bold and marked with `Δ`. Other nets show only the marking after.
    """

    def __init__(self) -> None:
        super().__init__(id="nets", empty="No nets: every call runs.")

    def show_moment(self, before: SessionState, after: SessionState) -> None:
        """Show the nets of `after`, and their markings in `before`."""
        changed = changed_nets(before, after)
        earlier = _nets(before)
        nets = {
            key: net
            for key, net in _nets(after).items()
            if key not in after.grants or key in changed or in_force(after.grants[key], after.updated)
        }
        names = {key: shown(key) for key in nets}
        was = {key: _places(earlier.get(key)) if key in changed else UNCHANGED for key in nets}
        sizes = (
            max((width_of(name) for name in names.values()), default=0),
            max((line.cell_length for line in was.values()), default=0),
            max((_places(net).cell_length for net in nets.values()), default=0),
        )
        flow = flow_blocks(after, changed=FLOW in changed, before=before)
        blocks = [*flow, *([_heading(sizes)] if names else [])]
        for key, net in nets.items():
            grant = after.grants.get(key)
            note = "" if grant is None else _note(grant)
            blocks.append(_block(key, names[key], was[key], net, key in changed, sizes, note))
        self.show(blocks)

    def reveal(self, keys: Collection[str]) -> None:
        """Move the cursor to the first of `keys`, so that it is in view."""
        for block in self.blocks:
            if block.key in keys:
                self.select(block.key)
                return


def _stamp(net: NetState | None) -> tuple[bool, tuple[tuple[str, int], ...]] | None:
    return None if net is None else (net.active, tuple(net.marking.items()))


def _columns(width: int, sizes: tuple[int, int, int]) -> tuple[int, int]:
    """Return the widths in cells of the names and of the markings before, for lines of `width`."""
    rest = width - 6 - 2 * GAP
    # A name that is cut off can still be recognized; a marking cannot.
    before = max(sizes[1], len("before"))
    name = min(sizes[0], max(width // 5, rest - before - sizes[2]))
    return name, min(before, (rest - name) // 2)


def _heading(sizes: tuple[int, int, int]) -> Block:
    def lines(width: int) -> list[Content]:
        if width < TWO_COLUMNS:
            return []
        name, places = _columns(width, sizes)
        text = " " * (6 + name + GAP) + "before".ljust(places) + " " * GAP + "after"
        return [Content.styled(text, MUTED).truncate(width)]

    return Block("", sizes, lines, selectable=False)


def _note(grant: GrantState) -> str:
    """Return the effect of a grant, and who gave or revoked it."""
    by = f"revoked by {shown(grant.revoked_by)}" if grant.revoked_by else f"by {shown(grant.by)}"
    return f"{passes(grant)} · {by}"


def _block(
    key: str,
    name: str,
    was: Content,
    after: NetState,
    changed: bool,
    sizes: tuple[int, int, int],
    note: str,
) -> Block:
    box = Content.styled("[x] " if after.active else "[ ] ", "$success" if after.active else MUTED)
    flag = Content.styled("Δ " if changed else "  ", "bold $accent")
    style = "bold $foreground" if changed else ("" if after.active else MUTED)
    now = Content.assemble(_places(after), (f"  {note}" if note else "", MUTED))

    def lines(width: int) -> list[Content]:
        if width >= TWO_COLUMNS:
            name_room, room = _columns(width, sizes)
            line = Content.assemble(
                box,
                flag,
                (pad(name, name_room), style),
                " " * GAP,
                was.truncate(room, ellipsis=True, pad=True),
                " " * GAP,
                now,
            )
            return [line.truncate(width, ellipsis=True)]
        head = Content.assemble(box, flag, (clip(name, width - 6), style))
        rows = [head, Content.assemble(("      now ", MUTED), now).truncate(width, ellipsis=True)]
        if changed:
            rows.insert(1, Content.assemble(("      was ", MUTED), was).truncate(width, ellipsis=True))
        return rows

    return Block(key, (changed, after.active, look_of(was, now), sizes), lines)


def _places(net: NetState | None) -> Content:
    if net is None:
        return Content.styled("not there yet", f"italic {MUTED}")
    if net.active:
        return places_line(net)
    return Content.styled(f"off  {places_line(net).plain}", MUTED)


# The chosen net as a picture, at one moment of a replay.


class MomentPicture(BlockList):
    """Picture of a net in which fired transitions are marked; of a flow, its graph."""

    def __init__(self) -> None:
        super().__init__(id="picture", empty="No net is chosen.", cursor=False)

    def show_moment(self, state: SessionState, event: JournalEvent, key: str | None) -> None:
        """Show the net `key`, or the flow, of the session's `state` after `event`."""
        if key == FLOW:
            self.show(flow_picture(state))
            return
        grant = state.grants.get(key or "")
        net = state.nets.get(key or "") if grant is None else grant.net
        self.show([] if net is None else picture_blocks(net, fired_in(event, net.key)))


def fired_in(event: JournalEvent, net: str) -> tuple[str, ...]:
    """Return the transitions of a net that an event fired."""
    steps: tuple[StepRecord, ...] = ()
    match event.body:
        case CallDecided() as body:
            steps = tuple(step for step in body.steps if not step.deferred)
        case CallResult(anomaly=None) as body:
            steps = body.fired
        case _:
            pass
    return tuple(step.transition for step in steps if step.net == net)
