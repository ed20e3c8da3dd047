"""The text of the approval dialog, without a screen."""

from __future__ import annotations

from datetime import UTC, datetime

from interlock.app.widgets.request import request_text
from interlock.engine.history.state import ApprovalState

NOW = datetime(2026, 1, 5, 14, 0, tzinfo=UTC)


def lines(uninspectable: str | None) -> list[str]:
    """The dialog's lines for a request of a shell command."""
    request = ApprovalState(
        id="a1",
        session="s1",
        agent="bot",
        call_id="c1",
        since=NOW,
        tool="deploy",
        called="bash",
        input={"command": "$(cat todo) && ./deploy"},
        names=("deploy", "bash"),
        net="approve-before-deploy",
        transition="approve",
        title="Approve: deploy",
        message="",
        marking={"ready": 1},
        uninspectable=uninspectable,
    )
    return [line.plain for line in request_text(request, None, NOW, 76, 40).lines]


class TestUninspectable:
    def test_comes_first(self) -> None:
        """G-51: a command that could not be read to its end is announced before what it is taken for."""
        shown = lines("command: \x1b[2Jits first word is made up as it runs")
        at = next(i for i, line in enumerate(shown) if "UNINSPECTABLE" in line)
        assert at < next(i for i, line in enumerate(shown) if "→ deploy" in line)
        assert not any("\x1b" in line for line in shown)

    def test_is_silent_otherwise(self) -> None:
        """A command that was read to its end gets no warning."""
        assert not any("UNINSPECTABLE" in line for line in lines(None))
