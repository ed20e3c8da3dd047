"""Texts of `interlock check` and the rules screen on nets and tools.

They contain names as rules files wrote them; the caller makes them safe to show.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...engine.core.approvers import PASSKEY, Approvers
from ...engine.core.condition import condition_text
from ...engine.core.durations import format_duration
from ...engine.core.rule import ApprovalRule, BlockRule, LimitRule, Rule, SequenceRule
from ...engine.core.shared_limit import Reach
from ...engine.net.net import SkillNet, Transition
from ...engine.verify import Answer, Most, Never, Unknown, Way
from ...rules.analysis.findings import Findings, ToolFinding
from ...rules.parse.statements import SESSION
from .text import count

STATES_SHOWN = 12
CONDITIONS_SHOWN = 6
TOGETHER = "All rules together: the shortest way to each tool, and the most calls"
OUTSIDE = "(outside NET: by a call that does not meet the condition of NET)"


def place_text(net: SkillNet, place: str) -> str:
    """Return a place with its initial tokens."""
    tokens = net.initial_marking[place]
    return f"{place} {tokens}" if tokens else place


def transition_text(transition: Transition, arrow: str = "→") -> str:
    """Return a transition with its arcs, and what fires it."""
    inputs, outputs, amount = [*transition.inputs], [*transition.outputs], transition.amount
    if amount is not None:
        inputs.append(f"{amount.field.name} of {amount.source}")
        outputs += [] if amount.target is None else [f"as much of {amount.target}"]
    arcs = f"{', '.join(inputs)} {arrow} {', '.join(outputs)}"
    moved = "".join(f", all {source} {arrow} {target}" for source, target in transition.transfers)
    fired_by = f"on {', '.join(transition.tools)}" if transition.tools else "structural"
    if transition.after is not None:
        fired_by = f"after {format_duration(transition.after)}"
    traits = {
        "manual": transition.type == "manual",
        "partial": transition.partial,
        "deferred": transition.deferred,
    }
    marks = ", ".join(name for name, has in traits.items() if has)
    if transition.approvers is not None:
        marks += f", {transition.approvers.words}"
    return f"{transition.name}: {arcs}{moved}; {fired_by}{f' ({marks})' if marks else ''}"


def steers(findings: Findings) -> bool:
    """Return whether some way avoids a condition, so that `OUTSIDE` has to be shown."""
    ways = (way for tool in findings.tools for way in (tool.way, *(w.way for w in tool.within)))
    return any(isinstance(way, Way) and any(call.outside for call in way.calls) for way in ways)


def tool_lines(tool: ToolFinding, arrow: str = "→") -> Iterator[str]:
    """Yield the shortest way to a tool, ways under conditions if they differ, and the most calls."""
    if tool.blocked is not None:
        source = tool.blocked.source
        yield "blocked" if source is None else f"blocked by {source.where}"
    elif isinstance(tool.way, Never):
        yield "can never be called"
    elif isinstance(tool.way, Unknown):
        yield "unknown whether it can be called: too many possibilities to try"
    else:
        usual = _way(tool.way, arrow)
        yield usual
        others = {w.when: way for w in tool.within if (way := _way(w.way, arrow)) != usual}
        yield from [f"when {when}: {way}" for when, way in others.items()][:CONDITIONS_SHOWN]
        if len(others) > CONDITIONS_SHOWN:
            yield f"and under {count(len(others) - CONDITIONS_SHOWN, 'more condition')}"
        yield _limit_words(tool.most)


def _way(way: Answer, arrow: str) -> str:
    match way:
        case Way(calls, shortest):
            detour = "" if shortest else "; perhaps there is a shorter way"
            return f" {arrow} ".join(map(str, calls)) + detour
        case Never():
            return "never"
        case Unknown():
            return "unknown"


def _limit_words(most: Most) -> str:
    """Return how often a tool can be called per session, and at which pace."""
    paces = " and ".join(f"at most {pace}" for pace in (*most.paces, *most.each))
    if most.unlimited:
        return paces or "any number of calls a session"
    if most.most is None:
        often = f"{count(most.least, 'call')} a session or more; unknown how many"
    elif most.exact:
        often = f"at most {count(most.most, 'call')} a session"
    else:
        often = f"at most {count(most.most, 'call')} a session, perhaps fewer; "
        often += f"{most.least:,} are possible"
    return f"{often}; {paces}" if paces and most.most != 0 else often


# Effect of a rule and its options, in words.


def does(rule: Rule) -> Iterator[str]:
    """Yield lines on a rule: its effect on calls, then each option, then the condition."""
    match rule:
        case SequenceRule():
            each = "successful calls of" if rule.every else "a successful"
            often = f"any number of {rule.dependent}" if rule.once else f"one {rule.dependent}"
            yield f"{each} {rule.needed} {'unlock' if rule.every else 'unlocks'} {often}"
            if rule.since is not None:
                yield f"a call of {rule.since} locks it again"
            if rule.within is not None:
                yield f"a success counts for {format_duration(rule.within)}"
        case ApprovalRule():
            yield from _approval(rule)
        case BlockRule(after=None):
            yield f"{rule.tool} is blocked"
        case BlockRule():
            yield f"{rule.tool} is blocked after a call of {rule.causes}"
        case LimitRule():
            yield from _limit(rule)
    if rule.when is not None:
        yield f"only when {condition_text(rule.when)}"


def _approval(rule: ApprovalRule) -> Iterator[str]:
    by = "" if rule.people == 1 else f" by {rule.people} different people"
    if rule.group is not None:
        by = f" by {rule.people} of {rule.group}"
    after = "" if rule.after is None else f" after a call of {rule.causes}"
    yield f"{rule.tool} needs approval{by}{after}"
    if rule.until:
        yield f"until one is approved and succeeds, then after the next call of {rule.causes}"
    if rule.same is not None:
        yield f"for the same {rule.same.field}"
    yield from _approvers(rule.approvers)
    if rule.within is not None:
        yield f"within {format_duration(rule.within)}"
    if rule.risk is not None:
        yield f"risk {rule.risk}"
    if not rule.may_grant:
        yield "no grants"


def _approvers(terms: Approvers | None) -> Iterator[str]:
    """Yield lines on passkeys, on people who do not count, and on the escalation."""
    if terms is None:
        return
    if terms.passkey:
        yield f"{PASSKEY}: each approval is signed by a key that its person enrolled"
    if not terms.author:
        yield "not by the people behind the session"
    if terms.escalation is not None:
        calls = "also counts" if terms.group is not None else "is called"
        after = format_duration(terms.escalation.after)
        yield f"after {after} escalated to {terms.escalation.group}, which {calls}"


_ACROSS: Mapping[Reach | None, str] = {
    None: "",
    "everyone": ", over all sessions together",
    "agent": ", over all sessions of the agent",
    "operator": ", over all sessions that the same operator started",
}


def _limit(rule: LimitRule) -> Iterator[str]:
    calls = f"{count(rule.limit, 'call')} of {rule.tool}"
    if rule.window is not None:
        yield f"{calls} per {rule.scope}{_ACROSS[rule.across]}"
        yield f"each comes back after {format_duration(rule.window)}"
    elif rule.scope == SESSION:
        yield f"{calls} a session"
    else:
        yield calls
        yield f"a successful {rule.scope} restores {'it' if rule.limit == 1 else 'them'}"
