"""Where a console's sessions are started: by the hub of this process, or on the server it shows.

Files and modules are those of wherever the agent will run, so a form is read there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Protocol, TypeAlias, cast, runtime_checkable

from pydantic import JsonValue

from ..engine.hub import Hub, Nets
from .agent_spec import AgentSpecError
from .door import Door
from .starting import StartForm, go_on, prepare_form, start

Begin: TypeAlias = Callable[[], Awaitable[str]]
"""Gives the id of the session that runs now."""


class Starts(Protocol):
    """Starts agents for an operator."""

    @property
    def elsewhere(self) -> str:
        """The server on which they run; empty where that is here."""
        ...

    async def check(self, form: StartForm) -> Begin:
        """What begins the session of a form that can be started.

        Raises `AgentSpecError` with everything that can be seen.
        """
        ...

    async def go_on(self, session_id: str, *, at: int | None = None) -> str:
        """Go on with a recorded session, or from its event number `at` in a new one; its id."""
        ...


class StartsHere:
    """On a hub of this process."""

    elsewhere = ""

    def __init__(self, hub: Hub, operator: str) -> None:
        self._hub = hub
        self._operator = operator

    async def check(self, form: StartForm) -> Begin:
        prepared = await prepare_form(form)
        return lambda: start(self._hub, prepared, self._operator)

    async def go_on(self, session_id: str, *, at: int | None = None) -> str:
        return await go_on(self._hub, session_id, self._operator, at=at)


@runtime_checkable
class StartsAgents(Protocol):
    """A hub elsewhere, which starts agents itself from what is said of them."""

    async def start(self, spec: dict[str, JsonValue]) -> str: ...

    async def go_on(
        self,
        session_id: str,
        *,
        at: int | None = None,
        nets: Nets = "recorded",
        task: str | None = None,
        max_cost: float | None = None,
        reason: str | None = None,
    ) -> str: ...


class StartsThere:
    """On a server: what is wrong with a form is only found by starting, so the check does that."""

    def __init__(self, hub: StartsAgents, place: str) -> None:
        self._hub = hub
        self.elsewhere = place

    async def check(self, form: StartForm) -> Begin:
        from ..engine.gateway.link import GatewayError

        try:
            session = await self._hub.start({"form": asdict(form)})
        except (GatewayError, ValueError) as error:
            raise AgentSpecError(str(error).splitlines()) from error

        async def begun() -> str:
            return session

        return begun

    async def go_on(self, session_id: str, *, at: int | None = None) -> str:
        return await self._hub.go_on(session_id, at=at)


def starts_at(hub: Door, operator: str) -> Starts:
    """The way to start agents that `hub` offers."""
    if isinstance(hub, StartsAgents):
        return StartsThere(hub, hub.place)
    return StartsHere(cast("Hub", hub), operator)
