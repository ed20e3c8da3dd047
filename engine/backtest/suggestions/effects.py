"""Effect of changed rules on recorded calls: judged under the rules as they are and as they would be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from ...core.rule import LimitRule, RuleSource, restricted
from ...history.redaction.redaction import Redaction
from ...net.net import SkillNet
from ..judge import Judge, Judgement
from ..recording import Recorded, RecordedQuestion, Recording
from ..run import divergence
from ..trial import Trial
from .suggestion import LISTED, Effect, ListedCall

_Change: TypeAlias = Literal["allowed", "asked", "blocked"]
_CHANGES: Mapping[str, _Change] = {"allow": "allowed", "ask": "asked", "block": "blocked"}


class EffectCounter:
    """Counts over sessions what changed rules do, and the `denied` calls that would pass.

    `stopped` counts the calls that ran and would be blocked.
    """

    def __init__(self, nets: Mapping[str, SkillNet], redaction: Redaction, since: int = 0) -> None:
        self._judge = Judge(Trial.of(nets, nets))
        self._redaction = redaction
        self._since = since
        self._calls = self._saved = 0
        self._numbers: dict[_Change, int] = dict.fromkeys(_CHANGES.values(), 0)
        self._listed: dict[_Change, list[ListedCall]] = {change: [] for change in _CHANGES.values()}
        self.stopped = 0
        self.denied = 0
        self._listed_denied: list[ListedCall] = []

    def take(self, recording: Recording, items: Sequence[Recorded], base: Sequence[Judgement]) -> None:
        """Judge the items of a session, of which `base` are the judgements by the rules as they are."""
        asked = {item.call_id for item in items if isinstance(item, RecordedQuestion)}
        for before, after in zip(base, self._judge.judge(items, recording.start), strict=True):
            self._add(recording.name, before, after, asked)

    def _add(self, session: str, before: Judgement, after: Judgement, asked: set[str]) -> None:
        call, was, now = before.call, before.now.outcome, after.now.outcome
        if call.then.denied and was != "allow" and now == "allow":
            self.denied += 1
            self._list(self._listed_denied, session, after)
        if (call.at or 0) < self._since:
            return
        self._calls += 1
        if was == now:
            return
        if was == "ask" and now == "allow" and call.then.by and call.call_id in asked:
            self._saved += 1
        change = _CHANGES[now]
        self._numbers[change] += 1
        self.stopped += change == "blocked" and call.then.ran
        self._list(self._listed[change], session, after)

    def _list(self, listed: list[ListedCall], session: str, judged: Judgement) -> None:
        if len(listed) < LISTED:
            shown = divergence(judged, self._redaction)
            listed.append(
                ListedCall(
                    session=session, event=shown.event, at=shown.at, tool=shown.tool, input=shown.input
                )
            )

    @property
    def safe(self) -> bool:
        """True if no call would pass that people denied."""
        return not self.denied

    @property
    def listed_denied(self) -> tuple[ListedCall, ...]:
        return tuple(self._listed_denied)

    @property
    def effect(self) -> Effect:
        return Effect(
            calls=self._calls,
            saved=self._saved,
            **self._numbers,
            listed_allowed=tuple(self._listed["allowed"]),
            listed_asked=tuple(self._listed["asked"]),
            listed_blocked=tuple(self._listed["blocked"]),
        )


def judged_alone(nets: Mapping[str, SkillNet], place: RuleSource) -> Iterator[str]:
    """Say which limits on the tool of the rule at a place count over sessions.

    An effect judges each session by itself, so such a limit blocks less there than it would.
    """
    rules = {net.rule.source.where: net.rule for net in nets.values() if net.rule and net.rule.source}
    changed = rules.get(place.where)
    tool = None if changed is None else restricted(changed)
    for where, rule in rules.items():
        if isinstance(rule, LimitRule) and rule.across is not None and rule.tool == tool:
            yield (
                f"{where}: this limit counts over sessions, and the numbers here are of each session "
                "alone: fewer calls may be newly allowed, as a backtest says"
            )
