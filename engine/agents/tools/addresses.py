"""Keeping `web_fetch` away from this machine, its network and the cloud's metadata service."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from typing import TypeAlias

from ..errors import ToolError

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

# A cloud's own services at an address that counts as public.
_METADATA = frozenset({ipaddress.ip_address("168.63.129.16")})
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


async def private_addresses_refused(url: str) -> None:
    """A `check_url` for `create_web_fetch_tool`.

    Raises `ToolError` when the URL's host is, or has among its addresses, one that is not on the public
    internet: loopback, private, link-local (where clouds keep their metadata service), shared, multicast
    or reserved, also when it is wrapped in an IPv6 address. A name is resolved here and once more for the
    request: a server of names that answers differently the second time is a matter for a firewall.
    """
    import httpx

    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ToolError(f"Invalid URL {url!r}: {error}") from error
    host = parsed.host
    try:
        answers = await asyncio.get_running_loop().getaddrinfo(
            host, parsed.port or 80, type=socket.SOCK_STREAM
        )
    except (OSError, UnicodeError) as error:
        raise ToolError(f"Cannot resolve the host '{host}': {error}") from error
    for answer in answers:
        address = ipaddress.ip_address(str(answer[4][0]).partition("%")[0])
        if not is_public(address):
            raise ToolError(
                f"'{host}' is {address}, which is not on the public internet; "
                "only public addresses may be fetched"
            )


def is_public(address: Address) -> bool:
    """Whether an address is on the public internet, and so is every one that is wrapped in it."""
    if isinstance(address, ipaddress.IPv6Address):
        teredo = address.teredo
        wrapped = [address.ipv4_mapped, address.sixtofour, *(teredo or ())]
        if address in _NAT64:
            wrapped.append(ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF))
        inner = [each for each in wrapped if each is not None]
        if inner:
            return all(is_public(each) for each in inner)
    return address.is_global and not address.is_multicast and address not in _METADATA
