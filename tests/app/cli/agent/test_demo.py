"""The demo without a screen: the whole scenario, in a real shell and a real journal."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from interlock.app.demo.agent import next_move
from interlock.engine.agents import SKIPPED, AssistantMessage, ProposedCall, ToolMessage, UserMessage
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import CallDecided, CallResult, MessageAdded
from tests.support.forked import COMMANDS, python_with


def demo(directory: Path, *options: str, real: bool = False) -> subprocess.CompletedProcess[str]:
    """Run `interlock demo` with a journal in `directory`."""
    return run_demo(directory, "--db", "demo.db", *options, real=real)


def run_demo(
    directory: Path, *options: str, real: bool = False, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run `interlock demo` as a user without a terminal would.

    It runs as a fork, or with `real` as a process that users would start.
    """
    python = [sys.executable] if real else python_with(*COMMANDS)
    return subprocess.run(
        [*python, "-m", "interlock.app.cli", "demo", *options],
        cwd=directory,
        env={"PATH": "/usr/bin:/bin", "HOME": str(directory), "TMPDIR": str(directory), **env},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )


class Recorded:
    """The journal and the project of a finished demo."""

    def __init__(self, directory: Path) -> None:
        reader = open_reader(directory / "demo.db")
        [self.summary] = reader.sessions(limit=10)
        self.events = list(reader.events(self.summary.id))
        [self.project] = directory.glob("interlock-demo-*")

    def decisions(self) -> list[tuple[str, str]]:
        """Return each call's most specific name and outcome."""
        return [(e.body.names[0], e.body.outcome) for e in self.events if isinstance(e.body, CallDecided)]

    def agent_messages(self) -> list[str]:
        """Return each message of the agent."""
        bodies = [e.body for e in self.events if isinstance(e.body, MessageAdded)]
        return [body.text or "" for body in bodies if body.role == "assistant"]

    def deployed(self) -> bool:
        """Return whether the deploy script really ran."""
        return (self.project / "deployed" / "staging").exists()


class TestApproved:
    @pytest.fixture(scope="class")
    def recorded(self, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
        directory = tmp_path_factory.mktemp("approved")
        done = demo(directory, "--headless", "--answer", "approve")
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return Recorded(directory)

    @pytest.mark.slow
    def test_makes_all_calls_of_the_scenario(self, recorded: Recorded) -> None:
        """The calls: early deploy, lint, failing test, fix, deploy, blocked rm, reached limit."""
        story = recorded.decisions()
        assert story == [
            ("deploy", "block"),
            ("test", "block"),
            ("lint", "allow"),
            ("test", "allow"),
            ("bash", "allow"),
            ("bash", "allow"),
            ("test", "block"),
            ("lint", "allow"),
            ("test", "allow"),
            ("deploy", "allow"),
            ("rm", "block"),
            ("deploy", "block"),
        ]

    def test_failing_test_unlocks_nothing(self, recorded: Recorded) -> None:
        """The first test run fails, so its pending transition is dropped, not fired."""
        results = [
            e.body
            for e in recorded.events
            if isinstance(e.body, CallResult) and "FAILED" in e.body.output
        ]
        assert [(r.is_error, r.fired, [s.transition for s in r.dropped]) for r in results] == [
            (True, (), ["do-test"])
        ]

    def test_deploy_script_ran_once(self, recorded: Recorded) -> None:
        """The approved script ran once; the forbidden command did not."""
        assert recorded.deployed()
        assert not (recorded.project / "deployed" / "production").exists()
        assert (recorded.project / "build").exists()

    def test_session_closes_with_message_about_the_limit(self, recorded: Recorded) -> None:
        """The session is closed, and the agent's last message reports the limit."""
        assert recorded.summary.status == "done"
        assert "limit" in recorded.agent_messages()[-1]

    def test_rule_notices_are_not_operator_messages(self, recorded: Recorded) -> None:
        """The agent does not mistake notices about changed rules for an operator's message."""
        assert [text for text in recorded.agent_messages() if "Noted" in text] == []


class TestDenied:
    @pytest.fixture(scope="class")
    def recorded(self, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
        directory = tmp_path_factory.mktemp("denied")
        done = demo(directory, "--headless", "--answer", "deny")
        assert done.returncode == 0, done.stderr
        return Recorded(directory)

    @pytest.mark.slow
    def test_agent_repeats_the_reason_and_stops(self, recorded: Recorded) -> None:
        """The denial's reason reaches the model, which repeats it and makes no further call."""
        assert "refused the deploy and said: answered by --answer deny" in recorded.agent_messages()[-1]
        assert recorded.decisions()[-1] == ("deploy", "block")

    @pytest.mark.slow
    def test_nothing_was_deployed(self, recorded: Recorded) -> None:
        """A denied deploy script does not run."""
        assert not recorded.deployed()


class TestWithoutTerminal:
    @pytest.mark.slow
    def test_reports_it_and_runs_headless(self, tmp_path: Path) -> None:
        """Without a terminal the demo says so and runs headless."""
        done = demo(tmp_path, real=True)
        assert done.returncode == 0
        assert "not a terminal, so it runs headless" in done.stderr
        assert "deploy" in done.stdout
        assert Recorded(tmp_path).deployed()

    @pytest.mark.slow
    def test_one_line_per_event(self, tmp_path: Path) -> None:
        """Every event is printed as one line in order; details of approvals are indented below."""
        done = demo(tmp_path, "--headless")
        told = [line for line in done.stdout.splitlines() if line and not line.startswith(" ")]
        assert len(told) == len(Recorded(tmp_path).events)

    def test_unwritable_journal(self, tmp_path: Path) -> None:
        """A journal that cannot be written stops the demo before an agent starts."""
        (tmp_path / "file").write_text("")
        done = demo(tmp_path, "--db", "file/demo.db")
        assert done.returncode == 2
        assert "file" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.slow
class TestOwnJournal:
    def test_is_separate_from_the_users(self, tmp_path: Path) -> None:
        """The demo uses its own journal beside the user's, so that hooks can still write the user's."""
        done = run_demo(tmp_path, "--headless", INTERLOCK_DB=str(tmp_path / "mine.db"))
        assert done.returncode == 0
        assert f"a journal of its own: {tmp_path / 'mine-demo.db'}" in done.stderr
        assert not (tmp_path / "mine.db").exists()
        assert len(open_reader(tmp_path / "mine-demo.db").sessions()) == 1


class TestScript:
    def test_operator_message_changes_next_message(self) -> None:
        """An operator's message changes the agent's next message, and `stop` ends the demo."""
        task = UserMessage(text="ship it")
        call = ProposedCall(call_id="c1", name="bash", args={"command": "./deploy staging"})
        skipped = ToolMessage(call_id="c1", name="bash", text=SKIPPED, is_error=True)
        talk = [task, AssistantMessage(text="Deploying.", tool_calls=(call,)), skipped]
        on = next_move([*talk, UserMessage(text="please hurry")])
        assert "".join(on.deltas).startswith("Noted")
        assert [c.args for c in on.calls] == [call.args]
        off = next_move([*talk, UserMessage(text="stop now")])
        assert not off.calls
