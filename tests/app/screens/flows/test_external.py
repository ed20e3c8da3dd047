"""A flow answered from a remote console, watched from a read-only one, and listed in the history."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from interlock.app.console.app import InterlockConsole
from interlock.app.format.sessions import columns, row
from interlock.app.screens.approval.forms.answer_form import AnswerForm
from interlock.app.screens.approval.screen import ApprovalScreen
from interlock.app.sources.read_only import read_only
from interlock.app.widgets.inputs.safe_input import TypedText
from interlock.engine.agents import C
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.sessions.config import SessionConfig
from tests.engine.support.release import Commit, Release, Script
from tests.support.fake_hub import FakeHub

from ...connect.seats import attached, served
from ...support.scenes import NOW
from ...support.stage import Stage
from .flows import release
from .recorded import ID, write


@asynccontextmanager
async def watched() -> AsyncIterator[Stage]:
    """A read-only console on a run that waits."""
    hub = FakeHub(release(), now=NOW)
    app = InterlockConsole(read_only(hub), operator="maria", quiet=0.0, clock=lambda: NOW)
    async with app.run_test(size=(120, 40)) as pilot:
        yield Stage(app, hub, pilot)


@pytest.mark.slow
class TestAttached:
    async def test_remote_console_shows_graph_and_answers(self, tmp_path: Path) -> None:
        """P-55, P-81: a remote console shows the graph and the form. Its answer ends the run."""
        async with served(tmp_path) as server, attached(server) as ada:
            session = await server.hub.open_flow(
                Release,
                Commit(sha="abc"),
                SessionConfig({}, by="maria"),
                factory=Script([C(submit={"text": "notes"})]),
            )
            await ada.dialog()
            await ada.shows("WHAT IS ASKED", "step", "flow Release waits for the answer")
            await ada.press("a")
            await ada.at(AnswerForm)
            form = ada.app.screen
            await ada.until(lambda: form._shown_at is not None)
            ada.seconds += 1.0
            await ada.shows("send the answer")
            form.query(TypedText).first().text = "ada"
            await ada.until(lambda: form.draft.texts.get("by") == "ada")
            await ada.press("ctrl+s")
            async with asyncio.timeout(10):
                await server.hub.flow_ended(session)
            state = await server.hub.session(session)
            assert state.status == "done"
            assert "signed by ada" in (state.transcript[-1].text or "")


class TestReadOnly:
    async def test_request_is_shown_but_form_does_not_open(self) -> None:
        """P-81: a read-only console shows the request but cannot open the form."""
        async with watched() as on:
            await on.press("alt+5", "g", "enter")
            await on.settle()
            dialog = on.app.screen
            assert isinstance(dialog, ApprovalScreen)
            await on.wake()
            assert "Are these notes good enough to publish?" in on.painted()
            keys = dialog.active_bindings.values()
            offered = {each.binding.id for each in keys if each.enabled}
            assert "approval.explain" in offered
            assert "approval.approve" not in offered
            await on.press("a", "e", "d", "s")
            await on.settle()
            assert on.app.screen is dialog
            assert on.hub.asked == []


class TestHistory:
    def test_table_marks_a_flow(self, tmp_path: Path) -> None:
        """The history table marks a run of a flow as a flow."""
        sessions = open_reader(write(tmp_path / "journal.db")).sessions()
        [run] = [each for each in sessions if each.id == ID]
        chosen = columns([run], 160)
        cells = dict(zip((c.name for c in chosen), row(chosen, run), strict=True))
        assert cells["from"].strip() == "flow"
