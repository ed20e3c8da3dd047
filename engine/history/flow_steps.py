"""A flow's steps in the fold, and in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from .errors import impossible
from .events import JournalEvent
from .flow import FlowStepped
from .quick import updated
from .state import SessionState
from .transcript import say


def stepped(state: SessionState, event: JournalEvent, body: FlowStepped) -> None:
    """Move the flow of `state` on. Raises `FoldError` for a step that cannot follow."""
    flow = state.flow
    if flow is None:
        raise impossible(event, "the session runs no flow")
    if flow.done or body.step != (0 if flow.node is None and not flow.live else flow.step + 1):
        raise impossible(event, f"it does not follow step {flow.step} of flow '{flow.flow.name}'")
    unknown = [key for key in body.live if key not in flow.flow.net.places]
    if unknown:
        raise impossible(event, f"flow '{flow.flow.name}' has no state '{unknown[0]}'")
    moved = {"step": body.step, "node": body.node, "live": body.live, "waits": body.waits}
    state.flow = updated(flow, {**moved, "done": body.done})
    if body.node is not None:
        say(state, "note", event.at, _told(body.node, flow.live, body))


def _told(node: str, before: tuple[str, ...], body: FlowStepped) -> str:
    """`Draft → Notes`: a node and the states that it led to, of all that are live now."""
    led = [*(Counter(body.live) - Counter(before)).elements()]
    if not led and body.waits is not None:
        return f"{node} waits for the answer to call {body.waits}"
    if not led:
        return f"{node} goes on" if before == body.live else f"{node} ends"
    return f"{node} → {', '.join(led)}{', and the flow is done' if body.done else ''}"


def step_headline(body: FlowStepped) -> Iterable[str]:
    """What stands behind the event's type in a list of events."""
    waits = "" if body.waits is None else f"waits for call {body.waits}"
    return body.node or "begins", ", ".join(body.live), "done" if body.done else waits


def step_changes(event: JournalEvent) -> Iterable[str]:
    """What a step changed."""
    match event.body:
        case FlowStepped(node=None, live=live):
            yield f"flow begins with {', '.join(live)}"
        case FlowStepped() as body:
            yield f"flow step {body.step}: {body.node} → {', '.join(body.live)}"
            if body.waits is not None:
                yield f"flow waits for the answer to call {body.waits}"
        case _:
            pass
