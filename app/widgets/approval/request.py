"""Text of the approval dialog, as lines for a width and a height.

The complete call comes first, then why it needs approval and what has happened so far. The agent's own
words come last, since they decide nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest

from pydantic import JsonValue
from textual.content import Content

from ....engine.history.decisions.precedents import Precedents
from ....engine.history.fold.event_text import hint_words
from ....engine.history.model.state import ApprovalState, NetState, SessionState
from ....engine.history.redaction.hidden_text import RevealedText
from ...format.highlighting import code_spans, file_language, highlighted
from ...format.plan import ShownPlan, ShownStep, shown_plan
from ...format.text import (
    MUTED,
    clip,
    command_lines,
    count,
    hanging_rows,
    in_rows,
    indented,
    name_shown,
    place,
    quoted,
    shown,
    shown_lines,
    styled_rows,
    wrap_all,
)
from ...terminal.symbols import RISK
from ...viewmodels.answer_schema import AnswerField, fields_of
from ...viewmodels.command_tree import CommandNode, command_tree
from ...viewmodels.input_draft import changes
from ...viewmodels.request import effects_of, excerpt, unreadable_reason
from ..base.blocks import StyledRows
from ..nets.list import places_line, prospects
from .call_input import cap_for, folded, folded_size, lay_out
from .change_rows import DIFF, DiffRow, change_rows, counts_text, diff_rows
from .precedents import Unfound, precedent_lines
from .progress import Viewer, progress_lines
from .proposed_edits import NONE as NO_EDITS
from .proposed_edits import ProposedEdits, edit_counts, path_of, proposed_edits, shown_by_preview

LABEL = 19
NARROW = 56
"""Columns below which a section's name is above its text."""
INDENT = 2
BESIDE = 84
"""Columns from which the steps of a plan are beside their findings."""
MARGINS = 2
"""Blank lines around what will run, if there is space."""
COMMANDS = 3
"""Maximum lines for the commands found in a shell command; its whole text is shown below."""
COMMAND, MOST = 60, 20
RUNS, BAR = "runs  ", "│ "
TREE = 8
"""Maximum commands of a tree; more are shown on few lines, like commands without nesting."""
FIELDS = 4
"""Maximum lines for the fields of an answer; the form has all of them."""
SAME = "nothing: both texts are the same"
UNDECISIVE = 2
"""Number of sections at the end that decide nothing: the agent's words, and ids."""
SEEN = "SEEN BEFORE"
SAYS_LINES = 3
SAYS_LENGTH = 600


@dataclass(frozen=True, slots=True)
class RequestText:
    """Text of a dialog. The first `decisive` lines have to be seen before approval.

    The agent's words and the ids follow. `folded` means that the text does not fit without folding,
    `hidden` that lines are folded now. `call` is the range of the lines of what will run.
    """

    lines: list[Content]
    decisive: int
    folded: bool
    hidden: bool
    call: range


def request_text(
    request: ApprovalState,
    session: SessionState | None,
    now: datetime,
    width: int,
    height: int,
    *,
    expanded: bool = False,
    speaker: SessionState | None = None,
    viewer: Viewer | None = None,
    revealed: Sequence[RevealedText] = (),
    precedents: Precedents | Unfound | None = None,
    bounded: bool = True,
) -> RequestText:
    """Return the dialog's text. Long input values are folded to fit `height`, unless `expanded`.

    Lines for `precedents` are reserved while they are being searched for, unless that would need folding.
    `session` is the session whose nets ask; `speaker` the one that made the call, if a subagent's.
    `viewer` is the operator who decides; `revealed` is the masked text that they have revealed. With
    `bounded`, an input that is too long for a screen is replaced by an excerpt, which never counts as
    complete.
    """
    unread = unreadable_reason(request) if bounded else None
    if unread is not None:
        left = {"input": excerpt(request.input), "preview": None, "original": None}
        request, expanded = request.model_copy(update=left), True
    maker = speaker if request.via else speaker or session
    label = "" if maker is None else maker.labels.get(request.called, "")
    speaker = speaker or session
    plan = shown_plan(request)
    heading = _head(request, width, planned=plan is not None)
    head = [*heading, *_unread(unread, width), *_unclear(request, width), *_masked(request, width)]
    above = [*head, *_call_lines(request, label, width)]
    above += [] if plan is None else _plan_rows(plan, width)
    edits = proposed_edits(request) if request.wants is None else NO_EDITS
    fields = {} if plan is not None else _fields_shown(request, edits)
    layout = lay_out(fields, width - INDENT, request.shell_fields)
    sections = _sections(request, session, speaker, now, _text_width(width), viewer)
    airy = not request.preview and not edits.edits
    below = _section_lines(sections, width, airy=airy)
    if airy and len(above) + MARGINS + layout.height + len(below) > height:
        airy = False
        below = _section_lines(sections, width, airy=airy)
    margin = [Content("")] if airy else []
    above[len(head) : len(head)] = margin
    decided = sections[:-UNDECISIVE]
    changes = _changes(request, width - INDENT)
    diff = [] if shown_by_preview(edits, request.preview) else _edit_rows(edits, width - INDENT)
    heads = (1 if changes else 0) + (1 if diff else 0)
    unmasked = [*_chosen(request, width), *_revealed(revealed, width - INDENT)]
    room = height - len(above) - len(margin) - len(below) - len(unmasked) - heads
    sizes = [*layout.sizes, len(diff), len(changes)]
    fits = cap_for(sizes, room)
    cap = None if expanded else fits
    rows = indented(layout.capped(cap) if plan is None else ())
    found = edit_counts(request) if diff or changes else None
    counts = Content("") if found is None else Content.assemble("  ", counts_text(found))
    if diff:
        rows.append(Content.assemble(_heading("THE EDIT" if changes else "WOULD CHANGE"), counts))
        rows += indented(folded(diff, cap, 0, width - INDENT))
    if changes:
        rows.append(Content.assemble(_heading("WOULD CHANGE"), counts))
        rows += indented(folded(changes, cap, 0, width - INDENT))
    rows += unmasked
    call = range(len(head), len(above) + len(rows) + len(margin))
    rows += margin
    hidden = any(folded_size(size, cap) < size for size in sizes)
    decisive = len(above) + len(rows) + len(_section_lines(decided, width, airy=airy))
    if precedents is not None and request.wants is None and not hidden:
        seen = precedent_lines(request, precedents, now, _text_width(width))
        more = [*decided, (SEEN, seen), *sections[-UNDECISIVE:]]
        longer = _section_lines(more, width, airy=airy)
        if len(above) + len(rows) + len(longer) <= height:
            below = longer
    folds = fits is not None and unread is None
    return RequestText([*above, *rows, *below], decisive, folds, hidden or unread is not None, call)


def _heading(text: str) -> Content:
    return Content.styled(text, "bold $text-primary")


def _head(request: ApprovalState, width: int, *, planned: bool) -> list[Content]:
    """Return the heading, with the call's effects and the rule's risk at the right."""
    what = "WHAT IS ASKED" if request.wants is not None else "WHAT WILL RUN"
    heading = _heading("WHAT IS PLANNED" if planned else what)
    names = ", ".join(map(name_shown, effects_of(request) if request.wants is None else ()))
    look = RISK[request.risk] if request.risk is not None else None
    risk = (
        Content("")
        if look is None
        else Content.styled(f"{look.symbol} {look.word}", f"bold {look.style}")
    )
    effects = Content.assemble(("effects: ", MUTED), (names, "bold $text-warning"))
    if not names:
        effects = Content("")
    whole = Content.assemble(effects, "   " if risk else "", risk)
    for right in (whole, risk):
        gap = width - heading.cell_length - right.cell_length
        if gap > 1:
            break
    below = [] if right is whole else [f"effects: {names}"]
    rows = indented(styled_rows(below, width - INDENT, "bold $text-warning"))
    if gap > 1:
        return [Content.assemble(heading, " " * gap, right), *rows]
    return [heading, Content.assemble(" " * INDENT, risk), *rows]


def _labelled(label: str, lines: Sequence[Content], width: int) -> list[Content]:
    """Return a section with its name in a column of its own, or above the text on a narrow screen."""
    if width < NARROW:
        return [
            _heading(label),
            *(Content.assemble("  ", line).truncate(width, ellipsis=True) for line in lines),
        ]
    rows = hanging_rows(f"{label:<{LABEL}}", "bold $text-primary", lines)
    return [row.truncate(width, ellipsis=True) for row in rows]


def _text_width(width: int) -> int:
    return width - 2 if width < NARROW else width - LABEL


def _unread(reason: str | None, width: int) -> list[Content]:
    """Return the warning that only an excerpt of the input is shown."""
    if reason is None:
        return []
    text = f"ONLY AN EXCERPT: {shown(reason)}."
    return indented(styled_rows([text], width - INDENT, "bold $text-error"))


def _unclear(request: ApprovalState, width: int) -> list[Content]:
    """Return the warning that a command could not be analysed completely."""
    if request.uninspectable is None:
        return []
    text = f"CANNOT BE FULLY ANALYSED: {shown(request.uninspectable)}. It may do more than shown."
    return indented(styled_rows([text], width - INDENT, "bold $text-error"))


def _masked(request: ApprovalState, width: int) -> list[Content]:
    """Return a warning for each masked text that may be more than a secret."""
    said = [
        f"MASKED TEXT THAT MAY RUN: {shown(each.place)} hides {count(each.characters, 'character')}"
        f"{f' in {each.lines} lines' if each.lines > 1 else ''}, with {each.holds}."
        for each in request.hidden
    ]
    return indented(styled_rows(said, width - INDENT, "bold $text-error"))


def _chosen(request: ApprovalState, width: int) -> list[Content]:
    """Return an operator's replacement of the agent's input, as a complete diff (G-75)."""
    if request.original is None:
        return []
    editor = name_shown(request.edited_by or "an operator")
    rows = styled_rows([f"EDITED BY {editor}"], width, "bold $text-warning")
    room = width - INDENT
    found = changes(request.original, request.input)
    if not found:
        text = "Only text that is masked here differs from what the agent asked for."
        return rows + indented(styled_rows([text], room))
    text = "Removed is what the agent asked for, added is what will run:"
    return rows + indented([*styled_rows([text], room, MUTED), *change_rows(found, room)])


def _revealed(texts: Sequence[RevealedText], width: int) -> list[Content]:
    """Return the complete texts behind masks, each line after a bar, so that none imitates the dialog."""
    if not texts:
        return []
    rows = [_heading("BEHIND THE MASKS")]
    for each in texts:
        place = styled_rows([shown(each.place)], width, "bold $text-accent")
        lines = wrap_all(shown_lines(each.text), width - len(BAR))
        text = [Content.assemble((BAR, MUTED), (row, "bold $text-error")) for row in lines]
        rows += indented([*place, *text])
    return rows


def _call_lines(request: ApprovalState, label: str, width: int) -> list[Content]:
    """Return the name of what is called with the tool's muted label, then the commands in a shell
    command.

    A request that only wants an answer runs nothing; its question comes first.
    """
    if request.wants is not None:
        by = Content.assemble(
            ("asked by ", MUTED), (clip(name_shown(request.called), width - 11), "bold")
        )
        return indented([*question_lines(request, width - INDENT), by])
    called = styled_rows([name_shown(request.called)], width - INDENT, "bold")
    beside = Content.styled(quoted(label) if label else "", MUTED)
    if label and called[-1].cell_length + INDENT + 2 + beside.cell_length <= width:
        called[-1] = Content.assemble(called[-1], "  ", beside)
    elif label:
        called.append(beside.truncate(width - INDENT, ellipsis=True))
    return indented([*called, *_commands(request, width - INDENT)])


def _plan_rows(plan: ShownPlan, width: int) -> list[Content]:
    """Return a plan's title and its steps, each with its findings beside it or below.

    Text that the agent wrote freely is after a bar, so that it cannot imitate a step or a finding.
    """
    rows = indented(_barred([plan.title], width - INDENT, "bold $text-warning"))
    number = len(str(len(plan.steps))) + 2
    room = width - INDENT - number
    left = room if room < BESIDE else room * 2 // 5
    for at, step in enumerate(plan.steps, 1):
        called, told = _step_rows(step, left), _finding_rows(step, room if left == room else room - left)
        mark = Content.styled(f"{at:>{number - 2}}  ", MUTED)
        blank = Content(" " * number)
        if left == room:
            lines = [*called, *told]
        else:
            lines = [
                Content.assemble(a.truncate(left - 2, pad=True), "  ", b)
                for a, b in zip_longest(called, told, fillvalue=Content(""))
            ]
        rows += indented(Content.assemble(blank if n else mark, each) for n, each in enumerate(lines))
    return [*rows, *indented(styled_rows([plan.most], width - INDENT, "bold"))]


def _step_rows(step: ShownStep, width: int) -> list[Content]:
    rows = styled_rows([step.calls], width - 2, "bold" if step.covered else "bold $text-warning")
    return rows + _barred(step.terms, width - 2)


def _barred(lines: Sequence[str], width: int, style: str = "") -> list[Content]:
    """Return wrapped lines after bars."""
    return [Content.assemble((BAR, MUTED), row) for row in styled_rows(lines, width - len(BAR), style)]


def _finding_rows(step: ShownStep, width: int) -> list[Content]:
    """Return the findings on a step's calls, each after its sign."""
    return [
        row
        for look, words in step.findings
        for row in hanging_rows(
            f"{look.symbol} ", look.style, styled_rows([words], width - 2, look.style)
        )
    ]


def question_lines(request: ApprovalState, width: int) -> list[Content]:
    """Return a request's question, each line after a bar, so that none imitates the dialog."""
    return _barred(shown_lines(request.message.strip("\n")), width, "bold")


def _fields_shown(request: ApprovalState, edits: ProposedEdits) -> dict[str, JsonValue]:
    """Return the input without what is shown in full elsewhere: texts in a diff, and a question."""
    if request.wants is None:
        return {name: value for name, value in request.input.items() if name not in edits.covered}
    return {name: value for name, value in request.input.items() if value != request.message}


def _commands(request: ApprovalState, width: int) -> list[Content]:
    """Return the commands that were found, each after a bar, so that none imitates the dialog.

    Commands that a rule names or that are unknown come first and complete, the others on few lines.
    """
    commands = request.runs
    if not commands:
        return []
    room = width - len(RUNS) - len(BAR)
    if 0 < len(tree := command_tree(request)) <= TREE:
        rows = [row for node in tree for row in _node_rows(node, room)]
        return hanging_rows(RUNS, MUTED, [Content.assemble((BAR, MUTED), row) for row in rows])
    marked = len(request.marked if len(commands) == request.commands else commands)
    whole, others = (commands[:marked], commands[marked:]) if request.commands else ((), commands)
    texts = [line for each in whole for line in command_lines(each)]
    lines = styled_rows(texts, room, "bold $text-warning")
    lines += _other_commands(others, room, bold=not whole)
    return hanging_rows(RUNS, MUTED, [Content.assemble((BAR, MUTED), row) for row in lines])


def _node_rows(node: CommandNode, room: int) -> list[Content]:
    """Return a command below the one that contains it; complete if it is marked, else on one line."""
    stem = f"{'  ' * (node.depth - 1)}└ " if node.depth else ""
    width = max(8, room - len(stem))
    if not node.marked:
        return [Content.assemble((stem, MUTED), _command(clip(name_shown(node.text), width), ""))]
    rows = styled_rows(command_lines(node.text), width, "bold $text-warning")
    return hanging_rows(stem, MUTED, rows)


def _other_commands(found: Sequence[str], room: int, *, bold: bool) -> list[Content]:
    """Return commands on few lines, long ones cut off, since their whole text is shown below."""
    style = "bold $text-warning" if bold else ""
    pieces = [_command(clip(name_shown(each), min(COMMAND, room)), style) for each in found[:MOST]]
    lines = in_rows(pieces, room, f" {BAR}") if pieces else []
    if len(lines) > COMMANDS or len(found) > MOST:
        kept = len(pieces)
        while len(lines := in_rows(pieces[:kept], room, f" {BAR}")) >= COMMANDS:
            kept -= 1
        lines.append(Content.styled(f"… and {count(len(found) - kept, 'more command')}", MUTED))
    return lines


def _command(text: str, style: str) -> Content:
    """Return a command, highlighted if it has no style of its own."""
    return Content.styled(text, style) if style else highlighted(text, 0, code_spans(text, "bash"))


def _changes(request: ApprovalState, width: int) -> Sequence[Content]:
    """Return the tool's preview of its changes, with added and removed lines coloured."""
    if request.preview is None:
        return []
    language = file_language(path_of(request.input))
    rows: list[str] = []
    looks: list[DiffRow] = []
    in_hunk = False
    for line in shown_lines(request.preview.rstrip("\n")):
        in_hunk = in_hunk or line.startswith("@@")
        style = "" if line[:3] in ("+++", "---") and not in_hunk else DIFF.get(line[:1], "")
        code, at = line[1:] if in_hunk and line[:1] in "+- " else "", -1
        for row in wrap_all([line], width - 2):
            rows.append(row)
            looks.append(DiffRow(line[:1], style, code, at))
            at += len(row)
    return StyledRows(rows, lambda i, row: Content.assemble(("│ ", MUTED), looks[i].shown(row, language)))


def _edit_rows(edits: ProposedEdits, width: int) -> list[Content]:
    """Return the changes that the input itself describes, by file."""
    rows: list[Content] = []
    for edit in edits.edits:
        if edit.file:
            rows += styled_rows([shown(edit.file)], width, "bold $text-accent")
        if edits.note:
            rows += styled_rows([edits.note], width, MUTED)
        elif edit.lines:
            rows += diff_rows(edit.lines, width, file_language(edit.file.partition(" (")[0]))
        else:
            rows += styled_rows([SAME], width, MUTED)
    return rows


Sections = Sequence[tuple[str, Sequence[Content]]]


def _sections(
    request: ApprovalState,
    session: SessionState | None,
    speaker: SessionState | None,
    now: datetime,
    room: int,
    viewer: Viewer | None,
) -> Sections:
    """Return the sections below the input, each with its heading."""
    maker = speaker if request.via else session
    workdir = next((s.workdir for s in (maker, session) if s is not None and s.workdir), None)
    where = [("WORKING DIRECTORY", styled_rows([shown(workdir)], room))] if workdir else []
    if request.wants is not None:
        first = [("WHY IT ASKS", waits_for(session, room)), ("TO FILL IN", _to_fill_in(request, room))]
    else:
        first = [("WHY IT ASKS", _rule_lines(request, session, room))]
    return [
        *first,
        ("SO FAR", progress_lines(request, session, now, room, viewer)),
        *where,
        ("THE AGENT SAYS", _says(speaker, room)),
        ("SESSION", _session(request, session, room)),
    ]


def _section_lines(sections: Sections, width: int, *, airy: bool) -> list[Content]:
    lines: list[Content] = []
    for index, (label, rows) in enumerate(sections):
        if airy or index == 0:
            lines.append(Content(""))
        lines += _labelled(label, rows, width)
    return lines


def waits_for(session: SessionState | None, width: int) -> list[Content]:
    """Return which step of which flow waits for the answer."""
    flow_state = None if session is None else session.flow
    if flow_state is None:
        return [Content.styled("a step of a flow waits for the answer", MUTED)]
    text = f"step {flow_state.step} of flow {shown(flow_state.flow.name)} waits for the answer"
    return styled_rows([text], width)


def _to_fill_in(request: ApprovalState, width: int) -> list[Content]:
    """Return the fields to fill in; required ones are bold."""
    pieces = [
        Content.assemble(
            (shown(each.name) or "an answer", "bold" if each.lacking else ""),
            (f" {shown(_takes(each))}{', required' if each.lacking else ''}", MUTED),
        ).truncate(width, ellipsis=True)
        for each in fields_of(request.wants or {})
    ]
    if not pieces:
        return [Content.styled("nothing: it only has to be confirmed", MUTED)]
    rows = in_rows(pieces, width, " · ")
    return rows if len(rows) <= FIELDS else [*rows[: FIELDS - 1], Content.styled("…", MUTED)]


def _takes(field: AnswerField) -> str:
    """Return the type of an answer's field; for a choice, its options."""
    if field.kind != "choice":
        return field.type_name
    return " or ".join(label for value, label in field.options if value)


def _rule_lines(request: ApprovalState, session: SessionState | None, width: int) -> list[Content]:
    lines: list[Content] = []
    if request.rule is not None:
        where = place(request.rule)
        text = shown(request.rule.text.strip())
        if len(where) + len(text) + 3 <= width:
            lines.append(Content.assemble((where, "$text-accent"), "   ", (text, "bold")))
        else:
            lines.append(Content.styled(clip(where, width), "$text-accent"))
            lines += styled_rows([text], width, "bold")
    notes = [f"applies because {shown(request.note)}"] if request.note else []
    notes += [f"asks despite a grant: {shown(request.beyond)}"] if request.beyond else []
    lines += styled_rows(notes, width, "bold $text-warning")
    net = session.nets.get(request.net) if session is not None else None
    name = Content.assemble(("net ", MUTED), shown(request.net), ("  ", ""))
    if net is None:
        marking = ", ".join(f"{shown(p)}:{n}" for p, n in request.marking.items() if n)
        return [*lines, Content.assemble(name, marking).truncate(width, ellipsis=True)]
    asked = NetState(net=net.net, active=net.active, marking=request.marking)
    meaning = next((p.text for p in prospects(asked) if p.tool == request.tool), "")
    places = places_line(asked)
    whole = Content.assemble(name, places, (f"   {meaning}", MUTED))
    if whole.cell_length <= width:
        return [*lines, whole]
    return [
        *lines,
        name.truncate(width, ellipsis=True),
        Content.assemble(places, (f"   {meaning}", MUTED)),
    ]


def _says(session: SessionState | None, width: int) -> list[Content]:
    entries = session.transcript if session is not None else []
    text = next((e.text for e in reversed(entries) if e.kind == "assistant" and e.text), None)
    if text is None:
        return [Content.styled("nothing", MUTED)]
    rows = wrap_all(
        [f"“{shown(text[:SAYS_LENGTH].strip())}{'…' if len(text) > SAYS_LENGTH else ''}”"], width
    )
    if len(rows) > SAYS_LINES:
        rows = [*rows[: SAYS_LINES - 1], clip(rows[SAYS_LINES - 1], width - 1) + "…"]
    return [Content.styled(row, "italic") for row in rows]


def _session(request: ApprovalState, session: SessionState | None, width: int) -> list[Content]:
    step = None if session is None or session.flow is None else session.flow.step
    parts = [
        Content.assemble(
            name_shown(request.agent or request.session), (f" ({name_shown(request.session)})", MUTED)
        ),
        *(
            [Content.assemble(("made by ", MUTED), (name_shown(request.via), "bold"))]
            if request.via
            else []
        ),
        *_labels_of(session),
        *_hints_of(session, request.called),
        *([Content(f"step {step} of the flow")] if step is not None and request.wants is None else []),
        Content.assemble(("call ", MUTED), shown(request.call_id)),
    ]
    return in_rows(parts, width)


def _hints_of(session: SessionState | None, tool: str) -> list[Content]:
    """Return the claims of the tool's server about the tool, if any."""
    known = None if session is None else session.hints.get(tool)
    if known is None:
        return []
    differ = f"; claims differ: {', '.join(known.differ)}" if known.differ else ""
    return [Content.assemble(("server claims ", MUTED), shown(hint_words(known.hints) + differ))]


def _labels_of(session: SessionState | None) -> list[Content]:
    """Return the labels of the session whose nets ask, if any."""
    if session is None or not session.session_labels:
        return []
    return [Content.assemble(("labels ", MUTED), shown(", ".join(session.session_labels)))]
