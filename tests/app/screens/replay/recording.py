"""A recorded session with one of each: blocked, asked, denied, edited nets, shadow, pending."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from interlock.engine.history.model.events import (
    ApprovalDecided,
    ApprovalRequested,
    CallDecided,
    CallResult,
    EventBody,
    JournalEvent,
    MessageAdded,
    ModeChanged,
    NetToggled,
    SessionOpened,
    SessionStatus,
    StepEnded,
)
from interlock.engine.history.model.records import (
    CallRecord,
    NetRecord,
    RuleRecord,
    StepRecord,
    TransitionRecord,
)

SESSION = "release-bot-3fa9c1"
START = datetime(2026, 11, 20, 14, 0, tzinfo=UTC)
_start = TransitionRecord(name="start", inputs=("idle",), outputs=("ready",))


def rule(line: int, text: str) -> RuleRecord:
    return RuleRecord(file="deploy.rules", line=line, text=text)


def sequence(first: str, then: str, line: int) -> NetRecord:
    name = f"require-{first}-before-{then}"
    return NetRecord(
        key=name,
        name=name,
        places=("idle", "ready", "gate"),
        transitions=(
            _start,
            TransitionRecord(
                name=f"do-{first}", inputs=("ready",), outputs=("gate",), tools=(first,), deferred=True
            ),
            TransitionRecord(name=f"again-{first}", inputs=("gate",), outputs=("gate",), tools=(first,)),
            TransitionRecord(name=f"do-{then}", inputs=("gate",), outputs=("ready",), tools=(then,)),
        ),
        initial_marking={"idle": 1, "ready": 0, "gate": 0},
        rule=rule(line, f"require {first} before {then}"),
    )


def approval(tool: str, line: int) -> NetRecord:
    return NetRecord(
        key=f"approve-before-{tool}",
        name=f"approve-before-{tool}",
        places=("idle", "ready"),
        transitions=(
            _start,
            TransitionRecord(
                name="approve", inputs=("ready",), outputs=("ready",), tools=(tool,), manual=True
            ),
        ),
        initial_marking={"idle": 1, "ready": 0},
        rule=rule(line, f"require human-approval before {tool}"),
    )


def limit(tool: str, number: int, line: int) -> NetRecord:
    return NetRecord(
        key=f"limit-{tool}-{number}",
        name=f"limit-{tool}-{number}",
        places=("idle", "ready", "budget"),
        transitions=(
            _start,
            TransitionRecord(
                name=f"do-{tool}", inputs=("ready", "budget"), outputs=("ready",), tools=(tool,)
            ),
        ),
        initial_marking={"idle": 1, "ready": 0, "budget": number},
        rule=rule(line, f"limit {tool} to {number} per session"),
    )


def block(tool: str, line: int) -> NetRecord:
    return NetRecord(
        key=f"block-{tool}",
        name=f"block-{tool}",
        places=("idle", "ready", "locked"),
        transitions=(
            _start,
            TransitionRecord(name=f"do-{tool}", inputs=("locked",), outputs=("ready",), tools=(tool,)),
        ),
        initial_marking={"idle": 1, "ready": 0, "locked": 0},
        rule=rule(line, f"block {tool}"),
    )


NETS = (
    sequence("lint", "test", 3),
    sequence("test", "deploy", 4),
    approval("deploy", 5),
    limit("deploy", 2, 6),
    block("rm", 7),
    block("deploy", 9),
)


def says(call_id: str, tool: str, command: str, text: str | None = None) -> MessageAdded:
    call = CallRecord(call_id=call_id, tool=tool, input={"command": command})
    return MessageAdded(role="assistant", text=text, calls=(call,))


def decided(call_id: str, name: str, command: str, **more: object) -> CallDecided:
    values: dict[str, object] = {
        "call_id": call_id,
        "tool": "bash",
        "input": {"command": command},
        "names": (name, "bash"),
        "outcome": "allow",
        "mode": "enforce",
    }
    return CallDecided.model_validate({**values, **more})


def step(net: str, transition: str, tool: str, deferred: bool = False) -> StepRecord:
    return StepRecord(net=net, transition=transition, tool=tool, deferred=deferred)


LINT = step("require-lint-before-test", "do-lint", "lint", True)
TEST_GATE = step("require-lint-before-test", "do-test", "test")
TEST = step("require-test-before-deploy", "do-test", "test", True)
DEPLOY = (
    step("require-test-before-deploy", "do-deploy", "deploy"),
    step("approve-before-deploy", "approve", "deploy"),
    step("limit-deploy-2", "do-deploy", "deploy"),
)
MARKING = {"idle": 0, "ready": 1}

BODIES: tuple[EventBody, ...] = (
    SessionOpened(
        agent="release-bot",
        model="scripted",
        mode="enforce",
        nets=NETS,
        active=tuple(net.key for net in NETS[:-1]),
        tools=("bash",),
        workdir="project",
        opened_by="maria",
    ),
    SessionStatus(status="running"),
    MessageAdded(role="user", text="Ship the current commit.", by="maria"),
    says("c1", "bash", "./deploy prod", "I will deploy at once."),
    decided(
        "c1",
        "deploy",
        "./deploy prod",
        outcome="block",
        reason="deploy requires a successful call to test first.",
        net="require-test-before-deploy",
        rule=rule(4, "require test before deploy"),
    ),
    StepEnded(finish_reason="tool_calls", input_tokens=420, output_tokens=31),
    says("c2", "bash", "./lint", "The checks come first, then."),
    decided("c2", "lint", "./lint", steps=(LINT,)),
    CallResult(
        call_id="c2", tool="bash", output="src/app.py ok\n", is_error=False, seconds=1.2, fired=(LINT,)
    ),
    says("c3", "bash", "./test"),
    decided("c3", "test", "./test", steps=(TEST_GATE, TEST)),
    CallResult(
        call_id="c3",
        tool="bash",
        output="FAILED test_total: 3 != 4\nFAILED test_price\n2 failed\nsee report\n",
        is_error=True,
        seconds=8.4,
        dropped=(TEST,),
    ),
    says(
        "c4", "bash", "sed -i s/-/+/ src/app.py", "One line is wrong. I fix it and run the checks again."
    ),
    decided("c4", "bash", "sed -i s/-/+/ src/app.py", names=("bash",)),
    CallResult(call_id="c4", tool="bash", output="", is_error=False, seconds=0.1),
    says("c5", "bash", "./lint && ./test"),
    decided("c5", "lint", "./lint && ./test", steps=(LINT, TEST)),
    CallResult(
        call_id="c5", tool="bash", output="all good\n", is_error=False, seconds=9.0, fired=(LINT, TEST)
    ),
    says("c6", "bash", "./deploy prod", "Checks are green, deploying now."),
    ApprovalRequested(
        approval_id="a1",
        call_id="c6",
        tool="deploy",
        called="bash",
        input={"command": "./deploy prod"},
        names=("deploy", "bash"),
        net="approve-before-deploy",
        transition="approve",
        title="Approve: deploy",
        message="Allow 'deploy' via transition 'approve' in net 'approve-before-deploy'?",
        marking=MARKING,
        rule=rule(5, "require human-approval before deploy"),
    ),
    ApprovalDecided(approval_id="a1", call_id="c6", approved=True, by="maria"),
    decided("c6", "deploy", "./deploy prod", steps=DEPLOY, approved_by=("maria",)),
    CallResult(call_id="c6", tool="bash", output="deployed 9f31c02\n", is_error=False, seconds=2.5),
    NetToggled(net="block-deploy", active=True, by="maria", message="Activated 'block-deploy'"),
    says("c7", "bash", "rm -rf build", "I clean up."),
    decided(
        "c7",
        "rm",
        "rm -rf build",
        outcome="block",
        reason="rm is blocked and cannot be called.",
        net="block-rm",
        rule=rule(7, "block rm"),
    ),
    ModeChanged(mode="shadow", by="maria"),
    MessageAdded(role="assistant", text="The commit is live. The build directory stays."),
    SessionStatus(status="done"),
)
BLOCKED = (5, 26)
ASKED = (20,)


def recording(bodies: Sequence[EventBody] = BODIES, session: str = SESSION) -> list[JournalEvent]:
    """The events of `bodies`, five seconds apart."""
    return [
        JournalEvent(
            cursor=seq, session=session, seq=seq, at=START + timedelta(seconds=5 * (seq - 1)), body=body
        )
        for seq, body in enumerate(bodies, start=1)
    ]
