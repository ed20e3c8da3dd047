"""Changes of a session's settings as text: nets, mode, limits, grants, freezes.

`RecordedSettings` processes the events of a session and returns what each changes, for the list of
decisions and changes. A resumed session is a change if any setting differs from before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias, get_args

from ..model.events import (
    ApprovalExtended,
    ChangeAgreed,
    ChangeDropped,
    ChangeProposed,
    FreezeBegan,
    FreezeLifted,
    GrantGiven,
    GrantRevoked,
    LimitRaised,
    ModeChanged,
    NetToggled,
    RulesReplaced,
    SessionOpened,
    SessionResumed,
)
from ..model.records import NetRecord, RuleRecord
from .event_text import dollars, grant_words

Kind: TypeAlias = Literal["call", "toggle", "mode", "limit", "grant", "rules", "extension", "freeze"]
"""Subject of a line in the list: a call, or the settings that were changed."""

Step: TypeAlias = Literal["changed", "proposed", "agreed", "dropped"]
"""Progress of a change: made, proposed by one of several operators, agreed to by another, or dropped."""

KINDS: tuple[Kind, ...] = get_args(Kind)
STEPS: tuple[Step, ...] = get_args(Step)

Setting: TypeAlias = (
    SessionResumed
    | NetToggled
    | ModeChanged
    | ChangeProposed
    | ChangeAgreed
    | ChangeDropped
    | LimitRaised
    | RulesReplaced
    | GrantGiven
    | GrantRevoked
    | ApprovalExtended
    | FreezeBegan
    | FreezeLifted
)
"""The events that change settings."""

SETTINGS: tuple[type[Setting], ...] = get_args(Setting)


class SettingChange(NamedTuple):
    """Change of settings by an event, described in `words`; `people` are all who made it.

    `net` is its subject, or the net whose approval a grant or an extension is about.
    """

    kind: Kind
    step: Step
    words: str
    people: tuple[str, ...] = ()
    net: str | None = None
    tool: str = ""
    call_id: str = ""


@lru_cache(maxsize=1024)
def _net_keys(active: tuple[str, ...]) -> frozenset[str]:
    """Return keys of nets as a set; most sessions share the same one."""
    return frozenset(active)


@dataclass(slots=True)
class RecordedSettings:
    """The settings of a session after the last event that was processed.

    `shadow` says who switched to shadow mode, while it is on. `rules` are the rules of nets by key.
    `proposed` has the net of each change that waits for others to agree, `None` for shadow mode.
    """

    mode: Literal["enforce", "shadow"] = "enforce"
    active: frozenset[str] = frozenset()
    max_cost: float | None = None
    shadow: str | None = None
    rules: dict[str, RuleRecord | None] = field(default_factory=dict[str, RuleRecord | None])
    proposed: dict[str, str | None] = field(default_factory=dict[str, str | None])

    @classmethod
    def opened(cls, body: SessionOpened) -> RecordedSettings:
        """Return the settings that a session begins with."""
        settings = cls(mode=body.mode, active=_net_keys(body.active), max_cost=body.max_cost)
        settings._set_shadow((body.opened_by,) if body.opened_by else (), ", from the start")
        settings._add_rules(body.nets)
        return settings

    def take(self, body: Setting) -> SettingChange | None:
        """Apply one event; return what it changes, `None` if nothing."""
        match body:
            case SessionResumed():
                return self._resume_change(body)
            case NetToggled():
                return self._toggle(body)
            case ModeChanged():
                self.mode = body.mode
                people = _people(body)
                self._set_shadow(people)
                self._forget_proposals(body.change_id, None)
                if body.timed:
                    return SettingChange("mode", "changed", "enforce mode, the time is over", people)
                return SettingChange("mode", "changed", f"{body.mode} mode{_terms(body)}", people)
            case ChangeProposed():
                self.proposed[body.change_id] = body.net
                words = f"{_switch_name(body.net)}, takes {body.people}: {body.reason}"
                return self._proposal_change(body.net, "proposed", words, (body.by,))
            case ChangeAgreed():
                net = self.proposed.get(body.change_id)
                return self._proposal_change(net, "agreed", _switch_name(net), (body.by,))
            case ChangeDropped():
                net = self.proposed.pop(body.change_id, None)
                people = () if body.by is None else (body.by,)
                return self._proposal_change(
                    net, "dropped", f"{_switch_name(net)}: {body.reason}", people
                )
            case LimitRaised():
                before, self.max_cost = self.max_cost, body.max_cost
                old_limit = "" if before is None else f" (was {dollars(before)})"
                why = "" if body.reason is None else f": {body.reason}"
                words = f"cost limit {dollars(body.max_cost)}{old_limit}{why}"
                return SettingChange("limit", "changed", words, (body.by,))
            case RulesReplaced():
                return self._rules_change(body)
            case GrantGiven():
                grant = body.grant
                why = "" if body.reason is None else f": {body.reason}"
                words = f"{grant.key} given: {grant_words(grant, body.input)}{why}"
                return SettingChange(
                    "grant", "changed", words, (body.by,), grant.asks, grant.tool, body.call_id or ""
                )
            case GrantRevoked():
                return SettingChange("grant", "changed", f"{body.key} revoked", (body.by,))
            case ApprovalExtended():
                return _extension_change(body)
            case FreezeBegan() | FreezeLifted():
                state = "frozen" if isinstance(body, FreezeBegan) else "no longer frozen"
                why = f": {body.reason}" if body.reason else ""
                return SettingChange("freeze", "changed", f"{state}{why}", (body.by,))

    def _toggle(self, body: NetToggled) -> SettingChange:
        key = body.net
        self.active = self.active | {key} if body.active else self.active - {key}
        self._forget_proposals(body.change_id, key)
        state = "on" if body.active else "off"
        words = f"{key} on again, its time is over" if body.timed else f"{key} {state}{_terms(body)}"
        return SettingChange("toggle", "changed", words, _people(body), key)

    def _rules_change(self, body: RulesReplaced) -> SettingChange:
        changes = [
            *self._net_changes(body),
            *_name_list("said otherwise", (net.key for net in body.renewed)),
        ]
        changes += _name_list("grants ended", body.ended_grants)
        self._take_nets(body)
        self._add_rules(body.renewed)
        applied = body.applied
        waiting_text = f"; {len(body.waiting)} waited for approval then" if body.waiting else ""
        why = "" if applied.reason is None else f": {applied.reason}"
        people = tuple(dict.fromkeys((*applied.others, applied.by)))
        words = f"replaced with {'; '.join(changes) or 'the same'}{waiting_text}{why}"
        return SettingChange("rules", "changed", words, people)

    def _net_changes(self, body: SessionResumed | RulesReplaced) -> list[str]:
        """Return the differences between an event's nets and the nets before it."""
        active = frozenset(body.active)
        fresh = {net.key for net in body.nets}
        return [
            *_name_list("new or changed", fresh),
            *_name_list("dropped", body.dropped),
            *_name_list("on", active - self.active - fresh),
            *_name_list("off", self.active - active - {*body.dropped}),
        ]

    def _take_nets(self, body: SessionResumed | RulesReplaced) -> None:
        self.active = _net_keys(body.active)
        for key in body.dropped:
            self.rules.pop(key, None)
        self._add_rules(body.nets)

    def _resume_change(self, body: SessionResumed) -> SettingChange | None:
        changes: list[str] = []
        if body.mode != self.mode:
            changes.append(f"{body.mode} mode (was {self.mode})")
        changes += self._net_changes(body)
        if body.max_cost != self.max_cost:
            limit, old_limit = (
                "none" if cost is None else dollars(cost) for cost in (body.max_cost, self.max_cost)
            )
            changes.append(f"cost limit {limit} (was {old_limit})")
        changes += _name_list("grants ended", body.ended_grants)
        if body.mode != self.mode or body.mode == "enforce":
            self.mode = body.mode
            self._set_shadow((body.by,) if body.by else ())
        self.max_cost = body.max_cost
        self._take_nets(body)
        if not changes:
            return None
        why = "" if body.reason is None else f": {body.reason}"
        words = f"resumed with {'; '.join(changes)}{why}"
        return SettingChange("rules", "changed", words, (body.by,) if body.by else ())

    def _proposal_change(
        self, net: str | None, step: Step, words: str, people: tuple[str, ...]
    ) -> SettingChange:
        return SettingChange("mode" if net is None else "toggle", step, words, people, net)

    def _set_shadow(self, people: tuple[str, ...], when: str = "") -> None:
        who = ", ".join(people)
        words = f"shadow mode{when}: {who}" if who else f"shadow mode{when}"
        self.shadow = words if self.mode == "shadow" else None

    def _forget_proposals(self, change_id: str | None, net: str | None) -> None:
        """Forget proposals of a change that was made."""
        self.proposed = {
            key: net_key for key, net_key in self.proposed.items() if key != change_id and net_key != net
        }

    def _add_rules(self, nets: Iterable[NetRecord]) -> None:
        self.rules.update((net.key, net.rule) for net in nets)


def _people(body: NetToggled | ModeChanged) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*body.others, body.by)))


def _terms(body: NetToggled | ModeChanged) -> str:
    """Return until when, why, and how many requests waited, as text."""
    until = "" if body.until is None else f" until {_time(body.until)}"
    waiting_text = f", {len(body.waiting)} waited for approval then" if body.waiting else ""
    why = "" if body.reason is None else f": {body.reason}"
    return f"{until}{waiting_text}{why}"


def _switch_name(net: str | None) -> str:
    return "shadow mode" if net is None else f"{net} off"


def _time(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _name_list(heading: str, names: Iterable[str]) -> list[str]:
    """Return names in order under a heading; empty without names."""
    name_list = ", ".join(sorted(names))
    return [f"{heading}: {name_list}"] if name_list else []


def _extension_change(body: ApprovalExtended) -> SettingChange:
    proposal = body.proposed
    until = body.until if proposal is None else proposal.until
    time = "for ever" if until is None else f"until {_time(until)}"
    verb = "may wait" if proposal is None else "is to wait"
    words = f"request of call {body.call_id} {verb} {time}"
    people = tuple(dict.fromkeys((*body.others, body.by)))
    step = "changed" if proposal is None else "proposed"
    return SettingChange("extension", step, words, people, call_id=body.call_id)
