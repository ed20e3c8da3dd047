"""Backtest: recorded calls judged again under other rules, without running anything."""

from ..history.decisions.call_pages import count_calls, recorded_sessions
from .journal_reader import recordings
from .judge import Change, Judge, Judgement
from .logs.items import LogError
from .logs.reader import conversations
from .recording import (
    Recorded,
    RecordedCall,
    RecordedHints,
    RecordedOpening,
    RecordedOutcome,
    RecordedReplacement,
    RecordedResult,
    RecordedResumption,
    RecordedSwitch,
    RecordedText,
    Recording,
)
from .report import (
    BacktestDivergence,
    ChangeCounts,
    Count,
    RecordedOutcomeView,
    RuleCount,
    SessionReport,
    Totals,
    TrialOutcomeView,
)
from .run import Backtest
from .trial import Trial, fork

__all__ = [
    "Backtest",
    "BacktestDivergence",
    "Change",
    "ChangeCounts",
    "Count",
    "Judge",
    "Judgement",
    "LogError",
    "Recorded",
    "RecordedCall",
    "RecordedHints",
    "RecordedOpening",
    "RecordedOutcome",
    "RecordedOutcomeView",
    "RecordedReplacement",
    "RecordedResult",
    "RecordedResumption",
    "RecordedSwitch",
    "RecordedText",
    "Recording",
    "RuleCount",
    "SessionReport",
    "Totals",
    "Trial",
    "TrialOutcomeView",
    "conversations",
    "count_calls",
    "fork",
    "recorded_sessions",
    "recordings",
]
