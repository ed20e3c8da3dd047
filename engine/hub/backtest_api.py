"""Backtests and approval statistics of a journal: long-running requests of screens.

Each answer comes in parts; closing the generator ends the work.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from ..backtest.rules_compiler import Language, NoLanguage
from ..history.decisions.source import DecisionSource
from .api import DecisionApi

# Judging is imported on first use, so that a process that only hosts sessions does not load it.
if TYPE_CHECKING:
    from ..backtest.answers import Backtested, Judged, Narrowed, Statistics, Suggested


class BacktestSource(DecisionSource, DecisionApi):
    """Source of recorded decisions that backtests rules; `language` compiles their texts by file name."""

    language: Language = NoLanguage()

    def backtest(
        self, rules: Mapping[str, str], *, session: str | None = None, since: datetime | None = None
    ) -> AsyncGenerator[Backtested, None]:
        from ..backtest.source import backtest_all
        from ..backtest.threaded import stream_progress

        return stream_progress(
            lambda parts: backtest_all(
                parts, self.database, self.language.compiled(rules), session, since, self.redaction
            )
        )

    def what_if(
        self,
        session_id: str,
        at: int,
        *,
        until: int,
        active: Sequence[str],
        rules: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[Judged, None]:
        from ..backtest.source import judge_rest
        from ..backtest.threaded import ProgressStream, stream_progress
        from ..history.journal.reader import open_reader

        def work(parts: ProgressStream[Judged]) -> None:
            reader = open_reader(self.database)
            events = reader.events(reader.session(session_id).id, limit=until)
            judge_rest(parts, events, at, active, rules, self.language, self.redaction)

        return stream_progress(work)

    def approval_statistics(self, since: datetime | None = None) -> AsyncGenerator[Statistics, None]:
        from ..backtest.source import count_approvals
        from ..backtest.threaded import stream_progress

        return stream_progress(
            lambda parts: count_approvals(parts, self.database, since, self.language, self.redaction)
        )

    def suggest_rules(
        self, rules: Mapping[str, str], *, since: datetime | None = None
    ) -> AsyncGenerator[Suggested, None]:
        from ..backtest.source import suggest_rules
        from ..backtest.threaded import stream_progress

        return stream_progress(
            lambda parts: suggest_rules(parts, self.database, rules, since, self.language, self.redaction)
        )

    def narrow_rule(
        self,
        rules: Mapping[str, str],
        *,
        file: str,
        line: int,
        when: str,
        since: datetime | None = None,
    ) -> AsyncGenerator[Narrowed, None]:
        from ..backtest.source import narrow_rule
        from ..backtest.threaded import stream_progress

        place = file, line
        return stream_progress(
            lambda parts: narrow_rule(
                parts, self.database, rules, place, when, since, self.language, self.redaction
            )
        )
