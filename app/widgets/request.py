"""What an approval dialog says, as lines for a width and a height.

What will run comes first and whole; then why it asks, what has happened so far, and only then the
agent's own words, which decide nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from textual.content import Content

from ...engine.history.state import ApprovalState, NetState, SessionState
from ..text import ago, clip, place, quoted, seconds_between, shown, shown_lines, wrap_all
from .inputs import cap_for, folded, lay_out
from .markings import Prospect, places_line, prospects

MUTED = "$foreground 60%"
DIFF = {"+": "$text-success", "-": "$text-error", "@": "$foreground 60%"}
LABEL = 16
INDENT = 2
SAYS_LINES = 3
SAYS_LENGTH = 600


@dataclass(frozen=True, slots=True)
class RequestText:
    """A dialog's text: its lines, and whether some of the input had to be folded."""

    lines: list[Content]
    folded: bool


def request_text(
    request: ApprovalState,
    session: SessionState | None,
    now: datetime,
    width: int,
    height: int,
    *,
    expanded: bool = False,
    speaker: SessionState | None = None,
) -> RequestText:
    """The dialog's text; long input values are folded to fit `height`, unless `expanded`.

    `session` is the one whose nets ask; `speaker` the one that made the call, if that is a subagent's.
    """
    maker = speaker if request.via else speaker or session
    label = "" if maker is None else maker.labels.get(request.called, "")
    speaker = speaker or session
    above = [_heading("WHAT WILL RUN"), *_unclear(request, width), *_what(request, label, width)]
    layout = lay_out(request.input, width - INDENT)
    below = _below(request, session, speaker, now, width, airy=True)
    if len(above) + layout.height + len(below) > height or request.preview:
        below = _below(request, session, speaker, now, width, airy=False)
    changes = _changes(request, width - INDENT)
    room = height - len(above) - len(below) - (1 if changes else 0)
    fits = cap_for([*layout.sizes, len(changes)], room)
    cap = None if expanded else fits
    rows = [Content.assemble(" " * INDENT, row) for row in layout.capped(cap)]
    if changes:
        rows.append(_heading("WOULD CHANGE"))
        rows += [Content.assemble(" " * INDENT, row) for row in folded(changes, cap, 0, width - INDENT)]
    return RequestText([*above, *rows, *below], fits is not None)


def _heading(text: str) -> Content:
    return Content.styled(text, "bold $text-primary")


def _labelled(label: str, lines: Sequence[Content], width: int) -> list[Content]:
    """A section: its name in a column of its own, or above the text where that is too narrow."""
    if width < 56:
        return [
            _heading(label),
            *(Content.assemble("  ", line).truncate(width, ellipsis=True) for line in lines),
        ]
    return [
        Content.assemble((f"{label if i == 0 else '':<{LABEL}}", "bold $text-primary"), line).truncate(
            width, ellipsis=True
        )
        for i, line in enumerate(lines)
    ]


def _text_width(width: int) -> int:
    return width - 2 if width < 56 else width - LABEL


def _unclear(request: ApprovalState, width: int) -> list[Content]:
    """The warning that a command could not be read to its end."""
    if request.uninspectable is None:
        return []
    text = f"UNINSPECTABLE: {shown(request.uninspectable)}. It may do more than is named here."
    return [Content.assemble("  ", (row, "bold $text-error")) for row in wrap_all([text], width - 2)]


def _what(request: ApprovalState, label: str, width: int) -> list[Content]:
    """What is called and what it is taken for; then, muted, the tool's label if it has one."""
    called = shown(request.called)
    effects = [shown(name) for name in request.names if name != request.called] or [called]
    line = Content.assemble(
        "  ", (called, "bold"), (" → ", MUTED), (", ".join(effects), "bold $text-warning")
    )
    if effects == [called]:
        line = Content.assemble("  ", (called, "bold $text-warning"))
    beside = Content.styled(f"  {quoted(label)}" if label else "", MUTED)
    if line.cell_length + beside.cell_length <= width:
        return [Content.assemble(line, beside)]
    below = [beside.truncate(width, ellipsis=True)] if label else []
    if line.cell_length <= width:
        return [line, *below]
    names = wrap_all([f"{called} → {', '.join(effects)}"], width - 2)
    return [*(Content.assemble("  ", (row, "bold $text-warning")) for row in names), *below]


def _changes(request: ApprovalState, width: int) -> list[Content]:
    """What the call's tool said it would change, line by line; added and removed ones told apart."""
    if request.preview is None:
        return []
    lines: list[Content] = []
    for line in shown_lines(request.preview.rstrip("\n")):
        style = "" if line[:3] in ("+++", "---") else DIFF.get(line[:1], "")
        lines += [Content.assemble(("│ ", MUTED), (row, style)) for row in wrap_all([line], width - 2)]
    return lines


def _below(
    request: ApprovalState,
    session: SessionState | None,
    speaker: SessionState | None,
    now: datetime,
    width: int,
    *,
    airy: bool,
) -> list[Content]:
    room = _text_width(width)
    sections = [
        ("WHY IT ASKS", _why(request, session, room)),
        ("SO FAR", _so_far(request, session, now, room)),
        ("THE AGENT SAYS", _says(speaker, room)),
        ("SESSION", _session(request, session, room)),
    ]
    lines: list[Content] = []
    for index, (label, rows) in enumerate(sections):
        if airy or index == 0:
            lines.append(Content(""))
        lines += _labelled(label, rows, width)
    return lines


def _why(request: ApprovalState, session: SessionState | None, width: int) -> list[Content]:
    lines: list[Content] = []
    if request.rule is not None:
        where = place(request.rule)
        text = shown(request.rule.text.strip())
        if len(where) + len(text) + 3 <= width:
            lines.append(Content.assemble((where, "$text-accent"), "   ", (text, "bold")))
        else:
            lines.append(Content.styled(clip(where, width), "$text-accent"))
            lines += [Content.styled(row, "bold") for row in wrap_all([text], width)]
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


def _so_far(
    request: ApprovalState, session: SessionState | None, now: datetime, width: int
) -> list[Content]:
    if session is None:
        return [Content.styled("not known here", MUTED)]
    related = _related_names(request, session)
    latest: dict[str, datetime] = {}
    others = 0
    for call in session.calls.values():
        if call.status == "done":
            name = call.names[0] if call.names else call.tool
            if name in related:
                latest[name] = call.at
            else:
                others += 1
    parts = [
        Content.assemble(
            ("✓ ", "$text-success"), (shown(name), "bold"), (f" {ago(seconds_between(at, now))}", MUTED)
        )
        for name, at in latest.items()
    ]
    parts += [Content.styled(shown(p.text), "$text-accent") for p in _budgets(request, session)]
    if others:
        more = "other successful call" if latest else "successful call"
        parts.append(Content.styled(f"{others} {more}{'' if others == 1 else 's'}", MUTED))
    if not parts:
        return [Content.styled("no call has succeeded yet", MUTED)]
    return _flow(parts, width)


def _flow(parts: Sequence[Content], width: int) -> list[Content]:
    lines = [Content("")]
    for part in parts:
        last = lines[-1]
        if last and last.cell_length + 3 + part.cell_length > width:
            lines.append(part)
        else:
            lines[-1] = Content.assemble(last, "   ", part) if last else part
    return lines


def _related_names(request: ApprovalState, session: SessionState) -> set[str]:
    """Names that active nets tie to the tool that asks, through others too."""
    related = {request.tool, *request.names} - {request.called} | {request.tool}
    tied = [
        {tool for t in net.net.transitions for tool in t.tools}
        for net in session.nets.values()
        if net.active
    ]
    while True:
        more = related.union(*(tools for tools in tied if tools & related))
        if more == related:
            return related
        related = more


def _budgets(request: ApprovalState, session: SessionState) -> list[Prospect]:
    return [
        p
        for key in session.active
        if (net := session.nets.get(key)) is not None
        for p in prospects(net)
        if p.tool == request.tool and p.text.endswith(" left")
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
    parts = [
        Content.assemble(
            shown(request.agent or request.session), (f" ({shown(request.session)})", MUTED)
        ),
        *([Content.assemble(("made by ", MUTED), (shown(request.via), "bold"))] if request.via else []),
        Content.assemble(("call ", MUTED), shown(request.call_id)),
    ]
    if session is not None and session.workdir:
        parts.append(Content.assemble(("in ", MUTED), shown(session.workdir)))
    return _flow(parts, width)
