"""Lists of rules files: those to choose from, and the chosen ones by line with nets and findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from textual.content import Content

from ....rules.analysis.findings import Findings, ToolFinding
from ....rules.parse.lines import code
from ...format.rules import OUTSIDE, TOGETHER, steers, tool_lines
from ...format.text import GLANCE, MUTED, clip, count, hanging_rows, indented, shown, width_of, wrap
from ...sources.rules_files import OfferedFiles, Origin, name_of
from ...terminal.charset import to_charset
from ...viewmodels.rules_view import Noted, RuleFinding, RulesFile, RulesView
from ..base.blocks import Block, BlockList, StyledRows

TAB = "    "
PIECE = 100
"""Maximum lines without a rule per block."""
SESSIONS_SHOWN = 3
HEADINGS: dict[Origin, str] = {
    "session": "Of sessions",
    "named": "Opened here",
    "here": "In this folder",
    "library": "Library, ready-made",
}
LOOKS = {"error": ("✗", "$text-error"), "warning": ("▲", "$text-warning")}


class RulesFileList(BlockList):
    """Files to choose from; `Moved` reports another choice."""

    def __init__(self) -> None:
        super().__init__(id="files", empty="No rules files.")

    def show_files(self, offered: Sequence[OfferedFiles], files: Sequence[str]) -> None:
        """Show the files to choose from, by origin; `files` are chosen now."""
        blocks: list[Block] = []
        origin = None
        for chosen in offered:
            if chosen.origin != origin:
                blocks.append(_heading(HEADINGS[chosen.origin], first=origin is None))
                origin = chosen.origin
            blocks.append(_choice(chosen, chosen.files == tuple(files)))
        self.show(blocks)


def key_of(files: Sequence[str]) -> str:
    """Return the key of a block of `RulesFileList`. Paths do not contain NUL characters."""
    return "\0".join(files)


def _heading(text: str, *, first: bool) -> Block:
    rows = [Content.styled(text.upper(), "bold $text-primary")]
    if not first:
        rows.insert(0, Content(""))
    return Block(f"# {text}", first, lambda _: rows, selectable=False)


def _choice(chosen: OfferedFiles, now: bool) -> Block:
    def lines(width: int) -> list[Content]:
        names = [shown(name_of(file)) for file in chosen.files]
        mark, style = ("▸ ", "bold $text-accent") if now else ("  ", "")
        rows = [
            Content.assemble((mark, style), (clip(name, width - 2), "bold" if now else ""))
            for name in names
        ]
        who = list(map(shown, chosen.sessions[:SESSIONS_SHOWN]))
        more = len(chosen.sessions) - len(who)
        who += [f"and {more} more"] if more else []
        return rows + [Content.styled(clip(f"    {name}", width), MUTED) for name in who]

    return Block(key_of(chosen.files), (chosen, now), lines)


class RuleList(BlockList):
    """Text of rules files, line by line, with nets and findings below their lines."""

    def __init__(self) -> None:
        super().__init__(id="text")
        self._view: RulesView | None = None

    def show_rules(self, view: RulesView | None, blocks: Sequence[Block]) -> None:
        """Show `blocks`, created by `rule_blocks` from `view`."""
        self._view = view
        self.show(blocks)

    @property
    def room(self) -> int:
        """Return the width of a line in cells; 0 before the list is on screen."""
        return self._width

    def noted(self) -> Noted:
        """Return nets and findings of the line under the cursor."""
        at = self._at()
        return Noted() if at is None else at[0].noted.get(at[1], Noted())

    def where(self) -> str:
        """Return the line under the cursor as `deploy.rules:4`, or the file alone."""
        at = self._at()
        if at is None:
            return ""
        return f"{at[0].name}:{at[1]}" if at[1] else at[0].name

    @property
    def file(self) -> RulesFile | None:
        """Return the file under the cursor."""
        at = self._at()
        return None if at is None else at[0]

    def _at(self) -> tuple[RulesFile, int] | None:
        file, _, line = (self.current or "").partition(":")
        if self._view is None or not (file.isdecimal() and line.isdecimal()):
            return None
        return self._view.files[int(file)], int(line)

    def step(self, direction: int) -> bool:
        """Move to the next or previous line with a finding, and return whether there is one."""
        if self._view is None:
            return False
        faulty = {
            f"{index}:{line}"
            for index, file in enumerate(self._view.files)
            for line, noted in file.noted.items()
            if noted.findings
        }
        keys = [block.key for block in self.blocks]
        at = keys.index(self.current) if self.current in keys else 0
        ahead = keys[at + 1 :] + keys[:at] if direction > 0 else [*keys[:at][::-1], *keys[:at:-1]]
        found = next((key for key in ahead if key in faulty), None)
        return found is not None and self.select(found)


def rule_blocks(view: RulesView, width: int = 0) -> list[Block]:
    """Return the lines of `view` with their nets and findings, wrapped to `width` if given.

    Takes a while for a large file.
    """
    stamp = object()
    blocks: list[Block] = []
    for index, file in enumerate(view.files):
        if len(view.files) > 1 or file.library:
            blocks.append(_file_heading(index, file, stamp))
        if 0 in file.noted:
            blocks.append(_noted_block(f"{index}:0", 0, "", file.noted[0], 0, stamp))
        blocks += _file_blocks(index, file, stamp)
    if view.findings is not None:
        blocks += _tool_blocks(view.findings, stamp)
    for block in blocks if width else ():
        if block.height is not None:
            block.height(width)
    return blocks


def _file_heading(index: int, file: RulesFile, stamp: object) -> Block:
    def lines(width: int) -> list[Content]:
        ready = "  ready-made: copy it to change it" if file.library else ""
        line = Content.assemble((shown(file.name), "bold $text-primary"), (ready, MUTED))
        blank = [Content("")] if index else []
        return [*blank, line.truncate(width, ellipsis=True)]

    return Block(f"# file {index}", stamp, lines, selectable=False)


def _file_blocks(index: int, file: RulesFile, stamp: object) -> Iterator[Block]:
    """Yield a block for each rule or map, and for the lines between them."""
    digits = max(2, len(str(len(file.lines))))
    start = 0
    for number, text in enumerate(file.lines, 1):
        plain = number not in file.noted and (not (bare := text.strip()) or bare.startswith("#"))
        if plain and number - 1 - start < PIECE:
            continue
        if start < number - 1:
            yield _plain_block(index, file, start, number - 1, digits, stamp)
        start = number - 1
        if not plain:
            noted = file.noted.get(number, Noted())
            yield _noted_block(f"{index}:{number}", number, text, noted, digits, stamp)
            start = number
    if start < len(file.lines):
        yield _plain_block(index, file, start, len(file.lines), digits, stamp)


def _plain_block(index: int, file: RulesFile, start: int, end: int, digits: int, stamp: object) -> Block:
    """Return a block of comments and blank lines."""
    texts = [_safe(line) for line in file.lines[start:end]]
    longest = max(map(width_of, texts)) + digits + 2

    def rows(width: int) -> list[tuple[str, str]]:
        return [
            (_number(start + offset + 1, digits) if not part else " " * (digits + 2), row)
            for offset, text in enumerate(texts)
            for part, row in enumerate(wrap(text, max(4, width - digits - 2)))
        ]

    def lines(width: int) -> Sequence[Content]:
        found = rows(width)

        def styled(at: int, row: str) -> Content:
            return Content.assemble((found[at][0], MUTED), (row, MUTED))

        return StyledRows([row for _, row in found], styled)

    @cache
    def height(width: int) -> int:
        return len(texts) if longest <= width else len(rows(width))

    return Block(f"{index}:{start + 1}", stamp, lines, height=height)


def _number(number: int, digits: int) -> str:
    return f"{number:>{digits}}  "


def _safe(text: str) -> str:
    return shown(text.replace("\t", TAB))


def _noted_block(key: str, number: int, text: str, noted: Noted, digits: int, stamp: object) -> Block:
    """Return a block of a line with its number, errors underlined, then its nets and findings.

    Number 0 has no line; it holds the findings about the whole file.
    """
    indent = digits + 2 if number else 0
    notes = list(_notes(noted))

    def lines(width: int) -> list[Content]:
        rows: list[Content] = []
        if number:
            marked = _marked(text, noted.findings)
            rows += _hanging(0, _number(number, digits), MUTED, marked, width)
        for note in notes:
            rows += _hanging(indent, note.mark, note.style, Content.assemble(*note.parts), width - indent)
        return rows

    longest = max(
        width_of(_safe(text)) + indent,
        *(indent + len(note.mark) + sum(width_of(part) for part, _ in note.parts) for note in notes),
        0,
    )

    @cache
    def height(width: int) -> int:
        return len(notes) + bool(number) if longest <= width else len(lines(width))

    return Block(key, stamp, lines, height=height)


def _marked(text: str, findings: Sequence[RuleFinding]) -> Content:
    """Return a line with its first word bold, its comment muted and errors underlined."""
    cut = text[:GLANCE]
    statement = len(code(cut))
    first = len(cut) - len(cut.lstrip())
    word = first + len(cut[first:].split(maxsplit=1)[0]) if cut.strip() else first
    edges = {0, first, word, statement, len(cut)}
    faults: list[tuple[int, int, str]] = []
    for finding in reversed(findings):
        problem = finding.problem
        if problem.column:
            end = problem.column - 1 + max(1, problem.length)
            faults.append((problem.column - 1, end, LOOKS[finding.severity][1]))
            edges |= {min(len(cut), problem.column - 1), min(len(cut), end)}
    parts: list[tuple[str, str]] = []
    ends = sorted(edges)
    for start, end in pairwise(ends):
        style = MUTED if start >= statement else ("bold" if first <= start < word else "")
        for begin, until, colour in faults:
            if begin <= start < until:
                style = f"underline {colour}"
        parts.append((_safe(cut[start:end]), style))
    if len(text) > GLANCE:
        parts.append(("…", MUTED))
    return Content.assemble(*parts)


@dataclass(frozen=True, slots=True)
class _Note:
    """A mark, and its text to the right."""

    mark: str
    style: str
    parts: Sequence[tuple[str, str]]


def _notes(noted: Noted) -> Iterator[_Note]:
    """Yield the notes on a line: its nets and findings."""
    for net in noted.nets:
        parts = [(shown(net.key), "$text-primary"), (f" · {count(net.states, 'state')}", MUTED)]
        yield _Note("└ ", MUTED, [*parts, *((f" · {shown(each)}", "") for each in net.does)])
    for finding in noted.findings:
        symbol, style = LOOKS[finding.severity]
        problem = finding.problem
        whole = problem.length >= len(code(problem.text).strip())
        column = f", column {problem.column}" if problem.column and not whole else ""
        message = f"{finding.severity}{column}: {shown(problem.message)}"
        yield _Note(f"{symbol} ", style, [(message, style)])
        if problem.remedy:
            yield _Note("  ", "", [(shown(problem.remedy), "")])


def _hanging(indent: int, mark: str, style: str, text: Content, room: int) -> list[Content]:
    """Return a text wrapped to the right of its mark."""
    return indented(hanging_rows(mark, style, text.wrap(max(8, room - len(mark)))), indent)


def _tool_blocks(findings: Findings, stamp: object) -> Iterator[Block]:
    """Yield blocks on what all rules together allow, tool by tool."""
    if not findings.tools:
        return

    def heading(width: int) -> list[Content]:
        rows = [Content(""), *Content.styled(TOGETHER, "bold $text-primary").wrap(width)]
        return [*rows, *Content.styled(OUTSIDE, MUTED).wrap(width)] if steers(findings) else rows

    yield Block("# together", stamp, heading, selectable=False)
    for number, tool in enumerate(findings.tools):
        yield Block(f"tool {number}", stamp, _tool(tool))


def _tool(tool: ToolFinding) -> Callable[[int], list[Content]]:
    def lines(width: int) -> list[Content]:
        rows = list(Content.styled(shown(tool.name), "bold").wrap(width))
        for line in tool_lines(tool, to_charset("→")):
            rows += _hanging(2, "", "", Content(shown(line)), width - 2)
        return rows

    return lines
