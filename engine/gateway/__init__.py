"""Server for external agents and remote consoles, and client libraries.

Names are imported on first use, so that a hook's command loads only what it needs.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .client.agent import AgentClient, AgentSession, Blocked
    from .client.connection import GatewayError, NotAdmittedError, RequestFailedError, UnreachableError
    from .protocol.address import Address, server_url
    from .protocol.agent_methods import CallAnswer
    from .protocol.tokens import TokenError, TokenFile
    from .server.limits import Limits
    from .server.rule_sets import RuleSets
    from .server.server import Gateway

_HOMES = {
    "Address": "protocol.address",
    "AgentClient": "client.agent",
    "AgentSession": "client.agent",
    "Blocked": "client.agent",
    "CallAnswer": "protocol.agent_methods",
    "Gateway": "server.server",
    "GatewayError": "client.connection",
    "Limits": "server.limits",
    "NotAdmittedError": "client.connection",
    "RequestFailedError": "client.connection",
    "RuleSets": "server.rule_sets",
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
    "CallAnswer",
    "Gateway",
    "GatewayError",
    "Limits",
    "NotAdmittedError",
    "RequestFailedError",
    "RuleSets",
    "TokenError",
    "TokenFile",
    "UnreachableError",
    "server_url",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{home}", __name__), name)
