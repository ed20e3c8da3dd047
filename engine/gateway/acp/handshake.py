"""Handshake with an ACP agent: agree on a version, log in where required, open a session.

A recorded session is continued in the agent as well where it supports that: `session/resume`, else
`session/load`, which repeats the whole conversation.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final, TypeAlias

from acp.connection import Connection
from acp.exceptions import RequestError
from acp.meta import AGENT_METHODS, PROTOCOL_VERSION
from acp.schema import (
    AuthMethodAgent,
    EnvVarAuthMethod,
    InitializeResponse,
    NewSessionResponse,
    TerminalAuthMethod,
)
from pydantic import ValidationError

from ...agents import AgentError
from .process import AgentProcess, Message

# Login instructions for an ACP agent that requires a login, from the ways it offers.


Method: TypeAlias = EnvVarAuthMethod | TerminalAuthMethod | AuthMethodAgent

LONGEST = 300
"""Characters of what an agent says of one way."""


def how_to_log_in(methods: Sequence[Method], command: Sequence[str]) -> str:
    """A sentence for each way to log in; without any, a reference to the agent's own program."""
    wanted = "The agent wants to be logged in first"
    if not methods:
        return f"{wanted}. Start its own program and log in there, then start this again"
    return f"{wanted}. It offers:\n" + "\n".join(f"- {_way(each, command)}" for each in methods)


def _way(method: Method, command: Sequence[str]) -> str:
    said = f"{method.name}: {method.description}" if method.description else method.name
    said = " ".join(said.split())[:LONGEST].rstrip(".")
    match method:
        case EnvVarAuthMethod(vars=variables, link=link):
            names = " and ".join(each.name for each in variables)
            where = f" (from {link})" if link else ""
            return (
                f"{said}. Set {names or 'what it needs'} in the environment{where}, then start this again"
            )
        case TerminalAuthMethod(args=arguments, env=environment):
            settings = [f"{name}={shlex.quote(value)}" for name, value in (environment or {}).items()]
            line = " ".join([*settings, shlex.join([*command, *(arguments or ())])])
            return f"{said}. Run in a terminal: {line}"
        case _:
            return f"{said}. Start its own program and log in there, then start this again"


STARTING: Final = 120.0
"""Seconds in which an agent has to be ready; some are downloaded first."""
AUTH_REQUIRED: Final = -32000


class AcpError(AgentError):
    """An agent could not be started; the message contains what it said."""


@dataclass(frozen=True, slots=True)
class Met:
    """An agent's name, and its own id of the session."""

    name: str
    session: str


async def shake_hands(
    connection: Connection,
    process: AgentProcess,
    command: Sequence[str],
    directory: Path,
    earlier: str | None = None,
) -> Met:
    """Agree on the protocol and begin a session, or continue the `earlier` one. Raises `AcpError`."""
    hands = _Hands(connection, command, directory, earlier)
    try:
        async with asyncio.timeout(STARTING):
            return await hands.shake()
    except RequestError as error:
        raise AcpError(hands.refusal(error)) from error
    except ConnectionError as error:
        await process.ended()
        raise AcpError(f"Before it was ready, {process.last_words}") from error
    except ValidationError as error:
        raise AcpError(
            f"The agent's answer is none of the Agent Client Protocol: {error.errors()[0]['msg']}"
        ) from error
    except TimeoutError as error:
        raise AcpError(
            f"The agent was not ready after {STARTING:.0f} s. Does '{command[0]}' speak the "
            "Agent Client Protocol, or does it need an option for that?"
        ) from error


class _Hands:
    def __init__(
        self, connection: Connection, command: Sequence[str], directory: Path, earlier: str | None
    ) -> None:
        self._connection = connection
        self._command = command
        self._directory = directory
        self._earlier = earlier
        self._met: InitializeResponse | None = None

    async def shake(self) -> Met:
        """Perform the handshake. Raises `AcpError`, and what the connection raises."""
        about: Message = {"name": "interlock", "title": "Interlock", "version": version("interlock")}
        files: Message = {"readTextFile": False, "writeTextFile": False}
        hello: Message = {
            "protocolVersion": PROTOCOL_VERSION,
            "clientCapabilities": {"fs": files, "terminal": False},
            "clientInfo": about,
        }
        said = await self._connection.send_request(AGENT_METHODS["initialize"], hello)
        met = self._met = InitializeResponse.model_validate(said)
        if met.protocol_version != PROTOCOL_VERSION:
            raise AcpError(
                f"The agent speaks version {met.protocol_version} of the Agent Client Protocol; "
                f"Interlock speaks version {PROTOCOL_VERSION}"
            )
        try:
            session = await self._begin(met)
        except RequestError as error:
            if error.code != AUTH_REQUIRED or not await self._logs_in(met):
                raise
            session = await self._begin(met)
        # Some are called by their package, whose scope says nothing and makes a path of a session's id.
        called = met.agent_info.name.rpartition("/")[2] if met.agent_info is not None else ""
        name = called.strip()[:90]
        return Met(name or Path(self._command[0]).name, session)

    async def _begin(self, met: InitializeResponse) -> str:
        about: Message = {"cwd": str(self._directory), "mcpServers": []}
        if self._earlier is None:
            said = await self._connection.send_request(AGENT_METHODS["session_new"], about)
            return NewSessionResponse.model_validate(said).session_id
        await self._connection.send_request(_going_on(met), about | {"sessionId": self._earlier})
        return self._earlier

    async def _logs_in(self, met: InitializeResponse) -> bool:
        """Make the agent log in by itself; false unless it has exactly one way that needs no input."""
        match met.auth_methods:
            case [AuthMethodAgent(id=method)]:
                await self._connection.send_request(AGENT_METHODS["authenticate"], {"methodId": method})
                return True
            case _:
                return False

    def refusal(self, error: RequestError) -> str:
        """Explain an error of the agent, with its remedy."""
        if error.code == AUTH_REQUIRED:
            return how_to_log_in(
                (self._met.auth_methods if self._met is not None else None) or (), self._command
            )
        return f"The agent refused: {error} ({error.code})"


def _going_on(met: InitializeResponse) -> str:
    """The method by which the agent continues a session. Raises `AcpError` where it has none."""
    able = met.agent_capabilities
    if able is not None and able.session_capabilities is not None and able.session_capabilities.resume:
        return AGENT_METHODS["session_resume"]
    if able is not None and able.load_session:
        return AGENT_METHODS["session_load"]
    raise AcpError(
        "This agent cannot go on with its sessions: it offers neither session/resume nor session/load. "
        "Start it without --resume"
    )
