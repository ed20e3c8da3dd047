"""Context in which an operator decides: a hub, their name, and the clocks of times and keys."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from ....engine.approvals.requests import ApprovalPolicy
from ....engine.core.clock import Clock, utc_now
from ....engine.hub.api import HubApi
from ...widgets.approval.progress import Viewer
from .guarded_keys import QUIET


@dataclass(frozen=True, slots=True)
class OperatorContext:
    """Hub, operator and clocks, given to every screen that decides.

    `clock` gives the times that ages are counted to, `monotonic` the seconds that keys are inert; see
    `GuardedKeys` for `quiet`.
    """

    hub: HubApi
    operator: str
    clock: Clock = utc_now
    monotonic: Callable[[], float] = time.monotonic
    quiet: float = QUIET

    @property
    def viewer(self) -> Viewer:
        """The operator who views requests here, and whether these may be of their own sessions."""
        policy: object = getattr(self.hub, "policy", None)
        return Viewer(self.operator, isinstance(policy, ApprovalPolicy) and policy.own_approvals)
