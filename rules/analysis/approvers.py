"""Approvals that nobody could give: groups named in rules, compared with the configured operators.

Only proven problems are reported: as many members who may decide as required must be listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from ...engine.core.approvers import PASSKEY, Approvers, Operator, Operators, some_of
from ...engine.core.durations import format_duration
from ...engine.core.people import is_among
from ...engine.core.rights import may
from ...engine.core.rule import ApprovalRule, Rule, RuleSource
from ..errors.problems import Problem, quote
from .lint import at_word


@dataclass(frozen=True, slots=True)
class ApproverFindings:
    """Errors, which no session can avoid, and warnings."""

    errors: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


def about_approvers(rules: Iterable[Rule | None], operators: Operators) -> ApproverFindings:
    """Compare the groups and keys that rules name with the operators of a configuration.

    Without a configuration nobody is in a group. This is a warning, because whoever runs the rules may
    have a configuration.
    """
    errors: list[Problem] = []
    warnings: list[Problem] = []
    for rule in rules:
        if not isinstance(rule, ApprovalRule) or rule.approvers is None or rule.source is None:
            continue
        if rule.passkey and operators.keyed is not None:
            warnings += _keyless(rule, rule.source, rule.approvers, operators, operators.keyed)
        if not operators.configured:
            if rule.group is not None and rule.group not in operators.claimed:
                warnings.append(_unconfigured(rule.source, rule.people, rule.group))
            continue
        unknown = [*_unknown(rule.source, rule.approvers, operators)]
        errors += unknown
        if not unknown and rule.group is not None:
            for is_error, problem in _members(rule, rule.source, rule.approvers, rule.group, operators):
                (errors if is_error else warnings).append(problem)
    return ApproverFindings(tuple(errors), tuple(warnings))


def _unconfigured(source: RuleSource, people: int, group: str) -> Problem:
    message = f"needs {some_of(people, group)}, and no operators are configured: nobody can approve it"
    remedy = f'list its members in your own interlock.toml: [operators.NAME] with groups = ["{group}"]'
    return at_word(source, group, message, remedy)


def _unknown(source: RuleSource, terms: Approvers, operators: Operators) -> Iterator[Problem]:
    """An error for each group without members."""
    groups_named = [terms.group, None if terms.escalation is None else terms.escalation.group]
    for group in groups_named:
        groups = tuple(dict.fromkeys((*operators.groups, *operators.claimed)))
        if group is None or group in groups:
            continue
        close = get_close_matches(group, groups, n=1)
        known = ", ".join(map(quote, groups)) or "none"
        hint = f"did you mean {quote(close[0])}?" if close else f"groups there are: {known}"
        yield at_word(source, group, f"no operator is in the group {quote(group)}", hint)


def _members(
    rule: ApprovalRule, source: RuleSource, terms: Approvers, group: str, operators: Operators
) -> Iterator[tuple[bool, Problem]]:
    """Faults in the number of people who may approve; the first value says whether it is an error."""
    if not {*terms.groups(escalated=True)}.isdisjoint(operators.claimed):
        return  # A provider may determine the members at each login.
    deciding, every = operators.deciding([group]), operators.deciding(terms.groups(escalated=True))
    needs = f"needs {some_of(rule.people, group)}, which has {_listed(deciding)}"
    if len(every) < rule.people:
        remedy = "add members in [operators], or ask for fewer people"
        yield True, at_word(source, group, needs, remedy)
        return
    if len(deciding) < rule.people and terms.escalation is not None:
        after = format_duration(terms.escalation.after)
        message = f"{needs}: it can be met only after {after}, with {terms.escalation.group}"
        yield False, at_word(source, group, message, "add members in [operators]")
    if len(every) == rule.people and (rule.people > 1 or not terms.author):
        approver = every[0].name if len(every) == 1 else "one of them"
        message = f"{needs}: nobody can approve a session that {approver} starts or gives its task"
        yield False, at_word(source, group, message, "add members in [operators]")


def _keyless(
    rule: ApprovalRule,
    source: RuleSource,
    terms: Approvers,
    operators: Operators,
    keyed: Sequence[str],
) -> Iterator[Problem]:
    """A warning if fewer people have a passkey than must approve; more can be enrolled at any time."""
    having = keyed
    if operators.configured:
        groups = terms.groups(escalated=True)
        anybody = (each for each in operators.listed or () if may(each.rights, "decide"))
        counting = operators.deciding(groups) if groups else anybody
        having = [each.name for each in counting if is_among(each.name, keyed)]
    if len(having) < rule.people:
        names = f" ({', '.join(having)})" if having else ""
        message = (
            f"needs {some_of(rule.people, terms.group)} {PASSKEY}, and {len(having) or 'nobody'} "
            f"has enrolled one{names}"
        )
        yield at_word(source, "passkey", message, "enroll keys on the page /m/keys of `interlock web`")


def _listed(members: tuple[Operator, ...]) -> str:
    """`1 member who may decide (maria)`."""
    names = ", ".join(each.name for each in members)
    word = "member" if len(members) == 1 else "members"
    return f"{len(members) or 'no'} {word}{f' ({names})' if names else ' who may decide'}"
