"""The digest that an answer is bound to: a change of any part changes the digest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from interlock.engine.approvals.digests import digest_of
from interlock.engine.gate import ApprovalRequest, GateManager
from interlock.engine.history.redaction.redaction import Redaction
from interlock.engine.net.net import ToolCall
from interlock.rules import compile_rules

NETS = compile_rules("require human-approval before deploy\nblock rm").registry
OTHER = compile_rules('require human-approval before deploy when input.env = "prod"\nblock rm').registry
ASKS = "approve-before-deploy"
INPUT: dict[str, Any] = {"env": "prod", "password": "first-secret", "note": "a"}


def request(**fields: Any) -> ApprovalRequest:
    net = NETS[ASKS]
    asks = next(t for t in net.transitions if t.type == "manual")
    call = ToolCall("c1", "deploy", INPUT)
    given: dict[str, Any] = {
        "call": call,
        "net": ASKS,
        "skill_net": net,
        "transition": asks,
        "tool": "deploy",
        "names": ("deploy",),
        "marking": {"ready": 1},
    }
    return ApprovalRequest(**{**given, **fields})


def digest(
    *,
    session: str = "s1",
    switched: str | None = None,
    mode: Any = "enforce",
    salt: str = "5a17",
    **fields: Any,
) -> str:
    manager = GateManager(NETS, mode=mode)
    if switched is not None:
        assert manager.remove_net(switched).ok
    return digest_of(session, manager, request(**fields), salt)


class TestDigest:
    def test_same_request_has_same_digest(self) -> None:
        """The same request has the same digest."""
        assert digest() == digest()

    def test_covers_masked_text(self) -> None:
        """Two inputs that look the same when masked have different digests."""
        other = {**INPUT, "password": "another-pass"}
        assert Redaction().fields(other) == Redaction().fields(INPUT)
        assert digest(call=ToolCall("c1", "deploy", other)) != digest()

    @pytest.mark.parametrize(
        "fields",
        [
            {"session": "s2"},
            {"call": ToolCall("c2", "deploy", INPUT)},
            {"call": ToolCall("c1", "ship", INPUT)},
            {"call": ToolCall("c1", "deploy", {**INPUT, "note": "b"})},
            {"names": ("deploy", "deploy-prod")},
            {"transition": NETS[ASKS].transitions[0]},
            {"net": "other"},
            {"skill_net": OTHER[ASKS]},
            {"skill_net": replace(NETS[ASKS], name="other")},
            {"switched": "block-rm"},
            {"mode": "shadow"},
            {"salt": "5a18"},
        ],
        ids=lambda fields: next(iter(fields)),
    )
    def test_differs_with_each_part(self, fields: dict[str, Any]) -> None:
        """Session, call, input, names, transition, rule, active nets and mode each change the digest."""
        assert digest(**fields) != digest()
