"""Items of a record for judging its calls again: one for each relevant event.

Sources convert rows of a journal and messages of a log to these; `judge` reads nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from ..core.condition import Shell
from ..core.frozen import frozen
from ..gate.types import Outcome
from ..history.model.events import JournalEvent
from ..history.model.records import RuleRecord, StepRecord
from ..history.model.times import from_ms
from ..net.net import Input, Marking, Since, ToolCall
from .report import Unit


@frozen
class RecordedOutcome:
    """Outcome of a call when it was recorded.

    `outcome` is the nets' verdict: `ask` if an operator was asked, whatever the answer, or in shadow mode
    would have been asked. `ran` says whether the call ran, `denied` that an operator denied it, `by` who
    answered. `own` marks a block in no net's name, such as an id in use: the gate's own, which no rule
    would change. In a message log, where no gate decided, every call with a result was allowed.
    """

    outcome: Outcome = "allow"
    ran: bool = True
    shadow: bool = False
    denied: bool = False
    by: tuple[str, ...] = ()
    net: str | None = None
    rule: RuleRecord | None = None
    reason: str | None = None
    own: bool = False

    @property
    def is_answered(self) -> bool:
        """True if an operator's answer is recorded; otherwise a question counts as approved."""
        return bool(self.by) or self.denied


@frozen
class RecordedCall:
    """A decided call; `seq` is its event's or message's number, `at` in UTC milliseconds if known.

    `input` is the input that was decided on, possibly edited by an operator. `names` are the recorded
    ones, empty in a message log, and `unclear` is why the call may do more than they say. `clock` is the
    gate's time of judgement, in seconds since 1970, if recorded.
    """

    seq: int
    call_id: str
    tool: str
    input: Input
    then: RecordedOutcome
    at: int | None = None
    names: tuple[str, ...] = ()
    clock: float | None = None
    unclear: str | None = None

    @property
    def seconds(self) -> float | None:
        """Time by which it is judged, in seconds since 1970."""
        return self.at / 1000 if self.clock is None and self.at is not None else self.clock

    @property
    def time(self) -> datetime | None:
        return None if self.at is None else from_ms(self.at)


@frozen
class RecordedResult:
    """Result of a call; an unknown outcome is an error, as it was for the nets.

    `undone` are the steps that were taken back, last first, because the call never ran. `arrived` has the
    arrival times of timed tokens that were removed or returned with them. `output` is what the tool
    returned, if conditions may look for values in it.
    """

    call_id: str
    tool: str
    is_error: bool
    undone: tuple[StepRecord, ...] = ()
    arrived: Mapping[str, Since] = field(default_factory=dict[str, Since])
    output: str | None = None


@frozen
class RecordedText:
    """A text of `source`: a user's words, or a result that came with a message."""

    source: str
    text: str


@frozen
class RecordedQuestion:
    """A request for approval of a call; no net has moved yet. `seconds` is the time since 1970."""

    call_id: str
    tool: str
    input: Input
    names: tuple[str, ...] = ()
    seconds: float | None = None


@frozen
class RecordedSwitch:
    """An operator switched a net on or off."""

    net: str
    active: bool


@frozen
class RecordedOpening:
    """A session began under the nets `known`, of which `active` were active.

    `branch` is the event itself if nets began at other than their initial markings. `workdir` is where
    its calls ran, `shell` what ran the commands in them, `session` its fields for conditions.
    """

    known: frozenset[str]
    active: tuple[str, ...]
    branch: JournalEvent | None = None
    workdir: str | None = None
    shell: Shell | None = None
    session: Mapping[str, object] = field(default_factory=dict[str, object])


@frozen
class RecordedResumption:
    """A session continued with the nets `added` and without those `dropped`; `active` are active now."""

    added: tuple[str, ...]
    dropped: tuple[str, ...]
    active: tuple[str, ...]
    workdir: str | None = None
    shell: Shell | None = None
    session: Mapping[str, object] = field(default_factory=dict[str, object])


@frozen
class RecordedHints:
    """Claims of a tool's server about the tool, valid from here on."""

    tool: str
    hints: Mapping[str, bool]


@dataclass(frozen=True, slots=True)
class RecordedReplacement:
    """A live session's rules were replaced: the nets `added`, `dropped`, and `active` from here on."""

    added: tuple[str, ...]
    dropped: tuple[str, ...]
    active: tuple[str, ...]


Recorded: TypeAlias = (
    RecordedCall
    | RecordedResult
    | RecordedQuestion
    | RecordedSwitch
    | RecordedOpening
    | RecordedResumption
    | RecordedReplacement
    | RecordedText
    | RecordedHints
)


@dataclass(frozen=True, slots=True)
class Start:
    """Starting point of judging: markings other than the initial ones, and pending calls.

    `known` are the nets in the record so far, `pending` what waits for results (net, transition, tool,
    call). Approval of the calls with the ids `asked` had been requested before. `since` has the arrival
    times of timed tokens, `workdir` is where the calls run, `shell` what runs their commands, `texts`
    what was said before, with its sources, `hints` the claims of servers about their tools.
    """

    markings: Mapping[str, Marking] = field(default_factory=dict[str, Marking])
    active: tuple[str, ...] | None = None
    known: frozenset[str] = frozenset()
    pending: tuple[tuple[str, str, str, ToolCall], ...] = ()
    asked: frozenset[str] = frozenset()
    since: Mapping[str, Since] = field(default_factory=dict[str, Since])
    workdir: str | None = None
    shell: Shell | None = None
    texts: tuple[tuple[str, str], ...] = ()
    session: Mapping[str, object] | None = None
    hints: Mapping[str, Mapping[str, bool]] = field(default_factory=dict[str, Mapping[str, bool]])


BEGINNING = Start()


@dataclass(frozen=True, slots=True)
class Recording:
    """One session of a journal, or one conversation of a log.

    `name` is the session's id, or file and location of the conversation. `items` can be read once, before
    the next recording of the same source is requested.
    """

    name: str
    items: Iterable[Recorded]
    unit: Unit = "event"
    start: Start = BEGINNING
