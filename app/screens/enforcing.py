"""Switching a live session from shadow to enforce, after a question."""

from __future__ import annotations

from textual.app import App

from ...engine.history.decision_counts import ShadowSummary
from ...engine.hub import Outcome
from ..decision_text import session_words
from ..door import Door
from ..messages import ActionDone
from .confirm import Confirm

WHAT_CHANGES = "From its next call on, what a rule forbids is blocked and what needs a person asks."
WHEN_NOT_LIVE = "Resume it and switch it then, or start its next run in enforce mode"


async def enforce(
    app: App[None], hub: Door, session: str, *, by: str, found: ShadowSummary | None = None
) -> None:
    """Ask whether to, with what was `found` of it, and switch.

    Says why not for a session that is not live or enforces already.
    """
    try:
        modes = {state.id: state.mode for state in await hub.sessions()}
    except Exception as error:
        _tell(app, f"Cannot switch {session}: {error}")
        return
    if session not in modes:
        _tell(app, f"{session} is not live. {WHEN_NOT_LIVE}")
    elif modes[session] != "shadow":
        _tell(app, f"{session} enforces already")
    else:

        def answered(yes: bool | None) -> None:
            if yes:
                app.run_worker(_switch(app, hub, session, by), group="decisions", exit_on_error=False)

        shown = () if found is None else found.sessions
        details = [session_words(each).plain for each in shown if each.session == session]
        question = Confirm("Enforce", f"Enforce the rules in {session}?", [WHAT_CHANGES, *details])
        app.call_later(app.push_screen, question, answered)


async def _switch(app: App[None], hub: Door, session: str, by: str) -> None:
    try:
        outcome = await hub.set_mode(session, "enforce", by=by)
    except Exception as error:
        outcome = Outcome(ok=False, message=str(error) or type(error).__name__)
    app.post_message(ActionDone(outcome))


def _tell(app: App[None], problem: str) -> None:
    app.post_message(ActionDone(Outcome(ok=False, message=problem)))
