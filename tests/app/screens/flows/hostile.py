"""A run of a flow in which every untrusted text is an attack."""

from __future__ import annotations

from interlock.engine.history.model.state import SessionState

from .flows import flow_state, release, sign_off


def attacked(text: str) -> SessionState:
    """A run whose states, nodes, question, schema and suggestions all contain `text`."""
    asked = sign_off(
        title=f"Answer: {text}",
        tool=text,
        called=text,
        message=text,
        input={"prompt": text, text: text},
        wants={
            "type": "object",
            "properties": {
                text: {"type": "string", "description": text, "examples": [text, "fine"]},
                "choose": {"enum": [text, "fine"], "title": text},
                "begun": {"type": "string", "default": text},
                "bounds": {"type": "string", "pattern": text},
                "deep": {"type": "object", "properties": {text: {"type": "integer"}}},
            },
            "required": [text, "choose", "deep"],
        },
    )
    flow = flow_state()
    net = flow.flow.net
    names = {place: f"{place}{text}" for place in net.places}
    moves = tuple(
        t.model_copy(
            update={
                "name": f"{t.name}{text}",
                "inputs": tuple(names[p] for p in t.inputs),
                "outputs": tuple(names[p] for p in t.outputs),
            }
        )
        for t in net.transitions
    )
    drawn = net.model_copy(update={"places": tuple(names.values()), "transitions": moves})
    record = flow.flow.model_copy(update={"name": text, "net": drawn, "output": text})
    live = tuple(names[key] for key in flow.live)
    stands = flow.model_copy(
        update={"flow": record, "live": live, "node": f"Commit{text}", "waits": asked.call_id}
    )
    return release(asked, flow=stands, agent=text)
