"""Panel that shows one entry in full: a message, or a call with its whole input and output."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, TypeAlias

from pydantic import JsonValue
from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.message import Message

from ....engine.history.model.state import CallState, TranscriptEntry
from ....engine.history.redaction.shell.masking import Paths
from ....engine.recording.explanation import ExplanationView
from ...format.calls import edited_words
from ...format.explanation import ABOVE, ExplanationLine, Moment, Tone, explained
from ...format.text import MUTED, duration, hanging_rows, rule_line, shown, shown_lines, wrap
from ...terminal.charset import to_charset
from ...terminal.symbols import call_look
from ...viewmodels.input_draft import changes
from ...viewmodels.request import shown_in_detail
from ...widgets.approval.call_input import input_rows
from ...widgets.approval.change_rows import change_rows
from ...widgets.base.blocks import Block, BlockList, StyledRows
from .panel import Panel

PIECE = 200
"""Lines of a long text per block. Only blocks on screen are rendered to strips."""


LABEL = 8
STYLES: dict[Tone, str] = {
    "plain": "",
    "good": "$text-success",
    "ask": "$text-warning",
    "bad": "$text-error",
    "quiet": MUTED,
}

Explain: TypeAlias = Callable[[], Awaitable[ExplanationView]]


class Detail(Panel[None]):
    """Panel of blocks to read and scroll, followed by the nets' explanation once it is available.

    `explain` returns the explanation for the current markings, `explain_then` for the markings when the
    call was decided.
    """

    HINTS: ClassVar[tuple[tuple[str, str], ...]] = (("panel.close", "close"),)
    """Hints in the frame: binding ids with their labels."""

    @dataclass
    class Explained(Message):
        """An explanation for a moment, or the reason why there is none."""

        moment: Moment
        answer: ExplanationView | str

    def __init__(
        self,
        title: str,
        blocks: Sequence[Block],
        *,
        explain: Explain | None = None,
        explain_then: Explain | None = None,
    ) -> None:
        super().__init__()
        self._title = title
        self._blocks = blocks
        explainers: Mapping[Moment, Explain | None] = {"then": explain_then, "now": explain}
        self._explainers: dict[Moment, Explain] = {
            moment: ask for moment, ask in explainers.items() if ask is not None
        }
        self._explanations: dict[Moment, Sequence[Block]] = {}

    def compose(self) -> ComposeResult:
        with self.panel_frame(shown(self._title), *self.HINTS):
            yield BlockList(cursor=False)

    def on_mount(self) -> None:
        self.query_one(BlockList).focus()
        self._show()
        for moment, ask in self._explainers.items():
            self.run_worker(self._ask(moment, ask), exit_on_error=False)

    async def _ask(self, moment: Moment, explain: Explain) -> None:
        try:
            answer: ExplanationView | str = await explain()
        except Exception as error:
            answer = str(error) or type(error).__name__
        self.post_message(self.Explained(moment, answer))

    @on(Explained)
    def show_explanation(self, message: Explained) -> None:
        """Show the explanation below the other blocks."""
        match message.answer:
            case ExplanationView() as view:
                found = explanation_blocks(view, message.moment)
            case problem:
                found = [fact("", f"cannot be explained: {problem}", "$text-error")]
        self._explanations[message.moment] = found
        self._show()

    def _show(self) -> None:
        blocks = [*self._blocks]
        for moment in self._explainers:
            asking = [fact("", "evaluating…", MUTED)]
            blocks.append(section(ABOVE[moment], first=not blocks))
            blocks += self._explanations.get(moment, asking)
        self.query_one(BlockList).show(blocks)


def explanation_blocks(view: ExplanationView, moment: Moment = "now") -> list[Block]:
    """Return one block per line of the explanation, wrapped to its width, in the tense of `moment`."""
    return [_explanation_line(index, line) for index, line in enumerate(explained(view, moment))]


def _explanation_line(index: int, line: ExplanationLine) -> Block:
    text = shown(line.text)
    indent = len(text) - len(text.lstrip())

    def lines(width: int) -> list[Content]:
        first, *others = wrap(text, width - LABEL - indent)
        rows = [first, *(" " * indent + row for row in others)]
        style = STYLES[line.tone]
        return hanging_rows(f"{line.label:<{LABEL}}", MUTED, [(row, style) for row in rows])

    return Block(f"explained {index}", line, lines)


def text_blocks(key: str, text: str, *, bar: str = "", style: str = "") -> list[Block]:
    """Return a long text as blocks, wrapped to the width they are shown at."""
    rows = shown_lines(text)

    def styled(_: int, row: str) -> Content:
        return Content.assemble((bar, MUTED), (row, style))

    def piece(start: int) -> Callable[[int], Sequence[Content]]:
        def lines(width: int) -> Sequence[Content]:
            pieces = rows[start : start + PIECE]
            return StyledRows([row for line in pieces for row in wrap(line, width - len(bar))], styled)

        return lines

    return [Block(f"{key}{i}", i, piece(i)) for i in range(0, len(rows), PIECE)]


def entry_detail(
    entry: TranscriptEntry, agent: str, session: str, *, explain: Explain | None = None
) -> Detail:
    """Return the panel for an entry of a session's transcript. `explain` is used for blocked calls."""
    if entry.call is not None:
        return call_detail(entry.call, session, explain if entry.call.status == "blocked" else None)
    if entry.kind == "summary":
        who = f"summary, requested by {entry.by}" if entry.by else "summary"
    else:
        who = entry.by or ("user" if entry.kind == "user" else agent or entry.kind)
        if entry.reported_by is not None:
            who = f"user, as reported by {entry.reported_by}"
    return Detail(f"{who} {to_charset('·')} {entry.at:%H:%M:%S}", text_blocks("text", entry.text or ""))


def call_detail(call: CallState, session: str, explain: Explain | None = None) -> Detail:
    """Return the panel for a call of a session."""
    look = call_look(call)
    name = call.names[0] if call.names else call.tool
    facts = [
        ("state", to_charset(f"{look.symbol} {look.word}"), look.style),
        ("took", "" if call.seconds is None else duration(call.seconds), ""),
        ("names", ", ".join(call.names) if len(call.names) > 1 else "", ""),
        ("verdict", call.outcome or "", ""),
        ("reason", call.reason or "", "$text-error"),
        ("net", call.net or "", ""),
        ("rule", rule_line(call.rule), ""),
        ("approved by", call.approver_names, ""),
        ("allowed by", ", ".join(call.granted), ""),
        (
            "edited",
            edited_words(call.edited_by, call.original, call.input) if call.edited else "",
            "$text-warning",
        ),
        ("made by", call.via or "", ""),
        ("call", f"{call.call_id} {to_charset('·')} proposed {call.at:%H:%M:%S}", MUTED),
    ]
    blocks = [section("call", first=True), *fact_blocks(facts)]
    blocks += input_blocks(call.input, session, call.shell_fields)
    blocks += difference_blocks(call.original, call.input)
    blocks.append(section("output"))
    if call.output is None:
        blocks.append(fact("", "none yet" if call.status in ("waiting", "running") else "none", MUTED))
    else:
        blocks += text_blocks("output", call.output, bar="│ ")
    return Detail(f"Call: {name}", blocks, explain=explain)


def input_blocks(values: Mapping[str, JsonValue], session: str, shell_fields: Paths) -> list[Block]:
    """Return a recorded input under its heading; if it has very many fields, an excerpt that says so."""
    given, note = shown_in_detail(values, session)
    blocks = [section("input"), Block("input", 0, partial(input_rows, given, shell_fields=shell_fields))]
    return blocks if note is None else [*blocks, *text_blocks("excerpt", note, style="$text-warning")]


def difference_blocks(original: dict[str, JsonValue] | None, runs: dict[str, JsonValue]) -> list[Block]:
    """Return an operator's edit of a call: the agent's input as removed, what runs as added (G-75)."""
    found = [] if original is None else changes(original, runs)
    if not found:
        return []
    return [
        section("what the agent asked for, and what runs"),
        Block("edited", 0, lambda width: change_rows(found, width)),
    ]


def section(word: str, *, first: bool = False) -> Block:
    """Return a heading, with a blank line above unless it is the `first`."""
    blank = [] if first else [Content("")]
    return Block(f"# {word}", 0, lambda _: [*blank, Content.styled(word.upper(), "bold $text-primary")])


def fact(label: str, value: str, style: str) -> Block:
    """Return a label with its wrapped text to the right."""

    def styled(index: int, row: str) -> Content:
        return Content.assemble((f"{'' if index else label:<12}  ", MUTED), (row, style))

    def lines(width: int) -> Sequence[Content]:
        rows = [row for line in shown_lines(value) for row in wrap(line, width - 14)]
        return StyledRows(rows, styled)

    return Block(f"fact {label}", value, lines)


def fact_blocks(facts: Iterable[tuple[str, str, str]]) -> list[Block]:
    """Return blocks of labels with their texts and styles; facts without text are left out."""
    return [fact(label, value, style) for label, value, style in facts if value]
