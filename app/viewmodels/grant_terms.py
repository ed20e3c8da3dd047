"""Terms of a grant: parsed from an operator's choices, and described in a sentence."""

from __future__ import annotations

import re
from typing import Literal

from ...engine.core.durations import LONGEST, as_typed, format_duration, parse_time
from ...engine.core.plan import PLAN
from ...engine.gate.types import MOST_USES, GrantScope, GrantTerms
from ...engine.history.model.state import ApprovalState
from ..format.text import name_shown, shown
from ..terminal.charset import to_charset
from .request import effects_of

Bound = Literal["session", "uses", "time"]


class TermsError(ValueError):
    """Typed text that is not a valid bound; the message says what would be."""


def no_grant_reason(request: ApprovalState) -> str | None:
    """Return why no grant can be given with this request; `None` if one can."""
    if request.may_grant:
        return None
    if request.people > 1:
        return f"No grants: {request.people} people must approve each call"
    if request.passkey:
        return "No grants: the rule asks for a passkey, each time"
    if request.called == PLAN:
        return "No grants: each plan is approved as it is"
    return "No grants: the rule allows none"


def exact_only_reason(request: ApprovalState) -> str | None:
    """Return why only this exact input can be granted; `None` if all calls with its effects can be."""
    if request.exact_only is None:
        return None
    return f"only exactly this input can be granted: {shown(request.exact_only)}"


def granted_calls(request: ApprovalState) -> str:
    """Return the calls that a grant by names covers, as shown in the choice."""
    effects = [name for name in effects_of(request) if name != request.called]
    called = name_shown(request.called)
    return (
        f"{called} {to_charset('→')} {', '.join(map(shown, effects))}"
        if effects
        else f"{called}, as it is shown"
    )


def of_subagent(request: ApprovalState) -> bool:
    """Return whether a subagent made the call. A grant for it has to include subagents."""
    return request.via is not None or "/" in request.call_id


def terms(scope: GrantScope, bound: Bound, typed: str, *, subagents: bool = False) -> GrantTerms:
    """Return the chosen terms; `typed` is the number of uses or the time. Raises `TermsError`."""
    match bound:
        case "session":
            return GrantTerms(scope, subagents=subagents)
        case "uses":
            if not re.fullmatch(r"[0-9]{1,7}", typed.strip()) or not 1 <= int(typed) <= MOST_USES:
                raise TermsError(f"How many times? A number from 1 to {MOST_USES:,}")
            return GrantTerms(scope, uses=int(typed), subagents=subagents)
        case "time":
            seconds = parse_time(typed)
            if seconds is None:
                raise TermsError("For how long? A time such as 30m, 2h or 1d")
            if not 0 < seconds <= LONGEST:
                raise TermsError(f"For how long? At least 1s, at most {as_typed(LONGEST)}")
            return GrantTerms(scope, seconds=float(seconds), subagents=subagents)


def sentence(request: ApprovalState, chosen: GrantTerms) -> str:
    """Return a sentence that states which calls will pass from now on."""
    called = name_shown(request.called)
    effects = [name_shown(name) for name in effects_of(request) if name != request.called]
    if chosen.scope == "input":
        which = f"of {called} with exactly this input"
    elif effects:
        verb = "counts" if chosen.uses in (None, 1) else "count"
        which = f"of {called} that {verb} as {_and(effects)} and nothing else"
    else:
        which = f"of {called} with the same values in fields that no map reads"
    if chosen.subagents:
        which += ", also by subagents"
    if chosen.uses == 1:
        return f"Approve this call and the next call {which}."
    if chosen.uses is not None:
        return f"Approve this call and the next {chosen.uses:,} calls {which}."
    period = (
        "for the rest of this session"
        if chosen.seconds is None
        else f"for the next {format_duration(chosen.seconds)}"
    )
    return f"Approve this call and, {period}, every call {which}."


def limits(request: ApprovalState, scope: GrantScope) -> str:
    """Return the differences that a grant covers, and those that need approval again (G-74)."""
    if scope == "input":
        return "A call with another value in any field asks again."
    mapped = any(name != request.called for name in request.names)
    if mapped and request.commands:
        return (
            "Arguments may differ; programs and all other fields must be the same. A call with "
            "variables, files, substitutions, groups, loops, !, & or another program asks again."
        )
    if mapped:
        return "Only fields that a map reads may differ. Another value in any other field asks again."
    return "Where no map reads a field, another value in it asks again."


def _and(names: list[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
