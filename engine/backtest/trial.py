"""Setting in which recorded calls are judged: nets, which of them are active, names of calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import TypeAlias

from ..core.condition import Condition, sources_of
from ..core.rule import UNCLEAR
from ..gate.classify import as_unclear_reader, names_and_reason
from ..gate.reasons import UNREAD
from ..history.fold.fold import apply, new_state
from ..history.fold.markings import skill_net
from ..history.model.events import JournalEvent
from ..history.model.records import NetRecord, RuleRecord
from ..history.model.state import SessionState
from ..net.net import CallNames, NetError, SkillNet, ToolCall, renamed_by
from ..recording.records import rule_record
from .journal_reader import JsonInput, RecordedItems
from .recording import BEGINNING, RecordedQuestion, Recording, Start

CACHED = 4_096
LONGEST_CACHED = 1_000


ReadCondition: TypeAlias = Callable[[str], Condition | None]
"""Parses a condition as written; returns `None` for an invalid text. The rules language provides one."""


class RecordedNames:
    """Recorded names of a call; `current` are those of the call being judged.

    `unclear` is why that call may do more than they say; it may be set without the name `unclear` (G-64).
    A record contains no maps, so under its own nets a call keeps its recorded names.
    """

    def __init__(self) -> None:
        self.current: tuple[str, ...] = ()
        self.unclear: str | None = None

    def __call__(self, call: ToolCall) -> Sequence[str]:
        return self.current or (call.tool_name,)

    def named(self, call: ToolCall) -> tuple[Sequence[str], str | None]:
        """Names of the call being judged, and why it is unclear."""
        names = self(call)
        without = UNREAD if UNCLEAR in names and call.tool_name != UNCLEAR else None
        return names, self.unclear or without


class CachedNames:
    """Cache for the names that another function gives.

    Agents repeat commands such as `git status`, and parsing a shell command takes longer than judging the
    call. The function must depend on tool and input only. Only inputs of short texts are cached, and a
    full cache is cleared.
    """

    def __init__(self, names: CallNames) -> None:
        self._names = names
        self.renames = renamed_by(names)
        self._reads = as_unclear_reader(names)
        self._cache: dict[object, tuple[tuple[str, ...], str | None]] = {}

    def __call__(self, call: ToolCall) -> Sequence[str]:
        return self.named(call)[0]

    def named(self, call: ToolCall) -> tuple[Sequence[str], str | None]:
        """Names of a call, and why it is unclear. Raises what the function raises."""
        key = _key(call)
        names = None if key is None else self._cache.get(key)
        if names is None:
            names = names_and_reason(call, self._names, self._reads)
            if key is not None:
                if len(self._cache) >= CACHED:
                    self._cache.clear()
                self._cache[key] = names
        return names


def _key(call: ToolCall) -> object | None:
    """Cache key shared by equal calls; `None` for a call whose input is long or not only texts."""
    arguments = call.input
    if isinstance(arguments, JsonInput):
        return (
            (call.tool_name, call.shell, arguments.text) if len(arguments.text) < LONGEST_CACHED else None
        )
    size = 0
    for value in arguments.values():
        size += len(value) if isinstance(value, str) else LONGEST_CACHED
    return (call.tool_name, call.shell, tuple(arguments.items())) if size < LONGEST_CACHED else None


@dataclass(frozen=True, slots=True)
class Trial:
    """Nets by key, and the rules from which they were made.

    With `active`, exactly these are active, regardless of operators. Without it, the record is followed:
    nets that it has under the same key are on and off as recorded, others are on. `names` is given if
    calls keep their recorded names.
    """

    nets: Mapping[str, SkillNet]
    rules: Mapping[str, RuleRecord | None]
    active: tuple[str, ...] | None = None
    names: RecordedNames | None = field(default=None, compare=False)

    @classmethod
    def of(cls, nets: Mapping[str, SkillNet], active: Iterable[str] | None = None) -> Trial:
        """A trial of compiled or hand-written nets. Raises `NetError` for an unknown name in `active`."""
        caches: dict[CallNames, CachedNames] = {}

        def with_cache(net: SkillNet) -> SkillNet:
            if net.call_names is None or net.tool_mapper is not None:
                return net
            names = caches.setdefault(net.call_names, CachedNames(net.call_names))
            return replace(net, call_names=names)

        rules = {key: rule_record(net.rule) for key, net in nets.items()}
        return cls({key: with_cache(net) for key, net in nets.items()}, rules, _active(nets, active))

    @classmethod
    def recorded(
        cls,
        state: SessionState,
        active: Iterable[str] | None = None,
        *,
        conditions: ReadCondition,
    ) -> Trial:
        """A trial of a session's nets in `state`; `conditions` parses their recorded conditions.

        Raises `NetError` as `of` does.
        """
        names = RecordedNames()
        nets = {key: _recorded(net.net, names, conditions) for key, net in state.nets.items()}
        rules = {key: net.net.rule for key, net in state.nets.items()}
        return cls(nets, rules, _active(nets, active), names)

    @property
    def reads_texts(self) -> bool:
        """True if a condition looks for values in what was said."""
        return any(sources_of(net.condition) for net in self.nets.values())

    @property
    def keeps_notes(self) -> bool:
        """True if a net has callbacks of its own, whose notes are not in its marking."""
        return any(n.validate_tool_call or n.on_deferred_result for n in self.nets.values())


def _recorded(record: NetRecord, names: RecordedNames, conditions: ReadCondition) -> SkillNet:
    """A recorded net. One whose condition can no longer be parsed always applies: closed."""
    condition = None if record.when is None else conditions(record.when)
    governs = record.governs if condition is not None else ()
    net = skill_net(record)
    by_rule = record.rule is not None
    return replace(net, call_names=names, condition=condition, governs=governs, by_rule=by_rule)


def _active(nets: Mapping[str, SkillNet], active: Iterable[str] | None) -> tuple[str, ...] | None:
    if active is None:
        return None
    active_keys = tuple(dict.fromkeys(active))
    unknown = [f"'{key}'" for key in active_keys if key not in nets]
    if unknown:
        raise NetError(f"Unknown nets in active: {', '.join(unknown)}. Available: {', '.join(nets)}")
    return active_keys


# Markings of a trial's nets at a moment of a record, at which a fork begins.


def initial_markings(state: SessionState, trial: Trial) -> Start:
    """Match the trial's nets with a session's state.

    Nets with the same key and structure get the recorded marking and pending steps; all others are at
    their initial marking, like nets that have seen nothing.
    """
    # Importing what it needs of the agents takes 0.1 s, which only branches and forks should pay for.
    from ..recording.resume_checks import standing
    from ..recording.source_texts import recorded_texts, session_fields, session_hints

    standing_state = standing(state, trial.nets, active=trial.active, nets="changed")
    return Start(
        markings=standing_state.every_marking,
        active=standing_state.active,
        known=frozenset(state.nets),
        pending=tuple(
            (p.step.net, p.step.transition, p.step.tool, _call(state, p.call_id))
            for p in state.pending
            if standing_state.keeps(p)
        ),
        since=standing_state.since,
        workdir=state.workdir,
        shell=state.shell,
        texts=tuple(recorded_texts(state)) if trial.reads_texts else (),
        session=session_fields(state),
        hints=session_hints(state),
    )


def _call(state: SessionState, call_id: str) -> ToolCall:
    call = state.calls[call_id]
    return ToolCall(call_id, call.tool, call.input, state.shell)


def fork(
    events: Iterable[JournalEvent], at: int, trial: Trial | Callable[[SessionState], Trial]
) -> Recording:
    """The rest of one session after event number `at`, to be judged from there: "what if".

    A `trial` may be made from the session's state at that point. `events` are all of the session's; those
    after `at` are read only as they are judged. After event 0 it is the whole session, as `recordings`
    gives it. Raises `FoldError` for events that contradict each other.
    """
    remaining = iter(events)
    first = next(remaining, None)
    if first is None:
        return Recording("", ())
    remaining = chain([first], remaining)
    state, items = new_state(first.session), RecordedItems(texts=True)
    question_ids: set[str] = set()
    for event in islice(remaining, at):
        apply(state, event)
        item = items.of(event)
        if isinstance(item, RecordedQuestion):
            question_ids.add(item.call_id)
    if not isinstance(trial, Trial):
        trial = trial(state)
    start = (
        replace(initial_markings(state, trial), asked=frozenset(question_ids)) if state.seq else BEGINNING
    )
    return Recording(state.id, (i for i in map(items.of, remaining) if i is not None), start=start)
