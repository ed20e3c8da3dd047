"""What the journal keeps of a flow's run: its shape, and each step with all that the next one needs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, JsonValue

from .parts import NetRecord, Record


class FlowRecord(Record):
    """A flow's shape: a net with a place for each state it can hold and a transition for each node.

    `name` is the flow's own, `output` the state it ends with. `names` are those that its author gave to
    its nodes, by transition; a node that needs no function has none, and neither has an older record.
    """

    name: str
    net: NetRecord
    output: str
    names: dict[str, str] = Field(default_factory=dict[str, str])


class FlowStepped(Record):
    """A flow was taken on by one step, or stands at its beginning; written before the next step begins.

    `node` is the key of the node that worked, `live` are the keys of the states the flow holds now, in
    their order, `waits` is the call whose answer the next step needs. `output` is all that the flow needs
    to go on from here: `snapshot`, and in `history` what the conversations of its agents gained.
    """

    type: Literal["flow.step"] = "flow.step"
    step: int
    node: str | None = None
    live: tuple[str, ...]
    waits: str | None = None
    done: bool = False
    output: dict[str, JsonValue]
