"""Record of a flow's run: the events of a step, and the run as read from a session's record."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from pydantic import JsonValue

from ...flows import FlowSnapshot, Graph, History
from ...flows.build.nodes import Suspend, full_name, outcome_label
from ...history.model.events import (
    ApprovalDecided,
    EventBody,
    JournalEvent,
    SessionOpened,
    SessionResumed,
)
from ...history.model.records import FlowRecord, FlowStepped
from ...recording.records import net_record

ASKED = "?"
"""Prefix of the id of a tool's own request, before the id of its call."""


@dataclass(frozen=True, slots=True)
class FlowAnswer:
    """Operator's input and name; `denied` is the reason if there is no input."""

    filled_in: Mapping[str, JsonValue]
    by: str
    denied: str | None = None


def answer_in(body: EventBody) -> FlowAnswer | None:
    """Return the answer in an event. A denial answers a tool's request: its model continues with it."""
    match body:
        case ApprovalDecided(approved=True, input=dict() as filled_in):
            return FlowAnswer(filled_in, body.by)
        case ApprovalDecided(approved=False) if body.call_id.startswith(ASKED):
            return FlowAnswer({}, body.by, denied=body.reason or "")
        case _:
            return None


@dataclass(frozen=True, slots=True)
class RunRecord:
    """State of a run after its last recorded step.

    `hosts` is the number of hosts that have run it, `waits` the call that its next step needs.
    """

    snapshot: FlowSnapshot
    history: History
    step: int
    waits: str | None
    done: bool
    hosts: int
    answers: Mapping[str, FlowAnswer]

    @property
    def asks(self) -> str | None:
        """The call whose tool asks; the operator's answer is its result."""
        waiting_for = self.waits or ""
        return waiting_for.removeprefix(ASKED) if waiting_for.startswith(ASKED) else None

    @classmethod
    def of(cls, events: Iterable[JournalEvent]) -> RunRecord | None:
        """Return the run in a session's record; `None` if it has none.

        Raises `SnapLoadError` for a snapshot that cannot be read.
        """
        last: FlowStepped | None = None
        entries: list[JsonValue] = []
        answers: dict[str, FlowAnswer] = {}
        hosts = 0
        for event in events:
            match event.body:
                case SessionOpened() | SessionResumed():
                    hosts += 1
                case FlowStepped() as body:
                    last = body
                    entries += cast("list[JsonValue]", body.output.get("history", []))
                case ApprovalDecided() as body if (answer := answer_in(body)) is not None:
                    answers[body.call_id] = answer
                case _:
                    pass
        if last is None:
            return None
        snapshot = FlowSnapshot.load(json.dumps(last.output.get("snapshot")))
        history = History.model_validate({"entries": entries})
        return cls(snapshot, history, last.step, last.waits, last.done, hosts, answers)


def flow_record(name: str, graph: Graph) -> FlowRecord:
    """Return the shape of a flow, for consoles that do not have its code."""
    return FlowRecord(
        name=name,
        net=net_record(name, graph.to_petri_net()),
        output=graph.gives.key,
        names={
            outcome_label(node, number): full_name(node).removeprefix(f"{node.kind} ")
            for node in graph.distinct
            if not isinstance(node, Suspend)
            for number in range(len(node.outcomes))
        },
    )
