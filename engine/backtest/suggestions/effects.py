"""Effect of changed rules on recorded calls: judged under the current and the changed rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from ...history.redaction.redaction import Redaction
from ...net.net import SkillNet
from ..judge import Judge, Judgement
from ..recording import Recorded, RecordedQuestion, Recording
from ..run import divergence
from ..trial import Trial
from ..uses import TrialUses
from .suggestion import LISTED, Effect, ListedCall

_Change: TypeAlias = Literal["allowed", "asked", "blocked"]
_CHANGES: Mapping[str, _Change] = {"allow": "allowed", "ask": "asked", "block": "blocked"}


class SessionsJudge:
    """Judges the sessions of a journal under rules.

    If `counts` is true, every session must be counted before the first is judged.
    """

    def __init__(self, nets: Mapping[str, SkillNet]) -> None:
        self._uses = TrialUses() if any(net.shared for net in nets.values()) else None
        self._judge = Judge(Trial.of(nets, nets), self._uses)

    @property
    def counts(self) -> bool:
        """True if a limit counts over sessions."""
        return self._uses is not None

    def count(self, recording: Recording, items: Sequence[Recorded]) -> None:
        """Count a session's uses of limits over sessions."""
        if self._uses is not None:
            self._uses.session = recording.name
            for _ in self._judge.judge(items, recording.start):
                pass

    def judge(self, recording: Recording, items: Sequence[Recorded]) -> Iterator[Judgement]:
        """A judgement on every call of a session, including the uses of the others."""
        if self._uses is not None:
            self._uses.counting, self._uses.session = False, recording.name
        return self._judge.judge(items, recording.start)


class EffectCounter:
    """Counts the effect of changed rules over sessions, and the `denied` calls that would pass.

    `stopped` counts the calls that ran and would be blocked.
    """

    def __init__(self, nets: Mapping[str, SkillNet], redaction: Redaction, since: int = 0) -> None:
        self.judge = SessionsJudge(nets)
        self._shared = {key: net.rule for key, net in nets.items() if net.shared is not None}
        self._overrun = Counter[str]()
        self._redaction = redaction
        self._since = since
        self._calls = self._saved = 0
        self._numbers: dict[_Change, int] = dict.fromkeys(_CHANGES.values(), 0)
        self._listed_calls: dict[_Change, list[ListedCall]] = {change: [] for change in _CHANGES.values()}
        self.stopped = 0
        self.denied = 0
        self._listed_denied: list[ListedCall] = []

    def take(self, recording: Recording, items: Sequence[Recorded], base: Sequence[Judgement]) -> None:
        """Judge the items of a session; `base` are the judgements under the current rules."""
        question_ids = {item.call_id for item in items if isinstance(item, RecordedQuestion)}
        for before, after in zip(base, self.judge.judge(recording, items), strict=True):
            self._add(recording.name, before, after, question_ids)

    def _add(self, session: str, before: Judgement, after: Judgement, question_ids: set[str]) -> None:
        call, was, now = before.call, before.now.outcome, after.now.outcome
        if now == "block" and call.then.ran and after.now.net in self._shared:
            self._overrun[after.now.net] += 1
        if call.then.denied and was != "allow" and now == "allow":
            self.denied += 1
            self._list(self._listed_denied, session, after)
        if (call.at or 0) < self._since:
            return
        self._calls += 1
        if was == now:
            return
        if was == "ask" and now == "allow" and call.then.by and call.call_id in question_ids:
            self._saved += 1
        change = _CHANGES[now]
        self._numbers[change] += 1
        self.stopped += change == "blocked" and call.then.ran
        self._list(self._listed_calls[change], session, after)

    def _list(self, listed: list[ListedCall], session: str, judged: Judgement) -> None:
        if len(listed) < LISTED:
            entry = divergence(judged, self._redaction)
            listed.append(
                ListedCall(
                    session=session, event=entry.event, at=entry.at, tool=entry.tool, input=entry.input
                )
            )

    @property
    def safe(self) -> bool:
        """True if no call that people denied would pass."""
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
            listed_allowed=tuple(self._listed_calls["allowed"]),
            listed_asked=tuple(self._listed_calls["asked"]),
            listed_blocked=tuple(self._listed_calls["blocked"]),
        )

    @property
    def inexact(self) -> tuple[str, ...]:
        """Limits over sessions that would stop calls which ran, so that the numbers are not exact.

        Such a call was counted as a use before it was known to be blocked, so later calls may find fewer
        uses than there would be. If no call is stopped in this way, each counted call passes, and the
        numbers are the gate's.
        """
        warnings: list[str] = []
        for key, calls in self._overrun.items():
            rule = self._shared[key]
            where = key if rule is None or rule.source is None else rule.source.where
            warnings.append(
                f"{where}: this limit counts over sessions and would stop {calls:,} recorded "
                f"{'call' if calls == 1 else 'calls'} that ran; later ones are judged as if these had "
                "used it, so fewer of them may be blocked than the numbers say"
            )
        return tuple(warnings)
