"""Replacement of a running server's rules, for new sessions only or for live ones as well (G-67).

Adding rules takes one operator. Loosening rules takes a reason. If a loosened rule requires several
people, says `no grants` or has a high risk, it takes one operator more than the rule says: the one who
replaces rules may also start the next session, and then does not count as another person there. A
proposal is kept in memory only. A server that restarts has neither proposals nor applied rules, and uses
its files.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from ...engine.approvals.policy import Credential
from ...engine.core.approvers import KEYED_RULE
from ...engine.core.durations import format_duration
from ...engine.core.people import is_among
from ...engine.core.rule import approvers_of, people_to_loosen
from ...engine.core.sanitize import visible
from ...engine.gate.name_changes import takes_from
from ...engine.gate.types import Mode
from ...engine.gateway.server.rule_sets import RuleSets
from ...engine.history.model.records import AppliedRules
from ...engine.hub.api import Outcome, ProposedRules, ReplacedIn, RunningRules, rules_digest
from ...engine.net.net import NetError
from ...rules import RuleError
from ...rules.compiler import read_text
from ...rules.ruleset import paths_of
from ..config.loader import SettingsError
from ..format.rule_changes import RuleChanges, change_lines
from ..sessions.server_rules import ServerRules
from .live_rules import ExternalRules, LiveRules, SessionPlan

log = logging.getLogger(__name__)

PROPOSED_FOR = timedelta(minutes=15)
"""Time within which others have to agree to proposed rules."""
SHOWN_RULES = 5


@dataclass(frozen=True, slots=True)
class OperatorTerms:
    """Terms of an operator's action: name, reason and credential."""

    by: str
    reason: str
    credential: Credential | None = None

    @property
    def token(self) -> str | None:
        """Id of the token."""
        return None if self.credential is None else self.credential.token

    def counts(self, token: str | None) -> bool:
        """Return whether actions taken with `token` still count (G-77)."""
        return token is None or (
            self.credential is not None and self.credential.in_force(token, "administer")
        )


@dataclass(frozen=True, slots=True)
class _Proposal:
    """Rules that lack agreement; `given` are the operators who agreed, with their tokens."""

    rules: ServerRules
    to: ReplacedIn
    given: tuple[tuple[str, str | None], ...]
    people: int
    reason: str
    expires: datetime

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.given)


@dataclass(frozen=True, slots=True)
class _Change:
    """A change of rules: the rules that will cover fewer calls, and what differs.

    `loosened` maps each such rule to the number of other people it requires, `groups` are those that all
    of them must be in, and `keyed` is true if one of these rules requires a passkey: such a rule cannot
    be loosened in a running server. `sets` are the rules of external agents, `plans` the effects on live
    sessions.
    """

    rules: ServerRules
    to: ReplacedIn
    changes: RuleChanges
    loosened: Mapping[str, int]
    sets: RuleSets
    plans: Sequence[SessionPlan] = ()
    groups: tuple[str, ...] = ()
    keyed: bool = False

    @property
    def people(self) -> int:
        """Number of operators required."""
        return max(self.loosened.values(), default=0) + 1


class ReplaceableRules:
    """The rules of a server, the proposal to replace them, and who replaced them last."""

    def __init__(
        self,
        rules: ServerRules,
        mode: Mode,
        external: ExternalRules,
        live: LiveRules,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.rules = rules
        self._mode: Mode = mode
        self._external = external
        self._live = live
        self._clock = clock
        self._proposal: _Proposal | None = None
        self._to: ReplacedIn = "new"
        self._turn = asyncio.Lock()

    def running(self) -> RunningRules:
        """Return the current rules, and the proposed ones. Raises `RuleError`."""
        files, proposal = self.rules.sources(), self._open_proposal()
        return RunningRules(
            files=files,
            mode=self._mode,
            digest=rules_digest(files),
            applied=self.rules.applied,
            proposed=proposal
            and ProposedRules(
                files=proposal.rules.sources(),
                by=proposal.names,
                people=proposal.people,
                reason=proposal.reason,
                to=proposal.to,
                expires=proposal.expires,
            ),
        )

    async def apply(
        self, files: Mapping[str, str], against: str, terms: OperatorTerms, to: ReplacedIn = "new"
    ) -> Outcome:
        """Replace the rules, propose that, or agree to the proposal.

        Nothing changes unless all rules compile. A live session that cannot use them keeps its rules, and
        the outcome says so.
        """
        async with self._turn:
            if not terms.by:
                return _refused("that needs the name of an operator")
            if not terms.counts(terms.token):
                return _refused(f"the token of {terms.by} has been revoked")
            if against != rules_digest(self.rules.sources()):
                return _refused("the server's rules are not those that were compared; compare again")
            try:
                change = await self._change(files, to)
                return await self._agree(change, terms)
            except (RuleError, NetError, SettingsError, ValueError) as error:
                return _refused(str(error))

    async def catch_up(self, session_id: str, began_under: ServerRules) -> None:
        """Apply rules to a session that was starting while they replaced the rules of all sessions."""
        async with self._turn:
            if self.rules is not began_under and self._to == "all":
                sets = await asyncio.to_thread(self._external.compiled, self.rules)
                plans = await self._live.plans(self.rules, sets, only=session_id)
                for line in (await self._live.replace(plans, self.rules))[1:]:
                    log.warning("%s", line)

    async def drop(self, by: str) -> Outcome:
        """Withdraw the proposed rules; any operator may."""
        async with self._turn:
            if self._open_proposal() is None:
                return Outcome(ok=False, message="No rules are proposed any more")
            if not by.strip():
                return Outcome(ok=False, message="Not taken back: that needs the name of an operator")
            self._proposal = None
            return Outcome(ok=True, message="The proposed rules are taken back")

    def _groups_of(self, terms: OperatorTerms) -> tuple[str, ...]:
        known = None if terms.credential is None else terms.credential.operator
        return (known or self._live.operators.find(terms.by)).groups

    def _open_proposal(self) -> _Proposal | None:
        if self._proposal is not None and self._clock() >= self._proposal.expires:
            self._proposal = None
        return self._proposal

    async def _change(self, files: Mapping[str, str], to: ReplacedIn) -> _Change:
        change = await asyncio.to_thread(self._server_change, files, to)
        if to == "new":
            return change
        plans = await self._live.plans(change.rules, change.sets)
        loosened = dict(change.loosened)
        for plan in plans:
            for key, people in plan.loosened.items():
                loosened[key] = max(people, loosened.get(key, 0))
        groups = dict.fromkeys([*change.groups, *(group for plan in plans for group in plan.groups)])
        return replace(change, plans=plans, loosened=loosened, groups=tuple(groups))

    def _server_change(self, files: Mapping[str, str], to: ReplacedIn) -> _Change:
        """Return the change for new sessions."""
        rules = self.rules.replaced(files)
        old, new = self.rules.nets, rules.nets
        changes = RuleChanges.between(old, new)
        names = {
            key: net
            for key, net in old.items()
            if any(takes_from(each, net, old.values()) for name, each in new.items() if name not in old)
        }
        changed = {key: before for key, (before, _) in changes.changed.items()}
        # Changed maps may remove any call from any rule.
        loosened = dict(old) if changes.maps else {**changes.gone, **changed, **names}
        people = {key: people_to_loosen(net.rule) for key, net in loosened.items()}
        terms = [approvers_of(net.rule) for net in loosened.values()]
        groups = dict.fromkeys(each.group for each in terms if each is not None and each.group)
        keyed = any(each is not None and each.passkey for each in terms)
        compiled = self._external.compiled(rules)
        return _Change(rules, to, changes, people, compiled, groups=tuple(groups), keyed=keyed)

    async def _agree(self, change: _Change, terms: OperatorTerms) -> Outcome:
        proposal = self._open_proposal()
        if proposal is not None and proposal.rules.sources() != change.rules.sources():
            return _refused(
                f"{proposal.names[0]} has proposed other rules: {proposal.reason}. Apply those, or take "
                "them back first"
            )
        if proposal is not None and proposal.to != change.to:
            theirs = "live sessions, too" if proposal.to == "all" else "future sessions only"
            return _refused(f"{proposal.names[0]} has proposed these for {theirs}. Agree to that instead")
        if change.keyed:
            return _refused(f"this may loosen {KEYED_RULE}: restart the server under other rules")
        outside = [group for group in change.groups if group not in self._groups_of(terms)]
        if outside:
            return _refused(
                f"this may loosen rules of {' and '.join(outside)}, and {terms.by} is not in it; members "
                "must apply it"
            )
        if proposal is None:
            if change.loosened and not terms.reason:
                return Outcome(ok=False, message=_needs_reason(change), needs_reason=True)
            expires = self._clock() + PROPOSED_FOR
            proposal = _Proposal(change.rules, change.to, (), change.people, terms.reason, expires)
        lapsed = next((name for name, token in proposal.given if not terms.counts(token)), None)
        if lapsed is not None:
            self._proposal = None
            return _refused(f"{lapsed} no longer counts. Propose it again")
        if is_among(terms.by, proposal.names):
            return _refused(f"{terms.by} has agreed to these already: somebody else must, too")
        proposal = replace(proposal, given=(*proposal.given, (terms.by, terms.token)))
        if len(proposal.given) < change.people:
            self._proposal = replace(proposal, people=change.people)
            return Outcome(ok=True, message=_still_missing(change.people - len(proposal.given)))
        return await self._replace(change, proposal)

    async def _replace(self, change: _Change, proposal: _Proposal) -> Outcome:
        *others, by = proposal.names
        applied = AppliedRules(
            by=by, at=self._clock(), others=tuple(others), reason=proposal.reason or None
        )
        change.rules.applied = change.sets.applied = applied
        self._external.commit(change.sets)
        self.rules, self._to, self._proposal = change.rules, change.to, None
        lines = await self._live.replace(change.plans, change.rules) if change.to == "all" else []
        return Outcome(ok=True, message=await asyncio.to_thread(_success, change, lines))


def _refused(reason: str) -> Outcome:
    return Outcome(ok=False, message=f"Not applied: {reason}")


def _needs_reason(change: _Change) -> str:
    keys = list(change.loosened)
    shown = ", ".join(map(visible, keys[:SHOWN_RULES])) + (", …" if len(keys) > SHOWN_RULES else "")
    return f"Not applied: this may loosen {shown}. Give a reason: it is recorded with the change"


def _still_missing(people: int) -> str:
    others = "another operator" if people == 1 else f"{people} other operators"
    return (
        f"Proposed, nothing is changed yet: {others} must apply the same rules within "
        f"{format_duration(PROPOSED_FOR.total_seconds())}, under their own names"
    )


def _success(change: _Change, live: Sequence[str]) -> str:
    lines = [*change_lines(change.changes)] or ["the rules are the same; only their texts differ"]
    texts = change.rules.sources()
    stale = [
        path
        for path, text in zip(paths_of(texts), texts.values(), strict=True)
        if read_text(path) != text
    ]
    until = (
        f" The server reads its files again when it starts, and {', '.join(map(visible, stale))} "
        "differs: write them there, too."
        if stale
        else ""
    )
    remark = "" if change.to == "all" else "; live ones keep their rules"
    return "\n".join([f"Applied to sessions that begin from now on{remark}.", *live, *lines]) + until
