"""One decision in full: what was decided and why, and what the nets said of the call, or say now."""

from __future__ import annotations

import asyncio
from datetime import tzinfo
from functools import partial
from typing import ClassVar

from textual.app import App
from textual.binding import Binding, BindingType

from ...engine.explained import ExplanationView
from ...engine.history.decisions import Decision
from ...engine.history.events import CallDecided, JournalEvent
from ..charset import ours
from ..decision_text import RESULT, VERDICT, verdict_words
from ..door import Door, Journal
from ..history_source import HistorySource
from ..messages import ReplayChosen
from ..moments import clock, day
from ..text import as_json, shown
from ..widgets.blocks import Block
from ..widgets.inputs import input_rows
from .detail import Detail, Explain, fact, section

MUTED = "$foreground 60%"


class DecisionDetail(Detail):
    """A decision, to be read; `r` goes to its place in the replay of its session."""

    HINTS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("decision.replay", "replay"),
        ("panel.close", "close"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "r",
            "replay",
            "replay",
            id="decision.replay",
            tooltip="Go to this decision in the replay of its session",
        ),
    ]

    def __init__(
        self,
        decision: Decision,
        event: JournalEvent,
        *,
        zone: tzinfo | None = None,
        explain: Explain | None = None,
        then: Explain | None = None,
    ) -> None:
        title, blocks = f"Decision: {shown(decision.tool)}", decision_blocks(decision, event, zone)
        super().__init__(title, blocks, explain=explain, then=then)
        self._decision = decision

    def action_replay(self) -> None:
        """Close, and go to the decision's place in the replay."""
        if self.is_current:
            self.dismiss(None)
            self.app.post_message(ReplayChosen(self._decision.session, at=self._decision.seq))


async def show_decision(
    app: App[None],
    source: Journal,
    decision: Decision,
    *,
    sessions: HistorySource | None = None,
    hub: Door | None = None,
    zone: tzinfo | None = None,
) -> None:
    """Open the panel of a decision with what the nets said of the call.

    `sessions` has what led to it. For a live session of `hub` it is said, too, how things stand now.
    """
    explain: Explain | None = None
    try:
        event = await source.decision_event(decision.session, decision.seq)
        live = [] if hub is None else [state.id for state in await hub.sessions()]
    except Exception as error:
        app.notify(shown(f"Cannot open the decision: {error}"), severity="error", markup=False)
        return
    if hub is not None and decision.session in live:
        explain = partial(hub.explain, decision.session, decision.call_id)
    then = None if sessions is None else partial(_said_then, sessions, decision)
    panel = DecisionDetail(decision, event, zone=zone, explain=explain, then=then)
    app.call_later(app.push_screen, panel)


async def _said_then(sessions: HistorySource, decision: Decision) -> ExplanationView:
    """What each net said of the call when it was decided."""
    from .recorded_decision import said_of

    recorded = await sessions.recorded(decision.session)
    return await asyncio.to_thread(said_of, recorded, decision.seq)


def decision_blocks(decision: Decision, event: JournalEvent, zone: tzinfo | None) -> list[Block]:
    """What the record says of a decision."""
    body = event.body
    look = VERDICT[decision.verdict]
    facts: list[tuple[str, str, str]] = [
        ("verdict", ours(verdict_words(decision)), f"bold {look.style}"),
        ("mode", decision.mode, ""),
    ]
    if isinstance(body, CallDecided):
        if body.reason:
            facts.append(("reason", body.reason, look.style))
        rule = body.rule
        if rule is not None:
            facts.append(("rule", f"{rule.where}  {rule.text}", ""))
        elif decision.rule:
            facts.append(("rule", f"{decision.place or ''}  {decision.rule}", ""))
        if decision.net:
            facts.append(("net", decision.net, ""))
        moved = ", ".join(f"{s.net}: {s.transition}{' later' if s.deferred else ''}" for s in body.steps)
        if moved:
            facts.append(("moved", moved, MUTED))
        if len(body.names) > 1:
            facts.append(("names", ", ".join(body.names), ""))
        if body.edited:
            facts.append(("edited", "a person changed the input before it ran", "$text-warning"))
    if decision.by:
        facts.append(("decided by", decision.by, ""))
    ended = RESULT[decision.result] if decision.result else None
    if ended is not None:
        facts.append(("ended", ours(f"{ended.symbol} {ended.word}"), ended.style))
    elif decision.verdict not in ("block", "denied"):
        facts.append(("ended", "no result yet", MUTED))
    facts += [
        ("session", f"{decision.session} {ours('·')} event {decision.seq}", ""),
        ("agent", f"{decision.via} for {decision.agent}" if decision.via else decision.agent, ""),
        ("at", f"{day(decision.at, zone)} {clock(decision.at, zone)}", ""),
        ("call", f"{decision.call_id} {ours('·')} {decision.called}", MUTED),
    ]
    blocks = [section("decision", first=True)]
    blocks += [fact(label, value, style) for label, value, style in facts]
    blocks.append(section("input"))
    if isinstance(body, CallDecided):
        given = body.input
        blocks.append(Block("input", as_json(given), lambda width: input_rows(given, width)))
    return blocks
