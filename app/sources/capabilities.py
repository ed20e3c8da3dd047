"""Actions that operators have on a session's agent: send messages, stop it, edit inputs."""

from __future__ import annotations

from ...engine.core.sanitize import visible
from ...engine.history.model.state import SessionState
from ...engine.hub.api import HubApi
from ...engine.hub.hub import ExternalSessionError

STOP_HERE = "A running tool is ended, a waiting request withdrawn. The session stays open."
STOP_ELSEWHERE = (
    "External agent: waiting requests are denied, tools that run there continue. The session stays open."
)
STOP_FLOW = (
    "The step under way ends, a waiting request is withdrawn. The steps before it stay: "
    "the run can be resumed from there."
)


def can_be_told(state: SessionState, hub: HubApi) -> bool:
    """Return whether `hub` delivers an operator's messages to a session's agent."""
    if state.kind == "flow":
        return False
    if state.kind != "outside":
        return True
    try:
        return hub.steers(state.id)
    except LookupError:
        return False  # it has ended in the meantime


def not_told(state: SessionState) -> str:
    """Return the reason why an operator cannot send a session messages from here; empty if they can."""
    match state.kind:
        case "flow":
            return (
                f"Session '{visible(state.id)}' runs flow '{visible(state.agent)}', which follows its "
                "graph: it takes no messages. What it asks is answered in the queue."
            )
        case "outside":
            return str(ExternalSessionError(state.id))
        case _:
            return ""


def what_stops(state: SessionState, hub: HubApi) -> str:
    """Return a text on what ends, and what does not, when an operator stops a session's agent."""
    if state.kind == "flow":
        return STOP_FLOW
    return STOP_HERE if can_be_told(state, hub) else STOP_ELSEWHERE


def can_be_edited(session_id: str, hub: HubApi) -> bool:
    """Return whether operators may edit inputs of a session's calls; some agents ignore edits."""
    try:
        return hub.takes_edits(session_id)
    except LookupError:
        return False  # it has ended in the meantime
