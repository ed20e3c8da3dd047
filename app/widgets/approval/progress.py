"""Progress of a request's call: prerequisites met, budgets left, people who have approved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from math import ceil

from textual.content import Content

from ....engine.core.approvers import PASSKEY, Approvers
from ....engine.core.durations import format_duration
from ....engine.core.people import PARTS, is_among, part_in, same_person
from ....engine.core.value_key import value_net
from ....engine.history.fold.markings import skill_net
from ....engine.history.model.records import NetRecord, TransitionRecord
from ....engine.history.model.state import ApprovalState, NetState, SessionState
from ....engine.net.net import NetError
from ....engine.net.timed import aged, next_due
from ...format.text import MUTED, ago, count, in_rows, name_shown, seconds_between, shown, styled_rows
from ..nets.list import approver_names, enabled
from .passkey_link import passkey_line

BEGUN = ("running", "done", "failed", "unknown")
"""Statuses of calls that were allowed."""
MOST_COMMENTS = 5
"""Maximum comments in the dialog; the transcript has all of them."""
TAKE_BACK = "u"
"""Key that takes an approval back, in the dialog and in the queue."""
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@dataclass(frozen=True, slots=True)
class Viewer:
    """Operator who views a request. With `own_approvals` approvals of own sessions count.

    `groups` are the operator's groups. `link` returns the address of the page where a passkey approves a
    request, or `None` if unknown. Without `keys`, texts mention no keys of the terminal and no running
    times.
    """

    operator: str
    own_approvals: bool = False
    groups: tuple[str, ...] = ()
    link: Callable[[str], str | None] | None = None
    keys: bool = True


def progress_lines(
    request: ApprovalState,
    session: SessionState | None,
    now: datetime,
    width: int,
    viewer: Viewer | None = None,
) -> list[Content]:
    """Return the lines: people first, then what was done, then what is left."""
    texts = list(people_lines(request, session, now, viewer))
    people = styled_rows(texts, width, "bold $text-warning")
    if session is None:
        return people or [Content.styled("not known here", MUTED)]
    done, others = _done(request, session)
    parts = [
        Content.assemble(
            ("✓ ", "$text-success"),
            (name_shown(name), "bold"),
            (f" {ago(seconds_between(at, now))}", MUTED),
        )
        for name, at in done.items()
    ]
    parts += [
        Content.assemble(
            "after ", (name_shown(name), "bold"), (f" {ago(seconds_between(at, now))}", MUTED)
        )
        for name, at in _begun(request, session).items()
        if name not in done
    ]
    parts += [Content.styled(shown(text), "$text-accent") for text in _budgets(request, session, now)]
    if others:
        noun = "other successful call" if done else "successful call"
        parts.append(Content.styled(count(others, noun), MUTED))
    if not parts and not people:
        return [Content.styled("no call has succeeded yet", MUTED)]
    return [*people, *(in_rows(parts, width) if parts else [])]


def people_lines(
    request: ApprovalState, session: SessionState | None, now: datetime, viewer: Viewer | None
) -> Iterator[str]:
    """Yield lines on people: an approval that can be taken back, who approved and when.

    They include the reason why `viewer` may not approve. If anybody may approve, only an escalation is
    listed.
    """
    if words := fuse_words(request, now):
        yield " · ".join(words if viewer is None or viewer.keys else words[:1])
    elif request.late is not None:
        left = format_duration(max(1.0, seconds_between(now, request.late)))
        yield f"its client is gone: an approval is held for the agent's next such call, for {left}"
    if request.taken_back is not None and request.fuse is None:
        yield f"{name_shown(request.taken_back)} took the approval back: it is asked again"
    yield from handover_words(request, viewer)
    if request.fuse is not None:
        return
    if request.approvers is not None:
        yield from _terms_lines(request, request.approvers, session, now, viewer)
    if request.people < 2:
        return
    missing = request.people - len(request.given)
    so_far = f"{len(request.given)} of {request.people}"
    if request.given:
        rest = f"{', '.join(approver_names(request, now))} — {missing} more needed"
    else:
        number = NUMBERS[missing] if missing < len(NUMBERS) else missing
        rest = f"{number} people must approve"
    if request.approvers is None or not request.approvers.guards:
        yield f"{so_far}: {rest}{_exclusion_of(request, session, viewer)}"
    if request.extension is not None:
        until = request.extension.until
        time = "forever" if until is None else format_duration(max(0.0, seconds_between(now, until)))
        yield f"{shown(request.extension.by)} wants it to wait {time}: a second person must extend it"


def _terms_lines(
    request: ApprovalState,
    terms: Approvers,
    session: SessionState | None,
    now: datetime,
    viewer: Viewer | None,
) -> Iterator[str]:
    """Yield lines on the people whose approvals count, and on the escalation."""
    if terms.guards:
        given = f" · {len(request.given)} given" if request.people > 1 or request.given else ""
        names = f" ({', '.join(approver_names(request, now))})" if request.given else ""
        who = request.needs if terms.group is not None or terms.author else "another person"
        who += f" {PASSKEY}" if terms.passkey else ""
        obstacle = approval_obstacle(request, session, viewer)
        not_you = "" if obstacle is None else f", not you: {obstacle}"
        yield f"needs {who}{given}{names}{not_you}"
    if terms.passkey and viewer is not None and viewer.link is not None:
        yield passkey_line(viewer.link(request.id))
    if terms.escalation is not None:
        group = shown(terms.escalation.group)
        if request.escalated is not None:
            yield f"escalated to {group} {ago(seconds_between(request.escalated, now))}"
        else:
            left = terms.escalation.after - seconds_between(request.since, now)
            yield f"escalates to {group} in {format_duration(max(1.0, left))}"


def approval_obstacle(
    request: ApprovalState, session: SessionState | None, viewer: Viewer | None
) -> str | None:
    """Return the reason why an approval by `viewer` would not count; `None` if none is known."""
    terms = request.approvers
    if viewer is None or terms is None or not terms.guards:
        return None
    if is_among(viewer.operator, request.given):
        return "you have approved"
    alone = request.people < 2 and terms.author
    part = None if session is None or alone else part_in(viewer.operator, session)
    if part is not None and not (viewer.own_approvals and terms.author):
        return PARTS[part][1]
    escalated = request.escalated is not None
    if terms.counts(viewer.groups, escalated=escalated):
        return None
    return f"you are not in {' or '.join(terms.groups(escalated=escalated))}"


def handover_words(request: ApprovalState, viewer: Viewer | None) -> Iterator[str]:
    """Yield `maria has this`, `ben is reading this`, and comments: `ben to @maria: whose host?`."""
    own = "" if viewer is None else viewer.operator
    if request.claim is not None:
        yield "you have this" if same_person(request.claim.by, own) else claim_words(request.claim.by)
    others = [name_shown(each) for each in request.readers if not same_person(each, own)]
    if others:
        yield f"{', '.join(others)} {'is' if len(others) == 1 else 'are'} reading this"
    hidden = len(request.comments) - MOST_COMMENTS
    if hidden > 0:
        yield f"{count(hidden, 'earlier comment')}, in the transcript"
    for each in request.comments[-MOST_COMMENTS:]:
        to = "" if each.to is None else f" to @{name_shown(each.to)}"
        yield f"{name_shown(each.by)}{to}: {shown(' '.join(each.text.split()))}"


def claim_words(name: str) -> str:
    """Return text such as `maria has this`."""
    return f"{name_shown(name)} has this"


def fuse_words(request: ApprovalState, now: datetime) -> tuple[str, ...]:
    """Return `approved by maria`, `runs in 4 s` and `u takes it back`; empty if no approval is under way.

    The call of a late request `runs when called again`, which its agent has to do.
    """
    if (fuse := request.fuse) is None:
        return ()
    left = seconds_between(now, fuse.until)
    runs = f"runs in {ceil(left)} s" if left > 0 else "runs at the next check"
    if request.late is not None:
        runs = "runs when called again"
    edited = " with an edited input" if fuse.edited else ""
    return f"approved by {name_shown(fuse.by)}{edited}", runs, f"{TAKE_BACK} takes it back"


def _exclusion_of(request: ApprovalState, session: SessionState | None, viewer: Viewer | None) -> str:
    if viewer is None:
        return ""
    if is_among(viewer.operator, request.given):
        return ", not you: you have approved"
    part = None if session is None or viewer.own_approvals else part_in(viewer.operator, session)
    return "" if part is None else f", not you: {PARTS[part][1]}"


def _done(request: ApprovalState, session: SessionState) -> tuple[dict[str, datetime], int]:
    """Return when the call's prerequisites last succeeded, and how many other calls succeeded."""
    prerequisites = _prerequisites(request, session)
    latest: dict[str, datetime] = {}
    others = 0
    for call in session.calls.values():
        if call.status != "done":
            continue
        met = [name for name in call.names or (call.tool,) if name in prerequisites]
        for name in met:
            latest.pop(name, None)
            latest[name] = call.at
        others += not met
    return latest, others


def _begun(request: ApprovalState, session: SessionState) -> dict[str, datetime]:
    """Return the calls that activated the asking rule, each with the time of its latest start."""
    net = session.nets.get(request.net)
    leads = () if net is None else net.net.leads
    return {
        name: call.at
        for call in session.calls.values()
        if call.status in BEGUN
        for name in call.names or (call.tool,)
        if name in leads
    }


def _prerequisites(request: ApprovalState, session: SessionState) -> set[str]:
    """Return the names that active nets require to have succeeded before the call, transitively."""
    nets = [net.net for net in session.nets.values() if net.active]
    prerequisites: set[str] = set()
    fresh = {request.tool, *request.names}
    while fresh:
        fresh = {name for net in nets for name in _before(net, fresh)} - prerequisites
        prerequisites |= fresh
    return prerequisites


def _before(net: NetRecord, names: set[str]) -> Iterator[str]:
    """Yield the names whose success produces the tokens that a call by `names` consumes."""
    inputs = {p for t in net.transitions if names & set(t.tools) for p in t.inputs}
    for t in net.transitions:
        if t.deferred and inputs & set(t.outputs) and not inputs & set(t.inputs) & set(t.outputs):
            yield from (tool for tool in t.tools if tool not in names)


def _budgets(request: ApprovalState, session: SessionState, now: datetime) -> Iterator[str]:
    names = {request.tool, *request.names}
    for key in session.active:
        net = session.nets.get(key)
        if net is not None and (own := _net_of_call(net, request, session)) is not None:
            yield from _net_budgets(own, names, now.timestamp())


def _net_of_call(net: NetState, request: ApprovalState, session: SessionState) -> NetState | None:
    """Return the net that judges the call; for a net per value, the net of the call's value."""
    key = net.net.per_value
    if key is None:
        return net
    digest = key.digest(request.input)
    return None if digest is None else session.net_state(value_net(net.key, digest)) or net


def _net_budgets(net: NetState, names: set[str], now: float) -> Iterator[str]:
    """Yield `deploy: 1 of 3 left, next back in 12 min`, for each budget that a call spends."""
    record = net.net
    for transition in record.transitions:
        if transition.amount is not None and (name := _name_of(transition, names)):
            amount = transition.amount
            rest = amount.field.text(net.marking.get(amount.source, 0))
            most = amount.field.text(record.initial_marking[amount.source])
            yield f"{name}: {rest} of {most} {amount.field.name} left"
    spending = [(t, p) for t in record.transitions if names & set(t.tools) for p in _spent(record, t)]
    if not spending:
        return
    marking, back = net.marking, ""
    if any(t.after is not None for t in record.transitions):
        try:
            made = skill_net(record)
            moved = aged(made, net.marking, net.since, now)
        except NetError:
            return  # A net that never becomes stable has nothing to report.
        marking = dict(moved.marking)
        due = next_due(made, moved.marking, moved.since, now)
        back = "" if due is None else f", next back in {format_duration(max(1.0, due[0] - now))}"
    for transition, place in spending:
        if enabled(transition, marking):
            name = _name_of(transition, names)
            left, most = marking.get(place, 0), record.initial_marking[place]
            if record.shared is None:
                yield f"{name}: {left} of {most} left{back}"
            else:
                # Only their server knows the calls of other sessions.
                across = f"across {record.shared.reach}"
                yield f"{name}: {most} {across}, {most - left} of them by this session{back}"


def _name_of(transition: TransitionRecord, names: set[str]) -> str | None:
    return next((tool for tool in transition.tools if tool in names), None)


def _spent(net: NetRecord, transition: TransitionRecord) -> Iterator[str]:
    """Yield places whose tokens a transition uses up; only time or another tool refills them."""
    for place in dict.fromkeys(transition.inputs):
        put_back = any(t.after is None and place in t.outputs for t in net.transitions)
        if net.initial_marking.get(place, 0) and not put_back:
            yield place
