"""Flows under a hub: each run is a session, with the same queue and journal.

Every host imports this module, and most run no flow, so the runtime is imported when the first is opened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from ..core.condition import Surroundings
from ..history.model.events import SessionStatus
from ..net.net import SkillNet
from ..recording.resume_checks import ResumeError, check_reason
from ..sessions.config import SessionConfig
from ..sessions.errors import UnknownSessionError
from ..sessions.registry import SessionRegistry, new_id

if TYPE_CHECKING:
    from ..flows import ClientFactory, Context, Flow, RunLimits, Trace
    from ..sessions.flow.run import RunOptions


class FlowApi:
    """Part of a hub for flows; `_live` are its sessions."""

    _live: SessionRegistry

    async def open_flow(
        self,
        flow: type[Flow[Any, Any]],
        value: BaseModel,
        config: SessionConfig,
        *,
        session_id: str | None = None,
        context: Context | None = None,
        factory: ClientFactory | None = None,
        limits: RunLimits | None = None,
        trace: Trace | None = None,
    ) -> str:
        """Run `flow` with `value`; return the session's id. Its agents' calls pass the nets of `config`.

        Each step is recorded before the next begins. What it waits for is requested in the queue:
        approvals of calls, questions of tools, steps that operators take. Tools of its agents that need
        approval get it as in `open_session`; see `FlowApprovals`. `trace` receives steps, model calls and
        tools as they happen. Raises `Invalid` for an invalid flow, `NetError` and `JournalError` as
        `open_session` does.
        """
        from ..sessions.flow.run import FlowRun
        from ..sessions.flow.session import FlowSession

        hosting = _hosting(flow, config.registry, context, factory, limits, trace)
        config = _with_tool_nets(config, hosting)
        surroundings = _surroundings(hosting.ctx)
        session_id = session_id or new_id(flow.__name__)
        with self._live.begin(session_id, config, surroundings, FlowSession) as hosted:
            run = FlowRun(hosted, flow, value, hosting)
            opened = hosted.opening(flow.__name__, run.graph, config)
            await hosted.record(opened, run.beginning(), SessionStatus(status="running"))
            self._live.add(hosted)
            hosted.start(run)
        return session_id

    async def resume_flow(
        self,
        session_id: str,
        flow: type[Flow[Any, Any]],
        config: SessionConfig,
        *,
        context: Context | None = None,
        factory: ClientFactory | None = None,
        limits: RunLimits | None = None,
        trace: Trace | None = None,
    ) -> str:
        """Resume a run after its last recorded step, under its own id, which is returned.

        Open requests are made again; a recorded answer counts. An approved call is never run a second
        time. Raises as `resume_session` does, and `SnapLoadError` if `flow` is not the flow that the run
        was started with.
        """
        from ..sessions.flow.record import RunRecord
        from ..sessions.flow.run import FlowRun
        from ..sessions.flow.session import FlowSession

        hosting = _hosting(flow, config.registry, context, factory, limits, trace)
        config = _with_tool_nets(config, hosting)
        surroundings = _surroundings(hosting.ctx)
        async with self._live.revive(
            session_id, flow.__name__, config, surroundings, FlowSession
        ) as back:
            hosted, mode = back.hosted, config.mode or back.state.mode
            check_reason(back.state, back.fit, config.registry, mode, back.state.max_cost, config.reason)
            was = RunRecord.of(back.events)
            if was is None:
                raise ResumeError(f"Session '{hosted.id}' has no step of a flow in its record.")
            run = FlowRun(hosted, flow, was, hosting)
            hosted.answers.update(was.answers)
            await hosted.record(*hosted.resuming(flow.__name__, config, back.fit, back.events))
            await hosted.switching.catch_up()
            # Calls that an earlier host left without a result never get one.
            await hosted.calls.end_turn(waiting_id=was.asks)
            self._live.add(hosted)
            hosted.start(run)
        return hosted.id

    async def flow_ended(self, session_id: str) -> None:
        """Return when a live run has ended, or stopped until resumed. Raises `UnknownSessionError`."""
        from ..sessions.flow.session import FlowSession

        hosted = self._live.hosted(session_id)
        if not isinstance(hosted, FlowSession):
            raise UnknownSessionError(f"Session '{session_id}' runs no flow")
        await hosted.wait_for_end()


def _surroundings(ctx: Context) -> Surroundings:
    """Return the evaluation context of a flow's agents, from the runtime that their tools use."""
    from ..agents.runtime.local.runtime import LocalRuntime
    from ..sessions.config import surroundings_of

    return surroundings_of(ctx.runtime or LocalRuntime(ctx.working_dir))


def _with_tool_nets(config: SessionConfig, hosting: RunOptions) -> SessionConfig:
    """Return `config` with nets for those tools of the flow's agents that need approval."""
    approvals = hosting.approvals
    return replace(config, registry=approvals.nets, active=approvals.active(config.active))


def _hosting(
    flow: type[Flow[Any, Any]],
    registry: Mapping[str, SkillNet],
    context: Context | None,
    factory: ClientFactory | None,
    limits: RunLimits | None,
    trace: Trace | None,
) -> RunOptions:
    from ..flows import Context, RunLimits
    from ..sessions.flow.questions import FlowApprovals
    from ..sessions.flow.run import RunOptions

    approvals = FlowApprovals(flow.graph(), registry)
    ctx = context or Context(deps=flow.deps())
    return RunOptions(ctx, approvals, limits or RunLimits(), factory, trace)
