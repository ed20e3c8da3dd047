"""Switching a live session from shadow to enforce, after a question."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import App

from ...engine.hub import Outcome
from ..door import Door
from ..messages import ActionDone
from .confirm import Confirm

WHAT_CHANGES = "From its next call on, what a rule forbids is blocked and what needs a person asks."


async def enforce(
    app: App[None], hub: Door, session: str, *, by: str, details: Sequence[str] = ()
) -> None:
    """Ask whether to, and switch. Says why not for a session that is not live or enforces already."""
    try:
        modes = {state.id: state.mode for state in await hub.sessions()}
    except Exception as error:
        _tell(app, f"Cannot switch {session}: {error}")
        return
    if session not in modes:
        _tell(app, f"{session} is not live, so there is nothing to switch. Resume it in enforce mode")
    elif modes[session] != "shadow":
        _tell(app, f"{session} enforces already")
    else:

        def answered(yes: bool | None) -> None:
            if yes:
                app.run_worker(_switch(app, hub, session, by), group="decisions", exit_on_error=False)

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
