"""Sessions, requests and explanations in which every untrusted text is an attack."""

from __future__ import annotations

from datetime import timedelta

from interlock.engine.history.model.records import RuleRecord
from interlock.engine.history.model.state import ApprovalState, SessionState
from interlock.engine.recording.explanation import ExplanationView, NetView, PlannedCallView, WayView

from ..screens.approval.test_spoofing import hostile
from ..support.queue_scenes import grant, two_people
from ..support.scenes import NOW
from .attacks import ATTACKS

RECORDED = {name: text for name, text in ATTACKS.items() if name != "surrogates"}
"""Lone surrogates are not UTF-8, so they occur in no journal and in no message."""


def session(number: int, text: str) -> tuple[SessionState, ApprovalState]:
    """A session and its waiting request."""
    state, asked = hostile(text)
    state.id = f"{text}{number}"
    rule = RuleRecord(file=text, line=5, text=text)
    waits = two_people()
    record = waits.net.model_copy(update={"key": text, "when": text, "governs": (text,), "rule": rule})
    state.nets[f"two{text}"] = waits.model_copy(update={"net": record})
    state.grants = {text: grant(key=text, tool=text, asked=text, by=text, value={text: text})}
    request = asked.model_copy(
        update={
            "id": f"{text}ap{number}",
            "session": state.id,
            "digest": f"digest-{number}",
            "via": text,
            "note": text,
            "preview": f"--- a/{text}\n+++ b/{text}\n@@ -1 +1 @@\n-{text}\n+{text}",
            "uninspectable": text,
            "people": 3,
            "given": (text,),
            "risk": "high",
            "may_grant": True,
            "expires": NOW + timedelta(seconds=30 + number),
            "since": NOW - timedelta(seconds=number),
        }
    )
    state.approvals = {request.id: request}
    return state, request


def explanation(text: str) -> ExplanationView:
    """The explanation of a call by nets with such names."""
    rule = RuleRecord(file=text, line=3, text=text)
    call = PlannedCallView(names=(text,), approval=True, succeeds=True)
    net = NetView(
        net=text,
        verdict="blocked",
        tool=text,
        asks=False,
        reason=text,
        marking={text: 1},
        rule=rule,
        note=text,
        when=text,
    )
    return ExplanationView(
        tool=text,
        input={text: text},
        names=(text, "bash"),
        outcome="block",
        way=WayView(reachable="yes", calls=(call,), shortest=False),
        nets=(net, net.model_copy(update={"verdict": "gated", "asks": True})),
    )
