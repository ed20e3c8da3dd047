"""Switches of a session's nets and mode, and the agreement that they need (G-67).

Enforce mode needs no reason and no agreement, and neither does switching on most nets. Switching a net
off, or to shadow mode, needs a reason. If a rule asks for several people, says `no grants` or has a high
risk, it needs as many other people as the rule asks for: the first one proposes, the others agree. A net
that takes calls away from `anything-else`, or from a rule for a nearly equal name (G-66), loosens those
rules, and switching it on needs what switching them off needs.

The end of a temporary switch follows from the record, and therefore happens after a restart too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol
from uuid import uuid4

from ..approvals.open_request import Reply
from ..approvals.policy import ApprovalPolicy, Credential, OperatorTokens
from ..approvals.requests import ApprovalRequests
from ..approvals.withdrawals import RETRY, Tasks
from ..core.approvers import KEYED, Approvers, Operator
from ..core.clock import timer_delay
from ..core.durations import LONGEST, format_duration
from ..core.people import is_among
from ..core.rule import approvers_of, people_to_loosen
from ..gate import GateManager
from ..gate.types import Mode
from ..history.errors import JournalError
from ..history.model.events import (
    ChangeAgreed,
    ChangeDropped,
    ChangeProposed,
    ModeChanged,
    NetToggled,
)
from ..history.model.state import ChangeState, SessionState, SwitchState
from ..net.net import NetError, SkillNet
from ..recording.ledger import EventRecorder, SessionLedger
from .new_rules import NewRules, RulesChange

PROPOSED_FOR = 15 * 60.0
"""Seconds within which the others must agree to a proposal."""

log = logging.getLogger(__name__)


class SwitchHost(EventRecorder, Protocol):
    """The session with the nets; see `HostedSession`."""

    manager: GateManager
    questions: ApprovalRequests
    maps: str

    def replace_nets(
        self,
        registry: Mapping[str, SkillNet],
        active: Sequence[str],
        kept: Container[str] = (),
        *,
        grants: Container[str] = (),
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class SwitchTerms:
    """An operator's terms: who, why, for how many `seconds` (permanently without), with which token."""

    by: str
    reason: str | None = None
    seconds: float | None = None
    credential: Credential | None = None


@dataclass(frozen=True, slots=True)
class _Switch:
    """A switch of a net or the mode: who, with whose agreement, why and for how many `seconds`.

    `change_id` is the proposal that it completes; `timed` says that it ends a temporary switch.
    """

    by: str
    others: tuple[str, ...] = ()
    reason: str | None = None
    seconds: float | None = None
    change_id: str | None = None
    timed: bool = False

    @property
    def names(self) -> str:
        """Everybody who wanted it, `ada and ben`."""
        return " and ".join(dict.fromkeys((*self.others, self.by)))

    @property
    def period(self) -> str:
        """Its duration as text, ` for 5 min`; empty for a permanent switch."""
        return "" if self.seconds is None else f" for {format_duration(self.seconds)}"


class Switching:
    """Switches of one session's nets and mode, with proposals and deadlines. `clock` is the journal's."""

    def __init__(
        self,
        host: SwitchHost,
        ledger: SessionLedger,
        policy: ApprovalPolicy,
        clock: Callable[[], datetime],
        tokens: OperatorTokens,
    ) -> None:
        self._host = host
        self._ledger = ledger
        self._policy = policy
        self._clock = clock
        self._tokens = tokens
        self._turn = asyncio.Lock()
        self._tasks = Tasks()
        self._timer: asyncio.TimerHandle | None = None

    async def toggle(self, net: str, active: bool, terms: SwitchTerms) -> Reply:
        """Switch a net on or off, or propose it.

        Raises `JournalError` if the switch could not be recorded; nothing has changed then.
        """
        async with self._turn:
            await self._ledger.catch_up()
            manager = self._host.manager
            looser = self._losing_to(net) if active else [net] if net in manager.active else []
            if not looser:
                return await self._toggle(net, active, _Switch(terms.by.strip() or "unnamed"))
            if active and terms.seconds is not None:
                return Reply(False, f"Not switched: {net} can only be turned on permanently")
            people = self._people(net, active=active)
            reply = await self._loosen(net, terms, people, active=active)
            if active and reply.needs_reason:
                named = " and ".join(looser)
                why = f"{net} restricts the calls that it names, and {named} then no longer judges them"
                return replace(reply, message=f"{reply.message}. {why}")
            return reply

    async def set_mode(self, mode: Mode, terms: SwitchTerms) -> Reply:
        """Switch to enforce mode or shadow mode, or propose it; applies from the next call on."""
        async with self._turn:
            await self._ledger.catch_up()
            manager = self._host.manager
            if mode == manager.mode:
                return Reply(True, f"{self._host.id} is now in {mode} mode")
            if mode == "enforce":
                return await self._set_mode(mode, _Switch(terms.by.strip() or "unnamed"))
            return await self._loosen(None, terms, self._people(None))

    def _people(self, net: str | None, *, active: bool = False) -> int:
        """Return how many other people a switch of `net` needs, or shadow mode if `net` is `None`."""
        nets = self._host.manager.nets
        looser = self._loosened(net, active=active)
        return max((people_to_loosen(nets[key].rule) for key in looser), default=0)

    def _loosened(self, net: str | None, *, active: bool) -> Sequence[str]:
        """Return the nets that a switch of `net` loosens, or shadow mode if `net` is `None`."""
        if net is None:
            # A net that is off for a time will be on again, and must then be enforced.
            return [*self._host.manager.active, *self._returning()]
        return self._losing_to(net) if active else [net]

    def _returning(self) -> list[str]:
        """Return the nets that are off for a time and will be on again."""
        return [key for key, off in self._host.state.off.items() if off.until is not None]

    def _losing_to(self, net: str) -> Sequence[str]:
        """Return the nets that judge fewer calls once `net` is on (G-66).

        Empty for a net that will be on again by itself.
        """
        returning = self._returning()
        return () if net in returning else self._host.manager.loses_to(net, returning)

    async def _loosen(
        self, net: str | None, terms: SwitchTerms, people: int, *, active: bool = False
    ) -> Reply:
        """Loosen `net`, or the mode if it is `None`: make the change or propose it to `people` others."""
        by, reason = terms.by.strip(), (terms.reason or "").strip()
        seconds, credential = terms.seconds, terms.credential
        problem = self._unfit(by, reason, seconds, credential)
        if problem is not None:
            return Reply(False, problem, needs_reason=bool(by) and not reason)
        same = next((c for c in self._host.state.changes.values() if c.net == net), None)
        if same is not None and same.seconds != seconds:
            # A proposal for a limited time is not agreement to a permanent change.
            limit = "no time limit" if same.seconds is None else format_duration(same.seconds)
            why = f"{same.by} has proposed this already, with {limit}: {same.words}"
            return Reply(False, f"Not switched: {why}. Confirm that, or take it back first")
        if same is not None:
            return await self._agree(same, by, credential)
        given = self._terms(net, active=active)
        if any(each.passkey for each in given):
            return Reply(False, f"Not switched: {KEYED}")
        own = self._not_counting(self._tokens.operator(by, credential), given)
        if not people or (own is None and people == 1):
            return await self._do(net, _Switch(by, reason=reason, seconds=seconds), active=active)
        proposed = ChangeProposed(
            change_id=uuid4().hex[:12],
            net=net,
            by=by,
            reason=reason,
            people=people,
            expires=self._clock() + timedelta(seconds=PROPOSED_FOR),
            counts=own is None,
            seconds=seconds,
            token=None if credential is None else credential.token,
            active=active,
        )
        await self._host.record(proposed)
        self.arm()
        change = self._host.state.changes[proposed.change_id]
        return Reply(True, self._still_missing(change, own))

    def _still_missing(self, change: ChangeState, own: str | None) -> str:
        """Return the message that a change is only proposed, and who must confirm it."""
        why = "" if own is None else f"{own} and does not count. "
        return (
            f"Proposed, nothing is changed yet: {change.words}. {why}It needs {_others(change)}: "
            f"each confirms it under their own name within {format_duration(PROPOSED_FOR)}, "
            "with `n` in their console. "
            "An operator's token is made with `interlock token new NAME`."
        )

    async def confirm(self, change_id: str, by: str, credential: Credential | None = None) -> Reply:
        """Agree to a proposed change, which is made with the last agreement that it needs."""
        async with self._turn:
            await self._ledger.catch_up()
            change = self._host.state.changes.get(change_id)
            if change is None:
                return Reply(False, "Not confirmed: this change is no longer proposed")
            return await self._agree(change, by.strip(), credential)

    async def _agree(self, change: ChangeState, by: str, credential: Credential | None) -> Reply:
        if not by:
            return Reply(False, "Not confirmed: that needs the name of an operator")
        if credential is not None and not credential.in_force(credential.token, "administer"):
            return Reply(False, f"Not confirmed: the token of {by} has been revoked")
        overstepped = self._tokens.overstepped(by, credential, "administer")
        if overstepped is not None:
            return Reply(False, f"Not confirmed: {overstepped}")
        if self._clock() >= change.expires:
            await self._drop(change, "nobody else agreed in time")
            return Reply(False, f"Not confirmed: the time to {change.words} is over. Propose it again")
        terms = self._terms(change.net, active=change.active)
        if any(each.passkey for each in terms):
            return Reply(False, f"Not confirmed: {KEYED}")
        own = self._not_counting(self._tokens.operator(by, credential), terms)
        if own is not None:
            return Reply(False, f"{own}: {_others(change)} must confirm to {change.words}")
        if is_among(by, change.given):
            return Reply(False, f"{by} has proposed or confirmed this already: others must confirm it")
        person = self._tokens.operator(by, credential)
        other = self._tokens.same_login(person, change.given, change.tokens)
        if other is not None:
            done = f"{by} has proposed or confirmed this already, as {other}"
            return Reply(False, f"{done}: others must confirm it")
        if self._people(change.net, active=change.active) > change.people:
            await self._drop(change, "its rules have changed and need more people")
            return Reply(
                False, f"Not confirmed: to {change.words} now needs more people. Propose it again"
            )
        lapsed = self._lapsed(change, credential)
        if lapsed is not None:
            await self._drop(change, f"{lapsed} no longer counts")
            return Reply(False, f"Not confirmed: {lapsed} no longer counts. Propose it again")
        if change.missing > 1:
            token = None if credential is None else credential.token
            await self._host.record(ChangeAgreed(change_id=change.id, by=by, token=token))
            missing = change.missing - 1
            return Reply(True, f"Agreed to {change.words}; {missing} more must confirm")
        agreed = _Switch(by, change.given, change.reason, change.seconds, change.id)
        return await self._do(change.net, agreed, active=change.active)

    def _lapsed(self, change: ChangeState, credential: Credential | None) -> str | None:
        """Return an operator whose agreement is no longer valid (G-77), or `None`."""
        terms = self._terms(change.net, active=change.active)
        for name, token in zip(change.given, change.tokens, strict=True):
            in_force = self._tokens.in_force(token, credential, "administer")
            person = self._tokens.operator_now(name, token)
            if not in_force or self._not_counting(person, terms) is not None:
                return name
        return None

    async def drop(self, change_id: str, by: str) -> Reply:
        """Take back a proposed change; any operator may."""
        async with self._turn:
            change = self._host.state.changes.get(change_id)
            if change is None:
                return Reply(False, "This change is no longer proposed")
            if not by.strip():
                return Reply(False, "Not taken back: that needs the name of an operator")
            await self._drop(change, f"taken back by {by.strip()}", by.strip())
            return Reply(True, f"No longer proposed: {change.words}")

    async def _drop(self, change: ChangeState, reason: str, by: str | None = None) -> None:
        await self._host.record(ChangeDropped(change_id=change.id, reason=reason, by=by))

    def _unfit(
        self, by: str, reason: str, seconds: float | None, credential: Credential | None
    ) -> str | None:
        """Return why a change cannot even be proposed, or `None`."""
        if not by:
            return "Not switched: that needs the name of an operator"
        if not reason:
            return "Not switched: say why, the reason is recorded with it"
        if seconds is not None and not 0 < seconds <= LONGEST:
            return f"Not switched: {seconds} is not a valid duration"
        if credential is not None and not credential.in_force(credential.token, "administer"):
            return f"Not switched: the token of {by} has been revoked"
        overstepped = self._tokens.overstepped(by, credential, "administer")
        return overstepped and f"Not switched: {overstepped}"

    def _not_counting(self, person: Operator, terms: Iterable[Approvers]) -> str | None:
        """Return why an operator's agreement does not count on these terms (G-67, G-77), or `None`.

        It must be a person other than those behind the session, who is in the group of each rule.
        """
        terms = [*terms]
        own_approvals = self._policy.own_approvals and all(each.author for each in terms)
        own = self._tokens.involvement(person, person.name, self._host.state, own_approvals=own_approvals)
        missing = [each.group for each in terms if each.group and not person.is_in(each.group)]
        if own is None and missing:
            return f"{person.name} is not in {' or '.join(dict.fromkeys(missing))}"
        return own

    def _terms(self, net: str | None, *, active: bool = False) -> list[Approvers]:
        """Return the conditions on approvers of the rules that a switch loosens; see `_people`."""
        nets = self._host.manager.nets
        found = [approvers_of(nets[key].rule) for key in self._loosened(net, active=active)]
        return [each for each in found if each is not None]

    async def replace_rules(self, rules: NewRules) -> Reply:
        """Replace the rules from now on; the reply's message says why the session keeps its own.

        Requests that the replacement changes are asked anew. Raises `JournalError` if it could not be
        recorded; nothing has changed then.
        """
        async with self._turn:
            await self._ledger.catch_up()
            host, applied = self._host, rules.applied
            change = RulesChange(host.state, rules, host.manager.grants, host.maps)
            if change.changes_nothing:
                return Reply(True, "is under these rules already")
            agreed = dict.fromkeys((*applied.others, applied.by))

            def counting(terms: Approvers | None) -> int:
                each = [terms] if terms is not None else []
                people = map(self._tokens.operator, agreed)
                return sum(self._not_counting(person, each) is None for person in people)

            if (problem := change.problem(counting)) is not None:
                return Reply(False, problem)
            try:
                going_on = change.grants.keys() - {*change.ended_grants}
                host.replace_nets(rules.registry, change.fit.active, change.fit.markings, grants=going_on)
            except NetError as error:
                return Reply(False, str(error))
            await self._ledger.record_change(change.event())
            self.arm()
            await host.questions.ask_again(f"{' and '.join(agreed)} replaced the rules")
            return Reply(True, "is under these rules from now on")

    # Making changes

    async def _do(self, net: str | None, switch: _Switch, *, active: bool = False) -> Reply:
        """Switch a net, or to shadow mode if `net` is `None`."""
        if net is None:
            return await self._set_mode("shadow", switch)
        return await self._toggle(net, active, switch)

    async def _toggle(self, net: str, active: bool, switch: _Switch) -> Reply:
        manager = self._host.manager
        outcome = manager.add_net(net) if active else manager.remove_net(net)
        if not outcome.ok:
            return Reply(False, outcome.message)
        toggled = NetToggled(net=net, active=active, by=switch.by, message=outcome.message)
        words = f"{switch.names} turned {'on' if active else 'off'} {net}"
        reason = f"{net} is on again, its time is over" if switch.timed else words
        await self._record_switch(toggled, switch, reason)
        return Reply(True, words + switch.period)

    async def _set_mode(self, mode: Mode, switch: _Switch) -> Reply:
        self._host.manager.mode = mode
        words = f"{switch.names} switched to {mode} mode"
        reason = "the time for shadow mode is over" if switch.timed else words
        await self._record_switch(ModeChanged(mode=mode, by=switch.by), switch, reason)
        return Reply(True, f"{self._host.id} is now in {mode} mode{switch.period}")

    async def _record_switch(self, event: NetToggled | ModeChanged, switch: _Switch, reason: str) -> None:
        """Record a switch, and have the calls that it concerns decided again."""
        seconds = switch.seconds
        terms = {
            "reason": switch.reason,
            "others": switch.others,
            "until": None if seconds is None else self._clock() + timedelta(seconds=seconds),
            # Calls that wait for an operator now, and continue to wait.
            "waiting": tuple(dict.fromkeys(a.call_id for a in self._host.state.approvals.values())),
            "timed": switch.timed,
            "change_id": switch.change_id,
        }
        await self._ledger.record_change(event.model_copy(update=terms))
        self.arm()
        await self._host.questions.ask_again(reason)

    # Timed changes

    def arm(self) -> None:
        """Schedule the next end of a time in the record; call it when these times may have changed."""
        self.disarm()
        if times := _times(self._host.state):
            self._look_in((min(times) - self._clock()).total_seconds())

    def disarm(self) -> None:
        """Cancel the schedule, because the session is being closed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_in(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(
            timer_delay(seconds), lambda: self._tasks.start(self._look())
        )

    async def _look(self) -> None:
        if all(time > self._clock() for time in _times(self._host.state)):
            return self.arm()
        try:
            await self.catch_up()
        except JournalError:
            log.exception("A temporary switch in '%s' could not be switched back", self._host.id)
            self._look_in(RETRY)

    def is_late(self) -> bool:
        """Return whether a temporary switch is over and not switched back yet.

        Timers stop while the machine sleeps, so the clock is read whenever a call is decided.
        """
        return any(end <= self._clock() for end in _ends(self._host.state))

    async def catch_up(self) -> None:
        """Switch back temporary switches that are over, and drop expired proposals.

        Raises `JournalError`; changes that could not be recorded were not made.
        """
        async with self._turn:
            await self._ledger.catch_up()
            state, now = self._host.state, self._clock()
            for net, off in list(state.off.items()):
                if off.until is not None and off.until <= now:
                    await self._toggle(net, True, _Switch(off.by, off.others, timed=True))
            shadowed = state.shadowed
            if shadowed is not None and shadowed.until is not None and shadowed.until <= now:
                await self._set_mode("enforce", _Switch(shadowed.by, shadowed.others, timed=True))
            for change in list(state.changes.values()):
                if change.expires <= now:
                    await self._drop(change, "nobody else agreed in time")
        self.arm()


def _others(change: ChangeState) -> str:
    """Return the number of people still missing, as text."""
    return "1 other person" if change.missing == 1 else f"{change.missing} other people"


def _ends(state: SessionState) -> list[datetime]:
    """Return the times at which temporary switches end."""
    switches: list[SwitchState] = list(state.off.values())
    if state.shadowed is not None:
        switches.append(state.shadowed)
    return [switch.until for switch in switches if switch.until is not None]


def _times(state: SessionState) -> list[datetime]:
    """Return the times at which temporary switches and proposals end."""
    return [*_ends(state), *(change.expires for change in state.changes.values())]
