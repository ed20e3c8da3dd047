"""A decision for which nobody was asked, as the journal keeps it: all of it is known to be valid.

`records.decision_record` says the same of any decision, in four times the time.
"""

from __future__ import annotations

from functools import lru_cache

from .gate.types import GateDecision
from .history.events import CallDecided
from .history.parts import StepRecord
from .history.quick import updated
from .own_json import own_input
from .records import rule_record

_DECIDED = CallDecided(call_id="", tool="", input={}, names=(), outcome="block", mode="enforce")


def decided_record(decision: GateDecision) -> CallDecided:
    """Of a call as the agent made it. Raises `ValueError` for an input that JSON cannot hold."""
    call = decision.call
    fields = {
        "call_id": call.tool_call_id,
        "tool": call.tool_name,
        "input": own_input(call.input),
        "names": decision.names,
        "outcome": decision.outcome,
        "mode": decision.mode,
        "reason": decision.reason,
        "net": decision.net,
        "rule": rule_record(decision.rule),
        "steps": tuple(
            [_step(s.net, s.transition.name, s.tool, s.transition.deferred) for s in decision.steps]
        ),
        "granted": decision.granted,
        "clock": decision.clock,
        "uninspectable": decision.unclear,
        "judged_as": decision.judged_as,
    }
    return updated(_DECIDED, fields)


@lru_cache(maxsize=4096)
def _step(net: str, transition: str, tool: str, deferred: bool) -> StepRecord:
    return StepRecord(net=net, transition=transition, tool=tool, deferred=deferred)
