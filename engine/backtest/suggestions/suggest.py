"""Suggestions from a journal, start to end: facts, proposals, and the effect of each.

Nothing is applied. A proposal is dropped if a denied call would pass, or if the rules then contradict
each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import chain

from ...core.condition import Condition
from ...core.rule import Rule, RuleSource
from ...history.database.location import Location
from ...history.model.times import to_ms
from ...history.redaction.redaction import Redaction
from ...net.net import SkillNet
from ..run import Progress
from ..trial import Trial
from .conditions import always_approved, separating
from .effects import EffectCounter, SessionsJudge
from .facts import FactReader, Facts
from .orders import limits, orders
from .proposal import Proposal
from .reading import JournalReading
from .scenarios import scenarios_of
from .suggestion import History, Suggestion
from .writer import RuleWriter

MOST = 20
"""Most suggestions that are judged, those of conditions first."""

MOST_NAMED = 8
"""Most open fields that a warning names."""


@dataclass(frozen=True, slots=True)
class _Trial:
    """A proposal with the resulting rules, and the counts of their effect."""

    proposal: Proposal
    texts: Mapping[str, str]
    nets: Mapping[str, SkillNet]
    counter: EffectCounter


def suggest(
    path: Location,
    rules: Mapping[str, str],
    writer: RuleWriter,
    redaction: Redaction,
    *,
    since: datetime | None = None,
    progress: Progress = lambda done, total: None,
) -> History:
    """Suggestions for `rules`, texts by file name, from the journal at `path`.

    Calls before `since` support nothing, but their denials count. All calls are read twice, and a third
    time if limits count over sessions. `progress` gets the number of calls read, and their total; an
    exception from it ends the work. Raises `JournalError` for a journal that cannot be read, `ValueError`
    for rules that do not compile.
    """
    nets = writer.compiled(rules)
    first = 0 if since is None else to_ms(since)
    texts = Trial.of(nets).reads_texts
    facts = FactReader(nets, redaction, first)
    counts = any(net.shared for net in nets.values())
    read = JournalReading(path, progress, times=3 if counts else 2, texts=texts)
    for recording, items in read.sessions():
        facts.read(recording, items)
    current_rules = [net.rule for net in nets.values() if net.rule is not None]
    base = writer.findings(rules)
    trials = [
        _Trial(proposal, changed_rules, changed_nets, EffectCounter(changed_nets, redaction, first))
        for proposal, changed_rules, changed_nets in _compiled(
            _proposals(facts.facts, current_rules, rules, writer), rules, writer, read.tell
        )
    ]
    if trials:
        judge = SessionsJudge(nets)
        for recording, items in read.sessions() if counts else ():
            for each in (judge, *(trial.counter.judge for trial in trials)):
                each.count(recording, items)
        for recording, items in read.sessions():
            before = list(judge.judge(recording, items))
            for trial in trials:
                trial.counter.take(recording, items, before)
    suggestions: list[Suggestion] = []
    for trial in trials:
        read.tell()
        suggestion = _suggestion(trial, base, writer, redaction) if trial.counter.safe else None
        if suggestion is not None:
            suggestions.append(suggestion)
    answers = facts.facts.rules.values()
    return History(
        suggestions=tuple(suggestions),
        sessions=facts.facts.sessions,
        calls=facts.facts.calls,
        approved=sum(len(each.approved) for each in answers),
        denied=sum(len(each.denied) for each in answers),
    )


def _proposals(
    facts: Facts, current_rules: list[Rule], rules: Mapping[str, str], writer: RuleWriter
) -> Iterator[Proposal]:
    """All proposals, without duplicate lines."""

    def narrow(rule: Rule, condition: Condition) -> str:
        assert rule.source is not None
        return writer.narrowed(line_of(rules, rule.source), rule, condition)

    of_rules = (
        kind(each, narrow) for each in facts.rules.values() for kind in (separating, always_approved)
    )
    places: set[tuple[str, str]] = set()
    for proposal in chain(
        chain.from_iterable(of_rules), orders(facts, current_rules), limits(facts, current_rules)
    ):
        place = "" if proposal.replaces is None else proposal.replaces.where
        if (place, proposal.text) not in places:
            places.add((place, proposal.text))
            yield proposal


def _compiled(
    proposals: Iterator[Proposal],
    rules: Mapping[str, str],
    writer: RuleWriter,
    tell: Callable[[], object],
) -> Iterator[tuple[Proposal, Mapping[str, str], Mapping[str, SkillNet]]]:
    """The first proposals with which the rules compile."""
    number = 0
    for proposal in proposals:
        tell()
        texts = _with_proposal(rules, proposal)
        try:
            nets = writer.compiled(texts)
        except ValueError:
            continue
        yield proposal, texts, nets
        number += 1
        if number == MOST:
            return


def line_of(rules: Mapping[str, str], source: RuleSource) -> str:
    """The line of a rule as written."""
    return rules[source.file].split("\n")[source.line - 1].rstrip("\r")


def _with_proposal(rules: Mapping[str, str], proposal: Proposal) -> dict[str, str]:
    """The texts with the proposal's line in place of the one it replaces, or added at the end."""
    place = proposal.replaces
    if place is None:
        file = next(iter(rules))
        return {**rules, file: f"{rules[file].rstrip()}\n{proposal.text}\n"}
    return with_line(rules, place, proposal.text)


def with_line(rules: Mapping[str, str], place: RuleSource, text: str) -> dict[str, str]:
    """The texts with another line in a rule's place."""
    lines = rules[place.file].split("\n")
    lines[place.line - 1] = text
    return {**rules, place.file: "\n".join(lines)}


def _open(proposal: Proposal) -> Iterator[str]:
    """Warnings about fields that may have any value in calls that pass."""
    fields = proposal.open_fields
    if proposal.replaces is not None and fields:
        more = f" and {len(fields) - MOST_NAMED} more" if len(fields) > MOST_NAMED else ""
        names = ", ".join(fields[:MOST_NAMED])
        yield f"{proposal.replaces.where}: such calls pass whatever they have in {names}{more}"


def _suggestion(
    trial: _Trial, base: tuple[tuple[str, ...], tuple[str, ...]], writer: RuleWriter, redaction: Redaction
) -> Suggestion | None:
    """A proposal with its effect; `None` if it has none, or if the rules contradict each other."""
    proposal, effect = trial.proposal, trial.counter.effect
    errors, warnings = writer.findings(trial.texts)
    # It would stop calls that ran: an order or limit that does not hold according to the judge.
    useless = not effect.saved if proposal.loosens else trial.counter.stopped
    if useless or set(errors) - set(base[0]):
        return None
    return Suggestion(
        kind=proposal.kind,
        rule=proposal.text,
        replaces=None if proposal.replaces is None else proposal.replaces.where,
        before=None if proposal.replaces is None else proposal.replaces.text,
        loosens=proposal.loosens,
        support=proposal.support,
        effect=effect,
        warnings=(
            *_open(proposal),
            *trial.counter.inexact,
            *(each for each in warnings if each not in base[1]),
        ),
        scenarios=scenarios_of(proposal, trial.nets, writer, redaction),
    )
