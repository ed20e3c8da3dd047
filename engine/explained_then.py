"""Why a recorded call was decided as it was: what each net said of it at that moment."""

from __future__ import annotations

from .backtest import Trial
from .explained import ExplanationView, NetView
from .gate import GateManager
from .history.events import CallDecided
from .history.state import SessionState
from .net import ToolCall


def explained_then(before: SessionState, decided: CallDecided) -> ExplanationView:
    """What the nets said of a call when it was decided; `before` is the session just before that.

    The call goes by the names that were recorded: maps are not in the record. Raises `NetError` for nets
    that cannot stand as the record says.
    """
    trial = Trial.recorded(before, before.active)
    if trial.names is not None:
        trial.names.current = decided.names
    manager = GateManager(trial.nets, active=trial.active)
    manager.restore(markings={key: net.marking for key, net in before.nets.items()})
    view = ExplanationView.of(manager.explain(ToolCall(decided.call_id, decided.tool, decided.input)))
    return view.model_copy(update={"nets": tuple(_with_rule(net, trial, decided) for net in view.nets)})


def _with_rule(net: NetView, trial: Trial, decided: CallDecided) -> NetView:
    """A verdict with its net's rule, and for the net that blocked with the reason that was given."""
    known = net.verdict == "blocked" and net.net == decided.net and decided.reason is not None
    reason = decided.reason if known else net.reason
    return net.model_copy(update={"rule": trial.rules.get(net.net), "reason": reason})
