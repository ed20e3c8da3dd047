"""Requests of every kind, grants and timed nets, for tests of the queue."""

from __future__ import annotations

from datetime import timedelta

from interlock.engine.history.model.records import GrantRecord, NetRecord, TransitionRecord
from interlock.engine.history.model.state import ApprovalState, GrantState, NetState, SessionState

from .scenes import NOW, START, before, deploy_request, net, release_bot, rule, step


def asks(number: int, **more: object) -> ApprovalState:
    """Return request `q1`, `q2`, … of release-bot, each one minute older."""
    return deploy_request(
        **{
            "id": f"q{number}",
            "call_id": f"c{number}",
            "since": before(60 * number),
            "digest": f"digest-{number}",
            "may_grant": True,
            "input": {"command": f"./deploy --env stage-{number}"},
            **more,
        }
    )


def asking(*requests: ApprovalState) -> SessionState:
    """Return a release-bot with only these requests."""
    state = release_bot(waiting=False)
    state.approvals = {request.id: request for request in requests}
    state.status = "waiting" if requests else "running"
    return state


def several() -> SessionState:
    """Return requests: one of high risk for two approvers, one uninspectable, one urgent of low risk."""
    return asking(
        asks(
            1,
            risk="high",
            expires=NOW + timedelta(seconds=858),
            people=2,
            given=("ben",),
            given_at=(before(100),),
        ),
        asks(
            2,
            tool="git push --force",
            names=("git push --force", "git push", "bash"),
            input={"command": "git push --force origin main"},
            uninspectable="it sources a file",
        ),
        asks(
            3,
            tool="migrate",
            called="migrate",
            names=("migrate",),
            input={"env": "prod", "table": "orders"},
            risk="low",
            expires=NOW + timedelta(seconds=41),
        ),
    )


def two_people() -> NetState:
    """Return the net of `require 2 human-approvals before deploy`, with a condition."""
    made = net(
        "approve-before-deploy",
        "idle ready approval",
        (
            START,
            step("approve", "ready+approval+approval", "ready", "deploy"),
            step("person", "ready", "ready+approval", "deploy", manual=True, partial=True),
        ),
        {"ready": 1},
        written=rule(5, 'require 2 human-approvals before deploy when input.env = "prod"'),
    )
    record = made.net.model_copy(update={"when": 'input.env = "prod"', "governs": ("deploy",)})
    return made.model_copy(update={"net": record})


def sliding(left: int, *seconds_ago: float) -> NetState:
    """Return `limit push to 3 per 1h` with `left` tokens; the others were used `seconds_ago`."""
    made = net(
        "limit-push-3-per-1h",
        "idle ready budget spent",
        (
            START,
            step("do-push", "ready+budget", "ready+spent", "push"),
            TransitionRecord(name="recover", inputs=("spent",), outputs=("budget",), after=3600.0),
        ),
        {"ready": 1, "budget": left, "spent": len(seconds_ago)},
        initial={"idle": 1, "budget": 3},
        written=rule(6, "limit push to 3 per 1h"),
    )
    spent = tuple(NOW.timestamp() - ago for ago in sorted(seconds_ago, reverse=True))
    return made.model_copy(update={"since": {"spent": spent}})


def grant(
    *,
    key: str = "grant-1",
    tool: str = "bash",
    asked: str = "deploy",
    by: str = "maria",
    uses: int | None = 3,
    used: int = 1,
    seconds: float | None = 1800.0,
    ago: float = 1080,
    revoked_by: str | None = None,
    value: dict[str, object] | None = None,
    plan: str | None = None,
) -> GrantState:
    """Return a grant given some time ago, optionally by a plan."""
    spends = "granted" if uses is None else "used"
    transitions = [
        TransitionRecord(name="use", inputs=("granted",), outputs=(spends,), tools=(asked,)),
    ]
    if seconds is not None:
        transitions.append(
            TransitionRecord(name="expire", inputs=("granted",), outputs=("ended",), after=seconds)
        )
    start = {"granted": uses or 1, "used": 0, "ended": 0}
    record = NetRecord(
        key=key,
        name=key,
        places=("granted", "used", "ended"),
        transitions=tuple(transitions),
        initial_marking=start,
    )
    since = NOW.timestamp() - ago
    left = 1 if uses is None else uses - used
    return GrantState.model_validate(
        {
            "record": GrantRecord(
                key=key,
                net=record,
                asks="approve-before-deploy",
                asked=asked,
                tool=tool,
                names=(asked, tool),
                exact=value is not None and plan is None,
                plan=plan,
                uses=uses,
                seconds=seconds,
                since=since,
            ),
            "input": value,
            "net": NetState(
                net=record,
                active=revoked_by is None,
                marking={"granted": left, "used": used, "ended": 0},
                since={"granted": (since,) * left} if seconds is not None else {},
            ),
            "by": by,
            "at": before(ago),
            "revoked_by": revoked_by,
        }
    )
