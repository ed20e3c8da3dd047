"""Why a call would pass, ask or be blocked, and what would have to happen first (G-10, G-60).

Pure: nothing is asked, fired or recorded. Verdicts use all names of the call, as the gate does (G-50);
the way to it is proved for all active nets together, from where they stand now.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..net import SkillNet, ToolCall
from .classify import Roster, names_of
from .member import Member
from .types import NetVerdict, Outcome

if TYPE_CHECKING:
    from ..verify import Answer


@dataclass(frozen=True, slots=True)
class NetExplanation:
    """One active net: its verdict on the call, its marking, and where its rule stands.

    `where` is `file:line`, or `None` for a net that no rule made. `asks` says that it asks a person.
    """

    net: str
    verdict: NetVerdict
    marking: Mapping[str, int]
    where: str | None

    @property
    def asks(self) -> bool:
        return any(step.transition.type == "manual" for step in self.verdict.steps)


@dataclass(frozen=True, slots=True)
class Explanation:
    """What the active nets would do with `call` now, net by net in order of activation.

    `outcome` is what enforce mode does where people can be asked. `way` is `None` for a call that is
    allowed; otherwise the shortest sequence of calls after which it passes, itself last, approvals
    marked; or `Never` with the nets that forbid it; or `Unknown`. Validators are not consulted, and what
    calls that still run may bring is not counted on.
    """

    call: ToolCall
    names: tuple[str, ...]
    outcome: Outcome
    nets: tuple[NetExplanation, ...]
    way: Answer | None = None


@dataclass(frozen=True, slots=True)
class Sight:
    """What a gate's nets say of a call and where they stand, taken at one moment."""

    call: ToolCall
    names: tuple[str, ...]
    skill_nets: tuple[SkillNet, ...]
    nets: tuple[NetExplanation, ...]


def look(roster: Roster, call: ToolCall) -> Sight:
    """Note what `explain` needs; afterwards the gate may go on."""
    nets = tuple(
        _explained(member, verdict)
        for member, verdict in zip(roster.members, roster.verdicts(call), strict=True)
    )
    return Sight(call, roster.findings(call).names, tuple(m.net for m in roster.members), nets)


def _explained(member: Member, verdict: NetVerdict) -> NetExplanation:
    source = None if member.net.rule is None else member.net.rule.source
    where = None if source is None else source.where
    return NetExplanation(member.key, verdict, dict(member.state.marking), where)


def explain(seen: Sight) -> Explanation:
    """Explain the call. Raises nothing for what a net's callback does."""
    outcome: Outcome = "allow"
    if any(net.verdict.kind == "blocked" for net in seen.nets):
        outcome = "block"
    elif any(net.asks for net in seen.nets):
        outcome = "ask"
    way = None if outcome == "allow" else _way(seen)
    return Explanation(seen.call, seen.names, outcome, seen.nets, way)


def _way(seen: Sight) -> Answer:
    """The way to the call from the noted markings; unknown when a net cannot even name the call."""
    # Gates that never explain, a hook's for one, do not pay for the proofs.
    from ..verify import Action, Together, Unknown, vocabulary

    nets = {net.net: skill_net for net, skill_net in zip(seen.nets, seen.skill_nets, strict=True)}
    try:
        names = {key: names_of(net, seen.call) for key, net in nets.items()}
    except Exception:
        # The gate blocks in that net's name; what would mend the callback no net can tell.
        return Unknown()
    together = Together(
        nets,
        markings={net.net: net.marking for net in seen.nets},
        words=vocabulary(nets.values()),
        extra=[Action(seen.names, by_net=names)],
    )
    return together.way_to_extra()
