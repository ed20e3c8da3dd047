"""The rules of a server's live sessions: the effect of other rules on each, and replacing them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol

from ...engine.core.approvers import Operators
from ...engine.core.sanitize import visible
from ...engine.gateway.protocol.framing import WireError
from ...engine.gateway.server.rule_sets import RuleSets
from ...engine.history.model.records import AppliedRules
from ...engine.hub.api import Outcome
from ...engine.hub.hub import Hub, UnknownSessionError
from ...engine.net.net import NetError, SkillNet
from ...engine.sessions.new_rules import NewRules
from ...rules import RuleError
from ..agents.builder import Prepared
from ..agents.spec import AgentSpecError
from ..sessions.server_rules import ServerRules

_NEVER = datetime.min.replace(tzinfo=UTC)
NOT_KNOWN = "it is not known which rules are its own"


class ExternalRules(Protocol):
    """The rules of external agents: compiled for other server rules, and applied by `commit`."""

    def compiled(self, rules: ServerRules) -> RuleSets:
        """Compile the rule sets. Raises `RuleError`, `NetError` and `SettingsError`."""
        ...

    def commit(self, sets: RuleSets) -> None:
        """Judge agents that connect from now on by these rules."""
        ...

    def rules_of(self, session_id: str) -> Sequence[str] | None:
        """Return the named sets of a live external session; `None` for any other session."""
        ...


@dataclass(frozen=True, slots=True)
class SessionPlan:
    """The effect of applying other rules to one live session.

    `loosened` maps the nets that would restrict fewer calls to the number of people each needs. `problem`
    is the reason why the session keeps its rules. `prepared` is its agent under the other rules, if that
    runs on the server. `groups` are those from which people must agree.
    """

    session_id: str
    registry: Mapping[str, SkillNet]
    loosened: Mapping[str, int]
    problem: str | None = None
    prepared: Prepared | None = None
    groups: tuple[str, ...] = ()


class LiveRules:
    """The rules of the live sessions on `hub`; their agents are known through `note`."""

    def __init__(self, hub: Hub, external: ExternalRules) -> None:
        self._hub = hub
        self._external = external
        self._prepared: dict[str, Prepared] = {}

    @property
    def operators(self) -> Operators:
        """Operators known to the hub."""
        return self._hub.operators

    def note(self, session_id: str, prepared: Prepared) -> None:
        """Store the agent of a live session, with the texts of its own rules."""
        self._prepared[session_id] = prepared

    async def plans(
        self, rules: ServerRules, sets: RuleSets, *, only: str | None = None
    ) -> list[SessionPlan]:
        """Plan `rules` for each live session, or only one.

        `sets` are the rule sets of external agents.
        """
        live = self._hub.judging_sessions()
        self._prepared = {key: prepared for key, prepared in self._prepared.items() if key in live}
        chosen = [key for key in live if only in (None, key)]
        return [plan for key in chosen if (plan := await self._plan(key, rules, sets)) is not None]

    async def _plan(self, session_id: str, rules: ServerRules, sets: RuleSets) -> SessionPlan | None:
        prepared = self._prepared.get(session_id)
        try:
            names = self._external.rules_of(session_id)
            if names is not None:
                registry = await sets.registry(names)
            elif prepared is not None:
                prepared = await asyncio.to_thread(rules.of_session, prepared)
                registry = prepared.rules.registry
            else:
                problem = self._hub.rules_obstacle(session_id) or NOT_KNOWN
                return SessionPlan(session_id, {}, {}, problem)
            unsaid = AppliedRules(by="", at=_NEVER)
            change = self._hub.rules_change(session_id, NewRules(registry, rules.required(), unsaid))
            return SessionPlan(
                session_id, registry, change.loosened, prepared=prepared, groups=change.groups
            )
        except UnknownSessionError:
            return None
        except (AgentSpecError, RuleError, NetError, WireError, ValueError) as error:
            return SessionPlan(session_id, {}, {}, str(error))

    async def replace(self, plans: Iterable[SessionPlan], rules: ServerRules) -> list[str]:
        """Apply the rules; return a line on how many sessions, and one per session that keeps its own."""
        done, refusals = 0, list[str]()
        for plan in plans:
            try:
                outcome = await self._replace(plan, rules)
            except UnknownSessionError:
                continue
            done += outcome.ok
            if not outcome.ok:
                refusals.append(f"{visible(plan.session_id)} keeps its rules: {visible(outcome.message)}")
        return [f"{done} live {'session is' if done == 1 else 'sessions are'} under them.", *refusals]

    async def _replace(self, plan: SessionPlan, rules: ServerRules) -> Outcome:
        if plan.problem is not None:
            return Outcome(ok=False, message=plan.problem)
        assert rules.applied is not None, "somebody has applied them"
        prepared = plan.prepared and replace(plan.prepared, applied=rules.applied)
        source = None if prepared is None else prepared.spec.model_dump(mode="json")
        new = NewRules(plan.registry, rules.required(), rules.applied, source)
        outcome = await self._hub.replace_rules(plan.session_id, new)
        if outcome.ok and prepared is not None:
            self.note(plan.session_id, prepared)
        return outcome
