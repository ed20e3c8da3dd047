"""Resumption of a recorded session: the markings of its nets, and whether its new rules are looser.

Pure: from a fold and a registry to the state that continues. A mismatch is an error, so that no session
continues under fewer rules than its record says.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Literal, TypeAlias

from ..core.approvers import KEYED, are_as_strict
from ..core.rule import approvers_of, people_to_loosen, restricted
from ..core.sanitize import visible
from ..core.value_key import split_key
from ..gate.name_changes import takes_from
from ..gate.types import Mode
from ..history.fold.event_text import dollars
from ..history.fold.fold import FoldError, fold
from ..history.fold.markings import skill_net
from ..history.model.events import (
    CallDecided,
    CallResult,
    JournalEvent,
)
from ..history.model.records import NetRecord
from ..history.model.state import PendingState, SessionState
from ..net.net import CallNames, KnowsMaps, NameMaps, SkillNet
from .records import net_record

Nets: TypeAlias = Literal["recorded", "changed"]
"""Nets under which a session may continue: only those it was recorded under, or others too."""


class ResumeError(ValueError):
    """A recorded session cannot continue as requested; the message says what does not match and what to
    do.

    `missing` are recorded nets that are not given, `changed` those with another structure, `forgetful`
    those whose own notes are not in the record. `unexplained` is true if a reason is required.
    """

    def __init__(
        self,
        text: str,
        *,
        missing: Sequence[str] = (),
        changed: Sequence[str] = (),
        forgetful: Sequence[str] = (),
        unexplained: bool = False,
    ) -> None:
        super().__init__(text)
        self.unexplained = unexplained
        self.missing = tuple(missing)
        self.changed = tuple(changed)
        self.forgetful = tuple(forgetful)


class BranchError(ResumeError):
    """A session cannot be branched there; `nearest` are the closest event numbers where it can."""

    def __init__(self, text: str, *, nearest: Sequence[int] = ()) -> None:
        super().__init__(text)
        self.nearest = tuple(nearest)


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """Markings and activation of a registry's nets when a recorded session continues.

    `markings` are those of nets that keep their recorded ones. `fresh` nets start from their initial
    markings, `dropped` ones are gone, and `forgot` ones continue without their own notes. `active` is in
    order of activation. `since` has the arrival times of timed tokens in the nets that continue. `values`
    are the markings of nets of single values, if their nets per value continue.
    """

    markings: dict[str, dict[str, int]]
    fresh: tuple[NetRecord, ...]
    dropped: tuple[str, ...]
    forgot: tuple[str, ...]
    active: tuple[str, ...]
    since: dict[str, dict[str, tuple[float, ...]]] = field(
        default_factory=dict[str, dict[str, tuple[float, ...]]]
    )
    values: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])

    @property
    def every_marking(self) -> dict[str, dict[str, int]]:
        """Markings of all nets that continue, including nets of single values."""
        return {**self.markings, **self.values}

    def keeps(self, pending: PendingState) -> bool:
        """Return whether the net of a pending step continues."""
        return split_key(pending.step.net)[0] in self.markings


def folded(events: Sequence[JournalEvent]) -> SessionState:
    """The state after `events`. Raises `ResumeError` if they contradict each other."""
    try:
        return fold(events)
    except FoldError as error:
        raise ResumeError(
            f"The session cannot continue because its record is inconsistent: {error}. "
            "Restore a backup of the journal."
        ) from error


def latest_time(events: Sequence[JournalEvent]) -> float:
    """Latest time in a record, in seconds since 1970, even if the clock was set back later."""
    times = (event.at.timestamp() for event in events)
    clocks = (event.body.clock for event in events if isinstance(event.body, CallDecided | CallResult))
    return max((*times, *(clock for clock in clocks if clock is not None)), default=-inf)


def standing(
    state: SessionState, registry: Mapping[str, SkillNet], *, active: Sequence[str] | None, nets: Nets
) -> ResumePoint:
    """Match `registry` with the recorded nets (G-63).

    A net with the same key and structure gets its recorded marking. With `nets="changed"` other nets
    start fresh and missing ones are dropped. Otherwise both raise `ResumeError`, and so does a net whose
    hook for results keeps notes, because no record has them. Nets that the record does not have are
    added, active unless `active` says otherwise. The maps from calls to names are not in the record, so
    they are not compared.
    """
    records = {key: net_record(key, net) for key, net in registry.items()}
    missing = [key for key in state.nets if key not in records]
    changed = {
        key: different
        for key, net in state.nets.items()
        if key in records and (different := _differences(net.net, records[key]))
    }
    unchanged = [key for key in state.nets if key in records and key not in changed]
    values = {key: value for key, value in state.values.items() if value.net in unchanged}
    forgetful = [key for key in unchanged if registry[key].on_deferred_result is not None]
    if nets == "recorded" and (missing or changed or forgetful):
        text = _misfit(state.id, missing, changed, forgetful)
        raise ResumeError(text, missing=missing, changed=tuple(changed), forgetful=forgetful)
    if active is None:
        added = [key for key in records if key not in state.nets]
        active = [*(key for key in state.active if key in records), *added]
    return ResumePoint(
        markings={key: dict(state.nets[key].marking) for key in unchanged},
        values={key: dict(value.marking) for key, value in values.items()},
        fresh=tuple(record for key, record in records.items() if key not in unchanged),
        dropped=tuple(missing),
        forgot=tuple(forgetful),
        active=tuple(active),
        since={
            **{key: state.nets[key].since for key in unchanged},
            **{key: value.since for key, value in values.items()},
        },
    )


def guarded(record: NetRecord) -> int:
    """Number of other people needed to turn a recorded net off (G-67).

    In old records, which lack the number, it is derived from the rule's text.
    """
    if record.people or record.rule is None:
        return record.people
    found = _GUARDED.search(record.rule.text)
    return 0 if found is None else int(found["people"] or 1)


_GUARDED = re.compile(
    r"\brequire\s+(?P<people>[2-9]|[1-9]\d+)\s+human-approvals|\bno\s+grants\b|\brisk\s+high\b"
    r"|\bwith\s+passkey\b"
)


def guarded_nets(state: SessionState) -> dict[str, int]:
    """Recorded nets that no single person can remove, and how many other people each requires.

    Nets that are off for a limited time are included, because they come back.
    """
    timed = _timed(state)
    nets = {key: net.net for key, net in state.nets.items() if net.active or key in timed}
    return {key: people for key, record in nets.items() if (people := guarded(record))}


def check_no_looser(
    state: SessionState, fit: ResumePoint, registry: Mapping[str, SkillNet], mode: Mode
) -> None:
    """Raise `ResumeError` if the session would continue without a rule that requires several people
    (G-67).

    Under the record's own nets and mode it may always continue. Enforce mode is always allowed, and so
    are additional nets, unless they take calls from guarded nets (G-66).
    """
    guarded = guarded_nets(state)
    found = [text for key in guarded if (text := _loosened(key, state, fit, registry)) is not None]
    found += _competition(state, fit, registry, guarded)
    if mode == "shadow" and _enforced(state) and guarded:
        found.append("shadow mode instead of enforce mode")
    if not found:
        return
    keyed = [
        key
        for key in guarded
        if (approvers := state.nets[key].net.approvers) is not None and approvers.passkey
    ]
    if keyed:
        raise ResumeError(
            f"Session '{visible(state.id)}' cannot continue with fewer restrictions than recorded: "
            f"{'; '.join(found)}. {visible(', '.join(keyed))}: {KEYED}."
        )
    most = max(guarded.values())
    others = "1 other person has" if most == 1 else f"{most} other people have"
    raise ResumeError(
        f"Session '{visible(state.id)}' cannot be resumed by one person alone with fewer restrictions "
        f"than recorded: {'; '.join(found)}. Resume it under its recorded rules and mode, and turn them "
        f"off there (keys `n` and `m`, with a reason). That takes effect once {others} confirmed it, "
        "each in a console under their own name (`interlock token new NAME`). Then it can be resumed "
        "in this way. A new session can have other rules."
    )


def with_required(
    fit: ResumePoint, state: SessionState, registry: Mapping[str, SkillNet], required: Collection[str]
) -> ResumePoint:
    """`fit` with the nets that the host requires active as well, except those that people switched off.

    A net counts as switched off only if it was active, is the same net, and requires no more people now.
    """
    off = {key for key in state.off if key in fit.markings and _agreed(key, state, registry)}
    added = (key for key in required if key not in off and key not in fit.active)
    return replace(fit, active=(*fit.active, *added))


def _agreed(key: str, state: SessionState, registry: Mapping[str, SkillNet]) -> bool:
    """Return whether a recorded net required at least as many people to loosen as the host's net."""
    was, rule = state.nets.get(key), registry[key].rule
    return (
        was is not None
        and guarded(was.net) >= people_to_loosen(rule)
        and are_as_strict(was.net.approvers, approvers_of(rule))
    )


def check_required(
    state: SessionState, registry: Mapping[str, SkillNet], mode: Mode, required: Collection[str]
) -> None:
    """Raise `ResumeError` if nets of the host's own would block nothing without agreement (G-67)."""
    if mode == "shadow" and (new := unagreed_in_shadow(state, registry, required)):
        raise ResumeError(
            f"Session '{visible(state.id)}' cannot continue here: it is in shadow mode, in which nothing "
            f"is blocked, and {visible(', '.join(new))} of this host requires several people. Start a "
            "new session; others can confirm shadow mode there."
        )


def unagreed_in_shadow(
    state: SessionState, registry: Mapping[str, SkillNet], required: Collection[str]
) -> list[str]:
    """The host's own nets that require several people and would block nothing in shadow mode.

    If people switched the session to shadow mode, they agreed only for the nets that it had.
    """
    return [
        key
        for key in required
        if people_to_loosen(registry[key].rule)
        and (state.shadowed is None or not _agreed(key, state, registry))
    ]


def check_reason(
    state: SessionState,
    fit: ResumePoint,
    registry: Mapping[str, SkillNet],
    mode: Mode,
    max_cost: float | None,
    reason: str | None,
) -> None:
    """Raise `ResumeError` if a session would continue under less than its record says without a reason.

    Less is: an active net that is missing, differs, is off or counts calls by other maps; another net
    that takes calls from one (G-66); shadow mode; and a higher cost limit, or none. Nets that are off for
    a limited time count as active. The message names the calls that wait for approval (G-67).
    """
    if reason is not None and reason.strip():
        return
    timed = _timed(state)
    enforced = [*state.active, *timed]
    found = [
        f"'{visible(key)}' {less}"
        for key in enforced
        if (less := _weakening(key, state, fit, registry, timed))
    ]
    found += _competition(state, fit, registry, enforced)
    if mode == "shadow" and _enforced(state):
        found.append("shadow mode instead of enforce mode")
    if state.max_cost is not None and (max_cost is None or max_cost > state.max_cost):
        found.append(f"a cost limit of {'none' if max_cost is None else dollars(max_cost)}")
    if not found:
        return
    waiting = [f"{approval.tool} ({approval.call_id})" for approval in state.approvals.values()]
    waiting_text = f" For an answer wait: {visible(', '.join(waiting))}." if waiting else ""
    raise ResumeError(
        f"Session '{visible(state.id)}' would continue with fewer restrictions than recorded: "
        f"{'; '.join(found)}.{waiting_text} Say why (reason=…): it is recorded with your name.",
        unexplained=True,
    )


def _weakening(
    key: str,
    state: SessionState,
    fit: ResumePoint,
    registry: Mapping[str, SkillNet],
    timed: Container[str],
) -> str | None:
    """The way in which a recorded net would not continue; `None` if it would."""
    was = state.nets[key].net
    if key in fit.dropped:
        return "is missing"
    if key not in fit.markings:
        return "differs"
    # A net without a rule, such as one that a tool requests for itself, does not depend on maps.
    if was.rule is not None and was.name_maps is not None and _counts_less(was, registry[key]):
        return "counts calls by other maps"
    return None if key in fit.active or key in timed else "is off"


def _timed(state: SessionState) -> tuple[str, ...]:
    """Nets that are off for a limited time, and will come back."""
    return tuple(key for key, off in state.off.items() if off.until is not None)


def _enforced(state: SessionState) -> bool:
    """Return whether a record is in enforce mode, or will be after a limited time."""
    return state.mode == "enforce" or (state.shadowed is not None and state.shadowed.until is not None)


def switched_on(
    fit: ResumePoint, registry: Mapping[str, SkillNet], *states: SessionState
) -> tuple[ResumePoint, Mode]:
    """Resume point of a branch, and its mode; the first of `states` is where it begins.

    An agreement to switch something off applied to the other session, not to the branch. So the branch
    has all rules that require several people switched on, and those that were off only for a limited
    time.
    """
    opening = states[0]
    held = {key for state in states for key in guarded_nets(state)}
    for state in states:
        held |= {*(key for key in state.off if guarded(state.nets[key].net)), *_timed(state)}
    added = (key for key in registry if key in held and key not in fit.active)
    shadowed = [state.shadowed for state in states if state.shadowed is not None]
    timed = any(switch.until is not None for switch in shadowed)
    enforced = any(state.mode == "enforce" for state in states)
    strict = held and (shadowed or enforced)
    mode = "enforce" if strict or timed else opening.mode
    return replace(fit, active=(*fit.active, *added)), mode


def _loosened(
    key: str, state: SessionState, fit: ResumePoint, registry: Mapping[str, SkillNet]
) -> str | None:
    """The way in which the recorded net `key` would be loosened; `None` if it would not."""
    was, active = state.nets[key].net, state.nets[key].active
    name = visible(key) if was.rule is None else f"{visible(key)} ({visible(was.rule.text)})"
    if key in fit.dropped or key not in registry:
        return f"'{name}' is missing"
    current = net_record(key, registry[key])
    if key not in fit.markings or _text(current) != _text(was) or current.people < guarded(was):
        return f"'{name}' has a different rule: {_text(current) or 'a net of its own'}"
    if was.maps is not None and current.maps != was.maps and _counts_less(was, registry[key]):
        return f"the maps by which '{name}' counts calls differ"
    if active and key not in fit.active:
        return f"'{name}' is not active"
    return None


def loosened_nets(
    state: SessionState, fit: ResumePoint, registry: Mapping[str, SkillNet]
) -> dict[str, int]:
    """Active nets of a record that would apply to fewer calls, or no longer as they do now.

    Each with the number of other people it requires (G-67). Nets that are off for a limited time count as
    active.
    """
    enforced = [*state.active, *_timed(state)]
    loosened = {key for key in enforced if _loosened(key, state, fit, registry) is not None}
    loosened |= {other for _, other in _competing_nets(state, fit, registry, enforced)}
    return {key: guarded(state.nets[key].net) for key in enforced if key in loosened}


def _competition(
    state: SessionState, fit: ResumePoint, registry: Mapping[str, SkillNet], enforced: Iterable[str]
) -> Iterator[str]:
    """Additional nets that would take calls from guarded ones, in words."""
    for key, other in _competing_nets(state, fit, registry, enforced):
        yield f"'{visible(key)}' takes calls from '{visible(other)}'"


def _competing_nets(
    state: SessionState, fit: ResumePoint, registry: Mapping[str, SkillNet], enforced: Iterable[str]
) -> Iterator[tuple[str, str]]:
    """Additional nets, each with a guarded one that it would take calls from (G-66)."""
    same = {key for key in (*state.active, *_timed(state)) if key in fit.markings and key in registry}
    others = [skill_net(state.nets[key].net) for key in state.active if key not in same]
    nets = [*(registry[key] for key in same), *others]
    for key in fit.active:
        if key in same or key not in registry:
            continue
        for other in enforced:
            if key != other and other in registry and takes_from(registry[key], registry[other], nets):
                yield key, other


def _counts_less(was: NetRecord, net: SkillNet) -> bool:
    """Return whether a guarded net may judge fewer calls by the current maps than by those recorded."""
    if net.rule is None:
        return True
    leading = (was.lead_maps, *was.other_lead_maps, *(None for _ in was.leads))
    names = [(restricted(net.rule), was.name_maps), *zip(was.leads, leading, strict=False)]
    return any(_is_given_less(name, maps, net.call_names) for name, maps in names)


def _is_given_less(name: str, was: NameMaps | None, namer: CallNames | None) -> bool:
    if was is None:
        return True
    if not was.fields and namer is None:
        return False
    return not isinstance(namer, KnowsMaps) or namer.gives_less(name, was)


def _text(record: NetRecord) -> str | None:
    """Text of a rule; of an implied rule without the maps that imply it, because there may be more."""
    return None if record.rule is None else _IMPLIED_BY.sub("", visible(record.rule.text))


_IMPLIED_BY = re.compile(r" \(implied by the maps? of [^()]*\)$")


def _differences(recorded: NetRecord, current: NetRecord) -> list[str]:
    """Parts of the structure that differ. The rule's location may change, its effect may not."""
    parts = ("name", "places", "transitions", "initial_marking", "free_tools", "leads", "when", "governs")
    parts = (*parts, "per_value", "shared")
    return [part.replace("_", " ") for part in parts if getattr(recorded, part) != getattr(current, part)]


def _misfit(
    session: str, missing: list[str], changed: Mapping[str, list[str]], forgetful: list[str]
) -> str:
    found = [
        *(f"'{visible(key)}' is missing" for key in missing),
        *(f"'{visible(key)}' differs ({', '.join(parts)})" for key, parts in changed.items()),
        *(f"'{visible(key)}' keeps notes that are not recorded" for key in forgetful),
    ]
    return (
        f"The given nets do not match those of session '{visible(session)}': "
        f"{'; '.join(found)}. Give the rules it was recorded under, or allow the change "
        '(nets="changed"): nets that differ then start fresh, missing ones are dropped, notes are '
        "forgotten, and all of this is recorded."
    )
