"""A flow's steps in the fold, and as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from pydantic import JsonValue

from ..errors import impossible
from ..model.events import JournalEvent
from ..model.fast_models import copy_with
from ..model.records import FlowStepped, TransitionRecord
from ..model.state import FlowState, NetState, SessionState, SessionSummary
from .transcript import say

Nets: TypeAlias = Mapping[str, NetState]


def stepped(state: SessionState, event: JournalEvent, body: FlowStepped) -> None:
    """Advance the flow of `state`. Raises `FoldError` for a step that cannot follow."""
    flow = state.flow
    if flow is None:
        raise impossible(event, "the session runs no flow")
    if flow.done or body.step != (0 if flow.node is None and not flow.live else flow.step + 1):
        raise impossible(event, f"it does not follow step {flow.step} of flow '{flow.flow.name}'")
    unknown = [key for key in body.live if key not in flow.flow.net.places]
    if unknown:
        raise impossible(event, f"flow '{flow.flow.name}' has no state '{unknown[0]}'")
    moved = {"step": body.step, "node": body.node, "live": body.live, "waits": body.waits}
    state.flow = copy_with(flow, {**moved, "done": body.done})
    if body.node is not None:
        say(state, "note", event.at, _step_text(body.node, flow.live, body, state.nets))


def _step_text(node: str, before: tuple[str, ...], body: FlowStepped, nets: Nets) -> str:
    """Return `Draft → Notes`: a node and the states that it led to, out of all that are live now."""
    led = [*(Counter(body.live) - Counter(before)).elements()]
    if not led and body.waits is not None:
        return f"{node} {_wait_text(body, nets)}"
    if not led:
        return f"{node} continues" if before == body.live else f"{node} ends"
    return f"{node} → {', '.join(led)}{', and the flow is done' if body.done else ''}"


def _wait_text(body: FlowStepped, nets: Nets | None) -> str:
    """Return which answer a waiting step needs: `waits for approval of deploy`.

    Its snapshot is not validated, because it may be of another version. Without the session's `nets` it
    is not known under which name approval of a call is requested.
    """
    snapshot = body.output.get("snapshot")
    request = snapshot.get("suspended") if isinstance(snapshot, dict) else None
    if not isinstance(request, dict) or not isinstance(tool_id := request.get("tool_id"), str):
        return f"waits for call {body.waits}"
    tool = tool_id.rpartition("::")[2]
    match request.get("kind"):
        case "approval":
            of = "" if nets is None else f" of {_asked_name(request.get('asks'), nets) or tool}"
            return f"waits for approval{of}"
        case "choice":
            return "waits for a choice"
        case "input":
            return "waits for an answer"
        case _:
            return f"waits for an answer to {tool}"


def _asked_name(asks: JsonValue, nets: Nets) -> str | None:
    """Return the one name that a rule requires approval for; a shell command has other names as well."""
    match asks:
        case [str() as key, str() as transition] if key in nets and nets[key].net.rule is not None:
            names = {n for t in nets[key].net.transitions if t.name == transition for n in t.tools}
            return names.pop() if len(names) == 1 else None
        case _:
            return None


def next_up(flow: FlowState) -> list[TransitionRecord]:
    """Return the possible ends of the next node: that of the first live state that has all inputs."""
    if flow.done:
        return []
    live = set(flow.live)
    for state in flow.live:
        ready = [t for t in flow.flow.net.transitions if state in t.inputs and live >= set(t.inputs)]
        if ready:
            return ready
    return []


def speaker(flow: FlowState) -> str | None:
    """Return the node that is running, by the name that its author gave it, if any."""
    waiting = [t for t in flow.flow.net.transitions if " + ".join(t.inputs) == flow.node]
    ways = waiting if flow.waits is not None and waiting else next_up(flow)
    return flow.flow.names.get(ways[0].name) if ways else None


def step_headline(body: FlowStepped) -> Iterable[str]:
    """Return the texts that follow the event's type in a list of events."""
    waits = "" if body.waits is None else _wait_text(body, None)
    return body.node or "begins", ", ".join(body.live), "done" if body.done else waits


def step_changes(event: JournalEvent, nets: Nets) -> Iterable[str]:
    """Return the changes by a step as text; `nets` are those of its session."""
    match event.body:
        case FlowStepped(node=None, live=live):
            yield f"flow begins with {', '.join(live)}"
        case FlowStepped() as body:
            yield f"flow step {body.step}: {body.node} → {', '.join(body.live)}"
            if body.waits is not None:
                yield f"flow {_wait_text(body, nets)}"
        case _:
            pass


# Errors in the record of a flow's run that was interrupted without a failure of its own.


STOPPED = "the run was stopped"
LEFT = "left after step"
DIED = "the process that hosted this session ended without closing it"

HANDED_OVER = "the server that had this session ended, and handed it over to the others"


def is_stopped(session: SessionState | SessionSummary) -> bool:
    """Return whether a run was stopped or left, or its host died; it can be resumed."""
    error = session.error or ""
    has_failed = session.kind == "flow" and session.status == "failed"
    return has_failed and (error in (DIED, HANDED_OVER) or error.startswith((STOPPED, LEFT)))
