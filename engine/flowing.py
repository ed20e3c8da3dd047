"""Flows under a hub: each run is a session, in the one queue and the one journal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, JsonValue

from .agents.events import Usage
from .condition import Surroundings
from .flow_gate import RunGate
from .flow_record import RunRecord, stepped
from .flow_run import FlowRun
from .flow_session import FlowSession
from .flows import ClientFactory, Context, Flow, FlowRuntime, RunLimits
from .flows.nodes import Agent
from .gate.types import Mode
from .hints import hinted, with_wishes
from .history.events import SessionStatus
from .live import LiveSessions, new_id
from .net import SkillNet
from .refusals import UnknownSessionError
from .resuming import Nets, ResumeError
from .terms import Terms


class Flowing:
    """The part of a hub for flows; `_live` are its sessions."""

    _live: LiveSessions

    async def open_flow(
        self,
        flow: type[Flow[Any, Any]],
        value: BaseModel,
        *,
        registry: Mapping[str, SkillNet],
        active: Sequence[str] | None = None,
        mode: Mode = "enforce",
        by: str | None = None,
        session_id: str | None = None,
        source: dict[str, JsonValue] | None = None,
        context: Context | None = None,
        factory: ClientFactory | None = None,
        limits: RunLimits | None = None,
    ) -> str:
        """Run `flow` with `value`; the id of its session. Its agents' calls pass the nets of `registry`.

        Each step is in the record before the next begins. What it waits for comes up in the queue: calls
        that the nets want approved, tools that ask, steps that people take. Tools of its agents' `config`
        that want to be approved add a net each, as in `open_session`. Raises `Invalid` for a flow
        that cannot be, `NetError` and `JournalError` as `open_session`.
        """
        ctx = context or Context()
        every, chosen = _with_wishes(flow, registry, active)
        terms = Terms(every, chosen, mode, by, source=source)
        session_id = session_id or new_id(flow.__name__)
        with self._live.beginning(
            session_id, terms, Surroundings(str(ctx.working_dir)), FlowSession
        ) as hosted:
            gate = RunGate(hosted, "")
            used: list[Usage] = []
            runtime: FlowRuntime[Any] = FlowRuntime(
                flow, value, factory=factory, gate=gate, used=used.append
            )
            opened = hosted.opening(flow.__name__, runtime.graph, by, source)
            begins = stepped(0, None, runtime.snapshot(), (), waits=None, done=False)
            await hosted.record(opened, begins, SessionStatus(status="running"))
            self._live.add(hosted)
            hosted.start(
                FlowRun(
                    hosted,
                    hosted.calls,
                    hosted.answers,
                    runtime,
                    gate,
                    ctx,
                    limits or RunLimits(),
                    used,
                )
            )
        return session_id

    async def resume_flow(
        self,
        session_id: str,
        flow: type[Flow[Any, Any]],
        *,
        registry: Mapping[str, SkillNet],
        active: Sequence[str] | None = None,
        mode: Mode | None = None,
        by: str | None = None,
        nets: Nets = "recorded",
        source: dict[str, JsonValue] | None = None,
        context: Context | None = None,
        factory: ClientFactory | None = None,
        limits: RunLimits | None = None,
    ) -> str:
        """Go on with a run after its last recorded step, under its own id, which is returned.

        What was asked is asked again; an answer that the record has counts. A call that had been approved
        is never run a second time. Raises as `resume_session`, and `SnapLoadError` where `flow` is not
        what the run was begun with.
        """
        ctx = context or Context()
        every, chosen = _with_wishes(flow, registry, active)
        terms = Terms(every, chosen, mode, by, False, source, nets)
        around = Surroundings(str(ctx.working_dir))
        async with self._live.reviving(session_id, terms, around, FlowSession) as back:
            hosted = back.hosted
            was = RunRecord.of(back.events)
            if was is None:
                raise ResumeError(f"Session '{hosted.id}' has no step of a flow in its record.")
            host = was.hosts + 1
            gate = RunGate(hosted, f"{host}:")
            used: list[Usage] = []
            runtime = FlowRuntime[Any].from_snapshot(
                flow, was.snapshot, history=was.history, factory=factory, gate=gate, used=used.append
            )
            hosted.answers.update(was.answers)
            await hosted.record(*hosted.resuming(flow.__name__, by, source, back.fit, back.events))
            await hosted.forget_results(was.waits)
            self._live.add(hosted)
            run = FlowRun(
                hosted,
                hosted.calls,
                hosted.answers,
                runtime,
                gate,
                ctx,
                limits or RunLimits(),
                used,
                step=was.step,
                waits=was.waits,
            )
            hosted.start(run)
        return hosted.id

    async def flow_ended(self, session_id: str) -> None:
        """Return when a live run has ended or stands. Raises `UnknownSessionError`."""
        hosted = self._live.hosted(session_id)
        if not isinstance(hosted, FlowSession):
            raise UnknownSessionError(f"Session '{session_id}' runs no flow")
        await hosted.ended()


def _with_wishes(
    flow: type[Flow[Any, Any]], registry: Mapping[str, SkillNet], active: Sequence[str] | None
) -> tuple[Mapping[str, SkillNet], Sequence[str] | None]:
    """The nets of a run and those that are active: what its agents' tools wish for always is at first."""
    agents = [node.node.config for node in flow.graph().distinct if isinstance(node, Agent)]
    every = with_wishes(registry, (tool for config in agents if config for tool in config.tools))
    return every, None if active is None else (*active, *hinted(registry, every))
