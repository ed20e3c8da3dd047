"""`interlock flow resume` and `list`: runs continue from their record."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import cast
from unittest.mock import patch

import pytest

from interlock.app.hosting.flow import host_flow, same_journal
from interlock.app.hosting.host import Start
from interlock.engine.history.journal.lock import WriteLock
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import (
    ApprovalRequested,
    CallDecided,
    SessionOpened,
    SessionResumed,
)
from interlock.engine.hub.hub import Hub
from tests.support.raw_database import raw_database

from ...support.command import command
from .shipping import bodies, flow, here, only_run, run

GO_ON = ("--headless", "--answer", "approve")
SIGN = ("--fill", 'Notes={"by": "ada"}')

__all__ = ["here"]


def start_waiting_run(here: Path) -> str:
    """Start a run that waits for its sign-off; return its id."""
    assert run(here, "Ship", "--rules", "a.rules").returncode == 1
    return only_run(here)


class TestResume:
    def test_settings_come_from_the_record(self, here: Path) -> None:
        """P-94: class, rules and directory come from the record; no step runs twice."""
        session = start_waiting_run(here)
        (here / "elsewhere").mkdir()
        env = {"PATH": "/usr/bin:/bin", "HOME": str(here), "INTERLOCK_DB": str(here / "flow.db")}
        done = command(here / "elsewhere", "flow", "resume", session, *GO_ON, *SIGN, env=env)
        assert (done.returncode, done.stderr) == (0, "")
        assert (here / "collected").read_text() == "once "
        assert [asked.tool for asked in bodies(here, ApprovalRequested)] == ["deploy", "Notes", "Notes"]

    def test_labels(self, here: Path) -> None:
        """A resumed run keeps its labels."""
        (here / "a.rules").write_text('block deploy when not session.labels contains "nightly"\n')
        line = ("--rules", "a.rules", "--label", "nightly", "--label", "ci")
        assert run(here, "Ship", *line).returncode == 1
        done = flow(here, "resume", only_run(here), *GO_ON, *SIGN)
        assert (done.returncode, done.stderr) == (0, "")
        [opened], [resumed] = bodies(here, SessionOpened), bodies(here, SessionResumed)
        assert opened.session_labels == resumed.session_labels == ("ci", "nightly")
        assert [d.outcome for d in bodies(here, CallDecided) if d.tool == "deploy"] == ["allow"]

    @pytest.mark.slow
    def test_changed_rules_need_an_option_and_a_reason(self, here: Path) -> None:
        """G-63: changed rules are refused unless `--changed-nets` and a reason are given."""
        session = start_waiting_run(here)
        (here / "a.rules").write_text("block deploy\n")
        done = flow(here, "resume", session, *GO_ON, *SIGN)
        assert done.returncode == 2
        assert "--changed-nets" in done.stderr
        done = flow(here, "resume", session, *GO_ON, *SIGN, "--changed-nets")
        assert done.returncode == 2
        assert "--reason TEXT" in done.stderr
        done = flow(here, "resume", session, *GO_ON, *SIGN, "--changed-nets", "--reason", "a freeze")
        assert done.returncode == 0
        [resumed] = bodies(here, SessionResumed)
        assert resumed.reason == "a freeze"

    def test_command_line_rules_replace_the_recorded_ones(self, here: Path) -> None:
        """Rules on the command line replace the recorded ones; rules of a settings file do not."""
        session = start_waiting_run(here)
        (here / "b.rules").write_text("block deploy\n")
        (here / "interlock.toml").write_text('rules = ["nowhere.rules"]\n')
        done = flow(here, "resume", session, *GO_ON, *SIGN, "--rules", "b.rules", "--reason", "x")
        assert done.returncode == 0, done.stderr
        [resumed] = bodies(here, SessionResumed)
        assert resumed.source["rules"] == [str(here / "b.rules")]

    def test_changed_nodes_prevent_the_resume(self, here: Path) -> None:
        """P-97: a run cannot continue with a class whose nodes have changed."""
        session = start_waiting_run(here)
        module = here / "ship.py"
        module.write_text(
            module.read_text().replace("class Ship(", "class Old(").replace("Short(", "Ship(")
        )
        done = flow(here, "resume", session, *GO_ON)
        assert done.returncode == 2
        assert "fingerprint" in done.stderr
        env = {"PATH": "/usr/bin:/bin", "HOME": str(here), "INTERLOCK_DB": "flow.db"}
        done = command(here, "resume", session, "--headless", env=env)
        assert (done.returncode, "fingerprint" in done.stderr) == (2, True)

    def test_no_run(self, here: Path) -> None:
        """An unknown id is reported."""
        start_waiting_run(here)
        done = flow(here, "resume", "nobody", *GO_ON)
        assert (done.returncode, "nobody" in done.stderr) == (2, True)

    @pytest.mark.slow
    def test_resume_command_also_continues_a_run(self, here: Path) -> None:
        """`interlock resume` also continues a run, but refuses a task for it."""
        session = start_waiting_run(here)
        env = {"PATH": "/usr/bin:/bin", "HOME": str(here), "INTERLOCK_DB": "flow.db"}
        done = command(here, "resume", session, "do more", "--headless", env=env)
        assert done.returncode == 2
        assert "is a run of a flow: it continues after its last step, without a task" in done.stderr
        done = command(here, "resume", session, "--headless", env=env)
        assert (done.returncode, "Notes was denied by headless" in done.stdout) == (1, True)


class TestList:
    @pytest.mark.slow
    def test_status_and_states_of_each_run(self, here: Path) -> None:
        """Section 12: each run is listed with its flow, status and states."""
        assert "No runs of flows are recorded yet" in flow(here, "list").stdout
        session = start_waiting_run(here)
        [heading, row] = flow(here, "list").stdout.splitlines()
        assert heading.split() == ["status", "run", "flow", "started", "step", "stands", "at"]
        assert session in row
        assert row.startswith("· stopped, can be resumed  ")
        assert row.endswith("5     Notes, waits for a person")
        flow(here, "resume", session, *GO_ON, *SIGN)
        [_, row] = flow(here, "list").stdout.splitlines()
        assert row.startswith("✓ done")
        assert row.endswith("its end, Shipped")

    def test_run_without_a_host_is_stopped(self, here: Path) -> None:
        """A run without a host is listed as stopped, or as running while the journal is in use."""
        session = start_waiting_run(here)
        with raw_database(here / "flow.db") as database:
            database.execute("UPDATE session SET status = 'running', error = NULL")
        [_, row] = flow(here, "list").stdout.splitlines()
        assert row.startswith("· stopped, can be resumed  ")
        assert session in row
        lock = WriteLock.acquire(here / "flow.db")
        [_, row] = flow(here, "list").stdout.splitlines()
        lock.release()
        assert row.startswith("● running  ")

    @pytest.mark.slow
    def test_imported(self, here: Path) -> None:
        """An imported run is marked as imported."""
        env = {"PATH": "/usr/bin:/bin", "HOME": str(here), "INTERLOCK_DB": "flow.db"}
        done = command(here, "history", "export", start_waiting_run(here), "-o", "run.jsonl", env=env)
        assert done.returncode == 0, done.stderr
        elsewhere = {**env, "INTERLOCK_DB": "other.db"}
        done = command(here, "history", "import", "run.jsonl", env=elsewhere)
        assert done.returncode == 0, done.stderr
        done = command(here, "flow", "list", env=elsewhere)
        assert "· imported, stopped  " in done.stdout, done.stderr

    def test_run_with_a_denied_step_has_failed(self, here: Path) -> None:
        """A run with a denied step is listed as failed."""
        assert run(here, "Ship", "--rules", "a.rules", *SIGN, "--answer", "deny").returncode == 1
        [_, row] = flow(here, "list").stdout.splitlines()
        assert row.startswith("✗ failed  ")


class TestLeft:
    def test_closed_console_prints_the_resume_command(
        self, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The closed console prints the step and the resume command, unless the run has ended."""
        session = start_waiting_run(here)
        args = argparse.Namespace(
            db=here / "flow.db",
            typed=(),
            operator="ada",
            headless=None,
            answer="deny",
            redact=None,
            appearance=None,
        )

        async def begun(hub: Hub) -> str:
            return session

        def shown(database: Path, operator: str, start: Start, *_: object, **__: object) -> int:
            return asyncio.run(start(cast("Hub", None))) and 0

        with patch("interlock.app.hosting.host.show", shown):
            host_flow(args, begun, {})
            told = capsys.readouterr().out
            assert told == (
                f"{session}: left after step 5; `interlock flow resume {session}` continues it\n"
            )
            monkeypatch.chdir(here)
            (here / "the flow's.db").symlink_to("flow.db")
            args.typed, args.db = {"db"}, Path("the flow's.db")
            host_flow(args, begun, {})
            there = f"interlock flow resume {session} --db 'the flow'\"'\"'s.db'"
            assert capsys.readouterr().out == f"{session}: left after step 5; `{there}` continues it\n"
            flow(here, "resume", session, *GO_ON, *SIGN)
            host_flow(args, begun, {})
        assert capsys.readouterr().out == ""

    def test_resume_command_names_the_journal(self, here: Path) -> None:
        """The printed resume command names the journal of the command line, and works."""
        line = ("--rules", "a.rules", "--db", "own.db")
        told = run(here, "Ship", *line).stderr
        [session] = [s.id for s in open_reader(here / "own.db").sessions()]
        assert f"interlock flow resume {session} --db own.db --headless" in told
        assert flow(here, "resume", session, "--db", "own.db", *GO_ON, *SIGN).returncode == 0
        hidden = argparse.Namespace(typed={"db"}, db=Path("a\u202eb.db"))
        assert same_journal(hidden) == ""
