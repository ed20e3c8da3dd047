"""What an operator may let pass from now on: how it is chosen, and the sentence that says it."""

from __future__ import annotations

import re
from typing import Literal

from ..engine.gate.types import MOST_USES, GrantScope, GrantTerms
from ..engine.history.state import ApprovalState
from ..engine.lasting import LONGEST, as_typed, lasting, parse_time
from .charset import ours
from .effects import effects_of
from .text import shown

Bound = Literal["session", "uses", "time"]


class TermsError(ValueError):
    """What was typed bounds no grant; the message says what would."""


def not_at_all(request: ApprovalState) -> str | None:
    """Why this request gives no grant; `None` when it may."""
    if request.may_grant:
        return None
    if request.people > 1:
        return f"No grants: {request.people} people must approve each call"
    return "No grants: the rule allows none"


def not_by_names(request: ApprovalState) -> str | None:
    """Why only its exact input can be granted; `None` when all calls with its effects can be."""
    if request.exact_only is None:
        return None
    return f"only exactly this input can be granted: {shown(request.exact_only)}"


def by_names(request: ApprovalState) -> str:
    """The calls that a grant by names is for, as they are chosen."""
    effects = [name for name in effects_of(request) if name != request.called]
    called = shown(request.called)
    return f"{called} {ours('→')} {', '.join(map(shown, effects))}" if effects else f"{called}, any input"


def terms(scope: GrantScope, bound: Bound, typed: str) -> GrantTerms:
    """The terms that were chosen; `typed` is the number of uses or the time. Raises `TermsError`."""
    match bound:
        case "session":
            return GrantTerms(scope)
        case "uses":
            if not re.fullmatch(r"[0-9]{1,7}", typed.strip()) or not 1 <= int(typed) <= MOST_USES:
                raise TermsError(f"How many times? A number from 1 to {MOST_USES:,}")
            return GrantTerms(scope, uses=int(typed))
        case "time":
            seconds = parse_time(typed)
            if seconds is None:
                raise TermsError("For how long? A time such as 30m, 2h or 1d")
            if not 0 < seconds <= LONGEST:
                raise TermsError(f"For how long? At least 1s, at most {as_typed(LONGEST)}")
            return GrantTerms(scope, seconds=float(seconds))


def sentence(request: ApprovalState, chosen: GrantTerms) -> str:
    """What will pass from now on, in words."""
    called = shown(request.called)
    effects = [shown(name) for name in effects_of(request) if name != request.called]
    if chosen.scope == "input":
        which = f"of {called} with exactly this input"
    elif effects:
        which = f"of {called} for {_and(effects)} and nothing else"
    else:
        which = f"of {called}, whatever its input,"
    runs = "This call runs. After it"
    if chosen.uses == 1:
        return f"{runs}, the next call {which} passes without being asked about."
    if chosen.uses is not None:
        return f"{runs}, the next {chosen.uses:,} calls {which} pass without being asked about."
    until = (
        "as long as this session lasts" if chosen.seconds is None else f"for {lasting(chosen.seconds)}"
    )
    return f"{runs}, {until}, every call {which} passes without being asked about."


def _and(names: list[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
