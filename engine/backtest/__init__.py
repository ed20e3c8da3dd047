"""Backtest: recorded calls judged again under other rules, without running anything."""

from ..history.calls import count_calls, recorded_sessions
from .fit import fork
from .journal import recordings
from .judge import Change, Judge, Judgement, Now
from .logs import LogError, conversations
from .recorded import (
    Recorded,
    RecordedCall,
    RecordedOpening,
    RecordedQuestion,
    RecordedResult,
    RecordedResumption,
    RecordedSwitch,
    Recording,
    Start,
    Then,
)
from .report import (
    Count,
    Counts,
    Divergence,
    NowView,
    RuleCount,
    SessionReport,
    ThenView,
    Totals,
)
from .run import Backtest, Progress, divergence
from .trial import Trial

__all__ = [
    "Backtest",
    "Change",
    "Count",
    "Counts",
    "Divergence",
    "Judge",
    "Judgement",
    "LogError",
    "Now",
    "NowView",
    "Progress",
    "Recorded",
    "RecordedCall",
    "RecordedOpening",
    "RecordedQuestion",
    "RecordedResult",
    "RecordedResumption",
    "RecordedSwitch",
    "Recording",
    "RuleCount",
    "SessionReport",
    "Start",
    "Then",
    "ThenView",
    "Totals",
    "Trial",
    "conversations",
    "count_calls",
    "divergence",
    "fork",
    "recorded_sessions",
    "recordings",
]
