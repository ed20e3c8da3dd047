"""`interlock demo --flow` without a screen: a real shell, a real repository, a real journal."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from interlock.app.demo.release import open_release
from interlock.app.demo.release_flow import ReleaseFlow
from interlock.app.demo.release_project import create_release_project
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import ApprovalRequested, CallDecided, MessageAdded
from interlock.engine.history.model.records import FlowStepped
from interlock.engine.hub.hub import Hub
from interlock.engine.sessions.flow.record import flow_record

from ...support.command import command


def demo(here: Path, *line: str) -> subprocess.CompletedProcess[str]:
    """Run the demo without a terminal."""
    env = {"PATH": os.environ["PATH"], "HOME": str(here), "INTERLOCK_CONFIG_DIR": str(here / "config")}
    return command(here, *line, "--db", "demo.db", env=env)


@pytest.fixture(autouse=True)
def projects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory in which the demo creates its projects."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


class Told:
    """A run's record in the journal."""

    def __init__(self, here: Path, session: str) -> None:
        events = [event.body for event in open_reader(here / "demo.db").events(session)]
        steps = [body for body in events if isinstance(body, FlowStepped)]
        self.took = [step.node for step in steps]
        self.ended = steps[-1].done
        self.decided = [(b.names[0], b.outcome) for b in events if isinstance(b, CallDecided)]
        self.asked = [body.tool for body in events if isinstance(body, ApprovalRequested)]


STORY = [
    ("bash", "allow"),
    ("test", "block"),
    ("lint", "allow"),
    ("test", "allow"),
    ("Candidate", "allow"),
    ("deploy", "allow"),
]


class TestApproved:
    @pytest.mark.slow
    def test_demo_runs_twice_in_one_journal(self, projects: Path) -> None:
        """Section 12: the demo runs its steps and both approvals to the end, twice in one journal."""
        for _ in range(2):
            done = demo(projects, "demo", "--flow", "--headless")
            assert (done.returncode, done.stderr) == (0, "")
            assert '"deployed": true' in done.stdout
        runs = open_reader(projects / "demo.db").sessions()
        assert len(runs) == 2
        for told in (Told(projects, run.id) for run in runs):
            assert told.decided == STORY
            assert told.asked == ["Candidate", "deploy"]
            assert told.ended
        folders = list(projects.glob("interlock-demo-*"))
        assert [(f / "deployed" / "staging").exists() for f in folders] == [True, True]
        assert not any((f / "deployed" / "production").exists() for f in folders)

    def test_runs_headless_without_a_terminal(self, projects: Path) -> None:
        """Without a terminal the demo says so and runs headless."""
        done = demo(projects, "demo", "--flow")
        assert done.returncode == 0
        assert "not a terminal, so it runs headless" in done.stderr

    @pytest.mark.slow
    def test_message_is_recorded_once_before_its_calls(self, projects: Path) -> None:
        """An agent's message is recorded once, before the calls that follow it."""
        demo(projects, "demo", "--flow", "--headless")
        [run] = open_reader(projects / "demo.db").sessions()
        said = [e.body for e in open_reader(projects / "demo.db").events(run.id)]
        told = [body.text or body.calls[0].tool for body in said if isinstance(body, MessageAdded)]
        at = told.index("I run the tests.")
        assert told[at + 1 : at + 4] == ["bash", "Not before lint has passed, so that first.", "bash"]
        assert told.count("The tests pass.") == 1

    @pytest.mark.slow
    def test_messages_name_their_node(self, projects: Path) -> None:
        """P-55, P-81: messages name the node that sent them; a filled-in step is shown as answered."""
        done = demo(projects, "demo", "--flow", "--headless")
        assert "approval.decided  call Candidate#11  answered by headless" in done.stdout
        [run] = open_reader(projects / "demo.db").sessions()
        state = fold(open_reader(projects / "demo.db").events(run.id))
        said = {entry.text: entry.by for entry in state.transcript if entry.kind == "assistant"}
        assert said["I run the tests."] == "RunTests"
        assert said["Signed off. Asking to deploy to staging."] == "Deploy"
        assert set(said.values()) == {"Draft", "RunTests", "Deploy", None}
        told = [entry.text for entry in state.transcript if entry.kind == "note"]
        assert "SignOff waits for approval of deploy" in told
        printed = demo(projects, "replay", run.id, "--plain").stdout
        assert "call Candidate#11  answered by headless" in printed
        assert "approval of Candidate: answered by headless" in printed


class TestDenied:
    @pytest.mark.slow
    def test_denied_run_can_be_resumed(self, projects: Path) -> None:
        """P-81, P-94: a denied sign-off ends the run; `flow resume` requests it again and continues."""
        done = demo(projects, "demo", "--flow", "--headless", "--answer", "deny")
        assert done.returncode == 1
        [run] = open_reader(projects / "demo.db").sessions()
        assert run.error == "Candidate was denied by headless: answered by --answer deny"
        fill = 'Candidate={"target": "production"}'
        done = demo(
            projects, "flow", "resume", run.id, "--headless", "--answer", "approve", "--fill", fill
        )
        assert (done.returncode, done.stderr) == (0, "")
        [project] = projects.glob("interlock-demo-*")
        assert (project / "deployed" / "production").exists()
        assert Told(projects, run.id).took.count("Release") == 1

    @pytest.mark.slow
    async def test_deploy_denied(self, projects: Path) -> None:
        """P-82: a denied deploy does not run, and the flow's result says so."""
        hub = Hub.open(projects / "demo.db")
        try:
            session = await open_release(hub, by="maria")
            async with asyncio.timeout(20):
                await _decide(hub, approved=True, input={"target": "staging"})
                await _decide(hub, approved=False, reason="not on Friday")
                await hub.flow_ended(session)
            last = (await hub.session(session)).transcript[-1].text or ""
        finally:
            await hub.close()
        assert '"deployed": false' in last
        assert "not on Friday" in last


class TestFlow:
    def test_record_has_the_authors_node_names(self) -> None:
        """P-55: the record has the names that the flow's author gave to its nodes."""
        names = flow_record("Release", ReleaseFlow.graph()).names
        assert names == {
            "work 'Release'": "collect",
            "agent 'Changes'": "Draft",
            "fork 'Notes'": "split",
            "agent 'ForReview'": "Review",
            "agent 'ForTest'": "RunTests",
            "join 'Risk' + 'Tested'": "weigh",
            "agent 'SignOff'": "Deploy",
        }

    def test_example_flow_has_no_findings(self) -> None:
        """P-46: the example flow has no findings."""
        graph = ReleaseFlow.graph()
        graph.check_output()
        assert (graph.findings, graph.complete) == ((), True)

    def test_project_without_git(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without git the project has only its last state."""
        monkeypatch.setattr("shutil.which", lambda name: None)
        project = create_release_project(tmp_path / "shop")
        assert "def shown" in (project / "shop" / "price.py").read_text()
        assert not (project / ".git").exists()


async def _decide(hub: Hub, **said: object) -> None:
    """Decide the next request."""
    subscription = hub.subscribe()
    while not (waiting := await hub.approvals()):
        await anext(aiter(subscription))
    subscription.close()
    outcome = await hub.decide(waiting[0].id, by="ada", **said)
    assert outcome.ok, outcome.message
