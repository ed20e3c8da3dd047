"""What an operator decides at: a hub, their name, and the clocks that times and keys go by."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from ....engine.approvals.requests import ApprovalPolicy
from ....engine.core.clock import Clock, utc_now
from ...sources.api import HubApi
from ...widgets.approval.progress import Viewer
from .guarded_keys import QUIET


@dataclass(frozen=True, slots=True)
class OperatorContext:
    """Whatever screen decides is given one.

    `clock` gives the times that ages are counted to, `monotonic` the seconds that keys sleep; see
    `Wakeful` for `quiet`.
    """

    hub: HubApi
    operator: str
    clock: Clock = utc_now
    monotonic: Callable[[], float] = time.monotonic
    quiet: float = QUIET

    @property
    def viewer(self) -> Viewer:
        """Who is shown requests here, and whether they may be of sessions that they started."""
        policy: object = getattr(self.hub, "policy", None)
        return Viewer(self.operator, isinstance(policy, ApprovalPolicy) and policy.own_approvals)
