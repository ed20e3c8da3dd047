"""`interlock resume`, and sessions continued from the console: real processes, a real model server."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from interlock.app.screens.common.confirm import Confirm
from interlock.app.screens.common.guarded_keys import ASLEEP
from interlock.app.screens.history.screen import HistoryScreen
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import LimitRaised
from tests.support.command import command
from tests.support.forked import HUB, python_with
from tests.support.openai_server import OpenAIServer, begins_call, ends, says

from ...support.real_console import real_console

RULES = "limit bash to 1 per session\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    (tmp_path / "a.rules").write_text(RULES)
    return tmp_path


def interlock(here: Path, *line: str) -> subprocess.CompletedProcess[str]:
    """Run a command on the journal of this test."""
    env = {"PATH": "/usr/bin:/bin", "HOME": str(here), "OPENAI_API_KEY": "test"}
    return command(here, *line, "--db", "run.db", env=env)


def bash(command: str) -> list[dict[str, object]]:
    return [begins_call(0, "call_1", "bash", f'{{"command": "{command}"}}'), *ends("tool_calls")]


def recorded(here: Path) -> list[str]:
    return [summary.id for summary in open_reader(here / "run.db").sessions()]


def first_run(here: Path, server: OpenAIServer) -> str:
    """Run a session that uses up its one call of bash; return its id."""
    (here / "agent.toml").write_text(
        f'name = "bot"\nmodel = "openai/m"\napi_base = "{server.base_url}"\nrules = ["a.rules"]\n'
    )
    done = interlock(here, "run", "agent.toml", "Make one", "--headless")
    assert done.returncode == 0, done.stderr
    [session] = recorded(here)
    return session


class TestResume:
    @pytest.mark.slow
    def test_keeps_conversation_and_used_budget(self, here: Path) -> None:
        """A-7, G-63: the conversation continues, and a used budget stays used."""
        with OpenAIServer(
            [bash("touch one"), says("Made."), bash("touch two"), says("I may not.")]
        ) as server:
            session = first_run(here, server)
            done = interlock(here, "resume", session[:6], "Make two", "--headless")
        assert done.returncode == 0, done.stderr
        assert (here / "one").exists()
        assert not (here / "two").exists()
        assert recorded(here) == [session]
        told = [m.get("content") for m in server.requests[2].body["messages"]]
        assert told[-2:] == ["Made.", "Make two"]
        last = server.requests[3].body["messages"][-1]
        assert last["content"] == "bash has reached its limit of 1 calls per session."

    @pytest.mark.slow
    def test_branches_from_an_earlier_event(self, here: Path) -> None:
        """A branch has the budget of its event, and leaves the first session unchanged."""
        with OpenAIServer(
            [bash("touch one"), says("Made."), bash("touch two"), says("Made, too.")]
        ) as server:
            session = first_run(here, server)
            before = len(list(open_reader(here / "run.db").events(session)))
            done = interlock(here, "resume", session, "Make two", "--at", "1", "--headless")
        assert done.returncode == 0, done.stderr
        assert (here / "two").exists()
        assert len(recorded(here)) == 2
        assert len(list(open_reader(here / "run.db").events(session))) == before
        assert server.requests[2].conversation == ["Make two"]

    @pytest.mark.slow
    def test_changed_rules_are_refused_unless_allowed(self, here: Path) -> None:
        """Changed rules are refused unless `--changed-nets` and a reason are given."""
        with OpenAIServer([bash("touch one"), says("Made."), bash("touch two"), says("Done.")]) as server:
            session = first_run(here, server)
            (here / "a.rules").write_text("limit bash to 2 per session\n")
            refused = interlock(here, "resume", session, "Make two", "--headless")
            assert (refused.returncode, len(server.requests)) == (2, 2)
            assert "'limit-bash-1' is missing" in refused.stderr
            assert "--changed-nets" in refused.stderr
            changed = ("resume", session, "Make two", "--headless", "--changed-nets")
            unexplained = interlock(here, *changed)
            assert (unexplained.returncode, len(server.requests)) == (2, 2)
            assert "Say why" in unexplained.stderr
            assert "--reason TEXT" in unexplained.stderr
            allowed = interlock(here, *changed, "--reason", "a second file")
        assert allowed.returncode == 0, allowed.stderr
        assert (here / "two").exists()

    @pytest.mark.slow
    def test_max_cost_raises_the_limit(self, here: Path) -> None:
        """Limits: earlier costs count; `--max-cost` lets a session continue that reached its limit."""
        with OpenAIServer([bash("touch one"), says("Made."), says("Never.")]) as server:
            (here / "agent.toml").write_text(
                f'model = "openai/gpt-4o"\napi_base = "{server.base_url}"\nrules = ["a.rules"]\n'
                "limits = { max_cost = 0.00005 }\n"
            )
            stopped = interlock(here, "run", "agent.toml", "Make one", "--headless")
            assert (stopped.returncode, len(server.requests)) == (1, 1)
            said = stopped.stdout + stopped.stderr
            assert "has spent $0.000098 of $0.000050." in said
            [session] = recorded(here)
            again = interlock(here, "resume", session, "Go on", "--headless")
            assert (again.returncode, len(server.requests)) == (1, 1)
            higher = interlock(
                here, "resume", session, "Go on", "--headless", "--max-cost", "1", "--reason", "x"
            )
        assert higher.returncode == 0, higher.stderr
        told = [m["content"] for m in server.requests[1].body["messages"] if m["role"] == "user"]
        assert [text for text in told if "Rules for" not in text] == ["Make one", "Go on", "Go on"]
        [session] = open_reader(here / "run.db").sessions()
        assert session.status == "done"

    @pytest.mark.slow
    def test_raised_limit_stays_raised(self, here: Path) -> None:
        """Limits: a limit that an operator raised stays raised when the session is resumed twice."""
        with OpenAIServer([bash("touch one"), says("Made."), says("Fine.")]) as server:
            (here / "agent.toml").write_text(
                f'model = "openai/gpt-4o"\napi_base = "{server.base_url}"\nrules = ["a.rules"]\n'
                "limits = { max_cost = 0.00005 }\n"
            )
            assert interlock(here, "run", "agent.toml", "Make one", "--headless").returncode == 1
            [session] = recorded(here)
            with Journal.open(here / "run.db") as journal:
                journal.write(session, LimitRaised(max_cost=1.0, by="maria"))
            for _ in range(2):
                again = interlock(here, "resume", session, "Go on", "--headless")
                assert again.returncode == 0, again.stderr
        assert fold(open_reader(here / "run.db").events(session)).max_cost == 1.0

    @pytest.mark.slow
    def test_bad_input_is_reported_with_remedy(self, here: Path) -> None:
        """An unknown session, a wrong branch point and a missing task are reported with a remedy."""
        with OpenAIServer([bash("true"), says("Made.")]) as server:
            session = first_run(here, server)
        for line, message in (
            (("resume", "nobody", "x", "--headless"), "nobody"),
            (("resume", session, "--headless"), "nothing open to continue with"),
            (("resume", session, "--at", "1", "--headless"), "what should it do?"),
            (("resume", session, "x", "--at", "999", "--headless"), "999"),
            (("resume", session), "--headless"),
        ):
            done = interlock(here, *line)
            assert done.returncode == 2, line
            assert message in done.stderr
            assert "Traceback" not in done.stderr

    @pytest.mark.slow
    def test_session_of_the_demo_is_refused(self, here: Path) -> None:
        """A session whose agent cannot be built again is refused."""
        assert interlock(here, "demo", "--headless", "--answer", "deny").returncode == 0
        [session] = recorded(here)
        done = interlock(here, "resume", session, "Go on", "--headless")
        assert done.returncode == 2
        assert "its agent cannot be built again here" in done.stderr


HOST = """
import asyncio
from pathlib import Path
from interlock.app.agents.builder import prepare
from interlock.app.agents.agent_file import load_agent_file
from interlock.app.sessions.start import start
from interlock.engine.hub.hub import Hub

async def main():
    hub = Hub.open(Path("run.db"))
    spec = load_agent_file(Path("agent.toml"))
    await start(hub, prepare(spec), "maria")
    while not await hub.approvals():
        await asyncio.sleep(0.01)
    print("asked", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""
HOSTING = (*HUB, "interlock.app.agents.builder", "interlock.app.sessions.start", "litellm")


@pytest.mark.slow
class TestKilledWhileItAsked:
    def run_killed_while_asking(self, here: Path, server: OpenAIServer) -> str:
        """Kill a session's host while its request is open; return the session's id."""
        (here / "a.rules").write_text("require human-approval before bash\n")
        (here / "agent.toml").write_text(
            f'name = "bot"\nmodel = "openai/m"\napi_base = "{server.base_url}"\n'
            'rules = ["a.rules"]\ntask = "Make one"\n'
        )
        host = subprocess.Popen(
            [*python_with(*HOSTING), "-c", HOST],
            cwd=here,
            env={"PATH": "/usr/bin:/bin", "HOME": str(here), "OPENAI_API_KEY": "test"},
            stdout=subprocess.PIPE,
        )
        assert host.stdout is not None
        assert host.stdout.readline() == b"asked\n"
        host.kill()
        host.wait()
        host.stdout.read()  # read to the end: the host has ended
        host.stdout.close()
        [session] = recorded(here)
        return session

    def test_open_request_continues_without_a_task(self, here: Path) -> None:
        """The open request is answered and its call runs; a second resume finds nothing open."""
        with OpenAIServer([bash("echo ran >> log"), says("Made.")]) as server:
            session = self.run_killed_while_asking(here, server)
            done = interlock(here, "resume", session, "--headless", "--answer", "approve")
            assert done.returncode == 0, done.stderr
            assert (here / "log").read_text() == "ran\n"
            before = len(list(open_reader(here / "run.db").events(session)))
            again = interlock(here, "resume", session, "--headless", "--answer", "approve")
        assert again.returncode == 2
        assert f"Session '{session}' has nothing open to continue with" in again.stderr
        assert "Give it a task." in again.stderr
        assert len(list(open_reader(here / "run.db").events(session))) == before
        assert len(server.requests) == 2

    def test_open_request_precedes_the_new_task(self, here: Path) -> None:
        """A resumed session repeats its open request; the new task does not withdraw it."""
        replies = [bash("echo ran >> log"), says("Made."), says("And done.")]
        with OpenAIServer(replies) as server:
            session = self.run_killed_while_asking(here, server)
            done = interlock(here, "resume", session, "Then stop", "--headless", "--answer", "approve")
        assert done.returncode == 0, done.stderr
        assert (here / "log").read_text() == "ran\n"
        prompts = [[m.get("content") for m in r.body["messages"]] for r in server.requests]
        assert prompts[1][-1] == "(no output)"
        assert prompts[2][-2:] == ["Made.", "Then stop"]


@pytest.mark.slow
class TestConsole:
    async def test_history_continues_a_session(self, here: Path) -> None:
        """`c` in the history, confirmed, makes the session live again with its whole conversation."""
        with OpenAIServer([bash("true"), says("Made."), says("Hello again.")]) as server:
            session = first_run(here, server)
            async with real_console() as on:
                await on.pilot.press("h")
                await on.until(session)
                await on.pilot.press("c")
                await on.until("Its nets keep")
                assert isinstance(on.app.screen, Confirm)
                await asyncio.sleep(ASLEEP + 0.1)
                await on.pilot.press("y")
                await on.until("Made.")
                await on.until("limit-bash-1")
                await on.pilot.press("i", *"Hi", "enter")
                await on.until("Hello again.")

    async def test_replay_branches(self, here: Path) -> None:
        """`c` in a replay begins a new session at the event shown."""
        with OpenAIServer([bash("true"), says("Made.")]) as server:
            session = first_run(here, server)
            async with real_console() as on:
                await on.pilot.press("h")
                await on.until(session)
                await on.pilot.press("enter")
                await on.until("event 1 of")
                await on.pilot.press("c")
                await on.until("from event 1 in a new session")
                await asyncio.sleep(ASLEEP + 0.1)
                await on.pilot.press("y")
                await on.until("Sessions")
                states = await on.app.hub.sessions()
                assert [(s.kind, s.parent, s.parent_seq) for s in states] == [("branch", session, 1)]

    async def test_changed_rules_are_reported(self, here: Path) -> None:
        """Changed rules are reported, and nothing is started."""
        with OpenAIServer([bash("true"), says("Made.")]) as server:
            session = first_run(here, server)
        (here / "a.rules").write_text("block rm\n")
        async with real_console() as on:
            await on.pilot.press("h")
            await on.until(session)
            await on.pilot.press("c")
            await on.until("Its nets keep")
            await asyncio.sleep(ASLEEP + 0.1)
            await on.pilot.press("y")
            await on.until("Cannot continue")
            assert isinstance(on.app.screen, HistoryScreen)
            assert await on.app.hub.sessions() == []
