"""Transcript of a session: messages and calls in chronological order, with the end in view.

Only entries that can still change are built again; earlier entries keep their blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial

from textual.content import Content

from ....engine.history.model.state import CallState, QueuedState, SessionState, TranscriptEntry
from ...format.markdown import markdown_height, markdown_rows
from ...format.text import (
    GLANCE,
    MUTED,
    age,
    clip,
    count,
    duration,
    glance,
    name_shown,
    pad,
    place,
    quoted,
    seconds_between,
    shown,
    shown_lines,
    spread,
    styled_rows,
    width_of,
    wrap_all,
)
from ...terminal.charset import as_drawn, pointer
from ...terminal.keymap import key_of
from ...terminal.symbols import call_look
from ...viewmodels.stream import LiveStream
from ..base.blocks import Block, BlockList

SETTLED = {"done", "failed", "blocked", "skipped", "unknown"}
MAY_GO_ON = {"unknown", "skipped"}
"""Settled statuses after which the call may still get a result, or be made."""
REPORTED = "user?"
"""Label of a user's message as reported by an external agent."""
LABELS = (9, 18)
"""Minimum and maximum width of the speaker column in cells."""
HEAD_LINES = 3
TAIL_LINES = 3
"""Number of the newest output lines shown of a running tool."""
LONG_WAIT = 2.0
"""Seconds after which the wait for the model is shown."""
LONG_MESSAGE = 200
"""Maximum lines of one message in the transcript; `enter` shows the rest."""
USER = "bold $text-primary"
ASSISTANT = "bold $text-secondary"
ERROR = "error: "
"""Prefix of a note about the error with which a session failed."""
NOTHING_YET = "Nothing has been said yet."


class Transcript(BlockList):
    """Transcript of the selected session; `enter` opens a message or a call in full."""

    def __init__(self) -> None:
        super().__init__(id="transcript", empty=NOTHING_YET, follow=True)
        self._session: str | None = None
        self._settled = 0
        # By entry number: the status of calls that may still continue.
        self._may_go_on: dict[int, str] = {}

    def show_session(self, state: SessionState | None, flow: LiveStream, now: datetime) -> None:
        """Update the list to `state` and to the text being streamed."""
        if state is None:
            self._session, self._settled, self._may_go_on = None, 0, {}
            self.show([])
            return
        if state.id != self._session:
            self._session, self._settled, self._may_go_on = state.id, 0, {}
            self._following = True
            self.show([])
        moved = (at for at, was in self._may_go_on.items() if _standing_at(state.transcript, at) != was)
        kept, column = min(moved, default=self._settled), column_of(state)
        fresh = [
            entry_block(f"{index}", entry, state.agent, flow, now, state.labels, column)
            for index, entry in enumerate(state.transcript[kept:], kept)
        ]
        fresh += [*tail_blocks(state, flow, now), *queued_blocks(state)]
        self.show(fresh, keep=kept)
        self._settled = _first_unsettled(state.transcript, kept)
        standing = {at: _standing_at(state.transcript, at) for at in range(kept, self._settled)}
        self._may_go_on = {
            **{at: was for at, was in self._may_go_on.items() if at < kept},
            **{at: now for at, now in standing.items() if now in MAY_GO_ON},
        }


def _standing_at(entries: list[TranscriptEntry], at: int) -> str:
    """Return the status of the call in an entry; empty for any other entry."""
    call = entries[at].call if at < len(entries) else None
    return "" if call is None else call.status


def _first_unsettled(entries: list[TranscriptEntry], start: int) -> int:
    for index in range(start, len(entries)):
        call = entries[index].call
        if call is not None and call.status not in SETTLED:
            return index
    return len(entries)


def label_column(agent: str, nodes: Iterable[str] = ()) -> int:
    """Return the width of the speaker column in cells: enough for the agent's name, within limits."""
    least, most = LABELS
    return max(least, min(most, max(width_of(name_shown(name)) for name in (agent, *nodes)) + 2))


def column_of(state: SessionState) -> int:
    """Return the speaker column of a session; of a flow, it fits the nodes with models."""
    named = () if state.flow is None else state.flow.flow.names.items()
    return label_column(state.agent, (name for node, name in named if node.startswith("agent ")))


def tail_blocks(state: SessionState, flow: LiveStream, now: datetime) -> list[Block]:
    """Return blocks after the last entry: text being written, a wait for the model, a failure."""
    blocks: list[Block] = []
    thinking = seconds_between(state.updated, now) if _awaits_model(state, flow) else 0.0
    if thinking >= LONG_WAIT:
        waited = age(thinking)
        blocks.append(Block("thinking", waited, lambda width: _thinking(state.model, waited, width)))
    if flow.said:
        said, column = flow.said, column_of(state)
        agent = state.agent or "assistant"
        blocks.append(
            Block(
                "writing",
                said,
                lambda width: _message(agent, said, ASSISTANT, width, column, end="▍", markup=True),
            )
        )
    for number, (tool, size) in sorted(flow.calls.items()):
        blocks.append(Block(f"writing {number}", (tool, size), partial(_call_written, tool, size)))
    error = state.error or (flow.failure if state.status == "failed" else None)
    if error and not _is_noted(state, error):
        blocks.append(Block("error", error, lambda width: _failure(error, width)))
    return blocks


def _is_noted(state: SessionState, error: str) -> bool:
    """Return whether a session's error is already the last entry of its transcript."""
    last = state.transcript[-1] if state.transcript else None
    return last is not None and last.kind == "note" and last.text == f"{ERROR}{error}"


def queued_blocks(state: SessionState) -> list[Block]:
    """Return messages that the agent has not received yet, in the order in which it will."""
    column = column_of(state)
    waiting = sorted(state.queued, key=lambda queued: queued.mode != "steer")
    return [
        Block(f"queued {queued.id}", queued.id, partial(_queued, queued, column=column))
        for queued in waiting
    ]


def _queued(queued: QueuedState, width: int, column: int) -> list[Content]:
    """Return the head of a queued message, and what the message waits for."""
    rows = [
        Content.styled(row.plain, MUTED)
        for row in _message(queued.by or "user", queued.text[: width * HEAD_LINES], MUTED, width, column)
    ]
    until = "the next step" if queued.mode == "steer" else "the turn's end"
    return [*rows[: 1 + HEAD_LINES], *_note(f"queued: waits for {until}", width)]


def _awaits_model(state: SessionState, flow: LiveStream) -> bool:
    """Return whether the session waits for the model: it is running, and every call is settled."""
    if state.status != "running" or flow.said or flow.calls:
        return False
    return all(call.status in SETTLED for call in state.calls.values())


def _thinking(model: str, waited: str, width: int) -> list[Content]:
    line = Content.styled(f"· waiting for {shown(model) or 'the model'}", MUTED)
    return [Content(""), spread(line, Content.styled(waited, MUTED), width)]


def _call_written(tool: str, size: int, width: int) -> list[Content]:
    """Return the line for a call that the model is still writing and that was not submitted yet."""
    so_far = f"{size:,} characters so far" if size != 1 else "1 character so far"
    line = Content.assemble(
        ("· writing ", MUTED), (name_shown(tool) or "a call", "$foreground"), ("▍", MUTED)
    )
    return [Content(""), spread(line, Content.styled(so_far, MUTED), width)]


def entry_block(
    key: str,
    entry: TranscriptEntry,
    agent: str,
    flow: LiveStream,
    now: datetime,
    labels: Mapping[str, str] | None = None,
    column: int | None = None,
) -> Block:
    """Return the block of one entry; `labels` are the labels of the session's tools, by tool name.

    `column` is the width of the speaker column; by default, that of `agent`.
    """
    if (call := entry.call) is not None:
        # A subagent's tool of the same name may be a different one.
        return call_block(key, call, flow, now, "" if call.via else (labels or {}).get(call.tool, ""))
    text = entry.text or ""
    if entry.kind == "note" and text.startswith(ERROR):
        return Block(key, text, lambda width: _failure(text.removeprefix(ERROR), width))
    if entry.kind == "note":
        return Block(key, text, lambda width: _note(text, width))
    cells = label_column(agent) if column is None else column
    who, style, markup = entry.by or agent or "assistant", ASSISTANT, entry.kind == "assistant"
    if entry.kind == "user":
        who, style = entry.by or "user", USER
        if entry.reported_by is not None:
            who, style = REPORTED, MUTED
    elif entry.kind == "summary":
        who, style = "summary", MUTED
    return Block(
        key,
        text,
        lambda width: _message(who, text, style, width, cells, markup=markup),
        height=lambda width: _message_height(text, width, cells, markup=markup),
    )


def _message_room(width: int, column: int) -> tuple[int, bool]:
    """Return the width for a message's text, and whether the speaker is above the text."""
    room = width - column
    return (width - 2, True) if room < 40 else (room, False)


def _message_height(text: str, width: int, column: int, *, markup: bool = False) -> int:
    """Return the number of lines that `_message` returns."""
    room, narrow = _message_room(width, column)
    head = text[: room * LONG_MESSAGE]
    rows = markdown_height(head, room) if markup else len(wrap_all(shown_lines(head), room))
    cut = rows > LONG_MESSAGE or len(text) > room * LONG_MESSAGE
    return 1 + narrow + min(rows, LONG_MESSAGE) + cut


def _message(
    speaker: str,
    text: str,
    style: str,
    width: int,
    column: int,
    *,
    end: str = "",
    markup: bool = False,
) -> list[Content]:
    """Return a message beside or below its speaker's name; with `markup`, Markdown is rendered."""
    label = clip(name_shown(speaker), column - 2)
    room, narrow = _message_room(width, column)
    over = len(text) - room * LONG_MESSAGE
    rows = _message_rows(text[: room * LONG_MESSAGE] + end, room, markup=markup)
    hidden = max(0, len(rows) - LONG_MESSAGE)
    lines = [Content("")]
    if narrow:
        lines.append(Content.styled(label, style))
    for index, row in enumerate(rows[:LONG_MESSAGE]):
        head = "  " if narrow else (pad(label, column) if index == 0 else " " * column)
        lines.append(Content.assemble((head, style), row))
    if hidden or over > 0:
        lines.append(
            Content.styled(
                f"{' ' * (width - room)}… {key_of(BlockList, 'list.open')} shows all of it", MUTED
            ).truncate(width)
        )
    return lines


def _message_rows(text: str, room: int, *, markup: bool) -> Sequence[Content]:
    return markdown_rows(text, room) if markup else styled_rows(shown_lines(text), room)


def _note(text: str, width: int) -> list[Content]:
    return styled_rows([f"– {as_drawn(text[:GLANCE])}"], width, "italic $foreground 60%")


def _failure(error: str, width: int) -> list[Content]:
    rows = wrap_all(shown_lines(error[:4_000]), width - 2)[:12]
    first, rest = rows[0], rows[1:]
    return [
        Content(""),
        Content.assemble(("✗ ", "$text-error"), (first, "bold $text-error")),
        *(Content.styled(f"  {row}", "$text-error") for row in rest),
    ]


def call_block(key: str, call: CallState, flow: LiveStream, now: datetime, label: str = "") -> Block:
    """Return the block of a call: name, input, status, and output. `label` is its tool's label."""
    last = flow.last_lines(call.call_id, TAIL_LINES) if call.status == "running" else ()
    waited = age(seconds_between(call.at, now)) if call.status in ("waiting", "running") else ""
    heard = flow.heard.get(call.call_id)
    quiet = age(seconds_between(heard, now)) if last and heard is not None else ""
    notes = (call.uninspectable, call.judged_as, call.waits_for)
    decided = (call.outcome, call.reason, call.rule, call.names, notes, approval_words(call))
    return Block(
        key,
        (call.status, decided, label, waited, last, quiet),
        lambda width: call_lines(call, width, label=label, waited=waited, last=last, quiet=quiet),
        height=lambda width: 1 + len(_reasons(call, width)) + len(last) + _output_height(call, width),
    )


def call_lines(
    call: CallState,
    width: int,
    *,
    label: str = "",
    waited: str = "",
    last: Sequence[str] = (),
    quiet: str = "",
) -> list[Content]:
    """Return the lines of one call: a head with its state, then the reason, and the output's head or
    tail.

    `label` follows the tool's name and never replaces it. `last` are the newest output lines of a running
    tool, and `quiet` is the time since.
    """
    look = call_look(call)
    name = name_shown(call.names[0]) if call.names else name_shown(call.tool)
    called = f"  {name_shown(call.tool)}" if name != name_shown(call.tool) else ""
    weight = "bold " if call.status in ("waiting", "running", "blocked", "failed") else ""
    left = Content.assemble(
        (f"{look.symbol} ", look.style),
        (f"{name_shown(call.via)} {pointer()} " if call.via else "", MUTED),
        (name, weight + "$foreground"),
        (called, MUTED),
        (f"  {quoted(label)}" if label else "", MUTED),
        (f"  {glance(call.input, shell_fields=call.shell_fields)}", MUTED),
    )
    lines = [spread(left, _standing(call, waited), width)]
    lines += _reasons(call, width)
    for number, line in enumerate(last, 1):
        newest = number == len(last) and quiet not in ("", "0:00")
        tail = Content.styled(f"{quiet} ago" if newest else "", MUTED)
        lines.append(spread(Content.styled(f"  │ {shown(line)}", MUTED), tail, width))
    if call.output and call.status in ("done", "failed"):
        lines += _output_head(call.output, width, failed=call.status == "failed")
    return lines


def _reasons(call: CallState, width: int) -> list[Content]:
    """Return the reason why a call was blocked or, in shadow mode, would have been blocked or asked.

    For any call, also return why its effects may be incomplete, and other names by which the rules judged
    it.
    """
    lines = _naming_notes(call, width)
    if call.status == "blocked":
        return [*_reason(call, width, "", ""), *lines]
    if call.outcome in ("block", "ask") and call.reason:
        word = "would block: " if call.outcome == "block" else "would ask: "
        return [*_reason(call, width, "S", word), *lines]
    return lines


def _naming_notes(call: CallState, width: int) -> list[Content]:
    notes: list[str] = []
    if call.uninspectable is not None and call.uninspectable not in (call.reason or ""):
        notes.append(f"  unclear: {shown(call.uninspectable)}")
    if call.judged_as:
        notes.append(f"  judged as {shown(', '.join(call.judged_as))}")
    return styled_rows(notes, width, "$text-warning")


def approval_words(call: CallState) -> str:
    """Return text such as `approved by maria`, `edited by ada, approved by ben`, or `allowed by grant-1`.

    Empty if no approval was needed.
    """
    people = shown(call.approver_names)
    words = [f"allowed by {shown(', '.join(call.granted))}"] if call.granted else []
    editor = call.edited_by or (call.approved_by[0] if len(call.approved_by) == 1 else None)
    if call.edited:
        words.append("edited" if editor is None else f"edited by {shown(editor)}")
    if people and not (call.edited and call.approved_by == (editor,)):
        words.append(f"approved by {people}")
    return ", ".join(words)


def _standing(call: CallState, waited: str) -> Content:
    look = call_look(call)
    parts: list[str] = []
    parts += [approval_words(call)] if approval_words(call) else []
    if call.status in ("waiting", "running"):
        parts.append(f"{look.word} {waited}".strip())
    elif call.status in ("done", "failed") and call.seconds is not None:
        parts.append(duration(call.seconds))
    elif call.status == "proposed" and call.waits_for:
        parts.append(f"waits for {shown(', '.join(call.waits_for))}")
    elif call.status not in ("done",):
        parts.append(look.word)
    strong = call.status in ("waiting", "blocked", "failed", "unknown")
    return Content.styled("  ".join(parts), look.style if strong else MUTED)


def _reason(call: CallState, width: int, symbol: str, prefix: str) -> list[Content]:
    where = Content.styled(place(call.rule) if call.rule else "", MUTED)
    reason = shown(call.reason or "no reason given")
    head = f"  {symbol} {prefix}" if symbol else f"  {prefix}"
    style = "$text-secondary" if symbol else "$text-error"
    rows = wrap_all([head + reason], width)
    if where and len(rows) == 1 and len(rows[0]) + where.cell_length + 2 <= width:
        return [spread(Content.styled(rows[0], style), where, width)]
    lines = [
        Content.styled(row if i == 0 else f"  {row}", style)
        for i, row in enumerate(wrap_all([head + reason], width - 2))
    ]
    if where:
        lines.append(Content.assemble("  ", where).truncate(width, ellipsis=True))
    return lines


def _output_height(call: CallState, width: int) -> int:
    """Return the number of lines that `_output_head` returns."""
    if not call.output or call.status not in ("done", "failed"):
        return 0
    rows = min(call.output[: width * 12].rstrip("\n").count("\n") + 1, HEAD_LINES)
    if _lines_in(call.output) <= HEAD_LINES:
        return rows
    return min(rows, HEAD_LINES - 1) + 2 if call.status == "failed" else rows + 1


def _lines_in(output: str) -> int:
    """Return the number of lines of an output; lines after 200,000 characters are not counted."""
    return output.count("\n", 0, 200_000) + 1 - output.endswith("\n")


def _output_head(output: str, width: int, *, failed: bool) -> list[Content]:
    head = output[: width * 12]
    rows = shown_lines(head.rstrip("\n"))
    total = _lines_in(output)
    bar = "  │ "
    style = "$text-error" if failed else MUTED
    picked = rows[:HEAD_LINES]
    lines = [
        Content.assemble((bar, style), (row, MUTED)).truncate(width, ellipsis=True) for row in picked
    ]
    more = f"  … {count(total - HEAD_LINES, 'more line')}, {key_of(BlockList, 'list.open')} shows them"
    if failed and total > HEAD_LINES:
        last = shown_lines(output[-width * 4 :].rstrip("\n"))[-1]
        lines = [
            *lines[: HEAD_LINES - 1],
            Content.styled(more, MUTED),
            Content.assemble((bar, style), last),
        ]
    elif total > HEAD_LINES:
        lines.append(Content.styled(more, MUTED))
    return [line.truncate(width, ellipsis=True) for line in lines]
