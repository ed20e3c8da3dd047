"""Server for external agents and remote consoles, and client libraries.

Names are imported on first use, so that a hook's command loads only what it needs.
"""

from typing import TYPE_CHECKING

from ..core.lazy_names import import_name

if TYPE_CHECKING:
    from ..gate.types import Blocked, BlockedCallError
    from ..sessions.call_answer import CallAnswer
    from .client.agent import AgentClient, AgentSession
    from .client.connection import GatewayError, NotAdmittedError, RequestFailedError, UnreachableError
    from .client.console import ConsoleClient
    from .client.sync import SyncAgentClient, SyncAgentSession
    from .protocol.address import Address, server_url
    from .protocol.tokens import TokenError, TokenFile
    from .server.limits import Limits
    from .server.rule_sets import RuleSets
    from .server.server import Gateway

_HOMES = {
    "Address": "protocol.address",
    "AgentClient": "client.agent",
    "AgentSession": "client.agent",
    "Blocked": "..gate.types",
    "BlockedCallError": "..gate.types",
    "CallAnswer": "..sessions.call_answer",
    "ConsoleClient": "client.console",
    "Gateway": "server.server",
    "GatewayError": "client.connection",
    "Limits": "server.limits",
    "NotAdmittedError": "client.connection",
    "RequestFailedError": "client.connection",
    "RuleSets": "server.rule_sets",
    "SyncAgentClient": "client.sync",
    "SyncAgentSession": "client.sync",
    "TokenError": "protocol.tokens",
    "TokenFile": "protocol.tokens",
    "UnreachableError": "client.connection",
    "server_url": "protocol.address",
}

__all__ = [
    "Address",
    "AgentClient",
    "AgentSession",
    "Blocked",
    "BlockedCallError",
    "CallAnswer",
    "ConsoleClient",
    "Gateway",
    "GatewayError",
    "Limits",
    "NotAdmittedError",
    "RequestFailedError",
    "RuleSets",
    "SyncAgentClient",
    "SyncAgentSession",
    "TokenError",
    "TokenFile",
    "UnreachableError",
    "server_url",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_name(__name__, name, home if home.startswith("..") else f".{home}")


def __dir__() -> list[str]:
    return sorted(__all__)
