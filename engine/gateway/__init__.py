"""Agents and consoles from elsewhere: the server, and the clients of programs.

Names are imported when they are first used: a hook's command waits for none of the others.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .address import Address, server_url
    from .agent_client import AgentClient, AgentSession, Blocked
    from .agent_methods import CallAnswer
    from .limits import Limits
    from .link import GatewayError, NotAdmittedError, RequestFailedError, UnreachableError
    from .rule_sets import RuleSets
    from .server import Gateway
    from .tokens import TokenError, TokenFile

_HOMES = {
    "Address": "address",
    "AgentClient": "agent_client",
    "AgentSession": "agent_client",
    "Blocked": "agent_client",
    "CallAnswer": "agent_methods",
    "Gateway": "server",
    "GatewayError": "link",
    "Limits": "limits",
    "NotAdmittedError": "link",
    "RequestFailedError": "link",
    "RuleSets": "rule_sets",
    "TokenError": "tokens",
    "TokenFile": "tokens",
    "UnreachableError": "link",
    "server_url": "address",
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
