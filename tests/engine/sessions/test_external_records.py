"""The record of an external agent supports backtests, counts, exports and verification like any other."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.engine.agents import Agent, ScriptedModel
from interlock.engine.backtest import Backtest, Trial, fork, recorded_sessions, recordings
from interlock.engine.history.audit.export import as_jsonl, linked_events
from interlock.engine.history.audit.importing import import_session, read_export
from interlock.engine.history.audit.verify import verify_journal
from interlock.engine.history.decisions.approval_stats import fatigue
from interlock.engine.history.decisions.call_pages import count_calls
from interlock.engine.history.decisions.index import decisions_of
from interlock.engine.history.fold.event_text import changes, headline
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.state import Origin
from interlock.engine.hub.hub import ExternalAgent, Hub, ResumeError
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

from ..support.external_agent import events, opened, ran, resumed
from .test_external import asking, question

RULES = "require test before deploy\nrequire human-approval before deploy\nblock rm"


@pytest.fixture
async def journal(tmp_path: Path) -> Path:
    """A session with an approved and a denied deploy, a blocked call and a late result."""
    hub = Hub.open(tmp_path / "hub.db")
    await opened(hub, RULES)
    await hub.record_message("robin-1", "user", "ship it")
    await ran(hub, "robin-1", "t1", "test")
    for call_id, approved in (("d1", True), ("d2", False)):
        asked = await asking(hub, call_id)
        await hub.decide((await question(hub)).id, approved=approved, by="mia")
        assert (await asked).outcome == ("allow" if approved else "block")
        if approved:
            await ran(hub, "robin-1", "t2", "test")
    await hub.call("robin-1", "r", "rm", {})
    await hub.close()
    later = Hub.open(tmp_path / "hub.db")
    await resumed(later, rules=RULES)
    await later.result("robin-1", "d1", output="deploy ok", is_error=False)
    await later.close()
    return tmp_path / "hub.db"


class TestRecord:
    def test_decided_calls_have_one_line_each(self, journal: Path) -> None:
        """Five decided calls have one line each in the decisions, including the late result."""
        assert list(recorded_sessions(journal)) == ["robin-1"]
        assert count_calls(journal) == 5
        lines = [(d.call_id, d.verdict, d.result) for d in decisions_of(events(journal))]
        assert lines == [
            ("t1", "allow", "done"),
            ("d1", "approved", "done"),
            ("t2", "allow", "done"),
            ("d2", "denied", None),
            ("r", "block", None),
        ]
        [line] = open_reader(journal).sessions()
        assert (line.kind, line.calls, line.blocked, line.status) == ("outside", 5, 2, "done")

    def test_requests_count_in_fatigue_statistics(self, journal: Path) -> None:
        """Requests of its calls count in the fatigue statistics of rules and operators."""
        found = fatigue(journal)
        [rule] = found.rules
        assert (rule.tally.decided, rule.tally.approved) == (2, 1)
        assert [who.name for who in found.operators] == ["mia"]

    def test_backtest_finds_differences_of_other_rules(self, journal: Path) -> None:
        """A backtest under the same rules finds no difference; under others it finds their changes."""
        same = Backtest(Trial.of(compile_rules(RULES).registry))
        reports = list(same.run(recordings(journal, ["robin-1"])))
        assert (reports[0].counts.judged.calls, reports[0].counts.same.calls) == (5, 5)
        other = Backtest(Trial.of(compile_rules("block test").registry))
        [report] = other.run(recordings(journal, ["robin-1"]))
        assert report.counts.blocked.calls == 2

    def test_fork_judges_later_calls(self, journal: Path) -> None:
        """From the middle of the record, other rules judge the later calls."""
        record = events(journal)
        decided = [e.seq for e in record if e.body.type == "call.decided"]
        trial = Trial.of(compile_rules("block deploy").registry)
        [report] = Backtest(trial).run([fork(record, decided[1], trial)])
        assert report.counts.judged.calls == 3

    def test_is_exported_and_imported(self, journal: Path, tmp_path: Path) -> None:
        """The hash chain is valid in its journal and after an import, and nothing is lost."""
        assert [c.fault for c in verify_journal(journal)] == [None]
        path = tmp_path / "robin.jsonl"
        lines = as_jsonl("robin-1", linked_events(journal, "robin-1"), None)
        path.write_text("\n".join(lines) + "\n")
        import_session(read_export(path), tmp_path / "other.db", tmp_path / "key.pem")
        assert [c.fault for c in verify_journal(tmp_path / "other.db")] == [None]
        assert fold(events(tmp_path / "other.db")) == fold(events(journal))

    async def test_imported_session_cannot_be_resumed(self, journal: Path, tmp_path: Path) -> None:
        """An imported session cannot be resumed, because no server here made its decisions."""
        path = tmp_path / "robin.jsonl"
        lines = as_jsonl("robin-1", linked_events(journal, "robin-1"), None)
        path.write_text("\n".join(lines) + "\n")
        import_session(read_export(path), tmp_path / "other.db", tmp_path / "key.pem")
        hub = Hub.open(tmp_path / "other.db")
        with pytest.raises(ResumeError, match="was imported: nobody here made its decisions"):
            await hub.recorded_external("robin-1")
        with pytest.raises(ResumeError, match="was imported"):
            await hub.resume_external(
                "robin-1", ExternalAgent(name="robin"), SessionConfig({}, nets="changed")
            )
        assert await hub.sessions() == []
        await hub.close()

    def test_every_event_has_headline_and_changes(self, journal: Path) -> None:
        """Every event has a readable headline and list of changes."""
        record = events(journal)
        assert headline(record[0]).startswith(
            "session.opened  robin  in enforce mode, 3 nets  external agent"
        )
        for number, event in enumerate(record, 1):
            before = fold(record[: number - 1]) if number > 1 else None
            if before is not None:
                assert isinstance(changes(before, event, fold(record[:number])), list)
            assert "on ," not in headline(event)

    async def test_hosted_agent_cannot_resume_it(self, journal: Path) -> None:
        """A hosted agent cannot resume an external session."""
        hub = Hub.open(journal)
        assert await hub.origin("robin-1") == Origin(session="robin-1", source=None, imported=False)
        with pytest.raises(ValueError, match="external agent"):
            await hub.resume_session("robin-1", Agent(ScriptedModel([]), name="bot"), SessionConfig({}))
        await hub.close()
