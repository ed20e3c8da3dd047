"""The panel with a net's picture at its marking."""

from __future__ import annotations

from ...engine.history.state import NetState
from ..widgets.net_drawing import picture_blocks
from .detail import Detail


def net_picture(state: NetState) -> Detail:
    """The panel with the picture of a net at its marking."""
    return Detail(f"Net: {state.key}", picture_blocks(state))
