"""The queue and past decisions, as listed on the page. All texts here are made visible."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ....engine.approvals.request_order import FIRST, in_order
from ....engine.core.people import person_key
from ....engine.core.rights import may
from ....engine.gateway.client.console import ConsoleClient
from ....engine.history.decisions.filter import DecisionFilter
from ....engine.history.decisions.reader import Decision
from ....engine.history.model.events import CallDecided
from ....engine.history.model.state import ApprovalState
from ....engine.hub.api import HubApi
from ...format.decisions import VERDICT, verdict_words
from ...format.outage import outage_consequences, outage_kind
from ...format.plan import shown_plan
from ...format.text import clip, glance, name_shown, place, shown
from ...widgets.approval.progress import fuse_words
from ...widgets.approval.proposed_edits import edit_counts
from ...widgets.approval.queue_lines import handover_notes
from ...widgets.nets.list import approver_names
from .request_view import Risk, millis, risk_of

GLANCE = 140
"""Characters of the call shown in a row of the queue; the request shows all of it."""
LATEST = 30
"""Number of decisions that are listed."""
SCANS = 20
"""Maximum number of steps in which they are searched."""
BY_PEOPLE = DecisionFilter(verdicts=("approved", "denied"))


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One open request."""

    id: str
    tool: str
    who: str
    text: str
    rule: str
    risk: Risk | None
    since: int
    until: int | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QueueView:
    """The listed rows, the most urgent first, and the number of further requests."""

    rows: tuple[QueueRow, ...]
    more: int

    @property
    def waiting(self) -> int:
        """Number of all open requests."""
        return len(self.rows) + self.more


async def queue_view(hub: HubApi, now: datetime) -> QueueView:
    """Return the queue at present."""
    waiting = in_order(await hub.approvals())
    rows = tuple(_row(each, now) for each in waiting[:FIRST])
    return QueueView(rows, len(waiting) - len(rows) + hub.unread().requests)


@dataclass(frozen=True, slots=True)
class FreezeView:
    """The freeze of all agents as text, and its stamp; both empty if there is none.

    `freezes` and `lifts` say what the operator may do, `refused` why they may not lift it.
    """

    words: str
    stamp: str
    freezes: bool
    lifts: bool
    refused: str


def freeze_view(hub: ConsoleClient) -> FreezeView:
    """Return the present freeze, for the operator of this console."""
    frozen, rights = hub.current_freeze(), hub.rights
    if frozen is None:
        return FreezeView("", "", may(rights, "decide"), False, "")
    lifts = may(rights, "administer")
    return FreezeView(
        f"All agents are {shown(frozen.words)}; new calls wait",
        f"{millis(frozen.at)} {person_key(frozen.by)}",
        False,
        lifts,
        "" if lifts else "Lifting it takes the right to administer",
    )


def outage_view(hub: ConsoleClient) -> dict[str, str | int] | None:
    """Return an outage of the journal as JSON, `since` in UTC milliseconds; `None` without one."""
    outage = hub.current_outage()
    if outage is None:
        return None
    means = outage_consequences(outage, decides=may(hub.rights, "decide"))[0]
    return {"what": outage_kind(outage), "since": millis(outage.since), "means": means}


def _row(request: ApprovalState, now: datetime) -> QueueRow:
    agent = name_shown(request.agent or request.session)
    if request.via:
        agent = f"{name_shown(request.via)} of {agent}"
    is_question = request.wants is not None
    text = shown(" ".join(request.message[:GLANCE].split())) if is_question else _glance(request)
    return QueueRow(
        id=request.id,
        tool=name_shown(request.tool),
        who=agent,
        text=f"answer: {text}" if is_question else text,
        rule="" if request.rule is None else f"{place(request.rule)}  {shown(request.rule.text.strip())}",
        risk=risk_of(request),
        since=millis(request.since),
        until=None if request.expires is None else millis(request.expires),
        notes=tuple(_notes(request, now)),
    )


def _glance(request: ApprovalState) -> str:
    plan = shown_plan(request)
    return clip(plan.line if plan is not None else glance(request.input, request.shell_fields), GLANCE)


def _notes(request: ApprovalState, now: datetime) -> list[str]:
    notes = [*fuse_words(request, now)[:1], *handover_notes(request)]
    if request.late is not None:
        notes.append("late: its client is gone")
    elif request.disconnected is not None:
        notes.append("no connection waits for the answer")
    if request.people > 1:
        notes += [f"{len(request.given)} of {request.people} approved", *approver_names(request, now)]
    if request.uninspectable is not None:
        notes.append("cannot be fully analysed")
    if request.hidden:
        notes.append("masked text that may run")
    if request.original is not None:
        notes.append(f"edited by {name_shown(request.edited_by or 'an operator')}")
    if (found := edit_counts(request)) is not None:
        notes.append(f"+{found[0]} −{found[1]}")
    return notes


@dataclass(frozen=True, slots=True)
class DecidedRow:
    """A person's decision: `why` is the reason given, `rule` the rule that required approval."""

    key: str
    verdict: str
    denied: bool
    tool: str
    who: str
    text: str
    at: int
    rule: str
    why: str
    result: str


async def decided_view(hub: HubApi) -> list[DecidedRow]:
    """Return the latest decisions by people, the most recent first."""
    decisions = await _latest(hub)
    reasons = await asyncio.gather(*(_reason(hub, each) for each in decisions))
    return [_decided(each, why) for each, why in zip(decisions, reasons, strict=True)]


async def _latest(hub: HubApi) -> Sequence[Decision]:
    found = await hub.scan_decisions(BY_PEOPLE)
    for _ in range(SCANS):
        if found.parts or found.next is None:
            break
        found = await hub.scan_decisions(BY_PEOPLE, top=found.next)
    if not found.parts:
        return ()
    return (await hub.read_decisions(BY_PEOPLE, found.parts[0]))[:LATEST]


async def _reason(hub: HubApi, decision: Decision) -> str:
    event = await hub.decision_event(decision.session, decision.seq)
    body = event.body
    return body.reason or "" if isinstance(body, CallDecided) and body.outcome != "allow" else ""


def _decided(decision: Decision, why: str) -> DecidedRow:
    return DecidedRow(
        key=f"{decision.cursor}",
        verdict=verdict_words(decision),
        denied=VERDICT[decision.verdict] is VERDICT["denied"],
        tool=name_shown(decision.tool),
        who=name_shown(decision.agent),
        text=clip(name_shown(decision.input), GLANCE),
        at=millis(decision.at),
        rule="  ".join(shown(each) for each in (decision.place, decision.rule) if each),
        why=shown(why),
        result=decision.result or "",
    )
