"""Recorded inputs with very many fields: an excerpt, and how to get all of it."""

from __future__ import annotations

import pytest

from interlock.app.screens.common.detail import call_detail
from interlock.app.screens.decisions.detail import decision_blocks
from interlock.app.screens.replay.event_detail import event_detail
from interlock.app.viewmodels.request import MOST_FIELDS, MOST_VALUES
from interlock.app.widgets.base.blocks import Block
from interlock.app.widgets.replay.event_details import fields
from interlock.engine.history.decisions.reader import Decision
from interlock.engine.history.model.events import CallDecided, JournalEvent
from interlock.engine.history.model.state import CallState

from ...support.scenes import NOW

FIELDS = {f"field{n}": f"value {n}" for n in range(MOST_FIELDS + 1)}
NESTED = {"rows": [list(range(1000)) for _ in range(MOST_VALUES // 1000)]}
SAID = "All of it: interlock history export s1 -o FILE"


def lines_of(blocks: list[Block]) -> list[str]:
    return [row.plain for block in blocks for row in block.lines(120)]


def decided(given: dict[str, object]) -> JournalEvent:
    body = CallDecided.model_validate(
        {
            "call_id": "c1",
            "tool": "put",
            "input": given,
            "names": ("put",),
            "outcome": "allow",
            "mode": "enforce",
        }
    )
    return JournalEvent(cursor=1, session="s1", seq=7, at=NOW, body=body)


def decision() -> Decision:
    return Decision(
        cursor=1,
        session="s1",
        seq=7,
        at=NOW,
        agent="bot",
        call_id="c1",
        tool="put",
        called="put",
        input="",
        mode="enforce",
        verdict="allow",
    )


@pytest.mark.parametrize("given", [FIELDS, NESTED], ids=["fields", "nested"])
class TestExcerpt:
    def test_decision_panel(self, given: dict[str, object]) -> None:
        """A decision's panel shows a short excerpt and the command that exports all of it."""
        lines = lines_of(decision_blocks(decision(), decided(given), None))
        assert len(lines) < 100
        assert any(SAID in line for line in lines)

    def test_transcript_call_panel(self, given: dict[str, object]) -> None:
        """The panel of a call in a transcript shows a short excerpt, too."""
        call = CallState.model_validate({"call_id": "c1", "tool": "put", "input": given, "at": NOW})
        lines = lines_of(list(call_detail(call, "s1")._blocks))
        assert len(lines) < 100
        assert any(SAID in line for line in lines)

    def test_replay_event_panel(self, given: dict[str, object]) -> None:
        """An event's details in a replay, and its panel, show a short excerpt, too."""
        event = decided(given)
        shown = dict(fields(event.body, event.session))["input"]
        assert len(shown) < 100
        assert SAID in shown[-1]
        lines = lines_of(list(event_detail(event, [])._blocks))
        assert len(lines) < 200
        assert any(SAID in line for line in lines)


class TestWhole:
    def test_input_within_limit_is_shown_in_full(self) -> None:
        """An input up to the limit of fields is shown in full, with its long texts."""
        given = {name: FIELDS[name] for name in list(FIELDS)[:-1]}
        event = decided({**given, "field0": "\n".join(map(str, range(MOST_VALUES)))})
        lines = lines_of(decision_blocks(decision(), event, None))
        assert len(lines) > MOST_FIELDS + MOST_VALUES
        assert not any(SAID in line for line in lines)
