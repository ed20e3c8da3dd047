"""Explanation of a recorded decision: the verdict of each net on the call at that moment."""

from __future__ import annotations

from datetime import datetime

from ..core.condition import Surroundings
from ..gate import GateManager
from ..history.model.events import CallDecided
from ..history.model.state import SessionState
from ..net.net import ToolCall
from ..recording.explain import view_of
from ..recording.explanation import ExplanationView, NetView
from ..recording.source_texts import recorded_texts, session_fields
from . import Trial
from .trial import ReadCondition


def explain_recorded_call(
    before: SessionState, decided: CallDecided, at: datetime, conditions: ReadCondition
) -> ExplanationView:
    """Verdicts of the nets on a call when it was decided; `before` is the session just before that.

    The call goes by the names that were recorded: maps are not in the record. `at` is when it was
    recorded, for a gate that did not look at its clock. Raises `NetError` for nets that cannot be put
    where the record says.
    """
    trial = Trial.recorded(before, before.active, conditions=conditions)
    if trial.names is not None:
        trial.names.current = decided.names
    clock = at.timestamp() if decided.clock is None else decided.clock
    around = Surroundings(before.workdir, shell=before.shell, session=session_fields(before))
    manager = GateManager(
        trial.nets, active=trial.active, quote_calls=True, clock=lambda: clock, surroundings=around
    )
    manager.restore(
        markings={key: net.marking for key, net in before.nets.items()},
        since={key: net.since for key, net in before.nets.items()},
    )
    manager.hear_again(recorded_texts(before))
    view = view_of(manager.explain(ToolCall(decided.call_id, decided.tool, decided.input)))
    nets = tuple(_with_rule(net, trial, decided) for net in view.nets)
    recorded = {"unclear": decided.uninspectable, "judged_as": decided.judged_as}
    recorded["off"] = _off(before, decided)
    recorded["shell_fields"] = decided.shell_fields
    return view.model_copy(update={"nets": nets, **recorded})


def _off(before: SessionState, decided: CallDecided) -> str | None:
    """Words for what people had switched off that would have stopped the call, and who did."""
    if decided.outcome == "allow":
        return decided.off_words
    if decided.mode != "shadow":
        return None
    who = "" if before.shadowed is None else f": {', '.join(before.shadowed.people)}"
    return f"shadow mode{who or ', from the start'}"


def _with_rule(net: NetView, trial: Trial, decided: CallDecided) -> NetView:
    """A verdict with its net's rule, and for the net that blocked with the reason that was given."""
    known = net.verdict == "blocked" and net.net == decided.net and decided.reason is not None
    reason = decided.reason if known else net.reason
    return net.model_copy(update={"rule": trial.rules.get(net.net), "reason": reason})
