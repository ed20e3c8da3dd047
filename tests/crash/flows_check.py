"""Checks of runs of flows whose host died; see `flows`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from interlock.engine.history.model.events import ApprovalDecided, ApprovalRequested, CallDecided
from interlock.engine.history.model.records import FlowStepped

from .flows import ASKED_TOOL, STEPS, comes_to

if TYPE_CHECKING:
    from .check import Found


def runs_in(found: Found) -> list[str]:
    """Return the recorded runs."""
    return [session for session, state in found.states.items() if state.kind == "flow"]


def unfinished(found: Found) -> list[str]:
    """Return the runs that have not ended."""
    return [run for run in runs_in(found) if found.states[run].status != "done"]


def waiting(found: Found) -> set[tuple[str, str]]:
    """Return run and call of everything that waits for a person and has no answer."""
    return {
        (run, flow.waits)
        for run in unfinished(found)
        if (flow := found.states[run].flow) is not None
        and flow.waits is not None
        and not found.decisions(run, flow.waits)
        and all(answer.call_id != flow.waits for answer in found.bodies(run, ApprovalDecided))
    }


def not_as_alone(found: Found) -> Iterator[str]:
    """Check that a run takes an uninterrupted run's steps, each recorded once, and has its output."""
    for run in runs_in(found):
        steps = found.bodies(run, FlowStepped)
        if [step.step for step in steps] != list(range(len(steps))):
            yield f"{run}: the recorded steps are {[step.step for step in steps]}"
        if [step.live for step in steps] != STEPS[: len(steps)]:
            yield f"{run}: the states of its steps are not those of a run that nothing interrupts"
        state = found.states[run]
        if state.flow is not None and state.flow.done:
            if len(steps) != len(STEPS):
                yield f"{run}: it has ended after {len(steps) - 1} steps of {len(STEPS) - 1}"
            said = [entry.text for entry in state.transcript if entry.kind == "assistant"]
            if state.status == "done" and said and said[-1] != comes_to(run):
                yield f"{run}: it came to {said[-1]!r}, expected {comes_to(run)!r}"
    yield from _unfounded(found)
    yield from _asked_out_of_turn(found)


def _unfounded(found: Found) -> Iterator[str]:
    """Check that a tool ran after a durable decision, as often as decided; an approved one only once."""
    known = set(runs_in(found))
    times = Counter((m.session, m.call_id, m.tool, m.env) for m in found.ran if m.session in known)
    for (run, call_id, tool, env), count in times.items():
        decided = [
            each
            for each in found.bodies(run, CallDecided)
            if each.outcome == "allow" and each.call_id.partition(".")[2] == call_id
        ]
        fits = [each for each in decided if (each.tool, each.input.get("env")) == (tool, env)]
        if len(fits) < count:
            yield f"{run}: call {call_id} ran {count} times, and {len(fits)} decisions allowed it"
        if tool == ASKED_TOOL and count > 1:
            yield f"{run}: approved call {call_id} ran {count} times"


def _asked_out_of_turn(found: Found) -> Iterator[str]:
    """Check that each open request belongs to the last recorded step, and was not answered."""
    for run in runs_in(found):
        answered: set[str] = set()
        waits: str | None = None
        for event in found.events[run]:
            match event.body:
                case FlowStepped() as step:
                    waits = step.waits
                case ApprovalDecided(approved=True, call_id=call_id):
                    answered.add(call_id)
                case ApprovalRequested(call_id=call_id, wants=wants):
                    if call_id != waits:
                        yield f"{run}: {call_id} is asked before the step that leads to it is recorded"
                    if wants is not None and call_id in answered:
                        yield f"{run}: {call_id} was answered and is asked again"
                case _:
                    pass
