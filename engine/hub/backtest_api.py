"""Backtests and approval statistics of a journal: requests of screens that take long.

Each answer comes in parts; closing the generator ends the work.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from ..backtest.rules_compiler import Language, NoLanguage
from ..history.decisions.source import DecisionSource

# Judging is imported when it is first needed: a process that only hosts sessions does not wait for it.
if TYPE_CHECKING:
    from ..backtest.source import Backtested, Counted, Judged


class JudgedSource(DecisionSource):
    """Source of recorded decisions that backtests rules; `language` compiles their texts by file name.

    All of them raise `JournalError` when the journal cannot be read.
    """

    language: Language = NoLanguage()

    def backtest(
        self, rules: Mapping[str, str], *, session: str | None = None, since: datetime | None = None
    ) -> AsyncGenerator[Backtested, None]:
        """Judge one session, those that went on since a moment, or all, by other rules.

        Raises `ValueError` for rules that do not compile and for a subagent's session, and
        `SessionNotFound`.
        """
        from ..backtest.source import backtest_all
        from ..backtest.threaded import beside

        return beside(
            lambda parts: backtest_all(
                parts, self.database, self.language.compiled(rules), session, since, self.redaction
            )
        )

    def judge(
        self,
        session: str,
        at: int,
        *,
        until: int,
        active: Sequence[str],
        rules: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[Judged, None]:
        """Judge the calls of a session after its event `at`, up to event `until`: what if.

        By the nets of `rules`, without them by its own; exactly those in `active` are on. Raises
        `ValueError` for rules that do not compile, `NetError` for unknown nets, `FoldError` and
        `SessionNotFound`.
        """
        from ..backtest.source import judge_rest
        from ..backtest.threaded import ProgressStream, beside
        from ..history.journal.reader import open_reader

        def work(parts: ProgressStream[Judged]) -> None:
            reader = open_reader(self.database)
            events = reader.events(reader.session(session).id, limit=until)
            judge_rest(parts, events, at, active, rules, self.language, self.redaction)

        return beside(work)

    def fatigue(self, since: datetime | None = None) -> AsyncGenerator[Counted, None]:
        """Count approvals requested `since` and their cost to operators, then what would save some."""
        from ..backtest.source import count_approvals
        from ..backtest.threaded import beside

        return beside(
            lambda parts: count_approvals(parts, self.database, since, self.language, self.redaction)
        )
