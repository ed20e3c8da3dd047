"""Where the nets of a trial stand at a moment of a record: a fork begins there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import chain, islice

from ..history.events import JournalEvent
from ..history.fold import apply, new_state
from ..history.state import SessionState
from ..net import ToolCall
from .events import Items
from .recorded import BEGINNING, RecordedQuestion, Recording, Start
from .trial import Trial


def fit(state: SessionState, trial: Trial) -> Start:
    """Fit the trial's nets to a session's state.

    Nets of the same key and structure are where the record has them, with what waits for results there;
    all others are at their initial marking, as nets that have seen nothing.
    """
    # The agents it knows of take a tenth of a second to import: only branches and forks pay for it.
    from ..resuming import standing

    found = standing(state, trial.nets, active=trial.active, nets="changed")
    return Start(
        markings=found.markings,
        active=found.active,
        known=frozenset(state.nets),
        pending=tuple(
            (p.step.net, p.step.transition, p.step.tool, _call(state, p.call_id))
            for p in state.pending
            if p.step.net in found.markings
        ),
        since=found.since,
        workdir=state.workdir,
        shell=state.shell,
    )


def _call(state: SessionState, call_id: str) -> ToolCall:
    call = state.calls[call_id]
    return ToolCall(call_id, call.tool, call.input, state.shell)


def fork(
    events: Iterable[JournalEvent], at: int, trial: Trial | Callable[[SessionState], Trial]
) -> Recording:
    """What came after event number `at` of one session, to be judged from there: what if.

    A `trial` may be made from the state that the session has there.
    `events` are all of the session's, those after `at` read only as they are judged. After event 0 it is
    the whole session, as `recordings` gives it. Raises `FoldError` for events that contradict each other.
    """
    left = iter(events)
    first = next(left, None)
    if first is None:
        return Recording("", ())
    left = chain([first], left)
    state, items = new_state(first.session), Items()
    asked: set[str] = set()
    for event in islice(left, at):
        apply(state, event)
        item = items.of(event)
        if isinstance(item, RecordedQuestion):
            asked.add(item.call_id)
    if not isinstance(trial, Trial):
        trial = trial(state)
    start = replace(fit(state, trial), asked=frozenset(asked)) if state.seq else BEGINNING
    return Recording(state.id, (i for i in map(items.of, left) if i is not None), start=start)
