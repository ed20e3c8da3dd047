"""Starting, resuming and branching of sessions on a hub, as an operator requests.

Everything that reads files, imports code or compiles rules runs in threads, so that the screen never
blocks.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Protocol, TypeAlias, cast

from pydantic import JsonValue, TypeAdapter, ValidationError

from ...engine.history.model.events import JournalEvent, LimitRaised, SessionResumed
from ...engine.history.model.state import Origin
from ...engine.history.redaction.masked_events import MaskedEvents
from ...engine.hub.api import AgentStarter, HubApi
from ...engine.hub.hub import Hub, Nets
from ..agents.builder import Prepared, prepare
from ..agents.command_line import AGENT_OPTIONS, from_command_line, is_target
from ..agents.spec import AgentSpec, AgentSpecError
from ..flows.spec import FlowSpecError, is_flow
from .acp_resume import acp_command, is_acp
from .imported_session import is_resumable, refusal
from .server_rules import ServerRules

NO_TASK = "Task: what should the agent do? An agent file may have a task of its own"


@dataclass(frozen=True, slots=True)
class StartForm:
    """Form that an operator fills in to start a session; the agent file determines empty fields.

    `agent` is an agent file, `package.module:name`, or a model's name. `rules` are files and `tools`
    names, separated by blanks or commas.
    """

    agent: str = ""
    rules: str = ""
    tools: str = ""
    task: str = ""
    shadow: bool = False

    def spec(self, *, directory: Path | None = None) -> AgentSpec:
        """Return the requested agent. Raises `AgentSpecError` with every problem that can be detected."""
        agent = self.agent.strip()
        target = agent if agent and is_target(agent, alone=False) else None
        chosen = {
            "model": agent if target is None and agent else None,
            "rules": _words(self.rules) or None,
            "tools": ",".join(_words(self.tools)) or None,
            "mode": "shadow" if self.shadow else None,
        }
        args = argparse.Namespace(
            **dict.fromkeys((*AGENT_OPTIONS, "max_cost")) | chosen,
            target=target,
            task=self.task.strip() or None,
            typed=frozenset(name for name, value in chosen.items() if value is not None),
        )
        spec = from_command_line(args, environ={}, directory=directory)
        if spec.task is None:
            raise AgentSpecError([NO_TASK])
        return spec


def requested_agent(fields: Mapping[str, JsonValue]) -> AgentSpec:
    """Return the agent that a remote console requests: an agent file's fields, or `form` as it was typed.

    Paths are on this machine. Raises `AgentSpecError`.
    """
    try:
        if set(fields) == {"form"}:
            return _form.validate_python(fields["form"]).spec()
        spec = AgentSpec.model_validate(fields)
    except ValidationError as error:
        raise AgentSpecError(
            [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
        ) from error
    if spec.task is None:
        raise AgentSpecError([NO_TASK])
    return spec


_form = TypeAdapter(StartForm)


def _words(text: str) -> list[str]:
    return text.replace(",", " ").split()


Note: TypeAlias = Callable[[str, Prepared], None]
"""Callback that receives a live session's id and its agent."""


def note_nothing(session_id: str, prepared: Prepared) -> None:
    """Do nothing, for a host whose sessions keep the rules they began with."""


async def start(hub: Hub, prepared: Prepared, operator: str, note: Note = note_nothing) -> str:
    """Open the session, send its task, and return the session's id."""
    session = await prepared.open(hub, by=operator)
    note(session, prepared)
    assert prepared.spec.task is not None
    await hub.send(session, prepared.spec.task, by=operator)
    return session


async def resume_or_branch(
    hub: Hub,
    session_id: str,
    operator: str,
    *,
    at: int | None = None,
    nets: Nets = "recorded",
    task: str | None = None,
    max_cost: float | None = None,
    must_go_on: bool = False,
    reason: str | None = None,
    server: ServerRules | None = None,
    prepared: Prepared | None = None,
    note: Note = note_nothing,
) -> str:
    """Resume a recorded session, or branch it at its event number `at`; return the session's id.

    The agent is built again from the recorded source. `max_cost`, if given, becomes its limit; otherwise
    a limit that an operator has raised stays raised. With a `task` the agent starts at once, after the
    calls that were open when its host died. With `must_go_on` a session with nothing open is rejected.
    `reason` states why it may continue under fewer rules than before (G-67). A `server`'s rules apply as
    well. An imported session needs a `prepared` agent. A run of a flow continues after its last step, and
    accepts neither a task nor `at`.

    Raises `AgentSpecError`, `SessionNotFound`, `ResumeError` and `JournalError`.
    """
    server = server or ServerRules()
    origin = await hub.origin(session_id)
    found, started_from = origin.session, origin.source
    if origin.imported and (prepared is None or not is_resumable(origin)):
        raise AgentSpecError(refusal(origin, at, hub.database))
    if is_flow(started_from):
        if at is not None or task is not None:
            raise AgentSpecError(
                [
                    f"session '{found}' is a run of a flow: it continues after its last step, "
                    "without a task"
                ]
            )
        from ...engine.flows import FlowError
        from .flow_start import resume_recorded_flow

        try:
            return await resume_recorded_flow(
                hub, found, started_from, operator, nets, reason, server=server
            )
        except (FlowSpecError, FlowError) as error:
            raise AgentSpecError(str(error).splitlines()) from error
    if is_acp(started_from):
        command = acp_command(found, await hub.recorded(found), hub.database)
        raise AgentSpecError(
            [f"session '{found}' continues with the command that started its agent: {command}"]
        )
    own = prepared or await _recorded_agent(hub, origin, server, at, max_cost)
    agent = await own.agent()
    required = await asyncio.to_thread(server.required)
    config = replace(own.config(operator), nets=nets, reason=reason, required=required)
    if prepared is None:
        config = replace(config, mode=None, active=None)
    if at is None:
        live = await hub.resume_session(found, agent, config, must_go_on=must_go_on)
    else:
        live = await hub.branch_session(found, at, agent, config)
    note(live, own)
    if task is not None:
        # Requests that are asked again must not be withdrawn by the next task.
        busy = (await hub.session(live)).phase == "running"
        await hub.send(live, task, by=operator, mode="queue" if busy else "steer")
    return live


async def _recorded_agent(
    hub: Hub, origin: Origin, server: ServerRules, at: int | None, max_cost: float | None
) -> Prepared:
    """Return a recorded session's agent as its record states, with `max_cost` or the limit as raised."""
    spec = _recorded_spec(origin.session, origin.source)
    if max_cost is None and spec.limits.max_cost is not None:
        max_cost = await asyncio.to_thread(_raised_limit, await hub.recorded(origin.session), at)
    if max_cost is not None:
        spec = spec.model_copy(update={"limits": spec.limits.model_copy(update={"max_cost": max_cost})})
    return await asyncio.to_thread(server.agent, spec)


def _raised_limit(events: Sequence[JournalEvent], at: int | None) -> float | None:
    """Return the limit to which a session's was raised, by event `at`, since it was last resumed."""
    raised: float | None = None
    for event in events.unmasked if isinstance(events, MaskedEvents) else events:
        if at is not None and event.seq > at:
            break
        match event.body:
            case LimitRaised(max_cost=max_cost):
                raised = max_cost
            case SessionResumed():
                raised = None
            case _:
                pass
    return raised


def _recorded_spec(session_id: str, source: object) -> AgentSpec:
    if source is None:
        raise AgentSpecError(
            [
                f"session '{session_id}' was not started by `interlock run` or the console's form, so "
                "its agent cannot be built again here; its program can use Hub.resume_session, and an "
                "external agent reconnects by itself"
            ]
        )
    try:
        return AgentSpec.model_validate(source)
    except ValidationError as error:
        text = f"this version cannot read how session '{session_id}' was started"
        raise AgentSpecError([f"{text}: {error.errors()[0]['msg']}"]) from error


# Starting of a console's sessions: on the hub of this process, or on the server that it shows.
#
# Files and modules are those of the machine on which the agent will run, so a form is evaluated there.


PreparedStart: TypeAlias = Callable[[], Awaitable[str]]
"""Returns the id of the running session."""


class SessionStarter(Protocol):
    """Starts agents for an operator."""

    @property
    def server(self) -> str:
        """Return the server on which they run; empty if they run here."""
        ...

    async def check(self, form: StartForm) -> PreparedStart:
        """Check a form, and return the function that starts its session.

        Raises `AgentSpecError` with every problem that can be detected.
        """
        ...

    async def resume(self, session_id: str, *, at: int | None = None) -> str:
        """Resume a recorded session, or branch it at its event number `at`; return the session's id."""
        ...


class LocalStarter:
    """Starter on a hub of this process."""

    server = ""

    def __init__(self, hub: Hub, operator: str) -> None:
        self._hub = hub
        self._operator = operator

    async def check(self, form: StartForm) -> PreparedStart:
        prepared = await asyncio.to_thread(lambda: prepare(form.spec()))
        return lambda: start(self._hub, prepared, self._operator)

    async def resume(self, session_id: str, *, at: int | None = None) -> str:
        return await resume_or_branch(self._hub, session_id, self._operator, at=at)


class RemoteStarter:
    """Starter on a server. A form's problems are found only by starting it, so the check does that."""

    def __init__(self, hub: AgentStarter, server: str, operator: str) -> None:
        self._hub = hub
        self._operator = operator
        self.server = server

    async def check(self, form: StartForm) -> PreparedStart:
        from ...engine.gateway.client.connection import GatewayError

        try:
            session = await self._hub.start({"form": asdict(form)}, by=self._operator)
        except (GatewayError, ValueError) as error:
            raise AgentSpecError(str(error).splitlines()) from error

        async def running_session() -> str:
            return session

        return running_session

    async def resume(self, session_id: str, *, at: int | None = None) -> str:
        return await self._hub.resume(session_id, by=self._operator, at=at)


def starter_of(hub: HubApi, operator: str) -> SessionStarter:
    """Return the starter for `hub`."""
    if isinstance(hub, AgentStarter):
        return RemoteStarter(hub, hub.server, operator)
    return LocalStarter(cast("Hub", hub), operator)
