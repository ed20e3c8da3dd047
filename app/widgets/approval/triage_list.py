"""The queue as a table over the whole width: a heading for each group, a line for each request.

A heading shows what the requests of its group have in common, a line what differs. A line counts as seen
once it and its heading were completely painted and stayed in view.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate, zip_longest
from typing import ClassVar

from textual.binding import BindingType
from textual.cache import LRUCache
from textual.content import Content, Span
from textual.geometry import Region, Size
from textual.strip import Strip

from ....engine.history.model.state import ApprovalState
from ....engine.history.redaction.shell.masking import holds_commands
from ...format.highlighting import code_spans, highlighted
from ...format.text import (
    MUTED,
    age,
    field_name,
    name_shown,
    pad,
    place,
    seconds_between,
    shown,
    spread,
    styled_rows,
    width_of,
    wrap,
)
from ...terminal.bindings import without_keys
from ...terminal.charset import to_charset
from ...terminal.symbols import RISK
from ...viewmodels.triage import INPUT, Difference, TriageGroup, must_be_opened
from ..base.blocks import Block, BlockList
from ..nets.list import dots_of
from .progress import fuse_words
from .queue_lines import approver_pieces, client_absence, handover_pieces, time_left
from .reviewed_list import in_plain_view
from .time_in_view import TimeInView

GAP, BAR = "  ", " │ "
OURS = "$text-accent bold"
"""Style of the `…` in a heading, which stands for the part that each line shows."""
COMMON_LINES = 4
"""Maximum lines for the common part of a group. With a longer one, no line shows a request completely."""
LABELS = {"session": "", "directory": "in ", "applies as": "applies because "}
GRANTS = frozenset({"g"})


@dataclass(frozen=True, slots=True)
class MetaColumns:
    """Widths in cells of the columns before what differs; 0 for an empty column."""

    risk: int = 0
    age: int = 0
    left: int = 0

    @classmethod
    def of(cls, requests: Sequence[ApprovalState], now: datetime) -> MetaColumns:
        """Return the column widths for these requests, by their longest ages and times left."""
        if not requests:
            return cls()
        ending = [each for each in requests if each.expires is not None]
        edges = [choose(ending, key=_expires) for choose in (min, max)] if ending else []
        return cls(
            max((2 + len(each.risk) for each in requests if each.risk is not None), default=0),
            len(age(seconds_between(min(each.since for each in requests), now))),
            max((width_of(_left(each, now)[0]) for each in edges), default=0),
        )

    @property
    def width(self) -> int:
        """Return the total width, including the mark."""
        return 2 + sum(size + len(GAP) for size in (self.risk, self.age, self.left) if size)

    def heading(self) -> Content:
        """Return the column headings."""
        named = ((self.risk, "RISK"), (self.age, "AGE"), (self.left, "LEFT"))
        cells = [pad(name, size) for size, name in named if size]
        return Content.styled("  " + GAP.join([*cells, "WHAT DIFFERS"]), MUTED)

    def cells(self, request: ApprovalState, now: datetime, mark: str) -> Content:
        """Return a request's mark, risk, age and time left."""
        text, spans = mark, [Span(0, len(mark), "bold $text-accent")]
        if self.risk:
            look = None if request.risk is None else RISK[request.risk]
            risk = "" if look is None else f"{look.symbol} {request.risk}"
            if look is not None:
                strong = "bold " if request.risk == "high" else ""
                spans.append(Span(len(text), len(text) + len(risk), strong + look.style))
            text += pad(risk, self.risk) + GAP
        if self.age:
            text += f"{age(seconds_between(request.since, now)):>{self.age}}{GAP}"
        if self.left:
            left, style = _left(request, now)
            text += " " * (self.left - width_of(left))
            if style:
                spans.append(Span(len(text), len(text) + len(left), style))
            text += left + GAP
        return Content(text, spans)


def widest(requests: Sequence[ApprovalState]) -> list[ApprovalState]:
    """Return the few requests that need the widest columns, at any time."""
    if not requests:
        return []
    ending = [each for each in requests if each.expires is not None]
    return [
        min(requests, key=lambda each: each.since),
        max(requests, key=lambda each: len(each.risk or "")),
        *([choose(ending, key=_expires) for choose in (min, max)] if ending else []),
    ]


def _expires(request: ApprovalState) -> datetime:
    assert request.expires is not None
    return request.expires


def _left(request: ApprovalState, now: datetime) -> tuple[str, str]:
    """Return the time left and its style, without the word that the column heading states."""
    left, style = time_left(request, now)
    return left.removesuffix(" left"), style


@dataclass(frozen=True, slots=True)
class GroupLayout:
    """Layout of a group for a width: its heading, whether the heading is complete, and the column widths.

    Without `columns` the parts of a line follow each other.
    """

    heading: Sequence[Content]
    whole: bool
    columns: Sequence[int]


def lay_out_group(group: TriageGroup, meta: MetaColumns, width: int) -> GroupLayout:
    """Lay out a group; `meta` are the columns before what differs."""
    first, common = group.first, _common_parts(group)
    rule = first.net if first.rule is None else first.rule.text.strip()
    where = "" if first.rule is None else f"  {place(first.rule)}"
    who = name_shown(f"{first.via} of {first.agent}" if first.via else first.agent or first.session)
    number = f" ×{len(group.requests)}" if len(group.requests) > 1 else ""
    right = Content.assemble((who, "bold"), (number, MUTED))
    left = Content.assemble((shown(rule), "bold $text-primary"), (where, MUTED))
    if left.cell_length + 2 + right.cell_length <= width:
        heading = [spread(left, right, width)]
    elif left.cell_length <= width:
        heading, common = [left], [right, *common]
    else:
        heading = styled_rows([shown(rule)], width, "bold $text-primary")
        common = [right, Content.styled(where.strip(), MUTED), *common]
    rows = _in_lines(common, width - 2)
    whole = len(rows) <= COMMON_LINES and all(row.cell_length <= width for row in heading)
    kept = rows if len(rows) <= COMMON_LINES else [*rows[: COMMON_LINES - 1], Content("…")]
    heading += [Content.assemble("  ", row) for row in kept]
    sizes = [
        max(width_of(_part_text(each, parts[at])) for parts in group.parts.values())
        for at, each in enumerate(group.differences)
    ]
    fits = meta.width + sum(sizes) + len(BAR) * max(0, len(sizes) - 1) <= width
    return GroupLayout(heading, whole, sizes if fits else ())


def _common_parts(group: TriageGroup) -> list[Content]:
    """Return the common parts of a group: tool and effects, equal fields, and common parts of others."""
    alike = {name: text for name, text in group.alike.items() if name not in ("asked by", "agent")}
    called, about = alike.pop("tool", None), alike.pop("asks about", None)
    names = [name_shown(each) for each in dict.fromkeys((called, about)) if each is not None]
    parts = [Content.styled(to_charset(" → ").join(names), "bold")] if names else []
    for name, text in alike.items():
        if name.startswith("input"):
            command = holds_commands(name.removeprefix(INPUT), group.first.shell_fields)
            parts.append(Content.assemble((_label(name), MUTED), _text(text, command=command)))
    for each in group.differences:
        # A single call's only field needs its name to be understood, unless it is a command.
        if len(group.requests) > 1 or len(group.differences) > 1 or not each.command:
            head, tail = (_text(text, command=each.command) for text in (each.head, each.tail))
            parts.append(Content.assemble((_label(each.name), MUTED), head, ("…", OURS), tail))
    for name, text in alike.items():
        if not name.startswith("input"):
            parts.append(Content.styled(f"{LABELS.get(name, f'{name} ')}{shown(text)}", MUTED))
    return parts


def _label(name: str) -> str:
    own = name.removeprefix(INPUT)
    return f"{shown(name if own == name else field_name(own))} "


def _text(text: str, *, command: bool) -> Content:
    """Return a field's text on one line, with a command highlighted."""
    if not command:
        return Content(shown(text))
    safe = name_shown(text)
    return highlighted(safe, 0, code_spans(safe, "bash"))


def _part_text(each: Difference, part: str | None) -> str:
    if not part:
        return "(none)" if part is None else "(nothing)"
    return name_shown(part) if each.command else shown(part)


def _part(each: Difference, part: str | None) -> Content:
    if not part:
        return Content.styled(_part_text(each, part), MUTED)
    return _text(part, command=each.command)


def _in_lines(parts: Sequence[Content], width: int) -> list[Content]:
    """Return parts in rows, on as many lines as needed; a part that is too long is wrapped."""
    rows: list[Content] = []
    for part in parts:
        if rows and rows[-1].cell_length + 3 + part.cell_length <= width:
            rows[-1] = Content.assemble(rows[-1], (" · ", MUTED), part)
        else:
            ends = [*accumulate(map(len, wrap(part.plain, width)))]
            rows += part.divide(ends[:-1])
    return rows


def flags_of(request: ApprovalState, now: datetime) -> list[Content]:
    """Return short flags for what is special about a request."""
    flags = [Content.styled(each, "bold $text-warning") for each in fuse_words(request, now)[:2]]
    flags += handover_pieces(request)
    flags += (Content.styled(each, "bold $text-error") for each in client_absence(request, now))
    if request.uninspectable is not None:
        flags.append(Content.styled("uninspectable", "bold $text-error"))
    if request.hidden:
        flags.append(Content.styled("masked", "bold $text-error"))
    if request.wants is not None:
        flags.append(Content.styled("asks for an answer", "$text-warning"))
    if request.original is not None:
        flags.append(Content.styled("edited", "bold $text-warning"))
    if request.people > 1:
        so_far = f"{len(request.given)} of {request.people} "
        flags.append(Content.assemble((so_far, "$text-warning"), dots_of(request)))
    return [*flags, *approver_pieces(request)]


class TriageList(BlockList, inherit_bindings=False):
    """Groups of requests. A new request does not move the line under the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [without_keys(GRANTS, each) for each in BlockList.BINDINGS]

    def __init__(self, monotonic: Callable[[], float], enough: float) -> None:
        super().__init__(id="triage", empty="")
        self._monotonic = monotonic
        self._in_view = TimeInView(enough)
        self._groups: Mapping[str, TriageGroup] = {}
        self._requests: dict[str, tuple[ApprovalState, TriageGroup]] = {}
        self._meta = MetaColumns()
        self._widest: Sequence[ApprovalState] = ()
        self._layouts: dict[str, tuple[object, GroupLayout]] = {}
        self._marked: frozenset[str] = frozenset()
        self._sending: frozenset[str] = frozenset()
        self._now: datetime | None = None
        self._slack = 0
        # By request id and width: whether the line of a listed request is complete.
        self._wholes: dict[tuple[str, int], bool] = {}
        # By block key and width: the content of each of its lines that is shown completely.
        self._texts: dict[tuple[str, int], Sequence[Hashable]] = {}
        self._told: LRUCache[tuple[str, bytes, int, int], Content] = LRUCache(512)

    @property
    def meta(self) -> MetaColumns:
        """Return the columns before what differs."""
        return self._meta

    def show_groups(
        self,
        groups: Sequence[TriageGroup],
        now: datetime,
        marked: Collection[str] = (),
        sending: Collection[str] = (),
    ) -> None:
        """Show groups. The cursor stays on its request, and the request on its line of the screen."""
        before = self._marked, self._sending, self._meta
        self._marked, self._sending, self._now = frozenset(marked), frozenset(sending), now
        same = self._shows(groups)
        if not same:
            self._widest = widest([request for group in groups for request in group.requests])
        self._meta = meta = MetaColumns.of(self._widest, now)
        if (self._marked, self._sending, meta) == before and same:
            # Only ages have changed; lines out of view are updated when they become visible.
            self._renew_view()
            return
        self._groups = {_heading_key(group): group for group in groups}
        self._requests = {each.id: (each, group) for group in groups for each in group.requests}
        self._layouts = {key: kept for key, kept in self._layouts.items() if key in self._groups}
        self._wholes.clear()
        self._texts.clear()
        blocks: list[Block] = []
        for key, group in self._groups.items():
            blocks.append(self._heading_block(key, group))
            for each in group.requests:
                blocks.append(
                    self._request_block(each, group, meta, now, each.id in marked, each.id in sending)
                )
        self._show_in_place(blocks)

    def show_marks(self, marked: Collection[str], now: datetime, sending: Collection[str] = ()) -> None:
        """Show other marks. Nothing else about the groups has changed."""
        changed, self._marked = self._marked ^ set(marked), frozenset(marked)
        self._sending, self._now = frozenset(sending), now
        for index, block in enumerate(self._blocks if changed else ()):
            if block.key in changed:
                self._renew(index)

    def _shows(self, groups: Sequence[TriageGroup]) -> bool:
        """Return whether these groups are the ones that are listed."""
        return all(a is b for a, b in zip_longest(self._groups.values(), groups))

    def _renew(self, index: int) -> None:
        """Update a request's line, which keeps its height."""
        block = self._blocks[index]
        found = self._requests.get(block.key)
        if found is None or self._now is None:
            return
        key = block.key
        fresh = self._request_block(
            *found, self._meta, self._now, key in self._marked, key in self._sending
        )
        if fresh.stamp != block.stamp:
            self._blocks[index] = fresh
            self.refresh_lines(self._start(index), self._heights[index])

    def _renew_view(self) -> None:
        """Update the visible lines."""
        top, height = self.scroll_offset.y, self.scrollable_content_region.height
        last = min(len(self._blocks), bisect_right(self._ends, top + height) + 1)
        for index in range(bisect_right(self._ends, top), last):
            self._renew(index)

    def _show_in_place(self, blocks: Sequence[Block]) -> None:
        """Show blocks, and scroll by as much as the line under the cursor has moved."""
        key, start = self.current, None if self._cursor is None else self._start(self._cursor)
        self.show(blocks)
        if start is None or self._cursor is None or self.current != key:
            return
        moved = self._start(self._cursor) - start
        if moved:
            top = max(0, self.scroll_offset.y + moved)
            height = self.scrollable_content_region.height
            # A list that fits its pane could not be scrolled, so it is extended beyond its entries.
            self._slack = max(0, top + height - (self._ends[-1] if self._ends else 0))
            self._extend()
            self.scroll_to(y=top, animate=False, immediate=True, force=True)

    def _place(self) -> None:
        super()._place()
        self._extend()

    def _extend(self) -> None:
        if self._slack and self._ends:
            self.virtual_size = Size(self.virtual_size.width, self._ends[-1] + self._slack)

    @property
    def above(self) -> int:
        """Return the number of requests above the visible part."""
        return bisect_left(self._choices, bisect_right(self._ends, self.scroll_offset.y))

    @property
    def below(self) -> int:
        """Return the number of requests below the visible part."""
        height = self.scrollable_content_region.height
        if not height:
            return 0
        first = bisect_left(self._ends, self.scroll_offset.y + height) + 1
        return len(self._choices) - bisect_left(self._choices, first)

    # Lines

    def _heading_block(self, key: str, group: TriageGroup) -> Block:
        def lines(width: int) -> Sequence[Content]:
            return self._layout_of(key, group, width).heading

        return Block(key, group.stamp, lines, selectable=False)

    def _layout_of(self, key: str, group: TriageGroup, width: int) -> GroupLayout:
        made_for = (group.stamp, self._meta.width, width)
        kept = self._layouts.get(key)
        if kept is None or kept[0] != made_for:
            kept = self._layouts[key] = made_for, lay_out_group(group, self._meta, width)
        return kept[1]

    def _request_block(
        self,
        request: ApprovalState,
        group: TriageGroup,
        meta: MetaColumns,
        now: datetime,
        marked: bool,
        sending: bool,
    ) -> Block:
        waited = int(seconds_between(request.since, now))
        left = None if request.expires is None else int((request.expires - now).total_seconds())

        def lines(width: int) -> Sequence[Content]:
            mark = "x " if marked else "  "
            right = [Content.styled("deciding", MUTED)] if sending else flags_of(request, now)
            told = Content("  ").join(right)
            cells = Content.assemble(meta.cells(request, now, mark), self._parts(request, group, width))
            return [spread(cells, told, width)]

        people = (request.claim, request.fuse, request.comments, request.escalated, request.disconnected)
        flags = (request.late, request.uninspectable)
        stamp = (
            request.digest,
            waited,
            left,
            marked,
            sending,
            request.given,
            people,
            flags,
            group.stamp,
            meta,
        )
        return Block(request.id, stamp, lines, height=_one)

    def _parts(self, request: ApprovalState, group: TriageGroup, width: int) -> Content:
        """Return the differing parts, in columns if these fit."""
        if not group.differences:
            return Content.styled("the same input", MUTED)
        key = (request.id, group.stamp, self._meta.width, width)
        if (known := self._told.get(key)) is None:
            known = self._told[key] = self._cells(request, group, width)
        return known

    def _cells(self, request: ApprovalState, group: TriageGroup, width: int) -> Content:
        columns = self._layout_of(_heading_key(group), group, width).columns
        cells: list[Content] = []
        for at, (each, part) in enumerate(zip(group.differences, group.parts[request.id], strict=True)):
            cell = _part(each, part)
            if columns and at < len(columns) - 1:
                cell = Content.assemble(cell, " " * (columns[at] - cell.cell_length))
            cells.append(cell)
        # Separated by bars, so that blanks in a value cannot look like another column.
        return Content.styled(BAR, MUTED).join(cells)

    def _whole(self, request: ApprovalState, group: TriageGroup) -> bool:
        """Return whether a request's line and its group's heading show all that decides about it."""
        key = request.id, self._width
        if (known := self._wholes.get(key)) is None:
            known = self._wholes[key] = self._is_whole(request, group, self._width)
        return known

    def _is_whole(self, request: ApprovalState, group: TriageGroup, width: int) -> bool:
        if not width or must_be_opened(request) is not None:
            return False
        if not self._layout_of(_heading_key(group), group, width).whole:
            return False
        flags = sum(2 + flag.cell_length for flag in flags_of(request, request.since))
        return self._meta.width + self._parts(request, group, width).cell_length + flags <= width

    # Time in view

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the lines for the screen, recorded as painted."""
        strips = super().render_lines(crop)
        if in_plain_view(self):
            now = self._monotonic()
            for key in self._keys_in(self._rows_of(crop)):
                self._in_view.painted(key, now)
        return strips

    def _keys_in(self, lines: range) -> set[Hashable]:
        """Return the keys of the texts that these lines of the list show completely."""
        found: set[Hashable] = set()
        first = bisect_right(self._ends, lines.start)
        for index in range(first, len(self._blocks)):
            start = self._start(index)
            if start >= lines.stop:
                break
            texts = self._texts_of(self._blocks[index].key)
            found.update(texts[max(0, lines.start - start) : lines.stop - start])
        return found

    def _texts_of(self, key: str) -> Sequence[Hashable]:
        """Return a block's text keys, line by line; empty for a line that is not complete."""
        known = self._texts.get((key, self._width))
        if known is None:
            known = ()
            if (group := self._groups.get(key)) is not None:
                known = self._heading_keys(group)
            elif (found := self._requests.get(key)) is not None and self._whole(*found):
                known = (self._line_key(*found),)
            self._texts[key, self._width] = known
        return known

    def _heading_keys(self, group: TriageGroup) -> list[Hashable]:
        heading = self._layout_of(_heading_key(group), group, self._width or 20).heading
        return [(group.key, at, row.plain) for at, row in enumerate(heading)]

    def _line_key(self, request: ApprovalState, group: TriageGroup) -> Hashable:
        return (request.id, request.digest, group.parts[request.id])

    def review(self) -> None:
        """Update the times in view from the visible lines."""
        in_view: set[Hashable] = set()
        if in_plain_view(self):
            top, height = self.scroll_offset.y, self.scrollable_content_region.height
            in_view = self._keys_in(range(top, top + height))
        now = self._monotonic()
        self._in_view.review(in_view, now)
        for key in in_view:
            # Lines that a notice had covered are visible again without another paint.
            self._in_view.painted(key, now)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._renew_view()
        self.review()

    def was_seen(self, request: ApprovalState) -> bool:
        """Return whether a request's line and heading were complete and stayed in view long enough."""
        return self._seen_by(request, self._in_view.seen)

    def comes_to_be_seen(self, request: ApprovalState) -> bool:
        """Return whether they are in view but not yet for long enough."""
        return self._seen_by(request, lambda key: self._in_view.seen(key) or self._in_view.coming(key))

    def _seen_by(self, request: ApprovalState, test: Callable[[Hashable], bool]) -> bool:
        found = self._requests.get(request.id)
        if found is None or found[0].digest != request.digest or not self._whole(*found):
            return False
        return test(self._line_key(*found)) and all(map(test, self._heading_keys(found[1])))

    def forget_others(self) -> None:
        """Forget what was seen of requests and groups that are gone."""
        kept = {self._line_key(*found) for found in self._requests.values()}
        kept.update(key for group in self._groups.values() for key in self._heading_keys(group))
        self._in_view.keep(kept)


def _heading_key(group: TriageGroup) -> str:
    return f"group {group.key}"


def _one(_width: int) -> int:
    return 1
