"""Hand-built nets of the rule shapes, and helpers that record a session's events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from interlock.engine.history.fold.fold import fold
from interlock.engine.history.model.events import (
    ApprovalDecided,
    ApprovalRequested,
    CallDecided,
    CallResult,
    EventBody,
    JournalEvent,
    MessageAdded,
    SessionOpened,
)
from interlock.engine.history.model.records import CallRecord, RuleRecord, StepRecord
from interlock.engine.history.model.state import SessionState
from interlock.engine.net.net import SkillNet, Transition, define_skill_net
from interlock.engine.recording.records import net_record

START = Transition("start", ("idle",), ("ready",))
NOON = datetime(2026, 3, 14, 12, 0, tzinfo=UTC)
RULE = RuleRecord(file="deploy.rules", line=4, text="require test before deploy")


def sequence(first: str, then: str) -> SkillNet:
    """`require first before then`."""
    return define_skill_net(
        f"require-{first}-before-{then}",
        places=("idle", "ready", "gate"),
        transitions=(
            START,
            Transition(f"do-{first}", ("ready",), ("gate",), (first,), deferred=True),
            Transition(f"again-{first}", ("gate",), ("gate",), (first,)),
            Transition(f"do-{then}", ("gate",), ("ready",), (then,)),
        ),
        initial_marking={"idle": 1},
    )


def approval(tool: str) -> SkillNet:
    """`require human-approval before tool`."""
    return define_skill_net(
        f"approve-before-{tool}",
        places=("idle", "ready"),
        transitions=(START, Transition("approve", ("ready",), ("ready",), (tool,), type="manual")),
        initial_marking={"idle": 1},
    )


def limit(tool: str, uses: int) -> SkillNet:
    """`limit tool to uses per session`."""
    return define_skill_net(
        f"limit-{tool}-{uses}",
        places=("idle", "ready", "budget"),
        transitions=(START, Transition(f"do-{tool}", ("ready", "budget"), ("ready",), (tool,))),
        initial_marking={"idle": 1, "budget": uses},
    )


def limit_per(tool: str, uses: int, refill: str) -> SkillNet:
    """`limit tool to uses per refill` (G-55)."""
    return define_skill_net(
        f"limit-{tool}-{uses}-per-{refill}",
        places=("idle", "ready", "budget", "spent"),
        transitions=(
            START,
            Transition(f"do-{tool}", ("ready", "budget"), ("ready", "spent"), (tool,)),
            Transition(
                "refill",
                ("ready",),
                ("ready",),
                (refill,),
                deferred=True,
                transfers=(("spent", "budget"),),
            ),
        ),
        initial_marking={"idle": 1, "budget": uses},
    )


def block(tool: str) -> SkillNet:
    """`block tool`."""
    return define_skill_net(
        f"block-{tool}",
        places=("idle", "ready", "locked"),
        transitions=(START, Transition(f"do-{tool}", ("locked",), ("locked",), (tool,))),
        initial_marking={"idle": 1},
    )


def washing(tool: str) -> SkillNet:
    """A hand-built net: `tool` uses a clean plate, and dirty plates wash themselves."""
    return define_skill_net(
        f"wash-after-{tool}",
        places=("clean", "dirty", "washed"),
        transitions=(
            Transition(f"use-{tool}", ("clean",), ("dirty",), (tool,)),
            Transition("wash", ("dirty",), ("clean", "washed")),
        ),
        initial_marking={"clean": 1},
    )


def registry(*nets: SkillNet) -> dict[str, SkillNet]:
    """Return nets by their names."""
    return {net.name: net for net in nets}


def opening(*nets: SkillNet, active: Iterable[str] | None = None, **fields: object) -> SessionOpened:
    """Return the opening of a session under `nets`, all active unless `active` is given."""
    records = tuple(net_record(net.name, net) for net in nets)
    chosen = tuple(net.name for net in nets) if active is None else tuple(active)
    given = {"agent": "release-bot", "model": "a-model", "mode": "enforce", **fields}
    return SessionOpened.model_validate({**given, "nets": records, "active": chosen})


def asks(*calls: tuple[str, str], text: str | None = None) -> MessageAdded:
    """Return an assistant's message with calls, given as pairs of call id and tool."""
    return MessageAdded(
        role="assistant",
        text=text,
        calls=tuple(CallRecord(call_id=i, tool=t, input={}) for i, t in calls),
    )


def decided(call_id: str, tool: str, *steps: StepRecord, **fields: object) -> CallDecided:
    """Return an allowed call that fires `steps`."""
    given = {"outcome": "allow", "mode": "enforce", "input": {}, "names": (tool,), **fields}
    return CallDecided.model_validate({**given, "call_id": call_id, "tool": tool, "steps": steps})


def result(call_id: str, tool: str, *fired: StepRecord, **fields: object) -> CallResult:
    """Return a successful result that fires `fired`."""
    given = {"output": f"{tool} ok", "is_error": False, "seconds": 1.5, **fields}
    return CallResult.model_validate({**given, "call_id": call_id, "tool": tool, "fired": fired})


def request(approval_id: str, call_id: str, tool: str) -> ApprovalRequested:
    """Return an approval request for a call."""
    return ApprovalRequested(
        approval_id=approval_id,
        call_id=call_id,
        tool=tool,
        called=tool,
        input={"env": "prod"},
        names=(tool,),
        net=f"approve-before-{tool}",
        transition="approve",
        title=f"Approve: {tool}",
        message=f"Allow '{tool}' via transition 'approve' in net 'approve-before-{tool}'?",
        marking={"ready": 1},
        rule=RULE,
    )


def answer(approval_id: str, call_id: str, *, approved: bool = True) -> ApprovalDecided:
    """Return Maria's answer."""
    return ApprovalDecided(approval_id=approval_id, call_id=call_id, approved=approved, by="maria")


def step(net: SkillNet, transition: str, tool: str, *, deferred: bool = False) -> StepRecord:
    """Return a step of a net, referenced by its name."""
    return StepRecord(net=net.name, transition=transition, tool=tool, deferred=deferred)


def recorded(*bodies: EventBody, session: str = "s1") -> list[JournalEvent]:
    """Return events one second apart, numbered from 1."""
    return [
        JournalEvent(cursor=n, session=session, seq=n, at=NOON + timedelta(seconds=n), body=body)
        for n, body in enumerate(bodies, start=1)
    ]


def state_after(*bodies: EventBody) -> SessionState:
    """Return the state after these events of one session."""
    return fold(recorded(*bodies))


def tokens(marking: Mapping[str, int]) -> dict[str, int]:
    """Return the places that hold tokens."""
    return {place: count for place, count in marking.items() if count}
