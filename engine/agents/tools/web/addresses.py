"""Addresses of the public internet, as opposed to this machine, its network and clouds' services."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

from ...errors import ToolError

IpAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

# Addresses that some versions of Python consider public: clouds' own services, including the metadata
# service of one of them, and the IETF's own addresses.
_METADATA = frozenset({ipaddress.ip_address("168.63.129.16")})
_PROTOCOLS = ipaddress.ip_network("192.0.0.0/24")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")

# A name that does not resolve blocks its thread for a long time, so these threads are not shared.
_lookups = ThreadPoolExecutor(8, "lookup")


async def public_addresses(host: str, port: int) -> list[IpAddress]:
    """Return the addresses of `host`, in the order in which to try them.

    Raises `ToolError` if there is none, or if one of them is not on the public internet: loopback,
    private, link-local (where clouds have their metadata service), shared, multicast or reserved, also if
    it is wrapped in an IPv6 address.
    """
    try:
        answers = await asyncio.get_running_loop().run_in_executor(_lookups, _look_up, host, port)
    except (OSError, UnicodeError) as error:
        raise ToolError(f"Cannot resolve the host '{host}': {error}") from error
    addresses = [ipaddress.ip_address(str(answer[4][0]).partition("%")[0]) for answer in answers]
    for address in addresses:
        if not is_public(address):
            raise ToolError(
                f"'{host}' is {address}, which is not on the public internet; only public addresses may "
                "be fetched, unless the agent file says web_fetch = { private = true }"
            )
    return list(dict.fromkeys(addresses))


def _look_up(host: str, port: int) -> list[tuple[object, object, object, str, tuple[object, ...]]]:
    return [*socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


def is_public(address: IpAddress) -> bool:
    """Return whether an address, and every address wrapped in it, is on the public internet."""
    if isinstance(address, ipaddress.IPv6Address):
        teredo = address.teredo
        inner_addresses = [address.ipv4_mapped, address.sixtofour, *(teredo or ())]
        if address in _NAT64:
            inner_addresses.append(ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF))
        inner = [each for each in inner_addresses if each is not None]
        if inner:
            return all(is_public(each) for each in inner)
        if address not in _GLOBAL_UNICAST:
            return False
    if address in _METADATA or address in _PROTOCOLS:
        return False
    return address.is_global and not address.is_multicast
