"""Facts of a journal from which rules can be suggested: answers by rule, and what preceded calls.

The recorded calls are judged by the given rules, all of them active, so that the facts are about these
rules and not about the recorded ones. A request that was not approved with its input unchanged counts as
denied.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ...core.condition import NOWHERE, Surroundings, holds
from ...core.rule import RESERVED, ApprovalRule, Rule, people_to_loosen
from ...core.sanitize import folded_name
from ...history.redaction.redaction import Redaction
from ...net.net import CallNames, Input, SkillNet, ToolCall
from ..input_fields import PlainField, shown_fields
from ..judge import Judge, Judgement
from ..recording import (
    Recorded,
    RecordedCall,
    RecordedOpening,
    RecordedQuestion,
    RecordedResult,
    RecordedResumption,
    Recording,
)
from ..trial import Trial

MOST = 10_000
"""Most answers of each kind kept per rule; a rule with more denials gets no suggestion."""

NAMES = 400
"""Most names whose calls are counted; further ones are ignored."""

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_KEYWORDS = frozenset(
    {"human-approval", "human-approvals", "session", "when", "because", "shell", "unclear"}
)


@dataclass(frozen=True, slots=True)
class Observation:
    """A call that a person was asked about: its input, and the fields that may be written into a rule.

    An `edited` call ran with a different input. `event` is that of its decision.
    """

    session: str
    tool: str
    input: Input
    fields: tuple[PlainField, ...]
    surroundings: Surroundings
    at: int | None
    by: tuple[str, ...] = ()
    event: int = 0
    edited: bool = False


@dataclass(slots=True)
class RuleFacts:
    """Answers about calls of one approval rule: `approved` if only it asked, `denied` in any case."""

    key: str
    rule: ApprovalRule
    approved: list[Observation] = field(default_factory=list[Observation])
    denied: list[Observation] = field(default_factory=list[Observation])

    @property
    def complete(self) -> bool:
        """True if every denied call is among those kept."""
        return len(self.denied) < MOST


@dataclass(slots=True)
class NameFacts:
    """Calls that ran under one name: their number by session, and what had succeeded before each.

    `before` are the names of which, each time, a call had succeeded since the last call of this one.
    `example` is the input of a call of the tool itself.
    """

    sessions: Counter[str] = field(default_factory=Counter[str])
    before: frozenset[str] | None = None
    first: int | None = None
    last: int | None = None
    example: Input | None = None

    @property
    def calls(self) -> int:
        return self.sessions.total()


@dataclass(slots=True)
class Facts:
    """Facts of all sessions; `ahead` counts by name the calls that a success of it preceded."""

    rules: Mapping[str, RuleFacts]
    names: dict[str, NameFacts] = field(default_factory=dict[str, NameFacts])
    ahead: Counter[str] = field(default_factory=Counter[str])
    calls: int = 0
    sessions: int = 0


def loosenable(rule: Rule | None) -> bool:
    """True for an approval rule for which a further condition may be suggested.

    A rule of high risk, with several people, with a group or without grants stays as it is, and so does
    one that is implied by a map.
    """
    return (
        isinstance(rule, ApprovalRule)
        and not people_to_loosen(rule)
        and not rule.until
        and rule.approvers is None
        and rule.source is not None
        and not rule.source.implied
    )


class FactReader:
    """Gathers facts session by session; calls before `since`, in milliseconds, count only as denials."""

    def __init__(self, nets: Mapping[str, SkillNet], redaction: Redaction, since: int = 0) -> None:
        trial = Trial.of(nets, nets)
        self._judge = Judge(trial)
        self._redaction = redaction
        self._since = since
        self._asking = {k: n.rule for k, n in nets.items() if isinstance(n.rule, ApprovalRule)}
        self._namer = next((n.call_names for n in trial.nets.values() if n.call_names), None)
        self.facts = Facts(
            {key: RuleFacts(key, rule) for key, rule in self._asking.items() if loosenable(rule)}
        )

    def read(self, recording: Recording, items: Sequence[Recorded]) -> None:
        """Add the items of a session."""
        judgements = list(self._judge.judge(items, recording.start))
        session = _SessionFacts(
            recording.name, self.facts, self._asking, self._redaction, self._since, self._namer
        )
        coming = iter(judgements)
        for item in items:
            session.take(item, coming)
        self.facts.sessions += bool(judgements)


class _SessionFacts:
    """Facts of one session in progress."""

    def __init__(
        self,
        name: str,
        facts: Facts,
        asking: Mapping[str, ApprovalRule],
        redaction: Redaction,
        since: int,
        namer: CallNames | None,
    ) -> None:
        self._name = name
        self._facts = facts
        self._asking = asking
        self._redaction = redaction
        self._since = since
        self._namer = namer
        self._surroundings = NOWHERE
        self._questions: dict[str, Input] = {}
        # Positions in the session of the last success and the last call by name, and of results by call.
        self._running: dict[str, tuple[str, ...]] = {}
        self._succeeded: dict[str, int] = {}
        self._last_calls: dict[str, int] = {}
        self._position = 0

    def take(self, item: Recorded, judgements: Iterator[Judgement]) -> None:
        self._position += 1
        match item:
            case RecordedOpening() | RecordedResumption():
                self._surroundings = Surroundings(item.workdir, shell=item.shell)
            case RecordedQuestion():
                self._questions[item.call_id] = item.input
            case RecordedResult():
                for name in self._running.pop(item.call_id, ()) if not item.is_error else ():
                    self._succeeded[name] = self._position
            case RecordedCall():
                self._take_call(item, next(judgements))
            case _:
                pass

    def _names(self, call: RecordedCall, values: Input) -> tuple[str, ...]:
        """Names of a call under the rules; if no rule maps calls, its tool."""
        if self._namer is None:
            return (call.tool,)
        shell = self._surroundings.shell
        return tuple(self._namer(ToolCall(call.call_id, call.tool, values, shell)))

    def _take_call(self, call: RecordedCall, judgement: Judgement) -> None:
        question = self._questions.pop(call.call_id, None)
        was_edited = question is not None and dict(question) != dict(call.input)
        if call.then.denied or was_edited:
            self._take_denial(call, call.input if question is None else question, was_edited)
        names = self._names(call, call.input)
        recent = (call.at or 0) >= self._since
        if recent:
            self._facts.calls += 1
            if question is not None and not was_edited:
                self._take_approval(call, judgement, names)
        if call.then.ran:
            self._take_order(call, names, recent)

    def _take_denial(self, call: RecordedCall, values: Input, edited: bool) -> None:
        names = self._names(call, values)
        for facts in self._facts.rules.values():
            if _is_about(facts.rule, names) and facts.complete:
                facts.denied.append(self._observation(call, values, edited and not call.then.denied))

    def _take_approval(self, call: RecordedCall, judgement: Judgement, names: tuple[str, ...]) -> None:
        then, now = call.then, judgement.now
        facts = self._facts.rules.get(now.net or "")
        was_approved = then.by and then.ran and not then.shadow and not then.denied
        is_approval = (
            facts is not None and was_approved and now.outcome == "ask" and len(facts.approved) < MOST
        )
        if facts is not None and is_approval and not self._asked_elsewhere(call, facts.key, names):
            facts.approved.append(self._observation(call, call.input))

    def _asked_elsewhere(self, call: RecordedCall, key: str, names: tuple[str, ...]) -> bool:
        """True if another approval rule may apply to the call as well."""
        return any(
            _is_about(rule, names)
            and (rule.when is None or holds(rule.when, call.input, self._surroundings) is not False)
            for other, rule in self._asking.items()
            if other != key
        )

    def _observation(self, call: RecordedCall, values: Input, edited: bool = False) -> Observation:
        fields = shown_fields(values, self._redaction)
        return Observation(
            self._name,
            call.tool,
            values,
            fields,
            self._surroundings,
            call.at,
            call.then.by,
            call.seq,
            edited,
        )

    def _take_order(self, call: RecordedCall, names: tuple[str, ...], recent: bool) -> None:
        """Count a call that ran, and what had succeeded before it."""
        facts = self._facts
        plain = tuple(name for name in names if is_plain_name(name))
        for name in plain:
            if name not in facts.names and len(facts.names) >= NAMES:
                continue
            name_facts = facts.names.setdefault(name, NameFacts())
            since = self._last_calls.get(name, 0)
            if recent:
                before = frozenset(n for n, at in self._succeeded.items() if at > since) - {*names}
                name_facts.before = before if name_facts.before is None else name_facts.before & before
                name_facts.sessions[self._name] += 1
                name_facts.first = call.at if name_facts.first is None else name_facts.first
                name_facts.last = call.at
                if name_facts.example is None and name == call.tool:
                    name_facts.example = call.input
            self._last_calls[name] = self._position
        if recent:
            facts.ahead.update(name for name in self._succeeded if name not in names)
        self._running[call.call_id] = plain


def _is_about(rule: ApprovalRule, names: tuple[str, ...]) -> bool:
    """Return whether the rule covers calls with these names, in any spelling of its tool (G-66)."""
    return rule.tool in names or folded_name(rule.tool) in map(folded_name, names)


def is_plain_name(name: str) -> bool:
    """True for a name that can be written in any rule for its tool."""
    return _PLAIN_NAME.fullmatch(name) is not None and name not in RESERVED | _KEYWORDS
