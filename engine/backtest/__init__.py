"""Backtest: recorded calls judged again under other rules, without running anything."""

from ..history.decisions.call_pages import count_calls, recorded_sessions
from .journal_reader import recordings
from .judge import Change, Judge, Judgement, Now
from .logs.reader import LogError, conversations
from .recording import (
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
from .report import ChangeCounts, Count, Divergence, NowView, RuleCount, SessionReport, ThenView, Totals
from .run import Backtest, Progress, divergence
from .trial import Trial, fork

__all__ = [
    "Backtest",
    "Change",
    "ChangeCounts",
    "Count",
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
