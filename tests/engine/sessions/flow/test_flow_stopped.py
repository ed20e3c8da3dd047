"""Flow runs that count as stopped: an operator stopped or left them, or their host died."""

from __future__ import annotations

from collections.abc import Callable

from interlock.app.terminal.symbols import session_look
from interlock.engine.agents import C
from interlock.engine.history.fold.flow_steps import is_stopped
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.state import SessionState, SessionSummary
from interlock.engine.hub.hub import DIED, Hub

from ...support.flow_hosts import asked, begin, ended, hubs
from ...support.release import Release, Short

__all__ = ["hubs"]

SUBMIT = C(submit={"text": "notes"})


def line(hub: Hub, session: str) -> SessionSummary:
    """Return the run's line in the list of recorded sessions."""
    return open_reader(hub.database).session(session)


class TestStopped:
    async def test_run_stopped_by_operator(self, hubs: Callable[[], Hub]) -> None:
        """P-94: a stopped run is shown as stopped and not as failed, live and in the history."""
        hub = hubs()
        session = await begin(hub, Release, SUBMIT)
        await asked(hub)
        await hub.abort(session, "by ada")
        state = await hub.session(session)
        assert is_stopped(state)
        assert session_look(state).word == "stopped"
        assert is_stopped(line(hub, session))

    async def test_run_whose_host_was_closed(self, hubs: Callable[[], Hub]) -> None:
        """P-94: a run whose host was closed is also shown as stopped."""
        hub = hubs()
        session = await begin(hub, Release, SUBMIT)
        await asked(hub)
        await hub.close()
        assert is_stopped(line(hub, session))
        assert session_look(line(hub, session)).word == "stopped"

    async def test_failed_step_counts_as_failed(self, hubs: Callable[[], Hub]) -> None:
        """P-56: a run with a failed step counts as failed, and so does an agent's session that died."""
        hub = hubs()
        session = await begin(hub, Short)
        state = await ended(hub, session)
        assert not is_stopped(state)
        assert session_look(line(hub, session)).word == "failed"
        died = SessionState(id="s", status="failed", phase="failed", error=DIED)
        assert not is_stopped(died)
        assert is_stopped(died.model_copy(update={"kind": "flow"}))
        assert not is_stopped(died.model_copy(update={"kind": "flow", "status": "done"}))
