"""A release flow at one moment: its graph, its live states, and the request of the waiting step."""

from __future__ import annotations

from enum import Enum
from typing import Literal

from pydantic import BaseModel, Field

from interlock.engine.flows import Context, Flow, FlowBuilder
from interlock.engine.history.model.state import (
    ApprovalState,
    CallState,
    FlowState,
    SessionState,
    TranscriptEntry,
)
from interlock.engine.sessions.flow.record import flow_record

from ...support.scenes import before, entry

SESSION = "Release-5c2e"


class Commit(BaseModel):
    sha: str


class Notes(BaseModel):
    text: str


class Place(BaseModel):
    city: str
    zone: int | None = None


class Level(Enum):
    LOW = "low"
    HIGH = "high"


class SignOff(BaseModel):
    """The answer of the approver who signs."""

    by: str = Field(description="Your name", examples=["Ada", "Ben"])
    severity: int = Field(default=1, ge=1, le=5)
    ratio: float | None = None
    approved: bool
    kind: Literal["major", "minor"]
    level: Level = Level.LOW
    place: Place
    other: Place | None = None
    tags: list[str] = []


class Published(BaseModel):
    text: str


async def write(commit: Commit, ctx: Context) -> Notes:
    return Notes(text=commit.sha)


async def publish(signed: SignOff, ctx: Context) -> Published:
    return Published(text=signed.by)


class Release(Flow[Commit, Published]):
    """Write, sign, publish."""

    @classmethod
    def build(cls, g: FlowBuilder) -> FlowBuilder:
        return g.work(write).suspend(Notes, SignOff).work(publish)


def flow_state(**more: object) -> FlowState:
    record = flow_record("Release", Release.graph())
    at = {"step": 2, "node": "Commit", "live": ("Notes",), "waits": "Notes#2"}
    return FlowState.model_validate({"flow": record, **at, **more})


def sign_off(**more: object) -> ApprovalState:
    """The request of the waiting step."""
    return ApprovalState.model_validate(
        {
            "id": "ap-flow",
            "session": SESSION,
            "agent": "Release",
            "call_id": "Notes#2",
            "since": before(42),
            "tool": "Notes",
            "called": "Notes",
            "input": {"text": "Faster cart.\nFewer errors.", "commit": "9f31c02"},
            "names": ("Notes",),
            "net": "",
            "transition": "answer",
            "title": "Answer: Notes",
            "message": "Are these notes good enough to publish?",
            "marking": {},
            "digest": "shown",
            "wants": SignOff.model_json_schema(),
            **more,
        }
    )


def release(request: ApprovalState | None = None, **more: object) -> SessionState:
    """A run of the flow that waits for an answer."""
    asked = sign_off() if request is None else request
    call = CallState(
        call_id=asked.call_id, tool=asked.tool, input=asked.input, at=before(42), status="waiting"
    )
    return SessionState.model_validate(
        {
            "id": SESSION,
            "seq": 9,
            "agent": "Release",
            "status": "waiting",
            "phase": "running",
            "kind": "flow",
            "opened": before(120),
            "updated": before(42),
            "calls": {call.call_id: call},
            "approvals": {asked.id: asked},
            "flow": flow_state(),
            "transcript": [
                entry("note", "Commit → Notes", 50),
                TranscriptEntry(at=before(42), kind="call", call=call),
            ],
            **more,
        }
    )
