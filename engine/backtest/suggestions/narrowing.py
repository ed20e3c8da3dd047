"""One approval rule with a further condition, judged on recorded calls like a suggestion.

The condition comes from an operator. Calls that people ever denied and that would pass now are listed;
the rule is then not a suggestion.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from ...core.condition import Condition, holds
from ...core.rule import ApprovalRule, RuleSource
from ...history.database.location import Location
from ...history.model.times import from_ms, to_ms
from ...history.redaction.redaction import Redaction
from ...net.net import SkillNet
from ..run import Progress, short_input
from ..trial import Trial
from .effects import EffectCounter, SessionsJudge
from .facts import MOST, FactReader, Observation, RuleFacts, loosenable
from .proposal import support_of
from .reading import JournalReading
from .suggest import line_of, with_line
from .suggestion import LISTED, ListedCall, Narrowing, Suggestion
from .writer import RuleWriter


def narrow(
    path: Location,
    rules: Mapping[str, str],
    file: str,
    line: int,
    condition: Condition,
    writer: RuleWriter,
    redaction: Redaction,
    *,
    since: datetime | None = None,
    progress: Progress = lambda done, total: None,
) -> Narrowing:
    """The rule at a `line` of a `file` in `rules`, applied only if `condition` holds as well.

    Calls before `since` count only if people denied them. Raises `ValueError` for rules that do not
    compile and for a rule that may not be loosened, `JournalError` for a journal that cannot be read.
    """
    nets = writer.compiled(rules)
    key, rule, source = _rule_at(nets, file, line)
    before = line_of(rules, source)
    after = writer.narrowed(before, rule, condition)
    texts = with_line(rules, source, after)
    narrowed_nets = writer.compiled(texts)
    first = 0 if since is None else to_ms(since)
    facts, counter = FactReader(nets, redaction, first), EffectCounter(narrowed_nets, redaction, first)
    base = SessionsJudge(nets)
    counts = base.counts or counter.judge.counts
    read = JournalReading(
        path, progress, times=2 if counts else 1, texts=Trial.of(narrowed_nets).reads_texts
    )
    for recording, items in read.sessions() if counts else ():
        for each in (base, counter.judge):
            each.count(recording, items)
    for recording, items in read.sessions():
        facts.read(recording, items)
        counter.take(recording, items, list(base.judge(recording, items)))
    read.tell()
    return _narrowing(
        facts.facts.rules[key],
        counter,
        condition,
        (before, after, source),
        writer,
        rules,
        texts,
        redaction,
    )


def _rule_at(nets: Mapping[str, SkillNet], file: str, line: int) -> tuple[str, ApprovalRule, RuleSource]:
    rules: dict[tuple[str, int], tuple[str, ApprovalRule, RuleSource]] = {}
    for key, net in nets.items():
        rule = net.rule
        source = None if rule is None else rule.source
        if isinstance(rule, ApprovalRule) and source is not None and loosenable(rule):
            rules[source.file, source.line] = key, rule, source
    if (file, line) in rules:
        return rules[file, line]
    raise ValueError(
        f"{file}:{line}: no approval rule that may be loosened; expected one that is written "
        "there without 'risk high', 'by N', 'no grants' and 'until'"
    )


def _narrowing(
    facts: RuleFacts,
    counter: EffectCounter,
    condition: Condition,
    change: tuple[str, str, RuleSource],
    writer: RuleWriter,
    rules: Mapping[str, str],
    texts: Mapping[str, str],
    redaction: Redaction,
) -> Narrowing:
    before, after, source = change

    def freed(call: Observation) -> bool:
        return holds(condition, call.input, call.surroundings) is False

    edited_calls = [call for call in facts.denied if call.edited and freed(call)]
    support = support_of(filter(freed, facts.approved), sum(not freed(call) for call in facts.denied))
    base_findings, findings = writer.findings(rules), writer.findings(texts)
    unknown = () if facts.complete else (f"More than {MOST:,} calls were denied: too many to compare",)
    listed_calls = (*counter.listed_denied, *(_listed_call(call, redaction) for call in edited_calls))
    return Narrowing(
        suggestion=Suggestion(
            kind="value",
            rule=after,
            replaces=source.where,
            before=before,
            loosens=True,
            support=support,
            effect=counter.effect,
            warnings=(*counter.inexact, *(each for each in findings[1] if each not in base_findings[1])),
        ),
        denied=counter.denied + len(edited_calls),
        listed_denied=listed_calls[:LISTED],
        errors=(*unknown, *(each for each in findings[0] if each not in base_findings[0])),
    )


def _listed_call(call: Observation, redaction: Redaction) -> ListedCall:
    """A call that ran with another input, as the agent requested it."""
    return ListedCall(
        session=call.session,
        event=call.event,
        at=None if call.at is None else from_ms(call.at),
        tool=call.tool,
        input=short_input(call.input, redaction),
    )
