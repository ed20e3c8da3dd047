"""Requests and grants become a state: approvers, expiry, and calls allowed without asking."""

from __future__ import annotations

from datetime import timedelta

import pytest

from interlock.engine.history.errors import FoldError
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.model.events import (
    ApprovalExpired,
    ApprovalExtended,
    ApprovalGiven,
    CallDecided,
    GrantGiven,
    GrantRevoked,
    SessionResumed,
)
from interlock.engine.history.model.records import GrantRecord, StepRecord
from interlock.engine.net.net import SkillNet, Transition, define_skill_net
from interlock.engine.recording.records import net_record

from ..support.recording import (
    NOON,
    answer,
    approval,
    decided,
    opening,
    recorded,
    request,
    state_after,
    step,
    tokens,
)

ASK = approval("deploy")
HOUR = 3600.0


def grant_net(key: str, uses: int) -> SkillNet:
    """Return a grant net with the given uses within an hour."""
    return define_skill_net(
        key,
        places=("granted", "used", "ended"),
        transitions=(
            Transition("use", ("granted",), ("used",), ("deploy",)),
            Transition("expire", ("granted",), ("ended",), after=HOUR),
        ),
        initial_marking={"granted": uses},
    )


def grant(key: str = "grant-1", uses: int = 2, asks: str = ASK.name) -> GrantGiven:
    """Return a grant that allows deploys without asking."""
    record = GrantRecord(
        key=key,
        net=net_record(key, grant_net(key, uses)),
        asks=asks,
        asked="deploy",
        tool="deploy",
        names=("deploy",),
        uses=uses,
        since=NOON.timestamp(),
    )
    return GrantGiven(grant=record, by="maria")


def use(key: str = "grant-1") -> StepRecord:
    return StepRecord(net=key, transition="use", tool="deploy")


class TestRequests:
    def test_keeps_risk_approvers_expiry_and_digest(self) -> None:
        """A request keeps its risk, number of approvers, expiry and digest."""
        asked = request("a1", "c1", "deploy").model_copy(
            update={"risk": "high", "people": 2, "expires": NOON, "digest": "d", "may_grant": True}
        )
        open_ = state_after(opening(ASK), asked).approvals["a1"]
        assert (open_.risk, open_.people, open_.expires) == ("high", 2, NOON)
        assert (open_.digest, open_.may_grant, open_.given) == ("d", True, ())

    def test_stays_open_until_all_approvals(self) -> None:
        """A request stays open until all required approvals are given."""
        asked = request("a1", "c1", "deploy").model_copy(update={"people": 3})
        given = [ApprovalGiven(approval_id="a1", call_id="c1", by=name) for name in ("ada", "ben")]
        state = state_after(opening(ASK), asked, *given)
        assert state.approvals["a1"].given == ("ada", "ben")

    def test_keeps_approval_times_in_order(self) -> None:
        """Approval times are those of the events, in the order of the names."""
        asked = request("a1", "c1", "deploy").model_copy(update={"people": 3})
        given = [ApprovalGiven(approval_id="a1", call_id="c1", by=name) for name in ("ada", "ben")]
        events = recorded(opening(ASK), asked, *given)
        assert fold(events).approvals["a1"].given_at == (events[-2].at, events[-1].at)

    @pytest.mark.parametrize("names", [("ada", "ada"), ("ada", "ben")])
    def test_second_approval_by_same_operator_is_refused(self, names: tuple[str, str]) -> None:
        """A second approval by the same operator is refused, and so is the last one as `given`."""
        asked = request("a1", "c1", "deploy").model_copy(update={"people": 2})
        given = [ApprovalGiven(approval_id="a1", call_id="c1", by=name) for name in names]
        with pytest.raises(FoldError):
            state_after(opening(ASK), asked, *given)

    def test_extension_sets_new_deadline(self) -> None:
        """An extended request has the new deadline, or none."""
        asked = request("a1", "c1", "deploy").model_copy(update={"expires": NOON})
        later = NOON + timedelta(minutes=5)
        more = ApprovalExtended(approval_id="a1", call_id="c1", until=later, by="ada")
        assert state_after(opening(ASK), asked, more).approvals["a1"].expires == later
        ever = more.model_copy(update={"until": None})
        assert state_after(opening(ASK), asked, more, ever).approvals["a1"].expires is None

    def test_expired_request_is_not_open(self) -> None:
        """An expired request is no longer open, and its call waits for the gate's decision."""
        gone = ApprovalExpired(approval_id="a1", call_id="c1", reason="nobody decided")
        state = state_after(opening(ASK), request("a1", "c1", "deploy"), gone)
        assert not state.approvals
        assert state.calls["c1"].status == "proposed"

    @pytest.mark.parametrize(
        "event",
        [
            ApprovalGiven(approval_id="a1", call_id="c1", by="ada"),
            ApprovalExtended(approval_id="a1", call_id="c1", until=None, by="ada"),
            ApprovalExpired(approval_id="a1", call_id="c1", reason="x"),
        ],
    )
    def test_event_about_closed_request_is_refused(
        self, event: ApprovalGiven | ApprovalExtended | ApprovalExpired
    ) -> None:
        """An event about a request that is not open is refused."""
        with pytest.raises(FoldError, match="not open"):
            state_after(opening(ASK), event)


class TestGrants:
    def test_tokens_are_its_remaining_uses(self) -> None:
        """A grant is a separate net, whose tokens are the remaining uses."""
        state = state_after(opening(ASK), grant())
        assert tokens(state.grants["grant-1"].net.marking) == {"granted": 2}
        assert state.grants["grant-1"].net.since == {"granted": (NOON.timestamp(),) * 2}
        assert "grant-1" not in state.nets

    def test_allowed_call_uses_a_token(self) -> None:
        """A decision moves a grant's token as well, and the call names the grant."""
        call = decided("c1", "deploy", use(), granted=("grant-1",))
        state = state_after(opening(ASK), grant(), call)
        assert tokens(state.grants["grant-1"].net.marking) == {"granted": 1, "used": 1}
        assert state.calls["c1"].granted == ("grant-1",)
        assert state.grants["grant-1"].net.since == {"granted": (NOON.timestamp(),)}

    def test_use_beyond_the_limit_is_refused(self) -> None:
        """A third use of a grant for two uses is refused."""
        calls = [decided(f"c{n}", "deploy", use()) for n in range(3)]
        with pytest.raises(FoldError, match="not enabled"):
            state_after(opening(ASK), grant(), *calls)

    def test_revoked_grant_stays_listed(self) -> None:
        """A revoked grant stays listed as inactive, with the operator who revoked it."""
        state = state_after(opening(ASK), grant(), GrantRevoked(key="grant-1", by="ben"))
        assert not state.grants["grant-1"].net.active
        assert state.grants["grant-1"].revoked_by == "ben"

    @pytest.mark.parametrize(
        "events",
        [
            [GrantRevoked(key="grant-1", by="ben")],
            [grant(), GrantRevoked(key="grant-1", by="ben"), GrantRevoked(key="grant-1", by="ben")],
            [grant(), grant()],
            [grant(key=ASK.name)],
            [grant(asks="nobody")],
        ],
    )
    def test_impossible_grants_are_refused(self, events: list[GrantGiven | GrantRevoked]) -> None:
        """A duplicate key, an unknown net, and revoking an unknown or revoked grant are refused."""
        with pytest.raises(FoldError):
            state_after(opening(ASK), *events)

    def test_fresh_net_on_resume_ends_its_grants(self) -> None:
        """Resuming the session with a fresh net ends the grants for that net."""
        again = SessionResumed(
            agent="bot", model="m", mode="enforce", nets=(net_record(ASK.name, ASK),), active=(ASK.name,)
        )
        assert not state_after(opening(ASK), grant(), again).grants["grant-1"].net.active
        kept = again.model_copy(update={"nets": ()})
        assert state_after(opening(ASK), grant(), kept).grants["grant-1"].net.active


class TestTime:
    WINDOW = define_skill_net(
        "limit-push-2-per-1h",
        places=("idle", "ready", "budget", "spent"),
        transitions=(
            Transition("start", ("idle",), ("ready",)),
            Transition("do-push", ("ready", "budget"), ("ready", "spent"), ("push",)),
            Transition("recover", ("spent",), ("budget",), after=HOUR),
        ),
        initial_marking={"idle": 1, "budget": 2},
    )

    def push(self, call: str, clock: float | None, recovers: int = 0) -> CallDecided:
        """Return a push at `clock` after so many earlier ones have recovered."""
        back = [step(self.WINDOW, "recover", "")] * recovers
        return decided(call, "push", *back, step(self.WINDOW, "do-push", "push"), clock=clock)

    def test_tokens_are_dated_by_the_gate_clock(self) -> None:
        """Used tokens are dated by the gate's clock; recovered tokens are no longer listed."""
        events = [self.push("c1", 100.0), self.push("c2", 200.0), self.push("c3", 100.0 + HOUR, 1)]
        state = state_after(opening(self.WINDOW), *events)
        net = state.nets[self.WINDOW.name]
        assert tokens(net.marking) == {"ready": 1, "spent": 2}
        assert net.since == {"spent": (200.0, 100.0 + HOUR)}

    def test_tokens_without_a_clock_are_dated_by_event(self) -> None:
        """Tokens of a decision without a clock are dated by its event."""
        call = self.push("c1", None)
        events = recorded(opening(self.WINDOW), call)
        state = state_after(opening(self.WINDOW), call)
        assert state.nets[self.WINDOW.name].since == {"spent": (events[-1].at.timestamp(),)}


def test_last_required_approval_closes_request() -> None:
    """The last required approval closes the request."""
    asked = request("a1", "c1", "deploy").model_copy(update={"people": 2})
    given = ApprovalGiven(approval_id="a1", call_id="c1", by="ada")
    last = answer("a1", "c1").model_copy(update={"others": ("ada",)})
    assert not state_after(opening(ASK), asked, given, last).approvals
