"""Questions that were always approved: how many could have been saved, and by what.

The recorded calls are judged again under their own nets, once without the rule that asks and once with a
condition that lets the most common value pass. A question counts as saved if the call would have been
allowed, so not if another rule asks as well. Savings in a history say nothing about other calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from math import ceil

from ..core.condition import And, Compare, condition_text
from ..history.database.location import Location
from ..history.decisions.approval_stats import RuleFatigue, nets_of
from ..history.fold.markings import skill_net
from ..history.model.records import NetRecord
from ..history.model.times import to_ms
from ..history.redaction.redaction import Redaction
from ..net.net import NetError, SkillNet
from .answers import Saved
from .input_fields import PlainField, is_hidden, plain_fields
from .journal_reader import recordings
from .judge import Judge
from .recording import RecordedCall
from .trial import ReadCondition, RecordedNames, Trial

USES = (1, 3, 5, 10)
"""Numbers of uses of a grant that are tried."""

WORTH = 0.8
"""Share of the savings of an unlimited grant that a smaller number of uses must reach."""

COMMON = 10
"""Questions that must share a value before it is meaningful."""

FIELDS = 20_000


def saved(
    path: Location,
    rule: RuleFatigue,
    *,
    since: datetime | None = None,
    conditions: ReadCondition,
    redaction: Redaction,
    cancelled: Callable[[], bool] = lambda: False,
) -> Saved | None:
    """Means that would have saved questions of a rule; `None` if there are none, or once `cancelled`.

    `conditions` parses those of recorded nets. A value that `redaction` hides is never written into a
    rule. Raises `JournalError`.
    """
    if not rule.always:
        return None
    trials = _Trials(path, rule.net, conditions)
    first = to_ms(since) if since is not None else 0
    groups: Counter[tuple[str, str, tuple[str, ...]]] = Counter()
    fields: Counter[PlainField] = Counter()
    for session, call in _avoidable_calls(path, rule, trials, None, first):
        if cancelled():
            return None
        groups[session, call.tool, call.names] += 1
        fields.update(_exact(call.input) if len(fields) < FIELDS else ())
    alone = sum(groups.values())
    result = Saved(sessions=len(rule.sessions), asked=sum(rule.sessions.values()), alone=alone)
    if rule.grants:
        result = result.model_copy(update=_grant(groups.values()))
    field_value = _common(fields, redaction)
    if field_value is not None:
        compare = Compare(field_value[0], "!=", field_value[2])
        count = 0
        for _ in _avoidable_calls(path, rule, trials, compare, first):
            if cancelled():
                return None
            count += 1
        if count:
            result = result.model_copy(update={"when": condition_text(compare), "by_condition": count})
    return result if result.by_grant or result.by_condition else None


def _grant(groups: Collection[int]) -> dict[str, int]:
    """The fewest uses that save nearly as much as a grant for the session, and what they save."""
    possible = sum(count - 1 for count in groups)
    for uses in USES if possible else ():
        saved_count = sum(count - ceil(count / (uses + 1)) for count in groups)
        if saved_count >= WORTH * possible or uses == USES[-1]:
            return {"uses": uses, "by_grant": saved_count}
    return {}


def _avoidable_calls(
    path: Location, rule: RuleFatigue, trials: _Trials, compare: Compare | None, since: int
) -> Iterator[tuple[str, RecordedCall]]:
    """Calls that people approved and that would have been allowed without approval."""
    for recording in recordings(path, rule.sessions, texts=True):
        judge = trials.judge(recording.name, compare)
        if judge is None:
            continue
        for judgement in judge.judge(recording.items, recording.start):
            call = judgement.call
            was_approved = call.then.outcome == "ask" and call.then.ran and call.then.by
            if was_approved and judgement.now.outcome == "allow" and (call.at or 0) >= since:
                yield recording.name, call


class _Trials:
    """Judges of sessions under their own nets except one; sessions with the same nets share a judge."""

    def __init__(self, path: Location, net: str, conditions: ReadCondition) -> None:
        self._path = path
        self._net = net
        self._conditions = conditions
        self._last: tuple[dict[str, NetRecord], Compare | None, Judge | None] | None = None

    def judge(self, session: str, compare: Compare | None) -> Judge | None:
        """Judge without the net, or with `compare` added to its condition; `None` for invalid nets."""
        records = nets_of(self._path, session)
        if self._last is None or self._last[:2] != (records, compare):
            self._last = records, compare, self._make(records, compare)
        return self._last[2]

    def _make(self, records: dict[str, NetRecord], compare: Compare | None) -> Judge | None:
        names = RecordedNames()
        nets: dict[str, SkillNet] = {}
        for key, record in records.items():
            if key == self._net and compare is None:
                continue
            try:
                nets[key] = self._net_of(record, compare if key == self._net else None, names)
            except NetError:
                return None
        rules = {key: records[key].rule for key in nets}
        return Judge(Trial(nets, rules, None, names))

    def _net_of(self, record: NetRecord, compare: Compare | None, names: RecordedNames) -> SkillNet:
        """A recorded net with its condition, and `compare` if given.

        A net whose condition can no longer be parsed always applies; `compare` cannot be added to it.
        Raises `NetError`.
        """
        condition = None if record.when is None else self._conditions(record.when)
        governs = record.governs if condition is not None else ()
        if compare is not None:
            if record.when is not None and condition is None:
                raise NetError(f"the condition of net '{record.key}' cannot be read")
            condition = compare if condition is None else And((condition, compare))
            governs = governs or tuple(dict.fromkeys(n for t in record.transitions for n in t.tools))
        return replace(skill_net(record), call_names=names, condition=condition, governs=governs)


def _exact(values: Mapping[str, object]) -> Iterator[PlainField]:
    """The plain fields whose values are compared exactly, so no fractions."""
    return (field for field in plain_fields(values) if field[1] is not float)


def _common(fields: Counter[PlainField], redaction: Redaction) -> PlainField | None:
    """The field and value that most questions share, the simplest of equally common ones."""
    candidates = [each for each in fields.items() if each[1] >= COMMON]
    candidates.sort(key=lambda each: (-each[1], len(each[0][0]), len(str(each[0][2])), each[0][0]))
    for field, _ in candidates:
        if not is_hidden(field, redaction):
            return field
    return None
