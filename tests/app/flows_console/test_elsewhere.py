"""A flow at a server, watched and answered from a console elsewhere; and its run in the history."""

from __future__ import annotations

import asyncio
from pathlib import Path

from interlock.app.screens.answer_form import AnswerForm
from interlock.app.session_table import columns, row
from interlock.app.widgets.typed import TypedText
from interlock.engine.agents import C
from interlock.engine.history.queries import open_reader
from tests.app.connect.seats import attached, served
from tests.app.flows_console.recorded import ID, write
from tests.engine.release import Commit, Release, Script


class TestAttached:
    async def test_graph_and_answer(self, tmp_path: Path) -> None:
        """P-55, P-81: a console elsewhere has the graph and the form; its answer ends the run."""
        async with served(tmp_path) as server, attached(server) as ada:
            session = await server.hub.open_flow(
                Release,
                Commit(sha="abc"),
                registry={},
                by="maria",
                factory=Script([C(submit={"text": "notes"})]),
            )
            await ada.dialog()
            await ada.shows("WHAT IS ASKED", "step", "flow Release waits for the answer")
            await ada.press("a")
            await ada.at(AnswerForm)
            form = ada.app.screen
            await ada.until(lambda: form._shown_at is not None)
            ada.seconds += 1.0
            await ada.shows("sends the answer")
            form.query(TypedText).first().text = "ada"
            await ada.until(lambda: form.draft.texts.get("by") == "ada")
            await ada.press("ctrl+s")
            async with asyncio.timeout(10):
                await server.hub.flow_ended(session)
            state = await server.hub.session(session)
            assert state.status == "done"
            assert "signed by ada" in (state.transcript[-1].text or "")


class TestHistory:
    def test_the_table_tells_a_flow(self, tmp_path: Path) -> None:
        """A run of a flow says that it is one, not that its loop is elsewhere."""
        sessions = open_reader(write(tmp_path / "journal.db")).sessions()
        [run] = [each for each in sessions if each.id == ID]
        chosen = columns([run], 160)
        cells = dict(zip((c.name for c in chosen), row(chosen, run), strict=True))
        assert cells["from"].strip() == "flow"
