"""Handshake with an ACP agent: agree on a version, log in where required, open a session.

A recorded session is continued in the agent as well, if the agent supports it: by `session/resume`, or
else by `session/load`, which repeats the whole conversation.
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

LoginMethod: TypeAlias = EnvVarAuthMethod | TerminalAuthMethod | AuthMethodAgent

LONGEST = 300
"""Maximum number of characters of an agent's description of a login method."""


def login_instructions(methods: Sequence[LoginMethod], command: Sequence[str]) -> str:
    """Return a sentence for each login method; without any, a reference to the agent's own program."""
    heading = "The agent requires a login first"
    if not methods:
        return f"{heading}. Start its own program and log in there, then start this again"
    return f"{heading}. It offers:\n" + "\n".join(
        f"- {_login_instruction(each, command)}" for each in methods
    )


def _login_instruction(method: LoginMethod, command: Sequence[str]) -> str:
    text = f"{method.name}: {method.description}" if method.description else method.name
    text = " ".join(text.split())[:LONGEST].rstrip(".")
    match method:
        case EnvVarAuthMethod(vars=variables, link=link):
            names = " and ".join(each.name for each in variables)
            source = f" (from {link})" if link else ""
            names = names or "what it needs"
            return f"{text}. Set {names} in the environment{source}, then start this again"
        case TerminalAuthMethod(args=arguments, env=environment):
            settings = [f"{name}={shlex.quote(value)}" for name, value in (environment or {}).items()]
            line = " ".join([*settings, shlex.join([*command, *(arguments or ())])])
            return f"{text}. Run in a terminal: {line}"
        case _:
            return f"{text}. Start its own program and log in there, then start this again"


STARTING: Final = 120.0
"""Seconds in which an agent must be ready; some are downloaded first."""
AUTH_REQUIRED: Final = -32000


class AcpError(AgentError):
    """An agent could not be started; the message contains the agent's output."""


@dataclass(frozen=True, slots=True)
class AcpSession:
    """An agent's name, and its own id of the session."""

    name: str
    session: str


async def shake_hands(
    connection: Connection,
    process: AgentProcess,
    command: Sequence[str],
    directory: Path,
    earlier: str | None = None,
) -> AcpSession:
    """Agree on the protocol and start a session, or continue the `earlier` one. Raises `AcpError`."""
    handshake = _Handshake(connection, command, directory, earlier)
    try:
        async with asyncio.timeout(STARTING):
            return await handshake.run()
    except RequestError as error:
        raise AcpError(handshake.refusal(error)) from error
    except ConnectionError as error:
        await process.wait_ended()
        raise AcpError(f"Before it was ready, {process.last_words}") from error
    except ValidationError as error:
        raise AcpError(
            f"The agent's answer does not follow the Agent Client Protocol: {error.errors()[0]['msg']}"
        ) from error
    except TimeoutError as error:
        raise AcpError(
            f"The agent was not ready after {STARTING:.0f} s. Does '{command[0]}' speak the "
            "Agent Client Protocol, or does it need an option for that?"
        ) from error


class _Handshake:
    def __init__(
        self, connection: Connection, command: Sequence[str], directory: Path, earlier: str | None
    ) -> None:
        self._connection = connection
        self._command = command
        self._directory = directory
        self._earlier = earlier
        self._welcome: InitializeResponse | None = None

    async def run(self) -> AcpSession:
        """Perform the handshake. Raises `AcpError` and the errors of the connection."""
        client: Message = {"name": "interlock", "title": "Interlock", "version": version("interlock")}
        files: Message = {"readTextFile": False, "writeTextFile": False}
        hello: Message = {
            "protocolVersion": PROTOCOL_VERSION,
            "clientCapabilities": {"fs": files, "terminal": False},
            "clientInfo": client,
        }
        answer = await self._connection.send_request(AGENT_METHODS["initialize"], hello)
        welcome = self._welcome = InitializeResponse.model_validate(answer)
        if welcome.protocol_version != PROTOCOL_VERSION:
            raise AcpError(
                f"The agent speaks version {welcome.protocol_version} of the Agent Client Protocol; "
                f"Interlock speaks version {PROTOCOL_VERSION}"
            )
        try:
            session = await self._begin(welcome)
        except RequestError as error:
            if error.code != AUTH_REQUIRED or not await self._authenticate(welcome):
                raise
            session = await self._begin(welcome)
        # Some agents use their package's name, whose scope is not informative and puts a slash into
        # session ids.
        agent_name = welcome.agent_info.name.rpartition("/")[2] if welcome.agent_info is not None else ""
        name = agent_name.strip()[:90]
        return AcpSession(name or Path(self._command[0]).name, session)

    async def _begin(self, welcome: InitializeResponse) -> str:
        params: Message = {"cwd": str(self._directory), "mcpServers": []}
        if self._earlier is None:
            answer = await self._connection.send_request(AGENT_METHODS["session_new"], params)
            return NewSessionResponse.model_validate(answer).session_id
        await self._connection.send_request(
            _continue_method(welcome), params | {"sessionId": self._earlier}
        )
        return self._earlier

    async def _authenticate(self, welcome: InitializeResponse) -> bool:
        """Make the agent log in by itself; false unless it has exactly one method without input."""
        match welcome.auth_methods:
            case [AuthMethodAgent(id=method)]:
                await self._connection.send_request(AGENT_METHODS["authenticate"], {"methodId": method})
                return True
            case _:
                return False

    def refusal(self, error: RequestError) -> str:
        """Explain an error of the agent, with the remedy."""
        if error.code == AUTH_REQUIRED:
            return login_instructions(
                (self._welcome.auth_methods if self._welcome is not None else None) or (),
                self._command,
            )
        return f"The agent refused: {error} ({error.code})"


def _continue_method(welcome: InitializeResponse) -> str:
    """Return the method by which the agent continues a session. Raises `AcpError` if it has none."""
    capabilities = welcome.agent_capabilities
    if (
        capabilities is not None
        and capabilities.session_capabilities is not None
        and capabilities.session_capabilities.resume
    ):
        return AGENT_METHODS["session_resume"]
    if capabilities is not None and capabilities.load_session:
        return AGENT_METHODS["session_load"]
    raise AcpError(
        "This agent cannot continue its sessions: it offers neither session/resume nor session/load. "
        "Start it without --resume"
    )
