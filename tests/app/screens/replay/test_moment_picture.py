"""The picture of every net at every moment of a session."""

from __future__ import annotations

from interlock.app.widgets.nets.drawing import circle, picture_blocks
from interlock.app.widgets.replay.nets import fired_in
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.model.events import CallDecided, CallResult, JournalEvent
from interlock.engine.history.model.state import NetState

from .recording import recording

RECORDED = recording()


def picture(net: NetState, event: JournalEvent) -> str:
    """The picture's lines, as shown beside the transcript."""
    blocks = picture_blocks(net, fired_in(event, net.key))
    return "\n".join(line.plain for block in blocks for line in block.lines(60))


class TestEveryMoment:
    """All nets and all steps."""

    def test_each_place_has_its_tokens(self) -> None:
        """G-63: the circles of a net hold the tokens that the fold of the events puts there."""
        nets = 0
        for number, event in enumerate(RECORDED, start=1):
            for net in fold(RECORDED[:number]).nets.values():
                places = "   ".join(f"{circle(net.marking.get(p, 0))} {p}" for p in net.net.places)
                assert places in picture(net, event), (number, net.key)
                nets += 1
        assert nets > 100

    def test_marking_change_shows_a_fired_transition(self) -> None:
        """Every change of a marking shows a fired transition, and only decisions and results show one."""
        moved = 0
        for number, event in enumerate(RECORDED[1:], start=2):
            before, after = fold(RECORDED[: number - 1]), fold(RECORDED[:number])
            for key, net in after.nets.items():
                changed = before.nets[key].marking != net.marking
                shown = "Δ fired" in picture(net, event)
                assert shown or not changed, (number, key)
                assert isinstance(event.body, CallDecided | CallResult) or not shown, (number, key)
                moved += changed
        assert moved >= 5
