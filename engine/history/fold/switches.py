"""Switched nets, modes, proposals of such changes and freezes in a session's state; see `fold`."""

from __future__ import annotations

from ..errors import impossible
from ..model.events import (
    ChangeAgreed,
    ChangeDropped,
    ChangeProposed,
    FreezeBegan,
    FreezeLifted,
    JournalEvent,
    ModeChanged,
    NetToggled,
)
from ..model.fast_models import copy_with
from ..model.records import FreezeRecord
from ..model.state import ChangeState, SessionState, SwitchState
from .transcript import say


def toggled(state: SessionState, event: JournalEvent, body: NetToggled) -> None:
    net = state.nets.get(body.net)
    if net is None:
        raise impossible(event, f"the session has no net '{body.net}'")
    if net.active == body.active:
        raise impossible(event, f"net '{body.net}' is {'already' if body.active else 'not'} active")
    state.nets[body.net] = copy_with(net, {"active": body.active})
    if body.active:
        state.active.append(body.net)
        state.off.pop(body.net, None)
    else:
        state.active.remove(body.net)
        state.off[body.net] = _switch(event, body)
    _settle(state, body.change_id)
    for other in [c for c in state.changes.values() if c.net == body.net]:
        # Its proposals have nothing left to agree to.
        del state.changes[other.id]
    say(state, "note", event.at, f"{body.message} {_by(body)}", body.by)


def mode_changed(state: SessionState, event: JournalEvent, body: ModeChanged) -> None:
    state.mode = body.mode
    state.shadowed = _switch(event, body) if body.mode == "shadow" else None
    _settle(state, body.change_id)
    for other in [c for c in state.changes.values() if c.net is None]:
        del state.changes[other.id]
    say(state, "note", event.at, f"mode: {body.mode} {_by(body)}", body.by)


def proposed(state: SessionState, event: JournalEvent, body: ChangeProposed) -> None:
    if body.change_id in state.changes:
        raise impossible(event, f"change '{body.change_id}' is proposed already")
    change = ChangeState(
        id=body.change_id,
        net=body.net,
        by=body.by,
        at=event.at,
        reason=body.reason,
        people=body.people,
        expires=body.expires,
        seconds=body.seconds,
        given=(body.by,) if body.counts else (),
        tokens=(body.token,) if body.counts else (),
        active=body.active,
    )
    state.changes[body.change_id] = change
    say(state, "note", event.at, f"proposed: {change.words} (by {body.by}): {body.reason}", body.by)


def agreed(state: SessionState, event: JournalEvent, body: ChangeAgreed) -> None:
    change = state.changes.get(body.change_id)
    if change is None:
        raise impossible(event, f"no change '{body.change_id}' is proposed")
    update = {"given": (*change.given, body.by), "tokens": (*change.tokens, body.token)}
    state.changes[body.change_id] = copy_with(change, update)
    say(state, "note", event.at, f"agreed to: {change.words} (by {body.by})", body.by)


def dropped(state: SessionState, event: JournalEvent, body: ChangeDropped) -> None:
    change = state.changes.pop(body.change_id, None)
    if change is None:
        raise impossible(event, f"no change '{body.change_id}' is proposed")
    say(state, "note", event.at, f"not done: {change.words}: {body.reason}", body.by)


def frozen(state: SessionState, event: JournalEvent, body: FreezeBegan) -> None:
    if state.frozen is not None:
        raise impossible(event, f"it is frozen already, by {state.frozen.by}")
    state.frozen = FreezeRecord(by=body.by, at=body.since, reason=body.reason)
    say(state, "note", event.at, f"{state.frozen.words}: calls wait", body.by)


def lifted(state: SessionState, event: JournalEvent, body: FreezeLifted) -> None:
    if state.frozen is None:
        raise impossible(event, "it is not frozen")
    state.frozen = None
    why = f": {body.reason}" if body.reason else ""
    say(state, "note", event.at, f"no longer frozen, calls continue (by {body.by}{why})", body.by)


def resumed(state: SessionState, mode: str) -> None:
    """Forget who made the switches that a resumed session does not have any more."""
    state.off = {
        key: off for key, off in state.off.items() if key in state.nets and key not in state.active
    }
    if mode != "shadow":
        state.shadowed = None
    state.changes = {
        key: change
        for key, change in state.changes.items()
        if (mode != "shadow" if change.net is None else _is_open(state, change.net, change.active))
    }


def _is_open(state: SessionState, net: str, active: bool) -> bool:
    """Return whether a net can still be switched as proposed."""
    return net in state.nets and (net in state.active) != active


def _switch(event: JournalEvent, body: NetToggled | ModeChanged) -> SwitchState:
    return SwitchState(by=body.by, others=body.others, at=event.at, reason=body.reason, until=body.until)


def _settle(state: SessionState, change_id: str | None) -> None:
    if change_id is not None:
        state.changes.pop(change_id, None)


def _by(body: NetToggled | ModeChanged) -> str:
    """Return who made a switch and why, as a note for the transcript."""
    who = ", ".join(dict.fromkeys((*body.others, body.by)))
    if body.timed:
        return f"(the time set by {who} is over)"
    return f"(by {who})" if body.reason is None else f"(by {who}: {body.reason})"
