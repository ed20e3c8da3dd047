"""Explanation of a recorded decision: the verdict of each net on the call at that moment."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from ..core.condition import Surroundings
from ..core.shared_limit import SharedLimit
from ..gate import GateManager, SharedUses
from ..history.model.events import CallDecided
from ..history.model.state import SessionState
from ..net.net import ToolCall
from ..recording.explain import view_of
from ..recording.explanation import ExplanationView, NetView
from ..recording.source_texts import recorded_texts, session_fields, session_hints
from . import Trial
from .trial import ReadCondition


def explain_recorded_call(
    before: SessionState, decided: CallDecided, at: datetime, conditions: ReadCondition
) -> ExplanationView:
    """Verdicts of the nets on a call when it was decided; `before` is the session just before that.

    The call has its recorded names, because maps are not in the record. `at` is when it was recorded, for
    a gate that did not read its clock. Raises `NetError` for nets that cannot be set to the recorded
    state.
    """
    trial = Trial.recorded(before, before.active, conditions=conditions)
    if trial.names is not None:
        trial.names.current = decided.names
    clock = at.timestamp() if decided.clock is None else decided.clock
    around = Surroundings(
        before.workdir,
        shell=before.shell,
        session=session_fields(before),
        hints=session_hints(before),
    )
    manager = GateManager(
        trial.nets,
        active=trial.active,
        quote_calls=True,
        clock=lambda: clock,
        surroundings=around,
        uses=_UsedUp(_used_up(trial, decided, session_fields(before))).of_session(before.id),
    )
    nets = {**before.nets, **before.values}
    manager.restore(
        markings={key: net.marking for key, net in nets.items()},
        since={key: net.since for key, net in nets.items()},
    )
    manager.hear_again(recorded_texts(before))
    view = view_of(manager.explain(ToolCall(decided.call_id, decided.tool, decided.input)))
    judged_nets = tuple(_with_rule(net, trial, decided) for net in view.nets)
    recorded_fields = {"unclear": decided.uninspectable, "judged_as": decided.judged_as}
    recorded_fields["off"] = _off(before, decided)
    recorded_fields["shell_fields"] = decided.shell_fields
    return view.model_copy(update={"nets": judged_nets, **recorded_fields})


class _UsedUp(SharedUses):
    """Uses of other sessions, as far as a decision shows them: none, or all that one counter has."""

    def __init__(self, counter: str | None) -> None:
        super().__init__()
        self._counter = counter

    def left(
        self, counter: str, limit: SharedLimit, most: int, own: int, session: str, now: float
    ) -> int:
        return 0 if counter == self._counter else own


def _used_up(trial: Trial, decided: CallDecided, session: Mapping[str, object]) -> str | None:
    """Counter of the limit over sessions that blocked a call."""
    net = trial.nets.get(decided.net or "") if decided.outcome == "block" else None
    if net is None or net.shared is None:
        return None
    digest = None if net.per_value is None else net.per_value.digest(decided.input)
    return net.shared.counter(session, digest or "")


def _off(before: SessionState, decided: CallDecided) -> str | None:
    """Description of what people had switched off that would have stopped the call, and who did."""
    if decided.outcome == "allow":
        return decided.off_words
    if decided.mode != "shadow":
        return None
    who = "" if before.shadowed is None else f": {', '.join(before.shadowed.people)}"
    return f"shadow mode{who or ', from the start'}"


def _with_rule(net: NetView, trial: Trial, decided: CallDecided) -> NetView:
    """A verdict with its net's rule, and for the net that blocked with the recorded reason."""
    is_recorded_block = net.verdict == "blocked" and net.net == decided.net and decided.reason is not None
    reason = decided.reason if is_recorded_block else net.reason
    return net.model_copy(update={"rule": trial.rules.get(net.net), "reason": reason})
