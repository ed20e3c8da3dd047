"""Sessions of subagents under the hub: recorded and shown like any other, gated by their parent's nets.

A child has no nets. Its calls are decided, and approvals requested, in the top session. The record of
that session has their effects on the nets, the child's own record the outcome of each call.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar
from uuid import uuid4

from ..agents import StepEvent, ToolError
from ..agents.session.subagents import SubagentGate, check_depth
from ..approvals.policy import ApprovalPolicy, OperatorTokens
from ..core.condition import NOWHERE
from ..gate.classify import ShellFields
from ..gate.types import GateDecision, ResultRecord, ToolResult
from ..history.journal.journal import JournalError
from ..history.model.events import SessionOpened
from ..history.model.fast_models import copy_with
from ..history.model.records import Kind
from ..net.net import ToolCall
from ..recording.explanation import ExplanationView
from ..recording.records import decision_record, result_record
from .config import SessionConfig
from .hosted import HostedSession
from .profile import AgentProfile
from .recovery import RecoveryPlan

if TYPE_CHECKING:
    from ..agents import Agent, Session

Host = Callable[
    ["HostedChild", "Agent", "HostedChildren", RecoveryPlan | None],
    AbstractAsyncContextManager["Session"],
]
"""Makes a child live while the context lasts: recorded, listed, its session running under the hub.

Work of an earlier host is resumed.
"""

NO_PLANS: Mapping[str, RecoveryPlan] = MappingProxyType({})
NOT_RECORDED = "The call was not run: it could not be recorded"


class HostedChild(HostedSession):
    """Subagent's session, which also records the decisions of `parent` about its calls.

    The call `call_id` started it; with a `plan` an earlier host started it, and it resumes.
    """

    kind: ClassVar[Kind] = "child"

    def __init__(
        self, parent: HostedSession, agent: Agent, call_id: str, plan: RecoveryPlan | None = None
    ) -> None:
        super().__init__(
            f"{agent.name}-{uuid4().hex[:6]}" if plan is None else plan.state.id,
            parent.journal,
            parent.publish,
            registry={},
            active=None,
            mode=parent.manager.mode,
            redaction=parent.redaction,
            policy=ApprovalPolicy(),
            tokens=OperatorTokens(),
            surroundings=NOWHERE,
            freeze=parent.freeze,
        )
        self.parent = parent
        self._call_id = call_id
        if plan is not None:
            self.go_on_from(plan.state)
            self.rules = plan.rules
        self._gate = SubagentGate(parent, self.id)

    @property
    def shell_fields(self) -> ShellFields:
        """As the maps of its parent's rules say."""
        return self.parent.shell_fields

    @property
    def config(self) -> SessionConfig:
        """Return its configuration: no nets, and the labels of its parent."""
        return SessionConfig({}, labels=self.parent.state.session_labels)

    def opened(self, profile: AgentProfile, config: SessionConfig) -> SessionOpened:
        """Return the event that opens the record; it names the call that started the subagent."""
        origin = {"parent": self.parent.id, "parent_call": self._call_id}
        if self.parent.runtime is not None:
            origin["workdir"] = str(self.parent.runtime.cwd)
        return super().opened(profile, config).model_copy(update=origin)

    def constraints(self) -> Sequence[str] | None:
        """The parent's rules in sentences (G-73)."""
        return self.parent.constraints()

    async def decide(self, call: ToolCall) -> GateDecision:
        """Have the parent decide, then record it. A call that cannot be recorded here does not run."""
        with self.unbegun.deciding(own=True):
            decision = await self._gate.decide(call)
            try:
                await self.record(decision_record(replace(decision, steps=()), call.input))
            except JournalError:
                if not decision.block:
                    failed = ToolResult(call.tool_call_id, call.tool_name, call.input, is_error=True)
                    await self._gate.settle(failed, NOT_RECORDED, 0.0)
                raise
            self.unbegun.add(decision)
            return decision

    async def settle(
        self, result: ToolResult, output: str, seconds: float, *, unknown: bool = False
    ) -> ResultRecord:
        """Pass the result to the parent's nets, then record it here."""
        outcome = await self._gate.settle(result, output, seconds)
        record = result_record(result, output, seconds)
        await self.record(copy_with(record, {"unknown": True}) if unknown else record)
        self.note_settled(result.tool_call_id, output)
        return outcome

    async def step_ended(self, event: StepEvent, via: str | None = None) -> None:
        """Record usage here and in the sessions above, which include the usage of subagents."""
        await super().step_ended(event, via)
        await self.parent.step_ended(event, via or self.id)

    def explain_call(self, call: ToolCall) -> ExplanationView:
        """Explain how the nets of its parent would decide a call."""
        return self.parent.explain_call(call)

    @property
    def judged_elsewhere(self) -> str:
        """Reason why nothing can be switched here."""
        return f"'{self.id}' is a subagent's session: its calls are judged in '{self.parent.id}'"


class HostedChildren:
    """Creates the children of one hosted session; those in `plans`, by call, resume."""

    def __init__(
        self,
        parent: HostedSession,
        host: Host,
        plans: Mapping[str, RecoveryPlan] = NO_PLANS,
        depth: int = 1,
    ) -> None:
        self._parent = parent
        self._host = host
        self._plans = dict(plans)
        self._depth = depth

    @asynccontextmanager
    async def open(self, agent: Agent, call_id: str) -> AsyncGenerator[Session, None]:
        """See `SubagentSessions.open`."""
        check_depth(agent, self._depth)
        plan = self._plans.pop(call_id, None)
        if plan is not None and plan.failure is not None:
            raise ToolError(plan.failure)
        child = HostedChild(self._parent, agent, call_id, plan)
        plans = NO_PLANS if plan is None else plan.children
        children = HostedChildren(child, self._host, plans, self._depth + 1)
        async with self._host(child, agent, children, plan) as session:
            yield session
