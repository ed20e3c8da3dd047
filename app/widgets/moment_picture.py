"""The chosen net as a picture, at one moment of a replay."""

from __future__ import annotations

from ...engine.history.events import CallDecided, CallResult, JournalEvent
from ...engine.history.parts import StepRecord
from ...engine.history.state import SessionState
from .blocks import BlockList
from .flow_graph import flow_picture
from .flow_lines import FLOW
from .net_drawing import picture_blocks


class MomentPicture(BlockList):
    """Places as circles, transitions as bars; what the event fired says so. A flow as its graph."""

    def __init__(self) -> None:
        super().__init__(id="picture", empty="No net is chosen.", cursor=False)

    def show_moment(self, state: SessionState, event: JournalEvent, key: str | None) -> None:
        """Show the net `key` of `state`, the session when `event` had happened; or its flow."""
        if key == FLOW:
            self.show(flow_picture(state))
            return
        grant = state.grants.get(key or "")
        net = state.nets.get(key or "") if grant is None else grant.net
        self.show([] if net is None else picture_blocks(net, fired_in(event, net.key)))


def fired_in(event: JournalEvent, net: str) -> tuple[str, ...]:
    """The transitions of a net that an event fired."""
    steps: tuple[StepRecord, ...] = ()
    match event.body:
        case CallDecided() as body:
            steps = tuple(step for step in body.steps if not step.deferred)
        case CallResult(anomaly=None) as body:
            steps = body.fired
        case _:
            pass
    return tuple(step.transition for step in steps if step.net == net)
