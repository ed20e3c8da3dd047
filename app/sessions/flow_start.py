"""Starting of flows on a hub, and resuming of recorded runs."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from pydantic import BaseModel, JsonValue

from ...engine.flows import ClientFactory
from ...engine.gate.types import Mode
from ...engine.hub.hub import Hub, Nets, SessionConfig
from ..flows.builder import PreparedFlow
from ..flows.spec import recorded_flow
from .server_rules import ServerRules


async def start_flow(
    hub: Hub,
    prepared: PreparedFlow,
    value: BaseModel,
    operator: str,
    factory: ClientFactory | None = None,
) -> str:
    """Run the flow with `value`, and return the id of its session."""
    spec = prepared.spec
    source = spec.model_dump(mode="json")
    return await hub.open_flow(
        prepared.flow,
        value,
        SessionConfig(
            prepared.rules.registry, mode=spec.mode, by=operator, labels=spec.labels, source=source
        ),
        context=prepared.context,
        factory=factory,
        limits=prepared.limits,
    )


async def resume_flow(
    hub: Hub,
    session_id: str,
    prepared: PreparedFlow,
    operator: str,
    *,
    nets: Nets = "recorded",
    mode: Mode | None = None,
    reason: str | None = None,
    required: Collection[str] = (),
) -> str:
    """Resume a recorded run, and return its id. Raises the errors of `Hub.resume_flow`."""
    config = SessionConfig(
        prepared.rules.registry,
        mode=mode,
        by=operator,
        labels=prepared.spec.labels,
        nets=nets,
        reason=reason,
        source=prepared.spec.model_dump(mode="json"),
        required=required,
        applied=prepared.applied,
    )
    return await hub.resume_flow(
        session_id, prepared.flow, config, context=prepared.context, limits=prepared.limits
    )


async def resume_recorded_flow(
    hub: Hub,
    session_id: str,
    source: dict[str, JsonValue] | None,
    operator: str,
    nets: Nets = "recorded",
    reason: str | None = None,
    *,
    server: ServerRules,
) -> str:
    """Resume a run as recorded: with its flow, rules and settings. See `resume_flow`.

    The rules of the `server` apply, too. Also raises `FlowSpecError`.
    """
    prepared = await asyncio.to_thread(lambda: server.flow(recorded_flow(session_id, source)))
    required = await asyncio.to_thread(server.required)
    return await resume_flow(
        hub, session_id, prepared, operator, nets=nets, reason=reason, required=required
    )
