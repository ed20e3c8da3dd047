"""One request as shown on the page: the same parts, in the same order, as in the terminal's dialog.

All texts here are made visible. Those of `decisive` sections have to be on screen before an approval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import JsonValue

from ....engine.core.people import is_among, same_person
from ....engine.core.rights import Rights, may, refusal
from ....engine.history.model.state import ApprovalState, NetState, SessionState
from ....engine.history.redaction.hidden_text import RevealedText
from ....engine.hub.api import HubApi
from ...format.plan import ShownPlan, shown_plan
from ...format.text import command_lines, count, name_shown, quoted, shown, shown_lines
from ...sources.capabilities import can_be_edited
from ...terminal.symbols import RISK
from ...viewmodels.answer_schema import AnswerField, fields_of
from ...viewmodels.grant_terms import (
    exact_only_reason,
    granted_calls,
    no_grant_reason,
    of_subagent,
)
from ...viewmodels.input_draft import Change, InputDraft, InputField, changes, safe_json
from ...viewmodels.request import effects_of, excerpt, unreadable_reason
from ...widgets.approval.change_rows import diff_lines
from ...widgets.approval.progress import Viewer, approval_obstacle, progress_lines
from ...widgets.approval.proposed_edits import (
    NONE,
    ProposedEdits,
    edit_counts,
    proposed_edits,
    shown_by_preview,
)
from ...widgets.approval.request import SAME, waits_for
from ...widgets.nets.list import places_line, prospects
from .texts import Run, ShownField, ShownText, diff_of, fields_of_input, text_of

WIDE = 100_000
"""Width in columns at which nothing is wrapped: the browser wraps."""
OTHERS = 40
"""Maximum number of listed commands that no rule names; the whole text is shown as well."""
LONGEST = 4000
"""Maximum length in characters of a field that can be edited on a phone."""
SAYS = 600


@dataclass(frozen=True, slots=True)
class Risk:
    """Risk as stated by a rule, with its symbol."""

    level: str
    symbol: str
    word: str


@dataclass(frozen=True, slots=True)
class Difference:
    """A diff with its title."""

    title: str
    text: ShownText


@dataclass(frozen=True, slots=True)
class FormField:
    """A form field: `kind` is `line`, `lines`, `number` or `choice`, `key` its name in the form."""

    key: str
    name: str
    kind: str
    text: str
    hint: str
    required: bool = False
    options: tuple[tuple[str, str], ...] = ()
    suggestions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GrantForm:
    """The choices of a grant. `only_exact` is the reason if no other scope can be chosen."""

    calls: str
    only_exact: str | None
    subagents_only: bool


@dataclass(frozen=True, slots=True)
class RequestView:
    """A request, and what the operator may do about it; `refused` is the reason if nothing.

    `unapproved` is the reason why their approval would not count, `fused` the time until which it can be
    taken back, `own` whether they have claimed it.
    """

    id: str
    digest: str
    state: str
    tool: str
    called: str
    label: str
    who: str
    session: str
    via: str
    call: str
    since: int
    until: int | None
    risk: Risk | None
    effects: str
    lost: str
    warnings: tuple[str, ...]
    question: ShownText | None
    plan: ShownPlan | None
    runs: tuple[str, ...]
    runs_marked: tuple[str, ...]
    runs_left: str
    fields: tuple[ShownField, ...]
    differences: tuple[Difference, ...]
    counts: str
    concealed: bool
    revealed: tuple[ShownField, ...]
    rule: str
    rule_place: str
    notes: tuple[str, ...]
    net: str
    waits: tuple[str, ...]
    progress: tuple[str, ...]
    workdir: str
    says: str
    answer: tuple[FormField, ...]
    refused: str | None
    unapproved: str
    fused: int | None
    grant: GrantForm | None
    no_grant: str
    edit: tuple[FormField, ...]
    no_edit: str
    passkey: bool
    key_problem: str
    own: bool

    @property
    def asks(self) -> bool:
        """True if the request wants an answer, and no call runs."""
        return self.question is not None


def request_view(
    request: ApprovalState,
    sessions: Sequence[SessionState],
    hub: HubApi,
    viewer: Viewer,
    rights: Rights,
    now: datetime,
    revealed: Sequence[RevealedText] = (),
    key_problem: str | None = None,
) -> RequestView:
    """Return the view of a request for an operator with these rights.

    `revealed` is what they asked to see. `key_problem` is the reason why they cannot sign its approval.
    """
    unread = unreadable_reason(request)
    if unread is not None:
        excerpts = {"input": excerpt(request.input), "preview": None, "original": None}
        request = request.model_copy(update=excerpts)
    known = {state.id: state for state in sessions}
    session = known.get(request.session)
    speaker = known.get(request.via or "", session)
    maker = speaker if request.via else session
    is_question = request.wants is not None
    label = "" if speaker is None else speaker.labels.get(request.called, "")
    edits = NONE if is_question else proposed_edits(request)
    plan = shown_plan(request)
    commands, others = _runs(request)
    found = edit_counts(request)
    no_grant = "An answer cannot be granted" if is_question else no_grant_reason(request)
    if no_grant is None and not may(rights, "administer"):
        no_grant = refusal("A grant", "administer", rights, viewer.operator)
    no_edit = _no_edit(request, hub)
    if unread is not None:
        no_grant = no_edit = f"Not from here: {unread}"
    workdir = next((s.workdir for s in (maker, session) if s is not None and s.workdir), "")
    return RequestView(
        id=request.id,
        digest=request.digest or "",
        state=_state(request),
        tool=shown(request.title) if is_question else name_shown(request.tool),
        called=name_shown(request.called),
        label=quoted(label) if label else "",
        who=name_shown(request.agent or request.session),
        session=name_shown(request.session),
        via=name_shown(request.via) if request.via else "",
        call=shown(request.call_id),
        since=millis(request.since),
        until=None if request.expires is None else millis(request.expires),
        risk=risk_of(request),
        effects="" if is_question else ", ".join(map(name_shown, effects_of(request))),
        lost=_absence(request),
        warnings=_warnings(request),
        question=text_of(shown_lines(request.message.strip("\n"))) if is_question else None,
        plan=plan,
        runs=others[:OTHERS],
        runs_marked=commands,
        runs_left=count(len(others) - OTHERS, "more command") if len(others) > OTHERS else "",
        fields=fields_of_input(
            {} if plan is not None else _fields_shown(request, edits), request.shell_fields
        ),
        differences=_differences(request, edits),
        counts="" if found is None else f"+{found[0]} −{found[1]}",
        concealed=bool(request.hidden) and not revealed,
        revealed=tuple(ShownField(shown(e.place), text_of(shown_lines(e.text))) for e in revealed),
        rule="" if request.rule is None else shown(request.rule.text.strip()),
        rule_place="" if request.rule is None else shown(request.rule.where),
        notes=_notes(request),
        net="" if is_question else _net(request, session),
        waits=tuple(row.plain for row in waits_for(session, WIDE)) if is_question else (),
        progress=tuple(row.plain for row in progress_lines(request, session, now, WIDE, viewer)),
        workdir=shown(workdir) if workdir else "",
        says=_says(speaker),
        answer=tuple(_answer_field(i, f) for i, f in enumerate(fields_of(request.wants or {})))
        if is_question
        else (),
        refused=None if may(rights, "decide") else refusal("This", "decide", rights, viewer.operator),
        unapproved=shown(
            f"Only an excerpt: {unread}" if unread else _unapproved(request, session, viewer)
        ),
        fused=None if request.fuse is None else millis(request.fuse.until),
        grant=None
        if no_grant
        else GrantForm(granted_calls(request), exact_only_reason(request), of_subagent(request)),
        no_grant=no_grant or "",
        edit=() if no_edit else _edit_fields(InputDraft(request.input)),
        no_edit=no_edit or "",
        passkey=request.passkey,
        key_problem=key_problem or "",
        own=is_claimed_by(request, viewer.operator),
    )


def is_claimed_by(request: ApprovalState, operator: str) -> bool:
    """Return whether an operator has claimed a request."""
    return request.claim is not None and same_person(request.claim.by, operator)


def _state(request: ApprovalState) -> str:
    """Return everything about a request whose change disables the buttons for a moment."""
    fuse, claim = request.fuse, request.claim
    changing = (
        request.digest,
        len(request.given),
        request.expires,
        request.disconnected,
        request.late,
        request.escalated,
        None if fuse is None else fuse.at,
        request.taken_back,
        None if claim is None else claim.at,
        len(request.comments),
    )
    return " ".join(map(str, changing))


def _absence(request: ApprovalState) -> str:
    """Return a sentence if no client waits for the answer."""
    if request.late is not None:
        return "its client is gone: an approval is held until the agent makes the call again"
    return "" if request.disconnected is None else "no connection waits for the answer"


def _unapproved(request: ApprovalState, session: SessionState | None, viewer: Viewer) -> str:
    """Return the reason why the viewer's approval would not count; empty if it would."""
    if request.fuse is not None:
        return f"{request.fuse.by} has approved this already"
    if is_among(viewer.operator, request.given):
        return "You have approved this: somebody else must, too"
    found = approval_obstacle(request, session, viewer)
    return "" if found is None else f"Your approval does not count: {found}"


def millis(at: datetime) -> int:
    """Return a time in milliseconds, as in browsers."""
    return int(at.timestamp() * 1000)


def risk_of(request: ApprovalState) -> Risk | None:
    """Return the risk stated by a rule, if any."""
    if request.risk is None:
        return None
    look = RISK[request.risk]
    return Risk(request.risk, look.symbol, look.word)


def change_texts(found: Sequence[Change]) -> tuple[Difference, ...]:
    """Return the changes of an edit, with the complete diff of each field."""
    return tuple(
        Difference(shown(each.name) or "the input", diff_of(_rows(diff_lines(*_sides(each)))))
        for each in found
    )


def _sides(change: Change) -> tuple[list[str], list[str]]:
    before, after = change.before, change.after
    if isinstance(before, str) and isinstance(after, str) and "\n" in before + after:
        return before.split("\n"), after.split("\n")
    return (
        safe_json(before, 2 if isinstance(before, dict | list) else None).split("\n"),
        safe_json(after, 2 if isinstance(after, dict | list) else None).split("\n"),
    )


def _rows(lines: Sequence[str]) -> list[Run]:
    """Return the lines of a diff, each after its sign, made visible."""
    return [(line[:1] or " ", row) for line in lines for row in shown_lines(line[1:])]


def _warnings(request: ApprovalState) -> tuple[str, ...]:
    unclear = (
        []
        if request.uninspectable is None
        else [f"Cannot be fully analysed: {shown(request.uninspectable)}. It may do more than shown."]
    )
    masked = [
        f"Masked text that may run: {shown(each.place)} hides {count(each.characters, 'character')}"
        f"{f' in {each.lines} lines' if each.lines > 1 else ''}, with {each.holds}."
        for each in request.hidden
    ]
    return (*unclear, *masked)


def _runs(request: ApprovalState) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the commands that a rule names or that are unknown, in full, and the names of the others."""
    commands = request.runs
    marked = len(request.marked if len(commands) == request.commands else commands)
    commands_run, others = (commands[:marked], commands[marked:]) if request.commands else ((), commands)
    return (
        tuple("\n".join(command_lines(each)) for each in commands_run),
        tuple(name_shown(each) for each in others),
    )


def _fields_shown(request: ApprovalState, edits: ProposedEdits) -> dict[str, JsonValue]:
    """Return the input without the fields that are shown in full elsewhere."""
    if request.wants is not None:
        return {name: value for name, value in request.input.items() if value != request.message}
    return {name: value for name, value in request.input.items() if name not in edits.covered}


def _differences(request: ApprovalState, edits: ProposedEdits) -> tuple[Difference, ...]:
    """Return the changes that the call would make, and those that an operator made to the call."""
    found: list[Difference] = []
    if edits.edits and not shown_by_preview(edits, request.preview):
        for edit in edits.edits:
            rows = _rows(edit.lines) if edit.lines else [("", SAME)]
            note = f" ({edits.note})" if edits.note else ""
            found.append(Difference(f"{shown(edit.file) or 'the edit'}{note}", diff_of(rows)))
    if request.preview is not None:
        lines = shown_lines(request.preview.rstrip("\n"))
        found.append(Difference("as the tool says", diff_of(_preview_rows(lines))))
    if request.original is not None:
        editor = name_shown(request.edited_by or "an operator")
        edited = changes(request.original, request.input)
        heading = f"edited by {editor}"
        for each in change_texts(edited):
            found.append(Difference(f"{heading}: {each.title}", each.text))
        if not edited:
            only = "Only text that is masked here differs from what the agent asked for."
            found.append(Difference(heading, text_of([only])))
    return tuple(found)


def _preview_rows(lines: Sequence[str]) -> list[Run]:
    """Return the lines of a unified diff, with the signs of hunk lines separated."""
    first = next((at for at, line in enumerate(lines) if line.startswith("@@")), len(lines))
    head: list[Run] = [("", line) for line in lines[:first]]
    return head + [
        (line[0], line[1:]) if line[:1] in ("+", "-", " ") else ("", line) for line in lines[first:]
    ]


def _notes(request: ApprovalState) -> tuple[str, ...]:
    notes = [f"applies because {shown(request.note)}"] if request.note else []
    notes += [f"asks despite a grant: {shown(request.beyond)}"] if request.beyond else []
    return tuple(notes)


def _net(request: ApprovalState, session: SessionState | None) -> str:
    net = session.nets.get(request.net) if session is not None else None
    name = f"net {shown(request.net)}"
    if net is None:
        marking = ", ".join(f"{shown(p)}:{n}" for p, n in request.marking.items() if n)
        return f"{name}  {marking}"
    net_state = NetState(net=net.net, active=net.active, marking=request.marking)
    meaning = next((p.text for p in prospects(net_state) if p.tool == request.tool), "")
    return f"{name}  {places_line(net_state).plain}  {meaning}".rstrip()


def _says(session: SessionState | None) -> str:
    entries = session.transcript if session is not None else []
    text = next((e.text for e in reversed(entries) if e.kind == "assistant" and e.text), None)
    if text is None:
        return ""
    return shown(text[:SAYS].strip()) + ("…" if len(text) > SAYS else "")


def _no_edit(request: ApprovalState, hub: HubApi) -> str | None:
    if request.wants is not None or not request.input:
        return "There is no input to edit"
    if not can_be_edited(request.session, hub):
        return "The agent cannot take an edited input: approve or deny the call as it is"
    if not _edit_fields(InputDraft(request.input)):
        return "Its fields are edited in the terminal's console: they are not short texts or numbers"
    return None


def _edit_fields(draft: InputDraft) -> tuple[FormField, ...]:
    """Return the fields that can be edited here: short texts, numbers and truth values."""
    return tuple(
        FormField(str(at), shown(each.name), _kind(each), each.text, each.type_name, True, _truth(each))
        for at, each in enumerate(draft.fields)
        if each.kind in ("text", "number", "boolean") and len(each.text) <= LONGEST
    )


def _kind(each: InputField) -> str:
    match each.kind:
        case "number":
            return "number"
        case "boolean":
            return "choice"
        case _:
            return "lines" if "\n" in each.text or len(each.text) > 40 else "line"


def _truth(each: InputField) -> tuple[tuple[str, str], ...]:
    return (("true", "true"), ("false", "false")) if each.kind == "boolean" else ()


def _answer_field(at: int, each: AnswerField) -> FormField:
    kinds = {"text": "line", "number": "number", "integer": "number", "choice": "choice"}
    hint = ". ".join(filter(None, (shown(each.type_name), shown(each.description))))
    options = tuple((value, shown(words)) for value, words in each.options)
    if each.kind == "choice" and not each.text and ("", "nothing") not in each.options:
        options = (("", "choose one"), *options)
    suggestions = tuple(text for text, _ in each.suggestions)
    name = shown(each.name) or "answer"
    kind = "lines" if "\n" in each.text else kinds.get(each.kind, "lines")
    return FormField(str(at), name, kind, each.text, hint, each.required, options, suggestions)
