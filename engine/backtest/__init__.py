"""Backtest: recorded calls judged again under other rules, without running anything.

Names are imported on first use: a server needs the types of the answers, and loads the rest on demand.
"""

from typing import TYPE_CHECKING

from ..core.lazy_names import lazy

if TYPE_CHECKING:
    from ..history.decisions.call_pages import count_calls as count_calls
    from ..history.decisions.call_pages import recorded_sessions as recorded_sessions
    from .journal_reader import recordings as recordings
    from .judge import Judge as Judge
    from .judge import Judgement as Judgement
    from .logs.items import LogError as LogError
    from .logs.reader import conversations as conversations
    from .recording import Recorded as Recorded
    from .recording import RecordedCall as RecordedCall
    from .recording import RecordedHints as RecordedHints
    from .recording import RecordedOpening as RecordedOpening
    from .recording import RecordedOutcome as RecordedOutcome
    from .recording import RecordedReplacement as RecordedReplacement
    from .recording import RecordedResult as RecordedResult
    from .recording import RecordedResumption as RecordedResumption
    from .recording import RecordedSwitch as RecordedSwitch
    from .recording import RecordedText as RecordedText
    from .recording import Recording as Recording
    from .report import BacktestDivergence as BacktestDivergence
    from .report import Change as Change
    from .report import ChangeCounts as ChangeCounts
    from .report import Count as Count
    from .report import RecordedOutcomeView as RecordedOutcomeView
    from .report import RuleCount as RuleCount
    from .report import SessionReport as SessionReport
    from .report import Totals as Totals
    from .report import TrialOutcomeView as TrialOutcomeView
    from .run import Backtest as Backtest
    from .trial import Trial as Trial
    from .trial import fork as fork

_HOMES = {
    "Backtest": "run",
    "BacktestDivergence": "report",
    "Change": "report",
    "ChangeCounts": "report",
    "Count": "report",
    "Judge": "judge",
    "Judgement": "judge",
    "LogError": "logs.items",
    "Recorded": "recording",
    "RecordedCall": "recording",
    "RecordedHints": "recording",
    "RecordedOpening": "recording",
    "RecordedOutcome": "recording",
    "RecordedOutcomeView": "report",
    "RecordedReplacement": "recording",
    "RecordedResult": "recording",
    "RecordedResumption": "recording",
    "RecordedSwitch": "recording",
    "RecordedText": "recording",
    "Recording": "recording",
    "RuleCount": "report",
    "SessionReport": "report",
    "Totals": "report",
    "Trial": "trial",
    "TrialOutcomeView": "report",
    "conversations": "logs.reader",
    "count_calls": ".history.decisions.call_pages",
    "fork": "trial",
    "recorded_sessions": ".history.decisions.call_pages",
    "recordings": "journal_reader",
}

__getattr__, __dir__ = lazy(__name__, _HOMES)
