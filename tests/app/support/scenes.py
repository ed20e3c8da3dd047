"""Session states at one moment, for tests of what the console shows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from interlock.app.config.rules_compiler import redaction
from interlock.engine.history.model.records import NetRecord, RuleRecord, StepRecord, TransitionRecord
from interlock.engine.history.model.state import (
    ApprovalState,
    CallState,
    NetState,
    PendingState,
    SessionState,
    TranscriptEntry,
)

NOW = datetime(2026, 11, 20, 14, 2, 10, tzinfo=UTC)
FAILURE = (
    "test_add ... ok",
    "test_total ... FAIL",
    "  expected 12, got 11",
    "  in cart.py:14",
    "1 of 2 failed",
    "exit code 1",
)
START = TransitionRecord(name="start", inputs=("idle",), outputs=("ready",))


def before(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def rule(line: int, text: str) -> RuleRecord:
    return RuleRecord(file="deploy.rules", line=line, text=text)


def step(name: str, inputs: str, outputs: str, tool: str, **traits: bool) -> TransitionRecord:
    return TransitionRecord(
        name=name,
        inputs=tuple(inputs.split("+")),
        outputs=tuple(outputs.split("+")),
        tools=(tool,),
        **traits,
    )


def net(
    name: str,
    places: str,
    transitions: tuple[TransitionRecord, ...],
    marking: dict[str, int],
    *,
    written: RuleRecord | None = None,
    active: bool = True,
    initial: dict[str, int] | None = None,
) -> NetState:
    names = tuple(places.split())
    return NetState(
        net=NetRecord(
            key=name,
            name=name,
            places=names,
            transitions=transitions,
            initial_marking={**dict.fromkeys(names, 0), **(initial or {"idle": 1})},
            rule=written,
        ),
        active=active,
        marking={**dict.fromkeys(names, 0), **marking},
    )


def require(a: str, b: str, line: int, place: str, *, active: bool = True) -> NetState:
    return net(
        f"require-{a}-before-{b}",
        "idle ready gate",
        (
            START,
            step(f"do-{a}", "ready", "gate", a, deferred=True),
            step(f"again-{a}", "gate", "gate", a),
            step(f"do-{b}", "gate", "ready", b),
        ),
        {place: 1},
        written=rule(line, f"require {a} before {b}"),
        active=active,
    )


def approve(tool: str, line: int) -> NetState:
    return net(
        f"approve-before-{tool}",
        "idle ready",
        (START, step("approve", "ready", "ready", tool, manual=True)),
        {"ready": 1},
        written=rule(line, f"require human-approval before {tool}"),
    )


def limit(tool: str, number: int, left: int, line: int) -> NetState:
    return net(
        f"limit-{tool}-{number}",
        "idle ready budget",
        (START, step(f"do-{tool}", "ready+budget", "ready", tool)),
        {"ready": 1, "budget": left},
        written=rule(line, f"limit {tool} to {number} per session"),
        initial={"idle": 1, "budget": number},
    )


def block(tool: str, line: int) -> NetState:
    return net(
        f"block-{tool}",
        "idle ready locked",
        (START, step(f"do-{tool}", "locked", "locked", tool)),
        {"ready": 1},
        written=rule(line, f"block {tool}"),
    )


def call(
    call_id: str, name: str, command: str, status: str, seconds_ago: float, **more: object
) -> CallState:
    return CallState.model_validate(
        {
            "call_id": call_id,
            "tool": "bash",
            "input": {"command": command},
            "at": before(seconds_ago),
            "status": status,
            "names": (name, "bash"),
            "outcome": "allow",
            **more,
        }
    )


def entry(kind: str, text: str, seconds_ago: float, by: str | None = None) -> TranscriptEntry:
    return TranscriptEntry.model_validate(
        {"at": before(seconds_ago), "kind": kind, "text": text, "by": by}
    )


def deploy_request(**more: object) -> ApprovalState:
    """Return a request as a hub shows it: masked, with the commands it runs."""
    asked = ApprovalState.model_validate(
        {
            "id": "ap1",
            "session": "release-bot-1f3a",
            "agent": "release-bot",
            "call_id": "c9",
            "since": before(42),
            "tool": "deploy",
            "called": "bash",
            "input": {"command": "./deploy --env prod --commit 9f31c02"},
            "names": ("deploy", "bash"),
            "net": "approve-before-deploy",
            "transition": "approve",
            "title": "Approve: deploy",
            "message": "Allow 'deploy' via transition 'approve' in net 'approve-before-deploy'?",
            "marking": {"idle": 0, "ready": 1},
            "rule": rule(5, "require human-approval before deploy"),
            "may_grant": True,
            **more,
        }
    )
    return asked if {"runs", "hidden"} & more.keys() else redaction().request(asked)


def release_bot(*, waiting: bool = True) -> SessionState:
    """Return a session that was blocked, ran lint, fixed a test, and requests a deploy."""
    calls = [
        call(
            "c1",
            "deploy",
            "./deploy --env prod",
            "blocked",
            190,
            outcome="block",
            reason="deploy requires a successful call to test first.",
            net="require-test-before-deploy",
            rule=rule(4, "require test before deploy"),
        ),
        call("c2", "lint", "./lint", "done", 160, output="3 files checked\nno findings\n", seconds=1.2),
        call(
            "c3",
            "test",
            "./test",
            "failed",
            140,
            output="\n".join(FAILURE),
            seconds=8.4,
        ),
        call(
            "c5", "bash", "sed -i 's/range(n)/range(n + 1)/' cart.py", "done", 120, output="", seconds=0.1
        ),
        call("c6", "test", "./test", "done", 70, output="2 of 2 passed\n", seconds=8.1),
    ]
    transcript = [
        entry("user", "Ship the current commit to production.", 200, by="maria"),
        entry("assistant", "I will deploy right away.", 195),
        TranscriptEntry(at=before(190), kind="call", call=calls[0]),
        entry("assistant", "Tests have to pass first. I will run the checks.", 165),
        TranscriptEntry(at=before(160), kind="call", call=calls[1]),
        TranscriptEntry(at=before(140), kind="call", call=calls[2]),
        entry(
            "assistant", "The loop in cart.py stops one short. I will fix that line and test again.", 125
        ),
        TranscriptEntry(at=before(120), kind="call", call=calls[3]),
        TranscriptEntry(at=before(70), kind="call", call=calls[4]),
        entry("assistant", "Checks are green, deploying now.", 50),
    ]
    state = SessionState(
        id="release-bot-1f3a",
        seq=40,
        agent="release-bot",
        model="scripted",
        status="running",
        opened=before(200),
        updated=before(42),
        workdir="~/projects/shop",
        tools=("bash",),
        calls={c.call_id: c for c in calls},
        transcript=transcript,
    )
    for each in (
        require("lint", "test", 3, "gate"),
        require("test", "deploy", 4, "gate"),
        approve("deploy", 5),
        limit("deploy", 2, 2, 6),
        block("rm", 7),
        require("freeze", "deploy", 9, "ready", active=False),
    ):
        state.nets[each.key] = each
        if each.active:
            state.active.append(each.key)
    if waiting:
        asking = call("c9", "deploy", "./deploy --env prod --commit 9f31c02", "waiting", 42, outcome=None)
        state.calls["c9"] = asking
        state.transcript.append(TranscriptEntry(at=before(42), kind="call", call=asking))
        state.status = "waiting"
        state.approvals["ap1"] = deploy_request()
    return state


def docs_writer() -> SessionState:
    """Return a session with a running tool and a pending deferred transition."""
    running = call("d4", "test", "make check", "running", 8)
    state = SessionState(
        id="docs-writer-77c0",
        seq=12,
        agent="docs-writer",
        model="openai/gpt-4o-mini",
        status="running",
        opened=before(90),
        tools=("bash",),
        calls={"d4": running},
        transcript=[
            entry("user", "Check the handbook's examples.", 90, by="jo"),
            entry("assistant", "Running all of them.", 10),
            TranscriptEntry(at=before(8), kind="call", call=running),
        ],
    )
    sequence = require("test", "deploy", 4, "ready")
    state.nets[sequence.key] = sequence
    state.active.append(sequence.key)
    state.pending.append(
        PendingState(
            call_id="d4",
            since=before(8),
            step=StepRecord(net=sequence.key, transition="do-test", tool="test", deferred=True),
        )
    )
    return state


def nightly_sync() -> SessionState:
    """Return a session in shadow mode."""
    return SessionState(
        id="nightly-sync-02",
        agent="nightly-sync",
        model="scripted",
        mode="shadow",
        status="running",
        opened=before(600),
        transcript=[entry("user", "Sync the mirrors.", 600)],
    )


def cleanup() -> SessionState:
    """Return a session that has ended."""
    return SessionState(
        id="cleanup-9", agent="cleanup", model="scripted", status="done", opened=before(3000)
    )
