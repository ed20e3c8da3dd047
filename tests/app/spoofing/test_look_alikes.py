"""Names and commands in letters of other scripts, on every screen that operators decide by."""

from __future__ import annotations

from interlock.app.format.text import glance
from interlock.app.viewmodels.batch import Row
from interlock.app.widgets.approval.batch_lines import batch_lines
from interlock.app.widgets.approval.progress import Viewer

from ..support.scenes import NOW, deploy_request, release_bot
from ..support.stage import stage

COPY = "\u0441\u043e\u0440\u0443"
SPELT = "\\u0441\\u043e\\u0440\\u0443"


class TestScreens:
    async def test_dialog_queue_and_transcript(self) -> None:
        """Look-alike letters in tool, command and agent are spelt out in dialog and live screen."""
        state = release_bot()
        request = deploy_request(
            called=COPY,
            tool=COPY,
            title=f"Approve: {COPY}",
            agent=COPY,
            names=(COPY, "bash"),
            input={"command": f"ls; {COPY} x; d\u0435ploy"},
        )
        state.agent = COPY
        state.approvals = {"ap1": request}
        async with stage(state, size=(120, 40)) as on:
            painted = on.painted()
            assert COPY not in painted
            assert SPELT in painted
            await on.open_dialog()
            painted = on.painted()
            assert COPY not in painted
            assert f"│ {SPELT} x" in painted
            assert f'"ls; {SPELT} x; d\\u0435ploy"' in painted

    def test_commands_are_spelt_out_and_prose_is_not(self) -> None:
        """Look-alike letters in a command are spelt out, in a prose field they are not."""
        assert glance({"command": f"{COPY} x"}) == f"{SPELT} x"
        assert glance({"line": f"{COPY} x"}, shell_fields=("line",)) == f"{SPELT} x"
        assert glance({"command": f"{COPY} x", "why": "сор"}) == f'command="{SPELT} x" why="сор"'

    def test_batch(self) -> None:
        """A batch spells out look-alike letters in tool and command, too."""
        rows = [
            Row(deploy_request(id=f"a{n}", called=COPY, input={"command": f"{COPY} {n}"}))
            for n in range(2)
        ]
        lines = batch_lines(rows, {}, NOW, 100, Viewer("maria"))
        painted = "\n".join(line.plain for line in lines)
        assert COPY not in painted
        assert SPELT in painted
