"""Panel of one decision: what was decided and why, and the nets' explanation then and now."""

from __future__ import annotations

import asyncio
from datetime import datetime, tzinfo
from functools import partial
from typing import ClassVar

from pydantic import JsonValue
from textual.app import App
from textual.binding import BindingType

from ....engine.history.decisions.reader import Decision
from ....engine.history.model.events import (
    ApprovalExtended,
    CallDecided,
    ChangeDropped,
    ChangeProposed,
    GrantGiven,
    JournalEvent,
    LimitRaised,
    ModeChanged,
    NetToggled,
    RulesReplaced,
    SessionResumed,
)
from ....engine.hub.api import DecisionApi, HistoryApi, HubApi
from ....engine.recording.explanation import ExplanationView
from ...format.calls import asked_input, edited_words
from ...format.decisions import RESULT, VERDICT, verdict_words
from ...format.text import MUTED, as_json, name_shown, rule_line, shown
from ...format.times import clock, day
from ...sources.messages import ReplayChosen
from ...terminal.bindings import key_binding
from ...terminal.charset import to_charset
from ...widgets.base.blocks import Block
from ..common.detail import (
    Detail,
    Explain,
    difference_blocks,
    fact,
    fact_blocks,
    input_blocks,
    section,
)


class DecisionDetail(Detail):
    """Panel of a decision; `r` opens the replay of its session at the decision."""

    HINTS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("decision.replay", "replay"),
        ("panel.close", "close"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        key_binding(
            "r", "replay", "replay", "decision.replay", "Go to this decision in the replay of its session"
        ),
    ]

    def __init__(
        self,
        decision: Decision,
        event: JournalEvent,
        *,
        zone: tzinfo | None = None,
        explain: Explain | None = None,
        explain_then: Explain | None = None,
        original: dict[str, JsonValue] | None = None,
    ) -> None:
        if decision.kind == "call":
            title, blocks = (
                f"Decision: {name_shown(decision.tool)}",
                decision_blocks(decision, event, zone, original),
            )
        else:
            title, blocks = f"Change: {decision.kind}", change_blocks(decision, event, zone)
        super().__init__(title, blocks, explain=explain, explain_then=explain_then)
        self._decision = decision

    def action_replay(self) -> None:
        """Close, and open the replay at the decision."""
        if self.is_current:
            self.dismiss(None)
            self.app.post_message(ReplayChosen(self._decision.session, at=self._decision.seq))


async def show_decision(
    app: App[None],
    source: DecisionApi,
    decision: Decision,
    *,
    sessions: HistoryApi | None = None,
    hub: HubApi | None = None,
    zone: tzinfo | None = None,
) -> None:
    """Open the panel of a decision with the nets' explanation.

    `sessions` provides the events that led to the decision. For a live session of `hub`, the current
    explanation is shown, too.
    """
    explain: Explain | None = None
    of_call = decision.kind == "call"
    try:
        event = await source.decision_event(decision.session, decision.seq)
        live = [] if hub is None or not of_call else [state.id for state in await hub.sessions()]
        original: dict[str, JsonValue] | None = None
        if sessions is not None and isinstance(event.body, CallDecided) and event.body.edited:
            original = asked_input(await sessions.recorded(decision.session), decision.seq)
    except Exception as error:
        app.notify(shown(f"Cannot open the decision: {error}"), severity="error", markup=False)
        return
    if hub is not None and decision.session in live:
        explain = partial(hub.explain, decision.session, decision.call_id)
    explain_then = (
        None if sessions is None or not of_call else partial(_explain_at_decision, sessions, decision)
    )
    panel = DecisionDetail(
        decision, event, zone=zone, explain=explain, explain_then=explain_then, original=original
    )
    app.call_later(app.push_screen, panel)


async def _explain_at_decision(sessions: HistoryApi, decision: Decision) -> ExplanationView:
    """Return the explanation of the call, net by net, at the moment of its decision."""
    from ..replay.event_detail import explain_decision

    recorded = await sessions.recorded(decision.session)
    return await asyncio.to_thread(explain_decision, recorded, decision.seq)


def decision_blocks(
    decision: Decision,
    event: JournalEvent,
    zone: tzinfo | None,
    original: dict[str, JsonValue] | None = None,
) -> list[Block]:
    """Return the recorded facts about a decision.

    `original` is the agent's input if an operator edited it.
    """
    body = event.body
    look = VERDICT[decision.verdict]
    facts: list[tuple[str, str, str]] = [
        ("verdict", to_charset(verdict_words(decision)), f"bold {look.style}"),
        ("mode", decision.mode, ""),
    ]
    if isinstance(body, CallDecided):
        unclear = f"cannot be fully analysed: {body.uninspectable}"
        steps = (f"{s.net}: {s.transition}{' later' if s.deferred else ''}" for s in body.steps)
        edited = edited_words(body.edited_by, original, body.input) if body.edited else ""
        facts += [
            ("reason", body.reason or "", look.style),
            ("unclear", "" if body.uninspectable is None else unclear, "$text-warning"),
            ("judged as", ", ".join(body.judged_as), "$text-warning"),
            ("rule", rule_line(body.rule) or _rule_of(decision), ""),
            ("net", decision.net or "", ""),
            ("moved", ", ".join(steps), MUTED),
            ("names", ", ".join(body.names) if len(body.names) > 1 else "", ""),
            ("was off", decision.off or "", "$text-warning"),
            ("edited", edited, "$text-warning"),
        ]
    facts.append(("decided by", decision.by or "", ""))
    ended = RESULT[decision.result] if decision.result else None
    if ended is not None:
        facts.append(("ended", to_charset(f"{ended.symbol} {ended.word}"), ended.style))
    elif decision.verdict not in ("block", "denied"):
        facts.append(("ended", "no result yet", MUTED))
    blocks = [section("decision", first=True), *fact_blocks(facts)]
    blocks += [
        fact("session", _event_of(decision), ""),
        fact("agent", f"{decision.via} for {decision.agent}" if decision.via else decision.agent, ""),
        fact("at", _day_and_clock(decision.at, zone), ""),
        fact("call", f"{decision.call_id} {to_charset('·')} {decision.called}", MUTED),
    ]
    if isinstance(body, CallDecided):
        blocks += input_blocks(body.input, decision.session, body.shell_fields)
        blocks += difference_blocks(original, body.input)
    return blocks


def change_blocks(decision: Decision, event: JournalEvent, zone: tzinfo | None) -> list[Block]:
    """Return a recorded change of settings: what, by whom, why, until when, and requests open then."""
    body, look = event.body, VERDICT[decision.verdict]
    facts: list[tuple[str, str, str]] = [
        ("state", to_charset(f"{look.symbol} {look.word}"), f"bold {look.style}"),
        ("by", decision.by or "nobody", "" if decision.by else MUTED),
    ]
    reason, until, waiting = None, None, ()
    match body:
        case NetToggled() | ModeChanged():
            reason, until, waiting = body.reason, body.until, body.waiting
        case ChangeProposed():
            counted = "counts as one of them" if body.counts else "does not count as one of them"
            facts.append(("takes", f"{body.people} people; {body.by} {counted}", ""))
            reason, until = body.reason, body.expires
        case ChangeDropped() | LimitRaised():
            reason = body.reason
        case ApprovalExtended():
            until = body.until if body.proposed is None else body.proposed.until
            waiting = (body.call_id,)
        case GrantGiven():
            reason = body.reason
            waiting = () if body.call_id is None else (body.call_id,)
            facts.append(("lets pass", ", ".join(body.grant.names), ""))
            if body.input is not None:
                facts.append(("only with", as_json(body.input), ""))
        case RulesReplaced():
            reason, waiting = body.applied.reason, body.waiting
            facts.append(("nets", ", ".join(body.active) or "none", ""))
        case SessionResumed():
            facts.append(("nets", ", ".join(body.active) or "none", ""))
            facts.append(("agent", f"{body.agent} on {body.model}", ""))
            facts.append(("labels", ", ".join(body.session_labels), ""))
        case _:
            pass
    facts += [
        ("reason", reason or "", ""),
        ("until", "" if until is None else _day_and_clock(until, zone), ""),
        ("requests", ", ".join(waiting), ""),
        ("net", decision.net or "", ""),
        ("rule", _rule_of(decision), ""),
        ("mode", decision.mode, ""),
        ("session", _event_of(decision), ""),
        ("at", _day_and_clock(decision.at, zone), ""),
    ]
    return [section("change", first=True), fact("what", decision.input, "bold"), *fact_blocks(facts)]


def _rule_of(decision: Decision) -> str:
    return f"{decision.place or ''}  {decision.rule}" if decision.rule else ""


def _event_of(decision: Decision) -> str:
    return f"{decision.session} {to_charset('·')} event {decision.seq}"


def _day_and_clock(at: datetime, zone: tzinfo | None) -> str:
    return f"{day(at, zone)} {clock(at, zone)}"
